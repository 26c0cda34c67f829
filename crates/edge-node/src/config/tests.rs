use super::*;
use std::os::unix::fs::PermissionsExt;

const GOOD: &str = r#"id = 1
data = "data"
cores = 1

[world]
name = "dev"

[[world.members]]
id = 1
address = "127.0.0.1:7601"

[[world.members]]
id = 2
address = "127.0.0.1:7602"

[region]
name = "fr-par"

[location]
az = "1"
rack = "r1"
chassis = "c1"

[http]
listen = "127.0.0.1:7101"

[peer]
listen = "127.0.0.1:7601"

[certificates]
authority = "ca.pem"
certificate = "node.pem"
key = "node.key"
"#;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        home.write("node.key", "x");
        home.mode("node.key", 0o600);
        home
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn mode(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.0.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn load(&self, text: &str) -> Result<Config, ConfigError> {
        self.write("node.toml", text);
        Config::load(&self.0.path().join("node.toml"))
    }

    /// The error's text, the directory's own name replaced.
    fn error(&self, text: &str) -> String {
        let error = self.load(text).expect_err("must be refused").to_string();
        error.replace(&self.0.path().display().to_string(), "~")
    }
}

#[test]
fn renamed_key_is_refused_with_its_new_name() {
    let home = Home::new();
    for (old, new) in RENAMED {
        let text = match old.split_once('.') {
            Some((section, key)) => format!("{GOOD}\n[{section}]\n{key} = 5000\n"),
            None => GOOD.replace(&format!("[{new}]"), &format!("[{old}]")),
        };
        let wanted = format!("~/node.toml: {old} was renamed to {new}; write {new} in its place");
        assert_eq!(home.error(&text), wanted);
        // The new name is one that a file may hold.
        let text = match new.split_once('.') {
            Some((section, key)) => {
                format!("{GOOD}\n[{section}]\n{key} = {}\n", if key.ends_with("percent") { 50 } else { 5_000 })
            }
            None => GOOD.to_owned(),
        };
        home.load(&text).unwrap_or_else(|error| panic!("{new}: {error}"));
    }
}

#[test]
fn a_good_file_is_taken_and_written_back() {
    let home = Home::new();
    let config = home.load(GOOD).unwrap();
    assert_eq!((config.node, config.world.as_str(), config.lanes), (NodeId(1), "dev", 1));
    assert_eq!(config.peer_advertise, "127.0.0.1:7601");
    assert_eq!(config.data, home.0.path().join("data"));
    assert_eq!(config.labels.region, "fr-par");
    let file = NodeFile::parse("node.toml", GOOD).unwrap();
    let again = home.load(&file.to_toml().unwrap()).unwrap();
    assert_eq!(format!("{config:?}"), format!("{again:?}"));
}

#[test]
fn each_mistake_is_named_with_line_and_remedy() {
    let home = Home::new();
    let cases: &[(&str, &str, &str)] = &[
        ("name = \"dev\"", "name = \"Dev!\"", "~/node.toml: line 6: world.name is \"Dev!\"; use 1 to 63 lower-case letters, digits and hyphens, no hyphen at either end"),
        ("id = 2", "id = 1", "~/node.toml: line 12: node id 1 is used twice in world.members; give every node an id of its own"),
        ("id = 2", "id = 0", "~/node.toml: line 12: member of [world] has id 0; give an id of at least 1"),
        ("7602\"", "nine\"", "~/node.toml: line 12: node 2 in world.members has the address \"127.0.0.1:nine\"; write host:port with a port from 1 to 65535"),
        ("7602\"", "7601\"", "~/node.toml: line 12: nodes 1 and 2 in world.members have the same address 127.0.0.1:7601; give every node a peer address of its own"),
        ("id = 1\ndata", "id = 3\ndata", "~/node.toml: line 10: world.members lists this node's address 127.0.0.1:7601 as node 1, but id is 3; correct id, or the member's address"),
        ("listen = \"127.0.0.1:7601\"", "listen = \"127.0.0.1:7609\"", "~/node.toml: line 10: world.members lists this node 1 at 127.0.0.1:7601, but it advertises 127.0.0.1:7609; make peer.advertise (or peer.listen) and the member's address equal"),
        ("listen = \"127.0.0.1:7101\"", "listen = \"localhost\"", "~/node.toml: line 25: http.listen is \"localhost\"; write ip:port, for example 127.0.0.1:7101 or [::]:7101"),
        ("listen = \"127.0.0.1:7101\"", "listen = \"0.0.0.0:7101\"", "~/node.toml: http.listen is 0.0.0.0:7101, which nobody else can connect to, and http.advertise is absent; set advertise to the host:port other nodes and clients reach this node at"),
        ("cores = 1", "cores = 0", "~/node.toml: line 3: cores is 0; use 1 to 256, or leave it out for all cores"),
        ("cores = 1", "cores = 1\nfirst_core = 4096", "~/node.toml: line 4: first_core is 4096, and this machine has <cores> cores; 1 core threads need as many cores from first_core on: lower it or `cores`, or leave it out"),
        ("az = \"1\"", "az = \"\"", "~/node.toml: line 20: location.az is \"\"; use 1 to 63 letters, digits, hyphens, underscores and dots"),
        ("[region]", "[engine]\ndefault = \"btrieve\"\n[region]", "~/node.toml: line 17: engine.default is \"btrieve\"; use one of <engines>"),
        ("[region]", "[limits]\nbody_bytes_max = 1\n[region]", "~/node.toml: line 17: body_bytes_max is 1; use 1024 to 67108864"),
        ("[region]", "[tuning]\nlog_segment_bytes = 8388609\n[region]", "~/node.toml: line 17: log_segment_bytes is 8388609; use a multiple of 4096"),
        ("[region]", "[tuning]\nlog_segment_bytes = 2147483648\n[region]", "~/node.toml: line 17: log_segment_bytes is 2147483648; use 8388608 to 1073741824"),
    ];
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let cores = std::thread::available_parallelism().unwrap().to_string();
        let expected = expected.replace("<engines>", &crate::engines::NAMES.join(", ")).replace("<cores>", &cores);
        assert_eq!(home.error(&GOOD.replacen(from, to, 1)), expected);
    }
}

#[test]
fn syntax_and_unknown_keys_come_with_their_place() {
    let home = Home::new();
    let unknown = home.error(&GOOD.replacen("cores = 1", "corse = 1", 1));
    assert!(unknown.contains("line 3") && unknown.contains("corse"), "{unknown}");
    let nested = home.error(&GOOD.replacen("rack = \"r1\"", "rack = \"r1\"\nshelf = \"s\"", 1));
    assert!(nested.contains("line 22") && nested.contains("shelf"), "{nested}");
    assert!(home.error("id = \n").contains("line 1"));
    assert!(home.error(&GOOD.replacen("id = 1", "id = -1", 1)).contains("line 1"));
    let missing = home.error(&GOOD.replacen("[peer]\nlisten = \"127.0.0.1:7601\"\n", "", 1));
    assert!(missing.contains("peer"), "{missing}");
}

#[test]
fn the_gateway_is_checked_too() {
    let home = Home::new();
    let with = |text: &str| format!("{GOOD}[s3]\nlisten = \"127.0.0.1:7401\"\ndata = \"s3-data\"\n{text}");
    let s3 = home.load(&with("")).unwrap().s3.unwrap();
    assert_eq!((s3.region.as_str(), s3.threads), ("fr-par", 1));
    assert!(matches!(s3.data, S3Data::Directory(path) if path == home.0.path().join("s3-data")));
    assert!(!s3.older_bucket_defaults);
    assert!(home.load(&with("older_bucket_defaults = true")).unwrap().s3.unwrap().older_bucket_defaults);
    assert!(home.load(GOOD).unwrap().s3.is_none());
    let sites = home.load(&with("domains = [\"a.b\"]\nwebsite_domains = [\"site.a.b\"]")).unwrap().s3.unwrap();
    assert_eq!(sites.website_domains, ["site.a.b"]);
    assert!(home.load(&with("domains = [\"a.b\"]\nwebsite_domains = [\"a.b\"]")).is_err());
    // Else every request at s3.a.b would be a website's.
    assert!(home.load(&with("domains = [\"s3.a.b\"]\nwebsite_domains = [\"a.b\"]")).is_err());
    assert!(home.load(&with("domains = [\"s3a.b\"]\nwebsite_domains = [\"a.b\"]")).is_ok());
    let written = NodeFile::parse("node.toml", &with("domains = [\"s3.local:7401\"]\n")).unwrap().to_toml().unwrap();
    assert_eq!(home.load(&written).unwrap().s3.unwrap().domains, ["s3.local:7401"]);
    let cases = [
        ("threads = 0", "~/node.toml: line 37: s3.threads is 0; use 1 to 64, or leave it out"),
        ("region = \"Mars\"", "~/node.toml: line 37: s3.region is \"Mars\"; use 1 to 63 lower-case letters, digits and hyphens"),
        ("domains = [\".x\"]", "~/node.toml: line 37: s3.domains has \".x\"; write a domain in lower case as clients send it, with its port if it has one, for example s3.example.org"),
        ("data_options = { a = \"b\" }", "~/node.toml: s3.data_options are given, but s3.data is a directory; remove data_options"),
    ];
    for (text, expected) in cases {
        assert_eq!(home.error(&with(text)), expected);
    }
    let same = home.error(&with("").replace("7401", "7101"));
    assert!(same.contains("s3 and another door both listen on 127.0.0.1:7101"), "{same}");
    assert!(home.error(&with("bucket = 1")).contains("unknown field `bucket`"));
    assert!(home.error(&with("").replace("s3-data", "")).contains("s3.data is empty"));
}

#[test]
fn files_that_are_too_open_or_too_big_are_refused() {
    let home = Home::new();
    home.mode("node.key", 0o640);
    assert_eq!(
        home.error(GOOD),
        "~/node.toml: the key file ~/node.key has mode 0640: others than its owner can reach it; run `chmod 600 ~/node.key`"
    );
    home.mode("node.key", 0o600);
    std::fs::create_dir(home.0.path().join("data")).unwrap();
    home.mode("data", 0o770);
    assert_eq!(
        home.error(GOOD),
        "~/node.toml: the data directory ~/data has mode 0770: others than its owner can write to it; run `chmod go-w ~/data`"
    );
    home.mode("data", 0o700);
    home.load(GOOD).unwrap();
    let huge = format!("{GOOD}#{}", " ".repeat(CONFIG_BYTES_MAX as usize));
    assert!(home.error(&huge).contains("make it at most 1048576"));
    std::fs::write(home.0.path().join("node.toml"), [0xff, 0xfe]).unwrap();
    assert!(matches!(Config::load(&home.0.path().join("node.toml")), Err(ConfigError::Syntax { .. })));
    assert!(matches!(Config::load(Path::new("/dev/zero")), Err(ConfigError::Huge { .. })));
}

#[test]
fn door_beyond_loopback_is_refused_unless_insecure() {
    let home = Home::new();
    let s3 = |listen: &str| format!("{GOOD}[s3]\nlisten = \"{listen}\"\ndata = \"d\"\n");
    let http = |listen: &str| GOOD.replacen("127.0.0.1:7101", listen, 1);
    let remedy = "write [tls] with certificate and key (docs/guides/operations/tls.md) and [access] with required = true (docs/guides/access.md); or listen on 127.0.0.1 behind a proxy that has both; or, on a network where everybody may read and change everything, write insecure = true at the top of the file";
    assert_eq!(
        home.error(&http("10.0.0.5:7101")),
        format!("~/node.toml: line 25: http.listen is 10.0.0.5:7101, which other machines reach, and this door has neither TLS nor authentication; {remedy}")
    );
    let refused = home.error(&s3("[::]:7401"));
    assert!(
        refused.contains("s3.listen is [::]:7401, which other machines reach, and this door has no TLS"),
        "{refused}"
    );
    assert!(home.error(&s3("[::ffff:10.0.0.5]:7401")).contains("which other machines reach"));
    for door in ["etcd", "redis"] {
        let with = |listen: &str| format!("{GOOD}[{door}]\nlisten = \"{listen}\"\n");
        let refused = home.error(&with("0.0.0.0:7801"));
        let lacks = format!("{door}.listen is 0.0.0.0:7801, which other machines reach, and this door has neither TLS nor authentication");
        assert!(refused.contains(&lacks), "{refused}");
        home.load(&with("127.0.0.1:7801")).unwrap();
        assert!(home.load(&format!("insecure = true\n{}", with("0.0.0.0:7801"))).unwrap().insecure);
    }
    for text in [s3("127.0.0.9:7401"), s3("[::1]:7401"), http("[::1]:7101")] {
        home.load(&text).unwrap();
    }
    for text in [http("10.0.0.5:7101"), s3("[::]:7401")] {
        assert!(home.load(&format!("insecure = true\n{text}")).unwrap().insecure);
    }
    // TLS alone does not say who asks; S3 requests are signed.
    let tls = |more: &str| format!("[tls]\ncertificate = \"door.pem\"\nkey = \"door.key\"\n{more}");
    home.write("door.key", "x");
    home.mode("door.key", 0o600);
    let open = http("10.0.0.5:7101");
    let anybody = home.error(&format!("{open}{}", tls("client_authority = \"c.pem\"\n")));
    assert!(
        anybody
            .contains("http.listen is 10.0.0.5:7101, which other machines reach, and this door has no authentication"),
        "{anybody}"
    );
    home.load(&format!("{}{}", s3("[::]:7401"), tls(""))).unwrap();
    let required = tls("client_authority = \"c.pem\"\nclient_certificates = \"required\"\n");
    home.load(&format!("{open}{required}")).unwrap();
    // Peers show certificates.
    let peer = GOOD.replace("127.0.0.1:7601", "10.0.0.5:7601");
    home.load(&peer).unwrap();
}

#[test]
fn tls_of_client_doors_is_checked() {
    let home = Home::new();
    home.write("door.key", "x");
    home.mode("door.key", 0o600);
    let with = |more: &str| format!("{GOOD}[tls]\ncertificate = \"door.pem\"\nkey = \"door.key\"\n{more}");
    let tls = home.load(&with("")).unwrap().tls.unwrap();
    assert!(tls.key == home.0.path().join("door.key") && !tls.requires_certificates());
    let required = with("client_authority = \"c.pem\"\nclient_certificates = \"required\"\n");
    let tls = home.load(&required).unwrap().tls.unwrap();
    assert!(tls.requires_certificates() && tls.client_authority == Some(home.0.path().join("c.pem")));
    let written = NodeFile::parse("node.toml", &required).unwrap().to_toml().unwrap();
    assert_eq!(home.load(&written).unwrap().tls, Some(tls));
    let refused = home.error(&with("client_certificates = \"optional\"\n"));
    assert!(refused.starts_with("~/node.toml: line 37: tls.client_certificates is set"), "{refused}");
    assert!(home.error(&with("client_certificates = \"perhaps\"\n")).contains("line 37"));
    assert!(home.error(&with("").replace("door.key", "node.key")).contains("issue a certificate for client doors"));
    home.mode("door.key", 0o644);
    assert!(home.error(&with("")).contains("door.key has mode 0644"));
    assert!(home.error(&with("").replace("door.key", "none.key")).contains("tls.key ~/none.key"));
    let proxies = home.error(&GOOD.replacen("[peer]", "proxies = [\"10.0.0.0/40\"]\n\n[peer]", 1));
    assert!(proxies.contains("http.proxies has \"10.0.0.0/40\"; write a network or an address"), "{proxies}");
}

#[test]
fn file_with_secret_that_others_read_is_refused() {
    let home = Home::new();
    let secret = format!("{GOOD}[engine.object.options]\nsecret_access_key = \"s\"\n");
    home.load(GOOD).unwrap();
    home.mode("node.toml", 0o644);
    home.load(GOOD).unwrap();
    for mode in [0o644, 0o640, 0o604] {
        home.mode("node.toml", mode);
        let refused = home.error(&secret);
        let expected = format!("~/node.toml: the file has mode {mode:04o} and holds a secret, engine.object.options.secret_access_key: others than its owner can reach it; run `chmod 600 ~/node.toml`, or leave the secret to the environment");
        assert_eq!(refused, expected);
    }
    home.mode("node.toml", 0o600);
    home.load(&secret).unwrap();
    let open = format!("{GOOD}[engine.object.options]\naccess_key_id = \"s\"\nregion = \"r\"\n");
    home.mode("node.toml", 0o644);
    home.load(&open).unwrap();
}

#[test]
fn a_topology_of_the_second_paper_is_read() {
    let text = "Shard:\n  Name: shard1\n  Index: 1\n  Address: 127.0.0.3:8080\n  Replicas: [127.0.0.33:8080]\n---\nShard:\n  Name: shard0\n  Index: 0\n  Address: 127.0.0.2:8080\n  Replicas: [127.0.0.22:8080]\n";
    let shards = topology::parse("config.yaml", text).unwrap();
    assert_eq!(shards.len(), 2);
    assert_eq!((shards[0].name.as_str(), shards[0].replicas[0].as_str()), ("shard0", "127.0.0.22:8080"));
    let gap = topology::parse("config.yaml", &text.replacen("Index: 1", "Index: 2", 1)).unwrap_err().to_string();
    assert_eq!(gap, "config.yaml: shard \"shard1\" has index 2 where 1 is next; number the shards 0, 1, 2 … without a gap or a double");
    assert!(topology::parse("config.yaml", &text.replacen("Name", "Nmae", 1)).is_err());
    assert!(topology::parse("config.yaml", &text.replacen("shard1", "shard0", 1))
        .unwrap_err()
        .to_string()
        .contains("two shards are named"));
    assert!(topology::parse("config.yaml", "Shard: [").is_err());
}

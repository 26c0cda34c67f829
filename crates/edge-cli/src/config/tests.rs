use super::*;
use base_types::NodeId;
use edge_node::ca;
use std::net::TcpListener;
use std::path::PathBuf;

/// A folder with an authority of world `w1`, a certificate of node 1 and a node.toml of node 1 whose ports are free.
struct Home {
    folder: tempfile::TempDir,
    settings: Vec<(String, String)>,
}

impl Home {
    fn new() -> Home {
        let mut home = Home { folder: tempfile::tempdir().unwrap(), settings: Vec::new() };
        home.issue("ca", "w1", 1);
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let peer = free();
        home.set("http.listen", &free().to_string());
        home.set("peer.listen", &peer.to_string());
        home.set("world.members", &format!("[{{ id = 1, address = \"{peer}\" }}]"));
        home.use_certificates_of("ca");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn issue(&self, authority: &str, world: &str, node: u64) {
        ca::init(&self.path(authority), world).unwrap();
        ca::issue(&self.path(authority), NodeId(node), &["127.0.0.1".into()], 30).unwrap();
    }

    fn set(&mut self, key: &str, value: &str) {
        self.settings.retain(|(earlier, _)| earlier != key);
        self.settings.push((key.into(), value.into()));
    }

    fn use_certificates_of(&mut self, authority: &str) {
        self.set("certificates.authority", "ca/ca.pem");
        self.set("certificates.certificate", &format!("{authority}/node-1.pem"));
        self.set("certificates.key", &format!("{authority}/node-1.key"));
    }

    /// The file as `init` writes it, and then what is added to its end.
    fn write(&self, more: &str) -> PathBuf {
        let file = self.path("node.toml");
        std::fs::remove_file(&file).ok();
        run(ConfigCommand::Init { out: Some(file.clone()), set: self.settings.clone() }).unwrap();
        std::fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(more.as_bytes()).unwrap();
        file
    }

    fn refusal(&self, more: &str) -> String {
        let failure = check(&self.write(more), false).expect_err("must be refused");
        assert_eq!(failure.code, 2);
        failure.message
    }
}

#[test]
fn what_init_writes_passes_the_check() {
    check(&Home::new().write(""), false).unwrap();
}

#[test]
fn init_overwrites_nothing() {
    let home = Home::new();
    let file = home.path("mine.toml");
    std::fs::write(&file, "mine").unwrap();
    let refused = run(ConfigCommand::Init { out: Some(file.clone()), set: Vec::new() }).expect_err("it exists");
    assert!(refused.code == 1 && refused.message.contains("exists and stays as it is"), "{}", refused.message);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn check_names_what_is_wrong() {
    let mut home = Home::new();
    let unknown = home.refusal("s3_split_keyes = 5\n");
    let last = std::fs::read_to_string(home.path("node.toml")).unwrap().lines().count();
    assert!(
        unknown.contains(&format!("line {last}")) && unknown.contains("unknown field `s3_split_keyes`"),
        "{unknown}"
    );

    home.use_certificates_of("nowhere");
    let missing = home.refusal("");
    assert!(missing.contains("nowhere/node-1.key") && missing.contains("hive ca issue"), "{missing}");

    // Of another authority, though of the same world's name; and of another world.
    for world in ["w1", "w2"] {
        let authority = format!("foreign-{world}");
        home.issue(&authority, world, 1);
        home.use_certificates_of(&authority);
        let foreign = home.refusal("");
        assert!(foreign.contains(&authority) && foreign.contains("node-1.w1.hive"), "{foreign}");
    }
    // Of the right authority, but another node's.
    ca::issue(&home.path("ca"), NodeId(2), &[], 30).unwrap();
    home.use_certificates_of("ca");
    home.set("certificates.certificate", "ca/node-2.pem");
    home.set("certificates.key", "ca/node-2.key");
    let other = home.refusal("");
    assert!(other.contains("node-2.pem"), "{other}");
}

#[test]
fn world_of_two_is_warned_of() {
    let mut home = Home::new();
    let peer = home.settings.iter().find(|(key, _)| key == "peer.listen").unwrap().1.clone();
    home.set(
        "world.members",
        &format!("[{{ id = 1, address = \"{peer}\" }}, {{ id = 2, address = \"127.0.0.1:9\" }}]"),
    );
    let config = Config::load(&home.write("")).unwrap();
    let warnings = edge_node::check(&config).unwrap();
    assert!(warnings.iter().any(|warning| warning.contains("[world] lists two members")), "{warnings:?}");
}

#[test]
fn deployments_set_settings_that_exist() {
    let deploy = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy"));
    for (file, at_least) in [("compose/setup.sh", 17), ("kubernetes/hive.yaml", 19), ("debian/postinst", 1)] {
        let text = std::fs::read_to_string(deploy.join(file)).expect(file);
        let keys: Vec<&str> = text.split("--set ").skip(1).filter_map(|rest| rest.split('=').next()).collect();
        assert!(keys.len() >= at_least, "{file} sets {}", keys.len());
        for key in keys {
            let unknown = template::with(&[(key.trim_start_matches('\'').into(), "x".into())]);
            assert!(!matches!(unknown, Err(TemplateError::Unknown { .. })), "{file}: there is no setting {key}");
        }
    }
}

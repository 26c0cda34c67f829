use super::super::*;
use super::*;
use std::collections::BTreeSet;

/// The template with every line that could be set, set.
fn all_set() -> String {
    let set = |line: &str| match Line::of(line) {
        Line::Text => line.to_owned(),
        _ => line.trim_start_matches('#').to_owned(),
    };
    TEMPLATE.lines().map(|line| set(line) + "\n").collect()
}

/// A file in which nothing is absent. A new field does not compile here before it has a value, and then must be in the template.
fn every_setting() -> NodeFile {
    let text = || Some(String::from("x"));
    let path = || Some(PathBuf::from("x"));
    let members = || vec![MemberSection { id: 1, address: "x:1".into() }];
    let listeners = || vec![NamedListenSection { name: "x".into(), listen: "x".into() }];
    let options = || BTreeMap::from([("x".to_string(), "x".to_string())]);
    let names = || vec![String::from("x")];
    NodeFile {
        id: 1,
        data: "x".into(),
        insecure: true,
        cores: Some(1),
        first_core: Some(0),
        lanes: Some(1),
        topology: path(),
        world: WorldSection { name: "x".into(), members: members() },
        region: RegionSection { name: "x".into(), members: members() },
        location: LocationSection { az: "x".into(), rack: "x".into(), chassis: "x".into() },
        http: HttpSection { listen: "x".into(), advertise: text(), names: names(), proxies: names() },
        peer: DoorSection { listen: "x".into(), advertise: text() },
        s3: Some(S3Section {
            listen: "x".into(),
            region: text(),
            domains: names(),
            data: "x".into(),
            threads: Some(1),
            proxies: names(),
            data_options: options(),
            older_bucket_defaults: true,
            website_domains: names(),
        }),
        etcd: Some(EtcdSection {
            listen: "x".into(),
            namespace: text(),
            namespaces: listeners(),
            threads: Some(1),
            auto_compaction: text(),
            proxies: names(),
        }),
        redis: Some(RedisSection {
            listen: "x".into(),
            database: text(),
            databases: listeners(),
            threads: Some(1),
            proxies: names(),
        }),
        certificates: CertificatesSection {
            authority: "x".into(),
            certificate: "x".into(),
            key: "x".into(),
            revocations: path(),
        },
        tls: Some(TlsSection {
            certificate: "x".into(),
            key: "x".into(),
            client_authority: path(),
            client_revocations: path(),
            client_certificates: Some(ClientCertificates::Required),
            s3_client_certificates: Some(ClientCertificates::Required),
        }),
        engine: EngineSection {
            object: ObjectSection { options: options(), ..Default::default() },
            ..Default::default()
        },
        access: AccessSection {
            required: true,
            stale_limit_hours: 1,
            sealing_key_file: path(),
            oidc: vec![OidcSection { ca: path(), ..OidcSection::new("x", "x") }],
        },
        // Every field of these has a default, and is written: only an empty rule is left out.
        limits: LimitsSection::default(),
        tuning: TuningSection { s3_rule: "x".into(), ..Default::default() },
    }
}

/// The paths of all settings; of a list of tables, those of its first; the options of an object store are one setting.
fn paths(value: &toml::Value, path: &str, out: &mut BTreeSet<String>) {
    let first = value.as_array().and_then(|list| list.first()).filter(|first| first.is_table());
    let table = value.as_table().or(first.and_then(toml::Value::as_table));
    match table.filter(|_| !path.ends_with("options")) {
        None => drop(out.insert(path.to_owned())),
        Some(table) => {
            for (key, value) in table {
                let under = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                paths(value, &under, out);
            }
        }
    }
}

fn paths_of(text: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    paths(&toml::Value::Table(text.parse().unwrap()), "", &mut out);
    out
}

#[test]
fn template_has_every_setting() {
    let (wanted, found) = (paths_of(&every_setting().to_toml().unwrap()), paths_of(&all_set()));
    assert_eq!(wanted.difference(&found).collect::<Vec<_>>(), Vec::<&String>::new(), "config/template.toml lacks them");
    assert_eq!(found.difference(&wanted).collect::<Vec<_>>(), Vec::<&String>::new(), "no such settings");
    NodeFile::parse("all", &all_set()).unwrap();
}

#[test]
fn every_setting_of_the_template_has_a_sentence() {
    let lines: Vec<&str> = TEMPLATE.lines().collect();
    for pair in lines.windows(2) {
        if let Line::Setting { key, .. } = Line::of(pair[1]) {
            assert!(pair[0].starts_with("# ") && pair[0].contains('.') | pair[0].contains(':'), "{key}: {}", pair[0]);
        }
    }
    assert!(lines.iter().all(|line| line.chars().count() <= 132), "it fits a screen");
}

#[test]
fn template_shows_the_defaults() {
    let (shown, plain) = (NodeFile::parse("all", &all_set()).unwrap(), NodeFile::parse("t", TEMPLATE).unwrap());
    let text = |value: &dyn Fn(&NodeFile) -> String| (value(&shown), value(&plain));
    for (shown, default) in [
        text(&|file| toml::to_string(&file.limits).unwrap()),
        text(&|file| toml::to_string(&file.tuning).unwrap()),
        text(&|file| toml::to_string(&file.engine).unwrap()),
        text(&|file| format!("{} {} {}", file.insecure, file.access.required, file.access.stale_limit_hours)),
        text(&|file| format!("{:?} {:?}", file.http.names, file.http.proxies)),
    ] {
        assert_eq!(shown, default);
    }
    assert!(plain.s3.is_none() && plain.etcd.is_none() && plain.redis.is_none() && plain.tls.is_none());
}

#[test]
fn template_as_it_is_passes_every_check() {
    let home = tempfile::tempdir().unwrap();
    let (file, key) = (home.path().join("node.toml"), home.path().join("node-1.key"));
    std::fs::write(&file, TEMPLATE).unwrap();
    std::fs::write(&key, "x").unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let config = Config::load(&file).unwrap();
    assert_eq!((config.world.as_str(), config.node.0, config.world_members.len()), ("w1", 1, 1));
}

fn set(settings: &[(&str, &str)]) -> Result<String, String> {
    let owned: Vec<_> = settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    with(&owned).map_err(|error| error.to_string())
}

#[test]
fn what_is_set_stands_in_its_place() {
    let members = r#"[{ id = 1, address = "a:1" }, { id = 2, address = "b:1" }, { id = 3, address = "c:1" }]"#;
    let text = set(&[
        ("id", "3"),
        ("world.name", "prod"),
        ("world.members", members),
        ("location.az", "1"),
        ("etcd.listen", "\"127.0.0.1:2379\""),
        ("tuning.tick_ms", "20"),
    ]);
    let text = text.unwrap();
    let file = NodeFile::parse("t", &text).unwrap();
    assert_eq!((file.id, file.world.name.as_str(), file.world.members.len()), (3, "prod", 3));
    // The template has a text there, so this is one.
    assert_eq!(file.location.az, "1");
    assert_eq!(file.etcd.map(|etcd| etcd.listen).as_deref(), Some("127.0.0.1:2379"));
    assert_eq!((file.tuning.tick_ms, file.tuning.heartbeat_ticks), (20, 3));
    assert!(file.s3.is_none() && text.contains("#[s3]\n"));
    assert_eq!(text.lines().count(), TEMPLATE.lines().count());
}

#[test]
fn wrong_settings_are_refused() {
    for (settings, needle) in [
        (&[("tuning.tick", "5")][..], "there is no setting tuning.tick;"),
        (&[("tuning.tick_ms", "5"), ("tuning.tick_ms", "6")], "tuning.tick_ms is set twice"),
        (&[("tuning.tick_ms", "fast")], "fast is no value for tuning.tick_ms"),
        (&[("tuning.tick_ms", "5\nid = 7")], "it has more than one line"),
        (&[("tuning.tick_ms", "true")], "invalid type"),
        // A gateway needs to know where its data goes.
        (&[("s3.listen", "127.0.0.1:7401")], "missing field `data`"),
    ] {
        let refused = set(settings).expect_err(needle);
        assert!(refused.contains(needle), "{refused}");
    }
}

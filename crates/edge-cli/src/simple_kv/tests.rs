use super::*;
use crate::arguments::{Arguments, Command};
use clap::Parser;
use std::os::unix::fs::PermissionsExt;

/// The paper's Figure 1.
const FIGURE: &str = "Shard:\n  Name: shard0\n  Index: 0\n  Address: 127.0.0.2:8080\n  Replicas: [127.0.0.22:8080]\n---\nShard:\n  Name: shard1\n  Index: 1\n  Address: 127.0.0.3:8080\n  Replicas: [127.0.0.33:8080]\n";

fn parse(line: &str) -> Result<SimpleKvArguments, clap::Error> {
    let line = without_go(line.split_whitespace().map(OsString::from).collect());
    match Arguments::try_parse_from(line)?.command {
        Some(Command::SimpleKv(arguments)) => Ok(arguments),
        other => panic!("{other:?}"),
    }
}

/// The plan of a line about this file; `~` is a directory of the test's own.
fn plan(file: &str, line: &str) -> Result<(Plan, Vec<TopologyShard>, tempfile::TempDir), String> {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.yaml"), file).unwrap();
    let arguments = parse(&line.replace('~', home.path().to_str().unwrap())).map_err(|error| error.to_string())?;
    let shards = topology::load(&arguments.config_file).map_err(|error| of_file(&error).message)?;
    let plan = Plan::new(&arguments, &shards).map_err(|failure| failure.message)?;
    Ok((plan, shards, home))
}

#[test]
fn the_papers_line_is_read_as_go_reads_it() {
    let same = [
        "hive -db-location d -http-address 127.0.0.2:8080 -shard shard0 -config-file c",
        "hive --db-location=d --http-address=127.0.0.2:8080 -shard=shard0 -replica=false --config-file c",
        "hive simple-kv --shard shard0 --http-address 127.0.0.2:8080 --db-location d --config-file c",
    ];
    for line in same {
        let read = parse(line).unwrap();
        assert_eq!((read.shard.as_str(), read.http_address.as_str()), ("shard0", "127.0.0.2:8080"), "{line}");
        assert_eq!((read.db_location, read.config_file), (PathBuf::from("d"), PathBuf::from("c")), "{line}");
        assert!(!read.replica, "{line}");
    }
    for replica in ["-replica", "-replica=true", "--replica"] {
        let line = format!("hive {replica} -db-location d -http-address a -shard s -config-file c");
        assert!(parse(&line).unwrap().replica, "{line}");
    }
    // What is no line of the paper stays as it is.
    for line in [vec!["hive", "kv", "get", "-shard"], vec!["hive"], vec!["hive", "-V"], vec!["hive", "-shards", "a"]] {
        let line: Vec<OsString> = line.into_iter().map(OsString::from).collect();
        assert_eq!(without_go(line.clone()), line);
    }
    assert_eq!(parse("hive -shard s").unwrap_err().exit_code(), 2, "flags that the start needs are missing");
}

#[test]
fn the_papers_line_becomes_a_node() {
    let line = "hive -db-location ~/replica1 -http-address 127.0.0.33:8080 -shard shard1 -replica -config-file ~/config.yaml -db-type boltdb";
    let (plan, shards, home) = plan(FIGURE, line).unwrap();
    plan.write(&home.path().join("config.yaml")).unwrap();
    let config = home.path().join("replica1/node.toml");
    let is = Config::load(&config).unwrap();
    // Masters first: node 2 is shard1's, node 4 its replica.
    assert_eq!((is.node, is.http_listen.to_string()), (NodeId(4), "127.0.0.33:8080".to_owned()));
    assert_eq!((is.peer_advertise.as_str(), is.engine.default.as_str()), ("127.0.0.33:18080", "lmdb"));
    assert_eq!((is.data, is.topology), (home.path().join("replica1/data"), shards.clone()));
    let members: Vec<String> = is.world_members.values().cloned().collect();
    assert_eq!(members, ["127.0.0.2:18080", "127.0.0.3:18080", "127.0.0.22:18080"], "an odd number of the first");
    let key = std::fs::metadata(home.path().join("config.yaml.ca/node-4.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    // The same line again finds what it made.
    plan.check_kept(&config, &shards).unwrap();
}

#[test]
fn what_cannot_be_kept_is_refused_with_what_to_do() {
    let line = "hive -db-location ~/d -http-address 127.0.0.2:8080 -shard shard0 -config-file ~/config.yaml";
    let cases = [
        (FIGURE, line.replace("shard0", "shard9"), "-shard is one of shard0, shard1"),
        (
            FIGURE,
            line.replace("127.0.0.2:", "127.0.0.9:"),
            "as the master of shard shard0, but 127.0.0.2:8080; correct -http-address",
        ),
        (FIGURE, format!("{line} -replica"), "as a replica of shard shard0, but 127.0.0.22:8080"),
        (FIGURE, line.replace("config.yaml", "none.yaml"), "name the file with the shards with -config-file"),
        (FIGURE, line.replace("~/d", "~/config.yaml"), "is a file; name a directory"),
        (FIGURE, format!("{line} -db-type btrieve"), "this binary has no such engine; use one of lmdb"),
        ("Shard: [", line.into(), "write one YAML document for each Shard"),
    ];
    for (file, line, expected) in cases {
        let error = plan(file, &line).map(|_| ()).unwrap_err();
        assert!(error.contains(expected), "{line}: {error}");
    }
    for (from, to, expected) in [
        ("127.0.0.33:8080", "10.0.0.3:8080", "which other machines reach"),
        ("127.0.0.33:8080", "localhost:8080", "write ip:port"),
        ("127.0.0.33:8080", "127.0.0.33:60000", "use ports of 1 to 55535"),
        ("127.0.0.33:8080", "127.0.0.3:18080", "127.0.0.3:8080 speaks to other nodes at 127.0.0.3:18080"),
        ("Index: 1", "Index: 2", "number the shards"),
    ] {
        let error = plan(&FIGURE.replace(from, to), line).map(|_| ()).unwrap_err();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn a_directory_and_its_file_stay_what_they_were() {
    let line = "hive -db-location ~/d -http-address 127.0.0.2:8080 -shard shard0 -config-file ~/config.yaml";
    let (first, shards, home) = plan(FIGURE, line).unwrap();
    first.write(&home.path().join("config.yaml")).unwrap();
    let config = home.path().join("d/node.toml");
    let refused = |plan: &Plan, shards: &[TopologyShard]| plan.check_kept(&config, shards).unwrap_err().message;
    let fewer = topology::parse("f", FIGURE.split("---").next().unwrap()).unwrap();
    assert!(refused(&first, &fewer).contains("hive ctl keyspace reshard default N"));
    let other = Plan { id: 2, ..first };
    assert!(refused(&other, &shards).contains("give this node -db-location another directory"));
    let engine = Plan { id: 1, engine: "memory".into(), ..other };
    assert!(refused(&engine, &shards).contains("was made with lmdb; move its data online"));
}

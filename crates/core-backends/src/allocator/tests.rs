use super::*;
use crate::reply::decode_reply;
use crate::testing::MapSpace;
use base_types::{BootId, DiskId, LogIndex};
use core_placement::Labels;

fn at() -> ApplyContext {
    ApplyContext { life: base_types::Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: 0 }
}

fn run(space: &mut MapSpace, command: Command) -> Result<Reply, Refusal> {
    let bytes = command.to_bytes();
    assert_eq!(Command::from_bytes(bytes.clone()).unwrap(), command);
    validate(&bytes)?;
    let reply = apply(at(), space, &bytes).unwrap();
    crate::testing::check(base_types::BackendKind::Allocator, space);
    decode_reply(reply)
}

fn ask(space: &MapSpace, asked: Query) -> Result<Reply, Refusal> {
    let bytes = asked.to_bytes();
    assert_eq!(Query::from_bytes(bytes.clone()).unwrap(), asked);
    decode_reply(query(0, space, &bytes).unwrap())
}

fn node(id: u64) -> NodeRecord {
    let word = |prefix: &str| format!("{prefix}{id}");
    NodeRecord {
        node: NodeId(id),
        disk: DiskId(id + 100),
        boot: BootId(1),
        labels: Labels { region: "fr-par".into(), az: word("az"), rack: "r".into(), chassis: word("c") },
        peer_address: format!("10.0.0.{id}:7601"),
        http_address: format!("10.0.0.{id}:7101"),
        lanes: 2,
        version: "0.1.0".into(),
        engines: vec!["lmdb".into(), "memory".into()],
        up: true,
        ..NodeRecord::default()
    }
}

fn changes(space: &MapSpace, since: u64) -> (Vec<u64>, Vec<u64>, u64) {
    let (mut records, mut forgotten, mut version) = (Vec::new(), Vec::new(), since);
    loop {
        match ask(space, Query::NodesSince { version, limit: 2 }).unwrap() {
            Reply::Nodes { records: page, forgotten: gone, version: reached, more, .. } => {
                records.extend(page.iter().map(|record| record.node.0));
                forgotten.extend(gone.iter().map(|node| node.0));
                version = reached;
                if !more {
                    return (records, forgotten, version);
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn nodes_register_report_and_are_told_since_a_version() {
    let mut space = MapSpace::default();
    for id in 1..=5 {
        assert_eq!(run(&mut space, Command::Register { record: node(id) }), Ok(Reply::Done { version: id }));
    }
    assert_eq!(run(&mut space, Command::Register { record: node(1) }), Ok(Reply::Done { version: 5 }), "nothing new");
    assert_eq!(changes(&space, 0), (vec![1, 2, 3, 4, 5], vec![], 5));
    let update = Report { node: NodeId(2), up: false, score: 700, clusters: 4, leaders: 2 };
    let unknown = Report { node: NodeId(99), ..update };
    run(&mut space, Command::Report { updates: vec![update, unknown, update] }).unwrap();
    assert_eq!(changes(&space, 5), (vec![2], vec![], 6));
    run(&mut space, Command::Forget { node: NodeId(4) }).unwrap();
    assert_eq!(run(&mut space, Command::Forget { node: NodeId(4) }).unwrap_err().code.as_str(), "UnknownNode");
    assert_eq!(changes(&space, 0), (vec![1, 3, 5, 2], vec![4], 7));
    run(&mut space, Command::Register { record: node(4) }).unwrap();
    assert_eq!(changes(&space, 0), (vec![1, 3, 5, 2, 4], vec![], 8));
    match ask(&space, Query::Node { node: NodeId(2) }).unwrap() {
        Reply::Node { record: Some(record) } => assert_eq!((record.score, record.up, record.leaders), (700, false, 2)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_live_double_is_refused_and_a_lost_disk_is_not() {
    let mut space = MapSpace::default();
    run(&mut space, Command::Register { record: node(1) }).unwrap();
    let mut double = node(1);
    double.disk = DiskId(9);
    run(&mut space, Command::Register { record: double.clone() }).expect("same address: the same machine");
    double.disk = DiskId(10);
    double.peer_address = "10.9.9.9:1".into();
    let refusal = run(&mut space, Command::Register { record: double.clone() }).unwrap_err();
    assert_eq!((refusal.code.as_str(), refusal.kind()), ("DuplicateNode", base_types::ErrorKind::Conflict));
    let down = Report { node: NodeId(1), up: false, score: 0, clusters: 0, leaders: 0 };
    run(&mut space, Command::Report { updates: vec![down] }).unwrap();
    run(&mut space, Command::Register { record: double }).unwrap();
    match ask(&space, Query::Node { node: NodeId(1) }).unwrap() {
        Reply::Node { record: Some(record) } => assert_eq!((record.disk, record.up), (DiskId(10), true)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn elections_follow_the_replicated_state() {
    let mut space = MapSpace::default();
    for id in 1..=4 {
        run(&mut space, Command::Register { record: node(id) }).unwrap();
    }
    let report = Report { node: NodeId(1), up: true, score: 900, clusters: 1, leaders: 1 };
    run(&mut space, Command::Report { updates: vec![report] }).unwrap();
    let elect = |rule: &str, exclude: &[u64]| {
        let exclude = exclude.iter().copied().map(NodeId).collect();
        ask(&space, Query::Elect { rule: rule.into(), exclude, spread: 0 }).map(|reply| match reply {
            Reply::Elected { nodes } => nodes.iter().map(|record| record.node.0).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(elect("size=3 failure_domain=az", &[]), Ok(vec![2, 3, 4]));
    assert_eq!(elect("size=3 failure_domain=az", &[3]), Ok(vec![2, 4, 1]));
    assert_eq!(elect("size=5 failure_domain=az", &[]).unwrap_err().code.as_str(), "PlacementRefused");
    assert_eq!(elect("size=many", &[]).unwrap_err().code.as_str(), "InvalidRule");
    let query = Query::ElectReplacement {
        rule: "size=3 failure_domain=az".into(),
        members: vec![NodeId(1), NodeId(2), NodeId(3)],
        lost: NodeId(2),
        spread: 0,
    };
    match ask(&space, query).unwrap() {
        Reply::Elected { nodes } => assert_eq!(nodes, [node(4)]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bad_records_are_refused() {
    let mut space = MapSpace::default();
    for spoil in [
        (|record: &mut NodeRecord| record.labels.az.clear()) as fn(&mut NodeRecord),
        |record| record.labels.region = "world".into(),
        |record| record.lanes = 0,
        |record| record.peer_address.clear(),
    ] {
        let mut record = node(1);
        spoil(&mut record);
        assert_eq!(run(&mut space, Command::Register { record }).unwrap_err().code.as_str(), "InvalidRequest");
    }
    assert_eq!(space, MapSpace::default());
}

#[test]
fn a_node_being_decommissioned_stays_so_until_it_is_taken_back() {
    let mut space = MapSpace::default();
    for id in 1..=3 {
        run(&mut space, Command::Register { record: node(id) }).unwrap();
    }
    let (_, _, before) = changes(&space, 0);
    run(&mut space, Command::Drain { node: NodeId(2), draining: true }).unwrap();
    run(&mut space, Command::Drain { node: NodeId(2), draining: true }).unwrap();
    assert_eq!(changes(&space, before).0, vec![2], "the change is returned once");
    // What a node says of itself does not count.
    run(&mut space, Command::Register { record: NodeRecord { version: "0.2.0".into(), ..node(2) } }).unwrap();
    assert_eq!(ask(&space, Query::Draining), Ok(Reply::Draining { nodes: vec![NodeId(2)] }));
    let elect = |size| Query::Elect { rule: format!("size={size}"), exclude: vec![], spread: 0 };
    let Ok(Reply::Elected { nodes }) = ask(&space, elect(2)) else { panic!() };
    assert_eq!(nodes.iter().map(|node| node.node.0).collect::<Vec<_>>(), vec![1, 3]);
    assert!(ask(&space, elect(3)).unwrap_err().message.contains("1 being decommissioned"));
    run(&mut space, Command::Drain { node: NodeId(2), draining: false }).unwrap();
    assert!(ask(&space, elect(3)).is_ok());
    assert_eq!(ask(&space, Query::Draining), Ok(Reply::Draining { nodes: vec![] }));
    run(&mut space, Command::Drain { node: NodeId(3), draining: true }).unwrap();
    run(&mut space, Command::Forget { node: NodeId(3) }).unwrap();
    assert_eq!(ask(&space, Query::Draining), Ok(Reply::Draining { nodes: vec![] }));
    let refusal = run(&mut space, Command::Drain { node: NodeId(9), draining: true }).unwrap_err();
    assert_eq!(refusal.code.as_str(), "UnknownNode");
}

fn serving(id: u64, level: u16) -> NodeRecord {
    NodeRecord { level_max: FormatLevel(level), ..node(id) }
}

fn level(space: &MapSpace) -> FormatLevel {
    match ask(space, Query::NodesSince { version: 0, limit: 1 }).unwrap() {
        Reply::Nodes { level, .. } => level,
        other => panic!("{other:?}"),
    }
}

#[test]
fn level_rises_once_every_node_is_up_and_serves_it() {
    let mut space = MapSpace::default();
    let raise = Command::RaiseLevel { level: FormatLevel(2) };
    run(&mut space, Command::Register { record: serving(1, 2) }).unwrap();
    run(&mut space, Command::Register { record: serving(2, 1) }).unwrap();
    run(&mut space, Command::Register { record: serving(3, 3) }).unwrap();
    assert_eq!(level(&space), FormatLevel(1));
    let old = run(&mut space, raise.clone()).unwrap_err();
    assert_eq!(old.code, ErrorCode::Conflict);
    assert!(
        old.message.contains("node 2 runs hive 0.1.0, which serves up to level 1") && !old.message.contains("node 3")
    );
    run(&mut space, Command::Register { record: serving(2, 2) }).unwrap();
    let down = Report { node: NodeId(3), up: false, score: 0, clusters: 0, leaders: 0 };
    run(&mut space, Command::Report { updates: vec![down] }).unwrap();
    let unreachable = run(&mut space, raise.clone()).unwrap_err().message;
    assert!(
        unreachable.contains("node 3 is not reachable") && unreachable.contains("remove it for good"),
        "{unreachable}"
    );
    assert_eq!(level(&space), FormatLevel(1));
    run(&mut space, Command::Forget { node: NodeId(3) }).unwrap();
    run(&mut space, raise.clone()).unwrap();
    assert_eq!(level(&space), FormatLevel(2));
    // Again, and lower: nothing changes.
    run(&mut space, raise).unwrap();
    run(&mut space, Command::RaiseLevel { level: FormatLevel(1) }).unwrap();
    assert_eq!(level(&space), FormatLevel(2));
}

#[test]
fn build_below_the_worlds_level_is_not_registered() {
    let mut space = MapSpace::default();
    run(&mut space, Command::Register { record: serving(1, 2) }).unwrap();
    run(&mut space, Command::RaiseLevel { level: FormatLevel(2) }).unwrap();
    let refused = run(&mut space, Command::Register { record: serving(2, 1) }).unwrap_err();
    assert!(
        refused.message.contains("node 2 runs hive 0.1.0, which serves up to 1: install hive"),
        "{}",
        refused.message
    );
    run(&mut space, Command::Register { record: serving(2, 3) }).unwrap();
}

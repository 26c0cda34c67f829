//! Keyspaces that keep every version: the same answers as of plain ones, and their own calls, through every node.

use super::*;
use base_types::action::{BatchStep, KeyspaceKind, Partitioning};
use base_types::versioned::*;
use base_types::ErrorCode;
use std::str::FromStr;

fn create(world: &mut World, keyspace: &str, kind: KeyspaceKind) -> KvTarget {
    let action = Action::CreateKeyspace {
        kind,
        keyspace: keyspace.into(),
        partitioning: Partitioning::Hash,
        partitions: 1,
        clusters: 1,
        split_keys: Vec::new(),
        rule: "size=3".into(),
        engine: None,
    };
    world.done(1, action);
    KvTarget::Keyspace(keyspace.into())
}

/// The same steps on a keyspace of each kind: the answers are equal.
fn steps(target: &KvTarget) -> Vec<Action> {
    let t = || target.clone();
    let put = |key: &str, value: &str| Action::KvPut { target: t(), key: bytes(key), value: bytes(value) };
    let get = |key: &str| Action::KvGet { target: t(), key: bytes(key) };
    let delete = |key: &str| Action::KvDelete { target: t(), key: bytes(key) };
    let compare = |expected: Option<&str>, value: Option<&str>| Action::KvCompareAndSet {
        target: t(),
        key: bytes("c"),
        expected: expected.map(bytes),
        value: value.map(bytes),
    };
    let scan = |after: Option<&str>, limit, keys_only| Action::KvScan {
        target: t(),
        prefix: bytes("k"),
        start_after: after.map(bytes),
        end: Some(bytes("k8")),
        limit,
        reverse: false,
        keys_only,
    };
    let batch = Action::KvBatch {
        target: t(),
        steps: vec![
            BatchStep::Put { key: bytes("k7"), value: bytes("x") },
            BatchStep::Put { key: bytes("k7"), value: bytes("y") },
            BatchStep::Delete { key: bytes("k1") },
        ],
    };
    let mut all: Vec<Action> = (0..9).map(|key| put(&format!("k{key}"), "1")).collect();
    all.extend([get("k3"), get("none"), delete("k3"), delete("k3"), get("k3"), batch, get("k7"), get("k1")]);
    all.extend([compare(None, Some("a")), compare(None, Some("b")), compare(Some("a"), Some("b"))]);
    all.extend([compare(Some("a"), None), compare(Some("b"), None), get("c")]);
    all.extend([scan(None, 3, false), scan(Some("k4"), 2, false), scan(None, 100, true), scan(None, 100, false)]);
    all
}

#[test]
fn a_versioned_keyspace_answers_as_a_plain_one() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 2);
    world.ready();
    let plain = create(&mut world, "plain", KeyspaceKind::Plain);
    let versioned = create(&mut world, "versioned", KeyspaceKind::Versioned);
    for (number, (one, other)) in steps(&plain).into_iter().zip(steps(&versioned)).enumerate() {
        let node = 1 + number as u64 % 3;
        let shown = format!("{one:?}");
        let told = |response: Response| match response {
            Ok(answer) => Ok(answer.result),
            Err(failure) => Err(failure.refusal.code),
        };
        let (one, other) = (told(world.act(node, one)), told(world.act(node, other)));
        assert_eq!(one, other, "{shown}");
    }
}

fn ask(world: &mut World, node: u64, target: &KvTarget, call: VersionedCall) -> Result<Reply, ErrorCode> {
    match world.act(node, Action::Versioned { target: target.clone(), call: Box::new(call) }) {
        Ok(Answer { result: ActionResult::Versioned(reply), .. }) => Ok(*reply),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => Err(failure.refusal.code),
    }
}

#[test]
fn transactions_and_history_are_served_through_every_node() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let target = create(&mut world, "n", KeyspaceKind::Versioned);
    for value in ["1", "2", "3"] {
        world.put(1, &target, "k", value).unwrap();
    }
    let span = || Span::One { key: bytes("k") };
    let read = |at| Read { span: span(), at, ..Read::all() };
    // The node without a replica, too.
    for node in 1..=4 {
        let reply = ask(&mut world, node, &target, VersionedCall::Ask(Query::Read { read: read(0), pin: 0 })).unwrap();
        let Reply::Page { stamp, page } = reply else { panic!("{reply:?}") };
        assert_eq!((page.rows[0].row.version, &page.rows[0].row.value[..]), (3, &b"3"[..]));
        let before = VersionedCall::Ask(Query::Read { read: read(stamp - 1), pin: 0 });
        let Reply::Page { page, .. } = ask(&mut world, node, &target, before).unwrap() else { panic!() };
        assert_eq!(&page.rows[0].row.value[..], b"2");
        let changes = Query::Changes { span: span(), after: Position::default(), limit: 0, before: false, pin: 0 };
        let Reply::Changes { changes, .. } = ask(&mut world, node, &target, VersionedCall::Ask(changes)).unwrap()
        else {
            panic!()
        };
        assert_eq!(changes.len(), 3);
    }
    let condition = Condition { span: span(), check: Check::Version { relation: Relation::Equal, number: 2 } };
    let transaction = Transaction {
        conditions: vec![condition],
        then: vec![Operation::Delete { span: span(), previous: false }],
        otherwise: vec![Operation::Read(read(0))],
    };
    let commit = VersionedCall::Change(Command::Commit { transaction });
    let Reply::Committed { committed, changes, .. } = ask(&mut world, 4, &target, commit).unwrap() else { panic!() };
    assert!(!committed.succeeded && changes == 0 && matches!(committed.results[0], Outcome::Page(_)));
}

#[test]
fn kinds_are_not_mixed_up() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let plain = create(&mut world, "plain", KeyspaceKind::Plain);
    let versioned = create(&mut world, "versioned", KeyspaceKind::Versioned);
    let describe = || VersionedCall::Ask(Query::Describe);
    assert_eq!(ask(&mut world, 1, &plain, describe()), Err(ErrorCode::InvalidKeyspace));
    assert!(matches!(ask(&mut world, 1, &versioned, describe()), Ok(Reply::Info { .. })));
    let unknown = KvTarget::Keyspace("unknown".into());
    assert_eq!(ask(&mut world, 1, &unknown, describe()), Err(ErrorCode::UnknownKeyspace));
    let reshard = Action::Reshard { keyspace: "versioned".into(), clusters: 2 };
    assert_eq!(code(world.act(1, reshard)), "InvalidKeyspace");
    let scan = Action::KvScan {
        target: versioned.clone(),
        prefix: bytes(""),
        start_after: None,
        end: None,
        limit: 3,
        reverse: true,
        keys_only: false,
    };
    assert_eq!(code(world.act(1, scan)), "InvalidField");
    world.done(1, Action::DeleteKeyspace { keyspace: "versioned".into() });
    assert_eq!(ask(&mut world, 2, &versioned, describe()), Err(ErrorCode::UnknownKeyspace));
}

#[test]
fn nobody_but_a_leader_proposes_the_end_of_leases() {
    let mut world = World::new(&["fr-par", "fr-par", "fr-par", "fr-par"], 3, 1);
    world.ready();
    let keyspace = create(&mut world, "n", KeyspaceKind::Versioned);
    let cluster = base_types::ClusterName::from_str("versioned@raw").unwrap();
    world.done(1, Action::CreateCluster { name: cluster.clone(), rule: "size=3".into() });
    // Through nodes with a replica and without, by a keyspace and by a cluster's name.
    for target in [keyspace, KvTarget::Cluster(cluster)] {
        for node in 1..=4 {
            let expire = VersionedCall::Change(Command::LeaseExpire { limit: 1 });
            assert_eq!(ask(&mut world, node, &target, expire), Err(ErrorCode::UnknownAction));
        }
        let revoke = VersionedCall::Change(Command::LeaseRevoke { lease: 1, limit: 1 });
        assert_eq!(ask(&mut world, 1, &target, revoke), Err(ErrorCode::NoSuchLease));
    }
}

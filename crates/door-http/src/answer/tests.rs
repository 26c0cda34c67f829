//! Golden answers: testdata/answers.txt holds the JSON of one answer of each shape.
//! `UPDATE_GOLDEN=1 cargo test -p door-http` writes the file anew.

use super::*;
use base_types::action::{
    DecommissionInfo, DrainInfo, Failure, MemberVerified, ReshardInfo, UpgradeInfo, UpgradeNode, VerificationInfo,
};
use base_types::{
    ClusterId, ClusterName, DiskId, ErrorCode, FormatLevel, Generation, LogIndex, NodeId, OrderedAt, PartitionId,
    ReadConsistency, Refusal, ReplicaId, Term, WriteConsistency,
};
use std::sync::Arc;

const AT: OrderedAt =
    OrderedAt { cluster: ClusterId(7), generation: Generation(1), term: Term(3), index: LogIndex(42), position: 2 };

fn answer(result: ActionResult, level: Option<Level>) -> Response {
    Ok(Answer { result, at: level.map(|_| AT), level, cluster: level.map(|_| name()) })
}

fn name() -> Arc<ClusterName> {
    Arc::new("metadata@users-0".parse().unwrap())
}

fn keyspace() -> KeyspaceInfo {
    KeyspaceInfo {
        kind: base_types::action::KeyspaceKind::Plain,
        name: "users".into(),
        partitioning: Partitioning::Range,
        partitions: 3,
        epoch: 9,
        rule: "size=3".into(),
        engine: "lmdb".into(),
        owners: vec!["metadata@users-0".parse().unwrap(), "metadata@users-1".parse().unwrap()],
        split_keys: vec![Bytes::from_static(b"g"), Bytes::from_static(b"\xff")],
        reshard: Some(ReshardInfo { target_clusters: 4, moves_done: 1, moves_total: 2, moving: Some(PartitionId(5)) }),
        moved_partitions: 1,
        moved_keys: 100,
    }
}

fn cluster() -> ClusterInfo {
    ClusterInfo {
        name: ClusterName::world(),
        cluster: ClusterId(1),
        generation: Generation(1),
        rule: "size=5 location=world".into(),
        leader: Some(NodeId(2)),
        term: Term(4),
        commit: LogIndex(10),
        applied: LogIndex(9),
        consistency: WriteConsistency::Strong,
        read_consistency: ReadConsistency::Strong,
        members: vec![MemberInfo {
            node: NodeId(2),
            replica: ReplicaId(2),
            learner: false,
            matched: LogIndex(10),
            kept: None,
            moves: false,
            up: true,
        }],
        engine: Some("lmdb".into()),
        warnings: vec!["node 3 is down".into()],
    }
}

fn node() -> NodeInfo {
    NodeInfo {
        node: NodeId(1),
        up: true,
        draining: false,
        region: "fr-par".into(),
        az: "fr-par-1".into(),
        rack: "r1".into(),
        chassis: "c1".into(),
        peer_address: "127.0.0.1:7601".into(),
        http_address: "127.0.0.1:7101".into(),
        doors: Vec::new(),
        score: 17,
        clusters: 3,
        leaders: 1,
        disk: DiskId(0xabcdef),
        cores: 1,
        version: "0.1.0".into(),
        seen_ms_ago: 12,
    }
}

fn verification() -> VerificationInfo {
    let member = |node, state, digest| MemberVerified {
        node: NodeId(node),
        replica: base_types::ReplicaId(node),
        learner: false,
        state,
        pairs: 10,
        bytes: 99,
        digest,
        damaged: u64::from(state == "damaged"),
    };
    VerificationInfo {
        name: name().as_ref().clone(),
        cluster: base_types::ClusterId(1),
        generation: base_types::Generation(1),
        run: 255,
        done: true,
        index: base_types::LogIndex(7),
        whole: Some(false),
        members: vec![member(1, "same", Some(u64::MAX)), member(2, "damaged", Some(1)), member(3, "silent", None)],
        advice: vec!["node 3 did not answer: bring it up and verify again".into()],
    }
}

fn status() -> StatusInfo {
    StatusInfo {
        world: "dev".into(),
        node: NodeId(1),
        ready: true,
        not_ready: Vec::new(),
        degraded: Vec::new(),
        quorum: Vec::new(),
        nodes_up: 5,
        nodes_total: 5,
        clusters: 4,
        leaders: 2,
        quiesced: 1,
        config_cluster: None,
        warnings: vec![],
        log_write_ms: 0,
        certificate_expires_ms: 0,
    }
}

fn samples() -> Vec<(&'static str, Response)> {
    let write = Some(Level::Write(WriteConsistency::Strong));
    let read = Some(Level::Read(ReadConsistency::Eventual));
    let bulk = |bytes: &'static [u8]| RedisReply::Bulk(Bytes::from_static(bytes));
    let reply = RedisReply::Array(vec![
        RedisReply::Ok,
        RedisReply::Nil,
        RedisReply::Integer(-3),
        bulk(b"x"),
        bulk(b"\xff"),
        RedisReply::Error("WRONGTYPE \"k\"".into()),
    ]);
    let page = vec![
        (Bytes::from_static(b"a"), Bytes::from_static(b"1")),
        (Bytes::from_static(b"\xff"), Bytes::from_static(b"\xfe")),
    ];
    let not_absolute = Refusal::new(ErrorCode::CommittedNotAbsolute, "committed, not absolute: node 3 lacks it");
    vec![
        ("KvPut", answer(ActionResult::Done, write)),
        ("KvGet", answer(ActionResult::Value { value: Some(Bytes::from_static(b"v\"\n")) }, read)),
        ("KvGet", answer(ActionResult::Value { value: Some(Bytes::from_static(b"\x00\xff")) }, read)),
        ("KvGet", answer(ActionResult::Value { value: None }, read)),
        ("KvDelete", answer(ActionResult::Deleted { existed: true }, write)),
        ("KvScan", answer(ActionResult::Page { entries: page, next: Some(Bytes::from_static(b"\xff")) }, read)),
        ("KvScan", answer(ActionResult::Page { entries: vec![], next: None }, read)),
        ("Redis", answer(ActionResult::Redis { reply }, write)),
        ("DescribeKeyspace", answer(ActionResult::Keyspace(keyspace()), None)),
        ("ListKeyspaces", answer(ActionResult::Keyspaces { keyspaces: vec![] }, None)),
        ("DescribeCluster", answer(ActionResult::Cluster(cluster()), None)),
        (
            "ListClusters",
            answer(ActionResult::Clusters { clusters: vec![cluster()], next: Some("redis@a".into()) }, None),
        ),
        ("ListNodes", answer(ActionResult::Nodes { nodes: vec![node()] }, None)),
        (
            "DrainNode",
            answer(ActionResult::Drain(DrainInfo { node: NodeId(3), drained: true, hand_overs_due: Some(2) }), None),
        ),
        (
            "DecommissionNode",
            answer(
                ActionResult::Decommission(DecommissionInfo {
                    node: NodeId(3),
                    draining: true,
                    replicas: 2,
                    obstacles: vec!["cluster metadata@x: rule wants 1 az".into()],
                }),
                None,
            ),
        ),
        (
            "UpgradeStatus",
            answer(
                ActionResult::Upgrade(UpgradeInfo {
                    level: FormatLevel(1),
                    target: FormatLevel(2),
                    nodes: vec![UpgradeNode {
                        node: NodeId(3),
                        up: true,
                        version: "0.2.0".into(),
                        level_max: FormatLevel(1),
                    }],
                    blockers: vec!["node 3 runs hive 0.2.0, which serves up to level 1".into()],
                }),
                None,
            ),
        ),
        ("VerifyCluster", answer(ActionResult::Verification(verification()), None)),
        ("Status", answer(ActionResult::Status(status()), None)),
        ("KvPut", Err(Failure { refusal: not_absolute, at: Some(AT), cluster: Some(name()) })),
        ("KvGet", Err(Refusal::new(ErrorCode::NoLeader, "cluster 7 has no leader").into())),
    ]
}

#[test]
fn golden_answers() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/answers.txt");
    let line = |(action, response): &(&str, Response)| {
        let (status, body) = write_response(action, response);
        serde_json::from_slice::<serde_json::Value>(&body).expect("an answer is JSON");
        format!("{action} {status} {}\n", String::from_utf8(body).unwrap())
    };
    let fresh: String = samples().iter().map(line).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &fresh).unwrap();
    }
    let golden = std::fs::read_to_string(path).expect("testdata/answers.txt");
    assert_eq!(golden, fresh, "answers are written differently; if that is meant: UPDATE_GOLDEN=1");
}

#[test]
fn answers_go_behind_what_is_there() {
    let mut body = b"head".to_vec();
    let status = write_response_into("KvPut", &answer(ActionResult::Done, None), &mut body);
    assert_eq!((status, &body[..]), (200, &b"head{\"ok\":true,\"action\":\"KvPut\"}"[..]));
}

#[test]
fn a_scan_without_values_shows_none_and_a_read_has_no_position() {
    let scan = |keys_only| Action::KvScan {
        target: base_types::action::KvTarget::Keyspace("k".into()),
        prefix: Bytes::new(),
        start_after: None,
        end: None,
        limit: 10,
        reverse: false,
        keys_only,
    };
    let page = ActionResult::Page { entries: vec![(Bytes::from_static(b"k"), Bytes::new())], next: None };
    let at = OrderedAt { position: u32::MAX, ..AT };
    let response = Ok(Answer { result: page, at: Some(at), level: None, cluster: None });
    let body = |keys_only| String::from_utf8(write_response(answer_name(&scan(keys_only)), &response).1).unwrap();
    let at = r#""next":null,"at":{"cluster":7,"id":7,"generation":1,"term":3,"index":42}}"#;
    assert_eq!(body(true), format!(r#"{{"ok":true,"entries":[{{"key":"k"}}],{at}"#));
    assert_eq!(body(false), format!(r#"{{"ok":true,"entries":[{{"key":"k","value":""}}],{at}"#));
}

//! Seeds of what nodes say to each other: frames, replicas' payloads, the node map, documents, chunks.

use crate::Seeds;
use base_engine::Chunk;
use base_types::access::Authority;
use base_types::codec::{Encode, Writer};
use base_types::{
    BackendKind, BootId, ClusterId, ClusterName, DiskId, ErrorCode, Generation, LaneId, LogIndex, NodeId, OrderedAt,
    ReadConsistency, Refusal, ReplicaId, RequestId, Term, Ticket, WriteConsistency,
};
use bytes::Bytes;
use core_cluster::api::{AdminCommand, ClusterDescription, LocalKind, LocalOutcome, Member, ReplicaSpec};
use core_node::frame::{FormationDocument, FormationState, FrameBuilder, Item, Sender};
use core_placement::{Labels, MapDelta, MapRecord, MapVersion, NodeRecord};
use core_raft::{ChangeKind, HardState, Membership, MembershipChange};
use hive_fuzz::cluster::{Host, NODE};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the members talk while it is recorded.
const RECORDED_STEPS: usize = 150;
/// Payloads of one kind and length that are kept.
const PAYLOADS_MAX: usize = 24;

pub fn record(node: u64) -> NodeRecord {
    let labels =
        Labels { region: "fr-par".into(), az: node.to_string(), rack: "r1".into(), chassis: format!("c{node}") };
    NodeRecord {
        node: NodeId(node),
        disk: DiskId(node * 7),
        boot: BootId(node * 11),
        labels,
        peer_address: format!("10.0.0.{node}:7601"),
        http_address: format!("10.0.0.{node}:7101"),
        lanes: 2,
        version: "0.1.0".into(),
        level_max: base_types::FormatLevel(1),
        engines: vec!["lmdb".into(), "memory".into()],
        doors: Vec::new(),
        score: 100 * node as u32,
        clusters: 3,
        leaders: 1,
        up: true,
        draining: node == 2,
    }
}

fn member(id: u64) -> Member {
    Member { replica: ReplicaId(id), node: NodeId(id), disk: DiskId(id), learner: id == 3 }
}

fn name() -> ClusterName {
    "metadata@users".parse().expect("a name")
}

fn delta() -> MapDelta {
    let records =
        (1..=4).map(|node| MapRecord { number: node, heard_ms_ago: 30 * node, record: record(node) }).collect();
    let since = MapVersion { epoch: 0, number: 0 };
    MapDelta {
        since,
        until: MapVersion { epoch: 3, number: 9 },
        restart: true,
        more: false,
        records,
        forgotten: vec![NodeId(9)],
    }
}

pub fn add(seeds: &mut Seeds) {
    add_small(seeds);
    add_frames(seeds);
    add_documents(seeds);
    add_messages(seeds);
    add_conversations(seeds);
}

fn add_small(seeds: &mut Seeds) {
    let at =
        OrderedAt { cluster: ClusterId(1), generation: Generation(2), term: Term(3), index: LogIndex(4), position: 5 };
    seeds.add("base_codec", at.to_bytes());
    seeds.add("base_codec", Refusal::new(ErrorCode::DiskFull, "disk of node 1 is full").to_bytes());
    let pair = |key: &'static str, value: &'static str| {
        (Bytes::from_static(key.as_bytes()), Bytes::from_static(value.as_bytes()))
    };
    seeds.add(
        "engine_chunk",
        Chunk { pairs: vec![pair("", "x"), pair("a", ""), pair("b", "yy")], done: false }.to_bytes(),
    );
    seeds.add("engine_chunk", Chunk { pairs: vec![], done: true }.to_bytes());
    let many = (0u8..40).map(|n| (Bytes::from(vec![n, 0xff]), Bytes::from(vec![n; 9]))).collect();
    seeds.add("engine_chunk", Chunk { pairs: many, done: true }.to_bytes());
    seeds.add("node_record", record(1).to_bytes());
    seeds.add("node_record", record(2).labels.to_bytes());
    let next = MapDelta { since: MapVersion { epoch: 3, number: 9 }, restart: false, more: true, ..delta() };
    let two_pages = MapDelta { more: true, forgotten: vec![], ..delta() };
    for delta in [delta(), next, two_pages, MapDelta::default()] {
        seeds.add("map_delta", delta.to_bytes());
    }
    let membership = Membership {
        voters: vec![ReplicaId(1), ReplicaId(2)],
        learners: vec![ReplicaId(3)],
        voters_outgoing: vec![ReplicaId(4)],
        learners_next: vec![],
        auto_leave: true,
    };
    seeds.add("raft_message", membership.to_bytes());
    let changes = vec![
        (ChangeKind::AddVoter, ReplicaId(1)),
        (ChangeKind::AddLearner, ReplicaId(2)),
        (ChangeKind::Remove, ReplicaId(3)),
    ];
    seeds.add("raft_message", MembershipChange { changes }.to_bytes());
    let hard = HardState { term: Term(300), vote: ReplicaId(2), commit: LogIndex(70_000), replica: ReplicaId(3) };
    seeds.add("raft_message", hard.to_bytes());
}

fn items() -> Vec<Item> {
    let at =
        OrderedAt { cluster: ClusterId(1), generation: Generation(2), term: Term(3), index: LogIndex(4), position: 5 };
    let (bytes, ticket, boot) = (Bytes::from_static(b"reply"), Ticket(1), BootId(2));
    let (cluster, generation) = (ClusterId(1000), Generation(1));
    let forward =
        |kind| Item::Forward { ticket, cluster, generation, deadline_ms: 500, authority: Authority::Node, kind };
    let reply = |outcome| Item::ForwardReply { ticket, boot, outcome };
    let write = LocalKind::Write {
        backend: BackendKind::Metadata,
        command: Bytes::from_static(b"command"),
        consistency: Some(WriteConsistency::Hopeful),
        request_id: RequestId(77),
        cluster_time_ms: 1234,
    };
    let spec = ReplicaSpec {
        cluster,
        generation,
        name: name(),
        rule: "size=3".into(),
        engine: "memory".into(),
        consistency: WriteConsistency::Strong,
        read_consistency: ReadConsistency::Eventual,
        replica: ReplicaId(4),
        initial_members: vec![member(1), member(2)].into(),
    };
    let description = ClusterDescription {
        cluster,
        generation,
        name: name(),
        rule: "size=1".into(),
        engine: "lmdb".into(),
        engine_since: ReplicaId(4),
        leader: Some(NodeId(2)),
        term: Term(3),
        commit: LogIndex(4),
        applied: LogIndex(4),
        consistency: WriteConsistency::Absolute,
        read_consistency: ReadConsistency::Strong,
        members: vec![(member(1), LogIndex(4))],
        kept: vec![(NodeId(1), LogIndex(3))],
        quiesced: true,
        cluster_time_ms: 12,
    };
    let document = FormationDocument { cluster: ClusterId(1), members: vec![member(1), member(2), member(3)] };
    vec![
        Item::Peer { origin: NodeId(3), cluster, generation, payload: Bytes::from_static(&[6, 3]) },
        forward(write),
        forward(LocalKind::Read { backend: BackendKind::Redis, query: bytes.clone(), consistency: None }),
        forward(LocalKind::Admin(AdminCommand::AddMember { node: NodeId(1), disk: DiskId(2) })),
        forward(LocalKind::Admin(AdminCommand::SetDefaultConsistency {
            consistency: None,
            read_consistency: Some(ReadConsistency::Eventual),
        })),
        forward(LocalKind::Admin(AdminCommand::RenewMember { node: NodeId(1), replica: ReplicaId(2) })),
        forward(LocalKind::Admin(AdminCommand::SetEngine { engine: "redb".into() })),
        forward(LocalKind::Admin(AdminCommand::Describe)),
        reply(LocalOutcome::Written { reply: bytes.clone(), at, level: WriteConsistency::Strong, cluster_time_ms: 9 }),
        reply(LocalOutcome::Read { reply: bytes.clone(), at, level: ReadConsistency::Strong, cluster_time_ms: 9 }),
        reply(LocalOutcome::Described(description)),
        reply(LocalOutcome::AdminDone { at }),
        reply(LocalOutcome::CommittedNotAbsolute { reply: bytes, at, missing: vec![NodeId(5)] }),
        reply(LocalOutcome::NotLeader { leader: Some(NodeId(1)), term: Term(2), members: vec![member(1)] }),
        reply(LocalOutcome::NoSuchCluster),
        reply(LocalOutcome::StaleRoute { cluster_time_ms: 8 }),
        reply(LocalOutcome::Refused(Refusal::new(ErrorCode::DiskFull, "full"))),
        reply(LocalOutcome::Unknown { message: "leadership lost".into() }),
        Item::CreateReplica { ticket, disk: DiskId(2), spec: Box::new(spec) },
        Item::DestroyReplica { ticket, cluster, generation, replica: ReplicaId(4) },
        Item::ReplicaDone { ticket, boot, result: Ok(true) },
        Item::ReplicaDone { ticket, boot, result: Err(Refusal::new(ErrorCode::UnknownEngine, "no")) },
        Item::Heartbeat { record: Box::new(record(1)), wanted: MapVersion { epoch: 3, number: 4 } },
        Item::HeartbeatReply { leader: Some(NodeId(1)), delta: Some(Box::new(delta())) },
        Item::FormationProbe { cluster: ClusterId(1), nonce: 5 },
        Item::FormationAnswer { cluster: ClusterId(1), nonce: 5, state: FormationState::Blank { disk: DiskId(6) } },
        Item::FormationAnswer { cluster: ClusterId(1), nonce: 5, state: FormationState::Formed(document) },
        Item::UnknownCluster { cluster, generation, disk: DiskId(3) },
        Item::MapNews { delta: Box::new(delta()) },
        Item::ReplicaNews { cluster, generation, name: name(), replica: ReplicaId(3), leader: None },
        Item::ReplicaGone { cluster, name: name() },
        Item::DiskForgot { boot: BootId(9), disk: DiskId(8), batch: 1_000 },
    ]
}

fn frame(items: &[Item]) -> Bytes {
    let (node, boot, disk) = (NodeId(3), BootId(99), DiskId(21));
    let from = Sender {
        node,
        boot,
        lane: LaneId(1),
        lanes: 2,
        disk,
        batch_at_boot: 7,
        batch: 1_000,
        incarnation: 3,
        level: base_types::FormatLevel(1),
    };
    let mut builder = FrameBuilder::new(LaneId(1), from);
    items.iter().for_each(|item| builder.push(item));
    builder.finish()
}

fn add_frames(seeds: &mut Seeds) {
    let items = items();
    items.iter().for_each(|item| seeds.add("peer_frame", frame(std::slice::from_ref(item))));
    seeds.add("peer_frame", frame(&items));
    seeds.add("peer_frame", frame(&[]));
}

fn document(range: bool, resharding: bool) -> Bytes {
    let mut out = Writer::new();
    out.u8(1).string("users").u8(2).u8(if range { 1 } else { 2 });
    let splits: &[&[u8]] = if range { &[b"g", b"p\xff"] } else { &[] };
    out.varint(splits.len() as u64);
    splits.iter().for_each(|key| {
        out.bytes(key);
    });
    out.string("size=3").option(Some("lmdb"), |out, engine| {
        out.string(engine);
    });
    out.varint(7).u16(2).varint(3);
    for (owner, epoch) in [(0, 1), (1, 4), (0, 300)] {
        out.u16(owner).varint(epoch);
    }
    out.option(resharding.then_some(()), |out, ()| {
        out.u16(2).bool(true).u32(1).u32(2).varint(1);
        out.u16(1).u16(1).u16(0).varint(4).u8(2);
    });
    out.varint(5).varint(1000);
    out.finish()
}

fn add_documents(seeds: &mut Seeds) {
    for (range, resharding) in [(true, true), (true, false), (false, true), (false, false)] {
        seeds.add("keyspace_document", document(range, resharding));
    }
    seeds.add("keyspace_document", b"a.keyspace-name_1");
    let reply = core_backends::metadata::Reply::Value { value: Some(Bytes::from_static(b"v")) };
    seeds.add("keyspace_document", core_backends::encode_reply(&Ok(reply)));
}

fn add_messages(seeds: &mut Seeds) {
    let mut hello = Writer::new();
    hello.u8(1).raw(b"HIVEPEER").u16(1).string("dev").u64(1).u64(9).u16(2).u16(4).u64(3);
    let mut welcome = Writer::new();
    welcome.u8(2).u16(1).u64(3).u64(8).u16(1);
    let bodies =
        [hello.into_vec(), welcome.into_vec(), b"\x03\x02no".to_vec(), b"\x04\x01\x02frame".to_vec(), vec![5], vec![6]];
    let mut all = Vec::new();
    for body in bodies {
        let message = [&(body.len() as u32).to_le_bytes()[..], &body].concat();
        seeds.add("peer_message", &message);
        all.extend_from_slice(&message);
    }
    seeds.add("peer_message", all);
}

/// What three members say while one writes; `heard` is what `NODE` heard as steps of `lane_peer`.
struct Recording {
    payloads: BTreeMap<(u8, u8, usize), Bytes>,
    heard: Vec<Vec<u8>>,
}

fn step(kind: u8, length: usize, bytes: &[u8]) -> Vec<u8> {
    [&[kind][..], &(length as u16).to_le_bytes(), bytes].concat()
}

/// `late`: the fuzzed node joins only then, and is sent a snapshot.
fn record_conversation(late: usize, recording: &mut Recording) {
    let mut hosts: BTreeMap<u64, Host> = (1..=3).map(|node| (node, Host::new(node))).collect();
    for turn in 0..RECORDED_STEPS {
        for host in hosts.values_mut() {
            host.now = host.now + Duration::from_millis(10);
            let now = host.now;
            host.lane.on_timer(now);
        }
        if turn > late {
            recording.heard.push(step(2, 10, &[]));
        }
        if turn % 3 == 2 {
            hosts.values_mut().for_each(|host| host.write(Bytes::from(vec![turn as u8; 200])));
        }
        for _ in 0..3 {
            let mut said = Vec::new();
            for (node, host) in &mut hosts {
                let cut = *node == NODE && turn < late;
                said.extend(host.settle().messages.into_iter().filter(|_| !cut).map(|message| (*node, message)));
            }
            for (from, message) in said {
                let to = message.to.0;
                let payload = message.payload;
                let key = (payload[0], payload.get(1).copied().unwrap_or(0), payload.len() / 32);
                recording.payloads.entry(key).or_insert_with(|| payload.clone());
                if to == NODE && turn < late {
                    continue;
                }
                if to == NODE {
                    recording.heard.push(step(((from as u8) - 1) << 4, payload.len(), &payload));
                }
                hosts.get_mut(&to).expect("three hosts").hear(from, payload);
            }
        }
    }
}

fn add_conversations(seeds: &mut Seeds) {
    let mut payloads = BTreeMap::new();
    for late in [0, 40, 100, 140] {
        let mut recording = Recording { payloads: std::mem::take(&mut payloads), heard: Vec::new() };
        record_conversation(late, &mut recording);
        payloads = recording.payloads;
        for start in [0, 8, 30, 60, 120] {
            let mut seed = Vec::new();
            for step in recording.heard.iter().skip(start).take(60) {
                if seed.len() + step.len() <= 4 << 10 {
                    seed.extend_from_slice(step);
                }
            }
            if !seed.is_empty() {
                seeds.add("lane_peer", seed);
            }
        }
    }
    // A candidate of its own: time passes, clients write, votes come.
    let vote = payloads.iter().find(|((payload, kind, _), _)| (*payload, *kind) == (0, 4));
    let mut alone = step(2, 500, &[]);
    if let Some((_, vote)) = vote {
        alone.extend(step(0, vote.len(), vote));
    }
    alone.extend(step(3, 1, b"v"));
    seeds.add("lane_peer", alone);
    let small = payloads.iter().filter(|(_, payload)| payload.len() <= 2 << 10);
    for (_, payload) in small.clone().step_by((small.count() / PAYLOADS_MAX).max(1)).take(PAYLOADS_MAX) {
        seeds.add("cluster_payload", payload);
        if payload[0] == 0 {
            seeds.add("raft_message", &payload[1..]);
        }
    }
    add_payloads_by_hand(seeds);
}

/// What is rarely said: repairs, losses, removals; and an entry of the log.
fn add_payloads_by_hand(seeds: &mut Seeds) {
    let mut request = Writer::new();
    request.u8(4).varint(3).varint(2).varint(7).option(Some(2u64), |out, term| {
        out.varint(term);
    });
    request.varint(8).bool(false);
    seeds.add("cluster_payload", request.finish());
    seeds.add("cluster_payload", [5, 3, 2, 7, 1, 8, 2]);
    for payload in [&[6u8, 3][..], &[7, 2], &[1, 1, 2, 3, 4], &[3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 5, 1]] {
        seeds.add("cluster_payload", payload);
        seeds.add("lane_peer", step(1, payload.len(), payload));
    }
    let mut entry = Writer::new();
    entry.u8(1).varint(12_345).varint(2);
    for backend in [2u8, 0] {
        entry.u8(backend).u128(99).varint(60_000).bytes(b"command");
    }
    seeds.add("cluster_payload", entry.finish());
    let mut kept = Writer::new();
    kept.u8(12).varint(3).varint(7).u64(1 << 63).varint(5);
    let kept = kept.finish();
    seeds.add("lane_peer", step(1, kept.len(), &kept));
    seeds.add("cluster_payload", kept);
}

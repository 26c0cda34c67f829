//! Every item goes through bytes and back; damaged bytes are refused and never panic.

use super::*;
use base_types::{BackendKind, ErrorCode, LogIndex, OrderedAt, ReadConsistency, RequestId, Term, WriteConsistency};
use core_cluster::api::{AdminCommand, ClusterDescription};
use core_flow::Random;

fn sender() -> Sender {
    Sender {
        node: NodeId(3),
        boot: BootId(99),
        lane: LaneId(1),
        lanes: 2,
        disk: DiskId(21),
        batch_at_boot: 5,
        batch: 17,
        incarnation: 23,
        level: base_types::FormatLevel(1),
    }
}

fn member(id: u64) -> Member {
    Member { replica: ReplicaId(id), node: NodeId(id), disk: DiskId(id * 7), learner: id.is_multiple_of(2) }
}

fn name() -> ClusterName {
    "metadata@users".parse().unwrap()
}

fn spec() -> ReplicaSpec {
    ReplicaSpec {
        cluster: ClusterId(1000),
        generation: Generation(2),
        name: name(),
        rule: "size=3".into(),
        engine: "memory".into(),
        consistency: WriteConsistency::Strong,
        read_consistency: ReadConsistency::Eventual,
        replica: ReplicaId(4),
        initial_members: vec![member(1), member(2)].into(),
    }
}

fn description() -> ClusterDescription {
    ClusterDescription {
        cluster: ClusterId(5),
        generation: Generation(1),
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
    }
}

fn forward(kind: LocalKind) -> Item {
    forward_for(kind, Authority::Anyone)
}

fn forward_for(kind: LocalKind, authority: Authority) -> Item {
    let (cluster, generation) = (ClusterId(2), Generation(3));
    Item::Forward { ticket: Ticket(1), cluster, generation, deadline_ms: 4, kind, authority }
}

fn reply(outcome: LocalOutcome) -> Item {
    Item::ForwardReply { ticket: Ticket(1), boot: BootId(2), outcome }
}

fn cluster_items() -> Vec<Item> {
    let at =
        OrderedAt { cluster: ClusterId(1), generation: Generation(2), term: Term(3), index: LogIndex(4), position: 5 };
    let write = LocalKind::Write {
        backend: BackendKind::Metadata,
        command: Bytes::from_static(b"command"),
        consistency: Some(WriteConsistency::Hopeful),
        request_id: RequestId(77),
        cluster_time_ms: 1234,
    };
    let bytes = Bytes::from_static(b"reply");
    vec![
        Item::Peer {
            origin: NodeId(3),
            cluster: ClusterId(9),
            generation: Generation(1),
            payload: Bytes::from_static(b"raft"),
        },
        forward(write),
        forward(LocalKind::Read { backend: BackendKind::Redis, query: Bytes::new(), consistency: None }),
        forward(LocalKind::Admin(AdminCommand::AddMember { node: NodeId(1), disk: DiskId(2) })),
        forward(LocalKind::Admin(AdminCommand::RemoveMember { node: NodeId(1) })),
        forward(LocalKind::Admin(AdminCommand::ReplaceDisk { node: NodeId(1), disk: DiskId(2) })),
        forward(LocalKind::Admin(AdminCommand::ReplaceMember { from: NodeId(3), node: NodeId(1), disk: DiskId(2) })),
        forward(LocalKind::Admin(AdminCommand::RenewMember { node: NodeId(1), replica: ReplicaId(2) })),
        forward(LocalKind::Admin(AdminCommand::SetEngine { engine: "redb".into() })),
        forward(LocalKind::Admin(AdminCommand::TransferLeader { node: NodeId(1) })),
        forward(LocalKind::Admin(AdminCommand::SetDefaultConsistency {
            consistency: None,
            read_consistency: Some(ReadConsistency::Eventual),
        })),
        forward(LocalKind::Admin(AdminCommand::Describe)),
        reply(LocalOutcome::Written { reply: bytes.clone(), at, level: WriteConsistency::Strong, cluster_time_ms: 9 }),
        reply(LocalOutcome::Read { reply: bytes.clone(), at, level: ReadConsistency::Strong, cluster_time_ms: 9 }),
        reply(LocalOutcome::Described(description())),
        reply(LocalOutcome::AdminDone { at }),
        reply(LocalOutcome::CommittedNotAbsolute { reply: bytes, at, missing: vec![NodeId(5)] }),
        reply(LocalOutcome::NotLeader { leader: Some(NodeId(1)), term: Term(2), members: vec![member(1)] }),
        reply(LocalOutcome::NoSuchCluster),
        reply(LocalOutcome::StaleRoute { cluster_time_ms: 8 }),
        reply(LocalOutcome::Refused(Refusal::new(ErrorCode::DiskFull, "disk of node 1 is full"))),
        reply(LocalOutcome::Unknown { message: "leadership lost".into() }),
        Item::CreateReplica { ticket: Ticket(1), disk: DiskId(2), spec: Box::new(spec()) },
        Item::DestroyReplica {
            ticket: Ticket(1),
            cluster: ClusterId(2),
            generation: Generation(3),
            replica: ReplicaId(4),
        },
        Item::ReplicaDone { ticket: Ticket(1), boot: BootId(2), result: Ok(true) },
        Item::Survey { ticket: Ticket(1), cluster: ClusterId(2) },
        Item::Surveyed { ticket: Ticket(1), boot: BootId(2), survivor: None },
        Item::BeginLife {
            ticket: Ticket(1),
            life: core_cluster::api::NewLife {
                cluster: ClusterId(2),
                replica: ReplicaId(3),
                from: Generation(4),
                to: Generation(5),
            },
        },
        Item::ReplicaDone {
            ticket: Ticket(1),
            boot: BootId(2),
            result: Err(Refusal::new(ErrorCode::UnknownEngine, "no")),
        },
    ]
}

fn status() -> base_types::action::StatusInfo {
    base_types::action::StatusInfo {
        world: "w".into(),
        node: NodeId(2),
        ready: true,
        not_ready: vec!["nothing here serves".into()],
        degraded: vec!["the world has no majority".into()],
        quorum: vec![base_types::action::QuorumInfo { cluster: name(), answers: true }],
        nodes_up: 3,
        nodes_total: 4,
        clusters: 5,
        leaders: 6,
        quiesced: 7,
        config_cluster: Some(name()),
        warnings: vec!["node 3 is down".into()],
        log_write_ms: 8,
        certificate_expires_ms: 9,
    }
}

fn node_items() -> Vec<Item> {
    let record = NodeRecord { node: NodeId(4), disk: DiskId(5), engines: vec!["lmdb".into()], ..NodeRecord::default() };
    let news = core_placement::MapRecord { number: 2, heard_ms_ago: 3, record: record.clone() };
    let delta = MapDelta { restart: true, records: vec![news], forgotten: vec![NodeId(9)], ..MapDelta::default() };
    let document = FormationDocument { cluster: ClusterId(1), members: vec![member(1), member(2), member(3)] };
    vec![
        Item::Heartbeat { record: Box::new(record), wanted: MapVersion { epoch: 3, number: 4 } },
        Item::HeartbeatReply { leader: Some(NodeId(1)), delta: Some(Box::new(delta.clone())) },
        Item::HeartbeatReply { leader: None, delta: None },
        Item::FormationProbe { cluster: ClusterId(1), nonce: 5 },
        Item::FormationAnswer { cluster: ClusterId(1), nonce: 5, state: FormationState::Blank { disk: DiskId(6) } },
        Item::FormationAnswer { cluster: ClusterId(1), nonce: 5, state: FormationState::Pending },
        Item::FormationAnswer { cluster: ClusterId(1), nonce: 5, state: FormationState::Formed(document) },
        Item::UnknownCluster { cluster: ClusterId(1), generation: Generation(2), disk: DiskId(3) },
        Item::DiskForgot { boot: BootId(1), disk: DiskId(2), batch: 3 },
        Item::Announce {
            announcement: Box::new(crate::frame::Announcement {
                cluster: ClusterId(1),
                generation: Generation(1),
                index: base_types::LogIndex(9),
                members: vec![(member(1), "n1:7601".into()), (member(2), String::new())],
            }),
        },
        Item::MapNews { delta: Box::new(delta) },
        Item::ReplicaNews {
            cluster: ClusterId(1),
            generation: Generation(2),
            name: name(),
            replica: ReplicaId(3),
            leader: None,
        },
        Item::ReplicaGone { cluster: ClusterId(1), name: name() },
        Item::LaneNews {
            gauges: Box::new(crate::frame::LaneGauges {
                replicas: 1,
                leaders: 2,
                quiesced: 3,
                formed: true,
                warnings: vec!["node 3 is down".into()],
            }),
        },
        Item::StatusAsked { ticket: Ticket(7) },
        Item::StatusTold { ticket: Ticket(7), status: Box::new(status()) },
        Item::WhereIs { name: name(), led: true },
        Item::Location {
            name: name(),
            told: Told { cluster: ClusterId(7), generation: Generation(2), leader: Some(NodeId(3)) },
        },
        Item::Neighbours { nodes: vec![(NodeId(4), "node-4:7000".into())] },
        Item::WorldReborn { heard: 9, from: NodeId(3) },
        Item::WorldIs { own: 9, superseded_by: 0 },
        Item::HealthAsked { ticket: Ticket(8) },
        Item::HealthTold {
            ticket: Ticket(8),
            health: Box::new(crate::frame::LaneHealth {
                held: 3,
                served: 2,
                unserved: vec!["metadata@users".into()],
                log_write_ms: 4,
                degraded: vec!["a log write takes long".into()],
            }),
        },
    ]
}

fn all_items() -> Vec<Item> {
    let mut items = cluster_items();
    items.extend(node_items());
    items
}

fn full_frame() -> Bytes {
    let mut builder = FrameBuilder::new(LaneId(4), sender());
    all_items().iter().for_each(|item| builder.push(item));
    builder.finish()
}

#[test]
fn what_is_framed_is_read() {
    let bytes = full_frame();
    assert_eq!(peek_lane(&bytes), Some(LaneId(4)));
    let frame = decode(bytes).unwrap();
    assert_eq!(frame.from, sender());
    assert_eq!(frame.items, all_items());
}

#[test]
fn foreign_frames_are_refused() {
    let good = full_frame();
    for (position, wrong) in [(0usize, 0xffu8), (4, FRAME_VERSION + 1)] {
        let mut bytes = good.to_vec();
        bytes[position] = wrong;
        assert!(decode(Bytes::from(bytes)).is_err());
    }
    let mut unknown = FrameBuilder::new(LaneId(0), sender()).finish().to_vec();
    unknown.extend_from_slice(&[200, 0]);
    assert_eq!(decode(Bytes::from(unknown)), Err(DecodeError::Unknown("item kind")));
    let mut trailing = FrameBuilder::new(LaneId(0), sender()).finish().to_vec();
    trailing.extend_from_slice(&[kind::STATUS_ASKED, 9]);
    trailing.extend_from_slice(&[0; 9]);
    assert_eq!(decode(Bytes::from(trailing)), Err(DecodeError::TrailingBytes));
}

#[test]
fn damage_never_panics() {
    let good = full_frame();
    let mut random = Random::new(11);
    for length in 0..good.len() {
        // A cut between two items is a shorter frame; any other cut is refused.
        if let Ok(frame) = decode(good.slice(..length)) {
            assert!(frame.items.len() < all_items().len());
        }
    }
    for _ in 0..20_000 {
        let mut bytes = good.to_vec();
        for _ in 0..=random.below(3) {
            let position = random.below(bytes.len() as u64) as usize;
            bytes[position] = random.next() as u8;
        }
        let _ = decode(Bytes::from(bytes));
    }
}

#[test]
fn the_formats_page_names_this_version() {
    let page = include_str!("../../../../docs/formats/frames.md");
    assert!(
        page.contains(&format!("│ u8 = {FRAME_VERSION} │"))
            && page.contains(&format!("(`FRAME_VERSION`, {FRAME_VERSION})"))
    );
}

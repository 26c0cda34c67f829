//! Lanes of several nodes in one process, with a network of one millisecond and disks that can crash.

use crate::api::*;
use crate::Lane;
use base_engine::Engine;
use base_types::codec::Encode;
use base_types::{
    BackendKind, ClusterId, DiskId, Generation, LaneId, NodeId, ReadConsistency, ReplicaId, RequestId, Tick, Ticket,
    WriteConsistency,
};
use bytes::Bytes;
use core_backends::metadata::{Command, Query, Reply};
use core_log::testing::{DiskEvent, TestDisk};
use core_log::LogConfig;
use engine_memory::MemoryEngine;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const SEGMENT_BYTES: u64 = 256 << 10;
const CLUSTER: ClusterId = ClusterId(1000);

struct Node {
    lane: Option<Lane>,
    engine: Arc<MemoryEngine>,
    disk: TestDisk,
    disk_id: DiskId,
}

struct World {
    now: Tick,
    nodes: BTreeMap<NodeId, Node>,
    wires: VecDeque<(Tick, NodeId, PeerMessage)>,
    cut: BTreeSet<NodeId>,
    completions: BTreeMap<Ticket, LocalOutcome>,
    notices: Vec<(NodeId, Notice)>,
    next_ticket: u64,
    log_keep_bytes: u64,
}

fn config(node: NodeId, disk: DiskId, log_keep_bytes: u64) -> LaneConfig {
    LaneConfig {
        node,
        disk,
        lane: LaneId(0),
        log_identity: disk.0,
        seed: node.0,
        tick_ms: 10,
        heartbeat_ticks: 3,
        election_ticks: 10,
        quiesce_after_ticks: 20,
        flush_bytes: 64 << 10,
        flush_after_ms: 200,
        log_keep_bytes,
        snapshot_chunk_bytes: 1024,
        log: LogConfig { segment_bytes: SEGMENT_BYTES, ..LogConfig::default() },
    }
}

fn spec(node: u64, members: u64) -> ReplicaSpec {
    ReplicaSpec {
        cluster: CLUSTER,
        generation: Generation(1),
        name: "metadata@test".parse().unwrap(),
        rule: "size=3".into(),
        engine: "memory".into(),
        consistency: WriteConsistency::Strong,
        read_consistency: ReadConsistency::Strong,
        replica: ReplicaId(node),
        initial_members: (1..=members).map(member).collect(),
    }
}

fn member(node: u64) -> Member {
    Member { replica: ReplicaId(node), node: NodeId(node), disk: DiskId(node), learner: false }
}

impl World {
    fn new(nodes: u64, members: u64, log_keep_bytes: u64) -> World {
        let mut world = World {
            now: Tick(1_000_000),
            nodes: BTreeMap::new(),
            wires: VecDeque::new(),
            cut: BTreeSet::new(),
            completions: BTreeMap::new(),
            notices: Vec::new(),
            next_ticket: 0,
            log_keep_bytes,
        };
        for id in 1..=nodes {
            world.start_blank(NodeId(id), DiskId(id));
        }
        for id in 1..=members {
            let now = world.now;
            assert!(world.lane(id).create_replica(now, spec(id, members)).unwrap());
        }
        world.run(1_000);
        world
    }

    fn start_blank(&mut self, node: NodeId, disk_id: DiskId) {
        let disk = TestDisk::new(SEGMENT_BYTES);
        let engine = Arc::new(MemoryEngine::new());
        self.nodes.insert(node, Node { lane: None, engine, disk, disk_id });
        self.start(node);
    }

    fn start(&mut self, node: NodeId) -> Vec<String> {
        let (now, keep) = (self.now, self.log_keep_bytes);
        let entry = self.nodes.get_mut(&node).unwrap();
        let engines: Vec<Arc<dyn Engine>> = vec![entry.engine.clone()];
        let (lane, notes) = Lane::open(config(node, entry.disk_id, keep), engines, &mut entry.disk, now).unwrap();
        entry.lane = Some(lane);
        for lane in self.nodes.values_mut().filter_map(|other| other.lane.as_mut()) {
            lane.on_peer_up(now, node);
        }
        notes
    }

    fn kill(&mut self, node: u64) {
        let entry = self.nodes.get_mut(&NodeId(node)).unwrap();
        entry.lane = None;
        entry.disk.crash(&mut |_| 0);
        entry.engine = Arc::new(MemoryEngine::from_image(entry.engine.image()));
        let now = self.now;
        for lane in self.nodes.values_mut().filter_map(|other| other.lane.as_mut()) {
            lane.on_peer_down(now, NodeId(node));
        }
    }

    fn lane(&mut self, node: u64) -> &mut Lane {
        self.nodes.get_mut(&NodeId(node)).unwrap().lane.as_mut().unwrap()
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now = self.now + Duration::from_millis(1);
            self.step();
        }
    }

    fn step(&mut self) {
        let now = self.now;
        while self.wires.front().is_some_and(|(due, _, _)| *due <= now) {
            let (_, from, message) = self.wires.pop_front().unwrap();
            let blocked = self.cut.contains(&from) || self.cut.contains(&message.to);
            if let Some(lane) = self.nodes.get_mut(&message.to).filter(|_| !blocked).and_then(|n| n.lane.as_mut()) {
                lane.on_peer_message(now, from, message.cluster, message.generation, message.payload);
            }
        }
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for id in ids {
            self.turn(id);
        }
    }

    fn turn(&mut self, id: NodeId) {
        let now = self.now;
        let node = self.nodes.get_mut(&id).unwrap();
        let Some(lane) = node.lane.as_mut() else { return };
        if lane.next_wake() <= now {
            lane.on_timer(now);
        }
        let output = lane.finish_turn(now);
        output.log.into_iter().for_each(|action| node.disk.start(action));
        while let Some(event) = node.disk.finish() {
            match event {
                DiskEvent::Written(batch) => lane.on_log_written(now, batch),
                DiskEvent::Ready(segment) => lane.on_log_segment_ready(now, segment),
                DiskEvent::NoRoom(segment) => lane.on_log_segment_failed(now, segment),
                DiskEvent::Failed => lane.on_log_failed(now, "test"),
            }
        }
        for job in output.engine {
            let result = match job.work {
                EngineWork::Write(batch) => node.engine.write(&batch).map(|()| false),
                EngineWork::DropSpace { space, limit } => node.engine.drop_space(space, limit),
            };
            lane.on_engine_done(now, job.job, result);
        }
        let due = now + Duration::from_millis(1);
        self.wires.extend(output.messages.into_iter().map(|message| (due, id, message)));
        for completion in output.completions {
            assert!(self.completions.insert(completion.ticket, completion.outcome).is_none(), "answered twice");
        }
        self.notices.extend(output.notices.into_iter().map(|notice| (id, notice)));
    }

    fn submit(&mut self, node: u64, deadline_ms: u64, kind: LocalKind) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        let now = self.now;
        let deadline = now + Duration::from_millis(deadline_ms);
        let operation = LocalOperation { ticket, cluster: CLUSTER, generation: Generation(1), deadline, kind };
        self.lane(node).submit(now, operation);
        ticket
    }

    fn call(&mut self, node: u64, kind: LocalKind) -> LocalOutcome {
        let ticket = self.submit(node, 2_000, kind);
        for _ in 0..4_000 {
            self.run(1);
            if let Some(outcome) = self.completions.remove(&ticket) {
                return outcome;
            }
        }
        panic!("never answered");
    }

    /// As a router would: rebases its clock once.
    fn write(&mut self, node: u64, request: u128, command: Command, level: WriteConsistency) -> LocalOutcome {
        let mut time = 0;
        loop {
            let outcome = self.call(node, write(request, &command, level, time));
            match outcome {
                LocalOutcome::StaleRoute { cluster_time_ms } if cluster_time_ms != time => time = cluster_time_ms,
                outcome => return outcome,
            }
        }
    }

    fn put(&mut self, key: &str, value: &str) {
        let leader = self.leader();
        let request = 7_000_000 + u128::from(self.next_ticket);
        let outcome = self.write(leader, request, put(key, value), WriteConsistency::Strong);
        assert!(matches!(outcome, LocalOutcome::Written { .. }), "{outcome:?}");
    }

    fn get(&mut self, node: u64, key: &str, level: ReadConsistency) -> Option<String> {
        match self.call(node, read(key, level)) {
            LocalOutcome::Read { reply, .. } => value_of(reply),
            other => panic!("{other:?}"),
        }
    }

    fn leader(&mut self) -> u64 {
        for _ in 0..5_000 {
            let leaders: Vec<u64> = self
                .nodes
                .iter()
                .filter(|(id, _)| !self.cut.contains(id))
                .filter(|(_, node)| node.lane.as_ref().and_then(|l| l.view(CLUSTER)).is_some_and(|v| v.is_leader))
                .map(|(id, _)| id.0)
                .collect();
            if let [leader] = leaders[..] {
                return leader;
            }
            self.run(1);
        }
        panic!("no leader");
    }

    fn hashes(&mut self) -> Vec<Option<(base_types::LogIndex, u64)>> {
        self.nodes.values().filter_map(|node| node.lane.as_ref()).map(|lane| lane.state_hash(CLUSTER)).collect()
    }

    fn assert_equal(&mut self, count: usize) {
        let hashes: Vec<_> = self.hashes().into_iter().flatten().collect();
        assert_eq!(hashes.len(), count, "{hashes:?}");
        assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "{hashes:?}");
    }
}

fn put(key: &str, value: &str) -> Command {
    let (key, value) = (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
    Command::Put { scope: None, key, value }
}

fn write(request: u128, command: &Command, level: WriteConsistency, cluster_time_ms: u64) -> LocalKind {
    LocalKind::Write {
        backend: BackendKind::Metadata,
        command: command.to_bytes(),
        consistency: Some(level),
        request_id: RequestId(request),
        cluster_time_ms,
    }
}

fn read(key: &str, level: ReadConsistency) -> LocalKind {
    let query = Query::Get { scope: None, key: Bytes::copy_from_slice(key.as_bytes()) };
    LocalKind::Read { backend: BackendKind::Metadata, query: query.to_bytes(), consistency: Some(level) }
}

fn value_of(reply: Bytes) -> Option<String> {
    match core_backends::decode_reply::<Reply>(reply).unwrap() {
        Reply::Value { value } => value.map(|value| String::from_utf8(value.to_vec()).unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_strong_write_is_read_everywhere() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("k", "v");
    let leader = world.leader();
    assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("v"));
    world.run(200);
    for node in 1..=3 {
        assert_eq!(world.get(node, "k", ReadConsistency::Eventual).as_deref(), Some("v"));
    }
    world.assert_equal(3);
}

#[test]
fn each_level_is_acknowledged_as_itself() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = world.leader();
    for (number, level) in WriteConsistency::ALL.into_iter().enumerate() {
        match world.write(leader, number as u128, put("k", level.name()), level) {
            LocalOutcome::Written { level: reached, .. } => assert_eq!(reached, level),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_absolute_write_with_a_member_down_is_committed_and_says_so() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = world.leader();
    let down = (1..=3).find(|node| *node != leader).unwrap();
    world.kill(down);
    match world.write(leader, 1, put("k", "v"), WriteConsistency::Absolute) {
        LocalOutcome::CommittedNotAbsolute { missing, .. } => assert_eq!(missing, vec![NodeId(down)]),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.get(leader, "k", ReadConsistency::Strong).as_deref(), Some("v"));
}

#[test]
fn a_retry_applies_once_also_after_leader_change_and_restart() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = world.leader();
    let key = Bytes::from_static(b"once");
    let command = Command::CompareAndSet { scope: None, key, expected: None, value: Some(Bytes::from_static(b"1")) };
    let first = world.write(leader, 42, command.clone(), WriteConsistency::Strong);
    let LocalOutcome::Written { reply: first, at: first_at, .. } = first else { panic!("{first:?}") };
    world.run(500);
    world.kill(leader);
    let next = world.leader();
    let again = world.write(next, 42, command.clone(), WriteConsistency::Strong);
    let LocalOutcome::Written { reply, at, .. } = again else { panic!("{again:?}") };
    assert_eq!((reply, at.index, at.position), (first, first_at.index, first_at.position));
    // Another request with the same command is refused: the key is there.
    let other = world.write(next, 43, command, WriteConsistency::Strong);
    let LocalOutcome::Written { reply, .. } = other else { panic!("{other:?}") };
    assert_eq!(core_backends::decode_reply::<Reply>(reply).unwrap_err().code, "ConditionFailed");
}

#[test]
fn a_killed_leader_is_replaced_and_catches_up_when_it_is_back() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("before", "1");
    let old = world.leader();
    world.kill(old);
    world.put("after", "2");
    world.start(NodeId(old));
    world.run(1_500);
    world.assert_equal(3);
    for node in 1..=3 {
        assert_eq!(world.get(node, "after", ReadConsistency::Eventual).as_deref(), Some("2"));
    }
}

#[test]
fn everything_acknowledged_survives_all_nodes_dying_together() {
    let mut world = World::new(3, 3, 1 << 20);
    for number in 0..50 {
        world.put(&format!("key-{number}"), "x");
    }
    (1..=3).for_each(|node| world.kill(node));
    for node in 1..=3 {
        assert!(world.start(NodeId(node)).iter().all(|note| !note.contains("rot")));
    }
    let leader = world.leader();
    for number in 0..50 {
        assert_eq!(world.get(leader, &format!("key-{number}"), ReadConsistency::Strong).as_deref(), Some("x"));
    }
}

#[test]
fn an_idle_cluster_falls_quiet_and_wakes() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("k", "v");
    world.run(2_000);
    let quiet = |world: &World| {
        world.nodes.values().all(|node| node.lane.as_ref().unwrap().view(CLUSTER).unwrap().quiesced)
    };
    assert!(quiet(&world), "{:?}", world.nodes.values().map(|n| n.lane.as_ref().unwrap().views()).collect::<Vec<_>>());
    let sent: u64 = world.nodes.values().map(|node| node.lane.as_ref().unwrap().statistics().messages_sent).sum();
    world.run(5_000);
    let later: u64 = world.nodes.values().map(|node| node.lane.as_ref().unwrap().statistics().messages_sent).sum();
    assert_eq!(sent, later, "a quiet cluster says nothing");
    world.put("k", "w");
    world.run(2_000);
    assert!(quiet(&world));
    // The leader's node dies: the others are told and elect.
    let old = world.leader();
    world.kill(old);
    world.put("k", "x");
}

#[test]
fn a_new_member_starts_from_a_snapshot_and_votes() {
    let mut world = World::new(4, 3, 0);
    for number in 0..200 {
        world.put(&format!("key-{number}"), "some value that takes its place");
    }
    world.run(500);
    let leader = world.leader();
    let add = AdminCommand::AddMember { node: NodeId(4), disk: DiskId(4) };
    let ticket = world.submit(leader, 10_000, LocalKind::Admin(add));
    world.run(50);
    let now = world.now;
    let mut joining = spec(4, 0);
    joining.replica = ReplicaId(4);
    assert!(world.lane(4).create_replica(now, joining).unwrap());
    for _ in 0..8_000 {
        world.run(1);
        if world.completions.contains_key(&ticket) {
            break;
        }
    }
    let outcome = world.completions.remove(&ticket);
    assert!(matches!(outcome, Some(LocalOutcome::AdminDone { .. })), "{outcome:?} {:?} {:?}", world.lane(leader).views(), world.lane(4).views());
    world.run(500);
    world.assert_equal(4);
    assert!(world.lane(4).statistics().snapshots_installed >= 1);
    // And it survives its own restart.
    world.kill(4);
    world.start(NodeId(4));
    world.put("more", "1");
    world.run(1_500);
    world.assert_equal(4);
}

#[test]
fn a_lost_disk_comes_back_under_a_new_replica_id() {
    let mut world = World::new(3, 3, 0);
    for number in 0..100 {
        world.put(&format!("key-{number}"), "value");
    }
    let leader = world.leader();
    let lost = (1..=3).find(|node| *node != leader).unwrap();
    world.kill(lost);
    world.start_blank(NodeId(lost), DiskId(77));
    let replace = AdminCommand::ReplaceDisk { node: NodeId(lost), disk: DiskId(77) };
    let ticket = world.submit(leader, 10_000, LocalKind::Admin(replace));
    world.run(100);
    let now = world.now;
    let mut joining = spec(lost, 0);
    joining.replica = ReplicaId(4);
    world.lane(lost).create_replica(now, joining).unwrap();
    world.run(5_000);
    assert!(matches!(world.completions.remove(&ticket), Some(LocalOutcome::AdminDone { .. })));
    world.assert_equal(3);
    assert!(world.lane(leader).view(CLUSTER).unwrap().members.iter().all(|m| m.replica != ReplicaId(lost)));
}

#[test]
fn leadership_is_handed_over_without_losing_a_write() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = world.leader();
    let next = (1..=3).find(|node| *node != leader).unwrap();
    let outcome = world.call(leader, LocalKind::Admin(AdminCommand::TransferLeader { node: NodeId(next) }));
    assert!(matches!(outcome, LocalOutcome::AdminDone { .. }), "{outcome:?}");
    assert_eq!(world.leader(), next);
    world.put("k", "v");
}

#[test]
fn a_leader_that_is_cut_off_serves_no_strong_read() {
    let mut world = World::new(3, 3, 1 << 20);
    world.put("k", "old");
    let old = world.leader();
    assert_eq!(world.get(old, "k", ReadConsistency::Strong).as_deref(), Some("old"));
    world.cut.insert(NodeId(old));
    let next = world.leader();
    assert_ne!(next, old);
    world.put("k", "new");
    match world.call(old, read("k", ReadConsistency::Strong)) {
        LocalOutcome::Read { reply, .. } => panic!("a stale leader answered {:?}", value_of(reply)),
        LocalOutcome::NotLeader { .. } | LocalOutcome::Refused(_) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn rot_in_the_log_is_mended_from_the_others() {
    let mut world = World::new(3, 3, 64 << 20);
    // Nothing is flushed and cut, so the entries live in the logs alone.
    for number in 0..40 {
        world.put(&format!("key-{number}"), &"v".repeat(600));
    }
    let leader = world.leader();
    let rotten = (1..=3).find(|node| *node != leader).unwrap();
    world.kill(rotten);
    let disk = &mut world.nodes.get_mut(&NodeId(rotten)).unwrap().disk;
    let segment = disk.files()[0];
    let middle = disk.written(segment) / 2 / 4096 * 4096;
    disk.rot_sector(segment, middle + 512);
    let notes = world.start(NodeId(rotten));
    world.run(4_000);
    let statistics = world.lane(rotten).statistics();
    let replaced = world.notices.iter().any(|(_, notice)| matches!(notice, Notice::Damaged { .. }));
    assert!(statistics.entries_repaired > 0 || replaced || notes.is_empty(), "{notes:?} {statistics:?}");
    if !replaced {
        world.assert_equal(3);
    }
}

#[test]
fn a_failed_log_write_ends_acknowledgements() {
    let mut world = World::new(3, 3, 1 << 20);
    let leader = world.leader();
    world.nodes.get_mut(&NodeId(leader)).unwrap().disk.fail_next = true;
    let first = world.call(leader, write(5, &put("k", "v"), WriteConsistency::Eventual, 1));
    assert!(!matches!(first, LocalOutcome::Written { .. }), "{first:?}");
    let second = world.write(leader, 6, put("k", "v"), WriteConsistency::Hopeful);
    assert!(matches!(second, LocalOutcome::Refused(_)), "{second:?}");
    assert!(world.notices.iter().any(|(_, notice)| matches!(notice, Notice::LogFailed { .. })));
    world.cut.insert(NodeId(leader));
    world.put("k", "w");
}

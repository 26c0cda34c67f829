//! Lanes of several nodes in one process, with a network and disks that a seed makes unreliable.
//!
//! By design: one run is a function of its seed; without `Faults` the network takes a millisecond, loses
//! nothing, and disks answer at once.

use crate::api::*;
use crate::storage::restore::{Found, Home, RestoredReplica};
use crate::wire::Payload;
use crate::Lane;
use base_engine::Engine;
use base_types::codec::Encode;
use base_types::{
    BackendKind, ClusterId, DiskId, Generation, LaneId, LogIndex, NodeId, ReadConsistency, ReplicaId, RequestId, Tick,
    Ticket, WriteConsistency,
};
use bytes::Bytes;
use core_backends::metadata::{Command, Query, Reply};
use core_log::testing::{DiskEvent, TestDisk};
use core_log::LogConfig;
use engine_memory::MemoryEngine;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub const SEGMENT_BYTES: u64 = 256 << 10;
pub const CLUSTER: ClusterId = ClusterId(1000);

/// Splitmix: small, and good enough to draw faults from.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// How unreliable the world is, in percent.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub loss: u64,
    pub duplicate: u64,
    /// A message takes up to this long.
    pub delay_ms: u64,
    /// A pending disk write or engine job waits for another turn.
    pub disk_waits: u64,
}

/// A node's engines beside the one in memory.
pub type OpenEngines = Box<dyn Fn() -> Vec<Arc<dyn Engine>>>;

pub struct Node {
    pub lane: Option<Lane>,
    pub engine: Arc<MemoryEngine>,
    /// Opens the node's further engines from what is on its disk.
    pub open_others: Option<OpenEngines>,
    others: Vec<Arc<dyn Engine>>,
    pub disk: TestDisk,
    pub disk_id: DiskId,
    jobs: VecDeque<EngineJob>,
    /// Engine jobs are not begun.
    pub engine_stalled: bool,
    /// Log writes are not finished.
    pub disk_stalled: bool,
}

pub struct World {
    pub now: Tick,
    /// The cluster's life that clients mean.
    pub generation: Generation,
    pub nodes: BTreeMap<NodeId, Node>,
    wires: BTreeMap<(Tick, u64), (NodeId, PeerMessage)>,
    pub cut: BTreeSet<NodeId>,
    pub completions: BTreeMap<Ticket, LocalOutcome>,
    pub notices: Vec<(NodeId, Notice)>,
    /// Tickets under way, by node; a node's die with it.
    pub waiting: BTreeMap<Ticket, NodeId>,
    pub next_ticket: u64,
    next_wire: u64,
    pub log_keep_bytes: u64,
    /// Spaces say whose they are: for nodes started from then on.
    pub label_spaces: bool,
    /// Leaders read under leases: of nodes started from then on.
    pub read_leases: bool,
    /// How often engines are scrubbed, by nodes started from then on; zero: never.
    pub scrub_round_ms: u64,
    /// This node is a durable tail, from its next start on.
    pub tail: Option<u64>,
    /// The greatest index its engine has ever held, and so the bucket.
    pub kept: LogIndex,
    /// How long request ids are kept, by nodes started from then on.
    pub request_ids: RequestIdTerms,
    pub random: Random,
    pub faults: Faults,
    /// What was delivered since somebody last took it.
    pub delivered: Vec<(NodeId, PeerMessage)>,
    pub listening: bool,
    /// What is lost on its way.
    pub lost: fn(&Payload) -> bool,
}

fn config(node: NodeId, disk: DiskId, log_keep_bytes: u64) -> LaneConfig {
    LaneConfig {
        node,
        disk,
        lane: LaneId(0),
        log_identity: disk.0,
        log_reached: 0,
        seed: node.0,
        tick_ms: 10,
        heartbeat_ticks: 3,
        election_ticks: 10,
        quiesce_after_ticks: 20,
        read_leases: true,
        log_stall_elections: 1,
        log_stall_ms: 5_000,
        flush_bytes: 64 << 10,
        flush_after_ms: 200,
        log_keep_bytes,
        snapshot_chunk_bytes: 1024,
        scrub_bytes_per_second: 0,
        scrub_round_ms: 1_000,
        label_spaces: false,
        tail_engine: None,
        buggify_until: Tick(0),
        witness: None,
        keep: core_backends::Keep::default(),
        request_ids: RequestIdTerms::default(),
        level: base_types::FormatLevel(1),
        level_max: base_types::FormatLevel(1),
        log: LogConfig { segment_bytes: SEGMENT_BYTES, ..LogConfig::default() },
    }
}

pub fn spec(node: u64, members: u64) -> ReplicaSpec {
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

pub fn member(node: u64) -> Member {
    Member { replica: ReplicaId(node), node: NodeId(node), disk: DiskId(node), learner: false }
}

impl World {
    pub fn empty(nodes: u64, log_keep_bytes: u64) -> World {
        let mut world = World {
            now: Tick(1_000_000),
            generation: Generation(1),
            nodes: BTreeMap::new(),
            wires: BTreeMap::new(),
            cut: BTreeSet::new(),
            completions: BTreeMap::new(),
            notices: Vec::new(),
            waiting: BTreeMap::new(),
            next_ticket: 0,
            next_wire: 0,
            log_keep_bytes,
            label_spaces: false,
            read_leases: true,
            scrub_round_ms: 0,
            tail: None,
            kept: LogIndex(0),
            // Mostly no client comes again after its deadline.
            request_ids: RequestIdTerms { window_ms: 0, deadline_ms: 0, ..RequestIdTerms::default() },
            random: Random(1),
            faults: Faults::default(),
            delivered: Vec::new(),
            listening: false,
            lost: |_| false,
        };
        for id in 1..=nodes {
            world.start_blank(NodeId(id), DiskId(id));
        }
        world
    }

    pub fn new(nodes: u64, members: u64, log_keep_bytes: u64) -> World {
        let mut world = World::empty(nodes, log_keep_bytes);
        world.form(members);
        world
    }

    /// The same, and request ids are kept so.
    pub fn remembering(nodes: u64, request_ids: RequestIdTerms) -> World {
        let mut world = World { request_ids, ..World::empty(0, 1 << 20) };
        (1..=nodes).for_each(|id| world.start_blank(NodeId(id), DiskId(id)));
        world.form(nodes);
        world
    }

    fn form(&mut self, members: u64) {
        self.form_as(members, "metadata@test");
    }

    fn form_as(&mut self, members: u64, name: &str) {
        for id in 1..=members {
            let now = self.now;
            let spec = ReplicaSpec { name: name.parse().unwrap(), ..spec(id, members) };
            assert!(self.lane(id).create_replica(now, spec).unwrap());
        }
        self.run(1_000);
    }

    /// A cluster of another name, and so of other backends.
    pub fn named(nodes: u64, name: &str) -> World {
        let mut world = World::empty(nodes, 1 << 20);
        world.form_as(nodes, name);
        world
    }

    /// The same, spaces labelled.
    pub fn labelled(nodes: u64, members: u64, log_keep_bytes: u64) -> World {
        World::with_tail(nodes, members, log_keep_bytes, None)
    }

    /// The same, and the engine of one node outlives it.
    pub fn with_tail(nodes: u64, members: u64, log_keep_bytes: u64, tail: Option<u64>) -> World {
        let mut world = World { label_spaces: true, tail, ..World::empty(0, log_keep_bytes) };
        for id in 1..=nodes {
            world.start_blank(NodeId(id), DiskId(id));
        }
        world.form(members);
        world
    }

    pub fn start_blank(&mut self, node: NodeId, disk_id: DiskId) {
        let disk = TestDisk::new(SEGMENT_BYTES);
        let engine = Arc::new(MemoryEngine::new());
        let jobs = VecDeque::new();
        let (open_others, others, lane) = (None, Vec::new(), None);
        let (engine_stalled, disk_stalled) = (false, false);
        let new = Node { lane, engine, open_others, others, disk, disk_id, jobs, engine_stalled, disk_stalled };
        self.nodes.insert(node, new);
        self.start(node);
    }

    pub fn start(&mut self, node: NodeId) -> Vec<String> {
        let (now, keep) = (self.now, self.log_keep_bytes);
        let entry = self.nodes.get_mut(&node).unwrap();
        entry.others = entry.open_others.as_ref().map(|open| open()).unwrap_or_default();
        let mut engines: Vec<Arc<dyn Engine>> = vec![entry.engine.clone()];
        engines.extend(entry.others.iter().cloned());
        let tail_engine = self.tail.filter(|tail| *tail == node.0).map(|_| "memory".into());
        let config = LaneConfig {
            label_spaces: self.label_spaces,
            tail_engine,
            read_leases: self.read_leases,
            scrub_bytes_per_second: if self.scrub_round_ms > 0 { 1 << 20 } else { 0 },
            scrub_round_ms: self.scrub_round_ms,
            request_ids: self.request_ids,
            // Another one each time, as on a node.
            seed: now.0 << 8 | node.0,
            ..config(node, entry.disk_id, keep)
        };
        let (lane, notes) = Lane::open(config, engines, &mut entry.disk, now).unwrap();
        entry.lane = Some(lane);
        for lane in self.nodes.values_mut().filter_map(|other| other.lane.as_mut()) {
            lane.on_peer_up(now, node);
        }
        notes
    }

    pub fn kill(&mut self, node: u64) {
        self.waiting.retain(|_, at| *at != NodeId(node));
        let random = &mut self.random;
        let entry = self.nodes.get_mut(&NodeId(node)).unwrap();
        entry.lane = None;
        entry.disk.crash(&mut |bound| random.below(bound));
        if let Some(job) = entry.jobs.pop_front().filter(|_| random.chance(50)) {
            let _killed_before_it_could_tell = entry.carry_out(&job);
        }
        if self.tail == Some(node) {
            self.kept = self.kept.max(kept(&entry.engine));
        }
        entry.jobs.clear();
        entry.others.clear();
        entry.engine = Arc::new(MemoryEngine::from_image(entry.engine.image()));
        let now = self.now;
        for lane in self.nodes.values_mut().filter_map(|other| other.lane.as_mut()) {
            lane.on_peer_down(now, NodeId(node));
        }
    }

    pub fn lane(&mut self, node: u64) -> &mut Lane {
        self.nodes.get_mut(&NodeId(node)).unwrap().lane.as_mut().unwrap()
    }

    /// The node is (no longer) drained.
    pub fn drain(&mut self, node: u64, drained: bool) {
        let now = self.now;
        self.lane(node).set_leads_nothing(now, drained);
    }

    pub fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now = self.now + Duration::from_millis(1);
            self.step();
        }
    }

    pub fn step(&mut self) {
        let now = self.now;
        while let Some(first) = self.wires.first_entry().filter(|first| first.key().0 <= now) {
            let (from, message) = first.remove();
            let payload = Payload::from_bytes(message.payload.clone()).expect("a lane sends what can be read");
            let blocked = self.cut.contains(&from) || self.cut.contains(&message.to) || (self.lost)(&payload);
            if let Some(lane) = self.nodes.get_mut(&message.to).filter(|_| !blocked).and_then(|n| n.lane.as_mut()) {
                if self.listening {
                    self.delivered.push((from, message.clone()));
                }
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
        let waits = self.faults.disk_waits;
        let random = &mut self.random;
        let node = self.nodes.get_mut(&id).unwrap();
        let Some(lane) = node.lane.as_mut() else { return };
        if lane.next_wake() <= now {
            lane.on_timer(now);
        }
        let output = lane.finish_turn(now);
        output.log.into_iter().for_each(|action| node.disk.start(action));
        while node.disk.pending() > 0 && !node.disk_stalled && !random.chance(waits) {
            match node.disk.finish() {
                Some(DiskEvent::Written(batch)) => lane.on_log_written(now, batch),
                Some(DiskEvent::Ready(segment)) => lane.on_log_segment_ready(now, segment),
                Some(DiskEvent::NoRoom(segment)) => lane.on_log_segment_failed(now, segment),
                Some(DiskEvent::Failed) => lane.on_log_failed(now, "test"),
                None => break,
            }
        }
        node.jobs.extend(output.engine);
        while !node.engine_stalled && !random.chance(waits) {
            let Some(job) = node.jobs.pop_front() else { break };
            let result = job.work.carry_out(engine_of(&node.engine, &node.others, &job));
            if self.tail == Some(id.0) {
                self.kept = self.kept.max(kept(&node.engine));
            }
            lane.on_engine_done(now, job.job, result);
        }
        for message in output.messages {
            self.post(id, message);
        }
        for completion in output.completions {
            self.waiting.remove(&completion.ticket);
            assert!(self.completions.insert(completion.ticket, completion.outcome).is_none(), "answered twice");
        }
        self.notices.extend(output.notices.into_iter().map(|notice| (id, notice)));
    }

    fn post(&mut self, from: NodeId, message: PeerMessage) {
        let copies = 1 + u64::from(self.random.chance(self.faults.duplicate));
        for _ in 0..copies {
            if self.random.chance(self.faults.loss) {
                continue;
            }
            let delay = 1 + self.random.below(self.faults.delay_ms.max(1));
            self.next_wire += 1;
            let due = (self.now + Duration::from_millis(delay), self.next_wire);
            self.wires.insert(due, (from, message.clone()));
        }
    }

    pub fn submit(&mut self, node: u64, deadline_ms: u64, kind: LocalKind) -> Ticket {
        self.submit_to_life(node, deadline_ms, self.generation, kind)
    }

    fn submit_to_life(&mut self, node: u64, deadline_ms: u64, generation: Generation, kind: LocalKind) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        let now = self.now;
        let deadline = now + Duration::from_millis(deadline_ms);
        let operation = LocalOperation { ticket, cluster: CLUSTER, generation, deadline, kind };
        self.waiting.insert(ticket, NodeId(node));
        self.lane(node).submit(now, operation);
        ticket
    }

    pub fn call(&mut self, node: u64, kind: LocalKind) -> LocalOutcome {
        self.call_of_life(node, self.generation, kind)
    }

    pub fn call_of_life(&mut self, node: u64, generation: Generation, kind: LocalKind) -> LocalOutcome {
        let ticket = self.submit_to_life(node, 2_000, generation, kind);
        for _ in 0..4_000 {
            self.run(1);
            if let Some(outcome) = self.completions.remove(&ticket) {
                return outcome;
            }
        }
        panic!("never answered");
    }

    /// As a router would: rebases its clock once.
    pub fn write(&mut self, node: u64, request: u128, command: Command, level: WriteConsistency) -> LocalOutcome {
        let mut time = 0;
        loop {
            let outcome = self.call(node, write(request, &command, level, time));
            match outcome {
                LocalOutcome::StaleRoute { cluster_time_ms } if cluster_time_ms != time => time = cluster_time_ms,
                outcome => return outcome,
            }
        }
    }

    pub fn put(&mut self, key: &str, value: &str) {
        let leader = self.leader();
        let request = 7_000_000 + u128::from(self.next_ticket);
        let outcome = self.write(leader, request, put(key, value), WriteConsistency::Strong);
        assert!(matches!(outcome, LocalOutcome::Written { .. }), "{outcome:?}");
    }

    pub fn get(&mut self, node: u64, key: &str, level: ReadConsistency) -> Option<String> {
        match self.call(node, read(key, level)) {
            LocalOutcome::Read { reply, .. } => value_of(reply),
            other => panic!("{other:?}"),
        }
    }

    pub fn view(&self, node: u64) -> Option<ReplicaView> {
        self.nodes.get(&NodeId(node))?.lane.as_ref()?.view(CLUSTER)
    }

    pub fn leaders(&self) -> Vec<u64> {
        let up = self.nodes.keys().filter(|id| !self.cut.contains(id)).map(|id| id.0);
        up.filter(|id| self.view(*id).is_some_and(|view| view.is_leader)).collect()
    }

    pub fn leader(&mut self) -> u64 {
        for _ in 0..5_000 {
            if let [leader] = self.leaders()[..] {
                return leader;
            }
            self.run(1);
        }
        panic!("no leader");
    }

    pub fn hashes(&mut self) -> Vec<Option<(LogIndex, u64)>> {
        self.nodes.values().filter_map(|node| node.lane.as_ref()).map(|lane| lane.state_hash(CLUSTER)).collect()
    }

    pub fn assert_equal(&mut self, count: usize) {
        let hashes: Vec<_> = self.hashes().into_iter().flatten().collect();
        assert_eq!(hashes.len(), count, "{hashes:?}");
        assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "{hashes:?}");
    }

    pub fn node(&mut self, node: u64) -> &mut Node {
        self.nodes.get_mut(&NodeId(node)).unwrap()
    }
}

/// What a world restored from an engine would continue from.
fn kept(engine: &MemoryEngine) -> LogIndex {
    let home = |space| Home { node: NodeId(1), disk: DiskId(1), engine: "memory".into(), space };
    let read = |space| RestoredReplica::read(engine, space, home(space)).unwrap();
    let found = engine.spaces().unwrap().into_iter().map(read);
    let applied = found.filter_map(|found| match found {
        Found::Replica(replica) => Some(replica.applied()),
        Found::Unfinished => None,
    });
    applied.max().unwrap_or(LogIndex(0))
}

impl Node {
    fn carry_out(&self, job: &EngineJob) -> Result<EngineAnswer, base_engine::EngineError> {
        job.work.carry_out(engine_of(&self.engine, &self.others, job))
    }
}

fn engine_of<'e>(memory: &'e Arc<MemoryEngine>, others: &'e [Arc<dyn Engine>], job: &EngineJob) -> &'e dyn Engine {
    let other = others.iter().find(|engine| engine.name() == job.engine);
    other.map_or(&**memory, |engine| &**engine)
}

pub fn put(key: &str, value: &str) -> Command {
    let (key, value) = (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
    Command::Put { scope: None, key, value }
}

/// Sets a key that must not be there: applied twice, it would be refused.
pub fn create(key: &str, value: &str) -> Command {
    let (key, value) = (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
    Command::CompareAndSet { scope: None, key, expected: None, value: Some(value) }
}

pub fn write(request: u128, command: &Command, level: WriteConsistency, cluster_time_ms: u64) -> LocalKind {
    LocalKind::Write {
        backend: BackendKind::Metadata,
        command: command.to_bytes(),
        consistency: Some(level),
        request_id: RequestId(request),
        cluster_time_ms,
    }
}

pub fn read(key: &str, level: ReadConsistency) -> LocalKind {
    let query = Query::Get { scope: None, key: Bytes::copy_from_slice(key.as_bytes()) };
    LocalKind::Read { backend: BackendKind::Metadata, query: query.to_bytes(), consistency: Some(level) }
}

pub fn value_of(reply: Bytes) -> Option<String> {
    match core_backends::decode_reply::<Reply>(reply).unwrap() {
        Reply::Value { value } => value.map(|value| String::from_utf8(value.to_vec()).unwrap()),
        other => panic!("{other:?}"),
    }
}

//! Whole worlds of cores: several nodes, one or two lanes each, a network of one millisecond, disks
//! that can be lost. What is tried is what a client sees.

use crate::api::{Effect, Effects, Event, NodeConfig, S3Config, Tuning};
use crate::Core;
use base_engine::Engine;
use base_types::access::Caller;
use base_types::action::{Action, ActionResult, Answer, KvTarget, Request, Response, StatusInfo};
use base_types::{BootId, ClusterName, DiskId, FormatLevel, LaneId, NodeId, RequestId, Tick, Ticket, WriteConsistency};
use bytes::Bytes;
use core_log::testing::{DiskEvent, TestDisk};
use core_log::LogConfig;
use core_placement::Labels;
use engine_memory::MemoryEngine;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

mod access;
mod alone;
mod chaos;
mod clusters;
mod cost;
mod decommission;
mod engines;
mod format_level;
mod healing;
mod health;
mod incarnation;
mod level_zero;
mod lost_engines;
mod lost_logs;
mod moves;
#[cfg(feature = "mutants")]
mod mutants;
mod recover;
mod recover_zero;
mod redis;
mod routing;
mod s3;
mod sessions;
mod told;
mod versioned;

const SEGMENT_BYTES: u64 = 256 << 10;
const LATENCY: Duration = Duration::from_millis(1);

struct Lane {
    core: Option<Core>,
    engine: Arc<MemoryEngine>,
    disk: TestDisk,
    /// The mark that a host keeps outside the log.
    reached: u64,
    inbox: Vec<Event>,
}

struct Node {
    lanes: Vec<Lane>,
    disk: DiskId,
    /// Which life of the world its data is of, and the later one it has heard of.
    incarnation: (u64, u64),
    /// The world's format level as it has kept it, and the greatest that its build serves.
    level: (FormatLevel, FormatLevel),
    boot: u64,
    labels: Labels,
    /// What it was last told to remember; as durable as its disk.
    remembered: Vec<crate::api::Announcement>,
    /// The directory of users that its host keeps.
    directory: Arc<crate::api::Directory>,
}

type Wire = (NodeId, LaneId, Event);

/// What becomes of frames between nodes, in thousandths of them.
struct Weather {
    random: core_flow::Random,
    lost: u64,
    doubled: u64,
    late: u64,
    /// The longest that a late one is under way.
    late_ms_max: u64,
}

impl Weather {
    /// When a frame arrives, perhaps never, perhaps twice, each so long after it was sent.
    fn arrivals(&mut self) -> Vec<Duration> {
        if self.random.below(1_000) < self.lost {
            return Vec::new();
        }
        let copies = 1 + usize::from(self.random.below(1_000) < self.doubled);
        let arrival = |random: &mut core_flow::Random, late: bool| match late {
            true => Duration::from_millis(1 + random.below(self.late_ms_max.max(1))),
            false => LATENCY,
        };
        (0..copies)
            .map(|_| {
                let late = self.random.below(1_000) < self.late;
                arrival(&mut self.random, late)
            })
            .collect()
    }
}

struct World {
    now: Tick,
    nodes: BTreeMap<NodeId, Node>,
    wires: BTreeMap<(Tick, u64), Wire>,
    sequence: u64,
    cut: BTreeSet<NodeId>,
    /// Nodes whose disks finish nothing.
    stalled: BTreeSet<NodeId>,
    /// Pairs of which the one hears nothing of the other.
    cut_pairs: BTreeSet<(NodeId, NodeId)>,
    weather: Option<Weather>,
    /// Whether nodes reach only those whose addresses they were told; else everybody.
    by_address: bool,
    dialled: BTreeSet<(NodeId, NodeId)>,
    replies: BTreeMap<Ticket, Response>,
    notes: Vec<String>,
    /// By whom they were told.
    changes: Vec<(NodeId, crate::api::Change)>,
    spent: Vec<(Ticket, crate::api::Spent)>,
    members: u64,
    regions: BTreeMap<String, Vec<u64>>,
    /// Nodes whose configuration lists others than the first as members of the world: these, and none of their region.
    hints: BTreeMap<u64, Vec<u64>>,
    /// Whether doors ask who somebody is.
    access: bool,
}

/// Node 1…n: regions and chassis by number.
fn labels(region: &str, number: u64) -> Labels {
    Labels { region: region.into(), az: format!("{number}"), rack: "r".into(), chassis: format!("c{number}") }
}

fn tuning() -> Tuning {
    Tuning {
        tick_ms: 10,
        quiesce_after_ticks: 50,
        flush_bytes: 64 << 10,
        flush_after_ms: 500,
        log_keep_bytes: 1 << 20,
        snapshot_chunk_bytes: 4096,
        node_heartbeat_ms: 100,
        node_down_ms: 1_000,
        replace_after_ms: 3_000,
        log: LogConfig { segment_bytes: SEGMENT_BYTES, ..LogConfig::default() },
        ..Tuning::default()
    }
}

impl World {
    /// `regions`: one node each, in order; the first `members` are the world cluster.
    fn new(regions: &[&str], members: u64, lanes: u16) -> World {
        World::with_access(regions, members, lanes, false)
    }

    /// Of nodes that ask who somebody is, or do not.
    fn with_access(regions: &[&str], members: u64, lanes: u16, access: bool) -> World {
        let mut world = World {
            now: Tick::from_millis(1_000),
            nodes: BTreeMap::new(),
            wires: BTreeMap::new(),
            sequence: 0,
            cut: BTreeSet::new(),
            stalled: BTreeSet::new(),
            cut_pairs: BTreeSet::new(),
            weather: None,
            by_address: false,
            dialled: BTreeSet::new(),
            replies: BTreeMap::new(),
            notes: Vec::new(),
            changes: Vec::new(),
            spent: Vec::new(),
            members,
            regions: BTreeMap::new(),
            hints: BTreeMap::new(),
            access,
        };
        for (at, region) in regions.iter().enumerate() {
            let id = at as u64 + 1;
            world.regions.entry((*region).into()).or_default().push(id);
            let node = Node {
                lanes: Vec::new(),
                disk: DiskId(0),
                incarnation: (0, 0),
                level: (FormatLevel(1), FormatLevel(1)),
                boot: 0,
                labels: labels(region, id),
                remembered: Vec::new(),
                directory: Arc::default(),
            };
            world.nodes.insert(NodeId(id), node);
            world.new_disk(id, lanes);
        }
        for id in 1..=regions.len() as u64 {
            world.start(id);
        }
        world
    }

    fn new_disk(&mut self, id: u64, lanes: u16) {
        let node = self.nodes.get_mut(&NodeId(id)).unwrap();
        node.disk = DiskId(node.disk.0 + 1_000 + id);
        node.remembered.clear();
        node.incarnation = (0, 0);
        node.level.0 = FormatLevel(1);
        let blank = |_| Lane {
            core: None,
            engine: Arc::new(MemoryEngine::new()),
            disk: TestDisk::new(SEGMENT_BYTES),
            reached: 0,
            inbox: Vec::new(),
        };
        node.lanes = (0..lanes).map(blank).collect();
    }

    fn config(&self, id: u64, lane: u16) -> NodeConfig {
        let node = &self.nodes[&NodeId(id)];
        let address = |id: u64| (NodeId(id), format!("node-{id}:7000"));
        NodeConfig {
            world: "test".into(),
            incarnation: node.incarnation.0,
            superseded_by: node.incarnation.1,
            level: node.level.0,
            level_max: node.level.1,
            node: NodeId(id),
            disk: node.disk,
            log_reached: node.lanes[usize::from(lane)].reached,
            boot: BootId(node.boot),
            lane: LaneId(lane),
            lane_count: node.lanes.len() as u16,
            labels: node.labels.clone(),
            peer_address: address(id).1,
            http_address: format!("node-{id}:8000"),
            doors: vec![core_placement::Door { name: "etcd/etcd".into(), url: format!("http://node-{id}:2379") }],
            world_members: match self.hints.get(&id) {
                Some(hints) => hints.iter().map(|id| address(*id)).collect(),
                None => (1..=self.members).map(address).collect(),
            },
            region_members: match self.hints.get(&id) {
                Some(_) => Vec::new(),
                None => self.regions[&node.labels.region].iter().take(3).map(|id| address(*id)).collect(),
            },
            remembered: node.remembered.clone(),
            default_engine: "memory".into(),
            engines: vec!["memory".into()],
            version: "test".into(),
            tuning: tuning(),
            seed: id * 1_000 + node.boot,
            s3: S3Config::for_world(self.members as usize),
            access: crate::api::AccessConfig { required: self.access, sync_ms: 200 },
        }
    }

    fn start(&mut self, id: u64) {
        self.try_start(id).unwrap_or_else(|reason| panic!("node {id} does not start: {reason}"));
    }

    /// The error says why it refuses.
    fn try_start(&mut self, id: u64) -> Result<(), String> {
        let now = self.now;
        self.nodes.get_mut(&NodeId(id)).unwrap().boot += 1 + id * 100;
        for lane in 0..self.nodes[&NodeId(id)].lanes.len() {
            let config = self.config(id, lane as u16);
            let slot = &mut self.nodes.get_mut(&NodeId(id)).unwrap().lanes[lane];
            let engines: Vec<Arc<dyn Engine>> = vec![slot.engine.clone()];
            let (core, effects) =
                Core::open(config, engines, &mut slot.disk, now).map_err(|error| error.to_string())?;
            slot.reached = slot.reached.max(core.lane().durable_batch().0);
            slot.core = Some(core);
            self.carry_out(NodeId(id), LaneId(lane as u16), effects);
        }
        let directory = self.nodes[&NodeId(id)].directory.clone();
        if directory.epoch() > 0 {
            self.tell_all(NodeId(id), || Event::Directory { directory: directory.clone() });
        }
        let others: Vec<NodeId> = self.nodes.keys().copied().filter(|other| other.0 != id).collect();
        let all = !self.by_address;
        for other in others.into_iter().filter(|_| all) {
            if self.is_running(other.0) {
                self.tell_all(other, || Event::PeerUp { node: NodeId(id) });
                self.tell_all(NodeId(id), || Event::PeerUp { node: other });
            }
        }
        Ok(())
    }

    fn is_running(&self, id: u64) -> bool {
        self.nodes[&NodeId(id)].lanes.first().is_some_and(|lane| lane.core.is_some())
    }

    fn tell_all(&mut self, node: NodeId, event: impl Fn() -> Event) {
        for lane in &mut self.nodes.get_mut(&node).unwrap().lanes {
            lane.inbox.push(event());
        }
    }

    fn kill(&mut self, id: u64) {
        self.dialled.retain(|(node, _)| node.0 != id);
        for lane in &mut self.nodes.get_mut(&NodeId(id)).unwrap().lanes {
            lane.core = None;
            lane.inbox.clear();
            lane.disk.crash(&mut |_| 0);
            lane.engine = Arc::new(MemoryEngine::from_image(lane.engine.image()));
        }
        let others: Vec<NodeId> = self.nodes.keys().copied().filter(|other| other.0 != id).collect();
        for other in others {
            self.tell_all(other, || Event::PeerDown { node: NodeId(id) });
        }
    }

    /// A node has learned where another is.
    fn dial(&mut self, id: NodeId, node: NodeId) {
        let fresh = self.dialled.insert((id, node));
        if fresh && self.by_address && self.is_running(node.0) {
            self.tell_all(node, || Event::PeerUp { node: id });
            self.tell_all(id, || Event::PeerUp { node });
        }
    }

    fn send(&mut self, to: NodeId, lane: LaneId, event: Event) {
        self.sequence += 1;
        self.wires.insert((self.now + LATENCY, self.sequence), (to, lane, event));
    }

    fn carry_out(&mut self, id: NodeId, lane: LaneId, effects: Effects) {
        for effect in effects.list {
            let slot = &mut self.nodes.get_mut(&id).unwrap().lanes[usize::from(lane.0)];
            match effect {
                Effect::Send { to, lane, frame } => {
                    let cut = self.cut_pairs.contains(&(id.min(to), id.max(to)));
                    let cut = cut || self.by_address && !self.dialled.contains(&(id, to));
                    if !cut && !self.cut.contains(&id) && !self.cut.contains(&to) && self.nodes.contains_key(&to) {
                        let arrivals = self.weather.as_mut().map_or(vec![LATENCY], Weather::arrivals);
                        for after in arrivals {
                            self.sequence += 1;
                            let event = Event::Frame { from: id, frame: frame.clone() };
                            self.wires.insert((self.now + after, self.sequence), (to, lane, event));
                        }
                    }
                }
                Effect::Incarnation { own, superseded_by } => {
                    self.nodes.get_mut(&id).unwrap().incarnation = (own, superseded_by);
                }
                Effect::FormatLevel { level } => {
                    let kept = &mut self.nodes.get_mut(&id).unwrap().level.0;
                    *kept = level.max(*kept);
                }
                Effect::Mail { to, mail } => self.send(id, to, Event::Mail { from: lane, mail }),
                Effect::Reply { ticket, response } => {
                    assert!(self.replies.insert(ticket, response).is_none(), "{ticket} answered twice");
                }
                Effect::Log(action) => slot.disk.start(action),
                Effect::Engine(job) => {
                    let result = job.work.carry_out(&*slot.engine);
                    slot.inbox.push(Event::EngineDone { job: job.job, result });
                }
                Effect::Drained { drained } => self.tell_all(id, || Event::Drained { drained }),
                Effect::Spent { ticket, spent } => self.spent.push((ticket, *spent)),
                Effect::Change(change) => self.changes.push((id, change)),
                Effect::Note { text, .. } => self.notes.push(format!("{} node {id}: {text}", self.now.as_millis())),
                Effect::Halt { reason } => panic!("node {id} halts: {reason}"),
                Effect::Directory { directory } => {
                    let node = self.nodes.get_mut(&id).unwrap();
                    if node.directory.epoch() != directory.epoch() {
                        node.directory = directory.clone();
                        self.tell_all(id, || Event::Directory { directory: directory.clone() });
                    }
                }
                Effect::Remember { announcements } => self.nodes.get_mut(&id).unwrap().remembered = announcements,
                Effect::Address { node, .. } => self.dial(id, node),
                Effect::Forget { node } => drop(self.dialled.remove(&(id, node))),
            }
        }
    }

    fn turn(&mut self, id: NodeId, lane: usize) {
        let (now, stalled) = (self.now, self.stalled.contains(&id));
        let slot = &mut self.nodes.get_mut(&id).unwrap().lanes[lane];
        let Some(core) = slot.core.as_mut() else { return };
        let mut events: Vec<Event> = Vec::new();
        while let Some(event) = if stalled { None } else { slot.disk.finish() } {
            events.push(match event {
                DiskEvent::Written(batch) => {
                    slot.reached = slot.reached.max(1);
                    Event::LogWritten { batch }
                }
                DiskEvent::Ready(segment) => Event::LogSegmentReady { segment },
                DiskEvent::NoRoom(segment) => Event::LogSegmentFailed { segment },
                DiskEvent::Failed => Event::LogFailed { message: "test".into() },
            });
        }
        events.append(&mut slot.inbox);
        if core.next_wake() <= now {
            events.push(Event::Timer);
        }
        if events.is_empty() {
            return;
        }
        let mut effects = Effects::default();
        for event in events {
            core.step(now, event, &mut effects);
        }
        core.finish_turn(now, &mut effects);
        self.carry_out(id, LaneId(lane as u16), effects);
    }

    fn step(&mut self) {
        self.now = self.now + LATENCY;
        while let Some(entry) = self.wires.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, lane, event) = entry.remove();
            let node = self.nodes.get_mut(&to).unwrap();
            let lane = usize::from(lane.0).min(node.lanes.len() - 1);
            // What reaches a node that is down is gone.
            if node.lanes[lane].core.is_some() {
                node.lanes[lane].inbox.push(event);
            }
        }
        let ids: Vec<(NodeId, usize)> =
            self.nodes.iter().flat_map(|(id, node)| (0..node.lanes.len()).map(|lane| (*id, lane))).collect();
        for (id, lane) in ids {
            self.turn(id, lane);
        }
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.step();
        }
    }

    /// Runs until it holds.
    fn until(&mut self, what: &str, millis: u64, mut holds: impl FnMut(&mut World) -> bool) {
        for _ in 0..millis {
            if holds(self) {
                return;
            }
            self.step();
        }
        panic!("not within {millis} ms: {what}; notes: {:#?}", self.notes);
    }

    fn ask(&mut self, node: u64, request: Request) -> Ticket {
        self.sequence += 1;
        let (ticket, now) = (Ticket(self.sequence), self.now);
        let node = self.nodes.get_mut(&NodeId(node)).unwrap();
        let lane = self.sequence as usize % node.lanes.len();
        node.lanes[lane].inbox.push(Event::Request { ticket, asked: now, request });
        ticket
    }

    fn request(&mut self, node: u64, request: Request) -> Response {
        let ticket = self.ask(node, request);
        for _ in 0..40_000 {
            if let Some(response) = self.replies.remove(&ticket) {
                return response;
            }
            self.step();
        }
        panic!("never answered; notes: {:#?}", self.notes);
    }

    fn act(&mut self, node: u64, action: Action) -> Response {
        self.request(node, request(action))
    }

    fn done(&mut self, node: u64, action: Action) -> Answer {
        let name = action.name();
        self.act(node, action).unwrap_or_else(|failure| panic!("{name}: {failure:?}"))
    }

    fn status(&mut self, node: u64) -> StatusInfo {
        // Lane zero knows the most.
        self.sequence += 1;
        let (ticket, now) = (Ticket(self.sequence), self.now);
        let slot = &mut self.nodes.get_mut(&NodeId(node)).unwrap().lanes[0];
        slot.inbox.push(Event::Request { ticket, asked: now, request: request(Action::Status) });
        for _ in 0..1_000 {
            self.run(1);
            match self.replies.remove(&ticket).map(|response| response.unwrap().result) {
                Some(ActionResult::Status(status)) => return status,
                Some(other) => panic!("{other:?}"),
                None => {}
            }
        }
        panic!("the status was never told");
    }

    fn ready(&mut self) {
        let ids: Vec<u64> = self.nodes.keys().map(|id| id.0).collect();
        for id in ids {
            self.until("ready", 20_000, |world| world.is_running(id) && world.status(id).ready);
        }
    }

    fn put(&mut self, node: u64, target: &KvTarget, key: &str, value: &str) -> Response {
        self.act(node, Action::KvPut { target: target.clone(), key: bytes(key), value: bytes(value) })
    }

    fn get(&mut self, node: u64, target: &KvTarget, key: &str) -> Option<String> {
        match self.done(node, Action::KvGet { target: target.clone(), key: bytes(key) }).result {
            ActionResult::Value { value } => value.map(|value| String::from_utf8(value.to_vec()).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    fn create(&mut self, node: u64, name: &str, rule: &str) -> ClusterName {
        let name: ClusterName = name.parse().unwrap();
        self.done(node, Action::CreateCluster { name: name.clone(), rule: rule.into() });
        name
    }

    /// The node that leads a cluster, as its members see it.
    fn leader(&mut self, name: &ClusterName) -> u64 {
        for _ in 0..10_000 {
            for (id, node) in &self.nodes {
                let views =
                    node.lanes.iter().filter_map(|lane| lane.core.as_ref()).flat_map(|core| core.lane().views());
                if views.filter(|view| view.name == *name).any(|view| view.is_leader) {
                    return id.0;
                }
            }
            self.step();
        }
        panic!("{name} has no leader");
    }

    fn holders(&self, name: &ClusterName) -> Vec<u64> {
        let holds = |node: &Node| {
            let cores = node.lanes.iter().filter_map(|lane| lane.core.as_ref());
            cores.flat_map(|core| core.lane().views()).any(|view| view.name == *name && !view.blank && !view.is_learner)
        };
        self.nodes.iter().filter(|(_, node)| holds(node)).map(|(id, _)| id.0).collect()
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn request(action: Action) -> Request {
    Request {
        action,
        consistency: None,
        read_consistency: None,
        deadline: Duration::from_secs(5),
        request_id: None,
        after: None,
        expected_bucket_owner: None,
        caller: Caller::Node,
    }
}

fn level(action: Action, level: WriteConsistency, id: u128) -> Request {
    Request { consistency: Some(level), request_id: Some(RequestId(id)), ..request(action) }
}

fn code(response: Response) -> &'static str {
    response.unwrap_err().refusal.code.as_str()
}

//! Everything a core knows beside its lane, and the small helpers that every part of it uses.
//!
//!   requests ─▶ router ─▶ lane here | frames to peers
//!   plans ────────┘          formation, node map, healing, configuration cluster: `governor` parts
//!
//! Always: plans, routing, peers and the scheduler own private fields; parts meet in `NodeState`'s methods. Lane zero alone runs the
//! node's own affairs. Not here: the lane (core-cluster), the public face (`core.rs`).

use crate::api::{Effect, Effects, NodeConfig, NoteLevel};
use crate::durable::DurableQueue;
use crate::flow_recovery::FlowRecovery;
use crate::frame::{Item, Sender};
use crate::lane_handle::LaneHandle;
use crate::membership::config_cluster::ConfigCluster;
use crate::membership::disk_rollback::DiskRollback;
use crate::membership::formation::Formations;
use crate::membership::health::Health;
use crate::membership::level_zero::LevelZeroMembers;
use crate::membership::nodes::Nodes;
use crate::membership::peers::Peers;
use crate::membership::rebalance::Rebalance;
use crate::membership::replica_repair::ReplicaRepair;
use crate::membership::stale_generations::StaleGenerations;
use crate::membership::status::StatusAsked;
use crate::membership::untold::Untold;
use crate::outbox::Outbox;
use crate::plan_runner::PlanTable;
use crate::routing::cache::Route;
use crate::routing::Routing;
use crate::s3_scheduler::S3Scheduler;
use crate::timers::{Timers, WallClock};
use base_types::{
    lane_of, ClusterId, ClusterName, Generation, LaneId, NodeId, ReadConsistency, Term, Tick, WriteConsistency,
    LANE_ZERO,
};
use core::time::Duration;
use core_cluster::api::Member;
use core_flow::Random;
use core_s3::S3State;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Notes about bad frames: at most one in this time.
const BAD_FRAME_NOTE_EVERY: Duration = Duration::from_secs(10);
/// The rules of the two level 0 clusters: their members are an operator's choice, the rule only names levels.
const LEVEL_ZERO_RULE: &str = "location=world";
/// Ids 2…901 are the regions' clusters; `reference` gives out ids from 1000.
const REGION_IDS: u64 = 900;

/// One turn's surroundings.
pub struct Turn<'a> {
    pub now: Tick,
    pub lane: &'a mut dyn LaneHandle,
    pub effects: &'a mut Effects,
}

/// Counters of routing and flows; all only grow but the last two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouterStatistics {
    pub requests: u64,
    pub requests_overloaded: u64,
    /// Their deadline had passed when a core came to them: not done.
    pub requests_expired: u64,
    pub requests_failed: u64,
    pub requests_unknown: u64,
    pub attempts_local: u64,
    pub attempts_remote: u64,
    pub redirects: u64,
    pub attempt_timeouts: u64,
    pub retries: u64,
    pub resolves: u64,
    pub cache_flushes: u64,
    pub forwards_served: u64,
    pub frames_received: u64,
    pub frames_refused: u64,
    pub plans_started: u64,
    pub plans_finished: u64,
    pub operations_pending: u64,
    pub routes_cached: u64,
}

/// A level 0 cluster as configured: who forms it, and a hint where to find it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LevelZero {
    pub cluster: ClusterId,
    pub name: Arc<ClusterName>,
    pub members: Vec<NodeId>,
}

/// A core without its lane.
pub struct NodeState {
    pub config: NodeConfig,
    pub random: Random,
    pub counter: u64,
    pub timers: Timers,
    pub routing: Routing,
    pub plans: PlanTable,
    pub durable: DurableQueue,
    pub health: Health,
    pub outbox: Outbox,
    pub disk_rollback: DiskRollback,
    pub peers: Peers,
    pub level_zero: Vec<LevelZero>,
    pub level_zero_members: LevelZeroMembers,
    pub world: Arc<ClusterName>,
    pub formations: Formations,
    pub nodes: Nodes,
    pub replica_repair: ReplicaRepair,
    pub stale_generations: StaleGenerations,
    pub untold: Untold,
    pub rebalance: Rebalance,
    pub config_cluster: ConfigCluster,
    pub flow_recovery: FlowRecovery,
    pub status_asked: StatusAsked,
    pub statistics: RouterStatistics,
    pub s3: S3State,
    pub s3_scheduler: S3Scheduler,
    pub wall_clock: WallClock,
    /// Whether anything was given to the lane since its last `finish_turn`.
    pub lane_dirty: bool,
    bad_frame_noted: Tick,
}

impl NodeState {
    /// A core's state at start.
    pub fn new(config: NodeConfig) -> NodeState {
        let sender = Sender {
            node: config.node,
            boot: config.boot,
            lane: config.lane,
            lanes: config.lane_count,
            disk: config.disk,
            batch_at_boot: 0,
            batch: 0,
            incarnation: config.incarnation,
        };
        let level_zero = level_zero(&config);
        let level_zero_members = LevelZeroMembers::remembered(&config.remembered);
        let mut state = NodeState {
            random: Random::new(config.seed ^ u64::from(config.lane.0).wrapping_mul(0x9e37_79b9)),
            counter: 0,
            timers: Timers::default(),
            routing: Routing::default(),
            plans: PlanTable::default(),
            durable: DurableQueue::default(),
            health: Health::default(),
            outbox: Outbox::new(sender),
            disk_rollback: DiskRollback::default(),
            peers: Peers::default(),
            world: Arc::new(ClusterName::world()),
            formations: Formations::default(),
            nodes: Nodes::default(),
            replica_repair: ReplicaRepair::default(),
            stale_generations: StaleGenerations::default(),
            untold: Untold::default(),
            rebalance: Rebalance::default(),
            config_cluster: ConfigCluster::default(),
            flow_recovery: FlowRecovery::default(),
            status_asked: StatusAsked::default(),
            statistics: RouterStatistics::default(),
            s3: S3State::new(config.s3.clone()),
            s3_scheduler: S3Scheduler::default(),
            wall_clock: WallClock::default(),
            lane_dirty: true,
            bad_frame_noted: Tick(0),
            level_zero,
            level_zero_members,
            config,
        };
        state.pin_level_zero();
        state
    }

    fn pin_level_zero(&mut self) {
        for zero in &self.level_zero {
            let members = zero.members.iter().map(|node| Member {
                replica: base_types::ReplicaId(node.0),
                node: *node,
                disk: base_types::DiskId(0),
                learner: false,
            });
            let known = self.level_zero_members.of(zero.cluster);
            let generation = known.map_or(Generation(1), |known| known.generation);
            let members = known.map_or_else(|| members.collect(), |known| known.members());
            let route = level_zero_route(zero.cluster, generation, members);
            self.routing.learn_route(zero.name.clone(), route);
        }
    }

    /// A number never used before in this core.
    pub fn next_number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// The longest election timeout: how long a cluster may be without a leader when all goes well.
    pub fn election_timeout(&self) -> Duration {
        Duration::from_millis(self.config.tuning.tick_ms * self.config.tuning.election_ticks as u64 * 2)
    }

    /// On which lane of a node a cluster lives. A node never heard of counts as having as many lanes as this one: it
    /// passes on what meets the wrong lane.
    pub fn lane_on(&self, node: NodeId, cluster: ClusterId) -> LaneId {
        let count = if node == self.config.node { None } else { self.peers.lanes_of(node) };
        lane_of(cluster, count.unwrap_or(self.config.lane_count))
    }

    /// Whether a cluster's replicas on this node live on this lane.
    pub fn is_mine(&self, cluster: ClusterId) -> bool {
        lane_of(cluster, self.config.lane_count) == self.config.lane
    }

    /// Whether this lane runs the node's own affairs.
    pub fn is_lane_zero(&self) -> bool {
        self.config.lane == LANE_ZERO
    }

    /// Whether a node can be expected to answer.
    pub fn is_up(&self, node: NodeId) -> bool {
        node == self.config.node
            || !self.peers.is_unreachable(node) && self.nodes.map.get(node).is_none_or(|record| record.up)
    }

    /// Says something to the lane of a cluster on a node.
    pub fn say(&mut self, node: NodeId, cluster: ClusterId, item: &Item) {
        let lane = self.lane_on(node, cluster);
        self.outbox.push(node, lane, item);
    }

    /// Says something to lane zero of this node; on lane zero itself use the handler directly.
    pub fn tell_lane_zero(&mut self, item: &Item) {
        self.outbox.push(self.config.node, LANE_ZERO, item);
    }

    /// Says something to every other lane of this node.
    pub fn tell_other_lanes(&mut self, item: &Item) {
        for lane in 0..self.config.lane_count {
            if LaneId(lane) != self.config.lane {
                self.outbox.push(self.config.node, LaneId(lane), item);
            }
        }
    }

    /// The level 0 cluster of this id.
    pub fn level_zero_of(&self, cluster: ClusterId) -> Option<&LevelZero> {
        self.level_zero.iter().find(|zero| zero.cluster == cluster)
    }

    /// A frame that could not be read, or that its sender may not send.
    pub fn refuse_frame(&mut self, turn: &mut Turn<'_>, from: NodeId, why: &str) {
        self.statistics.frames_refused += 1;
        if self.statistics.frames_refused == 1 || turn.now.since(self.bad_frame_noted) >= BAD_FRAME_NOTE_EVERY {
            self.bad_frame_noted = turn.now;
            let text =
                format!("refused a frame from node {from}: {why} ({} refused so far)", self.statistics.frames_refused);
            turn.note(NoteLevel::Warning, text);
        }
    }
}

impl Turn<'_> {
    /// Tells the operator.
    pub fn note(&mut self, level: NoteLevel, text: impl Into<String>) {
        self.effects.list.push(Effect::Note { level, text: text.into() });
    }
}

/// The id of a region's level 0 cluster: every node of the region computes it alike.
pub fn region_cluster_id(region: &str) -> ClusterId {
    ClusterId(2 + xxhash_rust::xxh3::xxh3_64(region.as_bytes()) % REGION_IDS)
}

/// Whether an id is one of the level 0 clusters' (the world's, the regions'), configured here or not.
pub fn is_level_zero(cluster: ClusterId) -> bool {
    cluster.0 < WORLD_CLUSTER.0 + 1 + REGION_IDS
}

/// The id of the world cluster.
pub const WORLD_CLUSTER: ClusterId = ClusterId(1);

/// What routes to a level 0 cluster with these members.
pub fn level_zero_route(cluster: ClusterId, generation: Generation, members: Arc<[Member]>) -> Route {
    Route {
        cluster,
        generation,
        members,
        leader: None,
        term: Term(0),
        rule: LEVEL_ZERO_RULE.into(),
        consistency: WriteConsistency::Strong,
        read_consistency: ReadConsistency::Strong,
        clock: None,
        pinned: true,
        used: true,
    }
}

fn level_zero(config: &NodeConfig) -> Vec<LevelZero> {
    let sorted = |members: &[(NodeId, String)]| {
        let set: BTreeSet<NodeId> = members.iter().map(|(node, _)| *node).collect();
        set.into_iter().collect::<Vec<NodeId>>()
    };
    let mut clusters = vec![LevelZero {
        cluster: WORLD_CLUSTER,
        name: Arc::new(ClusterName::world()),
        members: sorted(&config.world_members),
    }];
    let region = region_cluster_id(&config.labels.region);
    let has_region = !config.region_members.is_empty()
        || config.remembered.iter().any(|announcement| announcement.cluster == region);
    if let (true, Ok(name)) = (has_region, ClusterName::regional(&config.labels.region)) {
        clusters.push(LevelZero { cluster: region, name: Arc::new(name), members: sorted(&config.region_members) });
    }
    clusters
}

//! What every part of a core uses: who this node is, time, randomness, timers, the ways out, and whom it knows.
//!
//! ```text
//!   Turn { now, lane, effects, core } ── handed down through every part ──▶ core: CoreContext
//!     known_nodes.rs   the node map, addresses, connections      local_replicas.rs   replicas on this node
//!     peers.rs         who can be reached, how many lanes         level_zero.rs       clusters known by configuration
//! ```
//!
//! By design: the parts (routing/, plan_runner.rs, membership/, s3_scheduler.rs, flow_recovery.rs) share nothing but this; fields are
//! private, and what is done to them has a name. Lane zero alone runs the node's own affairs.
//! Not here: what a part knows of its own work.

pub(crate) mod access;
pub(crate) mod known_nodes;
pub(crate) mod level_zero;
pub(crate) mod local_replicas;
pub(crate) mod peers;

use crate::api::{Change, Effect, Effects, NodeConfig, NoteLevel};
use crate::context::access::Access;
use crate::context::known_nodes::KnownNodes;
use crate::context::level_zero::{configured, LevelZero};
use crate::context::local_replicas::LocalReplicas;
use crate::durable::{Deferred, DurableQueue};
use crate::frame::{Item, Sender};
use crate::lane_handle::LaneHandle;
use crate::outbox::Outbox;
use crate::timers::{TimerKey, Timers, WallClock};
use base_types::{lane_of, ClusterId, ClusterName, ErrorCode, FormatLevel, LaneId, NodeId, Refusal, Tick, LANE_ZERO};
use core::time::Duration;
use core_flow::Random;
use core_log::BatchNumber;
use core_placement::NodeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Notes about bad frames: at most one in this time.
const BAD_FRAME_NOTE_EVERY: Duration = Duration::from_secs(10);
/// The host looks once a second: the busiest of so many looks says whether there is CPU to spare.
const LOOKS: usize = 5;

/// One turn's surroundings.
pub struct Turn<'a> {
    pub now: Tick,
    pub lane: &'a mut dyn LaneHandle,
    pub effects: &'a mut Effects,
    pub core: &'a mut CoreContext,
}

/// Counters of routing and flows; all only grow but the last two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouterStatistics {
    pub requests: u64,
    pub requests_overloaded: u64,
    /// Their deadline had passed when a core came to them: not done.
    pub requests_expired: u64,
    /// Of nobody known, or not allowed to who asked.
    pub requests_denied: u64,
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

/// What the host said of the machine: load and disk fill, and the load at the last looks.
#[derive(Default)]
struct Machine {
    load: u32,
    disk: u32,
    looks: [u32; LOOKS],
}

impl Machine {
    fn look(&mut self, load: u32, disk: u32) {
        (self.load, self.disk) = (load, disk);
        self.looks.rotate_right(1);
        self.looks[0] = load;
    }

    fn busiest(&self) -> u32 {
        self.looks.into_iter().max().unwrap_or(0)
    }
}

/// What all parts of a core use.
pub struct CoreContext {
    config: NodeConfig,
    random: Random,
    /// The last number that was given out.
    counter: u64,
    timers: Timers,
    durable: DurableQueue,
    outbox: Outbox,
    nodes: KnownNodes,
    access: Access,
    replicas: LocalReplicas,
    level_zero: Vec<LevelZero>,
    world: Arc<ClusterName>,
    statistics: RouterStatistics,
    wall_clock: WallClock,
    machine: Machine,
    /// Whether anything was given to the lane since its last `finish_turn`.
    lane_dirty: bool,
    bad_frame_noted: Tick,
}

impl CoreContext {
    /// As it is at start. `batch`: the last durable batch of the lane's log.
    pub fn new(config: NodeConfig, batch: BatchNumber) -> CoreContext {
        let sender = Sender {
            node: config.node,
            boot: config.boot,
            lane: config.lane,
            lanes: config.lane_count,
            disk: config.disk,
            batch_at_boot: batch.0,
            batch: batch.0,
            incarnation: config.incarnation,
            level: config.level,
        };
        CoreContext {
            random: Random::new(config.seed ^ u64::from(config.lane.0).wrapping_mul(0x9e37_79b9)),
            counter: 0,
            timers: Timers::default(),
            durable: DurableQueue::default(),
            outbox: Outbox::new(sender),
            nodes: KnownNodes::default(),
            access: Access::new(config.access.required),
            replicas: LocalReplicas::default(),
            level_zero: configured(&config),
            world: Arc::new(ClusterName::world()),
            statistics: RouterStatistics::default(),
            wall_clock: WallClock::default(),
            machine: Machine::default(),
            lane_dirty: true,
            bad_frame_noted: Tick(0),
            config,
        }
    }

    /// The world's formats are of this level from now on: frames say so.
    pub fn raise_level(&mut self, level: FormatLevel) {
        self.config.level = level;
        self.outbox.note_level(level);
    }

    /// Every other lane of this node gets a frame this turn, if only to hear what all frames say.
    pub fn greet_own_lanes(&mut self) {
        let (node, own) = (self.config.node, self.config.lane);
        for lane in (0..self.config.lane_count).map(LaneId).filter(|lane| *lane != own) {
            self.outbox.greet(node, lane);
        }
    }

    // Who this is.

    /// The configuration.
    pub fn config(&self) -> &NodeConfig {
        &self.config
    }

    /// This node's id.
    pub fn node(&self) -> NodeId {
        self.config.node
    }

    /// Whether this lane runs the node's own affairs.
    pub fn is_lane_zero(&self) -> bool {
        self.config.lane == LANE_ZERO
    }

    /// The longest election timeout: how long a cluster may be without a leader when all goes well.
    pub fn election_timeout(&self) -> Duration {
        Duration::from_millis(self.config.tuning.tick_ms * self.config.tuning.election_ticks as u64 * 2)
    }

    /// What this core knows of who may do what.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The same, to be told of a newer copy of the directory.
    pub fn access_mut(&mut self) -> &mut Access {
        &mut self.access
    }

    /// Why this node serves nothing, if it has learned of a later life of its world.
    pub fn superseded(&self) -> Option<Refusal> {
        let later = self.config.superseded_by;
        (later > 0).then(|| {
            let message = format!(
                "world {} was restored or recovered as incarnation {later}, and the data of node {} is of incarnation {}: it serves nothing; stop it, move its data directory away and start it, and it joins the world as it is now",
                self.config.world, self.config.node, self.config.incarnation
            );
            Refusal::new(ErrorCode::Superseded, message)
        })
    }

    /// The life of the world that this node's data is of, and the later one that ended it (0: none).
    pub fn set_incarnation(&mut self, own: u64, superseded_by: u64) {
        (self.config.incarnation, self.config.superseded_by) = (own, superseded_by);
        self.outbox.note_incarnation(own);
    }

    // Numbers, chance, time.

    /// A number never used before in this core.
    pub fn next_number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// What [`CoreContext::next_number`] returns next.
    pub fn upcoming_number(&self) -> u64 {
        self.counter + 1
    }

    /// The core's own random numbers.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The configuration beside the random numbers, for a planner that is handed both.
    pub fn config_and_random(&mut self) -> (&NodeConfig, &mut Random) {
        (&self.config, &mut self.random)
    }

    /// Sets (or moves) a timer; `old` is what it was set to.
    pub fn set_timer(&mut self, key: TimerKey, old: Tick, at: Tick) {
        self.timers.set(key, old, at);
    }

    /// Takes a timer away that was set to `at`.
    pub fn cancel_timer(&mut self, key: TimerKey, at: Tick) {
        self.timers.cancel(key, at);
    }

    /// Takes the earliest timer, if it is due.
    pub fn take_due(&mut self, now: Tick) -> Option<TimerKey> {
        self.timers.take_due(now)
    }

    /// When the earliest timer rings.
    pub fn next_timer(&self) -> Tick {
        self.timers.next()
    }

    /// How many timers are set.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }

    /// The host said what the wall clock shows.
    pub fn on_clock(&mut self, unix_ms: u64, now: Tick) {
        self.wall_clock.on_clock(unix_ms, now);
    }

    /// Unix milliseconds; zero where the host never said it.
    pub fn unix_ms(&self, now: Tick) -> u64 {
        self.wall_clock.unix_ms(now)
    }

    /// The host said the machine's load and disk fill.
    pub fn on_machine(&mut self, load: u32, disk: u32) {
        self.machine.look(load, disk);
    }

    /// The machine's load and disk fill, as last said.
    pub fn machine(&self) -> (u32, u32) {
        (self.machine.load, self.machine.disk)
    }

    /// Thousandths of the machine's CPU time in use, at the busiest of the last looks: one quiet second in between is not CPU
    /// to spare.
    pub fn machine_load(&self) -> u32 {
        self.machine.busiest()
    }

    /// Counters, to be raised.
    pub fn counters(&mut self) -> &mut RouterStatistics {
        &mut self.statistics
    }

    /// Counters.
    pub fn statistics(&self) -> RouterStatistics {
        self.statistics
    }

    // The lane.

    /// The lane was given something: its turn is to be finished.
    pub fn wake_lane(&mut self) {
        self.lane_dirty = true;
    }

    /// Whether the lane was given something since this was last asked.
    pub fn take_lane_work(&mut self) -> bool {
        core::mem::take(&mut self.lane_dirty)
    }

    /// Whether a cluster's replicas on this node live on this lane.
    pub fn is_mine(&self, cluster: ClusterId) -> bool {
        lane_of(cluster, self.config.lane_count) == self.config.lane
    }

    /// On which lane of a node a cluster lives. An unknown node counts as having as many lanes as this one: it
    /// passes on what meets the wrong lane.
    pub fn lane_on(&self, node: NodeId, cluster: ClusterId) -> LaneId {
        let count = if node == self.config.node { None } else { self.nodes.peers().lanes_of(node) };
        lane_of(cluster, count.unwrap_or(self.config.lane_count))
    }

    // The ways out.

    /// Sends to a lane of a node; this node's own other lanes included.
    pub fn send(&mut self, node: NodeId, lane: LaneId, item: &Item) {
        self.outbox.push(node, lane, item);
    }

    /// Sends to the lane of a cluster on a node.
    pub fn send_to_cluster(&mut self, node: NodeId, cluster: ClusterId, item: &Item) {
        let lane = self.lane_on(node, cluster);
        self.outbox.push(node, lane, item);
    }

    /// Sends to lane zero of this node; on lane zero itself use the handler directly.
    pub fn send_to_lane_zero(&mut self, item: &Item) {
        self.outbox.push(self.config.node, LANE_ZERO, item);
    }

    /// Sends to every other lane of this node.
    pub fn send_to_other_lanes(&mut self, item: &Item) {
        for lane in 0..self.config.lane_count {
            if LaneId(lane) != self.config.lane {
                self.outbox.push(self.config.node, LaneId(lane), item);
            }
        }
    }

    /// Lets a lane of another node hear from this one in this turn, with or without items.
    pub fn greet(&mut self, node: NodeId, lane: LaneId) {
        self.outbox.greet(node, lane);
    }

    /// Who sends, as frames say it.
    pub fn sender(&self) -> Sender {
        self.outbox.sender()
    }

    /// The next item that this lane has sent to itself.
    pub fn next_own(&mut self) -> Option<Item> {
        self.outbox.next_own()
    }

    /// Whether the lane, or this lane's items to itself, wait to be handled.
    pub fn has_work(&self) -> bool {
        self.lane_dirty || self.outbox.has_own()
    }

    /// Hands out what was sent.
    pub fn flush(&mut self, effects: &mut Effects) {
        self.outbox.flush(effects);
    }

    /// A replica of the cluster was made or removed; its last record is in this batch.
    pub fn stage(&mut self, cluster: ClusterId, batch: BatchNumber) {
        self.durable.stage(cluster, batch);
    }

    /// Holds something back until all that was staged for the cluster is durable. Given back: it is already.
    pub fn hold(&mut self, cluster: ClusterId, deferred: Deferred) -> Option<Deferred> {
        self.durable.hold(cluster, deferred)
    }

    /// All log batches up to this one are durable: returns what waited for them.
    pub fn on_durable(&mut self, synced: BatchNumber) -> Vec<Deferred> {
        self.outbox.note_durable(synced.0);
        self.durable.on_durable(synced)
    }

    /// How many answers wait for the log.
    pub fn held(&self) -> usize {
        self.durable.len()
    }

    // Whom it knows.

    /// Other nodes.
    pub fn nodes(&self) -> &KnownNodes {
        &self.nodes
    }

    /// Other nodes, to be put right.
    pub fn nodes_mut(&mut self) -> &mut KnownNodes {
        &mut self.nodes
    }

    /// The node map.
    pub fn map(&self) -> &NodeMap {
        self.nodes.map()
    }

    /// The node map, to be put right.
    pub fn map_mut(&mut self) -> &mut NodeMap {
        self.nodes.map_mut()
    }

    /// Whether a node can be expected to answer.
    pub fn is_up(&self, node: NodeId) -> bool {
        node == self.config.node || self.nodes.seems_up(node)
    }

    /// Nodes that are down for so long that they count as gone for good.
    pub fn gone_nodes(&self, now: Tick) -> BTreeSet<NodeId> {
        self.nodes.down_for(now, Duration::from_millis(self.config.tuning.replace_after_ms))
    }

    /// Whether an operator removed the node from the world, as far as is known here.
    pub fn is_removed(&self, node: NodeId) -> bool {
        node != self.config.node && self.map().is_whole() && self.map().get(node).is_none()
    }

    /// Lane zero: every replica on this node.
    pub fn replicas(&self) -> &LocalReplicas {
        &self.replicas
    }

    /// The same, to be put right.
    pub fn replicas_mut(&mut self) -> &mut LocalReplicas {
        &mut self.replicas
    }

    /// The clusters known by configuration or announcement: the world's, then the region's if it has one.
    pub fn level_zero(&self) -> &[LevelZero] {
        &self.level_zero
    }

    /// The level 0 cluster of this id.
    pub fn level_zero_of(&self, cluster: ClusterId) -> Option<&LevelZero> {
        self.level_zero.iter().find(|zero| zero.cluster == cluster)
    }

    /// A level 0 cluster of which the configuration says nothing.
    pub fn add_level_zero(&mut self, zero: LevelZero) {
        self.level_zero.push(zero);
    }

    /// The name of the world's cluster.
    pub fn world(&self) -> Arc<ClusterName> {
        self.world.clone()
    }
}

impl Turn<'_> {
    /// Says something to the operator.
    pub fn note(&mut self, level: NoteLevel, text: impl Into<String>) {
        self.effects.list.push(Effect::Note { level, text: text.into() });
    }

    /// Reports a change to the operator.
    pub fn tell(&mut self, change: Change) {
        self.effects.list.push(Effect::Change(change));
    }

    /// A frame that could not be read, or that its sender may not send.
    pub fn refuse_frame(&mut self, from: NodeId, why: &str) {
        let core = &mut *self.core;
        core.statistics.frames_refused += 1;
        let refused = core.statistics.frames_refused;
        if refused == 1 || self.now.since(core.bad_frame_noted) >= BAD_FRAME_NOTE_EVERY {
            core.bad_frame_noted = self.now;
            self.note(
                NoteLevel::Warning,
                format!("refused a frame from node {from}: {why} ({refused} refused so far)"),
            );
        }
    }

    /// This core is about to talk to a node: the host should be connected to it.
    pub fn want_address(&mut self, node: NodeId) {
        if node == self.core.node() {
            return;
        }
        if let Some(address) = self.core.nodes.want_address(node) {
            self.give_address(node, &address);
        }
    }

    /// Where a node is reached: the host learns it, if it is new.
    pub fn give_address(&mut self, node: NodeId, address: &str) {
        if node != self.core.node() && self.core.nodes.note_address(node, address) {
            self.effects.list.push(Effect::Address { node, address: address.into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_second_is_not_cpu_to_spare() {
        let mut machine = Machine::default();
        assert_eq!(machine.busiest(), 0);
        machine.look(990, 0);
        for _ in 1..LOOKS {
            machine.look(300, 0);
            assert_eq!(machine.busiest(), 990);
        }
        machine.look(300, 0);
        assert_eq!(machine.busiest(), 300);
    }
}

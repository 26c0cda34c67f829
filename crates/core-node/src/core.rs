//! The public face: one core of a node.
//!
//! Always: the host gathers the events of a turn, calls `step` for each and `finish_turn` once, then
//! carries out the effects in order. Same state, same events: same effects.
//! Not here: what any part does (node_state.rs shows the way).

use crate::api::{Effect, Effects, Event, NodeConfig, NoteLevel};
use crate::context::{CoreContext, RouterStatistics, Turn};
use crate::lane_handle::LaneHandle;
use crate::membership;
use crate::node_state::NodeState;
use base_engine::Engine;
use base_types::sizes::Sizes;
use base_types::{ClusterId, FormatLevel, Generation, LaneId, NodeId, Refusal, Survivor, Tick};
use bytes::Bytes;
use core_cluster::api::{
    Begun, BusyCluster, LaneConfig, LaneOutput, LaneStatistics, LocalOperation, NewLife, ReplicaSpec, ReplicaView,
    Witnessed, Won,
};
use core_cluster::{Lane, LaneError};
use core_log::{BatchNumber, LogDisk};
use std::sync::Arc;

/// Why a core cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The lane cannot be recovered.
    #[error("lane {lane} cannot be opened: {source}")]
    Lane {
        lane: LaneId,
        #[source]
        source: LaneError,
    },
    /// The configuration cannot be served.
    #[error("{0}")]
    Config(String),
}

/// Counters of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreMetrics {
    pub lane: LaneStatistics,
    pub router: RouterStatistics,
    pub reshards: core_s3::ReshardCounters,
}

/// One core of a node.
pub struct Core {
    lane: Lane,
    context: CoreContext,
    state: NodeState,
    /// Work was left over by the last turn.
    unfinished: bool,
}

impl Core {
    /// Recovers the core from its disk. The effects are to be carried out as those of a turn.
    pub fn open(
        config: NodeConfig,
        engines: Vec<Arc<dyn Engine>>,
        disk: &mut dyn LogDisk,
        now: Tick,
    ) -> Result<(Core, Effects), StartError> {
        check(&config)?;
        let lane_id = config.lane;
        let opened = Lane::open(lane_config(&config), engines, disk, now);
        let (lane, notes) = opened.map_err(|source| StartError::Lane { lane: lane_id, source })?;
        let mut effects = Effects::default();
        let note = |text| Effect::Note { level: NoteLevel::Warning, text };
        effects.list.extend(notes.into_iter().map(note));
        let context = CoreContext::new(config, lane.durable_batch());
        let state = NodeState::new(&context);
        let mut core = Core { lane, context, state, unfinished: false };
        let Core { lane, context, state, .. } = &mut core;
        state.start(&mut Turn { now, lane, effects: &mut effects, core: context });
        core.finish_turn(now, &mut effects);
        Ok((core, effects))
    }

    /// One event.
    pub fn step(&mut self, now: Tick, event: Event, effects: &mut Effects) {
        let Core { lane, context, state, .. } = self;
        match event {
            Event::LogWritten { batch } => {
                lane.on_log_written(now, batch);
                state.on_log_written(now);
                context.wake_lane();
                state.on_durable(context, lane.durable_batch());
            }
            Event::LogSegmentReady { segment } => {
                lane.on_log_segment_ready(now, segment);
                context.wake_lane();
            }
            Event::LogSegmentFailed { segment } => {
                lane.on_log_segment_failed(now, segment);
                context.wake_lane();
            }
            Event::LogFailed { message } => {
                lane.on_log_failed(now, &message);
                context.wake_lane();
            }
            Event::EngineDone { job, result } => {
                lane.on_engine_done(now, job, result);
                context.wake_lane();
            }
            Event::DiskFull { full } => lane.set_disk_full(full),
            Event::Drained { drained } => {
                lane.set_leads_nothing(now, drained);
                context.wake_lane();
            }
            Event::Timer => {
                lane.on_timer(now);
                context.wake_lane();
                state.ring(&mut Turn { now, lane, effects, core: context });
            }
            event => {
                let turn = &mut Turn { now, lane, effects, core: context };
                state.handle(turn, event);
                state.settle(turn);
            }
        }
    }

    /// Ends a turn: everything that has become ready leaves.
    pub fn finish_turn(&mut self, now: Tick, effects: &mut Effects) {
        let Core { lane, context, state, .. } = self;
        self.unfinished = state.finish(&mut Turn { now, lane, effects, core: context });
    }

    /// When the core wants `Event::Timer` at the latest.
    pub fn next_wake(&self) -> Tick {
        if self.unfinished {
            return Tick(0);
        }
        self.context.next_timer().min(self.lane.next_wake())
    }

    /// Counters.
    pub fn metrics(&self) -> CoreMetrics {
        let routing = self.state.routing();
        let router = RouterStatistics {
            operations_pending: routing.operations_pending() as u64,
            routes_cached: routing.routes_cached() as u64,
            ..self.context.statistics()
        };
        CoreMetrics { lane: self.lane.statistics(), router, reshards: self.state.reshards() }
    }

    /// The clusters led here that committed most since this was last asked; at most so many.
    pub fn busiest(&self, most: usize) -> Vec<BusyCluster> {
        self.lane.busiest(most)
    }

    /// How many clusters a drained core still leads that another member may take over.
    pub fn hand_overs_due(&self) -> usize {
        self.lane.hand_overs_due()
    }

    /// How long every queue and table of the core is, each beside its bound.
    pub fn sizes(&self) -> Sizes {
        let mut sizes = self.lane.sizes();
        self.state.sizes(&self.context, &mut sizes);
        sizes
    }

    /// The clusters here.
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// What its lane has applied of the kind that is witnessed, since this was last called. For the simulator.
    pub fn take_witnessed(&mut self) -> Vec<Witnessed> {
        self.lane.take_witnessed()
    }

    /// The replicas of its lane that came to lead since this was last called. For the simulator.
    pub fn take_won(&mut self) -> Vec<Won> {
        self.lane.take_won()
    }

    /// See [`Lane::take_begun`]. For the simulator.
    pub fn take_begun(&mut self) -> Vec<Begun> {
        self.lane.take_begun()
    }
}

impl LaneHandle for Lane {
    fn create_replica(&mut self, now: Tick, spec: ReplicaSpec) -> Result<bool, Refusal> {
        Lane::create_replica(self, now, spec)
    }
    fn destroy_replica(&mut self, now: Tick, cluster: ClusterId, generation: Generation) -> bool {
        Lane::destroy_replica(self, now, cluster, generation)
    }
    fn survivor(&self, cluster: ClusterId) -> Option<Survivor> {
        Lane::survivor(self, cluster)
    }
    fn begin_life(&mut self, now: Tick, life: NewLife) -> Result<bool, Refusal> {
        Lane::begin_life(self, now, life)
    }
    fn end_life(&mut self, now: Tick, cluster: ClusterId, by: Generation) -> bool {
        Lane::end_life(self, now, cluster, by)
    }
    fn submit(&mut self, now: Tick, operation: LocalOperation) {
        Lane::submit(self, now, operation)
    }
    fn on_peer_message(&mut self, now: Tick, from: NodeId, cluster: ClusterId, generation: Generation, payload: Bytes) {
        Lane::on_peer_message(self, now, from, cluster, generation, payload)
    }
    fn on_peer_down(&mut self, now: Tick, node: NodeId) {
        Lane::on_peer_down(self, now, node)
    }
    fn on_peer_up(&mut self, now: Tick, node: NodeId) {
        Lane::on_peer_up(self, now, node)
    }
    fn finish_turn(&mut self, now: Tick) -> LaneOutput {
        Lane::finish_turn(self, now)
    }
    fn view(&self, cluster: ClusterId) -> Option<ReplicaView> {
        Lane::view(self, cluster)
    }
    fn views(&self) -> Vec<ReplicaView> {
        Lane::views(self)
    }
    fn each_led(&self, visit: &mut dyn FnMut(ClusterId, &base_types::ClusterName, base_types::LogIndex)) {
        Lane::each_led(self, visit)
    }
    fn statistics(&self) -> LaneStatistics {
        Lane::statistics(self)
    }
    fn set_level(&mut self, level: FormatLevel) {
        Lane::set_level(self, level)
    }
    fn staged_batch(&self) -> BatchNumber {
        Lane::staged_batch(self)
    }
}

fn check(config: &NodeConfig) -> Result<(), StartError> {
    if config.lane.0 >= config.lane_count {
        return Err(StartError::Config(format!("lane {} of {} lanes does not exist", config.lane, config.lane_count)));
    }
    membership::format_level::check(config).map_err(StartError::Config)?;
    if let Err(error) = config.labels.check() {
        return Err(StartError::Config(format!("labels of node {}: {error}", config.node)));
    }
    if let Err(error) = base_types::ClusterName::regional(&config.labels.region) {
        return Err(StartError::Config(format!("region '{}' makes no cluster name: {error}", config.labels.region)));
    }
    Ok(())
}

fn lane_config(config: &NodeConfig) -> LaneConfig {
    LaneConfig {
        node: config.node,
        disk: config.disk,
        lane: config.lane,
        log_identity: crate::api::log_identity(&config.world, config.disk, config.lane),
        log_reached: config.log_reached,
        seed: config.seed ^ u64::from(config.lane.0).rotate_left(32) ^ 0x5eed,
        tick_ms: config.tuning.tick_ms,
        heartbeat_ticks: config.tuning.heartbeat_ticks,
        election_ticks: config.tuning.election_ticks,
        quiesce_after_ticks: config.tuning.quiesce_after_ticks,
        read_leases: config.tuning.read_leases,
        log_stall_elections: config.tuning.log_stall_elections,
        log_stall_ms: config.tuning.log_stall_ms,
        flush_bytes: config.tuning.flush_bytes,
        flush_after_ms: config.tuning.flush_after_ms,
        log_keep_bytes: config.tuning.log_keep_bytes,
        snapshot_chunk_bytes: config.tuning.snapshot_chunk_bytes,
        scrub_bytes_per_second: config.tuning.scrub_bytes_per_second,
        scrub_round_ms: config.tuning.scrub_round_ms,
        label_spaces: config.tuning.label_spaces,
        tail_engine: config.tuning.tail_engine.clone(),
        buggify_until: config.tuning.buggify_until,
        witness: config.tuning.witness,
        keep: config.tuning.keep,
        request_ids: config.tuning.request_ids,
        log: config.tuning.log.clone(),
        level: membership::format_level::of_lane(config),
        level_max: config.level_max,
    }
}

//! The public face: one core of a node.
//!
//! Always: the host gathers the events of a turn, calls `step` for each and `finish_turn` once, then
//! carries out the effects in order. Same state, same events: same effects.
//! Not here: what any part does (node_state.rs shows the way).

use crate::api::{Effect, Effects, Event, Mail, NodeConfig, NoteLevel};
use crate::context::local_replicas::ReplicaKnown;
use crate::context::{CoreContext, RouterStatistics, Turn};
use crate::durable::Deferred;
use crate::frame::{self, Frame, FrameBuilder, Item, Sender};
use crate::lane_handle::LaneHandle;
use crate::membership;
use crate::membership::directory_sync;
use crate::node_state::NodeState;
use crate::routing::Served;
use crate::timers::TimerKey;
use base_engine::Engine;
use base_types::sizes::Sizes;
use base_types::{ClusterId, FormatLevel, Generation, LaneId, NodeId, Refusal, Survivor, Tick, Ticket};
use bytes::Bytes;
use core::time::Duration;
use core_cluster::api::{
    Begun, LaneConfig, LaneOutput, LaneStatistics, LocalOperation, NewLife, ReplicaSpec, ReplicaView, Witnessed, Won,
};
use core_cluster::{Lane, LaneError};
use core_log::{BatchNumber, LogAction, LogDisk};
use std::sync::Arc;

/// Rounds of lane, completions and plans in one turn; what is left makes the core wake at once.
const ROUNDS_MAX: usize = 8;
/// Timers that ring in one turn; the rest ring in the next.
const TIMERS_PER_TURN_MAX: usize = 10_000;

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
        start(state, &mut Turn { now, lane, effects: &mut effects, core: context });
        core.finish_turn(now, &mut effects);
        Ok((core, effects))
    }

    /// One event.
    pub fn step(&mut self, now: Tick, event: Event, effects: &mut Effects) {
        let Core { lane, context, state, .. } = self;
        match event {
            Event::LogWritten { batch } => {
                lane.on_log_written(now, batch);
                state.health.log.end(now);
                context.wake_lane();
                on_durable(state, context, lane.durable_batch());
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
            Event::Timer => {
                lane.on_timer(now);
                context.wake_lane();
                ring(state, &mut Turn { now, lane, effects, core: context });
            }
            event => handle(state, &mut Turn { now, lane, effects, core: context }, event),
        }
    }

    /// Ends a turn: everything that has become ready leaves.
    pub fn finish_turn(&mut self, now: Tick, effects: &mut Effects) {
        let Core { lane, context, state, .. } = self;
        self.unfinished = finish(state, &mut Turn { now, lane, effects, core: context });
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
        let routing = &self.state.routing;
        let router = RouterStatistics {
            operations_pending: routing.operations_pending() as u64,
            routes_cached: routing.routes_cached() as u64,
            ..self.context.statistics()
        };
        CoreMetrics { lane: self.lane.statistics(), router, reshards: self.state.s3.counters() }
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

/// What every core does once.
pub(crate) fn start(state: &mut NodeState, turn: &mut Turn<'_>) {
    state.start_nodes(turn);
    state.start_formations(turn);
    state.start_replica_repair(turn);
    state.on_config_timer(turn);
    state.on_flow_recovery_timer(turn);
    state.on_rebalance_timer(turn);
    state.on_s3_scheduler_timer(turn);
    directory_sync::on_timer(state, turn);
}

/// An event that is not the lane's own.
pub(crate) fn handle(state: &mut NodeState, turn: &mut Turn<'_>, event: Event) {
    match event {
        Event::Request { ticket, asked, request } => state.on_request(turn, ticket, asked, request),
        Event::Cancel { ticket } => state.on_cancel(ticket),
        Event::Frame { from, frame } => on_frame(state, turn, Some(from), frame),
        Event::Mail { mail, .. } => on_frame(state, turn, None, mail.frame),
        Event::PeerUp { node } => {
            turn.core.nodes_mut().on_connected(node);
            // Whoever has dialled this node wants answers: without a connection back they would be dropped.
            turn.want_address(node);
            turn.lane.on_peer_up(turn.now, node);
            turn.core.wake_lane();
            state.greet(turn.core, node);
            state.tell_of_later_lives(turn.core, node);
            state.on_formation_peer(turn, node);
        }
        Event::PeerDown { node } => {
            turn.core.nodes_mut().on_disconnected(node);
            turn.lane.on_peer_down(turn.now, node);
            turn.core.wake_lane();
            state.on_attempts_lost(turn, node);
        }
        Event::Machine { load, disk } => turn.core.on_machine(load, disk),
        Event::Clock { unix_ms } => turn.core.on_clock(unix_ms, turn.now),
        Event::WorldReborn { heard, from } => state.hear_of_reborn(turn, heard, from),
        Event::FormatLevel { level, from } => membership::format_level::hear(turn, level, from),
        Event::DirectoryWanted => directory_sync::on_wanted(state, turn),
        Event::Directory { directory } => directory_sync::on_kept(state, turn, directory),
        Event::Hold { reason } => state.health.hold = reason,
        Event::Certificate { issued_ms, expires_ms } => state.health.certificate = Some((issued_ms, expires_ms)),
        // The lane's own events have been handled by `Core::step`.
        Event::Timer
        | Event::LogWritten { .. }
        | Event::LogSegmentReady { .. }
        | Event::LogSegmentFailed { .. }
        | Event::LogFailed { .. }
        | Event::EngineDone { .. }
        | Event::DiskFull { .. } => {}
    }
}

/// All log batches up to this one are durable: what waited for them is said.
pub(crate) fn on_durable(state: &mut NodeState, core: &mut CoreContext, synced: BatchNumber) {
    for deferred in core.on_durable(synced) {
        match deferred {
            Deferred::Say { node, lane, item } => core.send(node, lane, &item),
            Deferred::Formed(cluster) => state.on_formed_durable(core, cluster),
        }
    }
}

/// Rings the timers that are due.
pub(crate) fn ring(state: &mut NodeState, turn: &mut Turn<'_>) {
    for _ in 0..TIMERS_PER_TURN_MAX {
        let Some(key) = turn.core.take_due(turn.now) else { return };
        match key {
            TimerKey::Operation(number) => state.on_operation_timer(turn, number),
            TimerKey::Plan(number) => state.on_plan_timer(turn, number),
            TimerKey::Order(number) => state.send_order(turn, number),
            TimerKey::Formation => state.on_formation_timer(turn),
            TimerKey::Nodes => state.on_nodes_timer(turn),
            TimerKey::Config => state.on_config_timer(turn),
            TimerKey::Health => state.on_health_timer(turn),
            TimerKey::Search(number) => state.on_search_timer(turn, number),
            TimerKey::Copies => state.on_copies_timer(turn),
            TimerKey::FlowRecovery => state.on_flow_recovery_timer(turn),
            TimerKey::ReplicaRepair => state.on_replica_repair_timer(turn),
            TimerKey::Rebalance => state.on_rebalance_timer(turn),
            TimerKey::S3Scheduler => state.on_s3_scheduler_timer(turn),
            TimerKey::Directory => directory_sync::on_timer(state, turn),
        }
    }
}

/// Carries on until nothing is left or the bound is met. Whether work is left.
pub(crate) fn finish(state: &mut NodeState, turn: &mut Turn<'_>) -> bool {
    let mut left = true;
    for _ in 0..ROUNDS_MAX {
        state.deliver_results(turn);
        deliver_own(state, turn);
        if turn.core.take_lane_work() {
            let output = turn.lane.finish_turn(turn.now);
            take_output(state, turn, output);
        }
        left = turn.core.has_work() || state.plans.has_results();
        if !left {
            break;
        }
    }
    turn.core.flush(turn.effects);
    if turn.core.config().superseded_by > 0 || !membership::format_level::serves(turn.core) {
        // Neither votes nor entries nor answers of a life that is over, nor of a build that is too old.
        turn.effects.list.retain(|effect| !matches!(effect, Effect::Send { .. }));
    }
    left
}

fn take_output(state: &mut NodeState, turn: &mut Turn<'_>, output: LaneOutput) {
    for action in output.log {
        if matches!(action, LogAction::Write { .. }) {
            state.health.log.begin(turn.now);
        }
        turn.effects.list.push(Effect::Log(action));
    }
    turn.effects.list.extend(output.engine.into_iter().map(Effect::Engine));
    let origin = turn.core.node();
    for message in output.messages {
        let item =
            Item::Peer { origin, cluster: message.cluster, generation: message.generation, payload: message.payload };
        turn.core.send_to_cluster(message.to, message.cluster, &item);
    }
    for notice in output.notices {
        state.on_notice(turn, notice);
    }
    for completion in output.completions {
        state.on_completion(turn, completion);
    }
}

fn deliver_own(state: &mut NodeState, turn: &mut Turn<'_>) {
    let own = turn.core.sender();
    while let Some(item) = turn.core.next_own() {
        on_item(state, turn, own, item);
    }
}

/// A frame of a peer (its certificate says `from`), or of another lane of this node (`None`).
fn on_frame(state: &mut NodeState, turn: &mut Turn<'_>, from: Option<NodeId>, bytes: Bytes) {
    turn.core.counters().frames_received += 1;
    let claimed = from.unwrap_or(turn.core.node());
    let frame: Frame = match frame::decode(bytes) {
        Ok(frame) => frame,
        Err(error) => return turn.refuse_frame(claimed, &error.to_string()),
    };
    if from.is_some_and(|from| from != frame.from.node) || from.is_some() && frame.from.node == turn.core.node() {
        return turn.refuse_frame(claimed, "it names another sender than its certificate");
    }
    if from.is_some() && state.refuses_incarnation(turn, &frame.from) {
        return;
    }
    // Before any of its items: they may be of that level.
    membership::format_level::hear(turn, frame.from.level, frame.from.node);
    if !membership::format_level::serves(turn.core) {
        return;
    }
    // The news that an old connection is gone may come behind the news of the next: whoever speaks is there.
    if from.is_some() && turn.core.nodes_mut().peers_mut().on_up(frame.from.node) {
        turn.lane.on_peer_up(turn.now, frame.from.node);
        turn.core.wake_lane();
    }
    if frame.from.node != turn.core.node() {
        turn.core.nodes_mut().peers_mut().note_lanes(frame.from.node, frame.from.lanes);
        if from.is_some() && state.refuses_memory(turn, &frame.from) {
            return;
        }
    }
    let outside = from.is_some();
    for item in frame.items {
        if outside && is_inner(&item) {
            turn.refuse_frame(claimed, "it holds an item that only lanes of one node may send to each other");
            continue;
        }
        if outside && matches!(&item, Item::Peer { origin, .. } if *origin != claimed) {
            turn.refuse_frame(claimed, "it holds a message of another node");
            continue;
        }
        match cluster_of(&item).filter(|cluster| !turn.core.is_mine(*cluster)) {
            Some(cluster) => pass_on(turn, frame.from, cluster, &item),
            None => on_item(state, turn, frame.from, item),
        }
    }
}

/// Items that only lanes of one node send to each other.
fn is_inner(item: &Item) -> bool {
    matches!(
        item,
        Item::MapNews { .. }
            | Item::ReplicaNews { .. }
            | Item::ReplicaGone { .. }
            | Item::LaneNews { .. }
            | Item::StatusAsked { .. }
            | Item::StatusTold { .. }
            | Item::HealthAsked { .. }
            | Item::WorldReborn { .. }
            | Item::WorldIs { .. }
            | Item::HealthTold { .. }
            | Item::DirectoryWanted
    )
}

/// Which cluster an item is for, where it must be handled on that cluster's lane.
fn cluster_of(item: &Item) -> Option<ClusterId> {
    match item {
        Item::Peer { cluster, .. }
        | Item::Forward { cluster, .. }
        | Item::DestroyReplica { cluster, .. }
        | Item::Survey { cluster, .. }
        | Item::FormationProbe { cluster, .. }
        | Item::FormationAnswer { cluster, .. }
        | Item::UnknownCluster { cluster, .. } => Some(*cluster),
        Item::CreateReplica { spec, .. } => Some(spec.cluster),
        Item::BeginLife { life, .. } => Some(life.cluster),
        _ => None,
    }
}

/// The sender took this node for one with another number of lanes (it has not heard from it yet). The
/// item goes to the right lane under the sender's own name, and the answer goes straight back.
fn pass_on(turn: &mut Turn<'_>, from: Sender, cluster: ClusterId, item: &Item) {
    let to = turn.core.lane_on(turn.core.node(), cluster);
    let mut builder = FrameBuilder::new(to, from);
    builder.push(item);
    turn.effects.list.push(Effect::Mail { to, mail: Mail { frame: builder.finish() } });
}

fn on_item(state: &mut NodeState, turn: &mut Turn<'_>, from: Sender, item: Item) {
    match item {
        Item::Peer { origin, cluster, generation, payload } => {
            turn.core.wake_lane();
            turn.lane.on_peer_message(turn.now, origin, cluster, generation, payload);
        }
        Item::Forward { ticket, cluster, generation, deadline_ms, kind, authority } => {
            let asker = Served { node: from.node, lane: from.lane, boot: from.boot, ticket };
            let deadline = turn.now + Duration::from_millis(deadline_ms.into()).min(base_types::DEADLINE_MAX);
            let operation = LocalOperation { ticket: Ticket(0), cluster, generation, deadline, kind };
            state.on_forward(turn, asker, operation, authority);
        }
        Item::ForwardReply { ticket, boot, outcome } if boot == turn.core.config().boot => {
            state.on_forward_reply(turn, from.node, ticket, outcome);
        }
        Item::CreateReplica { ticket, disk, spec } => state.on_create_order(turn, from, ticket, disk, *spec),
        Item::DestroyReplica { ticket, cluster, generation, replica } => {
            state.on_destroy_order(turn, from, ticket, (cluster, generation, replica));
        }
        Item::ReplicaDone { ticket, boot, result } if boot == turn.core.config().boot => {
            state.on_replica_done(turn.core, from.node, ticket, result);
        }
        Item::Survey { ticket, cluster } => state.on_survey_order(turn, from, ticket, cluster),
        Item::Surveyed { ticket, boot, survivor } if boot == turn.core.config().boot => {
            state.on_surveyed(turn.core, from.node, ticket, survivor);
        }
        Item::BeginLife { ticket, life } => state.on_begin_order(turn, from, ticket, life),
        Item::ForwardReply { .. } | Item::ReplicaDone { .. } | Item::Surveyed { .. } => {}
        other => on_node_item(state, turn, from, other),
    }
}

fn on_node_item(state: &mut NodeState, turn: &mut Turn<'_>, from: Sender, item: Item) {
    match item {
        Item::Heartbeat { record, wanted } => state.on_heartbeat(turn, from, *record, wanted),
        Item::HeartbeatReply { leader, delta } => {
            state.on_heartbeat_reply(turn, from.node, leader, delta.map(|delta| *delta));
        }
        Item::FormationProbe { cluster, nonce } => state.on_formation_probe(turn, from.node, cluster, nonce),
        Item::FormationAnswer { cluster, nonce, state: held } => {
            state.on_formation_answer(turn, from.node, cluster, nonce, held);
        }
        Item::UnknownCluster { cluster, generation, disk } => {
            state.on_unknown_cluster(turn, from.node, cluster, generation, disk);
        }
        Item::Announce { announcement } => state.on_announcement(turn, from.node, *announcement),
        Item::DiskForgot { boot, disk, batch } => state.on_disk_forgot(turn, from.node, (boot, disk, batch)),
        Item::MapNews { delta } => state.on_map_news(turn, &delta),
        Item::ReplicaNews { cluster, generation, name, replica, leader } => {
            let known = ReplicaKnown { name, generation, replica, leader };
            state.on_replica_news(turn, cluster, known);
        }
        Item::ReplicaGone { cluster, name } => state.on_replica_gone(turn.core, cluster, &name),
        Item::LaneNews { gauges } => state.on_lane_news(from.lane, *gauges),
        Item::StatusAsked { ticket } => state.ask_health_for_lane(turn, from, ticket),
        Item::StatusTold { ticket, status } => state.on_status_told(turn, ticket, *status),
        Item::WhereIs { name, led } => state.on_where_is(turn.core, from, &name, led),
        Item::Whereabouts { name, told } => state.on_whereabouts(turn, from.node, name, told),
        Item::Neighbours { nodes } => state.on_neighbours(turn, &nodes),
        Item::WorldReborn { heard, from } => state.on_world_reborn(turn, heard, from),
        Item::WorldIs { own, superseded_by } => state.on_world_is(turn.core, own, superseded_by),
        Item::DirectoryWanted => directory_sync::on_wanted(state, turn),
        Item::HealthAsked { ticket } => state.on_health_asked(turn, from, ticket),
        Item::HealthTold { ticket, health } => state.on_health_told(turn, from.lane, ticket, *health),
        _ => {}
    }
}

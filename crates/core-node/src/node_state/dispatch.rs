//! What comes to a core goes to the part that handles it: events of the host, items of other nodes and lanes, timers, and what
//! the lane puts out.
//!
//! By design: after each of them what ended is settled. A frame is taken only from whom its certificate names.
//! Not here: what a part does.

use crate::api::{Effect, Event, Mail};
use crate::context::{CoreContext, Turn};
use crate::durable::Deferred;
use crate::frame::{self, Frame, FrameBuilder, Item, Sender};
use crate::membership;
use crate::node_state::NodeState;
use crate::routing::Served;
use crate::timers::TimerKey;
use base_types::{ClusterId, NodeId, Ticket};
use bytes::Bytes;
use core::time::Duration;
use core_cluster::api::{LaneOutput, LocalOperation};
use core_log::{BatchNumber, LogAction};

/// Rounds of lane, completions and plans in one turn; what is left makes the core wake at once.
const ROUNDS_MAX: usize = 8;
/// Timers that ring in one turn; the rest ring in the next.
const TIMERS_PER_TURN_MAX: usize = 10_000;

impl NodeState {
    /// An event that is not the lane's own.
    pub fn handle(&mut self, turn: &mut Turn<'_>, event: Event) {
        match event {
            Event::Request { ticket, asked, request } => self.clients().on_request(turn, ticket, asked, request),
            Event::Cancel { ticket } => self.clients().on_cancel(ticket),
            Event::Frame { from, frame } => self.on_frame(turn, Some(from), frame),
            Event::Mail { mail, .. } => self.on_frame(turn, None, mail.frame),
            Event::PeerUp { node } => {
                turn.core.nodes_mut().on_connected(node);
                // A node that has dialled this one wants answers: without a connection back they would be dropped.
                turn.want_address(node);
                turn.lane.on_peer_up(turn.now, node);
                turn.core.wake_lane();
                self.membership.on_peer_up(turn, node);
            }
            Event::PeerDown { node } => {
                turn.core.nodes_mut().on_disconnected(node);
                turn.lane.on_peer_down(turn.now, node);
                turn.core.wake_lane();
                self.runner.routing_mut().on_attempts_lost(turn, node);
            }
            Event::Machine { load, disk } => turn.core.on_machine(load, disk),
            Event::Clock { unix_ms } => turn.core.on_clock(unix_ms, turn.now),
            Event::WorldReborn { heard, from } => membership::incarnation::hear_of_reborn(turn, heard, from),
            Event::FormatLevel { level, from } => membership::format_level::hear(turn, level, from),
            Event::DirectoryWanted => self.membership.on_directory_wanted(turn, &mut self.runner),
            Event::Directory { directory } => membership::directory_sync::on_kept(turn, &mut self.runner, directory),
            Event::Hold { reason } => self.membership.health_mut().set_hold(reason),
            Event::Certificate { issued_ms, expires_ms } => {
                self.membership.health_mut().set_certificate(issued_ms, expires_ms)
            }
            // The lane's own events have been handled by `Core::step`.
            Event::Timer
            | Event::Drained { .. }
            | Event::LogWritten { .. }
            | Event::LogSegmentReady { .. }
            | Event::LogSegmentFailed { .. }
            | Event::LogFailed { .. }
            | Event::EngineDone { .. }
            | Event::DiskFull { .. } => {}
        }
    }

    /// All log batches up to this one are durable: what waited for them is said.
    pub fn on_durable(&mut self, core: &mut CoreContext, synced: BatchNumber) {
        for deferred in core.on_durable(synced) {
            match deferred {
                Deferred::Say { node, lane, item } => core.send(node, lane, &item),
                Deferred::Formed(cluster) => self.membership.on_formed_durable(core, cluster),
            }
        }
    }

    /// Rings the timers that are due.
    pub fn ring(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some(key) = turn.core.take_due(turn.now) else { return };
            match key {
                TimerKey::Operation(number) => self.runner.routing_mut().on_operation_timer(turn, number),
                TimerKey::Plan(number) => self.runner.on_plan_timer(turn, number),
                TimerKey::Order(number) => self.runner.send_order(turn, number),
                TimerKey::Search(number) => self.runner.routing_mut().on_search_timer(turn, number),
                TimerKey::Copies => self.on_copies_timer(turn),
                TimerKey::FlowRecovery => self.on_flow_recovery_timer(turn),
                TimerKey::S3Scheduler => self.s3_scheduler.on_timer(turn, &mut self.runner),
                TimerKey::Formation
                | TimerKey::Nodes
                | TimerKey::Config
                | TimerKey::Health
                | TimerKey::ReplicaRepair
                | TimerKey::Rebalance
                | TimerKey::Directory => self.membership.on_timer(turn, &mut self.runner, key),
            }
            self.settle(turn);
        }
    }

    /// Carries on until nothing is left or the bound is met. Whether work is left.
    pub fn finish(&mut self, turn: &mut Turn<'_>) -> bool {
        let mut left = true;
        for _ in 0..ROUNDS_MAX {
            self.deliver_results(turn);
            self.deliver_own(turn);
            if turn.core.take_lane_work() {
                let output = turn.lane.finish_turn(turn.now);
                self.take_output(turn, output);
            }
            left = turn.core.has_work() || self.runner.has_results();
            if !left {
                break;
            }
        }
        self.runner.walk_at_times();
        turn.core.flush(turn.effects);
        if turn.core.config().superseded_by > 0 || !membership::format_level::serves(turn.core) {
            // Neither votes nor entries nor answers of a life that is over, nor of a build that is too old.
            turn.effects.list.retain(|effect| !matches!(effect, Effect::Send { .. }));
        }
        left
    }

    fn take_output(&mut self, turn: &mut Turn<'_>, output: LaneOutput) {
        for action in output.log {
            if matches!(action, LogAction::Write { .. }) {
                self.membership.health_mut().log_pace().begin(turn.now);
            }
            turn.effects.list.push(Effect::Log(action));
        }
        turn.effects.list.extend(output.engine.into_iter().map(Effect::Engine));
        let origin = turn.core.node();
        for message in output.messages {
            let item = Item::Peer {
                origin,
                cluster: message.cluster,
                generation: message.generation,
                payload: message.payload,
            };
            turn.core.send_to_cluster(message.to, message.cluster, &item);
        }
        for notice in output.notices {
            self.membership.on_notice(turn, &mut self.runner, notice);
            self.settle(turn);
        }
        for completion in output.completions {
            self.runner.routing_mut().on_completion(turn, completion);
            self.settle(turn);
        }
    }

    fn deliver_own(&mut self, turn: &mut Turn<'_>) {
        let own = turn.core.sender();
        while let Some(item) = turn.core.next_own() {
            self.on_item(turn, own, item);
            self.settle(turn);
        }
    }

    /// A frame of a peer (its certificate says `from`), or of another lane of this node (`None`).
    fn on_frame(&mut self, turn: &mut Turn<'_>, from: Option<NodeId>, bytes: Bytes) {
        turn.core.counters().frames_received += 1;
        let claimed = from.unwrap_or(turn.core.node());
        let frame: Frame = match frame::decode(bytes) {
            Ok(frame) => frame,
            Err(error) => return turn.refuse_frame(claimed, &error.to_string()),
        };
        if from.is_some_and(|from| from != frame.from.node) || from.is_some() && frame.from.node == turn.core.node() {
            return turn.refuse_frame(claimed, "it names another sender than its certificate");
        }
        if from.is_some() && membership::incarnation::refuses_incarnation(turn, &frame.from) {
            return;
        }
        // Before any of its items: they may be of that level.
        membership::format_level::hear(turn, frame.from.level, frame.from.node);
        if !membership::format_level::serves(turn.core) {
            return;
        }
        // The news that an old connection is gone may come after the news of the next: a node that speaks is there.
        if from.is_some() && turn.core.nodes_mut().peers_mut().on_up(frame.from.node) {
            turn.lane.on_peer_up(turn.now, frame.from.node);
            turn.core.wake_lane();
        }
        if frame.from.node != turn.core.node() {
            turn.core.nodes_mut().peers_mut().note_lanes(frame.from.node, frame.from.lanes);
            if from.is_some() && self.membership.refuses_memory(turn, &frame.from) {
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
                None => {
                    self.on_item(turn, frame.from, item);
                    self.settle(turn);
                }
            }
        }
    }

    fn on_item(&mut self, turn: &mut Turn<'_>, from: Sender, item: Item) {
        match item {
            Item::Peer { origin, cluster, generation, payload } => {
                turn.core.wake_lane();
                turn.lane.on_peer_message(turn.now, origin, cluster, generation, payload);
            }
            Item::Forward { ticket, cluster, generation, deadline_ms, kind, authority } => {
                let asker = Served { node: from.node, lane: from.lane, boot: from.boot, ticket };
                let deadline = turn.now + Duration::from_millis(deadline_ms.into()).min(base_types::DEADLINE_MAX);
                let operation = LocalOperation { ticket: Ticket(0), cluster, generation, deadline, kind };
                self.runner.routing_mut().on_forward(turn, asker, operation, authority);
            }
            Item::ForwardReply { ticket, boot, outcome } if boot == turn.core.config().boot => {
                self.runner.routing_mut().on_forward_reply(turn, from.node, ticket, outcome);
            }
            Item::ReplicaDone { ticket, boot, result } if boot == turn.core.config().boot => {
                self.runner.on_replica_done(turn.core, from.node, ticket, result);
            }
            Item::Surveyed { ticket, boot, survivor } if boot == turn.core.config().boot => {
                self.runner.on_surveyed(turn.core, from.node, ticket, survivor);
            }
            Item::WhereIs { name, led } => self.runner.routing_mut().on_where_is(turn.core, from, &name, led),
            Item::Location { name, told } => self.runner.routing_mut().on_location(turn, from.node, name, told),
            Item::ForwardReply { .. } | Item::ReplicaDone { .. } | Item::Surveyed { .. } => {}
            other => self.membership.on_item(turn, &mut self.runner, from, other),
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

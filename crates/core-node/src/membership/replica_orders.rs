//! What a flow orders of the replicas on this lane: make one, remove one, say what is left of one, begin a new life.
//!
//! By design: an order may come twice; its answer leaves once what it did is durable. A replica that was removed here is not made
//! again by an order that was long under way. Not here: who gives orders (plan_runner.rs).

use crate::context::{CoreContext, Turn};
use crate::durable::Deferred;
use crate::frame::{Item, Sender};
use crate::membership::replica_repair::ReplicaRepair;
use base_types::{ClusterId, DiskId, ErrorCode, Generation, NodeId, Refusal, ReplicaId, Survivor, Ticket};
use core_cluster::api::{NewLife, ReplicaSpec};
use core_placement::Rule;
use std::sync::Arc;

impl ReplicaRepair {
    /// This lane is asked what is left of a cluster here.
    pub fn on_survey_order(&mut self, turn: &mut Turn<'_>, from: Sender, ticket: Ticket, cluster: ClusterId) {
        let mut survivor = turn.lane.survivor(cluster).map(Box::new);
        if let Some(survivor) = &mut survivor {
            survivor.follows = survivor.follows.filter(|leader| self.has_contact(turn.core, *leader, survivor));
        }
        turn.core.send(from.node, from.lane, &Item::Surveyed { ticket, boot: from.boot, survivor });
    }

    /// Whether a leader is within reach, with a majority if it leads from here: one that sleeps has yet to notice that it is not.
    fn has_contact(&self, core: &CoreContext, leader: NodeId, survivor: &Survivor) -> bool {
        let reached = |node: NodeId| node == core.node() || core.nodes().connected().contains(&node);
        let voters: Vec<NodeId> =
            survivor.members.iter().filter(|member| !member.learner).map(|member| member.node).collect();
        let majority = voters.iter().filter(|node| reached(**node)).count() * 2 > voters.len();
        reached(leader) && (majority || leader != core.node())
    }

    /// This lane has the order to begin a new life of a cluster on its replica. The answer leaves once that is durable.
    pub fn on_begin_order(&mut self, turn: &mut Turn<'_>, from: Sender, ticket: Ticket, life: NewLife) {
        turn.core.wake_lane();
        let result = turn.lane.begin_life(turn.now, life);
        if result == Ok(true) {
            turn.core.stage(life.cluster, turn.lane.staged_batch());
        }
        self.say_once_durable(turn.core, from, life.cluster, Item::ReplicaDone { ticket, boot: from.boot, result });
    }

    /// This lane receives the order to make a replica. The answer leaves once the replica is durable.
    pub fn on_create_order(
        &mut self,
        turn: &mut Turn<'_>,
        from: Sender,
        ticket: Ticket,
        disk: DiskId,
        spec: ReplicaSpec,
    ) {
        let cluster = spec.cluster;
        let result = self.create_replica(turn, disk, spec);
        if result == Ok(true) {
            turn.core.stage(cluster, turn.lane.staged_batch());
        }
        self.say_once_durable(turn.core, from, cluster, Item::ReplicaDone { ticket, boot: from.boot, result });
    }

    /// Answers an order. Also one that was carried out before: the first may not be durable yet, and who counts a
    /// majority of answers would count a replica that a crash still takes away.
    fn say_once_durable(&mut self, core: &mut CoreContext, to: Sender, cluster: ClusterId, item: Item) {
        let say = Deferred::Say { node: to.node, lane: to.lane, item: Box::new(item) };
        if let Some(Deferred::Say { node, lane, item }) = core.hold(cluster, say) {
            core.send(node, lane, &item);
        }
    }

    /// The engine of a replica made here: the rule's, else this node's own default, whatever the others of
    /// the cluster are in. So a cluster moves to another engine by replacing its replicas one by one.
    fn engine_here(&self, core: &CoreContext, spec: &ReplicaSpec) -> Arc<str> {
        match spec.rule.parse::<Rule>() {
            Ok(rule) => rule.engine.as_ref().unwrap_or(&core.config().default_engine).as_str().into(),
            Err(_) => spec.engine.clone(), // Written by a release that knows more words.
        }
    }

    fn create_replica(&mut self, turn: &mut Turn<'_>, disk: DiskId, mut spec: ReplicaSpec) -> Result<bool, Refusal> {
        if disk != turn.core.config().disk {
            let message = format!(
                "node {} has disk {}, not {disk}: it lost its disk since the order was given",
                turn.core.node(),
                turn.core.config().disk
            );
            return Err(Refusal::new(ErrorCode::Conflict, message));
        }
        if self.is_gone(spec.cluster, spec.replica) {
            return Err(Refusal::new(ErrorCode::Conflict, "that replica was removed from this node before"));
        }
        if let Some(view) = turn.lane.view(spec.cluster) {
            if view.replica >= spec.replica && view.generation == spec.generation && !view.damaged {
                return Ok(false);
            }
        }
        turn.core.wake_lane();
        for member in spec.initial_members.iter() {
            turn.want_address(member.node);
        }
        spec.engine = self.engine_here(turn.core, &spec);
        turn.lane.create_replica(turn.now, spec)
    }

    /// This lane receives the order to remove a replica.
    pub fn on_destroy_order(
        &mut self,
        turn: &mut Turn<'_>,
        from: Sender,
        ticket: Ticket,
        target: (ClusterId, Generation, ReplicaId),
    ) {
        let (cluster, generation, replica) = target;
        let other = turn.lane.view(cluster).is_some_and(|view| replica != ReplicaId(0) && view.replica != replica);
        let done = !other && self.destroy_replica(turn, cluster, generation);
        self.say_once_durable(
            turn.core,
            from,
            cluster,
            Item::ReplicaDone { ticket, boot: from.boot, result: Ok(done) },
        );
    }

    /// Removes a replica here and remembers that it is gone.
    pub fn destroy_replica(&mut self, turn: &mut Turn<'_>, cluster: ClusterId, generation: Generation) -> bool {
        let Some(view) = turn.lane.view(cluster) else { return false };
        if view.generation != generation {
            return false;
        }
        turn.core.wake_lane();
        let done = turn.lane.destroy_replica(turn.now, cluster, generation);
        if done {
            turn.core.stage(cluster, turn.lane.staged_batch());
            self.note_gone(cluster, view.replica);
        }
        done
    }
}

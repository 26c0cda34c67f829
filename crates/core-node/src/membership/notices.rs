//! What the lane notices of its replicas, passed on to whom it concerns; and the round over those that may need repair.
//!
//! Not here: what each part does about it (replica_repair.rs, rebalance.rs, level_zero.rs, nodes.rs).

use crate::api::Change;
use crate::context::level_zero::{is_level_zero, region_cluster_id};
use crate::context::local_replicas::ReplicaKnown;
use crate::context::Turn;
use crate::flows::orphan::OrphanFlow;
use crate::flows::region::{RegionDocument, RegionFlow};
use crate::frame::Item;
use crate::membership::replica_repair::ORPHANS_EVERY;
use crate::membership::Membership;
use crate::plan_runner::{AnyPlanner, PlanOwner, PlanRunner};
use base_types::{ClusterId, ClusterName, Generation, NodeId, ReplicaId, Ticket};
use core::time::Duration;
use core_cluster::api::{Member, Notice};
use std::sync::Arc;

/// How long this lane tries to report to the world where the region's cluster is; the next change starts over.
const REGION_TIMEOUT: Duration = Duration::from_secs(600);

impl Membership {
    /// What the lane noticed.
    pub fn on_notice(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, notice: Notice) {
        match notice {
            Notice::Changed { cluster, generation, name, leader, members, engine_since } => {
                self.rebalance.note_engine(cluster, &members, engine_since);
                let replica = turn.lane.view(cluster).map_or(ReplicaId(0), |view| view.replica);
                runner.routing_mut().note_members(&name, (cluster, generation), leader, &members);
                if leader.is_some_and(|leader| turn.core.is_up(leader)) {
                    runner.routing_mut().wake_backed_off(turn.core, turn.now, &name);
                }
                self.on_members_noticed(turn, runner, (cluster, &name), leader, &members);
                self.tell_replica(
                    turn,
                    runner.routing_mut(),
                    cluster,
                    ReplicaKnown { name, generation, replica, leader },
                );
            }
            Notice::Leadership { name, term, event } => turn.tell(Change::Leadership { cluster: name, term, event }),
            Notice::Gone { cluster, name, replica } => {
                self.replica_repair.on_gone(cluster, replica);
                self.rebalance.note_engine(cluster, &[], ReplicaId(0));
                if turn.core.is_lane_zero() {
                    self.on_replica_gone(turn.core, cluster, &name);
                } else {
                    turn.core.send_to_lane_zero(&Item::ReplicaGone { cluster, name });
                }
            }
            Notice::Damaged { cluster, name, message } => {
                let text = format!(
                    "replica of {name} on node {} is damaged and waits to be replaced: {message}",
                    turn.core.node()
                );
                turn.note(crate::api::NoteLevel::Error, text.clone());
                self.replica_repair.note_damaged(cluster, text);
            }
            Notice::Quarantined { cluster, name, message } => {
                let text = format!("cluster {name} is quarantined on node {}: {message}", turn.core.node());
                turn.note(crate::api::NoteLevel::Error, text.clone());
                self.replica_repair.note_quarantined(cluster, text);
            }
            Notice::Ended { cluster, name, replica, by, message } => {
                let text = format!("replica of {name} on node {} has ended: {message}", turn.core.node());
                turn.note(crate::api::NoteLevel::Error, text.clone());
                self.replica_repair.note_damaged(cluster, text);
                let generation = turn.lane.view(cluster).map_or(by, |view| view.generation);
                self.tell_replica(
                    turn,
                    runner.routing_mut(),
                    cluster,
                    ReplicaKnown { name, generation, replica, leader: None },
                );
            }
            Notice::Recovered { name, message, .. } => {
                let text = format!("replica of {name} on node {}: {message}", turn.core.node());
                turn.note(crate::api::NoteLevel::Warning, text);
            }
            Notice::Released { cluster, name } => {
                let text = format!("cluster {name} on node {} serves again", turn.core.node());
                turn.note(crate::api::NoteLevel::Warning, text);
                self.replica_repair.note_released(cluster);
            }
            Notice::Mending { name, message, lost, .. } => {
                let level = if lost { crate::api::NoteLevel::Error } else { crate::api::NoteLevel::Warning };
                turn.note(level, format!("replica of {name} on node {}: {message}", turn.core.node()));
            }
            Notice::ScrubFailed { engine, message } => {
                let text = format!("engine {engine} on node {} cannot be scrubbed: {message}", turn.core.node());
                turn.note(crate::api::NoteLevel::Error, text);
            }
            Notice::LogFailed { message } => {
                let reason = format!("the log failed, nothing is acknowledged any more: {message}; the process ends so that it can recover");
                turn.effects.list.push(crate::api::Effect::Halt { reason });
            }
            Notice::EngineFailed { engine, message } => {
                let reason = format!(
                    "engine {engine} (lane-{}/{engine} below the data directory) failed, nothing is acknowledged any more: {message};                      the process ends; a damaged engine is set aside at the next start, and its replicas are rebuilt from the other members",
                    turn.core.config().lane.0
                );
                turn.effects.list.push(crate::api::Effect::Halt { reason });
            }
            Notice::UnknownCluster { from, cluster, generation } => {
                let item = Item::UnknownCluster { cluster, generation, disk: turn.core.config().disk };
                turn.core.send_to_cluster(from, cluster, &item);
            }
        }
    }

    /// Members or leader of a cluster here changed.
    fn on_members_noticed(
        &mut self,
        turn: &mut Turn<'_>,
        runner: &mut PlanRunner,
        (cluster, name): (ClusterId, &ClusterName),
        leader: Option<NodeId>,
        members: &Arc<[Member]>,
    ) {
        for member in members.iter() {
            turn.want_address(member.node);
        }
        let before = self.replica_repair.note_members(cluster, members);
        let changed = before.as_ref().is_some_and(|before| before != members);
        if let Some(before) = before.as_ref().filter(|_| changed && leader == Some(turn.core.node())) {
            let nodes = |members: &[Member]| members.iter().map(|member| member.node).collect();
            let (before, now) = (nodes(before), nodes(members));
            turn.tell(Change::Members { cluster: name.clone(), before, now });
        }
        if changed && !is_level_zero(cluster) {
            self.replica_repair.note_untold(cluster, turn.now);
        }
        if is_level_zero(cluster) {
            let leads = leader == Some(turn.core.node());
            self.note_level_zero(turn, runner.routing_mut(), cluster, (changed, leads));
        }
        if leader != Some(turn.core.node()) {
            return;
        }
        if let (true, Some(view)) = (changed, turn.lane.view(cluster)) {
            let before = before.unwrap_or_default();
            for old in before.iter().filter(|old| !members.iter().any(|new| new.node == old.node)) {
                let item = Item::DestroyReplica {
                    ticket: Ticket(0),
                    cluster,
                    generation: view.generation,
                    replica: old.replica,
                };
                turn.core.send_to_cluster(old.node, cluster, &item);
            }
        }
        self.replica_repair.find_lost_disks(turn, cluster, members);
        self.replica_repair.wake(turn.core, turn.now);
        if cluster == region_cluster_id(&turn.core.config().labels.region) {
            let generation = turn.lane.view(cluster).map_or(Generation(1), |view| view.generation);
            let document = RegionDocument { cluster, generation, members: members.to_vec() };
            let flow = RegionFlow::new(&turn.core.config().labels.region, &document);
            runner.start_plan(turn, AnyPlanner::flow(flow), PlanOwner::Silent, turn.now + REGION_TIMEOUT);
        }
    }

    /// At start: the replicas that are here.
    pub(super) fn start_replica_repair(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        for view in turn.lane.views() {
            self.rebalance.note_engine(view.cluster, &view.members, view.engine_since);
        }
        self.replica_repair.start(turn);
        self.on_replica_repair_timer(turn, runner);
    }

    /// Time to look at what may need repair.
    pub fn on_replica_repair_timer(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        self.replica_repair.retry(turn, runner.routing_mut());
        if self.replica_repair.orphans_due(turn) {
            self.look_at_orphans(turn, runner);
        }
        self.replica_repair.arm(turn);
    }

    /// Replicas that no leader speaks to: has their cluster gone on without them?
    fn look_at_orphans(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        let views = turn.lane.views();
        self.stale_generations.ask_after_lives(turn, runner.routing_mut(), &views);
        self.untold.compare_members(turn, runner.routing_mut(), &views);
        self.announce_again(turn, runner.routing_mut());
        for view in self.replica_repair.next_orphans(views) {
            let flow = OrphanFlow::new(turn.core.node(), &view);
            let deadline = turn.now + ORPHANS_EVERY;
            runner.start_plan(turn, AnyPlanner::flow(flow), PlanOwner::Silent, deadline);
        }
    }
}

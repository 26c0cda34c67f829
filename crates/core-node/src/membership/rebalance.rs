//! Members whose node is gone for good, or is being decommissioned: their place goes to another node. And members
//! whose cluster was given another engine since they were made: a new replica takes their place, there or elsewhere.
//!
//!   node map: down for `replace_after` ─┐
//!   node map: draining ─────────────────┼▶ each cluster's leader: MoveFlow, a few at a time, until done
//!   made before the engine was set ─────┘
//!
//! Always: only the leader of a cluster moves its members, one at a time; at most `MOVES_OUT_MAX` moves a
//! lane; what cannot be moved is reported in the status and tried again. A member of a level 0 cluster
//! moves when its node is being decommissioned, not when it is only down. Nothing is kept here that is not seen anew after a crash.
//! Held by: `a_node_that_is_down_for_a_moment_keeps_its_place`, `where_no_other_node_fits_the_status_says_so`, `configured_members_move_where_another_node_is`.
//! Not here: how a member moves (flows/moving.rs), a node that came back with another disk (replica_repair.rs).

use crate::context::level_zero::is_level_zero;
use crate::context::{CoreContext, Turn};
use crate::flows::moving::MoveFlow;
use crate::membership::replica_repair::ReplicaRepair;
use crate::plan_runner::{AnyPlanner, PlanOwner, PlanRunner};
use crate::timers::TimerKey;
use base_types::action::Response;
use base_types::{ClusterId, NodeId, ReplicaId, Tick};
use core::time::Duration;
use core_cluster::api::Member;
use std::collections::{BTreeMap, BTreeSet};

/// Moves under way at a time in one lane: snapshots of all of them would crowd out the clients.
pub const MOVES_OUT_MAX: usize = 4;
/// Moves known at a time; further ones are found when these are done.
pub const MOVES_KNOWN_MAX: usize = 1_024;
/// How often members are looked at while there is a node to leave.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long one attempt may take; what it has reached by then the next one finds.
const MOVE_TIMEOUT: Duration = Duration::from_secs(120);
/// The pause before a move that failed is tried again; doubled up to `MOVE_PAUSE_MAX`.
const MOVE_PAUSE: Duration = Duration::from_secs(2);
const MOVE_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Moves that cannot be made named in the status.
const WARNINGS_MAX: usize = 5;

/// A member that must move.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Move {
    from: NodeId,
    /// It is of another engine than the cluster's rule; else its node is leaving.
    renews: bool,
    next: Tick,
    pause: Duration,
    out: bool,
    /// Why the last attempt failed.
    failure: Option<String>,
}

/// What there is to move.
#[derive(Debug, Default)]
pub struct Rebalance {
    timer: Tick,
    /// Those that counted as gone when last looked at.
    gone: BTreeSet<NodeId>,
    /// One a cluster.
    list: BTreeMap<ClusterId, Move>,
    /// Clusters here with members below this replica, which are of an earlier engine.
    stale: BTreeMap<ClusterId, ReplicaId>,
}

impl Rebalance {
    /// A cluster's members and engine, as last noticed here.
    pub fn note_engine(&mut self, cluster: ClusterId, members: &[Member], since: ReplicaId) {
        if members.iter().any(|member| member.replica < since) {
            self.stale.insert(cluster, since);
        } else {
            self.stale.remove(&cluster);
        }
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// For `Status`: what cannot be moved, and why.
    pub fn warnings(&self) -> Vec<String> {
        let failed = || self.list.values().filter_map(|one| Some((one.from, one.failure.as_ref()?)));
        let tell = |(from, failure): (NodeId, &String)| format!("a replica of node {from} cannot be moved: {failure}");
        let mut warnings: Vec<String> = failed().take(WARNINGS_MAX).map(tell).collect();
        let more = failed().count().saturating_sub(WARNINGS_MAX);
        if more > 0 {
            warnings.push(format!("{more} more replicas cannot be moved"));
        }
        warnings
    }

    /// Nodes that members must leave now.
    fn leaving_nodes(&self, core: &CoreContext) -> BTreeSet<NodeId> {
        let draining = core.map().records().filter(|record| record.draining).map(|record| record.node);
        draining.chain(self.gone.iter().copied()).collect()
    }

    /// Time to look. Whether nodes have come to count as gone since the last time.
    pub fn on_timer(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, repair: &ReplicaRepair) -> bool {
        let at = turn.now + turn.core.random().jitter(LOOK_EVERY);
        let old = core::mem::replace(&mut self.timer, at);
        turn.core.set_timer(TimerKey::Rebalance, old, at);
        let before = core::mem::replace(&mut self.gone, turn.core.gone_nodes(turn.now));
        let leaving = self.leaving_nodes(turn.core);
        let stale = &self.stale;
        self.list.retain(|cluster, one| {
            one.out || if one.renews { stale.contains_key(cluster) } else { leaving.contains(&one.from) }
        });
        if !leaving.is_empty() {
            self.find_moves(turn, repair, &leaving);
        }
        self.find_renewals(turn);
        self.try_moves(turn, runner);
        !self.gone.is_subset(&before)
    }

    fn find_moves(&mut self, turn: &Turn<'_>, repair: &ReplicaRepair, leaving: &BTreeSet<NodeId>) {
        let unknown = repair
            .members_seen()
            // A member that waits to be renewed gives way to this: perhaps its node is the one that is gone.
            .filter(|(cluster, _)| self.list.get(cluster).is_none_or(|one| one.renews && !one.out));
        // A majority of the world does not walk away from machines that are only switched off.
        let draining = |node: &NodeId| turn.core.map().get(*node).is_some_and(|record| record.draining);
        let called: BTreeSet<NodeId> = leaving.iter().copied().filter(draining).collect();
        let found = unknown.filter_map(|(cluster, members)| {
            let leaving = if is_level_zero(*cluster) { &called } else { leaving };
            Some((*cluster, leaving_member(members, leaving)?))
        });
        let led = found.filter(|(cluster, _)| turn.lane.view(*cluster).is_some_and(|view| view.is_leader));
        let free = MOVES_KNOWN_MAX.saturating_sub(self.list.len());
        for (cluster, from) in led.take(free).collect::<Vec<_>>() {
            self.list.insert(cluster, Move::of(from, false, turn.now));
        }
    }

    /// Clusters led here whose members are of an earlier engine.
    fn find_renewals(&mut self, turn: &Turn<'_>) {
        let free = MOVES_KNOWN_MAX.saturating_sub(self.list.len());
        let unknown = self.stale.iter().filter(|(cluster, _)| !self.list.contains_key(cluster));
        let found = unknown.filter_map(|(cluster, since)| {
            let view = turn.lane.view(*cluster).filter(|view| view.is_leader)?;
            Some((*cluster, stale_member(&view.members, *since, turn.core.node())?))
        });
        for (cluster, from) in found.take(free).collect::<Vec<_>>() {
            self.list.insert(cluster, Move::of(from, true, turn.now));
        }
    }

    fn try_moves(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        let out = self.list.values().filter(|one| one.out).count();
        let due = self.list.iter().filter(|(_, one)| !one.out && one.next <= turn.now);
        let due: Vec<(ClusterId, NodeId, bool)> = due
            .take(MOVES_OUT_MAX.saturating_sub(out))
            .map(|(cluster, one)| (*cluster, one.from, one.renews))
            .collect();
        for (cluster, from, renews) in due {
            let led = turn.lane.view(cluster).filter(|view| view.is_leader);
            let Some(view) = led.filter(|view| view.members.iter().any(|member| member.node == from)) else {
                self.list.remove(&cluster);
                continue;
            };
            if let Some(one) = self.list.get_mut(&cluster) {
                one.out = true;
            }
            runner.routing_mut().know_own(&view);
            let spread = turn.core.random().next();
            let flow = match renews {
                true => MoveFlow::renewed(view.name, from, spread, turn.core.map().get(from).cloned()),
                false if turn.core.map().get(from).is_some_and(|record| record.draining) => {
                    MoveFlow::elected(view.name, from, spread).leaving()
                }
                false => MoveFlow::elected(view.name, from, spread),
            };
            runner.start_plan(turn, AnyPlanner::flow(flow), PlanOwner::Move(cluster), turn.now + MOVE_TIMEOUT);
        }
    }

    /// A move was made, or failed.
    pub fn on_moved(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, cluster: ClusterId, response: Response) {
        let Some(one) = self.list.get_mut(&cluster) else { return };
        one.out = false;
        match response {
            Ok(_) => {
                self.list.remove(&cluster);
            }
            Err(failure) => {
                one.next = turn.now + one.pause;
                one.pause = (one.pause * 2).min(MOVE_PAUSE_MAX);
                one.failure = Some(failure.refusal.message);
            }
        }
        self.try_moves(turn, runner);
    }
}

impl Move {
    fn of(from: NodeId, renews: bool, now: Tick) -> Move {
        Move { from, renews, next: now, pause: MOVE_PAUSE, out: false, failure: None }
    }
}

/// Which member of an earlier engine goes first: a leader goes last, it would have to hand over for each. One that is
/// still joining is left to join: without it there might be one too few.
fn stale_member(members: &[Member], since: ReplicaId, own: NodeId) -> Option<NodeId> {
    let stale = members.iter().filter(|member| member.replica < since && !member.learner);
    stale.min_by_key(|member| (member.node == own, member.node)).map(|member| member.node)
}

/// Which member goes first: one that never voted keeps the others waiting.
fn leaving_member(members: &[Member], leaving: &BTreeSet<NodeId>) -> Option<NodeId> {
    let goes = members.iter().filter(|member| leaving.contains(&member.node));
    goes.min_by_key(|member| (!member.learner, member.node)).map(|member| member.node)
}

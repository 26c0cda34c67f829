//! Takes an operation to a member that can do it, and keeps at it until it is done, refused, or its
//! deadline has come (Hive paper, 2.1: "the node does the redirection for the client").
//!
//! Always: one attempt at a time; every attempt of a write carries the same request id; an operation
//! ends exactly once. Attempts are bounded by `ATTEMPTS_MAX`, by the deadline and by backoff.
//! Held by: `a_request_id_applies_once`, `leader_loss_costs_a_slow_answer_not_an_error`.
//! Not here: what an answer means to a client (answers.rs), or to another part (it takes the event).

use crate::api::Change;
use crate::context::{CoreContext, Turn};
use crate::frame::Item;
use crate::routing::cache::Route;
use crate::routing::nearness;
use crate::routing::operation::{LastSeen, Operation, Owner, Phase, Target, ATTEMPTS_MAX, PENDING_REQUESTS_MAX};
use crate::routing::{Routing, RoutingEvent, Served, SERVED_MAX};
use crate::timers::TimerKey;
use base_types::access::Authority;
use base_types::action::{Failure, Level};
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterName, ErrorCode, ErrorKind, NodeId, ReadConsistency, Refusal, Tick, Ticket, WriteConsistency};
use core::time::Duration;
use core_cluster::api::{AdminCommand, Completion, LocalKind, LocalOperation, LocalOutcome, Member, PARK_MAX};
use core_flow::{failures, CallReply, CallResult};
use std::sync::Arc;

/// The first pause before an operation is retried. It doubles each round, up to a sixth of an election timeout. So an operation
/// that waits for a new leader learns of it at most so late.
const BACKOFF_FIRST: Duration = Duration::from_millis(10);
const BACKOFFS_PER_ELECTION: u32 = 6;
/// How long past its deadline a local operation may take to say what became of it.
const LOCAL_GRACE: Duration = Duration::from_millis(100);
/// What is kept of the deadline for the answer's way back: a tenth, at most this.
const ANSWER_MARGIN_MAX: Duration = Duration::from_millis(200);
/// Redirects that are followed at once; after them comes a backoff.
const REDIRECTS_AT_ONCE: u32 = 4;
/// How often one operation is decided again.
const RENEWALS_MAX: u32 = 1;
/// Doublings of an attempt's patience.
const PATIENCE_DOUBLINGS: u32 = 3;

/// The bits of a lane ticket: number, attempt (8 bits), whose it is (1 bit).
const SERVED_BIT: u64 = 1;
const ATTEMPT_BITS: u32 = 8;

/// The ticket of an operation's attempt.
fn attempt_ticket(number: u64, attempt: u32) -> Ticket {
    Ticket((number << ATTEMPT_BITS | u64::from(attempt & 0xff)) << 1)
}

/// The ticket of another node's operation.
pub fn served_ticket(number: u64) -> Ticket {
    Ticket(number << 1 | SERVED_BIT)
}

/// What a ticket of the lane belongs to.
enum TicketOf {
    Attempt { number: u64, attempt: u32 },
    Served(u64),
}

fn ticket_of(ticket: Ticket) -> TicketOf {
    if ticket.0 & SERVED_BIT == SERVED_BIT {
        return TicketOf::Served(ticket.0 >> 1);
    }
    let rest = ticket.0 >> 1;
    TicketOf::Attempt { number: rest >> ATTEMPT_BITS, attempt: (rest & 0xff) as u32 }
}

impl Routing {
    /// Starts an operation. Its end comes through `finish_operation`, perhaps before this returns.
    pub fn start_operation(&mut self, turn: &mut Turn<'_>, operation: Operation) -> u64 {
        let number = turn.core.next_number();
        if self.operations.len() >= PENDING_REQUESTS_MAX {
            turn.core.counters().requests_overloaded += 1;
            let failure = failures::overloaded("operations under way", PENDING_REQUESTS_MAX);
            self.finish_operation(turn, operation, Err(failure));
            return number;
        }
        turn.core.set_timer(TimerKey::Operation(number), Tick::NEVER, operation.timer);
        self.operations.insert(number, operation);
        self.attempt(turn, number);
        number
    }

    /// Makes the next attempt of an operation.
    pub fn attempt(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(operation) = self.operations.get(&number) else { return };
        if turn.now >= operation.deadline || operation.attempt >= ATTEMPTS_MAX {
            return self.expire(turn, number);
        }
        if let Err(refusal) = self.look_again(turn.core, number) {
            return self.end_changed(turn, number, refusal);
        }
        let Some(operation) = self.operations.get(&number) else { return };
        let placed = !operation.keys().is_some_and(|work| work.place);
        let Some(name) = operation.target().filter(|_| placed).map(|target| target.name.clone()) else {
            return self.place(turn, number);
        };
        let Some((_, route)) = self.routes.find(&name) else {
            return self.wait_for_route(turn, number, name);
        };
        let route = route.clone_for_attempt();
        match self.choose(turn.core, turn.now, number, &route) {
            Some(node) => self.send_attempt(turn, number, node, &route),
            None => self.back_off(turn, number),
        }
    }

    /// Whether what was decided for the operation still holds. Where only other users' rights have changed it is decided again,
    /// once: a change does not come so fast after another, and the client may retry.
    fn look_again(&mut self, core: &CoreContext, number: u64) -> Result<(), Refusal> {
        let Some(operation) = self.operations.get_mut(&number) else { return Ok(()) };
        let Some(granted) = &operation.granted else { return Ok(()) };
        let Err(refusal) = core.access().check(granted.authority) else { return Ok(()) };
        let renewed = core.access().renew(granted).filter(|_| operation.renewals < RENEWALS_MAX);
        operation.granted = Some(renewed.ok_or(refusal)?);
        operation.renewals += 1;
        Ok(())
    }

    /// The member to ask next; `None` when all have been asked in this round.
    fn choose(&mut self, core: &CoreContext, now: Tick, number: u64, route: &AttemptRoute) -> Option<NodeId> {
        if self.operations.get(&number)?.any_member(route.read_consistency) {
            return self.nearest(core, now, number, route);
        }
        let operation = self.operations.get(&number)?;
        let fresh = |node: &NodeId| !operation.tried.contains(node);
        // Followers name the leader that has just died until they elect another: nothing reaches it, and waiting
        // for its answer would take longer than the election.
        if let Some(leader) = route.leader.filter(fresh).filter(|leader| core.is_up(*leader)) {
            return Some(leader);
        }
        let voters = || route.members.iter().filter(|member| !member.learner).map(|member| member.node);
        let none_up = !voters().any(|node| core.is_up(node));
        voters()
            .filter(fresh)
            .find(|node| *node == core.node())
            .or_else(|| voters().filter(fresh).find(|node| core.is_up(*node)))
            // The map may be wrong: the world's leader keeps it, and calls down whom it does not hear. The others name this
            // leader, and there is a connection to it (seed 487).
            .or_else(|| route.leader.filter(fresh).filter(|leader| core.nodes().connected().contains(leader)))
            .filter(|node| core.is_up(*node) || none_up || !planted(Mutant::MapNeverDoubted))
            .or_else(|| voters().filter(|_| none_up).find(fresh))
    }

    /// For reads that any member may answer: the nearest, in turn where several are equally near.
    fn nearest(&mut self, core: &CoreContext, now: Tick, number: u64, route: &AttemptRoute) -> Option<NodeId> {
        let tried = &self.operations.get(&number)?.tried;
        let here = &core.config().labels;
        let distance = |node: NodeId| {
            let labels = core.map().get(node).map(|record| &record.labels);
            nearness::distance(here, node == core.node(), core.is_up(node), labels)
        };
        let voters = route.members.iter().filter(|member| !member.learner).map(|member| member.node);
        let here_is_one = voters.clone().any(|node| node == core.node()) && !tried.contains(&core.node());
        if here_is_one {
            return Some(core.node());
        }
        let fresh: Vec<_> = voters.filter(|node| !tried.contains(node)).map(|node| (distance(node), node)).collect();
        let (least, _) = *fresh.iter().min()?;
        let near: Vec<_> = fresh.iter().filter(|(distance, _)| *distance == least).map(|(_, node)| *node).collect();
        self.nearness.choose(now, &near)
    }

    fn send_attempt(&mut self, turn: &mut Turn<'_>, number: u64, node: NodeId, route: &AttemptRoute) {
        let patience = self.patience(turn.core, number);
        let lane = turn.core.lane_on(node, route.cluster);
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let Some(target) = operation.target_mut() else { return };
        if let LocalKind::Write { cluster_time_ms, .. } = &mut target.kind {
            *cluster_time_ms = route.clock_ms(turn.now);
        }
        let kind = target.kind.clone();
        operation.attempt += 1;
        let ticket = attempt_ticket(number, operation.attempt);
        let deadline = operation.deadline;
        operation.asked = turn.now;
        operation.asked_node = Some(node);
        let authority =
            operation.granted.as_ref().map_or_else(|| turn.core.access().own_authority(), |granted| granted.authority);
        if node == turn.core.node() && lane == turn.core.config().lane {
            operation.phase = Phase::Local;
            turn.core.counters().attempts_local += 1;
            self.move_timer(turn.core, number, deadline + LOCAL_GRACE);
            turn.core.wake_lane();
            let local = LocalOperation { ticket, cluster: route.cluster, generation: route.generation, deadline, kind };
            return turn.lane.submit(turn.now, local);
        }
        operation.phase = Phase::Remote { node };
        turn.core.counters().attempts_remote += 1;
        let remaining = deadline.since(turn.now);
        let deadline_ms = (remaining - (remaining / 10).min(ANSWER_MARGIN_MAX)).as_millis().max(1) as u32;
        self.move_timer(turn.core, number, deadline.min(turn.now + patience));
        let (cluster, generation) = (route.cluster, route.generation);
        let item = Item::Forward { ticket, cluster, generation, deadline_ms, kind, authority };
        turn.want_address(node);
        turn.core.send(node, lane, &item);
    }

    /// How long an attempt may take: two election timeouts, longer after each that got no answer. A write that waits for
    /// every member, or for a bucket, is not hurried: it ends at its deadline. Nor is a read that waits for a change.
    fn patience(&self, core: &CoreContext, number: u64) -> Duration {
        let Some(operation) = self.operations.get(&number) else { return Duration::ZERO };
        let patient = matches!(
            operation.kind(),
            Some(LocalKind::Write { consistency: Some(WriteConsistency::Absolute | WriteConsistency::S3), .. })
        );
        let slow_admin =
            matches!(operation.kind(), Some(LocalKind::Admin(command)) if *command != AdminCommand::Describe);
        if patient || slow_admin {
            return base_types::DEADLINE_MAX;
        }
        // Its member keeps it until there is something to give, or for so long.
        if matches!(operation.kind(), Some(LocalKind::Read { backend, query, .. }) if core_backends::waits(*backend, query))
        {
            return PARK_MAX + core.election_timeout();
        }
        core.election_timeout() * (1 << operation.timeouts.min(PATIENCE_DOUBLINGS))
    }

    fn move_timer(&mut self, core: &mut CoreContext, number: u64, at: Tick) {
        if let Some(operation) = self.operations.get_mut(&number) {
            let old = core::mem::replace(&mut operation.timer, at);
            core.set_timer(TimerKey::Operation(number), old, at);
        }
    }

    /// Waits, longer each round, and then asks everyone again.
    pub fn back_off(&mut self, turn: &mut Turn<'_>, number: u64) {
        self.drop_removed(turn.core, number);
        let longest = turn.core.election_timeout() / BACKOFFS_PER_ELECTION;
        let Some(operation) = self.operations.get_mut(&number) else { return };
        operation.tried.clear();
        operation.redirects = 0;
        let pause = (BACKOFF_FIRST * (1 << operation.rounds.min(6))).min(longest.max(BACKOFF_FIRST));
        operation.rounds += 1;
        operation.phase = Phase::Backoff;
        let at = (turn.now + turn.core.random().jitter(pause)).min(operation.deadline);
        turn.core.counters().retries += 1;
        self.move_timer(turn.core, number, at);
    }

    /// A route to nodes that were all removed from the world leads nowhere for ever: the name is resolved again. What was recreated has
    /// other members, and no old one is left that would say so.
    fn drop_removed(&mut self, core: &mut CoreContext, number: u64) {
        let Some(target) = self.operations.get(&number).and_then(Operation::target) else { return };
        let Some(route) = self.routes.get(&target.name) else { return };
        let (cluster, generation, name) = (route.cluster, route.generation, target.name.clone());
        let gone = !route.members.is_empty() && route.members.iter().all(|member| core.is_removed(member.node));
        if gone && !planted(Mutant::RemovedRouteKept) && self.routes.flush(&name, cluster, generation) {
            core.counters().cache_flushes += 1;
        }
    }

    /// A cluster has a leader (again): what backed off is tried when the timers ring next.
    pub fn wake_backed_off(&mut self, core: &mut CoreContext, now: Tick, name: &ClusterName) {
        let world = core.world();
        let waiting =
            |operation: &Operation| operation.phase == Phase::Backoff && **operation.waits_for(&world) == *name;
        let numbers: Vec<u64> =
            self.operations.iter().filter(|(_, operation)| waiting(operation)).map(|(number, _)| *number).collect();
        for number in numbers {
            self.move_timer(core, number, now);
        }
    }

    /// An operation's timer rang.
    pub fn on_operation_timer(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let over = turn.now >= operation.deadline;
        match operation.phase {
            _ if over => self.expire(turn, number),
            Phase::Backoff => self.attempt(turn, number),
            Phase::Remote { node } => {
                operation.timeouts += 1;
                operation.last = LastSeen::Event("no answer in time");
                operation.maybe_applied |= operation.is_write();
                turn.core.counters().attempt_timeouts += 1;
                self.give_up_on(turn, number, node);
            }
            Phase::Resolving | Phase::Local => self.move_timer(turn.core, number, operation_end(self, number)),
        }
    }

    /// A member did not do it: the next one is asked.
    fn give_up_on(&mut self, turn: &mut Turn<'_>, number: u64, node: NodeId) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        if operation.phase == (Phase::Remote { node }) {
            // Reads that any member may answer go to others for a while.
            self.nearness.note(turn.now, node, turn.now.since(operation.asked).max(turn.core.election_timeout()));
        }
        operation.tried.push(node);
        if let Some(route) = operation.target().and_then(|target| self.routes.get_mut(&target.name)) {
            if route.leader == Some(node) {
                route.leader = None;
            }
        }
        self.attempt(turn, number);
    }

    /// The connection to a node broke: what was asked of it is asked of others.
    pub fn on_attempts_lost(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        let lost: Vec<u64> = self
            .operations
            .iter()
            .filter(|(_, operation)| operation.phase == Phase::Remote { node })
            .map(|(number, _)| *number)
            .collect();
        for number in lost {
            if let Some(operation) = self.operations.get_mut(&number) {
                operation.last = LastSeen::Event("connection lost");
                operation.maybe_applied |= operation.is_write();
            }
            self.give_up_on(turn, number, node);
        }
    }

    /// The deadline (or the bound on attempts) ended an operation.
    fn expire(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(operation) = self.operations.remove(&number) else { return };
        turn.core.cancel_timer(TimerKey::Operation(number), operation.timer);
        let out = matches!(operation.phase, Phase::Local | Phase::Remote { .. });
        let unknown = operation.is_write() && (operation.maybe_applied || out);
        let world = turn.core.world();
        let name = operation.waits_for(&world);
        let failure = if unknown && !planted(Mutant::UnknownAsRefused) {
            failures::unknown(name, last_of(&operation))
        } else {
            failures::deadline(name, turn.now.since(operation.begun), last_of(&operation))
        };
        self.finish_operation(turn, operation, Err(failure));
    }

    /// Something came out of this core's lane.
    pub fn on_completion(&mut self, turn: &mut Turn<'_>, completion: Completion) {
        match ticket_of(completion.ticket) {
            TicketOf::Served(number) => {
                let Some(served) = self.served.remove(&number) else { return };
                let item = Item::ForwardReply { ticket: served.ticket, boot: served.boot, outcome: completion.outcome };
                turn.core.send(served.node, served.lane, &item);
            }
            TicketOf::Attempt { number, attempt } => {
                let node = turn.core.node();
                self.on_outcome(turn, number, attempt, node, completion.outcome);
            }
        }
    }

    /// A node answered what was forwarded to it.
    pub fn on_forward_reply(&mut self, turn: &mut Turn<'_>, from: NodeId, ticket: Ticket, outcome: LocalOutcome) {
        if let TicketOf::Attempt { number, attempt } = ticket_of(ticket) {
            self.on_outcome(turn, number, attempt, from, outcome);
        }
    }

    fn on_outcome(&mut self, turn: &mut Turn<'_>, number: u64, attempt: u32, node: NodeId, outcome: LocalOutcome) {
        let Some(operation) = self.operations.get(&number) else { return };
        let current = match operation.phase {
            Phase::Local => node == turn.core.node(),
            Phase::Remote { node: asked } => node == asked,
            Phase::Resolving | Phase::Backoff => false,
        };
        if !current || operation.attempt != attempt {
            return;
        }
        let Some(name) = operation.target().map(|target| target.name.clone()) else { return };
        match outcome {
            LocalOutcome::Written { reply, at, level, cluster_time_ms } => {
                self.note_leader(turn.now, &name, node, at.term, cluster_time_ms);
                let level = Level::Write(level);
                self.end(turn, number, Ok(CallReply::Backend { reply, at, level }));
            }
            LocalOutcome::Read { at, level, .. } if operation.has_seen_later(&at, level) => {
                self.ask_leader_instead(turn, number);
            }
            LocalOutcome::Read { reply, at, level, cluster_time_ms } => {
                let remote = operation.phase != Phase::Local;
                let took = turn.now.since(operation.asked);
                if level == ReadConsistency::Strong {
                    self.note_leader(turn.now, &name, node, at.term, cluster_time_ms);
                } else if remote {
                    self.nearness.note(turn.now, node, took);
                }
                let level = Level::Read(level);
                self.end(turn, number, Ok(CallReply::Backend { reply, at, level }));
            }
            LocalOutcome::Described(description) => {
                self.note_description(turn.now, &name, &description);
                self.end(turn, number, Ok(CallReply::Described(Box::new(description))));
            }
            LocalOutcome::Verified(report) => self.end(turn, number, Ok(CallReply::Verified(report))),
            LocalOutcome::AdminDone { at } => self.end(turn, number, Ok(CallReply::Done { at: Some(at) })),
            other => self.on_trouble(turn, number, node, &name, other),
        }
    }

    /// A member has not applied what a read's session has seen. The leader knows of all that is committed; of an entry that
    /// a member showed earlier the read retries until that is.
    fn ask_leader_instead(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        if let Some(Target { kind: LocalKind::Read { consistency, .. }, .. }) = operation.target_mut() {
            *consistency = Some(ReadConsistency::Strong);
        }
        if let Some(work) = operation.keys_mut() {
            work.read_consistency = Some(ReadConsistency::Strong);
        }
        self.redirect(turn, number, "no member had applied and committed what the session has seen");
    }

    fn on_trouble(
        &mut self,
        turn: &mut Turn<'_>,
        number: u64,
        node: NodeId,
        name: &Arc<ClusterName>,
        outcome: LocalOutcome,
    ) {
        match outcome {
            LocalOutcome::CommittedNotAbsolute { at, missing, .. } => {
                let names: Vec<String> = missing.iter().map(|node| node.to_string()).collect();
                let message = format!("the write is committed at index {} of cluster {name}, but not on every member; missing: node {}; it will not be undone", at.index, names.join(", node "));
                let refusal = Refusal::new(ErrorCode::CommittedNotAbsolute, message);
                self.end(turn, number, Err(Failure { refusal, at: Some(at), cluster: None }));
            }
            LocalOutcome::CommittedNotKept { at, kept, .. } => {
                let message = format!("the write is committed at index {} of cluster {name}, but not yet in the bucket, which holds it up to index {kept}; it will not be undone", at.index);
                let refusal = Refusal::new(ErrorCode::CommittedNotInBucket, message);
                self.end(turn, number, Err(Failure { refusal, at: Some(at), cluster: None }));
            }
            LocalOutcome::NotLeader { leader, term, members } => {
                self.on_not_leader(turn, number, node, name, NotLeader { leader, term, members });
            }
            LocalOutcome::NoSuchCluster => self.on_no_such_cluster(turn, number, node, name),
            LocalOutcome::StaleRoute { cluster_time_ms } => {
                if let Some(route) = self.routes.get_mut(name) {
                    route.clock = Some((cluster_time_ms, turn.now));
                }
                self.redirect(turn, number, "the cluster's clock was elsewhere");
            }
            LocalOutcome::Refused(refusal) => self.on_refused(turn, number, node, refusal),
            LocalOutcome::Unknown { .. } => {
                if let Some(operation) = self.operations.get_mut(&number) {
                    operation.maybe_applied |= operation.is_write();
                    operation.last = LastSeen::Event("the leader lost sight of it");
                }
                self.give_up_on(turn, number, node);
            }
            _ => {}
        }
    }

    /// Tries again at once, unless that has happened too often.
    fn redirect(&mut self, turn: &mut Turn<'_>, number: u64, last: &'static str) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        operation.last = LastSeen::Event(last);
        operation.redirects += 1;
        turn.core.counters().redirects += 1;
        if operation.redirects > REDIRECTS_AT_ONCE {
            self.back_off(turn, number);
        } else {
            self.attempt(turn, number);
        }
    }

    fn on_not_leader(
        &mut self,
        turn: &mut Turn<'_>,
        number: u64,
        node: NodeId,
        name: &Arc<ClusterName>,
        told: NotLeader,
    ) {
        if let Some(route) = self.routes.get_mut(name) {
            if told.term >= route.term {
                // Who does not hear the leader of the term knows none. That takes back nothing of what others have said: a term has
                // one leader (seed 5000102).
                let known = route.leader.filter(|leader| told.term == route.term && *leader != node);
                let known = known.filter(|_| !planted(Mutant::LeaderForgottenByOthers));
                route.term = told.term;
                route.leader = told.leader.filter(|leader| *leader != node).or(known);
                if !told.members.is_empty() {
                    route.members = told.members.into();
                }
            } else if route.leader == Some(node) {
                route.leader = None;
            }
        }
        let Some(operation) = self.operations.get_mut(&number) else { return };
        if operation.phase == (Phase::Remote { node }) {
            // Reads that any member may answer go to others for a while.
            self.nearness.note(turn.now, node, turn.now.since(operation.asked).max(turn.core.election_timeout()));
        }
        operation.tried.push(node);
        if let Some(leader) = told.leader {
            // A node that was tried before it led may be asked once more; the redirect bound ends loops.
            operation.tried.retain(|tried| *tried != leader || *tried == node);
        }
        self.redirect(turn, number, "no leader known");
    }

    /// The member holds no such cluster (any more): the name is resolved anew; if that says the same, another member is asked.
    fn on_no_such_cluster(&mut self, turn: &mut Turn<'_>, number: u64, node: NodeId, name: &Arc<ClusterName>) {
        let Some(route) = self.routes.get(name) else {
            return self.redirect(turn, number, "cluster being looked up");
        };
        let (cluster, generation, pinned) = (route.cluster, route.generation, route.pinned);
        let Some(operation) = self.operations.get_mut(&number) else { return };
        operation.last = LastSeen::Event(if pinned {
            "a configured member does not hold it (the world is not formed yet, or its disk was lost)"
        } else {
            "a member does not hold it"
        });
        operation.refute(cluster, generation, node);
        if pinned || operation.refreshed > operation.rounds {
            return self.give_up_on(turn, number, node);
        }
        operation.refreshed = operation.rounds + 1;
        if planted(Mutant::StaleRouteIsError) && !operation.maybe_applied {
            let failure = failures::unknown_cluster(name);
            return self.end(turn, number, Err(failure));
        }
        if self.routes.flush(name, cluster, generation) {
            turn.core.counters().cache_flushes += 1;
        }
        self.redirect(turn, number, "a member does not hold it");
    }

    /// A refusal: definite for this attempt, but not for an earlier one that may have been proposed.
    fn on_refused(&mut self, turn: &mut Turn<'_>, number: u64, node: NodeId, refusal: Refusal) {
        let settling = turn.core.election_timeout() * 2;
        if refusal.code == ErrorCode::PermissionsChanged {
            // Its owner knows of a later change than this node.
            self.report(RoutingEvent::DirectoryWanted);
        }
        let Some(operation) = self.operations.get_mut(&number) else { return };
        // A fresh leader has not heard of its members yet: only what it says later is final.
        let settled = turn.now.since(operation.begun) >= settling;
        let final_for_admin =
            matches!(operation.kind(), Some(LocalKind::Admin(_))) && refusal.code == ErrorCode::QuorumAtRisk && settled;
        // Nobody has a bucket: that is the request's to mend.
        let no_archive = refusal.code == ErrorCode::NoArchiveReplicaYet && settled;
        let refusal = if no_archive { Refusal::new(ErrorCode::NoArchiveReplica, refusal.message) } else { refusal };
        if refusal.kind() == ErrorKind::Unavailable && !final_for_admin {
            operation.last = LastSeen::Code(refusal.code);
            operation.refused = Some(refusal);
            return self.give_up_on(turn, number, node);
        }
        if operation.maybe_applied && refusal.kind() == ErrorKind::Overloaded {
            operation.last = LastSeen::Code(refusal.code);
            return self.back_off(turn, number);
        }
        // It says itself that the outcome is unknown, and that a retry changes nothing.
        if refusal.code == ErrorCode::RequestIdExpired {
            return self.end(turn, number, Err(refusal.into()));
        }
        if operation.maybe_applied && !planted(Mutant::UnknownAsRefused) {
            let failure = failures::unknown(operation.waits_for(&turn.core.world()), refusal.code.as_str());
            return self.end(turn, number, Err(failure));
        }
        self.end(turn, number, Err(refusal.into()));
    }

    /// What the client may do has changed since it was decided: it decides again with a new request.
    fn end_changed(&mut self, turn: &mut Turn<'_>, number: u64, refusal: Refusal) {
        let Some(operation) = self.operations.get(&number) else { return };
        if operation.maybe_applied {
            let failure = failures::unknown(operation.waits_for(&turn.core.world()), refusal.code.as_str());
            return self.end(turn, number, Err(failure));
        }
        self.end(turn, number, Err(refusal.into()));
    }

    /// Ends an operation that is in the table.
    pub fn end(&mut self, turn: &mut Turn<'_>, number: u64, result: CallResult) {
        let Some(operation) = self.operations.remove(&number) else { return };
        turn.core.cancel_timer(TimerKey::Operation(number), operation.timer);
        self.finish_operation(turn, operation, result);
    }

    fn finish_operation(&mut self, turn: &mut Turn<'_>, operation: Operation, result: CallResult) {
        if let (Owner::Plan { .. }, Some(spent)) = (&operation.owner, operation.spent(turn)) {
            turn.tell(Change::SlowCall(spent));
        }
        match operation.owner.clone() {
            Owner::Client { ticket, shape } => self.finish_client(turn, ticket, shape, operation, result),
            Owner::Resolve(name) => self.on_resolved(turn, &name, result),
            Owner::Keyspace(keyspace) => self.on_keyspace_document(turn, &keyspace, result),
            Owner::Elsewhere(name) => self.on_elsewhere(turn, &name, result),
            Owner::KeyspaceElsewhere { keyspace, copy } => self.on_keyspace_elsewhere(turn, &keyspace, copy, result),
            owner => self.report(RoutingEvent::Ended { owner, result }),
        }
    }

    fn note_leader(
        &mut self,
        now: Tick,
        name: &ClusterName,
        node: NodeId,
        term: base_types::Term,
        cluster_time_ms: u64,
    ) {
        if let Some(route) = self.routes.get_mut(name) {
            route.note_clock(now, cluster_time_ms);
            if term >= route.term {
                (route.leader, route.term) = (Some(node), term);
            }
        }
    }

    fn note_description(&mut self, now: Tick, name: &ClusterName, description: &core_cluster::api::ClusterDescription) {
        if let Some(route) = self.routes.get_mut(name) {
            if description.term >= route.term && description.cluster == route.cluster {
                route.members = description.members.iter().map(|(member, _)| *member).collect();
                (route.leader, route.term) = (description.leader, description.term);
                (route.consistency, route.read_consistency) = (description.consistency, description.read_consistency);
                route.note_clock(now, description.cluster_time_ms);
            }
        }
    }

    /// An operation from another node, or another lane of this one.
    pub fn on_forward(&mut self, turn: &mut Turn<'_>, asker: Served, operation: LocalOperation, authority: Authority) {
        if let Err(refusal) = turn.core.access().check_arrived(authority) {
            let outcome = LocalOutcome::Refused(refusal);
            let item = Item::ForwardReply { ticket: asker.ticket, boot: asker.boot, outcome };
            return turn.core.send(asker.node, asker.lane, &item);
        }
        if self.served.len() >= SERVED_MAX {
            let failure = failures::overloaded("operations of other nodes", SERVED_MAX);
            let outcome = LocalOutcome::Refused(failure.refusal);
            let item = Item::ForwardReply { ticket: asker.ticket, boot: asker.boot, outcome };
            return turn.core.send(asker.node, asker.lane, &item);
        }
        let number = turn.core.next_number();
        self.served.insert(number, asker);
        turn.core.counters().forwards_served += 1;
        turn.core.wake_lane();
        let operation = LocalOperation { ticket: served_ticket(number), ..operation };
        turn.lane.submit(turn.now, operation);
    }
}

/// What was last seen of an operation, for people.
fn last_of(operation: &Operation) -> &str {
    match (operation.last, &operation.refused) {
        (LastSeen::Event(what), _) => what,
        (LastSeen::Code(code), Some(refusal)) if refusal.code == code => &refusal.message,
        (LastSeen::Code(code), _) => code.as_str(),
    }
}

fn operation_end(routing: &Routing, number: u64) -> Tick {
    routing.operations.get(&number).map_or(Tick::NEVER, |operation| match operation.phase {
        Phase::Local => operation.deadline + LOCAL_GRACE,
        _ => operation.deadline,
    })
}

struct NotLeader {
    leader: Option<NodeId>,
    term: base_types::Term,
    members: Vec<Member>,
}

/// What an attempt needs of a route, taken out of the cache so that the cache can change meanwhile.
struct AttemptRoute {
    cluster: base_types::ClusterId,
    generation: base_types::Generation,
    members: Arc<[Member]>,
    leader: Option<NodeId>,
    read_consistency: ReadConsistency,
    clock: Option<(u64, Tick)>,
}

impl AttemptRoute {
    fn clock_ms(&self, now: Tick) -> u64 {
        self.clock.map_or(0, |(ms, at)| ms.saturating_add(now.since(at).as_millis() as u64))
    }
}

impl Route {
    fn clone_for_attempt(&self) -> AttemptRoute {
        AttemptRoute {
            cluster: self.cluster,
            generation: self.generation,
            members: self.members.clone(),
            leader: self.leader,
            read_consistency: self.read_consistency,
            clock: self.clock,
        }
    }
}

//! Members: adding, removing, replacing a lost disk, handing leadership over. Leader only.
//!
//! A wish is a goal (`node 3 votes on disk d`), not a step: it is done when the configuration shows it,
//! so asking twice is harmless and a new leader continues where the old one stopped. Learners are always
//! on their way to voting; the leader promotes one as soon as it has caught up.
//!
//! Always: one configuration change at a time (`Group::propose_change` refuses a second; raft-rs would silently ignore it).
//! A change that would leave no reachable majority is refused (checker `quorum`, mutant `QuorumGuardAssumes`).

use crate::api::*;
use crate::buggify::Point;
use crate::context::LaneContext;
use crate::entry::BACKEND_CLUSTER;
use crate::meta::{decode_members, encode_members, ClusterMeta, MEMBERS_MAX};
use crate::replica::apply::{SetDefaults, SetEngine};
use crate::replica::writes::Write;
use crate::replica::Replica;
use crate::wire::Payload;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{DiskId, ErrorCode, LogIndex, NodeId, Refusal, ReplicaId, RequestId, Tick, Ticket, WriteConsistency};
use bytes::Bytes;
use core_log::LogEntry;
use core_placement::Rule;
use core_raft::{entry_kind, ChangeError, ChangeKind, Group, MembershipChange};
use std::collections::BTreeSet;
use std::time::Duration;

/// A learner this many entries behind the commit index, or fewer, becomes a voter.
const PROMOTE_LAG_MAX: u64 = 64;
/// A replica is recreated on its own node only where so many vote: with two, one disk would hold every write for a while.
const RENEW_VOTERS_MIN: usize = 3;
/// Wishes waiting in one replica.
const ADMIN_WAITS_MAX: usize = 256;

/// What a membership entry carries in its context: Raft's change and who the new replicas are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChangeContext {
    pub changes: Vec<(ChangeKind, ReplicaId)>,
    pub added: Vec<Member>,
}

impl ChangeContext {
    /// Of a membership entry. An empty context is the library's own step out of a joint configuration.
    pub fn of(entry: &LogEntry) -> Result<ChangeContext, DecodeError> {
        if entry.context.is_empty() {
            return Ok(ChangeContext::default());
        }
        ChangeContext::from_bytes(entry.context.clone())
    }

    /// Members as the committed entries behind `meta` change them. Who is removed jointly is one until the joint state
    /// is left.
    pub fn members_behind(meta: &ClusterMeta, entries: &[LogEntry]) -> Vec<Member> {
        let mut members = meta.members.to_vec();
        let before = &meta.membership;
        let stays = |replica: &ReplicaId| before.voters.contains(replica) || before.learners_next.contains(replica);
        let mut leaving: Vec<ReplicaId> =
            before.voters_outgoing.iter().copied().filter(|replica| !stays(replica)).collect();
        for entry in entries.iter().filter(|entry| entry.kind == entry_kind::MEMBERSHIP) {
            // What does not decode cannot be applied either: the replica is given up when it comes to that.
            let Ok(ChangeContext { changes, added }) = ChangeContext::of(entry) else { break };
            let is_removed = |(kind, _): &&(ChangeKind, ReplicaId)| *kind == ChangeKind::Remove;
            leaving.extend(changes.iter().filter(is_removed).map(|(_, replica)| *replica));
            members.retain(|old| added.iter().all(|new| new.replica != old.replica));
            members.extend(added);
            if !(MembershipChange { changes }).enters_joint() {
                members.retain(|member| !leaving.contains(&member.replica));
                leaving.clear();
            }
        }
        members
    }
}

impl Encode for ChangeContext {
    fn encode(&self, out: &mut Writer) {
        MembershipChange { changes: self.changes.clone() }.encode(out);
        encode_members(out, &self.added);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(ChangeContext { changes: MembershipChange::decode(input)?.changes, added: decode_members(input)? })
    }
}

/// What a wish waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Goal {
    Voter {
        node: NodeId,
        disk: DiskId,
    },
    Absent {
        node: NodeId,
    },
    Replaced {
        from: NodeId,
        node: NodeId,
        disk: DiskId,
    },
    Renewed {
        node: NodeId,
        replica: ReplicaId,
    },
    LeaderOn {
        node: NodeId,
    },
    /// This entry is passed.
    Skipped {
        index: LogIndex,
    },
}

struct Wait {
    ticket: Ticket,
    deadline: Tick,
    goal: Goal,
}

/// A wish that takes a voter away: begun once a majority of those that stay has answered since it came.
struct Asking {
    ticket: Ticket,
    deadline: Tick,
    since: Tick,
    command: AdminCommand,
}

/// Wishes under way.
#[derive(Default)]
pub struct AdminWaits {
    list: Vec<Wait>,
    asking: Vec<Asking>,
}

impl AdminWaits {
    pub fn sizes(&self, sizes: &mut Sizes) {
        sizes.passing("changes waiting, a replica", self.len(), ADMIN_WAITS_MAX);
    }

    pub fn is_idle(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.list.len() + self.asking.len()
    }
}

/// In so long every member that is there has answered its leader.
fn recently(lane: &LaneContext) -> Duration {
    Duration::from_millis(lane.config.tick_ms * lane.config.election_ticks as u64 * 2)
}

/// Since when an answer counts for a change that was begun earlier.
fn lately(lane: &LaneContext, now: Tick) -> Tick {
    Tick(now.0.saturating_sub(recently(lane).as_micros() as u64))
}

impl Replica {
    pub fn submit_admin(
        &mut self,
        lane: &mut LaneContext,
        now: Tick,
        ticket: Ticket,
        deadline: Tick,
        command: AdminCommand,
    ) {
        if !self.is_leader() || self.leading.is_none() {
            return lane.complete(ticket, self.not_leader());
        }
        let waits = matches!(
            command,
            AdminCommand::Describe | AdminCommand::SkipEntry { .. } | AdminCommand::TransferLeader { .. }
        );
        if !waits && self.refuse_quarantined(lane, ticket) {
            return;
        }
        let result = match command {
            AdminCommand::SkipEntry { index } => self.plan_skip(lane, now, index).map(|()| Goal::Skipped { index }),
            AdminCommand::Verify { run } => return self.submit_verify(lane, now, ticket, deadline, run),
            AdminCommand::Describe => return lane.complete(ticket, LocalOutcome::Described(self.describe(lane, now))),
            AdminCommand::SetDefaultConsistency { consistency, read_consistency } => {
                let command = SetDefaults { consistency, read_consistency }.to_bytes();
                return self.submit_setting(lane, now, ticket, deadline, command);
            }
            AdminCommand::SetEngine { engine } => {
                let command = SetEngine { engine }.to_bytes();
                return self.submit_setting(lane, now, ticket, deadline, command);
            }
            _ if self.admin.len() >= ADMIN_WAITS_MAX => {
                let message = format!(
                    "{ADMIN_WAITS_MAX} changes of cluster {} wait already; retry when some are done",
                    self.spec.name
                );
                Err(Refusal::new(ErrorCode::Overloaded, message))
            }
            command => return self.try_wish(lane, now, Asking { ticket, deadline, since: now, command }),
        };
        self.begin_wish(lane, ticket, deadline, result);
    }

    /// Begins a wish, or has it wait until enough members have answered since it came: they may all be silent, and a
    /// leader that has just woken does not know. Two election timeouts are enough to answer in.
    fn try_wish(&mut self, lane: &mut LaneContext, now: Tick, asking: Asking) {
        let result = self.wish(lane, asking.since, &asking.command);
        let until = asking.deadline.min(asking.since + recently(lane));
        let unheard = |refusal: &Refusal| refusal.code == ErrorCode::QuorumAtRisk;
        if now < until && result.as_ref().is_err_and(unheard) {
            return self.admin.asking.push(asking);
        }
        self.begin_wish(lane, asking.ticket, asking.deadline, result);
    }

    /// The first step of a wish for members; answers since then count.
    fn wish(&mut self, lane: &mut LaneContext, since: Tick, command: &AdminCommand) -> Result<Goal, Refusal> {
        match *command {
            AdminCommand::RenewMember { node, replica } => {
                self.wish_renewed(lane, since, node, replica).map(|()| Goal::Renewed { node, replica })
            }
            AdminCommand::AddMember { node, disk } | AdminCommand::ReplaceDisk { node, disk } => {
                self.wish_voter(lane, since, node, disk).map(|()| Goal::Voter { node, disk })
            }
            AdminCommand::RemoveMember { node } => self.wish_absent(lane, since, node).map(|()| Goal::Absent { node }),
            AdminCommand::ReplaceMember { from, node, disk } => {
                self.wish_replaced(lane, since, from, (node, disk)).map(|()| Goal::Replaced { from, node, disk })
            }
            AdminCommand::TransferLeader { node } => self.wish_leader(node).map(|()| Goal::LeaderOn { node }),
            AdminCommand::Verify { .. }
            | AdminCommand::Describe
            | AdminCommand::SetDefaultConsistency { .. }
            | AdminCommand::SkipEntry { .. }
            | AdminCommand::SetEngine { .. } => {
                Err(Refusal::new(ErrorCode::InvalidRequest, "the command changes no members"))
            }
        }
    }

    fn begin_wish(&mut self, lane: &mut LaneContext, ticket: Ticket, deadline: Tick, result: Result<Goal, Refusal>) {
        match result {
            Ok(Goal::Voter { .. } | Goal::Absent { .. }) if planted(Mutant::ConfChangeUnapplied) => {
                let at = self.at(self.term(), self.meta.applied, 0);
                lane.complete(ticket, LocalOutcome::AdminDone { at });
            }
            Ok(goal) => self.admin.list.push(Wait { ticket, deadline, goal }),
            Err(refusal) => lane.complete(ticket, LocalOutcome::Refused(refusal)),
        }
    }

    /// A command to the cluster itself.
    fn submit_setting(&mut self, lane: &mut LaneContext, now: Tick, ticket: Ticket, deadline: Tick, command: Bytes) {
        let write = Write {
            backend: BACKEND_CLUSTER,
            command,
            consistency: Some(WriteConsistency::Strong),
            // Setting a value twice is harmless, so the ticket serves as the request's id.
            request_id: RequestId::own(
                (u128::from(ticket.0) << 64) | u128::from(now.0 ^ lane.config.node.0.rotate_right(16)),
            ),
            cluster_time_ms: self.cluster_time(now),
        };
        self.submit_write(lane, now, ticket, deadline, write);
    }

    /// A replica that cannot be mended asked to be replaced by a new one on its own disk.
    pub fn replace_lost(&mut self, lane: &mut LaneContext, now: Tick, from: NodeId, replica: ReplicaId) {
        if self.is_stranger(replica) {
            return self.send(lane, from, &Payload::Removed { replica });
        }
        let Some(member) = self.meta.members.iter().copied().find(|member| member.replica == replica) else { return };
        if self.leading.is_some() && replica != self.spec.replica {
            let since = lately(lane, now);
            let asked = self.propose_replacement(lane, since, Some(member), (member.node, member.disk));
            // Refusals are fine: it is tried again with the next ticks. The lost replica has woken a leader, perhaps, that nobody
            // has answered lately; by its next request the cluster would be quiescent again, too.
            self.lost_asks = asked.is_err().then_some((from, replica, now)).filter(|_| !planted(Mutant::LostHeardOnce));
        }
    }

    /// A replica that asked to be replaced and was refused is replaced as soon as possible, or it retries.
    fn retry_replacement(&mut self, lane: &mut LaneContext, now: Tick) {
        let Some((from, replica, asked)) = self.lost_asks.take() else { return };
        if now.since(asked) < crate::replica::log_repair::LOST_EVERY {
            self.replace_lost(lane, now, from, replica);
            self.lost_asks = self.lost_asks.map(|(from, replica, _)| (from, replica, asked));
        }
    }

    fn wish_voter(&mut self, lane: &LaneContext, since: Tick, node: NodeId, disk: DiskId) -> Result<(), Refusal> {
        match self.meta.member_on(node) {
            Some(member) if member.disk == disk => Ok(()),
            old => self.propose_replacement(lane, since, old, (node, disk)),
        }
    }

    fn propose_replacement(
        &mut self,
        lane: &LaneContext,
        since: Tick,
        old: Option<Member>,
        (node, disk): (NodeId, DiskId),
    ) -> Result<(), Refusal> {
        if self.meta.members.len() >= MEMBERS_MAX {
            let message = format!("cluster {} has {MEMBERS_MAX} members already; remove one first", self.spec.name);
            return Err(Refusal::new(ErrorCode::TooManyMembers, message));
        }
        let replica = self.meta.next_replica;
        let mut changes = vec![(ChangeKind::AddLearner, replica)];
        if let Some(old) = old {
            self.check_quorum_without(lane, since, old, None)?;
            changes.push((ChangeKind::Remove, old.replica));
        }
        self.propose_members(ChangeContext { changes, added: vec![Member { replica, node, disk, learner: true }] })
    }

    fn wish_absent(&mut self, lane: &mut LaneContext, since: Tick, node: NodeId) -> Result<(), Refusal> {
        let Some(member) = self.meta.member_on(node) else { return Ok(()) };
        if self.meta.members.iter().filter(|member| !member.learner).count() == 1 && !member.learner {
            let message =
                format!("node {node} holds the only voter of cluster {}; delete the cluster instead", self.spec.name);
            return Err(Refusal::new(ErrorCode::LastVoter, message));
        }
        self.check_quorum_without(lane, since, member, None)?;
        if node == lane.config.node {
            return self.hand_over_to_best();
        }
        self.propose_members(ChangeContext { changes: vec![(ChangeKind::Remove, member.replica)], added: Vec::new() })
    }

    /// The place of `from` for `node`. What is still missing is done step by step (`promote_learners`). A leader
    /// in whose place another is to come hands over first, and the client retries with the next one; an only voter
    /// cannot, so the other becomes a voter beside it before.
    fn wish_replaced(
        &mut self,
        lane: &mut LaneContext,
        since: Tick,
        from: NodeId,
        (node, disk): (NodeId, DiskId),
    ) -> Result<(), Refusal> {
        let name = &self.spec.name;
        if from == node {
            return Err(Refusal::new(ErrorCode::InvalidRequest, format!("node {node} cannot take its own place")));
        }
        let taken = self.meta.member_on(node).filter(|member| member.disk == disk);
        if self.meta.member_on(from).is_none() {
            let message = format!("node {from} is no member of cluster {name}, so nobody can take its place");
            // Done already, or it never was: then nobody is added.
            return if taken.is_some() { Ok(()) } else { Err(Refusal::new(ErrorCode::NotAMember, message)) };
        }
        if let Some(other) = self.meta.members.iter().find(|member| member.learner && member.node != node) {
            let message = format!("node {} is joining cluster {name}; wait until it is done", other.node);
            return Err(Refusal::new(ErrorCode::MembershipChangePending, message));
        }
        match taken {
            Some(member) if !member.learner => self.wish_absent(lane, since, from),
            _ if from == lane.config.node && !self.votes_alone() => self.hand_over_to_best(),
            Some(_) => Ok(()),
            None => self.wish_voter(lane, since, node, disk),
        }
    }

    /// A new replica where one is that is whole: it stops voting before the other has begun, so this is for where a
    /// majority votes without it, of as many copies as any write has. A leader's own goes last, by another leader.
    fn wish_renewed(
        &mut self,
        lane: &mut LaneContext,
        since: Tick,
        node: NodeId,
        replica: ReplicaId,
    ) -> Result<(), Refusal> {
        let name = &self.spec.name;
        let Some(member) = self.meta.member_on(node) else {
            let message = format!("node {node} is no member of cluster {name}; its replica cannot be recreated");
            return Err(Refusal::new(ErrorCode::NotAMember, message));
        };
        if member.replica > replica {
            return Ok(());
        }
        if let Some(other) = self.meta.members.iter().find(|other| other.learner && other.replica != member.replica) {
            let message = format!("node {} is joining cluster {name}; wait until it is done", other.node);
            return Err(Refusal::new(ErrorCode::MembershipChangePending, message));
        }
        let voters = self.meta.members.iter().filter(|member| !member.learner).count();
        if voters < RENEW_VOTERS_MIN {
            let message = format!(
                "cluster {name} has {voters} voters; one of fewer than {RENEW_VOTERS_MIN} is replaced on another node only: add a node that offers the engine"
            );
            return Err(Refusal::new(ErrorCode::QuorumAtRisk, message));
        }
        if node == lane.config.node {
            self.check_quorum_without(lane, since, member, None)?;
            return self.hand_over_to_best();
        }
        self.propose_replacement(lane, since, Some(member), (node, member.disk))
    }

    fn votes_alone(&self) -> bool {
        self.meta.members.iter().filter(|member| !member.learner).all(|member| member.replica == self.spec.replica)
    }

    /// Whose place a learner takes, by the wishes here: that member goes when the learner becomes a voter.
    fn place_for(&self, learner: ReplicaId) -> Option<Member> {
        let learner = self.meta.members.iter().find(|member| member.replica == learner)?;
        let from = self.admin.list.iter().find_map(|wait| match wait.goal {
            Goal::Replaced { from, node, disk } if (node, disk) == (learner.node, learner.disk) => Some(from),
            _ => None,
        })?;
        self.meta.member_on(from)
    }

    /// A wish for a place whose new holder votes already: the old one goes.
    fn finish_replacements(&mut self, lane: &mut LaneContext, now: Tick) {
        let half_done = self.admin.list.iter().find_map(|wait| match wait.goal {
            Goal::Replaced { from, node, disk } => {
                let voter = |member: Member| member.disk == disk && !member.learner;
                Some(from).filter(|_| self.meta.member_on(node).is_some_and(voter))
            }
            _ => None,
        });
        if let Some(from) = half_done {
            // A refusal is fine: it is tried again with the next tick.
            let _tried_again = self.wish_absent(lane, lately(lane, now), from);
        }
    }

    /// A leader that is to be removed first makes another one; a retry to that one meets the wish.
    fn hand_over_to_best(&mut self) -> Result<(), Refusal> {
        let own = self.spec.replica;
        let best = self
            .group
            .as_ref()
            .into_iter()
            .flat_map(|group| group.followers())
            .filter(|follower| {
                follower.replica != own && follower.active && self.meta.membership.is_voter(follower.replica)
            })
            .max_by_key(|follower| follower.matched);
        let best = best.ok_or_else(|| {
            let message = format!(
                "cluster {} has no other voter that can lead it; start its members that are down, then retry",
                self.spec.name
            );
            Refusal::new(ErrorCode::QuorumAtRisk, message)
        })?;
        self.end_lease_for_transfer();
        self.transfer_leader(best.replica, "this member is to be removed or replaced");
        Ok(())
    }

    fn wish_leader(&mut self, node: NodeId) -> Result<(), Refusal> {
        let member = self.meta.member_on(node).filter(|member| !member.learner).ok_or_else(|| {
            Refusal::new(
                ErrorCode::NotAMember,
                format!(
                    "node {node} holds no voter of cluster {}; name one of its members, or add it first",
                    self.spec.name
                ),
            )
        })?;
        if member.replica != self.spec.replica {
            self.end_lease_for_transfer();
            self.transfer_leader(member.replica, "another leader was asked for");
        }
        Ok(())
    }

    /// The library's own mark of who is active is wiped once every election timeout: a client that asks in step
    /// with that would be refused for ever. So what counts is who has answered since then.
    /// `joining` begins to vote in the same step.
    fn check_quorum_without(
        &self,
        lane: &LaneContext,
        since: Tick,
        leaving: Member,
        joining: Option<ReplicaId>,
    ) -> Result<(), Refusal> {
        let membership = &self.meta.membership;
        let joining = joining.filter(|_| !planted(Mutant::JoiningNotCounted));
        let voters: BTreeSet<ReplicaId> =
            membership.voters.iter().chain(&membership.voters_outgoing).copied().chain(joining).collect();
        let voters: Vec<ReplicaId> = voters.into_iter().filter(|voter| *voter != leaving.replica).collect();
        let down = |voter: &ReplicaId| self.meta.node_of(*voter).is_some_and(|node| lane.down.contains(&node));
        let assumed = |voter: &ReplicaId| planted(Mutant::QuorumGuardAssumes) && !down(voter);
        let answers = |voter: &ReplicaId| self.answered.get(voter).is_some_and(|at| *at > since) || assumed(voter);
        let active = voters.iter().filter(|voter| **voter == self.spec.replica || answers(voter)).count();
        if active > voters.len() / 2 {
            return Ok(());
        }
        let message = format!(
            "without node {} only {active} of {} voters of cluster {} answer; bring more of them up first",
            leaving.node,
            voters.len(),
            self.spec.name
        );
        Err(Refusal::new(ErrorCode::QuorumAtRisk, message))
    }

    fn propose_members(&mut self, context: ChangeContext) -> Result<(), Refusal> {
        let change = MembershipChange { changes: context.changes.clone() };
        let group = self.group.as_mut().expect("a leader has a group");
        group.propose_change(&change, context.to_bytes()).map(drop).map_err(|error| match error {
            ChangeError::Pending => Refusal::new(
                ErrorCode::MembershipChangeRunning,
                format!("cluster {} is changing its members already; retry when it is done", self.spec.name),
            ),
            other => Refusal::new(ErrorCode::NoLeader, format!("cluster {}: {other}", self.spec.name)),
        })
    }

    /// Learners that have caught up become voters.
    pub fn promote_learners(&mut self, lane: &mut LaneContext, now: Tick) {
        self.retry_replacement(lane, now);
        if self.leading.is_none() || self.meta.membership.is_joint() {
            return;
        }
        if !self.admin.is_idle() {
            self.finish_replacements(lane, now);
        }
        if self.meta.membership.learners.is_empty() {
            return;
        }
        if self.flushes.index().0 == 0 {
            // A learner starts from a snapshot, and there is none before the first flush.
            lane.flush_soon = true;
        }
        let Some(group) = self.group.as_ref().filter(|group| !group.change_pending()) else { return };
        let commit = group.commit().0;
        let caught_up = group.followers().into_iter().find(|follower| {
            self.meta.membership.learners.contains(&follower.replica)
                && !follower.in_snapshot
                && follower.active
                && follower.matched.0 + PROMOTE_LAG_MAX >= commit
                && follower.matched.0 > 0
        });
        if let Some(follower) = caught_up {
            self.promote(lane, now, follower.replica);
        }
    }

    /// Refusals are fine here: it is tried again with the next tick.
    fn promote(&mut self, lane: &mut LaneContext, now: Tick, learner: ReplicaId) {
        let mut changes = vec![(ChangeKind::AddVoter, learner)];
        match self.place_for(learner) {
            Some(old) if old.replica == self.spec.replica && !self.votes_alone() => {
                let _tried_again = self.hand_over_to_best();
                return;
            }
            Some(old) if old.replica == self.spec.replica => {}
            Some(old) if self.check_quorum_without(lane, lately(lane, now), old, Some(learner)).is_err() => return,
            Some(old) => changes.push((ChangeKind::Remove, old.replica)),
            None => {}
        }
        let _tried_again = self.propose_members(ChangeContext { changes, added: Vec::new() });
    }

    /// Hands leadership to some other voter, where a rare order wants it so.
    pub fn maybe_stray_transfer(&mut self, lane: &mut LaneContext) {
        if self.leading.is_none() || !lane.buggify.fires(Point::StrayTransfer) {
            return;
        }
        let own = self.spec.replica;
        let others: Vec<NodeId> =
            self.meta.members.iter().filter(|m| !m.learner && m.replica != own).map(|m| m.node).collect();
        if let Some(node) = others.get(lane.buggify.draw() as usize % others.len().max(1)) {
            // A refusal is fine: nobody asked.
            let _unasked = self.wish_leader(*node);
        }
    }

    fn reached(&self, lane: &LaneContext, goal: Goal) -> bool {
        if self.meta.membership.is_joint() {
            return false;
        }
        match goal {
            Goal::Voter { node, disk } => {
                self.meta.member_on(node).is_some_and(|member| member.disk == disk && !member.learner)
            }
            Goal::Absent { node } => self.meta.member_on(node).is_none(),
            Goal::Replaced { from, node, disk } => {
                self.meta.member_on(from).is_none()
                    && self.meta.member_on(node).is_some_and(|member| member.disk == disk && !member.learner)
            }
            Goal::Renewed { node, replica } => {
                self.meta.member_on(node).is_some_and(|member| member.replica > replica && !member.learner)
            }
            Goal::Skipped { index } => self.meta.applied >= index,
            Goal::LeaderOn { node } => {
                node == lane.config.node && self.is_leader() || (!self.is_leader() && self.leader_node() == Some(node))
            }
        }
    }

    /// A leader that was to recreate its own replica is still the leader: the member that it handed over to is gone, or lags.
    /// Not tried again from here, for no write is taken while it hands over: the client pauses, and retries.
    fn failed_to_hand_over(&self, lane: &LaneContext, goal: Goal) -> bool {
        let own = matches!(goal, Goal::Renewed { node, .. } if node == lane.config.node);
        own && self.is_leader() && !self.group.as_ref().is_some_and(Group::is_transferring)
    }

    /// Answers wishes that are met.
    pub fn advance_admin(&mut self, lane: &mut LaneContext, now: Tick) {
        if self.leading.is_some() {
            for asking in std::mem::take(&mut self.admin.asking) {
                self.try_wish(lane, now, asking);
            }
        }
        if self.admin.list.is_empty() {
            return;
        }
        let at = self.at(self.term(), self.meta.applied, 0);
        let elsewhere = !self.is_leader() && self.leader_node().is_some();
        for wait in std::mem::take(&mut self.admin.list) {
            if self.reached(lane, wait.goal) {
                lane.complete(wait.ticket, LocalOutcome::AdminDone { at });
            } else if elsewhere {
                lane.complete(wait.ticket, self.not_leader());
            } else if self.failed_to_hand_over(lane, wait.goal) {
                let message = format!("cluster {} could not hand leadership over; retry", self.spec.name);
                let refusal = Refusal::new(ErrorCode::NoLeader, message);
                lane.complete(wait.ticket, LocalOutcome::Refused(refusal));
            } else {
                self.admin.list.push(wait);
            }
        }
    }

    /// The replica goes: nothing may wait on it any more.
    pub fn drop_admin(&mut self, lane: &mut LaneContext) {
        self.drop_asking(lane);
        for wait in std::mem::take(&mut self.admin.list) {
            lane.complete(wait.ticket, self.not_leader());
        }
    }

    /// Leadership is gone: wishes go to the new leader. One for a leader waits until there is one.
    pub fn fail_admin(&mut self, lane: &mut LaneContext) {
        self.drop_asking(lane);
        let at = self.at(self.term(), self.meta.applied, 0);
        for wait in std::mem::take(&mut self.admin.list) {
            let met = self.reached(lane, wait.goal);
            if !met && matches!(wait.goal, Goal::LeaderOn { .. }) && self.leader_node().is_none() {
                self.admin.list.push(wait);
                continue;
            }
            let outcome = if met { LocalOutcome::AdminDone { at } } else { self.not_leader() };
            lane.complete(wait.ticket, outcome);
        }
    }

    /// Nothing of them was begun: they go to the new leader.
    fn drop_asking(&mut self, lane: &mut LaneContext) {
        for asking in std::mem::take(&mut self.admin.asking) {
            lane.complete(asking.ticket, self.not_leader());
        }
    }

    pub fn expire_admin(&mut self, lane: &mut LaneContext, now: Tick) {
        self.advance_admin(lane, now);
        if self.admin.list.is_empty() {
            return;
        }
        let late: Vec<_> = self.admin.list.extract_if(.., |wait| wait.deadline <= now).collect();
        for wait in late {
            let message = format!(
                "cluster {} has not finished the change before its deadline; it continues, retry to wait for it",
                self.spec.name
            );
            lane.complete(wait.ticket, LocalOutcome::Unknown { message });
        }
    }

    /// The rule as it was made, with the engine chosen since.
    fn rule_now(&self) -> String {
        let Some(chosen) = &self.meta.engine else { return self.spec.rule.to_string() };
        match self.spec.rule.parse::<Rule>() {
            Ok(rule) => Rule { engine: Some(chosen.engine.clone()), ..rule }.to_string(),
            Err(_) => self.spec.rule.to_string(), // Written by a release that knows more words.
        }
    }

    pub fn describe(&self, lane: &LaneContext, now: Tick) -> ClusterDescription {
        let followers = self.group.as_ref().map(|group| group.followers()).unwrap_or_default();
        let matched = |member: &Member| {
            let found = followers.iter().find(|follower| follower.replica == member.replica);
            found.map_or(base_types::LogIndex(0), |follower| follower.matched)
        };
        ClusterDescription {
            cluster: self.spec.cluster,
            generation: self.spec.generation,
            name: self.spec.name.clone(),
            rule: self.rule_now(),
            engine: self.spec.engine.to_string(),
            engine_since: self.meta.engine_since(),
            leader: self.leader_node(),
            term: self.term(),
            commit: self.group.as_ref().map_or(base_types::LogIndex(0), |group| group.commit()),
            applied: self.meta.applied,
            consistency: self.meta.consistency,
            read_consistency: self.meta.read_consistency,
            members: self.meta.members.iter().map(|member| (*member, matched(member))).collect(),
            kept: self.tails.describe(&self.holds(lane)),
            quiesced: self.quiesced,
            cluster_time_ms: self.cluster_time(now),
        }
    }
}

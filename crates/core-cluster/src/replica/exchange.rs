//! What members of a cluster say to each other beside Raft: each message goes to the part that knows, and what the part finds
//! is carried out here.
//!
//! Always: who gives way says before what it has to say to the others (`tests/contradiction.rs`).
//! Not here: Raft's own messages (replica.rs), what the parts decide (chain.rs, contradiction.rs, leader_handoff.rs, log_repair.rs).

use crate::context::LaneContext;
use crate::replica::chain::{self, Judgement, Verdict};
use crate::replica::contradiction;
use crate::replica::leader_handoff::{OtherVoters, Step, APPLYING_STANDS_STILL};
use crate::replica::log_repair::{self, Holder, LogState, LOST_EVERY};
use crate::replica::quarantine::Cause;
use crate::replica::Replica;
use crate::wire::{About, Payload, RepairAnswer, Sample};
use base_types::mutant::{planted, Mutant};
use base_types::{Generation, LogIndex, NodeId, ReplicaId, Term, Tick};
use core_raft::{Group, Message, MessageKind};
use std::collections::BTreeSet;
use std::time::Duration;

/// A replica without a vote that heard nobody for so many election timeouts asks whether it is a member.
const ASK_AFTER_ELECTIONS: u32 = 10;

impl Replica {
    /// What a follower reports with its answer to a heartbeat.
    pub fn samples_to_report(&self, kind: MessageKind) -> Option<[Sample; 2]> {
        let comparable = !self.blank && self.quarantine.as_ref().is_none_or(|own| own.cause == Cause::NoMajority);
        let reports = kind == MessageKind::HeartbeatResponse && comparable;
        reports.then(|| self.chain.to_report(&self.meta)).flatten()
    }

    /// A follower's report.
    pub fn on_samples(&mut self, lane: &mut LaneContext, now: Tick, from: ReplicaId, samples: [Sample; 2]) {
        let compares = self.leading.is_some() && self.meta.chain.is_some() && !planted(Mutant::HashNeverCompared);
        if compares && self.chain.on_report(&self.meta, from, samples) {
            self.judge(lane, now);
        }
    }

    /// Compares the members, while any differs.
    pub fn judge(&mut self, lane: &mut LaneContext, now: Tick) {
        let judged = self.chain.judge(&self.meta, self.spec.replica, self.leading.is_some(), now);
        judged.into_iter().for_each(|judgement| self.follow(lane, judgement));
    }

    /// Carries a judgement out. Who gives way has no term any more: what it has to say to the others is said before.
    pub fn follow(&mut self, lane: &mut LaneContext, judgement: Judgement) {
        let (Judgement::Upheld(verdicts)
        | Judgement::Differ(verdicts)
        | Judgement::Overruled(verdicts, _)
        | Judgement::NoMajority(verdicts)) = &judgement;
        for Verdict { to, about, value } in verdicts.iter().copied() {
            if let Some(node) = self.meta.node_of(to) {
                self.send(lane, node, &Payload::Verdict { to, term: self.term(), about, value });
            }
        }
        match judgement {
            Judgement::Upheld(_) => self.release_undecided(lane),
            Judgement::Differ(_) => {}
            Judgement::Overruled(_, why) => self.give_way(lane, why),
            Judgement::NoMajority(_) => self.quarantine_all(lane),
        }
    }

    /// Its leader reports what a majority of the voters holds; `None`: no majority holds the same.
    pub fn on_verdict(&mut self, lane: &mut LaneContext, to: ReplicaId, term: Term, about: About, value: Option<u64>) {
        if to != self.spec.replica || term != self.term() || self.leading.is_some() || self.blank {
            return;
        }
        let Some(value) = value else { return self.quarantine_all(lane) };
        let own = match about {
            About::Index(index) => self.chain.at(&self.meta, index),
            About::Mark(mark) => self.digest_at(mark),
        };
        match own {
            Some(own) if own == value => self.release_undecided(lane),
            Some(_) => self.give_way(lane, format!("what it holds is not what a majority holds ({about:?})")),
            None => {}
        }
    }

    /// A cluster of an earlier release has no chain: its leader has one begun, at one entry for all.
    pub fn begin_missing_chain(&mut self, lane: &mut LaneContext, now: Tick) {
        let settled = self.group.as_ref().is_some_and(Group::committed_in_own_term) && !self.is_quarantined();
        if self.chain.is_to_begin(&self.meta, self.leading, settled) {
            self.propose_own(lane, now, chain::begin_command(now, lane.config.node));
        }
    }

    /// Whether the message of its leader contradicts what is committed here; then this replica is given up.
    pub fn gives_way_to_its_leader(&mut self, lane: &mut LaneContext, message: &Message) -> bool {
        if self.blank || self.incoming.is_some() {
            return false;
        }
        let why = self.group.as_mut().and_then(|group| contradiction::with_leader(group, message));
        let gives_way = why.is_some();
        why.into_iter().for_each(|why| self.give_way(lane, why));
        gives_way
    }

    /// A leader hears that a follower holds more than the leader has ever had.
    pub fn send_contradiction(&self, lane: &mut LaneContext, node: NodeId, message: &Message) {
        let group = self.group.as_ref();
        let payload = group.and_then(|group| contradiction::with_follower(group, self.leading, message));
        payload.into_iter().for_each(|payload| self.send(lane, node, &payload));
    }

    /// Its leader's log ended here, in this term.
    pub fn on_contradicts(&mut self, lane: &mut LaneContext, to: ReplicaId, term: Term, index: LogIndex) {
        let concerns = to == self.spec.replica && term == self.term() && !self.is_leader() && !self.blank;
        let commit = self.group.as_ref().map_or(LogIndex(0), Group::commit);
        let why = contradiction::with_log_end(commit, index).filter(|_| concerns);
        why.into_iter().for_each(|why| self.give_way(lane, why));
    }

    /// It is given up, loudly.
    pub fn give_way(&mut self, lane: &mut LaneContext, why: String) {
        lane.statistics.contradictions += 1;
        let text = "it contradicts the majority and is rebuilt from it; acknowledged writes may be lost: compare with a backup";
        self.rebuild(lane, format!("{why}; {text}"));
    }

    pub fn tell_members(&self, lane: &mut LaneContext, payload: &Payload) {
        for node in self.other_nodes() {
            self.send(lane, node, payload);
        }
    }

    /// Where other members are: by the configuration, and, for one that has none yet, by who has written to it.
    fn other_nodes(&self) -> BTreeSet<NodeId> {
        let known = self.meta.members.iter().filter(|member| member.replica != self.spec.replica);
        known.map(|member| member.node).chain(self.heard_from.values().copied()).collect()
    }

    /// Whether the replica was a member and is none any more, and that is durable here.
    pub fn is_stranger(&self, replica: ReplicaId) -> bool {
        !self.blank
            && self.durable.index >= self.membership_at
            && !self.meta.membership.contains(replica)
            && replica < self.meta.next_replica
    }

    /// A replica that only listens cannot notice by an election that it was removed: it asks now and then.
    pub fn ask_whether_member(&self, lane: &mut LaneContext) {
        let own = self.spec.replica;
        let every = ASK_AFTER_ELECTIONS * lane.config.election_ticks as u32;
        let listens = self.damaged.is_none() && self.repair.is_none() && !self.meta.membership.is_voter(own);
        if !listens || self.silent_ticks % every.max(1) != every.saturating_sub(1) {
            return;
        }
        for node in self.other_nodes() {
            self.send(lane, node, &Payload::RepairRequest { from: own, holes: Vec::new() });
        }
    }

    /// Of a leader without room, or that cannot apply: whether leadership is on its way to another member.
    pub fn hand_over_if_unfit(&mut self, lane: &LaneContext, now: Tick) -> bool {
        let voters = OtherVoters {
            own: self.spec.replica,
            membership: &self.meta.membership,
            answered: &self.answered,
            now,
            recent: Duration::from_millis(lane.config.tick_ms * lane.config.election_ticks as u64 * 2),
        };
        let stalled = lane.stall.is_stalled() && voters.are_enough();
        let unfit =
            stalled || lane.is_out_of_room() || self.stuck_for(now) >= APPLYING_STANDS_STILL || self.is_quarantined();
        let Some(group) = self.group.as_ref().filter(|_| self.leading.is_some() && unfit) else {
            self.handoff.end();
            return false;
        };
        let step = self.handoff.next_step(group, &voters);
        match step {
            Step::Ask(next) => {
                self.end_lease_for_transfer();
                self.group.as_mut().expect("a leader has a group").transfer_leader(next);
            }
            Step::NobodyLeft if stalled => {
                self.end_lease_for_transfer();
                self.group.as_mut().expect("a leader has a group").step_down();
            }
            Step::Wait | Step::LeadOn | Step::NobodyLeft => {}
        }
        matches!(step, Step::Ask(_) | Step::Wait)
    }

    /// A member without room, or whose log write stalls, does not take leadership over: it could not log its first
    /// entry. One that cannot apply would answer nothing.
    pub fn ignores_hand_over(&self, lane: &LaneContext, kind: MessageKind) -> bool {
        kind == MessageKind::TimeoutNow
            && (lane.is_out_of_room() || lane.stall.is_stalled() || self.is_stuck() || self.is_quarantined())
    }

    /// Asks for the entries it lacks, or asks to be replaced.
    pub fn tick_repair(&mut self, lane: &mut LaneContext, now: Tick) {
        let from = self.spec.replica;
        if self.damaged.is_some() {
            // One whose life is over asks for nothing.
            if self.ended == Generation(0) && now.since(self.damage_told) >= LOST_EVERY {
                self.damage_told = now;
                self.tell_members(lane, &Payload::Lost { from });
            }
            return;
        }
        if let Some(holes) = self.repair.as_mut().and_then(|repair| repair.next_holes(now)) {
            self.tell_members(lane, &Payload::RepairRequest { from, holes });
        }
    }

    /// Another member has lost entries, or asks whether it is one.
    pub fn on_repair_request(
        &mut self,
        lane: &mut LaneContext,
        from: NodeId,
        replica: ReplicaId,
        holes: Vec<(LogIndex, Option<Term>)>,
    ) {
        if self.is_stranger(replica) {
            return self.send(lane, from, &Payload::Removed { replica });
        }
        let holder = Holder {
            // A member that is itself being mended knows at least what it has applied.
            commit: self.group.as_ref().map_or(self.meta.applied, Group::commit),
            is_whole: self.group.is_some(),
            has_begun: !self.blank && self.damaged.is_none(),
        };
        let answers = log_repair::answers(&lane.log.borrow(), self.spec.cluster, &holder, holes);
        self.send(lane, from, &Payload::RepairReply { from: self.spec.replica, answers });
    }

    pub fn on_repair_reply(&mut self, lane: &mut LaneContext, from: ReplicaId, answers: Vec<(LogIndex, RepairAnswer)>) {
        let Some(repair) = self.repair.as_mut() else { return };
        lane.statistics.entries_repaired +=
            repair.on_reply(&mut lane.log.borrow_mut(), self.spec.cluster, from, answers);
        match repair.state(self.meta.members.len().saturating_sub(1), &self.meta.membership.voters) {
            LogState::Waits => {}
            LogState::Hopeless(why) => self.damage(lane, why),
            LogState::Whole => {
                self.repair = None;
                self.make_group(lane);
            }
        }
    }
}

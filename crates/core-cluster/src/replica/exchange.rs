//! What members of a cluster say to each other beside Raft: each message goes to the part that knows, and what the part finds
//! is carried out here.
//!
//! Always: who gives way says before what it has to say to the others (`tests/contradiction.rs`).
//! Not here: Raft's own messages (replica.rs), what the parts decide (chain.rs, contradiction.rs, leader_handoff.rs, log_repair.rs,
//! verify.rs, archive_ack.rs, snapshot.rs).

use crate::api::{LaneStatistics, LocalOutcome};
use crate::context::{LaneContext, SENDERS_MAX};
use crate::meta::{ClusterMeta, META_KEY};
use crate::replica::apply::flush_engine;
use crate::replica::archive_ack::{Holds, TELL_TICKS};
use crate::replica::chain::{self, Judgement, Verdict};
use crate::replica::contradiction;
use crate::replica::leader_handoff::{OtherVoters, Step, APPLYING_STANDS_STILL};
use crate::replica::log_repair::{self, Holder, LogState, LOST_EVERY};
use crate::replica::quarantine::Cause;
use crate::replica::snapshot::{Acknowledged, Came, Held, Outgoing, Piece, Staged};
use crate::replica::verify::{Progress, WAITS_MAX};
use crate::replica::Replica;
use crate::storage::engine_jobs::JobTarget;
use crate::storage::restore;
use crate::wire::{About, Payload, RepairAnswer, Sample, TellOrder};
use base_engine::{EngineError, EngineSnapshot};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{ErrorCode, Generation, LogIndex, NodeId, Refusal, ReplicaId, Term, Tick, Ticket};
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
            About::Mark(mark) => self.verification.digest_at(mark),
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
        if self.blank || self.snapshots.is_receiving() {
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
            && self.flushes.index() >= self.membership_at
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

    /// Whether it leads members beside itself.
    pub fn leads_others(&self) -> bool {
        self.leading.is_some() && self.meta.membership.voters.iter().any(|voter| *voter != self.spec.replica)
    }

    /// Whether a leader of a drained node has yet to hand over, and other members that are up can do without it.
    pub fn may_hand_over(&self, lane: &LaneContext) -> bool {
        let up = |replica: ReplicaId| {
            replica != self.spec.replica && self.meta.node_of(replica).is_some_and(|node| !lane.down.contains(&node))
        };
        self.leads_others() && !self.handoff.nobody_took_over() && self.meta.membership.has_majority(up)
    }

    /// Of a leader that should not lead: whether leadership is on its way to another member.
    pub fn hand_over_if_unfit(&mut self, lane: &mut LaneContext, now: Tick) -> bool {
        let voters = OtherVoters {
            own: self.spec.replica,
            membership: &self.meta.membership,
            answered: &self.answered,
            now,
            recent: Duration::from_millis(lane.config.tick_ms * lane.config.election_ticks as u64 * 2),
        };
        // Asked with every write: the voters are looked at only where that decides.
        let stalled = lane.stall.is_stalled() && voters.are_enough();
        let drained = lane.leads_nothing && voters.are_enough() && !planted(Mutant::DrainIgnored);
        let unfit = match () {
            () if stalled => Some("its log write takes longer than an election timeout"),
            () if lane.is_out_of_room() => Some("its disk is full"),
            () if self.is_quarantined() => Some("it is quarantined"),
            () if self.stuck_for(now) >= APPLYING_STANDS_STILL => Some("it cannot apply entries"),
            () => None,
        };
        let reason = unfit.or(drained.then_some("its node is drained, or about to stop"));
        let (Some(group), Some(reason)) = (self.group.as_ref().filter(|_| self.leading.is_some()), reason) else {
            self.handoff.end();
            return false;
        };
        if unfit.is_none() && lane.hand_overs_left == 0 && !group.is_transferring() {
            return false;
        }
        let step = self.handoff.next_step(group, &voters);
        match step {
            Step::Ask(next) => {
                lane.hand_overs_left = lane.hand_overs_left.saturating_sub(1);
                self.end_lease_for_transfer();
                self.transfer_leader(next, reason);
            }
            Step::NobodyLeft if stalled => {
                self.end_lease_for_transfer();
                self.leadership.gives_up(reason);
                self.group.as_mut().expect("a leader has a group").step_down();
            }
            Step::Wait | Step::LeadOn | Step::NobodyLeft => {}
        }
        matches!(step, Step::Ask(_) | Step::Wait)
    }

    /// Asks another member to lead.
    pub fn transfer_leader(&mut self, to: ReplicaId, reason: &'static str) {
        let node = self.meta.members.iter().find(|member| member.replica == to).map(|member| member.node);
        let term = self.term();
        if let Some(node) = node {
            self.leadership.hands_over(term, node, reason);
        }
        self.group.as_mut().expect("a leader has a group").transfer_leader(to);
    }

    /// A member without room, or whose log write stalls, does not take leadership over: it could not log its first
    /// entry. One that cannot apply would answer nothing. One whose node is drained would have to hand it on.
    pub fn ignores_hand_over(&self, lane: &LaneContext, kind: MessageKind) -> bool {
        kind == MessageKind::TimeoutNow
            && (lane.is_out_of_room()
                || lane.stall.is_stalled()
                || lane.leads_nothing
                || self.is_stuck()
                || self.is_quarantined())
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

/// Verifications: the messages of [`verify`](crate::replica::verify).
impl Replica {
    /// Begins a run, or waits for the one under way; `run`: that one and no other.
    pub fn submit_verify(
        &mut self,
        lane: &mut LaneContext,
        now: Tick,
        ticket: Ticket,
        deadline: Tick,
        run: Option<u64>,
    ) {
        let refuse = |lane: &mut LaneContext, code, message| {
            lane.complete(ticket, LocalOutcome::Refused(Refusal::new(code, message)));
        };
        let name = &self.spec.name;
        match run {
            Some(run) if !self.verification.is_known(run) => {
                let message = format!("cluster {name} has no such verification: its leader has changed or another was begun; begin a new one");
                return refuse(lane, ErrorCode::NotFound, message);
            }
            None if !self.verification.is_running() => self.begin_verification(lane, now),
            _ => {}
        }
        if !self.verification.wait(ticket, deadline) {
            let message = format!("{WAITS_MAX} callers wait for the verification of cluster {}", self.spec.name);
            return refuse(lane, ErrorCode::Overloaded, message);
        }
        self.answer_verify(lane, now);
    }

    /// Begins a run that nobody waits for. False: not now.
    pub fn verify_unasked(&mut self, lane: &mut LaneContext, now: Tick) -> bool {
        let settled = self.leading.is_some() && self.meta.members.len() > 1 && !self.meta.membership.is_joint();
        if !settled || self.is_quarantined() || self.verification.is_running() {
            return false;
        }
        self.begin_verification(lane, now);
        true
    }

    fn begin_verification(&mut self, lane: &LaneContext, now: Tick) {
        self.verification.begin(now, lane.config.node);
        self.set_mark(lane, now);
    }

    fn set_mark(&mut self, lane: &LaneContext, now: Tick) {
        let mark = self.verification.next_mark(now, lane.config.node, &self.meta.members);
        mark.into_iter().for_each(|command| self.stage_own(command));
    }

    /// The entry with a mark has been applied, and nothing after it.
    pub fn on_mark(&mut self, lane: &mut LaneContext, mark: u64) {
        let engine = self.spec.engine.to_string();
        let busy = self.overlay.is_frozen() || lane.jobs.is_flushing(&engine);
        self.verification.on_mark(mark, self.meta.applied, busy);
        if !busy {
            flush_engine(lane, &engine, &mut [&mut *self]);
        }
    }

    /// The engine cannot be scrubbed, and does not say which pairs it is about: this replica's are read one by one, and
    /// if it is about them, it is rebuilt. False: not now.
    pub fn check_own(&mut self) -> bool {
        let settled =
            self.group.is_some() && !self.blank && self.meta.members.len() > 1 && !self.verification.is_busy();
        let Some(reader) = settled.then(|| self.engine.snapshot().ok()).flatten() else { return false };
        self.verification.walk_own(reader, self.space, self.flushes.index());
        true
    }

    /// The next step of a walk.
    pub fn tick_walk(&mut self, lane: &mut LaneContext) {
        if let Some(message) = self.verification.step_walk(&self.overlay) {
            self.rebuild(lane, format!("its engine cannot be read: {message}"));
        }
    }

    /// A leader asks how far this member is.
    pub fn on_verify_ask(&mut self, lane: &mut LaneContext, from: NodeId, mark: u64) {
        let told = self.verification.told_at(mark);
        self.send(lane, from, &Payload::VerifyTold { from: self.spec.replica, mark, told });
    }

    /// Asks the members, sets another mark where one was missed, ends the run, answers who waits.
    pub fn tick_verification(&mut self, lane: &mut LaneContext, now: Tick) {
        let own = self.spec.replica;
        let judged = match self.verification.advance(now, own) {
            Progress::Waits => None,
            Progress::Missed => {
                self.set_mark(lane, now);
                None
            }
            Progress::Ended { mark, told } => chain::judge_digests(&self.meta, own, mark, &told),
        };
        if let Some((mark, nodes)) = self.verification.next_asks(now, own, &self.meta.members) {
            nodes.into_iter().for_each(|node| self.send(lane, node, &Payload::VerifyAsk { mark }));
        }
        self.answer_verify(lane, now);
        judged.into_iter().for_each(|judgement| self.follow(lane, judgement));
    }

    fn answer_verify(&mut self, lane: &mut LaneContext, now: Tick) {
        for ticket in self.verification.take_answered(now) {
            let report = self.verification.report(&self.spec, &self.meta.members);
            report.into_iter().for_each(|report| lane.complete(ticket, LocalOutcome::Verified(Box::new(report))));
        }
    }

    /// Leadership is gone: waiting clients ask the new leader.
    pub fn fail_verification(&mut self, lane: &mut LaneContext) {
        for ticket in self.verification.lose_leadership() {
            lane.complete(ticket, self.not_leader());
        }
    }
}

/// Tails: the word of [`archive_ack`](crate::replica::archive_ack).
impl Replica {
    /// Whether this replica is a tail.
    pub fn is_tail(&self, lane: &LaneContext) -> bool {
        lane.config.tail_engine.as_deref() == Some(&*self.spec.engine)
    }

    /// What of this replica counts for what buckets hold.
    pub fn holds(&self, lane: &LaneContext) -> Holds<'_> {
        Holds {
            own: self.spec.replica,
            is_tail: self.is_tail(lane),
            meta: &self.meta,
            durable: self.flushes.index(),
            synced: lane.log.borrow().synced(),
        }
    }

    /// A snapshot's space takes the place of the one before.
    pub fn on_space_changed(&mut self, lane: &LaneContext) {
        if self.is_tail(lane) {
            self.tails.on_space_changed(lane.log.borrow().staged());
        }
    }

    /// Pairs in its engine are damaged, or were until now: there is to be a later flush than the one on its way.
    pub fn on_bucket_damaged(&mut self, lane: &mut LaneContext, now: Tick) {
        if !self.is_tail(lane) || self.blank || self.damaged.is_some() {
            return;
        }
        self.tails.on_bucket_damaged(now);
        // While there is more to mend, the end of that will ask for the flush.
        if !self.has_damage() {
            self.flushes.mark_dirty(now);
            lane.flush_soon = true;
        }
    }

    /// What was dirty is on its way to the engine.
    pub fn on_flush_begun(&mut self, lane: &LaneContext) {
        self.forget_overwritten();
        if self.is_tail(lane) {
            self.tails.on_flush_begun(self.flushes.dirty_since(), !self.has_damage());
        }
    }

    /// This replica's engine holds more than before.
    pub fn on_kept_here(&mut self, lane: &mut LaneContext, now: Tick) {
        if !self.is_tail(lane) {
            return;
        }
        self.tails.on_flush_ended();
        match self.leading {
            Some(_) => self.complete_kept(lane, now),
            None => self.tell_kept(lane),
        }
    }

    /// A tail told what it holds.
    pub fn on_kept(&mut self, lane: &mut LaneContext, now: Tick, from: ReplicaId, index: LogIndex, order: TellOrder) {
        let counts = self.leading.is_some() && self.meta.node_of(from).is_some();
        if counts && self.tails.on_told(&self.meta, from, index, order) {
            self.complete_kept(lane, now);
        }
    }

    /// A tail that is awake repeats what it holds.
    pub fn tick_tail(&self, lane: &mut LaneContext, ticks: usize) {
        if ticks.is_multiple_of(TELL_TICKS) && self.is_tail(lane) {
            self.tell_kept(lane);
        }
    }

    fn tell_kept(&self, lane: &mut LaneContext) {
        let Some(leader) = self.leader_node().filter(|_| !self.is_leader() && !self.blank) else { return };
        let Some(kept) = self.tails.kept_here(&self.holds(lane)) else { return };
        let index = if planted(Mutant::KeptToldEarly) { self.meta.applied } else { kept };
        lane.told.number += 1;
        let order = lane.told;
        self.send(lane, leader, &Payload::Kept { from: self.spec.replica, index, order });
    }

    /// Adds how far its followers are behind, if it leads and is awake: those of an idle cluster have everything.
    pub fn count_followers(&self, statistics: &mut LaneStatistics) {
        let Some(group) = self.group.as_ref().filter(|_| self.leading.is_some() && !self.quiesced) else { return };
        let last = group.last_index();
        for follower in group.followers().into_iter().filter(|follower| follower.replica != self.spec.replica) {
            if follower.active {
                let lag = last.0.saturating_sub(follower.matched.0);
                statistics.follower_lag_entries = statistics.follower_lag_entries.max(lag);
            } else {
                statistics.followers_silent += 1;
            }
        }
    }

    /// Adds what this replica's bucket lacks, if it is a tail.
    pub fn count_lag(&self, lane: &LaneContext, statistics: &mut LaneStatistics) {
        if !self.is_tail(lane) || self.blank || self.damaged.is_some() {
            return;
        }
        statistics.tails += 1;
        let kept = self.tails.kept_here(&self.holds(lane)).unwrap_or(LogIndex(0));
        statistics.tail_entries_behind += self.meta.applied.0.saturating_sub(kept.0);
        let since = self.tails.lags_since().or(self.flushes.dirty_since());
        let lag = since.map_or(0, |since| lane.last_turn.since(since).as_millis() as u64);
        statistics.tail_lag_ms = statistics.tail_lag_ms.max(lag);
    }
}

/// Snapshots: the messages of [`snapshot`](crate::replica::snapshot).
impl Replica {
    /// Raft wants a member to have a snapshot. One that was due when leadership went is not begun: nobody would take it or end it.
    pub fn start_sender(&mut self, lane: &mut LaneContext, now: Tick, mut message: Message) {
        let to = message.to();
        let leads = self.leading == Some(message.term()) || planted(Mutant::SnapshotAfterLeading);
        if !leads || self.snapshots.is_sending_to(to) {
            return;
        }
        let node = self.meta.node_of(to).filter(|_| lane.snapshot_senders < SENDERS_MAX);
        let opened = node.ok_or(EngineError::SnapshotExpired).and_then(|node| self.open_snapshot(lane, to, node));
        let Ok((node, reader, meta)) = opened else {
            if matches!(opened, Err(EngineError::Corrupt(_))) {
                self.overlay.see_damage(META_KEY);
            }
            if let Some(group) = self.group.as_mut() {
                group.report_snapshot(to, false);
            }
            return;
        };
        let index = if planted(Mutant::SnapshotWrongIndex) { self.meta.applied } else { meta.applied };
        message.set_snapshot(index, meta.applied_term, &meta.membership);
        lane.next_snapshot += 1;
        lane.snapshot_senders += 1;
        lane.statistics.snapshots_sent += 1;
        let id = (lane.config.seed ^ now.0.rotate_left(20)).wrapping_add(lane.next_snapshot);
        self.snapshots.begin(now, to, Outgoing { id, node, message, reader, space: self.space });
        self.pump_sender(lane, now, to);
    }

    /// What the engine holds durably, if the member that is to have it is in it.
    fn open_snapshot(
        &self,
        lane: &mut LaneContext,
        to: ReplicaId,
        node: NodeId,
    ) -> Result<(NodeId, Box<dyn EngineSnapshot>, ClusterMeta), EngineError> {
        let reader = self.engine.snapshot()?;
        let meta = reader.get(self.space, META_KEY)?.ok_or(EngineError::SnapshotExpired)?;
        let meta = ClusterMeta::from_bytes(meta).map_err(|error| EngineError::Corrupt(error.to_string()))?;
        if !meta.membership.contains(to) || self.is_of_life_before(meta.applied) {
            // It joined after what is durable, and Raft refuses a snapshot that does not name it.
            lane.flush_soon = true;
            return Err(EngineError::SnapshotExpired);
        }
        Ok((node, reader, meta))
    }

    fn pump_sender(&mut self, lane: &mut LaneContext, now: Tick, to: ReplicaId) {
        let Some(pieces) = self.snapshots.next_pieces(now, to, lane.config.snapshot_chunk_bytes) else { return };
        if let Some(start) = pieces.damaged_from {
            self.view().look_for_damage(&start, None);
        }
        pieces.chunks.iter().for_each(|chunk| self.send(lane, pieces.node, chunk));
        if pieces.failed {
            self.end_sender(lane, to, false);
        }
    }

    fn end_sender(&mut self, lane: &mut LaneContext, to: ReplicaId, delivered: bool) {
        if self.snapshots.end(to) {
            lane.snapshot_senders -= 1;
            if let Some(group) = self.group.as_mut() {
                group.report_snapshot(to, delivered);
            }
        }
    }

    /// Leadership is gone: its term's snapshots with it.
    pub fn end_senders(&mut self, lane: &mut LaneContext) {
        for to in self.snapshots.end_all() {
            if !planted(Mutant::SendersCounted) {
                lane.snapshot_senders -= 1;
            }
            if let Some(group) = self.group.as_mut() {
                group.report_snapshot(to, false);
            }
        }
    }

    pub fn on_snapshot_ack(
        &mut self,
        lane: &mut LaneContext,
        now: Tick,
        from: ReplicaId,
        id: u64,
        next: u64,
        done: bool,
    ) {
        match self.snapshots.on_ack(now, from, id, next, done) {
            Acknowledged::Stale => {}
            Acknowledged::Next => self.pump_sender(lane, now, from),
            Acknowledged::Ended(delivered) => self.end_sender(lane, from, delivered),
        }
    }

    /// Sends again what was not acknowledged, gives up what does not move.
    pub fn tick_snapshots(&mut self, lane: &mut LaneContext, now: Tick) {
        for to in self.snapshots.stalled(now) {
            self.end_sender(lane, to, false);
        }
        for (node, chunk) in self.snapshots.take_repeats(now) {
            self.send(lane, node, &chunk);
        }
        if self.snapshots.is_silent(now) {
            self.drop_incoming(lane);
        }
    }

    pub fn drop_incoming(&mut self, lane: &mut LaneContext) {
        if let Some(staging) = self.snapshots.take_staging() {
            lane.jobs.drop_space(&self.spec.engine, staging);
        }
    }

    pub fn on_snapshot_chunk(&mut self, lane: &mut LaneContext, now: Tick, from: NodeId, piece: Piece) {
        if !self.expects_snapshot(lane, now, from, &piece) {
            return;
        }
        let snapshot = piece.snapshot;
        match self.snapshots.on_piece(now, piece) {
            Came::Nothing => {}
            Came::SendFrom(next) => self.acknowledge(lane, from, snapshot, next, false),
            Came::Kept => self.write_next_chunk(lane),
        }
    }

    fn acknowledge(&self, lane: &mut LaneContext, node: NodeId, snapshot: u64, next: u64, done: bool) {
        self.send(lane, node, &Payload::SnapshotAck { from: self.spec.replica, snapshot, next, done });
    }

    /// Whether the piece belongs to the snapshot that is coming in; a first piece begins a new one.
    fn expects_snapshot(&mut self, lane: &mut LaneContext, now: Tick, from: NodeId, piece: &Piece) -> bool {
        if self.snapshots.expects(from, piece) {
            return true;
        }
        if piece.sequence != 0 {
            self.acknowledge(lane, from, piece.snapshot, 0, false);
            return false;
        }
        // The earlier one is in the engine's hands, or an earlier try leaves a space to drop beside the one this would
        // make: the sender repeats its first chunk.
        if self.snapshots.is_writing() || lane.is_crowded() {
            return false;
        }
        self.drop_incoming(lane);
        let staging = lane.new_space();
        self.snapshots.expect(now, from, piece.snapshot, staging);
        true
    }

    fn write_next_chunk(&mut self, lane: &mut LaneContext) {
        let label = |space| lane.config.label_spaces.then(|| restore::label(&self.spec, space));
        let Some(Staged { snapshot, batch }) = self.snapshots.next_write(label) else { return };
        let target = JobTarget::Staging { cluster: self.spec.cluster, snapshot };
        lane.jobs.write(&self.spec.engine, target, batch);
    }

    /// A chunk is durable in the staging space.
    pub fn on_staged(&mut self, lane: &mut LaneContext, now: Tick, id: u64, written: bool) {
        let Some(Held { node, next, last }) = self.snapshots.on_written(now, id, written) else { return };
        if !written {
            return self.drop_incoming(lane);
        }
        self.acknowledge(lane, node, id, next, last.is_some());
        if let (Some(message), Some(group)) = (last, self.group.as_mut()) {
            group.step(message);
            self.process(lane, now);
            // Installed: it comes in no more. Not wanted any more: so is the staging space.
            self.drop_incoming(lane);
        } else {
            self.write_next_chunk(lane);
        }
    }
}

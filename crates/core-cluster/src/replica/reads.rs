//! Reads. Eventual: from what this member has applied. Strong: the leader, inside its lease, else
//! after a ReadIndex round (Ongaro's thesis, 6.4).
//!
//! A lease is what a finished ReadIndex round proves: a majority heard this leader after the round was
//! asked for, and none of them votes for another within its election timeout. It runs from the moment
//! of asking, shorter than the election timeout by a margin for clocks that run up to 5 % apart and
//! for ticks. It ends when leadership is being handed over (the forced vote ignores leases) and when
//! the configuration changes. A clock that stops while the world continues (a machine held by its
//! hypervisor) breaks it, and nothing in here can notice: there `read_leases` is off, no round proves a
//! lease, and all strong reads that come while a round is under way share the next one.
//!
//! A strong read sees the cluster's time of now. The clock runs on between entries, and the next leader's begins where the last entry had
//! it, so what has ended since the last entry (a key of a Redis database that has expired) would be there again. Such a read waits for an
//! entry with its time. A leader that has no room for entries answers as of the last one: what ends late does no harm.
//!
//! Always: a read waits only for a round that began after the read arrived (mutant `StaleReadIndex`). It is answered only
//! when the round's index is applied (mutant `ReadBeforeApply`), and by the lease only when every commit that this leader's messages named
//! is applied (mutant `LeaseReadIgnoresToldCommits`): members may have shown it. Nothing is seen to have ended before an entry has a time at
//! which it has (mutant `RedisEndUnstamped`).

use crate::api::LocalOutcome;
use crate::buggify::Point;
use crate::context::LaneContext;
use crate::replica::{parked, upkeep, Replica};
use crate::storage::overlay::BackendView;
use crate::wire::Payload;
use base_engine::EngineError;
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{BackendKind, ErrorCode, LogIndex, NodeId, ReadConsistency, Refusal, ReplicaId, Term, Tick, Ticket};
use bytes::Bytes;
use core_raft::Group;
use std::time::Duration;

/// Reads waiting in one replica; beyond it: overloaded.
const WAITING_READS_MAX: usize = 65_536;
/// The lease, in hundredths of what the followers promise.
const LEASE_PERCENT: u64 = 85;

/// How long a node's question waits for the leader to be confirmed; the node repeats it with each heartbeat.
const FLOOR_WAIT: Duration = Duration::from_secs(5);

/// The origin of a strong read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asker {
    Client(Ticket),
    /// A node that lost a replica and which it was (lost_replicas.rs): up to which id were replicas ever made?
    Node {
        node: NodeId,
        life: u64,
    },
}

/// A strong read that waits.
pub struct WaitingRead {
    pub asker: Asker,
    pub deadline: Tick,
    pub backend: BackendKind,
    pub query: Bytes,
}

struct Round {
    context: u64,
    asked: Tick,
    /// Whether it may still prove a lease: not once the configuration has changed under it.
    proves_lease: bool,
    reads: Vec<WaitingRead>,
}

/// What waits to be read, and until when the leader may answer by itself.
#[derive(Default)]
pub struct Reads {
    lease_until: Tick,
    /// The highest commit that a message to a member names.
    told_commit: LogIndex,
    /// Leadership was being handed over in this term: no lease any more in it.
    no_lease_in: Option<Term>,
    next_context: u64,
    round: Option<Round>,
    waiting: Vec<WaitingRead>,
    /// Rounds that came back, waiting for their index to be applied.
    confirmed: Vec<(LogIndex, Vec<WaitingRead>)>,
    /// Reads that may be answered, waiting for an entry with at least this time to be applied.
    unstamped: Vec<(u64, WaitingRead)>,
    count: usize,
}

impl Reads {
    /// Strong reads that wait, counted twice: by the counter that guards the bound, and one by one.
    pub fn sizes(&self, sizes: &mut Sizes) {
        let asked = self.round.as_ref().map_or(0, |round| round.reads.len());
        let confirmed: usize = self.confirmed.iter().map(|(_, reads)| reads.len()).sum();
        let held = asked + self.waiting.len() + confirmed + self.unstamped.len();
        sizes.passing("reads waiting, a replica", held.max(self.count), WAITING_READS_MAX);
        sizes.passing("read rounds to be applied, a replica", self.confirmed.len(), WAITING_READS_MAX);
    }

    pub fn is_idle(&self) -> bool {
        self.round.is_none() && self.waiting.is_empty() && self.confirmed.is_empty() && self.unstamped.is_empty()
    }

    /// A message to a member names this commit.
    pub fn note_told_commit(&mut self, commit: LogIndex) {
        self.told_commit = self.told_commit.max(commit);
    }

    /// Leadership begins: messages count from now on.
    pub fn begin_leading(&mut self) {
        self.told_commit = LogIndex(0);
    }

    /// Until when a leader may answer by itself, if nothing else forbids it.
    pub fn lease_until(&self) -> Tick {
        self.lease_until
    }

    /// Whether this one waits already.
    fn holds(&self, asker: Asker) -> bool {
        let asked = self.round.iter().flat_map(|round| &round.reads);
        let confirmed = self.confirmed.iter().flat_map(|(_, reads)| reads);
        self.waiting.iter().chain(asked).chain(confirmed).any(|read| read.asker == asker)
    }

    pub fn forget_lease(&mut self) {
        self.lease_until = Tick(0);
        if let Some(round) = self.round.as_mut() {
            round.proves_lease = false;
        }
    }
}

impl WaitingRead {
    /// Completes a client's read; a node repeats its question.
    pub fn complete(&self, lane: &mut LaneContext, outcome: LocalOutcome) {
        if let Asker::Client(ticket) = self.asker {
            lane.complete(ticket, outcome);
        }
    }
}

impl Replica {
    pub fn submit_read(
        &mut self,
        lane: &mut LaneContext,
        now: Tick,
        read: WaitingRead,
        consistency: Option<ReadConsistency>,
    ) {
        if self.blank || self.damaged.is_some() || self.repair.is_some() {
            return read.complete(lane, self.not_leader());
        }
        if let Some(refused) = self.quarantine_outcome(lane) {
            return read.complete(lane, refused);
        }
        if !self.spec.name.has(read.backend) {
            let message = format!("cluster {} has no backend {}", self.spec.name, read.backend);
            let refusal = Refusal::new(ErrorCode::UnknownBackend, message);
            return read.complete(lane, LocalOutcome::Refused(refusal));
        }
        let level = consistency.unwrap_or(self.meta.read_consistency);
        if level == ReadConsistency::Eventual {
            lane.statistics.reads_eventual += 1;
            return self.answer_read(lane, now, read, ReadConsistency::Eventual);
        }
        if planted(Mutant::EventualReadAsStrong) {
            return self.answer_read(lane, now, read, ReadConsistency::Strong);
        }
        self.wait_for_leader(lane, now, read);
    }

    /// A node asks up to which id replicas of this cluster were ever made: a strong read of what only a leader knows.
    pub fn on_floor_ask(&mut self, lane: &mut LaneContext, now: Tick, node: NodeId, life: u64) {
        let asker = Asker::Node { node, life };
        let unfit = self.blank || self.damaged.is_some() || self.repair.is_some() || self.is_quarantined();
        if unfit || !self.is_leader() || self.reads.holds(asker) {
            return;
        }
        let (deadline, backend, query) = (now + FLOOR_WAIT, BackendKind::Metadata, Bytes::new());
        self.wait_for_leader(lane, now, WaitingRead { asker, deadline, backend, query });
    }

    /// A strong read: by the lease, else by a round.
    fn wait_for_leader(&mut self, lane: &mut LaneContext, now: Tick, read: WaitingRead) {
        if !self.is_leader() {
            return read.complete(lane, self.not_leader());
        }
        if self.lease_holds(lane, now) || planted(Mutant::LocalLeaderRead) {
            lane.statistics.reads_lease += 1;
            self.renew_lease_early(lane, now);
            return self.answer_read(lane, now, read, ReadConsistency::Strong);
        }
        if self.reads.count >= WAITING_READS_MAX {
            let message =
                format!("cluster {} has {} reads waiting; back off and retry", self.spec.name, self.reads.count);
            let refusal = Refusal::new(ErrorCode::Overloaded, message);
            return read.complete(lane, LocalOutcome::Refused(refusal));
        }
        self.reads.count += 1;
        match self.reads.round.as_mut().filter(|_| planted(Mutant::StaleReadIndex)) {
            Some(round) => round.reads.push(read),
            None => self.reads.waiting.push(read),
        }
    }

    fn uses_leases(lane: &LaneContext) -> bool {
        lane.config.read_leases || planted(Mutant::LeaseTrustedOverHold)
    }

    fn lease_holds(&mut self, lane: &LaneContext, now: Tick) -> bool {
        let Some(term) = self.leading.filter(|_| Replica::uses_leases(lane)) else { return false };
        if self.group.as_ref().is_some_and(Group::is_transferring) && !planted(Mutant::LeaseAfterTransfer) {
            if planted(Mutant::LeaseAfterFailedTransfer) {
                return false;
            }
            self.reads.no_lease_in = Some(term);
        }
        // What earlier leaders acknowledged must be applied here: it is once an entry of this term is. And commits that other
        // members were told of may have been seen there, although this leader has yet to write or apply them (a round waits for that).
        let behind = self.reads.told_commit > self.meta.applied && !planted(Mutant::LeaseReadIgnoresToldCommits);
        let caught_up = self.meta.applied_term == term && !behind || planted(Mutant::ReadBeforeApply);
        caught_up && self.reads.no_lease_in != Some(term) && now < self.reads.lease_until
    }

    /// Leadership is about to be handed over: the lease must end before the request leaves.
    pub fn end_lease_for_transfer(&mut self) {
        if !planted(Mutant::LeaseAfterTransfer) {
            if !planted(Mutant::LeaseAfterFailedTransfer) {
                self.reads.no_lease_in = self.leading;
            }
            self.reads.forget_lease();
        }
    }

    fn lease_duration(lane: &LaneContext) -> Duration {
        let config = &lane.config;
        if planted(Mutant::LeaseWithoutMargin) {
            return Duration::from_millis(config.tick_ms * config.election_ticks as u64 * 4);
        }
        if planted(Mutant::LeaseAtElectionTimeout) {
            return Duration::from_millis(config.tick_ms * config.election_ticks as u64);
        }
        // A follower's promise may be two ticks shorter than its election timeout: one partly gone when
        // it heard the leader, one counted early.
        let ticks = (config.election_ticks as u64).saturating_sub(2);
        Duration::from_micros(config.tick_ms * 1000 * ticks * LEASE_PERCENT / 100)
    }

    /// Under steady reads the next round is asked for at half time, so that none waits for it.
    fn renew_lease_early(&mut self, lane: &LaneContext, now: Tick) {
        let half = Replica::lease_duration(lane) / 2;
        if self.reads.round.is_none() && self.reads.lease_until.since(now) < half {
            self.ask_read_index(now, Vec::new());
        }
    }

    fn ask_read_index(&mut self, now: Tick, reads: Vec<WaitingRead>) {
        let Some(group) = self.group.as_mut() else { return };
        self.reads.next_context += 1;
        let context = self.reads.next_context;
        group.read_index(context);
        self.reads.round = Some(Round { context, asked: now, proves_lease: true, reads });
    }

    /// A round came back: its reads may be answered once its index is applied, and the lease runs from
    /// the moment the round was asked for.
    pub fn on_read_index(&mut self, lane: &LaneContext, now: Tick, context: u64, index: LogIndex) {
        let Some(round) = self.reads.round.take_if(|round| round.context == context) else { return };
        self.reads.confirmed.push((index, round.reads));
        if round.proves_lease && Replica::uses_leases(lane) {
            let from = if planted(Mutant::LeaseFromAnswer) { now } else { round.asked };
            let until = from + Replica::lease_duration(lane);
            self.reads.lease_until = self.reads.lease_until.max(until);
        }
    }

    /// Answers what may be answered, asks for a round if reads wait; whether it has asked.
    pub fn advance_reads(&mut self, lane: &mut LaneContext, now: Tick) -> bool {
        if !self.is_leader() {
            if !self.reads.is_idle() {
                self.fail_reads(lane);
            }
            return false;
        }
        if self.reads.is_idle() {
            return false;
        }
        self.answer_stamped(lane, now);
        let applied = self.meta.applied;
        let (ready, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.reads.confirmed)
            .into_iter()
            .partition(|(index, _)| *index <= applied || planted(Mutant::ReadBeforeApply));
        self.reads.confirmed = later;
        let late = !ready.is_empty() && lane.buggify.fires(Point::LateRead);
        let ready = if late {
            self.reads.confirmed.extend(ready);
            Vec::new()
        } else {
            ready
        };
        for read in ready.into_iter().flat_map(|(_, reads)| reads) {
            self.reads.count -= 1;
            lane.statistics.reads_index += 1;
            self.answer_read(lane, now, read, ReadConsistency::Strong);
        }
        let may_ask = self.reads.round.is_none()
            && !self.reads.waiting.is_empty()
            && self.group.as_ref().is_some_and(Group::committed_in_own_term);
        if may_ask {
            let reads = std::mem::take(&mut self.reads.waiting);
            self.ask_read_index(now, reads);
        }
        may_ask
    }

    fn answer_read(&mut self, lane: &mut LaneContext, now: Tick, read: WaitingRead, level: ReadConsistency) {
        if let Asker::Node { node, life } = read.asker {
            return self.tell_floor(lane, node, life);
        }
        let time = self.cluster_time(now);
        if level == ReadConsistency::Strong && self.ends_unstamped(time, &read) {
            if !upkeep::has_room(lane) || self.reads.count >= WAITING_READS_MAX {
                return self.answer_as_of(lane, now, self.meta.cluster_time_ms, read, level);
            }
            self.reads.count += 1;
            self.reads.unstamped.push((time, read));
            return self.upkeep.hurry();
        }
        self.answer_as_of(lane, now, time, read, level);
    }

    /// Whether a read may see that something has ended by the leader's clock that had not by the last entry's.
    fn ends_unstamped(&self, time: u64, read: &WaitingRead) -> bool {
        let stamped = self.meta.cluster_time_ms;
        if time <= stamped || planted(Mutant::RedisEndUnstamped) {
            return false;
        }
        let space = BackendView { view: self.view(), backend: read.backend as u8 };
        // Damage is met, and reported, when it is read.
        core_backends::ends_between(read.backend, &space, &read.query, (stamped, time)).unwrap_or(false)
    }

    /// Answers what waited for an entry with its time, as of that entry: no later end hinders it. Or all, where no entry can come.
    fn answer_stamped(&mut self, lane: &mut LaneContext, now: Tick) {
        let (stamped, all) = (self.meta.cluster_time_ms, !upkeep::has_room(lane));
        let ready: Vec<_> = self.reads.unstamped.extract_if(.., |(time, _)| *time <= stamped || all).collect();
        for (_, read) in ready {
            self.reads.count -= 1;
            self.answer_as_of(lane, now, stamped, read, ReadConsistency::Strong);
        }
        if !self.reads.unstamped.is_empty() {
            // An entry that was under way had an earlier time.
            self.upkeep.hurry();
        }
    }

    fn answer_as_of(
        &mut self,
        lane: &mut LaneContext,
        now: Tick,
        time: u64,
        read: WaitingRead,
        level: ReadConsistency,
    ) {
        let answer = self.read_at(time, &read);
        let read = match &answer {
            Ok(reply) => parked::park(self, now, read, level, reply),
            Err(_) => Some(read),
        };
        if let Some(read) = read {
            self.complete_read(lane, now, &read, level, answer);
        }
    }

    /// What a read gives, from what is applied.
    pub fn read_now(&self, now: Tick, read: &WaitingRead) -> Result<Bytes, EngineError> {
        self.read_at(self.cluster_time(now), read)
    }

    /// The same, at a time of the cluster's.
    fn read_at(&self, time: u64, read: &WaitingRead) -> Result<Bytes, EngineError> {
        let space = BackendView { view: self.view(), backend: read.backend as u8 };
        match core_backends::memory_asked(read.backend, &read.query) {
            Some(asked) => {
                let page = self.request_ids.carried(asked, self.meta.id_time_ms, self.meta.applied);
                Ok(core_backends::tell_memory(read.backend, page))
            }
            None => core_backends::query(read.backend, time, &space, &read.query),
        }
    }

    pub fn complete_read(
        &self,
        lane: &mut LaneContext,
        now: Tick,
        read: &WaitingRead,
        level: ReadConsistency,
        answer: Result<Bytes, EngineError>,
    ) {
        let outcome = match answer {
            Ok(reply) => {
                let at = self.at(self.term(), self.meta.applied, u32::MAX);
                LocalOutcome::Read { reply, at, level, cluster_time_ms: self.cluster_time(now) }
            }
            Err(error) if self.will_be_mended(&error) => self.not_leader(),
            Err(error) => {
                let message = format!("cluster {} on node {}: {error}", self.spec.name, lane.config.node);
                LocalOutcome::Refused(Refusal::new(ErrorCode::ReplicaDamaged, message))
            }
        };
        read.complete(lane, outcome);
    }

    /// What has just been confirmed holds every change of members that was committed before the question.
    fn tell_floor(&self, lane: &mut LaneContext, node: NodeId, life: u64) {
        let next = self.meta.next_replica.0;
        // Refused for ever would be the very replica that is to replace it.
        let replica = ReplicaId(if planted(Mutant::FloorOneTooHigh) { next } else { next.saturating_sub(1) });
        self.send(lane, node, &Payload::FloorTold { replica, life });
    }

    fn take_reads(&mut self) -> Vec<WaitingRead> {
        let mut reads = std::mem::take(&mut self.reads.waiting);
        reads.extend(self.reads.round.take().into_iter().flat_map(|round| round.reads));
        reads.extend(std::mem::take(&mut self.reads.confirmed).into_iter().flat_map(|(_, reads)| reads));
        reads.extend(std::mem::take(&mut self.reads.unstamped).into_iter().map(|(_, read)| read));
        self.reads.count = 0;
        reads
    }

    /// Leadership is gone: the reads go elsewhere.
    pub fn fail_reads(&mut self, lane: &mut LaneContext) {
        self.reads.forget_lease();
        for read in self.take_reads() {
            read.complete(lane, self.not_leader());
        }
    }

    pub fn expire_reads(&mut self, lane: &mut LaneContext, now: Tick) {
        if self.reads.count == 0 {
            return;
        }
        let mut late = Vec::new();
        let mut sweep = |reads: &mut Vec<WaitingRead>| late.extend(reads.extract_if(.., |read| read.deadline <= now));
        sweep(&mut self.reads.waiting);
        if let Some(round) = self.reads.round.as_mut() {
            sweep(&mut round.reads);
        }
        for (_, reads) in &mut self.reads.confirmed {
            sweep(reads);
        }
        late.extend(self.reads.unstamped.extract_if(.., |(_, read)| read.deadline <= now).map(|(_, read)| read));
        self.reads.count -= late.len();
        for read in late {
            let message = format!(
                "the leader of cluster {} could not confirm before the read's deadline that it still leads; retry",
                self.spec.name
            );
            let refusal = Refusal::new(ErrorCode::DeadlineExceeded, message);
            read.complete(lane, LocalOutcome::Refused(refusal));
        }
    }
}

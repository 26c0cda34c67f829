//! The durable tail: a member whose engine outlives its machine (a bucket), and the writes that wait for it.
//!
//! ```text
//!  tail                                                     leader
//!    a flush is in its engine ── Kept: up to index i ──▶ writes at level `s3` up to i are acknowledged
//!    now and then while awake ── the same once more ──▶  (messages are lost, leaders change)
//! ```
//!
//! Always: a tail reports what its engine has confirmed (mutant `KeptToldEarly`), never what it has applied, `hive restore` finds that
//! (restore.rs), and no restart goes back before it; such a write is committed and applied here like a strong one, and
//! answered as done only when a tail of the present members holds it; where no tail is known it is refused before it
//! is proposed. What waits is bounded.
//!
//! A bucket in which pairs are known to be damaged holds nothing: `hive restore` refuses to leave one out. So its tail
//! reports 0 from when damage is found until a flush that began behind the last mending is in the bucket, and a leader
//! believes the last report. What is damaged on every member holds it up until somebody writes that pair. What
//! nobody has read is not known: the scrub bounds how long.
//! Not here: who is a tail (`LaneConfig::tail_engine`), how its engine is kept up to date (flush.rs).
//! Why a message of our own, and not the member list: a node chooses the engine of its replicas itself, so no
//! membership entry knows it; and who leads anew hears of it within some ticks.
//! Why its words are numbered: what it holds may become less, and messages overtake each other.

use crate::api::{LaneStatistics, LocalOutcome};
use crate::context::LaneContext;
use crate::replica::writes::{AbsoluteWait, PENDING_WRITES_MAX};
use crate::replica::Replica;
use crate::wire::{Payload, TellOrder};
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{ErrorCode, LogIndex, NodeId, Refusal, ReplicaId, Tick, WriteConsistency};
use core_log::BatchNumber;

/// A tail that is awake reports what it holds this often, flushes or not: well within the time in which a router
/// takes the refusal of a fresh leader for preliminary (two election timeouts).
const TELL_TICKS: usize = 5;

/// The last word of a tail.
struct Told {
    from: ReplicaId,
    index: LogIndex,
    order: TellOrder,
}

/// The reports of tails to a leader, and the writes that wait for more. A replica that never met a tail has none.
#[derive(Default)]
pub struct ArchiveAcks {
    /// One entry a member, kept while it leads.
    told: Vec<Told>,
    /// Applied, and in no bucket yet.
    waiting: Vec<AbsoluteWait>,
    /// Of a tail: since when what is on its way to the engine was dirty.
    flushing_since: Option<Tick>,
    /// Of a tail: since when pairs in its bucket are known to be damaged, and no flush has left it whole.
    unsound_since: Option<Tick>,
    /// Of a tail: what is on its way to the engine leaves it whole.
    mends: bool,
    /// Of a tail: the batch with the record that names its space. Until it is durable a crash comes back to the space
    /// before, and drops this one.
    named_in: BatchNumber,
}

impl Replica {
    /// Whether this replica is a tail.
    pub fn is_tail(&self, lane: &LaneContext) -> bool {
        lane.config.tail_engine.as_deref() == Some(&*self.spec.engine)
    }

    /// The greatest index that a bucket of one of the members holds, as far as is known here; `None`: no member
    /// is known to have one.
    fn kept(&self, lane: &LaneContext) -> Option<LogIndex> {
        self.kept_by(lane).map(|(_, index)| index).max()
    }

    /// The tails known here and what they hold.
    fn kept_by(&self, lane: &LaneContext) -> impl Iterator<Item = (ReplicaId, LogIndex)> + '_ {
        let own = self.kept_here(lane).map(|index| (self.spec.replica, index));
        let told = self.tails.iter().flat_map(|tails| &tails.told).map(|told| (told.from, told.index));
        told.filter(|(replica, _)| self.meta.node_of(*replica).is_some()).chain(own)
    }

    /// What this replica's bucket holds whatever happens, if it is a tail.
    fn kept_here(&self, lane: &LaneContext) -> Option<LogIndex> {
        let synced = lane.log.borrow().synced();
        let sound = |tails: &ArchiveAcks| tails.unsound_since.is_none() || planted(Mutant::KeptThoughDamaged);
        let counts = self.tails.as_deref().is_none_or(|tails| tails.named_in <= synced && sound(tails));
        let holds = if counts { self.durable.index } else { LogIndex(0) };
        self.is_tail(lane).then_some(holds)
    }

    /// A snapshot's space takes the place of the one before.
    pub fn on_space_changed(&mut self, lane: &LaneContext) {
        if self.is_tail(lane) {
            let tails = self.tails.get_or_insert_default();
            tails.named_in = lane.log.borrow().staged();
            (tails.unsound_since, tails.mends) = (None, false);
        }
    }

    /// Pairs in its engine are damaged, or were until now: what is on its way there may not mend them, so there is to
    /// be a later flush.
    pub fn on_bucket_damaged(&mut self, lane: &mut LaneContext, now: Tick) {
        if !self.is_tail(lane) || self.blank || self.damaged.is_some() {
            return;
        }
        let tails = self.tails.get_or_insert_default();
        tails.unsound_since.get_or_insert(now);
        tails.mends = false;
        // While there is more to mend, the end of that will ask for the flush.
        if !self.has_damage() {
            self.dirty_since.get_or_insert(now);
            lane.flush_soon = true;
        }
    }

    /// Refuses a write that no tail could keep. A fresh leader may only not have heard of it yet.
    pub fn tail_refusal(&self, lane: &LaneContext, level: WriteConsistency) -> Option<Refusal> {
        if level != WriteConsistency::S3 || planted(Mutant::KeptIsStrong) {
            return None;
        }
        let name = &self.spec.name;
        if self.tails.as_ref().is_some_and(|tails| tails.waiting.len() >= PENDING_WRITES_MAX) {
            let message =
                format!("{PENDING_WRITES_MAX} writes of cluster {name} wait for their bucket; back off and retry");
            return Some(Refusal::new(ErrorCode::Overloaded, message));
        }
        self.kept(lane).is_none().then(|| {
            let message = format!(
                "no member of cluster {name} that answers keeps it in a bucket, so nothing was written; add a node with engine.object.url (or start it), or ask for another level"
            );
            Refusal::new(ErrorCode::NoArchiveReplicaYet, message)
        })
    }

    /// Whether a write that is applied has yet to reach a bucket.
    pub fn waits_for_tail(&self, lane: &LaneContext, level: WriteConsistency, index: LogIndex) -> bool {
        let asked = level == WriteConsistency::S3 && !planted(Mutant::KeptIsStrong);
        asked && self.kept(lane) < Some(index)
    }

    /// Lets an applied write wait.
    pub fn wait_for_tail(&mut self, lane: &mut LaneContext, wait: AbsoluteWait) {
        let tails = self.tails.get_or_insert_default();
        if tails.waiting.len() < PENDING_WRITES_MAX {
            return tails.waiting.push(wait);
        }
        self.not_kept(lane, wait);
    }

    /// Committed, and told so: it is not in a bucket.
    fn not_kept(&self, lane: &mut LaneContext, wait: AbsoluteWait) {
        let kept = self.kept(lane).unwrap_or(LogIndex(0));
        lane.complete(wait.waiting.ticket, LocalOutcome::CommittedNotKept { reply: wait.reply, at: wait.at, kept });
    }

    /// A tail told what it holds: less than before, too, where its bucket was found damaged. So a word that was
    /// overtaken by a later one counts for nothing. (Across lives there is no order here: frames of an earlier boot
    /// are refused below, core-node `disk_rollback.rs`.)
    pub fn on_kept(&mut self, lane: &mut LaneContext, now: Tick, from: ReplicaId, index: LogIndex, order: TellOrder) {
        if self.leading.is_none() || self.meta.node_of(from).is_none() {
            return;
        }
        let members = self.meta.members.clone();
        let told = &mut self.tails.get_or_insert_default().told;
        told.retain(|told| members.iter().any(|member| member.replica == told.from));
        let is_late = |known: &Told| known.order.life == order.life && order.number <= known.order.number;
        let now_told = Told { from, index, order };
        match told.iter_mut().find(|told| told.from == from) {
            Some(known) if is_late(known) => return,
            Some(known) => *known = now_told,
            None => told.push(now_told),
        }
        self.complete_kept(lane, now);
    }

    /// This replica's engine holds more than before.
    pub fn on_kept_here(&mut self, lane: &mut LaneContext, now: Tick) {
        if !self.is_tail(lane) {
            return;
        }
        let tails = self.tails.get_or_insert_default();
        tails.flushing_since = None;
        if std::mem::take(&mut tails.mends) {
            tails.unsound_since = None;
        }
        match self.leading {
            Some(_) => self.complete_kept(lane, now),
            None => self.tell_kept(lane),
        }
    }

    /// What was dirty is on its way to the engine.
    pub fn on_flush_begun(&mut self, lane: &LaneContext) {
        self.forget_overwritten();
        if self.is_tail(lane) {
            let (since, mends) = (self.dirty_since, !self.has_damage());
            let tails = self.tails.get_or_insert_default();
            (tails.flushing_since, tails.mends) = (since, mends);
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
        let Some(kept) = self.kept_here(lane) else { return };
        let index = if planted(Mutant::KeptToldEarly) { self.meta.applied } else { kept };
        lane.told.number += 1;
        let order = lane.told;
        self.send(lane, leader, &Payload::Kept { from: self.spec.replica, index, order });
    }

    fn complete_kept(&mut self, lane: &mut LaneContext, now: Tick) {
        let (kept, cluster_time_ms) = (self.kept(lane), self.cluster_time(now));
        let Some(tails) = self.tails.as_mut() else { return };
        for wait in tails.waiting.extract_if(.., |wait| Some(wait.at.index) <= kept) {
            let AbsoluteWait { waiting, at, reply } = wait;
            let outcome = LocalOutcome::Written { reply, at, level: WriteConsistency::S3, cluster_time_ms };
            lane.complete(waiting.ticket, outcome);
        }
    }

    /// Leadership is gone: what is committed stays so; what tails told is asked anew of the next term.
    pub fn forget_tails(&mut self, lane: &mut LaneContext) {
        let Some(tails) = self.tails.as_mut() else { return };
        let waiting = std::mem::take(&mut tails.waiting);
        for wait in waiting {
            self.not_kept(lane, wait);
        }
        self.tails.iter_mut().for_each(|tails| tails.told.clear());
    }

    /// Gives up what is past its deadline.
    pub fn expire_kept(&mut self, lane: &mut LaneContext, now: Tick) {
        let Some(tails) = self.tails.as_mut() else { return };
        let late: Vec<_> = tails.waiting.extract_if(.., |wait| wait.waiting.deadline <= now).collect();
        for wait in late {
            self.not_kept(lane, wait);
        }
    }

    /// Whether a write waits for a bucket.
    pub fn is_waited_for_tail(&self) -> bool {
        self.tails.as_ref().is_some_and(|tails| !tails.waiting.is_empty())
    }

    /// A leader's report of its tails.
    pub fn describe_kept(&self, lane: &LaneContext) -> Vec<(NodeId, LogIndex)> {
        let node = |replica| self.meta.node_of(replica);
        self.kept_by(lane).filter_map(|(replica, index)| Some((node(replica)?, index))).collect()
    }

    /// Adds what this replica's bucket lacks, if it is a tail.
    pub fn count_lag(&self, lane: &LaneContext, statistics: &mut LaneStatistics) {
        if !self.is_tail(lane) || self.blank || self.damaged.is_some() {
            return;
        }
        statistics.tails += 1;
        let kept = self.kept_here(lane).unwrap_or(LogIndex(0));
        statistics.tail_entries_behind += self.meta.applied.0.saturating_sub(kept.0);
        let of = |tails: &ArchiveAcks| tails.unsound_since.or(tails.flushing_since);
        let since = self.tails.as_deref().and_then(of).or(self.dirty_since);
        let lag = since.map_or(0, |since| lane.last_turn.since(since).as_millis() as u64);
        statistics.tail_lag_ms = statistics.tail_lag_ms.max(lag);
    }

    /// How long its lists are.
    pub fn tail_sizes(&self, sizes: &mut Sizes) {
        if let Some(tails) = &self.tails {
            sizes.passing("writes waiting for a bucket, a replica", tails.waiting.len(), PENDING_WRITES_MAX);
            sizes.lasting("tails told of, a replica", tails.told.len(), crate::meta::MEMBERS_MAX);
        }
    }
}

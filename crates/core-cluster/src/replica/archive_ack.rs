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
//! Not here: who is a tail (`LaneConfig::tail_engine`), how its engine is kept up to date (flush.rs), who sends its word and who
//! hears it (exchange.rs), how the writes are answered (writes.rs).
//! Why a message of our own, and not the member list: a node chooses the engine of its replicas itself, so no
//! membership entry knows it; and who leads anew hears of it within some ticks.
//! Why its words are numbered: what it holds may become less, and messages overtake each other.

use crate::meta::{ClusterMeta, MEMBERS_MAX};
use crate::replica::writes::{AbsoluteWait, PENDING_WRITES_MAX};
use crate::wire::TellOrder;
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{ClusterName, ErrorCode, LogIndex, NodeId, Refusal, ReplicaId, Tick, WriteConsistency};
use core_log::BatchNumber;

/// A tail that is awake reports what it holds this often, flushes or not: well within the time in which a router
/// takes the refusal of a fresh leader for preliminary (two election timeouts).
pub const TELL_TICKS: usize = 5;

/// The last word of a tail.
struct Told {
    from: ReplicaId,
    index: LogIndex,
    order: TellOrder,
}

/// The reports of tails to a leader, and the writes that wait for more. A replica that never met a tail has none.
#[derive(Default)]
pub struct ArchiveAcks {
    known: Option<Box<Known>>,
}

#[derive(Default)]
struct Known {
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

/// What else counts of the replica.
pub struct Holds<'a> {
    pub own: ReplicaId,
    pub is_tail: bool,
    pub meta: &'a ClusterMeta,
    /// What its engine holds durably.
    pub durable: LogIndex,
    /// The log is durable up to here.
    pub synced: BatchNumber,
}

impl Holds<'_> {
    fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        self.meta.node_of(replica)
    }
}

/// Of a tail.
impl ArchiveAcks {
    /// What this replica's bucket holds whatever happens, if it is a tail.
    pub fn kept_here(&self, replica: &Holds) -> Option<LogIndex> {
        let sound = |known: &Known| known.unsound_since.is_none() || planted(Mutant::KeptThoughDamaged);
        let counts = self.known.as_deref().is_none_or(|known| known.named_in <= replica.synced && sound(known));
        let holds = if counts { replica.durable } else { LogIndex(0) };
        replica.is_tail.then_some(holds)
    }

    /// A snapshot's space takes the place of the one before; this batch will name it.
    pub fn on_space_changed(&mut self, named_in: BatchNumber) {
        let known = self.known.get_or_insert_default();
        known.named_in = named_in;
        (known.unsound_since, known.mends) = (None, false);
    }

    /// Pairs in its engine are damaged, or were until now: what is on its way there may not mend them.
    pub fn on_bucket_damaged(&mut self, now: Tick) {
        let known = self.known.get_or_insert_default();
        known.unsound_since.get_or_insert(now);
        known.mends = false;
    }

    /// What was dirty since then is on its way to the engine; `mends`: it leaves that whole.
    pub fn on_flush_begun(&mut self, since: Option<Tick>, mends: bool) {
        let known = self.known.get_or_insert_default();
        (known.flushing_since, known.mends) = (since, mends);
    }

    /// It is there.
    pub fn on_flush_ended(&mut self) {
        let known = self.known.get_or_insert_default();
        known.flushing_since = None;
        if std::mem::take(&mut known.mends) {
            known.unsound_since = None;
        }
    }

    /// Since when its bucket lacks something.
    pub fn lags_since(&self) -> Option<Tick> {
        self.known.as_deref().and_then(|known| known.unsound_since.or(known.flushing_since))
    }
}

/// Of a leader.
impl ArchiveAcks {
    /// The tails known here and what they hold.
    fn kept_by<'a>(&'a self, replica: &'a Holds) -> impl Iterator<Item = (ReplicaId, LogIndex)> + 'a {
        let own = self.kept_here(replica).map(|index| (replica.own, index));
        let told = self.known.iter().flat_map(|known| &known.told).map(|told| (told.from, told.index));
        told.filter(|(member, _)| replica.node_of(*member).is_some()).chain(own)
    }

    /// The greatest index that a bucket of one of the members holds, as far as is known here; `None`: no member
    /// is known to have one.
    pub fn kept(&self, replica: &Holds) -> Option<LogIndex> {
        self.kept_by(replica).map(|(_, index)| index).max()
    }

    /// Which node's tail holds what.
    pub fn describe(&self, replica: &Holds) -> Vec<(NodeId, LogIndex)> {
        self.kept_by(replica).filter_map(|(member, index)| Some((replica.node_of(member)?, index))).collect()
    }

    /// Refuses a write that no tail could keep. A fresh leader may only not have heard of it yet.
    pub fn refusal(&self, replica: &Holds, name: &ClusterName) -> Option<Refusal> {
        if self.known.as_ref().is_some_and(|known| known.waiting.len() >= PENDING_WRITES_MAX) {
            let message =
                format!("{PENDING_WRITES_MAX} writes of cluster {name} wait for their bucket; back off and retry");
            return Some(Refusal::new(ErrorCode::Overloaded, message));
        }
        self.kept(replica).is_none().then(|| {
            let message = format!(
                "no member of cluster {name} that answers keeps it in a bucket, so nothing was written; add a node with engine.object.url (or start it), or ask for another level"
            );
            Refusal::new(ErrorCode::NoArchiveReplicaYet, message)
        })
    }

    /// Lets an applied write wait; gives it back where too many do.
    pub fn wait(&mut self, wait: AbsoluteWait) -> Option<AbsoluteWait> {
        let known = self.known.get_or_insert_default();
        if known.waiting.len() >= PENDING_WRITES_MAX {
            return Some(wait);
        }
        known.waiting.push(wait);
        None
    }

    /// A tail told what it holds: less than before, too, where its bucket was found damaged. So a word that was
    /// overtaken by a later one counts for nothing: `false`. (Across lives there is no order here: frames of an earlier boot
    /// are refused below, core-node `disk_rollback.rs`.)
    pub fn on_told(&mut self, meta: &ClusterMeta, from: ReplicaId, index: LogIndex, order: TellOrder) -> bool {
        let told = &mut self.known.get_or_insert_default().told;
        told.retain(|told| meta.members.iter().any(|member| member.replica == told.from));
        let is_late = |known: &Told| known.order.life == order.life && order.number <= known.order.number;
        let now_told = Told { from, index, order };
        match told.iter_mut().find(|told| told.from == from) {
            Some(known) if is_late(known) => return false,
            Some(known) => *known = now_told,
            None => told.push(now_told),
        }
        true
    }

    /// Writes that wait for no more than this.
    pub fn take_kept(&mut self, kept: Option<LogIndex>) -> Vec<AbsoluteWait> {
        self.take(|wait| Some(wait.at.index) <= kept)
    }

    /// Writes whose deadline has come.
    pub fn take_late(&mut self, now: Tick) -> Vec<AbsoluteWait> {
        self.take(|wait| wait.waiting.deadline <= now)
    }

    /// Leadership is gone: what is committed stays so; what tails told is asked anew of the next term.
    pub fn lose_leadership(&mut self) -> Vec<AbsoluteWait> {
        self.known.iter_mut().for_each(|known| known.told.clear());
        self.take(|_| true)
    }

    fn take(&mut self, which: impl Fn(&AbsoluteWait) -> bool) -> Vec<AbsoluteWait> {
        let Some(known) = self.known.as_mut() else { return Vec::new() };
        known.waiting.extract_if(.., |wait| which(wait)).collect()
    }

    /// Whether no write waits for a bucket.
    pub fn is_idle(&self) -> bool {
        self.known.as_ref().is_none_or(|known| known.waiting.is_empty())
    }

    /// How long its lists are.
    pub fn sizes(&self, sizes: &mut Sizes) {
        if let Some(known) = &self.known {
            sizes.passing("writes waiting for a bucket, a replica", known.waiting.len(), PENDING_WRITES_MAX);
            sizes.lasting("tails told of, a replica", known.told.len(), MEMBERS_MAX);
        }
    }
}

/// Whether a write of this level waits for a bucket.
pub fn is_asked(level: WriteConsistency) -> bool {
    level == WriteConsistency::S3 && !planted(Mutant::KeptIsStrong)
}

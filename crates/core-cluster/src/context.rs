//! What the replicas of a lane share: its log, engines and numbers, what leaves with the turn, what waits for the log.
//!
//! Always: a message that promises a record waits in `awaiting_sync` until the record is durable (mutants `AckBeforeSync`,
//! `VoteNotPersisted`). A space is dropped only after its replacement is durable (`drop_space_later`).
//! Not here: a replica's own state (replica.rs), who turns all of it (lane.rs).

use crate::api::*;
use crate::buggify::Buggify;
use crate::storage::engine_jobs::{Jobs, ENGINE_JOBS_MAX};
use crate::storage::interner::Interner;
use crate::storage::log_stall::{LogStall, StallTimes};
use crate::wire::TellOrder;
use base_engine::Engine;
use base_types::sizes::Sizes;
use base_types::{ClusterId, NodeId, ReplicaId, SpaceId, Tick, Ticket};
use core_log::{BatchNumber, Log};
use core_raft::Message;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Full batches that may be staged, a quarter of them for each of a leader's four flushes.
pub const STAGED_BATCHES_MAX: u64 = 8;
/// An overlay below this is never too large, however small the flush size is set.
pub const OVERLAY_BYTES_MIN: u64 = 64 << 10;

/// Snapshots a lane sends at once.
pub const SENDERS_MAX: usize = 8;
/// Readies that wait for the log; each stages at least a record, and staged bytes are bounded.
const READIES_UNSYNCED_MAX: usize = 65_536;
/// What the events of one turn may add before pressure is looked at again.
const TURN_BYTES: usize = 4 << 20;
/// Followers drop appends at this many times the bound of an unpressed lane (`LaneContext::is_pressed`).
const PRESSED_TIMES_MAX: usize = 8;

/// Leaders of a drained node that hand over in one tick: an election each, so not thousands at once.
pub const HAND_OVERS_A_TICK: usize = 64;

/// A flush begins at this part of its size and age at the earliest.
const FLUSH_PERCENT_MIN: u64 = 50;

/// The part at which a lane's next flush begins, behind so many.
fn flush_percent(seed: u64, flushes: u64) -> u64 {
    let drawn = xxh3_64_with_seed(&flushes.to_le_bytes(), seed);
    FLUSH_PERCENT_MIN + drawn % (101 - FLUSH_PERCENT_MIN)
}

/// What the replicas of a lane share.
pub struct LaneContext {
    pub config: LaneConfig,
    pub buggify: Buggify,
    pub log: Rc<RefCell<Log>>,
    pub engines: BTreeMap<String, Arc<dyn Engine>>,
    /// What most replicas have in common.
    pub interner: Interner,
    pub output: LaneOutput,
    pub statistics: LaneStatistics,
    /// Readies whose staged records are not yet durable, in batch order.
    pub awaiting_sync: VecDeque<AwaitingSync>,
    /// Spaces to be dropped once this batch is durable: engine, space.
    pub drops: VecDeque<(BatchNumber, String, SpaceId)>,
    /// Work for engine threads, and whom to tell.
    pub jobs: Jobs,
    /// Nodes known to be down.
    pub down: BTreeSet<NodeId>,
    /// No vote is given before this time: a restarted member may have been inside a leader's lease.
    pub no_vote_until: Tick,
    pub next_space: u64,
    pub next_snapshot: u64,
    pub disk_full: bool,
    /// The node is drained, or about to stop: what others can lead is handed to them.
    pub leads_nothing: bool,
    /// How many drained leaders may still hand over before the next tick ([`HAND_OVERS_A_TICK`]).
    pub hand_overs_left: usize,
    pub storage_failed: bool,
    pub snapshot_senders: usize,
    /// Something waits for the next flush (a learner's first snapshot).
    pub flush_soon: bool,
    /// The next flush begins at this part of the size and of the age it may have.
    pub flush_percent: u64,
    /// How long the lane has been running, a gap between turns counting little (`STEADY_GAP_MAX`): a
    /// clock that leaps must not make request ids expire before their retries have ended.
    pub steady: Duration,
    pub last_turn: Tick,
    /// The log's write that is under way.
    pub stall: LogStall,
    /// Commands applied since somebody last took them.
    pub witnessed: Vec<Witnessed>,
    /// Who came to lead since somebody last took them; only where commands are witnessed.
    pub won: Vec<Won>,
    /// Lives that began here alone, for who watches.
    pub begun: Vec<Begun>,
    /// The last word of a tail here to its leader (archive_ack.rs). A life is drawn: nothing on the disk counts lives.
    pub told: TellOrder,
}

/// A ready that waits for a log batch.
pub struct AwaitingSync {
    pub batch: BatchNumber,
    pub cluster: ClusterId,
    pub number: u64,
    pub messages: Vec<Message>,
    /// A failed or recreated group must not be told of an earlier one's readies.
    pub life: u64,
}

impl LaneContext {
    pub fn complete(&mut self, ticket: Ticket, outcome: LocalOutcome) {
        self.output.completions.push(Completion { ticket, outcome });
    }

    /// Whether what is applied and not flushed, or staged and not synced, has outgrown its bound. Leaders
    /// refuse writes at `times` 4; followers, who hear of them later, drop appends at twice that.
    pub fn is_pressed(&self, times: u64) -> bool {
        let log = self.log.borrow();
        let staged_max = (self.config.log.batch_bytes_max as u64).saturating_mul(STAGED_BATCHES_MAX * times);
        self.statistics.overlay_bytes > self.config.flush_bytes.max(OVERLAY_BYTES_MIN).saturating_mul(times)
            || log.staged_bytes() > staged_max
            || (log.is_starved() && log.prepare_failed() && times <= 4)
    }

    pub fn fail_storage(&mut self, message: String) {
        if !self.storage_failed {
            self.storage_failed = true;
            self.output.notices.push(Notice::LogFailed { message });
        }
    }

    /// An engine cannot be written: what it was to hold is in the log, but the lane cannot continue.
    pub fn fail_engine(&mut self, engine: &str, message: String) {
        if !self.storage_failed {
            self.storage_failed = true;
            self.output.notices.push(Notice::EngineFailed { engine: engine.into(), message });
        }
    }

    /// Drops a space once everything staged in the log so far is durable: until then a crash would
    /// come back to the record that names it.
    pub fn drop_space_later(&mut self, engine: &str, space: SpaceId) {
        let batch = self.log.borrow().staged();
        self.drops.push_back((batch, engine.to_string(), space));
    }

    /// Whether so many spaces wait to be dropped that no new ones should be made.
    pub fn is_crowded(&self) -> bool {
        self.drops.len() >= ENGINE_JOBS_MAX || self.jobs.is_crowded()
    }

    /// What waited for the log.
    pub fn drop_spaces(&mut self) {
        let synced = self.log.borrow().synced();
        while let Some((_, engine, space)) = self.drops.pop_front_if(|(batch, _, _)| *batch <= synced) {
            self.jobs.drop_space(&engine, space);
        }
    }

    /// Draws when the next flush begins. Members of a cluster apply the same, so they would all write it out at the same
    /// moment, and none of them be quick for a leader that waits for most of them: drawn anew each time, it is mostly one.
    pub fn draw_flush(&mut self) {
        self.flush_percent = flush_percent(self.config.seed, self.statistics.flushes);
    }

    /// How much may wait to be written out, and for how long, before a flush begins.
    pub fn flush_at(&self) -> (u64, Duration) {
        let (bytes, age_ms) = (self.config.flush_bytes, self.config.flush_after_ms);
        let part = |whole: u64| (u128::from(whole) * u128::from(self.flush_percent) / 100) as u64;
        (part(bytes), Duration::from_millis(part(age_ms)))
    }

    /// When a log write that does not end moves leaders, and fails the log.
    pub fn stall_times(&self) -> StallTimes {
        let config = &self.config;
        let election_ms = config.tick_ms * config.election_ticks as u64;
        let hand_over = election_ms * u64::from(config.log_stall_elections);
        StallTimes {
            tick: Duration::from_millis(config.tick_ms),
            hand_over: (hand_over > 0).then(|| Duration::from_millis(hand_over)),
            failed: Duration::from_millis(config.log_stall_ms),
        }
    }

    /// The lengths of its queues and tables, each with its bound.
    pub fn sizes(&self, sizes: &mut Sizes) {
        let overlay = (self.config.flush_bytes.max(OVERLAY_BYTES_MIN) as usize).saturating_mul(PRESSED_TIMES_MAX);
        let staged = self.config.log.batch_bytes_max * STAGED_BATCHES_MAX as usize * PRESSED_TIMES_MAX;
        sizes.lasting("overlay bytes, a lane", self.statistics.overlay_bytes as usize, overlay + TURN_BYTES);
        sizes.passing("log bytes staged, a lane", self.log.borrow().staged_bytes() as usize, staged + TURN_BYTES);
        sizes.passing("readies waiting for the log, a lane", self.awaiting_sync.len(), READIES_UNSYNCED_MAX);
        sizes.passing("spaces to drop, a lane", self.drops.len(), ENGINE_JOBS_MAX);
        sizes.passing("snapshots going out, a lane", self.snapshot_senders, SENDERS_MAX);
        self.jobs.sizes(sizes);
    }

    /// A replica of this node as a voter.
    pub fn own_member(&self, replica: ReplicaId) -> Member {
        Member { replica, node: self.config.node, disk: self.config.disk, learner: false }
    }

    /// Whether writes cannot be logged for want of room: the disk says so, or the log waits for a segment.
    pub fn is_out_of_room(&self) -> bool {
        let log = self.log.borrow();
        self.disk_full || (log.is_starved() && log.prepare_failed())
    }

    pub fn new_space(&mut self) -> SpaceId {
        self.next_space += 1;
        SpaceId(self.next_space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_apply_the_same_flush_at_moments_of_their_own() {
        let parts = |seed| (0..50).map(move |flushes| flush_percent(seed, flushes));
        assert!(parts(1).chain(parts(2)).all(|percent| (FLUSH_PERCENT_MIN..=100).contains(&percent)));
        let together = parts(1).zip(parts(2)).filter(|(one, other)| one.abs_diff(*other) < 5).count();
        assert!(together < 15, "{together} of 50");
        // Nor does one of them keep its distance to the others.
        assert!(parts(1).collect::<std::collections::BTreeSet<_>>().len() > 20);
    }
}

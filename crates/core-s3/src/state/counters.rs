//! What splits and merges came to on this core since it started.
//!
//! Not here: who counts (reshard/runner.rs), metrics (edge-node).

use core::time::Duration;

/// Counted by the flows that ran on this core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReshardCounters {
    /// Flows that finished, and those of them that only cut a shard at its end: nothing was copied.
    pub finished: u64,
    pub tail_splits: u64,
    /// Flows given up because both sides did not hold the same: a fault of Hive, or of a disk.
    pub digest_mismatches: u64,
    /// Rows copied to new shards, those of the feed included.
    pub rows_copied: u64,
    /// Milliseconds of copying (pauses between batches included), of all flows together.
    pub copying_ms: u64,
    /// From a freeze to the switch of the map: how long a writer may have waited.
    pub cutover_blocked: BlockedHistogram,
    /// Freezes that expired before their switch, so that writers waited once more; and the most of one flow, one after the other.
    pub freezes_expired: u64,
    pub freezes_expired_max: u64,
    /// Remembered requests that were transferred, and those of them that were while no shard served their keys;
    /// milliseconds that this took after the last freeze.
    pub dedup_transferred: u64,
    pub dedup_transferred_blocked: u64,
    pub dedup_blocked_ms: u64,
}

/// Durations by upper bound. Fixed size: recording allocates nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockedHistogram {
    /// Not cumulative. The last bucket has no bound.
    pub buckets: [u64; BlockedHistogram::BOUNDS_MS.len() + 1],
    pub sum_us: u64,
}

impl BlockedHistogram {
    /// Inclusive upper bounds. 50 ms is what a writer should wait at most.
    pub const BOUNDS_MS: [u64; 10] = [2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000];

    /// One more.
    pub fn record(&mut self, duration: Duration) {
        let us = duration.as_micros() as u64;
        let bucket = BlockedHistogram::BOUNDS_MS.partition_point(|bound| bound * 1_000 < us);
        self.buckets[bucket] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_bounds_are_inclusive() {
        let mut blocked = BlockedHistogram::default();
        for us in [0, 2_000, 2_001, 50_000, 5_000_000, 5_000_001] {
            blocked.record(Duration::from_micros(us));
        }
        assert_eq!(blocked.buckets, [2, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1]);
        assert_eq!(blocked.sum_us, 10_054_002);
    }
}

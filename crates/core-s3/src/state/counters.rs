//! What splits and merges came to on a core.
//!
//! Not here: who counts (reshard/runner.rs), metrics (edge-node).

/// What splits and merges came to on this core since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReshardCounters {
    /// Flows that came to their end, and those of them that narrowed a shard: nothing was copied.
    pub finished: u64,
    pub narrowed: u64,
    /// Flows given up because both sides did not hold the same: a fault of Hive, or of a disk.
    pub unequal: u64,
    /// Rows copied to new shards, those of the feed included.
    pub rows_copied: u64,
    /// Milliseconds that rows were being copied (rests between them included), of all flows together.
    pub copying_ms: u64,
    /// Milliseconds from a freeze to the switch of the map: what a writer may wait.
    pub frozen_ms: u64,
    pub frozen_ms_max: u64,
    /// Such switches, and those of them that took longer than a writer should wait.
    pub switches: u64,
    pub frozen_long: u64,
    /// Freezes that expired before their switch, so that writers waited without effect; and the most of one flow, one after the
    /// other.
    pub frozen_in_vain: u64,
    pub frozen_in_vain_max: u64,
    /// Remembered requests that were carried over, and those of them that were while nobody served; milliseconds that
    /// this took behind the last freeze.
    pub carried: u64,
    pub carried_late: u64,
    pub carried_late_ms: u64,
}

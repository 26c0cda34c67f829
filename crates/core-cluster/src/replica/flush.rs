//! Flushes: a replica's overlay is written to its engine, and its log is cut.
//!
//! A flush takes the overlays of all dirty clusters of an engine in one atomic, durable batch. When it is done each
//! cluster's durable index rises and its log may be cut.
//!
//! Always: the log is cut only up to what a finished flush holds (mutant `LogCutTooEarly`, `invariants.rs`).
//! Not here: which job goes out next (`storage/engine_jobs.rs`), when a flush is due (`lane.rs`), what else begins and ends with
//! one (apply.rs).

use crate::meta::ClusterMeta;
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, LogIndex, Tick};
use core_log::Log;
use core_raft::SnapshotPoint;

/// What a replica's engine holds, and since when more than that was applied.
pub struct Flushes {
    durable: SnapshotPoint,
    /// When the overlay first became dirty.
    dirty_since: Option<Tick>,
}

impl Flushes {
    /// Of an engine that holds this.
    pub fn new(durable: SnapshotPoint) -> Flushes {
        Flushes { durable, dirty_since: None }
    }

    /// What the engine holds durably.
    pub fn point(&self) -> &SnapshotPoint {
        &self.durable
    }

    /// Its index.
    pub fn index(&self) -> LogIndex {
        self.durable.index
    }

    /// Since when there is something to write out.
    pub fn dirty_since(&self) -> Option<Tick> {
        self.dirty_since
    }

    /// There is something to write out.
    pub fn mark_dirty(&mut self, now: Tick) {
        self.dirty_since.get_or_insert(now);
    }

    /// There is nothing to write out any more.
    pub fn forget_dirty(&mut self) {
        self.dirty_since = None;
    }

    /// All that is applied goes out: what the engine will hold.
    pub fn begin(&mut self, meta: &ClusterMeta) -> SnapshotPoint {
        self.dirty_since = None;
        SnapshotPoint { index: meta.applied, term: meta.applied_term, membership: meta.membership.clone() }
    }

    /// The engine holds this durably.
    pub fn end(&mut self, point: SnapshotPoint) {
        self.durable = point;
    }

    /// A snapshot took the place of all that was there.
    pub fn restart(&mut self, point: SnapshotPoint) {
        *self = Flushes::new(point);
    }

    /// Cuts the log after the durable index; `kept_for`: not what this member, the slowest, may still need.
    pub fn cut_log(&self, log: &mut Log, cluster: ClusterId, applied: LogIndex, kept_for: Option<LogIndex>) {
        let durable = if planted(Mutant::LogCutTooEarly) { applied } else { self.durable.index };
        let target = kept_for.map_or(durable, |slowest| durable.min(slowest));
        if target < log.first_index(cluster) || target == LogIndex(0) {
            return;
        }
        if let Some(term) = log.term(cluster, target) {
            log.compact(cluster, target, term);
        }
    }
}

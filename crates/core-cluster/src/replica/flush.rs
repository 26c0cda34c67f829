//! Flushes: a replica's overlay is written to its engine, and its log is cut.
//!
//! A flush takes the overlays of all dirty clusters of an engine in one atomic, durable batch. When it is done each
//! cluster's durable index rises and its log may be cut.
//!
//! Always: the log is cut only up to what a finished flush holds (mutant `LogCutTooEarly`, `invariants.rs`).
//! Not here: which job goes out next (`storage/engine_jobs.rs`), when a flush is due (`lane.rs`).

use crate::api::{Flush, Layer};
use crate::buggify::Point;
use crate::context::LaneContext;
use crate::meta::META_KEY;
use crate::replica::Replica;
use crate::storage::engine_jobs::JobTarget;
use crate::storage::restore;
use base_engine::BatchOperation;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{LogIndex, SpaceId};
use bytes::Bytes;
use core_raft::SnapshotPoint;
use std::sync::Arc;

impl Replica {
    /// Whether there is anything to write out.
    pub fn is_dirty(&self) -> bool {
        self.dirty_since.is_some() && !self.overlay.is_frozen() && !self.blank && self.damaged.is_none()
    }

    fn freeze_into(&mut self, flush: &mut Flush, labelled: bool) -> SnapshotPoint {
        let space = self.space;
        flush.layers.push((space, self.overlay.freeze()));
        let (key, value) = (Bytes::from_static(META_KEY), self.meta.to_bytes());
        flush.beside.push(BatchOperation::Put { space, key, value });
        flush.beside.extend(labelled.then(|| restore::label(&self.spec, space)));
        flush.beside.push(BatchOperation::Durable { space, index: self.meta.applied });
        self.dirty_since = None;
        SnapshotPoint {
            index: self.meta.applied,
            term: self.meta.applied_term,
            membership: self.meta.membership.clone(),
        }
    }

    /// The engine holds the frozen overlay durably; gives the layer, which is needed no more.
    pub fn on_flushed(&mut self, lane: &mut LaneContext, space: SpaceId, point: SnapshotPoint) -> Option<Arc<Layer>> {
        if space != self.space {
            // A snapshot replaced the space meanwhile; the old one is being dropped.
            return None;
        }
        let layer = self.overlay.thaw();
        self.durable = point.clone();
        self.walk_what_is_flushed(point.index);
        if let Some(group) = self.group.as_mut() {
            group.set_snapshot_point(point);
        }
        let pressed = lane.buggify.fires(Point::EarlyCut);
        self.compact_log(lane, pressed);
        layer
    }

    /// Cuts the log behind the durable index, keeping what lagging members may still need while it is
    /// small; `pressed`: the log asks for room.
    pub fn compact_log(&mut self, lane: &mut LaneContext, pressed: bool) {
        let cluster = self.spec.cluster;
        let mut target = self.durable.index;
        if planted(Mutant::LogCutTooEarly) {
            target = self.meta.applied;
        }
        let mut log = lane.log.borrow_mut();
        let keep = log.bytes(cluster) <= lane.config.log_keep_bytes && !pressed;
        if keep {
            let Some(group) = self.group.as_ref().filter(|_| self.leading.is_some()) else { return };
            let slowest = group.followers().iter().map(|follower| follower.matched).min();
            target = target.min(slowest.unwrap_or(target));
        }
        if target < log.first_index(cluster) || target == LogIndex(0) {
            return;
        }
        if let Some(term) = log.term(cluster, target) {
            log.compact(cluster, target, term);
        }
    }
}

/// Freezes the dirty replicas of one engine and queues the batch.
pub fn flush_engine(lane: &mut LaneContext, engine: &str, replicas: &mut [&mut Replica]) {
    let mut flush = Flush::default();
    let mut points = Vec::with_capacity(replicas.len());
    for replica in replicas.iter_mut() {
        replica.on_flush_begun(lane);
        let point = replica.freeze_into(&mut flush, lane.config.label_spaces);
        points.push((replica.spec.cluster, replica.space, point));
    }
    lane.statistics.flushes += 1;
    lane.draw_flush();
    lane.jobs.flush(engine, JobTarget::Flush(points), flush);
}

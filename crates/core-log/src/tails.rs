//! Moves what still counts out of the oldest segment, so that idle clusters do not keep it for ever.
//!
//! Above the soft bound of segments, states and small tails of the oldest segment are staged again
//! at the head, some with each batch; clusters with large tails are named, for their owner to
//! compact. At twice the bound large tails are moved too. Moving is worth it only while at least half
//! of the log is garbage; without that rule a log full of live records would be moved round and round.
//! And it is paid for by what is newly written (`credit`), so that an idle log always comes to rest.
//!
//! Always: bounded work and bytes per batch; a moved record says the same as its original and
//! truncates nothing (docs/formats/log.md, "Moved records").
//! Held by: `large_tails_are_named_and_moved_only_when_pressed`, `a_log_full_of_live_records_is_not_moved_round_and_round`.
//! Not here: when the segment may go (`segments.rs`, `log_start`).

use crate::cluster::ClusterLog;
use crate::ledger::Ledger;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use base_types::mutant::{planted, Mutant};
use base_types::ClusterId;
use core::ops::Bound;

/// Bytes moved with one batch.
const MOVE_BYTES_PER_BATCH: usize = 256 << 10;
/// Clusters looked at with one batch.
const MOVE_CLUSTERS_PER_BATCH: usize = 256;
/// A tail up to this size is moved; the owner of a larger one is asked to compact first.
const TAIL_BYTES_MAX: usize = 64 << 10;

/// Bytes that may be moved for each byte newly written: enough where half of the log is garbage.
const MOVED_PER_WRITTEN: u64 = 2;

/// How far the oldest segment has been gone through.
#[derive(Default)]
pub(crate) struct Tails {
    segment: u64,
    /// Clusters behind this one are still to be looked at.
    after: Option<ClusterId>,
    done: bool,
    /// Clusters with large tails in the oldest segment.
    pub laggards: BTreeSet<ClusterId>,
    /// Clusters to look at again.
    recheck: BTreeSet<ClusterId>,
    /// Clusters without a tail that wait until moving is worth it.
    blocked: BTreeSet<ClusterId>,
    could_move: bool,
    pub moved_bytes: u64,
    /// Bytes that may still be moved.
    credit: u64,
    /// Of the moved bytes, those not yet in a batch.
    unwritten: u64,
}

impl Tails {
    /// Begins with another segment, or none.
    fn restart(&mut self, segment: u64) {
        let (moved_bytes, credit, unwritten) = (self.moved_bytes, self.credit, self.unwritten);
        *self = Tails { segment, moved_bytes, credit, unwritten, ..Tails::default() };
    }

    /// A batch of `bytes` with `records` bytes of records was handed out.
    pub fn on_batch(&mut self, bytes: u64, records: u64, credit_max: u64) {
        let moved = self.unwritten.min(records);
        self.unwritten -= moved;
        if moved < records {
            self.credit = (self.credit + MOVED_PER_WRITTEN * (bytes - moved)).min(credit_max);
        }
    }

    /// The cluster's entries became fewer.
    pub fn on_shrunk(&mut self, cluster: ClusterId) {
        if self.laggards.remove(&cluster) {
            self.recheck.insert(cluster);
        }
    }

    /// Stages some of the oldest segment's live records again, if there are too many segments.
    pub fn step(&mut self, clusters: &mut BTreeMap<ClusterId, Box<ClusterLog>>, ledger: &mut Ledger) {
        if !ledger.segments.is_over() || planted(Mutant::LiveTailLost) {
            if self.segment != 0 {
                self.restart(0);
            }
            return;
        }
        let Some(oldest) = ledger.segments.oldest() else { return };
        if oldest.id != self.segment {
            self.restart(oldest.id);
        }
        let may_move = ledger.live_bytes * 2 <= ledger.segments.in_use_bytes();
        if may_move && !self.could_move {
            self.recheck.append(&mut self.laggards);
            self.recheck.append(&mut self.blocked);
        }
        self.could_move = may_move;
        let candidates = self.candidates(&oldest.clusters, ledger.segments.is_pressed());
        let pressed = ledger.segments.is_pressed();
        let end = ledger.segments.oldest_end();
        let mut budget = MOVE_BYTES_PER_BATCH.min(usize::try_from(self.credit).unwrap_or(usize::MAX));
        for cluster in candidates {
            if budget == 0 {
                break;
            }
            if !self.recheck.remove(&cluster) && !self.done {
                self.after = Some(cluster);
            }
            let Some(log) = clusters.get_mut(&cluster) else { continue };
            let spent = self.move_one(cluster, log, end, (may_move, pressed, budget), ledger);
            budget = budget.saturating_sub(spent);
            self.moved_bytes += spent as u64;
            self.unwritten += spent as u64;
            self.credit = self.credit.saturating_sub(spent as u64);
        }
    }

    fn candidates(&mut self, all: &BTreeSet<ClusterId>, pressed: bool) -> Vec<ClusterId> {
        if !self.recheck.is_empty() {
            return self.recheck.iter().take(MOVE_CLUSTERS_PER_BATCH).copied().collect();
        }
        if !self.done {
            let behind = self.after.map_or(Bound::Unbounded, Bound::Excluded);
            let chosen: Vec<_> = all.range((behind, Bound::Unbounded)).take(MOVE_CLUSTERS_PER_BATCH).copied().collect();
            self.done = chosen.is_empty();
            return chosen;
        }
        let again = if pressed { MOVE_CLUSTERS_PER_BATCH } else { 0 };
        self.laggards.iter().take(again).copied().collect()
    }

    fn move_one(
        &mut self,
        cluster: ClusterId,
        log: &mut ClusterLog,
        end: u64,
        (may_move, pressed, budget): (bool, bool, usize),
        ledger: &mut Ledger,
    ) -> usize {
        let old = |sequence: u64| sequence < end;
        let tail = log.entry_bytes(&old);
        if !may_move || (tail > TAIL_BYTES_MAX && !pressed) {
            let set = if tail > 0 { &mut self.laggards } else { &mut self.blocked };
            set.insert(cluster);
            // States are moved at once where that is worth it: compacting does not get rid of them.
            return if may_move { log.move_states(cluster, &old, ledger) } else { 0 };
        }
        let states = log.move_states(cluster, &old, ledger);
        let entries = log.move_entries(cluster, &old, budget, ledger);
        self.laggards.remove(&cluster);
        if entries < tail {
            self.recheck.insert(cluster);
        }
        states + entries
    }
}

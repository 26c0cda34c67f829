//! What every change of a cluster's log goes through: it stages the record and keeps count of which
//! records still matter, so that segments without any can go.
//!
//! By design: each staged record that matters is killed exactly once, by what supersedes it.
//! Not here: what a cluster's log holds (`cluster.rs`).

use crate::format::{Record, RecordKind};
use crate::segments::Segments;
use crate::staging::Staging;
use base_types::mutant::{planted, Mutant};

/// The sequence of something that no record on disk states (a gap found at recovery).
pub(crate) const NO_SEQUENCE: u64 = u64::MAX;

/// Staged and written records, alive or dead.
pub(crate) struct Ledger {
    pub staging: Staging,
    pub segments: Segments,
    /// Bytes of all records that matter.
    pub live_bytes: u64,
    /// The largest record a batch can take.
    pub record_bytes_max: usize,
    /// The largest state record; smaller, because the next batch repeats it.
    pub state_bytes_max: usize,
}

impl Ledger {
    /// Stages a record and returns its sequence.
    pub fn stage(&mut self, record: Record) -> u64 {
        let bytes = record.encoded_bytes();
        let bytes_max = if record.kind == RecordKind::State { self.state_bytes_max } else { self.record_bytes_max };
        assert!(
            bytes <= bytes_max,
            "a record of {bytes} bytes for cluster {} is too large for the log; at most {bytes_max} fit its segments",
            record.cluster
        );
        let dead = record.kind == RecordKind::Forget;
        if !dead {
            self.live_bytes += bytes as u64;
        }
        self.staging.push(record, dead)
    }

    /// The record is superseded by the one staged next.
    pub fn kill(&mut self, sequence: u64, bytes: usize) {
        if sequence == NO_SEQUENCE {
            return;
        }
        let dead_at = self.staging.next_sequence() + u64::from(!planted(Mutant::DeadOneRecordEarly));
        let staged = self.staging.kill(sequence, dead_at);
        if !staged {
            self.segments.kill(sequence, dead_at);
        }
        if !(staged && planted(Mutant::StagedDeadCounted)) {
            self.live_bytes -= bytes as u64;
        }
    }
}

//! What always holds of the log: it is counted again from what is held, and must agree with the running counts.
//!
//! Always (asserted here): what is out lies after what is synced; a cluster's terms never fall; each record that matters
//! is counted in exactly one place, the queue or its segment, and the bytes of all of them are the log's live bytes.
//! Not here: what recovery yields (`recovery.rs`, `tests/model.rs`).

use crate::cluster::ClusterLog;
use crate::format::record_bytes;
use crate::ledger::NO_SEQUENCE;
use crate::Log;
use alloc::vec::Vec;
use base_types::holds;
use base_types::invariant::Broken;
use base_types::ClusterId;

impl Log {
    /// Walks everything held: for tests, debug builds and the simulator.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check_invariants(&self) -> Result<(), Broken> {
        let out = self.writing.as_ref().map(|writing| writing.number);
        holds!(out.is_none_or(|out| out > self.synced), "batch {out:?} is out, and {} is durable", self.synced);
        let staging = &self.ledger.staging;
        let (records, bytes) = staging.counted();
        holds!(records == staging.len(), "the batches to be hold {records} records of {}", staging.len());
        holds!(bytes == staging.bytes(), "the batches to be hold {bytes} bytes of {}", staging.bytes());
        let mut live = Live::default();
        for (cluster, log) in &self.clusters {
            log.check(*cluster, &mut live)?;
        }
        let counted = self.ledger.live_bytes;
        holds!(live.bytes == counted, "records that matter have {} bytes, and {counted} are counted", live.bytes);
        let (written, staged): (Vec<u64>, Vec<u64>) = live.sequences.iter().partition(|at| **at < staging.front());
        let alive = staging.alive();
        holds!(staged.len() == alive, "{} records that matter are staged, and {alive} are counted", staged.len());
        self.ledger.segments.check(&written)
    }
}

/// The records that matter.
#[derive(Default)]
struct Live {
    sequences: Vec<u64>,
    bytes: u64,
}

impl Live {
    fn add(&mut self, sequence: u64, payload: usize) {
        if sequence != NO_SEQUENCE {
            self.sequences.push(sequence);
            self.bytes += record_bytes(payload) as u64;
        }
    }
}

impl ClusterLog {
    fn check(&self, cluster: ClusterId, live: &mut Live) -> Result<(), Broken> {
        let mut term = self.compacted_term;
        let mut bytes = 0;
        for (at, slot) in self.slots.iter().enumerate() {
            let index = self.compacted.0 + 1 + at as u64;
            let of = slot.term.unwrap_or(term);
            holds!(of >= term, "entry {index} of cluster {cluster} has term {of}, and the one before {term}");
            term = of;
            bytes += slot.payload_bytes() as u64;
            live.add(slot.sequence, slot.payload_bytes());
        }
        holds!(bytes == self.bytes, "entries of cluster {cluster} have {bytes} bytes, and {} are counted", self.bytes);
        for state in &self.states {
            live.add(state.sequence, state.payload_bytes());
        }
        live.add(self.compacted_sequence.unwrap_or(NO_SEQUENCE), 0);
        Ok(())
    }
}

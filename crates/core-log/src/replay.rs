//! What the records say, replayed in order: the state of every cluster at the end of the log.
//!
//! Always: records come in the order they were staged; the first may be the middle of a cluster's
//! history (what came before was superseded or moved behind), so nothing is taken to join until the end.
//! Held by: `what_comes_back_is_the_model_at_some_batch_not_before_the_last_synced`.
//! Not here: reading (`salvage.rs`), deciding what counts as read (`recovery.rs`).

use crate::cluster::{ClusterLog, Slot, State};
use crate::format::{RecordHeader, RecordKind};
use crate::ledger::NO_SEQUENCE;
use crate::salvage::Found;
use crate::Damage;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, LogIndex, Term};
use bytes::Bytes;

#[derive(Default)]
struct Cluster {
    compacted: LogIndex,
    compacted_term: Term,
    compacted_sequence: Option<u64>,
    entries: BTreeMap<LogIndex, Slot>,
    states: Vec<State>,
}

/// See the file's head.
#[derive(Default)]
pub(crate) struct Replay {
    clusters: BTreeMap<ClusterId, Cluster>,
    next_sequence: u64,
}

impl Replay {
    /// The sequence of the next record.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Applies one record.
    pub fn apply(&mut self, found: Found) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let header = &found.header;
        if header.kind == RecordKind::Forget {
            self.clusters.remove(&header.cluster);
            return;
        }
        let cluster = self.clusters.entry(header.cluster).or_default();
        match header.kind {
            RecordKind::Entry => cluster.append(header, slot_of(&found, sequence)),
            RecordKind::MovedEntry | RecordKind::Hole => cluster.place(header, slot_of(&found, sequence)),
            RecordKind::State => cluster.put_state(header.detail, found.payload.as_deref(), sequence),
            RecordKind::LostState => cluster.put_state(header.detail, None, sequence),
            RecordKind::Compact => cluster.compact(header, false, sequence),
            RecordKind::Reset => cluster.compact(header, true, sequence),
            RecordKind::Forget => {}
        }
    }

    /// The clusters as they now are; what is missing between the entries becomes holes.
    pub fn finish(self) -> BTreeMap<ClusterId, Box<ClusterLog>> {
        let mut holes_left = HOLES_MAX;
        self.clusters.into_iter().map(|(id, cluster)| (id, Box::new(cluster.finish(&mut holes_left)))).collect()
    }
}

/// Every hole and every lost state.
pub(crate) fn damage_of(clusters: &BTreeMap<ClusterId, Box<ClusterLog>>) -> Vec<Damage> {
    let mut damage = Vec::new();
    for (&cluster, log) in clusters {
        let lost = log.states.iter().filter(|state| state.bytes.is_none());
        damage.extend(lost.map(|state| Damage::State { cluster, kind: state.kind }));
        for (at, slot) in log.slots.iter().enumerate().filter(|(_, slot)| !slot.whole) {
            let index = LogIndex(log.compacted.0 + 1 + at as u64);
            damage.push(Damage::Entry { cluster, index, term: slot.term });
        }
    }
    damage
}

/// The entry, copied out of the segment's image so that it does not keep all of that in memory.
fn slot_of(found: &Found, sequence: u64) -> Slot {
    let header = &found.header;
    let payload = match &found.payload {
        Some(payload) if header.kind != RecordKind::Hole => Bytes::copy_from_slice(payload),
        _ => return Slot::hole((header.term != Term(0)).then_some(header.term), sequence),
    };
    let split = (header.data_bytes as usize).min(payload.len());
    let (data, context) = (payload.slice(..split), payload.slice(split..));
    Slot::whole(header.term, header.detail, data, context, sequence)
}

impl Cluster {
    fn append(&mut self, header: &RecordHeader, slot: Slot) {
        if header.index <= self.compacted {
            return;
        }
        self.entries.split_off(&header.index);
        self.entries.insert(header.index, slot);
    }

    fn place(&mut self, header: &RecordHeader, slot: Slot) {
        if header.index <= self.compacted {
            return;
        }
        // A moved copy that rotted does not hide an original that did not.
        let held = self.entries.get(&header.index);
        let same = held.is_some_and(|held| held.whole && (slot.term.is_none() || held.term == slot.term));
        if !slot.whole && same && !planted(Mutant::MovedRotHidesEntry) {
            return;
        }
        self.entries.insert(header.index, slot);
    }

    fn put_state(&mut self, kind: u8, bytes: Option<&[u8]>, sequence: u64) {
        let state = State { kind, bytes: bytes.map(Box::from), sequence };
        match self.states.iter_mut().find(|state| state.kind == kind) {
            Some(old) => *old = state,
            None => {
                self.states.reserve_exact(1);
                self.states.push(state);
            }
        }
    }

    fn compact(&mut self, header: &RecordHeader, reset: bool, sequence: u64) {
        if header.index < self.compacted {
            return;
        }
        self.compacted = header.index;
        self.compacted_term = header.term;
        self.compacted_sequence = Some(sequence);
        self.entries = match header.index.0.checked_add(1) {
            Some(next) if !reset => self.entries.split_off(&LogIndex(next)),
            _ => BTreeMap::new(),
        };
    }

    fn finish(self, holes_left: &mut u64) -> ClusterLog {
        let mut log = ClusterLog {
            compacted: self.compacted,
            compacted_term: self.compacted_term,
            compacted_sequence: self.compacted_sequence,
            states: self.states,
            ..ClusterLog::default()
        };
        let mut before = Some(self.compacted_term);
        for (index, slot) in self.entries {
            // At least one, whatever is left: the cluster must be told to be damaged.
            let missing = (index.0 - log.last().0 - 1).min((*holes_left).max(1));
            *holes_left = holes_left.saturating_sub(missing);
            // A term only grows: where it is the same on both sides, it is the same between.
            let term = if before == slot.term { before } else { None };
            log.slots.extend((0..missing).map(|_| Slot::hole(term, NO_SEQUENCE)));
            if index.0 != log.last().0 + 1 {
                break;
            }
            before = slot.term;
            log.bytes += slot.payload_bytes() as u64;
            log.slots.push_back(slot);
        }
        log.rest();
        log
    }
}

/// The most missing entries, of all gaps of a log together, that become holes. More are not rot, or more of it than a
/// repair entry by entry can mend. Then the entries after the gap are given up, and their cluster is marked damaged up
/// to there.
const HOLES_MAX: u64 = 1 << 14;

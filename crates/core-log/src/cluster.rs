//! One cluster's part of the log, in memory: entries behind the compacted index, and states.
//!
//! Always: entry `i` stands at slot `i - compacted - 1`; every slot and state names the record that holds it
//! (`sequence`), and `Ledger::kill` is called when that record no longer counts.
//! Not here: bytes on disk; what a torn or rotted record does (`replay.rs`).

use crate::format::{record_bytes, Record, RecordKind};
use crate::ledger::{Ledger, NO_SEQUENCE};
use crate::LogEntry;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, LogIndex, Term};
use bytes::Bytes;

/// An entry, or the hole it left.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// `None` only in a hole whose term nobody knows.
    pub term: Option<Term>,
    pub whole: bool,
    pub kind: u8,
    pub data: Bytes,
    /// Only changes of members have one.
    context: Option<Box<Bytes>>,
    pub sequence: u64,
}

impl Slot {
    pub fn of(entry: &LogEntry, sequence: u64) -> Slot {
        Slot::whole(entry.term, entry.kind, entry.data.clone(), entry.context.clone(), sequence)
    }

    pub fn whole(term: Term, kind: u8, data: Bytes, context: Bytes, sequence: u64) -> Slot {
        let context = (!context.is_empty()).then(|| Box::new(context));
        Slot { term: Some(term), whole: true, kind, data, context, sequence }
    }

    pub fn hole(term: Option<Term>, sequence: u64) -> Slot {
        Slot { term, whole: false, kind: 0, data: Bytes::new(), context: None, sequence }
    }

    pub fn payload_bytes(&self) -> usize {
        self.data.len() + self.context.as_ref().map_or(0, |context| context.len())
    }

    fn context(&self) -> Bytes {
        self.context.as_ref().map_or_else(Bytes::new, |context| Bytes::clone(context))
    }

    /// The record that says the same without truncating anything.
    pub fn moved(&self, cluster: ClusterId, index: LogIndex) -> Record {
        Record {
            kind: if self.whole { RecordKind::MovedEntry } else { RecordKind::Hole },
            detail: self.kind,
            cluster,
            index,
            term: self.term.unwrap_or_default(),
            data: self.data.clone(),
            context: self.context(),
        }
    }

    fn kill(&self, ledger: &mut Ledger) {
        ledger.kill(self.sequence, record_bytes(self.payload_bytes()));
    }
}

/// The latest record of one kind; `bytes` is `None` where every copy rotted. Its own copy, without spare room: it lives
/// as long as the cluster.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub kind: u8,
    pub bytes: Option<Box<[u8]>>,
    pub sequence: u64,
}

impl State {
    pub fn payload_bytes(&self) -> usize {
        self.bytes.as_ref().map_or(0, |bytes| bytes.len())
    }

    fn set(&mut self, bytes: &[u8]) {
        match &mut self.bytes {
            Some(held) if held.len() == bytes.len() => held.copy_from_slice(bytes),
            held => *held = Some(bytes.into()),
        }
    }

    fn record(&self, cluster: ClusterId) -> Record {
        let (index, term) = (LogIndex(0), Term(0));
        match &self.bytes {
            Some(bytes) => Record {
                data: Bytes::copy_from_slice(bytes),
                ..Record::bare(RecordKind::State, self.kind, cluster, index, term)
            },
            None => Record::bare(RecordKind::LostState, self.kind, cluster, index, term),
        }
    }
}

/// See the file's head.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterLog {
    pub compacted: LogIndex,
    pub compacted_term: Term,
    /// The record that states the compacted index, if there is one.
    pub compacted_sequence: Option<u64>,
    pub slots: VecDeque<Slot>,
    /// Few: searched from the front.
    pub states: Vec<State>,
    /// Bytes of the entries' data and context.
    pub bytes: u64,
}

impl ClusterLog {
    pub fn last(&self) -> LogIndex {
        LogIndex(self.compacted.0 + self.slots.len() as u64)
    }

    pub fn slot(&self, index: LogIndex) -> Option<&Slot> {
        let at = index.0.checked_sub(self.compacted.0 + 1)?;
        self.slots.get(usize::try_from(at).ok()?)
    }

    pub fn term(&self, index: LogIndex) -> Option<Term> {
        if index == self.compacted {
            return Some(self.compacted_term);
        }
        self.slot(index).filter(|slot| slot.whole).and_then(|slot| slot.term)
    }

    pub fn entry(&self, index: LogIndex) -> Option<LogEntry> {
        let slot = self.slot(index).filter(|slot| slot.whole)?;
        Some(LogEntry { term: slot.term?, index, kind: slot.kind, data: slot.data.clone(), context: slot.context() })
    }

    pub fn state(&self, kind: u8) -> Option<&State> {
        self.states.iter().find(|state| state.kind == kind)
    }

    /// Sets an entry behind the last, or instead of an earlier one and everything behind that.
    pub fn append(&mut self, cluster: ClusterId, entry: &LogEntry, ledger: &mut Ledger) {
        let (first, next) = (self.compacted.0 + 1, self.last().0 + 1);
        assert!(
            (first..=next).contains(&entry.index.0),
            "entry {} of cluster {cluster} does not join its log; it holds {first} to {}",
            entry.index,
            next - 1
        );
        if planted(Mutant::TruncateKeepsSuffix) && entry.index.0 < next {
            return;
        }
        self.truncate(entry.index, ledger);
        let record = Record {
            kind: RecordKind::Entry,
            detail: entry.kind,
            cluster,
            index: entry.index,
            term: entry.term,
            data: entry.data.clone(),
            context: entry.context.clone(),
        };
        let sequence = ledger.stage(record);
        let slot = Slot::of(entry, sequence);
        self.bytes += slot.payload_bytes() as u64;
        self.slots.push_back(slot);
    }

    /// Puts a whole entry where one is or where a hole is; nothing else changes.
    pub fn replace(&mut self, cluster: ClusterId, entry: &LogEntry, ledger: &mut Ledger) {
        let at = (entry.index.0 - self.compacted.0 - 1) as usize;
        self.slots[at].kill(ledger);
        self.bytes -= self.slots[at].payload_bytes() as u64;
        let mut slot = Slot::of(entry, NO_SEQUENCE);
        slot.sequence = ledger.stage(slot.moved(cluster, entry.index));
        self.bytes += slot.payload_bytes() as u64;
        self.slots[at] = slot;
    }

    /// Gives back the room that entries no longer there have left, unless that is less than there are.
    pub fn rest(&mut self) {
        if self.slots.capacity() > 2 * self.slots.len() {
            self.slots.shrink_to_fit();
        }
    }

    fn truncate(&mut self, from: LogIndex, ledger: &mut Ledger) {
        while self.last() >= from {
            let Some(slot) = self.slots.pop_back() else { return };
            slot.kill(ledger);
            if !planted(Mutant::TruncatedBytesCounted) {
                self.bytes -= slot.payload_bytes() as u64;
            }
        }
    }

    pub fn put_state(&mut self, cluster: ClusterId, kind: u8, bytes: Bytes, ledger: &mut Ledger) {
        let at = self.states.iter().position(|state| state.kind == kind).unwrap_or_else(|| {
            // One by one: there are two kinds, and hundreds of thousands of clusters.
            self.states.reserve_exact(1);
            self.states.push(State { kind, bytes: None, sequence: NO_SEQUENCE });
            self.states.len() - 1
        });
        let state = &mut self.states[at];
        ledger.kill(state.sequence, record_bytes(state.payload_bytes()));
        state.set(&bytes);
        let bare = Record::bare(RecordKind::State, kind, cluster, LogIndex(0), Term(0));
        state.sequence = ledger.stage(Record { data: bytes, ..bare });
    }

    /// See `Log::compact`; `index` lies behind the compacted one.
    pub fn compact(&mut self, cluster: ClusterId, index: LogIndex, term: Term, ledger: &mut Ledger) {
        // A snapshot that contradicts the entry held there replaces the whole log, what follows included.
        let contradicted = self.slot(index).and_then(|slot| slot.term).is_some_and(|held| held != term)
            && !planted(Mutant::CompactKeepsContradicted);
        let reset = index > self.last() || contradicted;
        let gone = if reset { self.slots.len() } else { (index.0 - self.compacted.0) as usize };
        for slot in self.slots.drain(..gone) {
            slot.kill(ledger);
            self.bytes -= slot.payload_bytes() as u64;
        }
        self.compacted = index;
        self.compacted_term = term;
        self.stage_compacted(cluster, if reset { RecordKind::Reset } else { RecordKind::Compact }, ledger);
        if self.slots.is_empty() {
            self.slots.shrink_to(0);
        }
    }

    fn stage_compacted(&mut self, cluster: ClusterId, kind: RecordKind, ledger: &mut Ledger) {
        if let Some(old) = self.compacted_sequence {
            ledger.kill(old, record_bytes(0));
        }
        self.compacted_sequence =
            Some(ledger.stage(Record::bare(kind, 0, cluster, self.compacted, self.compacted_term)));
    }

    /// Everything goes.
    pub fn forget(self, cluster: ClusterId, ledger: &mut Ledger) {
        for slot in &self.slots {
            slot.kill(ledger);
        }
        for state in &self.states {
            ledger.kill(state.sequence, record_bytes(state.payload_bytes()));
        }
        if let Some(sequence) = self.compacted_sequence {
            ledger.kill(sequence, record_bytes(0));
        }
        ledger.stage(Record::bare(RecordKind::Forget, 0, cluster, LogIndex(0), Term(0)));
    }

    /// Stages states and compacted index again where their record is among `sequences`; returns the bytes.
    pub fn move_states(&mut self, cluster: ClusterId, sequences: &impl Fn(u64) -> bool, ledger: &mut Ledger) -> usize {
        let mut moved = 0;
        for state in self.states.iter_mut().filter(|state| sequences(state.sequence)) {
            let bytes = record_bytes(state.payload_bytes());
            ledger.kill(state.sequence, bytes);
            state.sequence = ledger.stage(state.record(cluster));
            moved += bytes;
        }
        if self.compacted_sequence.is_some_and(sequences) {
            self.stage_compacted(cluster, RecordKind::Compact, ledger);
            moved += record_bytes(0);
        }
        moved
    }

    /// Bytes of the entries whose record is among `sequences`.
    pub fn entry_bytes(&self, sequences: &impl Fn(u64) -> bool) -> usize {
        self.slots.iter().filter(|slot| sequences(slot.sequence)).map(|slot| record_bytes(slot.payload_bytes())).sum()
    }

    /// Stages entries and holes again where their record is among `sequences`, until `budget` is
    /// spent; returns the bytes.
    pub fn move_entries(
        &mut self,
        cluster: ClusterId,
        sequences: &impl Fn(u64) -> bool,
        budget: usize,
        ledger: &mut Ledger,
    ) -> usize {
        let mut moved = 0;
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if moved >= budget {
                break;
            }
            if sequences(slot.sequence) {
                slot.kill(ledger);
                slot.sequence = ledger.stage(slot.moved(cluster, LogIndex(self.compacted.0 + 1 + at as u64)));
                moved += record_bytes(slot.payload_bytes());
            }
        }
        moved
    }
}

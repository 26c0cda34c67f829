//! Records that wait for their batch. A record knows its batch from the moment it is staged, so that
//! a caller can be told under which number it becomes durable.
//!
//! Always: records leave in the order they came; a batch holds at least one record and at most
//! `limit` bytes of them unless it holds just one.
//! Not here: bytes (`batch.rs`), where batches go (`segments.rs`).

use crate::format::Record;
use alloc::collections::VecDeque;

/// A record with the moment it was superseded.
pub(crate) struct Staged {
    pub record: Record,
    /// The sequence before which the log must be durable for this record not to matter; 0: it matters.
    pub dead_at: u64,
}

/// One batch to be.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub number: u64,
    pub records: usize,
    pub bytes: usize,
}

/// The queue. Each record has a sequence: its place in everything ever staged since recovery.
pub(crate) struct Staging {
    records: VecDeque<Staged>,
    front: u64,
    plans: VecDeque<Plan>,
    next_batch: u64,
    last: u64,
    limit: usize,
    bytes: u64,
}

impl Staging {
    /// An empty queue that continues after batch `last` and sequence `front`.
    pub fn new(last: u64, front: u64, limit: usize) -> Staging {
        Staging { records: VecDeque::new(), front, plans: VecDeque::new(), next_batch: last + 1, last, limit, bytes: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Records and their bytes, as the batches to be have them.
    pub fn counted(&self) -> (usize, u64) {
        self.plans.iter().fold((0, 0), |(records, bytes), plan| (records + plan.records, bytes + plan.bytes as u64))
    }

    /// How many of the records matter.
    pub fn alive(&self) -> usize {
        self.records.iter().filter(|staged| staged.dead_at == 0).count()
    }

    /// The batch of the record staged last.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The sequence of the first record still here.
    pub fn front(&self) -> u64 {
        self.front
    }

    /// The sequence the next record gets.
    pub fn next_sequence(&self) -> u64 {
        self.front + self.records.len() as u64
    }

    pub fn push(&mut self, record: Record, dead: bool) -> u64 {
        let sequence = self.next_sequence();
        let bytes = record.encoded_bytes();
        let limit = self.limit;
        match self.plans.back_mut() {
            Some(plan) if plan.bytes + bytes <= limit => {
                plan.records += 1;
                plan.bytes += bytes;
            }
            _ => {
                self.plans.push_back(Plan { number: self.next_batch, records: 1, bytes });
                self.next_batch += 1;
            }
        }
        self.last = self.next_batch - 1;
        self.bytes += bytes as u64;
        self.records.push_back(Staged { record, dead_at: if dead { sequence + 1 } else { 0 } });
        sequence
    }

    /// Marks a record superseded; false if it has left already.
    pub fn kill(&mut self, sequence: u64, dead_at: u64) -> bool {
        if sequence < self.front {
            return false;
        }
        match self.records.get_mut((sequence - self.front) as usize) {
            Some(staged) => staged.dead_at = dead_at,
            None => unreachable!("sequence {sequence} was never staged"),
        }
        true
    }

    /// The batch that goes next.
    pub fn next_plan(&self) -> Option<Plan> {
        self.plans.front().copied()
    }

    /// Takes the next batch's records out one by one, then ends the batch.
    pub fn take_plan(&mut self, mut each: impl FnMut(Staged)) {
        let Some(plan) = self.plans.pop_front() else { return };
        for staged in self.records.drain(..plan.records) {
            each(staged);
        }
        self.front += plan.records as u64;
        self.bytes -= plan.bytes as u64;
    }

    /// The number of the batch that goes next, be it one without records.
    pub fn next_number(&self) -> u64 {
        self.plans.front().map_or(self.next_batch, |plan| plan.number)
    }

    /// Uses that number up for a batch without records.
    pub fn skip_number(&mut self) {
        assert!(self.plans.is_empty(), "an empty batch may not overtake staged records");
        self.next_batch += 1;
    }
}

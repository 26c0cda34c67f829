//! One core's log: what is recorded, which writers wait for it, and when it may be cut.
//!
//! ```text
//!   letters ─record─▶ entry being filled ─cut─▶ core-log ─poll─▶ actions ─on_written─▶ waiters done
//!   memory given to the engine: `mark` … engine has it: `trim` ─▶ compacted, segments go
//! ```
//!
//! A batch over several cores is one record, in the log of the first of them: so it is there whole or
//! not at all after a crash. Such a record may go only when the engines of *all* its cores hold it.
//!
//! By design: no file, clock or thread is touched here; actions are carried out by its owner.
//! Not here: reading a record back (`recovery.rs`).

use crate::mailbox::{Letter, Waiter};
use crate::record;
use base_types::{ClusterId, LogIndex, Term, Tick};
use bytes::{Bytes, BytesMut};
use core_log::{BatchNumber, Log, LogAction, LogConfig, LogDisk, LogEntry, LogError, RecoveryReport, SegmentId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The one group of a core's log.
pub const GROUP: ClusterId = ClusterId(1);
/// There is no Raft here: one term for ever.
pub const TERM: Term = Term(1);
/// An entry is closed at this size.
const ENTRY_BYTES: usize = 128 << 10;
/// Segments beyond those that hold what the engine does not: what has been given to it and not yet cut.
const SEGMENTS_BEYOND: usize = 8;

/// What the log holds up to an index is in the engine; and of other cores' keys, up to these numbers.
struct Mark {
    index: LogIndex,
    others: BTreeMap<u16, u64>,
}

/// See the file's head.
pub struct Journal {
    log: Log,
    entry: BytesMut,
    waiting: VecDeque<(BatchNumber, Arc<Waiter>)>,
    /// Waiters of the entry being filled.
    entry_waiters: Vec<Arc<Waiter>>,
    /// Of the records since the last mark: the last number with keys of another core.
    others: BTreeMap<u16, u64>,
    marks: VecDeque<Mark>,
}

/// How a core's log is configured.
pub fn config(segment_bytes: u64, memory_bytes: u64) -> LogConfig {
    let segments = (2 * memory_bytes / segment_bytes) as usize;
    LogConfig { segment_bytes, segments_soft_max: segments + SEGMENTS_BEYOND, ..LogConfig::default() }
}

impl Journal {
    /// Reads the log back; nothing is written.
    pub fn recover(
        disk: &mut dyn LogDisk,
        config: LogConfig,
        identity: u64,
    ) -> Result<(Journal, RecoveryReport), LogError> {
        let (log, report) = Log::recover(disk, config, identity)?;
        let journal = Journal {
            log,
            entry: BytesMut::new(),
            waiting: VecDeque::new(),
            entry_waiters: Vec::new(),
            others: BTreeMap::new(),
            marks: VecDeque::new(),
        };
        Ok((journal, report))
    }

    /// Every entry that is held and whole.
    pub fn entries(&self) -> impl Iterator<Item = Bytes> + '_ {
        let (first, last) = (self.log.first_index(GROUP).0, self.log.last_index(GROUP).0);
        (first..=last).filter_map(|index| Some(self.log.entry(GROUP, LogIndex(index))?.data))
    }

    /// Whether anything was ever cut from it: then the engine holds something.
    pub fn was_cut(&self) -> bool {
        self.log.first_index(GROUP) > LogIndex(1)
    }

    /// Takes a letter.
    pub fn record(&mut self, letter: Letter) {
        if !letter.body.is_empty() {
            if self.entry.len() + record::record_bytes(&letter.body) > ENTRY_BYTES && !self.entry.is_empty() {
                self.cut();
            }
            record::push(&mut self.entry, letter.number, &letter.body);
            for core in letter.others {
                let last = self.others.entry(core).or_default();
                *last = letter.number.max(*last);
            }
        }
        self.entry_waiters.extend(letter.waiter);
    }

    /// Whether anything recorded is not handed out yet.
    pub fn has_unwritten(&self) -> bool {
        !self.entry.is_empty() || self.log.has_staged()
    }

    /// Bytes recorded and not handed out.
    pub fn unwritten_bytes(&self) -> u64 {
        self.entry.len() as u64 + self.log.staged_bytes()
    }

    /// Whether somebody waits.
    pub fn has_waiters(&self) -> bool {
        !self.entry_waiters.is_empty() || !self.waiting.is_empty()
    }

    /// Closes the entry being filled.
    fn cut(&mut self) {
        if !self.entry.is_empty() {
            let data = self.entry.split().freeze();
            let index = LogIndex(self.log.last_index(GROUP).0 + 1);
            self.log.append(GROUP, &[LogEntry { term: TERM, index, kind: 0, data, context: Bytes::new() }]);
        }
        let number = self.log.staged();
        self.waiting.extend(self.entry_waiters.drain(..).map(|waiter| (number, waiter)));
    }

    /// What is to be done now, in this order.
    pub fn poll(&mut self, now: Tick) -> Vec<LogAction> {
        self.cut();
        let actions = self.log.poll(now);
        self.answer();
        actions
    }

    /// When `poll` wants to be called although nothing is recorded.
    pub fn next_wake(&self) -> Tick {
        self.log.next_wake()
    }

    /// The batch is durable.
    pub fn on_written(&mut self, batch: BatchNumber) {
        self.log.on_written(batch);
        self.answer();
    }

    fn answer(&mut self) {
        let synced = self.log.synced();
        while self.waiting.front().is_some_and(|(number, _)| *number <= synced) {
            let Some((_, waiter)) = self.waiting.pop_front() else { return };
            waiter.done();
        }
    }

    /// A segment is ready, or there was no room for it.
    pub fn on_segment(&mut self, segment: SegmentId, ready: bool) {
        match ready {
            true => self.log.on_segment_ready(segment),
            false => self.log.on_segment_failed(segment),
        }
    }

    /// Nothing is written any more; those who wait learn it.
    pub fn on_failed(&mut self) {
        self.log.on_failed();
        let waiting = self.waiting.drain(..).map(|(_, waiter)| waiter);
        waiting.chain(self.entry_waiters.drain(..)).for_each(|waiter| waiter.fail());
    }

    /// All that is recorded so far is about to be given to the engine: `trim` may cut it, once for each mark.
    pub fn mark(&mut self) -> LogIndex {
        self.cut();
        let index = self.log.last_index(GROUP);
        self.marks.push_back(Mark { index, others: std::mem::take(&mut self.others) });
        index
    }

    /// The engine holds everything up to `index`. What `durable` (the number up to which each core's engine
    /// holds its own) allows is cut; whether anything is kept for another core's sake.
    pub fn trim(&mut self, index: LogIndex, durable: impl Fn(u16) -> u64) -> bool {
        while let Some(mark) = self.marks.front().filter(|mark| mark.index <= index) {
            if mark.others.iter().any(|(core, number)| durable(*core) < *number) {
                return true;
            }
            self.log.compact(GROUP, mark.index, TERM);
            self.marks.pop_front();
        }
        false
    }

    /// The engines hold everything (at the start).
    pub fn trim_all(&mut self) {
        self.log.compact(GROUP, self.log.last_index(GROUP), TERM);
    }

    /// Segments there are, in use and spare.
    pub fn segments(&self) -> u64 {
        let statistics = self.log.statistics();
        statistics.segments_in_use + statistics.segments_spare
    }
}

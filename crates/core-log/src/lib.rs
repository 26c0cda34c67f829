//! One log for all clusters of a lane: staging, batches, recycled segments, recovery.
//!
//!   append, put_state, compact, forget ─▶ staged ─poll─▶ Write ─▶ on_written ─▶ synced
//!                                           ▲ live tails of the oldest segment (`tails.rs`)
//!
//! Always: one write is out at a time and everything staged meanwhile leaves with the next; durable
//! bytes are never overwritten; what is held in memory is what a replay of the segments yields.
//! Live entries and states are held in memory: only `recover` reads.
//! Not here: files and syncs (the host carries out [`LogAction`]s), Raft.
//! Why one log: docs/decisions/0003. Every byte: docs/formats/log.md.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod batch;
mod cluster;
mod format;
mod fuzz;
mod invariants;
mod ledger;
mod recovery;
mod replay;
mod salvage;
mod segments;
mod staging;
mod tails;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use format::FORMAT_VERSION;
pub use fuzz::{fuzz_record, fuzz_recover, FUZZ_IDENTITY};

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, LogIndex, Term, Tick};
use batch::BatchWriter;
use bytes::{Bytes, BytesMut};
use cluster::ClusterLog;
use core::time::Duration;
use format::{align_up, BatchHeader, BATCH_HEADER_BYTES, FLAG_FIRST_LIFE, FLAG_SEAL};
use ledger::Ledger;
use tails::Tails;

/// Writes are multiples of this, at multiples of this.
pub const BLOCK_BYTES: usize = 4096;
/// The smallest segment that makes sense.
pub const SEGMENT_BYTES_MIN: u64 = 8 * BLOCK_BYTES as u64;
/// The largest segment; recovery reads one whole.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// The part of a segment that the records of a batch of several, or one state, may take.
const BATCH_PART_OF_SEGMENT: u64 = 8;

/// One Raft entry as the log keeps it. `kind` and `context` are the Raft library's (normal, conf change).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    pub term: Term,
    pub index: LogIndex,
    pub kind: u8,
    pub data: Bytes,
    pub context: Bytes,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct BatchNumber(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct SegmentId(pub u64);

/// Bounds and sizes; a constant unless a test or the simulator shrinks it.
#[derive(Clone, Debug)]
pub struct LogConfig {
    pub segment_bytes: u64,
    /// Segments kept ready, prewritten (at least one).
    pub spare_segments: usize,
    /// A batch is closed at this size (or an eighth of a segment); the rest waits for the next.
    pub batch_bytes_max: usize,
    /// Above this many segments in use, live tails are moved and `wants_compaction` names the laggards.
    pub segments_soft_max: usize,
    /// When nothing was written for this long, a seal batch is written (it distinguishes rot of the last batch from a
    /// torn tail).
    pub seal_after: Duration,
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig {
            segment_bytes: 64 << 20,
            spare_segments: 1,
            batch_bytes_max: 1 << 20,
            segments_soft_max: 16,
            seal_after: Duration::from_millis(200),
        }
    }
}

/// What the host must do for the log, in the order given. `write` must be durable before `on_written` is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogAction {
    /// Write `blocks` (a multiple of BLOCK_BYTES) at `offset` (a multiple of BLOCK_BYTES), synced. One at a time per log.
    Write { batch: BatchNumber, segment: SegmentId, offset: u64, blocks: Bytes },
    /// Make a segment file of the configured size ready (prewritten or recycled under a new name), then call
    /// `on_segment_ready`, or `on_segment_failed` where there is no room. The file must appear under its name whole and
    /// durably (rename, then sync of the directory). A recycled file may hold anything. A new one holds zeros: they
    /// distinguish a torn batch from a rotted one.
    Prepare { segment: SegmentId, recycle: Option<SegmentId> },
    /// A file no longer wanted. One that is not there is no failure.
    Remove { segment: SegmentId },
}

/// How recovery reads; synchronous, at start only.
pub trait LogDisk {
    /// Every segment file with its size. What they hold must be durable: a host that may find writes of
    /// an earlier process still in flight syncs the files first.
    fn segments(&mut self) -> Result<Vec<(SegmentId, u64)>, LogError>;
    /// Exactly these bytes. An error for unreadable sectors is taken as rot of the blocks it hits.
    fn read(&mut self, segment: SegmentId, offset: u64, bytes: usize) -> Result<Bytes, LogError>;
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LogError {
    #[error("log input or output failed: {0}")]
    Io(String),
    #[error("{0}")]
    WrongFormat(String),
    #[error("disk full: {0}")]
    Full(String),
}

/// A hole: an entry (or state) of a cluster that rotted. The term is known where its header survived or its neighbours agree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    Entry {
        cluster: ClusterId,
        index: LogIndex,
        term: Option<Term>,
    },
    /// Hard state (or other state record) rotted in every copy: the replica must be rebuilt.
    State {
        cluster: ClusterId,
        kind: u8,
    },
    /// Rot whose owner cannot be told: every cluster that may have had records there.
    Unknown {
        clusters: Vec<ClusterId>,
    },
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    pub batches: u64,
    pub torn_tail: bool,
    /// What was cut off as torn: records, and the bytes of their batch.
    pub cut_records: u64,
    pub cut_bytes: u64,
    pub damage: Vec<Damage>,
    /// One line a finding, for people.
    pub notes: Vec<String>,
}

/// Counters (they only grow) and gauges, for metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogStatistics {
    pub batches: u64,
    pub bytes_written: u64,
    pub bytes_moved: u64,
    pub segments_in_use: u64,
    pub segments_spare: u64,
    pub staged_bytes: u64,
    /// Bytes of records that still count, staged ones included.
    pub live_bytes: u64,
}

/// The write that is out.
struct Writing {
    number: u64,
    log_start: u64,
    blocks: Bytes,
}

/// See the head of this file.
pub struct Log {
    config: LogConfig,
    identity: u64,
    /// Boxed: the map's nodes are half empty.
    clusters: BTreeMap<ClusterId, Box<ClusterLog>>,
    /// States that are written with the next batch that is written anyway: one at most for each cluster and kind.
    hints: BTreeMap<(ClusterId, u8), Bytes>,
    ledger: Ledger,
    tails: Tails,
    writing: Option<Writing>,
    synced: u64,
    /// The checksum of the last batch handed out; the next names it.
    chain: u64,
    /// The directory of the last batch handed out; the next repeats it.
    directory: Vec<u8>,
    old_directory: Vec<u8>,
    buffer: BytesMut,
    /// Whether the last batch holds nothing that could rot.
    sealed: bool,
    idle_since: Option<Tick>,
    starved: bool,
    failed: bool,
    statistics: LogStatistics,
}

impl Log {
    /// Reads the log back. `identity` (a hash of world, disk and lane) is covered by every checksum: a
    /// segment of another log is refused. Records that had rotted in one copy are staged again: write
    /// them out by the first `poll`.
    pub fn recover(
        disk: &mut dyn LogDisk,
        config: LogConfig,
        identity: u64,
    ) -> Result<(Log, RecoveryReport), LogError> {
        recovery::recover(disk, config, identity)
    }

    /// Stages entries; an entry at an index already there truncates everything from it on.
    pub fn append(&mut self, cluster: ClusterId, entries: &[LogEntry]) {
        let Some(first) = entries.first() else { return };
        let log = self.clusters.entry(cluster).or_default();
        let shrinks = first.index <= log.last();
        for entry in entries {
            log.append(cluster, entry, &mut self.ledger);
        }
        if shrinks {
            self.tails.on_shrunk(cluster);
        }
    }

    /// Stages a small record of which the latest per (cluster, kind) counts: hard state, replica specification…
    pub fn put_state(&mut self, cluster: ClusterId, kind: u8, bytes: Bytes) {
        self.hints.remove(&(cluster, kind));
        self.clusters.entry(cluster).or_default().put_state(cluster, kind, bytes, &mut self.ledger);
    }

    /// The same of a state that need not be durable, but should be soon: it goes with the next batch, and makes none.
    pub fn hint_state(&mut self, cluster: ClusterId, kind: u8, bytes: Bytes) {
        self.hints.insert((cluster, kind), bytes);
    }

    /// Stages hints as far as the batch has room.
    fn stage_hints(&mut self) {
        while self.ledger.staging.bytes() < self.config.batch_bytes_max as u64 {
            let Some(((cluster, kind), bytes)) = self.hints.pop_first() else { return };
            // A hint makes no log of a cluster that has none (any more).
            if self.clusters.contains_key(&cluster) {
                self.put_state(cluster, kind, bytes);
            }
        }
    }

    /// The entries up to `index` (with this term) are no longer needed: an engine holds them, or a snapshot replaced them.
    /// May lie beyond the last entry (snapshot): the log of the cluster is then empty and continues after `index`.
    pub fn compact(&mut self, cluster: ClusterId, index: LogIndex, term: Term) {
        if index <= self.compacted_index(cluster) {
            return;
        }
        self.clusters.entry(cluster).or_default().compact(cluster, index, term, &mut self.ledger);
        self.tails.on_shrunk(cluster);
    }

    /// Nothing will be written to the cluster for a while.
    pub fn rest(&mut self, cluster: ClusterId) {
        self.clusters.get_mut(&cluster).into_iter().for_each(|log| log.rest());
    }

    /// The cluster's replica is gone: nothing of it is kept.
    pub fn forget(&mut self, cluster: ClusterId) {
        while let Some(hint) = self.hints.range((cluster, 0)..=(cluster, u8::MAX)).next().map(|(hint, _)| *hint) {
            self.hints.remove(&hint);
        }
        if let Some(log) = self.clusters.remove(&cluster) {
            log.forget(cluster, &mut self.ledger);
            self.tails.on_shrunk(cluster);
        }
    }

    /// The largest entry (data and context) that `append` takes; more is a bug and panics.
    pub fn entry_bytes_max(&self) -> usize {
        self.ledger.record_bytes_max - format::record_bytes(0)
    }

    /// The largest state that `put_state` takes; more is a bug and panics.
    pub fn state_bytes_max(&self) -> usize {
        self.ledger.state_bytes_max - format::record_bytes(0)
    }

    /// The number under which everything staged now becomes durable (strictly: durable once `synced() >= it`).
    pub fn staged(&self) -> BatchNumber {
        BatchNumber(self.ledger.staging.last())
    }

    /// The last durable batch.
    pub fn synced(&self) -> BatchNumber {
        BatchNumber(self.synced)
    }

    /// Whether anything is staged and not yet handed out.
    pub fn has_staged(&self) -> bool {
        !self.ledger.staging.is_empty()
    }

    /// Bytes staged and not yet handed out: the measure for pushing back while the log is slow or starved.
    pub fn staged_bytes(&self) -> u64 {
        self.ledger.staging.bytes()
    }

    /// Whether a write waits because no segment is ready (a `Prepare` is slow, or failed: the disk is full).
    pub fn is_starved(&self) -> bool {
        self.starved
    }

    /// What the host should do now; at most one `Write` is out at a time. Call at the end of each turn and after each completion.
    pub fn poll(&mut self, now: Tick) -> Vec<LogAction> {
        let mut actions = Vec::new();
        if self.failed {
            return actions;
        }
        let idle_since = *self.idle_since.get_or_insert(now);
        if self.writing.is_none() {
            if self.ledger.staging.bytes() < self.config.batch_bytes_max as u64 {
                self.tails.step(&mut self.clusters, &mut self.ledger);
            }
            let seal = !self.has_staged() && !self.sealed && now >= idle_since + self.config.seal_after;
            if self.has_staged() {
                self.stage_hints();
            }
            if self.has_staged() || seal {
                actions.extend(self.write(now));
            }
        }
        self.ledger.segments.plan(now, &mut actions);
        actions
    }

    /// When `poll` wants to be called again at the latest (seal, a second try for a segment).
    pub fn next_wake(&self) -> Tick {
        if self.failed {
            return Tick::NEVER;
        }
        let retry = self.ledger.segments.retry_at();
        if self.writing.is_some() || self.starved {
            return retry;
        }
        if self.has_staged() {
            return Tick(0);
        }
        match self.idle_since {
            _ if self.sealed => retry,
            None => Tick(0),
            Some(since) => retry.min(since + self.config.seal_after),
        }
    }

    /// The batch is durable.
    pub fn on_written(&mut self, batch: BatchNumber) {
        if self.failed {
            return;
        }
        let Some(writing) = self.writing.take() else { panic!("batch {} was never handed out", batch.0) };
        assert_eq!(writing.number, batch.0, "another batch was handed out");
        self.synced = writing.number;
        if let Ok(buffer) = writing.blocks.try_into_mut() {
            self.buffer = buffer;
        }
        self.ledger.segments.retire_before(writing.log_start);
    }

    /// A `Prepare` is done.
    pub fn on_segment_ready(&mut self, segment: SegmentId) {
        self.ledger.segments.on_ready(segment.0);
    }

    /// A `Prepare` found no room (or failed harmlessly otherwise); it is tried again a second later.
    pub fn on_segment_failed(&mut self, segment: SegmentId) {
        self.ledger.segments.on_prepare_failed(segment.0);
    }

    /// Whether the last `Prepare` failed and none has succeeded since: the log will starve.
    pub fn prepare_failed(&self) -> bool {
        self.ledger.segments.prepare_failed()
    }

    /// A write failed. The log is latched: nothing is ever acknowledged again until the process restarts and recovers.
    pub fn on_failed(&mut self) {
        if planted(Mutant::FailedSyncRetried) {
            if let Some(number) = self.writing.as_ref().map(|writing| writing.number) {
                self.on_written(BatchNumber(number));
            }
            return;
        }
        self.failed = true;
    }

    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Hands out the next batch: what is staged, or a seal where nothing is.
    fn write(&mut self, now: Tick) -> Option<LogAction> {
        let plan = self.ledger.staging.next_plan();
        let records_bytes = plan.map_or(0, |plan| plan.bytes);
        let bytes = align_up(BATCH_HEADER_BYTES + records_bytes + self.directory.len(), BLOCK_BYTES);
        let number = self.ledger.staging.next_number();
        let place = self.ledger.segments.place(bytes as u64, number, self.ledger.staging.front());
        self.starved = place.is_none();
        let (segment, offset) = place?;
        let first_life = self.ledger.segments.is_first_life();
        if plan.is_none() {
            self.ledger.staging.skip_number();
        }
        let end = self.ledger.staging.front() + plan.map_or(0, |plan| plan.records as u64);
        let (log_start, log_start_number) = self.ledger.segments.log_start(end);
        let header = BatchHeader {
            version: FORMAT_VERSION,
            flags: if plan.is_none() { FLAG_SEAL } else { 0 } | if first_life { FLAG_FIRST_LIFE } else { 0 },
            identity: self.identity,
            segment,
            offset,
            number,
            previous: self.chain,
            log_start,
            log_start_number,
            ..BatchHeader::default()
        };
        let blocks = self.fill_blocks(header, bytes);
        assert_eq!(blocks.len(), bytes, "a batch has the size it was planned with");
        let credit_max = self.config.segment_bytes * self.config.segments_soft_max as u64;
        self.tails.on_batch(bytes as u64, records_bytes as u64, credit_max);
        self.sealed = plan.is_none();
        self.idle_since = Some(now);
        self.statistics.batches += 1;
        self.statistics.bytes_written += bytes as u64;
        self.writing = Some(Writing { number, log_start, blocks: blocks.clone() });
        Some(LogAction::Write { batch: BatchNumber(number), segment: SegmentId(segment), offset, blocks })
    }

    /// Takes the staged records of the next batch into blocks.
    fn fill_blocks(&mut self, header: BatchHeader, bytes: usize) -> Bytes {
        let buffer = core::mem::take(&mut self.buffer);
        let mut writer = BatchWriter::new(buffer, core::mem::take(&mut self.old_directory), header, bytes);
        let Ledger { staging, segments, .. } = &mut self.ledger;
        let segment = segments.advance(bytes as u64);
        let mut previous = None;
        staging.take_plan(|staged| {
            if staged.dead_at == 0 {
                segment.live += 1;
                if previous != Some(staged.record.cluster) {
                    segment.clusters.insert(staged.record.cluster);
                    previous = Some(staged.record.cluster);
                }
            } else {
                segment.last_kill = segment.last_kill.max(staged.dead_at);
            }
            writer.push(&staged.record);
        });
        let (blocks, checksum, directory) = writer.finish(&self.directory);
        self.chain = checksum;
        self.old_directory = core::mem::replace(&mut self.directory, directory);
        blocks
    }

    /// Clusters known to the log, in order.
    pub fn clusters(&self) -> Vec<ClusterId> {
        self.clusters.keys().copied().collect()
    }

    pub fn state(&self, cluster: ClusterId, kind: u8) -> Option<Bytes> {
        self.clusters.get(&cluster)?.state(kind)?.bytes.as_deref().map(Bytes::copy_from_slice)
    }

    /// First index still held (compacted index + 1).
    pub fn first_index(&self, cluster: ClusterId) -> LogIndex {
        LogIndex(self.compacted_index(cluster).0 + 1)
    }

    fn compacted_index(&self, cluster: ClusterId) -> LogIndex {
        self.clusters.get(&cluster).map_or(LogIndex(0), |log| log.compacted)
    }

    /// Last index held (compacted index where there is none).
    pub fn last_index(&self, cluster: ClusterId) -> LogIndex {
        self.clusters.get(&cluster).map_or(LogIndex(0), |log| log.last())
    }

    /// Term of an entry held, or of the compacted index itself; `None` outside or in a hole.
    pub fn term(&self, cluster: ClusterId, index: LogIndex) -> Option<Term> {
        match self.clusters.get(&cluster) {
            Some(log) => log.term(index),
            None => (index == LogIndex(0)).then_some(Term(0)),
        }
    }

    /// Entries `[low, high)`, ended early at `bytes_max` (at least one). `None` if any of them is compacted or a hole.
    pub fn entries(&self, cluster: ClusterId, low: LogIndex, high: LogIndex, bytes_max: u64) -> Option<Vec<LogEntry>> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        if low >= high {
            return Some(entries);
        }
        let log = self.clusters.get(&cluster)?;
        for index in low.0..high.0 {
            let entry = log.entry(LogIndex(index))?;
            bytes += (entry.data.len() + entry.context.len()) as u64;
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Some(entries)
    }

    /// One entry, if it is whole.
    pub fn entry(&self, cluster: ClusterId, index: LogIndex) -> Option<LogEntry> {
        self.clusters.get(&cluster)?.entry(index)
    }

    /// Holes left by rot, ascending.
    pub fn holes(&self, cluster: ClusterId) -> Vec<(LogIndex, Option<Term>)> {
        let Some(log) = self.clusters.get(&cluster) else { return Vec::new() };
        let first = log.compacted.0 + 1;
        let holes = log.slots.iter().enumerate().filter(|(_, slot)| !slot.whole);
        holes.map(|(at, slot)| (LogIndex(first + at as u64), slot.term)).collect()
    }

    /// Mends a hole with an entry obtained from a peer; refused (false) if the index is no hole or the known term differs.
    pub fn fill(&mut self, cluster: ClusterId, entry: LogEntry) -> bool {
        let Some(log) = self.clusters.get_mut(&cluster) else { return false };
        match log.slot(entry.index) {
            Some(hole) if !hole.whole && hole.term.is_none_or(|term| term == entry.term) => {
                log.replace(cluster, &entry, &mut self.ledger);
                true
            }
            _ => false,
        }
    }

    /// Bytes of entries held in memory for the cluster.
    pub fn bytes(&self, cluster: ClusterId) -> u64 {
        self.clusters.get(&cluster).map_or(0, |log| log.bytes)
    }

    /// Clusters whose entries keep old segments from being recycled although the soft bound is passed: flush and compact these first.
    pub fn wants_compaction(&self) -> Vec<ClusterId> {
        if self.ledger.segments.is_over() {
            self.tails.laggards.iter().copied().collect()
        } else {
            Vec::new()
        }
    }

    /// Segments in use and spare, for metrics.
    pub fn segments_in_use(&self) -> usize {
        self.ledger.segments.in_use()
    }

    pub fn statistics(&self) -> LogStatistics {
        LogStatistics {
            bytes_moved: self.tails.moved_bytes,
            segments_in_use: self.ledger.segments.in_use() as u64,
            segments_spare: self.ledger.segments.spares_ready() as u64,
            staged_bytes: self.staged_bytes(),
            live_bytes: self.ledger.live_bytes,
            ..self.statistics
        }
    }
}

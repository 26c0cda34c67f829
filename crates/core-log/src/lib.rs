//! One log for all clusters of a lane: staging, batches, recycled segments, recovery.
//!
//! STUB of the interface that `core-cluster` is written against. The builder of this crate keeps
//! these signatures (or tells the others) and replaces the bodies.

use base_types::{ClusterId, LogIndex, Term};
use bytes::Bytes;
use std::time::Duration;

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
    /// Segments kept ready, prewritten.
    pub spare_segments: usize,
    /// A batch is closed at this size; the rest waits for the next.
    pub batch_bytes_max: usize,
    /// Above this many segments in use, live tails are moved and `wants_compaction` names the laggards.
    pub segments_soft_max: usize,
    /// When nothing was written for this long, a seal batch is written (tells rot of the last batch from a torn tail).
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
    /// Make a segment file of the configured size ready (prewritten or recycled under a new name), then call `on_segment_ready`.
    Prepare { segment: SegmentId, recycle: Option<SegmentId> },
    /// A file no longer wanted.
    Remove { segment: SegmentId },
}

pub const BLOCK_BYTES: usize = 4096;

/// How recovery reads; synchronous, at start only.
pub trait LogDisk {
    fn segments(&mut self) -> Result<Vec<(SegmentId, u64)>, LogError>;
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
    Entry { cluster: ClusterId, index: LogIndex, term: Option<Term> },
    /// Hard state (or other state record) rotted in every copy: the replica must be rebuilt.
    State { cluster: ClusterId, kind: u8 },
    /// Rot whose owner cannot be told: every cluster that may have had records there.
    Unknown { clusters: Vec<ClusterId> },
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    pub batches: u64,
    pub torn_tail: bool,
    pub damage: Vec<Damage>,
    /// One line a finding, for people.
    pub notes: Vec<String>,
}

pub struct Log {}

#[allow(unused_variables)]
impl Log {
    /// `world`, `node`, `lane` are the identity that checksums cover: a segment of another is refused.
    pub fn recover(disk: &mut dyn LogDisk, config: LogConfig, identity: u64) -> Result<(Log, RecoveryReport), LogError> { unimplemented!() }

    /// Stages entries; an entry at an index already there truncates everything from it on.
    pub fn append(&mut self, cluster: ClusterId, entries: &[LogEntry]) { unimplemented!() }
    /// Stages a small record of which the latest per (cluster, kind) counts: hard state, replica specification…
    pub fn put_state(&mut self, cluster: ClusterId, kind: u8, bytes: Bytes) { unimplemented!() }
    /// The entries up to `index` (with this term) are no longer needed: an engine holds them, or a snapshot replaced them.
    /// May lie beyond the last entry (snapshot): the log of the cluster is then empty and goes on behind `index`.
    pub fn compact(&mut self, cluster: ClusterId, index: LogIndex, term: Term) { unimplemented!() }
    /// The cluster's replica is gone: nothing of it is kept.
    pub fn forget(&mut self, cluster: ClusterId) { unimplemented!() }

    /// The number under which everything staged now becomes durable (strictly: durable once `synced() >= it`).
    pub fn staged(&self) -> BatchNumber { unimplemented!() }
    /// The last durable batch.
    pub fn synced(&self) -> BatchNumber { unimplemented!() }
    /// Whether anything is staged and not yet handed out.
    pub fn has_staged(&self) -> bool { unimplemented!() }
    /// What the host should do now; at most one `Write` is out at a time. Call at the end of each turn and after each completion.
    pub fn poll(&mut self, now: base_types::Tick) -> Vec<LogAction> { unimplemented!() }
    /// When `poll` wants to be called again at the latest (seal).
    pub fn next_wake(&self) -> base_types::Tick { unimplemented!() }
    pub fn on_written(&mut self, batch: BatchNumber) { unimplemented!() }
    pub fn on_segment_ready(&mut self, segment: SegmentId) { unimplemented!() }
    /// A write failed. The log is latched: nothing is ever acknowledged again until the process restarts and recovers.
    pub fn on_failed(&mut self) { unimplemented!() }
    pub fn failed(&self) -> bool { unimplemented!() }

    /// Clusters known to the log, in order.
    pub fn clusters(&self) -> Vec<ClusterId> { unimplemented!() }
    pub fn state(&self, cluster: ClusterId, kind: u8) -> Option<Bytes> { unimplemented!() }
    /// First index still held (compacted index + 1).
    pub fn first_index(&self, cluster: ClusterId) -> LogIndex { unimplemented!() }
    /// Last index held (compacted index where there is none).
    pub fn last_index(&self, cluster: ClusterId) -> LogIndex { unimplemented!() }
    /// Term of an entry held, or of the compacted index itself; `None` outside or in a hole.
    pub fn term(&self, cluster: ClusterId, index: LogIndex) -> Option<Term> { unimplemented!() }
    /// Entries `[low, high)`, ended early at `bytes_max` (at least one). `None` if any of them is compacted or a hole.
    pub fn entries(&self, cluster: ClusterId, low: LogIndex, high: LogIndex, bytes_max: u64) -> Option<Vec<LogEntry>> { unimplemented!() }
    /// One entry, if it is whole.
    pub fn entry(&self, cluster: ClusterId, index: LogIndex) -> Option<LogEntry> { unimplemented!() }
    /// Holes left by rot, ascending.
    pub fn holes(&self, cluster: ClusterId) -> Vec<(LogIndex, Option<Term>)> { unimplemented!() }
    /// Mends a hole with an entry obtained from a peer; refused (false) if the index is no hole or the known term differs.
    pub fn fill(&mut self, cluster: ClusterId, entry: LogEntry) -> bool { unimplemented!() }
    /// Bytes of entries held in memory for the cluster.
    pub fn bytes(&self, cluster: ClusterId) -> u64 { unimplemented!() }
    /// Clusters whose entries keep old segments from being recycled although the soft bound is passed: flush and compact these first.
    pub fn wants_compaction(&self) -> Vec<ClusterId> { unimplemented!() }
    /// Segments in use and spare, for metrics.
    pub fn segments_in_use(&self) -> usize { unimplemented!() }
}

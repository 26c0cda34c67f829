//! The contract every storage engine keeps, and (module `conformance`) the suite that proves it.
//!
//! An engine holds ordered bytes in *spaces*. Hive's log is the only write-ahead log: an engine is written in large
//! atomic batches that are durable when `write` returns, by a thread beside the core, while the core reads. A batch
//! carries for each space it touches the log index up to which the space is now durable; the log is cut only up to
//! there.
//!
//! Always: `write` is atomic and durable on return; a `snapshot` is one instant across all spaces and
//! blocks no writer; keys within a space are ordered as bytes; reads see the last finished `write`.
//! Not here: overlays (core-cluster), what the bytes mean (core-backends).
#![deny(missing_docs)]

use base_types::{LogIndex, SpaceId};
use bytes::Bytes;
use std::ops::ControlFlow;

pub mod chunk;
#[cfg(feature = "conformance")]
#[allow(clippy::disallowed_methods, reason = "checks readers beside a writer")]
pub mod conformance;
pub mod fences;
#[cfg(feature = "stored")]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "for engines, which open files of their own")]
pub mod stored;
pub mod verify;

pub use chunk::{export, import, Chunk};
pub use verify::{digest, Digest, VerifiedPart};

/// The longest key an engine takes: the longest key of a client and what a backend puts before it.
pub const ENGINE_KEY_BYTES_MAX: usize = base_types::KEY_BYTES_MAX + 32;
/// The longest value an engine takes. Backends bound theirs far lower (`VALUE_BYTES_MAX` and a header).
pub const ENGINE_VALUE_BYTES_MAX: usize = 16 << 20;

/// What an engine cannot do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// No room: the disk or the configured map is full; nothing of the batch was written.
    #[error("engine is full: {0}")]
    Full(String),
    /// What was read is not what was written.
    #[error("engine is corrupt: {0}")]
    Corrupt(String),
    /// The operating system refused.
    #[error("engine input or output failed: {0}")]
    Io(String),
    /// The directory belongs to another engine, or to a newer format.
    #[error("{0}")]
    WrongFormat(String),
    /// A snapshot was held longer than the engine allows.
    #[error("engine snapshot has expired; take a new one")]
    SnapshotExpired,
}

/// A half-open range of keys in one space: from `start` (inclusive) to `end` (exclusive, `None`: the space's end).
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'a> {
    /// The first key.
    pub start: &'a [u8],
    /// The first key behind the range.
    pub end: Option<&'a [u8]>,
}

impl<'a> KeyRange<'a> {
    /// The whole space.
    pub const ALL: KeyRange<'static> = KeyRange { start: &[], end: None };
}

/// Which way a range is walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Backward,
}

/// What `visit` of a range returns: continue or stop.
pub type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// What `visit` of a walk gets: a key, and its value or (`None`) that the pair is damaged.
pub type WalkVisit<'v> = &'v mut dyn FnMut(&[u8], Option<&[u8]>) -> ControlFlow<()>;

/// Reads. Both the engine and a snapshot of it offer them.
pub trait EngineRead {
    /// The value of a key.
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError>;

    /// Visits the range's pairs in order until `visit` breaks.
    fn range(
        &self,
        space: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), EngineError>;

    /// Visits the range's pairs in ascending order, damaged ones too where the engine can tell them apart by
    /// their keys: `range` fails there. An error: damage that cannot be told apart.
    fn walk(&self, space: SpaceId, range: KeyRange<'_>, visit: WalkVisit<'_>) -> Result<(), EngineError> {
        self.range(space, range, Direction::Forward, &mut |key, value| visit(key, Some(value)))
    }

    /// The index up to which the space is durable; zero for a space never written.
    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError>;
}

/// One atomic, durable change over any number of spaces. Later operations on a key win.
#[derive(Clone, Default, Debug)]
pub struct WriteBatch {
    /// The operations in order.
    pub operations: Vec<BatchOperation>,
}

/// One step of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchOperation {
    /// Sets a key.
    Put {
        /// In this space.
        space: SpaceId,
        /// The key.
        key: Bytes,
        /// Its value.
        value: Bytes,
    },
    /// Removes a key; no error if it is not there.
    Delete {
        /// In this space.
        space: SpaceId,
        /// The key.
        key: Bytes,
    },
    /// States that the space now holds everything up to this log index.
    Durable {
        /// The space.
        space: SpaceId,
        /// The index.
        index: LogIndex,
    },
}

impl WriteBatch {
    /// Refuses a batch no engine takes, before any of it is written. Limits are kept where requests
    /// come in; this is the second look, so that the answer is an error and not a torn batch.
    pub fn check(&self) -> Result<(), EngineError> {
        for operation in &self.operations {
            let (key, value_bytes) = match operation {
                BatchOperation::Put { key, value, .. } => (key, value.len()),
                BatchOperation::Delete { key, .. } => (key, 0),
                BatchOperation::Durable { .. } => continue,
            };
            if key.len() > ENGINE_KEY_BYTES_MAX {
                let length = key.len();
                return Err(EngineError::Io(format!(
                    "a key of {length} bytes is longer than the {ENGINE_KEY_BYTES_MAX} an engine takes; refuse it before the log"
                )));
            }
            if value_bytes > ENGINE_VALUE_BYTES_MAX {
                return Err(EngineError::Io(format!(
                    "a value of {value_bytes} bytes is longer than the {ENGINE_VALUE_BYTES_MAX} an engine takes; refuse it before the log"
                )));
            }
        }
        Ok(())
    }
}

/// A storage engine. `Send + Sync`: the core reads while a thread beside it writes; there is one writer.
pub trait Engine: EngineRead + Send + Sync {
    /// The name used in rules, for example `lmdb`.
    fn name(&self) -> &'static str;

    /// Writes a batch; atomic, and durable when it returns `Ok`. After an error nothing of it is there.
    fn write(&self, batch: &WriteBatch) -> Result<(), EngineError>;

    /// A consistent view of all spaces. May expire (`EngineError::SnapshotExpired` from its reads).
    fn snapshot(&self) -> Result<Box<dyn EngineSnapshot>, EngineError>;

    /// Removes up to `limit` pairs of a space, and its durable index with the last of them.
    /// Returns whether anything is left. Background work: called again until nothing is.
    fn drop_space(&self, space: SpaceId, limit: usize) -> Result<bool, EngineError>;

    /// Verifies a bounded part of what it keeps, past its caches where it can, and returns where to continue: `after`
    /// is empty first, then the `next` of the last part. A scrub calls it in the background.
    fn verify(&self, after: &[u8]) -> Result<VerifiedPart, EngineError> {
        verify::verify_by_reading(self, after)
    }

    /// Whether it also reports keys that were lost or that flipped bits turned into others. Where a damaged key is one
    /// that no other member has, nothing but that key is then wrong.
    fn tells_lost_keys(&self) -> bool {
        false
    }

    /// Every space that holds anything.
    fn spaces(&self) -> Result<Vec<SpaceId>, EngineError>;

    /// Size and counters, for metrics.
    fn statistics(&self) -> EngineStatistics;
}

/// A consistent view; it may be sent to the thread that streams it.
pub trait EngineSnapshot: EngineRead + Send {}

/// Size and counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStatistics {
    /// Bytes on disk (in memory for the memory engine).
    pub bytes_used: u64,
    /// Bytes it may grow to; zero where there is no limit but the disk's.
    pub bytes_limit: u64,
    /// Batches written since it was opened.
    pub batches: u64,
    /// Pairs put since it was opened.
    pub puts: u64,
}

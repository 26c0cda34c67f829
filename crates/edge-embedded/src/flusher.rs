//! The thread that gives a core's frozen memory to its engine.
//!
//! A batch over several cores must not be in one engine while the log that holds it whole is not
//! synced: a crash would then show a part of it. So a memory with such batches in it waits for all logs,
//! and any other for its own core's: an engine is never ahead of the log, and a log that is gone is noticed.
//!
//! By design: one memory at a time, each answered once; the engine gets it, and the number up to which it
//! then holds everything, in one atomic write.
//! Not here: when (`owner.rs`).

use crate::core::{Shared, View};
use crate::memory::Memory;
use base_engine::{BatchOperation, Engine, EngineError, WriteBatch};
use base_types::{LogIndex, SpaceId};
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// The one space of a core's engine.
pub const SPACE: SpaceId = SpaceId(1);

/// A memory that the engine is to have, up to this number.
pub struct Flush {
    pub memory: Arc<Memory>,
    pub number: u64,
}

/// What the thread is given.
pub enum Job {
    Flush(Flush),
    /// Nobody looks at it any more (readers that still do keep it). Giving back many small pieces takes long.
    Free(Arc<View>),
}

/// Carries a job out.
pub fn flush(shared: &Shared, core: usize, job: &Flush) -> Result<(), EngineError> {
    // Once the store is stopping its logs are synced, and their threads may be gone.
    let stopping = || shared.stopping.load(Ordering::Acquire);
    let cores = match job.memory.is_mixed() {
        true => &shared.cores[..],
        false => &shared.cores[core..=core],
    };
    // A slow disk is waited for; only a failed one ends it.
    while !stopping() && shared.sync(cores, stopping).is_err() {
        if shared.failure().is_some() {
            return Err(EngineError::Io("what goes into the engine could not be synced to the log first".into()));
        }
    }
    write(shared.cores[core].engine.as_ref(), job.memory.newest(), job.number)
}

/// Writes keys and the number up to which the engine then holds everything.
pub fn write(
    engine: &dyn Engine,
    changes: impl Iterator<Item = crate::memory::Found>,
    number: u64,
) -> Result<(), EngineError> {
    let change = |(key, value)| match value {
        Some(value) => BatchOperation::Put { space: SPACE, key, value },
        None => BatchOperation::Delete { space: SPACE, key },
    };
    let durable = BatchOperation::Durable { space: SPACE, index: LogIndex(number) };
    engine.write(&WriteBatch { operations: changes.map(change).chain([durable]).collect() })
}

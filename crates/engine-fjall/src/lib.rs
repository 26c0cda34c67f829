//! A log-structured engine, values kept apart from keys: `fjall`, of BadgerDB's kind, in Rust without C.
//!
//! Writes go to a journal (synced once a batch) and a table in memory; full tables become sorted files,
//! which threads of its own merge. Values of 1 KiB and more lie in files of values and are not merged
//! along. So writes in random order cost the same however large the data is, and disk is compressed.
//!
//! It opens its own files, so it is proved by the contract, images of torn journals and damaged files,
//! not by the simulator.
//!
//! Always: `write` is synced when it returns; what stands under a key is sealed (`base_engine::stored`);
//! a journal that rotted is refused unless what is lost is its end, so that the state is always one that
//! was (`journal.rs`).
//! Not here: spaces, seals, snapshots' age (`base_engine::stored`). Bytes: docs/formats/engine-stored.md;
//! limits and figures: docs/engines/fjall.md.
#![deny(missing_docs)]
// An engine that opens its own files; the wall these lints build is around core-*.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod failure;
mod journal;
mod store;
#[cfg(test)]
mod tests;

use base_engine::stored::{Directory, RawStore, SnapshotLimits, StoredEngine};
use base_engine::EngineError;
use std::path::Path;
pub use store::FjallStore;

/// The engine.
pub type FjallEngine = StoredEngine<FjallStore>;

/// The name in rules.
pub const NAME: &str = FjallStore::NAME;
/// The directory fjall keeps its files in.
const DATA_DIRECTORY: &str = "data";
/// Everything that may lie in the directory besides what `Directory` keeps there.
const FILES: [&str; 1] = [DATA_DIRECTORY];

/// How an engine is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FjallConfig {
    /// Memory for blocks read.
    pub cache_bytes: u64,
    /// A table in memory of this size is written out. Taken when the directory is made.
    pub memtable_bytes: u64,
    /// Threads that write tables out and merge files.
    pub threads: usize,
    /// When snapshots expire.
    pub snapshots: SnapshotLimits,
    /// Whose data it is (for example world, disk and lane): written when the directory is made and
    /// compared when it is opened. Empty: not compared.
    pub identity: String,
}

impl Default for FjallConfig {
    fn default() -> FjallConfig {
        FjallConfig {
            cache_bytes: 64 << 20,
            memtable_bytes: 32 << 20,
            threads: 1,
            snapshots: SnapshotLimits::default(),
            identity: String::new(),
        }
    }
}

/// Opens a directory, or makes it. A directory of something else, of a newer format or of another
/// identity is refused untouched (`WrongFormat`); a damaged one is `Corrupt`.
pub fn open(directory: impl AsRef<Path>, config: FjallConfig) -> Result<FjallEngine, EngineError> {
    let directory = Directory::take(directory.as_ref(), NAME, &FILES, &config.identity)?;
    let store = FjallStore::open(&directory.path().join(DATA_DIRECTORY), directory.is_made(), &config)?;
    StoredEngine::attach(store, directory, &config.identity, config.snapshots)
}

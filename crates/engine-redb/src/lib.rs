//! A B-tree engine in one file, in Rust without C: `redb`, heir of LMDB and BoltDB.
//!
//! redb is copied on write like LMDB, but reads and writes its file by calls instead of a map: a damaged
//! file is an error and not a bad address, and pages it holds are in a cache of our choosing. A commit is
//! pages, sync, then one byte that turns the head to them, sync; with them goes the list of free pages
//! (`quick_repair`), so that an opening after a crash reads that and not the whole file.
//!
//! It opens its own files, so it is proved by the contract, images of every write it makes cut short
//! or torn, and damaged files, not by the simulator.
//!
//! Always: `write` is synced when it returns; what stands under a key is sealed (`base_engine::stored`).
//! Not here: spaces, seals, snapshots' age (`base_engine::stored`). Bytes: docs/formats/engine-stored.md;
//! limits and figures: docs/engines/redb.md.
#![deny(missing_docs)]
// An engine that opens its own files; the wall these lints build is around core-*.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod disk;
mod failure;
mod store;
#[cfg(test)]
mod tests;

use base_engine::stored::{Directory, RawStore, SnapshotLimits, StoredEngine};
use base_engine::EngineError;
use std::path::Path;
pub use store::RedbStore;

/// The engine.
pub type RedbEngine = StoredEngine<RedbStore>;

/// The name in rules.
pub const NAME: &str = RedbStore::NAME;
/// The data file.
const DATA_FILE: &str = "data.redb";
/// Everything that may lie in the directory besides what `Directory` keeps there.
const FILES: [&str; 1] = [DATA_FILE];

/// How an engine is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedbConfig {
    /// Memory for pages.
    pub cache_bytes: usize,
    /// The most bytes the file may grow to; zero: as many as the disk has.
    pub bytes_max: u64,
    /// When snapshots expire.
    pub snapshots: SnapshotLimits,
    /// Whose data it is (for example world, disk and lane): written when the directory is made and
    /// compared when it is opened. Empty: not compared.
    pub identity: String,
}

impl Default for RedbConfig {
    fn default() -> RedbConfig {
        RedbConfig {
            cache_bytes: 64 << 20,
            bytes_max: 0,
            snapshots: SnapshotLimits::default(),
            identity: String::new(),
        }
    }
}

/// Opens a directory, or makes it. A directory of something else, of a newer format or of another
/// identity is refused untouched (`WrongFormat`); a damaged one is `Corrupt`.
pub fn open(directory: impl AsRef<Path>, config: RedbConfig) -> Result<RedbEngine, EngineError> {
    let directory = Directory::take(directory.as_ref(), NAME, &FILES, &config.identity)?;
    let store = RedbStore::open(directory.path().join(DATA_FILE), directory.is_made(), &config)?;
    StoredEngine::attach(store, directory, &config.identity, config.snapshots)
}

//! SQLite as an engine: one B-tree table in one file that every tool of the trade can read.
//!
//!   core thread   ──get, range──▶ a connection of the pool           ─┐
//!   stream        ──snapshot────▶ one of its own, in a transaction   ─┼─▶ data.sqlite and its WAL
//!   writer thread ──write───────▶ the one that writes and checkpoints ┘
//!
//! A write is appended to the write-ahead log (WAL) and synced once; once enough has gathered, the WAL
//! is copied into the file. The VFS `unix-excl` keeps the index of the WAL in memory and everyone else
//! out of the file while it is open.
//!
//! It opens its own files, so it is proved by the contract, images of torn WALs and checkpoints, and
//! damaged files, not by the simulator.
//!
//! Always: `write` is synced when it returns; what stands under a key is sealed (`base_engine::stored`).
//! Not here: spaces, seals, snapshots' age (`base_engine::stored`). Bytes: docs/formats/engine-stored.md;
//! limits and figures: docs/engines/sqlite.md.
#![deny(missing_docs)]
// An engine that opens its own files; the wall these lints build is around core-*.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod failure;
mod pool;
mod store;
#[cfg(test)]
mod tests;

use base_engine::stored::{Directory, RawStore, SnapshotLimits, StoredEngine};
use base_engine::EngineError;
use std::path::Path;
pub use store::SqliteStore;

/// The engine.
pub type SqliteEngine = StoredEngine<SqliteStore>;

/// The name in rules.
pub const NAME: &str = SqliteStore::NAME;
/// The data file.
const DATA_FILE: &str = "data.sqlite";
/// Its write-ahead log.
const WAL_FILE: &str = "data.sqlite-wal";
/// Everything that may lie in the directory besides what `Directory` keeps there. The last is made by
/// other tools that open the file.
const FILES: [&str; 3] = [DATA_FILE, WAL_FILE, "data.sqlite-shm"];

/// How an engine is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqliteConfig {
    /// Memory for pages of the connection that writes; readers have an eighth of it each.
    pub cache_bytes: u64,
    /// The most bytes the file may grow to, its WAL aside; zero: as many as the disk has.
    pub bytes_max: u64,
    /// The WAL is copied into the file when so many bytes have been written since it was.
    pub checkpoint_bytes: u64,
    /// When snapshots expire. The WAL grows while one is held.
    pub snapshots: SnapshotLimits,
    /// Whose data it is (for example world, disk and lane): written when the directory is made and
    /// compared when it is opened. Empty: not compared.
    pub identity: String,
}

impl Default for SqliteConfig {
    fn default() -> SqliteConfig {
        SqliteConfig {
            cache_bytes: 64 << 20,
            bytes_max: 0,
            checkpoint_bytes: 16 << 20,
            snapshots: SnapshotLimits::default(),
            identity: String::new(),
        }
    }
}

/// Opens a directory, or makes it. A directory of something else, of a newer format or of another
/// identity is refused untouched (`WrongFormat`); a damaged one is `Corrupt`.
pub fn open(directory: impl AsRef<Path>, config: SqliteConfig) -> Result<SqliteEngine, EngineError> {
    let directory = Directory::take(directory.as_ref(), NAME, &FILES, &config.identity)?;
    let store = SqliteStore::open(&directory.path().join(DATA_FILE), directory.is_made(), &config)?;
    StoredEngine::attach(store, directory, &config.identity, config.snapshots)
}

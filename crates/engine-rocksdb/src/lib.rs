//! RocksDB, unmodified, as an engine, with MetaHive: every key's checksum stands beside it.
//!
//!   lib.rs, store.rs   the contract over RocksDB          shim/store.cc
//!   metahive.rs        counters, damage, verifying        shim/{builder,reader,verify,blocks,context}.cc
//!
//! Writes go to a journal (synced once a batch) and a table in memory; full tables become sorted files,
//! which threads of its own merge.
//!
//! It opens its own files, so it is proved by the contract, images of torn journals and damaged files,
//! not by the simulator.
//!
//! Always: `write` is synced when it returns; what stands under a key is sealed (`base_engine::stored`);
//! a journal that rotted leaves a state that was, or is refused; what does not match its checksum is read
//! anew, and then reported and read no more until it is written again.
//! Not here: spaces, seals, snapshots' age (`base_engine::stored`). Bytes: docs/formats/engine-stored.md;
//! limits and figures: docs/engines/rocksdb.md.
#![deny(missing_docs)]
// An engine that opens its own files; the wall these lints build is around core-*.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod failure;
#[allow(missing_docs, reason = "shim/store.h says what each does")]
mod ffi;
mod figures;
mod metahive;
mod store;
#[cfg(test)]
mod tests;

use base_engine::stored::{Directory, RawStore, SnapshotLimits, StoredEngine};
use base_engine::EngineError;
pub use figures::{same_towers, Shape, Work};
pub use metahive::{
    provider, Counters, Damage, Described, Kept, MetadataProvider, SizeAndAge, Verdict, VerifiedFile,
    PAYLOAD_BYTES_MAX, PROVIDERS,
};
use std::path::Path;
use std::sync::Arc;
pub use store::{RocksStore, RocksView};

/// The engine.
pub type RocksEngine = StoredEngine<RocksStore>;

/// The name in rules.
pub const NAME: &str = RocksStore::NAME;
/// The directory RocksDB keeps its files in.
const DATA_DIRECTORY: &str = "data";
/// Everything that may lie in the directory besides what `Directory` keeps there.
const FILES: [&str; 1] = [DATA_DIRECTORY];

/// How an engine is opened.
#[derive(Clone)]
pub struct RocksConfig {
    /// Memory for blocks read.
    pub cache_bytes: u64,
    /// A table in memory of this size is written out.
    pub memtable_bytes: u64,
    /// A table file is cut at about this size.
    pub file_bytes: u64,
    /// Threads that write tables out and merge files.
    pub threads: usize,
    /// Metadata beside every key. Off, it is RocksDB as everybody has it: for comparisons, and to clean
    /// files of metadata (by merging them).
    pub metahive: bool,
    /// What else is kept beside every key, on this node alone.
    pub providers: Vec<Arc<dyn MetadataProvider>>,
    /// Writes are synced before they return, as the contract has it. Off only for figures.
    pub sync: bool,
    /// Tables are read past the system's cache.
    pub direct_reads: bool,
    /// Blocks are laid out as RocksDB does where it is not told how: no look-up by hash. For comparisons.
    pub stock_blocks: bool,
    /// RocksDB's own checksums of blocks. Off only where tests ask what is found without them.
    pub block_checksums: bool,
    /// When snapshots expire.
    pub snapshots: SnapshotLimits,
    /// Whose data it is (for example world, disk and lane): written when the directory is made and
    /// compared when it is opened. Empty: not compared.
    pub identity: String,
}

impl Default for RocksConfig {
    fn default() -> RocksConfig {
        RocksConfig {
            cache_bytes: 64 << 20,
            memtable_bytes: 32 << 20,
            file_bytes: 16 << 20,
            threads: 2,
            metahive: true,
            providers: Vec::new(),
            sync: true,
            direct_reads: false,
            stock_blocks: false,
            block_checksums: true,
            snapshots: SnapshotLimits::default(),
            identity: String::new(),
        }
    }
}

/// Opens a directory, or makes it. A directory of something else, of a newer format or of another
/// identity is refused untouched (`WrongFormat`); a damaged one is `Corrupt`.
pub fn open(directory: impl AsRef<Path>, config: RocksConfig) -> Result<RocksEngine, EngineError> {
    let directory = Directory::take(directory.as_ref(), NAME, &FILES, &config.identity)?;
    let store = RocksStore::open(&directory.path().join(DATA_DIRECTORY), directory.is_made(), &config)?;
    StoredEngine::attach(store, directory, &config.identity, config.snapshots)
}

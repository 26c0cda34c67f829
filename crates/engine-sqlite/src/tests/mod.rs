//! The contract, and what only SQLite has: torn WALs and checkpoints, a bounded file, damaged files.

mod damage;
mod images;
mod limits;

use crate::{SqliteConfig, SqliteEngine};
use base_engine::conformance::{flip_key_in_files, EngineFactory, Random};
use base_engine::{Engine, EngineError, WriteBatch};
use base_types::SpaceId;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

pub const A: SpaceId = SpaceId(1);

/// Engines in numbered directories below one that goes away in the end.
pub struct SqliteFactory {
    root: TempDir,
    next: AtomicU64,
    bytes_max: u64,
    checkpoint_bytes: u64,
}

impl SqliteFactory {
    pub fn new(bytes_max: u64, checkpoint_bytes: u64) -> SqliteFactory {
        let root = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
        SqliteFactory { root, next: AtomicU64::new(0), bytes_max, checkpoint_bytes }
    }

    pub fn new_directory(&self) -> PathBuf {
        self.root.path().join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    pub fn config(&self) -> SqliteConfig {
        SqliteConfig {
            bytes_max: self.bytes_max,
            checkpoint_bytes: self.checkpoint_bytes,
            cache_bytes: 4 << 20,
            identity: "test".into(),
            ..SqliteConfig::default()
        }
    }

    pub fn open_at(&self, directory: &Path) -> SqliteEngine {
        crate::open(directory, self.config()).unwrap()
    }
}

impl EngineFactory for SqliteFactory {
    type Engine = SqliteEngine;

    fn open(&self) -> SqliteEngine {
        self.open_at(&self.new_directory())
    }

    fn reopen(&self, engine: SqliteEngine) -> SqliteEngine {
        let directory = engine.directory().to_path_buf();
        drop(engine);
        self.open_at(&directory)
    }

    fn crash(&self, engine: &SqliteEngine) -> SqliteEngine {
        images::open(self, &images::read(engine.directory())).unwrap()
    }

    fn crash_during(&self, engine: &SqliteEngine, batch: &WriteBatch, seed: u64) -> Vec<SqliteEngine> {
        images::during(self, engine, batch, seed)
    }

    fn flip_key(
        &self,
        engine: SqliteEngine,
        key: &[u8],
        random: &mut Random,
    ) -> Option<Result<SqliteEngine, EngineError>> {
        let directory = engine.directory().to_path_buf();
        drop(engine);
        flip_key_in_files(&directory, key, random).then(|| crate::open(&directory, self.config()))
    }

    fn take_fences_away(&self, engine: &SqliteEngine) -> bool {
        base_engine::conformance::take_fences_of_a_store_away(engine.store());
        true
    }

    fn fail_next_write(&self, _engine: &SqliteEngine) -> bool {
        self.bytes_max != 0
    }
}

mod contract {
    base_engine::conformance_tests!(super::SqliteFactory::new(0, u64::MAX));
}

/// With a checkpoint behind every write.
#[test]
fn histories_match_while_the_wal_is_copied() {
    let factory = SqliteFactory::new(0, 1);
    base_engine::conformance::random_histories_match_the_twin(&factory);
    base_engine::conformance::a_snapshot_is_one_instant(&factory);
    base_engine::conformance::readers_never_see_half_a_batch(&factory);
    base_engine::conformance::dropping_a_space_is_bounded(&factory);
}

#[test]
fn a_batch_beyond_the_bound_leaves_nothing() {
    base_engine::conformance::a_failed_write_leaves_nothing(&SqliteFactory::new(limits::SMALL_BYTES, u64::MAX));
}

#[test]
fn its_name_is_sqlite() {
    assert_eq!(SqliteFactory::new(0, 1).open().name(), crate::NAME);
}

//! The contract, and what only rocksdb has: torn journals, tables written out, damaged files.

mod damage;
mod exceptions;
mod images;
mod limits;
mod metahive;

use crate::{RocksConfig, RocksEngine};
use base_engine::conformance::{flip_key_in_files, EngineFactory, Random};
use base_engine::{Engine, EngineError, WriteBatch};
use base_types::SpaceId;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

pub const A: SpaceId = SpaceId(1);

/// Engines in numbered directories below one that goes away in the end.
pub struct RocksFactory {
    root: TempDir,
    next: AtomicU64,
    memtable_bytes: u64,
    /// Whether the disk has little room left.
    nearly_full: bool,
}

impl RocksFactory {
    pub fn new(memtable_bytes: u64, nearly_full: bool) -> RocksFactory {
        RocksFactory {
            root: tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap(),
            next: AtomicU64::new(0),
            memtable_bytes,
            nearly_full,
        }
    }

    pub fn new_directory(&self) -> PathBuf {
        self.root.path().join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    pub fn config(&self) -> RocksConfig {
        RocksConfig {
            memtable_bytes: self.memtable_bytes,
            cache_bytes: 4 << 20,
            threads: 1,
            identity: "test".into(),
            ..RocksConfig::default()
        }
    }

    pub fn open_at(&self, directory: &Path) -> RocksEngine {
        let mut engine = crate::open(directory, self.config()).unwrap();
        if self.nearly_full {
            engine.set_free_bytes(|_| Ok(base_engine::stored::failure::FREE_BYTES_MIN + (1 << 20)));
        }
        engine
    }
}

impl EngineFactory for RocksFactory {
    type Engine = RocksEngine;

    fn open(&self) -> RocksEngine {
        self.open_at(&self.new_directory())
    }

    fn reopen(&self, engine: RocksEngine) -> RocksEngine {
        let directory = engine.directory().to_path_buf();
        drop(engine);
        self.open_at(&directory)
    }

    fn crash(&self, engine: &RocksEngine) -> RocksEngine {
        images::open(self, &images::of(engine)).unwrap()
    }

    fn crash_during(&self, engine: &RocksEngine, batch: &WriteBatch, seed: u64) -> Vec<RocksEngine> {
        images::during(self, engine, batch, seed)
    }

    fn flip_key(
        &self,
        engine: RocksEngine,
        key: &[u8],
        random: &mut Random,
    ) -> Option<Result<RocksEngine, EngineError>> {
        let directory = engine.directory().to_path_buf();
        drop(engine);
        flip_key_in_files(&directory, key, random).then(|| crate::open(&directory, self.config()))
    }

    fn fail_next_write(&self, _engine: &RocksEngine) -> bool {
        self.nearly_full
    }
}

mod contract {
    base_engine::conformance_tests!(super::RocksFactory::new(32 << 20, false));
}

/// With tables so small that they are written out and merged all the time.
#[test]
fn histories_match_while_tables_are_written_out() {
    let factory = RocksFactory::new(16 << 10, false);
    base_engine::conformance::random_histories_match_the_twin(&factory);
    base_engine::conformance::keys_and_values_of_every_size(&factory);
    base_engine::conformance::a_snapshot_is_one_instant(&factory);
    base_engine::conformance::a_flipped_key_is_never_absence(&factory);
    base_engine::conformance::export_and_import_carry_a_space(&factory);
}

#[test]
fn a_batch_beyond_the_room_leaves_nothing() {
    base_engine::conformance::a_failed_write_leaves_nothing(&RocksFactory::new(32 << 20, true));
}

#[test]
fn its_name_is_rocksdb() {
    assert_eq!(RocksFactory::new(1 << 20, false).open().name(), crate::NAME);
}

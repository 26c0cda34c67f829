//! The contract, and what only fjall has: torn journals, tables written out, damaged files.

mod damage;
mod images;
mod limits;

use crate::{FjallConfig, FjallEngine};
use base_engine::conformance::{flip_key_in_files, EngineFactory, Random};
use base_engine::{Engine, EngineError, WriteBatch};
use base_types::SpaceId;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

pub const A: SpaceId = SpaceId(1);

/// Engines in numbered directories below one that goes away in the end.
pub struct FjallFactory {
    root: TempDir,
    next: AtomicU64,
    memtable_bytes: u64,
    /// Whether the disk has little room left.
    nearly_full: bool,
}

impl FjallFactory {
    pub fn new(memtable_bytes: u64, nearly_full: bool) -> FjallFactory {
        FjallFactory {
            root: tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap(),
            next: AtomicU64::new(0),
            memtable_bytes,
            nearly_full,
        }
    }

    pub fn new_directory(&self) -> PathBuf {
        self.root.path().join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    pub fn config(&self) -> FjallConfig {
        FjallConfig {
            memtable_bytes: self.memtable_bytes,
            cache_bytes: 4 << 20,
            identity: "test".into(),
            ..FjallConfig::default()
        }
    }

    pub fn open_at(&self, directory: &Path) -> FjallEngine {
        let mut engine = crate::open(directory, self.config()).unwrap();
        if self.nearly_full {
            engine.set_free_bytes(|_| Ok(base_engine::stored::failure::FREE_BYTES_MIN + (1 << 20)));
        }
        engine
    }
}

impl EngineFactory for FjallFactory {
    type Engine = FjallEngine;

    fn open(&self) -> FjallEngine {
        self.open_at(&self.new_directory())
    }

    fn reopen(&self, engine: FjallEngine) -> FjallEngine {
        let directory = engine.directory().to_path_buf();
        drop(engine);
        self.open_at(&directory)
    }

    fn crash(&self, engine: &FjallEngine) -> FjallEngine {
        images::open(self, &images::read(engine.directory())).unwrap()
    }

    fn crash_during(&self, engine: &FjallEngine, batch: &WriteBatch, seed: u64) -> Vec<FjallEngine> {
        images::during(self, engine, batch, seed)
    }

    fn flip_key(
        &self,
        engine: FjallEngine,
        key: &[u8],
        random: &mut Random,
    ) -> Option<Result<FjallEngine, EngineError>> {
        let directory = engine.directory().to_path_buf();
        drop(engine);
        flip_key_in_files(&directory, key, random).then(|| crate::open(&directory, self.config()))
    }

    fn fail_next_write(&self, _engine: &FjallEngine) -> bool {
        self.nearly_full
    }
}

mod contract {
    base_engine::conformance_tests!(super::FjallFactory::new(32 << 20, false));
}

/// With tables so small that they are written out and merged all the time.
#[test]
fn histories_match_while_tables_are_written_out() {
    let factory = FjallFactory::new(16 << 10, false);
    base_engine::conformance::random_histories_match_the_twin(&factory);
    base_engine::conformance::keys_and_values_of_every_size(&factory);
    base_engine::conformance::a_snapshot_is_one_instant(&factory);
    base_engine::conformance::a_flipped_key_is_never_absence(&factory);
    base_engine::conformance::export_and_import_carry_a_space(&factory);
}

#[test]
fn a_batch_beyond_the_room_leaves_nothing() {
    base_engine::conformance::a_failed_write_leaves_nothing(&FjallFactory::new(32 << 20, true));
}

#[test]
fn its_name_is_fjall() {
    assert_eq!(FjallFactory::new(1 << 20, false).open().name(), crate::NAME);
}

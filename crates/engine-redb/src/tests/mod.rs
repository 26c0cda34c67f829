//! The contract, and what only redb has: its writes cut short and torn, its disk full, its file damaged.

mod damage;
mod images;
mod limits;

use crate::{RedbConfig, RedbEngine};
use base_engine::conformance::{flip_key_in_files, EngineFactory, Random};
use base_engine::{Engine, EngineError, WriteBatch};
use base_types::SpaceId;
use images::Recorded;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

pub const A: SpaceId = SpaceId(1);

/// Engines in numbered directories below one that goes away in the end.
pub struct RedbFactory {
    root: TempDir,
    next: AtomicU64,
    pub bytes_max: u64,
    recorded: Recorded,
}

impl RedbFactory {
    pub fn new(bytes_max: u64) -> RedbFactory {
        let root = tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap();
        RedbFactory { root, next: AtomicU64::new(0), bytes_max, recorded: Recorded::default() }
    }

    pub fn new_directory(&self) -> PathBuf {
        self.root.path().join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    pub fn config(&self) -> RedbConfig {
        RedbConfig { bytes_max: self.bytes_max, cache_bytes: 4 << 20, identity: "test".into(), ..RedbConfig::default() }
    }

    pub fn open_at(&self, directory: &Path) -> RedbEngine {
        images::open(self, directory).unwrap()
    }
}

impl EngineFactory for RedbFactory {
    type Engine = RedbEngine;

    fn open(&self) -> RedbEngine {
        self.open_at(&self.new_directory())
    }

    fn reopen(&self, engine: RedbEngine) -> RedbEngine {
        let directory = engine.directory().to_path_buf();
        drop(engine);
        self.open_at(&directory)
    }

    fn crash(&self, engine: &RedbEngine) -> RedbEngine {
        images::after(self, engine)
    }

    fn crash_during(&self, engine: &RedbEngine, batch: &WriteBatch, seed: u64) -> Vec<RedbEngine> {
        images::during(self, engine, batch, seed)
    }

    fn flip_key(&self, engine: RedbEngine, key: &[u8], random: &mut Random) -> Option<Result<RedbEngine, EngineError>> {
        let directory = engine.directory().to_path_buf();
        drop(engine);
        flip_key_in_files(&directory, key, random).then(|| images::open(self, &directory))
    }

    fn take_fences_away(&self, engine: &RedbEngine) -> bool {
        base_engine::conformance::take_fences_of_a_store_away(engine.store());
        true
    }

    fn fail_next_write(&self, _engine: &RedbEngine) -> bool {
        self.bytes_max != 0
    }
}

mod contract {
    base_engine::conformance_tests!(super::RedbFactory::new(0));
}

#[test]
fn a_batch_beyond_the_bound_leaves_nothing() {
    base_engine::conformance::a_failed_write_leaves_nothing(&RedbFactory::new(limits::SMALL_BYTES));
}

#[test]
fn its_name_is_redb() {
    assert_eq!(RedbFactory::new(0).open().name(), crate::NAME);
}

//! The contract, and what only LMDB has: files, crash images, limits, expiry.

mod damage;
mod images;
mod limits;

use crate::{LmdbConfig, LmdbEngine};
use base_engine::conformance::{flip_key_in_files, EngineFactory, Random};
use base_engine::{BatchOperation, EngineError, WriteBatch};
use base_types::SpaceId;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// Engines in numbered directories below one that goes away in the end.
pub struct LmdbFactory {
    root: TempDir,
    next: AtomicU64,
    map_bytes_max: u64,
}

impl LmdbFactory {
    pub fn new(map_bytes_max: u64) -> LmdbFactory {
        LmdbFactory { root: tempfile::tempdir().unwrap(), next: AtomicU64::new(0), map_bytes_max }
    }

    pub fn new_directory(&self) -> PathBuf {
        self.root.path().join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    pub fn config(&self) -> LmdbConfig {
        LmdbConfig { map_bytes_max: self.map_bytes_max, identity: "test".into(), ..LmdbConfig::default() }
    }

    pub fn open_at(&self, directory: &Path) -> LmdbEngine {
        LmdbEngine::open(directory, self.config()).unwrap()
    }
}

impl EngineFactory for LmdbFactory {
    type Engine = LmdbEngine;

    fn open(&self) -> LmdbEngine {
        self.open_at(&self.new_directory())
    }

    fn reopen(&self, engine: LmdbEngine) -> LmdbEngine {
        let directory = engine.directory().to_path_buf();
        drop(engine);
        self.open_at(&directory)
    }

    fn crash(&self, engine: &LmdbEngine) -> LmdbEngine {
        let directory = self.new_directory();
        images::write(&directory, &images::read(engine.directory()));
        self.open_at(&directory)
    }

    fn crash_during(&self, engine: &LmdbEngine, batch: &WriteBatch, seed: u64) -> Vec<LmdbEngine> {
        images::during(self, engine, batch, seed)
    }

    fn flip_key(&self, engine: LmdbEngine, key: &[u8], random: &mut Random) -> Option<Result<LmdbEngine, EngineError>> {
        let directory = engine.directory().to_path_buf();
        drop(engine);
        flip_key_in_files(&directory, key, random).then(|| LmdbEngine::open(&directory, self.config()))
    }

    fn take_fences_away(&self, engine: &LmdbEngine) -> bool {
        damage::take_fences_away(engine);
        true
    }

    fn fail_next_write(&self, _engine: &LmdbEngine) -> bool {
        self.map_bytes_max <= limits::SMALL_MAP_BYTES
    }
}

mod contract {
    base_engine::conformance_tests!(super::LmdbFactory::new(1 << 30));
}

const A: SpaceId = SpaceId(1);

fn put(space: SpaceId, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> BatchOperation {
    base_engine::conformance::put(space, key, value)
}

fn batch(operations: impl Into<Vec<BatchOperation>>) -> WriteBatch {
    WriteBatch { operations: operations.into() }
}

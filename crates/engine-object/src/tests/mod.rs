//! The contract, and what only an object store has: power lost between objects, two writers, a store that
//! stalls and fails, places that refuse.

mod attached;
mod faults;
mod images;
mod places;
mod writers;

use crate::{ObjectConfig, ObjectEngine};
use base_engine::conformance::EngineFactory;
use base_engine::{Engine, EngineError, WriteBatch};
use base_objects::object_store::memory::InMemory;
use base_types::SpaceId;
use images::Recorder;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

pub const A: SpaceId = SpaceId(1);

/// Engines over memory, each with a directory below one that goes away in the end.
pub struct ObjectFactory {
    root: TempDir,
    next: AtomicU64,
    memtable_bytes: usize,
    /// Whether the disk has little room left.
    nearly_full: bool,
    stores: Mutex<BTreeMap<PathBuf, Recorder>>,
}

impl ObjectFactory {
    pub fn new(memtable_bytes: usize, nearly_full: bool) -> ObjectFactory {
        ObjectFactory {
            root: tempfile::tempdir_in(base_engine::conformance::scratch()).unwrap(),
            next: AtomicU64::new(0),
            memtable_bytes,
            nearly_full,
            stores: Mutex::default(),
        }
    }

    pub fn new_directory(&self) -> PathBuf {
        self.root.path().join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    pub fn config(&self) -> ObjectConfig {
        ObjectConfig {
            memtable_bytes: self.memtable_bytes,
            cache_bytes: 4 << 20,
            identity: "test".into(),
            merge_every: std::time::Duration::from_millis(20),
            ..ObjectConfig::default()
        }
    }

    pub fn store_of(&self, engine: &ObjectEngine) -> Recorder {
        self.stores.lock().unwrap()[engine.directory()].clone()
    }

    /// Opens what a store holds, on a machine that has never seen it.
    pub fn open_on(&self, store: Recorder) -> Result<ObjectEngine, EngineError> {
        self.open_at(self.new_directory(), store)
    }

    fn open_at(&self, directory: PathBuf, store: Recorder) -> Result<ObjectEngine, EngineError> {
        let mut engine = crate::open_over(&directory, &self.config(), Arc::new(store.clone()))?;
        if self.nearly_full {
            engine.set_free_bytes(|_| Ok(base_engine::stored::failure::FREE_BYTES_MIN + (1 << 20)));
        }
        self.stores.lock().unwrap().insert(directory, store);
        Ok(engine)
    }
}

impl EngineFactory for ObjectFactory {
    type Engine = ObjectEngine;

    fn open(&self) -> ObjectEngine {
        self.open_on(Recorder::new(InMemory::new())).unwrap()
    }

    fn reopen(&self, engine: ObjectEngine) -> ObjectEngine {
        let (directory, store) = (engine.directory().to_path_buf(), self.store_of(&engine));
        drop(engine);
        self.open_at(directory, store).unwrap()
    }

    fn crash(&self, engine: &ObjectEngine) -> ObjectEngine {
        self.open_on(self.store_of(engine).copy()).unwrap()
    }

    fn crash_during(&self, engine: &ObjectEngine, batch: &WriteBatch, _seed: u64) -> Vec<ObjectEngine> {
        let store = self.store_of(engine);
        store.record();
        engine.write(batch).unwrap();
        let mut images = store.recorded();
        images.push(store.copy());
        images.into_iter().map(|image| self.open_on(image).unwrap()).collect()
    }

    fn fail_next_write(&self, _engine: &ObjectEngine) -> bool {
        self.nearly_full
    }
}

mod contract {
    base_engine::conformance_tests!(super::ObjectFactory::new(16 << 20, false));
}

/// With tables so small that they are written out all the time.
#[test]
fn histories_match_while_tables_are_written_out() {
    let factory = ObjectFactory::new(16 << 10, false);
    base_engine::conformance::random_histories_match_the_twin(&factory);
    base_engine::conformance::a_snapshot_is_one_instant(&factory);
    base_engine::conformance::export_and_import_carry_a_space(&factory);
    base_engine::conformance::a_crash_keeps_what_was_acknowledged(&factory);
}

#[test]
fn a_batch_beyond_the_room_leaves_nothing() {
    base_engine::conformance::a_failed_write_leaves_nothing(&ObjectFactory::new(16 << 20, true));
}

#[test]
fn its_name_is_object() {
    assert_eq!(ObjectFactory::new(1 << 20, false).open().name(), crate::NAME);
}

//! MetaHive: a model under random histories, flips that are found, files that others read.

mod flips;
mod formats;
mod model;
mod others;

use super::RocksFactory;
use crate::ffi::*;
use crate::{RocksConfig, RocksStore};
use base_engine::stored::RawView;
use base_engine::{Direction, EngineError};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A store without the contract around it: keys and values as they are given.
pub fn open(factory: &RocksFactory, path: &Path, made: bool, change: impl FnOnce(&mut RocksConfig)) -> RocksStore {
    let mut config = factory.config();
    change(&mut config);
    RocksStore::open(path, made, &config).unwrap()
}

pub fn write(store: &RocksStore, changes: &[(Vec<u8>, Option<Vec<u8>>)]) {
    let mut error = HiveError::none();
    // SAFETY: handles are open for the calls, and everything given outlives them.
    unsafe {
        let batch = hive_rocks_batch();
        for (key, value) in changes {
            let key = crate::store::mapped(key);
            match value {
                Some(value) => hive_rocks_batch_put(batch, HiveSlice::of(&key), HiveSlice::of(value)),
                None => hive_rocks_batch_delete(batch, HiveSlice::of(&key)),
            }
        }
        hive_rocks_write(store.database.handle(), batch, &mut error);
        hive_rocks_batch_free(batch);
    }
    error.judge("writing").unwrap();
}

pub fn delete_range(store: &RocksStore, start: &[u8], end: &[u8]) {
    let (start, end) = (crate::store::mapped(start), crate::store::mapped(end));
    let mut error = HiveError::none();
    // SAFETY: the handle is open, and everything given outlives the call.
    unsafe {
        let bounds = (HiveSlice::of(&start), HiveSlice::of(&end));
        hive_rocks_delete_range(store.database.handle(), bounds.0, bounds.1, &mut error);
    }
    error.judge("deleting a range").unwrap();
}

pub fn inject(store: &RocksStore, read_per_million: u32, write_per_million: u32, seed: u64) {
    // SAFETY: the handle is open.
    unsafe { hive_rocks_inject(store.database.handle(), read_per_million, write_per_million, seed) }
}

pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

pub fn everything(view: &impl RawView, direction: Direction) -> Result<Pairs, EngineError> {
    let mut pairs = Vec::new();
    view.range(&[], &[0xff; 8], direction, &mut |key, value| {
        pairs.push((key.to_vec(), value.to_vec()));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(pairs)
}

/// What a view shows, both ways and key by key, is the model.
pub fn same(view: &impl RawView, model: &BTreeMap<Vec<u8>, Vec<u8>>, when: &str) {
    let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert!(everything(view, Direction::Forward).unwrap() == expected, "{when}: forward");
    let mut backward = everything(view, Direction::Backward).unwrap();
    backward.reverse();
    assert!(backward == expected, "{when}: backward");
    for (key, value) in model {
        assert_eq!(view.get(key).unwrap().as_deref(), Some(&value[..]), "{when}");
        let beside = [&key[..], &[1]].concat();
        if !model.contains_key(&beside) {
            assert_eq!(view.get(&beside), Ok(None), "{when}");
        }
    }
}

/// The table files of a database.
pub fn tables(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|name| name == "sst")).collect()
}

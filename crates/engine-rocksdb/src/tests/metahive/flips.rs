//! Flipped bits: those that pass are mended by reading anew, those that stay are found before they are
//! merged, served or sealed anew, and a write of the right value repairs them.

use super::{everything, inject, open, same, tables, write};
use crate::tests::RocksFactory;
use crate::{RocksStore, Verdict};
use base_engine::stored::{RawStore, RawView};
use base_engine::{Direction, EngineError};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const KEYS: usize = 4000;
/// One in a hundred.
const ONE_PER_CENT: u32 = 10_000;

fn pairs(round: usize) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let value = |i: usize| (0..100).map(|at| (at * i + round * 7 + at * at) as u8).collect();
    (0..KEYS).map(|i| (format!("user{:016}", i * 7919 % KEYS).into_bytes(), Some(value(i)))).collect()
}

fn model(pairs: &[(Vec<u8>, Option<Vec<u8>>)]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    pairs.iter().map(|(key, value)| (key.clone(), value.clone().unwrap())).collect()
}

/// A store with everything in tables.
fn filled(factory: &RocksFactory, path: &Path, checksums: bool) -> RocksStore {
    let store = open(factory, path, false, |config| config.block_checksums = checksums);
    write(&store, &pairs(1));
    store.write_out().unwrap();
    store
}

#[test]
fn passing_flips_of_one_per_cent_are_all_found_and_mended() {
    let factory = RocksFactory::new(8 << 20, false);
    let store = filled(&factory, &factory.new_directory(), true);
    inject(&store, ONE_PER_CENT, 0, 42);
    store.compact().unwrap();
    store.verify_files().unwrap();
    inject(&store, 0, 0, 0);
    let counters = store.counters();
    assert!(counters.injected > 40, "{counters:?}");
    // A flip in a metadata entry may be told for what it is without reading anew.
    assert!(counters.repaired + counters.recreated >= counters.injected * 9 / 10, "{counters:?}");
    assert_eq!((counters.damaged, store.damage()), (0, vec![]), "{counters:?}");
    same(&store.newest().unwrap(), &model(&pairs(1)), "mended");
    let before = store.counters().mismatches;
    store.compact().unwrap();
    assert_eq!(store.counters().mismatches, before, "nothing wrong was written");
}

/// A bit flips in memory between a checksum and its table: found at the next merge, kept as it is and
/// refused, through further merges; a new write repairs it.
#[test]
fn flips_that_stay_are_refused_until_written_anew() {
    let factory = RocksFactory::new(8 << 20, false);
    let store = open(&factory, &factory.new_directory(), false, |_| {});
    inject(&store, 0, ONE_PER_CENT, 7);
    write(&store, &pairs(1));
    store.write_out().unwrap();
    inject(&store, 0, 0, 0);
    let injected = store.counters().injected;
    assert!(injected > 20, "{injected}");
    store.compact().unwrap();
    let damage = store.damage();
    assert_eq!(damage.len() as u64, injected, "each is found");
    assert!(damage.iter().all(|one| one.verdict == Verdict::EntryCorrupted), "{damage:?}");
    let expected = model(&pairs(1));
    let view = store.newest().unwrap();
    for (key, value) in &expected {
        match damage.iter().any(|one| one.key == *key) {
            true => {
                assert!(matches!(view.get(key), Err(EngineError::Corrupt(text)) if text.contains("healthy replica")))
            }
            false => assert_eq!(view.get(key).unwrap().as_deref(), Some(&value[..])),
        }
    }
    assert!(matches!(everything(&view, Direction::Forward), Err(EngineError::Corrupt(_))));
    // Merged again: still found, by the very checksum it was first written with.
    store.compact().unwrap();
    assert_eq!(store.damage().len(), damage.len());
    assert!(store.counters().damaged >= 2 * injected, "{:?}", store.counters());
    // Repaired key by key, the others stay refused.
    let (first, rest) = damage.split_first().unwrap();
    write(&store, &[(first.key.clone(), Some(expected[&first.key].clone()))]);
    assert_eq!(view.get(&first.key).unwrap().as_deref(), Some(&expected[&first.key][..]));
    assert!(view.get(&rest[0].key).is_err());
    for one in rest {
        write(&store, &[(one.key.clone(), Some(expected[&one.key].clone()))]);
    }
    same(&view, &expected, "repaired");
    assert_eq!(store.damage(), vec![], "nothing is damaged any more");
    store.compact().unwrap();
    let found = store.counters().mismatches;
    store.compact().unwrap();
    assert_eq!(store.counters().mismatches, found, "the damaged versions are gone");
    same(&view, &expected, "after merging");
}

fn place_of(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// A bit of a value flips on the disk and no block has a checksum: plain RocksDB serves it, MetaHive finds
/// it when the file is verified, and when it is merged.
#[test]
fn a_flip_on_the_disk_is_found_without_block_checksums() {
    let factory = RocksFactory::new(8 << 20, false);
    for merged in [false, true] {
        let path = factory.new_directory();
        // Nothing that LZ4 could refer back to.
        let byte = |key: &str, i: u64| (xxhash_rust::xxh3::xxh3_64_with_seed(key.as_bytes(), i) >> 9) as u8;
        let value = |key: &str| (0..64).map(|i| byte(key, i)).collect::<Vec<u8>>();
        let marked = |key: &str| (key.as_bytes().to_vec(), Some(value(key)));
        let store = open(&factory, &path, false, |config| config.block_checksums = false);
        write(&store, &[marked("a"), marked("b"), marked("c"), marked("d")]);
        store.write_out().unwrap();
        drop(store);
        for table in tables(&path) {
            let mut bytes = fs::read(&table).unwrap();
            if let Some(at) = place_of(&bytes, &marked("b").1.unwrap()) {
                bytes[at] ^= 0x20;
                fs::write(&table, bytes).unwrap();
            }
        }
        let plain = open(&factory, &path, true, |config| (config.block_checksums, config.metahive) = (false, false));
        let served = plain.newest().unwrap().get(b"b").unwrap().unwrap();
        assert_eq!(served[1..], marked("b").1.unwrap()[1..], "plain RocksDB serves it");
        assert_ne!(served[0], marked("b").1.unwrap()[0], "wrong as it is");
        drop(plain);
        let store = open(&factory, &path, true, |config| config.block_checksums = false);
        if merged {
            store.compact().unwrap();
        } else {
            assert_eq!(store.verify_files(), Ok(4));
        }
        let damage = store.damage();
        assert_eq!(damage.iter().map(|one| &one.key[..]).collect::<Vec<_>>(), [b"b"], "{merged}");
        assert!(store.counters().retries >= 3, "it was read anew before");
        assert!(store.newest().unwrap().get(b"b").is_err());
        write(&store, &[marked("b")]);
        assert_eq!(store.newest().unwrap().get(b"b").unwrap().as_deref(), marked("b").1.as_deref());
    }
}

/// A flipped key has no metadata, and its metadata has no key: both are reported.
#[test]
fn a_flipped_key_is_missed_and_met() {
    let factory = RocksFactory::new(8 << 20, false);
    let path = factory.new_directory();
    let store = open(&factory, &path, false, |config| config.block_checksums = false);
    // Unlike, so that each key stands whole in its block.
    let keys = ["first", "second", "third"];
    write(&store, &keys.map(|key| (key.as_bytes().to_vec(), Some(vec![b'.'; 20]))));
    store.write_out().unwrap();
    drop(store);
    for table in tables(&path) {
        let mut bytes = fs::read(&table).unwrap();
        let at = place_of(&bytes, b"second").unwrap();
        bytes[at + 5] ^= 0x01;
        fs::write(&table, bytes).unwrap();
    }
    let store = open(&factory, &path, true, |config| config.block_checksums = false);
    store.verify_files().unwrap();
    let damage = store.damage();
    let found: Vec<_> = damage.iter().map(|one| (std::str::from_utf8(&one.key).unwrap(), one.verdict)).collect();
    // The metadata's key is kept as the difference to the key's, so it flips along: then the checksum shows it.
    assert!(
        found == [("secone", Verdict::EntryCorrupted)]
            || found == [("second", Verdict::KeyLost), ("secone", Verdict::MetadataMissing)],
        "{found:?}"
    );
}

/// Deletions are covered too: one that flips into another key's does not go unseen.
#[test]
fn deletions_are_verified() {
    let factory = RocksFactory::new(8 << 20, false);
    let store = filled(&factory, &factory.new_directory(), true);
    let view = store.view().unwrap();
    let some: Vec<_> = pairs(1).into_iter().step_by(3).map(|(key, _)| (key, None)).collect();
    write(&store, &some);
    store.write_out().unwrap();
    inject(&store, ONE_PER_CENT * 5, 0, 11);
    store.compact().unwrap();
    inject(&store, 0, 0, 0);
    let counters = store.counters();
    assert!(counters.injected > 100 && counters.damaged == 0, "{counters:?}");
    same(&view, &model(&pairs(1)), "the view from before");
    let gone: std::collections::BTreeSet<_> = some.into_iter().map(|(key, _)| key).collect();
    let mut left = model(&pairs(1));
    left.retain(|key, _| !gone.contains(key));
    same(&store.newest().unwrap(), &left, "now");
}

//! Random histories over keys that nest (`a`, `a\0`, `a\0\0`, `a\1`), with everything that moves files.

use super::{delete_range, open, same, write};
use crate::tests::RocksFactory;
use base_engine::conformance::Random;
use base_engine::stored::RawStore;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const SEEDS: u64 = 6;
const STEPS: u64 = 60;

fn key(random: &mut Random) -> Vec<u8> {
    let mut key = format!("{:02}", random.below(12)).into_bytes();
    for _ in 0..random.below(4) {
        key.push([0, 0, 0, 1, 2, 0xff][random.below(6) as usize]);
    }
    key
}

fn value(random: &mut Random) -> Vec<u8> {
    let length = [0, 1, 30, 300, 3000][random.below(5) as usize];
    (0..length).map(|_| random.below(256) as u8).collect()
}

/// So small that a merge makes several, and versions of a key part.
const FILE_BYTES: u64 = 3000;

/// Of three seeds one merges in parts, which begin amid tables.
fn threads(seed: u64) -> usize {
    [4, 1, 1][seed as usize % 3]
}

fn history(seed: u64, metahive: impl Fn(u64) -> bool) {
    let factory = RocksFactory::new(64 << 10, false);
    let path = factory.new_directory();
    let mut random = Random::new(seed);
    let mut store = open(&factory, &path, false, |config| {
        (config.metahive, config.file_bytes, config.threads) = (metahive(0), FILE_BYTES, threads(seed));
    });
    let mut model = Model::new();
    let mut views = Vec::new();
    for step in 0..STEPS {
        let when = format!("seed {seed}, step {step}");
        match random.below(12) {
            0..=5 => {
                let count = 1 + random.below(40);
                let changes: Vec<_> =
                    (0..count).map(|_| (key(&mut random), (random.below(4) > 0).then(|| value(&mut random)))).collect();
                write(&store, &changes);
                for (key, value) in changes {
                    match value {
                        Some(value) => model.insert(key, value),
                        None => model.remove(&key),
                    };
                }
            }
            6 | 7 => store.write_out().unwrap(),
            8 => store.compact().unwrap(),
            9 => views.push((store.view().unwrap(), model.clone())),
            10 => {
                let (a, b) = (key(&mut random), key(&mut random));
                let (start, end) = (a.clone().min(b.clone()), a.max(b));
                if start < end {
                    delete_range(&store, &start, &end);
                    model.retain(|key, _| *key < start || *key >= end);
                }
            }
            _ => {
                views.clear();
                drop(store);
                store = open(&factory, &path, true, |config| {
                    (config.metahive, config.file_bytes, config.threads) = (metahive(step), FILE_BYTES, threads(seed));
                });
            }
        }
        if views.len() > 3 {
            views.remove(0);
        }
        same(&store.view().unwrap(), &model, &when);
        for (view, then) in &views {
            same(view, then, &format!("{when}: a view from before"));
        }
    }
    views.clear();
    store.compact().unwrap();
    same(&store.newest().unwrap(), &model, "in the end");
    assert!(model.len() < 20 || super::tables(&path).len() > 1, "{} files", super::tables(&path).len());
    store.verify_files().unwrap();
    let counters = store.counters();
    assert_eq!((store.damage(), counters.mismatches), (vec![], 0), "seed {seed}: {counters:?}");
}

#[test]
fn histories_with_metadata_match_the_model() {
    // 15 once ended a part of a merge between a key and its metadata.
    (0..SEEDS).chain([15]).for_each(|seed| history(seed, |_| true));
}

/// Opened now with MetaHive, now without: each takes the other's files.
#[test]
fn histories_that_go_back_and_forth_match_the_model() {
    (100..100 + SEEDS).for_each(|seed| history(seed, |step| (step + seed) % 2 == 0));
}

/// Plain RocksDB passes the same histories: the model is right about it.
#[test]
fn histories_without_metadata_match_the_model() {
    history(200, |_| false);
}

/// Every entry has its metadata in the next block, the last of a file in a property.
#[test]
fn every_entry_gets_metadata_when_it_is_written_out() {
    let factory = RocksFactory::new(1 << 20, false);
    let store = open(&factory, &factory.new_directory(), false, |_| {});
    let pairs: Vec<_> = (0..1000).map(|i| (format!("key {i:05}").into_bytes(), Some(vec![i as u8; 100]))).collect();
    write(&store, &pairs);
    assert_eq!(store.metadata(b"key 00005").unwrap(), vec![], "not in memory");
    store.write_out().unwrap();
    assert_eq!(store.counters().written, 1000);
    let expected = |key: &[u8], value: &[u8], sequence: u64| {
        use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
        let key = [key, &[0]].concat();
        let whole = xxh3_64_with_seed(&key, 1)
            ^ xxh3_64(value)
            ^ xxh3_64_with_seed(&sequence.to_le_bytes(), 2)
            ^ xxh3_64_with_seed(&[1], 3);
        whole & super::formats::CHECKSUM_MASK
    };
    for i in [0_usize, 1, 500, 998] {
        let (key, value) = &pairs[i];
        let kept = store.metadata(key).unwrap();
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].checksum, expected(key, value.as_ref().unwrap(), kept[0].sequence), "{i}");
    }
    assert_eq!(store.metadata(&pairs[999].0).unwrap(), vec![], "the last key's is in the property");
    assert_eq!(store.verify_files(), Ok(1000));
    let counters = store.counters();
    assert_eq!((counters.verified, counters.adopted, counters.orphans), (1000, 0, 0), "{counters:?}");
}

/// Size and age lie beside the key, stay through merging, and are no part of what is read.
#[test]
fn general_metadata_stays_beside_its_key() {
    use crate::SizeAndAge;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::Arc;
    static SECOND: AtomicU64 = AtomicU64::new(100);
    let factory = RocksFactory::new(1 << 20, false);
    let provider = || Arc::new(SizeAndAge::new(|| SECOND.load(Ordering::Relaxed)));
    let store = open(&factory, &factory.new_directory(), false, |config| config.providers = vec![provider()]);
    let put = |key: &str, bytes: usize| write(&store, &[(key.into(), Some(vec![7; bytes]))]);
    let read = |key: &str| {
        let kept = store.metadata(key.as_bytes()).unwrap();
        kept.iter().map(|kept| SizeAndAge::read(kept.of(SizeAndAge::TAG).unwrap()).unwrap()).collect::<Vec<_>>()
    };
    put("a", 10);
    put("b", 20);
    put("z", 0);
    store.write_out().unwrap();
    assert_eq!((read("a"), read("b")), (vec![(10, 100)], vec![(20, 100)]));
    SECOND.store(200, Ordering::Relaxed);
    put("b", 30);
    store.write_out().unwrap();
    store.compact().unwrap();
    assert_eq!((read("a"), read("b")), (vec![(10, 100)], vec![(30, 200)]), "a keeps its age, b is new");
    let model: Model = [("a", 10), ("b", 30), ("z", 0)].map(|(key, bytes)| (key.into(), vec![7; bytes])).into();
    same(&store.newest().unwrap(), &model, "users see none of it");
}

/// Says the same of every entry: what is looked for where it must not be.
struct Marks;

const MARK: &[u8] = b"beside every key";

impl crate::MetadataProvider for Marks {
    fn tag(&self) -> u8 {
        9
    }

    fn describe(&self, _: crate::Described<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(MARK);
    }
}

/// What goes to other members and into backups has none of it: chunks and digests are those of an engine without.
#[test]
fn general_metadata_goes_nowhere() {
    use base_engine::conformance::{batch, durable, put};
    use base_engine::{digest, export, Engine};
    use base_types::codec::Encode;
    let space = base_types::SpaceId(5);
    let factory = RocksFactory::new(1 << 20, false);
    let told = |metahive: bool| {
        let mut config = factory.config();
        config.metahive = metahive;
        config.providers = if metahive { vec![std::sync::Arc::new(Marks)] } else { vec![] };
        let engine = crate::open(factory.new_directory(), config).unwrap();
        let pairs = (0..300).map(|i| put(space, format!("k{i:03}"), vec![i as u8; 40]));
        engine.write(&batch(pairs.chain([durable(space, 9)]).collect::<Vec<_>>())).unwrap();
        engine.store().write_out().unwrap();
        engine.store().compact().unwrap();
        let snapshot = engine.snapshot().unwrap();
        let chunk = export(&*snapshot, space, None, 1 << 20).unwrap();
        assert!(chunk.done);
        let beside = engine.store().metadata(&base_engine::stored::format::pair_key(space, b"k007")).unwrap();
        let marks = beside.iter().filter(|kept| kept.of(9) == Some(MARK)).count();
        (chunk.to_bytes(), digest(&*snapshot, space).unwrap(), marks)
    };
    let (with, without) = (told(true), told(false));
    assert_eq!((with.2, without.2), (1, 0), "it lies beside the key");
    assert!(!with.0.windows(MARK.len()).any(|window| window == MARK), "a chunk carries it along");
    assert_eq!((with.0, with.1), (without.0, without.1));
}

//! Files among those that know nothing of metadata: RocksDB's own tools as Debian builds them (`ldb`,
//! `sst_dump` 7.8.3, assertions on), and a world of one node with MetaHive and two without.

use super::{open, same, tables, write};
use crate::tests::RocksFactory;
use crate::RocksStore;
use base_engine::conformance::{collect, put, Random};
use base_engine::stored::RawStore;
use base_engine::{export, import, BatchOperation, Direction, Engine, EngineError, EngineRead, KeyRange, WriteBatch};
use base_types::SpaceId;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a tool of RocksDB's prints.
pub fn tool(name: &str, arguments: &[&str]) -> String {
    let ran = Command::new(name).args(arguments).output();
    let ran = ran.unwrap_or_else(|error| panic!("{name}: {error}; run 'apt-get install rocksdb-tools'"));
    let text = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{name} {arguments:?}: {text}");
    text
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.trim().trim_start_matches("0x").as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// What `ldb` reads, keys with the zero that stands behind each.
fn read_by_ldb(path: &Path) -> Model {
    let text = tool("ldb", &[&format!("--db={}", path.display()), "scan", "--hex"]);
    let pair = |line: &str| line.split_once(" : ").map(|(key, value)| (unhex(key), unhex(value)));
    text.lines().filter(|line| line.starts_with("0x")).filter_map(pair).collect()
}

fn with_zeroes(model: &Model) -> Model {
    model.iter().map(|(key, value)| (crate::store::mapped(key), value.clone())).collect()
}

/// Entries of all tables as they lie there, and how many of them are metadata.
fn raw_entries(path: &Path) -> (usize, usize) {
    let lines = |table: &PathBuf| {
        let text = tool("sst_dump", &[&format!("--file={}", table.display()), "--command=scan", "--output_hex"]);
        let keys: Vec<_> = text.lines().filter(|line| line.contains("' seq:")).map(str::to_string).collect();
        keys
    };
    let lines: Vec<_> = tables(path).iter().flat_map(lines).collect();
    (lines.len(), lines.iter().filter(|line| line.contains("01' seq:") && line.contains("type:0")).count())
}

/// Two overlapping files on the first level, so that a merge rewrites them.
fn fill(store: &RocksStore) -> Model {
    let mut model = Model::new();
    let mut random = Random::new(5);
    for round in 0..2 {
        let key = |i: usize| format!("key {i:04}").into_bytes();
        let value = |random: &mut Random| (0..80).map(|_| random.below(256) as u8).collect::<Vec<u8>>();
        let mut changes: Vec<_> = (0..600).map(|i| (key(i * (round + 1)), Some(value(&mut random)))).collect();
        changes.extend((0..50).map(|i| (key(i * 11), None)));
        changes.push((b"key 0001\0".to_vec(), Some(vec![9])));
        write(store, &changes);
        store.write_out().unwrap();
        for (key, value) in changes {
            match value {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
    }
    model
}

#[test]
fn debians_tools_read_the_files_and_clean_them_and_they_come_back() {
    let factory = RocksFactory::new(8 << 20, false);
    let path = factory.new_directory();
    let store = open(&factory, &path, false, |_| {});
    let mut model = fill(&store);
    drop(store);
    let (entries, metadata) = raw_entries(&path);
    assert!(metadata > 1000 && metadata * 2 + 4 >= entries, "{metadata} of {entries} raw entries");
    // It opens, with the options of ours, and reads right; metadata is not seen.
    let db = format!("--db={}", path.display());
    assert!(read_by_ldb(&path) == with_zeroes(&model), "ldb reads something else");
    tool("ldb", &[&db, "checkconsistency"]);
    // It writes, and merges: no metadata is left.
    tool("ldb", &[&db, "put", "--hex", "0x7a7a00", "0x6c6462"]);
    model.insert(b"zz".to_vec(), b"ldb".to_vec());
    tool("ldb", &[&db, "compact"]);
    let (entries, metadata) = raw_entries(&path);
    assert_eq!((entries, metadata), (model.len(), 0), "its own merge cleaned the files");
    assert!(read_by_ldb(&path) == with_zeroes(&model), "after its merge");
    // Back: read right at once, metadata when merged.
    let store = open(&factory, &path, true, |_| {});
    same(&store.newest().unwrap(), &model, "back");
    assert_eq!(store.metadata(b"key 0002").unwrap(), vec![]);
    store.compact().unwrap();
    let counters = store.counters();
    assert_eq!((counters.adopted, counters.mismatches), (model.len() as u64, 0), "{counters:?}");
    assert_eq!(store.metadata(b"key 0002").unwrap().len(), 1);
    assert_eq!(store.verify_files(), Ok(model.len() as u64));
    assert_eq!(store.counters().adopted, counters.adopted, "all have metadata now");
    same(&store.newest().unwrap(), &model, "with metadata again");
    drop(store);
    let (entries, metadata) = raw_entries(&path);
    assert_eq!(entries, model.len() + metadata);
    assert!(read_by_ldb(&path) == with_zeroes(&model), "and ldb reads it once more");
}

const SPACES: u64 = 3;
const ROUNDS: u64 = 6;

/// The paper's experiment: data goes round between a node with MetaHive and two without; of the entries
/// the first one writes to its tables one in a hundred flips. All are found before they go to another node.
#[test]
fn a_world_of_one_node_with_metahive_and_two_without_passes_no_flip_on() {
    let factory = RocksFactory::new(8 << 20, false);
    let plain = |config: &mut crate::RocksConfig| config.metahive = false;
    let engine = |change: &dyn Fn(&mut crate::RocksConfig)| {
        let mut config = factory.config();
        change(&mut config);
        crate::open(factory.new_directory(), config).unwrap()
    };
    let nodes = [engine(&|_| {}), engine(&plain), engine(&plain)];
    let mut random = Random::new(3);
    let mut model: BTreeMap<(SpaceId, Vec<u8>), Vec<u8>> = BTreeMap::new();
    let mut found = 0;
    for round in 0..ROUNDS {
        // So that nothing merges in the background while flips are made.
        nodes[0].store().compact().unwrap();
        for space in 1..=SPACES {
            // Each space goes to the next node every round, and more is written there.
            let (space, home) = (SpaceId(space), ((space + round) % 3) as usize);
            if round > 0 {
                move_space(&nodes[(home + 2) % 3], &nodes[home], space);
            }
            let more: Vec<BatchOperation> = (0..400)
                .map(|_| put(space, random.below(5000).to_string(), vec![random.below(256) as u8; 100]))
                .collect();
            nodes[home].write(&WriteBatch { operations: more.clone() }).unwrap();
            for one in more {
                if let BatchOperation::Put { key, value, .. } = one {
                    model.insert((space, key.to_vec()), value.to_vec());
                }
            }
        }
        super::inject(nodes[0].store(), 0, 10_000, round);
        nodes[0].store().write_out().unwrap();
        super::inject(nodes[0].store(), 0, 0, 0);
        // Before anything is served to another node: each is found, and repaired with what a replica has.
        for (space, key) in damaged(&nodes[0]) {
            let key = &key[..];
            assert!(matches!(nodes[0].get(space, key), Err(EngineError::Corrupt(_))), "it is not served: {key:?}");
            found += 1;
            let right = model[&(space, key.to_vec())].clone();
            nodes[0].write(&WriteBatch { operations: vec![put(space, key, right)] }).unwrap();
        }
        for ((space, key), value) in &model {
            let home = &nodes[((space.0 + round) % 3) as usize];
            assert_eq!(home.get(*space, key).unwrap().as_deref(), Some(&value[..]), "round {round}");
        }
    }
    let injected = nodes[0].store().counters().injected;
    assert!(injected > 10 && found == injected, "{found} found of {injected}");
    let counters = nodes[1].store().counters();
    assert_eq!((counters.written, counters.verified), (0, 0), "the others know nothing of it");
}

/// What a scrub through the contract finds.
fn damaged(engine: &dyn Engine) -> BTreeSet<(SpaceId, Bytes)> {
    let (mut found, mut after) = (BTreeSet::new(), Vec::new());
    loop {
        let part = engine.verify(&after).unwrap();
        found.extend(part.damaged);
        let Some(next) = part.next else { return found };
        after = next.to_vec();
    }
}

fn move_space(from: &crate::RocksEngine, to: &crate::RocksEngine, space: SpaceId) {
    let snapshot = from.snapshot().unwrap();
    let mut after = None;
    loop {
        let chunk = export(&*snapshot, space, after.as_deref(), 4096).unwrap();
        import(to, space, &chunk).unwrap();
        if chunk.done {
            break;
        }
        after = chunk.last_key().cloned();
    }
    let expected = collect(&*snapshot, space, KeyRange::ALL, Direction::Forward);
    assert_eq!(collect(to, space, KeyRange::ALL, Direction::Forward), expected);
    drop(snapshot);
    while from.drop_space(space, 1000).unwrap() {}
}

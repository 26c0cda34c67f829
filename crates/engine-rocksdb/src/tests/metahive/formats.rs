//! Both forms of metadata: what each verdict is given for, and files of form 1 (24 bytes an entry; builds up to c7c8875), which are read,
//! verified, and given the form of now when they are merged.
//!
//! `testdata/metahive-1` was written by c7c8875 so: changes 1, written out, merged; with `SizeAndAge` at second 1000 from the start; changes 2, a
//! view taken, changes 3, written out: two versions of a key in a file; changes 4 while every value flips a bit behind its checksum, written out.

use super::others::tool;
use super::{open, same, tables, write, HiveSlice};
use crate::tests::RocksFactory;
use crate::{RocksStore, SizeAndAge, Verdict};
use base_engine::conformance::Random;
use base_engine::stored::{RawStore, RawView};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// What is kept of a checksum.
pub const CHECKSUM_MASK: u64 = (1 << 48) - 1;

const VALIDATED: u8 = 0;
const RECREATED: u8 = 1;
const ENTRY_CORRUPTED: u8 = 2;
const BOTH_CORRUPTED: u8 = 3;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn check_of(checksum: u64) -> u64 {
    xxh3_64_with_seed(&checksum.to_le_bytes(), 4)
}

fn second(checksum: u64, check: u64) -> Vec<u8> {
    [&checksum.to_le_bytes()[..6], &check.to_le_bytes()[..2]].concat()
}

fn first(checksum: u64, check: u64) -> Vec<u8> {
    [7u64.to_le_bytes(), checksum.to_le_bytes(), check.to_le_bytes()].concat()
}

fn judge(metadata: &[u8], current: u64) -> u8 {
    // SAFETY: the bytes outlive the call.
    unsafe { crate::ffi::hive_rocks_judge(HiveSlice::of(metadata), current) }
}

#[test]
fn verdicts_of_both_forms() {
    let entry = xxh3_64(b"an entry");
    let (kept, other) = (entry & CHECKSUM_MASK, entry ^ 0x0123_4567_89ab);
    for bit in 0..48 {
        let flipped = entry ^ 1 << bit;
        assert_eq!(judge(&second(kept, check_of(kept)), flipped), ENTRY_CORRUPTED, "bit {bit} of the entry");
        assert_eq!(judge(&second(flipped, check_of(kept)), entry), RECREATED, "bit {bit} of the checksum");
        assert_eq!(judge(&second(flipped, check_of(kept)), other), BOTH_CORRUPTED, "bit {bit}, and the entry");
    }
    assert_eq!(judge(&second(kept, check_of(kept)), entry), VALIDATED);
    assert_eq!(judge(&second(kept, !check_of(kept)), entry), VALIDATED, "the check alone is damaged");
    assert_eq!(judge(&first(entry, check_of(entry)), entry), VALIDATED);
    assert_eq!(judge(&first(entry, check_of(entry)), entry ^ 1 << 60), ENTRY_CORRUPTED, "form 1 keeps all bits");
    assert_eq!(judge(&[1, 2, 3], entry), 4, "too short to be metadata");
}

/// Damage as wide as an entry and its metadata: 16 bits of check alone would let one of 65,536 pass.
#[test]
fn what_damages_entry_and_metadata_does_not_pass() {
    for seed in 0..1_000_000u64 {
        let (current, garbage) = (xxh3_64_with_seed(b"entry", seed), xxh3_64_with_seed(b"metadata", seed));
        let verdict = judge(&garbage.to_le_bytes(), current);
        assert!(matches!(verdict, ENTRY_CORRUPTED | BOTH_CORRUPTED), "{seed}: {verdict}");
    }
}

/// What was written, in turn: what lies at the bottom, with its numbers set to zero; two tables above it.
fn changes(turn: u8) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let value = |i: u32| (0..20 + i % 30).map(|at| (at * 7 + i * 31 + u32::from(turn) * 3) as u8).collect::<Vec<u8>>();
    let key = |i: u32| format!("key {i:04}").into_bytes();
    match turn {
        1 => {
            let nested = [&b"a"[..], b"a\0", b"a\0\0", b"a\x01", b"a\0\x01"];
            let nested = nested.iter().map(|key| (key.to_vec(), Some(key.repeat(3))));
            (0..150).map(|i| (key(i), Some(value(i)))).chain(nested).collect()
        }
        2 | 3 => (0..20).map(|i| (key(i * 5), (i % 4 > 0).then(|| value(i + 1000)))).collect(),
        _ => vec![(b"flipped 1".to_vec(), Some(vec![1; 40])), (b"flipped 2".to_vec(), Some(vec![2; 40]))],
    }
}

fn apply(model: &mut Model, changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
    for (key, value) in changes {
        match value {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    }
}

/// The old files, at a place of their own, with a provider whose clock has gone on; what they should hold.
fn old_files(factory: &RocksFactory) -> (std::path::PathBuf, RocksStore, Model) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/metahive-1");
    let path = factory.new_directory();
    std::fs::create_dir_all(&path).unwrap();
    for file in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        std::fs::copy(&file, path.join(file.file_name().unwrap())).unwrap();
    }
    let store = open(factory, &path, true, |config| config.providers = vec![Arc::new(SizeAndAge::new(|| 2000))]);
    let mut model = Model::new();
    (1..=4).for_each(|turn| apply(&mut model, changes(turn)));
    (path, store, model)
}

/// How many tables have metadata of a form, as their properties say.
fn tables_of_form(path: &Path, form: u8) -> usize {
    let has = |table: &std::path::PathBuf| {
        let text = tool("sst_dump", &[&format!("--file={}", table.display()), "--command=none", "--show_properties"]);
        text.contains(&format!("hive.metahive: 0x{form:02X}"))
    };
    tables(path).iter().filter(|table| has(table)).count()
}

fn put_what_flipped(store: &RocksStore) {
    let damage: Vec<_> = store.damage().into_iter().map(|damage| (damage.key, damage.verdict)).collect();
    let flipped = |key: &[u8]| (key.to_vec(), Verdict::EntryCorrupted);
    assert_eq!(damage, [flipped(b"flipped 1"), flipped(b"flipped 2")], "in a block, and last in its file");
    assert!(store.newest().unwrap().get(b"flipped 1").is_err());
    write(store, &changes(4));
}

#[test]
fn files_of_form_1_are_verified_as_they_are() {
    let factory = RocksFactory::new(1 << 20, false);
    let (path, store, model) = old_files(&factory);
    assert_eq!((tables_of_form(&path, 1), tables_of_form(&path, 2)), (3, 0));
    let kept = &store.metadata(b"key 0001").unwrap()[0];
    let whole = xxh3_64_with_seed(b"key 0001\0", 1)
        ^ xxh3_64(&model[&b"key 0001"[..]])
        ^ xxh3_64_with_seed(&kept.sequence.to_le_bytes(), 2)
        ^ xxh3_64_with_seed(&[1], 3);
    assert_eq!(kept.checksum, whole, "all 64 bits");
    let entries = 155 + 2 * 20 + 2;
    assert_eq!(store.verify_files(), Ok(entries));
    let counters = store.counters();
    assert_eq!((counters.verified, counters.adopted, counters.mismatches), (entries - 2, 0, 2), "{counters:?}");
    put_what_flipped(&store);
    same(&store.newest().unwrap(), &model, "beside files of form 1");
}

#[test]
fn files_of_form_1_get_form_2_when_merged() {
    let factory = RocksFactory::new(1 << 20, false);
    let (path, store, model) = old_files(&factory);
    store.compact().unwrap();
    let counters = store.counters();
    assert_eq!((counters.mismatches, counters.adopted, counters.orphans), (2, 0, 0), "{counters:?}");
    assert_eq!(tables_of_form(&path, 1), 0);
    assert!(tables_of_form(&path, 2) > 0);
    // Damage goes over into the new form as damage.
    drop(store);
    let store = open(&factory, &path, true, |_| {});
    store.verify_files().unwrap();
    put_what_flipped(&store);
    same(&store.newest().unwrap(), &model, "merged");
    let kept = store.metadata(b"key 0001").unwrap();
    let said: Vec<_> = kept.iter().map(|kept| SizeAndAge::read(kept.of(SizeAndAge::TAG).unwrap()).unwrap()).collect();
    assert_eq!(said, [(21, 1000)], "what providers said in form 1 is still known");
}

/// Histories that begin with files of form 1 and continue with files of form 2 beside them.
#[test]
fn histories_over_files_of_both_forms_match_the_model() {
    for seed in 0..6 {
        let factory = RocksFactory::new(64 << 10, false);
        let (path, mut store, mut model) = old_files(&factory);
        store.verify_files().unwrap();
        put_what_flipped(&store);
        let mut random = Random::new(seed);
        for step in 0..30 {
            match random.below(5) {
                0..=2 => {
                    let key = |random: &mut Random| format!("key {:04}", random.below(160)).into_bytes();
                    let some: Vec<_> = (0..random.below(30))
                        .map(|i| (key(&mut random), (i % 3 > 0).then(|| vec![step as u8; 1 + 9 * i as usize])))
                        .collect();
                    write(&store, &some);
                    apply(&mut model, some);
                }
                3 => store.write_out().unwrap(),
                _ if step > 20 => store.compact().unwrap(),
                _ => {
                    drop(store);
                    store = open(&factory, &path, true, |config| config.file_bytes = 3000);
                }
            }
            same(&store.newest().unwrap(), &model, &format!("seed {seed}, step {step}"));
        }
        store.verify_files().unwrap();
        assert_eq!((store.damage(), store.counters().adopted), (vec![], 0), "seed {seed}");
    }
}

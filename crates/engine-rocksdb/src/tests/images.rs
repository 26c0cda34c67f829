//! What a machine that lost power may find in the journal: a batch is appended and synced once, so
//! before that sync any of its sectors may have arrived.
//! Not in an image: `LOG`, RocksDB's diary, and locks.

use super::{RocksFactory, A};
use crate::{RocksEngine, DATA_DIRECTORY};
use base_engine::conformance::{batch, durable, put, EngineFactory, Model, Random};
use base_engine::stored::directory::LOCK_FILE;
use base_engine::{Engine, EngineError, EngineRead, WriteBatch};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

const SECTOR_BYTES: usize = 512;
const TORN_IMAGES: usize = 3;
const CUT_STEP: usize = 101;

/// A file's bytes, and its length.
pub type Image = BTreeMap<PathBuf, (Vec<u8>, u64)>;

/// What a machine that lost power now would find.
pub fn of(engine: &RocksEngine) -> Image {
    engine.store().while_quiet(|| read(engine.directory())).unwrap()
}

pub fn read(root: &Path) -> Image {
    let mut image = Image::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(relative) = waiting.pop() {
        for entry in fs::read_dir(root.join(&relative)).unwrap().map(Result::unwrap) {
            let path = relative.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(path),
                false if entry.file_name() == LOCK_FILE || entry.file_name().as_encoded_bytes().starts_with(b"LOG") => {
                }
                false => {
                    let file = read_file(&entry.path());
                    image.insert(path, file);
                }
            }
        }
    }
    image
}

fn read_file(path: &Path) -> (Vec<u8>, u64) {
    let mut bytes = Vec::new();
    // A file that RocksDB took away meanwhile is one that nothing names any more.
    let _ = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    let length = bytes.len() as u64;
    (bytes, length)
}

pub fn write(root: &Path, image: &Image) {
    fs::create_dir_all(root.join(DATA_DIRECTORY)).unwrap();
    for (path, (bytes, length)) in image {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        let mut file = File::create(root.join(path)).unwrap();
        file.write_all(bytes).unwrap();
        file.set_len(*length).unwrap();
    }
}

pub fn open(factory: &RocksFactory, image: &Image) -> Result<RocksEngine, EngineError> {
    let directory = factory.new_directory();
    write(&directory, image);
    crate::open(&directory, factory.config())
}

fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|name| name == "log")
}

fn journals(image: &Image) -> usize {
    image.keys().filter(|path| is_journal(path)).count()
}

/// The journal that is written to.
pub fn journal(image: &Image) -> PathBuf {
    let journals = image.keys().filter(|path| is_journal(path));
    journals.max_by_key(|path| path.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap()).unwrap().clone()
}

/// `before` with some sectors of what `after` has more; never the last byte's if `share` is below ten.
fn torn(before: &Image, after: &Image, random: &mut Random, share: u64) -> Image {
    let path = journal(after);
    let (old, new) = (&before[&path], &after[&path]);
    let mut bytes = new.0.clone();
    let first = old.0.iter().zip(&new.0).position(|(old, new)| old != new).unwrap_or(old.0.len());
    let mut at = first;
    while at < bytes.len() {
        let end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(bytes.len());
        if random.below(10) >= share {
            let kept = at..end;
            bytes[kept].fill(0);
            if let Some(there) = old.0.get(at..end.min(old.0.len())) {
                bytes[at..at + there.len()].copy_from_slice(there);
            }
        }
        at = end;
    }
    let mut image = before.clone();
    image.insert(path, (bytes, new.1));
    image
}

fn images_of(engine: &RocksEngine, batch: &WriteBatch, random: &mut Random, torn_images: usize) -> Vec<Image> {
    let (before, after) = engine
        .store()
        .while_quiet(|| {
            let before = read(engine.directory());
            engine.write(batch).unwrap();
            (before, read(engine.directory()))
        })
        .unwrap();
    let path = journal(&after);
    let others = |image: &Image| {
        image.iter().filter(|(name, _)| **name != path).map(|(n, f)| (n.clone(), f.clone())).collect::<Image>()
    };
    assert!(others(&before) == others(&after), "a write touches the journal only");
    let mut images = vec![before.clone(), after.clone()];
    for _ in 0..torn_images {
        let share = 1 + random.below(9);
        images.push(torn(&before, &after, random, share));
    }
    images
}

pub fn during(factory: &RocksFactory, engine: &RocksEngine, batch: &WriteBatch, seed: u64) -> Vec<RocksEngine> {
    let images = images_of(engine, batch, &mut Random::new(seed), TORN_IMAGES);
    images.iter().map(|image| open(factory, image).unwrap()).collect()
}

/// The batch of the tests below: small keys and a value of several sectors.
fn some_batch(round: u64) -> WriteBatch {
    let pairs = (0..6).map(|i| put(A, format!("{i}"), vec![round as u8 + 1; 300]));
    batch(pairs.chain([put(A, "long", vec![round as u8 + 1; 3000]), durable(A, round + 1)]).collect::<Vec<_>>())
}

/// A journal cut at many lengths, and every single lost sector.
#[test]
fn every_cut_and_every_lost_sector_leaves_before_or_after() {
    let factory = RocksFactory::new(32 << 20, false);
    let engine = factory.open();
    let mut model = Model::default();
    engine.write(&some_batch(0)).unwrap();
    model.apply(&some_batch(0));
    let before = read(engine.directory());
    engine.write(&some_batch(1)).unwrap();
    let after = read(engine.directory());
    let mut then = model.clone();
    then.apply(&some_batch(1));
    let path = journal(&after);
    let (old, new) = (&before[&path].0, &after[&path].0);
    let first = old.iter().zip(new).position(|(old, new)| old != new).unwrap_or(old.len());
    let last = new.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let cuts = (first..last).step_by(CUT_STEP).map(|length| {
        let mut bytes = new[..length].to_vec();
        bytes.resize(if length % 2 == 0 { length } else { new.len() }, 0);
        bytes
    });
    let lost_sectors = (first..last).step_by(SECTOR_BYTES).map(|at| {
        let mut bytes = new.clone();
        let end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(last);
        bytes[at.max(first)..end].fill(0);
        bytes
    });
    let mut opened = 0;
    for bytes in cuts.chain(lost_sectors) {
        let mut image = before.clone();
        let length = bytes.len() as u64;
        image.insert(path.clone(), (bytes, length));
        let engine = open(&factory, &image).unwrap();
        assert!(model.matches(&engine, &[A]), "an unfinished batch is not there");
        engine.write(&batch([put(A, "on", "it goes")])).unwrap();
        opened += 1;
    }
    assert!(opened > 50, "{opened}");
    assert!(then.matches(&open(&factory, &after).unwrap(), &[A]));
}

/// Rot in a journal that a later one follows: nothing of the later one is applied behind the gap.
#[test]
fn rot_in_a_journal_leaves_an_earlier_state_as_a_whole() {
    // So small that the journal changes; nothing is written out while the work in the background rests.
    let factory = RocksFactory::new(64 << 10, false);
    let engine = factory.open();
    engine.store().write_out().unwrap();
    let (states, image) = engine
        .store()
        .while_quiet(|| {
            let mut states = vec![Model::default()];
            for round in 0..40 {
                engine.write(&some_batch(round)).unwrap();
                let mut next = states.last().unwrap().clone();
                next.apply(&some_batch(round));
                states.push(next);
                if journals(&read(engine.directory())) > 1 {
                    break;
                }
            }
            (states, read(engine.directory()))
        })
        .unwrap();
    assert_eq!(journals(&image), 2, "{:?}", image.keys());
    let (mut refused, mut earlier) = (0, 0);
    for (path, (bytes, _)) in image.iter().filter(|(path, _)| is_journal(path)) {
        for at in (5..bytes.len()).step_by((bytes.len() / 12).max(1)) {
            let mut rotten = image.clone();
            rotten.get_mut(path).unwrap().0[at] ^= 0x04;
            match open(&factory, &rotten) {
                Ok(engine) => {
                    earlier += 1;
                    assert!(states.iter().any(|state| state.matches(&engine, &[A])), "rot at {at}: a state that was");
                }
                Err(error) => {
                    refused += 1;
                    assert!(matches!(error, EngineError::Corrupt(_)), "rot at {at}: {error:?}");
                }
            }
        }
    }
    assert!(earlier > 5, "{refused} refused, {earlier} earlier");
    assert!(states.last().unwrap().matches(&open(&factory, &image).unwrap(), &[A]));
}

/// Power lost behind a table that was written out.
#[test]
fn a_table_written_out_survives_a_crash() {
    let factory = RocksFactory::new(32 << 20, false);
    let engine = factory.open();
    let mut model = Model::default();
    for round in 0..4 {
        engine.write(&some_batch(round)).unwrap();
        model.apply(&some_batch(round));
        if round % 2 == 1 {
            engine.store().write_out().unwrap();
        }
        let crashed = factory.crash(&engine);
        model.assert_shown_by(&crashed, &[A], &format!("round {round}"));
        assert_eq!(crashed.durable_index(A).unwrap().0, round + 1);
    }
}

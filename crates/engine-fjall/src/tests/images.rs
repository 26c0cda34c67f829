//! What a machine that lost power may find in the journal: a batch is appended and synced once, so
//! before that sync any of its sectors may have arrived.

use super::{FjallFactory, A};
use crate::{FjallEngine, DATA_DIRECTORY};
use base_engine::conformance::{batch, durable, put, EngineFactory, Model, Random};
use base_engine::stored::directory::LOCK_FILE;
use base_engine::{Engine, EngineError, EngineRead, WriteBatch};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

const SECTOR_BYTES: usize = 512;
const TORN_IMAGES: usize = 3;
const CUT_STEP: usize = 31;
const CHUNK_BYTES: usize = 64 << 10;

/// A file's bytes up to its last zeroes, and its length: journals are made 64 MiB long.
pub type Image = BTreeMap<PathBuf, (Vec<u8>, u64)>;

pub fn read(root: &Path) -> Image {
    let mut image = Image::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(relative) = waiting.pop() {
        for entry in fs::read_dir(root.join(&relative)).unwrap().map(Result::unwrap) {
            let path = relative.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(path),
                false if entry.file_name() == LOCK_FILE => {}
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
    let mut file = File::open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let (mut bytes, mut chunk, zeroes) = (Vec::new(), vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    loop {
        let got = file.read(&mut chunk).unwrap();
        if got == 0 || (path.extension().is_some_and(|name| name == "jnl") && chunk[..got] == zeroes[..got]) {
            return (bytes, length);
        }
        bytes.extend_from_slice(&chunk[..got]);
    }
}

pub fn write(root: &Path, image: &Image) {
    fs::create_dir_all(root.join(DATA_DIRECTORY).join("keyspaces")).unwrap();
    for (path, (bytes, length)) in image {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        let mut file = File::create(root.join(path)).unwrap();
        file.write_all(bytes).unwrap();
        file.set_len(*length).unwrap();
    }
    // Directories that hold no file yet.
    for path in image.keys().filter_map(|path| path.parent()).filter(|path| path.ends_with("tables")) {
        fs::create_dir_all(root.join(path).with_file_name("blobs")).unwrap();
    }
}

pub fn open(factory: &FjallFactory, image: &Image) -> Result<FjallEngine, EngineError> {
    let directory = factory.new_directory();
    write(&directory, image);
    crate::open(&directory, factory.config())
}

/// The journal that is written to.
pub fn journal(image: &Image) -> PathBuf {
    let journals = image.keys().filter(|path| path.extension().is_some_and(|name| name == "jnl"));
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

fn images_of(engine: &FjallEngine, batch: &WriteBatch, random: &mut Random, torn_images: usize) -> Vec<Image> {
    let before = read(engine.directory());
    engine.write(batch).unwrap();
    let after = read(engine.directory());
    let path = journal(&after);
    let others = |image: &Image| {
        image.iter().filter(|(name, _)| **name != path).map(|(n, f)| (n.clone(), f.clone())).collect::<Image>()
    };
    assert_eq!(others(&before), others(&after), "a write touches the journal only");
    let mut images = vec![before.clone(), after.clone()];
    for _ in 0..torn_images {
        let share = 1 + random.below(9);
        images.push(torn(&before, &after, random, share));
    }
    images
}

pub fn during(factory: &FjallFactory, engine: &FjallEngine, batch: &WriteBatch, seed: u64) -> Vec<FjallEngine> {
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
    let factory = FjallFactory::new(32 << 20, false);
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
    let first = old.iter().zip(new).position(|(old, new)| old != new).unwrap();
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
    assert!(opened > 100, "{opened}");
    assert!(then.matches(&open(&factory, &after).unwrap(), &[A]));
}

/// Rot in a journal that others follow would leave a gap: it is refused, wherever it is.
#[test]
fn rot_in_a_sealed_journal_is_damage() {
    let factory = FjallFactory::new(32 << 20, false);
    let engine = factory.open();
    engine.write(&some_batch(0)).unwrap();
    engine.write(&some_batch(1)).unwrap();
    let sealed = read(engine.directory());
    let path = journal(&sealed);
    let second = path.with_file_name("7.jnl"); // As after a rotation.
    let last = sealed[&path].0.iter().rposition(|byte| *byte != 0).unwrap();
    let mut image = sealed.clone();
    image.insert(second.clone(), sealed[&path].clone());
    for at in (0..last).step_by(61) {
        let mut rotten = image.clone();
        rotten.get_mut(&path).unwrap().0[at] ^= 0x10;
        let error = open(&factory, &rotten).err().unwrap_or_else(|| panic!("rot at {at} must be found"));
        assert!(matches!(&error, EngineError::Corrupt(text) if text.contains("jnl")), "rot at {at}: {error}");
    }
}

/// Rot in the last journal: refused, or a state that was.
#[test]
fn rot_in_the_last_journal_is_refused_or_leaves_an_earlier_state() {
    let factory = FjallFactory::new(32 << 20, false);
    let engine = factory.open();
    let mut states = vec![Model::default()];
    for round in 0..3 {
        engine.write(&some_batch(round)).unwrap();
        let mut next = states.last().unwrap().clone();
        next.apply(&some_batch(round));
        states.push(next);
    }
    let image = read(engine.directory());
    let path = journal(&image);
    let last = image[&path].0.iter().rposition(|byte| *byte != 0).unwrap();
    let (mut refused, mut earlier) = (0, 0);
    for at in (200..last).step_by(97) {
        let mut rotten = image.clone();
        rotten.get_mut(&path).unwrap().0[at] ^= 0x04;
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
    assert!(refused > 10 && earlier > 10, "{refused} refused, {earlier} earlier");
}

/// Power lost behind a table that was written out.
#[test]
fn a_table_written_out_survives_a_crash() {
    let factory = FjallFactory::new(32 << 20, false);
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

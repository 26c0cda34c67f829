//! What a machine that lost power may find: a write appends to the WAL and syncs it, so before that sync
//! any of its sectors may have arrived; a checkpoint, with the WAL whole, writes pages of the file and
//! syncs it, so before *that* sync any of the file's.

use super::{SqliteFactory, A};
use crate::{SqliteEngine, DATA_FILE, WAL_FILE};
use base_engine::conformance::{batch, durable, put, EngineFactory, Model, Random};
use base_engine::stored::directory::ENGINE_FILE;
use base_engine::{Engine, EngineError, WriteBatch};
use std::fs;
use std::path::Path;

const SECTOR_BYTES: usize = 512;
const TORN_IMAGES: usize = 3;

/// The two files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    pub engine: Vec<u8>,
    pub data: Vec<u8>,
    pub wal: Vec<u8>,
}

pub fn read(directory: &Path) -> Image {
    let file = |name: &str| fs::read(directory.join(name)).unwrap_or_default();
    Image { engine: file(ENGINE_FILE), data: file(DATA_FILE), wal: file(WAL_FILE) }
}

pub fn open(factory: &SqliteFactory, image: &Image) -> Result<SqliteEngine, EngineError> {
    let directory = factory.new_directory();
    fs::create_dir_all(&directory).unwrap();
    for (name, bytes) in [(ENGINE_FILE, &image.engine), (DATA_FILE, &image.data), (WAL_FILE, &image.wal)] {
        if !bytes.is_empty() {
            fs::write(directory.join(name), bytes).unwrap();
        }
    }
    crate::open(&directory, factory.config())
}

/// `before` with some of the sectors of `after`.
fn torn(before: &[u8], after: &[u8], random: &mut Random, share: u64) -> Vec<u8> {
    let mut image = before.to_vec();
    for start in (0..after.len()).step_by(SECTOR_BYTES) {
        let sector = &after[start..(start + SECTOR_BYTES).min(after.len())];
        if random.below(10) < share {
            if image.len() < start + sector.len() {
                image.resize(start + sector.len(), 0);
            }
            image[start..start + sector.len()].copy_from_slice(sector);
        }
    }
    image
}

pub fn during(factory: &SqliteFactory, engine: &SqliteEngine, batch: &WriteBatch, seed: u64) -> Vec<SqliteEngine> {
    let mut random = Random::new(seed);
    let before = read(engine.directory());
    engine.write(batch).unwrap();
    let after = read(engine.directory());
    assert_eq!(before.data, after.data, "a write touches the WAL only");
    let mut images = vec![before.clone(), after.clone()];
    for _ in 0..TORN_IMAGES {
        let share = 1 + random.below(9);
        images.push(Image { wal: torn(&before.wal, &after.wal, &mut random, share), ..before.clone() });
    }
    if random.below(2) == 0 {
        engine.store().checkpoint().unwrap();
        let copied = read(engine.directory());
        assert!(copied.wal.is_empty() && copied.data != after.data, "the WAL was copied and emptied");
        for _ in 0..TORN_IMAGES {
            let share = 1 + random.below(10);
            images.push(Image { data: torn(&after.data, &copied.data, &mut random, share), ..after.clone() });
        }
        images.push(Image { data: copied.data.clone(), ..after });
        images.push(copied);
    }
    images.iter().map(|image| open(factory, image).unwrap()).collect()
}

/// The WAL cut at many lengths, and each of its sectors lost.
#[test]
fn every_cut_and_every_lost_sector_leaves_before_or_after() {
    let factory = SqliteFactory::new(0, u64::MAX);
    let engine = factory.open();
    let some = |round: u64| {
        let pairs = (0..20).map(|i| put(A, format!("{i}"), vec![round as u8; 900]));
        batch(pairs.chain([durable(A, round)]).collect::<Vec<_>>())
    };
    let (mut before, mut after) = (Model::default(), Model::default());
    engine.write(&some(1)).unwrap();
    before.apply(&some(1));
    let old = read(engine.directory());
    engine.write(&some(2)).unwrap();
    after.apply(&some(2));
    let new = read(engine.directory());
    let cuts = (old.wal.len()..new.wal.len()).step_by(301).map(|length| new.wal[..length].to_vec());
    let lost = (old.wal.len()..new.wal.len()).step_by(SECTOR_BYTES).map(|at| {
        let mut wal = new.wal.clone();
        let end = (at + SECTOR_BYTES).min(wal.len());
        wal[at..end].fill(0x55);
        wal
    });
    let mut opened = 0;
    for wal in cuts.chain(lost) {
        let engine = open(&factory, &Image { wal, ..old.clone() }).unwrap();
        assert!(before.matches(&engine, &[A]), "an unfinished batch is not there");
        engine.write(&some(3)).unwrap();
        opened += 1;
    }
    assert!(opened > 100, "{opened}");
    assert!(after.matches(&open(&factory, &new).unwrap(), &[A]));
}

/// A WAL that is used again from its start has old frames behind the new ones.
#[test]
fn a_wal_used_again_is_not_mistaken_for_the_old_one() {
    let factory = SqliteFactory::new(0, u64::MAX);
    let mut random = Random::new(5);
    let engine = factory.open();
    let mut model = Model::default();
    for round in 0..6u64 {
        let one = batch((0..10).map(|i| put(A, format!("{i}"), vec![round as u8; 500 + 300 * i])).collect::<Vec<_>>());
        if round % 2 == 1 {
            let reader = engine.snapshot().unwrap(); // Keeps the WAL from being emptied, not from being copied.
            engine
                .store()
                .checkpoint()
                .unwrap_or_else(|error| assert!(error.to_string().contains("copying"), "{error}"));
            drop(reader);
        }
        let mut after = model.clone();
        after.apply(&one);
        let old = read(engine.directory());
        engine.write(&one).unwrap();
        let new = read(engine.directory());
        for share in [3, 7, 9] {
            let image = Image { wal: torn(&old.wal, &new.wal, &mut random, share), ..old.clone() };
            let opened = open(&factory, &image).unwrap();
            assert!(model.matches(&opened, &[A]) || after.matches(&opened, &[A]), "round {round}");
        }
        model = after;
    }
}

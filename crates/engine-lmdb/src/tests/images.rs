//! What a machine that lost power may find in `data.mdb`.
//!
//! LMDB writes the pages of a commit, syncs, then writes one meta page through a descriptor that
//! syncs. Before the sync is done any of the sectors may have arrived, none of the meta page; after
//! it all have, and the meta page's fields, which lie in one sector, have or have not.

use super::LmdbFactory;
use crate::directory::{DATA_FILE, ENGINE_FILE};
use crate::LmdbEngine;
use base_engine::conformance::{batch, durable, put, EngineFactory, Model, Random};
use base_engine::{Engine, WriteBatch};
use std::fs;
use std::path::Path;

const PAGE_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;
const META_PAGES: usize = 2;
const TORN_IMAGES: usize = 3;

pub fn read(directory: &Path) -> Vec<u8> {
    fs::read(directory.join(DATA_FILE)).unwrap()
}

/// A directory as a crash leaves it: no lock file that means anything.
pub fn write(directory: &Path, data: &[u8]) {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join(DATA_FILE), data).unwrap();
    fs::write(directory.join(ENGINE_FILE), "hive engine lmdb format 1\n").unwrap();
}

/// Lays some of the sectors of `after` over `before`, never those of meta pages.
fn torn(before: &[u8], after: &[u8], random: &mut Random, share_of_ten: u64) -> Vec<u8> {
    let mut image = before.to_vec();
    for start in (META_PAGES * PAGE_BYTES..after.len()).step_by(SECTOR_BYTES) {
        let sector = &after[start..(start + SECTOR_BYTES).min(after.len())];
        if random.below(10) < share_of_ten {
            if image.len() < start + sector.len() {
                image.resize(start + sector.len(), 0);
            }
            image[start..start + sector.len()].copy_from_slice(sector);
        }
    }
    image
}

pub fn during(factory: &LmdbFactory, engine: &LmdbEngine, batch: &WriteBatch, seed: u64) -> Vec<LmdbEngine> {
    let mut random = Random::new(seed);
    let before = read(engine.directory());
    engine.write(batch).unwrap();
    let after = read(engine.directory());
    let metas_changed = (0..META_PAGES).filter(|page| {
        let range = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
        before[range.clone()] != after[range]
    });
    assert!(metas_changed.count() <= 1, "a commit writes one meta page");
    let mut images = vec![before.clone(), after.clone(), torn(&before, &after, &mut random, 10)];
    for _ in 0..TORN_IMAGES {
        let share = 1 + random.below(9);
        images.push(torn(&before, &after, &mut random, share));
    }
    let open = |image: &Vec<u8>| {
        let directory = factory.new_directory();
        write(&directory, image);
        factory.open_at(&directory)
    };
    images.iter().map(open).collect()
}

/// A commit that is not on the disk is not there: the proof that the images bite.
#[test]
fn without_its_meta_page_a_commit_is_not_there() {
    use base_engine::EngineRead;
    let factory = LmdbFactory::new(1 << 30);
    let engine = factory.open();
    engine.write(&super::batch([super::put(super::A, "k", "1")])).unwrap();
    let images = during(&factory, &engine, &super::batch([super::put(super::A, "k", "2")]), 1);
    let seen: Vec<_> = images.iter().map(|image| image.get(super::A, b"k").unwrap().unwrap()).collect();
    assert_eq!(seen[0], "1");
    assert_eq!(seen[1], "2");
    assert!(seen[2..].iter().all(|value| value == "1"));
}

/// The sectors in which two files differ: those of pages first, those of the meta pages after those, as LMDB syncs.
fn changed(before: &[u8], after: &[u8]) -> Vec<usize> {
    let sectors = (0..after.len()).step_by(SECTOR_BYTES);
    let mut all: Vec<usize> = sectors
        .filter(|at| {
            let end = (at + SECTOR_BYTES).min(after.len());
            before.get(*at..end) != Some(&after[*at..end])
        })
        .collect();
    all.sort_by_key(|at| (*at < META_PAGES * PAGE_BYTES, *at));
    all
}

/// A commit stopped behind each of its sectors, from either end: the state before, until the meta page is there.
#[test]
fn every_prefix_of_a_commit_leaves_before_or_after() {
    let (factory, spaces) = (LmdbFactory::new(1 << 30), [super::A]);
    let engine = factory.open();
    let mut model = Model::default();
    let (mut before_seen, mut after_seen) = (0, 0);
    for round in 0..3u64 {
        let pairs = (0..40).map(|i| put(super::A, format!("{i:03}"), vec![round as u8; 400]));
        let one = batch(pairs.chain([durable(super::A, round + 1)]).collect::<Vec<_>>());
        let mut whole = model.clone();
        whole.apply(&one);
        let before = read(engine.directory());
        engine.write(&one).unwrap();
        let after = read(engine.directory());
        let sectors = changed(&before, &after);
        let pages = sectors.iter().take_while(|at| **at >= META_PAGES * PAGE_BYTES).count();
        assert!(pages > 4 && pages < sectors.len(), "a commit writes pages and one meta page");
        for kept in 0..=sectors.len() {
            // Of the pages, those in front and those at the back; the meta page only behind all of them.
            let back = sectors[pages - kept.min(pages)..pages].iter().chain(&sectors[pages..kept.max(pages)]);
            for part in [sectors[..kept].to_vec(), back.copied().collect()] {
                let mut image = before.clone();
                image.resize(before.len().max(part.iter().max().map_or(0, |at| at + SECTOR_BYTES)), 0);
                part.iter()
                    .for_each(|at| image[*at..at + SECTOR_BYTES].copy_from_slice(&after[*at..at + SECTOR_BYTES]));
                let directory = factory.new_directory();
                write(&directory, &image);
                let opened = factory.open_at(&directory);
                let is_whole = whole.matches(&opened, &spaces);
                assert!(
                    is_whole || model.matches(&opened, &spaces),
                    "round {round}: {kept} of {} sectors",
                    sectors.len()
                );
                assert!(!is_whole || kept > pages, "round {round}: {kept} sectors without the meta page are a commit");
                (before_seen, after_seen) = (before_seen + u32::from(!is_whole), after_seen + u32::from(is_whole));
            }
        }
        model = whole;
    }
    assert!(before_seen > 100 && after_seen >= 6, "{before_seen} before, {after_seen} after");
}

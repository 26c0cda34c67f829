//! How fast the engines write and read, side by side:
//! `cargo run --release -p engine-lmdb --example compare -- DIR [PAIRS] [BATCH] [ENGINE,…]`
//!
//! Writes 2 KB values in synced batches, keys in random order, twice; reads them back at random and in
//! ranges; verifies all, as a scrub does. The tables of docs/engines/README.md come from here.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // It measures time.

use base_engine::{BatchOperation, Direction, Engine, KeyRange, WriteBatch};
use base_types::SpaceId;
use bytes::Bytes;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 2048;
const SPACES: u64 = 8;
const READS: u64 = 100_000;
const RANGES: u64 = 1_000;
const RANGE_PAIRS: usize = 100;

/// Processor time of this process, user and system.
fn processor_time() -> Duration {
    // SAFETY: getrusage fills the zeroed structure it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let of = |time: libc::timeval| Duration::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64);
    of(usage.ru_utime) + of(usage.ru_stime)
}

fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn key(number: u64) -> Bytes {
    Bytes::from(format!("objects/{:020}", mix(number)))
}

/// Half random, half zeroes: neither incompressible nor nothing at all to an engine that compresses.
fn value(number: u64) -> Bytes {
    let mut value = vec![0; VALUE_BYTES];
    for (at, part) in value[..VALUE_BYTES / 2].chunks_mut(8).enumerate() {
        part.copy_from_slice(&mix(number ^ (at as u64) << 32).to_le_bytes());
    }
    Bytes::from(value)
}

fn report(what: &str, count: u64, began: Instant, processor: Duration) {
    let (wall, used) = (began.elapsed(), processor_time() - processor);
    println!(
        "  {what:<28} {:>9.0}/s  {:>7.2} µs wall  {:>7.2} µs CPU each",
        count as f64 / wall.as_secs_f64(),
        wall.as_secs_f64() * 1e6 / count as f64,
        used.as_secs_f64() * 1e6 / count as f64
    );
}

fn write(engine: &dyn Engine, pairs: u64, batch: u64) {
    for start in (0..pairs).step_by(batch as usize) {
        let operations = (start..(start + batch).min(pairs)).map(|number| BatchOperation::Put {
            space: SpaceId(number % SPACES),
            key: key(number),
            value: value(number),
        });
        engine.write(&WriteBatch { operations: operations.collect() }).expect("the batch is written");
    }
}

fn read(engine: &dyn Engine, pairs: u64) {
    for number in 0..READS {
        let number = mix(number) % pairs;
        let value = engine.get(SpaceId(number % SPACES), &key(number)).expect("readable");
        assert_eq!(value.map(|value| value.len()), Some(VALUE_BYTES));
    }
}

fn walk(engine: &dyn Engine, pairs: u64) -> u64 {
    let mut visited = 0;
    for number in 0..RANGES {
        let (number, mut left) = (mix(number) % pairs, RANGE_PAIRS);
        let range = KeyRange { start: &key(number), end: None };
        let walked = engine.range(SpaceId(number % SPACES), range, Direction::Forward, &mut |_, _| {
            visited += 1;
            left -= 1;
            if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        walked.expect("readable");
    }
    visited
}

/// What a scrub costs: every part, one behind the other, without its pauses.
fn scrub(engine: &dyn Engine) {
    let (began, processor) = (Instant::now(), processor_time());
    let (mut entries, mut bytes, mut after) = (0, 0, Vec::new());
    loop {
        let part = engine.verify(&after).expect("readable");
        assert!(part.damaged.is_empty(), "{:?}", part.damaged);
        (entries, bytes) = (entries + part.entries, bytes + part.bytes);
        let Some(next) = part.next else { break };
        after = next.to_vec();
    }
    let (wall, used) = (began.elapsed().as_secs_f64(), (processor_time() - processor).as_secs_f64());
    let mib = bytes as f64 / f64::from(1 << 20);
    println!(
        "  {:<28} {entries} entries, {mib:.1} MiB: {:.0} MiB/s, {:.0} µs CPU a MiB; at 1 MiB/s {:.3} % of a core",
        "scrub",
        mib / wall,
        used * 1e6 / mib,
        used / mib * 100.0
    );
}

/// Bytes the files of a directory take on the disk (holes take none).
fn disk_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(listing) = std::fs::read_dir(path) else { return 0 };
    let sizes = listing.flatten().map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => disk_bytes(&entry.path()),
        _ => entry.metadata().map_or(0, |metadata| metadata.blocks() * 512),
    });
    sizes.sum()
}

fn measure(engine: &dyn Engine, directory: &Path, pairs: u64, batch: u64) {
    println!("{}", engine.name());
    for round in ["put, first", "put, overwriting"] {
        let (began, processor) = (Instant::now(), processor_time());
        write(engine, pairs, batch);
        report(round, pairs, began, processor);
    }
    let (began, processor) = (Instant::now(), processor_time());
    read(engine, pairs);
    report("get, random", READS, began, processor);
    let (began, processor) = (Instant::now(), processor_time());
    let visited = walk(engine, pairs);
    report("range, each pair", visited, began, processor);
    scrub(engine);
    println!("  on disk {} MB for {} MB of values", disk_bytes(directory) >> 20, (pairs * VALUE_BYTES as u64) >> 20);
}

/// With the settings of a node.
fn open(name: &str, directory: &Path) -> Box<dyn Engine> {
    let failed = "the directory opens";
    match name {
        "redb" => Box::new(engine_redb::open(directory, Default::default()).expect(failed)),
        "fjall" => Box::new(engine_fjall::open(directory, Default::default()).expect(failed)),
        "sqlite" => Box::new(engine_sqlite::open(directory, Default::default()).expect(failed)),
        _ => Box::new(engine_lmdb::LmdbEngine::open(directory, Default::default()).expect(failed)),
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().expect("usage: compare DIR [PAIRS] [BATCH] [ENGINE,…]");
    let pairs: u64 = arguments.next().map_or(100_000, |text| text.parse().expect("a number of pairs"));
    let batch: u64 = arguments.next().map_or(8192, |text| text.parse().expect("puts in a batch"));
    let wanted = arguments.next();
    println!("{pairs} pairs of {VALUE_BYTES} bytes, batches of {batch}, {SPACES} spaces, keys in random order");
    let root = Path::new(&root).join("engines-measured");
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(&root).expect("the directory is made");
    for name in ["lmdb", "redb", "fjall", "sqlite"] {
        if wanted.as_ref().is_none_or(|wanted| wanted.split(',').any(|one| one == name)) {
            let directory = root.join(name);
            measure(&*open(name, &directory), &directory, pairs, batch);
        }
    }
    let _ = std::fs::remove_dir_all(&root);
}

//! What proving absence costs: `cargo run --release -p engine-lmdb --example absence -- DIR [PAIRS]`
//!
//! Puts pairs (keys of 40 bytes, values of 100) in batches of 10,000 in random order, new and once more; reads keys that are
//! there and keys that are not; ranges of ten. Processor time each: before and after a change, on one machine, in turns.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // It measures time.

use base_engine::{BatchOperation, Direction, Engine, EngineRead, KeyRange, WriteBatch};
use base_types::SpaceId;
use bytes::Bytes;
use engine_lmdb::{LmdbConfig, LmdbEngine};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

const SPACE: SpaceId = SpaceId(7);
const BATCH: u64 = 10_000;
const READS: u64 = 300_000;
const RANGES: u64 = 50_000;

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

fn key(number: u64, tail: &str) -> Bytes {
    Bytes::from(format!("objects/user/{:020}/{tail}", mix(number)))
}

fn timed(what: &str, count: u64, work: impl FnOnce()) {
    let before = processor_time();
    work();
    println!("  {what:<24} {:>8.2} µs CPU each", (processor_time() - before).as_secs_f64() * 1e6 / count as f64);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = arguments.first().map_or(Path::new("/dev/shm/hive-absence"), Path::new);
    let pairs: u64 = arguments.get(1).and_then(|word| word.parse().ok()).unwrap_or(500_000);
    let engine = LmdbEngine::open(directory, LmdbConfig::default()).expect("a fresh directory");
    let put = |round: u64| {
        for batch in 0..pairs / BATCH {
            let operations = (batch * BATCH..(batch + 1) * BATCH).map(|number| BatchOperation::Put {
                space: SPACE,
                key: key(number, "there"),
                value: Bytes::from(vec![(number + round) as u8; 100]),
            });
            engine.write(&WriteBatch { operations: operations.collect() }).expect("there is room");
        }
    };
    timed("put, new", pairs, || put(0));
    timed("put, overwritten", pairs, || put(1));
    timed("get, there", READS, || {
        for at in 0..READS {
            assert!(engine.get(SPACE, &key(mix(at) % pairs, "there")).expect("sound").is_some());
        }
    });
    timed("get, not there", READS, || {
        for at in 0..READS {
            assert!(engine.get(SPACE, &key(mix(at) % pairs, "where")).expect("sound").is_none());
        }
    });
    timed("range of ten", RANGES, || {
        for at in 0..RANGES {
            let (start, mut left) = (key(mix(at) % pairs, "there"), 10);
            let bounds = KeyRange { start: &start, end: None };
            let walked = engine.range(SPACE, bounds, Direction::Forward, &mut |_, _| {
                left -= 1;
                if left == 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            walked.expect("sound");
        }
    });
    timed("range of all, a pair", pairs, || {
        let walked = engine.range(SPACE, KeyRange::ALL, Direction::Forward, &mut |_, _| ControlFlow::Continue(()));
        walked.expect("sound");
    });
    println!("  {} bytes used", engine.statistics().bytes_used);
}

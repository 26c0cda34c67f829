//! How fast the engine writes and reads: `cargo run --release -p engine-lmdb --example load -- DIR [PAIRS] [BATCH]`
//!
//! Writes 2 KB values in batches, keys ascending and in random order, then reads them back at random,
//! alone and beside a writer. The figures in docs/engines/lmdb.md come from here.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // It measures time.

use base_engine::{BatchOperation, Engine, EngineRead, WriteBatch};
use base_types::SpaceId;
use bytes::Bytes;
use engine_lmdb::{LmdbConfig, LmdbEngine};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 2048;
const SPACES: u64 = 8;
const READS: u64 = 300_000;

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

fn key(number: u64, random: bool) -> Bytes {
    let spread = if random { mix(number) } else { number };
    Bytes::from(format!("objects/{spread:020}"))
}

fn report(what: &str, count: u64, began: Instant, processor: Duration) {
    let (wall, used) = (began.elapsed(), processor_time() - processor);
    println!(
        "{what:<34} {:>9.0}/s  {:>6.2} µs wall  {:>6.2} µs CPU each",
        count as f64 / wall.as_secs_f64(),
        wall.as_secs_f64() * 1e6 / count as f64,
        used.as_secs_f64() * 1e6 / count as f64
    );
}

fn write(engine: &LmdbEngine, from: u64, count: u64, batch: u64, random: bool) {
    for start in (from..from + count).step_by(batch as usize) {
        let operations = (start..(start + batch).min(from + count)).map(|number| BatchOperation::Put {
            space: SpaceId(number % SPACES),
            key: key(number, random),
            value: Bytes::from(vec![number as u8; VALUE_BYTES]),
        });
        engine.write(&WriteBatch { operations: operations.collect() }).expect("the batch is written");
    }
}

fn read(engine: &LmdbEngine, keys: u64, reads: u64) {
    for number in 0..reads {
        let number = mix(number) % keys;
        let value = engine.get(SpaceId(number % SPACES), &key(number, true)).expect("readable");
        assert_eq!(value.map(|value| value.len()), Some(VALUE_BYTES));
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().expect("usage: load DIR [PAIRS] [BATCH]");
    let pairs: u64 = arguments.next().map_or(200_000, |text| text.parse().expect("a number of pairs"));
    let batch: u64 = arguments.next().map_or(8192, |text| text.parse().expect("puts in a batch"));
    println!("{pairs} pairs of {VALUE_BYTES} bytes, batches of {batch}, {SPACES} spaces");
    for random in [false, true] {
        let directory = format!("{root}/load-{}", if random { "random" } else { "ascending" });
        let _ = std::fs::remove_dir_all(&directory);
        let engine = LmdbEngine::open(&directory, LmdbConfig::default()).expect("the directory opens");
        let order = if random { "random" } else { "ascending" };
        for round in ["first", "overwriting"] {
            let (began, processor) = (Instant::now(), processor_time());
            write(&engine, 0, pairs, batch, random);
            report(&format!("put, {order}, {round}"), pairs, began, processor);
        }
        let file = std::fs::metadata(format!("{directory}/data.mdb")).expect("a file").len();
        println!("  file {} MB, in use {} MB", file >> 20, engine.statistics().bytes_used >> 20);
        if random {
            reads(&engine, pairs, batch);
        }
    }
}

fn reads(engine: &LmdbEngine, pairs: u64, batch: u64) {
    let (began, processor) = (Instant::now(), processor_time());
    read(engine, pairs, READS);
    report("get, random", READS, began, processor);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) {
                write(engine, 0, batch.min(pairs), batch, true);
                rounds += 1;
            }
            rounds
        });
        let began = Instant::now();
        read(engine, pairs, READS);
        let wall = began.elapsed();
        stop.store(true, Ordering::Relaxed);
        let rounds: u64 = writer.join().expect("the writer ends");
        println!(
            "get, random, beside a writer      {:>9.0}/s  {:>6.2} µs wall ({rounds} batches written meanwhile)",
            READS as f64 / wall.as_secs_f64(),
            wall.as_secs_f64() * 1e6 / READS as f64
        );
    });
}

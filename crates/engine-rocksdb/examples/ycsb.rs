//! What MetaHive costs, in the paper's setting: keys of 20 bytes, values of 100, zipfian, three mixes.
//! `cargo run --release -p engine-rocksdb --example ycsb -- DIR [RECORDS] [OPERATIONS] [CACHE_MIB] [WORD…]`
//!
//! Variants take turns, a slice of operations each, so that a noisy machine is noisy to all:
//!
//!   rocksdb    as it is, with the settings it has of itself
//!   by-hash    RocksDB with the layout of blocks that MetaHive's tables have: what metadata itself costs
//!   metahive   with MetaHive, as the engine runs
//!   in-value   with the layout of `by-hash`, and a checksum at the end of each value
//!   again      the first once more, opened last: what a difference is worth
//!
//! Without a fourth number it is the paper's setting: tables read through the system's cache, RocksDB's own as small as
//! RocksDB 8.1 has it (8 MiB). WORD `direct` reads past the system's cache: a GET that misses RocksDB's own goes to the
//! disk. Names of variants leave the others out; the first is what the others are compared with.
//!
//! Medians and means without the slowest hundredth; differences to the first variant.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // It measures time.

use base_engine::stored::{RawStore, RawView};
use engine_rocksdb::{same_towers, RocksConfig, RocksStore, Work};
use std::path::Path;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const KEY_BYTES: usize = 20;
const VALUE_BYTES: usize = 100;
const SUM_BYTES: usize = 8;
const SLICE: u64 = 2_000;
const LOAD_BATCH: u64 = 1000;
const THETA: f64 = 0.99;
const WORKLOADS: [(&str, u64); 3] = [("read-only", 0), ("read-heavy, 5 % puts", 5), ("update-heavy, 50 % puts", 50)];

#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    stock_blocks: bool,
    metahive: bool,
    in_value: bool,
}

const VARIANTS: [Variant; 5] = [
    Variant { name: "rocksdb", stock_blocks: true, metahive: false, in_value: false },
    Variant { name: "by-hash", stock_blocks: false, metahive: false, in_value: false },
    Variant { name: "metahive", stock_blocks: false, metahive: true, in_value: false },
    Variant { name: "in-value", stock_blocks: false, metahive: false, in_value: true },
    Variant { name: "again", stock_blocks: true, metahive: false, in_value: false },
];

/// YCSB's generator: the most asked-for first, then scattered over the keys.
struct Zipfian {
    items: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    state: u64,
}

impl Zipfian {
    fn new(items: u64, seed: u64) -> Zipfian {
        let zeta = |count: u64| (1..=count).map(|i| 1.0 / (i as f64).powf(THETA)).sum::<f64>();
        let (all, two) = (zeta(items), zeta(2));
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - two / all);
        Zipfian { items: items as f64, alpha: 1.0 / (1.0 - THETA), zeta: all, eta, state: seed }
    }

    fn draw(&mut self) -> u64 {
        self.state = mix(self.state);
        self.state
    }

    fn next(&mut self) -> u64 {
        let u = (self.draw() >> 11) as f64 / (1u64 << 53) as f64;
        let uz = u * self.zeta;
        let rank = match uz {
            _ if uz < 1.0 => 0,
            _ if uz < 1.0 + 0.5f64.powf(THETA) => 1,
            _ => (self.items * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64,
        };
        mix(rank) % self.items as u64
    }
}

fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[..4].copy_from_slice(b"user");
    for (at, byte) in key[4..].iter_mut().rev().enumerate() {
        *byte = b'0' + (number / 10u64.pow(at as u32) % 10) as u8;
    }
    key
}

fn value(number: u64, variant: Variant) -> Vec<u8> {
    let mut value: Vec<u8> =
        (0..VALUE_BYTES as u64 / 4).flat_map(|i| (mix(number ^ i << 40) as u32).to_le_bytes()).collect();
    if variant.in_value {
        let sum = xxh3_64(&value);
        value.extend_from_slice(&sum.to_le_bytes());
    }
    value
}

/// User and system time of this thread, or of all (`libc::RUSAGE_SELF`).
fn processor_time_of(whose: i32) -> Duration {
    // SAFETY: getrusage fills the zeroed structure it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(whose, &mut usage);
        usage
    };
    let of = |time: libc::timeval| Duration::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64);
    of(usage.ru_utime) + of(usage.ru_stime)
}

fn processor_time() -> Duration {
    processor_time_of(libc::RUSAGE_THREAD)
}

/// Bytes of memory that are asked for and not given back, RocksDB's among them.
fn heap_bytes() -> u64 {
    // SAFETY: it reads the allocator's own numbers.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}

#[derive(Default)]
struct Times {
    gets: Vec<u32>,
    puts: Vec<u32>,
    processor: Duration,
    operations: u64,
    work: Work,
}

/// Of what remains without the slowest hundredth.
#[derive(Clone, Copy)]
struct Middle {
    median: f64,
    mean: f64,
}

fn middle(times: &mut Vec<u32>) -> Middle {
    times.sort_unstable();
    times.truncate(times.len() - times.len() / 100);
    let median = times.get(times.len() / 2).map_or(0.0, |nanoseconds| f64::from(*nanoseconds));
    let sum: f64 = times.iter().map(|nanoseconds| f64::from(*nanoseconds)).sum();
    Middle { median, mean: sum / times.len().max(1) as f64 }
}

/// How much more, in hundredths.
fn more(now: f64, then: f64) -> f64 {
    if then > 0.0 {
        (now / then - 1.0) * 100.0
    } else {
        0.0
    }
}

fn get(store: &RocksStore, key: &[u8], variant: Variant) {
    let found = store.newest().and_then(|view| view.get(key)).expect("read").expect("there");
    if variant.in_value {
        let (value, sum) = found.split_at(found.len() - SUM_BYTES);
        assert_eq!(xxh3_64(value).to_le_bytes(), sum);
    }
}

/// Writes all records, merges them, and says what that took.
fn load(store: &RocksStore, records: u64, variant: Variant) {
    same_towers(1);
    let (began, before) = (Instant::now(), processor_time_of(libc::RUSAGE_SELF));
    for first in (0..records).step_by(LOAD_BATCH as usize) {
        let pairs: Vec<_> = (first..(first + LOAD_BATCH).min(records))
            .map(|i| i * 7_919 % records)
            .map(|i| (key(i), value(i, variant)))
            .collect();
        store.put_pairs(&pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect::<Vec<_>>()).expect("load");
    }
    store.write_out().expect("flush");
    let (loaded, used_loading) = (began.elapsed(), processor_time_of(libc::RUSAGE_SELF) - before);
    store.compact().expect("compact");
    let (merged, used) = (began.elapsed() - loaded, processor_time_of(libc::RUSAGE_SELF) - before);
    println!(
        "{:<9} loaded in {loaded:.2?} (CPU {used_loading:.2?}), merged in {merged:.2?} (CPU {:.2?})",
        variant.name,
        used - used_loading
    );
}

/// What tables are made of, a pair.
fn shape(store: &RocksStore) {
    let shape = store.shape().expect("properties");
    let (pairs, blocks) = (shape.entries.max(1) as f64, shape.blocks.max(1) as f64);
    println!(
        "          tables of {:.1} MiB; a pair: data {:.2}, index {:.2}, filter {:.2} bytes; a block: {:.1} pairs, {:.0} bytes",
        store.bytes_used() as f64 / f64::from(1 << 20),
        shape.data_bytes as f64 / pairs,
        shape.index_bytes as f64 / pairs,
        shape.filter_bytes as f64 / pairs,
        pairs / blocks,
        shape.data_bytes as f64 / blocks,
    );
}

/// What a scrub costs: every table, one behind the other, without its pauses.
fn scrub(store: &RocksStore) {
    let (began, before, mut after, mut bytes, mut entries) = (Instant::now(), processor_time(), 0, 0, 0);
    while let Some(verified) = store.verify_file(after).expect("verified") {
        (after, bytes, entries) = (verified.file, bytes + verified.bytes, entries + verified.entries);
    }
    let (wall, used) = (began.elapsed().as_secs_f64(), (processor_time() - before).as_secs_f64());
    let mib = bytes as f64 / f64::from(1 << 20);
    println!(
        "          scrub: {entries} entries, {mib:.1} MiB: {:.0} MiB/s, {:.0} µs CPU a MiB; at 1 MiB/s {:.3} % of a core",
        mib / wall,
        used * 1e6 / mib,
        used / mib * 100.0
    );
}

/// A slice of operations of one variant.
fn turn(store: &RocksStore, variant: Variant, asked: &[([u8; KEY_BYTES], u64)], puts_of_100: u64, times: &mut Times) {
    let (before, work) = (processor_time(), Work::of_this_thread());
    for (key, draw) in asked {
        if draw % 100 < puts_of_100 {
            let value = value(xxh3_64_with_seed(key, *draw), variant);
            let began = Instant::now();
            store.put_pairs(&[(key, &value)]).expect("put");
            times.puts.push(began.elapsed().as_nanos().min(u32::MAX.into()) as u32);
        } else {
            let began = Instant::now();
            get(store, key, variant);
            times.gets.push(began.elapsed().as_nanos().min(u32::MAX.into()) as u32);
        }
    }
    times.processor += processor_time() - before;
    times.work = times.work.and(Work::of_this_thread().since(work));
    times.operations += asked.len() as u64;
}

/// Who has which turn: by chance, so that none always comes behind the same other.
fn order(count: usize, slice: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by_key(|at| mix(mix(slice) ^ *at as u64));
    order
}

fn run(stores: &[(Variant, RocksStore)], records: u64, operations: u64, puts_of_100: u64) -> Vec<Times> {
    let mut all: Vec<Times> = stores.iter().map(|_| Times::default()).collect();
    let mut zipfian = Zipfian::new(records, puts_of_100 + 1);
    for slice in 0..operations.div_ceil(SLICE) {
        let asked: Vec<_> = (0..SLICE).map(|_| (key(zipfian.next()), zipfian.draw())).collect();
        for at in order(stores.len(), slice) {
            let (variant, store) = &stores[at];
            same_towers(slice as u32 + 1);
            turn(store, *variant, &asked, puts_of_100, &mut all[at]);
        }
    }
    all
}

fn print(stores: &[(Variant, RocksStore)], all: &mut [Times]) {
    let mut first: Option<(Middle, Middle, f64, f64)> = None;
    for ((variant, _), times) in stores.iter().zip(all) {
        let gets_counted = times.gets.len().max(1) as f64;
        let (gets, puts) = (middle(&mut times.gets), middle(&mut times.puts));
        let processor = times.processor.as_secs_f64() * 1e6 / times.operations as f64;
        let read = times.work.blocks_read as f64 / gets_counted;
        let base = first.get_or_insert((gets, puts, processor, read));
        println!(
            "  {:<9} GET median {:>6.0} ns {:>+6.2} % mean {:>6.0} {:>+6.2} %   PUT median {:>6.0} ns {:>+6.2} % mean {:>6.0} {:>+6.2} %   CPU {:>6.2} µs an operation {:>+6.2} %",
            variant.name,
            gets.median,
            more(gets.median, base.0.median),
            gets.mean,
            more(gets.mean, base.0.mean),
            puts.median,
            more(puts.median, base.1.median),
            puts.mean,
            more(puts.mean, base.1.mean),
            processor,
            more(processor, base.2),
        );
        println!(
            "            a GET: blocks from the cache {:.4}, read {read:.4} ({:+.2} %) of {:.0} bytes; keys compared {:.1}",
            times.work.blocks_cached as f64 / gets_counted,
            more(read, base.3),
            times.work.bytes_read as f64 / times.work.blocks_read.max(1) as f64,
            times.work.keys_compared as f64 / gets_counted,
        );
    }
}

fn open(directory: &str, variant: Variant, cache_mib: u64, direct_reads: bool) -> RocksStore {
    let path = Path::new(directory).join(variant.name);
    std::fs::create_dir_all(&path).expect("make the directory");
    let Variant { metahive, stock_blocks, .. } = variant;
    let cache_bytes = cache_mib << 20;
    let config = RocksConfig { metahive, stock_blocks, sync: false, direct_reads, cache_bytes, ..Default::default() };
    RocksStore::open(&path, false, &config).expect("open")
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("the first argument is a directory that is empty or not there");
    let rest: Vec<String> = arguments.collect();
    let (numbers, words): (Vec<_>, Vec<_>) = rest.iter().partition(|text| text.parse::<u64>().is_ok());
    let number = |at: usize, default| numbers.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (records, operations, cache_mib) = (number(0, 1_000_000), number(1, 2_000_000), number(2, 8));
    let asked_for = |name: &str| words.iter().any(|word| *word == name);
    let direct_reads = asked_for("direct");
    let known = |word: &str| word == "direct" || VARIANTS.iter().any(|variant| variant.name == word);
    assert!(words.iter().all(|word| known(word)), "one of {words:?} is no word it knows");
    let chosen: Vec<_> = VARIANTS.into_iter().filter(|variant| asked_for(variant.name)).collect();
    let chosen = if chosen.is_empty() { VARIANTS.to_vec() } else { chosen };
    println!(
        "{records} records, {operations} operations a workload, cache {cache_mib} MiB, direct reads: {direct_reads}"
    );
    let mut stores = Vec::new();
    for variant in chosen {
        let heap_before = heap_bytes();
        let store = open(&directory, variant, cache_mib, direct_reads);
        load(&store, records, variant);
        shape(&store);
        // The cache is full, or has all of it.
        (0..records).for_each(|number| get(&store, &key(number), variant));
        let heap_mib = heap_bytes().saturating_sub(heap_before) as f64 / f64::from(1 << 20);
        println!("          {heap_mib:.1} MiB of memory");
        if variant.metahive {
            scrub(&store);
        }
        stores.push((variant, store));
    }
    for (name, puts) in WORKLOADS {
        println!("{name}");
        print(&stores, &mut run(&stores, records, operations, puts));
    }
    for (variant, store) in stores.iter().filter(|(variant, _)| variant.metahive) {
        println!("{}: {:?}", variant.name, store.counters());
    }
}

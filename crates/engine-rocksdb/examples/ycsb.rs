//! What MetaHive costs, in the paper's setting: keys of 20 bytes, values of 100, zipfian, three mixes.
//! `cargo run --release -p engine-rocksdb --example ycsb -- DIR [RECORDS] [OPERATIONS] [CACHE_MIB] [direct]`
//!
//! Three variants take turns, a slice of operations each, so that a noisy machine is noisy to all: RocksDB
//! as it is, with MetaHive, and with a checksum at the end of each value. Medians without the slowest
//! hundredth. `direct` reads past the system's cache: then a GET that misses RocksDB's own goes to the disk.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // It measures time.

use base_engine::stored::{RawStore, RawView};
use engine_rocksdb::{RocksConfig, RocksStore};
use std::path::Path;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const KEY_BYTES: usize = 20;
const VALUE_BYTES: usize = 100;
const SUM_BYTES: usize = 8;
const SLICE: u64 = 10_000;
const LOAD_BATCH: u64 = 1000;
const THETA: f64 = 0.99;
const WORKLOADS: [(&str, u64); 3] = [("read-only", 0), ("read-heavy, 5 % puts", 5), ("update-heavy, 50 % puts", 50)];

#[derive(Clone, Copy, PartialEq)]
enum Variant {
    Plain,
    MetaHive,
    InValue,
}

const VARIANTS: [(&str, Variant); 3] =
    [("rocksdb", Variant::Plain), ("metahive", Variant::MetaHive), ("in value", Variant::InValue)];

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
    if variant == Variant::InValue {
        let sum = xxh3_64(&value);
        value.extend_from_slice(&sum.to_le_bytes());
    }
    value
}

/// User and system time of this thread.
fn processor_time() -> Duration {
    // SAFETY: getrusage fills the zeroed structure it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    let of = |time: libc::timeval| Duration::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64);
    of(usage.ru_utime) + of(usage.ru_stime)
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
}

fn median(times: &mut Vec<u32>) -> f64 {
    times.sort_unstable();
    times.truncate(times.len() - times.len() / 100);
    times.get(times.len() / 2).map_or(0.0, |nanoseconds| f64::from(*nanoseconds))
}

fn get(store: &RocksStore, key: &[u8], variant: Variant) {
    let found = store.newest().and_then(|view| view.get(key)).expect("read").expect("there");
    if variant == Variant::InValue {
        let (value, sum) = found.split_at(found.len() - SUM_BYTES);
        assert_eq!(xxh3_64(value).to_le_bytes(), sum);
    }
}

fn load(store: &RocksStore, records: u64, variant: Variant) -> (Duration, Duration) {
    let began = Instant::now();
    for first in (0..records).step_by(LOAD_BATCH as usize) {
        let pairs: Vec<_> = (first..(first + LOAD_BATCH).min(records))
            .map(|i| i * 7_919 % records)
            .map(|i| (key(i), value(i, variant)))
            .collect();
        store.put_pairs(&pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect::<Vec<_>>()).expect("load");
    }
    store.write_out().expect("flush");
    let loaded = began.elapsed();
    store.compact().expect("compact");
    (loaded, began.elapsed() - loaded)
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
        "scrub     {entries} entries, {mib:.1} MiB: {:.0} MiB/s, {:.0} µs CPU a MiB; at 1 MiB/s {:.3} % of a core",
        mib / wall,
        used * 1e6 / mib,
        used / mib * 100.0
    );
}

fn run(stores: &[RocksStore], records: u64, operations: u64, puts_of_100: u64) -> Vec<Times> {
    let mut all: Vec<Times> = stores.iter().map(|_| Times::default()).collect();
    let mut zipfian = Zipfian::new(records, puts_of_100 + 1);
    for slice in 0..operations.div_ceil(SLICE) {
        let asked: Vec<_> = (0..SLICE).map(|_| (key(zipfian.next()), zipfian.draw())).collect();
        for turn in 0..stores.len() {
            let at = (turn + slice as usize) % stores.len();
            let (times, variant) = (&mut all[at], VARIANTS[at].1);
            let before = processor_time();
            for (key, draw) in &asked {
                if draw % 100 < puts_of_100 {
                    let value = value(xxh3_64_with_seed(key, *draw), variant);
                    let began = Instant::now();
                    stores[at].put_pairs(&[(key, &value)]).expect("put");
                    times.puts.push(began.elapsed().as_nanos().min(u32::MAX.into()) as u32);
                } else {
                    let began = Instant::now();
                    get(&stores[at], key, variant);
                    times.gets.push(began.elapsed().as_nanos().min(u32::MAX.into()) as u32);
                }
            }
            times.processor += processor_time() - before;
            times.operations += SLICE;
        }
    }
    all
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("the first argument is a directory that is empty or not there");
    let mut number = |default: u64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (records, operations, cache_mib) = (number(1_000_000), number(2_000_000), number(8));
    let direct_reads = arguments.next().is_some_and(|word| word == "direct");
    println!(
        "{records} records, {operations} operations a workload, cache {cache_mib} MiB, direct reads: {direct_reads}"
    );
    let mut stores = Vec::new();
    for (name, variant) in VARIANTS {
        let heap_before = heap_bytes();
        let path = Path::new(&directory).join(name);
        std::fs::create_dir_all(&path).expect("make the directory");
        let metahive = variant == Variant::MetaHive;
        let config =
            RocksConfig { metahive, sync: false, direct_reads, cache_bytes: cache_mib << 20, ..Default::default() };
        let store = RocksStore::open(&path, false, &config).expect("open");
        let (loaded, merged) = load(&store, records, variant);
        let mib = store.bytes_used() as f64 / f64::from(1 << 20);
        // The cache is full, or has all of it.
        (0..records).for_each(|number| get(&store, &key(number), variant));
        let heap_mib = heap_bytes().saturating_sub(heap_before) as f64 / f64::from(1 << 20);
        println!(
            "{name:<9} loaded in {loaded:.1?}, merged in {merged:.1?}, {mib:.1} MiB on disk, {heap_mib:.1} MiB of memory"
        );
        if metahive {
            scrub(&store);
        }
        stores.push(store);
    }
    for (name, puts) in WORKLOADS {
        println!("{name}");
        let mut all = run(&stores, records, operations, puts);
        let each =
            |times: &mut Times| (median(&mut times.gets), median(&mut times.puts), times.processor.as_secs_f64());
        let medians: Vec<_> = all.iter_mut().map(each).collect();
        let plain = medians[0];
        for ((times, (name, _)), (gets, puts, processor)) in all.iter().zip(VARIANTS).zip(medians) {
            let more = |now: f64, then: f64| if then > 0.0 { (now / then - 1.0) * 100.0 } else { 0.0 };
            println!(
                "  {name:<9} GET {gets:>8.0} ns {:>+6.2} %   PUT {puts:>8.0} ns {:>+6.2} %   CPU {:>6.2} µs an operation {:>+6.2} %",
                more(gets, plain.0),
                more(puts, plain.1),
                processor * 1e6 / times.operations as f64,
                more(processor, plain.2),
            );
        }
    }
    println!("{:?}", stores[1].counters());
}

//! What every `tests/fuzz_corpus.rs` does: each kept seed, and mutations of it, through one decoder.
//!
//!   seeds/<target>/* ─▶ as they are, then flips, cuts, splices, odd numbers ─▶ entry(bytes)
//!
//! Always: the same inputs on every machine (a generator with a fixed seed); a failing input is
//! written out with the command that replays it; no input may make a decoder hold more memory than
//! `Bounds` allows (a counting allocator, per thread).
//! Not here: what an entry checks (fuzz/entries), coverage-guided runs (scripts/fuzz.sh).
#![allow(dead_code)] // Not every crate needs every bound.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // A test may read files and clocks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Inputs each target is given at the least.
pub const INPUTS_MIN: usize = 2_000;
/// A slow machine stops here, but not before every seed was fed as it is.
pub const SECONDS_MAX: Duration = Duration::from_secs(3);
/// The longest input a mutation grows to.
const INPUT_BYTES_MAX: usize = 8 << 10;
/// The most changes one mutation makes.
const CHANGES_MAX: u64 = 6;

/// How much memory an entry may hold at once for an input.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Whatever the input.
    pub base: usize,
    /// For each byte of it.
    pub per_byte: usize,
}

/// For decoders: what they make is a bounded multiple of what they read.
pub const DECODER: Bounds = Bounds { base: 256 << 10, per_byte: 512 };

/// Counts what the running thread holds.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    // A thread that ends has no counters any more; what it frees then is of no interest.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + change);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is the system's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes held above the start while `run` ran.
fn peak_of(run: impl FnOnce()) -> usize {
    let start = LIVE.with(Cell::get);
    PEAK.with(|peak| peak.set(start));
    run();
    (PEAK.with(Cell::get) - start).max(0) as usize
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`; zero for zero.
    fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }
}

/// The numbers decoders stumble over, as they stand in bytes.
const ODD: &[&[u8]] = &[
    &[0],
    &[0xff],
    &[0x7f],
    &[0x80],
    &[0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff],
    &[0, 0, 0, 0x80],
    &[0xff, 0xff, 0xff, 0x7f],
    &[0xff; 8],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0x80, 0x80, 0x04],
    b"\x00",
    b"9223372036854775808",
    b"\"",
    b"\\u0000",
    b"%",
    b"[[[[",
];

fn mutate(random: &mut Random, seeds: &[Vec<u8>], out: &mut Vec<u8>) {
    for _ in 0..=random.below(CHANGES_MAX) {
        let at = random.below(out.len() as u64 + 1) as usize;
        match random.below(8) {
            0 | 1 => {
                if let Some(byte) = out.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            2 => {
                if let Some(byte) = out.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
            3 => out.truncate(at),
            4 => {
                let odd = ODD[random.below(ODD.len() as u64) as usize];
                let end = (at + odd.len()).min(out.len());
                out.splice(at..end, odd.iter().copied());
            }
            5 => {
                let odd = ODD[random.below(ODD.len() as u64) as usize];
                out.splice(at..at, odd.iter().copied());
            }
            6 => {
                let end = at + random.below((out.len() - at) as u64 + 1) as usize;
                out.drain(at..end);
            }
            _ => {
                let other = &seeds[random.below(seeds.len() as u64) as usize];
                let from = random.below(other.len() as u64 + 1) as usize;
                let until = from + random.below((other.len() - from) as u64 + 1) as usize;
                let end = at + random.below((out.len() - at) as u64 + 1) as usize;
                out.splice(at..end, other[from..until].iter().copied());
            }
        }
    }
    out.truncate(INPUT_BYTES_MAX);
}

/// Where the repository's fuzz folder is, from any crate under crates/.
fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The seeds of a target in the order of their names; those to mutate first. A seed named `slow-…`
/// is fed as it is and not mutated: its kin would take all the time there is.
fn seeds_of(target: &str) -> (Vec<Vec<u8>>, usize) {
    let folder = fuzz_folder().join("seeds").join(target);
    let listed = std::fs::read_dir(&folder).unwrap_or_else(|error| {
        panic!("no seeds in {}: {error}; run: cd fuzz && cargo run --example seeds", folder.display())
    });
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.expect("a folder's entry is read").path()).collect();
    let slow = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("slow-"));
    paths.sort_by_key(|path| (slow(path), path.clone()));
    let mutated = paths.iter().filter(|path| !slow(path)).count();
    assert!(mutated > 0, "{} is empty", folder.display());
    (paths.iter().map(|path| std::fs::read(path).expect("a seed is read")).collect(), mutated)
}

fn feed(target: &str, bounds: Bounds, entry: fn(&[u8]), bytes: &[u8]) {
    let mut panicked = false;
    let held = peak_of(|| panicked = std::panic::catch_unwind(|| entry(bytes)).is_err());
    let allowed = bounds.base + bounds.per_byte * bytes.len();
    if panicked || held > allowed {
        let path = std::env::temp_dir().join(format!("hive-fuzz-{target}-{}", std::process::id()));
        std::fs::write(&path, bytes).expect("the failing input is kept");
        let why =
            if panicked { "panicked".into() } else { format!("held {held} bytes of memory, {allowed} are allowed") };
        panic!(
            "{target} {why} on an input of {} bytes; keep it: cp {} fuzz/seeds/{target}/; replay under the fuzzer: \
             cargo +nightly fuzz run {target} {}",
            bytes.len(),
            path.display(),
            path.display()
        );
    }
}

/// Feeds the seeds of `target` and mutations of them to `entry`.
pub fn run(target: &str, bounds: Bounds, entry: fn(&[u8])) {
    let started = Instant::now();
    let (seeds, mutated) = seeds_of(target);
    // Lazily made things (tables, thread-locals) are not the first input's.
    entry(&seeds[0]);
    for seed in &seeds {
        feed(target, bounds, entry, seed);
    }
    let mut random = Random(0x4869_7665);
    let mut fed = seeds.len();
    while fed < INPUTS_MIN && started.elapsed() < SECONDS_MAX {
        let mut bytes = seeds[fed % mutated].clone();
        mutate(&mut random, &seeds[..mutated], &mut bytes);
        feed(target, bounds, entry, &bytes);
        fed += 1;
    }
    println!("{target}: {} seeds, {fed} inputs, {} ms", seeds.len(), started.elapsed().as_millis());
}

//! What single flipped bits do: `cargo run --release -p engine-lmdb --example rot -- DIR TRIALS [SEED]`
//!
//! Fills an engine, then per trial flips one bit in a copy of its file and asks for everything, in a process of its own: a
//! damaged B-tree may end it. Where the bit lies: in the key of a leaf, in a leaf's other bytes, anywhere in a branch page.
//! Prints how many trials changed nothing, were told, ended the process, or (never, it is hoped) gave a wrong answer.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Files and processes of its own.

use base_engine::{BatchOperation, Direction, Engine, EngineRead, KeyRange, WriteBatch};
use base_types::SpaceId;
use bytes::Bytes;
use engine_lmdb::{LmdbConfig, LmdbEngine};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, ExitCode};

const SPACES: u64 = 3;
const PAIRS: u64 = 6_000;
const PAGE: usize = 4096;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
/// What the asking process says.
const RIGHT: i32 = 0;
const TOLD: i32 = 10;
const WRONG: i32 = 11;

fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn pair(space: u64, number: u64) -> (Bytes, Bytes) {
    let key = format!("{}/{:016x}", ["users", "objects"][number as usize % 2], mix(number ^ space << 32));
    (key.into(), vec![number as u8; 20 + (mix(number) % 90) as usize].into())
}

fn open(directory: &Path) -> Result<LmdbEngine, base_engine::EngineError> {
    LmdbEngine::open(directory, LmdbConfig { map_bytes_max: 256 << 20, ..LmdbConfig::default() })
}

/// In several batches, some keys gone again: pages of several ages.
fn fill(directory: &Path) {
    let engine = open(directory).expect("a fresh directory");
    for round in 0..10 {
        let mut batch = WriteBatch::default();
        for space in (0..SPACES).map(SpaceId) {
            for number in (0..PAIRS).filter(|number| mix(*number) % 10 == round) {
                let (key, value) = pair(space.0, number);
                batch.operations.push(BatchOperation::Put { space, key, value });
                let key = Bytes::from(format!("gone/{number}"));
                batch.operations.push(BatchOperation::Put { space, key, value: Bytes::new() });
                let key = Bytes::from(format!("gone/{number}"));
                batch.operations.push(BatchOperation::Delete { space, key });
            }
        }
        engine.write(&batch).expect("there is room");
    }
}

/// Asks for every key, for one beside each, and for ranges.
fn ask(directory: &Path) -> i32 {
    let Ok(engine) = open(directory) else { return TOLD };
    let mut outcome = RIGHT;
    let mut judge = |right: Option<bool>| match right {
        Some(true) => {}
        Some(false) => outcome = WRONG,
        None => outcome = outcome.max(TOLD),
    };
    for space in (0..SPACES).map(SpaceId) {
        let mut all: Vec<(Bytes, Bytes)> = (0..PAIRS).map(|number| pair(space.0, number)).collect();
        for (key, value) in &all {
            judge(engine.get(space, key).ok().map(|found| found.as_ref() == Some(value)));
            judge(engine.get(space, &[&key[..], b"-"].concat()).ok().map(|found| found.is_none()));
        }
        all.sort();
        for at in (0..all.len()).step_by(50) {
            let mut seen = Vec::new();
            let bounds = KeyRange { start: &all[at].0, end: all.get(at + 50).map(|(key, _)| &key[..]) };
            let walked = engine.range(space, bounds, Direction::Forward, &mut |key, value| {
                seen.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
                ControlFlow::Continue(())
            });
            judge(walked.ok().map(|()| seen == all[at..all.len().min(at + 50)]));
        }
    }
    judge(engine.spaces().ok().map(|spaces| spaces.len() as u64 == SPACES));
    outcome
}

/// Bits of one kind on pages that are in use by their looks: offsets into the file.
fn places(data: &[u8], kind: &str) -> Vec<(usize, usize)> {
    let u16_at = |at: usize| usize::from(u16::from_ne_bytes([data[at], data[at + 1]]));
    let mut found = Vec::new();
    for page in (2 * PAGE..data.len() / PAGE * PAGE).step_by(PAGE) {
        let number = u64::from_ne_bytes(data[page..page + 8].try_into().unwrap_or_default());
        let (flags, lower) = (u16_at(page + 10), u16_at(page + 12));
        if number != (page / PAGE) as u64 || !(16..=PAGE).contains(&lower) {
            continue;
        }
        match (kind, flags as u16 & (BRANCH | LEAF)) {
            ("branch", BRANCH) | ("leaf", LEAF) => found.push((page, PAGE)),
            ("key", LEAF) => {
                for slot in (page + 16..page + lower).step_by(2) {
                    let node = page + u16_at(slot);
                    found.push((node + 8, u16_at(node + 6)));
                }
            }
            _ => {}
        }
    }
    found
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(directory) = arguments.first().map(Path::new) else {
        eprintln!("usage: rot DIR TRIALS [SEED]");
        return ExitCode::FAILURE;
    };
    if arguments.get(1).is_some_and(|word| word == "ask") {
        return ExitCode::from(ask(directory) as u8);
    }
    let number = |at: usize, or: u64| arguments.get(at).and_then(|word| word.parse().ok()).unwrap_or(or);
    let (trials, mut seed) = (number(1, 300), number(2, 1));
    let (source, copy) = (directory.join("source"), directory.join("copy"));
    fill(&source);
    assert_eq!(ask(&source), RIGHT, "before any flip");
    let data = std::fs::read(source.join("data.mdb")).expect("it was written");
    let own = std::env::current_exe().expect("it runs");
    for kind in ["key", "leaf", "branch"] {
        let places = places(&data, kind);
        let (mut right, mut told, mut ended, mut wrong) = (0, 0, 0, 0);
        for _ in 0..trials {
            seed += 1;
            let (at, length) = places[mix(seed) as usize % places.len()];
            let bit = mix(seed ^ 1 << 60) as usize % (length.max(1) * 8);
            let mut damaged = data.clone();
            damaged[at + bit / 8] ^= 1 << (bit % 8);
            let _ = std::fs::remove_dir_all(&copy);
            std::fs::create_dir_all(&copy).expect("there is room");
            std::fs::copy(source.join("ENGINE"), copy.join("ENGINE")).expect("there is room");
            std::fs::write(copy.join("data.mdb"), damaged).expect("there is room");
            let asked = Command::new(&own).arg(&copy).arg("ask").stderr(std::process::Stdio::null()).status();
            match asked.ok().and_then(|status| status.code()) {
                Some(RIGHT) => right += 1,
                Some(TOLD) => told += 1,
                Some(WRONG) => {
                    wrong += 1;
                    println!("  wrong: bit {bit} at offset {at} (page {})", at / PAGE);
                }
                _ => ended += 1,
            }
        }
        println!(
            "{kind:<8} {trials} flips: {right} changed nothing, {told} told, {ended} ended the process, {wrong} wrong"
        );
    }
    ExitCode::SUCCESS
}

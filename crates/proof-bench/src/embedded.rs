//! The fourth paper's tables: the embedded store beside the libraries it is built on, in this process:
//! puts only, gets only, both, on 1…N cores, weak and strong.
//!
//! ```text
//!   a cell: a fresh directory ─▶ puts ─▶ closed, opened again ─▶ gets ─▶ puts and gets in turn
//! ```
//!
//! As many threads as cores, keys in random order. Weak: acknowledged in memory (or in the system's, for the
//! libraries) and synced once a second; strong: each write synced before it returns, once more with many
//! threads, which may share a sync where a library lets them. Gets follow an opening, so that none is
//! answered from what was just written.
//!
//! By design: all systems are measured in turn in each round, not one after the other.
//! Not here: how each library is called (`peers.rs`), a world's figures (`workloads.rs`).

mod peers;

use crate::measure::{cpu_time, histogram, Run};
use crate::report::{Measurement, Report};
use crate::workloads::say;
use crate::{BenchError, Options};
use hdrhistogram::Histogram;
use peers::{Peer, System, SYSTEMS};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The suite's name in the report.
const SUITE: &str = "embedded";
/// Operations of a cell, as in the paper.
const SIZES: [u64; 2] = [10_000, 100_000];
/// Strong writes take a sync each: no more than so many of them.
const STRONG_OPERATIONS_MAX: u64 = 2_000;
/// Threads that may share syncs.
const MANY_THREADS: usize = 16;
/// Weak writes are synced so often.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// One operation of so many is timed by itself.
const TIMED_PART: u64 = 8;

/// What a cell's threads do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    Puts,
    Gets,
    Both,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Puts => "puts-only",
            Work::Gets => "gets-only",
            Work::Both => "puts-and-gets",
        }
    }
}

/// One column and row group of the tables.
#[derive(Clone, Copy, Debug)]
struct Cell {
    system: &'static System,
    strong: bool,
    cores: u16,
    threads: usize,
    operations: u64,
}

/// Measures.
pub fn run(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let home = options.out.join("embedded-data");
    let cells = cells(options);
    let mut runs: Vec<BTreeMap<&'static str, Vec<Run>>> = vec![BTreeMap::new(); cells.len()];
    for _ in 0..options.runs {
        for (cell, runs) in cells.iter().zip(&mut runs) {
            for (work, run) in measure(cell, &home, options.value_bytes)? {
                runs.entry(work.name()).or_default().push(run);
            }
        }
    }
    for (cell, runs) in cells.iter().zip(&runs) {
        for work in [Work::Puts, Work::Gets, Work::Both] {
            let Some(runs) = runs.get(work.name()) else { continue };
            report.add(Measurement::new(
                SUITE,
                &system_of(cell),
                &operation_of(cell, work),
                cell.threads,
                options.value_bytes,
                runs,
            ));
        }
    }
    report.note("embedded: no world, no network: threads of this process; latencies are of one operation in 8".into());
    let _ = std::fs::remove_dir_all(&home);
    Ok(())
}

/// Everything that is measured: weak for each size, strong once.
fn cells(options: &Options) -> Vec<Cell> {
    let mut cells = Vec::new();
    let (sizes, cores) = (options.operations.map_or(SIZES.to_vec(), |count| vec![count]), cores(options));
    let mut add = |strong: bool, cores: u16, threads: usize, operations: u64| {
        cells.extend(SYSTEMS.iter().map(|system| Cell { system, strong, cores, threads, operations }));
    };
    for operations in &sizes {
        cores.iter().for_each(|cores| add(false, *cores, usize::from(*cores), *operations));
    }
    let strong = sizes.iter().copied().min().unwrap_or(STRONG_OPERATIONS_MAX).min(STRONG_OPERATIONS_MAX);
    cores.iter().for_each(|cores| add(true, *cores, usize::from(*cores), strong));
    cores.last().into_iter().for_each(|cores| add(true, *cores, MANY_THREADS, strong));
    cells
}

fn cores(options: &Options) -> Vec<u16> {
    if !options.cores.is_empty() {
        return options.cores.clone();
    }
    let there = std::thread::available_parallelism().map_or(1, |count| count.get().min(256)) as u16;
    (1..=there).collect()
}

fn system_of(cell: &Cell) -> String {
    format!("{} {}", cell.system.name, if cell.strong { "strong" } else { "weak" })
}

fn operation_of(cell: &Cell, work: Work) -> String {
    format!("{} {} on {}", work.name(), cell.operations, cell.cores)
}

/// All works of a cell, in a directory of its own.
fn measure(cell: &Cell, home: &Path, value_bytes: usize) -> Result<Vec<(Work, Run)>, BenchError> {
    let path: PathBuf = home.join(cell.system.name);
    let failed = |what: &str, reason: String| BenchError::World(format!("{} {what}: {reason}", system_of(cell)));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).map_err(|error| failed("directory", error.to_string()))?;
    let open = || (cell.system.open)(&path, cell.cores, cell.strong).map_err(|reason| failed("open", reason));
    let mut out = Vec::new();
    let mut peer = open()?;
    for work in [Work::Puts, Work::Gets, Work::Both] {
        if work == Work::Gets {
            if cell.strong {
                continue; // The same as weak.
            }
            drop(peer);
            peer = open()?;
        }
        let run = load(peer.as_ref(), cell, work, value_bytes).map_err(|reason| failed(work.name(), reason))?;
        say(&format!("{} {}: {:.1} op/ms", system_of(cell), operation_of(cell, work), run.rate() / 1_000.0));
        out.push((work, run));
    }
    drop(peer);
    let _ = std::fs::remove_dir_all(&path);
    Ok(out)
}

/// A number's key: random order, always the same.
fn key(number: u64) -> [u8; 16] {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^= mixed >> 27;
    let mut out = [0; 16];
    out[..8].copy_from_slice(&mixed.to_be_bytes());
    out[8..].copy_from_slice(&number.to_be_bytes());
    out
}

/// One work, by all threads of the cell, while weak writes are synced once a second.
fn load(peer: &dyn Peer, cell: &Cell, work: Work, value_bytes: usize) -> Result<Run, String> {
    let (done, begun, cpu) = (AtomicBool::new(false), Instant::now(), cpu_time(std::process::id()));
    let (results, seconds) = std::thread::scope(|scope| {
        let syncing = (!cell.strong && work != Work::Gets).then(|| {
            scope.spawn(|| {
                let mut synced = Instant::now();
                while !done.load(Ordering::Acquire) {
                    std::thread::park_timeout(SYNC_EVERY);
                    if synced.elapsed() >= SYNC_EVERY {
                        peer.sync();
                        synced = Instant::now();
                    }
                }
            })
        });
        let threads: Vec<_> = (0..cell.threads as u64)
            .map(|thread| scope.spawn(move || one_thread(peer, cell, work, value_bytes, thread)))
            .collect();
        let panicked = |_| Err("a thread panicked".to_owned());
        let results: Vec<Result<Histogram<u64>, String>> =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect();
        let seconds = begun.elapsed().as_secs_f64();
        done.store(true, Ordering::Release);
        syncing.iter().for_each(|thread| thread.thread().unpark());
        (results, seconds)
    });
    let mut latency = histogram();
    for result in results {
        latency.add(result?).map_err(|error| error.to_string())?;
    }
    let cpu =
        cpu.zip(cpu_time(std::process::id())).map_or(Duration::ZERO, |(before, after)| after.saturating_sub(before));
    Ok(Run {
        operations: cell.operations,
        errors: BTreeMap::new(),
        seconds,
        latency,
        server_cpu: None,
        client_cpu: cpu,
    })
}

/// The thread's part of the operations: every so many'th.
fn one_thread(
    peer: &dyn Peer,
    cell: &Cell,
    work: Work,
    value_bytes: usize,
    thread: u64,
) -> Result<Histogram<u64>, String> {
    let (mut latency, mut value) = (histogram(), vec![b'v'; value_bytes]);
    for number in (thread..cell.operations).step_by(cell.threads) {
        let begun = number.is_multiple_of(TIMED_PART).then(Instant::now);
        let turn = number / cell.threads as u64;
        let is_put = work == Work::Puts || (work == Work::Both && turn.is_multiple_of(2));
        if is_put {
            let stamp = number.to_le_bytes();
            let length = stamp.len().min(value.len());
            value[..length].copy_from_slice(&stamp[..length]);
            peer.put(&key(number), &value)?;
        } else {
            // Another thread's and another time's key: scattered over all.
            let wanted = number.wrapping_mul(7_919) % cell.operations;
            if !peer.get(&key(wanted))? {
                return Err(format!("key {wanted} was put and is not there"));
            }
        }
        if let Some(begun) = begun {
            latency.saturating_record((begun.elapsed().as_nanos() as u64).div_ceil(1_000));
        }
    }
    Ok(latency)
}

/// The table for people: operations a millisecond, as the paper has them; nothing where nothing was measured.
pub fn text(measurements: &[Measurement]) -> String {
    let rows: Vec<&Measurement> = measurements.iter().filter(|measurement| measurement.suite == SUITE).collect();
    let mut out = String::new();
    let mut columns: Vec<String> = Vec::new();
    for row in &rows {
        let column = column_of(row);
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let mut lines: BTreeMap<(String, String), BTreeMap<String, f64>> = BTreeMap::new();
    for row in &rows {
        let (work, _) = row.operation.split_once(' ').unwrap_or((&row.operation, ""));
        let line = lines.entry((work.into(), row.system.clone())).or_default();
        line.insert(column_of(row), row.mean("rate").unwrap_or(0.0) / 1_000.0);
    }
    // Weak and strong have columns of their own.
    for strong in ["weak", "strong"] {
        let lines: Vec<_> = lines.iter().filter(|((_, system), _)| system.ends_with(strong)).collect();
        let columns: Vec<&String> =
            columns.iter().filter(|column| lines.iter().any(|line| line.1.contains_key(*column))).collect();
        if lines.is_empty() {
            continue;
        }
        let heads: String = columns.iter().map(|column| format!("{column:>20}")).collect();
        let _ = writeln!(out, "\n{:<14} {:<14}{heads}   (operations a millisecond)", "embedded", "system");
        for ((work, system), cells) in lines {
            let figure = |column: &&String| cells.get(*column).map_or("-".into(), |rate| format!("{rate:.1}"));
            let cells: String = columns.iter().map(|column| format!("{:>20}", figure(column))).collect();
            let _ = writeln!(out, "{work:<14} {system:<14}{cells}");
        }
    }
    out
}

/// How many operations on how many cores by how many threads.
fn column_of(row: &Measurement) -> String {
    let (_, size) = row.operation.split_once(' ').unwrap_or(("", &row.operation));
    format!("{size}, {} thr", row.clients)
}

/// The table for machines.
pub fn json(measurements: &[Measurement]) -> Value {
    let rows = measurements.iter().filter(|measurement| measurement.suite == SUITE);
    let row = |row: &Measurement| {
        let mut words = row.operation.split(' ');
        let work = words.next().unwrap_or_default();
        let operations: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let cores: u64 = row.operation.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let rate = row.mean("rate").unwrap_or(0.0);
        json!({
            "system": row.system, "work": work, "operations": operations, "cores": cores, "threads": row.clients,
            "operations_per_ms": rate / 1_000.0, "milliseconds": operations as f64 / rate.max(1e-9) * 1_000.0,
        })
    };
    rows.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every system, at a tenth of nothing: that they are called right, not how fast they are.
    #[test]
    fn every_system_keeps_what_is_put() {
        let home = tempfile::tempdir().unwrap();
        for system in SYSTEMS {
            for strong in [false, true] {
                let cell = Cell { system, strong, cores: 1, threads: 2, operations: 40 };
                let works: Vec<Work> = measure(&cell, home.path(), 100).unwrap().into_iter().map(|run| run.0).collect();
                assert_eq!(works.contains(&Work::Gets), !strong);
            }
        }
    }

    #[test]
    fn keys_are_scattered_and_all_different() {
        let keys: std::collections::BTreeSet<[u8; 16]> = (0..1_000).map(key).collect();
        assert_eq!(keys.len(), 1_000);
        assert!((0..1_000).map(key).collect::<Vec<_>>().windows(2).filter(|pair| pair[0] > pair[1]).count() > 300);
    }

    #[test]
    fn the_table_has_a_line_for_each_system_and_work() {
        let run = Run {
            operations: 10_000,
            errors: BTreeMap::new(),
            seconds: 0.5,
            latency: histogram(),
            server_cpu: None,
            client_cpu: Duration::ZERO,
        };
        let of = |strong, threads, operations, work| {
            let cell = Cell { system: &SYSTEMS[0], strong, cores: 2, threads, operations };
            Measurement::new(
                SUITE,
                &system_of(&cell),
                &operation_of(&cell, work),
                threads,
                100,
                std::slice::from_ref(&run),
            )
        };
        let all = [of(false, 2, 10_000, Work::Puts), of(true, 2, 1_000, Work::Puts), of(true, 16, 1_000, Work::Puts)];
        let text = text(&all);
        assert!(text.contains("10000 on 2, 2 thr") && text.contains("1000 on 2, 16 thr"), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("20.0")).count(), 2, "{text}");
        assert_eq!(json(&all)[0]["milliseconds"], 500.0);
        assert_eq!(super::text(&[]), "");
    }
}

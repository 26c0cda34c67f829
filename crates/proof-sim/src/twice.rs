//! Determinism, proved rather than hoped for: a seed is run again in a process of its own and must
//! leave the very same trace.
//!
//! Always: one seed in `SAMPLE_EVERY` of a run, and at least its first, is run twice; the two runs
//! share nothing but the program.
//! Held by: `one_in_a_hundred_and_at_least_the_first`.
//! Not here: what is hashed (`trace`), other machines and compilers (nobody promises those).

use crate::plan::Layer;
use crate::run::Report;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// One seed in so many is run twice: 1 %.
pub const SAMPLE_EVERY: u64 = 100;
/// Events between two points of a trace.
const EVENTS_PER_POINT: usize = 1_000;

/// Whether a seed of the run that began at `from` is run twice.
pub fn is_sampled(seed: u64, from: u64) -> bool {
    (seed - from).is_multiple_of(SAMPLE_EVERY)
}

/// A run as text, one hash a line: what two runs are compared by.
pub fn trace_text(report: &Report) -> String {
    let mut text = String::new();
    for point in &report.trace_points {
        text += &format!("{point:016x}\n");
    }
    text + &format!("{:016x} {} {}\n", report.trace_hash, report.events, report.violations.len())
}

/// The command that runs a seed twice.
pub fn command(seed: u64, layer: Layer) -> String {
    format!("proof-sim twice --seeds {seed}..{} --layer {}", seed + 1, layer.name())
}

/// A seed's trace, from a process of its own.
pub fn trace_elsewhere(seed: u64, layer: Layer) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find myself: {error}"))?;
    let output = Command::new(program)
        .args(["hash", &seed.to_string(), "--layer", layer.name()])
        .output()
        .map_err(|error| format!("cannot run myself: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("seed {seed} in a process of its own ended with {}", output.status)),
    }
}

/// Where two traces part, for a person; `None`: they are equal.
pub fn parting(one: &str, two: &str) -> Option<String> {
    if one == two {
        return None;
    }
    let points = one.lines().count().max(two.lines().count());
    let point = one.lines().zip(two.lines()).position(|(one, two)| one != two).unwrap_or(points);
    Some(format!("between events {} and {}", point * EVENTS_PER_POINT, (point + 1) * EVENTS_PER_POINT))
}

/// Runs each seed again elsewhere; one line for each that differs from its first trace.
pub fn compare(first: &[(u64, String)], layer: Layer, jobs: u64) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some((seed, text)) = first.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let line = match trace_elsewhere(*seed, layer) {
                        Err(message) => Some(message),
                        Ok(other) => parting(text, &other).map(|place| {
                            format!("seed {seed}: two runs part {place}; see it again: {}", command(*seed, layer))
                        }),
                    };
                    if let (Some(line), Ok(mut found)) = (line, found.lock()) {
                        found.push(line);
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_and_at_least_the_first() {
        assert_eq!((1..500).filter(|seed| is_sampled(*seed, 1)).count(), 5);
        assert_eq!((7..9).filter(|seed| is_sampled(*seed, 7)).count(), 1);
    }

    #[test]
    fn the_place_where_two_traces_part_is_named() {
        assert_eq!(parting("a\nb\nc\n", "a\nb\nc\n"), None);
        assert_eq!(parting("a\nb\nc\n", "a\nx\nc\n").as_deref(), Some("between events 1000 and 2000"));
        assert_eq!(parting("a\n", "a\nb\n").as_deref(), Some("between events 2000 and 3000"));
        assert!(parting("", "a\n").is_some(), "a run that printed nothing is no equal run");
    }
}

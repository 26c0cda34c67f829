//! What is counted of commands: by name, how many, how many were answered with an error, and how long they took.
//!
//! By design: memory is that of the table of commands (one row more is for unknown ones); counting takes no lock.
//! Not here: how the numbers are shown (edge-node).

use base_types::redis::{CommandSpec, COMMANDS};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The upper bounds of the buckets of durations, in microseconds; one more bucket has no bound.
pub const BUCKETS_US: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 2_000_000];
/// The name of the row for commands that are not known.
pub const UNKNOWN: &str = "unknown";

#[derive(Debug, Default)]
struct Counters {
    calls: AtomicU64,
    errors: AtomicU64,
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    total_us: AtomicU64,
}

/// The counters of all commands.
#[derive(Debug)]
pub struct Metrics {
    commands: Vec<Counters>,
    connections: AtomicU64,
}

/// What was counted of one command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandCounts {
    /// Its name.
    pub name: &'static str,
    /// How often it was asked for.
    pub calls: u64,
    /// How many were answered with an error.
    pub errors: u64,
    /// Durations, not cumulative: as [`BUCKETS_US`], and those above. Waiting for a key is in it.
    pub buckets: [u64; BUCKETS_US.len() + 1],
    /// The sum of the durations, in microseconds.
    pub total_us: u64,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let commands = (0..=COMMANDS.len()).map(|_| Counters::default()).collect();
        Metrics { commands, connections: AtomicU64::new(0) }
    }
}

impl Metrics {
    /// A connection was accepted.
    pub fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    /// Connections that were accepted since the node started.
    pub fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }

    /// Counts a command; `None`: it is not known.
    pub(crate) fn count(&self, spec: Option<&'static CommandSpec>, failed: bool, took: Duration) {
        let at = spec.and_then(|spec| COMMANDS.binary_search_by(|known| known.name.cmp(spec.name)).ok());
        let Some(counters) = self.commands.get(at.unwrap_or(COMMANDS.len())) else { return };
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        counters.calls.fetch_add(1, Relaxed);
        counters.errors.fetch_add(u64::from(failed), Relaxed);
        counters.total_us.fetch_add(us, Relaxed);
        let bucket = BUCKETS_US.iter().position(|bound| us <= *bound).unwrap_or(BUCKETS_US.len());
        counters.buckets[bucket].fetch_add(1, Relaxed);
    }

    /// Counts an answer to this command, for tests of who shows the numbers.
    #[doc(hidden)]
    pub fn count_for_tests(&self, name: &str) {
        self.count(base_types::redis::find(name.as_bytes()), false, Duration::from_millis(1));
    }

    /// The counts of every command that was asked for.
    pub fn counts(&self) -> Vec<CommandCounts> {
        let names = COMMANDS.iter().map(|spec| spec.name).chain([UNKNOWN]);
        let read = |(counters, name): (&Counters, &'static str)| CommandCounts {
            name,
            calls: counters.calls.load(Relaxed),
            errors: counters.errors.load(Relaxed),
            buckets: std::array::from_fn(|bucket| counters.buckets[bucket].load(Relaxed)),
            total_us: counters.total_us.load(Relaxed),
        };
        self.commands.iter().zip(names).map(read).filter(|counts| counts.calls > 0).collect()
    }

    /// All commands together.
    pub fn total(&self) -> u64 {
        self.commands.iter().map(|counters| counters.calls.load(Relaxed)).sum()
    }
}

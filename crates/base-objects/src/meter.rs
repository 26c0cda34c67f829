//! What requests were made, how long they took and what went over the wire.
//!
//! Always: counting never blocks; a request is counted once for every try, for each try is paid for.
//! Held by: `what_may_be_done_twice_is_tried_again_and_counted`.
//! Not here: metrics' names (edge-node).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a request is, as stores price them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An object written, a part of one, an upload begun or completed, a copy.
    Put,
    /// An object read, or asked about.
    Get,
    /// Names listed: one page.
    List,
    /// An object removed.
    Delete,
}

/// All kinds.
pub const KINDS: [Kind; 4] = [Kind::Put, Kind::Get, Kind::List, Kind::Delete];
/// Latencies are counted by powers of two of a millisecond: below 1 ms, below 2 ms, … the last holds the rest.
pub const LATENCY_BUCKETS: usize = 18;

impl Kind {
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Put => "put",
            Kind::Get => "get",
            Kind::List => "list",
            Kind::Delete => "delete",
        }
    }
}

#[derive(Default, Debug)]
struct OneKind {
    requests: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
    micros: AtomicU64,
    latencies: [AtomicU64; LATENCY_BUCKETS],
}

/// Counts requests.
#[derive(Default, Debug)]
pub struct Meter {
    kinds: [OneKind; KINDS.len()],
    retries: AtomicU64,
}

/// What a [`Meter`] has counted of a kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Requests sent, each try for itself.
    pub requests: u64,
    /// Of them, those that failed (a missing object or a lost race is an answer, no failure).
    pub failures: u64,
    /// Bytes of objects carried.
    pub bytes: u64,
    /// All their time together.
    pub micros: u64,
    /// How many took less than 1, 2, 4 … milliseconds; the last holds the rest.
    pub latencies: [u64; LATENCY_BUCKETS],
}

impl Meter {
    /// A request that ended.
    pub fn on_request(&self, kind: Kind, took: Duration, bytes: u64, failed: bool) {
        let of = &self.kinds[kind as usize];
        of.requests.fetch_add(1, Ordering::Relaxed);
        of.failures.fetch_add(u64::from(failed), Ordering::Relaxed);
        of.bytes.fetch_add(bytes, Ordering::Relaxed);
        of.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let bucket = (u64::BITS - milliseconds.leading_zeros()) as usize;
        of.latencies[bucket.min(LATENCY_BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    /// A request will be tried again.
    pub fn on_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted.
    pub fn counts(&self, kind: Kind) -> Counts {
        let of = &self.kinds[kind as usize];
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            requests: read(&of.requests),
            failures: read(&of.failures),
            bytes: read(&of.bytes),
            micros: read(&of.micros),
            latencies: std::array::from_fn(|bucket| read(&of.latencies[bucket])),
        }
    }

    /// How often a request was tried again.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        let kinds = KINDS.map(|kind| {
            let counts = self.counts(kind);
            let mean = counts.micros / counts.requests.max(1);
            format!(
                "{} {} ({} B, mean {mean} µs, {} failed)",
                kind.name(),
                counts.requests,
                counts.bytes,
                counts.failures
            )
        });
        format!("{}; {} retries", kinds.join(", "), self.retries())
    }
}

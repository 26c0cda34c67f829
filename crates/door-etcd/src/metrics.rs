//! What is counted of calls: by method, how many ended with which gRPC code, and how long those took that are no streams.
//!
//! Always: memory is that of the table of methods; counting takes no lock.
//! Not here: how the numbers are shown (edge-node).

use crate::methods::Methods;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tonic::Code;

/// The upper bounds of the buckets of durations, in microseconds; one more bucket has no bound.
pub const BUCKETS_US: [u64; 14] = [
    500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000,
];
/// The codes of gRPC: 0 to 16.
pub const CODES: usize = 17;

#[derive(Debug, Default)]
struct Counters {
    open: AtomicU64,
    codes: [AtomicU64; CODES],
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    total_us: AtomicU64,
}

/// The counters of all methods.
#[derive(Debug)]
pub struct Metrics {
    methods: Vec<Counters>,
    refused: AtomicU64,
}

/// What was counted of one method.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MethodCounts {
    /// `/package.Service/Method`.
    pub path: &'static str,
    /// Calls under way.
    pub open: u64,
    /// Calls that ended, by gRPC code.
    pub codes: [u64; CODES],
    /// Durations, not cumulative: as [`BUCKETS_US`], and those above. Streams are not in it.
    pub buckets: [u64; BUCKETS_US.len() + 1],
    /// The sum of the durations, in microseconds.
    pub total_us: u64,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let methods = Methods::table().all.iter().map(|_| Counters::default()).collect();
        Metrics { methods, refused: AtomicU64::new(0) }
    }
}

impl Metrics {
    /// A call has begun.
    pub(crate) fn begin(&self, method: usize) {
        self.methods[method].open.fetch_add(1, Relaxed);
    }

    /// It has ended; `took` is none for streams.
    pub(crate) fn end(&self, method: usize, code: Code, took: Option<Duration>) {
        let counters = &self.methods[method];
        counters.open.fetch_sub(1, Relaxed);
        if let Some(count) = counters.codes.get(code as usize) {
            count.fetch_add(1, Relaxed);
        }
        if let Some(took) = took {
            let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            let bucket = BUCKETS_US.iter().position(|bound| us <= *bound).unwrap_or(BUCKETS_US.len());
            counters.buckets[bucket].fetch_add(1, Relaxed);
            counters.total_us.fetch_add(us, Relaxed);
        }
    }

    /// Counts a call of this method, for tests of who shows the numbers.
    #[doc(hidden)]
    pub fn count_for_tests(&self, path: &str) {
        if let Some(method) = Methods::table().all.iter().find(|method| method.path == path) {
            self.begin(method.index);
            self.end(method.index, Code::Ok, Some(Duration::from_millis(1)));
        }
    }

    /// A request was refused because too many were under way.
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Requests that were refused because too many were under way.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// The counts of every method.
    pub fn counts(&self) -> Vec<MethodCounts> {
        let table = &Methods::table().all;
        let read = |(counters, path): (&Counters, &'static str)| MethodCounts {
            path,
            open: counters.open.load(Relaxed),
            codes: std::array::from_fn(|code| counters.codes[code].load(Relaxed)),
            buckets: std::array::from_fn(|bucket| counters.buckets[bucket].load(Relaxed)),
            total_us: counters.total_us.load(Relaxed),
        };
        self.methods.iter().zip(table.iter().map(|method| &method.path[..])).map(read).collect()
    }
}

//! What is counted of requests: by operation and status, how many, and how long their answers took.
//!
//! Always: at most [`ROWS_MAX`] rows, whatever clients send: an operation is one of [`CALLS`](crate::CALLS), and what is none of
//! them is [`OTHER`]. A time ends where the answer's head is known; the body of a GET comes after it.
//! Held by: `requests_are_counted_by_operation_and_status`, `rows_are_bounded`. Not here: how the numbers are shown (edge-node).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The upper bounds of the buckets of durations, in microseconds; one more bucket has no bound.
pub const BUCKETS_US: [u64; 12] =
    [500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000, 30_000_000];
/// Operations that are no call of the API: requests refused before it was known which call they are, forms, STS.
pub const OTHER: &str = "other";
/// Rows of operation and status.
pub const ROWS_MAX: usize = 1_024;

/// What was counted of one operation with one status.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Durations, not cumulative: as [`BUCKETS_US`], and those above.
    pub buckets: [u64; BUCKETS_US.len() + 1],
    /// The sum of the durations, in microseconds.
    pub total_us: u64,
}

impl Counts {
    /// How many requests.
    pub fn requests(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// The counters of a door; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<BTreeMap<(&'static str, u16), Counts>>>);

impl Metrics {
    /// An answer is known.
    pub(crate) fn count(&self, operation: &'static str, status: u16, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_US.iter().position(|bound| us <= *bound).unwrap_or(BUCKETS_US.len());
        // A panic while it was held leaves numbers that are true.
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.len() >= ROWS_MAX && !rows.contains_key(&(operation, status)) {
            return;
        }
        let row = rows.entry((operation, status)).or_default();
        row.buckets[bucket] += 1;
        row.total_us = row.total_us.saturating_add(us);
    }

    /// Counts an answer, for tests of who shows the numbers.
    #[doc(hidden)]
    pub fn count_for_tests(&self, operation: &'static str, status: u16) {
        self.count(operation, status, Duration::from_millis(2));
    }

    /// Everything counted, by operation and status.
    pub fn counts(&self) -> Vec<(&'static str, u16, Counts)> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter().map(|((operation, status), counts)| (*operation, *status, counts.clone())).collect()
    }
}

/// In a request's extensions: which operation it turned out to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Arc<OnceLock<&'static str>>);

impl Asked {
    /// It is this operation, of [`CALLS`](crate::CALLS).
    pub fn is(&self, operation: &'static str) {
        let _said_already = self.0.set(operation);
    }

    /// Which it was.
    pub fn operation(&self) -> &'static str {
        self.0.get().copied().unwrap_or(OTHER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_operation_and_status() {
        let metrics = Metrics::default();
        let asked = Asked::default();
        assert_eq!(asked.operation(), OTHER);
        asked.is("get_object");
        metrics.count(asked.operation(), 200, Duration::from_micros(700));
        metrics.count(asked.operation(), 200, Duration::from_secs(60));
        metrics.count(Asked::default().operation(), 403, Duration::ZERO);
        let counts = metrics.counts();
        let shown: Vec<_> = counts.iter().map(|(name, status, counts)| (*name, *status, counts.requests())).collect();
        assert_eq!(shown, [("get_object", 200, 2), (OTHER, 403, 1)]);
        assert_eq!((counts[0].2.buckets[1], counts[0].2.buckets[BUCKETS_US.len()]), (1, 1));
    }

    #[test]
    fn rows_are_bounded() {
        let metrics = Metrics::default();
        (0..2 * ROWS_MAX as u16).for_each(|status| metrics.count(OTHER, status, Duration::ZERO));
        assert_eq!(metrics.counts().len(), ROWS_MAX);
    }
}

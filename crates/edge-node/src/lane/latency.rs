//! A small histogram of durations: sixteen bounds from 50 µs to 5 s, as Prometheus takes them.
//!
//! Always: fixed size; recording allocates nothing.
//! Held by: `bounds_are_inclusive_and_the_last_bucket_is_open`.

use std::time::Duration;

/// Upper bounds in microseconds; the last bucket has none.
pub const BOUNDS_US: [u64; 16] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000,
];

/// Counts by bucket.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Not cumulative.
    pub buckets: [u64; BOUNDS_US.len() + 1],
    pub sum_us: u64,
}

impl Latency {
    /// One more.
    pub fn record(&mut self, duration: Duration) {
        let us = duration.as_micros() as u64;
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets[bucket] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_and_the_last_bucket_is_open() {
        let mut latency = Latency::default();
        for us in [0, 50, 51, 5_000_000, 9_000_000] {
            latency.record(Duration::from_micros(us));
        }
        assert_eq!((latency.buckets[0], latency.buckets[1], latency.buckets[15], latency.buckets[16]), (2, 1, 1, 1));
        assert_eq!((latency.count(), latency.sum_us), (5, 14_000_101));
    }
}

//! How fast, and how far: the throttle, and what is shown of progress.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far an operation is.
#[derive(Clone, Copy, Default, Debug)]
pub struct Progress {
    /// Keys done.
    pub entries: u64,
    /// How many there are, where that is known.
    pub of: u64,
    /// Bytes of keys and values done.
    pub bytes: u64,
    /// Parts finished.
    pub parts: u64,
}

/// Holds a flow to so many bytes a second.
pub struct Pace {
    bytes_per_second: Option<u64>,
    free: Instant,
}

/// Time that was not used is kept for so long: after a pause there is no burst.
const SAVED_MAX: Duration = Duration::from_millis(250);

impl Pace {
    /// None: as fast as it can be.
    pub fn new(bytes_per_second: Option<u64>) -> Pace {
        Pace { bytes_per_second: bytes_per_second.filter(|rate| *rate > 0), free: Instant::now() }
    }

    /// How long to wait before so many bytes.
    fn delay(&mut self, now: Instant, bytes: u64) -> Duration {
        let Some(rate) = self.bytes_per_second else { return Duration::ZERO };
        let begin = self.free.max(now.checked_sub(SAVED_MAX).unwrap_or(now));
        self.free = begin + Duration::from_secs_f64(bytes as f64 / rate as f64);
        begin.saturating_duration_since(now)
    }

    pub async fn wait(&mut self, bytes: u64) {
        let delay = self.delay(Instant::now(), bytes);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }
}

/// Milliseconds since 1970, by this machine's clock: for people, nothing is decided by it.
pub fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_holds_the_rate_without_bursts() {
        let start = Instant::now();
        let mut pace = Pace::new(Some(1_000));
        pace.free = start;
        assert_eq!(pace.delay(start, 500), Duration::ZERO);
        assert_eq!(pace.delay(start, 500), Duration::from_millis(500));
        let later = start + Duration::from_secs(60);
        assert_eq!(pace.delay(later, 1_000), Duration::ZERO);
        assert_eq!(pace.delay(later, 1), Duration::from_millis(750));
        assert_eq!(Pace::new(None).delay(start, u64::MAX), Duration::ZERO);
    }
}

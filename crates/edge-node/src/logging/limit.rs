//! How often one place in the code may write a line.
//!
//! Always: at most [`LINES_MAX`] lines of one place in a [`PERIOD`], and the next line of that place says how many were
//! suppressed. By design: memory is one row for each place in the code that has logged; the lock is taken for lines that are
//! written or suppressed, never for those that the level hides.
//! Held by: `a_place_is_limited_and_counted`.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;

/// A change of many clusters at once (a node that dies) is still readable, and no client makes a file grow.
pub const LINES_MAX: u32 = 100;
pub const PERIOD: Duration = Duration::from_secs(10);

/// Every place that has logged.
#[derive(Debug, Default)]
pub struct Places(Mutex<HashMap<Identifier, Place>>);

#[derive(Debug)]
struct Place {
    since: Instant,
    lines: u32,
    suppressed: u64,
}

impl Places {
    /// `Some(lines suppressed since the last one)` where this place may write a line now.
    pub fn allow(&self, place: Identifier) -> Option<u64> {
        self.allow_at(place, Instant::now())
    }

    fn allow_at(&self, place: Identifier, now: Instant) -> Option<u64> {
        // A panic while it was held leaves numbers that are true.
        let mut places = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let place = places.entry(place).or_insert(Place { since: now, lines: 0, suppressed: 0 });
        if now.duration_since(place.since) >= PERIOD {
            (place.since, place.lines) = (now, 0);
        }
        if place.lines >= LINES_MAX {
            place.suppressed += 1;
            return None;
        }
        place.lines += 1;
        Some(std::mem::take(&mut place.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::callsite::{Callsite, Identifier};

    struct Nowhere;

    impl Callsite for Nowhere {
        fn set_interest(&self, _: tracing::subscriber::Interest) {}

        fn metadata(&self) -> &tracing::Metadata<'_> {
            unreachable!("nobody asks")
        }
    }

    static ONE: Nowhere = Nowhere;

    #[test]
    fn a_place_is_limited_and_counted() {
        let (places, now) = (Places::default(), Instant::now());
        let allow = |now| places.allow_at(Identifier(&ONE), now);
        assert!((0..LINES_MAX).all(|_| allow(now) == Some(0)));
        assert!((0..7).all(|_| allow(now).is_none()));
        assert_eq!(allow(now + PERIOD), Some(7));
        assert_eq!(allow(now + PERIOD), Some(0));
    }
}

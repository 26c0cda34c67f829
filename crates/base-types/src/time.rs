//! Time as the core knows it: a number handed in from outside.

use core::ops::{Add, Sub};
use core::time::Duration;

/// Microseconds of the node's monotonic clock since an arbitrary point before the node's start.
/// Comparable only on the node (in the simulator: the simulated node) that measured it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Tick(pub u64);

impl Tick {
    /// A moment that never comes.
    pub const NEVER: Tick = Tick(u64::MAX);

    /// From milliseconds.
    pub const fn from_millis(millis: u64) -> Tick {
        Tick(millis * 1000)
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1000
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Tick) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Tick {
    type Output = Tick;
    fn add(self, rhs: Duration) -> Tick {
        Tick(self.0.saturating_add(rhs.as_micros() as u64))
    }
}

impl Sub<Duration> for Tick {
    type Output = Tick;
    fn sub(self, rhs: Duration) -> Tick {
        Tick(self.0.saturating_sub(rhs.as_micros() as u64))
    }
}

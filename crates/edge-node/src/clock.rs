//! The node's monotonic clock, as the core is told it.
//!
//! Always: never goes back, whatever happens to the wall clock; all threads of a process share its zero.
//! Not here: wall-clock time (only certificates need it).

use base_types::Tick;
use std::time::{Duration, Instant};

/// Monotonic time since a point before the process's first turn.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: Instant,
}

/// Where the clock begins: far enough from 0 that subtracting a timeout never clips.
const BEGIN: Duration = Duration::from_secs(3600);

impl Clock {
    /// Starts it.
    pub fn start() -> Clock {
        Clock { zero: Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Tick {
        Tick((self.zero.elapsed() + BEGIN).as_micros() as u64)
    }

    /// When tokio's clock will show `tick`; a day away at most, so that `Tick::NEVER` is a moment too.
    pub fn instant(&self, tick: Tick) -> tokio::time::Instant {
        let now = self.now();
        tokio::time::Instant::now() + tick.since(now).min(Duration::from_secs(86_400))
    }
}

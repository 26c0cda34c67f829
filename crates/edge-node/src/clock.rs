//! The node's clock, as the core gets it: CLOCK_BOOTTIME, which also counts while the machine is suspended.
//!
//! Always: never goes back, whatever happens to the wall clock; all threads of a process share its zero.
//! A leader's lease ends by this clock, so it must not stop while other nodes continue. CLOCK_MONOTONIC (Rust's `Instant`)
//! stops during a suspend. A system without CLOCK_BOOTTIME uses it all the same, and the node says so when it starts. While a
//! hypervisor holds the machine, every clock of it stops, and nothing here can notice: docs/guides/clocks.md says what to set.
//! Held by: `the_clock_counts_suspension_and_never_goes_back`, `a_system_without_the_boot_clock_says_so`.
//! Not here: wall-clock time (only certificates need it); timers of tokio, which may fire late by the length
//! of a suspend: who is woken reads this clock anew.

use base_types::Tick;
use std::time::Duration;

/// Time since a point before the process's first turn.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    source: libc::clockid_t,
    /// What the source showed at the start.
    zero: Duration,
}

/// Where the clock begins: far enough from 0 that subtracting a timeout never clips.
const BEGIN: Duration = Duration::from_secs(3600);

#[cfg(any(target_os = "linux", target_os = "android"))]
const COUNTS_SUSPENSION: Option<libc::clockid_t> = Some(libc::CLOCK_BOOTTIME);
/// On Apple's systems CLOCK_MONOTONIC itself counts on while the machine sleeps.
#[cfg(target_vendor = "apple")]
const COUNTS_SUSPENSION: Option<libc::clockid_t> = Some(libc::CLOCK_MONOTONIC);
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
const COUNTS_SUSPENSION: Option<libc::clockid_t> = None;

/// What the clock shows; `None`: the system has no such clock.
fn read(source: libc::clockid_t) -> Option<Duration> {
    let mut shown = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `shown` is a timespec that lives through the call.
    let result = unsafe { libc::clock_gettime(source, &raw mut shown) };
    (result == 0).then(|| Duration::new(shown.tv_sec as u64, shown.tv_nsec as u32))
}

impl Clock {
    /// Starts it, from a clock that counts suspension if there is one.
    pub fn start() -> Clock {
        let first = COUNTS_SUSPENSION.and_then(|source| Some(Clock { source, zero: read(source)? }));
        first.unwrap_or_else(|| Clock::start_from(libc::CLOCK_MONOTONIC))
    }

    fn start_from(source: libc::clockid_t) -> Clock {
        Clock { source, zero: read(source).expect("POSIX has CLOCK_MONOTONIC") }
    }

    /// Whether it continues while the machine is suspended.
    pub fn counts_suspension(&self) -> bool {
        COUNTS_SUSPENSION == Some(self.source)
    }

    /// Now.
    pub fn now(&self) -> Tick {
        let shown = read(self.source).expect("this clock was read at the start");
        Tick((shown.saturating_sub(self.zero) + BEGIN).as_micros() as u64)
    }

    /// When tokio's clock will show `tick`; a day away at most, so that `Tick::NEVER` is a moment too.
    pub fn instant(&self, tick: Tick) -> tokio::time::Instant {
        let now = self.now();
        tokio::time::Instant::now() + tick.since(now).min(Duration::from_secs(86_400))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_counts_suspension_and_never_goes_back() {
        let clock = Clock::start();
        assert!(clock.counts_suspension() || cfg!(not(any(target_os = "linux", target_vendor = "apple"))));
        let mut last = clock.now();
        assert!(last.0 >= BEGIN.as_micros() as u64);
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        std::thread::sleep(Duration::from_millis(20));
        assert!(clock.now().since(last) >= Duration::from_millis(20));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_system_without_the_boot_clock_says_so() {
        let clock = Clock::start_from(libc::CLOCK_MONOTONIC);
        assert!(!clock.counts_suspension());
        assert!(clock.now().0 >= BEGIN.as_micros() as u64);
        assert_eq!(read(9_999), None);
    }
}

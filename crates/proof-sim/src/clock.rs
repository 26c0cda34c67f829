//! A node's own clock: the true time, seen through an offset, a drift and jumps.
//!
//! Always: it never goes back; `true_at(local_at(t)) >= t` up to rounding.
//! Held by: `drifts_jumps_and_never_goes_back`.

use base_types::Tick;

const MILLION: i128 = 1_000_000;

/// The clock of one node.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base_true: u64,
    base_local: u64,
    /// How many millionths too fast (negative: too slow).
    drift_ppm: i64,
}

impl Clock {
    /// A clock that shows `local` at the true time `now`.
    pub fn new(now: u64, local: u64) -> Clock {
        Clock { base_true: now, base_local: local, drift_ppm: 0 }
    }

    /// What it shows.
    pub fn local_at(&self, now: u64) -> Tick {
        // Less only while it is held.
        let passed = i128::from(now.saturating_sub(self.base_true));
        Tick(self.base_local + (passed * (MILLION + i128::from(self.drift_ppm)) / MILLION) as u64)
    }

    /// When it will show `local` (now, if it does already).
    pub fn true_at(&self, local: Tick, now: u64) -> u64 {
        if local == Tick::NEVER {
            return u64::MAX;
        }
        let wanted = i128::from(local.0.saturating_sub(self.base_local));
        let true_time = i128::from(self.base_true) + wanted * MILLION / (MILLION + i128::from(self.drift_ppm)) + 1;
        (true_time.min(i128::from(u64::MAX)) as u64).max(now)
    }

    /// From now on it runs this much off.
    pub fn set_drift(&mut self, now: u64, drift_ppm: i64) {
        *self = Clock { base_true: now.max(self.base_true), base_local: self.local_at(now).0, drift_ppm };
    }

    /// The clock stops until then.
    pub fn hold(&mut self, now: u64, until: u64) {
        let base_true = until.max(self.base_true);
        *self = Clock { base_true, base_local: self.local_at(now).0, drift_ppm: self.drift_ppm };
    }

    /// The clock runs again.
    pub fn release(&mut self, now: u64) {
        self.base_true = self.base_true.min(now);
    }

    /// It jumps forward.
    pub fn jump(&mut self, now: u64, micros: u64) {
        let base_true = now.max(self.base_true);
        *self = Clock { base_true, base_local: self.local_at(now).0 + micros, drift_ppm: self.drift_ppm };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drifts_jumps_and_never_goes_back() {
        let mut clock = Clock::new(0, 500);
        clock.set_drift(0, 50_000);
        assert_eq!(clock.local_at(1_000_000), Tick(1_050_500));
        let due = clock.true_at(Tick(2_100_500), 0);
        assert!(clock.local_at(due) >= Tick(2_100_500) && due < 2_000_010);
        clock.jump(1_000_000, 7);
        assert_eq!(clock.local_at(1_000_000), Tick(1_050_507));
    }

    #[test]
    fn a_held_clock_stands_still_and_then_goes_on_from_there() {
        let mut clock = Clock::new(0, 500);
        clock.hold(1_000, 5_000);
        assert_eq!(
            [0, 1_000, 4_000, 5_000, 6_000].map(|now| clock.local_at(now).0),
            [1_500, 1_500, 1_500, 1_500, 2_500]
        );
        assert!(clock.true_at(Tick(2_500), 2_000) >= 6_000);
        clock.hold(6_000, 9_000);
        clock.release(7_000);
        assert_eq!(clock.local_at(8_000), Tick(3_500));
    }
}

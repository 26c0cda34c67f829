//! The core's only source of chance: splitmix64 from the configured seed.
//!
//! Always: the same seed gives the same numbers in the same order on every machine.
//! Held by: `equal_seeds_agree_and_jitter_stays_in_bounds`.
//! Not here: anything that must not be guessed by an outsider (the edge draws those).

use base_types::RequestId;
use core::time::Duration;

/// A seeded generator (splitmix64: one addition and three mixes a number, every seed is a good seed).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)] // It never ends, and has no items to collect.
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound` (0 where the bound is 0).
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            0
        } else {
            self.next() % bound
        }
    }

    /// A fresh request id.
    pub fn request_id(&mut self) -> RequestId {
        RequestId::own(u128::from(self.next()) << 64 | u128::from(self.next()))
    }

    /// Between half of `base` and one and a half: keeps retries of many nodes apart.
    pub fn jitter(&mut self, base: Duration) -> Duration {
        let micros = base.as_micros() as u64;
        Duration::from_micros(micros / 2 + self.below(micros.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_agree_and_jitter_stays_in_bounds() {
        let (mut one, mut two) = (Random::new(7), Random::new(7));
        for _ in 0..100 {
            assert_eq!(one.next(), two.next());
            let jittered = one.jitter(Duration::from_millis(100));
            assert!(jittered >= Duration::from_millis(50) && jittered < Duration::from_millis(150));
            assert_eq!(two.jitter(Duration::from_millis(100)), jittered);
        }
        assert_eq!(one.below(0), 0);
        assert_ne!(Random::new(1).request_id(), Random::new(2).request_id());
    }
}

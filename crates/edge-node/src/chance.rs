//! Random numbers from the operating system: ids that no other node may ever draw, and seeds.
//!
//! Always: fails loudly where the system gives none; nothing here is derived from a clock.
//! Not here: the core's own generator (it is seeded from here and deterministic from then on).

use std::io::Read;

/// A random number that is not zero.
pub fn draw() -> std::io::Result<u64> {
    let mut source = std::fs::File::open("/dev/urandom")?;
    let mut bytes = [0u8; 8];
    loop {
        source.read_exact(&mut bytes)?;
        let number = u64::from_le_bytes(bytes);
        if number != 0 {
            return Ok(number);
        }
    }
}

/// A cheap generator for jitter (splitmix64); seeded once, one for each thread that needs it.
#[derive(Debug)]
pub struct Jitter(std::cell::Cell<u64>);

impl Jitter {
    /// From a seed.
    pub fn new(seed: u64) -> Jitter {
        Jitter(std::cell::Cell::new(seed))
    }

    /// Between half of `base` and one and a half.
    pub fn around(&self, base: std::time::Duration) -> std::time::Duration {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        base / 2 + base.mul_f64((mixed >> 11) as f64 / (1u64 << 53) as f64)
    }
}

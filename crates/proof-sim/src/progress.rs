//! How far a long run is: a line now and then, with the time that is left.
//!
//! Not here: what the run found (`ledger`).

use std::time::{Duration, Instant};

/// A line at most this often.
const EVERY: Duration = Duration::from_secs(10);

/// The progress of a run of seeds.
pub struct Progress {
    started: Instant,
    told: Instant,
    all: u64,
}

impl Progress {
    /// Of a run of so many seeds that begins now.
    pub fn new(all: u64) -> Progress {
        let now = Instant::now();
        Progress { started: now, told: now, all }
    }

    /// Since the run began.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// So many seeds are done.
    pub fn tell(&mut self, done: u64, failed: usize) {
        if self.told.elapsed() < EVERY && done != self.all {
            return;
        }
        self.told = Instant::now();
        let (seconds, all) = (self.seconds(), self.all);
        let left = seconds / done.max(1) as f64 * all.saturating_sub(done) as f64;
        println!("{done} of {all} seeds, {failed} failed, {seconds:.0} s, about {left:.0} s left");
    }
}

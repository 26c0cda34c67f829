//! How long commits take now, as a leader sees it, and which writes that is too long for.
//!
//! ```text
//!   proposed ──▶ applied: a sample
//!   a new write ──▶ it has less time than the oldest proposal has waited, or than the last commit took? ──▶ refused
//! ```
//!
//! Always: a write is refused before it is proposed, so that nothing of it is applied (checker `values`). The last sample
//! counts for [`SAMPLE_LIFE`] only, so that a leader that refused everything takes a write again (test
//! `writes_are_taken_again_after_a_stall`).
//! Why: a write that ends after its deadline costs the log as much as any other, and its client gets an unknown outcome
//! (docs/decisions/0078).

use base_types::Tick;
use std::time::Duration;

/// How long the last commit's time says something about the next one. Under load a commit ends every few milliseconds.
pub const SAMPLE_LIFE: Duration = Duration::from_millis(100);

/// The last commit of an entry that this leader proposed.
#[derive(Default)]
pub struct CommitTime {
    last: Option<Sample>,
}

struct Sample {
    took: Duration,
    at: Tick,
}

impl CommitTime {
    /// An entry proposed then is applied now.
    pub fn on_commit(&mut self, proposed: Tick, now: Tick) {
        self.last = Some(Sample { took: now.since(proposed), at: now });
    }

    /// The time that a write proposed now will take at least, as far as is known. `oldest`: when the oldest entry that is
    /// not applied yet was proposed.
    pub fn estimate(&self, oldest: Option<Tick>, now: Tick) -> Duration {
        let waited = oldest.map_or(Duration::ZERO, |proposed| now.since(proposed));
        let fresh = self.last.as_ref().filter(|sample| now.since(sample.at) <= SAMPLE_LIFE);
        waited.max(fresh.map_or(Duration::ZERO, |sample| sample.took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Tick {
        Tick(0) + Duration::from_millis(ms)
    }

    #[test]
    fn oldest_proposal_counts_before_it_is_applied() {
        let time = CommitTime::default();
        assert_eq!(time.estimate(None, at(5)), Duration::ZERO);
        assert_eq!(time.estimate(Some(at(5)), at(905)), Duration::from_millis(900));
    }

    #[test]
    fn last_commit_counts_for_a_moment() {
        let mut time = CommitTime::default();
        time.on_commit(at(0), at(700));
        assert_eq!(time.estimate(None, at(750)), Duration::from_millis(700));
        assert_eq!(time.estimate(Some(at(740)), at(750)), Duration::from_millis(700));
        assert_eq!(time.estimate(None, at(701) + SAMPLE_LIFE), Duration::ZERO);
        // A quick commit replaces a slow one at once.
        time.on_commit(at(750), at(752));
        assert_eq!(time.estimate(None, at(753)), Duration::from_millis(2));
    }
}

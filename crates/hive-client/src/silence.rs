//! When an endpoint that said nothing is probed: by a question of the client's own, never by a user's operation.
//!
//! ```text
//!   heard ──an operation had no answer──▶ silent ──a while──▶ a probe (GET /health) ──answer──▶ heard
//!                                            ▲                        │ none: a longer while
//!                                            └────────────────────────┘
//! ```
//!
//! Always: at most one probe of an endpoint is under way, for at most [`PROBE_PATIENCE`]; the while doubles from [`PROBE_FIRST`] to
//! [`PROBE_LONGEST`], also where probes are answered and operations are not, until an operation is (`tests::the_while_doubles`).
//! Not here: who sends a probe (client.rs), where all endpoints are silent (`Call::choose`).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// From silence to the first probe.
pub(crate) const PROBE_FIRST: Duration = Duration::from_secs(1);
/// The longest while between probes.
pub(crate) const PROBE_LONGEST: Duration = Duration::from_secs(5);
/// How long a probe may take. Less than any while, so that there is one at a time.
pub(crate) const PROBE_PATIENCE: Duration = Duration::from_millis(900);

/// What is known of one endpoint.
#[derive(Default)]
pub(crate) struct Silence(Mutex<State>);

#[derive(Default)]
struct State {
    /// Silent, and probed from then on.
    probe_at: Option<Instant>,
    /// The last while.
    pause: Duration,
}

impl Silence {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it said nothing, and no probe has been answered since.
    pub fn is_silent(&self) -> bool {
        self.state().probe_at.is_some()
    }

    /// An operation was answered.
    pub fn answered(&self) {
        *self.state() = State::default();
    }

    /// An operation had no answer. Of many that were under way the first counts.
    pub fn unanswered(&self, now: Instant) {
        let mut state = self.state();
        if state.probe_at.is_none() {
            state.wait_longer(now);
        }
    }

    /// A probe was answered: operations may come again.
    pub fn probe_answered(&self) {
        self.state().probe_at = None;
    }

    /// Whether to send a probe now. It is true once for each while, so the caller that gets it sends the probe.
    pub fn takes_probe(&self, now: Instant) -> bool {
        let mut state = self.state();
        let due = state.probe_at.is_some_and(|at| now >= at);
        if due {
            state.wait_longer(now);
        }
        due
    }
}

impl State {
    fn wait_longer(&mut self, now: Instant) {
        self.pause = (self.pause * 2).clamp(PROBE_FIRST, PROBE_LONGEST);
        self.probe_at = Some(now + self.pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_while_doubles() {
        let (silence, mut now) = (Silence::default(), Instant::now());
        assert!(!silence.is_silent() && !silence.takes_probe(now));
        silence.unanswered(now);
        silence.unanswered(now + PROBE_FIRST / 2);
        for seconds in [1, 2, 4, 5, 5] {
            let due = now + Duration::from_secs(seconds);
            assert!(!silence.takes_probe(due - Duration::from_millis(1)), "{seconds} s");
            assert!(silence.takes_probe(due) && !silence.takes_probe(due), "{seconds} s: one at a time");
            assert!(silence.is_silent(), "until it is answered");
            now = due;
        }
        // Probes are answered, operations are not: no more of those than there were probes.
        silence.probe_answered();
        assert!(!silence.is_silent());
        silence.unanswered(now);
        assert!(!silence.takes_probe(now + PROBE_FIRST) && silence.takes_probe(now + PROBE_LONGEST));
        silence.answered();
        silence.unanswered(now);
        assert!(silence.takes_probe(now + PROBE_FIRST), "an operation was answered: it begins short");
        assert!(PROBE_PATIENCE < PROBE_FIRST);
    }
}

//! Whether those that a flow asks answer at once, or clients keep them busy.
//!
//! ```text
//!   asked to describe themselves ─▶ as soon as ever in this flow ─▶ calm: a round of copying, or the freeze
//!            ▲                └─▶ later than that ─▶ a pause, twice as long each time ─┐
//!            └──────────────────────── until it is calm, or has been waited for too long ┘
//! ```
//!
//! Always: what was waited for goes on after a bounded time, calm or not: a node that is never idle must have its
//! shards split all the same. Compared is only with this flow's own best, so distance does not count.
//! Not here: what is asked and done then (reshard.rs).

use base_types::Tick;
use core::time::Duration;

/// Answers that take so much longer than the quickest of this flow wait behind clients' requests.
const LATE_MS: u64 = 3;
/// The first pause, doubled for each further one up to the second.
const PAUSE_MS_MIN: u64 = 5;
const PAUSE_MS_MAX: u64 = 80;
/// So long a round of copying waits for a calm moment at most; and a freeze, which all writers feel.
pub(crate) const COPY_WAIT: Duration = Duration::from_millis(150);
pub(crate) const FREEZE_WAIT: Duration = Duration::from_secs(2);

/// What was found out so far.
#[derive(Debug, Default)]
pub(crate) struct Calm {
    best: Option<Duration>,
    /// Waiting since then, after so many pauses.
    since: Option<Tick>,
    pauses: u32,
    reached: bool,
}

impl Calm {
    /// Whether it was calm when it was asked last, or has been waited for long enough; that is then used up.
    pub(crate) fn take(&mut self) -> bool {
        core::mem::take(&mut self.reached)
    }

    /// The answers took so long. How long to pause before asking again; `None`: go on.
    pub(crate) fn on_answers(&mut self, now: Tick, took: Duration, wait_max: Duration) -> Option<Duration> {
        let best = self.best.map_or(took, |best| best.min(took));
        self.best = Some(best);
        let since = *self.since.get_or_insert(now);
        if took <= best + Duration::from_millis(LATE_MS) || now.since(since) >= wait_max {
            (self.since, self.pauses, self.reached) = (None, 0, true);
            return None;
        }
        let pause = (PAUSE_MS_MIN << self.pauses.min(8)).min(PAUSE_MS_MAX);
        self.pauses += 1;
        Some(Duration::from_millis(pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn as_soon_as_ever_is_calm_and_used_up_once() {
        let mut calm = Calm::default();
        assert!(!calm.take());
        assert_eq!(calm.on_answers(Tick(0), ms(40), FREEZE_WAIT), None);
        assert!(calm.take() && !calm.take());
        // As far away as before.
        assert_eq!(calm.on_answers(Tick(0), ms(40 + LATE_MS), FREEZE_WAIT), None);
        assert_eq!(calm.on_answers(Tick(0), ms(41 + LATE_MS), FREEZE_WAIT), Some(ms(PAUSE_MS_MIN)));
    }

    #[test]
    fn pauses_grow_and_the_wait_ends() {
        let mut calm = Calm::default();
        assert_eq!(calm.on_answers(Tick(0), ms(1), FREEZE_WAIT), None);
        assert!(calm.take());
        let (mut now, mut pauses) = (Tick(0), Vec::new());
        while let Some(pause) = calm.on_answers(now, ms(20), FREEZE_WAIT) {
            assert!(!calm.take());
            now = now + pause + ms(20);
            pauses.push(pause);
        }
        assert!(calm.take());
        assert_eq!(pauses[..6], [5, 10, 20, 40, 80, 80].map(ms));
        let waited = now.since(Tick(0));
        assert!(waited >= FREEZE_WAIT && waited < FREEZE_WAIT + ms(PAUSE_MS_MAX + 21), "{waited:?}");
        // The next wait begins anew.
        assert_eq!(calm.on_answers(now, ms(20), FREEZE_WAIT), Some(ms(PAUSE_MS_MIN)));
    }
}

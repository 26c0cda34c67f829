//! When a flow copies, and when it lets writers wait: while clients keep the shards the least busy, for a bounded time.
//!
//! ```text
//!   asked to describe themselves ─▶ as soon as ever in this flow ─▶ calm: a round of copying
//!            ▲                └─▶ later than that ─▶ a pause, twice as long each time ─┐
//!            └──────────────────────── until it is calm, or has been waited for too long ┘
//!
//!   a round of the feed ─▶ as quick as the quickest ─▶ the freeze
//!            ▲         └─▶ slower ─┐
//!            └─────────────────────┘ until one is quick, or it has been waited for too long
//!
//!   left behind a round of the feed ─▶ few: it may be frozen
//!                                   └▶ many, and hardly fewer than behind the round before, for a second: twice as many will do
//! ```
//!
//! Always: a wait ends after a bounded time, idle node or not: a node that is never idle must have its shards split all
//! the same. Times are compared only with this flow's own best, so distance does not count.
//! Held by: `pauses_grow_and_the_wait_ends`, `who_is_written_to_all_the_time_is_frozen_with_more_left_to_do`.
//! Not here: what is asked and done then (reshard.rs).

use base_types::Tick;
use core::time::Duration;
use core_backends::shard_reference::flow::{FEED_CLOSE, FEED_CLOSE_MAX, FEED_WRITES};

/// Answers that take so much longer than the quickest of this flow wait behind clients' requests.
const LATE_MS: u64 = 3;
/// The first pause, doubled for each further one up to the second.
const PAUSE_MS_MIN: u64 = 5;
const PAUSE_MS_MAX: u64 = 80;
/// So long a round of copying waits for a calm moment at most.
const COPY_WAIT: Duration = Duration::from_millis(150);
/// And a freeze, which all writers feel, for a quick round of the feed.
const FREEZE_WAIT: Duration = Duration::from_secs(3);
/// For so long it is only looked how quick they are; engines write every second or two, and rounds are slow then.
const FREEZE_LOOK: Duration = Duration::from_millis(1_000);
/// For so long rounds of the feed leave hardly fewer writes, before as many again will do: among quick rounds there is often one with few.
const CLOSE_LOOK: Duration = Duration::from_secs(1);
/// A round that is quick enough in any case: so many more of them take no longer than writers should wait.
const ROUND_QUICK: Duration = Duration::from_millis(8);
/// Of the quickest round, in percent: what counts as quick.
const QUICK_PERCENT: u32 = 120;

/// What was found out so far.
#[derive(Debug, Default)]
pub(crate) struct CopyPacer {
    best: Option<Duration>,
    /// Waiting since then, after so many pauses.
    since: Option<Tick>,
    pauses: u32,
    reached: bool,
}

impl CopyPacer {
    /// Whether it was calm when it was asked last, or has been waited for long enough; that is then used up.
    pub(crate) fn take(&mut self) -> bool {
        core::mem::take(&mut self.reached)
    }

    /// Takes the time that the answers took. Returns how long to pause before the next question; `None`: continue.
    pub(crate) fn on_answers(&mut self, now: Tick, took: Duration) -> Option<Duration> {
        let best = self.best.map_or(took, |best| best.min(took));
        self.best = Some(best);
        let since = *self.since.get_or_insert(now);
        if took <= best + Duration::from_millis(LATE_MS) || now.since(since) >= COPY_WAIT {
            (self.since, self.pauses, self.reached) = (None, 0, true);
            return None;
        }
        let pause = (PAUSE_MS_MIN << self.pauses.min(8)).min(PAUSE_MS_MAX);
        self.pauses += 1;
        Some(Duration::from_millis(pause))
    }
}

/// The rounds of the feed before a freeze. After a freeze the runner does the same work, for the writes of the last round.
/// So a quick round predicts a short freeze, better than any question.
#[derive(Debug)]
pub(crate) struct FreezeGate {
    since: Option<Tick>,
    best: Option<Duration>,
    /// So many doubled writes behind will do; so many were left behind the last round, and since when rounds have left hardly fewer.
    close: u64,
    left: u64,
    level_since: Option<Tick>,
}

impl Default for FreezeGate {
    fn default() -> FreezeGate {
        FreezeGate { since: None, best: None, close: FEED_CLOSE, left: u64::MAX, level_since: None }
    }
}

impl FreezeGate {
    /// How many doubled writes behind a target may be when its source is frozen.
    pub(crate) fn close(&self) -> u64 {
        self.close
    }

    /// A round of the feed has left so many writes. Where rounds leave clearly fewer (by a half, or by half a page, for no round takes
    /// more than a page) it is on its way to the end; where they do not, it will never be nearer than that.
    pub(crate) fn on_feed(&mut self, now: Tick, left: u64) {
        let gained = self.left.saturating_sub(left);
        let level = left > self.close && left > self.left / 2 && gained < u64::from(FEED_WRITES) / 2;
        self.left = left;
        if !level {
            self.level_since = None;
        } else if now.since(*self.level_since.get_or_insert(now)) >= CLOSE_LOOK {
            (self.close, self.level_since) = ((self.close * 2).min(FEED_CLOSE_MAX), Some(now));
        }
    }

    /// The last round took so long. Whether writers may be told to wait now.
    pub(crate) fn may_freeze(&mut self, now: Tick, took: Duration) -> bool {
        let waited = now.since(*self.since.get_or_insert(now));
        let best = self.best.map_or(took, |best| best.min(took));
        self.best = Some(best);
        took <= ROUND_QUICK || waited >= FREEZE_LOOK && took * 100 <= best * QUICK_PERCENT || waited >= FREEZE_WAIT
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
        let mut calm = CopyPacer::default();
        assert!(!calm.take());
        assert_eq!(calm.on_answers(Tick(0), ms(40)), None);
        assert!(calm.take() && !calm.take());
        // As far away as before.
        assert_eq!(calm.on_answers(Tick(0), ms(40 + LATE_MS)), None);
        assert_eq!(calm.on_answers(Tick(0), ms(41 + LATE_MS)), Some(ms(PAUSE_MS_MIN)));
    }

    #[test]
    fn pauses_grow_and_the_wait_ends() {
        let mut calm = CopyPacer::default();
        assert_eq!(calm.on_answers(Tick(0), ms(1)), None);
        assert!(calm.take());
        let (mut now, mut pauses) = (Tick(0), Vec::new());
        while let Some(pause) = calm.on_answers(now, ms(20)) {
            assert!(!calm.take());
            now = now + pause + ms(20);
            pauses.push(pause);
        }
        assert!(calm.take());
        assert_eq!(pauses, [5, 10, 20, 40].map(ms));
        let waited = now.since(Tick(0));
        assert!(waited >= COPY_WAIT && waited < COPY_WAIT + ms(PAUSE_MS_MAX + 21), "{waited:?}");
        // The next wait begins anew.
        assert_eq!(calm.on_answers(now, ms(20)), Some(ms(PAUSE_MS_MIN)));
    }

    /// The round before which the freeze begins, of rounds one after the other.
    fn frozen_after(rounds: impl IntoIterator<Item = u64>) -> (usize, Duration) {
        let (mut closing, mut now) = (FreezeGate::default(), Tick(0));
        for (at, took) in rounds.into_iter().enumerate() {
            now = now + ms(took);
            if closing.may_freeze(now, ms(took)) {
                return (at, now.since(Tick(0)));
            }
        }
        panic!("never");
    }

    #[test]
    fn writers_wait_behind_a_quick_round() {
        assert_eq!(frozen_after([8]).0, 0, "where nobody is busy, or the last writes were few, at once");
        // The quickest of the first second was 20 ms, and the next that is so comes after it.
        let look = [50, 20].into_iter().chain(core::iter::repeat_n(50, 20));
        assert_eq!(frozen_after(look.clone().chain([40, 25, 24])).0, 24);
        // It does not come again.
        let waited = frozen_after(look.chain(core::iter::repeat(40))).1;
        assert!(waited >= FREEZE_WAIT && waited < FREEZE_WAIT + ms(100), "{waited:?}");
        // Far away, all rounds are slow, and alike.
        let waited = frozen_after(core::iter::repeat(400)).1;
        assert!(waited < FREEZE_LOOK + ms(801), "{waited:?}");
    }

    #[test]
    fn who_is_written_to_all_the_time_is_frozen_with_more_left_to_do() {
        let (mut closing, mut now) = (FreezeGate::default(), Tick(0));
        // A long way to go, most of a page in each round.
        let rest = (0..20).map(|round| 12_600 - round * 600);
        for left in [20_000, 19_000].into_iter().chain(rest).chain([600]) {
            now = now + ms(700);
            closing.on_feed(now, left);
            assert_eq!(closing.close(), FEED_CLOSE);
        }
        // 500 writes a second, rounds of 600 ms.
        let rounds = (0..).find(|_| {
            now = now + ms(600);
            closing.on_feed(now, 300);
            closing.close() >= 300
        });
        assert_eq!((rounds, closing.close()), (Some(7), 512));
        closing.on_feed(now + ms(5_000), 300);
        assert_eq!(closing.close(), 512, "that will do");
        // Few at a lucky moment: it begins anew.
        let mut closing = FreezeGate::default();
        (0..100).for_each(|round| closing.on_feed(Tick(0) + ms(round * 400), if round % 3 == 2 { 60 } else { 100 }));
        assert_eq!(closing.close(), FEED_CLOSE);
        // However many come in, there is a bound.
        (0..100).for_each(|round| closing.on_feed(Tick(0) + ms(round * 1_000), u64::MAX));
        assert_eq!(closing.close(), FEED_CLOSE_MAX);
    }
}

//! Which calls retry while a shard is frozen or its keys are moving: one call of a core at a time for each bucket, and
//! all others once that call gets another answer.
//!
//! ```text
//!   refused ─▶ held ─▶ its turn (one each ASK_EVERY) ─▶ asks ─▶ refused as before ─▶ held
//!               ▲                                       └──▶ anything else, or a newer map: nobody is held any more
//!               └── a pause, at most HELD_MAX on end, then it asks whatever the others were told
//! ```
//!
//! Always: who was never refused is not held; nobody is held for longer than [`HELD_MAX`] pauses, so that what is noted
//! here costs time at worst, and decides nothing: shards check every epoch for themselves.
//! Held by: `one_asks_at_a_time_until_there_are_news`, `what_is_left_of_calls_that_ended_holds_nobody`.
//! Not here: what counts as refused, and the pauses (with_bucket.rs).
//! Why: hundreds of writers wait for a switch of some tens of milliseconds, and their retries would cost the time that
//! the switch itself needs.

use base_types::Tick;
use core::time::Duration;
use std::collections::BTreeMap;

/// The most buckets that are noted; beyond it the first by id is no longer, and its calls ask.
const BUCKETS_MAX: usize = 1_000;
/// One call retries this often, and more rarely the longer the wait lasts. A switch takes some tens of milliseconds, a
/// snapshot that nobody completes takes ten seconds, and each call retries a bounded number of times.
const ASK_EVERY: Duration = Duration::from_millis(3);
const ASK_EVERY_MAX: Duration = Duration::from_millis(500);
const ASK_EVERY_PART: u32 = 8;
/// The shortest pause of who is held and the longest, and the part likewise.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(250);
const PAUSE_PART: u32 = 16;
/// So long behind the last refusal nothing is known any more: all who waited have gone, or who asked last is not answered.
const FORGOTTEN: Duration = Duration::from_secs(2);
/// Pauses on end after which a call asks in any case.
pub(crate) const HELD_MAX: u32 = 24;

/// The buckets of one core whose calls must retry.
#[derive(Debug, Default)]
pub(crate) struct CutoverGate(BTreeMap<u128, Held>);

#[derive(Debug)]
struct Held {
    /// The newest map by which a call was refused.
    version: u64,
    since: Tick,
    /// When one asked last, and when one was refused last.
    asked: Tick,
    refused: Tick,
}

impl CutoverGate {
    /// A call that went by this version of the map was refused.
    pub(crate) fn on_refused(&mut self, id: u128, version: u64, now: Tick) {
        match self.0.get_mut(&id).filter(|noted| now.since(noted.refused) < FORGOTTEN) {
            Some(noted) => (noted.version, noted.refused) = (noted.version.max(version), now),
            None => {
                if self.0.len() >= BUCKETS_MAX {
                    self.0.pop_first();
                }
                self.0.insert(id, Held { version, since: now, asked: now, refused: now });
            }
        }
    }

    /// How long a call that was refused pauses at least before it may ask; none: it is its turn.
    pub(crate) fn pause(&mut self, id: u128, now: Tick) -> Option<Duration> {
        let noted = self.0.get_mut(&id).filter(|noted| now.since(noted.refused) < FORGOTTEN)?;
        let age = now.since(noted.since);
        if now.since(noted.asked) < (age / ASK_EVERY_PART).clamp(ASK_EVERY, ASK_EVERY_MAX) {
            return Some((age / PAUSE_PART).clamp(PAUSE_MIN, PAUSE_MAX));
        }
        noted.asked = now;
        None
    }

    /// A call that had been refused got another answer.
    pub(crate) fn on_news(&mut self, id: u128) {
        self.0.remove(&id);
    }

    /// A map was read.
    pub(crate) fn on_map(&mut self, id: u128, version: u64) {
        if self.0.get(&id).is_some_and(|noted| version > noted.version) {
            self.0.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_asks_at_a_time_until_there_are_news() {
        let mut held = CutoverGate::default();
        assert_eq!(held.pause(7, Tick(0)), None, "nothing is noted");
        held.on_refused(7, 3, Tick(0));
        assert_eq!((held.pause(7, Tick(0)), held.pause(8, Tick(0))), (Some(PAUSE_MIN), None));
        let turn = Tick(0) + ASK_EVERY;
        assert_eq!((held.pause(7, turn), held.pause(7, turn)), (None, Some(PAUSE_MIN)));
        // Refusals that other calls get at the same moment change no turn.
        held.on_refused(7, 3, turn);
        assert_eq!(held.pause(7, turn + ASK_EVERY), None);
        held.on_map(7, 3);
        assert!(held.pause(7, turn + ASK_EVERY).is_some(), "the map they were refused by");
        held.on_map(7, 4);
        assert_eq!((held.pause(7, turn), held.pause(7, turn)), (None, None));
        held.on_refused(7, 4, turn);
        held.on_news(7);
        assert_eq!((held.pause(7, turn), held.pause(7, turn)), (None, None));
    }

    #[test]
    fn who_waits_alone_for_a_freeze_of_ten_seconds_asks_less_often_than_it_may() {
        let (mut held, mut now, mut asked) = (CutoverGate::default(), Tick(0), 0);
        held.on_refused(7, 1, now);
        while now < Tick(0) + Duration::from_secs(10) {
            match held.pause(7, now) {
                Some(pause) => now = now + pause,
                None => {
                    asked += 1;
                    held.on_refused(7, 1, now);
                }
            }
        }
        assert!((20..crate::buckets::with_bucket::TRIES_MAX).contains(&asked), "{asked}");
    }

    #[test]
    fn what_is_left_of_calls_that_ended_holds_nobody() {
        let (mut held, later) = (CutoverGate::default(), Tick(0) + Duration::from_secs(3_600));
        held.on_refused(7, 1, Tick(0));
        assert_eq!((held.pause(7, later), held.pause(7, later)), (None, None));
        held.on_refused(7, 1, later);
        assert_eq!(held.pause(7, later), Some(PAUSE_MIN), "it begins anew");
    }

    #[test]
    fn no_more_buckets_are_noted_than_may_be() {
        let mut held = CutoverGate::default();
        (0..=BUCKETS_MAX as u128).for_each(|id| held.on_refused(id, 1, Tick(0)));
        assert_eq!(held.0.len(), BUCKETS_MAX);
        assert!(held.pause(BUCKETS_MAX as u128, Tick(0)).is_some() && held.pause(0, Tick(0)).is_none());
    }
}

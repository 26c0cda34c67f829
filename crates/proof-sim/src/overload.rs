//! Twice as much as a world can do, for a while, and then a normal load (row 27 of the catalogue), in virtual time.
//!
//!   steps up until no more is answered ──▶ rest ──▶ twice the most ──▶ half of what went well ──▶ answers, second by second
//!
//! Cores need time for each event (`tuning.event_us`), so that what is too much waits in their inboxes, together with heartbeats
//! and votes. Clients are the streams of `availability`: every level, two seconds for all tries, another node after a failure.
//!
//! Always: a function of the seed. A world that does not come back within [`RECOVERY_MAX`] has failed; so has one in which an
//! operation is done for a client whose deadline had passed, or a key is lost. Not here: processes (`hive bench overload`).

use crate::availability::{Run, STREAMS};
use proof_check::availability::tally::Outcome;
use proof_check::Violation;

/// What an event costs a core: a thousand of them a second are all it can do.
const EVENT_US: u64 = 1_000;
/// Operations a second of each level in the first step, and by how much the next is more, in percent.
const FIRST_RATE: u64 = 10;
const STEP_PERCENT: u64 = 130;
/// Steps at most: far more than a core can do at these costs.
const STEPS_MAX: usize = 24;
/// How long a step takes, and the rests.
const STEP_S: u64 = 10;
const REST_S: u64 = 10;
/// Between two steps: longer than an operation's deadline.
const DRAIN_S: u64 = 3;
/// Of what is asked so much must be answered in time, in percent, where all is well.
const WELL_PERCENT: u64 = 95;
/// Goodput is back within so many seconds of the load's end.
pub const RECOVERY_MAX: u64 = 10;
/// How long is looked afterwards.
const AFTER_S: u64 = 30;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Overload {
    pub seed: u64,
    /// Operations a second of all levels together at which all was well.
    pub well: u64,
    /// The most that were answered in time in a second, at any load.
    pub most: u64,
    /// How long twice the most was asked for.
    pub seconds: u64,
    /// Of each second of the load and after it: operations begun, and answered in time.
    pub each_second: Vec<(u64, u64)>,
    /// Seconds from the load's end until all is well for good; `None`: never.
    pub recovered_s: Option<u64>,
    /// Requests that had expired when a core came to them.
    pub expired: u64,
}

/// One run.
pub fn run(seed: u64, seconds: u64) -> Result<Overload, Vec<Violation>> {
    let mut world = Run::new(seed, FIRST_RATE as u32, EVENT_US);
    if world.set_up().is_none() {
        return Err(world.broken("the world was not ready in time"));
    }
    world.begin();
    let (well, most) = capacity(&mut world);
    rest(&mut world, well);
    let from = world.world.now;
    set_rate(&mut world, most * 2);
    world.pump(from + seconds * 1_000_000);
    let ended = world.world.now;
    set_rate(&mut world, well / 2);
    world.pump(ended + AFTER_S * 1_000_000);
    world.over = true;
    world.pump(world.world.now + REST_S * 1_000_000);
    if !world.world.violations.is_empty() {
        return Err(world.world.violations);
    }
    let each_second: Vec<(u64, u64)> =
        (0..seconds + AFTER_S).map(|second| counts(&world, from + second * 1_000_000, 1)).collect();
    let recovered_s = recovered(&each_second[seconds as usize..]);
    let expired = world.world.probes.get("expired_before_its_turn").copied().unwrap_or(0);
    let found = Overload { seed, well, most, seconds, each_second, recovered_s, expired };
    let wrong = world.records.iter().flatten().filter(|record| record.outcome == Outcome::Wrong).count();
    if wrong > 0 {
        return Err(vec![Violation::new("overload", format!("{wrong} reads did not find what was written"), vec![])]);
    }
    if recovered_s.is_none_or(|seconds| seconds > RECOVERY_MAX) {
        let message = format!("goodput is not back {RECOVERY_MAX} s after twice of {most}/s: {found:?}");
        return Err(vec![Violation::new("overload", message, vec![])]);
    }
    Ok(found)
}

/// Steps up until no more is answered: the highest rate up to which all was well, and the most that was answered in a second.
/// One is far below the other: a busy leader's own clients suffer first, and the others' are answered still.
fn capacity(world: &mut Run) -> (u64, u64) {
    let (mut rate, mut well, mut most) = (FIRST_RATE * STREAMS.len() as u64, 0, 0);
    let mut all_well = true;
    for _ in 0..STEPS_MAX {
        set_rate(world, rate);
        let from = world.world.now;
        // What was begun in a step may be answered in the next one: it is looked at when its deadline has passed.
        world.pump(from + STEP_S * 1_000_000);
        set_rate(world, (well / 2).max(STREAMS.len() as u64));
        world.pump(world.world.now + DRAIN_S * 1_000_000);
        let (begun, answered) = counts(world, from, STEP_S);
        all_well &= is_well((begun, answered));
        if all_well {
            well = answered / STEP_S;
        } else if answered / STEP_S <= most {
            break;
        }
        most = most.max(answered / STEP_S);
        rate = rate * STEP_PERCENT / 100;
    }
    (well, most)
}

fn rest(world: &mut Run, well: u64) {
    set_rate(world, well / 2);
    world.pump(world.world.now + REST_S * 1_000_000);
}

/// Of all levels together.
fn set_rate(world: &mut Run, rate: u64) {
    world.interval_us = STREAMS.len() as u64 * 1_000_000 / rate.max(1);
}

/// Operations begun in some seconds from a moment on, and how many of them were answered in time.
fn counts(world: &Run, from: u64, seconds: u64) -> (u64, u64) {
    let from_ms = (from - world.from) / 1_000;
    let within = from_ms..from_ms + seconds * 1_000;
    let begun = world.records.iter().flatten().filter(|record| within.contains(&u64::from(record.begun)));
    begun.fold((0, 0), |(begun, answered), record| {
        (begun + 1, answered + u64::from(record.outcome == Outcome::Answered))
    })
}

/// The first second from which on all are well.
fn recovered(after: &[(u64, u64)]) -> Option<u64> {
    let bad = after.iter().rposition(|second| !is_well(*second)).map_or(0, |at| at + 1);
    (bad < after.len()).then_some(bad as u64)
}

fn is_well((begun, answered): (u64, u64)) -> bool {
    answered * 100 >= begun * WELL_PERCENT
}

impl Overload {
    /// For people.
    pub fn text(&self) -> String {
        let part = |seconds: &[(u64, u64)]| {
            let (begun, answered) = seconds.iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            format!("{} of {} a second", answered / seconds.len().max(1) as u64, begun / seconds.len().max(1) as u64)
        };
        let (load, after) = self.each_second.split_at(self.seconds as usize);
        let recovered = self.recovered_s.map_or("never".into(), |seconds| format!("{seconds} s"));
        format!(
            "seed {}: up to {} operations a second all is well, {} a second are answered at most; of twice that for {} s: {}; of half of what is well, afterwards: {}; back after {recovered}; {} requests expired before their turn",
            self.seed,
            self.well,
            self.most,
            self.seconds,
            part(load),
            part(after),
            self.expired
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_is_for_good() {
        assert_eq!(recovered(&[(10, 2), (10, 10), (10, 9), (10, 10)]), Some(3));
        assert_eq!(recovered(&[(10, 10)]), Some(0));
        assert_eq!(recovered(&[(10, 10), (10, 0)]), None);
    }

    #[test]
    fn goodput_is_back_soon_after_twice_the_load() {
        let found = run(1, 10).expect("it comes back");
        assert!(found.well > 100 && found.most > found.well, "{found:?}");
        assert!(found.recovered_s.is_some_and(|seconds| seconds <= RECOVERY_MAX), "{}", found.text());
    }
}

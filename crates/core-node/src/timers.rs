//! When a core is to be woken and for what, and what the wall clock said.
//!
//! Always: timers ring in the order of their time, and those of one time in the order of [`TimerKey`].
//! Held by: `timers_ring_in_order_and_move`.
//! Not here: what happens when one rings (core.rs).

use base_types::Tick;
use std::collections::BTreeSet;

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TimerKey {
    Operation(u64),
    Plan(u64),
    Order(u64),
    Formation,
    Nodes,
    Config,
    Health,
    /// A search that the world has not answered.
    Search(u64),
    /// Keyspaces' documents are copied into the region's cluster.
    Copies,
    FlowRecovery,
    ReplicaRepair,
    Rebalance,
    S3Scheduler,
    Directory,
}

/// The timers of a core.
#[derive(Debug, Default)]
pub struct Timers {
    set: BTreeSet<(Tick, TimerKey)>,
}

impl Timers {
    /// Sets (or moves) a timer; `old` is what it was set to. `Tick::NEVER`: it is taken away.
    pub fn set(&mut self, key: TimerKey, old: Tick, at: Tick) {
        if old != at {
            self.set.remove(&(old, key));
        }
        if at != Tick::NEVER {
            self.set.insert((at, key));
        }
    }

    /// Takes a timer away.
    pub fn cancel(&mut self, key: TimerKey, at: Tick) {
        self.set.remove(&(at, key));
    }

    /// Takes the earliest timer, if it is due.
    pub fn take_due(&mut self, now: Tick) -> Option<TimerKey> {
        let (_, key) = self.set.first().filter(|(at, _)| *at <= now).copied()?;
        self.set.pop_first();
        Some(key)
    }

    /// When the earliest timer rings.
    pub fn next(&self) -> Tick {
        self.set.first().map_or(Tick::NEVER, |(at, _)| *at)
    }

    /// How many are set.
    pub fn len(&self) -> usize {
        self.set.len()
    }
}

/// What the host said of the wall clock, and when.
#[derive(Debug, Default)]
pub struct WallClock {
    unix_ms: u64,
    at: Tick,
}

impl WallClock {
    /// The host said what it is now.
    pub fn on_clock(&mut self, unix_ms: u64, now: Tick) {
        *self = WallClock { unix_ms, at: now };
    }

    /// Unix milliseconds; zero where the host never said it.
    pub fn unix_ms(&self, now: Tick) -> u64 {
        if self.unix_ms == 0 {
            return 0;
        }
        self.unix_ms.saturating_add(now.since(self.at).as_millis() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_ring_in_order_and_move() {
        let mut timers = Timers::default();
        timers.set(TimerKey::Nodes, Tick::NEVER, Tick(5));
        timers.set(TimerKey::Formation, Tick::NEVER, Tick(5));
        timers.set(TimerKey::Plan(1), Tick::NEVER, Tick(3));
        timers.set(TimerKey::Plan(1), Tick(3), Tick(9));
        assert_eq!((timers.len(), timers.next()), (3, Tick(5)));
        assert_eq!(timers.take_due(Tick(4)), None);
        assert_eq!(timers.take_due(Tick(5)), Some(TimerKey::Formation));
        assert_eq!(timers.take_due(Tick(5)), Some(TimerKey::Nodes));
        timers.cancel(TimerKey::Plan(1), Tick(9));
        assert_eq!((timers.take_due(Tick(9)), timers.next()), (None, Tick::NEVER));
    }

    #[test]
    fn the_wall_clock_runs_on_and_is_zero_before_it_was_said() {
        let mut clock = WallClock::default();
        assert_eq!(clock.unix_ms(Tick::from_millis(7)), 0);
        clock.on_clock(1_000, Tick::from_millis(7));
        assert_eq!(clock.unix_ms(Tick::from_millis(9)), 1_002);
    }
}

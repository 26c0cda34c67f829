//! Gives memory back to the system when a thread falls quiet.
//!
//! Always: nothing is given back while a thread is busy, since its next turns would fetch it again.
//! Not here: which allocator there is (the program says how to ask it).

use std::sync::OnceLock;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Events in one period up to which a lane counts as quiet: heartbeats and timers of an idle node.
const QUIET_EVENTS_MAX: u64 = 500;
/// Quiet periods in a row before memory is given back.
const QUIET_PERIODS: u32 = 3;

/// How the calling thread's free memory is given back to the system. Told once, by the program, at its start.
pub fn set_give_back(give_back: fn()) {
    let _told_before = GIVE_BACK.set(give_back);
}

/// Watches one thread: told every period how many events there have been in all.
#[derive(Debug, Default)]
pub(crate) struct QuietMemory {
    events: u64,
    quiet: u32,
}

impl QuietMemory {
    /// A period is over; gives memory back once, when the thread has just become quiet.
    pub(crate) fn period(&mut self, events: u64) {
        if self.has_become_quiet(events) {
            if let Some(give_back) = GIVE_BACK.get() {
                give_back();
            }
        }
    }

    fn has_become_quiet(&mut self, events: u64) -> bool {
        let new = events.saturating_sub(self.events);
        self.events = events;
        self.quiet = if new > QUIET_EVENTS_MAX { 0 } else { self.quiet.saturating_add(1) };
        self.quiet == QUIET_PERIODS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_each_time_it_becomes_quiet() {
        let mut memory = QuietMemory::default();
        let (mut events, mut given) = (0, Vec::new());
        for (at, new) in [900, 10, 10, 10, 10, 10, 900, 500, 501, 10, 10, 10, 10].into_iter().enumerate() {
            events += new;
            if memory.has_become_quiet(events) {
                given.push(at);
            }
        }
        assert_eq!(given, [3, 11]);
    }
}

//! What a node asks of the allocator: memory of its own for each core, and back to the system when a thread falls quiet.
//!
//! Always: nothing is given back while a thread is busy, since its next turns would fetch it again.
//! Held by: `once_each_time_it_becomes_quiet`.
//! Not here: which allocator there is (the program says how to ask it).

use std::sync::OnceLock;

/// How the program's allocator is asked. All work on the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Allocator {
    /// Gives its free memory back to the system.
    pub give_back: fn(),
    /// Has it take memory from a part of the heap that no other thread uses, so that cores do not wait for each other.
    pub own_heap: fn(),
}

static ALLOCATOR: OnceLock<Allocator> = OnceLock::new();

/// Events in one period up to which a lane counts as quiet: heartbeats and timers of an idle node.
const QUIET_EVENTS_MAX: u64 = 500;
/// Quiet periods in a row before memory is given back.
const QUIET_PERIODS: u32 = 3;

/// Told once, by the program, at its start.
pub fn set_allocator(allocator: Allocator) {
    let _told_before = ALLOCATOR.set(allocator);
}

/// A core's thread begins. The first core shares the heap of the threads beside the cores: a node of one core, one of
/// many on its machine, needs no second.
pub(crate) fn core_begins(index: usize) {
    if let Some(allocator) = ALLOCATOR.get().filter(|_| index > 0) {
        (allocator.own_heap)();
    }
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
            if let Some(allocator) = ALLOCATOR.get() {
                (allocator.give_back)();
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

//! The share of the processor that scripts have together: few of them run at a time, a little each, in turn.
//!
//! ```text
//!   begin, redis.call's reply ─▶ waits for a place ─▶ runs ─ redis.call, 10 ms, the end ─▶ gives it back
//! ```
//! By design: the cores' own threads do all else that a node does, and scripts that loop must not take the processor from them. A script that
//! waits for the database has no place.
//! Always: places are given in the order in which they are asked for; no more are given than there are.
//! Held by: `few_run_at_a_time_and_all_have_their_turn`.
//! Not here: how long a script may take (`machine.rs`).

use super::limits::{SCRIPT_CORES_SHARE, SCRIPT_SLICE};
use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// How many have asked for a place, and how many have given one back.
struct Asked {
    begun: u64,
    ended: u64,
}

/// Places to run at.
pub(super) struct Places {
    asked: Mutex<Asked>,
    changed: Condvar,
    count: u64,
}

/// Those of the process.
pub(super) fn places() -> &'static Places {
    static PLACES: OnceLock<Places> = OnceLock::new();
    PLACES.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Places::new((cores / SCRIPT_CORES_SHARE).max(1))
    })
}

impl Places {
    fn new(count: usize) -> Places {
        Places { asked: Mutex::new(Asked { begun: 0, ended: 0 }), changed: Condvar::new(), count: count as u64 }
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        // Two counts, neither of which is left half changed.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) {
        let mut asked = self.asked();
        let own = asked.begun;
        asked.begun += 1;
        while own >= asked.ended + self.count {
            asked = self.changed.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self) {
        self.asked().ended += 1;
        self.changed.notify_all();
    }
}

/// A script's place, which it has or waits for until this ends.
pub(super) struct Place {
    places: &'static Places,
    since: Cell<Instant>,
}

impl Place {
    /// Waits for a place.
    pub fn wait(places: &'static Places) -> Place {
        places.take();
        Place { places, since: Cell::new(Instant::now()) }
    }

    /// Does without the place what needs no processor.
    pub fn without<T>(&self, run: impl FnOnce() -> T) -> T {
        self.places.give_back();
        let done = run();
        self.places.take();
        self.since.set(Instant::now());
        done
    }

    /// Lets others run, when it has had its time.
    pub fn share(&self) {
        if self.since.get().elapsed() > SCRIPT_SLICE {
            self.without(|| {});
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn few_run_at_a_time_and_all_have_their_turn() {
        let places: &'static Places = Box::leak(Box::new(Places::new(2)));
        let (running, most, turns) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let place = Place::wait(places);
                    for _ in 0..20 {
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        turns.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_micros(200));
                        running.fetch_sub(1, Ordering::SeqCst);
                        place.without(|| {});
                    }
                });
            }
        });
        assert_eq!((most.load(Ordering::SeqCst), turns.load(Ordering::SeqCst)), (2, 160));
        let asked = places.asked();
        assert_eq!(asked.begun, asked.ended);
    }
}

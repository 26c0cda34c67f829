//! Waking a core's thread, without a call into the system where it is awake or need not hurry.
//!
//! ```text
//!   AWAKE ─▶ DOZING: it has a time to write at; a weak write need not wake it, a strong one does
//!         └▶ ASLEEP: nothing is to be written; any letter wakes it
//! ```
//!
//! Always: a ring after something was put down is heard, or what was put down is seen by the look
//! before the sleep. (Both sides write, then read the other's: sequentially consistent.)
//! Held by: `no_ring_is_lost`.
//! Not here: what is looked at (`owner.rs`).

use std::sync::atomic::{fence, AtomicBool, AtomicU8, Ordering};
use std::sync::OnceLock;
use std::thread::Thread;
use std::time::Duration;

const AWAKE: u8 = 0;
const DOZING: u8 = 1;
const ASLEEP: u8 = 2;

/// A core's bell.
#[derive(Default)]
pub struct Bell {
    state: AtomicU8,
    urgent: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Bell {
    /// The calling thread is the one to wake.
    pub fn hang_up(&self) {
        let _ = self.thread.set(std::thread::current());
    }

    /// Something was put down; `urgent`: now.
    pub fn ring(&self, urgent: bool) {
        if urgent {
            self.urgent.store(true, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::SeqCst);
        if state == ASLEEP || (urgent && state == DOZING) {
            if let Some(thread) = self.thread.get() {
                thread.unpark();
            }
        }
    }

    /// Sleeps until rung, or for so long. Where `dozing`, only an urgent ring wakes; else any, and `is_idle`
    /// is asked before the sleep.
    pub fn sleep(&self, time: Option<Duration>, dozing: bool, is_idle: impl Fn() -> bool) {
        self.state.store(if dozing { DOZING } else { ASLEEP }, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !self.urgent.swap(false, Ordering::SeqCst) && (dozing || is_idle()) {
            match time {
                Some(time) => std::thread::park_timeout(time),
                None => std::thread::park(),
            }
        }
        self.state.store(AWAKE, Ordering::SeqCst);
        self.urgent.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Every letter is seen although the thread sleeps without an end whenever it sees none.
    #[test]
    fn no_ring_is_lost() {
        let (bell, letters) = (Bell::default(), AtomicU64::new(0));
        const ALL: u64 = 20_000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                bell.hang_up();
                let mut taken = 0;
                while taken < ALL {
                    taken += letters.swap(0, Ordering::SeqCst);
                    if taken < ALL {
                        bell.sleep(None, false, || letters.load(Ordering::SeqCst) == 0);
                    }
                }
            });
            for number in 0..ALL {
                letters.fetch_add(1, Ordering::SeqCst);
                bell.ring(number % 3 == 0);
            }
            // The thread may not have hung up its bell when the first rang.
            while letters.load(Ordering::SeqCst) > 0 {
                bell.ring(true);
                std::thread::yield_now();
            }
            bell.ring(true);
        });
    }
}

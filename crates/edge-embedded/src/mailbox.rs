//! Letters from any thread to the core that owns the keys, and the wait for their end.
//!
//! A place is reserved before the letter is made, so that who has begun to write never waits for room:
//! the owner may then stand still for an instant of its own (`core.rs`).
//!
//! Always: at most LETTERS_MAX letters wait; letters come out in the order they were put in.
//! Held by: `it_is_bounded_and_in_order`.
//! Not here: how the owner is woken (`core.rs`).

use bytes::Bytes;
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Letters that may wait for an owner.
pub const LETTERS_MAX: usize = 1 << 14;
/// How often a waiting thread looks whether the store has failed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What an owner is sent.
pub struct Letter {
    /// Its place in the store's order; 0 for a letter that only waits.
    pub number: u64,
    /// What is to be recorded; empty for a letter that only waits.
    pub body: Bytes,
    /// Other cores whose keys are in it.
    pub others: Vec<u16>,
    /// Who waits until it, and all before it, are on the disk.
    pub waiter: Option<Arc<Waiter>>,
}

/// The mailbox.
pub struct Mailbox {
    letters: ArrayQueue<Letter>,
    /// Letters in it, and places reserved.
    taken: CachePadded<AtomicUsize>,
}

impl Default for Mailbox {
    fn default() -> Mailbox {
        Mailbox { letters: ArrayQueue::new(LETTERS_MAX), taken: CachePadded::default() }
    }
}

impl Mailbox {
    /// Reserves a place, if there is one. It must be used by `put`.
    pub fn reserve(&self) -> bool {
        if self.taken.fetch_add(1, Ordering::AcqRel) < LETTERS_MAX {
            return true;
        }
        self.taken.fetch_sub(1, Ordering::AcqRel);
        false
    }

    /// Gives a reserved place back.
    pub fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
    }

    /// Puts a letter into a reserved place.
    pub fn put(&self, letter: Letter) {
        let put = self.letters.push(letter);
        assert!(put.is_ok(), "a reserved place is there");
    }

    /// The next letter.
    pub fn take(&self) -> Option<Letter> {
        let letter = self.letters.pop()?;
        self.taken.fetch_sub(1, Ordering::AcqRel);
        Some(letter)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// Whether the owner should not sleep on.
    pub fn is_filling(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= LETTERS_MAX / 2
    }
}

/// A thread that waits for one or several cores.
pub struct Waiter {
    left: AtomicUsize,
    failed: AtomicBool,
    thread: Thread,
}

impl Waiter {
    /// The calling thread, waiting for so many cores.
    pub fn new(cores: usize) -> Arc<Waiter> {
        Arc::new(Waiter { left: cores.into(), failed: false.into(), thread: std::thread::current() })
    }

    /// One of them is done.
    pub fn done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.thread.unpark();
        }
    }

    /// One of them never will be.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// True: all are done. False: one has failed (`has_failed` says whether the store has), or the time is over.
    pub fn wait(&self, most: Duration, has_failed: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        while self.left.load(Ordering::Acquire) > 0 {
            if self.failed.load(Ordering::Acquire) || has_failed() {
                return self.left.load(Ordering::Acquire) == 0;
            }
            let waited = begun.elapsed();
            if waited >= most {
                return false;
            }
            std::thread::park_timeout(LOOK_EVERY.min(most - waited));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(number: u64) -> Letter {
        Letter { number, body: Bytes::new(), others: Vec::new(), waiter: None }
    }

    #[test]
    fn it_is_bounded_and_in_order() {
        let mailbox = Mailbox::default();
        for number in 0..LETTERS_MAX as u64 {
            assert!(mailbox.reserve());
            mailbox.put(letter(number));
        }
        assert!(!mailbox.reserve() && mailbox.is_filling());
        assert_eq!(mailbox.take().map(|letter| letter.number), Some(0));
        assert!(mailbox.reserve() && !mailbox.reserve());
        mailbox.give_back();
        for number in 1..LETTERS_MAX as u64 {
            assert_eq!(mailbox.take().map(|letter| letter.number), Some(number));
        }
        assert!(mailbox.take().is_none() && mailbox.is_empty() && !mailbox.is_filling());
    }

    #[test]
    fn a_waiter_hears_of_the_last_of_several() {
        let waiter = Waiter::new(2);
        let other = waiter.clone();
        let thread = std::thread::spawn(move || {
            other.done();
            other.done();
        });
        assert!(waiter.wait(Duration::from_secs(60), || false));
        thread.join().unwrap();
        let failing = Waiter::new(1);
        failing.fail();
        assert!(!failing.wait(Duration::from_secs(60), || false));
        assert!(!Waiter::new(1).wait(Duration::from_secs(60), || true));
        assert!(!Waiter::new(1).wait(Duration::ZERO, || false));
    }
}

//! One order for the whole store: every write takes the next number, and a reader can wait for the
//! moment when all numbers given out so far are in memory.
//!
//! ```text
//!   begin ─▶ number n ─▶ (mailbox, memory) ─▶ finish: done[n mod RING] = n
//!   stable ─▶ the last number given out, once each up to it is done
//! ```
//!
//! So that a snapshot is one instant of all cores and a batch over several of them is seen whole or not
//! at all, without a lock that writers and readers share. A number waits for the one RING before it in
//! the same place; so a done place speaks for all earlier numbers in it, and `stable` looks at one ring.
//!
//! Always: numbers ascend from the one given at the start; `stable` never returns before a number up
//! to its answer is finished.
//! Not here: what is written under a number.

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes that may be between their number and their end at a time; more wait for the first of them.
const RING: u64 = 1 << 13;
/// Neighbouring numbers are kept this far apart, so that threads do not share a cache line.
const STRIDE: u64 = 16;
/// Looks before the processor is given to somebody else: a writer is done in less than a microsecond.
const SPINS: u32 = 128;

/// The order.
pub struct Order {
    last: CachePadded<AtomicU64>,
    /// Up to here `stable` has looked: the next look begins there.
    seen: CachePadded<AtomicU64>,
    done: Box<[AtomicU64]>,
}

/// A number; finished when dropped.
pub struct Ticket<'o> {
    order: &'o Order,
    pub number: u64,
}

fn place(number: u64) -> usize {
    let within = number % RING;
    ((within % (RING / STRIDE)) * STRIDE + within / (RING / STRIDE)) as usize
}

/// Waits until `ready`; the thread that is waited for may need this processor.
fn wait_until(ready: impl Fn() -> bool) {
    let mut tries = 0u32;
    while !ready() {
        tries += 1;
        if tries.is_multiple_of(SPINS) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

impl Order {
    /// Continues after `last`.
    pub fn new(last: u64) -> Order {
        let done = (0..RING).map(|_| AtomicU64::new(last)).collect();
        Order { last: CachePadded::new(last.into()), seen: CachePadded::new(last.into()), done }
    }

    /// The next number.
    pub fn begin(&self) -> Ticket<'_> {
        Ticket { order: self, number: self.last.fetch_add(1, Ordering::SeqCst) + 1 }
    }

    /// The last number given out.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::SeqCst)
    }

    /// The last number given out, when it and all before it are finished.
    pub fn stable(&self) -> u64 {
        let last = self.last();
        let from = self.seen.load(Ordering::Acquire).max(last.saturating_sub(RING));
        for number in from + 1..=last {
            let done = &self.done[place(number)];
            wait_until(|| done.load(Ordering::Acquire) >= number);
        }
        self.seen.fetch_max(last, Ordering::AcqRel);
        last
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let done = &self.order.done[place(self.number)];
        let before = self.number.saturating_sub(RING);
        wait_until(|| done.load(Ordering::Acquire) >= before);
        done.store(self.number, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_a_ring_has_a_place_of_its_own() {
        let mut places: Vec<usize> = (1..=RING).map(place).collect();
        places.sort_unstable();
        assert!(places.iter().copied().eq(0..RING as usize));
        assert_eq!(place(5), place(5 + RING));
    }

    #[test]
    fn what_is_finished_is_stable() {
        let order = Order::new(41);
        assert_eq!(order.stable(), 41);
        for expected in 42..=42 + 3 * RING {
            assert_eq!(order.begin().number, expected);
        }
        assert_eq!(order.stable(), 42 + 3 * RING);
    }

    /// A number that is not finished holds `stable` back; those after it do not.
    #[test]
    fn stable_waits_for_the_slowest() {
        let order = Order::new(0);
        let (flag, seen) = (std::sync::atomic::AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let slow = order.begin();
            drop(order.begin());
            scope.spawn(|| {
                let stable = order.stable();
                assert!(flag.load(Ordering::SeqCst), "returned before the first number was finished");
                seen.store(stable, Ordering::SeqCst);
            });
            for _ in 0..100 {
                std::thread::yield_now();
            }
            flag.store(true, Ordering::SeqCst);
            drop(slow);
        });
        assert_eq!(seen.into_inner(), 2);
    }

    #[test]
    fn many_threads_share_one_order() {
        let order = Order::new(0);
        let marks: Vec<AtomicU64> = (0..4 * 5_001).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let ticket = order.begin();
                        marks[ticket.number as usize].store(ticket.number, Ordering::Relaxed);
                    }
                });
            }
            scope.spawn(|| loop {
                let stable = order.stable();
                for number in 1..=stable {
                    assert_eq!(marks[number as usize].load(Ordering::Relaxed), number);
                }
                if stable == 20_000 {
                    return;
                }
            });
        });
    }
}

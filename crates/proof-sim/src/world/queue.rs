//! Everything that will happen, by time; what was asked for first comes first at one time.
//!
//! Always: the order is that of (time, number) alone. The heap moves one number about, in which time, number
//! and slot lie one behind the other; what is due lies still in its slot.

use super::Due;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bits of a slot's number: more things are never due at once.
const SLOT_BITS: u32 = 24;
/// Bits of a thing's number: more things never happen in one run.
const NUMBER_BITS: u32 = 40;

/// The queue.
#[derive(Default)]
pub struct Queue {
    /// Time, number, slot.
    heap: BinaryHeap<Reverse<u128>>,
    slots: Vec<Option<Due>>,
    free: Vec<usize>,
    number: u64,
}

impl Queue {
    /// `due` happens at `at`, behind what is already due then.
    pub fn push(&mut self, at: u64, due: Due) {
        self.number += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(due);
        assert!(self.number >> NUMBER_BITS == 0 && slot >> SLOT_BITS == 0, "too much happens for one queue");
        self.heap.push(Reverse(u128::from(at) << 64 | u128::from(self.number << SLOT_BITS | slot as u64)));
    }

    /// When the next thing happens.
    pub fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(key)| (key >> 64) as u64)
    }

    /// Takes the next thing.
    pub fn pop(&mut self) -> Option<Due> {
        let Reverse(key) = self.heap.pop()?;
        let slot = key as usize & ((1 << SLOT_BITS) - 1);
        self.free.push(slot);
        self.slots[slot].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_by_time_and_then_by_who_came_first() {
        let mut queue = Queue::default();
        for (at, client) in [(5, 0), (3, 1), (5, 2), (3, 3), (4, 4)] {
            queue.push(at, Due::Client(client));
        }
        let mut order = Vec::new();
        while let Some(at) = queue.next_at() {
            let Some(Due::Client(client)) = queue.pop() else { panic!("a client was put in") };
            order.push((at, client));
            if client == 1 {
                queue.push(3, Due::Client(5));
            }
        }
        assert_eq!(order, [(3, 1), (3, 3), (3, 5), (4, 4), (5, 0), (5, 2)]);
    }
}

//! Things to say once what was staged in the log is surely on disk.
//!
//! A lane's log has at most one write out. What is staged now goes into the next write handed out: if
//! one is out, that is the write after it; else the very next.
//!
//! Always: nothing is released before the write that holds it is reported durable.
//! Not here: the lane's own messages, which the lane itself holds back (core-cluster).

use crate::frame::Item;
use base_types::{ClusterId, LaneId, NodeId};

/// Something held back.
#[derive(Clone, PartialEq, Debug)]
pub enum Deferred {
    /// An answer to a peer.
    Say { node: NodeId, lane: LaneId, item: Box<Item> },
    /// A level 0 cluster's replica is there for good.
    Formed(ClusterId),
}

/// What is held back.
#[derive(Debug, Default)]
pub struct DurableQueue {
    writes_out: u32,
    waiting: Vec<(u32, Deferred)>,
}

impl DurableQueue {
    /// Holds something back until what is staged now is durable.
    pub fn hold(&mut self, deferred: Deferred) {
        self.waiting.push((self.writes_out + 1, deferred));
    }

    /// How many are held back.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A log write was handed to the host.
    pub fn on_write_out(&mut self) {
        self.writes_out += 1;
    }

    /// A log write is durable: returns what it releases.
    pub fn on_written(&mut self) -> Vec<Deferred> {
        self.writes_out = self.writes_out.saturating_sub(1);
        let mut released = Vec::new();
        self.waiting.retain_mut(|(left, deferred)| {
            *left = left.saturating_sub(1);
            if *left == 0 {
                released.push(deferred.clone());
            }
            *left > 0
        });
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_released_by_a_write_that_was_already_out() {
        let mut queue = DurableQueue::default();
        queue.on_write_out();
        queue.hold(Deferred::Formed(ClusterId(1)));
        assert!(queue.on_written().is_empty(), "that write left before");
        queue.on_write_out();
        assert_eq!(queue.on_written(), vec![Deferred::Formed(ClusterId(1))]);
        queue.hold(Deferred::Formed(ClusterId(2)));
        queue.on_write_out();
        assert_eq!(queue.on_written(), vec![Deferred::Formed(ClusterId(2))]);
        assert!(queue.on_written().is_empty());
    }
}

//! Things to say once what was staged in the log is surely on disk.
//!
//! A lane's log has at most one write out. What is staged now goes into the next write handed out: if
//! one is out, that is the write after it; else the very next.
//!
//! Always: nothing is released before the write that holds it is reported durable. Whoever asks again for what is
//! staged already waits for the same write: "it is there" would be told too early.
//! Not here: the lane's own messages, which the lane itself holds back (core-cluster).

use crate::frame::Item;
use base_types::{ClusterId, LaneId, NodeId};
use std::collections::BTreeMap;

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
    /// Clusters whose replica was made or removed, and the writes until that is durable.
    staged: BTreeMap<ClusterId, u32>,
    waiting: Vec<(u32, Deferred)>,
}

impl DurableQueue {
    /// A replica of the cluster was made or removed in this turn.
    pub fn stage(&mut self, cluster: ClusterId) {
        self.staged.insert(cluster, self.writes_out + 1);
    }

    /// Holds something back until all that was staged for the cluster is durable. Given back: it is already.
    pub fn hold(&mut self, cluster: ClusterId, deferred: Deferred) -> Option<Deferred> {
        let Some(left) = self.staged.get(&cluster) else { return Some(deferred) };
        self.waiting.push((*left, deferred));
        None
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
        self.staged.retain(|_, left| {
            *left = left.saturating_sub(1);
            *left > 0
        });
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
        let formed = |cluster| Deferred::Formed(ClusterId(cluster));
        let hold = |queue: &mut DurableQueue, cluster| queue.hold(ClusterId(cluster), formed(cluster));
        queue.on_write_out();
        queue.stage(ClusterId(1));
        assert_eq!(hold(&mut queue, 1), None);
        assert!(queue.on_written().is_empty(), "that write left before");
        queue.on_write_out();
        assert_eq!(queue.on_written(), vec![formed(1)]);
        queue.stage(ClusterId(2));
        assert_eq!(hold(&mut queue, 2), None);
        queue.on_write_out();
        assert_eq!(queue.on_written(), vec![formed(2)]);
        assert!(queue.on_written().is_empty());
    }

    #[test]
    fn who_asks_again_waits_for_the_same_write() {
        let mut queue = DurableQueue::default();
        let formed = Deferred::Formed(ClusterId(1));
        queue.stage(ClusterId(1));
        queue.on_write_out();
        assert_eq!(queue.hold(ClusterId(1), formed.clone()), None, "it is there, but not durable");
        assert_eq!(queue.hold(ClusterId(2), formed.clone()), Some(formed.clone()), "nothing is staged for that one");
        assert_eq!(queue.on_written(), vec![formed.clone()]);
        assert_eq!(queue.hold(ClusterId(1), formed.clone()), Some(formed));
    }
}

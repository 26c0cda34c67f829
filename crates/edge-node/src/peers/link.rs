//! What waits to be sent to one peer.
//!
//! Always: bounded in bytes and frames; when full the oldest goes (Raft sends again what matters);
//! while not connected only a little is kept, for the peer that is about to answer.
//! Held by: `the_oldest_go_when_it_is_full`.

use base_types::{LaneId, NodeId};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Bytes that may wait on a connection.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Frames that may wait on a connection.
const QUEUE_FRAMES_MAX: usize = 65_536;
/// Bytes that may wait while there is none.
const QUEUE_BYTES_MAX_DOWN: usize = 1 << 20;

/// One peer of one lane.
pub struct Link {
    pub node: NodeId,
    pub wake: Notify,
    /// The address has changed.
    pub moved: Notify,
    /// The peer has dialled this node: it is there again.
    pub returned: Notify,
    address: RefCell<String>,
    queue: RefCell<VecDeque<(LaneId, Bytes)>>,
    bytes: Cell<usize>,
    connected: Cell<bool>,
    /// A frame has come since the writer last took any.
    fresh: Cell<bool>,
    task: RefCell<Option<AbortHandle>>,
}

impl Link {
    pub fn new(node: NodeId, address: String) -> Rc<Link> {
        Rc::new(Link {
            node,
            wake: Notify::new(),
            moved: Notify::new(),
            returned: Notify::new(),
            address: RefCell::new(address),
            queue: RefCell::default(),
            bytes: Cell::new(0),
            connected: Cell::new(false),
            fresh: Cell::new(false),
            task: RefCell::default(),
        })
    }

    pub fn hold(&self, task: AbortHandle) {
        *self.task.borrow_mut() = Some(task);
    }

    pub fn end(&self) {
        if let Some(task) = self.task.borrow_mut().take() {
            task.abort();
        }
    }

    pub fn address(&self) -> String {
        self.address.borrow().clone()
    }

    pub fn move_to(&self, address: String) {
        if *self.address.borrow() != address {
            *self.address.borrow_mut() = address;
            self.moved.notify_one();
        }
    }

    /// Queues; says whether the writer must be woken for it, and how many frames had to go.
    pub fn queue(&self, lane: LaneId, frame: Bytes) -> (bool, u64) {
        let bytes_max = if self.connected.get() { QUEUE_BYTES_MAX } else { QUEUE_BYTES_MAX_DOWN };
        let mut queue = self.queue.borrow_mut();
        let mut bytes = self.bytes.get() + frame.len();
        let mut dropped = 0;
        while bytes > bytes_max || queue.len() >= QUEUE_FRAMES_MAX {
            let Some((_, oldest)) = queue.pop_front() else { break };
            bytes -= oldest.len();
            dropped += 1;
        }
        queue.push_back((lane, frame));
        self.bytes.set(bytes);
        (!self.fresh.replace(true), dropped)
    }

    /// Takes up to `bytes` (at least one frame where there is one).
    pub fn take(&self, bytes: usize, frames: usize, out: &mut Vec<(LaneId, Bytes)>) {
        self.fresh.set(false);
        let mut queue = self.queue.borrow_mut();
        let mut taken = 0;
        while taken < bytes && out.len() < frames {
            let Some((lane, frame)) = queue.pop_front() else { break };
            taken += frame.len();
            self.bytes.set(self.bytes.get() - frame.len());
            out.push((lane, frame));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    /// A connection came up, or it (or the attempt) was lost: then what waits is dropped, it is old.
    pub fn set_connected(&self, connected: bool) -> u64 {
        self.connected.set(connected);
        if connected {
            return 0;
        }
        let dropped = self.queue.borrow().len() as u64;
        self.queue.borrow_mut().clear();
        self.bytes.set(0);
        self.fresh.set(false);
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_when_it_is_full() {
        let link = Link::new(NodeId(2), "x:1".into());
        let frame = |fill: u8| Bytes::from(vec![fill; 400 << 10]);
        assert_eq!(link.queue(LaneId(0), frame(1)), (true, 0));
        assert_eq!(link.queue(LaneId(0), frame(2)), (false, 0));
        assert_eq!(link.queue(LaneId(0), frame(3)), (false, 1));
        let mut out = Vec::new();
        link.take(1, 10, &mut out);
        assert_eq!((out.len(), out[0].1[0]), (1, 2));
        assert_eq!(link.queue(LaneId(0), frame(4)), (true, 0));
        assert_eq!(link.set_connected(false), 2);
        assert!(link.is_empty());
        link.set_connected(true);
        assert!((0..10).all(|fill| link.queue(LaneId(0), frame(fill)).1 == 0));
    }
}

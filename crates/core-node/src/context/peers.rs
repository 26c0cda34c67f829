//! Which other nodes can be reached, and how many lanes each has.
//!
//! Always: a node counts as reachable until a connection to it is lost, so that a first message is tried.
//! Held by: `unknown_nodes_are_tried_and_lost_ones_are_not`.
//! Not here: connections themselves (edge-node), whether a node is up by the map (nodes.rs).

use base_types::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// What connections say of other nodes.
#[derive(Debug, Default)]
pub struct Peers {
    lanes: BTreeMap<NodeId, u16>,
    unreachable: BTreeSet<NodeId>,
}

impl Peers {
    /// A connection to a node is there, or a frame of it came. Whether it was unreachable before.
    pub fn on_up(&mut self, node: NodeId) -> bool {
        self.unreachable.remove(&node)
    }

    /// The last connection to a node is gone.
    pub fn on_down(&mut self, node: NodeId) {
        self.unreachable.insert(node);
    }

    /// Whether the last connection to a node is gone.
    pub fn is_unreachable(&self, node: NodeId) -> bool {
        self.unreachable.contains(&node)
    }

    /// A node said, or the map says, how many lanes it has.
    pub fn note_lanes(&mut self, node: NodeId, lanes: u16) {
        self.lanes.insert(node, lanes.max(1));
    }

    /// How many lanes a node has; `None`: nothing was heard of it.
    pub fn lanes_of(&self, node: NodeId) -> Option<u16> {
        self.lanes.get(&node).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_nodes_are_tried_and_lost_ones_are_not() {
        let (mut peers, node) = (Peers::default(), NodeId(2));
        assert!(!peers.is_unreachable(node) && !peers.on_up(node));
        peers.on_down(node);
        assert!(peers.is_unreachable(node) && peers.on_up(node) && !peers.is_unreachable(node));
        assert_eq!(peers.lanes_of(node), None);
        peers.note_lanes(node, 0);
        assert_eq!(peers.lanes_of(node), Some(1), "a node has a lane at least");
    }
}

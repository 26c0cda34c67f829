//! Whom this core knows of the world's nodes: the node map, their addresses, connections, and since when they are down.
//!
//! By design: an address is handed to the host once, and again when it changes. This is soft state: a node learns it again after a restart.
//! Not here: how the map is kept (membership/nodes.rs, registry.rs), connections themselves (edge-node).

use crate::context::peers::Peers;
use base_types::{NodeId, Tick};
use core::time::Duration;
use core_placement::{MapChange, NodeMap};
use std::collections::{BTreeMap, BTreeSet};

/// The node map and what goes with it.
#[derive(Default)]
pub struct KnownNodes {
    map: NodeMap,
    peers: Peers,
    /// Addresses that the host knows.
    addressed: BTreeMap<NodeId, String>,
    /// Nodes whose address is wanted and not known.
    wanted: BTreeSet<NodeId>,
    /// Nodes that this one has a connection with.
    connected: BTreeSet<NodeId>,
    /// Since when nodes are down, as seen here.
    down_since: BTreeMap<NodeId, Tick>,
}

impl KnownNodes {
    /// The node map.
    pub fn map(&self) -> &NodeMap {
        &self.map
    }

    /// The node map, to be put right; what changes is then to be noted.
    pub fn map_mut(&mut self) -> &mut NodeMap {
        &mut self.map
    }

    /// Reachability and numbers of lanes.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The same, to be put right.
    pub fn peers_mut(&mut self) -> &mut Peers {
        &mut self.peers
    }

    /// Whether a node can be expected to answer.
    pub fn seems_up(&self, node: NodeId) -> bool {
        !self.peers.is_unreachable(node) && self.map.get(node).is_none_or(|record| record.up)
    }

    /// A connection to a node is there.
    pub fn on_connected(&mut self, node: NodeId) {
        self.peers.on_up(node);
        self.connected.insert(node);
    }

    /// The last connection to a node is gone.
    pub fn on_disconnected(&mut self, node: NodeId) {
        self.peers.on_down(node);
        self.connected.remove(&node);
    }

    /// Nodes that this one has a connection with.
    pub fn connected(&self) -> &BTreeSet<NodeId> {
        &self.connected
    }

    /// The map changed.
    pub fn note_changes(&mut self, now: Tick, changes: &[MapChange]) {
        for change in changes {
            let node = match change {
                MapChange::Joined(node)
                | MapChange::Up(node)
                | MapChange::Down(node)
                | MapChange::DiskLost(node)
                | MapChange::Facts(node)
                | MapChange::Report(node)
                | MapChange::Forgotten(node) => *node,
            };
            if self.map.get(node).is_some_and(|record| !record.up) {
                self.down_since.entry(node).or_insert(now);
            } else {
                self.down_since.remove(&node);
            }
        }
    }

    /// Nodes that have been down for so long. None where that is no time at all.
    pub fn down_for(&self, now: Tick, long: Duration) -> BTreeSet<NodeId> {
        if long.is_zero() {
            return BTreeSet::new();
        }
        let gone = self.down_since.iter().filter(|(_, since)| now.since(**since) >= long);
        gone.map(|(node, _)| *node).collect()
    }

    /// Whether the host knows a node's address.
    pub fn is_addressed(&self, node: NodeId) -> bool {
        self.addressed.contains_key(&node)
    }

    /// How many addresses the host knows.
    pub fn addresses(&self) -> usize {
        self.addressed.len()
    }

    /// A node's address. Whether the host is to learn it.
    pub fn note_address(&mut self, node: NodeId, address: &str) -> bool {
        if address.is_empty() || self.addressed.get(&node).is_some_and(|old| old == address) {
            return false;
        }
        self.addressed.insert(node, address.into());
        true
    }

    /// A node's address is wanted: the map's, if the host has none. Where the map has none either it is given once it has.
    pub fn want_address(&mut self, node: NodeId) -> Option<String> {
        if self.addressed.contains_key(&node) {
            return None;
        }
        let address = self.map.get(node).map(|record| record.peer_address.clone());
        if address.is_none() {
            self.wanted.insert(node);
        }
        address
    }

    /// The map's facts of a node are new: its lanes are noted. The address, if the host is to know it.
    pub fn note_facts(&mut self, node: NodeId) -> Option<String> {
        let record = self.map.get(node)?;
        let (lanes, address) = (record.lanes, record.peer_address.clone());
        self.peers.note_lanes(node, lanes);
        let wanted = self.wanted.remove(&node) || self.addressed.contains_key(&node);
        wanted.then_some(address)
    }

    /// A node is no longer listed.
    pub fn forget_address(&mut self, node: NodeId) {
        self.addressed.remove(&node);
    }
}

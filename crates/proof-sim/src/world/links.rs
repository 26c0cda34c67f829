//! Connections and the frames on them.
//!
//! Always: a frame is delivered only to the life of the node it was sent to.
//! Not here: latency, cuts and noise (`network`).

use super::{Due, World};
use crate::network::PING_TIMEOUT_US;
use base_types::{LaneId, NodeId};
use bytes::Bytes;
use core_node::api::Event;

/// How often connections are looked after.
pub(super) const KEEPER_US: u64 = 100_000;
/// Nodes receive the wall clock every second.
const WALL_CLOCK_KEEPS: u64 = 10;

impl World {
    pub(super) fn send(&mut self, from: usize, to: NodeId, lane: LaneId, frame: Bytes) {
        let Some(to) = self.index_of(to) else { return };
        if to == from || !self.nodes[to].running || !self.network.is_connected(from, to) {
            return self.probe("frame_without_connection");
        }
        let route = self.network.route(self.now, from, to, lane.0, &mut self.random.network);
        for kind in route.fired {
            self.probe(kind.name());
        }
        let life = self.nodes[to].life;
        for at in route.arrivals {
            let frame = frame.clone();
            self.schedule(at, Due::Deliver { from, to, lane: usize::from(lane.0), life, frame });
        }
    }

    pub(super) fn post_peer(&mut self, node: usize, peer: usize, life: u64, up: bool) {
        if !self.is_alive(node, life) {
            return;
        }
        let id = self.nodes[peer].id;
        for lane in 0..self.nodes[node].lanes.len() {
            let event = if up { Event::PeerUp { node: id } } else { Event::PeerDown { node: id } };
            self.post(node, lane, event);
        }
    }

    /// Brings connections up where they can be, and finds the dead ones.
    pub(super) fn keep_connections(&mut self) {
        self.schedule(self.now + KEEPER_US, Due::Keeper);
        if (self.now / KEEPER_US).is_multiple_of(WALL_CLOCK_KEEPS) {
            (0..self.nodes.len()).for_each(|node| self.tell_wall_clock(node));
        }
        for one in 0..self.nodes.len() {
            for other in one + 1..self.nodes.len() {
                let reachable = !self.network.is_cut(one, other) && !self.network.is_cut(other, one);
                let running = self.nodes[one].running && self.nodes[other].running;
                let well = reachable && running && !self.is_paused(one) && !self.is_paused(other);
                let known = self.network.known.contains(&(one, other)) || self.network.known.contains(&(other, one));
                let now = self.now;
                let connection = self.network.connection(one, other);
                if well {
                    connection.dead_since = None;
                    if !connection.up && known {
                        self.connect(one, other);
                    }
                } else if connection.up {
                    let since = *connection.dead_since.get_or_insert(now);
                    if now - since >= PING_TIMEOUT_US {
                        self.disconnect(one, other);
                    }
                }
            }
        }
    }

    pub(super) fn connect(&mut self, one: usize, other: usize) {
        self.network.connection(one, other).up = true;
        for (node, peer) in [(one, other), (other, one)] {
            let at = self.now + self.network.latency(peer, node, &mut self.random.network);
            let life = self.nodes[node].life;
            self.schedule(at, Due::PeerUp { node, peer, life });
        }
    }

    /// Ends a connection; both sides hear of it, if they live.
    pub fn disconnect(&mut self, one: usize, other: usize) {
        self.network.shake(one, other);
        let connection = self.network.connection(one, other);
        connection.dead_since = None;
        if std::mem::take(&mut connection.up) {
            for (node, peer) in [(one, other), (other, one)] {
                let at = self.now + self.random.network.between(50, 500);
                let life = self.nodes[node].life;
                self.schedule(at, Due::PeerDown { node, peer, life });
            }
        }
    }
}

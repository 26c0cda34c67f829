//! Connections between nodes.
//!
//! Each lane dials each node whose address it learns and sends on that connection only; what it is
//! sent comes on connections the others dialled. So a node pair has (lanes of one + lanes of the
//! other) connections, and a frame says which lane of the receiver it is for.
//!
//! ```text
//!  lane ─send─▶ Link queue (bounded, oldest dropped) ─flush─▶ one vectored write a turn ─TLS─▶ peer
//!  peer ─TLS─▶ accept: certificate, hello ─▶ frames ─▶ inbox or mailbox of the lane named
//! ```
//!
//! Always: mutual TLS (`tls.rs`), then a hello that the certificate must bear out; frames may be lost,
//! never altered or handed to another lane; a connection that is silent for `SILENCE_MAX` is dead.
//! `PeerUp` when the first connection with a node (either way) is up, and when the dialled one is: what is then said leaves at
//! once. `PeerDown` when the last has gone. Who is dialled by a peer dials it without a further pause.
//! Held by: `the_hello_must_fit_and_frames_come_through`, `a_peer_that_hears_and_says_nothing_is_dead`.
//! Not here: what is in a frame (core-node).

pub mod accept;
mod dial;
mod link;
pub mod wire;

use crate::chance::Jitter;
use crate::lane::door::LaneDoor;
use crate::quiet::Quiet;
use crate::tls::Identities;
use base_types::{BootId, LaneId, NodeId};
use bytes::Bytes;
use core_node::api::Event;
use link::Link;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, AtomicU64};
use std::sync::Arc;
use std::time::Duration;

/// How long a connection may take to be made, and a handshake to end.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection on which nothing was heard for this long is dead.
pub const SILENCE_MAX: Duration = Duration::from_secs(3);
/// How often a dialler asks whether the other is there.
pub const PING_EVERY: Duration = Duration::from_millis(1_000);
/// The pause before the first redial, doubled up to the last.
pub const REDIAL_FIRST: Duration = Duration::from_millis(20);
/// The longest pause before a redial.
pub const REDIAL_LAST: Duration = Duration::from_secs(1);
/// Peers one node may be told of.
pub const PEERS_MAX: usize = 16_384;

/// Who this node is, to its peers.
#[derive(Clone, Debug)]
pub struct Own {
    pub world: String,
    /// Which life of the world this node's data is of; it may join a later one while it is blank (decision 0036).
    pub incarnation: Arc<AtomicU64>,
    /// The world's format level, as this node has kept it (decision 0070).
    pub level: Arc<AtomicU16>,
    pub node: NodeId,
    pub boot: BootId,
    pub lane_count: u16,
}

/// What went out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub bytes_sent: u64,
    pub frames_sent: u64,
    pub frames_dropped: u64,
}

/// The connections of one lane.
pub struct PeerSet {
    pub own: Own,
    lane: LaneId,
    identities: Arc<Identities>,
    door: Rc<LaneDoor>,
    links: RefCell<BTreeMap<NodeId, Rc<Link>>>,
    /// Links with frames of this turn.
    dirty: RefCell<Vec<Rc<Link>>>,
    outgoing_up: RefCell<BTreeSet<NodeId>>,
    incoming: RefCell<BTreeMap<NodeId, usize>>,
    traffic: Cell<Traffic>,
    jitter: Jitter,
    quiet: Quiet,
}

impl PeerSet {
    /// Of a lane.
    pub fn new(own: Own, lane: LaneId, identities: Arc<Identities>, door: Rc<LaneDoor>) -> Rc<PeerSet> {
        let jitter = Jitter::new(own.boot.0 ^ u64::from(lane.0));
        Rc::new(PeerSet {
            own,
            lane,
            identities,
            door,
            links: RefCell::default(),
            dirty: RefCell::default(),
            outgoing_up: RefCell::default(),
            incoming: RefCell::default(),
            traffic: Cell::default(),
            jitter,
            quiet: Quiet::default(),
        })
    }

    /// Queues a frame; it leaves with the turn's `flush`. Dropped where there is no such peer.
    pub fn send(&self, to: NodeId, lane: LaneId, frame: Bytes) {
        let links = self.links.borrow();
        let Some(link) = links.get(&to) else {
            self.count(0, 0, 1);
            return;
        };
        let (first, dropped) = link.queue(lane, frame);
        if first {
            self.dirty.borrow_mut().push(link.clone());
        }
        self.count(0, 0, dropped);
    }

    /// The turn has ended: its frames go out.
    pub fn flush(&self) {
        for link in self.dirty.borrow_mut().drain(..) {
            link.wake.notify_one();
        }
    }

    /// Where a node is: dialled from now on, and again whenever the connection is lost.
    pub fn connect(self: &Rc<Self>, node: NodeId, address: String) {
        if node == self.own.node {
            return;
        }
        let mut links = self.links.borrow_mut();
        if let Some(link) = links.get(&node) {
            link.move_to(address);
            return;
        }
        if links.len() >= PEERS_MAX {
            if let Some(suppressed) = self.quiet.allow() {
                tracing::warn!(%node, suppressed, "this node already dials {PEERS_MAX} peers and does not dial this one: remove nodes that are gone (hive ctl node remove)");
            }
            return;
        }
        let link = Link::new(node, address);
        link.hold(tokio::task::spawn_local(dial::run(self.clone(), link.clone())).abort_handle());
        links.insert(node, link);
    }

    /// Not dialled any more.
    pub fn forget(&self, node: NodeId) {
        if let Some(link) = self.links.borrow_mut().remove(&node) {
            link.end();
        }
        self.outgoing(node, false);
    }

    /// What went out so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    fn count(&self, bytes: u64, sent: u64, dropped: u64) {
        let mut traffic = self.traffic.get();
        traffic.bytes_sent += bytes;
        traffic.frames_sent += sent;
        traffic.frames_dropped += dropped;
        self.traffic.set(traffic);
    }

    fn is_up(&self, node: NodeId) -> bool {
        self.outgoing_up.borrow().contains(&node) || self.incoming.borrow().contains_key(&node)
    }

    fn changed(&self, node: NodeId, was_up: bool) {
        match (was_up, self.is_up(node)) {
            (false, true) => self.door.push(Event::PeerUp { node }),
            (true, false) => self.door.push(Event::PeerDown { node }),
            _ => {}
        }
    }

    /// The dialled connection came up or went.
    fn outgoing(&self, node: NodeId, up: bool) {
        let was_up = self.is_up(node);
        if up {
            self.outgoing_up.borrow_mut().insert(node);
            if was_up {
                self.door.push(Event::PeerUp { node });
            }
        } else {
            self.outgoing_up.borrow_mut().remove(&node);
        }
        self.changed(node, was_up);
    }

    /// A connection the other dialled, accepted on this thread, came up or went.
    pub fn incoming(&self, node: NodeId, up: bool) {
        let was_up = self.is_up(node);
        if let Some(link) = self.links.borrow().get(&node).filter(|_| up) {
            // Only who pauses just then is meant: nothing is kept for a later pause.
            link.returned.notify_waiters();
        }
        {
            let mut incoming = self.incoming.borrow_mut();
            let count = incoming.entry(node).or_default();
            *count = if up { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                incoming.remove(&node);
            }
        }
        self.changed(node, was_up);
    }
}

impl Drop for PeerSet {
    fn drop(&mut self) {
        for link in self.links.borrow().values() {
            link.end();
        }
    }
}

#[cfg(test)]
mod tests;

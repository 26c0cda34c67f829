//! What the doors to clients share: room for connections, memory of what has come halfway, patience with the slow.
//!
//! ```text
//! a connection ─▶ its door's room (Connections) ─full─▶ JSON door: the operators' reserve (Reserve) ─full─▶ 503
//! its client   ─▶ Entrance: a proxy's header, TLS (handshakes are shared out by address)
//! its bytes    ─▶ ClientStream: unfinished heads count against Bytes, slow readers are let go
//! its answers  ─▶ Gather (etcd): one write a turn
//! its body     ─▶ BodyLimit (S3: slow senders are let go), or read whole (JSON: counts against Bytes while unfinished)
//! ```
//!
//! Always: every bound holds for the whole node; one source (an IPv4 address, an IPv6 /64) never has all of a bound; what is
//! held is given back by being dropped.
//! Held by: `one_source_leaves_room_for_others`.
//! Not here: what is answered, the peers' port (it shares handshakes out by `shares` too).

pub mod accept;
mod bytes;
mod connections;
mod entrance;
pub mod gather;
pub mod handshakes;
pub mod open_files;
mod pace;
mod proxy;
mod reserve;
pub mod shares;
mod stream;
mod thread;

pub use bytes::{Bytes, HeldBytes};
pub use connections::{Connection, Connections};
pub use entrance::{DoorStream, Entrance, Guest};
pub use pace::BodyLimit;
pub use reserve::{Place, Reserve, PATIENCE as OPERATORS_PATIENCE};
pub use stream::{ClientStream, Head};
pub use thread::DoorThread;

use std::sync::Arc;

/// Room for the clients of one node.
#[derive(Clone, Debug)]
pub struct Room {
    /// Of the JSON door.
    pub http: Arc<Connections>,
    /// Of the S3 door: a flood on one leaves the other's.
    pub s3: Arc<Connections>,
    /// Of the etcd door.
    pub etcd: Arc<Connections>,
    /// Of the Redis door.
    pub redis: Arc<Connections>,
    /// Kept for operators where the JSON door is full.
    pub operators: Arc<Reserve>,
    /// Of heads and bodies that are not whole yet, of all doors.
    pub unfinished: Arc<Bytes>,
}

impl Room {
    /// For as many connections at each of the four doors, and as many bytes.
    pub fn new(connections_max: usize, unfinished_bytes_max: usize) -> Room {
        Room {
            http: Connections::new(connections_max),
            s3: Connections::new(connections_max),
            etcd: Connections::new(connections_max),
            redis: Connections::new(connections_max),
            operators: Reserve::new(),
            unfinished: Bytes::new(unfinished_bytes_max),
        }
    }

    /// Connections of all doors.
    pub fn open(&self) -> usize {
        self.http.open() + self.s3.open() + self.etcd.open() + self.redis.open() + self.operators.open()
    }
}

//! What goes to the backend of a cluster that holds keys.
//!
//! Not here: how it is made (`map.rs`, `versioned.rs`, `redis.rs`).

use bytes::Bytes;

/// What to send to the cluster's backend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// A command.
    Write(Bytes),
    /// A query.
    Read(Bytes),
}

//! The clusters of one lane: their replicas (one Raft group each), the shared log, the overlay in
//! front of the engine, applying, reads, request ids, snapshots, membership, quiescence.
//!
//! Always: deterministic, no input or output; the only ways in are the methods of [`Lane`].
//! Not here: finding a cluster on other nodes, flows, the node map (core-node).

pub mod api;

//! One core of a node as a deterministic machine: request routing, resolve cache, flows, formation,
//! the node map, and the lane of clusters that hash to this core.
//!
//! Always: `step(now, event, &mut effects)` is the only way in; same state, same events: same
//! effects. Not here: sockets, threads, clocks, files (edge-node), what an entry means (core-backends).

pub mod api;
pub mod keyspace;
pub mod planner;
pub mod random;

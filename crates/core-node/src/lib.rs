//! One core of a node as a deterministic machine: request routing, resolve cache, flows, formation,
//! the node map, and the lane of clusters that hash to this core.
//!
//! Always: `step(now, event, &mut effects)` is the only way in; same state, same events: same
//! effects. Not here: sockets, threads, clocks, files (edge-node), what an entry means (core-backends).

pub mod api;
mod cache;
mod clients;
mod config_cluster;
pub mod core;
mod director;
mod durable;
mod flows;
mod formation;
pub mod frame;
mod health;
mod incarnation;
mod keyspaces;
pub mod lane_face;
mod level_zero;
mod lives;
mod memory;
mod moves;
mod nodes;
mod operation;
mod outbox;
mod plans;
mod recruits;
mod registry;
mod resolve;
mod resume;
mod router;
mod s3_scheduler;
mod sizes;
mod status;
mod untold;
mod verification;
mod whereabouts;
mod wire;

pub use crate::core::{Core, CoreMetrics, StartError};
pub use core_s3::ReshardCounters;
pub use director::RouterStatistics;

#[cfg(test)]
mod tests;

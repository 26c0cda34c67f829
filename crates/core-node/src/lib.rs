//! One core of a node as a deterministic machine: request routing, resolve cache, flows, formation,
//! the node map, and the lane of clusters that hash to this core.
//!
//! Always: `step(now, event, &mut effects)` is the only way in; same state, same events: same
//! effects. Held by: `equal_worlds_do_equal_things`. Not here: sockets, threads, clocks, files (edge-node), what an entry means (core-backends).

pub mod api;
mod clients;
mod context;
pub mod core;
mod durable;
mod flow_recovery;
mod flows;
pub mod frame;
pub mod lane_handle;
mod membership;
mod node_state;
mod outbox;
mod plan_runner;
mod routing;
mod s3_scheduler;
mod timers;
mod wire;

pub use crate::core::{Core, CoreMetrics, StartError};
pub use context::RouterStatistics;
pub use core_s3::{BlockedHistogram, ReshardCounters};

#[cfg(test)]
mod tests;

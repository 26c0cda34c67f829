//! The core as the host sees it, so that tests can host another machine in its place.
//!
//! Always: called from one thread only, with time that never goes back.
//! Not here: the core itself (core-node).

use base_engine::Engine;
use base_types::Tick;
use core_log::LogDisk;
use core_node::api::{Effects, Event, NodeConfig};
use std::sync::Arc;

/// A deterministic machine: `core_node::Core`, or a stub.
pub trait Machine {
    /// Something happened.
    fn step(&mut self, now: Tick, event: Event, effects: &mut Effects);
    /// The turn's events are all in.
    fn finish_turn(&mut self, now: Tick, effects: &mut Effects);
    /// When `Event::Timer` is wanted at the latest.
    fn next_wake(&self) -> Tick;
    /// The last batch of its log that is durable.
    fn durable_batch(&self) -> u64;
    /// Counters and gauges for `/metrics`.
    fn counters(&self, out: &mut Vec<Counter>);
}

/// One number of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// In Prometheus form without prefix and `_total`, for example `log_batches`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// May go down.
    pub gauge: bool,
    pub value: u64,
}

/// What a machine begins with, or why it cannot.
pub type Opened = Result<(Box<dyn Machine>, Effects), String>;

/// Opens a lane's machine, on the lane's own thread.
pub trait MachineFactory: Send + Sync {
    /// Recovers from the disk and the engines.
    fn open(&self, config: NodeConfig, engines: Vec<Arc<dyn Engine>>, disk: &mut dyn LogDisk, now: Tick) -> Opened;
}

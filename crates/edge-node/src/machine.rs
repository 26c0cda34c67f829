//! The core as the host sees it, so that tests can host another machine in its place.
//!
//! By design: called from one thread only, with time that never goes back.
//! Not here: the core itself (core-node).

use base_engine::Engine;
use base_types::Tick;
use core_cluster::api::BusyCluster;
use core_log::LogDisk;
use core_node::api::{Effects, Event, NodeConfig};
use core_node::BlockedHistogram;
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
    /// Counters, gauges and histograms for `/metrics`. Those of one name follow each other.
    fn metrics(&self, out: &mut Vec<Metric>);
    /// How many clusters it still leads that another member may take over, of a drained node.
    fn hand_overs_due(&self) -> usize;
    /// The clusters led here that committed most since this was last asked; at most so many.
    fn busiest(&self, most: usize) -> Vec<BusyCluster>;
}

/// One number of a lane, or one histogram.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Metric {
    /// In Prometheus form without prefix and `_total`, for example `log_batches`.
    pub name: &'static str,
    /// What it counts, when it grows, and what to do where it is high.
    pub help: &'static str,
    /// One label besides the lane.
    pub label: Option<(&'static str, &'static str)>,
    pub value: Value,
}

/// What a metric shows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// Only grows.
    Counter(u64),
    /// Only grows.
    SecondsCounter(f64),
    /// May go down.
    Gauge(u64),
    /// May go down.
    SecondsGauge(f64),
    Blocked(BlockedHistogram),
}

/// What a machine begins with, or why it cannot.
pub type Opened = Result<(Box<dyn Machine>, Effects), String>;

/// Opens a lane's machine, on the lane's own thread.
pub trait MachineFactory: Send + Sync {
    /// Recovers from the disk and the engines.
    fn open(&self, config: NodeConfig, engines: Vec<Arc<dyn Engine>>, disk: &mut dyn LogDisk, now: Tick) -> Opened;
}

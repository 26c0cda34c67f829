//! The core as the host's machine.
//!
//! By design: a thin face, nothing is decided here.

use crate::counters;
use crate::machine::{Machine, MachineFactory, Metric, Opened};
use base_engine::Engine;
use base_types::Tick;
use core_cluster::api::BusyCluster;
use core_log::LogDisk;
use core_node::api::{Effects, Event, NodeConfig};
use core_node::Core;
use std::sync::Arc;

/// Opens `core_node::Core`.
pub struct CoreFactory;

impl MachineFactory for CoreFactory {
    fn open(&self, config: NodeConfig, engines: Vec<Arc<dyn Engine>>, disk: &mut dyn LogDisk, now: Tick) -> Opened {
        let (core, first) = Core::open(config, engines, disk, now).map_err(|error| error.to_string())?;
        Ok((Box::new(core), first))
    }
}

impl Machine for Core {
    fn step(&mut self, now: Tick, event: Event, effects: &mut Effects) {
        Core::step(self, now, event, effects);
    }

    fn finish_turn(&mut self, now: Tick, effects: &mut Effects) {
        Core::finish_turn(self, now, effects);
    }

    fn next_wake(&self) -> Tick {
        Core::next_wake(self)
    }

    fn durable_batch(&self) -> u64 {
        self.lane().durable_batch().0
    }

    fn metrics(&self, out: &mut Vec<Metric>) {
        let metrics = Core::metrics(self);
        counters::lane(&metrics.lane, out);
        counters::router(&metrics.router, out);
        counters::reshards(&metrics.reshards, out);
    }

    fn hand_overs_due(&self) -> usize {
        Core::hand_overs_due(self)
    }

    fn busiest(&self, most: usize) -> Vec<BusyCluster> {
        Core::busiest(self, most)
    }
}

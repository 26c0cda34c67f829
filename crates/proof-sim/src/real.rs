//! The unchanged core under the simulator.

use crate::disk::SimDisk;
use crate::machine::{Machine, Opener};
use base_engine::Engine;
use base_types::sizes::Sizes;
use base_types::{ClusterId, ClusterName, LogIndex, Tick};
use core_backends::metadata::PartitionInfo;
use core_cluster::api::{Begun, Glance, LaneStatistics, ReplicaView, Witnessed, Won};
use core_node::api::{Effects, Event, NodeConfig};
use core_node::Core;
use std::sync::Arc;

/// Opens `core_node::Core`.
pub struct CoreOpener;

impl Opener for CoreOpener {
    fn open(
        &self,
        config: NodeConfig,
        engines: Vec<Arc<dyn Engine>>,
        disk: &mut SimDisk,
        now: Tick,
    ) -> Result<(Box<dyn Machine>, Effects), String> {
        let (core, effects) = Core::open(config, engines, disk, now).map_err(|error| error.to_string())?;
        Ok((Box::new(RealCore(core)), effects))
    }
}

struct RealCore(Core);

impl Machine for RealCore {
    fn step(&mut self, now: Tick, event: Event, effects: &mut Effects) {
        self.0.step(now, event, effects);
    }

    fn finish_turn(&mut self, now: Tick, effects: &mut Effects) {
        self.0.finish_turn(now, effects);
    }

    fn next_wake(&self) -> Tick {
        self.0.next_wake()
    }

    fn durable_batch(&self) -> u64 {
        self.0.lane().durable_batch().0
    }

    fn views(&self) -> Vec<ReplicaView> {
        self.0.lane().views()
    }

    fn glances(&self) -> Vec<Glance> {
        self.0.lane().glances()
    }

    fn statistics(&self) -> LaneStatistics {
        self.0.lane().statistics()
    }

    fn splits_unequal(&self) -> u64 {
        self.0.metrics().reshards.digest_mismatches
    }

    fn freezes_expired_max(&self) -> u64 {
        self.0.metrics().reshards.freezes_expired_max
    }

    fn sizes(&self) -> Sizes {
        self.0.sizes()
    }

    fn state_hash(&self, cluster: ClusterId) -> Option<(LogIndex, u64)> {
        self.0.lane().state_hash(cluster)
    }

    fn served_partitions(&self, cluster: ClusterId) -> Option<(ClusterName, Vec<PartitionInfo>)> {
        self.0.lane().served_partitions(cluster)
    }

    fn take_witnessed(&mut self) -> Vec<Witnessed> {
        self.0.take_witnessed()
    }

    fn take_begun(&mut self) -> Vec<Begun> {
        self.0.take_begun()
    }

    fn take_won(&mut self) -> Vec<Won> {
        self.0.take_won()
    }
}

//! What the simulator runs: one core of a node. The real one is `core_node::Core`; the harness's own
//! tests bring a toy.
//!
//! Not here: the world around it (`world`).

use crate::disk::SimDisk;
use base_engine::Engine;
use base_types::sizes::Sizes;
use base_types::{ClusterId, ClusterName, LogIndex, Tick};
use core_backends::metadata::PartitionInfo;
use core_cluster::api::{Begun, Glance, LaneStatistics, ReplicaView, Witnessed, Won};
use core_node::api::{Effects, Event, NodeConfig};
use std::sync::Arc;

/// One core of a node.
pub trait Machine {
    fn step(&mut self, now: Tick, event: Event, effects: &mut Effects);
    fn finish_turn(&mut self, now: Tick, effects: &mut Effects);
    fn next_wake(&self) -> Tick;
    /// The last batch of its log that is durable; 0 where it has no log.
    fn durable_batch(&self) -> u64 {
        0
    }
    /// Every replica here, by cluster.
    fn views(&self) -> Vec<ReplicaView>;
    /// The same in short, for those who look often.
    fn glances(&self) -> Vec<Glance> {
        let glance = |view: ReplicaView| Glance {
            cluster: view.cluster,
            generation: view.generation,
            term: view.term,
            is_leader: view.is_leader,
            quiesced: view.quiesced,
            lease_until: base_types::Tick(0),
            applied: view.applied,
            cluster_time_ms: view.cluster_time_ms,
            damaged: view.damaged && view.ended == base_types::Generation(0),
            quarantined: view.quarantined.is_some(),
            panicked: view.quarantined.is_some_and(|why| why.contains("it panics")),
            blank: view.blank,
        };
        self.views().into_iter().map(glance).collect()
    }
    fn statistics(&self) -> LaneStatistics;

    /// Splits and merges given up because both sides did not hold the same.
    fn splits_unequal(&self) -> u64 {
        0
    }
    /// The most freezes of one split or merge that were over before its switch.
    fn freezes_expired_max(&self) -> u64 {
        0
    }
    /// How long its queues and tables are, each beside its bound.
    fn sizes(&self) -> Sizes;
    /// The state of a replica as a hash, and the index it stands at. `None`: cannot be told.
    fn state_hash(&self, cluster: ClusterId) -> Option<(LogIndex, u64)>;
    /// A cluster's name and what a replica serves of a keyspace. `None`: nothing of any.
    fn served_partitions(&self, _cluster: ClusterId) -> Option<(ClusterName, Vec<PartitionInfo>)> {
        None
    }
    /// The commands to shards of buckets that its replicas have applied since this was last called.
    fn take_witnessed(&mut self) -> Vec<Witnessed> {
        Vec::new()
    }
    /// Lives of clusters that began on one of its replicas alone since this was last called.
    fn take_begun(&mut self) -> Vec<Begun> {
        Vec::new()
    }
    /// Its replicas that came to lead since this was last called.
    fn take_won(&mut self) -> Vec<Won> {
        Vec::new()
    }
}

/// Starts a core from what its disk holds.
pub trait Opener {
    fn open(
        &self,
        config: NodeConfig,
        engines: Vec<Arc<dyn Engine>>,
        disk: &mut SimDisk,
        now: Tick,
    ) -> Result<(Box<dyn Machine>, Effects), String>;
}

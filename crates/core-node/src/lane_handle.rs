//! What a core needs of its lane. One implementation is the real one; tests bring their own, so
//! that routing and flows are tried without Raft.

use base_types::{ClusterId, ClusterName, FormatLevel, Generation, LogIndex, NodeId, Refusal, Survivor, Tick};
use bytes::Bytes;
use core_cluster::api::{LaneOutput, LaneStatistics, LocalOperation, NewLife, ReplicaSpec, ReplicaView};
use core_log::BatchNumber;

/// The methods of [`core_cluster::Lane`] that a core calls; they are described there.
pub trait LaneHandle {
    fn create_replica(&mut self, now: Tick, spec: ReplicaSpec) -> Result<bool, Refusal>;
    fn destroy_replica(&mut self, now: Tick, cluster: ClusterId, generation: Generation) -> bool;
    fn survivor(&self, cluster: ClusterId) -> Option<Survivor>;
    fn begin_life(&mut self, now: Tick, life: NewLife) -> Result<bool, Refusal>;
    fn end_life(&mut self, now: Tick, cluster: ClusterId, by: Generation) -> bool;
    fn submit(&mut self, now: Tick, operation: LocalOperation);
    fn on_peer_message(&mut self, now: Tick, from: NodeId, cluster: ClusterId, generation: Generation, payload: Bytes);
    fn on_peer_down(&mut self, now: Tick, node: NodeId);
    fn on_peer_up(&mut self, now: Tick, node: NodeId);
    fn finish_turn(&mut self, now: Tick) -> LaneOutput;
    fn view(&self, cluster: ClusterId) -> Option<ReplicaView>;
    fn views(&self) -> Vec<ReplicaView>;
    /// Every cluster led here, with what is applied.
    fn each_led(&self, visit: &mut dyn FnMut(ClusterId, &ClusterName, LogIndex));
    fn statistics(&self) -> LaneStatistics;
    /// The world's format level: what may be written from now on.
    fn set_level(&mut self, level: FormatLevel);
    /// The log batch that holds the record staged last.
    fn staged_batch(&self) -> BatchNumber;
}

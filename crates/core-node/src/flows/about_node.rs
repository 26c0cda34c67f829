//! How a flow about a node begins: what the allocator knows of the node, then each level 0 cluster that may have it as a member.
//!
//! Not here: what a flow does with the answers (decommission.rs, forget.rs).

use base_types::codec::Encode;
use base_types::{BackendKind, ClusterName, ErrorCode, NodeId, ReadConsistency, Refusal};
use core_backends::allocator::Query;
use core_cluster::api::AdminCommand;
use core_flow::{Call, Step};
use core_placement::NodeRecord;

/// Asks for the node's record.
pub(super) fn read_record(node: NodeId) -> Step {
    Step::Calls(vec![Call::Read {
        cluster: ClusterName::world(),
        backend: BackendKind::Allocator,
        query: Query::Node { node }.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    }])
}

/// There is no record.
pub(super) fn refuse_unknown(node: NodeId) -> Step {
    let message = format!("node {node} is not known; `hive ctl nodes` lists those that are");
    Step::Done(Err(Refusal::new(ErrorCode::UnknownNode, message).into()))
}

/// The level 0 clusters that may have the node as a member, the first one to ask last.
pub(super) fn level_zero(record: &NodeRecord) -> Vec<ClusterName> {
    let region = ClusterName::regional(&record.labels.region).ok();
    region.into_iter().chain([ClusterName::world()]).collect()
}

/// Asks the last of them for its members; `None` where none is left.
pub(super) fn describe_last(clusters: &[ClusterName]) -> Option<Step> {
    let cluster = clusters.last()?.clone();
    Some(Step::Calls(vec![Call::Admin { cluster, command: AdminCommand::Describe }]))
}

//! The failures that the core itself gives, in one place so that a message is written once.

use base_types::action::Failure;
use base_types::{ClusterName, ErrorCode, NodeId, Refusal};
use core::time::Duration;

/// The deadline came, and the thing was surely not done (a read, or a write never sent).
pub fn deadline(name: &ClusterName, waited: Duration, last: &str) -> Failure {
    let message = format!(
        "cluster {name} did not answer within {} ms; last seen: {last}; retry, or allow a longer deadline_ms",
        waited.as_millis()
    );
    Refusal::new(ErrorCode::DeadlineExceeded, message).into()
}

/// The deadline came before this core came to the request: nothing was done.
pub fn expired(waited: Duration) -> Failure {
    let message = format!(
        "this core came to the request after {} ms, when its deadline had passed, and did nothing; it has more to do than it can: back off and retry",
        waited.as_millis()
    );
    Refusal::new(ErrorCode::DeadlineExceeded, message).into()
}

/// The deadline came, and a write may have been done.
pub fn unknown(name: &ClusterName, last: &str) -> Failure {
    let message = format!("the write to cluster {name} may have happened; last seen: {last}; read to find out, or retry with the same request_id");
    Refusal::new(ErrorCode::OutcomeUnknown, message).into()
}

/// No such cluster.
pub fn unknown_cluster(name: &ClusterName) -> Failure {
    let message = format!("cluster {name} does not exist; `hive ctl clusters` (ListClusters) lists those that do");
    Refusal::new(ErrorCode::UnknownCluster, message).into()
}

/// A cluster lacks a backend.
pub fn no_backend(name: &ClusterName, backend: &str) -> Failure {
    Refusal::new(
        ErrorCode::UnknownBackend,
        format!("cluster {name} has no {backend} backend; a cluster's name lists those it has"),
    )
    .into()
}

/// A table is full.
pub fn overloaded(what: &str, bound: usize) -> Failure {
    Refusal::new(ErrorCode::Overloaded, format!("this core already has {bound} {what}; back off and retry")).into()
}

/// A node nobody knows.
pub fn unknown_node(node: NodeId) -> Failure {
    Refusal::new(
        ErrorCode::UnknownNode,
        format!("node {node} is not in the node map; `hive ctl nodes` (ListNodes) lists those that are"),
    )
    .into()
}

/// Something that cannot be was met; the program is wrong, or a peer lies.
pub fn internal(message: impl Into<String>) -> Failure {
    Refusal::new(ErrorCode::Internal, message).into()
}

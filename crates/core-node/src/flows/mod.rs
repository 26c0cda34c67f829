//! Multi-step operations on clusters, as planners. Each may be run again from any point: every step
//! is idempotent, and what is unfinished is found in `reference` (flow_recovery.rs).

mod about_node;
pub mod config;
pub mod copy;
pub mod create;
pub mod decommission;
pub mod delete;
pub mod forget;
pub mod levels;
pub mod members;
pub mod moving;
pub mod orphan;
pub mod recover;
pub mod region;
pub mod upgrade;

use base_types::action::{ActionResult, Answer, ClusterInfo, MemberInfo, Response};
use base_types::{LogIndex, OrderedAt, Term};
use core_backends::reference::ClusterRecord;
use core_flow::{failures, members_of};

/// A record as the answer of a flow.
pub(crate) fn cluster_answer(record: &ClusterRecord, at: Option<OrderedAt>) -> Response {
    let members = members_of(record);
    let member = |member: &core_cluster::api::Member| MemberInfo {
        node: member.node,
        replica: member.replica,
        learner: member.learner,
        matched: LogIndex(0),
        kept: None,
        moves: false,
        up: true,
    };
    let info = ClusterInfo {
        name: record.name.clone(),
        cluster: record.cluster,
        generation: record.generation,
        rule: record.rule.clone(),
        leader: None,
        term: Term(0),
        commit: LogIndex(0),
        applied: LogIndex(0),
        consistency: record.consistency,
        read_consistency: record.read_consistency,
        members: members.iter().map(member).collect(),
        engine: None,
        warnings: Vec::new(),
    };
    Ok(Answer { result: ActionResult::Cluster(info), at, level: None, cluster: None })
}

/// A backend gave a reply of another kind than its question: a bug, reported as one.
pub(crate) fn confused(flow: &str) -> Response {
    Err(failures::internal(format!("{flow}: a backend gave a reply of another kind; report it")))
}

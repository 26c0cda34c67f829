//! A replica here that nobody leads: has its cluster been deleted, or gone on without it?
//!
//! Always: removed only if `reference` has no such life of the cluster, or if its leader, asked now,
//! lists other members. Not here: whom to suspect (recruits.rs).

use super::{confused, reference_query};
use crate::planner::{Call, CallReply, CallResult, PlanContext, Planner, ReplicaOrder, Step};
use crate::resolve::decode_call;
use base_types::action::{ActionResult, Answer};
use base_types::{ClusterId, ClusterName, Generation, NodeId, ReplicaId};
use core_backends::reference::{Query, Reply};
use core_cluster::api::{AdminCommand, ReplicaView};

/// See the file's header.
pub struct OrphanFlow {
    node: NodeId,
    name: ClusterName,
    cluster: ClusterId,
    generation: Generation,
    replica: ReplicaId,
}

impl OrphanFlow {
    /// For a replica of this node.
    pub fn new(node: NodeId, view: &ReplicaView) -> OrphanFlow {
        OrphanFlow {
            node,
            name: view.name.clone(),
            cluster: view.cluster,
            generation: view.generation,
            replica: view.replica,
        }
    }

    fn destroy(&self) -> Step {
        let order = ReplicaOrder::Destroy { cluster: self.cluster, generation: self.generation, replica: self.replica };
        Step::Calls(vec![Call::Replica { node: self.node, order }])
    }

    fn stays(&self) -> Step {
        Step::Done(Ok(Answer { result: ActionResult::Done, at: None, level: None, cluster: None }))
    }
}

impl Planner for OrphanFlow {
    fn name(&self) -> &'static str {
        "orphan"
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(vec![reference_query(&Query::Resolve { name: self.name.clone() })])
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, index: usize, result: CallResult) -> Step {
        match (index, result) {
            (_, Err(failure)) => Step::Done(Err(failure)),
            (0, result) => match decode_call::<Reply>(result) {
                Ok((Reply::Resolved { record: Some(record), .. }, _))
                    if (record.cluster, record.generation) == (self.cluster, self.generation) =>
                {
                    let member =
                        record.members.iter().any(|member| member.node == self.node && member.replica == self.replica);
                    if member {
                        return self.stays();
                    }
                    Step::Calls(vec![Call::Admin { cluster: self.name.clone(), command: AdminCommand::Describe }])
                }
                Ok((Reply::Resolved { .. }, _)) => self.destroy(),
                Ok(_) => Step::Done(confused("orphan")),
                Err(failure) => Step::Done(Err(failure)),
            },
            (1, Ok(CallReply::Described(description))) => {
                let same = (description.cluster, description.generation) == (self.cluster, self.generation);
                let listed = description
                    .members
                    .iter()
                    .any(|(member, _)| member.node == self.node && member.replica == self.replica);
                if same && !listed {
                    self.destroy()
                } else {
                    self.stays()
                }
            }
            _ => self.stays(),
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(Vec::new())
    }
}

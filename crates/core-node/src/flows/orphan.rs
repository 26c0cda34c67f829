//! A replica here that nobody leads: has its cluster been deleted, or gone on without it, or was it never whole?
//!
//! Always: removed only if `reference` says that this life of the cluster is over, or if its leader, asked now,
//! lists other members. Members that never got their first order (the cluster was made by a majority, and that
//! lost one at once) get it from here, as late as if the network had held it back: refused where the replica is,
//! was, or is on another disk. Not here: whom to suspect (replica_repair.rs).

use super::confused;
use super::create::first_order;
use base_types::action::{ActionResult, Answer};
use base_types::{ClusterId, ClusterName, Generation, LogIndex, NodeId, ReplicaId, Term};
use core_backends::reference::{ClusterRecord, ClusterState, Query, Reply};
use core_cluster::api::{AdminCommand, ReplicaView};
use core_flow::{decode_call, reference_query, Call, CallReply, CallResult, PlanContext, Planner, ReplicaOrder, Step};

/// See the file's header.
pub struct OrphanFlow {
    node: NodeId,
    name: ClusterName,
    cluster: ClusterId,
    generation: Generation,
    replica: ReplicaId,
    /// It can vote: blank and damaged ones have others to help them.
    whole: bool,
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
            whole: !view.blank && !view.damaged,
        }
    }

    /// Orders the other first members again to make their replicas, if the membership is still the first.
    fn complete(&self, record: &ClusterRecord) -> Step {
        let first = record.members_at == (Term(0), LogIndex(0)) && record.state == ClusterState::Active;
        let others = record.members.iter().filter(|member| member.node != self.node);
        let orders: Vec<Call> = others.map(|member| first_order(record, member)).collect();
        if !first || !self.whole || orders.is_empty() {
            return self.stays();
        }
        Step::Calls(orders)
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
            // A member that has its replica, or is not there, is as good as told.
            (_, Err(failure)) => Step::Done(Err(failure)),
            (0, result) => match decode_call::<Reply>(result) {
                Ok((Reply::Resolved { record: Some(record), .. }, _))
                    if (record.cluster, record.generation) == (self.cluster, self.generation) =>
                {
                    let member =
                        record.members.iter().any(|member| member.node == self.node && member.replica == self.replica);
                    if member {
                        return self.complete(&record);
                    }
                    Step::Calls(vec![Call::Admin { cluster: self.name.clone(), command: AdminCommand::Describe }])
                }
                // A later life of the same cluster: it was recovered without this replica, which is kept (stale_generations.rs).
                Ok((Reply::Resolved { record: Some(record), .. }, _)) if record.cluster == self.cluster => self.stays(),
                // Gone, or never known: what lost entries of `reference` had made must not be taken for deleted.
                Ok((Reply::Resolved { .. }, _)) => {
                    let lives = vec![(self.name.clone(), self.generation, self.cluster)];
                    Step::Calls(vec![reference_query(&Query::Buried { lives })])
                }
                Ok(_) => Step::Done(confused("orphan")),
                Err(failure) => Step::Done(Err(failure)),
            },
            (1, Ok(reply @ CallReply::Backend { .. })) => match decode_call::<Reply>(Ok(reply)) {
                Ok((Reply::Buried { places, .. }, _)) if places.is_empty() => self.stays(),
                Ok((Reply::Buried { .. }, _)) => self.destroy(),
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

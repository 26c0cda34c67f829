//! Removes a cluster and its data.
//!
//!   Resolve ─▶ Delete (reference: state Deleting) ─▶ Destroy on each member ─▶ all, or a majority ─▶ Purge
//!
//! Always: once the record is `Deleting` nobody resolves it any more; it is purged only when a majority
//! of members has no replica left, so what remains can neither elect nor commit. A member that was down
//! finds out by itself (replica_repair.rs, orphans). Held by: `a_member_that_was_down_while_its_cluster_was_deleted_finds_out`, `a_flow_whose_runner_died_is_finished_by_another`. Not here: the tombstone of the generation (reference).

use super::confused;
use base_types::action::{ActionResult, Answer};
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterName, Generation, NodeId, OrderedAt, ReplicaId};
use core_backends::reference::{ClusterRecord, ClusterState, Command, Query, Reply};
use core_flow::{
    decode_call, failures, reference_query, reference_write, Call, CallResult, PlanContext, Planner, ReplicaOrder, Step,
};
use std::collections::BTreeSet;

enum Stage {
    Resolve,
    Delete,
    Destroy { first: usize, acknowledged: usize, answered: usize },
    Purge,
}

/// See the file's header.
pub struct DeleteFlow {
    name: ClusterName,
    /// The one life that is meant; `None`: whichever there is.
    life: Option<Generation>,
    record: Option<ClusterRecord>,
    deleted_at: Option<OrderedAt>,
    /// Nodes that will never answer: they count as done.
    gone: BTreeSet<NodeId>,
    stage: Stage,
    asked: usize,
}

impl DeleteFlow {
    /// By name.
    pub fn new(name: ClusterName) -> DeleteFlow {
        DeleteFlow {
            name,
            life: None,
            record: None,
            deleted_at: None,
            gone: BTreeSet::new(),
            stage: Stage::Resolve,
            asked: 0,
        }
    }

    /// That life and no other: a later one of the name is not what was to go.
    pub fn of_life(self, life: Option<Generation>) -> DeleteFlow {
        DeleteFlow { life, ..self }
    }

    /// Continues with a record that is `Deleting`.
    pub fn resume(record: ClusterRecord) -> DeleteFlow {
        DeleteFlow { record: Some(record.clone()), ..DeleteFlow::new(record.name) }
    }

    /// Does not wait for these nodes: those that an operator has removed from the world; and, of clusters that may come to life again
    /// for a moment without harm, those that are down for good. Such clusters are configuration clusters, which their node alone
    /// reads, by their generation.
    pub fn without(self, gone: BTreeSet<NodeId>) -> DeleteFlow {
        DeleteFlow { gone, ..self }
    }

    fn ask(&mut self, calls: Vec<Call>) -> Step {
        self.asked += calls.len();
        Step::Calls(calls)
    }

    fn destroy(&mut self) -> Step {
        let Some(record) = &self.record else { return Step::Done(confused("delete cluster")) };
        self.stage = Stage::Destroy { first: self.asked, acknowledged: 0, answered: 0 };
        let order =
            ReplicaOrder::Destroy { cluster: record.cluster, generation: record.generation, replica: ReplicaId(0) };
        let calls: Vec<Call> =
            record.members.iter().map(|member| Call::Replica { node: member.node, order: order.clone() }).collect();
        if calls.is_empty() {
            return self.purge();
        }
        self.ask(calls)
    }

    fn purge(&mut self) -> Step {
        let Some(record) = &self.record else { return Step::Done(confused("delete cluster")) };
        let command = Command::Purge { name: record.name.clone(), generation: record.generation };
        self.stage = Stage::Purge;
        self.ask(vec![reference_write(&command)])
    }

    fn done(&self) -> Step {
        Step::Done(Ok(Answer { result: ActionResult::Done, at: self.deleted_at, level: None, cluster: None }))
    }

    fn on_resolved(&mut self, result: CallResult) -> Step {
        match decode_call::<Reply>(result) {
            Ok((Reply::Resolved { record: Some(record), .. }, _))
                if self.life.is_none_or(|life| life == record.generation) =>
            {
                let command = Command::Delete { name: record.name.clone(), generation: record.generation };
                let deleting = record.state == ClusterState::Deleting;
                self.record = Some(record);
                if deleting {
                    return self.destroy();
                }
                self.stage = Stage::Delete;
                self.ask(vec![reference_write(&command)])
            }
            Ok((Reply::Resolved { .. }, _)) => Step::Done(Err(failures::unknown_cluster(&self.name))),
            Ok(_) => Step::Done(confused("delete cluster")),
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    fn on_destroyed(&mut self, index: usize, ok: bool) -> Step {
        let members = self.record.as_ref().map_or(&[][..], |record| &record.members);
        let total = members.len();
        let Stage::Destroy { first, acknowledged, answered } = &mut self.stage else { return Step::Calls(Vec::new()) };
        if index < *first {
            return Step::Calls(Vec::new());
        }
        *answered += 1;
        let gone = members.get(index - *first).is_some_and(|member| self.gone.contains(&member.node));
        *acknowledged += usize::from(ok || gone);
        if *answered < total {
            return Step::Calls(Vec::new());
        }
        let enough = if planted(Mutant::PurgedByMinority) { total / 2 } else { total / 2 + 1 };
        if *acknowledged >= enough {
            return self.purge();
        }
        // Too many members are down: the record stays `Deleting` and is taken up again later.
        self.done()
    }
}

impl Planner for DeleteFlow {
    fn name(&self) -> &'static str {
        "delete-cluster"
    }

    fn subject(&self) -> Option<String> {
        Some(format!("cluster {}", self.name))
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        if self.record.is_some() {
            return self.destroy();
        }
        let query = Query::Resolve { name: self.name.clone() };
        self.ask(vec![reference_query(&query)])
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, index: usize, result: CallResult) -> Step {
        match self.stage {
            Stage::Resolve => self.on_resolved(result),
            Stage::Delete => match decode_call::<Reply>(result) {
                Ok((_, at)) => {
                    self.deleted_at = Some(at);
                    self.destroy()
                }
                Err(failure) => Step::Done(Err(failure)),
            },
            Stage::Destroy { .. } => self.on_destroyed(index, result.is_ok()),
            // Whether or not the purge was seen to work: the cluster is gone for everyone, and the record is finished later.
            Stage::Purge => self.done(),
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(Vec::new())
    }
}

//! Multi-step work as a pure machine: a [`Planner`] says which clusters to ask, is fed what they
//! answered, and ends with a response. The router carries the calls out, one executor for all.
//!
//!   start ──▶ Calls ──on_result──▶ Calls | Wait ──on_wake──▶ Calls | Done
//!
//! After its end, or its deadline's, `cleanup` may name another that takes back what it leaves.
//!
//! Always: a planner sees no time but `PlanContext::now`, no chance but `PlanContext::random`; every
//! call gets exactly one result (core-node `plan_runner/invariants.rs`, mutant `AnsweredCallsOut`); calls are numbered in the order they were asked for, from 0, over
//! the planner's whole life, and their results may come in any order. `Step::Calls(vec![])` waits
//! for results that are still out.
//! Not here: retries, leaders, redirects, request ids (the router does them for each call).

use crate::random::Random;
use base_types::action::{Failure, Level, Response};
use base_types::invariant::Broken;
use base_types::{
    BackendKind, ClusterName, Generation, NodeId, OrderedAt, ReadConsistency, RequestId, Tick, WriteConsistency,
};
use bytes::Bytes;
use core::time::Duration;
use core_cluster::api::{AdminCommand, ClusterDescription};

/// The most calls one planner may have out at a time; a step that asks for more ends the plan `Internal`.
pub const CALLS_OUT_MAX: usize = 1_100;

/// One thing to ask of the world. Retried by the router until it is answered or the plan's deadline
/// (for plans without one: `CALL_TIMEOUT`) has passed.
#[derive(Clone, PartialEq, Debug)]
pub enum Call {
    /// A command through a cluster's log. `request_id: None`: one is drawn for this call; give one
    /// to make the write the same as an earlier (or the client's) one.
    Write {
        cluster: ClusterName,
        backend: BackendKind,
        command: Bytes,
        consistency: Option<WriteConsistency>,
        request_id: Option<RequestId>,
    },
    /// A query.
    Read { cluster: ClusterName, backend: BackendKind, query: Bytes, consistency: Option<ReadConsistency> },
    /// A change of a cluster itself, done by its leader.
    Admin { cluster: ClusterName, command: AdminCommand },
    /// The whole flow that makes a cluster; done when it serves. A cluster that serves already is `ClusterExists`; one
    /// that is being made or removed is `NotReady`.
    CreateCluster { cluster: ClusterName, rule: String },
    /// The whole flow that removes a cluster; one that is not there is `UnknownCluster`, and so is one that has another
    /// life than the one that is meant.
    DeleteCluster { cluster: ClusterName, life: Option<Generation> },
    /// Makes or removes a replica on one node (the router's own flows; nobody else's business).
    Replica { node: NodeId, order: ReplicaOrder },
}

/// What a node must do with a replica.
#[derive(Clone, PartialEq, Debug)]
pub enum ReplicaOrder {
    /// Make it, if the node's disk is `disk`.
    Create { spec: Box<core_cluster::api::ReplicaSpec>, disk: base_types::DiskId },
    /// Remove it and its data: this replica, or (0) whichever is there.
    Destroy { cluster: base_types::ClusterId, generation: base_types::Generation, replica: base_types::ReplicaId },
    /// Say what is left of it there (answered by `Surveyed`).
    Survey { cluster: base_types::ClusterId },
    /// Begin a new life of its cluster alone.
    BeginLife(core_cluster::api::NewLife),
}

/// What a call came to.
#[derive(Clone, PartialEq, Debug)]
pub enum CallReply {
    /// Of `Write` and `Read`: the backend's reply (`core_backends::decode_reply` reads it), where it
    /// was ordered, the level it reached, and the cluster that answered.
    Backend { reply: Bytes, at: OrderedAt, level: Level },
    /// Of `Admin(Describe)`.
    Described(Box<ClusterDescription>),
    /// Of `Admin(Verify)`.
    Verified(Box<core_cluster::api::ClusterVerification>),
    /// Of `Replica(Survey)`.
    Surveyed(Option<Box<base_types::Survivor>>),
    /// Of every other call.
    Done { at: Option<OrderedAt> },
}

impl CallReply {
    /// The backend's reply and where it was ordered; empty and nowhere for the other kinds.
    pub fn backend(self) -> (Bytes, OrderedAt) {
        match self {
            CallReply::Backend { reply, at, .. } => (reply, at),
            CallReply::Described(_) | CallReply::Verified(_) | CallReply::Surveyed(_) => {
                (Bytes::new(), OrderedAt::default())
            }
            CallReply::Done { at } => (Bytes::new(), at.unwrap_or_default()),
        }
    }
}

/// The result a planner is handed.
pub type CallResult = Result<CallReply, Failure>;

/// What a planner may know and use in a step. `S`: the state of its family; planners of clusters have none.
pub struct PlanContext<'a, S = ()> {
    pub now: Tick,
    /// When the client gives up; `Tick::NEVER` for background work.
    pub deadline: Tick,
    /// This node and its region.
    pub node: NodeId,
    pub region: &'a str,
    pub random: &'a mut Random,
    /// The wall clock, Unix milliseconds, as the host last told it: for what is shown to people. Zero where it never did.
    pub unix_ms: u64,
    /// Thousandths of the machine's CPU time in use, at the busiest of the last seconds.
    pub machine_load: u32,
    /// What this core keeps for planners of this family.
    pub state: &'a mut S,
}

impl<'a> PlanContext<'a> {
    /// The same for a planner of a family that has a state.
    pub fn with<S>(self, state: &'a mut S) -> PlanContext<'a, S> {
        let PlanContext { now, deadline, node, region, random, unix_ms, machine_load, state: () } = self;
        PlanContext { now, deadline, node, region, random, unix_ms, machine_load, state }
    }
}

/// What to do next.
#[derive(Clone, PartialEq, Debug)]
#[allow(clippy::large_enum_variant)] // It lives from a planner's return to the executor's match.
pub enum Step {
    /// Ask these (beside those that are still out).
    Calls(Vec<Call>),
    /// Nothing for this long, then `on_wake`. Results still out are delivered in between; a `Calls`
    /// step returned for one of them leaves the wait in force, another `Wait` replaces it.
    Wait(Duration),
    /// Finished. Calls still out are dropped.
    Done(Response),
}

/// A multi-step piece of work, of the family with state `S`.
pub trait Planner<S = ()>: Send {
    /// For notes and metrics, for example `reshard`.
    fn name(&self) -> &'static str;
    /// What it is done to, where operators read of its begin and its end: what changes clusters, members, keyspaces or nodes.
    fn subject(&self) -> Option<String> {
        None
    }
    /// The first step.
    fn start(&mut self, context: &mut PlanContext<'_, S>) -> Step;
    /// The call numbered `index` ended.
    fn on_result(&mut self, context: &mut PlanContext<'_, S>, index: usize, result: CallResult) -> Step;
    /// A `Wait` is over.
    fn on_wake(&mut self, context: &mut PlanContext<'_, S>) -> Step;
    /// Whether what it keeps is as it must be, checked after each step.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn check_invariants(&self) -> Result<(), Broken> {
        Ok(())
    }
    /// What takes back what it leaves that nobody needs: asked once it has ended, well, ill or at its deadline, and
    /// carried out after its answer, if at all. What must not be left is to be found by somebody else as well.
    fn cleanup(&mut self) -> Option<Box<dyn Planner<S>>> {
        None
    }
}

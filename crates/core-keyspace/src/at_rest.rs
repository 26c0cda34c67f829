//! Reads of a world at rest: clusters whose rows somebody has at hand (out of a bucket), without leaders or logs.
//!
//!   action ──▶ the planner the router would run ──Call::Read──▶ rows ──▶ … ──▶ answer, as of an eventual read
//!
//! By design: nothing but queries is asked of the rows; what would change anything is refused; the number of queries of
//! one action is bounded. Clusters may stand at different indexes, as with any eventual reads.
//! Not here: where rows come from (edge-node).

use crate::family::{KeyspaceNews, KeyspacePlanner, PlanContext};
use crate::{plain_payload, planner_for, read_reply, read_versioned_reply, store, KeyspaceMap, Payload};
use base_types::action::{Action, Answer, Failure, KvTarget, Level, Response};
use base_types::{BackendKind, ClusterName, ErrorCode, NodeId, ReadConsistency, Refusal, Tick};
use bytes::Bytes;
use core_flow::{Call, CallReply, CallResult, Random, Step};
use std::collections::VecDeque;

/// Queries of one action: a scan asks each cluster of its keyspace a few times.
const QUERIES_MAX: usize = 100_000;

/// Who has the rows.
pub trait AtRest {
    /// Answers a query of a cluster, as a member would.
    fn read(&mut self, cluster: &ClusterName, backend: BackendKind, query: &Bytes) -> CallResult;
}

/// Answers an action that only reads.
pub fn read_at_rest(action: &Action, world: &mut dyn AtRest) -> Response {
    let answered = match action {
        Action::KvGet { target: KvTarget::Keyspace(keyspace), .. } => get(keyspace, action, world),
        Action::KvGet { target: KvTarget::Cluster(name), .. }
        | Action::KvScan { target: KvTarget::Cluster(name), .. } => plain_payload(action)
            .map_err(Failure::from)
            .and_then(|payload| read(action, name, BackendKind::Metadata, payload, world)),
        Action::KvScan { .. } | Action::DescribeKeyspace { .. } | Action::ListKeyspaces => {
            let planner = planner_for(action, None);
            planner.map_or_else(|| Err(refused(action).into()), |planner| run(planner, world))
        }
        _ => Err(refused(action).into()),
    };
    answered.map(|answer| Answer { level: Some(Level::Read(ReadConsistency::Eventual)), ..answer })
}

fn refused(action: &Action) -> Refusal {
    let message = format!(
        "{} is not answered here: this process only reads a bucket, and knows KvGet, KvScan, DescribeKeyspace and ListKeyspaces; ask a node of the world",
        action.name()
    );
    Refusal::new(ErrorCode::ReadOnly, message)
}

fn get(keyspace: &str, action: &Action, world: &mut dyn AtRest) -> Response {
    let Call::Read { cluster, backend, query, .. } = store::read_document(keyspace) else {
        return Err(Refusal::new(ErrorCode::Internal, "a document is read by a query").into());
    };
    let found = world.read(&cluster, backend, &query);
    let found = in_context(|context| store::document_read(context, keyspace, found))?;
    let (version, document) = found.ok_or_else(|| crate::map::unknown_keyspace(keyspace))?;
    let map = KeyspaceMap::new(version, document)?;
    let routed = map.route(action)?;
    read(action, routed.cluster, routed.backend, routed.payload, world)
}

fn read(
    action: &Action,
    cluster: &ClusterName,
    backend: BackendKind,
    payload: Payload,
    world: &mut dyn AtRest,
) -> Response {
    let Payload::Read(query) = payload else {
        return Err(Refusal::new(ErrorCode::Internal, "a read became a command").into());
    };
    let (reply, at) = world.read(cluster, backend, &query)?.backend();
    let result = match backend {
        BackendKind::Versioned => read_versioned_reply(action, reply),
        _ => read_reply(reply),
    };
    let result = result.map_err(|refusal| Failure { refusal, at: Some(at), cluster: None })?;
    Ok(Answer { result, at: Some(at), level: None, cluster: Some(std::sync::Arc::new(cluster.clone())) })
}

/// Runs a planner to its end. Waiting changes nothing where all is at rest.
fn run(mut planner: Box<KeyspacePlanner>, world: &mut dyn AtRest) -> Response {
    let mut step = in_context(|context| planner.start(context));
    let mut calls = VecDeque::new();
    for index in 0..QUERIES_MAX {
        match step {
            Step::Done(response) => return response,
            Step::Calls(more) => calls.extend(more),
            Step::Wait(_) => break,
        }
        let Some(call) = calls.pop_front() else { break };
        let result = match call {
            Call::Read { cluster, backend, query, .. } => world.read(&cluster, backend, &query),
            _ => break,
        };
        step = in_context(|context| planner.on_result(context, index, result));
    }
    let message =
        format!("the bucket's clusters do not fit each other just now ({}); retry in a moment", planner.name());
    Err(Refusal::new(ErrorCode::NotReady, message).into())
}

/// What a planner may know here: nothing.
fn in_context<T>(step: impl FnOnce(&mut PlanContext<'_>) -> T) -> T {
    let (mut random, mut news) = (Random::new(0), KeyspaceNews::default());
    step(&mut PlanContext {
        now: Tick(0),
        deadline: Tick::NEVER,
        node: NodeId(0),
        region: "",
        random: &mut random,
        unix_ms: 0,
        machine_load: 0,
        state: &mut news,
    })
}

/// A query's answer as planners want it.
pub fn at_rest(reply: Bytes, at: base_types::OrderedAt) -> CallReply {
    CallReply::Backend { reply, at, level: Level::Read(ReadConsistency::Eventual) }
}

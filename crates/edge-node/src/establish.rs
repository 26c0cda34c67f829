//! Starts a static topology (config/topology.rs): its keyspace, and the members its clusters are to have.
//!
//! ```text
//! ready? ─▶ CreateKeyspace ─made─▶ for each cluster: add, remove, hand over ─▶ done
//!                          └there─▶ done (a keyspace once made is its operators' business)
//! ```
//!
//! Until the members are as written no node of a new world is ready: the other nodes watch.
//!
//! By design: done by one node only, the master of shard 0, through the same actions a client would send;
//! every step may be repeated, and is given up after `TRIES_MAX`.
//! Not here: what a topology becomes (core-keyspace's from_static_topology).

use crate::config::TopologyShard;
use crate::lane::door::LaneDoor;
use base_types::action::{Action, ActionResult, ClusterInfo, Request, Response};
use base_types::{ClusterName, ErrorCode, NodeId, DEADLINE_MAX};
use core_keyspace::{cluster_name, from_static_topology, StaticPlan};
use core_node::api::Event;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// The keyspace the plain routes use.
const KEYSPACE: &str = "default";
/// What a node says while the topology is not in place.
const HOLD: &str = "the static topology is not in place yet: its clusters are being made and their members changed; wait until every node that it names is up";
/// How often a step is tried.
const TRIES_MAX: usize = 120;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// Carries the topology out, if that is this node's part; logs how it went.
pub async fn run(door: Rc<LaneDoor>, shards: Vec<TopologyShard>, own_http: String) {
    let Some(first) = shards.first() else { return };
    door.push(Event::Hold { reason: Some(HOLD.into()) });
    warn_of_what_it_cannot_bear(&shards);
    let outcome = if first.address == own_http {
        establish(&door, &shards).await
    } else {
        tracing::info!(
            master = first.address,
            "the static topology is started by the node at the first shard's address"
        );
        watch(&door, &shards).await
    };
    match outcome {
        Ok(text) => tracing::info!(keyspace = KEYSPACE, "{text}"),
        Err(reason) => tracing::error!(
            keyspace = KEYSPACE,
            reason,
            "the keyspace of the static topology was not created: correct the cause and restart this node"
        ),
    }
    door.push(Event::Hold { reason: None });
}

/// A file is checked when it is loaded; what it promises less than its reader may think is said at each start.
fn warn_of_what_it_cannot_bear(shards: &[TopologyShard]) {
    let shards: Vec<_> = shards.iter().map(TopologyShard::translate).collect();
    if let Ok(StaticPlan { warning: Some(warning), .. }) = from_static_topology(KEYSPACE, &shards) {
        tracing::warn!("the static topology cannot bear the loss of a node: {warning}");
    }
}

/// Waits until another node has made the topology; where its keyspace is there already, there is nothing to wait for.
async fn watch(door: &Rc<LaneDoor>, shards: &[TopologyShard]) -> Result<String, String> {
    let shards: Vec<_> = shards.iter().map(TopologyShard::translate).collect();
    let plan = from_static_topology(KEYSPACE, &shards).map_err(|error| error.to_string())?;
    until(|| async { ready(door).await }).await?;
    let describe = Action::DescribeKeyspace { keyspace: KEYSPACE.into() };
    if ask(door, describe).await.is_ok() {
        return Ok("the static topology's keyspace is there already and stays as it is".into());
    }
    let nodes = until(|| async { nodes_by_address(door, &plan).await }).await?;
    for (number, addresses) in plan.members.iter().enumerate() {
        let name = cluster_name(KEYSPACE, number as u16).map_err(|error| error.to_string())?;
        let members: Vec<NodeId> = addresses.iter().filter_map(|address| nodes.get(address).copied()).collect();
        until(|| async {
            match left_to_do(door, &name, &members).await? {
                None => Ok(()),
                Some(action) => Err(format!("{} of {name} is still to be done", action.name())),
            }
        })
        .await?;
    }
    Ok(format!("the static topology's {} shards are in place", shards.len()))
}

async fn establish(door: &Rc<LaneDoor>, shards: &[TopologyShard]) -> Result<String, String> {
    let shards: Vec<_> = shards.iter().map(TopologyShard::translate).collect();
    let plan = from_static_topology(KEYSPACE, &shards).map_err(|error| error.to_string())?;
    until(|| async { ready(door).await }).await?;
    let spec = plan.create.clone();
    let create = Action::CreateKeyspace {
        kind: base_types::action::KeyspaceKind::Plain,
        keyspace: spec.name,
        partitioning: spec.partitioning,
        partitions: spec.partitions,
        clusters: spec.clusters,
        split_keys: spec.split_keys,
        rule: spec.rule,
        engine: spec.engine,
    };
    let made = until(|| async {
        match ask(door, create.clone()).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.refusal.code == ErrorCode::KeyspaceExists => Ok(false),
            Err(failure) => Err(failure.refusal.to_string()),
        }
    });
    if !made.await? {
        return Ok("the static topology's keyspace is there already and stays as it is".into());
    }
    let nodes = until(|| async { nodes_by_address(door, &plan).await }).await?;
    for (number, addresses) in plan.members.iter().enumerate() {
        let name = cluster_name(KEYSPACE, number as u16).map_err(|error| error.to_string())?;
        let members: Vec<NodeId> = addresses.iter().filter_map(|address| nodes.get(address).copied()).collect();
        until(|| async { shape(door, &name, &members).await }).await?;
    }
    Ok(format!("the static topology's {} shards are in place", shards.len()))
}

/// Tries until it is `Ok`, or too often.
async fn until<T, F: std::future::Future<Output = Result<T, String>>>(step: impl Fn() -> F) -> Result<T, String> {
    let mut last = String::new();
    for _ in 0..TRIES_MAX {
        match step().await {
            Ok(done) => return Ok(done),
            Err(reason) => last = reason,
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(format!("given up after {TRIES_MAX} tries: {last}"))
}

async fn ask(door: &Rc<LaneDoor>, action: Action) -> Response {
    let request = Request {
        action,
        consistency: None,
        read_consistency: None,
        deadline: DEADLINE_MAX,
        request_id: None,
        after: None,
        expected_bucket_owner: None,
        caller: base_types::access::Caller::Node,
    };
    door.clone().ask(request).await
}

async fn ready(door: &Rc<LaneDoor>) -> Result<(), String> {
    match ask(door, Action::Status).await.map(|answer| answer.result) {
        // What this node waits for here is not to be waited for.
        Ok(ActionResult::Status(status)) if status.not_ready.iter().all(|reason| reason == HOLD) => Ok(()),
        Ok(_) => Err("this node is not ready".into()),
        Err(failure) => Err(failure.refusal.to_string()),
    }
}

async fn nodes_by_address(door: &Rc<LaneDoor>, plan: &StaticPlan) -> Result<BTreeMap<String, NodeId>, String> {
    let answer = ask(door, Action::ListNodes).await.map_err(|failure| failure.refusal.to_string())?;
    let ActionResult::Nodes { nodes } = answer.result else { return Err("no node map".into()) };
    let known: BTreeMap<String, NodeId> = nodes.into_iter().map(|node| (node.http_address, node.node)).collect();
    match plan.members.iter().flatten().find(|address| !known.contains_key(*address)) {
        Some(missing) => Err(format!("no node has the http address {missing}; start it")),
        None => Ok(known),
    }
}

/// One step towards the wanted members; `Ok` when nothing is left to do.
async fn shape(door: &Rc<LaneDoor>, name: &ClusterName, wanted: &[NodeId]) -> Result<(), String> {
    let Some(action) = left_to_do(door, name, wanted).await? else { return Ok(()) };
    let text = action.name();
    match ask(door, action).await {
        Ok(_) => Err(format!("{text} was done; there may be more to do")),
        Err(failure) => Err(failure.refusal.to_string()),
    }
}

/// The next step towards the wanted members (the first is to lead), if there is one.
async fn left_to_do(door: &Rc<LaneDoor>, name: &ClusterName, wanted: &[NodeId]) -> Result<Option<Action>, String> {
    let answer = ask(door, Action::DescribeCluster { name: name.clone() })
        .await
        .map_err(|failure| failure.refusal.to_string())?;
    let ActionResult::Cluster(ClusterInfo { members, leader, .. }) = answer.result else {
        return Err("no description".into());
    };
    let voters: BTreeSet<NodeId> = members.iter().filter(|member| !member.learner).map(|member| member.node).collect();
    let missing = wanted.iter().find(|node| !voters.contains(node));
    let surplus = members.iter().map(|member| member.node).find(|node| !wanted.contains(node));
    let name = name.clone();
    Ok(match (missing, surplus, wanted.first()) {
        (Some(node), _, _) => Some(Action::AddMember { name, node: *node }),
        (None, Some(node), _) => Some(Action::RemoveMember { name, node }),
        (None, None, Some(first)) if leader != Some(*first) => Some(Action::TransferLeader { name, node: *first }),
        _ => None,
    })
}

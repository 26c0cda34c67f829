//! The second paper's static topology (its Figure 1) as a way to start: every shard of the file
//! becomes one cluster of a hash keyspace.
//!
//! A shard's address and its replicas' addresses name nodes by where their HTTP door is. The cluster
//! is first made by rule (`size` = 1 + replicas, any chassis), then given exactly the listed nodes as
//! members and the shard's own address as leader (`ShapeClusters`). Two members are no better than one where one of them
//! dies, so a shard with one replica gets another node of the file as its third member. Keys go to shard
//! `hash mod shards` as in the paper; behind that stand more, smaller partitions, so that the keyspace
//! can be resharded online, which the paper's store cannot.
//!
//! Always: indexes are 0, 1, 2, … without gaps, in any order in the file.
//! Held by: `a_static_topology_becomes_a_keyspace`, `a_shard_with_one_replica_gets_a_third_member`.
//! Not here: YAML (the edge parses it).

use crate::document::{cluster_name, KeyspaceSpec};
use crate::family::{planner_in_rounds, KeyspaceNews, PlanContext};
use base_types::action::{ActionResult, Failure, KeyspaceKind, Partitioning};
use base_types::{ClusterName, DiskId, ErrorCode, NodeId, Refusal};
use core_backends::metadata::KEYSPACE_PARTITIONS_MAX;
use core_cluster::api::{AdminCommand, ClusterDescription};
use core_flow::rounds::{answer, is_passing, pause, InRounds, Rounds};
use core_flow::{Call, CallReply, CallResult, Step};
use std::collections::{BTreeMap, BTreeSet};

/// About how many partitions a keyspace from a static topology has.
const PARTITIONS_WANTED: u16 = 64;
/// The most replicas one shard lists.
const REPLICAS_MAX: usize = 8;
/// Failed rounds after which shaping gives up.
const SHAPE_TRIES_MAX: u32 = 60;

/// One document of the file: `Shard: {Name, Index, Address, Replicas}`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct StaticShard {
    pub name: String,
    pub index: u32,
    pub address: String,
    pub replicas: Vec<String>,
}

/// What a static topology comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticPlan {
    /// The keyspace to create.
    pub create: KeyspaceSpec,
    /// For each of its clusters, by number: the addresses of its members, the leader's first.
    pub members: Vec<Vec<String>>,
    /// What the file cannot promise, and what would do.
    pub warning: Option<&'static str>,
}

/// Why a topology is no good.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum TopologyError {
    #[error("the topology has no shard; list at least one")]
    Empty,
    #[error("the topology has {0} shards; at most {KEYSPACE_PARTITIONS_MAX} are taken")]
    TooMany(usize),
    #[error("shard '{name}' has index {index}; indexes must be 0 to {last} without gaps, each once")]
    Index { name: String, index: u32, last: usize },
    #[error("shard '{name}' lists {count} replicas; at most {REPLICAS_MAX} are taken")]
    Replicas { name: String, count: usize },
    #[error("shard '{name}' lists address '{address}' twice; every copy needs a node of its own")]
    RepeatedAddress { name: String, address: String },
    #[error("shards differ in their number of replicas ({0} and {1}); a keyspace has one rule for all its clusters")]
    UnevenReplicas(usize, usize),
    #[error("address '{0}' belongs to no node of the node map; start that node first")]
    UnknownAddress(String),
}

/// Translates a static topology into the keyspace `keyspace`.
pub fn from_static_topology(keyspace: &str, shards: &[StaticShard]) -> Result<StaticPlan, TopologyError> {
    let count = shards.len();
    let last = count.checked_sub(1).ok_or(TopologyError::Empty)?;
    if count > usize::from(KEYSPACE_PARTITIONS_MAX) {
        return Err(TopologyError::TooMany(count));
    }
    let mut members: Vec<Option<Vec<String>>> = vec![None; count];
    for shard in shards {
        let taken = members.get_mut(shard.index as usize).filter(|place| place.is_none());
        let Some(place) = taken else {
            return Err(TopologyError::Index { name: shard.name.clone(), index: shard.index, last });
        };
        *place = Some(members_of(shard)?);
    }
    let mut members: Vec<Vec<String>> = members.into_iter().flatten().collect();
    let size = members[0].len();
    if let Some(other) = members.iter().find(|m| m.len() != size) {
        return Err(TopologyError::UnevenReplicas(size - 1, other.len() - 1));
    }
    if size == 2 {
        add_thirds(&mut members);
    }
    let size = members[0].len();
    let shards = count as u16;
    let create = KeyspaceSpec {
        kind: KeyspaceKind::Plain,
        name: keyspace.to_string(),
        partitioning: Partitioning::Hash,
        // A multiple of the number of shards, so that partition mod shards is hash mod shards.
        partitions: (PARTITIONS_WANTED.div_ceil(shards) * shards).min(KEYSPACE_PARTITIONS_MAX / shards * shards),
        clusters: shards,
        split_keys: Vec::new(),
        rule: format!("size={size} location=world failure_domain=chassis"),
        engine: None,
    };
    Ok(StaticPlan { create, members, warning: warning(size) })
}

/// Gives each shard of two members a third: the next node of the file, so that each node gets as many. Nothing changes where the
/// file names two nodes only.
fn add_thirds(members: &mut [Vec<String>]) {
    let mut nodes: Vec<String> = Vec::new();
    for address in members.iter().flatten() {
        if !nodes.contains(address) {
            nodes.push(address.clone());
        }
    }
    if nodes.len() < 3 {
        return;
    }
    for (number, shard) in members.iter_mut().enumerate() {
        // From the shard's own replica on, in the file's order.
        let from = nodes.iter().position(|node| *node == shard[1]).unwrap_or(number);
        let third = nodes.iter().cycle().skip(from).take(nodes.len()).find(|node| !shard.contains(node)).cloned();
        shard.extend(third);
    }
}

fn warning(size: usize) -> Option<&'static str> {
    match size {
        1 => Some("its shards have no replica: each is lost with its node; list two replicas of each shard"),
        2 => Some("its shards have two members each and it names no third node: while one of the two is down, its shards take no writes and answer no strong reads; list two replicas of each shard"),
        _ => None,
    }
}

fn members_of(shard: &StaticShard) -> Result<Vec<String>, TopologyError> {
    if shard.replicas.len() > REPLICAS_MAX {
        return Err(TopologyError::Replicas { name: shard.name.clone(), count: shard.replicas.len() });
    }
    let mut members = vec![shard.address.clone()];
    for address in &shard.replicas {
        if members.contains(address) {
            return Err(TopologyError::RepeatedAddress { name: shard.name.clone(), address: address.clone() });
        }
        members.push(address.clone());
    }
    Ok(members)
}

/// Gives clusters the members they are to have: adds, then removes, then hands leadership over.
pub struct ShapeClusters(InRounds<Shape>);
planner_in_rounds!(ShapeClusters, InRounds<Shape>);

impl ShapeClusters {
    /// For a plan whose keyspace has been created. `nodes`: HTTP address → node and its disk.
    pub fn new(plan: &StaticPlan, nodes: &BTreeMap<String, (NodeId, DiskId)>) -> Result<ShapeClusters, TopologyError> {
        let mut wanted = Vec::new();
        for (number, addresses) in plan.members.iter().enumerate() {
            let mut members = Vec::new();
            for address in addresses {
                members.push(*nodes.get(address).ok_or_else(|| TopologyError::UnknownAddress(address.clone()))?);
            }
            if let Ok(cluster) = cluster_name(&plan.create.name, number as u16) {
                wanted.push((cluster, members));
            }
        }
        Ok(ShapeClusters(InRounds::new(Shape { wanted, tries: 0 })))
    }
}

/// One cluster at a time, looked at anew after every change.
struct Shape {
    wanted: Vec<(ClusterName, Vec<(NodeId, DiskId)>)>,
    tries: u32,
}

impl Rounds<KeyspaceNews> for Shape {
    fn name(&self) -> &'static str {
        "shape clusters"
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        if let Some(answer) = answers.into_iter().next() {
            match answer {
                Ok(CallReply::Described(description)) => {
                    if let Some(step) = self.change(&description) {
                        return step;
                    }
                    self.wanted.pop();
                    self.tries = 0;
                }
                Ok(_) => {}
                Err(failure) if is_already(&failure) => {}
                Err(failure) => {
                    self.tries += 1;
                    if self.tries > SHAPE_TRIES_MAX || !is_passing(&failure) {
                        return Step::Done(Err(failure));
                    }
                    return pause(context, self.tries);
                }
            }
        }
        let Some((cluster, _)) = self.wanted.last() else { return answer_done() };
        Step::Calls(vec![Call::Admin { cluster: cluster.clone(), command: AdminCommand::Describe }])
    }
}

fn answer_done() -> Step {
    answer(ActionResult::Done, None)
}

fn is_already(failure: &Failure) -> bool {
    matches!(failure.refusal.code, ErrorCode::AlreadyAMember | ErrorCode::NotAMember | ErrorCode::NoSuchMember)
}

impl Shape {
    /// The next change the last wanted cluster needs; `None`: it is as it should be.
    fn change(&mut self, is: &ClusterDescription) -> Option<Step> {
        let (cluster, wanted) = self.wanted.last()?;
        let present: BTreeSet<NodeId> = is.members.iter().map(|(member, _)| member.node).collect();
        let missing = wanted.iter().find(|(node, _)| !present.contains(node));
        let surplus = present.iter().find(|node| !wanted.iter().any(|(want, _)| want == *node));
        let first = wanted.first()?.0;
        let command = if let Some((node, disk)) = missing {
            AdminCommand::AddMember { node: *node, disk: *disk }
        } else if let Some(node) = surplus {
            if is.leader == Some(*node) {
                AdminCommand::TransferLeader { node: first }
            } else {
                AdminCommand::RemoveMember { node: *node }
            }
        } else if is.leader != Some(first) {
            AdminCommand::TransferLeader { node: first }
        } else {
            return None;
        };
        // A leader that will not hand over must not be asked for ever.
        self.tries += 1;
        if self.tries > SHAPE_TRIES_MAX {
            let message =
                format!("cluster '{cluster}' does not get the members of the static topology; look at its members");
            return Some(Step::Done(Err(Failure::from(Refusal::new(ErrorCode::NotReady, message)))));
        }
        Some(Step::Calls(vec![Call::Admin { cluster: cluster.clone(), command }]))
    }
}

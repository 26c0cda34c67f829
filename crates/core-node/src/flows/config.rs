//! Finds or makes this node's configuration cluster, references it in the regional cluster, and reads
//! what it lists (Hive paper, 2.6).
//!
//! Always: the list is read to its end before the flow ends well; a cluster is dropped as silent only behind a
//! question that it has just left without an answer. Held by: `a_configuration_cluster_that_answers_again_after_minutes_is_kept`, `a_configuration_cluster_out_of_reach_of_its_node_alone_is_kept`. Not here: keeping the list, and how long it may be silent
//! (config_cluster.rs).

use super::confused;
use base_types::action::{ActionResult, Answer};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{
    BackendKind, ClusterName, DiskId, ErrorCode, ErrorKind, Generation, NodeId, ReadConsistency, Refusal,
};
use bytes::Bytes;
use core::time::Duration;
use core_backends::{metadata, reference};
use core_flow::{decode_call, reference_query, Call, CallResult, PlanContext, Planner, Step};
use std::collections::{BTreeMap, BTreeSet};

/// Entries read in one question.
const PAGE: u32 = 1_000;
const PAGE_BYTES: u32 = 1 << 20;
/// The most entries a list may have: no node holds more clusters.
const ENTRIES_MAX: usize = 1 << 20;
/// How often the flow retries while the cluster is being made by an earlier attempt.
const CREATING_WAIT: Duration = Duration::from_millis(500);

enum Stage {
    Resolve,
    Drop,
    Create,
    Refer,
    Read,
}

/// How many members a configuration cluster should have.
pub struct Fit {
    pub size: usize,
    /// Nodes that are being decommissioned: a copy there is in the way if no other node can take it.
    pub leaving: BTreeSet<NodeId>,
}

impl Fit {
    /// Too few; or, with a node that leaves, too many; or two, which need each other.
    fn misses(&self, members: &[reference::ClusterMember]) -> bool {
        let leaves = members.iter().any(|member| self.leaving.contains(&member.node));
        let voters = members.iter().filter(|member| !member.learner).count();
        let too_many = voters > self.size && (leaves || voters == 2);
        members.len() < self.size || too_many && !planted(Mutant::ShrunkTooLate)
    }
}

/// What makes an old cluster worthless.
pub struct Lost {
    /// Each node's disk, as the node map has it.
    pub disks: BTreeMap<NodeId, DiskId>,
    /// Nodes that will not come back.
    pub gone: BTreeSet<NodeId>,
    /// What its size should be; `None`: it is not recreated for that now.
    pub fit: Option<Fit>,
    /// It has answered nothing for so long that one more question without an answer is enough, if most of its members are among
    /// these, which are up and in reach.
    pub silent: Option<BTreeSet<NodeId>>,
}

/// See the file's header.
pub struct ConfigFlow {
    name: ClusterName,
    node: NodeId,
    /// `None`: no other chassis exists, the cluster cannot be made now.
    rule: Option<String>,
    region: Option<ClusterName>,
    lost: Lost,
    stage: Stage,
    /// The cluster as it was found, unless it was made by this flow.
    found: Option<reference::ClusterRecord>,
    entries: Vec<(Bytes, Bytes)>,
}

impl ConfigFlow {
    /// For this node; `region`: the regional cluster, if there is one.
    pub fn new(
        name: ClusterName,
        node: NodeId,
        rule: Option<String>,
        region: Option<ClusterName>,
        lost: Lost,
    ) -> ConfigFlow {
        ConfigFlow { name, node, rule, region, lost, stage: Stage::Resolve, found: None, entries: Vec::new() }
    }

    fn resolve(&mut self) -> Step {
        self.stage = Stage::Resolve;
        Step::Calls(vec![reference_query(&reference::Query::Resolve { name: self.name.clone() })])
    }

    fn on_resolved(&mut self, result: CallResult) -> Step {
        match decode_call::<reference::Reply>(result) {
            Ok((reference::Reply::Resolved { record: Some(record), .. }, _)) => match record.state {
                reference::ClusterState::Active if self.is_lost(&record) => self.drop_it(record.generation),
                reference::ClusterState::Active => {
                    self.found = Some(record);
                    self.refer()
                }
                _ => Step::Wait(CREATING_WAIT),
            },
            Ok((reference::Reply::Resolved { .. }, _)) => self.create(),
            Ok(_) => Step::Done(confused("configuration cluster")),
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    /// Whether so many of its members are gone, or lost their disks, that no majority is left to say what it held;
    /// or whether its size does not fit.
    fn is_lost(&self, record: &reference::ClusterRecord) -> bool {
        let Lost { disks, gone, fit, .. } = &self.lost;
        let gone = |member: &&reference::ClusterMember| {
            gone.contains(&member.node) || disks.get(&member.node).is_some_and(|disk| *disk != member.disk)
        };
        let members = record.members.len();
        fit.as_ref().is_some_and(|fit| fit.misses(&record.members))
            || record.members.iter().filter(gone).count() * 2 >= members.max(1)
    }

    /// What it listed is here, or is found by the leaders of the clusters themselves: it is recreated.
    fn drop_it(&mut self, life: Generation) -> Step {
        self.stage = Stage::Drop;
        Step::Calls(vec![Call::DeleteCluster { cluster: self.name.clone(), life: Some(life) }])
    }

    fn create(&mut self) -> Step {
        let Some(rule) = self.rule.clone() else {
            let refusal = Refusal::new(ErrorCode::PlacementRefused, "no other chassis in the region");
            return Step::Done(Err(refusal.into()));
        };
        self.stage = Stage::Create;
        Step::Calls(vec![Call::CreateCluster { cluster: self.name.clone(), rule }])
    }

    /// The regional cluster references the configuration clusters of its region.
    fn refer(&mut self) -> Step {
        let Some(region) = self.region.clone() else { return self.read(None) };
        self.stage = Stage::Refer;
        let key = Bytes::from(format!("config/{}", self.node));
        let body = Bytes::from(self.name.as_str().as_bytes().to_vec());
        let command = reference::Command::PutDocument { key, expected_version: None, body };
        Step::Calls(vec![Call::Write {
            cluster: region,
            backend: BackendKind::Reference,
            command: command.to_bytes(),
            consistency: None,
            request_id: None,
        }])
    }

    fn read(&mut self, after: Option<&Bytes>) -> Step {
        self.stage = Stage::Read;
        let start = after.map_or(Bytes::new(), |key| Bytes::from([key.as_ref(), b"\0"].concat()));
        let query = metadata::Query::Scan {
            scopes: metadata::ScanScopes::Plain,
            start,
            end: None,
            reverse: false,
            limit: PAGE,
            bytes_max: PAGE_BYTES,
            keys_only: false,
        };
        Step::Calls(vec![Call::Read {
            cluster: self.name.clone(),
            backend: BackendKind::Metadata,
            query: query.to_bytes(),
            consistency: Some(ReadConsistency::Strong),
        }])
    }

    fn on_page(&mut self, result: CallResult) -> Step {
        match decode_call::<metadata::Reply>(result) {
            Ok((metadata::Reply::Page { entries, more, .. }, _)) => {
                self.entries.extend(entries);
                if more && self.entries.len() < ENTRIES_MAX {
                    let last = self.entries.last().map(|(key, _)| key.clone());
                    return self.read(last.as_ref());
                }
                let entries = core::mem::take(&mut self.entries);
                Step::Done(Ok(Answer {
                    result: ActionResult::Page { entries, next: None },
                    at: None,
                    level: None,
                    cluster: None,
                }))
            }
            Ok(_) => Step::Done(confused("configuration cluster")),
            Err(failure) if is_silence(&failure.refusal) => self.on_silence(failure.refusal),
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    /// It is there and does not answer. Replicas that rotted stay on their disks and call themselves damaged, which no node map
    /// shows: that a cluster whose members are up has no leader for so long is all that is seen of it from here.
    fn on_silence(&mut self, refusal: Refusal) -> Step {
        // Once: what is made in its place has been silent for no time.
        let in_reach = core::mem::take(&mut self.lost.silent).unwrap_or_default();
        let answers = |member: &&reference::ClusterMember| in_reach.contains(&member.node);
        // With a majority up and in reach it could have elected and answered, and its removal is acknowledged.
        let can_go = |record: &reference::ClusterRecord| {
            record.members.iter().filter(answers).count() * 2 > record.members.len()
        };
        match self.found.take().filter(can_go) {
            Some(record) => self.drop_it(record.generation),
            None => Step::Done(Err(Refusal::new(ErrorCode::ConfigClusterSilent, refusal.message).into())),
        }
    }
}

/// Whether a question was left without an answer by the cluster itself. A pair that is damaged for good is no better than none.
pub fn is_silence(refusal: &Refusal) -> bool {
    matches!(refusal.kind(), ErrorKind::Unavailable | ErrorKind::Unknown | ErrorKind::Corrupt)
}

impl Planner for ConfigFlow {
    fn name(&self) -> &'static str {
        "configuration-cluster"
    }

    fn subject(&self) -> Option<String> {
        Some(format!("cluster {}", self.name))
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        self.resolve()
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        match self.stage {
            Stage::Resolve => self.on_resolved(result),
            Stage::Drop => match result {
                Err(failure) if failure.refusal.code != ErrorCode::UnknownCluster => Step::Done(Err(failure)),
                _ => self.resolve(),
            },
            Stage::Create => match result {
                Ok(_) => self.refer(),
                Err(failure) if failure.refusal.code == ErrorCode::ClusterExists => self.resolve(),
                Err(failure) => Step::Done(Err(failure)),
            },
            // A reference that is there already is as good as a new one.
            Stage::Refer => match decode_call::<reference::Reply>(result) {
                Err(failure) if failure.refusal.kind().retryable() => Step::Done(Err(failure)),
                _ => self.read(None),
            },
            Stage::Read => self.on_page(result),
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        self.resolve()
    }
}

/// Whether a cluster is some node's configuration cluster.
pub fn is_config_cluster(name: &ClusterName) -> bool {
    name.tail().starts_with("config-")
}

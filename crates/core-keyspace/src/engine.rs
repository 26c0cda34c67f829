//! Has a cluster, or every cluster of a keyspace, move to another engine. Here it is only said; the replicas follow one
//! by one (core-node, rebalance.rs).
//!
//!   keyspace: its document ─▶ Describe each ─▶ could each be moved? ─▶ keyspace: the document
//!        ─▶ each: SetEngine in the cluster (which decides) ─▶ in `reference` (which lists)
//!
//! Always: a keyspace that cannot be moved is refused before anything is changed. Every step may be repeated, so a client
//! without an answer retries, and the flow continues where it stopped. Held by: `a_keyspace_moves_with_all_its_clusters_and_those_to_come`, `what_cannot_be_is_refused_with_what_to_do_and_nothing_is_changed`. Not here: which replica moves when, and where to
//! (core-node, rebalance.rs, flows/moving.rs).

use crate::clusters::{CLUSTERS_AT_A_TIME, TRIES_MAX};
use crate::document::{Document, KeyspaceState};
use crate::family::{planner_in_rounds, KeyspaceNews, PlanContext};
use crate::map::unknown_keyspace;
use crate::store;
use base_types::action::{ActionResult, Failure, KvTarget};
use base_types::codec::Encode;
use base_types::{BackendKind, ClusterName, ErrorCode, NodeId, OrderedAt, ReadConsistency, Refusal};
use core_backends::allocator::{Query, Reply};
use core_backends::reference::{self, ClusterRecord};
use core_cluster::api::{AdminCommand, ClusterDescription};
use core_flow::rounds::{answer, is_passing, one, only, pause, refuse, InRounds, Rounds};
use core_flow::{failures, reference_write, Call, CallReply, CallResult, Step};
use core_placement::{Rule, RuleError};
use std::collections::BTreeMap;

/// With fewer voters a replica is replaced on another node only (core-cluster, `RENEW_VOTERS_MIN`).
const VOTERS_IN_PLACE_MIN: usize = 3;
/// Different questions to the allocator; clusters beyond that find out when they move.
const CHECKS_MAX: usize = 256;

/// Says which engine a cluster or keyspace is to be kept in.
pub struct SetEngine(InRounds<Set>);
planner_in_rounds!(SetEngine, InRounds<Set>);

impl SetEngine {
    /// For a client.
    pub fn new(target: KvTarget, engine: String) -> SetEngine {
        SetEngine(InRounds::new(Set {
            target,
            engine,
            stage: Stage::Read,
            document: None,
            clusters: Vec::new(),
            checks: BTreeMap::new(),
            tries: 0,
            at: None,
        }))
    }
}

enum Stage {
    Read,
    /// From this cluster on.
    Look(usize),
    Check,
    Write(Box<Document>),
    Set(usize),
    Resolve(usize),
    Tell(usize),
}

struct Set {
    target: KvTarget,
    engine: String,
    stage: Stage,
    document: Option<(u64, Document)>,
    /// Each with whether its rule names the engine already.
    clusters: Vec<(ClusterName, bool)>,
    /// What the allocator must be able to do, each for one of the clusters.
    checks: BTreeMap<Vec<u8>, ClusterName>,
    tries: u32,
    at: Option<OrderedAt>,
}

impl Set {
    fn begin(&mut self) -> Step {
        (self.document, self.stage) = (None, Stage::Read);
        self.clusters.clear();
        self.checks.clear();
        match &self.target {
            KvTarget::Keyspace(keyspace) => one(store::read_document(keyspace)),
            KvTarget::Cluster(name) => {
                self.clusters.push((name.clone(), false));
                self.look(0)
            }
        }
    }

    /// What may be otherwise a moment later is begun anew.
    fn again(&mut self, context: &mut PlanContext<'_>, failure: Failure) -> Step {
        self.tries += 1;
        self.stage = Stage::Read;
        // Another writer changed the document, or a cluster was recreated, since they were read.
        let overtaken = matches!(failure.refusal.code, ErrorCode::ConditionFailed | ErrorCode::WrongGeneration);
        if self.tries > TRIES_MAX || !(is_passing(&failure) || overtaken) {
            return Step::Done(Err(failure));
        }
        pause(context, self.tries)
    }

    fn on_document(&mut self, keyspace: &str, found: Option<(u64, Document)>) -> Step {
        let Some((version, document)) = found else { return refuse(unknown_keyspace(keyspace)) };
        if document.state != KeyspaceState::Ready || document.reshard.is_some() {
            let message = format!(
                "keyspace '{keyspace}' is being made, removed or resharded; retry when that is done (`hive ctl keyspace show {keyspace}`)"
            );
            return refuse(Refusal::new(ErrorCode::Conflict, message));
        }
        for number in 0..document.clusters {
            match document.cluster(number) {
                Ok(name) => self.clusters.push((name, false)),
                Err(refusal) => return refuse(refusal),
            }
        }
        self.document = Some((version, document));
        self.look(0)
    }

    fn round(&self, first: usize) -> impl Iterator<Item = &(ClusterName, bool)> {
        self.clusters.iter().skip(first).take(usize::from(CLUSTERS_AT_A_TIME))
    }

    fn look(&mut self, first: usize) -> Step {
        if first >= self.clusters.len() {
            return self.check();
        }
        self.stage = Stage::Look(first);
        let describe =
            |(name, _): &(ClusterName, bool)| Call::Admin { cluster: name.clone(), command: AdminCommand::Describe };
        Step::Calls(self.round(first).map(describe).collect())
    }

    fn on_looked(&mut self, first: usize, answers: Vec<CallResult>) -> Result<Step, Failure> {
        for (at, result) in answers.into_iter().enumerate() {
            let CallReply::Described(described) = result? else {
                return Err(failures::internal("a description was answered by something else"));
            };
            let already = self.look_at(&described)?;
            if let Some(cluster) = self.clusters.get_mut(first + at) {
                cluster.1 = already;
            }
        }
        Ok(self.look(first.saturating_add(usize::from(CLUSTERS_AT_A_TIME))))
    }

    /// Whether the rule names the engine already; else what must be possible for it to move there.
    fn look_at(&mut self, described: &ClusterDescription) -> Result<bool, Refusal> {
        let name = &described.name;
        let rule: Rule = described.rule.parse().map_err(|error: RuleError| {
            Refusal::new(ErrorCode::InvalidRule, format!("the rule of cluster {name} cannot be read: {error}"))
        })?;
        if rule.engine.as_deref() == Some(&self.engine) {
            return Ok(true);
        }
        if let Some((node, _)) = described.kept.first() {
            let message = format!(
                "node {node} keeps cluster {name} in a bucket, and a rule's engine is that of every member; remove it first (`hive ctl cluster members remove {name} {node}`)"
            );
            return Err(Refusal::new(ErrorCode::Conflict, message));
        }
        let rule = Rule { engine: Some(self.engine.clone()), ..rule }.to_string();
        let voters = described.members.iter().filter(|(member, _)| !member.learner);
        let voters: Vec<NodeId> = voters.map(|(member, _)| member.node).collect();
        let query = match voters.first() {
            Some(lost) if voters.len() < VOTERS_IN_PLACE_MIN => {
                Query::ElectReplacement { rule, members: voters.clone(), lost: *lost, spread: 0 }
            }
            _ => Query::Elect { rule, exclude: Vec::new(), spread: 0 },
        };
        if self.checks.len() < CHECKS_MAX {
            self.checks.insert(query.to_bytes().to_vec(), name.clone());
        }
        Ok(false)
    }

    fn check(&mut self) -> Step {
        if self.checks.is_empty() {
            return self.write();
        }
        self.stage = Stage::Check;
        let ask = |query: &Vec<u8>| Call::Read {
            cluster: ClusterName::world(),
            backend: BackendKind::Allocator,
            query: query.clone().into(),
            consistency: Some(ReadConsistency::Strong),
        };
        Step::Calls(self.checks.keys().map(ask).collect())
    }

    fn on_checked(&mut self, answers: Vec<CallResult>) -> Result<Step, Failure> {
        for (name, result) in self.checks.values().zip(answers) {
            if let Err(failure) = store::backend_reply::<Reply>(result) {
                if !failure.refusal.code.is_placement() {
                    return Err(failure);
                }
                let message = format!(
                    "cluster {name} cannot move to engine {}: {}; add nodes that offer it, or start these with a build that has it",
                    self.engine, failure.refusal.message
                );
                return Err(Refusal::new(ErrorCode::PlacementRefused, message).into());
            }
        }
        Ok(self.write())
    }

    /// A keyspace's clusters to come are made by its document.
    fn write(&mut self) -> Step {
        let Some((version, old)) = self.document.take() else { return self.set(0) };
        let document = with_engine(&old, &self.engine);
        if document == old {
            return self.set(0);
        }
        let call = store::write_document(&document, Some(version));
        self.stage = Stage::Write(Box::new(document));
        one(call)
    }

    fn set(&mut self, first: usize) -> Step {
        if first >= self.clusters.len() {
            return answer(ActionResult::Done, self.at);
        }
        let engine = &self.engine;
        let fresh = self.round(first).filter(|(_, already)| !already);
        let set = |(name, _): &(ClusterName, bool)| Call::Admin {
            cluster: name.clone(),
            command: AdminCommand::SetEngine { engine: engine.clone() },
        };
        let calls: Vec<Call> = fresh.map(set).collect();
        if calls.is_empty() {
            return self.resolve(first);
        }
        self.stage = Stage::Set(first);
        Step::Calls(calls)
    }

    fn on_set(&mut self, first: usize, answers: Vec<CallResult>) -> Result<Step, Failure> {
        for result in answers {
            self.at = Some(result?.backend().1);
        }
        Ok(self.resolve(first))
    }

    fn resolve(&mut self, first: usize) -> Step {
        self.stage = Stage::Resolve(first);
        Step::Calls(self.round(first).map(|(name, _)| store::resolve_cluster(name.clone())).collect())
    }

    fn on_resolved(&mut self, first: usize, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let mut records: Vec<ClusterRecord> = Vec::new();
        for result in answers {
            records.extend(store::cluster_resolved(result)?);
        }
        let tell = |record: ClusterRecord| {
            let (name, generation, engine) = (record.name, record.generation, self.engine.clone());
            reference_write(&reference::Command::SetEngine { name, generation, engine })
        };
        let stale = records.into_iter().filter(|record| {
            let rule = record.rule.parse::<Rule>().ok().and_then(|rule| rule.engine);
            rule.as_deref() != Some(&self.engine)
        });
        let calls: Vec<Call> = stale.map(tell).collect();
        if calls.is_empty() {
            return Ok(self.set(first.saturating_add(usize::from(CLUSTERS_AT_A_TIME))));
        }
        self.stage = Stage::Tell(first);
        Ok(Step::Calls(calls))
    }

    fn on_told(&mut self, first: usize, answers: Vec<CallResult>) -> Result<Step, Failure> {
        for result in answers {
            store::backend_reply::<reference::Reply>(result)?;
        }
        Ok(self.set(first.saturating_add(usize::from(CLUSTERS_AT_A_TIME))))
    }

    fn on_answers(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        match core::mem::replace(&mut self.stage, Stage::Read) {
            Stage::Read => {
                let KvTarget::Keyspace(keyspace) = self.target.clone() else { return Ok(self.begin()) };
                let found = store::document_read(context, &keyspace, only(answers))?;
                Ok(self.on_document(&keyspace, found))
            }
            Stage::Look(first) => self.on_looked(first, answers),
            Stage::Check => self.on_checked(answers),
            Stage::Write(document) => {
                store::document_written(context, &document, only(answers))?;
                Ok(self.set(0))
            }
            Stage::Set(first) => self.on_set(first, answers),
            Stage::Resolve(first) => self.on_resolved(first, answers),
            Stage::Tell(first) => self.on_told(first, answers),
        }
    }
}

/// The document with another engine, where its rule says one in the rule.
fn with_engine(old: &Document, engine: &str) -> Document {
    let mut document = Document { engine: Some(engine.to_string()), ..old.clone() };
    if let Ok(rule) = old.rule.parse::<Rule>() {
        if rule.engine.is_some() {
            document.rule = Rule { engine: Some(engine.to_string()), ..rule }.to_string();
        }
    }
    document
}

impl Rounds<KeyspaceNews> for Set {
    fn name(&self) -> &'static str {
        "set engine"
    }

    fn subject(&self) -> Option<String> {
        let what = match &self.target {
            KvTarget::Cluster(name) => format!("cluster {name}"),
            KvTarget::Keyspace(name) => format!("keyspace {name}"),
        };
        Some(format!("{what}: engine {}", self.engine))
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        if answers.is_empty() {
            return self.begin();
        }
        self.on_answers(context, answers).unwrap_or_else(|failure| self.again(context, failure))
    }
}

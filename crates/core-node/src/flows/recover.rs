//! A cluster whose majority is gone for good: what its survivors hold, a new life on the best of them, and members again.
//!
//! ```text
//!   RecoverFlow   Resolve ─▶ Survey (every node) ─▶ report ─confirmed─▶ Recover (reference) ─▶ BeginLife (survivor)
//!                                                              ─▶ survivors that hold nothing more: Destroy, settled
//!                 of a level 0 cluster: Survey ─▶ report ─confirmed─▶ BeginLife ─▶ NoteRecovery (decision 0045)
//!   SweepFlow     open recoveries ─▶ Describe ─▶ as many voters as the rule wants? settled · else AddMember, one by one
//!                                       └─ nobody leads ─▶ BeginLife again
//!   DiscardFlow   Describe: the new life serves ─▶ Destroy (node) ─▶ settled
//! ```
//!
//! Always: nothing is changed without the cluster's name as confirmation; the life that begins is decided by `reference`
//! alone, before the survivor hears of it (of a level 0 cluster by the operator, and numbered by the clock); each step may be repeated; data of an ended life that holds anything the new one
//! lacks is removed by an operator's word only.
//! Not here: which survivor is best (base-types, survivor.rs), its replica (core-cluster, recover.rs).

use super::{confused, reference_query, reference_write};
use crate::failures;
use crate::planner::{Call, CallReply, CallResult, PlanContext, Planner, ReplicaOrder, Step};
use crate::resolve::decode_call;
use base_types::action::{ActionResult, Answer, RecoveryInfo, RecoveryState, Response};
use base_types::{
    best_survivor,
    mutant::{planted, Mutant},
    ClusterId, ClusterName, ErrorKind, FormerMember, Generation, LogIndex, NodeId, OrderedAt, ReadConsistency, Refusal,
    ReplicaId, Survivor, SurvivorState, Term, Tick, WriteConsistency,
};
use core::time::Duration;
use core_backends::reference::{ClusterMember, ClusterRecord, ClusterState, Command, Query, Recovery, Reply};
use core_cluster::api::{AdminCommand, ClusterDescription, Member, NewLife};
use core_placement::{elect_replacement, NodeRecord, Rule};
use std::collections::BTreeSet;

/// The pause before the survivor is ordered again.
const AGAIN: Duration = Duration::from_millis(500);
/// Recoveries listed or swept at a time.
const RECOVERIES_AT_ONCE: u32 = 256;

/// How the survivors stand: what a report says, and what a recovery is decided by.
struct Survey {
    record: ClusterRecord,
    survivors: Vec<Survivor>,
    /// Nodes that answered, with or without a replica.
    answered: BTreeSet<NodeId>,
    /// Nodes that the world hears of.
    up: BTreeSet<NodeId>,
    /// The latest life that anybody has heard of.
    heard: Generation,
}

impl Survey {
    /// The next life may have begun already, by a word that `reference` has lost with its own majority.
    fn best(&self) -> Option<&Survivor> {
        let next = best_survivor(&self.survivors, Generation(self.record.generation.0.saturating_add(1)));
        next.or_else(|| best_survivor(&self.survivors, self.record.generation))
    }

    /// All that are or were members, as far as anybody knows, one a node.
    fn members(&self) -> Vec<ClusterMember> {
        let own = self.survivors.iter().map(|one| ClusterMember {
            replica: one.replica,
            node: one.node,
            disk: one.disk,
            learner: false,
        });
        let told = self.survivors.iter().flat_map(|one| one.members.iter().map(listed));
        let mut all: Vec<ClusterMember> = Vec::new();
        for member in own.chain(self.record.members.iter().copied()).chain(told) {
            if !all.iter().any(|known| known.node == member.node) {
                all.push(member);
            }
        }
        all.sort_by_key(|member| member.node);
        all
    }

    /// Voters of the latest membership that a survivor knows.
    fn voters(&self) -> Vec<FormerMember> {
        let known = self.best().filter(|best| !best.members.is_empty());
        let known = known.map(|best| best.members.clone()).unwrap_or_else(|| {
            let member = |member: &ClusterMember| FormerMember {
                replica: member.replica,
                node: member.node,
                disk: member.disk,
                learner: member.learner,
            };
            self.record.members.iter().map(member).collect()
        });
        known.into_iter().filter(|member| !member.learner).collect()
    }

    /// Members that may hold data and do not answer.
    fn silent(&self) -> Vec<NodeId> {
        let silent = |member: &ClusterMember| !self.answered.contains(&member.node);
        self.members().into_iter().filter(silent).map(|member| member.node).collect()
    }

    /// Why nothing can or need be recovered.
    fn obstacle(&self) -> Option<Refusal> {
        let name = &self.record.name;
        let voters = self.voters();
        if !planted(Mutant::LivingMembersOverruled) {
            if let Some(refusal) = self.sign_of_life() {
                return Some(refusal);
            }
        }
        let lives = |voter: &&FormerMember| {
            let whole = |one: &&Survivor| one.replica == voter.replica && one.can_begin();
            self.survivors.iter().filter(whole).any(|one| one.generation == self.record.generation)
        };
        let alive = voters.iter().filter(lives).count();
        if alive * 2 > voters.len() {
            let message = format!(
                "{alive} of the {} voters of cluster {name} answer with whole logs, which is a majority: it elects a leader by itself and loses nothing; look at `hive ctl cluster show {name}`",
                voters.len()
            );
            return Some(Refusal::new(ErrorKind::Conflict, "MajorityLives", message));
        }
        if self.best().is_none() {
            let held: Vec<NodeId> = self.record.members.iter().map(|member| member.node).collect();
            let over = self.survivors.iter().filter(|one| one.state == SurvivorState::Ended);
            let over: Vec<NodeId> = over.map(|one| one.node).collect();
            let start = match (over.is_empty(), held.is_empty()) {
                (false, _) => format!("{} ended when a later life began on another node: start that one", named(&over)),
                (true, true) => "start the nodes that held it".to_string(),
                (true, false) => format!("start the nodes that held it ({})", join(&held)),
            };
            let message = format!(
                "no node that answers holds a whole log of life {} of cluster {name}: {start}, or restore it from a backup",
                self.record.generation
            );
            return Some(Refusal::new(ErrorKind::Conflict, "NoSurvivor", message));
        }
        None
    }

    /// Somebody lives whom the survey does not reach: those who are cut off are not gone.
    fn sign_of_life(&self) -> Option<Refusal> {
        let name = &self.record.name;
        let follows = |one: &&Survivor| one.generation == self.record.generation && one.follows.is_some();
        if let Some((one, leader)) = self.survivors.iter().find(follows).and_then(|one| Some((one, one.follows?))) {
            let message = format!(
                "cluster {name} has a leader, node {leader}, as node {} knows: it serves, and nothing is lost; look at `hive ctl cluster show {name}`, and retry if node {leader} dies",
                one.node
            );
            return Some(Refusal::new(ErrorKind::Conflict, "LeaderLives", message));
        }
        let up: Vec<NodeId> = self.silent().into_iter().filter(|node| self.up.contains(node)).collect();
        if up.is_empty() {
            return None;
        }
        let message = format!(
            "{} of cluster {name} did not answer, but the world hears of {}: they may serve it; wait, or ask through another node, or stop what is running there for good",
            named(&up),
            if up.len() == 1 { "it" } else { "them" }
        );
        Some(Refusal::new(ErrorKind::Conflict, "MemberUp", message))
    }

    /// What an operator must know before the word is given.
    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let Some(best) = self.best() else { return findings };
        let silent = self.silent();
        if best.generation > self.record.generation {
            findings.push(format!(
                "life {} began on node {} already, by a word that the world has lost: it is taken up as it is",
                best.generation, best.node
            ));
        }
        if !silent.is_empty() {
            findings.push(format!(
                "{} did not answer: acknowledged writes that no other node holds are lost, and nobody can list them; start one of these nodes first if you can",
                named(&silent)
            ));
        }
        if self.record.name.is_level_zero() && !silent.is_empty() {
            findings.push(format!(
                "{} may live, cut off from here: nothing above this cluster knows. Then they serve it, and they are the ones that end, with all that they acknowledge, when they hear of the new life",
                named(&silent)
            ));
        }
        let listed = self.record.members.iter().any(|member| member.replica == best.replica);
        if !listed {
            findings.push(format!(
                "node {} is no member any more as the world knows it: everything since it was removed is lost",
                best.node
            ));
        }
        let known = self.record.members_at.1;
        if known > best.last {
            findings.push(format!(
                "the cluster had reached entry {known}, and the best log ends at {}: at least {} entries are lost",
                best.last,
                known.0 - best.last.0
            ));
        }
        match best.state {
            SurvivorState::Mending => findings.push(format!(
                "rows of node {} read as damaged: those that nobody else can give back are lost; the data of the other survivors is kept until you discard it",
                best.node
            )),
            SurvivorState::Quarantined => findings.push(format!(
                "node {} is quarantined, and the new life is too until the entry it waits at is skipped; `hive ctl status` says why",
                best.node
            )),
            _ => {}
        }
        if best.last > best.commit {
            findings.push(format!(
                "entries {} to {} of node {} are not known to be committed and become part of the cluster: writes that were answered 'unknown' may appear",
                best.commit.0 + 1,
                best.last,
                best.node
            ));
        }
        let others = self.survivors.iter().filter(|one| one.node != best.node && !one.adds_nothing_to(best));
        findings.extend(others.map(|one| {
            format!(
                "node {} ({}, life {}) may hold entries up to {} that node {} lacks: its data is kept until you discard it",
                one.node,
                one.state.as_str(),
                one.generation,
                one.last,
                best.node
            )
        }));
        findings
    }

    /// What was confirmed is no longer what would happen.
    fn changed_since(&self, seen: Option<NodeId>) -> Option<Refusal> {
        let (seen, best) = (seen?, self.best()?.node);
        let message = format!(
            "node {best} is the best survivor of cluster {} now, not node {seen}; nothing was changed: look again at what may be lost",
            self.record.name
        );
        (seen != best).then(|| Refusal::new(ErrorKind::Conflict, "SurvivorChanged", message))
    }

    fn info(&self) -> RecoveryInfo {
        RecoveryInfo {
            name: self.record.name.clone(),
            cluster: self.record.cluster,
            ended: self.record.generation,
            state: RecoveryState::Surveyed,
            survivor: self.best().map(|best| best.node),
            unix_ms: 0,
            by: NodeId(0),
            survivors: self.survivors.clone(),
            silent: self.silent(),
            held: Vec::new(),
            findings: self.findings(),
        }
    }

    fn recovery(&self, by: NodeId, unix_ms: u64) -> Option<Recovery> {
        let best = self.best()?;
        let empty = |member: &ClusterMember| {
            self.answered.contains(&member.node) && !self.survivors.iter().any(|one| one.node == member.node)
        };
        let mut members = self.members();
        let survivor = members.iter().copied().find(|member| member.node == best.node)?;
        // Members of the life that begins keep nothing of the one that ends.
        let of_next = |member: &ClusterMember| {
            self.survivors.iter().any(|one| one.node == member.node && one.generation > self.record.generation)
        };
        members.retain(|member| member.node != best.node && !empty(member) && !of_next(member));
        Some(Recovery {
            name: self.record.name.clone(),
            cluster: self.record.cluster,
            ended: self.record.generation,
            survivor: ClusterMember { replica: best.replica, ..survivor },
            unix_ms,
            by,
            told: self.survivors.clone(),
            held: members,
            open: true,
        })
    }
}

fn listed(member: &FormerMember) -> ClusterMember {
    ClusterMember { replica: member.replica, node: member.node, disk: member.disk, learner: member.learner }
}

fn join(nodes: &[NodeId]) -> String {
    let nodes: Vec<String> = nodes.iter().map(|node| node.to_string()).collect();
    nodes.join(", ")
}

/// The same as the subject of a sentence.
fn named(nodes: &[NodeId]) -> String {
    format!("{} {}", if nodes.len() == 1 { "node" } else { "nodes" }, join(nodes))
}

/// The order by which a recovery's life begins on its survivor.
fn begins(recovery: &Recovery) -> Call {
    Call::Replica { node: recovery.survivor.node, order: ReplicaOrder::BeginLife(life_of(recovery)) }
}

fn life_of(recovery: &Recovery) -> NewLife {
    NewLife {
        cluster: recovery.cluster,
        replica: recovery.survivor.replica,
        from: recovery.ended,
        to: recovery.begun(),
    }
}

/// Two operators who cannot see each other begin two lives with two numbers: the later one ends the earlier.
fn numbered_by_clock(ended: Generation, unix_ms: u64) -> Generation {
    let seconds = u32::try_from(unix_ms / 1_000).unwrap_or(u32::MAX);
    Generation(seconds.max(ended.0.saturating_add(1)))
}

fn destroys(cluster: ClusterId, ended: Generation, node: NodeId, replica: ReplicaId) -> Call {
    Call::Replica { node, order: ReplicaOrder::Destroy { cluster, generation: ended, replica } }
}

fn settles(recovery: &Recovery, discarded: Option<NodeId>, whole: bool) -> Call {
    let (name, ended) = (recovery.name.clone(), recovery.ended);
    reference_write(&Command::SettleRecovery { name, ended, discarded, whole })
}

/// A recovery as it is reported.
fn info_of(recovery: &Recovery, findings: Vec<String>) -> RecoveryInfo {
    let answered = |node: &NodeId| recovery.told.iter().any(|one| one.node == *node);
    let held: Vec<NodeId> = recovery.held.iter().map(|member| member.node).collect();
    RecoveryInfo {
        name: recovery.name.clone(),
        cluster: recovery.cluster,
        ended: recovery.ended,
        state: if recovery.open { RecoveryState::Open } else { RecoveryState::Whole },
        survivor: Some(recovery.survivor.node),
        unix_ms: recovery.unix_ms,
        by: recovery.by,
        survivors: recovery.told.clone(),
        silent: held.iter().copied().filter(|node| !answered(node)).collect(),
        held,
        findings,
    }
}

fn answer(result: ActionResult, at: Option<OrderedAt>) -> Response {
    Ok(Answer { result, at, level: None, cluster: None })
}

enum Stage {
    Resolve,
    Survey,
    Write,
    Begin,
    Note,
    /// Survivors that hold nothing the chosen one lacks go, one by one: the order, then the word that it is done.
    Clear(Vec<(NodeId, ReplicaId)>),
    Cleared(NodeId, Vec<(NodeId, ReplicaId)>),
}

/// Surveys what is left of a cluster, and recovers it if that is confirmed.
pub struct RecoverFlow {
    name: ClusterName,
    confirmed: bool,
    /// Whom the operator saw as the best.
    seen: Option<NodeId>,
    nodes: Vec<NodeId>,
    up: BTreeSet<NodeId>,
    stage: Stage,
    /// The first of the survey's calls, and how many have not ended.
    first: usize,
    out: usize,
    survey: Option<Survey>,
    recovery: Option<Recovery>,
    /// Of a level 0 cluster: what is known of it here, in place of a record.
    zero: Option<ClusterRecord>,
    /// The life as it was ordered.
    life: Option<NewLife>,
    at: Option<OrderedAt>,
}

/// A level 0 cluster as a node knows it.
pub struct KnownZero {
    pub name: ClusterName,
    pub cluster: ClusterId,
    /// The latest life that the node has heard of.
    pub heard: Generation,
    pub members: Vec<ClusterMember>,
}

impl KnownZero {
    /// In place of the record that `reference` has of others.
    fn record(self) -> ClusterRecord {
        ClusterRecord {
            name: self.name,
            cluster: self.cluster,
            generation: self.heard,
            rule: String::new(),
            engine: String::new(),
            consistency: WriteConsistency::Strong,
            read_consistency: ReadConsistency::Strong,
            state: ClusterState::Active,
            members: self.members,
            members_at: (Term(0), LogIndex(0)),
            created_ms: 0,
            version: 0,
        }
    }
}

impl RecoverFlow {
    /// The same for a level 0 cluster, which `reference` knows nothing of, or is.
    pub fn of_level_zero(mut self, known: KnownZero) -> RecoverFlow {
        self.zero = Some(known.record());
        self
    }

    /// `confirm`: the cluster's name again, or nothing for a report. `seen`: the survivor that the operator was shown.
    /// `nodes`: all that may hold a replica, and whether they are up.
    pub fn new(
        name: ClusterName,
        confirm: Option<&str>,
        seen: Option<NodeId>,
        nodes: Vec<(NodeId, bool)>,
    ) -> Result<RecoverFlow, Refusal> {
        if let Some(said) = confirm.filter(|said| *said != name.as_str()) {
            let message = format!("the confirmation says '{said}' and the cluster is '{name}'; nothing was changed");
            return Err(Refusal::invalid("NotConfirmed", message));
        }
        let confirmed = confirm.is_some();
        let (survey, recovery, at) = (None, None, None);
        let up = nodes.iter().filter(|(_, up)| *up).map(|(node, _)| *node).collect();
        let nodes = nodes.into_iter().map(|(node, _)| node).collect();
        let (stage, first, out) = (Stage::Resolve, 0, 0);
        let (zero, life) = (None, None);
        Ok(RecoverFlow { name, confirmed, seen, nodes, up, stage, first, out, survey, recovery, zero, life, at })
    }

    fn on_record(&mut self, index: usize, result: CallResult) -> Step {
        match decode_call::<Reply>(result) {
            Ok((Reply::Resolved { record: Some(record), .. }, at)) => {
                if record.state != ClusterState::Active {
                    let message =
                        format!("cluster {} is {:?}; only one that served is recovered", record.name, record.state);
                    return Step::Done(Err(Refusal::new(ErrorKind::Conflict, "NotReady", message).into()));
                }
                self.at = Some(at);
                self.ask_all(record, index + 1)
            }
            Ok((Reply::Resolved { .. }, _)) => {
                let message =
                    format!("cluster '{}' does not exist; `hive ctl clusters` lists those that do", self.name);
                Step::Done(Err(Refusal::new(ErrorKind::NotFound, "UnknownCluster", message).into()))
            }
            Ok(_) => Step::Done(confused("recover")),
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    /// `first`: the index of the first of these calls.
    fn ask_all(&mut self, record: ClusterRecord, first: usize) -> Step {
        let members = record.members.iter().map(|member| member.node);
        let nodes: BTreeSet<NodeId> = self.nodes.iter().copied().chain(members).collect();
        self.nodes = nodes.into_iter().collect();
        let (cluster, heard) = (record.cluster, record.generation);
        self.survey =
            Some(Survey { record, survivors: Vec::new(), answered: BTreeSet::new(), up: self.up.clone(), heard });
        (self.stage, self.first, self.out) = (Stage::Survey, first, self.nodes.len());
        let ask = |node: &NodeId| Call::Replica { node: *node, order: ReplicaOrder::Survey { cluster } };
        Step::Calls(self.nodes.iter().map(ask).collect())
    }

    fn on_surveyed(&mut self, context: &PlanContext<'_>, index: usize, result: CallResult) -> Step {
        let node = index.checked_sub(self.first).and_then(|place| self.nodes.get(place).copied());
        let (Some(node), Some(survey)) = (node, self.survey.as_mut()) else { return Step::Done(confused("recover")) };
        self.out -= 1;
        if let Ok(CallReply::Surveyed(found)) = result {
            survey.answered.insert(node);
            survey.survivors.extend(found.map(|found| *found));
        }
        if self.out > 0 {
            return Step::Calls(Vec::new());
        }
        survey.survivors.sort_by_key(|one| one.node);
        if self.zero.is_some() {
            // Nothing but its replicas says in which life it is.
            let lives = survey.survivors.iter().map(|one| one.generation);
            survey.heard = survey.record.generation;
            survey.record.generation = lives.max().unwrap_or(Generation(1));
        }
        if !self.confirmed {
            let mut info = survey.info();
            if let Some(refusal) = survey.obstacle() {
                (info.survivor, info.findings) = (None, vec![refusal.message]);
            }
            return Step::Done(answer(ActionResult::Recovery(info), self.at));
        }
        let changed = || survey.changed_since(self.seen);
        if let Some(refusal) = survey.obstacle().or_else(changed) {
            return Step::Done(Err(refusal.into()));
        }
        let Some(recovery) = survey.recovery(context.node, context.unix_ms) else {
            return Step::Done(confused("recover"));
        };
        self.recovery = Some(recovery.clone());
        self.life = Some(match self.zero {
            Some(_) => NewLife {
                to: numbered_by_clock(recovery.ended.max(survey.heard), context.unix_ms),
                ..life_of(&recovery)
            },
            None => life_of(&recovery),
        });
        if self.zero.is_some() {
            return self.begin();
        }
        self.stage = Stage::Write;
        Step::Calls(vec![reference_write(&Command::Recover { recovery: Box::new(recovery) })])
    }

    fn begin(&mut self) -> Step {
        let (Some(recovery), Some(life)) = (&self.recovery, self.life) else { return Step::Done(confused("recover")) };
        self.stage = Stage::Begin;
        let order = ReplicaOrder::BeginLife(life);
        Step::Calls(vec![Call::Replica { node: recovery.survivor.node, order }])
    }

    /// The life of a level 0 cluster has begun; once it leads, or the world does, that is kept to be listed.
    fn note(&mut self) -> Step {
        let Some(recovery) = self.recovery.clone() else { return Step::Done(confused("recover")) };
        self.stage = Stage::Note;
        Step::Calls(vec![reference_write(&Command::NoteRecovery { recovery: Box::new(recovery) })])
    }

    /// The life has begun: what is of no use to anybody goes.
    fn on_begun(&mut self) -> Step {
        let (Some(survey), Some(recovery)) = (&self.survey, &self.recovery) else {
            return Step::Done(confused("recover"));
        };
        let Some(chosen) = survey.survivors.iter().find(|one| one.node == recovery.survivor.node) else {
            return Step::Done(confused("recover"));
        };
        let spent = |one: &&Survivor| {
            one.node != chosen.node && one.generation == recovery.ended && one.adds_nothing_to(chosen)
        };
        let spent = survey.survivors.iter().filter(spent).map(|one| (one.node, one.replica)).collect();
        self.clear(spent)
    }

    fn clear(&mut self, mut spent: Vec<(NodeId, ReplicaId)>) -> Step {
        let Some(recovery) = &self.recovery else { return Step::Done(confused("recover")) };
        let Some((node, replica)) = spent.last().copied() else {
            let findings = self.survey.as_ref().map(Survey::findings).unwrap_or_default();
            return Step::Done(answer(ActionResult::Recovery(info_of(recovery, findings)), self.at));
        };
        let order = destroys(recovery.cluster, recovery.ended, node, replica);
        self.stage = Stage::Clear(core::mem::take(&mut spent));
        Step::Calls(vec![order])
    }

    fn on_cleared(&mut self, mut spent: Vec<(NodeId, ReplicaId)>, result: CallResult) -> Step {
        let (Some(recovery), Some((node, _))) = (&self.recovery, spent.pop()) else {
            return Step::Done(confused("recover"));
        };
        if result.is_err() {
            // It stays until it is discarded.
            return self.clear(spent);
        }
        let call = settles(recovery, Some(node), false);
        self.stage = Stage::Cleared(node, spent);
        Step::Calls(vec![call])
    }
}

impl Planner for RecoverFlow {
    fn name(&self) -> &'static str {
        "recover"
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        if let Some(record) = self.zero.clone() {
            return self.ask_all(record, 0);
        }
        Step::Calls(vec![reference_query(&Query::Resolve { name: self.name.clone() })])
    }

    fn on_result(&mut self, context: &mut PlanContext<'_>, index: usize, result: CallResult) -> Step {
        match core::mem::replace(&mut self.stage, Stage::Begin) {
            Stage::Resolve => self.on_record(index, result),
            Stage::Survey => {
                self.stage = Stage::Survey;
                self.on_surveyed(context, index, result)
            }
            Stage::Write => match decode_call::<Reply>(result) {
                Ok((Reply::Record { .. }, at)) => {
                    self.at = Some(at);
                    self.begin()
                }
                Ok(_) => Step::Done(confused("recover")),
                Err(failure) => Step::Done(Err(failure)),
            },
            Stage::Begin => match result {
                Ok(_) if self.zero.is_some() => self.note(),
                Ok(_) => self.on_begun(),
                Err(failure) if failure.refusal.kind.retryable() => Step::Wait(AGAIN),
                Err(failure) => Step::Done(Err(failure)),
            },
            Stage::Note => match decode_call::<Reply>(result) {
                Ok((Reply::Recoveries { .. }, at)) => {
                    self.at = Some(at);
                    self.on_begun()
                }
                Ok(_) => Step::Done(confused("recover")),
                Err(failure) if failure.refusal.kind.retryable() || failure.refusal.kind == ErrorKind::Unknown => {
                    self.stage = Stage::Note;
                    Step::Wait(AGAIN)
                }
                Err(failure) => Step::Done(Err(failure)),
            },
            Stage::Clear(spent) => self.on_cleared(spent, result),
            Stage::Cleared(node, spent) => {
                if let (Ok(_), Some(recovery)) = (result, self.recovery.as_mut()) {
                    recovery.held.retain(|member| member.node != node);
                }
                self.clear(spent)
            }
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        match self.stage {
            Stage::Note => self.note(),
            _ => self.begin(),
        }
    }
}

/// Lists recoveries.
pub struct ListFlow {
    name: Option<ClusterName>,
}

impl ListFlow {
    /// Of one cluster, or of all.
    pub fn new(name: Option<ClusterName>) -> ListFlow {
        ListFlow { name }
    }
}

pub(super) fn lists(name: Option<ClusterName>) -> Call {
    reference_query(&Query::Recoveries { name, start_after: None, limit: RECOVERIES_AT_ONCE })
}

impl Planner for ListFlow {
    fn name(&self) -> &'static str {
        "recoveries"
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(vec![lists(self.name.clone())])
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        Step::Done(match decode_call::<Reply>(result) {
            Ok((Reply::Recoveries { recoveries, .. }, at)) => {
                let recoveries = recoveries.iter().map(|recovery| info_of(recovery, Vec::new())).collect();
                answer(ActionResult::Recoveries { recoveries }, Some(at))
            }
            Ok(_) => confused("recoveries"),
            Err(failure) => Err(failure),
        })
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(Vec::new())
    }
}

enum Discard {
    List,
    /// Does the new life serve? Until it does, what is kept may be all there is. The record may be missing of a level 0
    /// cluster: its flow died before that was written.
    Describe(Option<Recovery>),
    /// What is there? A level 0 cluster may have had lives that no record is of.
    Look(ClusterId, Generation, Option<Recovery>),
    Destroy(Option<Recovery>),
    Settle,
}

/// Removes what an ended life left on a node.
pub struct DiscardFlow {
    name: ClusterName,
    node: NodeId,
    /// It is in the node map, and up.
    up: Option<bool>,
    stage: Discard,
}

impl DiscardFlow {
    /// `record`: what the node map has of the node.
    pub fn new(name: ClusterName, node: NodeId, record: Option<&NodeRecord>) -> DiscardFlow {
        DiscardFlow { name, node, up: record.map(|record| record.up), stage: Discard::List }
    }

    fn on_list(&mut self, recoveries: Vec<Recovery>) -> Step {
        let kept = |recovery: &Recovery| recovery.held.iter().any(|member| member.node == self.node);
        let recovery = recoveries.into_iter().find(kept);
        if recovery.is_none() && !self.name.is_level_zero() {
            return self.nothing();
        }
        self.stage = Discard::Describe(recovery);
        Step::Calls(vec![Call::Admin { cluster: self.name.clone(), command: AdminCommand::Describe }])
    }

    fn nothing(&self) -> Step {
        let message = format!(
            "node {} keeps nothing of an ended life of cluster {}; `hive ctl recover` lists what is kept",
            self.node, self.name
        );
        Step::Done(Err(Refusal::new(ErrorKind::NotFound, "NothingKept", message).into()))
    }

    fn on_described(&mut self, recovery: Option<Recovery>, result: CallResult) -> Step {
        let begun = recovery.as_ref().map_or(Generation(0), Recovery::begun);
        let described = match result {
            Ok(CallReply::Described(described)) if described.generation >= begun => described,
            result => {
                let why = result.err().map_or("it has no leader yet".to_string(), |failure| failure.refusal.message);
                return self.too_soon(&why);
            }
        };
        match (self.up, recovery) {
            (Some(true), recovery) if self.name.is_level_zero() => {
                self.stage = Discard::Look(described.cluster, described.generation, recovery);
                let order = ReplicaOrder::Survey { cluster: described.cluster };
                Step::Calls(vec![Call::Replica { node: self.node, order }])
            }
            (Some(true), Some(recovery)) => {
                let order = destroys(recovery.cluster, recovery.ended, self.node, ReplicaId(0));
                self.stage = Discard::Destroy(Some(recovery));
                Step::Calls(vec![order])
            }
            // It was removed from the world: whatever it held never comes back as a member.
            (None, recovery) => self.settle(recovery),
            (Some(false), Some(_)) => {
                let message = format!(
                    "node {0} is down and may come back with what it keeps: start it, or remove it for good with `hive ctl forget {0}`",
                    self.node
                );
                Step::Done(Err(Refusal::new(ErrorKind::Conflict, "NodeDown", message).into()))
            }
            (Some(_), None) => self.nothing(),
        }
    }

    fn too_soon(&self, why: &str) -> Step {
        let message = format!(
            "the new life of cluster {} does not serve, so what node {} keeps may be all there is: {why}; retry when `hive ctl cluster show {}` shows a leader",
            self.name, self.node, self.name
        );
        Step::Done(Err(Refusal::new(ErrorKind::Conflict, "NewLifeSilent", message).into()))
    }

    /// What is there has ended, and the life that serves is a later one.
    fn on_look(&mut self, at: (ClusterId, Generation), recovery: Option<Recovery>, result: CallResult) -> Step {
        let (cluster, serves) = at;
        match result {
            Ok(CallReply::Surveyed(Some(one))) if one.state == SurvivorState::Ended && one.generation < serves => {
                self.stage = Discard::Destroy(recovery);
                Step::Calls(vec![destroys(cluster, one.generation, self.node, one.replica)])
            }
            Ok(_) => self.settle(recovery),
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    fn settle(&mut self, recovery: Option<Recovery>) -> Step {
        let Some(recovery) = recovery else { return self.nothing() };
        self.stage = Discard::Settle;
        Step::Calls(vec![settles(&recovery, Some(self.node), false)])
    }
}

impl Planner for DiscardFlow {
    fn name(&self) -> &'static str {
        "discard"
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(vec![lists(Some(self.name.clone()))])
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        match core::mem::replace(&mut self.stage, Discard::List) {
            Discard::Describe(recovery) => self.on_described(recovery, result),
            Discard::Look(cluster, serves, recovery) => self.on_look((cluster, serves), recovery, result),
            Discard::Destroy(recovery) => match (result, recovery) {
                (Err(failure), _) => Step::Done(Err(failure)),
                (Ok(_), None) => Step::Done(answer(ActionResult::Recoveries { recoveries: Vec::new() }, None)),
                (Ok(_), recovery) => self.settle(recovery),
            },
            stage => match decode_call::<Reply>(result) {
                Ok((Reply::Recoveries { recoveries, .. }, at)) => match stage {
                    Discard::List => self.on_list(recoveries),
                    _ => {
                        let recoveries = recoveries.iter().map(|recovery| info_of(recovery, Vec::new())).collect();
                        Step::Done(answer(ActionResult::Recoveries { recoveries }, Some(at)))
                    }
                },
                Ok(_) => Step::Done(confused("discard")),
                Err(failure) => Step::Done(Err(failure)),
            },
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(Vec::new())
    }
}

enum Sweep {
    List,
    Describe,
    Begin,
    Add,
    Settle,
}

/// Gives recovered clusters members again. Its answer lists those that are still open, each with what it waits for.
pub struct SweepFlow {
    nodes: Vec<NodeRecord>,
    /// Where data of an ended life is kept, of which cluster.
    held: BTreeSet<(ClusterName, NodeId)>,
    left: Vec<Recovery>,
    waits: Vec<RecoveryInfo>,
    stage: Sweep,
}

impl SweepFlow {
    /// `nodes`: the node map.
    pub fn new(nodes: Vec<NodeRecord>) -> SweepFlow {
        let (held, left, waits) = (BTreeSet::new(), Vec::new(), Vec::new());
        SweepFlow { nodes, held, left, waits, stage: Sweep::List }
    }

    fn next(&mut self) -> Step {
        let Some(recovery) = self.left.last() else {
            let recoveries = core::mem::take(&mut self.waits);
            return Step::Done(answer(ActionResult::Recoveries { recoveries }, None));
        };
        self.stage = Sweep::Describe;
        Step::Calls(vec![Call::Admin { cluster: recovery.name.clone(), command: AdminCommand::Describe }])
    }

    /// Nothing more can be done for this one now.
    fn waits_for(&mut self, why: String) -> Step {
        if let Some(recovery) = self.left.pop() {
            self.waits.push(info_of(&recovery, vec![why]));
        }
        self.next()
    }

    fn on_described(&mut self, described: &ClusterDescription) -> Step {
        let Some(recovery) = self.left.last() else { return Step::Done(confused("sweep of recoveries")) };
        if described.generation < recovery.begun() && !described.name.is_level_zero() {
            return self.begin();
        }
        let members: Vec<Member> = described.members.iter().map(|(member, _)| *member).collect();
        let Ok(rule) = described.rule.parse::<Rule>() else {
            return self.waits_for(format!("the rule of cluster {} cannot be read", described.name));
        };
        let voters = members.iter().filter(|member| !member.learner).count();
        if described.name.is_level_zero() && voters < rule.size {
            return self.waits_for(format!(
                "cluster {} was recovered and has {voters} of {} members: add some with `hive ctl {} members add NODE`",
                described.name,
                rule.size,
                words_for(&described.name)
            ));
        }
        if voters >= rule.size || described.generation > recovery.begun() {
            self.stage = Sweep::Settle;
            return Step::Calls(vec![settles(recovery, None, true)]);
        }
        match members.iter().find(|member| member.learner) {
            Some(joining) => self.add(joining.node, joining.disk),
            None => self.elect(&rule, voters, &members),
        }
    }

    fn begin(&mut self) -> Step {
        let Some(recovery) = self.left.last() else { return Step::Done(confused("sweep of recoveries")) };
        self.stage = Sweep::Begin;
        Step::Calls(vec![begins(recovery)])
    }

    fn add(&mut self, node: NodeId, disk: base_types::DiskId) -> Step {
        let Some(recovery) = self.left.last() else { return Step::Done(confused("sweep of recoveries")) };
        self.stage = Sweep::Add;
        let command = AdminCommand::AddMember { node, disk };
        Step::Calls(vec![Call::Admin { cluster: recovery.name.clone(), command }])
    }

    fn elect(&mut self, rule: &Rule, voters: usize, members: &[Member]) -> Step {
        let Some(recovery) = self.left.last() else { return Step::Done(confused("sweep of recoveries")) };
        let name = recovery.name.clone();
        let nodes: Vec<NodeId> = members.iter().map(|member| member.node).collect();
        let keeps = |record: &&NodeRecord| !self.held.contains(&(name.clone(), record.node));
        let free = self.nodes.iter().filter(keeps);
        match elect_replacement(rule, &nodes, NodeId(0), free, 0) {
            Ok(node) => match self.nodes.iter().find(|record| record.node == node).map(|record| record.disk) {
                Some(disk) => self.add(node, disk),
                None => Step::Done(Err(failures::unknown_node(node))),
            },
            Err(refusal) => {
                let held: Vec<NodeId> = self.held.iter().filter(|(of, _)| *of == name).map(|(_, node)| *node).collect();
                let kept = match held.is_empty() {
                    true => String::new(),
                    false => format!(
                        "; {} would do but for the data of an ended life: look at it, then run `hive ctl recover {name} --discard NODE`",
                        named(&held)
                    ),
                };
                let size = rule.size;
                self.waits_for(format!(
                    "cluster {name} was recovered and has {voters} of {size} members: {refusal}{kept}"
                ))
            }
        }
    }
}

impl Planner for SweepFlow {
    fn name(&self) -> &'static str {
        "sweep of recoveries"
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(vec![lists(None)])
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        match (&self.stage, result) {
            (Sweep::List, result) => match decode_call::<Reply>(result) {
                Ok((Reply::Recoveries { recoveries, .. }, _)) => {
                    let held = |one: &Recovery| {
                        one.held.iter().map(|member| (one.name.clone(), member.node)).collect::<Vec<_>>()
                    };
                    self.held = recoveries.iter().flat_map(held).collect();
                    self.left = recoveries.into_iter().filter(|recovery| recovery.open).collect();
                    self.next()
                }
                Ok(_) => Step::Done(confused("sweep of recoveries")),
                Err(failure) => Step::Done(Err(failure)),
            },
            (Sweep::Describe, Ok(CallReply::Described(described))) => self.on_described(&described),
            // Nobody leads: perhaps the survivor was never ordered.
            (Sweep::Describe, Err(failure)) => match self.left.last() {
                Some(recovery) if recovery.name.is_level_zero() => {
                    let why = format!(
                        "cluster {} was recovered, and does not answer: {}",
                        recovery.name, failure.refusal.message
                    );
                    self.waits_for(why)
                }
                _ => self.begin(),
            },
            (Sweep::Begin, Ok(_)) => {
                self.left.pop();
                self.next()
            }
            (Sweep::Begin | Sweep::Add, Err(failure)) => {
                let (name, message) = (self.left.last().map(|one| one.name.to_string()), failure.refusal.message);
                let begins = matches!(self.stage, Sweep::Begin);
                let what = if begins { "its new life cannot begin on its survivor" } else { "no member joins yet" };
                self.waits_for(format!("cluster {} was recovered, and {what}: {message}", name.unwrap_or_default()))
            }
            (Sweep::Add, Ok(_)) => self.next(),
            (Sweep::Settle, Ok(_)) => {
                self.left.pop();
                self.next()
            }
            (Sweep::Settle, Err(failure)) => Step::Done(Err(failure)),
            (Sweep::Describe, Ok(_)) => Step::Done(confused("sweep of recoveries")),
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        self.next()
    }
}

/// How a command line names a level 0 cluster.
fn words_for(name: &ClusterName) -> String {
    match name.tail().strip_prefix("region-") {
        Some(region) => format!("region {region}"),
        None => "world".into(),
    }
}

/// When a sweep must be done.
pub fn sweep_deadline(now: Tick) -> Tick {
    now + Duration::from_secs(60)
}

//! A cluster whose majority is gone for good: what its survivors hold, a new life on the best of them, and members again.
//!
//! ```text
//!   RecoverFlow   Resolve ─▶ Survey (every node) ─▶ report ─confirmed─▶ Recover (reference) ─▶ BeginLife (survivor)
//!                                                              ─▶ survivors that hold nothing more: Destroy, settled
//!                 of a level 0 cluster: Survey ─▶ report ─confirmed─▶ BeginLife ─▶ NoteRecovery (decision 0045)
//!   SweepFlow (sweep.rs), DiscardFlow (discard.rs)
//! ```
//!
//! Always: nothing is changed without the cluster's name as confirmation; the life that begins is decided by `reference`
//! alone, before the survivor hears of it (of a level 0 cluster by the operator, and numbered by the clock); each step may
//! be repeated; data of an ended life that holds anything the new one lacks is removed by an operator's word only.
//! Not here: which survivor is best (base-types, survivor.rs), its replica (core-cluster, lane/recovery.rs).

use super::confused;
use base_types::action::{ActionResult, Answer, RecoveryInfo, RecoveryState, Response};
use base_types::{
    best_survivor,
    mutant::{planted, Mutant},
    ClusterId, ClusterName, ErrorCode, ErrorKind, FormerMember, Generation, LogIndex, NodeId, OrderedAt,
    ReadConsistency, Refusal, ReplicaId, Survivor, SurvivorState, Term, Tick, WriteConsistency,
};
use core::time::Duration;
use core_backends::reference::{ClusterMember, ClusterRecord, ClusterState, Command, Query, Recovery, Reply};
use core_cluster::api::{AdminCommand, ClusterDescription, Member, NewLife};
use core_flow::{
    decode_call, failures, reference_query, reference_write, Call, CallReply, CallResult, PlanContext, Planner,
    ReplicaOrder, Step,
};
use core_placement::{elect_replacement, NodeRecord, Rule};
use std::collections::BTreeSet;

mod discard;
mod survey;
mod sweep;

pub use discard::DiscardFlow;
use survey::Survey;
pub use sweep::{sweep_deadline, SweepFlow};

/// The pause before the survivor is ordered again.
const AGAIN: Duration = Duration::from_millis(500);
/// Recoveries listed or swept at a time.
const RECOVERIES_AT_ONCE: u32 = 256;

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
            let message = format!("the confirmation says '{said}' and the cluster is '{name}'; nothing was changed: write its name exactly");
            return Err(Refusal::new(ErrorCode::NotConfirmed, message));
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
                    return Step::Done(Err(Refusal::new(ErrorCode::NotInState, message).into()));
                }
                self.at = Some(at);
                self.ask_all(record, index + 1)
            }
            Ok((Reply::Resolved { .. }, _)) => {
                let message =
                    format!("cluster '{}' does not exist; `hive ctl clusters` lists those that do", self.name);
                Step::Done(Err(Refusal::new(ErrorCode::UnknownCluster, message).into()))
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
            // Logs are compared within one life only.
            let same_life = one.generation == recovery.ended && chosen.generation == recovery.ended;
            one.node != chosen.node && same_life && one.adds_nothing_to(chosen)
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

    fn subject(&self) -> Option<String> {
        self.confirmed.then(|| format!("cluster {}", self.name))
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
                Err(failure) if failure.refusal.kind().retryable() => Step::Wait(AGAIN),
                Err(failure) => Step::Done(Err(failure)),
            },
            Stage::Note => match decode_call::<Reply>(result) {
                Ok((Reply::Recoveries { .. }, at)) => {
                    self.at = Some(at);
                    self.on_begun()
                }
                Ok(_) => Step::Done(confused("recover")),
                Err(failure) if failure.refusal.kind().retryable() || failure.refusal.kind() == ErrorKind::Unknown => {
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

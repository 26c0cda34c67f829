//! Makes a cluster (Hive paper, 2.4).
//!
//!   Elect (allocator) ─▶ Create (reference: id, generation, state Creating) ─▶ a replica on each member
//!        ─▶ majority durable (and all, or a short wait) ─▶ SetState Active ─▶ done
//!
//! Always: a name and its generation are given once; a crash at any point leaves a record `Creating`,
//! from which `resume` continues. Where no majority can be had, the record is put to `Deleting`. `ClusterExists`
//! is said of a cluster that serves only: one that is still being made may be given up, one that is being
//! removed will be gone, and neither is what the caller asked for.
//! Not here: healing a member that missed its order (replica_repair.rs).

use super::{cluster_answer, confused};
use base_types::action::Failure;
use base_types::codec::Encode;
use base_types::{BackendKind, ClusterName, ErrorCode, ReadConsistency, Refusal, ReplicaId, Tick};
use core::time::Duration;
use core_backends::{allocator, reference};
use core_cluster::api::ReplicaSpec;
use core_flow::{
    decode_call, failures, members_of, reference_query, reference_write, Call, CallResult, PlanContext, Planner,
    ReplicaOrder, Step,
};
use core_placement::{NodeRecord, Rule};
use reference::{ClusterMember, ClusterRecord, ClusterState};

/// How long the last members may take once a majority has its replica.
const STRAGGLERS_WAIT: Duration = Duration::from_millis(300);
/// Rounds of orders before a cluster that cannot get a majority is given up.
const ROUNDS_MAX: u32 = 3;

/// Where the flow is.
enum Stage {
    Elect,
    Create,
    /// The name is taken: how far is that cluster?
    Look(Failure),
    Order {
        first: usize,
        acknowledged: usize,
        answered: usize,
        majority_at: Option<Tick>,
    },
    Activate,
    GiveUp(Failure),
}

/// See the file's header.
pub struct CreateFlow {
    name: ClusterName,
    rule: String,
    default_engine: String,
    parsed: Rule,
    record: Option<ClusterRecord>,
    stage: Stage,
    asked: usize,
    rounds: u32,
}

impl CreateFlow {
    /// A new cluster.
    pub fn new(name: ClusterName, rule: String, default_engine: String) -> CreateFlow {
        CreateFlow {
            name,
            rule,
            default_engine,
            parsed: Rule::default(),
            record: None,
            stage: Stage::Elect,
            asked: 0,
            rounds: 0,
        }
    }

    /// Continues with a record that is `Creating`.
    pub fn resume(record: ClusterRecord) -> CreateFlow {
        let mut flow = CreateFlow::new(record.name.clone(), record.rule.clone(), record.engine.clone());
        flow.record = Some(record);
        flow
    }

    fn ask(&mut self, calls: Vec<Call>) -> Step {
        self.asked += calls.len();
        Step::Calls(calls)
    }

    fn elect(&mut self, context: &mut PlanContext<'_>) -> Step {
        self.parsed = match self.rule.parse() {
            Ok(rule) => rule,
            Err(error) => {
                let error: core_placement::RuleError = error;
                return Step::Done(Err(Refusal::new(ErrorCode::InvalidRule, error.to_string()).into()));
            }
        };
        // Spread only among equal scores: clusters made at the same time should not all meet on the same nodes.
        let query =
            allocator::Query::Elect { rule: self.rule.clone(), exclude: Vec::new(), spread: context.random.next() };
        self.ask(vec![Call::Read {
            cluster: ClusterName::world(),
            backend: BackendKind::Allocator,
            query: query.to_bytes(),
            consistency: Some(ReadConsistency::Strong),
        }])
    }

    fn create(&mut self, nodes: &[NodeRecord]) -> Step {
        let member = |(at, node): (usize, &NodeRecord)| ClusterMember {
            replica: ReplicaId(at as u64 + 1),
            node: node.node,
            disk: node.disk,
            learner: false,
        };
        self.stage = Stage::Create;
        let command = reference::Command::Create {
            name: self.name.clone(),
            rule: self.rule.clone(),
            engine: self.parsed.engine.clone().unwrap_or_else(|| self.default_engine.clone()),
            consistency: self.parsed.consistency,
            read_consistency: self.parsed.read_consistency,
            members: nodes.iter().enumerate().map(member).collect(),
        };
        self.ask(vec![reference_write(&command)])
    }

    fn look(&mut self, taken: Failure) -> Step {
        self.stage = Stage::Look(taken);
        self.ask(vec![reference_query(&reference::Query::Resolve { name: self.name.clone() })])
    }

    /// Orders every member to make its replica.
    fn order(&mut self) -> Step {
        let Some(record) = self.record.clone() else { return Step::Done(confused("create cluster")) };
        self.rounds += 1;
        self.stage = Stage::Order { first: self.asked, acknowledged: 0, answered: 0, majority_at: None };
        let calls = record.members.iter().map(|member| first_order(&record, member)).collect();
        self.ask(calls)
    }

    fn on_ordered(&mut self, now: Tick, index: usize, result: CallResult) -> Step {
        let total = self.record.as_ref().map_or(0, |record| record.members.len());
        let majority = total / 2 + 1;
        let Stage::Order { first, acknowledged, answered, majority_at } = &mut self.stage else {
            return Step::Calls(Vec::new());
        };
        if index < *first {
            return Step::Calls(Vec::new());
        }
        *answered += 1;
        *acknowledged += usize::from(result.is_ok());
        if *acknowledged == total || (*acknowledged >= majority && *answered == total) {
            return self.activate();
        }
        if *acknowledged >= majority && majority_at.is_none() {
            *majority_at = Some(now);
            return Step::Wait(STRAGGLERS_WAIT);
        }
        if *answered < total {
            return Step::Calls(Vec::new());
        }
        let failure = result.err().unwrap_or_else(|| {
            Refusal::new(
                ErrorCode::NotReady,
                format!("only {acknowledged} of {total} members of {} made their replica", self.name),
            )
            .into()
        });
        if self.rounds < ROUNDS_MAX {
            return self.order();
        }
        self.give_up(failure)
    }

    fn activate(&mut self) -> Step {
        let Some(record) = &self.record else { return Step::Done(confused("create cluster")) };
        let command = reference::Command::SetState {
            name: record.name.clone(),
            generation: record.generation,
            state: ClusterState::Active,
        };
        self.stage = Stage::Activate;
        self.ask(vec![reference_write(&command)])
    }

    /// No majority: the record is put to `Deleting`, and the flow_recovery removes what was made. Not by `Delete`, which
    /// would also end a cluster that another runner of this creation has brought to serve meanwhile (seed 1175).
    fn give_up(&mut self, failure: Failure) -> Step {
        let Some(record) = &self.record else { return Step::Done(Err(failure)) };
        let command = reference::Command::SetState {
            name: record.name.clone(),
            generation: record.generation,
            state: ClusterState::Deleting,
        };
        let refusal = Refusal::new(
            ErrorCode::NotReady,
            format!("cluster {} was not made: {}", self.name, failure.refusal.message),
        );
        self.stage = Stage::GiveUp(refusal.into());
        self.ask(vec![reference_write(&command)])
    }
}

/// The order to a first member to make its replica.
pub(super) fn first_order(record: &ClusterRecord, member: &ClusterMember) -> Call {
    let spec = ReplicaSpec {
        cluster: record.cluster,
        generation: record.generation,
        name: record.name.clone(),
        rule: record.rule.as_str().into(),
        engine: record.engine.as_str().into(),
        consistency: record.consistency,
        read_consistency: record.read_consistency,
        replica: member.replica,
        initial_members: members_of(record).into(),
    };
    Call::Replica { node: member.node, order: ReplicaOrder::Create { spec: Box::new(spec), disk: member.disk } }
}

/// `taken` where the cluster of that name serves; else what is to be awaited.
fn why_taken(name: &ClusterName, taken: Failure, result: CallResult) -> Failure {
    let what = match decode_call::<reference::Reply>(result) {
        Ok((reference::Reply::Resolved { record, .. }, _)) => match record.map(|record| record.state) {
            Some(ClusterState::Active) => return taken,
            Some(ClusterState::Creating) => "is being made by somebody else",
            Some(ClusterState::Deleting) => "is still being deleted",
            None => "was deleted just now",
        },
        Ok(_) => return failures::internal("create cluster: a backend gave a reply of another kind; report it"),
        Err(failure) => return failure,
    };
    Refusal::new(ErrorCode::NotReady, format!("cluster {name} {what}; retry in a moment")).into()
}

impl Planner for CreateFlow {
    fn name(&self) -> &'static str {
        "create-cluster"
    }

    fn subject(&self) -> Option<String> {
        Some(format!("cluster {}", self.name))
    }

    fn start(&mut self, context: &mut PlanContext<'_>) -> Step {
        if self.record.is_some() {
            return self.order();
        }
        self.elect(context)
    }

    fn on_result(&mut self, context: &mut PlanContext<'_>, index: usize, result: CallResult) -> Step {
        match &self.stage {
            Stage::Elect => match decode_call::<allocator::Reply>(result) {
                Ok((allocator::Reply::Elected { nodes }, _)) => self.create(&nodes),
                Ok(_) => Step::Done(confused("create cluster")),
                Err(failure) => Step::Done(Err(failure)),
            },
            Stage::Create => match decode_call::<reference::Reply>(result) {
                Ok((reference::Reply::Record { record }, _)) => {
                    self.record = Some(record);
                    self.order()
                }
                Ok(_) => Step::Done(confused("create cluster")),
                Err(failure) if failure.refusal.code == ErrorCode::ClusterExists => self.look(failure),
                Err(failure) => Step::Done(Err(failure)),
            },
            Stage::Look(taken) => Step::Done(Err(why_taken(&self.name, taken.clone(), result))),
            Stage::Order { .. } => self.on_ordered(context.now, index, result),
            Stage::Activate if index + 1 < self.asked => Step::Calls(Vec::new()),
            Stage::Activate => match (decode_call::<reference::Reply>(result), &self.record) {
                (Ok((_, at)), Some(record)) => Step::Done(cluster_answer(record, Some(at))),
                (Err(failure), _) => Step::Done(Err(failure)),
                (Ok(_), None) => Step::Done(confused("create cluster")),
            },
            Stage::GiveUp(_) if index + 1 < self.asked => Step::Calls(Vec::new()),
            Stage::GiveUp(failure) => Step::Done(Err(failure.clone())),
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        match self.stage {
            Stage::Order { majority_at: Some(_), .. } => self.activate(),
            _ => Step::Calls(Vec::new()),
        }
    }
}

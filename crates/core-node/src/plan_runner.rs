//! Runs planners: carries out their calls, hands them the results, ends them at their deadline.
//!
//! Always: a plan is never entered while it runs (results wait in a queue); at most `PLANS_MAX` plans
//! and `CALLS_OUT_MAX` calls of each; a call ends within `CALL_TIMEOUT` or the plan's deadline.
//! Held by: `planted_bugs_of_plans_break_an_invariant`.
//! Not here: what plans do (keyspace, flows), what else always holds (`plan_runner/invariants.rs`).

mod invariants;

use crate::api::{Change, Effect, Spent};
use crate::context::access::Granted;
use crate::context::{CoreContext, Turn};
use crate::flows::config::is_config_cluster;
use crate::flows::copy::DocumentCopy;
use crate::flows::create::CreateFlow;
use crate::flows::delete::DeleteFlow;
use crate::frame::Item;
use crate::routing::operation::{Asked, Operation, Owner};
use crate::routing::Routing;
use crate::timers::TimerKey;
use base_types::action::{Failure, Response};
use base_types::invariant::THOROUGH;
use base_types::mutant::{planted, Mutant};
use base_types::sizes::Sizes;
use base_types::{ClusterId, ClusterName, ErrorCode, ErrorKind, NodeId, Refusal, Survivor, Tick, Ticket};
use core::time::Duration;
use core_access::{AccessPlanner, AccessState};
use core_cluster::api::LocalKind;
use core_flow::{failures, Call, CallReply, CallResult, PlanContext, Planner, ReplicaOrder, Step, CALLS_OUT_MAX};
use core_keyspace::{DocumentNews, KeyspaceNews, KeyspacePlanner};
use core_s3::{S3Planner, S3State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The most plans under way.
pub const PLANS_MAX: usize = 4_096;
/// Orders to make or destroy a replica: one for each call of a plan at most, few plans order any.
pub const ORDERS_MAX: usize = PLANS_MAX * 16;
/// The longest one call of a plan may take.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a node is ordered again what to do with a replica.
const ORDER_RETRY: Duration = Duration::from_millis(400);
/// The longest a node is ordered so.
const ORDER_TIMEOUT: Duration = Duration::from_secs(3);
/// The most plans that take back what others left, and the longest each may take: they must not crowd out clients.
const TAKING_BACK_MAX: usize = 256;
const TAKING_BACK_TIMEOUT: Duration = CALL_TIMEOUT;
/// Results handed to plans in one turn; the rest wait for the next.
pub const RESULTS_PER_TURN_MAX: usize = 10_000;

/// A planner of any family; each is entered with its own family's state.
pub enum AnyPlanner {
    Clusters(Box<dyn Planner>),
    Keyspaces(Box<KeyspacePlanner>),
    Buckets(Box<S3Planner>),
    Access(Box<AccessPlanner>),
}

impl AnyPlanner {
    /// Of a flow on clusters.
    pub fn flow(flow: impl Planner + 'static) -> AnyPlanner {
        AnyPlanner::Clusters(Box::new(flow))
    }

    fn name(&self) -> &'static str {
        match self {
            AnyPlanner::Clusters(planner) => planner.name(),
            AnyPlanner::Keyspaces(planner) => planner.name(),
            AnyPlanner::Buckets(planner) => planner.name(),
            AnyPlanner::Access(planner) => planner.name(),
        }
    }

    fn subject(&self) -> Option<String> {
        match self {
            AnyPlanner::Clusters(planner) => planner.subject(),
            AnyPlanner::Keyspaces(planner) => planner.subject(),
            AnyPlanner::Buckets(planner) => planner.subject(),
            AnyPlanner::Access(planner) => planner.subject(),
        }
    }

    /// What takes back what it leaves.
    fn cleanup(&mut self) -> Option<AnyPlanner> {
        match self {
            AnyPlanner::Clusters(planner) => planner.cleanup().map(AnyPlanner::Clusters),
            AnyPlanner::Keyspaces(planner) => planner.cleanup().map(AnyPlanner::Keyspaces),
            AnyPlanner::Buckets(planner) => planner.cleanup().map(AnyPlanner::Buckets),
            AnyPlanner::Access(planner) => planner.cleanup().map(AnyPlanner::Access),
        }
    }
}

impl From<Box<KeyspacePlanner>> for AnyPlanner {
    fn from(planner: Box<KeyspacePlanner>) -> AnyPlanner {
        AnyPlanner::Keyspaces(planner)
    }
}

impl From<Box<AccessPlanner>> for AnyPlanner {
    fn from(planner: Box<AccessPlanner>) -> AnyPlanner {
        AnyPlanner::Access(planner)
    }
}

impl From<Box<S3Planner>> for AnyPlanner {
    fn from(planner: Box<S3Planner>) -> AnyPlanner {
        AnyPlanner::Buckets(planner)
    }
}

/// Why a planner is entered.
enum Entry {
    Start,
    Result(usize, CallResult),
    Wake,
}

impl Entry {
    fn enter<S>(self, planner: &mut dyn Planner<S>, mut context: PlanContext<'_, S>) -> Step {
        match self {
            Entry::Start => planner.start(&mut context),
            Entry::Result(index, result) => planner.on_result(&mut context, index, result),
            Entry::Wake => planner.on_wake(&mut context),
        }
    }
}

/// Who learns how a plan ended.
#[derive(Clone, PartialEq, Debug)]
pub enum PlanOwner {
    Client(Option<Ticket>),
    Plan {
        plan: u64,
        index: usize,
    },
    /// Nobody; a failure is noted.
    Background,
    /// Nobody, not even then.
    Silent,
    /// The keeper of members that must move, for this cluster.
    Move(ClusterId),
    /// The configuration cluster's keeper.
    Config,
    /// The sweep over keyspaces that were left unfinished.
    KeyspaceSweep,
    /// The sweep over recovered clusters that lack members.
    RecoverySweep,
    /// The scheduler of buckets looks at this cluster.
    S3Look(ClusterId),
    /// The scheduler of buckets runs this flow.
    S3Flow {
        bucket: u128,
        flow: u64,
    },
    /// The scheduler of buckets removes this one's retired shards.
    S3Tidy(u128),
    /// Nobody: it takes back what another plan left.
    TakingBack,
    /// The keeper of this node's copy of the directory of users.
    DirectorySync,
}

/// A plan under way.
pub struct Plan {
    /// Out while it runs.
    planner: Option<AnyPlanner>,
    owner: PlanOwner,
    deadline: Tick,
    next_index: usize,
    out: BTreeSet<usize>,
    /// Of those, the calls that change something.
    changing: BTreeSet<usize>,
    /// A call has changed something, or may have.
    changed: bool,
    wake: Tick,
    timer: Tick,
    /// It changes nothing: when the deadline ends it, nothing was done.
    read_only: bool,
    /// The action to follow up once it was answered well.
    follow_up: Option<AnyPlanner>,
    /// For whom it is done; `None`: for this node itself.
    granted: Option<Granted>,
    begun: Tick,
    /// Of those that operators read of: what it is done to, and since when.
    told: Option<(String, Tick)>,
}

impl Plan {
    /// What a client reads. "Not now" of a late step is not "nothing was done" where an earlier step was: the outcome is
    /// unknown. What a plan refuses for good it has decided itself, whatever it has written before.
    fn outcome_of(&self, response: Response) -> Response {
        let not_now = |refusal: &Refusal| {
            matches!(refusal.kind(), ErrorKind::Unavailable | ErrorKind::Overloaded)
                || refusal.code == ErrorCode::DiskFull
        };
        match response {
            Err(failure)
                if self.changed
                    && matches!(self.owner, PlanOwner::Client(_))
                    && not_now(&failure.refusal)
                    && !planted(Mutant::LateStepAsRefused) =>
            {
                let message = format!(
                    "a step of the work was refused after others were done ({}); retry with the same request_id, or look what is there",
                    failure.refusal
                );
                Err(Failure { refusal: Refusal::new(ErrorCode::OutcomeUnknown, message), ..failure })
            }
            response => response,
        }
    }
}

/// What to know of a client's plan when it ends.
#[derive(Default)]
pub struct AfterPlan {
    pub read_only: bool,
    pub follow_up: Option<AnyPlanner>,
}

/// A replica order under way.
#[derive(Clone, PartialEq, Debug)]
pub struct Order {
    plan: u64,
    index: usize,
    node: NodeId,
    order: ReplicaOrder,
    deadline: Tick,
    timer: Tick,
}

/// A plan ended whose owner is another part.
pub struct PlanEnded {
    pub owner: PlanOwner,
    pub response: Response,
    /// What takes back what it left: it begins after its owner has the response.
    left: Option<AnyPlanner>,
}

/// The plans of a core, and what they stand on: the router, and what S3's plans remember.
pub struct PlanRunner {
    routing: Routing,
    s3: S3State,
    access: AccessState,
    list: BTreeMap<u64, Plan>,
    orders: BTreeMap<u64, Order>,
    /// Results that wait to be handed to their plans, so that no plan is entered while it runs.
    results: VecDeque<(u64, usize, CallResult)>,
    ended: VecDeque<PlanEnded>,
    /// Documents that the sweep over keyspaces has seen so far.
    swept: Vec<DocumentNews>,
    turns: u64,
}

impl PlanRunner {
    /// As it is at start.
    pub fn new(s3: S3State) -> PlanRunner {
        PlanRunner {
            routing: Routing::default(),
            s3,
            access: AccessState::default(),
            list: BTreeMap::new(),
            orders: BTreeMap::new(),
            results: VecDeque::new(),
            ended: VecDeque::new(),
            swept: Vec::new(),
            turns: 0,
        }
    }

    /// The router.
    pub fn routing(&self) -> &Routing {
        &self.routing
    }

    /// The router, for operations that belong to no plan.
    pub fn routing_mut(&mut self) -> &mut Routing {
        &mut self.routing
    }

    /// What S3's plans remember.
    pub fn s3(&self) -> &S3State {
        &self.s3
    }

    /// The same, to take from it what they found.
    pub fn s3_mut(&mut self) -> &mut S3State {
        &mut self.s3
    }

    /// What plans on users may know and use.
    pub fn access_mut(&mut self) -> &mut AccessState {
        &mut self.access
    }

    /// Whether a plan on users waits for a newer copy of their directory. Asked once for each.
    pub fn take_directory_wanted(&mut self) -> bool {
        core::mem::take(&mut self.access.wanted)
    }

    /// What the sweep over keyspaces has seen.
    pub fn take_swept(&mut self) -> Vec<DocumentNews> {
        core::mem::take(&mut self.swept)
    }

    /// A plan that ended for another part, the oldest first. Its owner done, it is handed to [`PlanRunner::clean_up`].
    pub fn next_ended(&mut self) -> Option<(PlanOwner, Response, Option<AnyPlanner>)> {
        self.ended.pop_front().map(|PlanEnded { owner, response, left }| (owner, response, left))
    }

    /// The call numbered `index` of a plan ended; the plan gets the result later in this turn.
    pub fn on_call_ended(&mut self, plan: u64, index: usize, result: CallResult) {
        self.results.push_back((plan, index, result));
    }

    /// Whether a plan has a result to take.
    pub fn has_results(&self) -> bool {
        !self.results.is_empty()
    }

    /// The client of a plan went away: the plan continues, and nobody is answered.
    pub fn forget_client(&mut self, number: u64) {
        if let Some(PlanOwner::Client(ticket)) = self.list.get_mut(&number).map(|plan| &mut plan.owner) {
            *ticket = None;
        }
    }

    /// Adds the sizes of plans.
    pub fn sizes(&self, sizes: &mut Sizes) {
        sizes.passing("plans, a core", self.list.len(), PLANS_MAX);
        let calls = self.list.values().map(|plan| plan.out.len()).max().unwrap_or(0);
        sizes.lasting("calls out, a plan", calls, CALLS_OUT_MAX);
        sizes.passing("results for plans, a core", self.results.len(), PLANS_MAX * CALLS_OUT_MAX);
        sizes.passing("orders to replicas, a core", self.orders.len(), ORDERS_MAX);
    }

    /// Starts a plan.
    pub fn start_plan(&mut self, turn: &mut Turn<'_>, planner: AnyPlanner, owner: PlanOwner, deadline: Tick) -> u64 {
        self.start_plan_for(turn, planner, owner, deadline, None)
    }

    /// Starts a plan on somebody's behalf.
    fn start_plan_for(
        &mut self,
        turn: &mut Turn<'_>,
        planner: AnyPlanner,
        owner: PlanOwner,
        deadline: Tick,
        granted: Option<Granted>,
    ) -> u64 {
        let number = turn.core.next_number();
        if self.list.len() >= PLANS_MAX {
            let failure = failures::overloaded("plans under way", PLANS_MAX);
            self.finish_plan(turn, PlanEnded { owner, response: Err(failure), left: None }, planner.name(), None);
            return number;
        }
        turn.core.counters().plans_started += 1;
        let told = planner.subject().map(|subject| (subject, turn.now));
        if let Some((subject, _)) = &told {
            turn.tell(Change::FlowBegun { flow: planner.name(), subject: subject.clone() });
        }
        let timer = deadline;
        turn.core.set_timer(TimerKey::Plan(number), Tick::NEVER, timer);
        let plan = Plan {
            planner: Some(planner),
            owner,
            deadline,
            next_index: 0,
            out: BTreeSet::new(),
            changing: BTreeSet::new(),
            changed: false,
            wake: Tick::NEVER,
            timer,
            read_only: false,
            follow_up: None,
            granted,
            begun: turn.now,
            told,
        };
        self.list.insert(number, plan);
        self.enter_plan(turn, number, Entry::Start);
        number
    }

    fn enter_plan(&mut self, turn: &mut Turn<'_>, number: u64, entry: Entry) {
        let unix_ms = turn.core.unix_ms(turn.now);
        let machine_load = turn.core.machine_load();
        let Some(plan) = self.list.get_mut(&number) else { return };
        let Some(mut planner) = plan.planner.take() else { return };
        let mut news = KeyspaceNews::default();
        let (config, random) = turn.core.config_and_random();
        let context = PlanContext {
            now: turn.now,
            deadline: plan.deadline,
            node: config.node,
            region: &config.labels.region,
            random,
            unix_ms,
            machine_load,
            state: &mut (),
        };
        let step = match &mut planner {
            AnyPlanner::Clusters(planner) => entry.enter(planner.as_mut(), context),
            AnyPlanner::Keyspaces(planner) => entry.enter(planner.as_mut(), context.with(&mut news)),
            AnyPlanner::Buckets(planner) => entry.enter(planner.as_mut(), context.with(&mut self.s3)),
            AnyPlanner::Access(planner) => entry.enter(planner.as_mut(), context.with(&mut self.access)),
        };
        plan.planner = Some(planner);
        let sweeping = self.list.get(&number).is_some_and(|plan| plan.owner == PlanOwner::KeyspaceSweep);
        for news in news.documents {
            if sweeping {
                self.swept.push(news.clone());
            }
            let copy = news.body.clone().map(|body| DocumentCopy { version: news.version, body });
            if copy.is_some() || self.routing.keyspace(&news.keyspace).is_some() {
                let keyspace = news.keyspace.clone();
                self.routing.want_copy(turn, &keyspace, copy);
            }
            self.routing.learn_document(turn, news);
        }
        self.carry_out(turn, number, step);
    }

    fn carry_out(&mut self, turn: &mut Turn<'_>, number: u64, step: Step) {
        match step {
            Step::Calls(calls) => self.make_calls(turn, number, calls),
            Step::Wait(pause) => {
                if let Some(plan) = self.list.get_mut(&number) {
                    plan.wake = turn.now + pause.max(Duration::from_millis(1));
                    self.rearm_plan(turn.core, number);
                }
            }
            Step::Done(response) => self.end_plan(turn, number, response),
        }
        self.check_plan(turn, number);
    }

    /// A plan that is not as it must be ends, rather than to wait for ever.
    fn check_plan(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(Err(broken)) = self.list.get(&number).map(Plan::check_invariants) else { return };
        if THOROUGH {
            panic!("{broken} (plan {number})");
        }
        self.end_plan(turn, number, Err(failures::internal(broken.to_string())));
    }

    fn rearm_plan(&mut self, core: &mut CoreContext, number: u64) {
        if let Some(plan) = self.list.get_mut(&number) {
            let at = plan.wake.min(plan.deadline);
            let old = core::mem::replace(&mut plan.timer, at);
            core.set_timer(TimerKey::Plan(number), old, at);
        }
    }

    fn make_calls(&mut self, turn: &mut Turn<'_>, number: u64, calls: Vec<Call>) {
        let Some(plan) = self.list.get_mut(&number) else { return };
        let first = plan.next_index;
        plan.next_index += calls.len();
        plan.out.extend(first..first + calls.len());
        // Changes of members are not among them: their flows say themselves how far they came.
        let changes =
            |call: &Call| matches!(call, Call::Write { .. } | Call::CreateCluster { .. } | Call::DeleteCluster { .. });
        let changing = (first..).zip(&calls).filter(|(_, call)| changes(call));
        plan.changing.extend(changing.map(|(index, _)| index));
        let idle = plan.out.is_empty() && plan.wake == Tick::NEVER;
        if plan.out.len() > CALLS_OUT_MAX || idle {
            let name = plan.planner.as_ref().map_or("", |planner| planner.name());
            let failure = failures::internal(format!(
                "plan {name} has {} calls out (none, or beyond {CALLS_OUT_MAX})",
                plan.out.len()
            ));
            return self.end_plan(turn, number, Err(failure));
        }
        for (offset, call) in calls.into_iter().enumerate() {
            self.make_call(turn, number, first + offset, call);
        }
    }

    fn make_call(&mut self, turn: &mut Turn<'_>, plan: u64, index: usize, call: Call) {
        let Some((plan_deadline, granted)) = self.list.get(&plan).map(|plan| (plan.deadline, plan.granted.clone()))
        else {
            return;
        };
        let deadline = plan_deadline.min(turn.now + CALL_TIMEOUT);
        let owner = Owner::Plan { plan, index };
        let child = PlanOwner::Plan { plan, index };
        let (cluster, kind) = match call {
            Call::Write { cluster, backend, command, consistency, request_id } => {
                let request_id = request_id.unwrap_or_else(|| turn.core.random().request_id());
                (cluster, LocalKind::Write { backend, command, consistency, request_id, cluster_time_ms: 0 })
            }
            Call::Read { cluster, backend, query, consistency } => {
                (cluster, LocalKind::Read { backend, query, consistency })
            }
            Call::Admin { cluster, command } => (cluster, LocalKind::Admin(command)),
            Call::CreateCluster { cluster, rule } => {
                let flow = CreateFlow::new(cluster, rule, turn.core.config().default_engine.clone());
                let deadline = plan_deadline.min(turn.now + 2 * CALL_TIMEOUT);
                self.start_plan_for(turn, AnyPlanner::flow(flow), child, deadline, granted);
                return;
            }
            Call::DeleteCluster { cluster, life } => {
                let gone = gone_for(turn.core, &cluster, turn.now);
                let flow = DeleteFlow::new(cluster).of_life(life).without(gone);
                let deadline = plan_deadline.min(turn.now + 2 * CALL_TIMEOUT);
                self.start_plan_for(turn, AnyPlanner::flow(flow), child, deadline, granted);
                return;
            }
            Call::Replica { node, order } => {
                let deadline = plan_deadline.min(turn.now + ORDER_TIMEOUT);
                return self.start_order(turn, Order { plan, index, node, order, deadline, timer: Tick::NEVER });
            }
        };
        let operation = Operation::new(owner, Arc::new(cluster), kind, turn.now, deadline);
        self.routing.start_operation(turn, Operation { granted, ..operation });
    }

    /// Hands the next waiting result to its plan. Whether there was one.
    pub fn deliver_result(&mut self, turn: &mut Turn<'_>) -> bool {
        let Some((number, index, result)) = self.results.pop_front() else { return false };
        let may_have_changed = result.as_ref().err().is_none_or(|failure| failure.refusal.kind() == ErrorKind::Unknown);
        let answered = |plan: &mut Plan| {
            plan.changed |= plan.changing.remove(&index) && may_have_changed;
            match planted(Mutant::AnsweredCallsOut) {
                true => plan.out.contains(&index),
                false => plan.out.remove(&index),
            }
        };
        let expected = self.list.get_mut(&number).is_some_and(answered);
        if expected {
            self.enter_plan(turn, number, Entry::Result(index, result));
        }
        true
    }

    /// A plan's timer rang: it is woken, or its deadline has come.
    pub fn on_plan_timer(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(plan) = self.list.get_mut(&number) else { return };
        if turn.now >= plan.deadline {
            let failure = if plan.read_only {
                Refusal::new(
                    ErrorCode::DeadlineExceeded,
                    "the deadline came before all clusters had answered; retry, or allow a longer deadline_ms",
                )
                .into()
            } else {
                let message = "the deadline came before the work was done; it may be finished in the background: look before you retry";
                Refusal::new(ErrorCode::OutcomeUnknown, message).into()
            };
            return self.end_plan(turn, number, Err(failure));
        }
        plan.wake = Tick::NEVER;
        plan.timer = Tick::NEVER;
        self.rearm_plan(turn.core, number);
        self.enter_plan(turn, number, Entry::Wake);
    }

    fn end_plan(&mut self, turn: &mut Turn<'_>, number: u64, response: Response) {
        let Some(mut plan) = self.list.remove(&number) else { return };
        turn.core.cancel_timer(TimerKey::Plan(number), plan.timer);
        turn.core.counters().plans_finished += 1;
        let name = plan.planner.as_ref().map_or("plan", |planner| planner.name());
        let left = plan.planner.as_mut().and_then(|planner| planner.cleanup());
        let response = plan.outcome_of(response);
        let (took, slow_ms) = (turn.now.since(plan.begun), turn.core.config().tuning.slow_request_ms);
        let slow = slow_ms > 0 && took >= Duration::from_millis(slow_ms);
        if let (PlanOwner::Client(Some(ticket)), true, None) = (&plan.owner, slow, &plan.told) {
            let spent = Spent { took, attempts: plan.next_index as u32, plan: Some(name), ..Spent::default() };
            turn.effects.list.push(Effect::Spent { ticket: *ticket, spent: Box::new(spent) });
        }
        if let Some((subject, since)) = plan.told.take() {
            let failed = response.as_ref().err().map(|failure| failure.refusal.to_string());
            turn.tell(Change::FlowEnded { flow: name, subject, took: turn.now.since(since), failed });
        }
        self.finish_plan(turn, PlanEnded { owner: plan.owner, response, left }, name, plan.follow_up);
    }

    /// What a plan left is taken back, unless very much is already.
    pub fn clean_up(&mut self, turn: &mut Turn<'_>, left: Option<AnyPlanner>) {
        let Some(left) = left else { return };
        let under_way = self.list.values().filter(|plan| plan.owner == PlanOwner::TakingBack).count();
        if under_way < TAKING_BACK_MAX {
            self.start_plan(turn, left, PlanOwner::TakingBack, turn.now + TAKING_BACK_TIMEOUT);
        }
    }

    fn finish_plan(
        &mut self,
        turn: &mut Turn<'_>,
        ended: PlanEnded,
        name: &'static str,
        follow_up: Option<AnyPlanner>,
    ) {
        if let (Some(next), true) = (follow_up, ended.response.is_ok()) {
            self.start_plan(turn, next, PlanOwner::Background, Tick::NEVER);
        }
        match ended.owner {
            PlanOwner::Client(ticket) => self.routing.reply(turn, ticket, ended.response),
            PlanOwner::Plan { plan, index } => {
                let result = ended.response.map(|answer| CallReply::Done { at: answer.at });
                self.results.push_back((plan, index, result));
            }
            PlanOwner::Background => {
                if let Err(failure) = ended.response {
                    turn.note(
                        crate::api::NoteLevel::Warning,
                        format!("{name} in the background ended: {}", failure.refusal),
                    );
                }
            }
            PlanOwner::Silent | PlanOwner::TakingBack => {}
            _ => return self.ended.push_back(ended),
        }
        self.clean_up(turn, ended.left);
    }

    /// A client's plan: remembered so that the client can go away.
    pub fn start_client_plan(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        planner: AnyPlanner,
        asked: Asked,
        after: AfterPlan,
    ) {
        let AfterPlan { read_only, follow_up } = after;
        let Asked { deadline, granted } = asked;
        let number = self.start_plan_for(turn, planner, PlanOwner::Client(Some(ticket)), deadline, granted);
        if let Some(plan) = self.list.get_mut(&number) {
            plan.read_only = read_only;
            plan.follow_up = follow_up;
            self.routing.serve_by_plan(ticket, number);
        }
    }

    fn start_order(&mut self, turn: &mut Turn<'_>, order: Order) {
        let number = turn.core.next_number();
        self.orders.insert(number, order);
        self.send_order(turn, number);
    }

    /// Orders a node (again) what to do with a replica, or gives up.
    pub fn send_order(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(order) = self.orders.get_mut(&number) else { return };
        if turn.now >= order.deadline || !self.list.contains_key(&order.plan) {
            let message = format!("node {} did not answer an order about a replica in time", order.node);
            let failure = Refusal::new(ErrorCode::DeadlineExceeded, message).into();
            return self.end_order(turn.core, number, Err(failure));
        }
        let old = core::mem::replace(&mut order.timer, order.deadline.min(turn.now + ORDER_RETRY));
        let (at, node, what) = (order.timer, order.node, order.order.clone());
        turn.core.set_timer(TimerKey::Order(number), old, at);
        turn.want_address(node);
        let ticket = Ticket(number);
        match what {
            ReplicaOrder::Create { spec, disk } => {
                let cluster = spec.cluster;
                turn.core.send_to_cluster(node, cluster, &Item::CreateReplica { ticket, disk, spec });
            }
            ReplicaOrder::Destroy { cluster, generation, replica } => {
                turn.core.send_to_cluster(
                    node,
                    cluster,
                    &Item::DestroyReplica { ticket, cluster, generation, replica },
                );
            }
            ReplicaOrder::Survey { cluster } => {
                turn.core.send_to_cluster(node, cluster, &Item::Survey { ticket, cluster })
            }
            ReplicaOrder::BeginLife(life) => {
                turn.core.send_to_cluster(node, life.cluster, &Item::BeginLife { ticket, life })
            }
        }
    }

    fn end_order(&mut self, core: &mut CoreContext, number: u64, result: CallResult) {
        let kept = self.orders.get(&number).filter(|_| planted(Mutant::EndedOrdersKept)).cloned();
        if let Some(order) = kept.or_else(|| self.orders.remove(&number)) {
            core.cancel_timer(TimerKey::Order(number), order.timer);
            self.results.push_back((order.plan, order.index, result));
        }
    }

    /// A node answered an order. `Ticket(0)`: nobody waits for it.
    pub fn on_replica_done(
        &mut self,
        core: &mut CoreContext,
        from: NodeId,
        ticket: Ticket,
        result: Result<bool, Refusal>,
    ) {
        if self.orders.get(&ticket.0).is_some_and(|order| order.node == from) {
            self.end_order(core, ticket.0, result.map(|_| CallReply::Done { at: None }).map_err(Failure::from));
        }
    }

    /// A node answered what is left of a cluster there.
    pub fn on_surveyed(
        &mut self,
        core: &mut CoreContext,
        from: NodeId,
        ticket: Ticket,
        survivor: Option<Box<Survivor>>,
    ) {
        let asked = |order: &Order| order.node == from && matches!(order.order, ReplicaOrder::Survey { .. });
        if self.orders.get(&ticket.0).is_some_and(asked) {
            self.end_order(core, ticket.0, Ok(CallReply::Surveyed(survivor)));
        }
    }
}

/// For whose answer the removal of a cluster need not wait: nobody's, but for configuration clusters.
pub fn gone_for(core: &CoreContext, cluster: &ClusterName, now: Tick) -> BTreeSet<NodeId> {
    match is_config_cluster(cluster) {
        true => core.gone_nodes(now),
        false => BTreeSet::new(),
    }
}

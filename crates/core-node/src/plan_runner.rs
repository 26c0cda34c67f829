//! Runs planners: carries out their calls, hands them the results, ends them at their deadline.
//!
//! Always: a plan is never entered while it runs (results wait in a queue); at most `PLANS_MAX` plans
//! and `CALLS_OUT_MAX` calls of each; a call ends within `CALL_TIMEOUT` or the plan's deadline.
//! Not here: what plans do (keyspace, flows).

use crate::context::{CoreContext, Turn};
use crate::durable::Deferred;
use crate::flows::copy::DocumentCopy;
use crate::flows::create::CreateFlow;
use crate::flows::delete::DeleteFlow;
use crate::frame::{Item, Sender};
use crate::membership::directory_sync;
use crate::node_state::NodeState;
use crate::routing::operation::{Asked, Operation, Owner};
use crate::timers::TimerKey;
use base_types::access::Authority;
use base_types::action::{Failure, Response};
use base_types::sizes::Sizes;
use base_types::{ClusterId, DiskId, ErrorCode, Generation, NodeId, Refusal, ReplicaId, Survivor, Tick, Ticket};
use core::time::Duration;
use core_access::AccessPlanner;
use core_cluster::api::{LocalKind, NewLife, ReplicaSpec};
use core_flow::{failures, Call, CallReply, CallResult, PlanContext, Planner, ReplicaOrder, Step, CALLS_OUT_MAX};
use core_keyspace::{KeyspaceNews, KeyspacePlanner};
use core_placement::Rule;
use core_s3::S3Planner;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The most plans under way.
pub const PLANS_MAX: usize = 4_096;
/// Orders to make or destroy a replica: one for each call of a plan at most, few plans order any.
pub const ORDERS_MAX: usize = PLANS_MAX * 16;
/// The longest one call of a plan may take.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a node is told again what to do with a replica.
const ORDER_RETRY: Duration = Duration::from_millis(400);
/// The longest a node is told.
const ORDER_TIMEOUT: Duration = Duration::from_secs(3);
/// The most plans that take back what others left, and the longest each may take: they must not crowd out clients.
const TAKING_BACK_MAX: usize = 256;
const TAKING_BACK_TIMEOUT: Duration = CALL_TIMEOUT;
/// Results handed to plans in one turn; the rest wait for the next.
const RESULTS_PER_TURN_MAX: usize = 10_000;

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

/// Who is told how a plan ended.
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
    wake: Tick,
    timer: Tick,
    /// It changes nothing: when the deadline ends it, nothing was done.
    read_only: bool,
    /// The action to follow up once it was answered well.
    follow_up: Option<AnyPlanner>,
    /// For whom it is done; `None`: for this node itself.
    authority: Option<Authority>,
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

/// The plans of a core, their orders to replicas, and results that wait.
#[derive(Default)]
pub struct PlanTable {
    list: BTreeMap<u64, Plan>,
    orders: BTreeMap<u64, Order>,
    /// Results that wait to be handed to their plans, so that no plan is entered while it runs.
    results: VecDeque<(u64, usize, CallResult)>,
}

impl PlanTable {
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
}

impl NodeState {
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
        authority: Option<Authority>,
    ) -> u64 {
        let number = turn.core.next_number();
        if self.plans.list.len() >= PLANS_MAX {
            let failure = failures::overloaded("plans under way", PLANS_MAX);
            self.finish_plan(turn, owner, planner.name(), None, Err(failure));
            return number;
        }
        turn.core.counters().plans_started += 1;
        let timer = deadline;
        turn.core.set_timer(TimerKey::Plan(number), Tick::NEVER, timer);
        let plan = Plan {
            planner: Some(planner),
            owner,
            deadline,
            next_index: 0,
            out: BTreeSet::new(),
            wake: Tick::NEVER,
            timer,
            read_only: false,
            follow_up: None,
            authority,
        };
        self.plans.list.insert(number, plan);
        self.enter_plan(turn, number, Entry::Start);
        number
    }

    fn enter_plan(&mut self, turn: &mut Turn<'_>, number: u64, entry: Entry) {
        let unix_ms = turn.core.unix_ms(turn.now);
        let machine_load = turn.core.machine_load();
        let Some(plan) = self.plans.list.get_mut(&number) else { return };
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
            AnyPlanner::Access(planner) => entry.enter(planner.as_mut(), context.with(self.directory_sync.state_mut())),
        };
        plan.planner = Some(planner);
        let sweeping = self.plans.list.get(&number).is_some_and(|plan| plan.owner == PlanOwner::KeyspaceSweep);
        for news in news.documents {
            if sweeping {
                self.flow_recovery.swept.push(news.clone());
            }
            let copy = news.body.clone().map(|body| DocumentCopy { version: news.version, body });
            if copy.is_some() || self.routing.knows_keyspace(&news.keyspace) {
                let keyspace = news.keyspace.clone();
                self.want_copy(turn, &keyspace, copy);
            }
            self.learn_document(turn, news);
        }
        directory_sync::after_step(self, turn);
        self.carry_out(turn, number, step);
    }

    fn carry_out(&mut self, turn: &mut Turn<'_>, number: u64, step: Step) {
        match step {
            Step::Calls(calls) => self.make_calls(turn, number, calls),
            Step::Wait(pause) => {
                if let Some(plan) = self.plans.list.get_mut(&number) {
                    plan.wake = turn.now + pause.max(Duration::from_millis(1));
                    self.rearm_plan(turn.core, number);
                }
            }
            Step::Done(response) => self.end_plan(turn, number, response),
        }
    }

    fn rearm_plan(&mut self, core: &mut CoreContext, number: u64) {
        if let Some(plan) = self.plans.list.get_mut(&number) {
            let at = plan.wake.min(plan.deadline);
            let old = core::mem::replace(&mut plan.timer, at);
            core.set_timer(TimerKey::Plan(number), old, at);
        }
    }

    fn make_calls(&mut self, turn: &mut Turn<'_>, number: u64, calls: Vec<Call>) {
        let Some(plan) = self.plans.list.get_mut(&number) else { return };
        let first = plan.next_index;
        plan.next_index += calls.len();
        plan.out.extend(first..first + calls.len());
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
        let Some((plan_deadline, authority)) = self.plans.list.get(&plan).map(|plan| (plan.deadline, plan.authority))
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
                self.start_plan_for(turn, AnyPlanner::flow(flow), child, deadline, authority);
                return;
            }
            Call::DeleteCluster { cluster, life } => {
                let gone = self.gone_for(turn.core, &cluster, turn.now);
                let flow = DeleteFlow::new(cluster).of_life(life).without(gone);
                let deadline = plan_deadline.min(turn.now + 2 * CALL_TIMEOUT);
                self.start_plan_for(turn, AnyPlanner::flow(flow), child, deadline, authority);
                return;
            }
            Call::Replica { node, order } => {
                let deadline = plan_deadline.min(turn.now + ORDER_TIMEOUT);
                return self.start_order(turn, Order { plan, index, node, order, deadline, timer: Tick::NEVER });
            }
        };
        let operation = Operation::new(owner, Arc::new(cluster), kind, turn.now, deadline);
        self.start_operation(turn, Operation { authority, ..operation });
    }

    /// Hands waiting results to their plans. Whether any are left.
    pub fn deliver_results(&mut self, turn: &mut Turn<'_>) -> bool {
        for _ in 0..RESULTS_PER_TURN_MAX {
            let Some((number, index, result)) = self.plans.results.pop_front() else { return false };
            let expected = self.plans.list.get_mut(&number).is_some_and(|plan| plan.out.remove(&index));
            if expected {
                self.enter_plan(turn, number, Entry::Result(index, result));
            }
        }
        !self.plans.results.is_empty()
    }

    /// A plan's timer rang: it is woken, or its deadline has come.
    pub fn on_plan_timer(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(plan) = self.plans.list.get_mut(&number) else { return };
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
        let Some(mut plan) = self.plans.list.remove(&number) else { return };
        turn.core.cancel_timer(TimerKey::Plan(number), plan.timer);
        turn.core.counters().plans_finished += 1;
        let name = plan.planner.as_ref().map_or("plan", |planner| planner.name());
        let left = plan.planner.as_mut().and_then(|planner| planner.cleanup());
        self.finish_plan(turn, plan.owner, name, plan.follow_up, response);
        if let Some(left) = left {
            self.take_back(turn, left);
        }
    }

    /// What a plan left is taken back, unless very much is already.
    fn take_back(&mut self, turn: &mut Turn<'_>, left: AnyPlanner) {
        let under_way = self.plans.list.values().filter(|plan| plan.owner == PlanOwner::TakingBack).count();
        if under_way < TAKING_BACK_MAX {
            self.start_plan(turn, left, PlanOwner::TakingBack, turn.now + TAKING_BACK_TIMEOUT);
        }
    }

    fn finish_plan(
        &mut self,
        turn: &mut Turn<'_>,
        owner: PlanOwner,
        name: &'static str,
        follow_up: Option<AnyPlanner>,
        response: Response,
    ) {
        if let (Some(next), true) = (follow_up, response.is_ok()) {
            self.start_plan(turn, next, PlanOwner::Background, Tick::NEVER);
        }
        match owner {
            PlanOwner::Client(ticket) => self.reply(turn, ticket, response),
            PlanOwner::Plan { plan, index } => {
                let result = response.map(|answer| CallReply::Done { at: answer.at });
                self.plans.results.push_back((plan, index, result));
            }
            PlanOwner::Background => {
                if let Err(failure) = response {
                    turn.note(
                        crate::api::NoteLevel::Warning,
                        format!("{name} in the background ended: {}", failure.refusal),
                    );
                }
            }
            PlanOwner::Silent | PlanOwner::TakingBack => {}
            PlanOwner::Move(cluster) => self.on_moved(turn, cluster, response),
            PlanOwner::Config => self.on_config_plan(turn, response),
            PlanOwner::KeyspaceSweep => self.on_keyspace_sweep(turn),
            PlanOwner::RecoverySweep => self.on_recovery_sweep(response),
            PlanOwner::DirectorySync => directory_sync::on_synced(self, turn, &response),
            PlanOwner::S3Look(cluster) => self.on_s3_look(turn, cluster, response),
            PlanOwner::S3Flow { bucket, flow } => self.on_s3_flow(turn, bucket, flow, response),
            PlanOwner::S3Tidy(bucket) => self.on_s3_tidy(bucket),
        }
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
        let Asked { deadline, authority } = asked;
        let number = self.start_plan_for(turn, planner, PlanOwner::Client(Some(ticket)), deadline, authority);
        if let Some(plan) = self.plans.list.get_mut(&number) {
            plan.read_only = read_only;
            plan.follow_up = follow_up;
            self.routing.serve_by_plan(ticket, number);
        }
    }

    fn start_order(&mut self, turn: &mut Turn<'_>, order: Order) {
        let number = turn.core.next_number();
        self.plans.orders.insert(number, order);
        self.send_order(turn, number);
    }

    /// Tells a node (again) what to do with a replica, or gives up.
    pub fn send_order(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(order) = self.plans.orders.get_mut(&number) else { return };
        if turn.now >= order.deadline || !self.plans.list.contains_key(&order.plan) {
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
        if let Some(order) = self.plans.orders.remove(&number) {
            core.cancel_timer(TimerKey::Order(number), order.timer);
            self.plans.results.push_back((order.plan, order.index, result));
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
        if self.plans.orders.get(&ticket.0).is_some_and(|order| order.node == from) {
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
        if self.plans.orders.get(&ticket.0).is_some_and(asked) {
            self.end_order(core, ticket.0, Ok(CallReply::Surveyed(survivor)));
        }
    }

    /// This lane is asked what is left of a cluster here.
    pub fn on_survey_order(&mut self, turn: &mut Turn<'_>, from: Sender, ticket: Ticket, cluster: ClusterId) {
        let mut survivor = turn.lane.survivor(cluster).map(Box::new);
        if let Some(survivor) = &mut survivor {
            survivor.follows = survivor.follows.filter(|leader| self.has_contact(turn.core, *leader, survivor));
        }
        turn.core.send(from.node, from.lane, &Item::Surveyed { ticket, boot: from.boot, survivor });
    }

    /// Whether a leader is within reach, with a majority if it leads from here: one that sleeps has yet to notice that it is not.
    fn has_contact(&self, core: &CoreContext, leader: NodeId, survivor: &Survivor) -> bool {
        let reached = |node: NodeId| node == core.node() || core.nodes().connected().contains(&node);
        let voters: Vec<NodeId> =
            survivor.members.iter().filter(|member| !member.learner).map(|member| member.node).collect();
        let majority = voters.iter().filter(|node| reached(**node)).count() * 2 > voters.len();
        reached(leader) && (majority || leader != core.node())
    }

    /// This lane has the order to begin a new life of a cluster on its replica. The answer leaves once that is durable.
    pub fn on_begin_order(&mut self, turn: &mut Turn<'_>, from: Sender, ticket: Ticket, life: NewLife) {
        turn.core.wake_lane();
        let result = turn.lane.begin_life(turn.now, life);
        if result == Ok(true) {
            turn.core.stage(life.cluster, turn.lane.staged_batch());
        }
        self.say_once_durable(turn.core, from, life.cluster, Item::ReplicaDone { ticket, boot: from.boot, result });
    }

    /// This lane is told to make a replica. The answer leaves once the replica is durable.
    pub fn on_create_order(
        &mut self,
        turn: &mut Turn<'_>,
        from: Sender,
        ticket: Ticket,
        disk: DiskId,
        spec: ReplicaSpec,
    ) {
        let cluster = spec.cluster;
        let result = self.create_replica(turn, disk, spec);
        if result == Ok(true) {
            turn.core.stage(cluster, turn.lane.staged_batch());
        }
        self.say_once_durable(turn.core, from, cluster, Item::ReplicaDone { ticket, boot: from.boot, result });
    }

    /// Answers an order. Also one that was carried out before: the first may not be durable yet, and who counts a
    /// majority of answers would count a replica that a crash still takes away.
    fn say_once_durable(&mut self, core: &mut CoreContext, to: Sender, cluster: ClusterId, item: Item) {
        let say = Deferred::Say { node: to.node, lane: to.lane, item: Box::new(item) };
        if let Some(Deferred::Say { node, lane, item }) = core.hold(cluster, say) {
            core.send(node, lane, &item);
        }
    }

    /// The engine of a replica made here: the rule's, else this node's own default, whatever the others of
    /// the cluster are in. So a cluster moves to another engine by replacing its replicas one by one.
    fn engine_here(&self, core: &CoreContext, spec: &ReplicaSpec) -> Arc<str> {
        match spec.rule.parse::<Rule>() {
            Ok(rule) => rule.engine.as_ref().unwrap_or(&core.config().default_engine).as_str().into(),
            Err(_) => spec.engine.clone(), // Written by a release that knows more words.
        }
    }

    fn create_replica(&mut self, turn: &mut Turn<'_>, disk: DiskId, mut spec: ReplicaSpec) -> Result<bool, Refusal> {
        if disk != turn.core.config().disk {
            let message = format!(
                "node {} has disk {}, not {disk}: it lost its disk since the order was given",
                turn.core.node(),
                turn.core.config().disk
            );
            return Err(Refusal::new(ErrorCode::Conflict, message));
        }
        if self.replica_repair.is_gone(spec.cluster, spec.replica) {
            return Err(Refusal::new(ErrorCode::Conflict, "that replica was removed from this node before"));
        }
        if let Some(view) = turn.lane.view(spec.cluster) {
            if view.replica >= spec.replica && view.generation == spec.generation && !view.damaged {
                return Ok(false);
            }
        }
        turn.core.wake_lane();
        for member in spec.initial_members.iter() {
            turn.want_address(member.node);
        }
        spec.engine = self.engine_here(turn.core, &spec);
        turn.lane.create_replica(turn.now, spec)
    }

    /// This lane is told to remove a replica.
    pub fn on_destroy_order(
        &mut self,
        turn: &mut Turn<'_>,
        from: Sender,
        ticket: Ticket,
        target: (ClusterId, Generation, ReplicaId),
    ) {
        let (cluster, generation, replica) = target;
        let other = turn.lane.view(cluster).is_some_and(|view| replica != ReplicaId(0) && view.replica != replica);
        let done = !other && self.destroy_replica(turn, cluster, generation);
        self.say_once_durable(
            turn.core,
            from,
            cluster,
            Item::ReplicaDone { ticket, boot: from.boot, result: Ok(done) },
        );
    }

    /// Removes a replica here and remembers that it is gone.
    pub fn destroy_replica(&mut self, turn: &mut Turn<'_>, cluster: ClusterId, generation: Generation) -> bool {
        let Some(view) = turn.lane.view(cluster) else { return false };
        if view.generation != generation {
            return false;
        }
        turn.core.wake_lane();
        let done = turn.lane.destroy_replica(turn.now, cluster, generation);
        if done {
            turn.core.stage(cluster, turn.lane.staged_batch());
            self.replica_repair.note_gone(cluster, view.replica);
        }
        done
    }
}

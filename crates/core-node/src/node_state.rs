//! The parts of a core beside its lane, and the way between them.
//!
//! ```text
//!   clients.rs, node_state/dispatch.rs ─▶ membership/ · flow_recovery.rs · s3_scheduler.rs
//!                                              │ calls                 ▲ events, settled here
//!                                              ▼                       │
//!                                         plan_runner.rs ─▶ routing/ ──┘ ─▶ lane here | frames to peers
//! ```
//!
//! Always: parts own private fields. Each calls only what is below it; what is above hears of an end by an event that
//! [`NodeState::settle`] hands on before anything else is handled. What all of them use is in `context.rs`.
//! Not here: the lane (core-cluster), the public face (`core.rs`).

mod dispatch;
mod sizes;

use crate::clients::Clients;
use crate::context::{CoreContext, Turn};
use crate::flow_recovery::FlowRecovery;
use crate::membership::Membership;
use crate::plan_runner::{AfterPlan, AnyPlanner, PlanOwner, PlanRunner, RESULTS_PER_TURN_MAX};
use crate::routing::keyspaces::COPY_TIMEOUT;
use crate::routing::operation::Owner;
use crate::routing::{Routing, RoutingEvent};
use crate::s3_scheduler::S3Scheduler;
use crate::timers::TimerKey;
use base_types::action::Response;
use base_types::Tick;
use core_flow::CallResult;
use core_s3::{ReshardCounters, S3State};

/// A core without its lane.
pub struct NodeState {
    runner: PlanRunner,
    membership: Membership,
    flow_recovery: FlowRecovery,
    s3_scheduler: S3Scheduler,
}

impl NodeState {
    /// A core's state at start.
    pub fn new(core: &CoreContext) -> NodeState {
        let mut runner = PlanRunner::new(S3State::new(core.config().s3.clone()));
        let membership = Membership::new(core);
        membership.pin_level_zero(core, runner.routing_mut());
        NodeState { runner, membership, flow_recovery: FlowRecovery::default(), s3_scheduler: S3Scheduler::default() }
    }

    /// What every core does once.
    pub fn start(&mut self, turn: &mut Turn<'_>) {
        self.membership.start(turn, &mut self.runner);
        self.on_flow_recovery_timer(turn);
        self.membership.on_timer(turn, &mut self.runner, TimerKey::Rebalance);
        self.s3_scheduler.on_timer(turn, &mut self.runner);
        self.membership.on_timer(turn, &mut self.runner, TimerKey::Directory);
        self.settle(turn);
    }

    /// The router, to be looked at.
    pub fn routing(&self) -> &Routing {
        self.runner.routing()
    }

    /// Counters of splits and merges.
    pub fn reshards(&self) -> ReshardCounters {
        self.runner.s3().counters()
    }

    /// The oldest write of the log that is out is durable.
    pub fn on_log_written(&mut self, now: Tick) {
        self.membership.health_mut().log_pace().end(now);
    }

    fn clients(&mut self) -> Clients<'_> {
        Clients { runner: &mut self.runner, membership: &mut self.membership }
    }

    fn on_flow_recovery_timer(&mut self, turn: &mut Turn<'_>) {
        if !turn.core.is_lane_zero() {
            return;
        }
        let leads_world = self.membership.leads_world(turn.core);
        if !leads_world {
            self.membership.note_recoveries(Vec::new());
        }
        self.flow_recovery.on_timer(turn, &mut self.runner, leads_world);
    }

    /// Hands what ended to the part that waits for it, until nothing is left. Done after everything that a core handles.
    pub fn settle(&mut self, turn: &mut Turn<'_>) {
        loop {
            if let Some(event) = self.runner.routing_mut().next_event() {
                self.on_routing_event(turn, event);
            } else if let Some((owner, response, left)) = self.runner.next_ended() {
                self.on_plan_ended(turn, owner, response);
                self.runner.clean_up(turn, left);
            } else if self.runner.take_directory_wanted() {
                self.membership.on_directory_wanted(turn, &mut self.runner);
            } else {
                return;
            }
        }
    }

    /// Hands waiting results to their plans.
    pub fn deliver_results(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..RESULTS_PER_TURN_MAX {
            if !self.runner.deliver_result(turn) {
                return;
            }
            self.settle(turn);
        }
    }

    fn on_routing_event(&mut self, turn: &mut Turn<'_>, event: RoutingEvent) {
        match event {
            RoutingEvent::Ended { owner, result } => self.on_operation_ended(turn, owner, result),
            RoutingEvent::DirectoryWanted => self.membership.on_directory_wanted(turn, &mut self.runner),
            RoutingEvent::Scan { ticket, planner, asked } => {
                let after = AfterPlan { read_only: true, follow_up: None };
                self.runner.start_client_plan(turn, ticket, planner.into(), asked, after);
            }
        }
    }

    fn on_operation_ended(&mut self, turn: &mut Turn<'_>, owner: Owner, result: CallResult) {
        match owner {
            Owner::Plan { plan, index } => self.runner.on_call_ended(plan, index, result),
            Owner::Unfinished => self.flow_recovery.on_unfinished(turn, &mut self.runner, result),
            owner => self.membership.on_operation_ended(turn, &mut self.runner, owner, result),
        }
    }

    fn on_plan_ended(&mut self, turn: &mut Turn<'_>, owner: PlanOwner, response: Response) {
        let runner = &mut self.runner;
        match owner {
            PlanOwner::KeyspaceSweep => self.flow_recovery.on_keyspace_sweep(turn, runner),
            PlanOwner::RecoverySweep => {
                if let Some(recoveries) = self.flow_recovery.on_recovery_sweep(response) {
                    self.membership.note_recoveries(recoveries);
                }
            }
            PlanOwner::S3Look(cluster) => self.s3_scheduler.on_look(turn, runner, cluster, response),
            PlanOwner::S3Flow { bucket, flow } => self.s3_scheduler.on_flow(turn, runner, bucket, flow, response),
            PlanOwner::S3Tidy(bucket) => self.s3_scheduler.on_tidied(bucket),
            owner => self.membership.on_plan_ended(turn, runner, owner, response),
        }
    }

    /// Documents of keyspaces that the region's cluster lacks are copied there.
    pub fn on_copies_timer(&mut self, turn: &mut Turn<'_>) {
        for flow in self.runner.routing_mut().take_copies(turn) {
            self.runner.start_plan(turn, AnyPlanner::flow(flow), PlanOwner::Silent, turn.now + COPY_TIMEOUT);
        }
    }
}

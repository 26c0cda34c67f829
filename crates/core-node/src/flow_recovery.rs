//! What crashed flows left behind is finished, or undone, by the world's leader.
//!
//! Always: a record that has been unfinished for `FLOW_STALE` as seen here is taken up; every step of a
//! flow may be repeated, so two that work on one record do no harm. Not here: the flows (flows/, keyspace/).

use crate::context::Turn;
use crate::flows::create::CreateFlow;
use crate::flows::delete::DeleteFlow;
use crate::flows::recover::{sweep_deadline, SweepFlow};
use crate::node_state::NodeState;
use crate::plan_runner::{AnyPlanner, PlanOwner};
use crate::routing::operation::{Operation, Owner};
use crate::routing::resolve::{reference_read, RESOLVE_TIMEOUT};
use crate::timers::TimerKey;
use base_types::action::{Action, ActionResult, Answer, Response};
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterName, Generation, Tick};
use core::time::Duration;
use core_backends::reference::{ClusterRecord, ClusterState, Query, Reply};
use core_flow::{decode_call, CallResult};
use core_keyspace::DocumentNews;
use core_keyspace::{planner_for, work_left};
use core_s3::sweep_buckets;
use std::collections::BTreeMap;

/// How often the leader looks.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// How long a record may be unfinished before it counts as left behind.
const FLOW_STALE: Duration = Duration::from_secs(10);
/// How long one attempt to finish a flow may take.
const FLOW_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the leader looks for buckets left half made or half removed.
const BUCKETS_EVERY: Duration = Duration::from_secs(30);
/// Records looked at in one sweep.
const RECORDS_MAX: u32 = 256;

/// What was seen unfinished.
#[derive(Debug, Default)]
pub struct FlowRecovery {
    timer: Tick,
    seen: BTreeMap<(ClusterName, Generation), Tick>,
    /// Keyspace documents of the sweep under way, and what the one before saw unfinished.
    pub swept: Vec<DocumentNews>,
    keyspaces: BTreeMap<String, u64>,
    sweeping: bool,
    /// When buckets are looked for next.
    buckets_at: Tick,
    /// Recovered clusters are being looked at; what they waited for when they last were.
    recovering: bool,
    pub recoveries: Vec<String>,
}

impl NodeState {
    /// Time to look.
    pub fn on_flow_recovery_timer(&mut self, turn: &mut Turn<'_>) {
        if !turn.core.is_lane_zero() {
            return;
        }
        let at = turn.now + turn.core.random().jitter(SWEEP_EVERY);
        let old = core::mem::replace(&mut self.flow_recovery.timer, at);
        turn.core.set_timer(TimerKey::FlowRecovery, old, at);
        if !self.leads_world(turn.core) {
            self.flow_recovery.seen.clear();
            self.flow_recovery.keyspaces.clear();
            self.s3.forget_sweep();
            self.flow_recovery.recoveries.clear();
            return;
        }
        if turn.now >= self.flow_recovery.buckets_at {
            self.flow_recovery.buckets_at = turn.now + BUCKETS_EVERY;
            self.start_plan(turn, sweep_buckets().into(), PlanOwner::Background, turn.now + FLOW_TIMEOUT);
        }
        if !self.flow_recovery.recovering {
            self.flow_recovery.recovering = true;
            let flow = SweepFlow::new(turn.core.map().records().cloned().collect());
            self.start_plan(turn, AnyPlanner::flow(flow), PlanOwner::RecoverySweep, sweep_deadline(turn.now));
        }
        let kind = reference_read(&Query::Unfinished { limit: RECORDS_MAX });
        let operation =
            Operation::new(Owner::Unfinished, turn.core.world(), kind, turn.now, turn.now + RESOLVE_TIMEOUT);
        self.start_operation(turn, operation);
        if let (false, Some(planner)) = (self.flow_recovery.sweeping, planner_for(&Action::ListKeyspaces, None)) {
            self.flow_recovery.sweeping = true;
            self.flow_recovery.swept.clear();
            self.start_plan(turn, planner.into(), PlanOwner::KeyspaceSweep, turn.now + FLOW_TIMEOUT);
        }
    }

    /// `reference` told what is unfinished.
    pub fn on_unfinished(&mut self, turn: &mut Turn<'_>, result: CallResult) {
        let Ok((Reply::Records { records, .. }, _)) = decode_call::<Reply>(result) else { return };
        let before = core::mem::take(&mut self.flow_recovery.seen);
        for record in records {
            let key = (record.name.clone(), record.generation);
            let seen = before.get(&key).copied().filter(|_| !planted(Mutant::UnfinishedNeverStale));
            let first = seen.unwrap_or(turn.now);
            if turn.now.since(first) >= FLOW_STALE {
                // Looked at again only after another stale time: this attempt has its own.
                self.flow_recovery.seen.insert(key, turn.now + FLOW_TIMEOUT);
                self.take_up(turn, record);
            } else {
                self.flow_recovery.seen.insert(key, first);
            }
        }
    }

    fn take_up(&mut self, turn: &mut Turn<'_>, record: ClusterRecord) {
        let deadline = turn.now + FLOW_TIMEOUT;
        match record.state {
            ClusterState::Creating => {
                self.start_plan(turn, AnyPlanner::flow(CreateFlow::resume(record)), PlanOwner::Background, deadline);
            }
            ClusterState::Deleting => {
                let gone = self.gone_for(turn.core, &record.name, turn.now);
                let flow = DeleteFlow::resume(record).without(gone);
                self.start_plan(turn, AnyPlanner::flow(flow), PlanOwner::Background, deadline);
            }
            ClusterState::Active => {}
        }
    }

    /// The sweep over recovered clusters ended.
    pub fn on_recovery_sweep(&mut self, response: Response) {
        self.flow_recovery.recovering = false;
        if let Ok(Answer { result: ActionResult::Recoveries { recoveries }, .. }) = response {
            let waits = recoveries.into_iter().flat_map(|recovery| recovery.findings);
            self.flow_recovery.recoveries = waits.collect();
        }
    }

    /// The sweep over keyspaces ended: whatever is unfinished at the same version as last time has lost its runner.
    pub fn on_keyspace_sweep(&mut self, turn: &mut Turn<'_>) {
        self.flow_recovery.sweeping = false;
        let before = core::mem::take(&mut self.flow_recovery.keyspaces);
        for news in core::mem::take(&mut self.flow_recovery.swept) {
            let Some(planner) = work_left(&news) else { continue };
            if before.get(&news.keyspace) == Some(&news.version) {
                self.start_plan(turn, planner.into(), PlanOwner::Background, Tick::NEVER);
            } else {
                self.flow_recovery.keyspaces.insert(news.keyspace, news.version);
            }
        }
    }
}

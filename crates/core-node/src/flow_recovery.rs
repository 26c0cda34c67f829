//! What crashed flows left behind is finished, or undone, by the world's leader.
//!
//! Always: a record that has been unfinished for `FLOW_STALE` as seen here is taken up; every step of a
//! flow may be repeated, so two that work on one record do no harm. Held by: `a_flow_whose_runner_died_is_finished_by_another`. Not here: the flows (flows/, keyspace/).

use crate::context::Turn;
use crate::flows::create::CreateFlow;
use crate::flows::delete::DeleteFlow;
use crate::flows::recover::{sweep_deadline, SweepFlow};
use crate::plan_runner::{gone_for, AnyPlanner, PlanOwner, PlanRunner};
use crate::routing::operation::{Operation, Owner};
use crate::routing::resolve::{reference_read, RESOLVE_TIMEOUT};
use crate::timers::TimerKey;
use base_types::action::{Action, ActionResult, Answer, Response};
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterName, Generation, Tick};
use core::time::Duration;
use core_backends::reference::{ClusterRecord, ClusterState, Query, Reply};
use core_flow::{decode_call, CallResult};
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
    /// Versions of documents that the sweep before saw unfinished.
    keyspaces: BTreeMap<String, u64>,
    sweeping: bool,
    /// When buckets are looked for next.
    buckets_at: Tick,
    /// Recovered clusters are being looked at.
    recovering: bool,
}

impl FlowRecovery {
    /// Time to look.
    pub fn on_timer(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, leads_world: bool) {
        if !turn.core.is_lane_zero() {
            return;
        }
        let at = turn.now + turn.core.random().jitter(SWEEP_EVERY);
        let old = core::mem::replace(&mut self.timer, at);
        turn.core.set_timer(TimerKey::FlowRecovery, old, at);
        if !leads_world {
            self.seen.clear();
            self.keyspaces.clear();
            runner.s3_mut().forget_sweep();
            return;
        }
        if turn.now >= self.buckets_at {
            self.buckets_at = turn.now + BUCKETS_EVERY;
            runner.start_plan(turn, sweep_buckets().into(), PlanOwner::Background, turn.now + FLOW_TIMEOUT);
        }
        if !self.recovering {
            self.recovering = true;
            let flow = SweepFlow::new(turn.core.map().records().cloned().collect());
            runner.start_plan(turn, AnyPlanner::flow(flow), PlanOwner::RecoverySweep, sweep_deadline(turn.now));
        }
        let kind = reference_read(&Query::Unfinished { limit: RECORDS_MAX });
        let operation =
            Operation::new(Owner::Unfinished, turn.core.world(), kind, turn.now, turn.now + RESOLVE_TIMEOUT);
        runner.routing_mut().start_operation(turn, operation);
        if let (false, Some(planner)) = (self.sweeping, planner_for(&Action::ListKeyspaces, None)) {
            self.sweeping = true;
            runner.take_swept();
            runner.start_plan(turn, planner.into(), PlanOwner::KeyspaceSweep, turn.now + FLOW_TIMEOUT);
        }
    }

    /// `reference` told what is unfinished.
    pub fn on_unfinished(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, result: CallResult) {
        let Ok((Reply::Records { records, .. }, _)) = decode_call::<Reply>(result) else { return };
        let before = core::mem::take(&mut self.seen);
        for record in records {
            let key = (record.name.clone(), record.generation);
            let seen = before.get(&key).copied().filter(|_| !planted(Mutant::UnfinishedNeverStale));
            let first = seen.unwrap_or(turn.now);
            if turn.now.since(first) >= FLOW_STALE {
                // Looked at again only after another stale time: this attempt has its own.
                self.seen.insert(key, turn.now + FLOW_TIMEOUT);
                self.take_up(turn, runner, record);
            } else {
                self.seen.insert(key, first);
            }
        }
    }

    fn take_up(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, record: ClusterRecord) {
        let deadline = turn.now + FLOW_TIMEOUT;
        match record.state {
            ClusterState::Creating => {
                runner.start_plan(turn, AnyPlanner::flow(CreateFlow::resume(record)), PlanOwner::Background, deadline);
            }
            ClusterState::Deleting => {
                let mut gone = gone_for(turn.core, &record.name, turn.now);
                // A removed node never answers. A member that is new has long been in the map: the record is stale.
                let members = record.members.iter().map(|member| member.node);
                gone.extend(members.filter(|node| turn.core.is_removed(*node) && !planted(Mutant::RemovedNodeAwaited)));
                let flow = DeleteFlow::resume(record).without(gone);
                runner.start_plan(turn, AnyPlanner::flow(flow), PlanOwner::Background, deadline);
            }
            ClusterState::Active => {}
        }
    }

    /// The sweep over recovered clusters ended: what they wait for, if it could be seen.
    pub fn on_recovery_sweep(&mut self, response: Response) -> Option<Vec<String>> {
        self.recovering = false;
        let Ok(Answer { result: ActionResult::Recoveries { recoveries }, .. }) = response else { return None };
        Some(recoveries.into_iter().flat_map(|recovery| recovery.findings).collect())
    }

    /// The sweep over keyspaces ended: whatever is unfinished at the same version as last time has lost its runner.
    pub fn on_keyspace_sweep(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        self.sweeping = false;
        let before = core::mem::take(&mut self.keyspaces);
        for news in runner.take_swept() {
            let Some(planner) = work_left(&news) else { continue };
            if before.get(&news.keyspace) == Some(&news.version) {
                runner.start_plan(turn, planner.into(), PlanOwner::Background, Tick::NEVER);
            } else {
                self.keyspaces.insert(news.keyspace, news.version);
            }
        }
    }
}

//! Looks at the buckets and shards that this lane leads, when something has happened there, runs the flows
//! that the looks find, and removes retired shards.
//!
//! By design: nothing is looked at that has not changed since the last look, unless that asked to come back, so an idle
//! bucket costs nothing and stays asleep; a new leader looks once, so what a crashed one left is taken up;
//! at most [`KEPT_MAX`] clusters are kept, [`LOOKS_OUT_MAX`] looks, [`FLOWS_OUT_MAX`] flows and [`TIDIES_OUT_MAX`] removals
//! run at a time; a flow that was found begins as soon as another one ends.
//! Not here: what a look finds and does (core-s3, reshard/).

use crate::context::Turn;
use crate::plan_runner::{PlanOwner, PlanRunner};
use crate::timers::TimerKey;
use base_types::action::Response;
use base_types::{ClusterId, LogIndex, Tick};
use core::time::Duration;
use core_s3::{kept, Kept};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Looks under way at a time in one lane.
pub const LOOKS_OUT_MAX: usize = 8;
/// Flows under way at a time in one lane: each copies a shard.
pub const FLOWS_OUT_MAX: usize = 2;
/// Flows that wait for their turn; those beyond are found again.
pub const FLOWS_WAITING_MAX: usize = 1_024;
/// Buckets whose retired shards are being removed in one lane.
pub const TIDIES_OUT_MAX: usize = 2;
/// Clusters of buckets that one lane keeps; those beyond wait until it leads fewer.
pub const KEPT_MAX: usize = 100_000;
/// How often it is seen what has changed.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// The pause between two looks at one cluster; doubled up to the second where a look only found what to wait for.
const LOOK_PAUSE_MIN: Duration = Duration::from_secs(2);
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long one look, and one run of a flow, may take; the next continues.
const LOOK_TIMEOUT: Duration = Duration::from_secs(60);
const FLOW_TIMEOUT: Duration = Duration::from_secs(300);
const TIDY_TIMEOUT: Duration = Duration::from_secs(120);

/// A cluster that is led here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Led {
    /// What was applied when it was last looked at.
    looked_at: Option<LogIndex>,
    next: Tick,
    pause: Duration,
    out: bool,
    /// The last look asked to come back.
    again: bool,
}

/// What this lane keeps.
#[derive(Debug, Default)]
pub struct S3Scheduler {
    timer: Tick,
    led: BTreeMap<ClusterId, Led>,
    flows: BTreeSet<(u128, u64)>,
    waiting: VecDeque<(u128, u64)>,
    tidying: BTreeSet<u128>,
}

impl S3Scheduler {
    /// Clusters of buckets that are led here.
    pub fn len(&self) -> usize {
        self.led.len()
    }

    /// Flows that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Time to see what has changed.
    pub fn on_timer(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        let at = turn.now + turn.core.random().jitter(KEEP_EVERY);
        let old = core::mem::replace(&mut self.timer, at);
        turn.core.set_timer(TimerKey::S3Scheduler, old, at);
        self.start_found(turn, runner);
        let mut seen: Vec<(ClusterId, LogIndex, Kept)> = Vec::new();
        turn.lane.each_led(&mut |cluster, name, applied| seen.extend(kept(name).map(|kept| (cluster, applied, kept))));
        let here: BTreeSet<ClusterId> = seen.iter().map(|(cluster, ..)| *cluster).collect();
        self.led.retain(|cluster, led| led.out || here.contains(cluster));
        let mut out = self.led.values().filter(|led| led.out).count();
        for (cluster, applied, kept) in seen {
            if self.led.len() >= KEPT_MAX && !self.led.contains_key(&cluster) {
                continue;
            }
            let fresh = Led { looked_at: None, next: turn.now, pause: LOOK_PAUSE_MIN, out: false, again: false };
            let led = self.led.entry(cluster).or_insert(fresh);
            let due = (led.again || led.looked_at != Some(applied)) && !led.out && led.next <= turn.now;
            if !due || out >= LOOKS_OUT_MAX {
                continue;
            }
            let changed = led.looked_at != Some(applied);
            led.pause = if changed { LOOK_PAUSE_MIN } else { (led.pause * 2).min(LOOK_PAUSE_MAX) };
            (led.looked_at, led.out) = (Some(applied), true);
            out += 1;
            let look = match kept {
                Kept::Bucket(id) => core_s3::look_at_bucket(id),
                Kept::Shard(id, number) => core_s3::look_at_shard(id, number),
            };
            runner.start_plan(turn, look.into(), PlanOwner::S3Look(cluster), turn.now + LOOK_TIMEOUT);
        }
    }

    /// A look ended: the flows it found are run.
    pub fn on_look(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner, cluster: ClusterId, response: Response) {
        if let Some(led) = self.led.get_mut(&cluster) {
            (led.out, led.again) = (false, response.is_err());
            led.next = turn.now + led.pause;
        }
        for bucket in runner.s3_mut().take_uploads() {
            runner.start_plan(turn, core_s3::sweep(bucket).into(), PlanOwner::Silent, turn.now + LOOK_TIMEOUT);
        }
        self.start_found(turn, runner);
    }

    /// Begins what looks have found, also those that still continue, as far as there is room.
    fn start_found(&mut self, turn: &mut Turn<'_>, runner: &mut PlanRunner) {
        for found in runner.s3_mut().take_flows() {
            let S3Scheduler { flows, waiting, .. } = self;
            if waiting.len() < FLOWS_WAITING_MAX && !flows.contains(&found) && !waiting.contains(&found) {
                waiting.push_back(found);
            }
        }
        while self.flows.len() < FLOWS_OUT_MAX {
            let Some((id, flow)) = self.waiting.pop_front() else { break };
            self.flows.insert((id, flow));
            let owner = PlanOwner::S3Flow { bucket: id, flow };
            runner.start_plan(turn, core_s3::run_flow(id, flow).into(), owner, turn.now + FLOW_TIMEOUT);
        }
        for id in runner.s3_mut().take_retired() {
            // The others are found again.
            if self.tidying.len() < TIDIES_OUT_MAX && self.tidying.insert(id) {
                runner.start_plan(
                    turn,
                    core_s3::remove_retired(id).into(),
                    PlanOwner::S3Tidy(id),
                    turn.now + TIDY_TIMEOUT,
                );
            }
        }
    }

    /// A removal of retired shards ended; if some are left, the next look finds them.
    pub fn on_tidied(&mut self, bucket: u128) {
        self.tidying.remove(&bucket);
    }

    /// A run of a flow ended; if the flow has not, the next look finds it.
    pub fn on_flow(
        &mut self,
        turn: &mut Turn<'_>,
        runner: &mut PlanRunner,
        bucket: u128,
        flow: u64,
        response: Response,
    ) {
        self.flows.remove(&(bucket, flow));
        self.start_found(turn, runner);
        if let Err(failure) = response {
            let text = format!("flow {flow} of bucket {bucket:032x} is run again later: {}", failure.refusal);
            turn.note(crate::api::NoteLevel::Warning, text);
        }
    }
}

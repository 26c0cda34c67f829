//! What one core keeps for planners of buckets.
//!
//! ```text
//!   cache.rs          names, records, maps of shards, snapshots
//!   leave.rs          what may be put into a bucket with a quota without another count
//!   cutover_gate.rs   calls that wait while a split freezes a shard: one asks for all
//!   unfinished.rs     what sweeps over unfinished buckets saw; counters.rs: what splits and merges came to
//!   Findings          what looks found, for the scheduler to take
//! ```
//!
//! By design: soft state only; a core that restarts loses time, never truth.
//! Not here: who runs what was found (core-node, s3_scheduler.rs).

pub(crate) mod cache;
pub(crate) mod counters;
pub(crate) mod cutover_gate;
pub(crate) mod leave;
pub(crate) mod unfinished;

use crate::config::S3Config;
use crate::state::cache::{S3Cache, ShardMap};
use crate::state::counters::ReshardCounters;
use crate::state::cutover_gate::CutoverGate;
use crate::state::unfinished::Seen;
use base_types::Tick;
use core_flow::Planner;
use std::sync::Arc;

/// What a planner of buckets may know and use in a step.
pub type PlanContext<'a> = core_flow::PlanContext<'a, S3State>;

/// A planner of buckets.
pub type S3Planner = dyn Planner<S3State>;

/// What looks have found, for the scheduler to take.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Flows under way: the bucket, the flow.
    pub(crate) flows: Vec<(u128, u64)>,
    /// Buckets with retired shards.
    pub(crate) retired: Vec<u128>,
    /// Buckets with closed uploads, by name.
    pub(crate) uploads: Vec<String>,
}

/// The state of the family, one in each core.
#[derive(Debug)]
pub struct S3State {
    /// How S3 metadata is laid out here.
    pub(crate) config: S3Config,
    pub(crate) cache: S3Cache,
    pub(crate) findings: Findings,
    /// What sweeps over unfinished buckets saw.
    pub(crate) sweep: Seen,
    /// Buckets whose calls wait for a shard.
    pub(crate) cutover_gate: CutoverGate,
    /// Until then writers may wait for a flow of this core to switch: the others copy nothing meanwhile.
    pub(crate) cutting_over_until: Tick,
    /// What splits and merges came to.
    pub(crate) counters: ReshardCounters,
    /// Whose the bucket must be that a call is about (check_owner.rs sets it around each step).
    pub(crate) expected_owner: Option<Arc<str>>,
}

impl S3State {
    /// Of a core that has just started.
    pub fn new(config: S3Config) -> S3State {
        S3State {
            config,
            cache: S3Cache::default(),
            findings: Findings::default(),
            sweep: Seen::default(),
            cutover_gate: CutoverGate::default(),
            cutting_over_until: Tick::default(),
            counters: ReshardCounters::default(),
            expected_owner: None,
        }
    }

    /// A map was read: calls that wait for a newer one than their own may continue.
    pub(crate) fn learn_map(&mut self, id: u128, map: Arc<ShardMap>) {
        self.cutover_gate.on_map(id, map.version);
        self.cache.learn_map(id, map);
    }

    /// Flows that looks have found since this was last called: the bucket, the flow.
    pub fn take_flows(&mut self) -> Vec<(u128, u64)> {
        core::mem::take(&mut self.findings.flows)
    }

    /// Buckets with retired shards, likewise.
    pub fn take_retired(&mut self) -> Vec<u128> {
        core::mem::take(&mut self.findings.retired)
    }

    /// Names of buckets with closed uploads, likewise.
    pub fn take_uploads(&mut self) -> Vec<String> {
        core::mem::take(&mut self.findings.uploads)
    }

    /// What splits and merges came to on this core.
    pub fn counters(&self) -> ReshardCounters {
        self.counters
    }

    /// How many buckets and map entries are remembered.
    pub fn sizes(&self) -> (usize, usize) {
        self.cache.len()
    }

    /// This node no longer looks for unfinished buckets; when it does again, nothing of this time counts.
    pub fn forget_sweep(&mut self) {
        self.sweep = Seen::default();
    }
}

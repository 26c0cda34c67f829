//! The lengths of a core's queues and tables beside their bounds, its lane's included.
//!
//! By design: reading changes nothing.
//! Not here: what enforces a bound (requests, plans and operations are refused beyond it).

use crate::context::CoreContext;
use crate::node_state::NodeState;
use crate::plan_runner::{ORDERS_MAX, PLANS_MAX};
use crate::routing::operation::PENDING_REQUESTS_MAX;
use crate::s3_scheduler::{FLOWS_WAITING_MAX, KEPT_MAX};
use base_types::sizes::Sizes;
use core_s3::{BUCKETS_MAX, ENTRIES_MAX, SHARDS_MAX};

/// Timers: one or two for each operation, plan and order, and one for each part that keeps time.
const TIMERS_MAX: usize = 2 * (PENDING_REQUESTS_MAX + PLANS_MAX * 2) + 16;
/// Answers held back until the log is durable; each belongs to an order or a formation.
const DEFERRED_MAX: usize = ORDERS_MAX;

impl NodeState {
    /// Adds this part's sizes.
    pub(crate) fn sizes(&self, core: &CoreContext, sizes: &mut Sizes) {
        self.runner.routing().sizes(core.level_zero().len(), sizes);
        self.runner.sizes(sizes);
        sizes.passing("answers held for the log, a core", core.held(), DEFERRED_MAX);
        sizes.lasting("timers, a core", core.timers(), TIMERS_MAX);
        let (buckets, shards) = self.runner.s3().sizes();
        sizes.lasting("buckets known, a core", buckets, BUCKETS_MAX);
        sizes.lasting("shards known, a core", shards, ENTRIES_MAX + SHARDS_MAX);
        sizes.lasting("buckets and shards kept, a core", self.s3_scheduler.len(), KEPT_MAX);
        sizes.passing("flows of buckets that wait, a core", self.s3_scheduler.waiting(), FLOWS_WAITING_MAX);
        self.membership.sizes(sizes);
    }
}

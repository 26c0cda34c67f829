//! A cluster that falls idle forgets what it need not remember any more, before it falls quiet.
//!
//! Request ids expire by the stamps of entries (request_ids.rs), so a cluster that is written to no more would keep
//! those of its last half minute for ever: in memory at each member, and for a shard that was filled and never written to
//! again, all of them.
//!
//! Always: a leader with more than a few ids stays awake until they may go, then proposes one entry without commands,
//! whose stamp lets every member forget the same; each such entry forgets something.
//! Held by: `a_cluster_that_falls_idle_forgets_the_requests_it_need_not_remember`.
//! Not here: how long an id is kept (`replica.rs`), the quiet itself (`lane.rs`).

use crate::context::LaneContext;
use crate::replica::request_ids::RequestIds;
use base_types::{ClusterId, Tick};

/// With so many remembered ids a cluster may fall quiet.
const QUIET_IDS_MAX: usize = 64;
/// The same where rare orders are made common.
const QUIET_IDS_MAX_RARE: usize = 4;
/// Clusters that fell idle together forget in different ticks, of so many: each such entry may delete thousands of rows, and
/// those of all shards of a bucket at once were more than a lane's overlay may hold.
const FORGET_TICKS: u64 = 32;

/// Whether a member remembers more than a quiet one should.
pub fn remembers_much(ids: &RequestIds, lane: &LaneContext) -> bool {
    let rare = lane.config.buggify_until > Tick(0);
    ids.len() > if rare { QUIET_IDS_MAX_RARE } else { QUIET_IDS_MAX }
}

/// Of an idle leader, once a tick: whether all of many ids may go, and it is this cluster's tick to let them.
pub fn is_due(ids: &RequestIds, id_time_ms: u64, cluster: ClusterId, lane: &LaneContext, now: Tick) -> bool {
    let tick = now.0 / (lane.config.tick_ms * 1_000).max(1);
    let is_its_turn = (tick + cluster.0).is_multiple_of(FORGET_TICKS);
    is_its_turn && remembers_much(ids, lane) && ids.all_expire_at().is_some_and(|at| at <= id_time_ms)
}

//! What always holds of a lane: what it counts of its replicas is their sum. Counted again now and then.
//!
//! Always (asserted here): bytes of overlays, snapshots going out and readies that wait for the log are those of the replicas;
//! who is awake is ticked; a flush knows who is dirty.
//! Not here: what holds of one replica (`invariants.rs`) and of its backends' rows (core-backends).

use crate::lane::Lane;
use crate::replica::invariants::{walk_replica, walk_rows};
use base_types::holds;
use base_types::invariant::{Broken, THOROUGH};
use base_types::ClusterId;
use std::collections::BTreeMap;
use std::ops::Bound;

/// In so many turns one replica is walked, each in its turn, and the lane's sums are made: the simulator stays as fast
/// as it is within a tenth.
const WALK_EVERY_TURNS: u64 = if cfg!(test) { 4 } else { 512 };
/// In so many turns the rows of one replica's backends are walked, each in its turn.
const WALK_ROWS_EVERY_TURNS: u64 = if cfg!(test) { 16 } else { 4096 };
/// In so many turns the log is walked.
const WALK_LOG_EVERY_TURNS: u64 = if cfg!(test) { 16 } else { 8192 };

/// Walks a part of the lane, where costly checks are made.
pub(super) fn walk_a_part(lane: &mut Lane) {
    lane.turns += 1;
    if THOROUGH && lane.turns.is_multiple_of(WALK_EVERY_TURNS) && !lane.context.storage_failed {
        walk(lane).unwrap_or_else(|broken| panic!("{broken} (node {})", lane.context.config.node));
    }
}

/// # Errors
/// The first invariant that does not hold.
fn walk(lane: &mut Lane) -> Result<(), Broken> {
    let next_after = |last| {
        let next = lane.replicas.range((Bound::Excluded(last), Bound::Unbounded)).next();
        next.or_else(|| lane.replicas.iter().next())
    };
    if let Some((cluster, replica)) = next_after(lane.walked) {
        walk_replica(replica)?;
        lane.walked = *cluster;
    }
    if let Some((cluster, replica)) =
        next_after(lane.walked_rows).filter(|_| lane.turns.is_multiple_of(WALK_ROWS_EVERY_TURNS))
    {
        walk_rows(replica)?;
        lane.walked_rows = *cluster;
    }
    if lane.turns.is_multiple_of(WALK_LOG_EVERY_TURNS) {
        lane.context.log.borrow().check_invariants()?;
    }
    check_sums(lane)
}

/// What the lane counts, counted again.
fn check_sums(lane: &Lane) -> Result<(), Broken> {
    let (mut bytes, mut senders) = (0, 0);
    let mut waits: BTreeMap<ClusterId, u32> = BTreeMap::new();
    for wait in &lane.context.awaiting_sync {
        let of_life = lane.replicas.get(&wait.cluster).is_some_and(|replica| replica.life == wait.life);
        *waits.entry(wait.cluster).or_default() += u32::from(of_life);
    }
    for (cluster, replica) in &lane.replicas {
        bytes += replica.counted_bytes;
        senders += replica.snapshots.sending();
        let (waits, counted) = (waits.get(cluster).copied().unwrap_or(0), replica.unsynced);
        holds!(waits == counted, "{waits} readies of {cluster} wait for the log, and {counted} are counted");
        holds!(replica.quiesced || lane.awake.contains(cluster), "cluster {cluster} is awake, and is not ticked");
        let dirty = replica.flushes.dirty_since();
        holds!(
            dirty.is_none_or(|since| lane.dirty.contains(cluster) && lane.dirty_order.contains(&(since, *cluster))),
            "cluster {cluster} is dirty since {dirty:?}, and no flush knows"
        );
    }
    let counted = lane.context.statistics.overlay_bytes;
    holds!(bytes == counted, "overlays have {bytes} bytes, and the lane counts {counted}");
    let counted = lane.context.snapshot_senders;
    holds!(senders == counted, "{senders} snapshots go out, and the lane counts {counted}");
    let batches = lane.context.awaiting_sync.iter().map(|wait| wait.batch);
    holds!(batches.is_sorted(), "readies wait for the log out of order");
    Ok(())
}

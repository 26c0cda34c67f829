//! What always holds of a replica, checked after each turn.
//!
//! A replica that breaks an invariant panics in debug builds and in the simulator. In other builds its group is quarantined from
//! then on, and an operator is called. What it has said in this very turn leaves all the same.
//!
//! Always (asserted here): what is durable was applied, what is applied was committed, and the log begins where the durable
//! part ends; only who leads has writes, snapshots and waits under way, and each write is counted once.
//! Not here: the sums of a lane (lane/checks.rs), the group's own (core-raft `invariants.rs`), the log's (core-log `invariants.rs`).

use crate::context::LaneContext;
use crate::meta::FIRST_INDEX;
use crate::replica::Replica;
use crate::storage::overlay::BackendView;
use base_types::holds;
use base_types::invariant::{Broken, THOROUGH};
use base_types::BackendKind;
use core_raft::Role;

/// Checks after a turn, in every build: nothing is walked.
///
/// # Errors
/// The invariant that does not hold.
pub fn check_replica(replica: &mut Replica, lane: &LaneContext) -> Result<(), Broken> {
    let (applied, durable) = (replica.meta.applied, replica.flushes.index());
    holds!(durable <= applied, "index {durable} is durable, and {applied} applied");
    if replica.blank || replica.snapshots.is_receiving() || replica.damaged.is_some() {
        return Ok(());
    }
    let Some(group) = replica.group.as_mut() else { return Ok(()) };
    group.check_invariants()?;
    let (commit, term, leads) = (group.commit(), group.term(), group.role() == Role::Leader);
    holds!(applied <= commit, "index {applied} is applied, and {commit} committed");
    let first = lane.log.borrow().first_index(replica.spec.cluster);
    holds!(first.0 <= durable.0.max(FIRST_INDEX.0) + 1, "the log begins at {first}, and {durable} is durable");
    let led = replica.leading.is_none_or(|leading| leads && leading == term);
    holds!(led || replica.has_more(), "it leads in term {:?}, and its Raft member is in {term}", replica.leading);
    let (proposed, staged) = (replica.proposed.len(), replica.staged.len());
    let (absolute, snapshots) = (replica.absolute.len(), replica.snapshots.sending());
    holds!(
        replica.leading.is_some() || proposed + staged + absolute + snapshots == 0,
        "it does not lead and has under way: {proposed} proposals, {staged} writes to propose, {absolute} absolute writes, {snapshots} snapshots"
    );
    Ok(())
}

/// The same for what must be walked.
///
/// # Errors
/// The invariant that does not hold.
pub fn walk_replica(replica: &Replica) -> Result<(), Broken> {
    let waiting = replica.staged.len() + replica.proposed.iter().map(|proposed| proposed.writes.len()).sum::<usize>();
    holds!(waiting == replica.pending_writes, "{waiting} writes wait, and {} are counted", replica.pending_writes);
    let mut before = replica.meta.applied;
    for proposed in &replica.proposed {
        holds!(proposed.index > before, "a proposal for {} waits after {before}", proposed.index);
        before = proposed.index;
    }
    let (found, counted) = (replica.overlay.walked_bytes(), replica.overlay.bytes());
    holds!(found == counted, "the overlay holds {found} bytes, and {counted} are counted");
    replica.request_ids.check_invariants()
}

/// The same of the rows of its backends. What its engine cannot read is damage, and mended elsewhere.
///
/// # Errors
/// The invariant that does not hold.
pub fn walk_rows(replica: &Replica) -> Result<(), Broken> {
    let settled = !replica.blank && replica.damaged.is_none() && !replica.is_quarantined() && !replica.has_damage();
    let backends = BackendKind::ALL.into_iter().filter(|backend| settled && replica.spec.name.has(*backend));
    for backend in backends {
        let space = BackendView { view: replica.view(), backend: backend as u8 };
        let checked = replica.overlay.unnoted(|| core_backends::check_invariants(backend, &space));
        checked.unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// Checks a replica that has had its turn, and acts on what is found.
pub fn after_turn(replica: &mut Replica, lane: &mut LaneContext) {
    if replica.is_quarantined() || lane.storage_failed {
        return;
    }
    let Err(broken) = check_replica(replica, lane) else { return };
    if THOROUGH {
        panic!("{broken} (cluster {}, node {})", replica.spec.name, lane.config.node);
    }
    replica.quarantine_group(lane, broken.to_string());
}

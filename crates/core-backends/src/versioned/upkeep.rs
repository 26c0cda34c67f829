//! What must be proposed without a client: the end of leases, the removal of history that nobody reads any more, and, by a new leader
//! first of all, the renewal of leases that are about to end (decision 0090).
//!
//! Always: nothing is wanted that would change nothing; what is wanted at a time is wanted until it is applied.
//! Not here: who proposes, and how often (core-cluster, `upkeep.rs`); what is done (`lease.rs`, `history.rs`).

use super::rows::Meta;
use super::LEASES_A_COMMAND_MAX;
use super::{history, lease, Command};
use crate::contract::{SpaceRead, Takeover, Upkeep};
use base_engine::EngineError;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};

/// Keys of leases that one step deletes.
const LEASE_KEYS: u32 = 1_024;
/// Rows of history that one step removes.
const ROWS: u32 = 1_024;

/// After a change of leaders a lease has so much time, or all of its own: for clients to find the new leader and to renew it.
pub(super) const TAKEOVER_KEEP_MS: u64 = 10_000;
/// Leases that one turn looks at.
const TAKEOVER_LOOKS_MAX: usize = 4_096;

/// What is wanted first.
pub(super) fn next(space: &dyn SpaceRead) -> Result<Option<Upkeep>, EngineError> {
    let meta = Meta::read(space)?;
    let due_ms = if meta.leases > 0 { lease::next_due(space)? } else { None };
    let lease = due_ms.map(|due_ms| {
        let at_ms = due_ms.saturating_sub(lease::early_ms());
        Upkeep { at_ms, command: Command::LeaseExpire { limit: LEASE_KEYS }.to_bytes() }
    });
    let garbage = garbage_at(space, &meta)?;
    let garbage = garbage.map(|at_ms| Upkeep { at_ms, command: Command::Collect { limit: ROWS }.to_bytes() });
    Ok([lease, garbage].into_iter().flatten().min_by_key(|upkeep| upkeep.at_ms))
}

/// When history may go.
fn garbage_at(space: &dyn SpaceRead, meta: &Meta) -> Result<Option<u64>, EngineError> {
    if history::has_garbage(meta) {
        return Ok(Some(0));
    }
    // Pins hold the horizon back: it moves when the first of them ends, if that is the oldest.
    if meta.horizon < meta.compacted {
        return Ok(Some(history::first_end_of_pin(space)?.unwrap_or(0)));
    }
    Ok(None)
}

/// Renews the leases that would end too soon after a change of leaders, in the order of their ends. A lease that was renewed since is not
/// renewed once more, so this ends.
pub(super) fn takeover(
    space: &dyn SpaceRead,
    began_ms: u64,
    now_ms: u64,
    after: &[u8],
) -> Result<Option<Takeover>, EngineError> {
    if planted(Mutant::TakeoverRenewsNothing) || Meta::read(space)?.leases == 0 {
        return Ok(None);
    }
    // What is over by now is not renewed.
    let until_ms = began_ms.saturating_add(TAKEOVER_KEEP_MS);
    let start = (lease::due_from(now_ms).to_vec()).max(after.to_vec());
    let (found, more) = lease::between(space, &start, until_ms, TAKEOVER_LOOKS_MAX)?;
    let (mut leases, mut next) = (Vec::new(), None);
    for (due_ms, number) in found {
        let Some(row) = super::rows::LeaseRow::read(space, number)? else { continue };
        if due_ms < began_ms.saturating_add(row.ttl_ms.min(TAKEOVER_KEEP_MS)) {
            leases.push(number);
        }
        next = Some(lease::after_due(due_ms, number));
        if leases.len() == LEASES_A_COMMAND_MAX {
            break;
        }
    }
    let full = leases.len() == LEASES_A_COMMAND_MAX;
    let command = (!leases.is_empty()).then(|| Command::LeaseKeepAlive { leases }.to_bytes());
    Ok(next.filter(|_| more || full || command.is_some()).map(|next| Takeover { command, next }))
}

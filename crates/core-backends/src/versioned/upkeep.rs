//! What must be proposed without a client: the end of leases, and the removal of history that nobody reads any more.
//!
//! Always: nothing is wanted that would change nothing; what is wanted at a time is wanted until it is applied.
//! Not here: who proposes, and how often (core-cluster, `upkeep.rs`); what is done (`lease.rs`, `history.rs`).

use super::rows::Meta;
use super::{history, lease, Command, Position};
use crate::contract::{SpaceRead, Upkeep};
use base_engine::EngineError;
use base_types::codec::Encode;

/// Keys of leases that one step deletes.
const LEASE_KEYS: u32 = 1_024;
/// Rows of history that one step removes.
const ROWS: u32 = 1_024;

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
    if meta.horizon > 0 && meta.collected < Position::end_of(meta.horizon) {
        return Ok(Some(0));
    }
    // Pins hold the horizon back: it moves when the first of them ends, if that is the oldest.
    if meta.horizon < meta.compacted {
        return Ok(Some(history::first_end_of_pin(space)?.unwrap_or(0)));
    }
    Ok(None)
}

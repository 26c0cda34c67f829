//! What always holds of a shard's rows.
//!
//! Always (asserted here): its record's sums are those of its rows, and of each level of its count index; the uppermost level's
//! nodes (mutant `TopNodesCounted`), the history (mutant `SweptHistoryCounted`) and what waits to be collected are counted.
//! Not here: where a node begins (`index.rs`; the model in `tests/` compares listings and counts).

use super::command::Totals;
use super::state::Shard;
use super::{index, keys};
use crate::contract::SpaceRead;
use crate::invariants::{count_tag, Checked, ROWS_MAX};
use base_engine::EngineError;
use base_types::holds;
use base_types::invariant::Broken;

struct Found {
    rows: Totals,
    /// Of each level of the index, from below: sums, and how many nodes.
    levels: Vec<(Totals, u64)>,
    history: Option<u64>,
    freed: Option<u64>,
}

pub(super) fn check(space: &dyn SpaceRead) -> Checked {
    let Some(shard) = Shard::load(space)? else { return Ok(Ok(())) };
    if shard.is_being_dropped() || shard.totals.rows().max(shard.totals.keys) > ROWS_MAX as u64 {
        return Ok(Ok(()));
    }
    let found = find(space, &shard)?;
    Ok(check_found(&shard, &found))
}

fn find(space: &dyn SpaceRead, shard: &Shard) -> Result<Found, EngineError> {
    let levels = (0..shard.height).map(|level| index::sum_of_level(space, level)).collect::<Result<_, _>>()?;
    Ok(Found {
        rows: index::sum_of_rows(space)?,
        levels,
        history: count_tag(space, keys::HISTORY)?,
        freed: count_tag(space, keys::FREED)?,
    })
}

fn check_found(shard: &Shard, found: &Found) -> Result<(), Broken> {
    let Shard { totals, top_nodes, history_rows, freed_rows, .. } = shard;
    holds!(found.rows == *totals, "a shard's rows sum up to {:?}, and its record says {totals:?}", found.rows);
    for (level, (sum, _)) in found.levels.iter().enumerate() {
        // An index that has no node yet stands for no rows.
        holds!(sum == totals, "level {level} of a shard's index sums up to {sum:?}, and its record says {totals:?}");
    }
    let top = found.levels.last().map_or(0, |(_, nodes)| *nodes);
    let most = u64::from(*top_nodes).max(top);
    holds!(
        top == u64::from(*top_nodes) || most <= 1,
        "a shard's index has {top} nodes above, and {top_nodes} are counted"
    );
    let same = |rows: Option<u64>, counted: u64| rows.is_none_or(|rows| rows == counted);
    holds!(same(found.history, *history_rows), "{:?} rows of history, and {history_rows} are counted", found.history);
    holds!(same(found.freed, *freed_rows), "{:?} rows of freed data, and {freed_rows} are counted", found.freed);
    Ok(())
}

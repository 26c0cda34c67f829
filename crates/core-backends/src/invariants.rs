//! What always holds of a backend's rows: what it counts and lists beside them is counted again.
//!
//! By design: a check reads and changes nothing, and reads at most `ROWS_MAX` rows of a kind: of what holds more it says nothing.
//! Not here: what each backend checks (`invariants.rs` of its room), when (core-cluster, lane/checks.rs).

pub(crate) use crate::contract::Checked;

use crate::contract::SpaceRead;
use base_engine::{Direction, EngineError, KeyRange};
use core::ops::ControlFlow;

/// The most rows of one kind that a check reads.
pub(crate) const ROWS_MAX: usize = 4_096;

/// Visits the rows from `start` to `end`; how many there are, unless there are more than are read.
pub(crate) fn walk(
    space: &dyn SpaceRead,
    start: &[u8],
    end: &[u8],
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<Option<u64>, EngineError> {
    let (mut rows, mut more) = (0, false);
    space.range(KeyRange { start, end: Some(end) }, Direction::Forward, &mut |key, value| {
        more = rows == ROWS_MAX;
        if more {
            return ControlFlow::Break(());
        }
        rows += 1;
        visit(key, value);
        ControlFlow::Continue(())
    })?;
    Ok((!more).then_some(rows as u64))
}

/// How many rows there are.
pub(crate) fn count(space: &dyn SpaceRead, start: &[u8], end: &[u8]) -> Result<Option<u64>, EngineError> {
    walk(space, start, end, &mut |_, _| {})
}

/// How many rows begin with this tag.
pub(crate) fn count_tag(space: &dyn SpaceRead, tag: u8) -> Result<Option<u64>, EngineError> {
    count(space, &[tag], &[tag + 1])
}

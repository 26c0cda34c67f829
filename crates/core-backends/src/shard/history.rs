//! The space as it was when a snapshot was pinned.
//!
//! The first change of a row under a snapshot keeps the row's former value in a history row, named by the snapshot's
//! place in their order. So a row as of snapshot `p` is the history row with the smallest place at or after `p`. Where
//! there is none, it is the row itself.
//!
//! Always: a space like any other, so listings and counts run on it unchanged (mutants `HistorySkipsOwn`, `SnapshotLosesTail`); costs one seek more a
//! range, and one history row for each row changed since.
//! Not here: writing history (`work.rs`), pinning (`reshard.rs`).

use super::keys::{self, HISTORY};
use crate::contract::{Keep, SpaceRead};
use crate::rows::successor;
use base_engine::{Direction, EngineError, KeyRange, Visit};
use base_types::mutant::{planted, Mutant};
use bytes::Bytes;
use core::ops::ControlFlow;

/// Rows of history read ahead of the walk at first, and at most.
const AHEAD_FIRST: usize = 16;
const AHEAD_MAX: usize = 1024;

/// One instant of a space.
pub(super) struct AsOf<'a> {
    pub space: &'a dyn SpaceRead,
    /// The snapshot's place in the order of snapshots.
    pub ordinal: u32,
}

/// A row that has changed since, with what it was.
type Past = (Bytes, Option<Bytes>);

fn was(row: &[u8]) -> Option<Bytes> {
    row.split_first().filter(|(there, _)| **there == 1).map(|(_, row)| Bytes::copy_from_slice(row))
}

/// Behind all history of a row, and of rows before it.
fn behind(key: &[u8]) -> Vec<u8> {
    let bare = key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    [&[HISTORY], &key[..bare], &[0xff; 6]].concat()
}

impl AsOf<'_> {
    /// Up to `limit` rows changed since, from one end of the range, and whether there may be more.
    fn past(&self, range: KeyRange<'_>, direction: Direction, limit: usize) -> Result<(Vec<Past>, bool), EngineError> {
        let start = [&[HISTORY], range.start].concat();
        let end = range.end.map_or_else(|| vec![HISTORY + 1], behind);
        let (mut found, mut more, mut damage) = (Vec::<Past>::new(), false, None);
        let all = KeyRange { start: &start, end: Some(&end) };
        self.space.range(all, direction, &mut |key, row| {
            let (key, ordinal) = match keys::history_parts(key) {
                Ok(parts) => parts,
                Err(error) => {
                    damage = Some(error);
                    return ControlFlow::Break(());
                }
            };
            // Bounds are not rows: a place behind a row's key may lie on either side of one.
            let outside = key < range.start || range.end.is_some_and(|end| key >= end);
            let early = ordinal < self.ordinal || (ordinal == self.ordinal && planted(Mutant::HistorySkipsOwn));
            if early || outside {
                return ControlFlow::Continue(());
            }
            let full = found.len() == limit;
            match found.last_mut().filter(|(last, _)| last == key) {
                // Forward the smallest place comes first, backward last.
                Some(_) if direction == Direction::Forward => {}
                Some((_, past)) => *past = was(row),
                None if full => {
                    more = true;
                    return ControlFlow::Break(());
                }
                None => found.push((Bytes::copy_from_slice(key), was(row))),
            }
            ControlFlow::Continue(())
        })?;
        damage.map_or(Ok((found, more)), Err)
    }

    /// Rows of a span with what changed since put in its place. Returns whether to continue.
    fn merge(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
        past: Vec<Past>,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, EngineError> {
        let mut past = past.into_iter().peekable();
        let mut flow = ControlFlow::Continue(());
        let is_before = |one: &[u8], other: &[u8]| match direction {
            Direction::Forward => one < other,
            Direction::Backward => one > other,
        };
        self.space.range(range, direction, &mut |key, row| {
            while let Some((gone, was)) = past.next_if(|(gone, _)| is_before(gone, key)) {
                flow = was.map_or(ControlFlow::Continue(()), |was| visit(&gone, &was));
                if flow.is_break() {
                    return flow;
                }
            }
            flow = match past.next_if(|(changed, _)| changed == key) {
                Some((_, Some(was))) => visit(key, &was),
                Some((_, None)) => ControlFlow::Continue(()),
                None => visit(key, row),
            };
            flow
        })?;
        if flow.is_continue() && !planted(Mutant::SnapshotLosesTail) {
            for (gone, was) in past {
                flow = was.map_or(ControlFlow::Continue(()), |was| visit(&gone, &was));
                if flow.is_break() {
                    break;
                }
            }
        }
        Ok(flow)
    }
}

impl SpaceRead for AsOf<'_> {
    fn keep(&self) -> Keep {
        self.space.keep()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let start = keys::of_history(key, self.ordinal);
        let mut found = None;
        let range = KeyRange { start: &start, end: Some(&behind(key)) };
        self.space.range(range, Direction::Forward, &mut |past, row| {
            // The first behind may be another row's.
            found = past.starts_with(&start[..1 + key.len()]).then(|| was(row));
            ControlFlow::Break(())
        })?;
        match found {
            Some(was) => Ok(was),
            None => self.space.get(key),
        }
    }

    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        let (mut start, mut end) = (range.start.to_vec(), range.end.map(<[u8]>::to_vec));
        let mut ahead = AHEAD_FIRST;
        loop {
            if end.as_ref().is_some_and(|end| *end <= start) {
                return Ok(());
            }
            let rest = KeyRange { start: &start, end: end.as_deref() };
            let (past, more) = self.past(rest, direction, ahead)?;
            // So far the history is known; the rows are walked no further.
            let reach = past.last().filter(|_| more).map(|(last, _)| last.clone());
            let flow = match (&reach, direction) {
                (None, _) => self.merge(rest, direction, past, visit)?,
                (Some(last), Direction::Forward) => {
                    let until = successor(last);
                    let span = KeyRange { start: &start, end: Some(&until) };
                    let flow = self.merge(span, direction, past, visit)?;
                    start = until;
                    flow
                }
                (Some(last), Direction::Backward) => {
                    let span = KeyRange { start: last, end: end.as_deref() };
                    let flow = self.merge(span, direction, past, visit)?;
                    end = Some(last.to_vec());
                    flow
                }
            };
            if reach.is_none() || flow.is_break() {
                return Ok(());
            }
            ahead = (ahead * 2).min(AHEAD_MAX);
        }
    }
}

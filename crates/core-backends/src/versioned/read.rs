//! Reads of keys in order: the newest rows with what a commit has staged, or the rows of an earlier stamp.
//!
//! ```text
//!   rows of d ─────────────┐
//!                          ├─ merged by key ─▶ visit(key, row)
//!   staged, or rows of h ──┘
//! ```
//!
//! A row of `d` is what the key was at stamp t unless it was put after t. What changed after t is found by the index `i`: the
//! first change after t holds what the key was. So a read of the past costs one seek for each key that changed since.
//!
//! Always: a walk gives each key once, in order; it ends by itself after a bounded number of rows, at a key where the next may begin.
//! Not here: which stamps may be read (`history.rs`), what a page holds (`page.rs`).

use super::rows::{
    damage, data_key, decode_row, end_of, history_key, index_after, index_key, index_parts, index_start, index_sub,
    Bounds, Past, RowRef, DATA, INDEX,
};
use super::{Position, Row};
use crate::contract::SpaceRead;
use crate::rows::successor;
use base_engine::{Direction, EngineError, KeyRange};
use base_types::mutant::{planted, Mutant};
use bytes::Bytes;
use core::ops::ControlFlow;

/// Keys that changed since, looked up at a time, and the bytes of their rows after which a look-up ends.
const AHEAD: usize = 128;
const AHEAD_BYTES: usize = 1 << 20;
/// Index rows of one key that are passed one by one; then a seek is cheaper.
const PASSED_MAX: u32 = 16;

/// Rows in place of those in `d`: sorted; none: the key is not there.
pub(super) type Over = Vec<(Bytes, Option<Row>)>;

/// A key, and a change of it.
pub(super) type Found = (Bytes, Position);

pub(super) type Seen<'v> = &'v mut dyn FnMut(&[u8], RowRef<'_>) -> ControlFlow<()>;

/// One key, as it is in the space.
pub(super) fn newest(space: &dyn SpaceRead, key: &[u8]) -> Result<Option<Row>, EngineError> {
    space.get(&data_key(key))?.map(decode_row).transpose()
}

/// A row of history.
pub(super) fn past(space: &dyn SpaceRead, at: Position) -> Result<Past, EngineError> {
    match space.get(&history_key(at))? {
        Some(row) => Past::decode(row),
        None => Err(damage(format!("the index names change {} of stamp {}, which is not there", at.sub, at.stamp))),
    }
}

/// The first change of a key after a stamp that found the key there.
pub(super) fn first_after(space: &dyn SpaceRead, key: &[u8], stamp: u64) -> Result<Option<Position>, EngineError> {
    let Some(after) = stamp.checked_add(1) else { return Ok(None) };
    let (start, end) = (index_key(key, after), index_after(key));
    let mut found = None;
    let range = KeyRange { start: &start, end: Some(&end) };
    space.range(range, Direction::Forward, &mut |row, sub| {
        found = Some(index_parts(row).and_then(|(_, stamp)| Ok(Position { stamp, sub: index_sub(sub)? })));
        ControlFlow::Break(())
    })?;
    found.transpose()
}

/// What a change found, if that was there at the stamp already.
fn as_of(space: &dyn SpaceRead, change: Position, stamp: u64) -> Result<Option<Row>, EngineError> {
    Ok(past(space, change)?.before.filter(|row| row.modified <= stamp))
}

/// Walks the newest rows of a range, with `over` in place of what is there. Returns the key that it ended before: `visit` did
/// not take it, or `visits` were used up.
pub(super) fn walk_newest(
    space: &dyn SpaceRead,
    bounds: &Bounds,
    over: Over,
    visits: &mut u32,
    visit: Seen<'_>,
) -> Result<Option<Bytes>, EngineError> {
    merge(space, &bounds.start, bounds.end.as_deref(), over, u64::MAX, visits, visit)
}

/// The same of the rows as they were at a stamp.
pub(super) fn walk_at(
    space: &dyn SpaceRead,
    bounds: &Bounds,
    stamp: u64,
    visits: &mut u32,
    visit: Seen<'_>,
) -> Result<Option<Bytes>, EngineError> {
    let mut start = bounds.start.clone();
    loop {
        let ahead = Bounds { start: start.clone(), end: bounds.end.clone() };
        let (over, reach) = replaced(space, &ahead, stamp, visits)?;
        let end = reach.as_deref().or(bounds.end.as_deref());
        if let Some(stopped) = merge(space, &start, end, over, stamp, visits, visit)? {
            return Ok(Some(stopped));
        }
        match reach {
            None => return Ok(None),
            Some(reach) if *visits == 0 => return Ok(Some(reach)),
            Some(reach) => start = reach,
        }
    }
}

/// What the keys were at a stamp that changed since, and how far that is known (none: to the end).
fn replaced(
    space: &dyn SpaceRead,
    bounds: &Bounds,
    stamp: u64,
    visits: &mut u32,
) -> Result<(Over, Option<Bytes>), EngineError> {
    let (changed, mut reach) = changed_after(space, bounds, stamp, AHEAD, visits)?;
    let (mut over, mut bytes) = (Over::new(), 0);
    for (key, change) in changed {
        if bytes > AHEAD_BYTES {
            reach = Some(key);
            break;
        }
        let row = as_of(space, change, stamp)?;
        bytes += row.as_ref().map_or(0, |row| row.value.len());
        over.push((key, row));
    }
    Ok((over, reach))
}

/// Keys of a range, in order, with their first change after a stamp that found them there; up to `limit`. The second is the key
/// before which it ended, if that is not the range's end.
pub(super) fn changed_after(
    space: &dyn SpaceRead,
    bounds: &Bounds,
    stamp: u64,
    limit: usize,
    visits: &mut u32,
) -> Result<(Vec<Found>, Option<Bytes>), EngineError> {
    let end = bounds.end.as_ref().map_or_else(|| end_of(INDEX), |end| index_start(end));
    let mut seek = Bytes::from(index_start(&bounds.start));
    let mut found: Vec<Found> = Vec::new();
    loop {
        match changed_run(space, &seek, &end, stamp, limit, &mut found, visits)? {
            Run::End => return Ok((found, None)),
            Run::Stopped(key) => return Ok((found, Some(key))),
            Run::Seek(next) => seek = next,
        }
    }
}

enum Run {
    End,
    /// Before this key.
    Stopped(Bytes),
    /// Rows of one key are many: it continues here.
    Seek(Bytes),
}

fn changed_run(
    space: &dyn SpaceRead,
    start: &[u8],
    end: &[u8],
    stamp: u64,
    limit: usize,
    found: &mut Vec<Found>,
    visits: &mut u32,
) -> Result<Run, EngineError> {
    if start >= end {
        return Ok(Run::End);
    }
    let (mut run, mut passed, mut fault) = (Run::End, 0, None);
    space.range(KeyRange { start, end: Some(end) }, Direction::Forward, &mut |row, sub| {
        let (key, death) = match index_parts(row) {
            Ok(parts) => parts,
            Err(error) => {
                fault = Some(error);
                return ControlFlow::Break(());
            }
        };
        *visits = visits.saturating_sub(1);
        let known = found.last().is_some_and(|(last, _)| *last == key);
        if !known && (found.len() == limit || *visits == 0) {
            run = Run::Stopped(key.into());
            return ControlFlow::Break(());
        }
        if !known && death > stamp {
            match index_sub(sub) {
                Ok(sub) => found.push((key.into(), Position { stamp: death, sub })),
                Err(error) => fault = Some(error),
            }
            passed = 0;
            return if fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        if let Some(last) = found.last_mut().filter(|_| known && planted(Mutant::HistoryRowTooNew)) {
            last.1 = Position { stamp: death, sub: index_sub(sub).unwrap_or(0) };
        }
        passed += 1;
        if passed <= PASSED_MAX {
            return ControlFlow::Continue(());
        }
        run = Run::Seek(if known { index_after(&key) } else { index_key(&key, stamp.saturating_add(1)) });
        ControlFlow::Break(())
    })?;
    fault.map_or(Ok(run), Err)
}

/// Rows of `d` that were there at `newest`, with `over` in place of what is there.
fn merge(
    space: &dyn SpaceRead,
    start: &[u8],
    end: Option<&[u8]>,
    over: Over,
    newest: u64,
    visits: &mut u32,
    visit: Seen<'_>,
) -> Result<Option<Bytes>, EngineError> {
    let mut merge = Merge { over: over.into_iter().peekable(), stopped: None, fault: None, visits, visit };
    let (first, last) = (data_key(start), end.map_or_else(|| end_of(DATA), |end| data_key(end).to_vec()));
    if first[..] < last[..] {
        space.range(KeyRange { start: &first, end: Some(&last) }, Direction::Forward, &mut |row_key, row| {
            merge.on_row(&row_key[1..], row, newest)
        })?;
    }
    if merge.fault.is_none() && merge.stopped.is_none() {
        let _ = merge.take_before(None);
    }
    match merge.fault {
        Some(fault) => Err(fault),
        None => Ok(merge.stopped),
    }
}

struct Merge<'m> {
    over: core::iter::Peekable<std::vec::IntoIter<(Bytes, Option<Row>)>>,
    stopped: Option<Bytes>,
    fault: Option<EngineError>,
    visits: &'m mut u32,
    visit: Seen<'m>,
}

impl Merge<'_> {
    fn on_row(&mut self, key: &[u8], row: &[u8], newest: u64) -> ControlFlow<()> {
        self.take_before(Some(key))?;
        if let Some((_, instead)) = self.over.next_if(|(over, _)| *over == key) {
            return instead.map_or(ControlFlow::Continue(()), |instead| self.give(key, RowRef::of(&instead)));
        }
        match RowRef::decode(row) {
            Ok(row) if row.modified <= newest => self.give(key, row),
            // It came to be, or was put, after the stamp.
            Ok(_) => {
                *self.visits = self.visits.saturating_sub(1);
                ControlFlow::Continue(())
            }
            Err(fault) => {
                self.fault = Some(fault);
                ControlFlow::Break(())
            }
        }
    }

    /// Gives what lies before a key, or all that is left.
    fn take_before(&mut self, key: Option<&[u8]>) -> ControlFlow<()> {
        while let Some((over, row)) = self.over.next_if(|(over, _)| key.is_none_or(|key| over[..] < *key)) {
            if let Some(row) = row {
                self.give(&over, RowRef::of(&row))?;
            }
        }
        ControlFlow::Continue(())
    }

    fn give(&mut self, key: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        if *self.visits == 0 || (self.visit)(key, row).is_break() {
            self.stopped = Some(Bytes::copy_from_slice(key));
            return ControlFlow::Break(());
        }
        *self.visits -= 1;
        ControlFlow::Continue(())
    }
}

/// Whether a key of a range was put or deleted after a stamp.
pub(super) fn is_changed(
    space: &dyn SpaceRead,
    bounds: &Bounds,
    stamp: u64,
    visits: &mut u32,
) -> Result<Option<bool>, EngineError> {
    if !planted(Mutant::RefreshMissesDelete) && !changed_after(space, bounds, stamp, 1, visits)?.0.is_empty() {
        return Ok(Some(true));
    }
    let mut put = false;
    let stopped = walk_newest(space, bounds, Over::new(), visits, &mut |_, row| {
        put = row.modified > stamp;
        if put {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    // Neither found nor seen to its end: not known.
    Ok(if put { Some(true) } else { stopped.is_none().then_some(false) })
}

/// Up to `limit` keys of rows that begin with `prefix`, after `after`, without the prefix; and whether there are more.
pub(super) fn names(
    space: &dyn SpaceRead,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Result<(Vec<Bytes>, bool), EngineError> {
    let start = after.map_or_else(|| prefix.to_vec(), |after| successor(&[prefix, after].concat()));
    let end = super::rows::end_of_prefix(prefix);
    let (mut found, mut more) = (Vec::new(), false);
    space.range(KeyRange { start: &start, end: Some(&end) }, Direction::Forward, &mut |row, _| {
        more = found.len() == limit;
        if more {
            return ControlFlow::Break(());
        }
        found.push(Bytes::copy_from_slice(&row[prefix.len()..]));
        ControlFlow::Continue(())
    })?;
    Ok((found, more))
}

//! All changes in order, from a position on: what watches, feeds and copies read.
//!
//! Always: a page gives whole changes in the order of stamp and number, none twice and none left out; `reached` is where the next
//! page begins. Of a change that was asked for with it, what the key was is that of the stamp before.
//! A read that waits is given an empty page only when its member has kept it long enough (core-cluster, `parked.rs`): `reached` then
//! says how far there was nothing.
//! Not here: who watches, and what is sent (the door).

use super::history::check_after;
use super::read::{first_after, newest, past};
use super::rows::{damage, history_key, history_position, Bounds, Head, Meta, Past};
use super::Fail;
use super::{Change, Position, Query, Reply, Span, PAGE_BYTES_MAX, PAGE_ROWS_MAX, QUERY_VISITS_MAX};
use crate::contract::SpaceRead;
use crate::reply::decode_reply;
use base_engine::{Direction, EngineError, KeyRange};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use bytes::Bytes;
use core::ops::ControlFlow;

/// What a change takes in a page beside its key and values, about.
const CHANGE_BYTES: usize = 64;

/// The first byte of a query that waits.
const AWAIT: u8 = 7;

/// What is asked for.
pub(super) struct Asked<'a> {
    pub span: &'a Span,
    pub after: Position,
    pub limit: u32,
    pub before: bool,
    pub pin: u64,
}

/// A page of changes.
pub(super) fn page(space: &dyn SpaceRead, meta: &Meta, now_ms: u64, asked: &Asked<'_>) -> Result<Reply, Fail> {
    let end = Position::end_of(meta.readable());
    if asked.after >= end {
        return Ok(Reply::Changes { changes: Vec::new(), reached: asked.after, more: false });
    }
    check_after(space, meta, now_ms, asked.after, asked.pin)?;
    let limit = if asked.limit == 0 { PAGE_ROWS_MAX } else { asked.limit.min(PAGE_ROWS_MAX) } as usize;
    let (places, mut reached) = places(space, asked, end, limit)?;
    let (mut changes, mut bytes) = (Vec::new(), 0);
    for place in places {
        let change = change_at(space, place, asked.before)?;
        let size = |row: &Option<super::Row>| row.as_ref().map_or(0, |row| row.value.len());
        bytes += CHANGE_BYTES + change.key.len() + size(&change.before) + size(&change.after);
        if bytes > PAGE_BYTES_MAX && !changes.is_empty() {
            reached = changes.last().map(|change: &Change| change.at);
            break;
        }
        changes.push(change);
    }
    let more = reached.is_some();
    let skip = |at: Position| if planted(Mutant::SubRevisionLost) { Position::end_of(at.stamp) } else { at };
    Ok(Reply::Changes { changes, reached: reached.map_or(end, skip), more })
}

/// Whether a query may wait for a change.
pub(super) fn waits(query: &Bytes) -> bool {
    query.first() == Some(&AWAIT)
}

/// What a read asks once something has changed, if it was given nothing: the same, from where its page ended.
pub(super) fn next_query(query: &Bytes, reply: &Bytes) -> Option<Bytes> {
    let Ok(Query::Await { span, limit, before, pin, .. }) = Query::from_bytes(query.clone()) else { return None };
    match decode_reply::<Reply>(reply.clone()) {
        Ok(Reply::Changes { changes, reached, more: false }) if changes.is_empty() => {
            let skipped = u64::from(planted(Mutant::ParkedReadSkipsChange));
            let after = Position { stamp: reached.stamp.saturating_add(skipped), ..reached };
            Some(Query::Await { span, after, limit, before, pin }.to_bytes())
        }
        _ => None,
    }
}

/// Where the changes of a span are, up to `limit` of them; and the last place looked at, if that is not the end.
fn places(
    space: &dyn SpaceRead,
    asked: &Asked<'_>,
    end: Position,
    limit: usize,
) -> Result<(Vec<Position>, Option<Position>), EngineError> {
    let bounds = Bounds::of(asked.span);
    let start = history_key(Position { stamp: asked.after.stamp, sub: asked.after.sub.saturating_add(1) });
    let until = history_key(end);
    let (mut found, mut last, mut more, mut fault, mut visits) = (Vec::new(), asked.after, false, None, 0);
    space.range(KeyRange { start: &start, end: Some(&until) }, Direction::Forward, &mut |row, value| {
        if found.len() == limit || visits == QUERY_VISITS_MAX {
            more = true;
            return ControlFlow::Break(());
        }
        visits += 1;
        match history_position(row).and_then(|at| Ok((at, Head::decode(value)?.key))) {
            Ok((at, key)) => {
                last = at;
                if bounds.holds(&key) {
                    found.push(at);
                }
                ControlFlow::Continue(())
            }
            Err(error) => {
                fault = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    fault.map_or(Ok((found, more.then_some(last))), Err)
}

fn change_at(space: &dyn SpaceRead, at: Position, before: bool) -> Result<Change, EngineError> {
    let Past { deleted, time_ms, key, before: was } = past(space, at)?;
    let after = if deleted { None } else { Some(put_at(space, &key, at)?) };
    Ok(Change { at, time_ms, key, after, before: was.filter(|_| before) })
}

/// What was put: it is there still, or the next change of the key found it.
fn put_at(space: &dyn SpaceRead, key: &Bytes, at: Position) -> Result<super::Row, EngineError> {
    let row = match first_after(space, key, at.stamp)? {
        Some(next) => past(space, next)?.before,
        None => newest(space, key)?,
    };
    row.filter(|row| row.modified == at.stamp)
        .ok_or_else(|| damage(format!("what was put at stamp {} is neither there nor in history", at.stamp)))
}

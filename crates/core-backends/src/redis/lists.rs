//! Lists: a row for each element, at positions that grow to both sides from the middle.

use super::numbers::{clip, parse_integer};
use super::store::{Kind, Meta, Store, View};
use super::table::{read, write, Entry};
use super::{fail, integer, Done, Fail, Gather, Reply, REPLY_BYTES_MAX, REPLY_ELEMENTS_MAX};
use base_engine::{Direction, EngineError, KeyRange};
use bytes::Bytes;
use std::ops::ControlFlow;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("lpush", lpush),
    write("rpush", rpush),
    write("lpop", lpop),
    write("rpop", rpop),
    read("llen", llen),
    read("lrange", lrange),
    read("lindex", lindex),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Left,
    Right,
}

fn position(meta: &Meta, index: u64) -> Bytes {
    meta.element(&meta.head.wrapping_add(index).to_be_bytes())
}

pub(super) fn lpush(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    push(store, argv, End::Left)
}

pub(super) fn rpush(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    push(store, argv, End::Right)
}

fn push(store: &mut Store<'_>, argv: &[Bytes], end: End) -> Done {
    let mut meta = store.find_or_new(&argv[1], Kind::List)?;
    for value in &argv[2..] {
        // 2^63 pushes to one side are out of reach: positions never wrap.
        if end == End::Left {
            meta.head -= 1;
        }
        let at = if end == End::Left { 0 } else { meta.count };
        store.space.put(position(&meta, at), value.clone());
        meta.count += 1;
    }
    store.save(&argv[1], &meta);
    Ok(integer(meta.count as usize))
}

pub(super) fn lpop(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    pop("lpop", store, argv, End::Left)
}

pub(super) fn rpop(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    pop("rpop", store, argv, End::Right)
}

fn pop(name: &str, store: &mut Store<'_>, argv: &[Bytes], end: End) -> Done {
    let count = pop_count(name, argv)?;
    let Some(mut meta) = store.find_kind(&argv[1], Kind::List)? else { return Ok(Reply::Nil) };
    let Some(wanted) = count else {
        let value = take(store, &mut meta, end)?;
        store.save(&argv[1], &meta);
        return Ok(Reply::Bulk(value));
    };
    let (mut values, mut bytes) = (Vec::new(), 0);
    // A count beyond the bounds of a reply pops what fits: nothing is lost, the rest stays.
    while (values.len() as u64) < wanted
        && meta.count > 0
        && values.len() < REPLY_ELEMENTS_MAX
        && bytes < REPLY_BYTES_MAX
    {
        let value = take(store, &mut meta, end)?;
        bytes += value.len();
        values.push(Reply::Bulk(value));
    }
    if !values.is_empty() {
        store.save(&argv[1], &meta);
    }
    Ok(Reply::Array(values))
}

fn pop_count(name: &str, argv: &[Bytes]) -> Result<Option<u64>, Fail> {
    match argv {
        [_, _] => Ok(None),
        [_, _, count] => match super::numbers::integer_of(count).and_then(|count| u64::try_from(count).ok()) {
            Some(count) => Ok(Some(count)),
            None => fail("ERR value is out of range, must be positive"),
        },
        _ => fail(super::wrong_count(name)),
    }
}

/// Removes the element at an end of a list that has one.
fn take(store: &mut Store<'_>, meta: &mut Meta, end: End) -> Result<Bytes, EngineError> {
    let at = if end == End::Left { 0 } else { meta.count - 1 };
    let row = position(meta, at);
    let Some(value) = store.space.get(&row)? else {
        return Err(EngineError::Corrupt(format!(
            "redis list {} lacks its element {at} of {}",
            meta.sequence, meta.count
        )));
    };
    store.space.delete(row);
    meta.count -= 1;
    if end == End::Left {
        meta.head += 1;
    }
    Ok(value)
}

pub(super) fn llen(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(integer(view.find_kind(&argv[1], Kind::List)?.map_or(0, |meta| meta.count as usize)))
}

pub(super) fn lrange(view: &View<'_>, argv: &[Bytes]) -> Done {
    let (start, stop) = (parse_integer(&argv[2])?, parse_integer(&argv[3])?);
    let mut out = Gather::default();
    let Some(meta) = view.find_kind(&argv[1], Kind::List)? else { return out.done() };
    let Some((first, last)) = clip(start, stop, meta.count) else { return out.done() };
    let (from, to) = (position(&meta, first), position(&meta, last + 1));
    view.space.range(KeyRange { start: &from, end: Some(&to) }, Direction::Forward, &mut |_, value| {
        if out.push(value) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    out.done()
}

pub(super) fn lindex(view: &View<'_>, argv: &[Bytes]) -> Done {
    let index = parse_integer(&argv[2])?;
    let Some(meta) = view.find_kind(&argv[1], Kind::List)? else { return Ok(Reply::Nil) };
    let index = if index < 0 { index.saturating_add(meta.count as i64) } else { index };
    match u64::try_from(index) {
        Ok(index) if index < meta.count => Ok(view.space.get(&position(&meta, index))?.map_or(Reply::Nil, Reply::Bulk)),
        _ => Ok(Reply::Nil),
    }
}

//! Sets: a row for each member, told in order.

use super::store::{check_name, Kind, Store, View, ELEMENT_AT};
use super::table::{read, write, Entry};
use super::{integer, Done, Gather};
use crate::rows::prefix_end;
use base_engine::{Direction, KeyRange};
use bytes::Bytes;
use std::ops::ControlFlow;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("sadd", sadd),
    write("srem", srem),
    read("smembers", smembers),
    read("sismember", sismember),
    read("scard", scard),
];

pub(super) fn sadd(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    argv[2..].iter().try_for_each(|member| check_name("member", member))?;
    let mut meta = store.find_or_new(&argv[1], Kind::Set)?;
    let before = meta.count;
    for member in &argv[2..] {
        let row = meta.element(member);
        if store.space.get(&row)?.is_none() {
            store.space.put(row, Bytes::new());
            meta.count += 1;
        }
    }
    if meta.count != before {
        store.save(&argv[1], &meta);
    }
    Ok(integer((meta.count - before) as usize))
}

pub(super) fn srem(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let Some(mut meta) = store.find_kind(&argv[1], Kind::Set)? else { return Ok(integer(0)) };
    let before = meta.count;
    for member in &argv[2..] {
        let row = meta.element(member);
        if store.space.get(&row)?.is_some() {
            store.space.delete(row);
            meta.count -= 1;
        }
    }
    if meta.count != before {
        store.save(&argv[1], &meta);
    }
    Ok(integer((before - meta.count) as usize))
}

pub(super) fn smembers(view: &View<'_>, argv: &[Bytes]) -> Done {
    let mut out = Gather::default();
    let Some(meta) = view.find_kind(&argv[1], Kind::Set)? else { return out.done() };
    let prefix = meta.elements();
    let end = prefix_end(&prefix);
    view.space.range(KeyRange { start: &prefix, end: end.as_deref() }, Direction::Forward, &mut |row, _| {
        if out.push(&row[ELEMENT_AT..]) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    out.done()
}

pub(super) fn sismember(view: &View<'_>, argv: &[Bytes]) -> Done {
    let there = match view.find_kind(&argv[1], Kind::Set)? {
        Some(meta) => view.space.get(&meta.element(&argv[2]))?.is_some(),
        None => false,
    };
    Ok(integer(there.into()))
}

pub(super) fn scard(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(integer(view.find_kind(&argv[1], Kind::Set)?.map_or(0, |meta| meta.count as usize)))
}

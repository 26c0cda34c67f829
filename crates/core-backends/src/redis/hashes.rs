//! Hashes: a row for each field.

use super::numbers::{integer_of, parse_integer};
use super::store::{check_name, Kind, Store, View, ELEMENT_AT};
use super::table::{read, write, Entry};
use super::{fail, integer, wrong_count, Done, Fail, Gather, Reply, REPLY_BYTES_MAX, WOULD_OVERFLOW};
use crate::rows::prefix_end;
use base_engine::{Direction, KeyRange};
use bytes::Bytes;
use std::ops::ControlFlow;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("hset", hset),
    write("hmset", hmset),
    write("hsetnx", hsetnx),
    read("hget", hget),
    read("hmget", hmget),
    write("hdel", hdel),
    read("hlen", hlen),
    read("hgetall", hgetall),
    read("hkeys", hkeys),
    read("hvals", hvals),
    read("hexists", hexists),
    write("hincrby", hincrby),
];

pub(super) fn hset(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    Ok(integer(set_fields("hset", store, argv)?))
}

pub(super) fn hmset(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    set_fields("hmset", store, argv)?;
    Ok(Reply::Ok)
}

/// Returns how many fields are new.
fn set_fields(name: &str, store: &mut Store<'_>, argv: &[Bytes]) -> Result<usize, Fail> {
    if !argv.len().is_multiple_of(2) {
        return fail(wrong_count(name));
    }
    argv[2..].chunks_exact(2).try_for_each(|pair| check_name("field", &pair[0]))?;
    let mut meta = store.find_or_new(&argv[1], Kind::Hash)?;
    let before = meta.count;
    for pair in argv[2..].chunks_exact(2) {
        let row = meta.element(&pair[0]);
        meta.count += u64::from(store.space.get(&row)?.is_none());
        store.space.put(row, pair[1].clone());
    }
    store.save(&argv[1], &meta);
    Ok((meta.count - before) as usize)
}

pub(super) fn hsetnx(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_name("field", &argv[2])?;
    let mut meta = store.find_or_new(&argv[1], Kind::Hash)?;
    let row = meta.element(&argv[2]);
    let absent = store.space.get(&row)?.is_none();
    if absent {
        meta.count += 1;
        store.space.put(row, argv[3].clone());
        store.save(&argv[1], &meta);
    }
    Ok(integer(absent.into()))
}

fn field(view: &View<'_>, key: &[u8], name: &[u8]) -> Result<Option<Bytes>, Fail> {
    Ok(match view.find_kind(key, Kind::Hash)? {
        Some(meta) => view.space.get(&meta.element(name))?,
        None => None,
    })
}

pub(super) fn hget(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(field(view, &argv[1], &argv[2])?.map_or(Reply::Nil, Reply::Bulk))
}

pub(super) fn hexists(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(integer(field(view, &argv[1], &argv[2])?.is_some().into()))
}

pub(super) fn hmget(view: &View<'_>, argv: &[Bytes]) -> Done {
    let meta = view.find_kind(&argv[1], Kind::Hash)?;
    let (mut values, mut bytes) = (Vec::with_capacity(argv.len() - 2), 0);
    for name in &argv[2..] {
        let value = match &meta {
            Some(meta) => view.space.get(&meta.element(name))?,
            None => None,
        };
        bytes += value.as_ref().map_or(0, Bytes::len);
        if bytes > REPLY_BYTES_MAX {
            return fail(format!("ERR reply is larger than {REPLY_BYTES_MAX} bytes; ask for fewer fields"));
        }
        values.push(value.map_or(Reply::Nil, Reply::Bulk));
    }
    Ok(Reply::Array(values))
}

pub(super) fn hdel(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let Some(mut meta) = store.find_kind(&argv[1], Kind::Hash)? else { return Ok(integer(0)) };
    let mut removed = 0;
    for name in &argv[2..] {
        let row = meta.element(name);
        if store.space.get(&row)?.is_some() {
            store.space.delete(row);
            removed += 1;
            meta.count -= 1;
        }
    }
    if removed > 0 {
        store.save(&argv[1], &meta);
    }
    Ok(integer(removed))
}

pub(super) fn hlen(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(integer(view.find_kind(&argv[1], Kind::Hash)?.map_or(0, |meta| meta.count as usize)))
}

pub(super) fn hgetall(view: &View<'_>, argv: &[Bytes]) -> Done {
    gather(view, &argv[1], true, true)
}

pub(super) fn hkeys(view: &View<'_>, argv: &[Bytes]) -> Done {
    gather(view, &argv[1], true, false)
}

pub(super) fn hvals(view: &View<'_>, argv: &[Bytes]) -> Done {
    gather(view, &argv[1], false, true)
}

fn gather(view: &View<'_>, key: &[u8], names: bool, values: bool) -> Done {
    let mut out = Gather::default();
    let Some(meta) = view.find_kind(key, Kind::Hash)? else { return out.done() };
    let prefix = meta.elements();
    let end = prefix_end(&prefix);
    let range = KeyRange { start: &prefix, end: end.as_deref() };
    view.space.range(range, Direction::Forward, &mut |row, value| {
        let fits = (!names || out.push(&row[ELEMENT_AT..])) && (!values || out.push(value));
        if fits {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    out.done()
}

pub(super) fn hincrby(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_name("field", &argv[2])?;
    let amount = parse_integer(&argv[3])?;
    let old = store.find_kind(&argv[1], Kind::Hash)?;
    let stored = match &old {
        Some(meta) => store.space.get(&meta.element(&argv[2]))?,
        None => None,
    };
    let value = match &stored {
        None => 0,
        Some(text) => match integer_of(text) {
            Some(value) => value,
            None => return fail("ERR hash value is not an integer"),
        },
    };
    let Some(sum) = value.checked_add(amount) else { return fail(WOULD_OVERFLOW) };
    let mut meta = match old {
        Some(meta) => meta,
        None => store.new_key(&argv[1], Kind::Hash),
    };
    store.space.put(meta.element(&argv[2]), sum.to_string().into());
    if stored.is_none() {
        meta.count += 1;
        store.save(&argv[1], &meta);
    }
    Ok(Reply::Integer(sum))
}

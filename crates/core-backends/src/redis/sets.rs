//! Sets: a row for each member (`elements.rs`).
//!
//! By design: what combines several sets reads all but the first member by member, and is bounded by what one reply may have.

use super::elements::{all, distinct, repeated, scan, scan_of, scan_reply};
use super::numbers::parse_integer;
use super::store::{check_name, Kind, Meta, Store, View};
use super::table::{read, write, Entry};
use super::{fail, integer, Done, Fail, Reply, REPLY_ELEMENTS_MAX, SYNTAX};
use bytes::Bytes;
use std::collections::BTreeSet;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("sadd", sadd),
    write("srem", srem),
    write("smove", smove),
    write("spop", spop),
    read("srandmember", srandmember),
    read("smembers", smembers),
    read("sismember", sismember),
    read("smismember", smismember),
    read("scard", scard),
    read("sscan", sscan),
    read("sinter", sinter),
    read("sunion", sunion),
    read("sdiff", sdiff),
    read("sintercard", sintercard),
    write("sinterstore", sinterstore),
    write("sunionstore", sunionstore),
    write("sdiffstore", sdiffstore),
];

pub(super) fn sadd(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    argv[2..].iter().try_for_each(|member| check_name("member", member))?;
    let mut meta = store.find_or_new(&argv[1], Kind::Set)?;
    let before = meta.count;
    for member in &argv[2..] {
        let row = meta.field(member);
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
        let row = meta.field(member);
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

fn smove(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_name("member", &argv[3])?;
    let (from, to) = (store.find(&argv[1])?, store.find(&argv[2])?);
    let Some(mut from) = from else { return Ok(integer(0)) };
    if from.kind != Kind::Set || to.as_ref().is_some_and(|to| to.kind != Kind::Set) {
        return fail(super::WRONG_TYPE);
    }
    let row = from.field(&argv[3]);
    if store.space.get(&row)?.is_none() {
        return Ok(integer(0));
    }
    if argv[1] == argv[2] {
        return Ok(integer(1));
    }
    store.space.delete(row);
    from.count -= 1;
    store.save(&argv[1], &from);
    let mut to = to.unwrap_or_else(|| store.new_key(&argv[2], Kind::Set));
    let row = to.field(&argv[3]);
    if store.space.get(&row)?.is_none() {
        store.space.put(row, Bytes::new());
        to.count += 1;
    }
    store.save(&argv[2], &to);
    Ok(integer(1))
}

fn spop(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let count = match &argv[2..] {
        [] => None,
        [count] => match u64::try_from(parse_integer(count)?) {
            Ok(count) => Some(count.min(REPLY_ELEMENTS_MAX as u64)),
            Err(_) => return fail("ERR value is out of range, must be positive"),
        },
        _ => return fail(SYNTAX),
    };
    let nothing = if count.is_some() { Reply::Set(Vec::new()) } else { Reply::Nil };
    let Some(mut meta) = store.find_kind(&argv[1], Kind::Set)? else { return Ok(nothing) };
    let moment = store.moment.clone();
    let picked = match count {
        Some(0) => return Ok(nothing),
        count => distinct(&*store.space, &meta, &moment, count.unwrap_or(1))?,
    };
    for (member, _) in &picked {
        store.space.delete(meta.field(member));
        meta.count -= 1;
    }
    store.save(&argv[1], &meta);
    let mut picked = picked.into_iter().map(|(member, _)| Reply::Bulk(member));
    Ok(match count {
        None => picked.next().unwrap_or(Reply::Nil),
        Some(_) => Reply::Set(picked.collect()),
    })
}

fn srandmember(view: &View<'_>, argv: &[Bytes]) -> Done {
    let count = match &argv[2..] {
        [] => None,
        [count] => Some(parse_integer(count)?),
        _ => return fail(SYNTAX),
    };
    if count.is_some_and(|count| !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&count)) {
        return fail("ERR value is out of range");
    }
    let nothing = if count.is_some() { Reply::Array(Vec::new()) } else { Reply::Nil };
    let Some(meta) = view.find_kind(&argv[1], Kind::Set)? else { return Ok(nothing) };
    let picked = match count {
        None => repeated(view.space, &meta, &view.moment, 1)?,
        Some(count) if count < 0 => repeated(view.space, &meta, &view.moment, count.unsigned_abs())?,
        Some(count) => distinct(view.space, &meta, &view.moment, count.unsigned_abs())?,
    };
    let mut picked = picked.into_iter().map(|(member, _)| Reply::Bulk(member));
    Ok(if count.is_none() { picked.next().unwrap_or(nothing) } else { Reply::Array(picked.collect()) })
}

pub(super) fn smembers(view: &View<'_>, argv: &[Bytes]) -> Done {
    let Some(meta) = view.find_kind(&argv[1], Kind::Set)? else { return Ok(Reply::Set(Vec::new())) };
    Ok(Reply::Set(all(view.space, &meta)?.into_iter().map(|(member, _)| Reply::Bulk(member)).collect()))
}

pub(super) fn sismember(view: &View<'_>, argv: &[Bytes]) -> Done {
    let there = match view.find_kind(&argv[1], Kind::Set)? {
        Some(meta) => holds(view, &meta, &argv[2])?,
        None => false,
    };
    Ok(integer(there.into()))
}

fn smismember(view: &View<'_>, argv: &[Bytes]) -> Done {
    let meta = view.find_kind(&argv[1], Kind::Set)?;
    let there = |member: &Bytes| match &meta {
        Some(meta) => Ok(integer(holds(view, meta, member)?.into())),
        None => Ok(integer(0)),
    };
    Ok(Reply::Array(argv[2..].iter().map(there).collect::<Result<_, Fail>>()?))
}

fn holds(view: &View<'_>, meta: &Meta, member: &[u8]) -> Result<bool, Fail> {
    Ok(view.space.get(&meta.field(member))?.is_some())
}

pub(super) fn scard(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(integer(view.find_kind(&argv[1], Kind::Set)?.map_or(0, |meta| meta.count as usize)))
}

fn sscan(view: &View<'_>, argv: &[Bytes]) -> Done {
    let asked = scan_of(&argv[2..])?;
    let Some(meta) = view.find_kind(&argv[1], Kind::Set)? else { return Ok(scan_reply(0, Vec::new())) };
    let (next, found) = scan(view.space, &meta, &asked)?;
    Ok(scan_reply(next, found.into_iter().map(|(member, _)| Reply::Bulk(member)).collect()))
}

/// How sets are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Combine {
    Inter,
    Union,
    Diff,
}

/// The sets of these keys; none where a key is not there.
fn find_sets(view: &View<'_>, keys: &[Bytes]) -> Result<Vec<Option<Meta>>, Fail> {
    keys.iter().map(|key| view.find_kind(key, Kind::Set)).collect()
}

/// The members of the combination, in order, at most `limit` of an intersection.
fn combine(view: &View<'_>, keys: &[Bytes], how: Combine, limit: usize) -> Result<BTreeSet<Bytes>, Fail> {
    let sets = find_sets(view, keys)?;
    let members = |meta: &Meta| Ok::<_, Fail>(all(view.space, meta)?.into_iter().map(|(member, _)| member));
    let mut found = BTreeSet::new();
    match how {
        Combine::Union => {
            for meta in sets.iter().flatten() {
                found.extend(members(meta)?);
                if found.len() > REPLY_ELEMENTS_MAX {
                    return fail(format!("ERR the union has more than {REPLY_ELEMENTS_MAX} members"));
                }
            }
        }
        Combine::Inter => {
            let Some(sets) = sets.into_iter().collect::<Option<Vec<Meta>>>() else { return Ok(found) };
            let Some(smallest) = sets.iter().min_by_key(|meta| meta.count) else { return Ok(found) };
            for member in members(smallest)? {
                let mut others = sets.iter().filter(|meta| meta.sequence != smallest.sequence);
                if others.try_fold(true, |all, meta| Ok::<_, Fail>(all && holds(view, meta, &member)?))? {
                    found.insert(member);
                }
                if found.len() >= limit {
                    break;
                }
            }
        }
        Combine::Diff => {
            let Some(Some(first)) = sets.first() else { return Ok(found) };
            for member in members(first)? {
                let mut others = sets[1..].iter().flatten();
                if !others.try_fold(false, |any, meta| Ok::<_, Fail>(any || holds(view, meta, &member)?))? {
                    found.insert(member);
                }
            }
        }
    }
    Ok(found)
}

fn combined(view: &View<'_>, argv: &[Bytes], how: Combine) -> Done {
    let found = combine(view, &argv[1..], how, usize::MAX)?;
    Ok(Reply::Set(found.into_iter().map(Reply::Bulk).collect()))
}

fn sinter(view: &View<'_>, argv: &[Bytes]) -> Done {
    combined(view, argv, Combine::Inter)
}

fn sunion(view: &View<'_>, argv: &[Bytes]) -> Done {
    combined(view, argv, Combine::Union)
}

fn sdiff(view: &View<'_>, argv: &[Bytes]) -> Done {
    combined(view, argv, Combine::Diff)
}

fn sintercard(view: &View<'_>, argv: &[Bytes]) -> Done {
    let count = super::numbers::integer_of(&argv[1]).filter(|count| *count > 0);
    let Some(count) = count.and_then(|count| usize::try_from(count).ok()) else {
        return fail("ERR numkeys should be greater than 0");
    };
    let Some(keys) = argv[2..].get(..count) else {
        return fail("ERR Number of keys can't be greater than number of args");
    };
    let limit = match &argv[2 + count..] {
        [] => 0,
        [word, limit] if word.eq_ignore_ascii_case(b"LIMIT") => match super::numbers::integer_of(limit) {
            Some(limit) if limit >= 0 => limit,
            _ => return fail("ERR LIMIT can't be negative"),
        },
        _ => return fail(SYNTAX),
    };
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    Ok(integer(combine(view, keys, Combine::Inter, limit)?.len()))
}

fn stored(store: &mut Store<'_>, argv: &[Bytes], how: Combine) -> Done {
    check_name("key", &argv[1])?;
    let found = combine(&store.view(), &argv[2..], how, usize::MAX)?;
    if let Some(old) = store.find(&argv[1])? {
        store.remove(&argv[1], &old);
    }
    if found.is_empty() {
        return Ok(integer(0));
    }
    let mut meta = store.new_key(&argv[1], Kind::Set);
    for member in &found {
        store.space.put(meta.field(member), Bytes::new());
    }
    meta.count = found.len() as u64;
    store.save(&argv[1], &meta);
    Ok(integer(found.len()))
}

fn sinterstore(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    stored(store, argv, Combine::Inter)
}

fn sunionstore(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    stored(store, argv, Combine::Union)
}

fn sdiffstore(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    stored(store, argv, Combine::Diff)
}

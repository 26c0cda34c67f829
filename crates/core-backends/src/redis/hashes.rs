//! Hashes: a row for each field (`elements.rs`).

use super::elements::{all, distinct, repeated, scan, scan_of, scan_reply, Element};
use super::numbers::{float_of, integer_of, parse_float, parse_integer, plain_float_text};
use super::store::{check_name, Kind, Meta, Store, View};
use super::table::{read, write, Entry};
use super::{fail, integer, wrong_count, Done, Fail, Reply, REPLY_BYTES_MAX, SYNTAX, WOULD_OVERFLOW};
use bytes::Bytes;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("hset", hset),
    write("hmset", hmset),
    write("hsetnx", hsetnx),
    read("hget", hget),
    read("hmget", hmget),
    write("hdel", hdel),
    read("hlen", hlen),
    read("hstrlen", hstrlen),
    read("hrandfield", hrandfield),
    read("hscan", hscan),
    write("hincrbyfloat", hincrbyfloat),
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
        let row = meta.field(&pair[0]);
        meta.count += u64::from(store.space.get(&row)?.is_none());
        store.space.put(row, pair[1].clone());
    }
    store.save(&argv[1], &meta);
    Ok((meta.count - before) as usize)
}

pub(super) fn hsetnx(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_name("field", &argv[2])?;
    let mut meta = store.find_or_new(&argv[1], Kind::Hash)?;
    let row = meta.field(&argv[2]);
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
        Some(meta) => view.space.get(&meta.field(name))?,
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
            Some(meta) => view.space.get(&meta.field(name))?,
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
        let row = meta.field(name);
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
    let found = fields(view, &argv[1])?.into_iter();
    Ok(Reply::Map(found.map(|(name, value)| (Reply::Bulk(name), Reply::Bulk(value))).collect()))
}

pub(super) fn hkeys(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(Reply::Array(fields(view, &argv[1])?.into_iter().map(|(name, _)| Reply::Bulk(name)).collect()))
}

pub(super) fn hvals(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(Reply::Array(fields(view, &argv[1])?.into_iter().map(|(_, value)| Reply::Bulk(value)).collect()))
}

fn fields(view: &View<'_>, key: &[u8]) -> Result<Vec<Element>, Fail> {
    match view.find_kind(key, Kind::Hash)? {
        Some(meta) => all(view.space, &meta),
        None => Ok(Vec::new()),
    }
}

fn hstrlen(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(integer(field(view, &argv[1], &argv[2])?.map_or(0, |value| value.len())))
}

fn hscan(view: &View<'_>, argv: &[Bytes]) -> Done {
    let asked = scan_of(&argv[2..])?;
    let Some(meta) = view.find_kind(&argv[1], Kind::Hash)? else { return Ok(scan_reply(0, Vec::new())) };
    let (next, found) = scan(view.space, &meta, &asked)?;
    Ok(scan_reply(next, found.into_iter().flat_map(|(name, value)| [Reply::Bulk(name), Reply::Bulk(value)]).collect()))
}

fn hrandfield(view: &View<'_>, argv: &[Bytes]) -> Done {
    let (count, values) = match &argv[2..] {
        [] => (None, false),
        [count] => (Some(parse_integer(count)?), false),
        [count, word] if word.eq_ignore_ascii_case(b"WITHVALUES") => (Some(parse_integer(count)?), true),
        _ => return fail(SYNTAX),
    };
    if count.is_some_and(|count| !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&count)) {
        return fail("ERR value is out of range");
    }
    let nothing = if count.is_some() { Reply::Array(Vec::new()) } else { Reply::Nil };
    let Some(meta) = view.find_kind(&argv[1], Kind::Hash)? else { return Ok(nothing) };
    let picked = match count {
        None => repeated(view.space, &meta, &view.moment, 1)?,
        Some(count) if count < 0 => repeated(view.space, &meta, &view.moment, count.unsigned_abs())?,
        Some(count) => distinct(view.space, &meta, &view.moment, count.unsigned_abs())?,
    };
    if values {
        let pairs = picked.into_iter().map(|(name, value)| (Reply::Bulk(name), Reply::Bulk(value)));
        return Ok(Reply::Pairs(pairs.collect()));
    }
    let mut names = picked.into_iter().map(|(name, _)| Reply::Bulk(name));
    Ok(if count.is_none() { names.next().unwrap_or(nothing) } else { Reply::Array(names.collect()) })
}

fn hincrbyfloat(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_name("field", &argv[2])?;
    let amount = parse_float(&argv[3])?;
    if !amount.is_finite() {
        return fail("ERR value is NaN or Infinity");
    }
    let old = store.find_kind(&argv[1], Kind::Hash)?;
    let stored = match &old {
        Some(meta) => store.space.get(&meta.field(&argv[2]))?,
        None => None,
    };
    let value = match &stored {
        None => 0.0,
        Some(text) => match float_of(text) {
            Some(value) => value,
            None => return fail("ERR hash value is not a float"),
        },
    };
    let sum = value + amount;
    if !sum.is_finite() {
        return fail("ERR increment would produce NaN or Infinity");
    }
    let text = Bytes::from(plain_float_text(sum));
    put_field(store, argv, old, stored.is_none(), text.clone());
    Ok(Reply::Bulk(text))
}

/// Sets one field of a hash that may be new.
fn put_field(store: &mut Store<'_>, argv: &[Bytes], old: Option<Meta>, fresh: bool, value: Bytes) {
    let mut meta = old.unwrap_or_else(|| store.new_key(&argv[1], Kind::Hash));
    store.space.put(meta.field(&argv[2]), value);
    meta.count += u64::from(fresh);
    store.save(&argv[1], &meta);
}

pub(super) fn hincrby(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_name("field", &argv[2])?;
    let amount = parse_integer(&argv[3])?;
    let old = store.find_kind(&argv[1], Kind::Hash)?;
    let stored = match &old {
        Some(meta) => store.space.get(&meta.field(&argv[2]))?,
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
    put_field(store, argv, old, stored.is_none(), sum.to_string().into());
    Ok(Reply::Integer(sum))
}

//! Lists: a row for each element, at positions that grow to both sides from the middle.
//!
//! By design: what changes the middle of a list moves the elements of its shorter side, [`MOVES_MAX`] at most. Commands that may wait for
//! an element (BLPOP …) do not wait here: they answer that there is none, as within MULTI (the door waits).

use super::numbers::{clip, integer_of, parse_integer};
use super::store::{Kind, Meta, Store, View};
use super::table::{read, write, Entry};
use super::{fail, integer, Done, Fail, Gather, Reply, REPLY_BYTES_MAX, REPLY_ELEMENTS_MAX, SYNTAX};
use base_engine::{Direction, EngineError, KeyRange};
use base_types::mutant::{planted, Mutant};
use bytes::Bytes;
use std::ops::ControlFlow;

/// Elements that one command moves or looks at, at most.
const MOVES_MAX: u64 = 100_000;
const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("lpush", lpush),
    write("rpush", rpush),
    write("lpushx", lpushx),
    write("rpushx", rpushx),
    write("lpop", lpop),
    write("rpop", rpop),
    write("lset", lset),
    write("linsert", linsert),
    write("lrem", lrem),
    write("ltrim", ltrim),
    write("lmove", lmove),
    write("rpoplpush", rpoplpush),
    write("lmpop", lmpop),
    write("blpop", blpop),
    write("brpop", brpop),
    write("blmove", blmove),
    write("brpoplpush", brpoplpush),
    write("blmpop", blmpop),
    read("llen", llen),
    read("lrange", lrange),
    read("lindex", lindex),
    read("lpos", lpos),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Left,
    Right,
}

impl End {
    fn parse(word: &[u8]) -> Result<End, Fail> {
        match &word.to_ascii_uppercase()[..] {
            b"LEFT" => Ok(End::Left),
            b"RIGHT" => Ok(End::Right),
            _ => fail(SYNTAX),
        }
    }
}

fn position(meta: &Meta, index: u64) -> Bytes {
    meta.element(&meta.head.wrapping_add(index).to_be_bytes())
}

pub(super) fn lpush(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let meta = store.find_or_new(&argv[1], Kind::List)?;
    push(store, argv, meta, End::Left)
}

pub(super) fn rpush(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let meta = store.find_or_new(&argv[1], Kind::List)?;
    push(store, argv, meta, End::Right)
}

fn lpushx(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    match store.find_kind(&argv[1], Kind::List)? {
        Some(meta) => push(store, argv, meta, End::Left),
        None => Ok(integer(0)),
    }
}

fn rpushx(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    match store.find_kind(&argv[1], Kind::List)? {
        Some(meta) => push(store, argv, meta, End::Right),
        None => Ok(integer(0)),
    }
}

fn push(store: &mut Store<'_>, argv: &[Bytes], mut meta: Meta, end: End) -> Done {
    for value in &argv[2..] {
        add(store, &mut meta, end, value.clone());
    }
    store.save(&argv[1], &meta);
    Ok(integer(meta.count as usize))
}

/// 2^63 pushes to one side are out of reach: positions never wrap.
fn add(store: &mut Store<'_>, meta: &mut Meta, end: End, value: Bytes) {
    if end == End::Left {
        meta.head -= 1;
    }
    let at = if end == End::Left { 0 } else { meta.count };
    store.space.put(position(meta, at), value);
    meta.count += 1;
}

pub(super) fn lpop(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    pop("lpop", store, argv, End::Left)
}

pub(super) fn rpop(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    pop("rpop", store, argv, End::Right)
}

fn pop(name: &str, store: &mut Store<'_>, argv: &[Bytes], end: End) -> Done {
    let count = pop_count(name, argv)?;
    let nothing = if count.is_some() { Reply::NilArray } else { Reply::Nil };
    let Some(mut meta) = store.find_kind(&argv[1], Kind::List)? else { return Ok(nothing) };
    let Some(wanted) = count else {
        let value = take(store, &mut meta, end)?;
        store.save(&argv[1], &meta);
        return Ok(Reply::Bulk(value));
    };
    Ok(Reply::Array(take_some(store, &argv[1], &mut meta, end, wanted)?))
}

/// Takes up to `wanted` from an end. A count beyond the bounds of a reply takes what fits: nothing is lost, the rest stays.
fn take_some(
    store: &mut Store<'_>,
    key: &[u8],
    meta: &mut Meta,
    end: End,
    wanted: u64,
) -> Result<Vec<Reply>, EngineError> {
    let (mut values, mut bytes) = (Vec::new(), 0);
    while (values.len() as u64) < wanted
        && meta.count > 0
        && values.len() < REPLY_ELEMENTS_MAX
        && bytes < REPLY_BYTES_MAX
    {
        let value = take(store, meta, end)?;
        bytes += value.len();
        values.push(Reply::Bulk(value));
    }
    if !values.is_empty() {
        store.save(key, meta);
    }
    Ok(values)
}

fn pop_count(name: &str, argv: &[Bytes]) -> Result<Option<u64>, Fail> {
    match argv {
        [_, _] => Ok(None),
        [_, _, count] => match integer_of(count).and_then(|count| u64::try_from(count).ok()) {
            Some(count) => Ok(Some(count)),
            None => fail(NOT_POSITIVE),
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
    if meta.count == 1 && planted(Mutant::RedisPoppedStays) {
        return Ok(value);
    }
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

/// The place that an index means; none: there is none.
fn place(meta: &Meta, index: i64) -> Option<u64> {
    let index = if index < 0 { index.saturating_add(meta.count as i64) } else { index };
    u64::try_from(index).ok().filter(|index| *index < meta.count)
}

pub(super) fn lindex(view: &View<'_>, argv: &[Bytes]) -> Done {
    let index = parse_integer(&argv[2])?;
    let Some(meta) = view.find_kind(&argv[1], Kind::List)? else { return Ok(Reply::Nil) };
    match place(&meta, index) {
        Some(index) => Ok(view.space.get(&position(&meta, index))?.map_or(Reply::Nil, Reply::Bulk)),
        None => Ok(Reply::Nil),
    }
}

fn lset(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let Some(meta) = store.find_kind(&argv[1], Kind::List)? else { return fail("ERR no such key") };
    let Some(index) = place(&meta, parse_integer(&argv[2])?) else { return fail("ERR index out of range") };
    store.space.put(position(&meta, index), argv[3].clone());
    store.save(&argv[1], &meta);
    Ok(Reply::Ok)
}

/// The elements from one place to before another, within the bound.
fn read_between(store: &Store<'_>, meta: &Meta, from: u64, to: u64) -> Result<Vec<Bytes>, Fail> {
    if to.saturating_sub(from) > MOVES_MAX {
        return fail(format!("ERR the command would move more than {MOVES_MAX} elements"));
    }
    let (start, end) = (position(meta, from), position(meta, to));
    let limit = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let (rows, _) = crate::rows::page(&*store.space, &start, Some(&end), Direction::Forward, limit)?;
    Ok(rows.into_iter().map(|(_, value)| value).collect())
}

fn linsert(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let after = match &argv[2].to_ascii_uppercase()[..] {
        b"BEFORE" => 0,
        b"AFTER" => 1,
        _ => return fail(SYNTAX),
    };
    let Some(mut meta) = store.find_kind(&argv[1], Kind::List)? else { return Ok(integer(0)) };
    let found = find_all(&store.view(), &meta, &argv[3], Search { rank: 1, count: 1, most: MOVES_MAX })?;
    let Some(pivot) = found.first() else {
        if meta.count > MOVES_MAX {
            return fail(format!("ERR the element is not among the first {MOVES_MAX}"));
        }
        return Ok(Reply::Integer(-1));
    };
    let at = pivot + after;
    let values = if at <= meta.count / 2 {
        let before = read_between(store, &meta, 0, at)?;
        meta.head -= 1;
        before.into_iter().chain([argv[4].clone()]).zip(0..).collect::<Vec<_>>()
    } else {
        let behind = read_between(store, &meta, at, meta.count)?;
        [argv[4].clone()].into_iter().chain(behind).zip(at..).collect()
    };
    meta.count += 1;
    for (value, at) in values {
        store.space.put(position(&meta, at), value);
    }
    store.save(&argv[1], &meta);
    Ok(integer(meta.count as usize))
}

fn lrem(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let count = parse_integer(&argv[2])?;
    let Some(mut meta) = store.find_kind(&argv[1], Kind::List)? else { return Ok(integer(0)) };
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let all = read_between(store, &meta, 0, meta.count)?;
    let is_gone = |(at, value): (usize, &Bytes)| (*value == argv[3]).then_some(at);
    let matching: Vec<usize> = all.iter().enumerate().filter_map(is_gone).collect();
    let take = usize::try_from(most).unwrap_or(usize::MAX).min(matching.len());
    let gone = if count < 0 { &matching[matching.len() - take..] } else { &matching[..take] };
    let Some(first) = gone.first() else { return Ok(integer(0)) };
    let mut gone_at = gone.iter().peekable();
    let kept = all.iter().enumerate().filter(|(at, _)| gone_at.next_if(|gone| *gone == at).is_none());
    for (to, (from, value)) in kept.enumerate().skip(*first) {
        if to != from {
            store.space.put(position(&meta, to as u64), value.clone());
        }
    }
    let left = meta.count - gone.len() as u64;
    for at in left..meta.count {
        store.space.delete(position(&meta, at));
    }
    meta.count = left;
    store.save(&argv[1], &meta);
    Ok(integer(gone.len()))
}

fn ltrim(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let (start, stop) = (parse_integer(&argv[2])?, parse_integer(&argv[3])?);
    let Some(mut meta) = store.find_kind(&argv[1], Kind::List)? else { return Ok(Reply::Ok) };
    let Some((first, last)) = clip(start, stop, meta.count) else {
        store.remove(&argv[1], &meta);
        return Ok(Reply::Ok);
    };
    let cut = meta.count - (last - first + 1);
    if cut > MOVES_MAX {
        return fail(format!("ERR the command would remove more than {MOVES_MAX} elements; trim in parts"));
    }
    for at in (0..first).chain(last + 1..meta.count) {
        store.space.delete(position(&meta, at));
    }
    (meta.head, meta.count) = (meta.head + first, last - first + 1);
    store.save(&argv[1], &meta);
    Ok(Reply::Ok)
}

/// Which of equal elements are looked for.
struct Search {
    /// The first is 1; negative: from the end.
    rank: i64,
    /// 0: all.
    count: u64,
    /// How many elements are looked at.
    most: u64,
}

/// The places of an element, in the order of the search.
fn find_all(view: &View<'_>, meta: &Meta, wanted: &Bytes, search: Search) -> Result<Vec<u64>, Fail> {
    let (start, end) = (position(meta, 0), position(meta, meta.count));
    let back = search.rank < 0;
    let direction = if back { Direction::Backward } else { Direction::Forward };
    let (mut found, mut skip, mut looked) = (Vec::new(), search.rank.unsigned_abs().saturating_sub(1), 0);
    view.space.range(KeyRange { start: &start, end: Some(&end) }, direction, &mut |_, value| {
        if looked == search.most || found.len() >= REPLY_ELEMENTS_MAX {
            return ControlFlow::Break(());
        }
        let at = if back { meta.count - 1 - looked } else { looked };
        looked += 1;
        if value == &wanted[..] {
            if skip > 0 {
                skip -= 1;
            } else {
                found.push(at);
            }
        }
        match search.count > 0 && found.len() as u64 == search.count {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    Ok(found)
}

fn lpos(view: &View<'_>, argv: &[Bytes]) -> Done {
    let (mut rank, mut count, mut most) = (1, None, 0);
    for pair in argv[3..].chunks(2) {
        let [word, value] = pair else { return fail(SYNTAX) };
        let number = integer_of(value);
        match &word.to_ascii_uppercase()[..] {
            b"RANK" => match number {
                Some(0) => {
                    return fail("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list")
                }
                Some(i64::MIN) => return fail("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"),
                Some(number) => rank = number,
                None => return fail(super::NOT_AN_INTEGER),
            },
            b"COUNT" => match number.and_then(|number| u64::try_from(number).ok()) {
                Some(number) => count = Some(number),
                None => return fail("ERR COUNT can't be negative"),
            },
            b"MAXLEN" => match number.and_then(|number| u64::try_from(number).ok()) {
                Some(number) => most = number,
                None => return fail("ERR MAXLEN can't be negative"),
            },
            _ => return fail(SYNTAX),
        }
    }
    let nothing = if count.is_some() { Reply::Array(Vec::new()) } else { Reply::Nil };
    let Some(meta) = view.find_kind(&argv[1], Kind::List)? else { return Ok(nothing) };
    let most = if most == 0 { u64::MAX } else { most };
    let found = find_all(view, &meta, &argv[2], Search { rank, count: count.unwrap_or(1), most })?;
    let mut found = found.into_iter().map(|at| Reply::Integer(at as i64));
    Ok(if count.is_some() { Reply::Array(found.collect()) } else { found.next().unwrap_or(Reply::Nil) })
}

fn lmove(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let (from, to) = (End::parse(&argv[3])?, End::parse(&argv[4])?);
    shift(store, &argv[1], &argv[2], (from, to))
}

fn rpoplpush(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    shift(store, &argv[1], &argv[2], (End::Right, End::Left))
}

/// Takes an element of a list and gives it to another, or to the same.
fn shift(store: &mut Store<'_>, source: &Bytes, target: &Bytes, ends: (End, End)) -> Done {
    super::store::check_name("key", target)?;
    let Some(mut from) = store.find_kind(source, Kind::List)? else { return Ok(Reply::Nil) };
    if source == target {
        let value = take(store, &mut from, ends.0)?;
        add(store, &mut from, ends.1, value.clone());
        store.save(source, &from);
        return Ok(Reply::Bulk(value));
    }
    let to = store.find_kind(target, Kind::List)?;
    let value = take(store, &mut from, ends.0)?;
    store.save(source, &from);
    let mut to = to.unwrap_or_else(|| store.new_key(target, Kind::List));
    add(store, &mut to, ends.1, value.clone());
    store.save(target, &to);
    Ok(Reply::Bulk(value))
}

fn lmpop(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    pop_first(store, &argv[1..])
}

/// `numkeys key … LEFT|RIGHT [COUNT n]`
fn pop_first(store: &mut Store<'_>, words: &[Bytes]) -> Done {
    let count = integer_of(&words[0]).filter(|count| *count > 0).and_then(|count| usize::try_from(count).ok());
    let Some(count) = count else { return fail("ERR numkeys should be greater than 0") };
    let Some((keys, rest)) = words[1..].split_at_checked(count) else { return fail(SYNTAX) };
    let (end, wanted) = match rest {
        [end] => (End::parse(end)?, 1),
        [end, word, wanted] if word.eq_ignore_ascii_case(b"COUNT") => {
            let wanted = integer_of(wanted).filter(|wanted| *wanted > 0);
            let Some(wanted) = wanted else { return fail("ERR count should be greater than 0") };
            (End::parse(end)?, wanted.unsigned_abs())
        }
        _ => return fail(SYNTAX),
    };
    for key in keys {
        if let Some(mut meta) = store.find_kind(key, Kind::List)? {
            let values = take_some(store, key, &mut meta, end, wanted)?;
            return Ok(Reply::Array(vec![Reply::Bulk(key.clone()), Reply::Array(values)]));
        }
    }
    Ok(Reply::NilArray)
}

/// A timeout in seconds, which only the door goes by.
pub(super) fn check_timeout(word: &[u8]) -> Result<(), Fail> {
    match super::numbers::float_of(word) {
        Some(seconds) if seconds < 0.0 => fail("ERR timeout is negative"),
        Some(seconds) if seconds.is_finite() && seconds < 9.2e15 => Ok(()),
        Some(_) => fail("ERR timeout is out of range"),
        None => fail("ERR timeout is not a float or out of range"),
    }
}

fn blpop(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    pop_of(store, argv, End::Left)
}

fn brpop(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    pop_of(store, argv, End::Right)
}

fn pop_of(store: &mut Store<'_>, argv: &[Bytes], end: End) -> Done {
    let (timeout, keys) = (&argv[argv.len() - 1], &argv[1..argv.len() - 1]);
    check_timeout(timeout)?;
    for key in keys {
        if let Some(mut meta) = store.find_kind(key, Kind::List)? {
            let value = take(store, &mut meta, end)?;
            store.save(key, &meta);
            return Ok(Reply::Array(vec![Reply::Bulk(key.clone()), Reply::Bulk(value)]));
        }
    }
    Ok(Reply::NilArray)
}

fn blmove(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let (from, to) = (End::parse(&argv[3])?, End::parse(&argv[4])?);
    check_timeout(&argv[5])?;
    shift(store, &argv[1], &argv[2], (from, to))
}

fn brpoplpush(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_timeout(&argv[3])?;
    shift(store, &argv[1], &argv[2], (End::Right, End::Left))
}

fn blmpop(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_timeout(&argv[1])?;
    pop_first(store, &argv[2..])
}

//! Sorted sets: for each member a row with its score, and a row that keeps the order.

use super::numbers::{clip, float_of, float_text, from_sortable, parse_float, parse_integer, sortable};
use super::store::{check_name, Kind, Meta, Store, View, ORDER_AT};
use super::table::{read, write, Entry};
use super::{fail, integer, Done, Fail, Gather, Reply, SYNTAX};
use crate::rows::prefix_end;
use base_engine::{Direction, EngineError, KeyRange};
use bytes::Bytes;
use std::ops::ControlFlow;

/// What this file answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("zadd", zadd),
    write("zrem", zrem),
    read("zscore", zscore),
    read("zrange", zrange),
    read("zrangebyscore", zrangebyscore),
    read("zcard", zcard),
    write("zincrby", zincrby),
];

const MIN_OR_MAX: &str = "ERR min or max is not a float";
const NAN: &str = "ERR resulting score is not a number (NaN)";

fn score_of(row: &[u8]) -> Result<f64, EngineError> {
    match <[u8; 8]>::try_from(row) {
        Ok(bytes) => Ok(f64::from_bits(u64::from_be_bytes(bytes))),
        Err(_) => Err(EngineError::Corrupt(format!("a sorted set's score is {} bytes long; expected 8", row.len()))),
    }
}

/// Sets a member's score, whether it was there or not.
fn place(store: &mut Store<'_>, meta: &mut Meta, member: &[u8], old: Option<f64>, score: f64) {
    // One zero: 0 and -0 must not be two rows.
    let score = if score == 0.0 { 0.0 } else { score };
    match old {
        Some(old) => store.space.delete(meta.order(sortable(old), member)),
        None => meta.count += 1,
    }
    store.space.put(meta.element(member), Bytes::copy_from_slice(&score.to_bits().to_be_bytes()));
    store.space.put(meta.order(sortable(score), member), Bytes::new());
}

#[derive(Default)]
struct AddOptions {
    if_absent: bool,
    if_present: bool,
    greater: bool,
    less: bool,
    changed: bool,
    increment: bool,
}

fn add_options(words: &[Bytes]) -> (AddOptions, usize) {
    let mut options = AddOptions::default();
    for (taken, word) in words.iter().enumerate() {
        match &word.to_ascii_uppercase()[..] {
            b"NX" => options.if_absent = true,
            b"XX" => options.if_present = true,
            b"GT" => options.greater = true,
            b"LT" => options.less = true,
            b"CH" => options.changed = true,
            b"INCR" => options.increment = true,
            _ => return (options, taken),
        }
    }
    (options, words.len())
}

impl AddOptions {
    fn check(&self, pairs: usize) -> Result<(), Fail> {
        if self.if_absent && self.if_present {
            return fail("ERR XX and NX options at the same time are not compatible");
        }
        if (self.greater && self.less) || (self.if_absent && (self.greater || self.less)) {
            return fail("ERR GT, LT, and/or NX options at the same time are not compatible");
        }
        if self.increment && pairs > 1 {
            return fail("ERR INCR option supports a single increment-element pair");
        }
        Ok(())
    }

    /// The score a member gets, or that it stays as it is.
    fn decide(&self, old: Option<f64>, given: f64) -> Result<Option<f64>, Fail> {
        let Some(old) = old else { return Ok((!self.if_present).then_some(given)) };
        if self.if_absent {
            return Ok(None);
        }
        let score = if self.increment { old + given } else { given };
        if score.is_nan() {
            return fail(NAN);
        }
        let barred = (self.greater && score <= old) || (self.less && score >= old);
        Ok((!barred).then_some(score))
    }
}

pub(super) fn zadd(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let (options, taken) = add_options(&argv[2..]);
    let pairs = &argv[2 + taken..];
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return fail(SYNTAX);
    }
    options.check(pairs.len() / 2)?;
    let mut scores = Vec::with_capacity(pairs.len() / 2);
    for pair in pairs.chunks_exact(2) {
        check_name("member", &pair[1])?;
        scores.push((parse_float(&pair[0])?, &pair[1]));
    }
    add(store, &argv[1], &options, &scores)
}

fn add(store: &mut Store<'_>, key: &[u8], options: &AddOptions, scores: &[(f64, &Bytes)]) -> Done {
    let mut meta = match store.find_kind(key, Kind::Sorted)? {
        Some(meta) => meta,
        None if options.if_present => return Ok(if options.increment { Reply::Nil } else { integer(0) }),
        None => store.new_key(key, Kind::Sorted),
    };
    let (mut added, mut moved, mut last) = (0, 0, None);
    for (given, member) in scores {
        let old = store.space.get(&meta.element(member))?.map(|row| score_of(&row)).transpose()?;
        // Only INCR can fail here, and it has one pair: nothing is done yet.
        last = options.decide(old, *given)?;
        let Some(score) = last else { continue };
        added += usize::from(old.is_none());
        moved += usize::from(old.is_some_and(|old| old != score));
        if old != Some(score) {
            place(store, &mut meta, member, old, score);
        }
    }
    if added > 0 || meta.count == 0 {
        store.save(key, &meta);
    }
    if options.increment {
        return Ok(last.map_or(Reply::Nil, |score| Reply::Bulk(float_text(score).into())));
    }
    Ok(integer(if options.changed { added + moved } else { added }))
}

pub(super) fn zincrby(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_name("member", &argv[3])?;
    let options = AddOptions { increment: true, ..AddOptions::default() };
    let amount = parse_float(&argv[2])?;
    add(store, &argv[1], &options, &[(amount, &argv[3])])
}

pub(super) fn zrem(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let Some(mut meta) = store.find_kind(&argv[1], Kind::Sorted)? else { return Ok(integer(0)) };
    let before = meta.count;
    for member in &argv[2..] {
        let row = meta.element(member);
        if let Some(score) = store.space.get(&row)? {
            store.space.delete(meta.order(sortable(score_of(&score)?), member));
            store.space.delete(row);
            meta.count -= 1;
        }
    }
    if meta.count != before {
        store.save(&argv[1], &meta);
    }
    Ok(integer((before - meta.count) as usize))
}

pub(super) fn zscore(view: &View<'_>, argv: &[Bytes]) -> Done {
    let Some(meta) = view.find_kind(&argv[1], Kind::Sorted)? else { return Ok(Reply::Nil) };
    match view.space.get(&meta.element(&argv[2]))? {
        Some(row) => Ok(Reply::Bulk(float_text(score_of(&row)?).into())),
        None => Ok(Reply::Nil),
    }
}

pub(super) fn zcard(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(integer(view.find_kind(&argv[1], Kind::Sorted)?.map_or(0, |meta| meta.count as usize)))
}

#[derive(Default)]
struct RangeOptions {
    by_score: bool,
    reverse: bool,
    scores: bool,
    limit: Option<(i64, i64)>,
}

fn range_options(words: &[Bytes], by_score: bool) -> Result<RangeOptions, Fail> {
    let mut options = RangeOptions { by_score, ..RangeOptions::default() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match &word.to_ascii_uppercase()[..] {
            b"BYSCORE" if !by_score => options.by_score = true,
            b"REV" if !by_score => options.reverse = true,
            b"WITHSCORES" => options.scores = true,
            b"LIMIT" => match (words.next(), words.next()) {
                (Some(offset), Some(count)) => options.limit = Some((parse_integer(offset)?, parse_integer(count)?)),
                _ => return fail(SYNTAX),
            },
            _ => return fail(SYNTAX),
        }
    }
    if options.limit.is_some() && !options.by_score {
        return fail("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
    }
    Ok(options)
}

pub(super) fn zrange(view: &View<'_>, argv: &[Bytes]) -> Done {
    let options = range_options(&argv[4..], false)?;
    if options.by_score {
        return by_score(view, argv, &options);
    }
    let (start, stop) = (parse_integer(&argv[2])?, parse_integer(&argv[3])?);
    let Some(meta) = view.find_kind(&argv[1], Kind::Sorted)? else { return Ok(Reply::Array(Vec::new())) };
    let Some((first, last)) = clip(start, stop, meta.count) else { return Ok(Reply::Array(Vec::new())) };
    let whole = order_range(&meta, 0, None);
    // Walk from the nearer end; ranks before the range are passed over one by one.
    let behind = meta.count - 1 - last;
    if first <= behind {
        walk(view, &whole, options.reverse, first, last - first + 1, options.scores)
    } else {
        let reply = walk(view, &whole, !options.reverse, behind, last - first + 1, options.scores)?;
        Ok(turned(reply, options.scores))
    }
}

/// Reverses the order of members. Each keeps its score after itself.
fn turned(reply: Reply, scores: bool) -> Reply {
    let Reply::Array(mut items) = reply else { return reply };
    items.reverse();
    if scores {
        items.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
    }
    Reply::Array(items)
}

pub(super) fn zrangebyscore(view: &View<'_>, argv: &[Bytes]) -> Done {
    by_score(view, argv, &range_options(&argv[4..], true)?)
}

fn by_score(view: &View<'_>, argv: &[Bytes], options: &RangeOptions) -> Done {
    let (low, high) = if options.reverse { (&argv[3], &argv[2]) } else { (&argv[2], &argv[3]) };
    let (from, to) = (bound(low, true)?, bound(high, false)?);
    let (offset, count) = options.limit.unwrap_or((0, -1));
    let Some(meta) = view.find_kind(&argv[1], Kind::Sorted)? else { return Ok(Reply::Array(Vec::new())) };
    let Ok(offset) = u64::try_from(offset) else { return Ok(Reply::Array(Vec::new())) };
    // A negative count: all of them.
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    walk(view, &order_range(&meta, from, Some(to)), options.reverse, offset, count, options.scores)
}

/// `(1.5` excludes, `1.5` includes. As the first sortable score inside (low) or behind (high).
fn bound(text: &[u8], low: bool) -> Result<u64, Fail> {
    let (excluded, number) = match text {
        [b'(', number @ ..] => (true, number),
        number => (false, number),
    };
    let Some(score) = float_of(number) else { return fail(MIN_OR_MAX) };
    // No sortable score is u64::MAX: that would be a NaN.
    Ok(sortable(score) + u64::from(excluded == low))
}

/// First row and first row behind.
fn order_range(meta: &Meta, from: u64, to: Option<u64>) -> (Bytes, Option<Bytes>) {
    let start = meta.order(from, &[]);
    let end = match to {
        Some(to) => Some(meta.order(to, &[])),
        None => prefix_end(&start[..ORDER_AT - 8]).map(Bytes::from),
    };
    (start, end)
}

fn walk(view: &View<'_>, range: &(Bytes, Option<Bytes>), reverse: bool, skip: u64, count: u64, scores: bool) -> Done {
    let mut out = Gather::default();
    let (mut skip, mut count) = (skip, count);
    let direction = if reverse { Direction::Backward } else { Direction::Forward };
    if count == 0 || range.1.as_ref().is_some_and(|end| *end <= range.0) {
        return out.done();
    }
    let mut visit = |row: &[u8], _: &[u8]| {
        if skip > 0 {
            skip -= 1;
            return ControlFlow::Continue(());
        }
        count -= 1;
        let score = row[ORDER_AT - 8..ORDER_AT].try_into().map(u64::from_be_bytes).unwrap_or_default();
        let fits = out.push(&row[ORDER_AT..]) && (!scores || out.push(float_text(from_sortable(score)).as_bytes()));
        if fits && count > 0 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    view.space.range(KeyRange { start: &range.0, end: range.1.as_deref() }, direction, &mut visit)?;
    out.done()
}

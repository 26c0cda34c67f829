//! Sorted sets: for each member a row with its score, and a row that keeps the order.
//!
//! By design: ranges by score and by name begin at their rows; a rank is found by walking from the nearer end.

pub(super) mod combine;
pub(super) mod pick;
pub(super) mod pop;
pub(super) mod range;

use super::numbers::{float_text, parse_float, sortable};
use super::store::{check_name, Kind, Meta, Store, View};
use super::table::{read, write, Entry};
use super::{fail, integer, Done, Fail, Reply, SYNTAX};
use base_engine::EngineError;
use bytes::Bytes;

/// What this room answers.
pub(super) const COMMANDS: &[Entry] = &[
    write("zadd", zadd),
    write("zincrby", zincrby),
    write("zrem", zrem),
    read("zscore", zscore),
    read("zmscore", zmscore),
    read("zcard", zcard),
    read("zrandmember", pick::zrandmember),
    read("zscan", pick::zscan),
    read("zcount", range::zcount),
    read("zlexcount", range::zlexcount),
    read("zrank", range::zrank),
    read("zrevrank", range::zrevrank),
    read("zrange", range::zrange),
    read("zrevrange", range::zrevrange),
    read("zrangebyscore", range::zrangebyscore),
    read("zrevrangebyscore", range::zrevrangebyscore),
    read("zrangebylex", range::zrangebylex),
    read("zrevrangebylex", range::zrevrangebylex),
    write("zrangestore", range::zrangestore),
    write("zremrangebyrank", range::zremrangebyrank),
    write("zremrangebyscore", range::zremrangebyscore),
    write("zremrangebylex", range::zremrangebylex),
    write("zpopmin", pop::zpopmin),
    write("zpopmax", pop::zpopmax),
    write("zmpop", pop::zmpop),
    write("bzpopmin", pop::bzpopmin),
    write("bzpopmax", pop::bzpopmax),
    write("bzmpop", pop::bzmpop),
    read("zunion", combine::zunion),
    read("zinter", combine::zinter),
    read("zdiff", combine::zdiff),
    read("zintercard", combine::zintercard),
    write("zunionstore", combine::zunionstore),
    write("zinterstore", combine::zinterstore),
    write("zdiffstore", combine::zdiffstore),
];

const NAN: &str = "ERR resulting score is not a number (NaN)";

pub(super) fn score_of(row: &[u8]) -> Result<f64, EngineError> {
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
    store.space.put(meta.field(member), Bytes::copy_from_slice(&score.to_bits().to_be_bytes()));
    store.space.put(meta.order(sortable(score), member), Bytes::new());
}

#[derive(Default)]
pub(super) struct AddOptions {
    pub if_absent: bool,
    pub if_present: bool,
    greater: bool,
    less: bool,
    /// Those that have changed are counted, too.
    pub changed: bool,
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

/// Gives members their scores.
pub(super) fn add(store: &mut Store<'_>, key: &[u8], options: &AddOptions, scores: &[(f64, &Bytes)]) -> Done {
    let mut meta = match store.find_kind(key, Kind::Sorted)? {
        Some(meta) => meta,
        None if options.if_present => return Ok(if options.increment { Reply::Nil } else { integer(0) }),
        None => store.new_key(key, Kind::Sorted),
    };
    let (mut added, mut moved, mut last) = (0, 0, None);
    for (given, member) in scores {
        let old = store.space.get(&meta.field(member))?.map(|row| score_of(&row)).transpose()?;
        // Only INCR can fail here, and it has one pair: nothing is done yet.
        last = options.decide(old, *given)?;
        let Some(score) = last else { continue };
        added += usize::from(old.is_none());
        moved += usize::from(old.is_some_and(|old| old != score));
        if old != Some(score) {
            place(store, &mut meta, member, old, score);
        }
    }
    if added + moved > 0 || meta.count == 0 {
        store.save(key, &meta);
    }
    if options.increment {
        return Ok(last.map_or(Reply::Nil, double));
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
        let row = meta.field(member);
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
    match view.space.get(&meta.field(&argv[2]))? {
        Some(row) => Ok(double(score_of(&row)?)),
        None => Ok(Reply::Nil),
    }
}

fn zmscore(view: &View<'_>, argv: &[Bytes]) -> Done {
    let meta = view.find_kind(&argv[1], Kind::Sorted)?;
    let score = |member: &Bytes| match &meta {
        Some(meta) => Ok(view.space.get(&meta.field(member))?.map(|row| score_of(&row)).transpose()?),
        None => Ok(None),
    };
    let scores = argv[2..].iter().map(score).collect::<Result<Vec<Option<f64>>, Fail>>()?;
    Ok(Reply::Array(scores.into_iter().map(|score| score.map_or(Reply::Nil, double)).collect()))
}

/// Sets a member's score in a set that is being made.
pub(super) fn place_new(store: &mut Store<'_>, meta: &mut Meta, member: &[u8], score: f64) {
    place(store, meta, member, None, score);
}

/// Removes members of which the scores are known.
pub(super) fn remove_all(store: &mut Store<'_>, key: &[u8], meta: &mut Meta, members: &[(Bytes, f64)]) {
    for (member, score) in members {
        store.space.delete(meta.order(sortable(*score), member));
        store.space.delete(meta.field(member));
        meta.count -= 1;
    }
    if !members.is_empty() {
        store.save(key, meta);
    }
}

/// A score as a reply.
pub(super) fn double(score: f64) -> Reply {
    Reply::Double(float_text(score).into())
}

/// Members, with their scores where they are wanted.
pub(super) fn reply_of(members: Vec<(Bytes, f64)>, scores: bool) -> Reply {
    if scores {
        return Reply::Pairs(members.into_iter().map(|(member, score)| (Reply::Bulk(member), double(score))).collect());
    }
    Reply::Array(members.into_iter().map(|(member, _)| Reply::Bulk(member)).collect())
}

/// Makes a key a sorted set of these members, whatever it was; gives how many there are.
pub(super) fn put_whole(store: &mut Store<'_>, key: &Bytes, members: &[(Bytes, f64)]) -> Done {
    if let Some(old) = store.find(key)? {
        store.remove(key, &old);
    }
    if members.is_empty() {
        return Ok(integer(0));
    }
    let mut meta = store.new_key(key, Kind::Sorted);
    for (member, score) in members {
        place_new(store, &mut meta, member, *score);
    }
    store.save(key, &meta);
    Ok(integer(members.len()))
}

pub(super) fn zcard(view: &View<'_>, argv: &[Bytes]) -> Done {
    Ok(integer(view.find_kind(&argv[1], Kind::Sorted)?.map_or(0, |meta| meta.count as usize)))
}

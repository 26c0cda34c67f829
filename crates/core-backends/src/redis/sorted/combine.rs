//! ZUNION, ZINTER, ZDIFF, and what stores or counts them. Sets take part with a score of 1 for each member.
//!
//! By design: members are gathered in memory, as many as one reply may have.

use super::super::elements;
use super::super::numbers::{float_of, integer_of, sortable};
use super::super::store::{check_name, Kind, Meta, Store, View};
use super::super::{fail, integer, Done, Fail, REPLY_ELEMENTS_MAX, SYNTAX, WRONG_TYPE};
use super::{put_whole, reply_of, score_of};
use bytes::Bytes;
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Union,
    Inter,
    Diff,
}

#[derive(Clone, Copy, Default)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // Of two infinities of different signs the sum is 0, as in Redis.
            Aggregate::Sum => Some(one + other).filter(|sum| !sum.is_nan()).unwrap_or(0.0),
            Aggregate::Min => one.min(other),
            Aggregate::Max => one.max(other),
        }
    }
}

/// `numkeys key … [WEIGHTS …] [AGGREGATE …] [WITHSCORES]`
struct Asked {
    keys: Vec<Bytes>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    scores: bool,
}

fn asked(name: &str, words: &[Bytes], how: How, stores: bool) -> Result<Asked, Fail> {
    let Some(count) = integer_of(&words[0]) else { return fail(super::super::NOT_AN_INTEGER) };
    let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
        return fail(format!("ERR at least 1 input key is needed for '{name}' command"));
    };
    let Some((keys, rest)) = words[1..].split_at_checked(count) else { return fail(SYNTAX) };
    let mut asked = Asked { keys: keys.to_vec(), weights: vec![1.0; count], aggregate: Aggregate::Sum, scores: false };
    let mut at = 0;
    while at < rest.len() {
        match &rest[at].to_ascii_uppercase()[..] {
            b"WEIGHTS" if how != How::Diff => {
                let Some(weights) = rest.get(at + 1..at + 1 + count) else { return fail(SYNTAX) };
                for (weight, word) in asked.weights.iter_mut().zip(weights) {
                    let Some(number) = float_of(word) else { return fail("ERR weight value is not a float") };
                    *weight = number;
                }
                at += 1 + count;
            }
            b"AGGREGATE" if how != How::Diff => {
                asked.aggregate = match rest.get(at + 1).map(|word| word.to_ascii_uppercase()).as_deref() {
                    Some(b"SUM") => Aggregate::Sum,
                    Some(b"MIN") => Aggregate::Min,
                    Some(b"MAX") => Aggregate::Max,
                    _ => return fail(SYNTAX),
                };
                at += 2;
            }
            b"WITHSCORES" if !stores => {
                asked.scores = true;
                at += 1;
            }
            _ => return fail(SYNTAX),
        }
    }
    Ok(asked)
}

/// A set of either kind.
fn find_set(view: &View<'_>, key: &[u8]) -> Result<Option<Meta>, Fail> {
    match view.find(key)? {
        Some(meta) if !matches!(meta.kind, Kind::Sorted | Kind::Set) => fail(WRONG_TYPE),
        found => Ok(found),
    }
}

fn score(meta: &Meta, row: &[u8]) -> Result<f64, Fail> {
    Ok(if meta.kind == Kind::Set { 1.0 } else { score_of(row)? })
}

fn weighted(score: f64, weight: f64) -> f64 {
    Some(score * weight).filter(|score| !score.is_nan()).unwrap_or(0.0)
}

/// What the sets come to, at most `limit` of an intersection, by score and name.
fn combine(view: &View<'_>, asked: &Asked, how: How, limit: usize) -> Result<Vec<(Bytes, f64)>, Fail> {
    let sets = asked.keys.iter().map(|key| find_set(view, key)).collect::<Result<Vec<_>, _>>()?;
    let mut found: BTreeMap<Bytes, f64> = BTreeMap::new();
    let of = |meta: &Meta, member: &Bytes| -> Result<Option<f64>, Fail> {
        view.space.get(&meta.field(member))?.map(|row| score(meta, &row)).transpose()
    };
    match how {
        How::Union => {
            for (meta, weight) in
                sets.iter().zip(&asked.weights).filter_map(|(meta, weight)| Some((meta.as_ref()?, weight)))
            {
                for (member, row) in elements::all(view.space, meta)? {
                    let score = weighted(score(meta, &row)?, *weight);
                    found.entry(member).and_modify(|known| *known = asked.aggregate.of(*known, score)).or_insert(score);
                }
                if found.len() > REPLY_ELEMENTS_MAX {
                    return fail(format!("ERR the union has more than {REPLY_ELEMENTS_MAX} members"));
                }
            }
        }
        How::Inter => {
            let Some(sets) = sets.into_iter().collect::<Option<Vec<Meta>>>() else { return Ok(Vec::new()) };
            let Some(smallest) = sets.iter().min_by_key(|meta| meta.count) else { return Ok(Vec::new()) };
            'members: for (member, _) in elements::all(view.space, smallest)? {
                let mut total: Option<f64> = None;
                for (meta, weight) in sets.iter().zip(&asked.weights) {
                    let Some(score) = of(meta, &member)? else { continue 'members };
                    let score = weighted(score, *weight);
                    total = Some(total.map_or(score, |total| asked.aggregate.of(total, score)));
                }
                found.extend(total.map(|total| (member, total)));
                if found.len() >= limit {
                    break;
                }
            }
        }
        How::Diff => {
            let Some(Some(first)) = sets.first() else { return Ok(Vec::new()) };
            'kept: for (member, row) in elements::all(view.space, first)? {
                for meta in sets[1..].iter().flatten() {
                    if of(meta, &member)?.is_some() {
                        continue 'kept;
                    }
                }
                found.insert(member, score(first, &row)?);
            }
        }
    }
    let mut found: Vec<(Bytes, f64)> = found.into_iter().collect();
    found.sort_by_key(|(_, score)| sortable(if *score == 0.0 { 0.0 } else { *score }));
    Ok(found)
}

fn read(view: &View<'_>, argv: &[Bytes], name: &str, how: How) -> Done {
    let asked = asked(name, &argv[1..], how, false)?;
    Ok(reply_of(combine(view, &asked, how, usize::MAX)?, asked.scores))
}

fn store_result(store: &mut Store<'_>, argv: &[Bytes], name: &str, how: How) -> Done {
    check_name("key", &argv[1])?;
    let asked = asked(name, &argv[2..], how, true)?;
    let found = combine(&store.view(), &asked, how, usize::MAX)?;
    put_whole(store, &argv[1], &found)
}

pub(in super::super) fn zunion(view: &View<'_>, argv: &[Bytes]) -> Done {
    read(view, argv, "zunion", How::Union)
}

pub(in super::super) fn zinter(view: &View<'_>, argv: &[Bytes]) -> Done {
    read(view, argv, "zinter", How::Inter)
}

pub(in super::super) fn zdiff(view: &View<'_>, argv: &[Bytes]) -> Done {
    read(view, argv, "zdiff", How::Diff)
}

pub(in super::super) fn zunionstore(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    store_result(store, argv, "zunionstore", How::Union)
}

pub(in super::super) fn zinterstore(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    store_result(store, argv, "zinterstore", How::Inter)
}

pub(in super::super) fn zdiffstore(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    store_result(store, argv, "zdiffstore", How::Diff)
}

pub(in super::super) fn zintercard(view: &View<'_>, argv: &[Bytes]) -> Done {
    let count = integer_of(&argv[1]).filter(|count| *count > 0).and_then(|count| usize::try_from(count).ok());
    let Some(count) = count else { return fail("ERR numkeys should be greater than 0") };
    let Some((keys, rest)) = argv[2..].split_at_checked(count) else {
        return fail("ERR Number of keys can't be greater than number of args");
    };
    let limit = match rest {
        [] => 0,
        [word, limit] if word.eq_ignore_ascii_case(b"LIMIT") => match integer_of(limit) {
            Some(limit) if limit >= 0 => limit,
            _ => return fail("ERR LIMIT can't be negative"),
        },
        _ => return fail(SYNTAX),
    };
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let asked = Asked { keys: keys.to_vec(), weights: vec![1.0; count], aggregate: Aggregate::Sum, scores: false };
    Ok(integer(combine(view, &asked, How::Inter, limit)?.len()))
}

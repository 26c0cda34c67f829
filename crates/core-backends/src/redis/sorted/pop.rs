//! ZPOPMIN, ZPOPMAX, ZMPOP, and those that may wait, without waiting (the door waits).

use super::super::lists::check_timeout;
use super::super::numbers::integer_of;
use super::super::store::{Kind, Store};
use super::super::{fail, Done, Fail, Reply, SYNTAX};
use super::range::ends;
use super::{double, remove_all, reply_of};
use bytes::Bytes;

fn pop(store: &mut Store<'_>, argv: &[Bytes], last: bool) -> Done {
    let count = match &argv[2..] {
        [] => 1,
        [count] => match integer_of(count) {
            None => return fail(super::super::NOT_AN_INTEGER),
            Some(count) => match u64::try_from(count) {
                Ok(count) => count,
                Err(_) => return fail("ERR value is out of range, must be positive"),
            },
        },
        _ => return fail(SYNTAX),
    };
    let found = take(store, &argv[1], last, count)?.unwrap_or_default();
    if argv.len() > 2 {
        return Ok(reply_of(found, true));
    }
    // Without a count RESP3 has no pair around the one.
    Ok(Reply::Array(found.into_iter().flat_map(|(member, score)| [Reply::Bulk(member), double(score)]).collect()))
}

/// `None`: the key is not there.
fn take(store: &mut Store<'_>, key: &Bytes, last: bool, count: u64) -> Result<Option<Vec<(Bytes, f64)>>, Fail> {
    let Some(mut meta) = store.find_kind(key, Kind::Sorted)? else { return Ok(None) };
    let found = ends(store, &meta, last, count)?;
    remove_all(store, key, &mut meta, &found);
    Ok(Some(found))
}

pub(in super::super) fn zpopmin(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    pop(store, argv, false)
}

pub(in super::super) fn zpopmax(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    pop(store, argv, true)
}

fn pop_of(store: &mut Store<'_>, argv: &[Bytes], last: bool) -> Done {
    let (timeout, keys) = (&argv[argv.len() - 1], &argv[1..argv.len() - 1]);
    check_timeout(timeout)?;
    for key in keys {
        if let Some((member, score)) = take(store, key, last, 1)?.and_then(|found| found.into_iter().next()) {
            return Ok(Reply::Array(vec![Reply::Bulk(key.clone()), Reply::Bulk(member), double(score)]));
        }
    }
    Ok(Reply::NilArray)
}

pub(in super::super) fn bzpopmin(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    pop_of(store, argv, false)
}

pub(in super::super) fn bzpopmax(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    pop_of(store, argv, true)
}

/// `numkeys key … MIN|MAX [COUNT n]`
fn pop_first(store: &mut Store<'_>, words: &[Bytes]) -> Done {
    let count = integer_of(&words[0]).filter(|count| *count > 0).and_then(|count| usize::try_from(count).ok());
    let Some(count) = count else { return fail("ERR numkeys should be greater than 0") };
    let Some((keys, rest)) = words[1..].split_at_checked(count) else { return fail(SYNTAX) };
    let end = |word: &Bytes| match &word.to_ascii_uppercase()[..] {
        b"MIN" => Ok(false),
        b"MAX" => Ok(true),
        _ => fail(SYNTAX),
    };
    let (last, wanted) = match rest {
        [word] => (end(word)?, 1),
        [word, name, wanted] if name.eq_ignore_ascii_case(b"COUNT") => {
            let Some(wanted) = integer_of(wanted).filter(|wanted| *wanted > 0) else {
                return fail("ERR count should be greater than 0");
            };
            (end(word)?, wanted.unsigned_abs())
        }
        _ => return fail(SYNTAX),
    };
    for key in keys {
        if let Some(found) = take(store, key, last, wanted)? {
            let pairs = found.into_iter().map(|(member, score)| Reply::Array(vec![Reply::Bulk(member), double(score)]));
            return Ok(Reply::Array(vec![Reply::Bulk(key.clone()), Reply::Array(pairs.collect())]));
        }
    }
    Ok(Reply::NilArray)
}

pub(in super::super) fn zmpop(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    pop_first(store, &argv[1..])
}

pub(in super::super) fn bzmpop(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    check_timeout(&argv[1])?;
    pop_first(store, &argv[2..])
}

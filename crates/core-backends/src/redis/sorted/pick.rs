//! ZRANDMEMBER and ZSCAN.

use super::super::elements::{distinct, repeated, scan, scan_of, scan_reply, Element};
use super::super::numbers::parse_integer;
use super::super::store::{Kind, View};
use super::super::{fail, Done, Fail, Reply, SYNTAX};
use super::{double, reply_of, score_of};
use bytes::Bytes;

fn scored(found: Vec<Element>) -> Result<Vec<(Bytes, f64)>, Fail> {
    found.into_iter().map(|(member, row)| Ok((member, score_of(&row)?))).collect()
}

pub(in super::super) fn zrandmember(view: &View<'_>, argv: &[Bytes]) -> Done {
    let (count, scores) = match &argv[2..] {
        [] => (None, false),
        [count] => (Some(parse_integer(count)?), false),
        [count, word] if word.eq_ignore_ascii_case(b"WITHSCORES") => (Some(parse_integer(count)?), true),
        _ => return fail(SYNTAX),
    };
    if count.is_some_and(|count| !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&count)) {
        return fail("ERR value is out of range");
    }
    let nothing = if count.is_some() { Reply::Array(Vec::new()) } else { Reply::Nil };
    let Some(meta) = view.find_kind(&argv[1], Kind::Sorted)? else { return Ok(nothing) };
    let Some(count) = count else {
        let picked = repeated(view.space, &meta, &view.moment, 1)?.into_iter().next();
        return Ok(picked.map_or(Reply::Nil, |(member, _)| Reply::Bulk(member)));
    };
    let picked = match count {
        count if count < 0 => repeated(view.space, &meta, &view.moment, count.unsigned_abs())?,
        count => distinct(view.space, &meta, &view.moment, count.unsigned_abs())?,
    };
    Ok(reply_of(scored(picked)?, scores))
}

pub(in super::super) fn zscan(view: &View<'_>, argv: &[Bytes]) -> Done {
    let asked = scan_of(&argv[2..])?;
    let Some(meta) = view.find_kind(&argv[1], Kind::Sorted)? else { return Ok(scan_reply(0, Vec::new())) };
    let (next, found) = scan(view.space, &meta, &asked)?;
    let pairs = scored(found)?.into_iter();
    Ok(scan_reply(next, pairs.flat_map(|(member, score)| [Reply::Bulk(member), double(score)]).collect()))
}

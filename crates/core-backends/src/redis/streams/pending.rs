//! XPENDING: what was delivered to a group and is not acknowledged.

use super::super::numbers::parse_integer;
use super::super::store::View;
use super::super::{fail, Done, Fail, Reply, SYNTAX};
use super::entries::{too_large, Room};
use super::ids::{parse_end, parse_start, Id};
use super::members::{find_group, Consumer, Group, Pending};
use super::rows::Stream;
use super::wall_ms;
use base_engine::EngineError;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Pending entries that are looked at together.
const PAGE_ENTRIES: usize = 256;
/// Consumers that are looked at together.
pub(super) const PAGE_CONSUMERS: usize = 256;
/// Pending entries that one XPENDING looks at at most; IDLE may pass over many.
const LOOKED_AT_MAX: usize = 200_000;

struct Wanted<'w> {
    idle_ms: u64,
    interval: (Id, Id),
    count: u64,
    consumer: Option<&'w Bytes>,
}

pub(super) fn xpending(view: &View<'_>, argv: &[Bytes]) -> Done {
    let wanted = match argv.len() {
        3 => None,
        6..=9 => Some(wanted(argv)?),
        _ => return fail(SYNTAX),
    };
    let (stream, group) = find_group(view, &argv[1], &argv[2], "")?;
    match wanted {
        None => summary(view, &stream, &group),
        Some(wanted) => listed(view, &stream, &group, &wanted),
    }
}

fn wanted(argv: &[Bytes]) -> Result<Wanted<'_>, Fail> {
    let (mut idle_ms, mut rest) = (0, &argv[3..]);
    if argv[3].eq_ignore_ascii_case(b"IDLE") {
        idle_ms = u64::try_from(parse_integer(&argv[4])?).unwrap_or(0);
        rest = argv.get(5..).filter(|rest| rest.len() >= 3).map_or_else(|| fail(SYNTAX), Ok)?;
    }
    let [from, to, count, consumer @ ..] = rest else { return fail(SYNTAX) };
    let count = u64::try_from(parse_integer(count)?).unwrap_or(0);
    Ok(Wanted { idle_ms, interval: (parse_start(from)?, parse_end(to)?), count, consumer: consumer.first() })
}

fn summary(view: &View<'_>, stream: &Stream, group: &Group) -> Done {
    let Some((first, last)) = stream.pending_ends(view.space, group.number)? else {
        return Ok(Reply::Array(vec![Reply::Integer(0), Reply::Nil, Reply::Nil, Reply::NilArray]));
    };
    let (mut told, mut room) = (Vec::new(), Room::new());
    let mut fits = true;
    each_consumer(view, stream, group, &mut |name, consumer| {
        if consumer.pending > 0 {
            fits = room.take(3, name.len());
            let count = Reply::Bulk(consumer.pending.to_string().into());
            told.push(Reply::Array(vec![Reply::Bulk(name.clone()), count]));
        }
        fits
    })?;
    if !fits {
        return too_large();
    }
    Ok(Reply::Array(vec![Reply::Integer(group.pending as i64), first.reply(), last.reply(), Reply::Array(told)]))
}

/// Goes through a group's consumers by name, while `visit` says so.
pub(super) fn each_consumer(
    view: &View<'_>,
    stream: &Stream,
    group: &Group,
    visit: &mut dyn FnMut(&Bytes, &Consumer) -> bool,
) -> Result<(), EngineError> {
    let mut after: Option<Bytes> = None;
    loop {
        let (rows, more) = stream.consumer_rows(view.space, group.number, after.as_deref(), PAGE_CONSUMERS)?;
        after = rows.last().map(|(name, _)| name.clone());
        for (name, row) in rows {
            if !visit(&name, &Consumer::from_row(row)?) {
                return Ok(());
            }
        }
        if !more {
            return Ok(());
        }
    }
}

fn listed(view: &View<'_>, stream: &Stream, group: &Group, wanted: &Wanted<'_>) -> Done {
    let only = match wanted.consumer {
        None => None,
        Some(name) => match Consumer::find(view.space, stream, group.number, name)? {
            None => return Ok(Reply::Array(Vec::new())),
            Some(consumer) => Some(consumer.number),
        },
    };
    let now = wall_ms(&view.moment);
    let (mut told, mut room, mut names, mut looked_at) = (Vec::new(), Room::new(), BTreeMap::new(), 0);
    let (mut from, to) = wanted.interval;
    loop {
        let page = stream.pending_ids(view.space, group.number, only, (from, to), PAGE_ENTRIES)?;
        for id in &page {
            if told.len() as u64 == wanted.count {
                return Ok(Reply::Array(told));
            }
            looked_at += 1;
            let Some(pending) = Pending::find(view.space, stream, group.number, *id)? else { continue };
            if pending.idle_ms(now) < wanted.idle_ms {
                continue;
            }
            let name = name_of(view, stream, group, &mut names, pending.consumer)?;
            if !room.take(5, name.len()) {
                return too_large();
            }
            let idle = Reply::Integer(i64::try_from(pending.idle_ms(now)).unwrap_or(i64::MAX));
            told.push(Reply::Array(vec![id.reply(), Reply::Bulk(name), idle, Reply::Integer(pending.count)]));
        }
        if looked_at > LOOKED_AT_MAX {
            return fail(format!(
                "ERR more than {LOOKED_AT_MAX} pending entries would be looked at; name a narrower range"
            ));
        }
        match page.last().and_then(|last| last.next()).filter(|_| page.len() == PAGE_ENTRIES) {
            Some(next) => from = next,
            None => return Ok(Reply::Array(told)),
        }
    }
}

/// A consumer's name; `names` has those that were asked for already.
pub(super) fn name_of(
    view: &View<'_>,
    stream: &Stream,
    group: &Group,
    names: &mut BTreeMap<u64, Bytes>,
    number: u64,
) -> Result<Bytes, EngineError> {
    if let Some(name) = names.get(&number) {
        return Ok(name.clone());
    }
    let name = Consumer::name_of(view.space, stream, group.number, number)?;
    names.insert(number, name.clone());
    Ok(name)
}

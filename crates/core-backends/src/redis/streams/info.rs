//! XINFO: what is known of a stream, its groups and their consumers.
//!
//! By design: there is no radix tree here; its keys are reported as the blocks of entries that `~` removes, its nodes as one more.

use super::super::numbers::parse_integer;
use super::super::store::View;
use super::super::{fail, Done, Fail, Reply};
use super::entries::{entry_reply, too_large, Room};
use super::groups::{bad_subcommand, help, no_group, subcommand};
use super::ids::Id;
use super::members::{Consumer, Group, Pending};
use super::pending::{each_consumer, name_of};
use super::rows::Stream;
use super::trim::BLOCK_ENTRIES;
use super::wall_ms;
use base_engine::Direction;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Groups that are looked at together.
const PAGE_GROUPS: usize = 256;
/// Entries that FULL shows of each kind where COUNT is absent.
const COUNT_DEFAULT: u64 = 10;

const HELP: &[&str] = &[
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    Lists a group's consumers.",
    "GROUPS <key>",
    "    Lists a stream's groups.",
    "STREAM <key> [FULL [COUNT <count>]]",
    "    Says what is known of a stream; FULL: with its entries, groups and consumers.",
    "HELP",
    "    Prints this help.",
];

type Pairs = Vec<(Reply, Reply)>;

pub(super) fn xinfo(view: &View<'_>, argv: &[Bytes]) -> Done {
    let known = [("consumers", 4), ("groups", 3), ("help", 2), ("stream", -3)];
    let name = subcommand("xinfo", &known, argv)?;
    if name == "help" {
        return Ok(help(HELP));
    }
    let Some(stream) = Stream::find(view, &argv[2])? else { return fail("ERR no such key") };
    match name {
        "stream" => about_stream(view, &stream, argv),
        "groups" => groups(view, &stream),
        _ => match Group::find(view.space, &stream, &argv[3])? {
            None => no_group(&argv[2], &argv[3]),
            Some(group) => consumers(view, &stream, &group),
        },
    }
}

fn text(name: &'static str) -> Reply {
    Reply::Bulk(Bytes::from_static(name.as_bytes()))
}

fn number(value: u64) -> Reply {
    Reply::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn maybe(value: Option<i64>) -> Reply {
    value.map_or(Reply::Nil, Reply::Integer)
}

/// How many entries a group has not read yet, where that is known.
fn lag(stream: &Stream, first: Id, group: &Group) -> Option<i64> {
    if stream.added == 0 {
        return Some(0);
    }
    let read = match group.read {
        Some(read) if !stream.has_gap_from(first, group.last) => Some(read),
        _ => stream.position(first, group.last),
    };
    read.map(|read| (stream.added as i64).saturating_sub(read))
}

fn groups(view: &View<'_>, stream: &Stream) -> Done {
    let first = stream.first(view.space)?;
    let (mut told, mut room) = (Vec::new(), Room::new());
    each_group(view, stream, &mut |name, group| {
        if !room.take(13, name.len()) {
            return too_large();
        }
        told.push(Reply::Map(vec![
            (text("name"), Reply::Bulk(name.clone())),
            (text("consumers"), number(group.consumers)),
            (text("pending"), number(group.pending)),
            (text("last-delivered-id"), group.last.reply()),
            (text("entries-read"), maybe(group.read)),
            (text("lag"), maybe(lag(stream, first, group))),
        ]));
        Ok(())
    })?;
    Ok(Reply::Array(told))
}

fn each_group(
    view: &View<'_>,
    stream: &Stream,
    visit: &mut dyn FnMut(&Bytes, &Group) -> Result<(), Fail>,
) -> Result<(), Fail> {
    let mut after: Option<Bytes> = None;
    loop {
        let (rows, more) = stream.group_rows(view.space, after.as_deref(), PAGE_GROUPS)?;
        after = rows.last().map(|(name, _)| name.clone());
        for (name, row) in rows {
            visit(&name, &Group::from_row(row)?)?;
        }
        if !more {
            return Ok(());
        }
    }
}

fn consumers(view: &View<'_>, stream: &Stream, group: &Group) -> Done {
    let now = wall_ms(&view.moment);
    let (mut told, mut room, mut fits) = (Vec::new(), Room::new(), true);
    each_consumer(view, stream, group, &mut |name, consumer| {
        fits = room.take(7, name.len());
        told.push(Reply::Map(vec![
            (text("name"), Reply::Bulk(name.clone())),
            (text("pending"), number(consumer.pending)),
            (text("idle"), number(now.saturating_sub(consumer.seen_ms))),
        ]));
        fits
    })?;
    if fits {
        Ok(Reply::Array(told))
    } else {
        too_large()
    }
}

fn about_stream(view: &View<'_>, stream: &Stream, argv: &[Bytes]) -> Done {
    let full = match &argv[3..] {
        [] => None,
        [word] if word.eq_ignore_ascii_case(b"FULL") => Some(COUNT_DEFAULT),
        [word, option, count] if word.eq_ignore_ascii_case(b"FULL") && option.eq_ignore_ascii_case(b"COUNT") => {
            // Zero: all; less: as if nothing were said.
            match u64::try_from(parse_integer(count)?) {
                Ok(0) => Some(u64::MAX),
                Ok(count) => Some(count),
                Err(_) => Some(COUNT_DEFAULT),
            }
        }
        _ => return bad_subcommand("XINFO", &argv[1]),
    };
    let first = stream.first(view.space)?;
    let blocks = stream.len().div_ceil(BLOCK_ENTRIES);
    let mut told = vec![
        (text("length"), number(stream.len())),
        (text("radix-tree-keys"), number(blocks)),
        (text("radix-tree-nodes"), number(blocks + 1)),
        (text("last-generated-id"), stream.last.reply()),
        (text("max-deleted-entry-id"), stream.deleted.reply()),
        (text("entries-added"), number(stream.added)),
        (text("recorded-first-entry-id"), first.reply()),
    ];
    let mut room = Room::new();
    match full {
        None => ends(view, stream, &mut told, &mut room)?,
        Some(count) => everything(view, stream, first, count, &mut told, &mut room)?,
    }
    Ok(Reply::Map(told))
}

fn ends(view: &View<'_>, stream: &Stream, told: &mut Pairs, room: &mut Room) -> Result<(), Fail> {
    told.push((text("groups"), number(stream.groups)));
    for (name, direction) in [("first-entry", Direction::Forward), ("last-entry", Direction::Backward)] {
        let found = stream.entries(view.space, (Id::MIN, Id::MAX), direction, 1, room)?;
        told.push((text(name), found.entries.into_iter().next().map_or(Reply::Nil, entry_reply)));
    }
    Ok(())
}

fn everything(
    view: &View<'_>,
    stream: &Stream,
    first: Id,
    count: u64,
    told: &mut Pairs,
    room: &mut Room,
) -> Result<(), Fail> {
    let found = stream.entries(view.space, (Id::MIN, Id::MAX), Direction::Forward, count, room)?;
    if found.more {
        return too_large();
    }
    told.push((text("entries"), Reply::Array(found.entries.into_iter().map(entry_reply).collect())));
    let mut groups = Vec::new();
    each_group(view, stream, &mut |name, group| {
        if !room.take(15, name.len()) {
            return too_large();
        }
        let mut names = BTreeMap::new();
        let pending = pending(view, (stream, group), None, count, room, &mut names)?;
        let consumers = full_consumers(view, stream, group, count, room)?;
        groups.push(Reply::Map(vec![
            (text("name"), Reply::Bulk(name.clone())),
            (text("last-delivered-id"), group.last.reply()),
            (text("entries-read"), maybe(group.read)),
            (text("lag"), maybe(lag(stream, first, group))),
            (text("pel-count"), number(group.pending)),
            (text("pending"), pending),
            (text("consumers"), consumers),
        ]));
        Ok(())
    })?;
    told.push((text("groups"), Reply::Array(groups)));
    Ok(())
}

fn full_consumers(view: &View<'_>, stream: &Stream, group: &Group, count: u64, room: &mut Room) -> Done {
    let (mut found, mut fits) = (Vec::new(), true);
    each_consumer(view, stream, group, &mut |name, consumer| {
        fits = room.take(9, name.len());
        found.push((name.clone(), consumer.clone()));
        fits
    })?;
    if !fits {
        return too_large();
    }
    let mut told = Vec::with_capacity(found.len());
    for (name, consumer) in found {
        let mut names = BTreeMap::new();
        let pending = pending(view, (stream, group), Some(&consumer), count, room, &mut names)?;
        told.push(Reply::Map(vec![
            (text("name"), Reply::Bulk(name)),
            (text("seen-time"), number(consumer.seen_ms)),
            (text("pel-count"), number(consumer.pending)),
            (text("pending"), pending),
        ]));
    }
    Ok(Reply::Array(told))
}

/// The first pending entries of a group, or of one of its consumers, who then needs no naming.
fn pending(
    view: &View<'_>,
    (stream, group): (&Stream, &Group),
    only: Option<&Consumer>,
    count: u64,
    room: &mut Room,
    names: &mut BTreeMap<u64, Bytes>,
) -> Done {
    let limit = usize::try_from(count).unwrap_or(usize::MAX).min(super::super::REPLY_ELEMENTS_MAX);
    let (only, interval) = (only.map(|consumer| consumer.number), (Id::MIN, Id::MAX));
    let ids = stream.pending_ids(view.space, group.number, only, interval, limit)?;
    let mut told = Vec::with_capacity(ids.len());
    for id in ids {
        let Some(pending) = Pending::find(view.space, stream, group.number, id)? else { continue };
        let mut about = vec![id.reply()];
        if only.is_none() {
            about.push(Reply::Bulk(name_of(view, stream, group, names, pending.consumer)?));
        }
        about.extend([number(pending.delivered_ms), Reply::Integer(pending.count)]);
        if !room.take(about.len() + 1, 0) {
            return too_large();
        }
        told.push(Reply::Array(about));
    }
    Ok(Reply::Array(told))
}

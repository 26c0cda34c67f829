//! XREADGROUP and XACK: entries are delivered to a consumer, are pending with it, and are pending no more.
//!
//! By design: XREADGROUP gives as many entries as a reply takes, as if COUNT had said so; the rest stays undelivered for the next one.

use super::super::store::Store;
use super::super::{fail, integer, Done, Fail, Reply};
use super::entries::{entry_reply, Room};
use super::ids::{parse_all, parse_strict, Id};
use super::members::{check_names, find_group, Change, Pending};
use super::read::asked;
use super::rows::Stream;
use super::wall_ms;
use base_engine::{Direction, EngineError};
use bytes::Bytes;

/// Entries of its own that one XREADGROUP reads to a consumer again at most.
const HISTORY_ENTRIES_MAX: usize = 32_768;
/// Elements of a reply that an entry takes which was deleted since: itself, its id, the null.
const DELETED_ELEMENTS: usize = 3;

#[derive(Clone, Copy)]
enum From {
    /// `>`
    New,
    /// The consumer's own, after an id.
    Own(Id),
}

pub(super) fn xreadgroup(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let asked = asked(argv, true)?;
    let Some((group, consumer)) = asked.group else { return fail("ERR Missing GROUP option for XREADGROUP") };
    let mut wanted = Vec::with_capacity(asked.streams.len());
    for (key, from) in &asked.streams {
        find_group(&store.view(), key, group, " in XREADGROUP with GROUP option")?;
        wanted.push((*key, parse_from(from)?));
    }
    check_names(group, consumer)?;
    let now = wall_ms(&store.moment);
    let (mut replies, mut room) = (Vec::new(), Room::new());
    for (key, from) in wanted {
        let Some(stream) = Stream::open(store, key)? else { continue };
        let Some(mut change) = Change::open(store, stream, group)? else { continue };
        let entries = match from {
            From::New => {
                if change.stream.len() == 0 || change.stream.top(&*store.space)? <= change.group.last {
                    continue;
                }
                let number = change.consumer(store, consumer, now)?.0;
                deliver(
                    &mut change,
                    store,
                    Pending { consumer: number, delivered_ms: now, count: 1 },
                    (asked.count, asked.no_ack),
                    &mut room,
                )?
            }
            From::Own(after) => {
                let number = change.consumer(store, consumer, now)?.0;
                repeat(&mut change, store, number, now, (after, asked.count), &mut room)?
            }
        };
        change.close(store, key)?;
        // Where the streams before have filled the reply.
        if entries.is_empty() && matches!(from, From::New) {
            continue;
        }
        replies.push((Reply::Bulk(key.clone()), Reply::Array(entries)));
    }
    Ok(if replies.is_empty() { Reply::NilArray } else { Reply::Streams(replies) })
}

fn parse_from(word: &[u8]) -> Result<From, Fail> {
    match word {
        b">" => Ok(From::New),
        b"$" => fail(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
             specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
        ),
        // As in Redis, the greatest id is another name of `>`.
        id => Ok(match parse_strict(id, 0)? {
            Id::MAX => From::New,
            id => From::Own(id),
        }),
    }
}

/// Gives entries that the group was not given yet.
fn deliver(
    change: &mut Change,
    store: &mut Store<'_>,
    pending: Pending,
    (count, no_ack): (u64, bool),
    room: &mut Room,
) -> Result<Vec<Reply>, EngineError> {
    let Some(first) = change.group.last.next() else { return Ok(Vec::new()) };
    let interval = (first, Id::MAX);
    let found = change.stream.entries(&*store.space, interval, Direction::Forward, count, room)?;
    let oldest = change.stream.first(&*store.space)?;
    let mut replies = Vec::with_capacity(found.entries.len());
    for (id, words) in found.entries {
        change.group.read = read_after(&change.stream, oldest, change.group.read, id);
        change.group.last = id;
        if !no_ack {
            let old = change.pending(store, id)?;
            change.assign(store, id, old, pending)?;
        }
        replies.push(entry_reply((id, words)));
    }
    Ok(replies)
}

/// How many of all entries that ever were a group has read, once it has read `id`.
fn read_after(stream: &Stream, first: Id, read: Option<i64>, id: Id) -> Option<i64> {
    match read {
        Some(read) if !stream.has_gap_from(first, id) => Some(read.saturating_add(1)),
        read if stream.added == 0 => read,
        _ => stream.position(first, id),
    }
}

/// Gives a consumer what is pending with it already.
fn repeat(
    change: &mut Change,
    store: &mut Store<'_>,
    consumer: u64,
    now: u64,
    (after, count): (Id, u64),
    room: &mut Room,
) -> Result<Vec<Reply>, EngineError> {
    let Some(first) = after.next() else { return Ok(Vec::new()) };
    let limit = usize::try_from(count).unwrap_or(usize::MAX).min(HISTORY_ENTRIES_MAX);
    let (group, interval) = (change.group.number, (first, Id::MAX));
    let ids = change.stream.pending_ids(&*store.space, group, Some(consumer), interval, limit)?;
    let mut replies = Vec::with_capacity(ids.len());
    for id in ids {
        let Some(words) = change.stream.entry(&*store.space, id)? else {
            if !room.take(DELETED_ELEMENTS, 0) {
                break;
            }
            replies.push(Reply::Array(vec![id.reply(), Reply::NilArray]));
            continue;
        };
        if !room.take_entry(&words) {
            break;
        }
        if let Some(old) = change.pending(store, id)? {
            let again = Pending { delivered_ms: now, count: old.count.saturating_add(1), ..old };
            change.assign(store, id, Some(old), again)?;
        }
        replies.push(entry_reply((id, words)));
    }
    Ok(replies)
}

pub(super) fn xack(store: &mut Store<'_>, argv: &[Bytes]) -> Done {
    let Some(stream) = Stream::open(store, &argv[1])? else { return Ok(integer(0)) };
    let Some(mut change) = Change::open(store, stream, &argv[2])? else { return Ok(integer(0)) };
    let mut acknowledged = 0;
    for id in parse_all(&argv[3..])? {
        if let Some(pending) = change.pending(store, id)? {
            change.release(store, id, pending)?;
            acknowledged += 1;
        }
    }
    if acknowledged > 0 {
        change.close(store, &argv[1])?;
    }
    Ok(integer(acknowledged))
}

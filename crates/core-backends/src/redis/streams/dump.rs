//! A stream with its groups, consumers and pending entries, for DUMP and RESTORE.
//!
//! ```text
//!   last, deleted: id  added: u64  entries: (id, words)…
//!   groups: (name, last: id, read: u64, consumers: (name, seen: u64, pending: (id, delivered: u64, count: u64)…)…)…
//! ```
//!
//! By design: groups and consumers get new numbers when they are restored; nobody sees these.
//! Not here: what is around it (`dump.rs`).

use super::super::dump::contents::are_names;
use super::super::store::{Store, View};
use super::super::Fail;
use super::entries::Room;
use super::ids::Id;
use super::members::{Change, Consumer, Group, Pending};
use super::rows::Stream;
use base_engine::{Direction, EngineError};
use base_types::codec::{DecodeError, Reader, Writer};
use bytes::Bytes;
use std::collections::BTreeSet;

/// A whole stream.
pub(in super::super) struct Whole {
    last: Id,
    deleted: Id,
    added: u64,
    entries: Vec<(Id, Vec<Bytes>)>,
    groups: Vec<WholeGroup>,
}

struct WholeGroup {
    name: Bytes,
    last: Id,
    read: Option<i64>,
    consumers: Vec<WholeConsumer>,
}

struct WholeConsumer {
    name: Bytes,
    seen_ms: u64,
    pending: Vec<(Id, u64, i64)>,
}

/// What may still be read.
struct Left(usize);

impl Left {
    /// `None`: that many are too many.
    fn take(&mut self, count: usize) -> Option<usize> {
        self.0 = self.0.checked_sub(count)?;
        Some(count)
    }
}

impl Whole {
    /// `None`: it has more than `most` entries, groups, consumers and pending entries together, or more bytes than a reply.
    pub fn read(view: &View<'_>, key: &[u8], most: usize) -> Result<Option<Whole>, Fail> {
        let Some(stream) = Stream::find(view, key)? else { return Ok(None) };
        let mut left = Left(most);
        let everything = (Id::MIN, Id::MAX);
        let found = stream.entries(view.space, everything, Direction::Forward, u64::MAX, &mut Room::new())?;
        if found.more || left.take(found.entries.len()).is_none() {
            return Ok(None);
        }
        let (rows, more) = stream.group_rows(view.space, None, left.0)?;
        if more || left.take(rows.len()).is_none() {
            return Ok(None);
        }
        let mut groups = Vec::with_capacity(rows.len());
        for (name, row) in rows {
            let group = Group::from_row(row)?;
            let Some(consumers) = consumers_of(view, &stream, &group, &mut left)? else { return Ok(None) };
            groups.push(WholeGroup { name, last: group.last, read: group.read, consumers });
        }
        let Stream { last, deleted, added, .. } = stream;
        Ok(Some(Whole { last, deleted, added, entries: found.entries, groups }))
    }

    pub fn encode(&self, out: &mut Writer) {
        put_id(out, self.last);
        put_id(out, self.deleted);
        out.u64(self.added).varint(self.entries.len() as u64);
        for (id, words) in &self.entries {
            put_id(out, *id);
            out.varint(words.len() as u64);
            for word in words {
                out.bytes(word);
            }
        }
        out.varint(self.groups.len() as u64);
        for group in &self.groups {
            out.bytes(&group.name);
            put_id(out, group.last);
            out.u64(group.read.unwrap_or(-1) as u64).varint(group.consumers.len() as u64);
            for consumer in &group.consumers {
                out.bytes(&consumer.name).u64(consumer.seen_ms).varint(consumer.pending.len() as u64);
                for (id, delivered_ms, count) in &consumer.pending {
                    put_id(out, *id);
                    out.u64(*delivered_ms).u64(*count as u64);
                }
            }
        }
    }

    /// `None`: no stream can have these contents.
    pub fn decode(input: &mut Reader, most: usize) -> Option<Whole> {
        let mut left = Left(most);
        let (last, deleted) = (id(input).ok()?, id(input).ok()?);
        let added = input.u64("entries added").ok()?;
        let count = input.count("entries").ok()?;
        let entry = |input: &mut Reader| {
            let id = id(input)?;
            let words = input.count("fields of an entry")?;
            Ok((id, (0..words).map(|_| input.bytes("field of an entry")).collect::<Result<Vec<_>, DecodeError>>()?))
        };
        let entries: Vec<_> = (0..left.take(count)?).map(|_| entry(input)).collect::<Result<_, DecodeError>>().ok()?;
        let count = input.count("groups").ok()?;
        let groups = (0..left.take(count)?).map(|_| decode_group(input, &mut left)).collect::<Option<Vec<_>>>()?;
        let whole = Whole { last, deleted, added, entries, groups };
        whole.is_right().then_some(whole)
    }

    fn is_right(&self) -> bool {
        let rising = self.entries.windows(2).all(|pair| matches!(pair, [(one, _), (other, _)] if one < other));
        let in_bounds = self.entries.first().is_none_or(|(id, _)| *id > Id::MIN)
            && self.entries.last().is_none_or(|(id, _)| *id <= self.last)
            && self.deleted <= self.last
            && self.added >= self.entries.len() as u64
            && i64::try_from(self.added).is_ok();
        let paired = |words: &[Bytes]| !words.is_empty() && words.len().is_multiple_of(2);
        rising
            && in_bounds
            && self.entries.iter().all(|(_, words)| paired(words))
            && are_names(self.groups.iter().map(|group| &group.name))
            && self.groups.iter().all(WholeGroup::is_right)
    }

    /// Makes the stream's key, which is not there.
    pub fn write(self, store: &mut Store<'_>, key: &[u8]) -> Result<(), EngineError> {
        let mut stream = Stream::create(store, key);
        for (id, words) in &self.entries {
            stream.put_entry(store, *id, words);
        }
        (stream.last, stream.deleted, stream.added) = (self.last, self.deleted, self.added);
        for group in self.groups {
            let made = Group::new(stream.new_group(), group.last, group.read);
            let mut change = Change::new(stream, made, group.name);
            for consumer in group.consumers {
                let (number, _) = change.consumer(store, &consumer.name, consumer.seen_ms)?;
                for (id, delivered_ms, count) in consumer.pending {
                    change.assign(store, id, None, Pending { consumer: number, delivered_ms, count })?;
                }
            }
            stream = change.put(store);
        }
        stream.save(store, key)
    }
}

impl WholeGroup {
    fn is_right(&self) -> bool {
        let mut seen = BTreeSet::new();
        let mut pending = self.consumers.iter().flat_map(|consumer| &consumer.pending);
        are_names(self.consumers.iter().map(|consumer| &consumer.name))
            && pending.all(|(id, _, count)| *count >= 0 && seen.insert(*id))
    }
}

fn consumers_of(
    view: &View<'_>,
    stream: &Stream,
    group: &Group,
    left: &mut Left,
) -> Result<Option<Vec<WholeConsumer>>, EngineError> {
    let (rows, more) = stream.consumer_rows(view.space, group.number, None, left.0)?;
    if more || left.take(rows.len()).is_none() {
        return Ok(None);
    }
    let mut consumers = Vec::with_capacity(rows.len());
    for (name, row) in rows {
        let consumer = Consumer::from_row(row)?;
        if left.take(usize::try_from(consumer.pending).unwrap_or(usize::MAX)).is_none() {
            return Ok(None);
        }
        let (only, everything) = (Some(consumer.number), (Id::MIN, Id::MAX));
        let ids = stream.pending_ids(view.space, group.number, only, everything, consumer.pending as usize)?;
        let mut pending = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(found) = Pending::find(view.space, stream, group.number, id)? else { continue };
            pending.push((id, found.delivered_ms, found.count));
        }
        consumers.push(WholeConsumer { name, seen_ms: consumer.seen_ms, pending });
    }
    Ok(Some(consumers))
}

fn put_id(out: &mut Writer, id: Id) {
    out.u64(id.ms).u64(id.seq);
}

fn id(input: &mut Reader) -> Result<Id, DecodeError> {
    Ok(Id { ms: input.u64("ms of an id")?, seq: input.u64("seq of an id")? })
}

fn decode_group(input: &mut Reader, left: &mut Left) -> Option<WholeGroup> {
    let name = input.bytes("group").ok()?;
    let last = id(input).ok()?;
    let read = input.u64("entries read").ok()? as i64;
    let count = input.count("consumers").ok()?;
    let consumers = (0..left.take(count)?).map(|_| decode_consumer(input, left)).collect::<Option<_>>()?;
    (read >= -1).then_some(WholeGroup { name, last, read: (read >= 0).then_some(read), consumers })
}

fn decode_consumer(input: &mut Reader, left: &mut Left) -> Option<WholeConsumer> {
    let (name, seen_ms) = (input.bytes("consumer").ok()?, input.u64("seen").ok()?);
    let count = input.count("pending entries").ok()?;
    let pending = (0..left.take(count)?)
        .map(|_| Ok((id(input)?, input.u64("delivered")?, input.u64("deliveries")? as i64)))
        .collect::<Result<_, DecodeError>>();
    Some(WholeConsumer { name, seen_ms, pending: pending.ok()? })
}

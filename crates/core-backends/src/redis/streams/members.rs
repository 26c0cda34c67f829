//! A consumer group, its consumers and the entries pending with them.
//!
//! Always: a group counts its pending entries and its consumers, and a consumer its pending entries.
//! Held by: `counts_of_a_group_are_its_rows`.
//! By design: an entry is pending with one consumer of a group. Its row under the group says with which, since when and how often delivered; the row
//! under the consumer is empty. Times are the door's wall clock. Clocks of doors differ, so nothing is less than 0 ms ago.

use super::super::store::{check_name, Store, View};
use super::super::{fail, Fail};
use super::entries::shown;
use super::ids::Id;
use super::rows::Stream;
use crate::contract::{corrupt_row, SpaceRead};
use base_engine::EngineError;
use base_types::codec::{DecodeError, Reader, Writer};
use base_types::KEY_BYTES_MAX;
use bytes::Bytes;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Group {
    pub number: u64,
    /// Of the last entry delivered.
    pub last: Id,
    /// How many of all entries that ever were are delivered, where that is known.
    pub read: Option<i64>,
    pub pending: u64,
    pub consumers: u64,
    next_consumer: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Consumer {
    pub number: u64,
    pub seen_ms: u64,
    pub pending: u64,
}

/// An entry that was delivered and is not acknowledged yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pending {
    pub consumer: u64,
    pub delivered_ms: u64,
    pub count: i64,
}

impl Group {
    pub fn new(number: u64, last: Id, read: Option<i64>) -> Group {
        Group { number, last, read, pending: 0, consumers: 0, next_consumer: 0 }
    }

    pub fn row(&self) -> Bytes {
        let mut out = Writer::with_capacity(57);
        out.u64(self.number).u64(self.last.ms).u64(self.last.seq);
        // -1, as in XGROUP: not known.
        out.u64(self.read.unwrap_or(-1) as u64).u64(self.pending).u64(self.consumers).u64(self.next_consumer);
        out.finish()
    }

    pub fn from_row(row: Bytes) -> Result<Group, EngineError> {
        let mut input = Reader::new(row);
        let decoded = (|| {
            let number = input.u64("number")?;
            let last = Id { ms: input.u64("last ms")?, seq: input.u64("last seq")? };
            let read = input.u64("entries read")? as i64;
            let (pending, consumers) = (input.u64("pending")?, input.u64("consumers")?);
            let next_consumer = input.u64("next consumer")?;
            input.end()?;
            Ok(Group { number, last, read: (read >= 0).then_some(read), pending, consumers, next_consumer })
        })();
        decoded.map_err(|error: DecodeError| corrupt_row("redis consumer group", error))
    }

    /// A name too long to be a group's is none's.
    pub fn find(space: &dyn SpaceRead, stream: &Stream, name: &[u8]) -> Result<Option<Group>, EngineError> {
        if name.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        space.get(&stream.group_row(name))?.map(Group::from_row).transpose()
    }
}

impl Consumer {
    pub fn row(&self) -> Bytes {
        let mut out = Writer::with_capacity(24);
        out.u64(self.number).u64(self.seen_ms).u64(self.pending);
        out.finish()
    }

    pub fn from_row(row: Bytes) -> Result<Consumer, EngineError> {
        let mut input = Reader::new(row);
        let decoded = (|| {
            let consumer =
                Consumer { number: input.u64("number")?, seen_ms: input.u64("seen")?, pending: input.u64("pending")? };
            input.end()?;
            Ok(consumer)
        })();
        decoded.map_err(|error: DecodeError| corrupt_row("redis consumer", error))
    }

    pub fn find(
        space: &dyn SpaceRead,
        stream: &Stream,
        group: u64,
        name: &[u8],
    ) -> Result<Option<Consumer>, EngineError> {
        if name.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        space.get(&stream.consumer_row(group, name))?.map(Consumer::from_row).transpose()
    }

    /// The name of a consumer that pending entries are with.
    pub fn name_of(space: &dyn SpaceRead, stream: &Stream, group: u64, number: u64) -> Result<Bytes, EngineError> {
        let name = space.get(&stream.consumer_name_row(group, number))?;
        name.ok_or_else(|| {
            EngineError::Corrupt(format!("consumer {number} of group {group} of a redis stream is not there"))
        })
    }
}

impl Pending {
    pub fn row(&self) -> Bytes {
        let mut out = Writer::with_capacity(24);
        out.u64(self.consumer).u64(self.delivered_ms).u64(self.count as u64);
        out.finish()
    }

    fn from_row(row: Bytes) -> Result<Pending, EngineError> {
        let mut input = Reader::new(row);
        let decoded = (|| {
            let pending = Pending {
                consumer: input.u64("consumer")?,
                delivered_ms: input.u64("delivered")?,
                count: input.u64("deliveries")? as i64,
            };
            input.end()?;
            Ok(pending)
        })();
        decoded.map_err(|error: DecodeError| corrupt_row("redis pending entry", error))
    }

    pub fn find(space: &dyn SpaceRead, stream: &Stream, group: u64, id: Id) -> Result<Option<Pending>, EngineError> {
        space.get(&stream.pending_row(group, id))?.map(Pending::from_row).transpose()
    }

    pub fn idle_ms(&self, now: u64) -> u64 {
        now.saturating_sub(self.delivered_ms)
    }
}

/// Reads a stream's group, or says that there is none.
pub(super) fn find_group(view: &View<'_>, key: &[u8], name: &[u8], tail: &str) -> Result<(Stream, Group), Fail> {
    if let Some(stream) = Stream::find(view, key)? {
        if let Some(group) = Group::find(view.space, &stream, name)? {
            return Ok((stream, group));
        }
    }
    fail(format!("NOGROUP No such key '{}' or consumer group '{}'{tail}", shown(key), shown(name)))
}

/// A group that a command changes, and its consumers that the command has changed so far. `close` writes them.
pub(super) struct Change {
    pub stream: Stream,
    pub group: Group,
    name: Bytes,
    touched: BTreeMap<u64, (Bytes, Consumer)>,
}

impl Change {
    /// `None`: there is no such group.
    pub fn open(store: &Store<'_>, stream: Stream, name: &Bytes) -> Result<Option<Change>, EngineError> {
        let group = Group::find(&*store.space, &stream, name)?;
        Ok(group.map(|group| Change { stream, group, name: name.clone(), touched: BTreeMap::new() }))
    }

    /// For a group that is made.
    pub fn new(stream: Stream, group: Group, name: Bytes) -> Change {
        Change { stream, group, name, touched: BTreeMap::new() }
    }

    /// Finds or makes a consumer; true: made.
    pub fn consumer(&mut self, store: &mut Store<'_>, name: &Bytes, now: u64) -> Result<(u64, bool), EngineError> {
        if let Some(stored) = Consumer::find(&*store.space, &self.stream, self.group.number, name)? {
            // The row may be behind what this command has changed already.
            let (_, found) = self.touched.entry(stored.number).or_insert_with(|| (name.clone(), stored));
            found.seen_ms = found.seen_ms.max(now);
            return Ok((found.number, false));
        }
        self.group.next_consumer += 1;
        self.group.consumers += 1;
        let number = self.group.next_consumer;
        store.space.put(self.stream.consumer_name_row(self.group.number, number), name.clone());
        self.touched.insert(number, (name.clone(), Consumer { number, seen_ms: now, pending: 0 }));
        Ok((number, true))
    }

    fn touch(&mut self, store: &Store<'_>, number: u64) -> Result<&mut Consumer, EngineError> {
        if !self.touched.contains_key(&number) {
            let name = Consumer::name_of(&*store.space, &self.stream, self.group.number, number)?;
            if let Some(found) = Consumer::find(&*store.space, &self.stream, self.group.number, &name)? {
                self.touched.insert(number, (name, found));
            }
        }
        match self.touched.get_mut(&number) {
            Some((_, consumer)) => Ok(consumer),
            None => Err(EngineError::Corrupt(format!("consumer {number} of a redis stream has a name and no row"))),
        }
    }

    pub fn pending(&self, store: &Store<'_>, id: Id) -> Result<Option<Pending>, EngineError> {
        Pending::find(&*store.space, &self.stream, self.group.number, id)
    }

    /// Makes an entry pending with a consumer, or moves it there; `old` is what it was before.
    pub fn assign(
        &mut self,
        store: &mut Store<'_>,
        id: Id,
        old: Option<Pending>,
        new: Pending,
    ) -> Result<(), EngineError> {
        let group = self.group.number;
        if old.is_none_or(|old| old.consumer != new.consumer) {
            if let Some(old) = old {
                let consumer = self.touch(store, old.consumer)?;
                consumer.pending = consumer.pending.saturating_sub(1);
                store.space.delete(self.stream.of_consumer_row(group, old.consumer, id));
            }
            self.touch(store, new.consumer)?.pending += 1;
            store.space.put(self.stream.of_consumer_row(group, new.consumer, id), Bytes::new());
        }
        self.group.pending += u64::from(old.is_none());
        store.space.put(self.stream.pending_row(group, id), new.row());
        Ok(())
    }

    /// An entry is pending no more.
    pub fn release(&mut self, store: &mut Store<'_>, id: Id, old: Pending) -> Result<(), EngineError> {
        let consumer = self.touch(store, old.consumer)?;
        consumer.pending = consumer.pending.saturating_sub(1);
        self.group.pending = self.group.pending.saturating_sub(1);
        store.space.delete(self.stream.of_consumer_row(self.group.number, old.consumer, id));
        store.space.delete(self.stream.pending_row(self.group.number, id));
        Ok(())
    }

    /// Removes a consumer with whom nothing is pending any more.
    pub fn remove_consumer(&mut self, store: &mut Store<'_>, name: &[u8], number: u64) {
        self.touched.remove(&number);
        self.group.consumers = self.group.consumers.saturating_sub(1);
        store.space.delete(self.stream.consumer_row(self.group.number, name));
        store.space.delete(self.stream.consumer_name_row(self.group.number, number));
    }

    pub fn close(self, store: &mut Store<'_>, key: &[u8]) -> Result<(), EngineError> {
        self.put(store).save(store, key)
    }

    /// Writes the group's rows and gives the stream back, which is to be saved.
    pub fn put(self, store: &mut Store<'_>) -> Stream {
        for (name, consumer) in self.touched.values() {
            store.space.put(self.stream.consumer_row(self.group.number, name), consumer.row());
        }
        store.space.put(self.stream.group_row(&self.name), self.group.row());
        self.stream
    }
}

/// Checks the names that rows of a group have in their keys.
pub(super) fn check_names(group: &[u8], consumer: &[u8]) -> Result<(), Fail> {
    check_name("name of a group", group)?;
    check_name("name of a consumer", consumer)
}

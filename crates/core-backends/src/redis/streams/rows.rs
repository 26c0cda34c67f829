//! A stream's rows, and what its key knows of them.
//!
//! By design: every row of a stream, its groups and their pending entries begins with the key's own sequence, so whatever removes, copies or
//! renames a key of any kind does it for streams too. Groups and consumers have numbers, which are never used twice in a
//! stream; so only the rows that make a name a number are as long as a name.
//! Not here: what is counted beside a group's rows (`members.rs`).

use super::super::store::{Kind, Meta, Store, View};
use super::super::Fail;
use super::entries::{entry_value, entry_words, Entries, Room};
use super::ids::Id;
use crate::contract::{corrupt_row, SpaceRead};
use crate::rows::{page, prefix_end, prefix_page};
use base_engine::{Direction, EngineError, KeyRange};
use base_types::codec::{DecodeError, Reader, Writer};
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Rows of destroyed groups that one write to their stream removes at most.
const SWEEP_ROWS: usize = 64;

const ENTRY: u8 = 0;
const GROUP: u8 = 1;
const CONSUMER: u8 = 2;
const PENDING: u8 = 3;
const OF_CONSUMER: u8 = 4;
const CONSUMER_NAME: u8 = 5;
const DESTROYED: u8 = 6;

/// A stream as it stands.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    meta: Meta,
    /// Of the last entry there ever was, or what XSETID said.
    pub last: Id,
    /// The greatest id that XDEL removed.
    pub deleted: Id,
    /// How many entries there ever were.
    pub added: u64,
    pub groups: u64,
    next_group: u64,
    /// Destroyed groups whose rows are not removed yet.
    destroyed: u64,
}

impl Stream {
    fn of(meta: Meta) -> Result<Stream, EngineError> {
        let mut input = Reader::new(meta.value.clone());
        let decoded = (|| {
            let last = Id { ms: input.u64("last ms")?, seq: input.u64("last seq")? };
            let deleted = Id { ms: input.u64("deleted ms")?, seq: input.u64("deleted seq")? };
            let (added, groups) = (input.u64("entries added")?, input.u64("groups")?);
            let (next_group, destroyed) = (input.u64("next group")?, input.u64("destroyed groups")?);
            input.end()?;
            Ok((last, deleted, added, groups, next_group, destroyed))
        })();
        let (last, deleted, added, groups, next_group, destroyed) =
            decoded.map_err(|error: DecodeError| corrupt_row("redis stream", error))?;
        Ok(Stream { meta, last, deleted, added, groups, next_group, destroyed })
    }

    pub fn find(view: &View<'_>, key: &[u8]) -> Result<Option<Stream>, Fail> {
        Ok(view.find_kind(key, Kind::Stream)?.map(Stream::of).transpose()?)
    }

    pub fn open(store: &mut Store<'_>, key: &[u8]) -> Result<Option<Stream>, Fail> {
        Ok(store.find_kind(key, Kind::Stream)?.map(Stream::of).transpose()?)
    }

    /// A new and empty one; `save` puts it there.
    pub fn create(store: &mut Store<'_>, key: &[u8]) -> Stream {
        let meta = store.new_key(key, Kind::Stream);
        Stream { meta, last: Id::MIN, deleted: Id::MIN, added: 0, groups: 0, next_group: 0, destroyed: 0 }
    }

    /// Writes what changed; removes some rows of destroyed groups.
    pub fn save(mut self, store: &mut Store<'_>, key: &[u8]) -> Result<(), EngineError> {
        self.sweep(store)?;
        let mut out = Writer::with_capacity(64);
        out.u64(self.last.ms).u64(self.last.seq).u64(self.deleted.ms).u64(self.deleted.seq);
        out.u64(self.added).u64(self.groups).u64(self.next_group).u64(self.destroyed);
        self.meta.value = out.finish();
        store.save(key, &self.meta);
        Ok(())
    }

    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.meta.count
    }

    fn row(&self, tag: u8, parts: &[&[u8]]) -> Bytes {
        self.meta.element(&[&[tag], &parts.concat()[..]].concat())
    }

    pub fn entry_row(&self, id: Id) -> Bytes {
        self.row(ENTRY, &[&id.to_key()])
    }

    pub fn group_row(&self, name: &[u8]) -> Bytes {
        self.row(GROUP, &[name])
    }

    pub fn consumer_row(&self, group: u64, name: &[u8]) -> Bytes {
        self.row(CONSUMER, &[&group.to_be_bytes(), name])
    }

    pub fn consumer_name_row(&self, group: u64, consumer: u64) -> Bytes {
        self.row(CONSUMER_NAME, &[&group.to_be_bytes(), &consumer.to_be_bytes()])
    }

    pub fn pending_row(&self, group: u64, id: Id) -> Bytes {
        self.row(PENDING, &[&group.to_be_bytes(), &id.to_key()])
    }

    pub fn of_consumer_row(&self, group: u64, consumer: u64, id: Id) -> Bytes {
        self.row(OF_CONSUMER, &[&group.to_be_bytes(), &consumer.to_be_bytes(), &id.to_key()])
    }

    /// A number for a group that is made.
    pub fn new_group(&mut self) -> u64 {
        self.groups += 1;
        self.next_group += 1;
        self.next_group
    }

    /// Leaves a group's rows to the sweep.
    pub fn destroy_group(&mut self, store: &mut Store<'_>, name: &[u8], number: u64) {
        store.space.delete(self.group_row(name));
        store.space.put(self.row(DESTROYED, &[&number.to_be_bytes()]), Bytes::new());
        self.groups = self.groups.saturating_sub(1);
        self.destroyed += 1;
    }

    fn sweep(&mut self, store: &mut Store<'_>) -> Result<(), EngineError> {
        if self.destroyed == 0 {
            return Ok(());
        }
        let (heap, _) = prefix_page(store.space, &self.row(DESTROYED, &[]), None, 1)?;
        let Some((destroyed, _)) = heap.into_iter().next() else {
            return Err(EngineError::Corrupt("a redis stream counts destroyed groups that are not there".into()));
        };
        let number = destroyed.get(destroyed.len().saturating_sub(8)..).unwrap_or_default();
        let mut budget = SWEEP_ROWS;
        for tag in [CONSUMER, PENDING, OF_CONSUMER, CONSUMER_NAME] {
            let (rows, more) = prefix_page(store.space, &self.row(tag, &[number]), None, budget)?;
            budget -= rows.len();
            rows.into_iter().for_each(|(row, _)| store.space.delete(row));
            if more {
                return Ok(());
            }
        }
        store.space.delete(destroyed);
        self.destroyed -= 1;
        Ok(())
    }

    pub fn put_entry(&mut self, store: &mut Store<'_>, id: Id, words: &[Bytes]) {
        store.space.put(self.entry_row(id), entry_value(words));
        (self.last, self.added, self.meta.count) = (id, self.added.saturating_add(1), self.meta.count + 1);
    }

    /// Removes an entry that is there.
    pub fn delete_entry(&mut self, store: &mut Store<'_>, id: Id) {
        store.space.delete(self.entry_row(id));
        self.meta.count = self.meta.count.saturating_sub(1);
    }

    pub fn has_entry(&self, space: &dyn SpaceRead, id: Id) -> Result<bool, EngineError> {
        Ok(space.get(&self.entry_row(id))?.is_some())
    }

    /// Up to `limit` ids of entries, from the first on.
    pub fn first_ids(&self, space: &dyn SpaceRead, limit: usize) -> Result<Vec<Id>, EngineError> {
        let rows = (self.entry_row(Id::MIN), self.row(ENTRY + 1, &[]));
        ids(space, &rows, Direction::Forward, limit)
    }

    /// The first entry's; `Id::MIN` where there is none.
    pub fn first(&self, space: &dyn SpaceRead) -> Result<Id, EngineError> {
        Ok(self.first_ids(space, 1)?.first().copied().unwrap_or_default())
    }

    /// The last entry's; `Id::MIN` where there is none.
    pub fn top(&self, space: &dyn SpaceRead) -> Result<Id, EngineError> {
        let rows = (self.entry_row(Id::MIN), self.row(ENTRY + 1, &[]));
        Ok(ids(space, &rows, Direction::Backward, 1)?.first().copied().unwrap_or_default())
    }

    /// Ids in a group's pending entries, or only in a consumer's, from `from` to `to`, both included.
    pub fn pending_ids(
        &self,
        space: &dyn SpaceRead,
        group: u64,
        consumer: Option<u64>,
        (from, to): (Id, Id),
        limit: usize,
    ) -> Result<Vec<Id>, EngineError> {
        let row = |id| match consumer {
            Some(consumer) => self.of_consumer_row(group, consumer, id),
            None => self.pending_row(group, id),
        };
        let rows = (row(from), crate::rows::successor(&row(to)).into());
        if from > to {
            return Ok(Vec::new());
        }
        ids(space, &rows, Direction::Forward, limit)
    }

    /// The first and the last of a group's pending entries.
    pub fn pending_ends(&self, space: &dyn SpaceRead, group: u64) -> Result<Option<(Id, Id)>, EngineError> {
        let rows = (self.pending_row(group, Id::MIN), crate::rows::successor(&self.pending_row(group, Id::MAX)).into());
        let first = ids(space, &rows, Direction::Forward, 1)?;
        let last = ids(space, &rows, Direction::Backward, 1)?;
        Ok(first.first().copied().zip(last.first().copied()))
    }

    /// Entries from `from` to `to`, both included, while they fit.
    pub fn entries(
        &self,
        space: &dyn SpaceRead,
        (from, to): (Id, Id),
        direction: Direction,
        wanted: u64,
        room: &mut Room,
    ) -> Result<Entries, EngineError> {
        let mut found = Entries::default();
        if from > to || wanted == 0 {
            return Ok(found);
        }
        let (start, end) = (self.entry_row(from), crate::rows::successor(&self.entry_row(to)));
        let mut damage = None;
        space.range(KeyRange { start: &start, end: Some(&end) }, direction, &mut |row, value| {
            if found.entries.len() as u64 == wanted {
                return ControlFlow::Break(());
            }
            match Id::at_end(row).and_then(|id| Ok((id, entry_words(value)?))) {
                Ok((_, words)) if !room.take_entry(&words) => found.more = true,
                Ok(entry) => {
                    found.entries.push(entry);
                    return ControlFlow::Continue(());
                }
                Err(error) => damage = Some(error),
            }
            ControlFlow::Break(())
        })?;
        damage.map_or(Ok(found), Err)
    }

    /// One entry.
    pub fn entry(&self, space: &dyn SpaceRead, id: Id) -> Result<Option<Vec<Bytes>>, EngineError> {
        space.get(&self.entry_row(id))?.map(|row| entry_words(&row)).transpose()
    }

    /// Whether XDEL may have deleted entries from `id` on that are not before all others, so that counting entries does not tell how many
    /// there were; `first`: the first entry's id.
    pub fn has_gap_from(&self, first: Id, id: Id) -> bool {
        self.len() > 0 && self.deleted != Id::MIN && first <= self.deleted && id <= self.deleted
    }

    /// How many entries there ever were up to `id`, where that can be known; `first`: the first entry's id.
    pub fn position(&self, first: Id, id: Id) -> Option<i64> {
        let (added, before) = (self.added as i64, self.added.saturating_sub(self.len()) as i64);
        if self.added == 0 {
            return Some(0);
        }
        if (self.len() == 0 && id <= self.last) || id == self.last {
            return Some(added);
        }
        if id > self.last || (self.deleted != Id::MIN && self.deleted >= first) {
            return None;
        }
        match id.cmp(&first) {
            Ordering::Less => Some(before),
            Ordering::Equal => Some(before.saturating_add(1)),
            Ordering::Greater => None,
        }
    }

    /// Up to `limit` groups, by name, behind `after` where given.
    pub fn group_rows(
        &self,
        space: &dyn SpaceRead,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), EngineError> {
        let prefix = self.group_row(&[]);
        let after = after.map(|name| self.group_row(name));
        named(space, &prefix, after.as_deref(), limit)
    }

    /// Up to `limit` consumers of a group, by name, behind `after` where given.
    pub fn consumer_rows(
        &self,
        space: &dyn SpaceRead,
        group: u64,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), EngineError> {
        let prefix = self.consumer_row(group, &[]);
        let after = after.map(|name| self.consumer_row(group, name));
        named(space, &prefix, after.as_deref(), limit)
    }
}

/// Rows under a prefix, each as the name that its key ends with and its value.
fn named(
    space: &dyn SpaceRead,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Result<(Vec<(Bytes, Bytes)>, bool), EngineError> {
    let start = after.map_or_else(|| prefix.to_vec(), crate::rows::successor);
    let (rows, more) = page(space, &start, prefix_end(prefix).as_deref(), Direction::Forward, limit)?;
    Ok((rows.into_iter().map(|(row, value)| (row.slice(prefix.len()..), value)).collect(), more))
}

/// The ids that keys of rows end with.
fn ids(
    space: &dyn SpaceRead,
    rows: &(Bytes, Bytes),
    direction: Direction,
    limit: usize,
) -> Result<Vec<Id>, EngineError> {
    let (mut found, mut damage) = (Vec::new(), None);
    if limit == 0 {
        return Ok(found);
    }
    space.range(KeyRange { start: &rows.0, end: Some(&rows.1) }, direction, &mut |row, _| {
        match Id::at_end(row) {
            Ok(id) => found.push(id),
            Err(error) => damage = Some(error),
        }
        if found.len() < limit && damage.is_none() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    damage.map_or(Ok(found), Err)
}

//! The rows of the redis backend (docs/formats/backend-redis.md):
//!
//! ```text
//! S                              state: next sequence, next version, garbage, and of each database its epoch, keys, expiring
//! m epoch key                    a key: kind, sequence, expiry, version, and a string's value or a count
//! q epoch sequence               the key with this sequence: what SCAN walks
//! x epoch expiry key             keys that will expire, soonest first
//! e sequence …                   elements: field, member, or list position
//! o sequence score member        a sorted set's order
//! g sequence                     elements nobody owns any more
//! G epoch                        keys of a flushed database
//! ```
//!
//! A key gets a sequence never used before when it is made; its elements live under the sequence, so
//! deleting a key of a million elements is a few rows now and a sweep later. A database is an epoch, which is given once: FLUSHDB gives
//! it another. Each command that writes sweeps at most `SWEEP_ROWS` rows and `EXPIRE_KEYS` expired keys; the leader proposes the rest.
//! Each `save` gives the key a version that no key had before.
//!
//! Always: an expired key is not there, whether or not it was swept (twin in `tests.rs`); counts equal rows (`invariants.rs`).

use super::elements::NAME_AT;
use super::work::Work;
use super::{fail, Fail, REPLY_BYTES_MAX, WRONG_TYPE};
use crate::contract::{corrupt_row, SpaceRead, SpaceWrite};
use crate::rows::{key as row_key, key_number, page, prefix_end, prefix_page};
use base_engine::{Direction, EngineError, KeyRange};
use base_types::codec::{DecodeError, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::redis::{KeyVersion, DATABASES, SCRIPTS_DATABASE};
use base_types::KEY_BYTES_MAX;
use bytes::Bytes;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;

/// Rows of garbage that one command removes at most.
const SWEEP_ROWS: usize = 64;
/// Rows that COPY copies at most.
const COPY_ROWS_MAX: usize = 100_000;
/// And bytes.
const COPY_BYTES_MAX: usize = 4 * REPLY_BYTES_MAX;
/// Expired keys that one command removes at most.
const EXPIRE_KEYS: usize = 4;
/// A call sweeps for so many commands at most, and a leader's `Sweep` as for so many.
const SWEEP_COMMANDS_MAX: usize = 64;
/// A key that has expired is not there, whether it was swept or not: leaders sweep no sooner than so long after, many at once.
const SWEEP_AFTER_MS: u64 = 100;

const STATE: u8 = b'S';
pub(super) const META: u8 = b'm';
pub(super) const SEQUENCE: u8 = b'q';
pub(super) const EXPIRY: u8 = b'x';
const ELEMENT: u8 = b'e';
const ORDER: u8 = b'o';
pub(super) const GARBAGE: u8 = b'g';
pub(super) const GARBAGE_EPOCH: u8 = b'G';

/// Databases of a space: those that clients reach, and where scripts are kept.
const DATABASES_ALL: usize = SCRIPTS_DATABASE as usize + 1;

/// Where a list's first element goes: in the middle of what a position can be.
pub(super) const LIST_MIDDLE: u64 = 1 << 63;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    String = 1,
    Hash = 2,
    List = 3,
    Set = 4,
    Sorted = 5,
    Stream = 6,
}

impl Kind {
    pub const ALL: [Kind; 6] = [Kind::String, Kind::Hash, Kind::List, Kind::Set, Kind::Sorted, Kind::Stream];

    pub const fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Sorted => "zset",
            Kind::Stream => "stream",
        }
    }
}

/// A key as it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Meta {
    pub kind: Kind,
    pub sequence: u64,
    /// Of its last change; `save` gives a new one.
    pub version: u64,
    /// Cluster time; zero: never.
    pub expires_ms: u64,
    /// What `x` says; `save` keeps both alike.
    indexed_ms: u64,
    /// A string's value; what a stream knows beside its entries (`streams.rs`).
    pub value: Bytes,
    /// A collection's.
    pub count: u64,
    /// A list's first position; its last is `head + count - 1`.
    pub head: u64,
}

impl Meta {
    fn row(&self) -> Bytes {
        let mut out = Writer::with_capacity(41 + self.value.len());
        out.u8(self.kind as u8).u64(self.sequence).u64(self.expires_ms).u64(self.version);
        match self.kind {
            Kind::String => out.raw(&self.value),
            Kind::List => out.u64(self.count).u64(self.head),
            Kind::Stream => out.u64(self.count).raw(&self.value),
            _ => out.u64(self.count),
        };
        out.finish()
    }

    fn from_row(row: Bytes) -> Result<Meta, EngineError> {
        let mut input = Reader::new(row);
        let decoded = (|| {
            let kind = input.u8("kind")?;
            let kind = Kind::ALL.into_iter().find(|known| *known as u8 == kind).ok_or(DecodeError::Unknown("kind"))?;
            let (sequence, expires_ms, version) = (input.u64("sequence")?, input.u64("expiry")?, input.u64("version")?);
            let mut meta = Meta {
                kind,
                sequence,
                version,
                expires_ms,
                indexed_ms: expires_ms,
                value: Bytes::new(),
                count: 0,
                head: 0,
            };
            match kind {
                Kind::String => meta.value = input.rest(),
                Kind::List => (meta.count, meta.head) = (input.u64("count")?, input.u64("head")?),
                Kind::Stream => (meta.count, meta.value) = (input.u64("count")?, input.rest()),
                _ => meta.count = input.u64("count")?,
            }
            Ok(meta)
        })();
        decoded.map_err(|error| corrupt_row("redis key", error))
    }

    /// What it is under another sequence, for a copy.
    pub fn as_copy(&self, fresh: &Meta) -> Meta {
        Meta { sequence: fresh.sequence, indexed_ms: 0, ..self.clone() }
    }

    /// The row of an element; a list's element is its position.
    pub fn element(&self, name: &[u8]) -> Bytes {
        row_key(ELEMENT, &[&self.sequence.to_be_bytes(), name])
    }

    /// The row of a hash's field, or of a member of a set, sorted or not (`elements.rs`).
    pub fn field(&self, name: &[u8]) -> Bytes {
        row_key(ELEMENT, &[&self.sequence.to_be_bytes(), &Meta::hash_of(name).to_be_bytes(), name])
    }

    /// Where fields with this hash begin.
    pub fn hash_row(&self, hash: u64) -> Bytes {
        row_key(ELEMENT, &[&self.sequence.to_be_bytes(), &hash.to_be_bytes()])
    }

    /// The place of a name among fields.
    pub fn hash_of(name: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64(name)
    }

    /// What every element's row begins with.
    pub fn elements(&self) -> Bytes {
        self.element(&[])
    }

    /// The row that keeps a sorted set's member in order.
    pub fn order(&self, score: u64, member: &[u8]) -> Bytes {
        row_key(ORDER, &[&self.sequence.to_be_bytes(), &score.to_be_bytes(), member])
    }
}

/// The length of tag, sequence and score in an order row.
pub(super) const ORDER_AT: usize = 17;

/// What is known of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Database {
    pub epoch: u32,
    pub keys: u64,
    pub expiring: u64,
}

/// What is known of the whole space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State {
    /// The last sequence, version and epoch that were given.
    sequence: u64,
    version: u64,
    epoch: u32,
    pub garbage: u64,
    pub databases: [Database; DATABASES_ALL],
}

impl Default for State {
    /// Each database begins with its own number as its epoch; that of scripts is never given another, so it has the last epoch there is.
    fn default() -> State {
        let mut databases = [Database { epoch: u32::MAX, keys: 0, expiring: 0 }; DATABASES_ALL];
        for (epoch, database) in (0..u32::from(DATABASES)).zip(&mut databases) {
            database.epoch = epoch;
        }
        State { sequence: 0, version: 0, epoch: u32::from(DATABASES) - 1, garbage: 0, databases }
    }
}

impl State {
    pub fn read(space: &dyn SpaceRead) -> Result<State, EngineError> {
        let Some(row) = space.get(&[STATE])? else { return Ok(State::default()) };
        let mut input = Reader::new(row);
        let decoded = (|| {
            let mut state = State {
                sequence: input.u64("last sequence")?,
                version: input.u64("last version")?,
                epoch: input.u32("last epoch")?,
                garbage: input.u64("garbage")?,
                ..State::default()
            };
            for _ in 0..input.u8("databases")? {
                let number = usize::from(input.u8("database")?);
                let database = state.databases.get_mut(number).ok_or(DecodeError::Unknown("database"))?;
                let (epoch, keys) = (input.u32("epoch")?, input.u64("keys")?);
                *database = Database { epoch, keys, expiring: input.u64("expiring")? };
            }
            Ok(state)
        })();
        decoded.map_err(|error| corrupt_row("redis state", error))
    }

    fn row(&self) -> Bytes {
        let fresh = State::default().databases;
        let used = || self.databases.iter().zip(&fresh).enumerate().filter(|(_, (now, fresh))| now != fresh);
        let mut out = Writer::with_capacity(64);
        out.u64(self.sequence).u64(self.version).u32(self.epoch).u64(self.garbage).u8(used().count() as u8);
        for (number, (database, _)) in used() {
            out.u8(number as u8).u32(database.epoch).u64(database.keys).u64(database.expiring);
        }
        out.finish()
    }

    /// A database that there is: the number was checked when the call was decoded.
    fn database(&self, number: u8) -> &Database {
        &self.databases[usize::from(number) % DATABASES_ALL]
    }
}

/// When a command runs, and where what it picks at random begins: the same on every member.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// The cluster's time, which expiry goes by.
    pub now: u64,
    /// The door's wall clock; zero where a client without a door asks.
    pub unix_ms: u64,
    /// One sequence for all commands of a call, views of it among them.
    seed: Rc<Cell<u64>>,
    /// What they have looked at.
    pub work: Work,
}

impl Moment {
    pub fn new(now: u64, unix_ms: u64, seed: u64) -> Moment {
        Moment { now, unix_ms, seed: Rc::new(Cell::new(seed)), work: Work::default() }
    }

    /// The next number of the sequence that the seed begins (SplitMix64).
    pub fn random(&self) -> u64 {
        let seed = self.seed.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.seed.set(seed);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 where that is 0.
    pub fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.random()) * u128::from(bound)) >> 64) as u64
    }
}

/// Reads at one moment.
pub(super) struct View<'s> {
    pub space: &'s dyn SpaceRead,
    pub moment: Moment,
    state: State,
    database: u8,
}

impl<'s> View<'s> {
    /// Of database 0.
    pub fn open(space: &'s dyn SpaceRead, moment: Moment) -> Result<View<'s>, EngineError> {
        Ok(View { space, moment, state: State::read(space)?, database: 0 })
    }

    pub fn select(&mut self, database: u8) {
        self.database = database;
    }

    /// The same view of the same rows, by way of another space.
    pub fn through<'v>(&self, space: &'v dyn SpaceRead) -> View<'v> {
        View { space, moment: self.moment.clone(), state: self.state, database: self.database }
    }

    /// The same view, to be moved to another database.
    pub fn again(&self) -> View<'s> {
        View { space: self.space, moment: self.moment.clone(), state: self.state, database: self.database }
    }

    fn epoch(&self) -> u32 {
        self.state.database(self.database).epoch
    }

    /// The version of a key in any database; 0: it is not there.
    pub fn version_of(&mut self, key: &KeyVersion) -> Result<u64, Fail> {
        let before = std::mem::replace(&mut self.database, key.database);
        let found = self.find(&key.key);
        self.database = before;
        Ok(found?.map_or(0, |meta| meta.version))
    }

    pub fn now(&self) -> u64 {
        self.moment.now
    }

    pub fn keys(&self) -> u64 {
        self.state.database(self.database).keys
    }

    pub fn find(&self, key: &[u8]) -> Result<Option<Meta>, Fail> {
        check_name("key", key)?;
        let Some(row) = self.space.get(&meta_key(self.epoch(), key))? else { return Ok(None) };
        let meta = Meta::from_row(row)?;
        let shown = !is_expired(&meta, self.moment.now) || planted(Mutant::RedisExpiredShown);
        Ok(shown.then_some(meta))
    }

    /// As `find`; a key of another kind is an error.
    pub fn find_kind(&self, key: &[u8], kind: Kind) -> Result<Option<Meta>, Fail> {
        of_kind(self.find(key)?, kind)
    }

    /// No key has a sequence above this.
    pub fn last_sequence(&self) -> u64 {
        self.state.sequence
    }

    /// The longest field or member, or value of a field, among the first `limit`.
    pub fn longest_name(&self, meta: &Meta, limit: usize) -> Result<usize, EngineError> {
        let (rows, _) = prefix_page(self.space, &meta.elements(), None, limit)?;
        let value = |value: &Bytes| if meta.kind == Kind::Hash { value.len() } else { 0 };
        Ok(rows.iter().map(|(row, own)| row.len().saturating_sub(NAME_AT).max(value(own))).max().unwrap_or(0))
    }

    /// Whether all members of a set are so; `limit` are looked at.
    pub fn all_names(&self, meta: &Meta, limit: usize, is: impl Fn(&[u8]) -> bool) -> Result<bool, EngineError> {
        let (rows, _) = prefix_page(self.space, &meta.elements(), None, limit)?;
        Ok(rows.iter().all(|(row, _)| row.get(NAME_AT..).is_some_and(&is)))
    }

    /// Keys with sequences behind `after`, in that order, and whether there are more.
    pub fn walk(&self, after: u64, limit: usize) -> Result<(Vec<(u64, Bytes)>, bool), EngineError> {
        let prefix = row_key(SEQUENCE, &[&self.epoch().to_be_bytes()]);
        let start = row_key(SEQUENCE, &[&self.epoch().to_be_bytes(), &after.saturating_add(1).to_be_bytes()]);
        let (rows, more) = page(self.space, &start, prefix_end(&prefix).as_deref(), Direction::Forward, limit)?;
        let rows = rows.into_iter().map(|(row, key)| Ok((key_number(&row, 5)?, key)));
        Ok((rows.collect::<Result<_, EngineError>>()?, more))
    }
}

/// Reads and writes of the commands of one call.
pub(super) struct Store<'s> {
    pub space: &'s mut dyn SpaceWrite,
    pub moment: Moment,
    state: State,
    stored: State,
    database: u8,
    /// Commands that have written, for the sweep's measure.
    commands: usize,
}

impl<'s> Store<'s> {
    pub fn open(space: &'s mut dyn SpaceWrite, moment: Moment) -> Result<Store<'s>, EngineError> {
        let state = State::read(space)?;
        Ok(Store { space, moment, state, stored: state, database: 0, commands: 0 })
    }

    /// What follows is a command in this database.
    pub fn select(&mut self, database: u8) {
        self.database = database;
        self.commands += 1;
    }

    pub fn database(&self) -> u8 {
        self.database
    }

    /// Carries out something in another database.
    pub fn within<T>(&mut self, database: u8, run: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.database, database);
        let done = run(self);
        self.database = before;
        done
    }

    /// The same state, for a command that only reads.
    pub fn view(&self) -> View<'_> {
        View { space: &*self.space, moment: self.moment.clone(), state: self.state, database: self.database }
    }

    fn epoch(&self) -> u32 {
        self.state.database(self.database).epoch
    }

    fn here(&mut self) -> &mut Database {
        &mut self.state.databases[usize::from(self.database) % DATABASES_ALL]
    }

    pub fn now(&self) -> u64 {
        self.moment.now
    }

    /// The key, if it is there; one that has expired is removed.
    pub fn find(&mut self, key: &[u8]) -> Result<Option<Meta>, Fail> {
        check_name("key", key)?;
        let Some(row) = self.space.get(&meta_key(self.epoch(), key))? else { return Ok(None) };
        let meta = Meta::from_row(row)?;
        if is_expired(&meta, self.moment.now) {
            self.remove(key, &meta);
            return Ok(None);
        }
        Ok(Some(meta))
    }

    /// As `find`; a key of another kind is an error.
    pub fn find_kind(&mut self, key: &[u8], kind: Kind) -> Result<Option<Meta>, Fail> {
        of_kind(self.find(key)?, kind)
    }

    /// As `find_kind`, or a new and empty one (`save` puts it there).
    pub fn find_or_new(&mut self, key: &[u8], kind: Kind) -> Result<Meta, Fail> {
        Ok(match self.find_kind(key, kind)? {
            Some(meta) => meta,
            None => self.new_key(key, kind),
        })
    }

    /// A key of which only its sequence is written yet.
    pub fn new_key(&mut self, key: &[u8], kind: Kind) -> Meta {
        self.state.sequence += 1;
        self.here().keys += 1;
        let sequence = self.state.sequence;
        let row = row_key(SEQUENCE, &[&self.epoch().to_be_bytes(), &sequence.to_be_bytes()]);
        self.space.put(row, Bytes::copy_from_slice(key));
        Meta {
            kind,
            sequence,
            version: 0,
            expires_ms: 0,
            indexed_ms: 0,
            value: Bytes::new(),
            count: 0,
            head: LIST_MIDDLE,
        }
    }

    /// Writes a key; a collection that has become empty is removed, a stream is not.
    pub fn save(&mut self, key: &[u8], meta: &Meta) {
        if !matches!(meta.kind, Kind::String | Kind::Stream) && meta.count == 0 {
            return self.remove(key, meta);
        }
        self.write(key, meta);
    }

    fn write(&mut self, key: &[u8], meta: &Meta) {
        if meta.expires_ms != meta.indexed_ms {
            self.unindex(key, meta);
            if meta.expires_ms != 0 {
                self.here().expiring += 1;
                self.space.put(expiry_key(self.epoch(), meta.expires_ms, key), Bytes::new());
            }
        }
        self.state.version += 1;
        let stamped = Meta { version: self.state.version, ..meta.clone() };
        self.space.put(meta_key(self.epoch(), key), stamped.row());
    }

    fn unindex(&mut self, key: &[u8], meta: &Meta) {
        if meta.indexed_ms != 0 {
            let counted = planted(Mutant::ExpiringCounted);
            let database = self.here();
            database.expiring = database.expiring.saturating_sub(u64::from(!counted));
            self.space.delete(expiry_key(self.epoch(), meta.indexed_ms, key));
        }
    }

    /// Removes a key; its elements are left to the sweep.
    pub fn remove(&mut self, key: &[u8], meta: &Meta) {
        self.unindex(key, meta);
        self.space.delete(meta_key(self.epoch(), key));
        self.space.delete(row_key(SEQUENCE, &[&self.epoch().to_be_bytes(), &meta.sequence.to_be_bytes()]));
        let database = self.here();
        database.keys = database.keys.saturating_sub(1);
        if meta.kind == Kind::Stream || meta.kind != Kind::String && meta.count > 0 {
            self.discard(meta.sequence);
        }
    }

    /// Takes a key out of its database; its elements stay where they are.
    pub fn take_out(&mut self, key: &[u8], meta: &Meta) {
        self.unindex(key, meta);
        self.space.delete(meta_key(self.epoch(), key));
        self.space.delete(row_key(SEQUENCE, &[&self.epoch().to_be_bytes(), &meta.sequence.to_be_bytes()]));
        let database = self.here();
        database.keys = database.keys.saturating_sub(1);
    }

    /// Puts a key that was taken out into this database, under a name that is free.
    pub fn put_in(&mut self, key: &[u8], meta: Meta) {
        self.here().keys += 1;
        let row = row_key(SEQUENCE, &[&self.epoch().to_be_bytes(), &meta.sequence.to_be_bytes()]);
        self.space.put(row, Bytes::copy_from_slice(key));
        let meta = Meta { indexed_ms: 0, ..meta };
        self.write(key, &meta);
    }

    /// All rows of a key's elements; too many, or too long ones together, are an error.
    pub fn rows_of(&self, meta: &Meta) -> Result<Vec<(Bytes, Bytes)>, Fail> {
        let (mut all, mut bytes, mut over) = (Vec::new(), 0, false);
        for tag in [ELEMENT, ORDER] {
            let prefix = row_key(tag, &[&meta.sequence.to_be_bytes()]);
            let end = prefix_end(&prefix);
            let range = KeyRange { start: &prefix, end: end.as_deref() };
            self.space.range(range, Direction::Forward, &mut |row, value| {
                bytes += row.len() + value.len();
                over = all.len() >= COPY_ROWS_MAX || bytes > COPY_BYTES_MAX;
                if over {
                    return ControlFlow::Break(());
                }
                all.push((Bytes::copy_from_slice(row), Bytes::copy_from_slice(value)));
                ControlFlow::Continue(())
            })?;
            if over {
                return fail(format!(
                    "ERR the key has more than {COPY_ROWS_MAX} rows or {COPY_BYTES_MAX} bytes; copy it in parts"
                ));
            }
        }
        Ok(all)
    }

    /// Gives them to another key.
    pub fn copy_rows(&mut self, rows: Vec<(Bytes, Bytes)>, to: &Meta) {
        for (row, value) in rows {
            let (Some(tag), Some(rest)) = (row.first(), row.get(9..)) else { continue };
            self.space.put(row_key(*tag, &[&to.sequence.to_be_bytes(), rest]), value);
        }
    }

    fn discard(&mut self, sequence: u64) {
        self.state.garbage += 1;
        self.space.put(row_key(GARBAGE, &[&sequence.to_be_bytes()]), Bytes::new());
    }

    /// Removes every key of the database: it gets another epoch.
    pub fn flush(&mut self) -> Result<(), Fail> {
        if self.here().keys == 0 {
            return Ok(());
        }
        let Some(epoch) = self.state.epoch.checked_add(1).filter(|epoch| *epoch < u32::MAX) else {
            return fail("ERR the database cannot be flushed any more; delete the keyspace and create it again");
        };
        self.space.put(row_key(GARBAGE_EPOCH, &[&self.epoch().to_be_bytes()]), Bytes::new());
        self.state.epoch = epoch;
        self.state.garbage += 1;
        *self.here() = Database { epoch, keys: 0, expiring: 0 };
        Ok(())
    }

    /// Exchanges all keys of two databases.
    pub fn swap(&mut self, one: u8, other: u8) {
        self.state.databases.swap(usize::from(one % DATABASES), usize::from(other % DATABASES));
    }

    /// Ends a call: sweeps a little for each command, writes the state.
    pub fn finish(mut self) -> Result<(), EngineError> {
        let commands = self.commands.clamp(1, SWEEP_COMMANDS_MAX);
        self.sweep_expired(EXPIRE_KEYS * commands)?;
        self.sweep_garbage(SWEEP_ROWS * commands)?;
        self.write_state();
        Ok(())
    }

    /// What a leader proposes: removes what has expired and what nobody owns any more. Gives how many keys.
    pub fn sweep(mut self) -> Result<u32, EngineError> {
        let removed = self.sweep_expired(EXPIRE_KEYS * SWEEP_COMMANDS_MAX)?;
        self.sweep_garbage(SWEEP_ROWS * SWEEP_COMMANDS_MAX)?;
        self.write_state();
        Ok(removed)
    }

    fn write_state(&mut self) {
        if self.state != self.stored {
            self.space.put(row_key(STATE, &[]), self.state.row());
        }
    }

    fn sweep_expired(&mut self, most: usize) -> Result<u32, EngineError> {
        let (mut left, mut removed) = (most, 0);
        for number in 0..DATABASES {
            if left == 0 || self.state.database(number).expiring == 0 {
                continue;
            }
            self.database = number;
            let epoch = self.epoch();
            let start = row_key(EXPIRY, &[&epoch.to_be_bytes()]);
            let end = expiry_key(epoch, self.moment.now.saturating_add(1), &[]);
            let (rows, _) = page(self.space, &start, Some(&end), Direction::Forward, left)?;
            left -= rows.len();
            for (row, _) in rows {
                let key = row.slice(13..);
                if let Some(meta) = self.space.get(&meta_key(epoch, &key))? {
                    self.remove(&key, &Meta::from_row(meta)?);
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    fn sweep_garbage(&mut self, most: usize) -> Result<(), EngineError> {
        let mut budget = most;
        while budget > 0 && self.state.garbage > 0 {
            let (heap, _) = prefix_page(self.space, &[GARBAGE], None, 1)?;
            let used = match heap.first() {
                Some((row, _)) => self.sweep_elements(row, budget)?,
                None => self.sweep_epoch(budget)?,
            };
            budget -= used.clamp(1, budget);
        }
        Ok(())
    }

    /// Removes up to `budget` elements of a key that is gone; returns how many.
    fn sweep_elements(&mut self, garbage: &Bytes, budget: usize) -> Result<usize, EngineError> {
        let mut used = 0;
        for tag in [ELEMENT, ORDER] {
            let prefix = row_key(tag, &[&garbage[1..]]);
            let (rows, more) = prefix_page(self.space, &prefix, None, budget - used)?;
            used += rows.len();
            for (row, _) in rows {
                self.space.delete(row);
            }
            if more {
                return Ok(used);
            }
        }
        self.space.delete(garbage.clone());
        self.state.garbage -= 1;
        Ok(used)
    }

    /// Removes up to `budget` rows of a flushed epoch; returns how many.
    fn sweep_epoch(&mut self, budget: usize) -> Result<usize, EngineError> {
        let (heap, _) = prefix_page(self.space, &[GARBAGE_EPOCH], None, 1)?;
        let Some((garbage, _)) = heap.into_iter().next() else {
            return Err(EngineError::Corrupt("redis state counts garbage that is not there".into()));
        };
        let mut used = 0;
        for tag in [META, SEQUENCE, EXPIRY] {
            let prefix = row_key(tag, &[&garbage[1..]]);
            let (rows, more) = prefix_page(self.space, &prefix, None, budget - used)?;
            used += rows.len();
            for (row, value) in rows {
                if tag == META {
                    let meta = Meta::from_row(value)?;
                    if meta.kind != Kind::String {
                        self.discard(meta.sequence);
                    }
                }
                self.space.delete(row);
            }
            if more {
                return Ok(used);
            }
        }
        self.space.delete(garbage);
        self.state.garbage -= 1;
        Ok(used)
    }
}

/// When a leader is to propose a sweep, in the cluster's time; none: there is nothing to sweep.
pub(super) fn next_sweep(space: &dyn SpaceRead) -> Result<Option<u64>, EngineError> {
    let state = State::read(space)?;
    if state.garbage > 0 {
        return Ok(Some(0));
    }
    let mut soonest: Option<u64> = None;
    for database in state.databases.iter().filter(|database| database.expiring > 0) {
        let (rows, _) = prefix_page(space, &row_key(EXPIRY, &[&database.epoch.to_be_bytes()]), None, 1)?;
        for (row, _) in rows {
            let at = key_number(&row, 5)?.saturating_add(SWEEP_AFTER_MS);
            soonest = Some(soonest.map_or(at, |soonest| soonest.min(at)));
        }
    }
    Ok(soonest)
}

/// Whether any key's end is after the first of these times, and not after the second.
pub(super) fn any_ends(space: &dyn SpaceRead, (after_ms, until_ms): (u64, u64)) -> Result<bool, EngineError> {
    for database in State::read(space)?.databases.iter().filter(|database| database.expiring > 0) {
        let start = expiry_key(database.epoch, after_ms.saturating_add(1), &[]);
        let end = expiry_key(database.epoch, until_ms.saturating_add(1), &[]);
        if !page(space, &start, Some(&end), Direction::Forward, 1)?.0.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// From where to where the rows of an epoch lie.
pub(super) fn epoch_rows(tag: u8, epoch: u32) -> (Bytes, Bytes) {
    let start = row_key(tag, &[&epoch.to_be_bytes()]);
    let end = epoch.checked_add(1).map_or_else(|| row_key(tag + 1, &[]), |next| row_key(tag, &[&next.to_be_bytes()]));
    (start, end)
}

fn meta_key(epoch: u32, key: &[u8]) -> Bytes {
    row_key(META, &[&epoch.to_be_bytes(), key])
}

fn expiry_key(epoch: u32, expires_ms: u64, key: &[u8]) -> Bytes {
    row_key(EXPIRY, &[&epoch.to_be_bytes(), &expires_ms.to_be_bytes(), key])
}

fn is_expired(meta: &Meta, now: u64) -> bool {
    meta.expires_ms != 0 && meta.expires_ms <= now
}

fn of_kind(meta: Option<Meta>, kind: Kind) -> Result<Option<Meta>, Fail> {
    match meta {
        Some(meta) if meta.kind != kind => fail(WRONG_TYPE),
        meta => Ok(meta),
    }
}

/// Keys, fields and members are parts of an engine's key, so they share its bound.
pub(super) fn check_name(what: &str, name: &[u8]) -> Result<(), Fail> {
    if name.len() > KEY_BYTES_MAX {
        return fail(format!("ERR {what} is {} bytes long; at most {KEY_BYTES_MAX} are taken", name.len()));
    }
    Ok(())
}

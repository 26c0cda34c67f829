//! The rows of the space, as keys and values (docs/formats/backend-versioned.md).
//!
//! ```text
//!   m                              stamp, closed, compacted, horizon, collected, counts
//!   d key                          created, modified, version, lease, value        the newest; a deleted key has no row
//!   h death (8) sub (4)            put or deleted, time, key, what the key was     history and change index
//!   i key' 00 00 death (8)         sub                                             history by key, where the key was there
//!   p pin (8)                      stamp, until
//!   e lease (8)                    time to live, due, ending
//!   t due (8) lease (8)            (empty)
//!   k lease (8) key                (empty)
//! ```
//!
//! `key'` is the key with `00` written as `00 ff`: rows lie in the order of the keys, whatever bytes these have.
//! Always: what does not decode is damage, never a panic. Not here: which rows a change writes (`stage.rs`).

use super::{Position, Row, Span, STAMP_FIRST};
use crate::contract::{corrupt_row, SpaceRead};
use crate::rows::{key as row_key, prefix_end, successor};
use base_engine::EngineError;
use base_types::codec::{DecodeError, Reader, Writer};
use bytes::Bytes;

pub(super) const META: u8 = b'm';
pub(super) const DATA: u8 = b'd';
pub(super) const HISTORY: u8 = b'h';
pub(super) const INDEX: u8 = b'i';
pub(super) const PIN: u8 = b'p';
pub(super) const LEASE: u8 = b'e';
pub(super) const DUE: u8 = b't';
pub(super) const ATTACHED: u8 = b'k';

const META_VERSION: u8 = 1;

/// Keys from `start` to `end` (exclusive; none: no end).
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub start: Bytes,
    pub end: Option<Bytes>,
}

impl Bounds {
    pub fn of(span: &Span) -> Bounds {
        match span {
            Span::One { key } => Bounds { start: key.clone(), end: Some(successor(key).into()) },
            Span::Range { start, end } => Bounds { start: start.clone(), end: Some(end.clone()) },
            Span::From { start } => Bounds { start: start.clone(), end: None },
        }
    }

    pub fn holds(&self, key: &[u8]) -> bool {
        key >= &self.start[..] && self.end.as_ref().is_none_or(|end| key < &end[..])
    }
}

pub(super) fn data_key(key: &[u8]) -> Bytes {
    row_key(DATA, &[key])
}

pub(super) fn history_key(at: Position) -> Bytes {
    row_key(HISTORY, &[&at.stamp.to_be_bytes(), &at.sub.to_be_bytes()])
}

/// Where a history row stands.
pub(super) fn history_position(row: &[u8]) -> Result<Position, EngineError> {
    match row.get(1..).and_then(|rest| <[u8; 12]>::try_from(rest).ok()) {
        Some([a, b, c, d, e, f, g, h, s, t, u, v]) => {
            Ok(Position { stamp: u64::from_be_bytes([a, b, c, d, e, f, g, h]), sub: u32::from_be_bytes([s, t, u, v]) })
        }
        None => Err(damage(format!("a history row's key is {} bytes long; expected 13", row.len()))),
    }
}

/// The index row of a key that changed at a stamp.
pub(super) fn index_key(key: &[u8], death: u64) -> Bytes {
    let mut out = index_start(key);
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&death.to_be_bytes());
    out.into()
}

/// After every index row of a key.
pub(super) fn index_after(key: &[u8]) -> Bytes {
    let mut out = index_start(key);
    out.extend_from_slice(&[0, 1]);
    out.into()
}

/// Before every index row of this key and of later ones.
pub(super) fn index_start(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 11);
    out.push(INDEX);
    for byte in key {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out
}

/// How long a key is in an index row.
pub(super) fn escaped_len(key: &[u8]) -> usize {
    key.len() + key.iter().filter(|byte| **byte == 0).count()
}

/// The key of an index row, and the stamp.
pub(super) fn index_parts(row: &[u8]) -> Result<(Vec<u8>, u64), EngineError> {
    let bad = || damage(format!("an index row's key of {} bytes does not decode", row.len()));
    let body = row.get(1..).ok_or_else(bad)?;
    let (text, death) = body.split_at(body.len().checked_sub(8).ok_or_else(bad)?);
    let text = text.strip_suffix(&[0, 0]).ok_or_else(bad)?;
    let mut key = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        key.push(*byte);
        if *byte == 0 && bytes.next() != Some(&0xff) {
            return Err(bad());
        }
    }
    Ok((key, u64::from_be_bytes(death.try_into().map_err(|_| bad())?)))
}

pub(super) fn pin_key(pin: u64) -> Bytes {
    row_key(PIN, &[&pin.to_be_bytes()])
}

pub(super) fn lease_key(lease: u64) -> Bytes {
    row_key(LEASE, &[&lease.to_be_bytes()])
}

pub(super) fn due_key(due_ms: u64, lease: u64) -> Bytes {
    row_key(DUE, &[&due_ms.to_be_bytes(), &lease.to_be_bytes()])
}

pub(super) fn attached_key(lease: u64, key: &[u8]) -> Bytes {
    row_key(ATTACHED, &[&lease.to_be_bytes(), key])
}

/// After every row of a tag.
pub(super) fn end_of(tag: u8) -> Vec<u8> {
    vec![tag + 1]
}

/// After every row that begins so: tags are below `ff`, so there is such a place.
pub(super) fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    prefix_end(prefix).unwrap_or_default()
}

pub(super) fn damage(text: String) -> EngineError {
    EngineError::Corrupt(text)
}

/// A row as it lies in the engine: its value is copied only where it is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowRef<'a> {
    pub created: u64,
    pub modified: u64,
    pub version: u64,
    pub lease: u64,
    pub value: &'a [u8],
}

impl<'a> RowRef<'a> {
    pub fn decode(mut bytes: &'a [u8]) -> Result<RowRef<'a>, EngineError> {
        let mut number = || take_varint(&mut bytes).ok_or_else(|| damage("a row's stamps do not decode".into()));
        let (created, modified, version, lease) = (number()?, number()?, number()?, number()?);
        Ok(RowRef { created, modified, version, lease, value: bytes })
    }

    pub fn of(row: &'a Row) -> RowRef<'a> {
        let Row { created, modified, version, lease, value } = row;
        RowRef { created: *created, modified: *modified, version: *version, lease: *lease, value }
    }

    pub fn to_row(self, with_value: bool) -> Row {
        let RowRef { created, modified, version, lease, value } = self;
        let value = if with_value { Bytes::copy_from_slice(value) } else { Bytes::new() };
        Row { created, modified, version, lease, value }
    }
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if shift == 63 && *byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn put_row(out: &mut Writer, row: &Row) {
    out.varint(row.created).varint(row.modified).varint(row.version).varint(row.lease).raw(&row.value);
}

pub(super) fn encode_row(row: &Row) -> Bytes {
    let mut out = Writer::with_capacity(row.value.len() + 24);
    put_row(&mut out, row);
    out.finish()
}

/// A row out of the space, sharing its memory.
pub(super) fn decode_row(bytes: Bytes) -> Result<Row, EngineError> {
    let mut input = Reader::new(bytes);
    let decoded = (|| -> Result<Row, DecodeError> {
        Ok(Row {
            created: input.varint("created")?,
            modified: input.varint("modified")?,
            version: input.varint("version")?,
            lease: input.varint("lease")?,
            value: input.rest(),
        })
    })();
    decoded.map_err(|error| corrupt_row("a versioned row", error))
}

/// A row of history: what happened to a key, and what it was before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Past {
    pub deleted: bool,
    pub time_ms: u64,
    pub key: Bytes,
    pub before: Option<Row>,
}

impl Past {
    pub fn encode(&self) -> Bytes {
        let mut out =
            Writer::with_capacity(self.key.len() + self.before.as_ref().map_or(0, |row| row.value.len()) + 40);
        out.u8(if self.deleted { 2 } else { 1 }).varint(self.time_ms).bytes(&self.key).bool(self.before.is_some());
        self.before.iter().for_each(|row| put_row(&mut out, row));
        out.finish()
    }

    pub fn decode(bytes: Bytes) -> Result<Past, EngineError> {
        let mut input = Reader::new(bytes);
        let decoded = (|| -> Result<(bool, u64, Bytes, bool), DecodeError> {
            let deleted = match input.u8("change")? {
                1 => false,
                2 => true,
                _ => return Err(DecodeError::Unknown("change")),
            };
            let (time_ms, key) = (input.varint("time")?, input.bytes("key")?);
            Ok((deleted, time_ms, key, input.bool("before")?))
        })();
        let (deleted, time_ms, key, there) = decoded.map_err(|error| corrupt_row("a history row", error))?;
        let before = if there { Some(decode_row(input.rest())?) } else { None };
        Ok(Past { deleted, time_ms, key, before })
    }
}

/// The longest head of a history row: kind, time, length, key, whether a row follows.
const HEAD_BYTES_MAX: usize = 1 + 10 + 10 + base_types::KEY_BYTES_MAX + 1;

/// What a history row says of itself: no value is copied.
pub(super) struct Head {
    pub time_ms: u64,
    pub key: Bytes,
    /// Whether the key was there before, and so has an index row.
    pub indexed: bool,
}

impl Head {
    pub fn decode(row: &[u8]) -> Result<Head, EngineError> {
        let mut input = Reader::new(Bytes::copy_from_slice(&row[..row.len().min(HEAD_BYTES_MAX)]));
        let head = (|| -> Result<Head, DecodeError> {
            input.u8("change")?;
            Ok(Head { time_ms: input.varint("time")?, key: input.bytes("key")?, indexed: input.bool("before")? })
        })();
        head.map_err(|error| corrupt_row("a history row", error))
    }
}

/// The state of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meta {
    /// Of the last commit.
    pub stamp: u64,
    /// Later commits have stamps above.
    pub closed: u64,
    /// Reads below are refused, but for pins.
    pub compacted: u64,
    /// History that ended here or before may go.
    pub horizon: u64,
    /// As far as it is gone.
    pub collected: Position,
    pub keys: u64,
    pub leases: u64,
    pub pins: u64,
}

impl Default for Meta {
    /// Of a space without a commit: at the first stamp, so that a stamp is a revision of etcd's, whose first put is at 2.
    fn default() -> Meta {
        Meta {
            stamp: STAMP_FIRST,
            closed: 0,
            compacted: 0,
            horizon: 0,
            collected: Position::default(),
            keys: 0,
            leases: 0,
            pins: 0,
        }
    }
}

impl Meta {
    pub fn read(space: &dyn SpaceRead) -> Result<Meta, EngineError> {
        let Some(row) = space.get(&[META])? else { return Ok(Meta::default()) };
        let mut input = Reader::new(row);
        let decoded = (|| -> Result<Meta, DecodeError> {
            let version = input.u8("version")?;
            if version != META_VERSION {
                return Err(DecodeError::version("the state of a versioned backend", version, META_VERSION));
            }
            Ok(Meta {
                stamp: input.varint("stamp")?,
                closed: input.varint("closed")?,
                compacted: input.varint("compacted")?,
                horizon: input.varint("horizon")?,
                collected: Position { stamp: input.varint("collected")?, sub: input.u32("collected change")? },
                keys: input.varint("keys")?,
                leases: input.varint("leases")?,
                pins: input.varint("pins")?,
            })
        })();
        let meta = decoded.map_err(|error| corrupt_row("the state of a versioned backend", error))?;
        input.end().map_err(|error| corrupt_row("the state of a versioned backend", error))?;
        Ok(meta)
    }

    pub fn row(&self) -> Bytes {
        let mut out = Writer::new();
        out.u8(META_VERSION).varint(self.stamp).varint(self.closed).varint(self.compacted).varint(self.horizon);
        out.varint(self.collected.stamp).u32(self.collected.sub);
        out.varint(self.keys).varint(self.leases).varint(self.pins);
        out.finish()
    }

    /// The stamp of the next commit.
    pub fn next(&self) -> Result<u64, EngineError> {
        // Stamps go up by one from where they are closed (`CLOSED_MAX`): no cluster lives that long.
        self.stamp.max(self.closed).checked_add(1).ok_or_else(|| damage("the stamps are at their end".into()))
    }

    /// The greatest stamp that can be read: no commit comes at it or below any more.
    pub fn readable(&self) -> u64 {
        self.stamp.max(self.closed)
    }
}

/// A lease as it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LeaseRow {
    pub ttl_ms: u64,
    /// In the cluster's time. 0: it is ending.
    pub due_ms: u64,
}

impl LeaseRow {
    pub fn read(space: &dyn SpaceRead, lease: u64) -> Result<Option<LeaseRow>, EngineError> {
        space.get(&lease_key(lease))?.map(LeaseRow::decode).transpose()
    }

    pub fn decode(row: Bytes) -> Result<LeaseRow, EngineError> {
        let (ttl_ms, due_ms) = two_numbers("a lease", row)?;
        Ok(LeaseRow { ttl_ms, due_ms })
    }

    pub fn row(&self) -> Bytes {
        numbers(self.ttl_ms, self.due_ms)
    }

    /// Whether keys may be attached to it and it may be renewed.
    pub fn lives(&self, now_ms: u64) -> bool {
        self.due_ms > now_ms
    }
}

/// A pin as it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PinRow {
    pub stamp: u64,
    pub until_ms: u64,
}

impl PinRow {
    pub fn decode(row: Bytes) -> Result<PinRow, EngineError> {
        let (stamp, until_ms) = two_numbers("a pin", row)?;
        Ok(PinRow { stamp, until_ms })
    }

    pub fn row(&self) -> Bytes {
        numbers(self.stamp, self.until_ms)
    }
}

fn numbers(one: u64, other: u64) -> Bytes {
    let mut out = Writer::new();
    out.varint(one).varint(other);
    out.finish()
}

fn two_numbers(what: &'static str, row: Bytes) -> Result<(u64, u64), EngineError> {
    let mut input = Reader::new(row);
    let pair = (|| Ok((input.varint("number")?, input.varint("number")?)))();
    let pair = pair.map_err(|error: DecodeError| corrupt_row(what, error))?;
    input.end().map_err(|error| corrupt_row(what, error))?;
    Ok(pair)
}

/// The number of an index row.
pub(super) fn index_sub(value: &[u8]) -> Result<u32, EngineError> {
    value.try_into().map(u32::from_be_bytes).map_err(|_| damage("an index row's value does not decode".into()))
}

//! The rows of a shard's space (docs/formats/s3-rows.md).
//!
//! Always: rows of one key stand together within a table, versions newest first; no row ends in `\x01` (`tests/bed.rs`);
//! no row's key is the beginning of another's within its table.

use super::command::Totals;
use crate::contract::corrupt_row;
use crate::s3_key::{self, close, closed_bytes, lower};
use base_engine::EngineError;
use base_types::codec::DecodeError;
use base_types::s3::document::peek_number;
use base_types::s3::{field, VersionStamp};
use bytes::Bytes;

/// The shard's own record: one row.
pub(super) const STATE: u8 = b'S';
/// What a listing returns of keys whose newest version is an object.
pub(super) const CURRENT: u8 = b'c';
/// Every version.
pub(super) const VERSION: u8 = b'v';
/// Inline data.
pub(super) const DATA: u8 = b'd';
/// The null version, where the current row does not tell it.
pub(super) const NULL: u8 = b'n';
/// What was put once (multipart completions).
pub(super) const ONCE: u8 = b'o';
/// The count index.
pub(super) const INDEX: u8 = b'i';
/// What rows were while a snapshot is pinned.
pub(super) const HISTORY: u8 = b'h';
/// Rows changed while the shard is split.
pub(super) const FEED: u8 = b'q';

/// Places of bytes that no version names any more. Stay where they are in a split.
pub(super) const FREED: u8 = b'f';

/// Keys of writes, one in so many: where the load lies.
pub(super) const SAMPLE: u8 = b'k';

/// The tables that belong to keys: what a split copies, in the order it does.
pub(super) const KEY_TABLES: [u8; 5] = [CURRENT, DATA, NULL, ONCE, VERSION];

/// A delete marker.
pub(super) const FLAG_MARKER: u8 = 1;
/// The null version.
pub(super) const FLAG_NULL: u8 = 2;
/// Has inline data.
pub(super) const FLAG_INLINE: u8 = 4;
/// Has a retention or a legal hold.
pub(super) const FLAG_LOCK: u8 = 8;
/// Names no bytes of a data store: nothing comes free when it goes. Rows of earlier builds lack it.
pub(super) const FLAG_PLACELESS: u8 = 16;
const FLAGS_ALL: u8 = 31;

fn row(tag: u8, closed: &[u8], rest: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(1 + closed.len() + rest.len());
    out.push(tag);
    out.extend_from_slice(closed);
    out.extend_from_slice(rest);
    out.into()
}

/// `c`, `n`: one row a key.
pub(super) fn of_key(tag: u8, closed: &[u8]) -> Bytes {
    row(tag, closed, &[])
}

/// `v`, `d`: one row a version. The stamp is turned over, so that newer stands first; the zero behind
/// keeps the row from ending in `\x01`.
pub(super) fn of_version(tag: u8, closed: &[u8], stamp: VersionStamp) -> Bytes {
    let mut rest = [0; 9];
    rest[..8].copy_from_slice(&(!stamp.0).to_be_bytes());
    row(tag, closed, &rest)
}

pub(super) fn of_once(closed: &[u8], token: u128) -> Bytes {
    let mut rest = [0; 17];
    rest[..16].copy_from_slice(&token.to_be_bytes());
    row(ONCE, closed, &rest)
}

pub(super) fn of_feed(sequence: u64) -> Bytes {
    row(FEED, &sequence.to_be_bytes(), &[0])
}

/// The place of a sample; what it was before is overwritten.
pub(super) fn of_sample(place: u64) -> Bytes {
    row(SAMPLE, &place.to_be_bytes(), &[0])
}

pub(super) fn of_history(key: &[u8], ordinal: u32) -> Bytes {
    let mut rest = [0; 5];
    rest[..4].copy_from_slice(&ordinal.to_be_bytes());
    row(HISTORY, key, &rest)
}

/// Splits a history row's key: what row, as of which pin.
pub(super) fn history_parts(key: &[u8]) -> Result<(&[u8], u32), EngineError> {
    let parts = key.len().checked_sub(5).filter(|at| *at >= 1).map(|at| (&key[1..at], &key[at..at + 4]));
    let parts = parts.and_then(|(row, ordinal)| Some((row, u32::from_be_bytes(ordinal.try_into().ok()?))));
    parts.ok_or_else(|| EngineError::Corrupt(format!("a history row has a key of {} bytes", key.len())))
}

/// Where a row stands in the order of keys and versions: its key without the table.
pub(super) fn position(key: &[u8]) -> &[u8] {
    key.get(1..).unwrap_or_default()
}

/// The closed key within a row of a key table.
pub(super) fn closed_of(key: &[u8]) -> Result<&[u8], EngineError> {
    let rest = position(key);
    match closed_bytes(rest) {
        Some(end) => Ok(&rest[..end]),
        None => Err(EngineError::Corrupt(format!("a row of a shard of {} bytes holds no key", key.len()))),
    }
}

/// The client's key of a closed one.
pub(super) fn client_key(closed: &[u8]) -> Bytes {
    lower(&closed[..closed.len().saturating_sub(1)])
}

/// The stamp in a version row's key.
pub(super) fn stamp_of(key: &[u8], closed_bytes: usize) -> Result<VersionStamp, EngineError> {
    let bytes = key.get(1 + closed_bytes..).filter(|rest| rest.len() == 9).and_then(|rest| rest[..8].try_into().ok());
    let stamp = bytes.map(|bytes| VersionStamp(!u64::from_be_bytes(bytes)));
    stamp.ok_or_else(|| EngineError::Corrupt(format!("a version's row has a key of {} bytes", key.len())))
}

/// The first row of a key in a table, where its newest version is; and the first row after the key.
pub(super) fn versions_of(tag: u8, closed: &[u8]) -> (Bytes, Vec<u8>) {
    let start = of_key(tag, closed);
    let mut end = start.to_vec();
    // The end of a key is a zero: with a one in its place nothing of this key is left before.
    if let Some(last) = end.last_mut() {
        *last = 1;
    }
    (start, end)
}

/// What a current row holds: flags, stamp, and the fields that a listing returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Current {
    pub flags: u8,
    pub stamp: VersionStamp,
    pub fields: Bytes,
}

impl Current {
    pub fn decode(row: Bytes) -> Result<Current, EngineError> {
        let flags = flags_of(&row)?;
        match row.get(1..9).and_then(|bytes| bytes.try_into().ok()) {
            Some(bytes) => {
                Ok(Current { flags, stamp: VersionStamp(u64::from_be_bytes(bytes)), fields: row.slice(9..) })
            }
            None => Err(corrupt_row("a key's current row", DecodeError::Truncated("stamp"))),
        }
    }

    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(9 + self.fields.len());
        out.push(self.flags);
        out.extend_from_slice(&self.stamp.0.to_be_bytes());
        out.extend_from_slice(&self.fields);
        out.into()
    }

    pub fn is_null(&self) -> bool {
        self.flags & FLAG_NULL != 0
    }

    /// What the current version's row adds to the counts: the size is among the fields.
    pub fn version_weight(&self) -> Totals {
        Totals { versions: 1, bytes: peek_number(&self.fields, field::SIZE).unwrap_or(0), ..Totals::default() }
    }
}

/// The flags in front of a current or version row.
pub(super) fn flags_of(row: &[u8]) -> Result<u8, EngineError> {
    match row.first() {
        Some(flags) if *flags & !FLAGS_ALL == 0 => Ok(*flags),
        _ => Err(corrupt_row("a version's row", DecodeError::Unknown("flags"))),
    }
}

/// A version row: flags and the document.
pub(super) fn version_row(flags: u8, document: &[u8]) -> Bytes {
    row(flags, document, &[])
}

/// The size told by a current row.
pub(super) fn current_size(row: &[u8]) -> u64 {
    row.get(9..).and_then(|fields| peek_number(fields, field::SIZE)).unwrap_or(0)
}

/// The size told by a version row.
pub(super) fn version_size(row: &[u8]) -> u64 {
    row.get(1..).and_then(|fields| peek_number(fields, field::SIZE)).unwrap_or(0)
}

/// The row of a client's key in a key table, for bounds.
pub(super) fn bound(tag: u8, key: &[u8]) -> Bytes {
    of_key(tag, &close(key))
}

/// For the fuzzer: any bytes as a row, and as two keys in the rows that are made of them.
pub fn fuzz_keys(data: &[u8]) {
    fuzz_row(data);
    for (key, closed) in s3_key::fuzz(data) {
        fuzz_key(key.as_bytes(), &closed);
    }
}

/// Any bytes as a row's key and as a current row.
fn fuzz_row(data: &[u8]) {
    if let Ok((row, ordinal)) = history_parts(data) {
        assert_eq!(&of_history(row, ordinal)[1..], [&data[1..data.len() - 1], &[0]].concat());
    }
    if let Ok(closed) = closed_of(data) {
        let _ = (client_key(closed), stamp_of(data, closed.len()));
    }
    if let Ok(current) = Current::decode(Bytes::copy_from_slice(data)) {
        assert_eq!(current.encode(), data, "a current row is not written as it was read");
    }
    let _ = (current_size(data), version_size(data));
}

/// A client's key in the rows that are made of it.
fn fuzz_key(key: &[u8], closed: &[u8]) {
    let stamp = VersionStamp((key.len() as u64).wrapping_mul(0x0101_0101_0101_0101));
    let rows = [of_key(CURRENT, closed), of_version(VERSION, closed, stamp), of_once(closed, u128::from(stamp.0))];
    for row in &rows {
        assert_eq!(closed_of(row).ok(), Some(closed), "a row holds another key");
        assert_ne!(row.last(), Some(&1), "a row ends in the mark of a checksum");
        let (start, end) = versions_of(row[0], closed);
        assert!(start <= *row && row[..] < end[..], "a row lies outside its key");
    }
    assert_eq!(stamp_of(&rows[1], closed.len()).ok(), Some(stamp));
    assert_eq!(client_key(closed), key);
}

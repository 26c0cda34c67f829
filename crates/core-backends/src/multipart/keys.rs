//! The rows of uploads (docs/formats/s3-rows.md). By design: none ends in `\x01`.

use crate::s3_key::{close, closed_bytes};
use base_engine::EngineError;
use bytes::Bytes;

/// Uploads by key, then number.
pub(super) const UPLOAD: u8 = b'u';
/// Parts by upload, then number.
pub(super) const PART: u8 = b'p';
/// Open uploads by number: the order they began in.
pub(super) const AGE: u8 = b'a';
/// Closed uploads by when they may be forgotten.
pub(super) const CLOSED: u8 = b'z';
/// Bytes of parts that were given inline.
pub(super) const INLINE: u8 = b'd';
/// Places of bytes that nothing names any more.
pub(super) const FREED: u8 = b'f';
/// The last sequence of freed data, and how many rows of it wait.
pub(super) const FREED_LAST: u8 = b'F';
pub(super) const FREED_COUNT: u8 = b'G';
/// There while the bucket is being deleted.
pub(super) const BARRED: u8 = b'B';
/// The last number given.
pub(super) const LAST: u8 = b'L';
/// How many uploads are open.
pub(super) const OPEN: u8 = b'O';
/// Bytes of the parts of open uploads, all together.
pub(super) const HELD: u8 = b'P';

pub(super) fn upload(key: &[u8], number: u64) -> Bytes {
    [&[UPLOAD], &close(key)[..], &number.to_be_bytes(), &[0]].concat().into()
}

/// The closed key within an upload's row.
pub(super) fn closed_of(row: &[u8]) -> Result<&[u8], EngineError> {
    let rest = row.get(1..).unwrap_or_default();
    match closed_bytes(rest) {
        Some(end) => Ok(&rest[..end]),
        None => Err(EngineError::Corrupt(format!("an upload's row of {} bytes holds no key", row.len()))),
    }
}

pub(super) fn part(upload: u64, number: u32) -> Bytes {
    [&[PART], &upload.to_be_bytes()[..], &number.to_be_bytes(), &[0]].concat().into()
}

pub(super) fn inline(upload: u64, number: u32) -> Bytes {
    [&[INLINE], &upload.to_be_bytes()[..], &number.to_be_bytes(), &[0]].concat().into()
}

pub(super) fn parts_of(upload: u64) -> (Bytes, Bytes) {
    (part(upload, 0), part(upload, u32::MAX))
}

pub(super) fn by_age(upload: u64) -> Bytes {
    [&[AGE], &upload.to_be_bytes()[..], &[0]].concat().into()
}

pub(super) fn closed(forget_ms: u64, upload: u64) -> Bytes {
    [&[CLOSED], &forget_ms.to_be_bytes()[..], &upload.to_be_bytes(), &[0]].concat().into()
}

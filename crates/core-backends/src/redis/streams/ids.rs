//! Ids of entries: how they are ordered, written and read.
//!
//! By design: in a row's key an id is 16 bytes, big-endian, so that rows order as ids do.

use super::super::{fail, Fail, Reply};
use base_engine::EngineError;
use bytes::Bytes;

/// The longest text that can be an id.
const TEXT_BYTES_MAX: usize = 127;
/// The length of an id in a row's key.
pub(super) const ID_BYTES: usize = 16;

const INVALID: &str = "ERR Invalid stream ID specified as stream command argument";

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Id {
    pub ms: u64,
    pub seq: u64,
}

impl Id {
    /// Before every entry; no entry has it.
    pub const MIN: Id = Id { ms: 0, seq: 0 };
    pub const MAX: Id = Id { ms: u64::MAX, seq: u64::MAX };

    /// `None` after the last possible one.
    pub fn next(self) -> Option<Id> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// `None` before the first.
    pub fn previous(self) -> Option<Id> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    pub fn to_key(self) -> [u8; ID_BYTES] {
        ((u128::from(self.ms) << 64) | u128::from(self.seq)).to_be_bytes()
    }

    /// The id that a row's key ends with.
    pub fn at_end(key: &[u8]) -> Result<Id, EngineError> {
        let end = key.len().checked_sub(ID_BYTES).and_then(|from| key.get(from..));
        let Some(bytes) = end.and_then(|end| <[u8; ID_BYTES]>::try_from(end).ok()) else {
            return Err(EngineError::Corrupt(format!(
                "a stream's row has a key of {} bytes; an id is longer",
                key.len()
            )));
        };
        let both = u128::from_be_bytes(bytes);
        Ok(Id { ms: (both >> 64) as u64, seq: both as u64 })
    }

    pub fn reply(self) -> Reply {
        Reply::Bulk(format!("{}-{}", self.ms, self.seq).into())
    }
}

/// An id as XADD takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NewId {
    /// `*`
    Now,
    /// `ms-*`
    In(u64),
    Exactly(Id),
}

/// Digits, as C's `strtoull` takes them: a plus sign and leading zeros are allowed.
fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn halves(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == b'-') {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    }
}

fn plain(text: &[u8], missing_seq: u64) -> Option<Id> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let (ms, seq) = halves(text);
    Some(Id { ms: number(ms)?, seq: seq.map_or(Some(missing_seq), number)? })
}

/// `ms` or `ms-seq`.
pub(super) fn parse_strict(text: &[u8], missing_seq: u64) -> Result<Id, Fail> {
    plain(text, missing_seq).map_or_else(|| fail(INVALID), Ok)
}

/// As `parse_strict`, or `-` and `+` for the ends.
pub(super) fn parse(text: &[u8], missing_seq: u64) -> Result<Id, Fail> {
    match text {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        _ => parse_strict(text, missing_seq),
    }
}

pub(super) fn parse_new(text: &[u8]) -> Result<NewId, Fail> {
    if text == b"*" {
        return Ok(NewId::Now);
    }
    match halves(text) {
        (ms, Some(b"*")) if text.len() <= TEXT_BYTES_MAX => {
            number(ms).map_or_else(|| fail(INVALID), |ms| Ok(NewId::In(ms)))
        }
        _ => parse_strict(text, 0).map(NewId::Exactly),
    }
}

/// The first id of an interval; `(` excludes what follows it.
pub(super) fn parse_start(text: &[u8]) -> Result<Id, Fail> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            parse_strict(id, 0)?.next().map_or_else(|| fail("ERR invalid start ID for the interval"), Ok)
        }
        _ => parse(text, 0),
    }
}

/// The last id of an interval; `(` excludes what follows it.
pub(super) fn parse_end(text: &[u8]) -> Result<Id, Fail> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            parse_strict(id, u64::MAX)?.previous().map_or_else(|| fail("ERR invalid end ID for the interval"), Ok)
        }
        _ => parse(text, u64::MAX),
    }
}

pub(super) fn parse_all(words: &[Bytes]) -> Result<Vec<Id>, Fail> {
    words.iter().map(|word| parse_strict(word, 0)).collect()
}

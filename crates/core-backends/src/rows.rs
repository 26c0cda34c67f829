//! Small helpers over a space's rows: prefixes, pages, counters. No policy.

use crate::contract::{SpaceRead, SpaceWrite};
use base_engine::{Direction, EngineError, KeyRange};
use bytes::Bytes;
use std::ops::ControlFlow;

/// A key: a tag and parts, laid end to end.
pub(crate) fn key(tag: u8, parts: &[&[u8]]) -> Bytes {
    let mut out = Vec::with_capacity(1 + parts.iter().map(|part| part.len()).sum::<usize>());
    out.push(tag);
    for part in parts {
        out.extend_from_slice(part);
    }
    out.into()
}

/// The first key behind every key that starts with `prefix`; `None` if there is no such key.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The first key behind `key`.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 1);
    out.extend_from_slice(key);
    out.push(0);
    out
}

/// Up to `limit` rows from `start` (inclusive) to `end` (exclusive), and whether there are more.
pub(crate) fn page(
    space: &dyn SpaceRead,
    start: &[u8],
    end: Option<&[u8]>,
    direction: Direction,
    limit: usize,
) -> Result<(Vec<(Bytes, Bytes)>, bool), EngineError> {
    let mut rows = Vec::new();
    let mut more = false;
    if end.is_some_and(|end| end <= start) {
        return Ok((rows, more));
    }
    space.range(KeyRange { start, end }, direction, &mut |key, value| {
        if rows.len() == limit {
            more = true;
            return ControlFlow::Break(());
        }
        rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    })?;
    Ok((rows, more))
}

/// Up to `limit` rows under a prefix, behind `start_after` (a whole key) where given.
pub(crate) fn prefix_page(
    space: &dyn SpaceRead,
    prefix: &[u8],
    start_after: Option<&[u8]>,
    limit: usize,
) -> Result<(Vec<(Bytes, Bytes)>, bool), EngineError> {
    let start = match start_after {
        Some(after) if after >= prefix => successor(after),
        _ => prefix.to_vec(),
    };
    page(space, &start, prefix_end(prefix).as_deref(), Direction::Forward, limit)
}

/// A number kept in a row of its own; absent: zero.
pub(crate) fn number(space: &dyn SpaceRead, key: &[u8]) -> Result<u64, EngineError> {
    match space.get(key)? {
        None => Ok(0),
        Some(row) => match <[u8; 8]>::try_from(&row[..]) {
            // Counters go up by one: at their end there is no next, and no cluster lives that long.
            Ok([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => {
                Err(EngineError::Corrupt("a number's row is at its end".into()))
            }
            Ok(bytes) => Ok(u64::from_be_bytes(bytes)),
            Err(_) => Err(EngineError::Corrupt(format!("a number's row is {} bytes long; expected 8", row.len()))),
        },
    }
}

pub(crate) fn set_number(space: &mut dyn SpaceWrite, key: Bytes, value: u64) {
    space.put(key, Bytes::copy_from_slice(&value.to_be_bytes()));
}

/// A number out of the end of a key.
pub(crate) fn key_number(key: &[u8], from: usize) -> Result<u64, EngineError> {
    key.get(from..from + 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u64::from_be_bytes)
        .ok_or_else(|| EngineError::Corrupt(format!("a key is {} bytes long; expected {}", key.len(), from + 8)))
}

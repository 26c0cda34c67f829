//! Fields of hashes and members of sets: rows in the order of a 64-bit hash of their names, so that a cursor of HSCAN or SSCAN is a number,
//! and a random one is a place among numbers.
//!
//! Always: a field that is there throughout a scan is given at least once, whatever is added or removed meanwhile.
//! Held by: `a_scan_gives_all_that_stays`.
//! Not here: what a field's value is (`hashes.rs`), sorted sets (`sorted.rs`).

use super::store::{Meta, Moment};
use super::{fail, Fail, Reply, REPLY_BYTES_MAX, REPLY_ELEMENTS_MAX, SYNTAX};
use crate::contract::SpaceRead;
use crate::rows::prefix_end;
use base_engine::{Direction, EngineError, KeyRange};
use base_types::redis::matches;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A collection of so many is read whole where one is picked at random, and each is as likely as the others. In a larger one a place is
/// picked, and one of those that follow it: nearly so.
const SAMPLE_WHOLE: u64 = 1_024;
/// How many follow.
const SAMPLE: usize = 32;
/// A scan's COUNT where it is absent, and the most that is looked at.
const SCAN_COUNT: usize = 10;
const SCAN_COUNT_MAX: usize = 10_000;
/// A page ends after so many bytes.
const SCAN_BYTES: usize = REPLY_BYTES_MAX / 4;
/// A collection of so many is given whole by one scan, as Redis gives small ones.
const SCAN_WHOLE: u64 = 128;
/// The length of tag, sequence and hash in such a row.
pub(super) const NAME_AT: usize = 17;

/// A field or member, and what its row has.
pub(super) type Element = (Bytes, Bytes);

/// Up to `limit` from a hash on, as far as a reply's bytes go, and whether there are more.
fn from(space: &dyn SpaceRead, meta: &Meta, hash: u64, limit: usize) -> Result<(Vec<Element>, bool), EngineError> {
    let (start, end) = (meta.hash_row(hash), prefix_end(&meta.elements()));
    let (mut found, mut bytes, mut more) = (Vec::new(), 0, false);
    space.range(KeyRange { start: &start, end: end.as_deref() }, Direction::Forward, &mut |row, value| {
        more = found.len() == limit || bytes > REPLY_BYTES_MAX;
        if more {
            return ControlFlow::Break(());
        }
        let name = row.get(NAME_AT..).unwrap_or_default();
        bytes += name.len() + value.len();
        found.push((Bytes::copy_from_slice(name), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    })?;
    Ok((found, more))
}

/// All; too many, or too long ones together, for one reply are an error.
pub(super) fn all(space: &dyn SpaceRead, meta: &Meta) -> Result<Vec<Element>, Fail> {
    let (start, end) = (meta.elements(), prefix_end(&meta.elements()));
    let (mut found, mut bytes, mut over) = (Vec::new(), 0, false);
    space.range(KeyRange { start: &start, end: end.as_deref() }, Direction::Forward, &mut |row, value| {
        let name = row.get(NAME_AT..).unwrap_or_default();
        bytes += name.len() + value.len();
        over = found.len() >= REPLY_ELEMENTS_MAX || bytes > REPLY_BYTES_MAX;
        if over {
            return ControlFlow::Break(());
        }
        found.push((Bytes::copy_from_slice(name), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    })?;
    if over {
        return fail(format!(
            "ERR reply is larger than {REPLY_ELEMENTS_MAX} elements or {REPLY_BYTES_MAX} bytes; read it in parts"
        ));
    }
    Ok(found)
}

/// One at random of a collection that has some.
fn pick(space: &dyn SpaceRead, meta: &Meta, moment: &Moment) -> Result<Option<Element>, EngineError> {
    let (mut found, _) = if meta.count <= SAMPLE_WHOLE {
        from(space, meta, 0, SAMPLE_WHOLE as usize)?
    } else {
        from(space, meta, moment.random(), SAMPLE)?
    };
    if found.is_empty() {
        (found, _) = from(space, meta, 0, SAMPLE)?;
    }
    let at = moment.below(found.len() as u64) as usize;
    Ok(if found.is_empty() { None } else { Some(found.swap_remove(at)) })
}

/// `count` of them at random, each once; all where there are no more.
pub(super) fn distinct(space: &dyn SpaceRead, meta: &Meta, moment: &Moment, count: u64) -> Result<Vec<Element>, Fail> {
    if count >= meta.count {
        return all(space, meta);
    }
    // Few of many are picked one by one; else all are read, and shuffled as far as needed.
    if meta.count > SAMPLE_WHOLE && count.saturating_mul(8) < meta.count {
        let (mut picked, mut bytes) = (BTreeMap::new(), 0);
        for _ in 0..count.saturating_mul(4) {
            if picked.len() as u64 == count {
                break;
            }
            if let Some((name, value)) = pick(space, meta, moment)? {
                bytes += name.len() + value.len();
                picked.insert(name, value);
            }
            check_bytes(bytes)?;
        }
        return Ok(picked.into_iter().collect());
    }
    let mut found = all(space, meta)?;
    let count = count as usize;
    for at in 0..count.min(found.len()) {
        let other = at + moment.below((found.len() - at) as u64) as usize;
        found.swap(at, other);
    }
    found.truncate(count);
    Ok(found)
}

/// `count` at random, the same one perhaps several times.
pub(super) fn repeated(space: &dyn SpaceRead, meta: &Meta, moment: &Moment, count: u64) -> Result<Vec<Element>, Fail> {
    if count > REPLY_ELEMENTS_MAX as u64 {
        return fail("ERR value is out of range");
    }
    let few = match meta.count <= SAMPLE_WHOLE {
        true => Some(from(space, meta, 0, SAMPLE_WHOLE as usize)?.0),
        false => None,
    };
    let (mut found, mut bytes) = (Vec::new(), 0);
    for _ in 0..count {
        let picked = match &few {
            Some(few) => few.get(moment.below(few.len() as u64) as usize).cloned(),
            None => pick(space, meta, moment)?,
        };
        bytes += picked.as_ref().map_or(0, |(name, value)| name.len() + value.len());
        check_bytes(bytes)?;
        found.extend(picked);
    }
    Ok(found)
}

fn check_bytes(bytes: usize) -> Result<(), Fail> {
    if bytes > REPLY_BYTES_MAX {
        return fail(format!("ERR reply is larger than {REPLY_BYTES_MAX} bytes; ask for fewer"));
    }
    Ok(())
}

/// What a scan asks for: cursor, MATCH, COUNT.
pub(super) struct Scan {
    cursor: u64,
    pattern: Option<Bytes>,
    count: usize,
}

/// The words behind the key.
pub(super) fn scan_of(words: &[Bytes]) -> Result<Scan, Fail> {
    let cursor = words.first().and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
    let Some(cursor) = cursor else { return fail("ERR invalid cursor") };
    let mut scan = Scan { cursor, pattern: None, count: SCAN_COUNT };
    for pair in words[1..].chunks(2) {
        let [word, value] = pair else { return fail(SYNTAX) };
        match &word.to_ascii_uppercase()[..] {
            b"MATCH" => scan.pattern = Some(value.clone()),
            b"COUNT" => {
                let count = super::numbers::parse_integer(value)?;
                if count < 1 {
                    return fail(SYNTAX);
                }
                scan.count = usize::try_from(count).unwrap_or(SCAN_COUNT_MAX).min(SCAN_COUNT_MAX);
            }
            _ => return fail(SYNTAX),
        }
    }
    Ok(scan)
}

/// A page, and the cursor of the next: the hash where it begins, 0 where there is none. Names that share a hash are on one page.
pub(super) fn scan(space: &dyn SpaceRead, meta: &Meta, scan: &Scan) -> Result<(u64, Vec<Element>), Fail> {
    let most = if meta.count <= SCAN_WHOLE { SCAN_WHOLE as usize } else { scan.count };
    let (start, end) = (meta.hash_row(scan.cursor), prefix_end(&meta.elements()));
    let (mut found, mut taken, mut bytes, mut next, mut last) = (Vec::new(), 0, 0, 0, None);
    space.range(KeyRange { start: &start, end: end.as_deref() }, Direction::Forward, &mut |row, value| {
        let name = row.get(NAME_AT..).unwrap_or_default();
        let hash = Meta::hash_of(name);
        if (taken >= most || bytes > SCAN_BYTES) && last != Some(hash) || bytes > REPLY_BYTES_MAX {
            next = hash;
            return ControlFlow::Break(());
        }
        (taken, last) = (taken + 1, Some(hash));
        if scan.pattern.as_ref().is_none_or(|pattern| matches(pattern, name)) {
            bytes += name.len() + value.len();
            found.push((Bytes::copy_from_slice(name), Bytes::copy_from_slice(value)));
        }
        ControlFlow::Continue(())
    })?;
    if bytes > REPLY_BYTES_MAX {
        return fail(format!("ERR names that share a hash have more than {REPLY_BYTES_MAX} bytes together"));
    }
    Ok((next, found))
}

/// A scan's reply.
pub(super) fn scan_reply(next: u64, items: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::Bulk(next.to_string().into()), Reply::Array(items)])
}

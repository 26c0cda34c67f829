//! Places of bytes that nothing names any more: a queue in rows of their own, filled by the very command
//! that frees them, emptied by who has handed them on (core-s3, buckets/garbage.rs).
//!
//! ```text
//!   <tag> sequence (8) 00   cluster time it was freed at (8) · locations
//! ```
//!
//! Always: a place leaves the queue only by `forget`; it may be told twice, never lost (mutants `FreedDataLost`,
//! `FreedDroppedWithShard`); one row a version, or a part.
//! Not here: the bytes (a data store), who keeps the counters (shard: its record; multipart: two rows).

use crate::contract::{corrupt_row, SpaceRead, SpaceWrite};
use crate::rows::{key_number, page};
use crate::wire::{wire_struct, Wire};
use base_engine::{Direction, EngineError};
use base_types::codec::{DecodeError, Reader, Writer};
use base_types::{ErrorCode, Refusal};
use bytes::Bytes;

/// The most rows that wait; beyond it nothing more may be freed until they are collected.
pub const FREED_ROWS_MAX: u64 = 1 << 20;
/// The most rows one page or one `forget` takes, and the bytes after which a page ends.
pub const FREED_PAGE_MAX: u32 = 256;
const FREED_PAGE_BYTES: usize = 1 << 20;

wire_struct! {
    /// What one version or part left behind.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Freed {
        pub sequence: u64,
        /// Cluster time.
        pub since_ms: u64,
        pub locations: Vec<Bytes>,
    }
}

/// A queue as its owner counts it. Sequences have no gaps, and only the oldest rows go: so the first that waits is known
/// without a search, which would begin at the queue's start and pass all that was ever forgotten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub tag: u8,
    /// The last sequence given, and how many rows wait.
    pub last: u64,
    pub rows: u64,
}

impl Queue {
    fn first(&self) -> u64 {
        self.last.saturating_sub(self.rows).saturating_add(1)
    }
}

fn row(tag: u8, sequence: u64) -> Bytes {
    crate::rows::key(tag, &[&sequence.to_be_bytes(), &[0]])
}

/// Adds a row.
pub(crate) fn push(space: &mut dyn SpaceWrite, tag: u8, sequence: u64, since_ms: u64, locations: &Vec<Bytes>) {
    let mut out = Writer::new();
    out.u64(since_ms);
    locations.put(&mut out);
    space.put(row(tag, sequence), out.finish());
}

fn decode(key: &[u8], value: Bytes) -> Result<Freed, EngineError> {
    let read = |value: Bytes| -> Result<(u64, Vec<Bytes>), DecodeError> {
        let mut input = Reader::new(value);
        let since_ms = input.u64("time")?;
        let locations = Vec::<Bytes>::take(&mut input)?;
        input.end()?;
        Ok((since_ms, locations))
    };
    let (since_ms, locations) = read(value).map_err(|error| corrupt_row("a row of freed data", error))?;
    Ok(Freed { sequence: key_number(key, 1)?, since_ms, locations })
}

/// The oldest rows behind a sequence that were freed by a time, and whether there are more (younger ones included).
pub(crate) fn list(
    space: &dyn SpaceRead,
    queue: Queue,
    after: u64,
    limit: u32,
    freed_by_ms: Option<u64>,
) -> Result<(Vec<Freed>, bool), EngineError> {
    let limit = limit.clamp(1, FREED_PAGE_MAX) as usize;
    let start = row(queue.tag, after.saturating_add(1).max(queue.first()));
    let (rows, mut more) = page(space, &start, Some(&[queue.tag + 1]), Direction::Forward, limit)?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (key, value) in rows {
        bytes += value.len();
        if bytes > FREED_PAGE_BYTES && !found.is_empty() {
            more = true;
            break;
        }
        let freed = decode(&key, value)?;
        if freed_by_ms.is_none_or(|by_ms| freed.since_ms > by_ms) {
            more = true;
            break;
        }
        found.push(freed);
    }
    Ok((found, more))
}

/// Removes the oldest rows as far as `until`; how many, and whether more of them are left.
pub(crate) fn forget(space: &mut dyn SpaceWrite, queue: Queue, until: u64) -> Result<(u64, bool), EngineError> {
    let (start, end) = (row(queue.tag, queue.first()), row(queue.tag, until.saturating_add(1)));
    let (rows, more) = page(space, &start, Some(&end), Direction::Forward, FREED_PAGE_MAX as usize)?;
    let count = rows.len() as u64;
    rows.into_iter().for_each(|(key, _)| space.delete(key));
    Ok((count, more))
}

/// Refuses what might free something while nobody collects.
pub(crate) fn admit(rows: u64) -> Result<(), Refusal> {
    if rows < FREED_ROWS_MAX {
        return Ok(());
    }
    let message = format!("{rows} places of freed data wait to be collected; see why no gateway sweeps, and retry");
    Err(Refusal::new(ErrorCode::Overloaded, message))
}

/// Those of `places` that are among `asked`.
pub(crate) fn named(asked: &[Bytes], places: &[Bytes], found: &mut Vec<Bytes>) {
    for place in places {
        if asked.contains(place) && !found.contains(place) {
            found.push(place.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MapSpace;
    use base_engine::{KeyRange, Visit};
    use std::cell::RefCell;

    /// Notes where each search begins: rows before it cost nothing, deleted or not.
    #[derive(Default)]
    struct Noting {
        rows: MapSpace,
        begun: RefCell<Vec<Vec<u8>>>,
    }

    impl SpaceRead for Noting {
        fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
            self.rows.get(key)
        }
        fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
            self.begun.borrow_mut().push(range.start.to_vec());
            self.rows.range(range, direction, visit)
        }
    }

    impl SpaceWrite for Noting {
        fn put(&mut self, key: Bytes, value: Bytes) {
            self.rows.put(key, value);
        }
        fn delete(&mut self, key: Bytes) {
            self.rows.delete(key);
        }
    }

    const ROWS: u64 = 1_000;

    #[test]
    fn a_queue_is_emptied_in_one_pass() {
        let (mut space, mut queue) = (Noting::default(), Queue { tag: b'f', last: 0, rows: 0 });
        // A neighbour's rows on either side are not its own.
        space.put(Bytes::from_static(b"e"), Bytes::new());
        space.put(Bytes::from_static(b"g"), Bytes::new());
        for round in 0..3 {
            for _ in 0..ROWS {
                (queue.last, queue.rows) = (queue.last + 1, queue.rows + 1);
                push(&mut space, queue.tag, queue.last, round, &vec![Bytes::from(format!("at {}", queue.last))]);
            }
            let (mut told, mut more) = (queue.last - queue.rows, true);
            while more {
                let (first, until) = (queue.first(), told + 300);
                let (page, _) = list(&space, queue, 0, 7, Some(u64::MAX)).unwrap();
                assert_eq!(page.first().map(|freed| freed.sequence), Some(first));
                let (count, left) = forget(&mut space, queue, until).unwrap();
                queue.rows -= count;
                (told, more) = (if left { told } else { until }, left || queue.rows > 0);
                for start in space.begun.borrow_mut().drain(..) {
                    assert_eq!(start[..], row(queue.tag, first)[..], "a search passes what was forgotten");
                }
            }
            assert_eq!(list(&space, queue, 0, 7, Some(u64::MAX)).unwrap(), (Vec::new(), false));
            space.begun.borrow_mut().clear();
        }
        assert_eq!(space.rows.rows.len(), 2);
    }
}

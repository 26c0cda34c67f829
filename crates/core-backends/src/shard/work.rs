//! Rows written by one command, and all that must follow them: history for snapshots, the feed of a
//! split, the digests, the count index and the totals.
//!
//! Always: every change of a key's row goes through `put` or `delete` here, so nothing that follows can
//! be forgotten in one place (`invariants.rs`; mutants `CountIgnoresOverwrite`, `DoubledWriteLost`, `SnapshotSeesLater`); the record
//! is written once, by `finish`.
//! Not here: which rows a command changes (`objects.rs`, `reshard.rs`), the index's shape (`index.rs`).

use super::command::{Totals, STEP_ROWS_MAX};
use super::index;
use super::keys::{self, CURRENT, VERSION};
use super::state::{Changed, Digest, Shard, FEED_ROWS_MAX};
use crate::contract::{corrupt_row, ApplyContext, SpaceRead, SpaceWrite};
use crate::freed;
use base_engine::{Direction, EngineError, KeyRange};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::s3::locations_of;
use bytes::Bytes;
use core::ops::ControlFlow;
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

/// The most history rows a shard keeps; beyond it the oldest snapshot ends.
pub const HISTORY_ROWS_MAX: u64 = 1 << 20;
/// The most rows that one row of the feed names.
pub(super) const FEED_NAMES_MAX: usize = 64;
/// How many dead history or feed rows one write removes beside its own work.
const SWEEP_ROWS: usize = 16;

/// What a row was before a change.
#[derive(Clone, Debug)]
pub(super) enum Before {
    Absent,
    Was(Bytes),
    /// To be read.
    Unread,
    /// There, and counted as this: to be read only where more than that is needed.
    Counted(Totals),
}

/// A row before a change, as far as what follows needs it.
struct Known {
    /// `None` too where it is there and nobody needs it.
    row: Option<Bytes>,
    there: bool,
    weight: Totals,
}

/// One command at work.
pub(super) struct Work<'a> {
    pub space: &'a mut dyn SpaceWrite,
    pub shard: Shard,
    pub at: ApplyContext,
    /// What the count index must be told, by position.
    pub counted: Vec<(Bytes, Totals)>,
    /// The rows this changed during a split.
    doubled: Vec<Bytes>,
}

impl<'a> Work<'a> {
    pub fn new(space: &'a mut dyn SpaceWrite, shard: Shard, at: ApplyContext) -> Work<'a> {
        Work { space, shard, at, counted: Vec::new(), doubled: Vec::new() }
    }

    /// A client's write of a key is carried out.
    pub fn note(&mut self, key: &Bytes, puts: bool) {
        if let Some(place) = self.shard.growth.note(key, puts, self.at.cluster_time_ms) {
            self.space.put(keys::of_sample(place), key.clone());
        }
    }

    /// Sets a row of a key table.
    pub fn put(&mut self, key: Bytes, value: Bytes, before: Before) -> Result<(), EngineError> {
        let before = self.settle(&key, before)?;
        self.follow(&key, &before, Some(&value))?;
        self.space.put(key, value);
        Ok(())
    }

    /// Removes a row of a key table.
    pub fn delete(&mut self, key: Bytes, before: Before) -> Result<(), EngineError> {
        let before = self.settle(&key, before)?;
        if before.there {
            self.follow(&key, &before, None)?;
            self.space.delete(key);
        }
        Ok(())
    }

    fn settle(&self, key: &[u8], before: Before) -> Result<Known, EngineError> {
        let row = match before {
            Before::Absent => None,
            Before::Was(row) => Some(row),
            Before::Counted(weight) if !self.needs_row(key) => return Ok(Known { row: None, there: true, weight }),
            // It counts for nothing, and whether it is there matters to nobody.
            Before::Unread if !self.needs_row(key) && table_of(key).is_none() => {
                return Ok(Known { row: None, there: true, weight: Totals::default() });
            }
            Before::Unread | Before::Counted(_) => self.space.get(key)?,
        };
        let table = table_of(key).filter(|_| row.is_some());
        let weight = table.map_or(Ok(Totals::default()), |table| weight(table, row.as_deref().unwrap_or_default()))?;
        Ok(Known { there: row.is_some(), row, weight })
    }

    /// Whether what a row was is kept, or summed up already.
    fn needs_row(&self, key: &[u8]) -> bool {
        let summed = |digest: &Digest| digest.holds(key) && !planted(Mutant::SumKeepsOldRow);
        self.shard.newest_pin().is_some() || self.shard.digest.as_ref().is_some_and(summed)
    }

    fn follow(&mut self, key: &Bytes, before: &Known, after: Option<&Bytes>) -> Result<(), EngineError> {
        if let Some(table) = table_of(key) {
            self.remember(key, before.row.as_ref())?;
            let forgotten = planted(Mutant::CountIgnoresOverwrite) && before.there && after.is_some();
            let now = after.map_or(Ok(Totals::default()), |row| weight(table, row))?;
            let change = now.minus(&before.weight);
            if change != Totals::default() && !forgotten {
                self.counted.push((key.slice(1..), change));
            }
        }
        if self.shard.doubles() {
            self.doubled.push(key.clone());
        }
        if let Some(digest) = self.shard.digest.as_mut().filter(|digest| digest.holds(key)) {
            adjust(digest, key, before.row.as_ref(), after)?;
        }
        Ok(())
    }

    /// A version's document goes, or `after` takes its place: what only it named is free.
    pub fn free(&mut self, document: &Bytes, after: Option<&Bytes>) -> Result<(), EngineError> {
        let places = |document: &Bytes| locations_of(document).map_err(|error| corrupt_row("a document", error));
        let mut freed = places(document)?;
        if freed.is_empty() || planted(Mutant::FreedDataLost) {
            return Ok(());
        }
        if let Some(after) = after {
            let kept = places(after)?;
            freed.retain(|place| !kept.contains(place));
        }
        if !freed.is_empty() {
            self.shard.freed += 1;
            self.shard.freed_rows += 1;
            freed::push(self.space, keys::FREED, self.shard.freed, self.at.cluster_time_ms, &freed);
        }
        Ok(())
    }

    /// Keeps what a row was for the newest snapshot, once.
    pub fn remember(&mut self, key: &[u8], before: Option<&Bytes>) -> Result<(), EngineError> {
        let Some(ordinal) = self.shard.newest_pin() else { return Ok(()) };
        if planted(Mutant::SnapshotSeesLater) {
            return Ok(());
        }
        let kept = keys::of_history(key, ordinal);
        if self.space.get(&kept)?.is_some() {
            return Ok(());
        }
        let mut row = Vec::with_capacity(1 + before.map_or(0, Bytes::len));
        row.push(u8::from(before.is_some()));
        row.extend_from_slice(before.map_or(&[], |before| before));
        self.space.put(kept, row.into());
        self.shard.history_rows += 1;
        Ok(())
    }

    /// Names the rows this changed in the feed: in one row of it, mostly, for each is a row at every replica.
    fn double(&mut self) {
        let most = if planted(Mutant::FeedForgetsRows) { 1 } else { usize::MAX };
        for rows in core::mem::take(&mut self.doubled).chunks(FEED_NAMES_MAX).take(most) {
            // One lost write in eight, as a queue that overflows silently would.
            let lost = planted(Mutant::DoubledWriteLost) && self.shard.feed % 8 == 7;
            self.shard.feed += 1;
            if !lost {
                self.space.put(keys::of_feed(self.shard.feed), Changed { rows: rows.to_vec() }.to_bytes());
            }
        }
    }

    /// Writes what follows, and the record.
    pub fn finish(mut self) -> Result<(), EngineError> {
        let counted = std::mem::take(&mut self.counted);
        if !counted.is_empty() {
            self.shard.totals = counted.iter().fold(self.shard.totals, |sum, (_, change)| sum.plus(change));
            index::add(&mut self, counted)?;
        }
        self.double();
        if self.shard.doubles() && self.shard.feed > FEED_ROWS_MAX {
            super::reshard::give_up_split(&mut self.shard);
        }
        self.expire_pins();
        self.sweep(SWEEP_ROWS)?;
        let record = self.shard.to_bytes();
        self.space.put(Bytes::from_static(&[keys::STATE]), record);
        Ok(())
    }

    fn expire_pins(&mut self) {
        let now = self.at.cluster_time_ms;
        if self.shard.pins.iter().any(|pin| pin.expires_ms <= now) {
            self.shard.drop_pins(|pin| pin.expires_ms > now);
        }
        if self.shard.history_rows > HISTORY_ROWS_MAX && self.shard.sweep.is_none() {
            let oldest = self.shard.pins.iter().map(|pin| pin.ordinal).min();
            self.shard.drop_pins(|pin| Some(pin.ordinal) != oldest);
        }
    }

    /// Removes up to `limit` rows that nothing needs: history before the oldest snapshot, feed rows of a
    /// split that is over. Returns whether there may be more.
    pub fn sweep(&mut self, limit: usize) -> Result<bool, EngineError> {
        if self.shard.feed > 0 && !self.shard.doubles() {
            let start = keys::of_feed(self.shard.removal().feed.saturating_add(1));
            let (rows, more) =
                crate::rows::page(self.space, &start, Some(&[keys::FEED + 1]), Direction::Forward, limit)?;
            if let Some((last, _)) = rows.last() {
                self.shard.removal().feed = crate::rows::key_number(last, 1)?;
            }
            rows.into_iter().for_each(|(key, _)| self.space.delete(key));
            if !more {
                self.shard.feed = 0;
                self.shard.removal().feed = 0;
            }
            return Ok(true);
        }
        let Some(after) = self.shard.sweep.clone() else { return Ok(false) };
        let oldest = self.shard.pins.iter().map(|pin| pin.ordinal).min().unwrap_or(u32::MAX);
        let (dead, cursor) = dead_history(self.space, &after, oldest, limit.min(STEP_ROWS_MAX as usize))?;
        let gone = if planted(Mutant::SweptHistoryCounted) { 0 } else { dead.len() as u64 };
        self.shard.history_rows = self.shard.history_rows.saturating_sub(gone);
        dead.into_iter().for_each(|key| self.space.delete(key));
        self.shard.sweep = cursor;
        Ok(self.shard.sweep.is_some())
    }
}

/// The history rows, of the next `limit` behind `after`, that only snapshots older than any need.
fn dead_history(
    space: &dyn SpaceRead,
    after: &[u8],
    oldest: u32,
    limit: usize,
) -> Result<(Vec<Bytes>, Option<Bytes>), EngineError> {
    let start = if after.is_empty() { vec![keys::HISTORY] } else { crate::rows::successor(after) };
    let (mut dead, mut seen, mut cursor, mut damage) = (Vec::new(), 0, None, None);
    space.range(KeyRange { start: &start, end: Some(&[keys::HISTORY + 1]) }, Direction::Forward, &mut |key, _| {
        match keys::history_parts(key) {
            Ok((_, ordinal)) if ordinal < oldest => dead.push(Bytes::copy_from_slice(key)),
            Ok(_) => {}
            Err(error) => damage = Some(error),
        }
        seen += 1;
        if damage.is_some() || seen >= limit {
            cursor = Some(Bytes::copy_from_slice(key));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    damage.map_or(Ok((dead, cursor)), Err)
}

/// The table of a row that counts.
fn table_of(key: &[u8]) -> Option<u8> {
    key.first().copied().filter(|table| *table == CURRENT || *table == VERSION)
}

/// What a row adds to the counts.
pub(super) fn weight(table: u8, row: &[u8]) -> Result<Totals, EngineError> {
    let flags = keys::flags_of(row)?;
    Ok(match table {
        CURRENT => Totals { keys: 1, current_bytes: keys::current_size(row), ..Totals::default() },
        _ if flags & keys::FLAG_MARKER != 0 => Totals { markers: 1, ..Totals::default() },
        _ => Totals { versions: 1, bytes: keys::version_size(row), ..Totals::default() },
    })
}

/// The sum of one row: of its key and its value, so that neither can be swapped.
pub(super) fn row_sum(key: &[u8], value: &[u8]) -> u128 {
    xxh3_128_with_seed(value, xxh3_128(key) as u64) ^ xxh3_128(key)
}

/// Adds a row to the range it lies in, or takes it away.
pub(super) fn add_to_digest(digest: &mut Digest, key: &[u8], value: &[u8], away: bool) -> Result<(), EngineError> {
    let client = keys::client_key(keys::closed_of(key)?);
    let sum = row_sum(key, value);
    for part in digest.sums.iter_mut().filter(|part| part.range.holds(&client)) {
        (part.sum, part.rows) = match away {
            true => (part.sum.wrapping_sub(sum), part.rows.wrapping_sub(1)),
            false => (part.sum.wrapping_add(sum), part.rows.wrapping_add(1)),
        };
    }
    Ok(())
}

fn adjust(digest: &mut Digest, key: &[u8], before: Option<&Bytes>, after: Option<&Bytes>) -> Result<(), EngineError> {
    if let Some(before) = before {
        add_to_digest(digest, key, before, true)?;
    }
    if let Some(after) = after {
        add_to_digest(digest, key, after, false)?;
    }
    Ok(())
}

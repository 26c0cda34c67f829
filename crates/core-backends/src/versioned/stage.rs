//! The changes of one commit, gathered before any of them is written.
//!
//! Always: what is refused on the way wrote nothing; each key changes at most once, so a key has one version a stamp; the first
//! change has number 0, the next 1, without a gap. Every commit that changes something has a stamp above all before it; one that
//! changes nothing leaves the stamp.
//! Not here: conditions and operations (`commit.rs`), the end of leases (`lease.rs`).

use super::history::{save, sweep};
use super::read::{newest, Over};
use super::rows::{attached_key, data_key, encode_row, history_key, index_key, Bounds, Meta, Past};
use super::{refuse, Fail};
use super::{Position, Row, COMMIT_BYTES_MAX, COMMIT_CHANGES_MAX};
use crate::contract::SpaceWrite;
use base_engine::EngineError;
use base_types::mutant::{planted, Mutant};
use base_types::ErrorCode;
use bytes::Bytes;
use std::collections::BTreeMap;

struct Changed {
    before: Option<Row>,
    after: Option<Row>,
    /// Its place in the commit.
    sub: u32,
}

/// One commit under way.
pub(super) struct Stage<'s> {
    pub space: &'s mut dyn SpaceWrite,
    pub now_ms: u64,
    /// The stamp of this commit, if it changes something.
    stamp: u64,
    meta: Meta,
    changes: BTreeMap<Bytes, Changed>,
    bytes: usize,
}

impl<'s> Stage<'s> {
    pub fn open(space: &'s mut dyn SpaceWrite, meta: Meta, now_ms: u64) -> Result<Stage<'s>, EngineError> {
        Ok(Stage { space, now_ms, stamp: meta.next()?, meta, changes: BTreeMap::new(), bytes: 0 })
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// A key as this commit has it so far.
    pub fn get(&self, key: &Bytes) -> Result<Option<Row>, EngineError> {
        match self.changes.get(key) {
            Some(changed) => Ok(changed.after.clone()),
            None => newest(&*self.space, key),
        }
    }

    /// The keys of a range that this commit has changed.
    pub fn over(&self, bounds: &Bounds) -> Over {
        let start = std::ops::Bound::Included(bounds.start.clone());
        let keys = self.changes.range((start, std::ops::Bound::Unbounded));
        let inside = keys.take_while(|(key, _)| bounds.holds(key));
        inside.map(|(key, changed)| (key.clone(), changed.after.clone())).collect()
    }

    /// Puts a value; what the key was.
    pub fn put(&mut self, key: &Bytes, value: Bytes, lease: u64) -> Result<Option<Row>, Fail> {
        let before = self.get(key)?;
        let (created, version) = before.as_ref().map_or((self.stamp, 0), |row| (row.created, row.version));
        let after = Row { created, modified: self.stamp, version: version.saturating_add(1), lease, value };
        self.change(key, before.clone(), Some(after))?;
        Ok(before)
    }

    /// Removes a key that is there.
    pub fn delete(&mut self, key: &Bytes, row: Row) -> Result<(), Fail> {
        self.change(key, Some(row), None)
    }

    fn change(&mut self, key: &Bytes, before: Option<Row>, after: Option<Row>) -> Result<(), Fail> {
        if self.changes.contains_key(key) {
            let message = "the transaction changes one key twice; name each key once";
            return refuse(ErrorCode::InvalidRequest, message);
        }
        let size = |row: &Option<Row>| row.as_ref().map_or(0, |row| row.value.len());
        self.bytes += key.len() + size(&before) + size(&after);
        if self.changes.len() >= COMMIT_CHANGES_MAX || self.bytes > COMMIT_BYTES_MAX {
            return refuse(
                ErrorCode::TransactionTooLarge,
                format!(
                    "the transaction changes more than {COMMIT_CHANGES_MAX} keys or {COMMIT_BYTES_MAX} bytes; change them in parts"
                ),
            );
        }
        let sub = self.changes.len() as u32;
        self.changes.insert(key.clone(), Changed { before, after, sub });
        Ok(())
    }

    /// Writes it all; the state after it, and how many keys changed.
    pub fn finish(mut self) -> Result<(Meta, u32), EngineError> {
        let count = self.changes.len() as u32;
        if count == 0 {
            return Ok((self.meta, 0));
        }
        self.meta.stamp = self.stamp;
        for (key, changed) in std::mem::take(&mut self.changes) {
            self.write(&key, changed);
        }
        sweep(self.space, &mut self.meta, self.now_ms, count)?;
        save(self.space, &self.meta);
        Ok((self.meta, count))
    }

    fn write(&mut self, key: &Bytes, changed: Changed) {
        let Changed { before, after, sub } = changed;
        match &after {
            Some(row) => self.space.put(data_key(key), encode_row(row)),
            None => self.space.delete(data_key(key)),
        }
        self.attach(key, before.as_ref(), after.as_ref());
        let there = [&before, &after].map(|row| u64::from(row.is_some()));
        self.meta.keys = self.meta.keys.saturating_sub(there[0]).saturating_add(there[1]);
        let forgotten = after.is_none() && planted(Mutant::DeleteNotInHistory);
        if before.is_some() && !forgotten {
            self.space.put(index_key(key, self.stamp), Bytes::copy_from_slice(&sub.to_be_bytes()));
        }
        let past = Past { deleted: after.is_none(), time_ms: self.now_ms, key: key.clone(), before };
        self.space.put(history_key(Position { stamp: self.stamp, sub }), past.encode());
    }

    /// Keeps the rows of leases like the leases of keys.
    fn attach(&mut self, key: &[u8], before: Option<&Row>, after: Option<&Row>) {
        let (old, new) = (before.map_or(0, |row| row.lease), after.map_or(0, |row| row.lease));
        if old == new {
            return;
        }
        let kept = planted(Mutant::LeaseKeyDeletedTwice) && after.is_none()
            || planted(Mutant::LeaseKeepsDetached) && after.is_some();
        if old != 0 && !kept {
            self.space.delete(attached_key(old, key));
        }
        if new != 0 {
            self.space.put(attached_key(new, key), Bytes::new());
        }
    }
}

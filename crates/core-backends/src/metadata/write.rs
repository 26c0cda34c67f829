//! Commands carried out: pairs, the exact key counters, the record of what changed, imports, releases.
//!
//! Always: a command is checked whole before its first write, so a refused one changes nothing (model in `tests.rs`);
//! the counter of a partition is the number of its pairs (`invariants.rs`, mutant `MissingKeyCounted`); a key that changes while
//! its partition moves is in the change list once, at its last sequence (mutant `ChangeListedTwice`).
//! Not here: reads (`scan.rs`), which state allows what (`partition.rs`).

use super::command::{Command, Expected, ImportCursor, PartitionState, Reply, Scope, ScopedStep};
use super::keys;
use super::partition::{self, Change, Record};
use crate::contract::{SpaceRead, SpaceWrite};
use crate::rows::successor;
use base_engine::{Direction, EngineError, KeyRange};
use base_types::action::BatchStep;
use base_types::mutant::{planted, Mutant};
use base_types::{ErrorCode, PartitionId, Refusal};
use bytes::Bytes;
use core::ops::ControlFlow;

/// A refusal is a reply; an engine's error stops the replica.
pub(super) type Applied = Result<Result<Reply, Refusal>, EngineError>;

/// Gives a refusal back as the reply.
macro_rules! admit {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
}

/// The space with the records of the partitions this command touches.
struct Work<'a> {
    space: &'a mut dyn SpaceWrite,
    now_ms: u64,
    /// As it was, as it is.
    records: Vec<(PartitionId, Option<Record>, Record)>,
}

/// Carries out one command.
pub(super) fn apply(now_ms: u64, space: &mut dyn SpaceWrite, command: Command) -> Applied {
    let mut work = Work { space, now_ms, records: Vec::new() };
    let reply = match command {
        Command::Put { scope, key, value } => {
            admit!(work.admit(scope)?);
            work.put(scope, &key, value)?;
            Reply::Done
        }
        Command::Delete { scope, key } => {
            admit!(work.admit(scope)?);
            Reply::Deleted { existed: work.delete(scope, &key)? }
        }
        Command::Batch { steps } => admit!(work.batch(steps)?),
        Command::BatchIf { expected, steps } => admit!(work.batch_if(expected, steps)?),
        Command::CompareAndSet { scope, key, expected, value } => {
            admit!(work.compare_and_set(scope, key, expected, value)?)
        }
        Command::Import { scope, expected, cursor, pairs } => admit!(work.import(scope, &expected, cursor, pairs)?),
        Command::Release { scope, limit } => admit!(work.release(scope, limit as usize)?),
        Command::Adopt { scopes } => {
            for scope in scopes {
                admit!(work.change(scope, Change::Adopt)?);
            }
            Reply::Done
        }
        Command::BeginMove { scope } => admit!(work.change(scope, Change::BeginMove)?),
        Command::Freeze { scope, lease_ms } => admit!(work.change(scope, Change::Freeze { lease_ms })?),
        Command::Unfreeze { scope } => admit!(work.change(scope, Change::Unfreeze)?),
        Command::Handover { scope, dirty } => admit!(work.change(scope, Change::Handover { dirty })?),
        Command::PrepareImport { scope } => admit!(work.change(scope, Change::PrepareImport)?),
        Command::Activate { scope } => admit!(work.change(scope, Change::Activate)?),
        Command::AbortImport { scope } => admit!(work.change(scope, Change::AbortImport)?),
        // The cluster takes the ids. Here we only check that the partition may still receive any.
        Command::Remember { scope, .. } => match work.record(scope.partition)? {
            Some(record) if record.epoch == scope.epoch && record.state == PartitionState::Importing => {
                Reply::Partition(record.info(scope.partition))
            }
            record => {
                let refusal = partition::wrong_partition(scope, record.as_deref());
                return Ok(Err(refusal));
            }
        },
    };
    work.store_records();
    Ok(Ok(reply))
}

/// A key has not the value that was expected.
fn differs(exists: bool) -> Refusal {
    let found = if exists { "has another value" } else { "does not exist" };
    Refusal::new(ErrorCode::ConditionFailed, format!("the key {found}; read it again before comparing"))
}

impl Work<'_> {
    /// Makes sure that writes to this scope are taken.
    fn admit(&mut self, scope: Option<Scope>) -> Result<Result<(), Refusal>, EngineError> {
        let Some(scope) = scope else { return Ok(Ok(())) };
        let now_ms = self.now_ms;
        let record = self.record(scope.partition)?;
        Ok(partition::check_takes_writes(scope, now_ms, record))
    }

    fn record(&mut self, partition: PartitionId) -> Result<Option<&mut Record>, EngineError> {
        let found = self.records.iter().position(|(id, ..)| *id == partition);
        let at = match found {
            Some(at) => at,
            None => {
                let Some(record) = Record::load(self.space, partition)? else { return Ok(None) };
                self.records.push((partition, Some(record.clone()), record));
                self.records.len() - 1
            }
        };
        Ok(self.records.get_mut(at).map(|(.., record)| record))
    }

    fn store_records(&mut self) {
        use base_types::codec::Encode;
        for (partition, before, after) in self.records.drain(..) {
            if before.as_ref() != Some(&after) {
                self.space.put(keys::record(partition), after.to_bytes());
            }
        }
    }

    fn change(&mut self, scope: Scope, change: Change) -> Applied {
        let now_ms = self.now_ms;
        let before = self.record(scope.partition)?.cloned();
        let known = before.is_some();
        let after = admit!(partition::change(now_ms, scope, before, change));
        let info = after.info(scope.partition);
        match self.record(scope.partition)? {
            Some(record) if known => *record = after,
            _ => self.records.push((scope.partition, None, after)),
        }
        Ok(Ok(Reply::Partition(info)))
    }

    fn put(&mut self, scope: Option<Scope>, key: &Bytes, value: Bytes) -> Result<(), EngineError> {
        let full = keys::pair(scope.map(|s| s.partition), key);
        if let Some(scope) = scope {
            let existed = self.space.get(&full)?.is_some();
            if let Some(record) = self.record(scope.partition)? {
                record.keys = record.keys.saturating_add(u64::from(!existed));
            }
            self.note_change(scope.partition, key)?;
        }
        self.space.put(full, value);
        Ok(())
    }

    fn delete(&mut self, scope: Option<Scope>, key: &Bytes) -> Result<bool, EngineError> {
        let full = keys::pair(scope.map(|s| s.partition), key);
        let existed = self.space.get(&full)?.is_some();
        if !existed && !planted(Mutant::MissingKeyCounted) {
            return Ok(false);
        }
        if let Some(scope) = scope {
            if let Some(record) = self.record(scope.partition)? {
                record.keys = record.keys.saturating_sub(1);
            }
            self.note_change(scope.partition, key)?;
        }
        self.space.delete(full);
        Ok(existed)
    }

    /// Puts the key behind all others in the change list, if its partition is on the move.
    fn note_change(&mut self, partition: PartitionId, key: &Bytes) -> Result<(), EngineError> {
        let sequence = match self.record(partition)? {
            Some(record) if record.records_changes() => {
                record.dirty = record.dirty.saturating_add(1);
                record.dirty
            }
            _ => return Ok(()),
        };
        let changed = keys::changed_key(partition, key);
        if let Some(earlier) = self.space.get(&changed)? {
            let earlier: [u8; 8] = earlier.as_ref().try_into().map_err(|_| {
                EngineError::Corrupt(format!(
                    "change sequence of a key in metadata partition {partition} is not 8 bytes long"
                ))
            })?;
            if !planted(Mutant::ChangeListedTwice) {
                self.space.delete(keys::change(partition, u64::from_be_bytes(earlier)));
            }
        }
        self.space.put(keys::change(partition, sequence), key.clone());
        self.space.put(changed, Bytes::copy_from_slice(&sequence.to_be_bytes()));
        Ok(())
    }

    fn batch(&mut self, steps: Vec<ScopedStep>) -> Applied {
        for step in &steps {
            admit!(self.admit(step.scope)?);
        }
        for ScopedStep { scope, step } in steps {
            match step {
                BatchStep::Put { key, value } => self.put(scope, &key, value)?,
                BatchStep::Delete { key } => {
                    self.delete(scope, &key)?;
                }
            }
        }
        Ok(Ok(Reply::Done))
    }

    fn batch_if(&mut self, expected: Vec<Expected>, steps: Vec<ScopedStep>) -> Applied {
        for Expected { scope, key, value } in &expected {
            admit!(self.admit(*scope)?);
            let current = self.space.get(&keys::pair(scope.map(|s| s.partition), key))?;
            if current != *value {
                return Ok(Err(differs(current.is_some())));
            }
        }
        self.batch(steps)
    }

    fn compare_and_set(
        &mut self,
        scope: Option<Scope>,
        key: Bytes,
        expected: Option<Bytes>,
        value: Option<Bytes>,
    ) -> Applied {
        admit!(self.admit(scope)?);
        let current = self.space.get(&keys::pair(scope.map(|s| s.partition), &key))?;
        if current != expected {
            return Ok(Err(differs(current.is_some())));
        }
        match value {
            Some(value) => self.put(scope, &key, value)?,
            None => {
                self.delete(scope, &key)?;
            }
        }
        Ok(Ok(Reply::Done))
    }

    fn import(
        &mut self,
        scope: Scope,
        expected: &ImportCursor,
        cursor: ImportCursor,
        pairs: Vec<(Bytes, Option<Bytes>)>,
    ) -> Applied {
        let Some(record) = self.record(scope.partition)? else {
            return Ok(Err(partition::wrong_partition(scope, None)));
        };
        if record.epoch != scope.epoch || !(record.state == PartitionState::Importing || record.state.serves()) {
            return Ok(Err(partition::wrong_partition(scope, Some(record))));
        }
        if record.state == PartitionState::Importing && record.cursor == *expected {
            record.cursor = cursor;
            for (key, value) in pairs {
                match value {
                    Some(value) => self.put(Some(scope), &key, value)?,
                    None if planted(Mutant::DirtyDeleteLost) => {}
                    None => {
                        self.delete(Some(scope), &key)?;
                    }
                }
            }
        }
        let info = self.record(scope.partition)?.map(|record| record.info(scope.partition));
        Ok(info.map(Reply::Partition).ok_or_else(|| partition::wrong_partition(scope, None)))
    }

    fn release(&mut self, scope: Scope, limit: usize) -> Applied {
        let Some(record) = self.record(scope.partition)? else {
            return Ok(Ok(Reply::Released { removed: 0, more: false }));
        };
        if record.epoch > scope.epoch || (record.epoch == scope.epoch && record.state == PartitionState::Released) {
            return Ok(Ok(Reply::Released { removed: 0, more: false }));
        }
        if record.epoch != scope.epoch || record.state != PartitionState::Dropping {
            return Ok(Err(partition::wrong_partition(scope, Some(record))));
        }
        let id = scope.partition;
        let pairs = (keys::pair(Some(id), &[]), keys::pairs_end(Some(id)));
        // Behind what the steps before have removed: the engine may have that for a while yet, and each would pass it.
        let after = record.cursor.after.clone().unwrap_or_default();
        let mut ranges = [pairs.clone(), keys::changes(id), keys::changed_keys(id)];
        ranges.sort_unstable();
        let mut gone: Vec<Bytes> = Vec::new();
        for (start, end) in ranges {
            let start = if after >= start { Bytes::from(successor(&after)) } else { start };
            let room = limit.saturating_sub(gone.len());
            if start < end {
                gone.extend(collect(self.space, (start, end), room)?);
            }
        }
        let removed = gone.iter().filter(|key| pairs.0 <= **key && **key < pairs.1).count() as u64;
        let more = gone.len() >= limit;
        let last = gone.last().cloned();
        gone.into_iter().for_each(|key| self.space.delete(key));
        if let Some(record) = self.record(id)? {
            record.keys = record.keys.saturating_sub(removed);
            record.cursor.after = last;
            if !more {
                *record = Record {
                    state: PartitionState::Released,
                    dirty: 0,
                    cursor: ImportCursor::default(),
                    ..record.clone()
                };
            }
        }
        Ok(Ok(Reply::Released { removed, more }))
    }
}

/// The first `limit` keys of a range.
fn collect(space: &dyn SpaceRead, (start, end): (Bytes, Bytes), limit: usize) -> Result<Vec<Bytes>, EngineError> {
    let mut found = Vec::new();
    if limit == 0 {
        return Ok(found);
    }
    space.range(KeyRange { start: &start, end: Some(&end) }, Direction::Forward, &mut |key, _| {
        found.push(Bytes::copy_from_slice(key));
        if found.len() < limit {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    Ok(found)
}

//! What always holds of the `metadata` backend's rows.
//!
//! Always (asserted here): a partition counts its pairs (mutant `MissingKeyCounted`); each changed key is in its change list
//! once, not after its last sequence (mutant `ChangeListedTwice`).
//! Not here: what a state allows (`partition.rs`).

use super::keys;
use super::partition::{self, Record};
use crate::contract::SpaceRead;
use crate::invariants::{count, walk, Checked};
use base_engine::EngineError;
use base_types::invariant::Broken;
use base_types::{holds, PartitionId};
use bytes::Bytes;

/// A partition's record, and what is found of it. `None`: more than is read.
struct Found {
    partition: PartitionId,
    record: Record,
    pairs: Option<u64>,
    /// Entries of the change list, the last sequence among them, and keys that know theirs.
    changes: Option<u64>,
    last: u64,
    changed_keys: Option<u64>,
}

pub(super) fn check(space: &dyn SpaceRead) -> Checked {
    let (start, end) = keys::records();
    let mut records = Vec::new();
    walk(space, &start, &end, &mut |key, row| records.push((keys::partition_of(key), Bytes::copy_from_slice(row))))?;
    for (partition, row) in records {
        let Some(partition) = partition else { continue };
        if let Err(broken) = check_one(&find(space, partition, partition::decode(partition, row)?)?) {
            return Ok(Err(broken));
        }
    }
    Ok(Ok(()))
}

fn find(space: &dyn SpaceRead, partition: PartitionId, record: Record) -> Result<Found, EngineError> {
    let pairs = count(space, &keys::pair(Some(partition), &[]), &keys::pairs_end(Some(partition)))?;
    let (start, end) = keys::changes(partition);
    let mut last = 0;
    let changes = walk(space, &start, &end, &mut |key, _| last = keys::sequence_of(key).unwrap_or(u64::MAX))?;
    let (start, end) = keys::changed_keys(partition);
    let changed_keys = count(space, &start, &end)?;
    Ok(Found { partition, record, pairs, changes, last, changed_keys })
}

fn check_one(found: &Found) -> Result<(), Broken> {
    let Found { partition, record, .. } = found;
    if let Some(pairs) = found.pairs {
        holds!(pairs == record.keys, "partition {partition} holds {pairs} pairs, and counts {}", record.keys);
    }
    if !record.records_changes() {
        // What is left of a list goes with the pairs, a part at a time.
        return Ok(());
    }
    if let (Some(changes), Some(keys)) = (found.changes, found.changed_keys) {
        holds!(changes == keys, "partition {partition} lists {changes} changes of {keys} keys");
    }
    let (last, dirty) = (found.last, record.dirty);
    holds!(last <= dirty, "partition {partition} lists a change at {last}, and its last is {dirty}");
    Ok(())
}

//! The keys of the `metadata` space (drawn in docs/formats/backend-metadata.md).
//!
//! Always: one tag byte in front, so plain pairs, partitions' pairs and bookkeeping never mix (`tests.rs`); a
//! partition's parts are each one contiguous range.

use base_types::PartitionId;
use bytes::Bytes;

const TAG_PLAIN: u8 = 1;
const TAG_PAIR: u8 = 2;
const TAG_RECORD: u8 = 3;
const TAG_CHANGE: u8 = 4;
const TAG_CHANGED_KEY: u8 = 5;

/// Bytes in front of a partition's user key.
pub(super) const PAIR_PREFIX_BYTES: usize = 3;

fn join(tag: u8, partition: Option<PartitionId>, rest: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(PAIR_PREFIX_BYTES + rest.len());
    out.push(tag);
    if let Some(partition) = partition {
        out.extend_from_slice(&partition.0.to_be_bytes());
    }
    out.extend_from_slice(rest);
    Bytes::from(out)
}

/// A user's pair, plain or of a partition.
pub(super) fn pair(partition: Option<PartitionId>, key: &[u8]) -> Bytes {
    join(if partition.is_some() { TAG_PAIR } else { TAG_PLAIN }, partition, key)
}

/// How many bytes stand in front of the user's key.
pub(super) fn prefix_bytes(partition: Option<PartitionId>) -> usize {
    if partition.is_some() {
        PAIR_PREFIX_BYTES
    } else {
        1
    }
}

/// The first key behind all pairs, plain or of a partition.
pub(super) fn pairs_end(partition: Option<PartitionId>) -> Bytes {
    match partition {
        None => Bytes::from_static(&[TAG_PAIR]),
        Some(partition) => end_of(TAG_PAIR, partition),
    }
}

fn end_of(tag: u8, partition: PartitionId) -> Bytes {
    match partition.0.checked_add(1) {
        Some(next) => join(tag, Some(PartitionId(next)), &[]),
        None => Bytes::copy_from_slice(&[tag + 1]),
    }
}

/// A partition's record.
pub(super) fn record(partition: PartitionId) -> Bytes {
    join(TAG_RECORD, Some(partition), &[])
}

/// All records.
pub(super) fn records() -> (Bytes, Bytes) {
    (Bytes::from_static(&[TAG_RECORD]), Bytes::from_static(&[TAG_CHANGE]))
}

/// Sequence → changed key.
pub(super) fn change(partition: PartitionId, sequence: u64) -> Bytes {
    join(TAG_CHANGE, Some(partition), &sequence.to_be_bytes())
}

/// Which partition's a record, a pair or a change is.
pub(super) fn partition_of(key: &[u8]) -> Option<PartitionId> {
    key.get(1..PAIR_PREFIX_BYTES)?.try_into().ok().map(u16::from_be_bytes).map(PartitionId)
}

/// The sequence of a change.
pub(super) fn sequence_of(key: &[u8]) -> Option<u64> {
    key.get(PAIR_PREFIX_BYTES..)?.try_into().ok().map(u64::from_be_bytes)
}

/// All changes of a partition.
pub(super) fn changes(partition: PartitionId) -> (Bytes, Bytes) {
    (join(TAG_CHANGE, Some(partition), &[]), end_of(TAG_CHANGE, partition))
}

/// Changed key → the sequence of its last change.
pub(super) fn changed_key(partition: PartitionId, key: &[u8]) -> Bytes {
    join(TAG_CHANGED_KEY, Some(partition), key)
}

/// All changed keys of a partition.
pub(super) fn changed_keys(partition: PartitionId) -> (Bytes, Bytes) {
    (join(TAG_CHANGED_KEY, Some(partition), &[]), end_of(TAG_CHANGED_KEY, partition))
}

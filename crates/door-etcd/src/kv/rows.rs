//! Rows of the store as key-values of etcd.

use crate::proto::mvccpb::KeyValue;
use crate::revision::of_row;
use base_types::versioned::{Pair, Row};
use bytes::Bytes;

/// A count as etcd has counts.
pub(crate) fn count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A key with its row. A lease's number keeps its bits: etcd's are signed.
pub(crate) fn pair_of(key: Bytes, row: Row) -> KeyValue {
    let Row { created, modified, version, lease, value } = row;
    KeyValue {
        key,
        create_revision: of_row(created),
        mod_revision: of_row(modified),
        version: count(version),
        value,
        lease: lease as i64,
    }
}

/// A pair.
pub(crate) fn pair(pair: Pair) -> KeyValue {
    pair_of(pair.key, pair.row)
}

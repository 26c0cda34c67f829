//! What always holds of the `reference` backend's rows.
//!
//! Always (asserted here): each cluster's id leads to its name and back, and was given; clusters that are
//! not active are listed as unfinished; no document is newer than the last version.
//! Not here: what a cluster's state allows (`reference.rs`).

use super::{read_record, ClusterState, CLUSTER_ID_FIRST, DOCUMENT, ID, LAST_DOCUMENT, LAST_ID, NAME, UNFINISHED};
use crate::contract::SpaceRead;
use crate::invariants::{count_tag, walk, Checked};
use crate::rows::{key_number, number};
use base_types::holds;
use base_types::invariant::Broken;
use bytes::Bytes;
use std::collections::BTreeMap;

struct Found {
    /// Names by id, as the ids' rows say; and as the records say.
    names: BTreeMap<u64, Bytes>,
    records: BTreeMap<u64, Bytes>,
    /// Clusters that are not active, and those that are listed so.
    unfinished: (u64, Option<u64>),
    last_id: u64,
    /// The newest document, and the last version given.
    documents: (u64, u64),
}

pub(super) fn check(space: &dyn SpaceRead) -> Checked {
    let (mut ids, mut rows, mut newest) = (Vec::new(), Vec::new(), 0);
    let own = |row: &[u8]| Bytes::copy_from_slice(row);
    let all = [
        walk(space, &[ID], &[ID + 1], &mut |key, name| ids.push((own(key), own(name))))?,
        walk(space, &[NAME], &[NAME + 1], &mut |_, row| rows.push(own(row)))?,
        walk(space, &[DOCUMENT], &[DOCUMENT + 1], &mut |_, row| {
            let version = row.first_chunk().map(|version| u64::from_le_bytes(*version));
            newest = newest.max(version.unwrap_or(0));
        })?,
    ];
    if all.contains(&None) {
        return Ok(Ok(()));
    }
    let mut found = Found {
        names: BTreeMap::new(),
        records: BTreeMap::new(),
        unfinished: (0, count_tag(space, UNFINISHED)?),
        last_id: number(space, &[LAST_ID])?,
        documents: (newest, number(space, &[LAST_DOCUMENT])?),
    };
    for (key, name) in ids {
        found.names.insert(key_number(&key, 1)?, name);
    }
    for row in rows {
        let record = read_record(row)?;
        found.unfinished.0 += u64::from(record.state != ClusterState::Active);
        found.records.insert(record.cluster.0, Bytes::copy_from_slice(record.name.as_str().as_bytes()));
    }
    Ok(check_found(&found))
}

fn check_found(found: &Found) -> Result<(), Broken> {
    let given =
        |map: &BTreeMap<u64, Bytes>| map.range(CLUSTER_ID_FIRST..).map(|(id, name)| (*id, name.clone())).collect();
    let (ids, records): (Vec<_>, Vec<_>) = (given(&found.names), given(&found.records));
    holds!(ids == records, "clusters by id are {ids:?}, and their records say {records:?}");
    let last = ids.last().map_or(0, |(id, _)| *id);
    holds!(last <= found.last_id, "cluster {last} is there, and {} is the last id given", found.last_id);
    let (unfinished, listed) = found.unfinished;
    holds!(
        listed.is_none_or(|listed| listed == unfinished),
        "{unfinished} clusters are unfinished, and {listed:?} listed"
    );
    let (newest, given) = found.documents;
    holds!(newest <= given, "a document has version {newest}, and {given} is the last that was given");
    Ok(())
}

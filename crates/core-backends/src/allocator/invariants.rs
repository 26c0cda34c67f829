//! What always holds of the `allocator` backend's rows.
//!
//! Always (asserted here): the nodes are counted; each node is listed once as changed, at the version of its record; the nodes being decommissioned are those whose records say so.
//! Not here: which change makes which version (`allocator.rs`).

use super::{read_row, CHANGE, COUNT, DRAINING, NODE, VERSION};
use crate::contract::SpaceRead;
use crate::invariants::{count_tag, walk, Checked};
use crate::rows::{key_number, number};
use base_types::holds;
use base_types::invariant::Broken;
use bytes::Bytes;
use std::collections::BTreeMap;

struct Found {
    /// Version and whether it is being decommissioned, by node.
    nodes: BTreeMap<u64, (u64, bool)>,
    /// Node and whether it was forgotten, by version.
    changes: BTreeMap<u64, (u64, bool)>,
    counted: u64,
    last: u64,
    draining: Option<u64>,
}

pub(super) fn check(space: &dyn SpaceRead) -> Checked {
    let mut rows = Vec::new();
    let nodes = walk(space, &[NODE], &[NODE + 1], &mut |_, row| rows.push(Bytes::copy_from_slice(row)))?;
    let mut listed = Vec::new();
    let changes = walk(space, &[CHANGE], &[CHANGE + 1], &mut |key, row| {
        let node = row.first_chunk().map(|node| u64::from_le_bytes(*node));
        listed.push((Bytes::copy_from_slice(key), node.unwrap_or(0), row.last() == Some(&1)));
    })?;
    if nodes.is_none() || changes.is_none() {
        return Ok(Ok(()));
    }
    let mut found = Found {
        nodes: BTreeMap::new(),
        changes: BTreeMap::new(),
        counted: number(space, &[COUNT])?,
        last: number(space, &[VERSION])?,
        draining: count_tag(space, DRAINING)?,
    };
    for row in rows {
        let (version, record) = read_row(row)?;
        found.nodes.insert(record.node.0, (version, record.draining));
    }
    for (key, node, forgotten) in listed {
        found.changes.insert(key_number(&key, 1)?, (node, forgotten));
    }
    Ok(check_found(&found))
}

fn check_found(found: &Found) -> Result<(), Broken> {
    let (nodes, counted) = (found.nodes.len() as u64, found.counted);
    holds!(nodes == counted, "there are {nodes} nodes, and {counted} are counted");
    let draining = found.nodes.values().filter(|(_, draining)| *draining).count() as u64;
    let marked = found.draining;
    holds!(marked.is_none_or(|marked| marked == draining), "{draining} nodes are drained, and {marked:?} are marked");
    for (version, (node, forgotten)) in &found.changes {
        holds!(*version <= found.last, "a change has version {version}, and {} is the last", found.last);
        let of = found.nodes.get(node).map(|(version, _)| *version);
        holds!(*forgotten || of == Some(*version), "node {node} is listed at version {version}, and has {of:?}");
    }
    for (node, (version, _)) in &found.nodes {
        holds!(found.changes.contains_key(version), "node {node} has version {version}, at which nothing is listed");
    }
    Ok(())
}

//! The node map: who is there, where, how loaded, up or down; near real time on every node.
//!
//! ```text
//! node ──heartbeat(record, version it has)──▶ world leader: NodeMap (the authority)
//! node ◀──delta since that version────────────┘   note_heartbeat, refresh, delta_since
//!   └─ apply_delta on its own NodeMap
//! ```
//!
//! A version is (epoch, number): an epoch is one leadership (any number never used before, for
//! example the leader's term), the number counts published changes in it. A copy of another epoch is sent everything, in
//! pages, and drops with the last page what the new authority does not know; until then it keeps
//! what it had.
//!
//! Cost, for 1,000 nodes at one heartbeat a second: the leader takes 1,000 frames of about 200 bytes
//! a second and answers each with the changed records only. Reports that change little (`SCORE_STEP`)
//! are published at most once in `MAP_REPUBLISH`, so a quiet world costs about 1,000 × 100 records
//! of 150 bytes = 15 MB/s at the leader's card and 15 KB/s at each other node; one node that goes
//! down costs 150 KB once.
//!
//! Always: bounded (`MAP_NODES_MAX`); a delta applied twice or late changes nothing for the worse; every
//! published change gets a number of its own.
//! Held by: `any_bytes_are_a_delta_or_an_error`, `copies_follow_in_pages_over_epochs_and_forget`.
//! Not here: durable facts (core-backends, `allocator`), sending (core-node).

use crate::NodeRecord;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::{NodeId, Tick};
use core::time::Duration;

/// The most nodes a world may have.
pub const MAP_NODES_MAX: usize = 10_000;
/// The most records one delta carries.
pub const MAP_DELTA_RECORDS_MAX: usize = 1_000;
/// A report that changed a little is published when the last publication is this old.
pub const MAP_REPUBLISH: Duration = Duration::from_secs(10);
/// The decommissionings the authority can tell one by one.
const MAP_FORGOTTEN_MAX: usize = 1_000;

/// How far a copy of the map is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub struct MapVersion {
    /// One leadership; zero: nothing heard yet.
    pub epoch: u64,
    /// Changes published in it.
    pub number: u64,
}

/// Why a record is not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// The map is full.
    #[error(
        "the node map holds {MAP_NODES_MAX} nodes, the most a world may have; forget nodes that are gone for good"
    )]
    Full,
    /// Two live processes claim one id.
    #[error("node {node} at {address} is up with another disk; give the newcomer an id of its own")]
    Duplicate {
        /// The id.
        node: NodeId,
        /// Where the known one lives.
        address: alloc::string::String,
    },
}

/// What became of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MapChange {
    /// Not known before.
    Joined(NodeId),
    /// Heard of again.
    Up(NodeId),
    /// Not heard of for too long.
    Down(NodeId),
    /// It came back with another disk: what it promised is gone.
    DiskLost(NodeId),
    /// It started anew, or moved, or changed version or labels.
    Facts(NodeId),
    /// Score or counts.
    Report(NodeId),
    /// Decommissioned.
    Forgotten(NodeId),
}

/// A record in a delta.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapRecord {
    /// The number of the change that published it.
    pub number: u64,
    /// How long ago the authority heard of the node, when the delta was made.
    pub heard_ms_ago: u64,
    /// The record.
    pub record: NodeRecord,
}

/// What changed since a version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MapDelta {
    /// What the copy had asked for (`next_wanted`).
    pub since: MapVersion,
    /// The version it then has.
    pub until: MapVersion,
    /// The first page of a full copy: what was known before counts only where a page confirms it.
    pub restart: bool,
    /// Whether there is more: ask for it with `until`.
    pub more: bool,
    /// Records in the order of their numbers.
    pub records: Vec<MapRecord>,
    /// Nodes decommissioned since.
    pub forgotten: Vec<NodeId>,
}

#[derive(Clone, Debug)]
struct Entry {
    record: NodeRecord,
    number: u64,
    heard: Tick,
    published: Tick,
    /// `record` holds a small change that no number stands for yet.
    quiet: bool,
}

/// The map; one type for the authority and for copies.
#[derive(Clone, Debug, Default)]
pub struct NodeMap {
    version: MapVersion,
    nodes: BTreeMap<NodeId, Entry>,
    /// `number` → node: what a delta walks.
    order: BTreeMap<u64, NodeId>,
    /// `number` → node decommissioned in this epoch, the latest `MAP_FORGOTTEN_MAX` of them.
    forgotten: BTreeMap<u64, NodeId>,
    /// Copies older than this number may miss a decommissioning: they are sent everything.
    floor: u64,
    authority: bool,
    /// Copies: a full copy under way.
    filling: Option<Filling>,
    /// Copies: when the last delta came.
    synced: Tick,
}

#[derive(Clone, Debug)]
struct Filling {
    reached: MapVersion,
    confirmed: BTreeSet<NodeId>,
}

impl NodeMap {
    /// An empty map.
    pub fn new() -> NodeMap {
        NodeMap::default()
    }

    /// How far this map is. A copy asks for a delta since `next_wanted`.
    pub fn version(&self) -> MapVersion {
        self.version
    }

    /// What a copy should ask the authority for.
    pub fn next_wanted(&self) -> MapVersion {
        self.filling.as_ref().map_or(self.version, |filling| filling.reached)
    }

    /// Whether no copy of it is under way and it has been given once: who is not in it then is no node of the world.
    pub fn is_whole(&self) -> bool {
        self.version.epoch > 0 && self.filling.is_none()
    }

    /// How many nodes are known.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A node.
    pub fn get(&self, node: NodeId) -> Option<&NodeRecord> {
        self.nodes.get(&node).map(|entry| &entry.record)
    }

    /// Every node, by id.
    pub fn records(&self) -> impl Iterator<Item = &NodeRecord> {
        self.nodes.values().map(|entry| &entry.record)
    }

    /// How long ago the node was heard of, as far as this map can tell.
    pub fn heard_ago(&self, node: NodeId, now: Tick) -> Option<Duration> {
        let entry = self.nodes.get(&node)?;
        Some(now.since(if self.authority || !entry.record.up { entry.heard } else { self.synced }))
    }

    /// Makes this map the authority of a new epoch, from the replicated records (`allocator`) with
    /// what is already known laid over them. Everyone counts as heard of now: a new leader gives
    /// each node its full time before it calls it down.
    pub fn become_authority(&mut self, now: Tick, epoch: u64, replicated: &[NodeRecord]) {
        let known = core::mem::take(&mut self.nodes);
        self.order.clear();
        self.forgotten.clear();
        (self.floor, self.filling, self.authority) = (0, None, true);
        self.version = MapVersion { epoch, number: 0 };
        for record in replicated.iter().take(MAP_NODES_MAX) {
            let held = known.get(&record.node).map(|entry| &entry.record);
            let mut laid = held.filter(|held| held.disk == record.disk).unwrap_or(record).clone();
            laid.draining = record.draining;
            self.publish(now, now, laid);
        }
    }

    /// The authority heard of a node. `record.up` is ignored: who speaks is up; so is `record.draining`,
    /// which is not the node's to say (`set_draining`).
    pub fn note_heartbeat(&mut self, now: Tick, record: &NodeRecord) -> Result<Option<MapChange>, MapError> {
        let mut record = record.clone();
        record.up = true;
        let node = record.node;
        record.draining = self.nodes.get(&node).is_some_and(|entry| entry.record.draining);
        let Some(entry) = self.nodes.get_mut(&node) else {
            if self.nodes.len() >= MAP_NODES_MAX {
                return Err(MapError::Full);
            }
            self.publish(now, now, record);
            return Ok(Some(MapChange::Joined(node)));
        };
        let other_disk = entry.record.disk != record.disk;
        if other_disk && entry.record.up && entry.record.peer_address != record.peer_address {
            return Err(MapError::Duplicate { node, address: entry.record.peer_address.clone() });
        }
        let change = if other_disk {
            MapChange::DiskLost(node)
        } else if !entry.record.up {
            MapChange::Up(node)
        } else if !entry.record.same_facts(&record) {
            MapChange::Facts(node)
        } else if entry.record == record && !entry.quiet {
            entry.heard = now;
            return Ok(None);
        } else if is_small(&entry.record, &record) && now.since(entry.published) < MAP_REPUBLISH {
            // The published score stays until it is published anew, so that small steps add up.
            entry.heard = now;
            entry.quiet = true;
            (entry.record.clusters, entry.record.leaders) = (record.clusters, record.leaders);
            return Ok(None);
        } else {
            MapChange::Report(node)
        };
        self.publish(now, now, record);
        Ok(Some(change))
    }

    /// The authority marks as down each node that it has not heard for `down_after`.
    pub fn refresh(&mut self, now: Tick, down_after: Duration) -> Vec<MapChange> {
        let silent = |entry: &&Entry| entry.record.up && now.since(entry.heard) >= down_after;
        let down: Vec<(Tick, NodeRecord)> =
            self.nodes.values().filter(silent).map(|entry| (entry.heard, entry.record.clone())).collect();
        let mut changes = Vec::with_capacity(down.len());
        for (heard, mut record) in down {
            record.up = false;
            changes.push(MapChange::Down(record.node));
            self.publish(now, heard, record);
        }
        changes
    }

    /// The authority learns which nodes are being decommissioned: these and no others.
    pub fn set_draining(&mut self, now: Tick, draining: &BTreeSet<NodeId>) -> Vec<MapChange> {
        let differs = |entry: &&Entry| entry.record.draining != draining.contains(&entry.record.node);
        let changed: Vec<(Tick, NodeRecord)> =
            self.nodes.values().filter(differs).map(|entry| (entry.heard, entry.record.clone())).collect();
        let mut changes = Vec::with_capacity(changed.len());
        for (heard, mut record) in changed {
            record.draining = !record.draining;
            changes.push(MapChange::Facts(record.node));
            self.publish(now, heard, record);
        }
        changes
    }

    /// The authority drops a node for good.
    pub fn forget(&mut self, node: NodeId) -> bool {
        let Some(entry) = self.nodes.remove(&node) else { return false };
        self.order.remove(&entry.number);
        self.version.number += 1;
        self.forgotten.insert(self.version.number, node);
        if self.forgotten.len() > MAP_FORGOTTEN_MAX {
            self.floor = self.forgotten.pop_first().map_or(self.floor, |(number, _)| number);
        }
        true
    }

    fn publish(&mut self, now: Tick, heard: Tick, record: NodeRecord) {
        self.version.number += 1;
        let number = self.version.number;
        let node = record.node;
        let entry = Entry { record, number, heard, published: now, quiet: false };
        if let Some(old) = self.nodes.insert(node, entry) {
            self.order.remove(&old.number);
        }
        self.order.insert(number, node);
    }

    /// What the authority sends to a copy that has `since`; at most `limit` records.
    pub fn delta_since(&self, now: Tick, since: MapVersion, limit: usize) -> MapDelta {
        let MapVersion { epoch, number } = self.version;
        let restart = since.epoch != epoch || since.number > number || since.number < self.floor;
        let from = if restart { 0 } else { since.number };
        let limit = limit.clamp(1, MAP_DELTA_RECORDS_MAX);
        let first = from + if planted(Mutant::MapDeltaSkipsOne) && from > 0 { 2 } else { 1 };
        let page: Vec<(u64, NodeId)> = self.order.range(first..).take(limit + 1).map(|(n, id)| (*n, *id)).collect();
        let more = page.len() > limit;
        let reached = if more { page[limit - 1].0 } else { number };
        let records = page.iter().take(limit).filter_map(|(number, node)| {
            let entry = self.nodes.get(node)?;
            let heard_ms_ago = now.since(entry.heard).as_millis() as u64;
            Some(MapRecord { number: *number, heard_ms_ago, record: entry.record.clone() })
        });
        let records = records.collect();
        // A copy that has everything asks for an empty range, which a tree that holds anything panics over.
        let range = (reached > from).then_some(from + 1..=reached);
        let forgotten =
            range.into_iter().flat_map(|range| self.forgotten.range(range)).map(|(_, node)| *node).collect();
        MapDelta { since, until: MapVersion { epoch, number: reached }, restart, more, records, forgotten }
    }

    /// A copy takes a delta. One that is no answer to what it asks for now is dropped (it was late,
    /// or sent twice).
    pub fn apply_delta(&mut self, now: Tick, delta: &MapDelta) -> Vec<MapChange> {
        if self.authority && delta.until.epoch <= self.version.epoch || delta.since != self.next_wanted() {
            return Vec::new();
        }
        self.authority = false;
        if delta.restart {
            self.filling = Some(Filling { reached: delta.since, confirmed: BTreeSet::new() });
            // Numbers of another epoch; the pages give each node its own.
            self.order.clear();
            self.floor = 0;
        }
        let mut changes = Vec::new();
        for item in &delta.records {
            self.take_record(now, item, &mut changes);
        }
        let mut gone = delta.forgotten.clone();
        if let (Some(filling), false) = (&self.filling, delta.more) {
            gone.extend(self.nodes.keys().filter(|node| !filling.confirmed.contains(node)));
        }
        for node in gone {
            if let Some(entry) = self.nodes.remove(&node) {
                self.take_from_order(node, entry.number);
                // A copy that asks here receives everything, and misses the node.
                self.floor = delta.until.number;
                changes.push(MapChange::Forgotten(node));
            }
        }
        self.synced = now;
        match &mut self.filling {
            Some(filling) if delta.more => filling.reached = delta.until,
            _ => (self.filling, self.version) = (None, delta.until),
        }
        changes
    }

    fn take_record(&mut self, now: Tick, item: &MapRecord, changes: &mut Vec<MapChange>) {
        let node = item.record.node;
        let old = self.nodes.get(&node).map(|entry| &entry.record);
        if old.is_none() && self.nodes.len() >= MAP_NODES_MAX {
            return;
        }
        match old {
            None => changes.push(MapChange::Joined(node)),
            Some(old) if *old == item.record => {}
            Some(old) if old.disk != item.record.disk => changes.push(MapChange::DiskLost(node)),
            Some(old) if !old.same_facts(&item.record) => changes.push(MapChange::Facts(node)),
            Some(old) if old.up == item.record.up => changes.push(MapChange::Report(node)),
            Some(_) => {}
        }
        if old.is_some_and(|old| old.up != item.record.up) {
            changes.push(if item.record.up { MapChange::Up(node) } else { MapChange::Down(node) });
        }
        if let Some(filling) = &mut self.filling {
            filling.confirmed.insert(node);
        }
        let heard = now - Duration::from_millis(item.heard_ms_ago);
        let entry = Entry { record: item.record.clone(), number: item.number, heard, published: now, quiet: false };
        if let Some(old) = self.nodes.insert(node, entry) {
            self.take_from_order(node, old.number);
        }
        self.order.insert(item.number, node);
    }

    fn take_from_order(&mut self, node: NodeId, number: u64) {
        if self.order.get(&number) == Some(&node) {
            self.order.remove(&number);
        }
    }
}

impl Encode for MapVersion {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.epoch).varint(self.number);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(MapVersion { epoch: input.u64("map epoch")?, number: input.varint("map number")? })
    }
}

impl Encode for MapDelta {
    fn encode(&self, out: &mut Writer) {
        self.since.encode(out);
        self.until.encode(out);
        out.bool(self.restart).bool(self.more).varint(self.records.len() as u64);
        for item in &self.records {
            out.varint(item.number).varint(item.heard_ms_ago);
            item.record.encode(out);
        }
        out.varint(self.forgotten.len() as u64);
        for node in &self.forgotten {
            out.u64(node.0);
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let since = MapVersion::decode(input)?;
        let until = MapVersion::decode(input)?;
        let (restart, more) = (input.bool("restart")?, input.bool("more")?);
        let mut records = Vec::new();
        for _ in 0..bounded_count(input, "map records", MAP_DELTA_RECORDS_MAX)? {
            let (number, heard_ms_ago) = (input.varint("map number")?, input.varint("heard")?);
            records.push(MapRecord { number, heard_ms_ago, record: NodeRecord::decode(input)? });
        }
        let mut forgotten = Vec::new();
        for _ in 0..bounded_count(input, "forgotten nodes", MAP_FORGOTTEN_MAX)? {
            forgotten.push(NodeId(input.u64("forgotten node")?));
        }
        Ok(MapDelta { since, until, restart, more, records, forgotten })
    }
}

fn bounded_count(input: &mut Reader, what: &'static str, most: usize) -> Result<usize, DecodeError> {
    let count = input.count(what)?;
    if count > most {
        return Err(DecodeError::TooLarge(what));
    }
    Ok(count)
}

/// Whether a report may wait for `MAP_REPUBLISH`.
fn is_small(old: &NodeRecord, new: &NodeRecord) -> bool {
    // Whether a node that is decommissioned holds anything is what its operator waits for.
    let emptied = (old.clusters == 0) != (new.clusters == 0);
    old.score.abs_diff(new.score) < crate::SCORE_STEP && !emptied
}

#[cfg(test)]
mod tests;

//! Clusters that were destroyed here, so that a late message cannot make a blank voter of one.
//!
//! Always: a destroyed first member is not made again (mutant `DestroyedMadeAgain`); a cluster that is forgotten for lack of
//! room still counts as destroyed, by its id (`floor`).
//! A later replica of a cluster that is forgotten so may come: that none of an id that was here before does is remembered by
//! the node while it runs (core-node `replica_repair.rs`), and no order outlives the connection it came by.
//! Not here: records that were lost (lost_replicas.rs).

use crate::meta::STATE_TOMBSTONES;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, ReplicaId};
use std::collections::BTreeMap;

/// Destroyed clusters remembered, so that a late message cannot make a blank voter of one.
pub(crate) const TOMBSTONES_MAX: usize = 1024;
/// What one takes in their record.
const TOMBSTONE_BYTES_MAX: usize = 20;

/// Clusters destroyed here with the latest replica that was, and the id below which all that are not
/// here count as destroyed.
#[derive(Default)]
pub(crate) struct Tombstones {
    floor: u64,
    pub(crate) ids: BTreeMap<ClusterId, ReplicaId>,
}

/// The first record of a lane's log: that nothing was destroyed here yet. From then on the log is one that has begun.
pub fn begin_log(log: &mut core_log::Log) {
    log.put_state(ClusterId(0), STATE_TOMBSTONES, Tombstones::default().to_bytes());
}

impl Encode for Tombstones {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.floor).varint(self.ids.len() as u64);
        for (id, replica) in &self.ids {
            out.u64(id.0).varint(replica.0);
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let floor = input.u64("floor")?;
        let count = input.count("tombstones")?;
        let mut ids = BTreeMap::new();
        for _ in 0..count {
            ids.insert(ClusterId(input.u64("cluster")?), ReplicaId(input.varint("replica")?));
        }
        Ok(Tombstones { floor, ids })
    }
}

impl Tombstones {
    /// All clusters up to this that are not here count as destroyed.
    pub(crate) fn raise_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
    }

    pub(crate) fn bury(&mut self, cluster: ClusterId, replica: ReplicaId, bytes_max: usize) {
        let latest = self.ids.entry(cluster).or_insert(replica);
        *latest = replica.max(*latest);
        let count_max = TOMBSTONES_MAX.min(bytes_max / TOMBSTONE_BYTES_MAX);
        while self.ids.len() > count_max {
            let Some((oldest, _)) = self.ids.pop_first() else { return };
            self.floor = self.floor.max(oldest.0);
        }
    }

    /// Whether such a replica must not be made: a first member never again, a later one only under a
    /// higher id, for what an earlier one promised is forgotten.
    pub(crate) fn holds(&self, cluster: ClusterId, replica: ReplicaId, joins_later: bool) -> bool {
        match self.ids.get(&cluster) {
            Some(latest) if planted(Mutant::DestroyedMadeAgain) => !joins_later || replica < *latest,
            Some(latest) => !joins_later || replica <= *latest,
            None => cluster.0 <= self.floor && !joins_later,
        }
    }
}

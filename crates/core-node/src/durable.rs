//! Things to say once what was staged in the log is surely on disk.
//!
//! A record knows its batch from the moment it is staged. Behind a backlog that is not the next batch to be written,
//! but one several writes later: what is held back names the batch, and the log says which batch is durable.
//!
//! Always: nothing is released before the batch that holds it is durable. A sender that repeats its order while the
//! record is staged waits for the same batch: "it is there" would be said too early.
//! Held by: `an_earlier_batch_releases_nothing`, `a_repeated_order_waits_for_the_same_batch`.
//! Not here: the lane's own messages, which the lane itself holds back (core-cluster).

use crate::frame::Item;
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, LaneId, NodeId};
use core_log::BatchNumber;
use std::collections::BTreeMap;

/// Something held back.
#[derive(Clone, PartialEq, Debug)]
pub enum Deferred {
    /// An answer to a peer.
    Say { node: NodeId, lane: LaneId, item: Box<Item> },
    /// A level 0 cluster's replica is there for good.
    Formed(ClusterId),
}

/// What is held back.
#[derive(Debug, Default)]
pub struct DurableQueue {
    /// Clusters whose replica was made or removed, and the batch that holds the last record of it.
    staged: BTreeMap<ClusterId, BatchNumber>,
    waiting: Vec<(BatchNumber, Deferred)>,
    /// All batches up to this one are durable.
    synced: BatchNumber,
}

impl DurableQueue {
    /// A replica of the cluster was made or removed in this turn; its last record is in this batch.
    pub fn stage(&mut self, cluster: ClusterId, batch: BatchNumber) {
        if batch > self.synced {
            self.staged.insert(cluster, batch);
        }
    }

    /// Holds something back until all that was staged for the cluster is durable. Given back: it is already.
    pub fn hold(&mut self, cluster: ClusterId, deferred: Deferred) -> Option<Deferred> {
        let Some(batch) = self.staged.get(&cluster) else { return Some(deferred) };
        self.waiting.push((*batch, deferred));
        None
    }

    /// How many are held back.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// All batches up to this one are durable: returns what they release.
    pub fn on_durable(&mut self, synced: BatchNumber) -> Vec<Deferred> {
        self.synced = synced;
        let durable = |batch: BatchNumber| batch <= synced || planted(Mutant::DurableToldEarly);
        self.staged.retain(|_, batch| !durable(*batch));
        self.waiting.extract_if(.., |(batch, _)| durable(*batch)).map(|(_, deferred)| deferred).collect()
    }
}

#[cfg(test)]
mod tests;

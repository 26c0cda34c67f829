//! What always holds of a replica and of a lane, checked after each turn.
//!
//! ```text
//!   turn ─▶ each replica that had a part in it ─▶ holds ─▶ its answers leave
//!                 └─ does not ─▶ debug build, simulator: panic. Else: the group is quarantined, and an operator is called
//! ```
//!
//! Always (asserted here): what is durable was applied, what is applied was committed, and the log begins where the durable
//! part ends; only who leads has writes, snapshots and waits under way, and each write is counted once; what the
//! lane counts of its replicas is their sum.
//! Not here: the group's own (core-raft `invariants.rs`), the log's (core-log `invariants.rs`).

use crate::lane::Lane;
use crate::meta::FIRST_INDEX;
use crate::replica::Replica;
use crate::shared::Shared;
use base_types::holds;
use base_types::invariant::{Broken, THOROUGH};
use base_types::ClusterId;
use core_raft::Role;
use std::collections::BTreeMap;
use std::ops::Bound;

/// In so many turns one replica is walked, each in its turn, and the lane's sums are made: the simulator stays as fast
/// as it is within a tenth.
const WALK_EVERY_TURNS: u64 = if cfg!(test) { 4 } else { 512 };
/// In so many turns the log is walked.
const WALK_LOG_EVERY_TURNS: u64 = if cfg!(test) { 16 } else { 8192 };

impl Replica {
    /// Checks after a turn, in every build: nothing is walked.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check_invariants(&mut self, shared: &Shared) -> Result<(), Broken> {
        let (applied, durable) = (self.meta.applied, self.durable.index);
        holds!(durable <= applied, "index {durable} is durable, and {applied} applied");
        if self.blank || self.incoming.is_some() || self.damaged.is_some() {
            return Ok(());
        }
        let Some(group) = self.group.as_mut() else { return Ok(()) };
        group.check_invariants()?;
        let (commit, term, leads) = (group.commit(), group.term(), group.role() == Role::Leader);
        holds!(applied <= commit, "index {applied} is applied, and {commit} committed");
        let first = shared.log.borrow().first_index(self.spec.cluster);
        holds!(first.0 <= durable.0.max(FIRST_INDEX.0) + 1, "the log begins at {first}, and {durable} is durable");
        let led = self.leading.is_none_or(|leading| leads && leading == term);
        holds!(led || self.has_more(), "it leads in term {:?}, and its Raft member is in {term}", self.leading);
        let idle = self.proposed.is_empty() && self.staged.is_empty() && self.absolute.is_empty();
        holds!(
            self.leading.is_some() || (idle && self.senders.is_empty()),
            "it does not lead and has writes under way"
        );
        Ok(())
    }

    /// The same for what must be walked.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check_thoroughly(&self) -> Result<(), Broken> {
        let waiting = self.staged.len() + self.proposed.iter().map(|proposed| proposed.writes.len()).sum::<usize>();
        holds!(waiting == self.pending_writes, "{waiting} writes wait, and {} are counted", self.pending_writes);
        let mut before = self.meta.applied;
        for proposed in &self.proposed {
            holds!(proposed.index > before, "a proposal for {} waits after {before}", proposed.index);
            before = proposed.index;
        }
        let (found, counted) = (self.overlay.walked_bytes(), self.overlay.bytes());
        holds!(found == counted, "the overlay holds {found} bytes, and {counted} are counted");
        self.request_ids.check_invariants()
    }
}

impl Lane {
    /// Checks a replica that has had its turn, and acts on what is found.
    pub(crate) fn check_replica(shared: &mut Shared, replica: &mut Replica) {
        if replica.is_quarantined() || shared.storage_failed {
            return;
        }
        let Err(broken) = replica.check_invariants(shared) else { return };
        assert!(!THOROUGH, "{broken} (cluster {}, node {})", replica.spec.name, shared.config.node);
        replica.quarantine_group(shared, broken.to_string());
    }

    /// Walks a part of the lane, where costly checks are made.
    pub(crate) fn check_walks(&mut self) {
        self.turns += 1;
        if THOROUGH && self.turns.is_multiple_of(WALK_EVERY_TURNS) && !self.shared.storage_failed {
            self.walk().unwrap_or_else(|broken| panic!("{broken} (node {})", self.shared.config.node));
        }
    }

    /// # Errors
    /// The first invariant that does not hold.
    fn walk(&mut self) -> Result<(), Broken> {
        let next = self.replicas.range((Bound::Excluded(self.walked), Bound::Unbounded)).next();
        if let Some((cluster, replica)) = next.or_else(|| self.replicas.iter().next()) {
            replica.check_thoroughly()?;
            self.walked = *cluster;
        }
        if self.turns.is_multiple_of(WALK_LOG_EVERY_TURNS) {
            self.shared.log.borrow().check_invariants()?;
        }
        self.check_sums()
    }

    /// What the lane counts, counted again.
    fn check_sums(&self) -> Result<(), Broken> {
        let (mut bytes, mut senders) = (0, 0);
        let mut waits: BTreeMap<ClusterId, u32> = BTreeMap::new();
        for wait in &self.shared.awaiting_sync {
            let of_life = self.replicas.get(&wait.cluster).is_some_and(|replica| replica.life == wait.life);
            *waits.entry(wait.cluster).or_default() += u32::from(of_life);
        }
        for (cluster, replica) in &self.replicas {
            bytes += replica.counted_bytes;
            senders += replica.senders.len();
            let (waits, counted) = (waits.get(cluster).copied().unwrap_or(0), replica.unsynced);
            holds!(waits == counted, "{waits} readies of {cluster} wait for the log, and {counted} are counted");
            holds!(replica.quiesced || self.awake.contains(cluster), "cluster {cluster} is awake, and is not ticked");
            let dirty = replica.dirty_since;
            holds!(
                dirty.is_none_or(|since| self.dirty.contains(cluster) && self.dirty_order.contains(&(since, *cluster))),
                "cluster {cluster} is dirty since {dirty:?}, and no flush knows"
            );
        }
        let counted = self.shared.statistics.overlay_bytes;
        holds!(bytes == counted, "overlays have {bytes} bytes, and the lane counts {counted}");
        let counted = self.shared.snapshot_senders;
        holds!(senders == counted, "{senders} snapshots go out, and the lane counts {counted}");
        let batches = self.shared.awaiting_sync.iter().map(|wait| wait.batch);
        holds!(batches.is_sorted(), "readies wait for the log out of order");
        Ok(())
    }
}

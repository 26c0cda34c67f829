//! What a lane reports: its replicas, numbers and sizes, and what the simulator compares.
//!
//! Nothing here changes a lane, but `take_witnessed`, `take_won` and `take_begun` empty their lists.

use super::Lane;
use crate::api::*;
use crate::meta::{ClusterMeta, LABEL_KEY, META_KEY};
use crate::replica::Replica;
use crate::storage::overlay::BackendView;
use crate::storage::tombstones::TOMBSTONES_MAX;
use base_engine::{Direction, KeyRange};
use base_types::codec::Encode;
use base_types::sizes::Sizes;
use base_types::{BackendKind, ClusterId, ClusterName, LogIndex};
use core_backends::metadata;
use std::ops::ControlFlow;
use std::rc::Rc;
use xxhash_rust::xxh3::xxh3_64_with_seed;
impl Lane {
    /// A replica at a glance.
    pub fn view(&self, cluster: ClusterId) -> Option<ReplicaView> {
        self.replicas.get(&cluster).map(|replica| view_of(replica))
    }

    /// Every replica, by cluster id.
    pub fn views(&self) -> Vec<ReplicaView> {
        self.replicas.values().map(|replica| view_of(replica)).collect()
    }

    /// Every cluster led here, by cluster id, with what is applied: for who looks at all of them often.
    pub fn each_led(&self, visit: &mut dyn FnMut(ClusterId, &base_types::ClusterName, LogIndex)) {
        let led = self.replicas.iter().filter(|(_, replica)| replica.is_leader());
        led.for_each(|(cluster, replica)| visit(*cluster, &replica.spec.name, replica.meta.applied));
    }

    /// Every replica in short, by cluster id: for who looks often.
    pub fn glances(&self) -> Vec<Glance> {
        let glances = self.replicas.iter().map(|(cluster, replica)| Glance {
            cluster: *cluster,
            generation: replica.spec.generation,
            term: replica.term(),
            is_leader: replica.is_leader(),
            quiesced: replica.quiesced,
            lease_until: replica.reads.lease_until(),
            applied: replica.meta.applied,
            cluster_time_ms: replica.meta.cluster_time_ms,
            damaged: replica.damaged.is_some() && replica.ended == base_types::Generation(0),
            quarantined: replica.is_quarantined(),
            panicked: replica.quarantine.as_ref().is_some_and(|quarantine| quarantine.panicked),
            blank: replica.blank,
        });
        glances.collect()
    }

    /// What a replica of this cluster was made of, for a new member: the same but for the replica.
    pub fn spec(&self, cluster: ClusterId) -> Option<ReplicaSpec> {
        self.replicas.get(&cluster).map(|replica| replica.spec.clone())
    }

    #[cfg(test)]
    pub fn damage_for_test(&mut self, cluster: ClusterId) {
        let replica = self.replicas.get_mut(&cluster).expect("asked for by a test");
        replica.damage(&mut self.context, "a test wants it so".into());
    }

    /// Counters and gauges.
    pub fn statistics(&self) -> LaneStatistics {
        let replicas = self.replicas.values();
        let mut statistics = self.context.statistics;
        replicas.clone().for_each(|replica| replica.count_lag(&self.context, &mut statistics));
        replicas.clone().for_each(|replica| replica.count_followers(&mut statistics));
        LaneStatistics {
            replicas: self.replicas.len() as u64,
            leaders: replicas.clone().filter(|replica| replica.is_leader()).count() as u64,
            quiesced: replicas.clone().filter(|replica| replica.quiesced).count() as u64,
            replicas_quarantined: replicas.clone().filter(|replica| replica.is_quarantined()).count() as u64,
            pairs_damaged: replicas.filter_map(|replica| replica.mending.as_ref()).map(|it| it.pairs() as u64).sum(),
            log_segments: self.context.log.borrow().segments_in_use() as u64,
            log_batches: self.context.log.borrow().synced().0,
            ..statistics
        }
    }

    /// How many clusters a drained lane still leads that another member may take over.
    pub fn hand_overs_due(&self) -> usize {
        self.replicas.values().filter(|replica| replica.may_hand_over(&self.context)).count()
    }

    /// The clusters led here that committed most since this was last asked, busiest first; at most so many.
    pub fn busiest(&self, most: usize) -> Vec<BusyCluster> {
        let mut busy: Vec<(u64, &Box<Replica>)> = self
            .replicas
            .values()
            .filter(|replica| replica.is_leader())
            .map(|replica| (replica.committed_since_looked(), replica))
            .filter(|(recent, _)| *recent > 0)
            .collect();
        busy.sort_unstable_by_key(|(recent, replica)| (std::cmp::Reverse(*recent), replica.spec.cluster));
        let shown = busy.into_iter().take(most);
        shown
            .map(|(recent, replica)| BusyCluster {
                name: replica.spec.name.clone(),
                entries: replica.meta.applied.0,
                recent,
            })
            .collect()
    }

    /// How long its queues and tables are, each beside its bound.
    pub fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        sizes.lasting("clusters destroyed here, a lane", self.tombstones.ids.len(), TOMBSTONES_MAX);
        self.context.sizes(&mut sizes);
        self.replicas.values().for_each(|replica| replica.sizes(&mut sizes));
        sizes
    }

    /// A hash of everything a replica has applied, with the index it stands at: equal on all members
    /// at equal index. For the simulator; walks the whole space.
    pub fn state_hash(&self, cluster: ClusterId) -> Option<(LogIndex, u64)> {
        let replica = self.replicas.get(&cluster).filter(|replica| !replica.blank && replica.damaged.is_none())?;
        // One hash after the other, each seeded by the one before: boundaries and order count, and short
        // pairs cost little.
        let mut hash = 0;
        let walked = replica.view().range_raw(KeyRange::ALL.start, None, Direction::Forward, &mut |key, value| {
            if ![META_KEY, LABEL_KEY].contains(&key) {
                hash = xxh3_64_with_seed(value, xxh3_64_with_seed(key, hash));
            }
            ControlFlow::Continue(())
        });
        walked.ok()?;
        let meta = ClusterMeta { membership: Rc::default(), ..replica.meta.clone() };
        Some((replica.meta.applied, xxh3_64_with_seed(&meta.to_bytes(), hash)))
    }

    /// The commands applied since this was last called, of the kind that is witnessed. For the simulator.
    pub fn take_witnessed(&mut self) -> Vec<Witnessed> {
        core::mem::take(&mut self.context.witnessed)
    }

    /// The replicas that came to lead since this was last called, each time anew. For the simulator.
    pub fn take_won(&mut self) -> Vec<Won> {
        core::mem::take(&mut self.context.won)
    }

    /// The lives that began here alone since this was last called. For the simulator.
    pub fn take_begun(&mut self) -> Vec<Begun> {
        core::mem::take(&mut self.context.begun)
    }

    /// A cluster's name and the partitions that its replica here serves, each with its epoch and how many pairs it counts. For the simulator.
    pub fn served_partitions(&self, cluster: ClusterId) -> Option<(ClusterName, Vec<metadata::PartitionInfo>)> {
        let replica = self.replicas.get(&cluster).filter(|replica| !replica.blank && replica.damaged.is_none())?;
        let (name, backend) = (replica.spec.name.clone(), BackendKind::Metadata);
        if !name.has(backend) {
            return None;
        }
        let space = BackendView { view: replica.view(), backend: backend as u8 };
        let asked = metadata::Query::Partitions.to_bytes();
        let reply = core_backends::query(backend, replica.meta.cluster_time_ms, &space, &asked).ok()?;
        let Ok(metadata::Reply::Partitions(known)) = core_backends::decode_reply(reply) else { return None };
        let served = known.into_iter().filter(|info| info.state.serves()).collect();
        Some((name, served))
    }
}

fn view_of(replica: &Replica) -> ReplicaView {
    ReplicaView {
        cluster: replica.spec.cluster,
        generation: replica.spec.generation,
        name: replica.spec.name.clone(),
        replica: replica.spec.replica,
        space: replica.space,
        leader: replica.leader_node(),
        is_leader: replica.is_leader(),
        is_learner: replica.meta.membership.learners.contains(&replica.spec.replica),
        term: replica.term(),
        commit: replica.group.as_ref().map_or(LogIndex(0), |group| group.commit()),
        applied: replica.meta.applied,
        quiesced: replica.quiesced,
        damaged: replica.damaged.is_some(),
        ended: replica.ended,
        quarantined: replica.quarantine.as_ref().map(|quarantine| quarantine.why.as_ref().into()),
        mending: replica.has_damage(),
        blank: replica.blank,
        members: replica.meta.members.clone(),
        engine_since: replica.meta.engine_since(),
        cluster_time_ms: replica.meta.cluster_time_ms,
    }
}

//! What durable tails have in their buckets: what a world that lost every node would be reborn from.
//!
//! Always: a bucket outlives its node's disk. Where a node loses its disk here, or an old image of it is put back, its
//! engine goes too; its bucket counts on as it was (`part_bucket`).
//! Not here: who is a tail (the plan's `shape.tails`).

use super::World;
use crate::host::LaneHost;
use base_engine::Engine;
use base_types::action::KvTarget;
use base_types::{ClusterName, OrderedAt, ReplicaId, SpaceId};
use core_cluster::api::Member;
use core_cluster::restore::{Found, Home, RestoredReplica};
use proof_check::Violation;
use std::collections::{BTreeMap, BTreeSet};

/// A cluster and its generation.
type Cluster = (u64, u32);
/// What one lane's engine holds: by replica, the index that it would be reborn at.
type Held = BTreeMap<(Cluster, ReplicaId), u64>;

/// The buckets.
#[derive(Default)]
pub(super) struct Kept {
    /// By node, how often its disk was changed under it, and lane.
    buckets: BTreeMap<(usize, u64, usize), Held>,
    changes: BTreeMap<usize, u64>,
    /// The greatest index that any of them ever held.
    ever: BTreeMap<Cluster, u64>,
    /// The greatest index acknowledged as in a bucket.
    acknowledged: BTreeMap<Cluster, u64>,
}

impl Kept {
    fn holds(&self, cluster: Cluster) -> u64 {
        let held = self.buckets.values().flatten().filter(|((of, _), _)| *of == cluster);
        held.map(|(_, index)| *index).max().unwrap_or(0)
    }
}

/// Spaces with damaged pairs of which their replica knows: `hive restore` would refuse them. What nobody has read yet
/// is damage that a tail cannot know of.
fn known_unsound(host: &LaneHost) -> BTreeSet<SpaceId> {
    let views = host.machine.iter().flat_map(|machine| machine.views());
    let known: BTreeSet<SpaceId> = views.filter(|view| view.mending).map(|view| view.space).collect();
    host.engine.damaged().into_iter().map(|(space, _)| space).filter(|space| known.contains(space)).collect()
}

impl World {
    /// Whether the engines of a node outlive it.
    pub(super) fn is_tail(&self, node: usize) -> bool {
        (node as u64) < self.plan.shape.tails
    }

    /// A node's disk is another one from now on.
    pub fn part_bucket(&mut self, node: usize) {
        *self.kept.changes.entry(node).or_default() += 1;
    }

    /// An engine's job has ended: what it left is read as `hive restore` would read it.
    pub(super) fn note_kept(&mut self, node: usize, lane: usize) {
        if !self.is_tail(node) {
            return;
        }
        let (id, disk) = (self.nodes[node].id, self.nodes[node].disk_id);
        let host = &self.nodes[node].lanes[lane];
        let engine = &*host.engine;
        let mut held = Held::new();
        let unsound = known_unsound(host);
        for space in engine.spaces().unwrap_or_default() {
            if unsound.contains(&space) {
                continue;
            }
            let home = Home { node: id, disk, engine: "memory".into(), space };
            if let Ok(Found::Replica(replica)) = RestoredReplica::read(engine, space, home) {
                let (cluster, generation, applied) = replica.order();
                let index = held.entry(((cluster, generation), replica.replica())).or_default();
                *index = applied.max(*index);
            }
        }
        if !unsound.is_empty() {
            self.probe("bucket_known_damaged");
        }
        for ((cluster, _), index) in &held {
            let ever = self.kept.ever.entry(*cluster).or_default();
            *ever = *index.max(ever);
        }
        let change = self.kept.changes.get(&node).copied().unwrap_or(0);
        let before = self.kept.buckets.insert((node, change, lane), held.clone()).unwrap_or_default();
        // A replica that is gone may take its bucket with it: somebody removed it. One that is there does not go back.
        for ((cluster, replica), index) in before {
            let acknowledged = self.kept.acknowledged.get(&cluster).copied().unwrap_or(0);
            let now = held.get(&(cluster, replica)).copied().unwrap_or(u64::MAX);
            if now < index && self.kept.holds(cluster) < acknowledged {
                let message = format!(
                    "the bucket of {replica:?} of cluster {cluster:?} went back from {index} to {now}, and writes up to {acknowledged} were acknowledged as in it"
                );
                self.violate(Violation::new("levels", message, vec![]));
            }
        }
    }

    /// Whether it is true of the target (of a keyspace: of one of its clusters) that no member keeps it in a bucket.
    pub fn lacks_tail(&self, target: &KvTarget) -> bool {
        let is_meant = |name: &ClusterName| match target {
            KvTarget::Cluster(cluster) => name == cluster,
            KvTarget::Keyspace(keyspace) => name.as_str().starts_with(&format!("metadata@ks-{keyspace}-")),
        };
        let machines = self.nodes.iter().flat_map(|node| &node.lanes).filter_map(|lane| lane.machine.as_ref());
        let led = machines.flat_map(|machine| machine.views()).filter(|view| view.is_leader && is_meant(&view.name));
        let is_tail = |member: &Member| self.index_of(member.node).is_some_and(|node| self.is_tail(node));
        led.into_iter().any(|view| !view.members.iter().any(is_tail))
    }

    /// A write was acknowledged at level s3: a bucket had it (its replica may have been removed since).
    pub fn check_kept(&mut self, at: &OrderedAt, record: u64) {
        self.probe("acknowledged_in_bucket");
        let (cluster, index) = ((at.cluster.0, at.generation.0), at.index.0);
        let kept = self.kept.ever.get(&cluster).copied().unwrap_or(0);
        let acknowledged = self.kept.acknowledged.entry(cluster).or_default();
        *acknowledged = index.max(*acknowledged);
        if kept < index {
            let message = format!("a write at {at:?} was acknowledged as in a bucket, and none has more than {kept}");
            self.violate(Violation::new("levels", message, vec![record]));
        }
    }
}

//! Every replica on this node, on whatever lane. Lane zero knows; the other lanes report to it.
//!
//! Not here: who reports (membership/nodes.rs), the replicas themselves (core-cluster).

use base_types::{ClusterId, ClusterName, Generation, NodeId, ReplicaId};
use std::collections::BTreeMap;

/// What lane zero knows of a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaKnown {
    pub name: ClusterName,
    pub generation: Generation,
    pub replica: ReplicaId,
    pub leader: Option<NodeId>,
}

/// The replicas, by cluster and by name.
#[derive(Debug, Default)]
pub struct LocalReplicas {
    of: BTreeMap<ClusterId, ReplicaKnown>,
    names: BTreeMap<ClusterName, ClusterId>,
}

impl LocalReplicas {
    /// A replica is here, or has changed.
    pub fn insert(&mut self, cluster: ClusterId, known: ReplicaKnown) {
        self.names.insert(known.name.clone(), cluster);
        self.of.insert(cluster, known);
    }

    /// A replica is gone.
    pub fn remove(&mut self, cluster: ClusterId, name: &ClusterName) {
        self.of.remove(&cluster);
        if self.names.get(name) == Some(&cluster) {
            self.names.remove(name);
        }
    }

    /// Whether a cluster has one.
    pub fn contains(&self, cluster: ClusterId) -> bool {
        self.of.contains_key(&cluster)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// All of them, by cluster.
    pub fn iter(&self) -> impl Iterator<Item = (&ClusterId, &ReplicaKnown)> {
        self.of.iter()
    }

    /// The replica of the cluster with this name.
    pub fn named(&self, name: &ClusterName) -> Option<(ClusterId, &ReplicaKnown)> {
        let cluster = *self.names.get(name)?;
        self.of.get(&cluster).map(|known| (cluster, known))
    }
}

//! The clusters of level 0, known by configuration: the world's and this region's. Their ids follow from their names.
//!
//! Not here: who their members are by now (membership/level_zero.rs), how they come into being (membership/formation.rs).

use crate::api::NodeConfig;
use base_types::{ClusterId, ClusterName, NodeId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Ids 2…901 are the regions' clusters; `reference` gives out ids from 1000.
const REGION_IDS: u64 = 900;

/// The id of the world cluster.
pub const WORLD_CLUSTER: ClusterId = ClusterId(1);

/// A level 0 cluster as configured: who forms it, and a hint where to find it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LevelZero {
    pub cluster: ClusterId,
    pub name: Arc<ClusterName>,
    pub members: Vec<NodeId>,
}

/// The id of a region's level 0 cluster: every node of the region computes it alike.
pub fn region_cluster_id(region: &str) -> ClusterId {
    ClusterId(2 + xxhash_rust::xxh3::xxh3_64(region.as_bytes()) % REGION_IDS)
}

/// Whether an id is one of the level 0 clusters' (the world's, the regions'), configured here or not.
pub fn is_level_zero(cluster: ClusterId) -> bool {
    cluster.0 < WORLD_CLUSTER.0 + 1 + REGION_IDS
}

/// The world's cluster, and the region's if it is configured or remembered.
pub fn configured(config: &NodeConfig) -> Vec<LevelZero> {
    let sorted = |members: &[(NodeId, String)]| {
        let set: BTreeSet<NodeId> = members.iter().map(|(node, _)| *node).collect();
        set.into_iter().collect::<Vec<NodeId>>()
    };
    let mut clusters = vec![LevelZero {
        cluster: WORLD_CLUSTER,
        name: Arc::new(ClusterName::world()),
        members: sorted(&config.world_members),
    }];
    let region = region_cluster_id(&config.labels.region);
    let has_region = !config.region_members.is_empty()
        || config.remembered.iter().any(|announcement| announcement.cluster == region);
    if let (true, Ok(name)) = (has_region, ClusterName::regional(&config.labels.region)) {
        clusters.push(LevelZero { cluster: region, name: Arc::new(name), members: sorted(&config.region_members) });
    }
    clusters
}

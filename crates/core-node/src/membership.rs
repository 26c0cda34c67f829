//! Who is in the world, which clusters have which members, and how that is kept right.
//!
//! ```text
//!   nodes.rs              heartbeats, the node map           registry.rs          the durable list of nodes
//!   formation.rs          first members of level 0           level_zero.rs        members of those that change
//!   config_cluster.rs     this node's own cluster            incarnation.rs       a world that was restored
//!   format_level.rs       which formats may be written directory_sync.rs  the copy of the directory of users
//!   replica_repair.rs     a dead or blank member is replaced rebalance.rs         members that must move
//!   stale_generations.rs  replicas of lives that are over    disk_rollback.rs     an old image of a disk
//!   untold.rs             changes that nobody reported       status.rs, health.rs what operators are shown
//! ```
//!
//! Not here: the flows themselves (flows/), Raft's own members (core-cluster).

pub(crate) mod config_cluster;
pub(crate) mod directory_sync;
pub(crate) mod disk_rollback;
pub(crate) mod format_level;
pub(crate) mod formation;
pub(crate) mod health;
pub(crate) mod incarnation;
pub(crate) mod level_zero;
pub(crate) mod nodes;
pub(crate) mod rebalance;
pub(crate) mod registry;
pub(crate) mod replica_repair;
pub(crate) mod stale_generations;
pub(crate) mod status;
pub(crate) mod untold;

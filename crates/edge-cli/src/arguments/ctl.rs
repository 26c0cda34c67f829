//! `hive ctl`: what operators see and change. Its groups are in files of their own.

use super::{BucketCommand, ClusterCommand, KeyspaceCommand, LevelZeroCommand, NamespaceCommand, S3Command, World};
use clap::{Args, Subcommand};

/// `hive ctl upgrade`: the world's format level.
#[derive(Subcommand, Debug)]
pub enum UpgradeCommand {
    /// The level of the world, of each node's program, and what stands in the way of the next
    Status {
        #[command(flatten)]
        world: World,
    },
    /// Raise the world's formats once every node runs the new version; no older version can come back
    Finalize {
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum CtlCommand {
    /// Whether the world is well, and what to look at if not
    Status {
        #[command(flatten)]
        world: World,
    },
    /// Regions, zones, racks, chassis and nodes, as a tree
    Topology {
        #[command(flatten)]
        world: World,
    },
    /// The nodes
    Nodes {
        #[command(flatten)]
        world: World,
    },
    /// Take a node out of service: its replicas move to others under their rules
    Decommission {
        node: u64,
        /// Return once it has begun; run it again to see how far it is
        #[arg(long)]
        no_wait: bool,
        #[command(flatten)]
        world: World,
    },
    /// Take a node back into service
    Recommission {
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Remove a node from the list of nodes: it is gone for good, stopped, and was emptied before
    Forget {
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Which formats the world writes, and what an upgrade of them waits for
    #[command(subcommand)]
    Upgrade(UpgradeCommand),
    /// The clusters
    Clusters {
        /// Only names that begin with this
        #[arg(long, default_value = "")]
        prefix: String,
        #[command(flatten)]
        world: World,
    },
    /// One cluster
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// The world's own cluster: which nodes are its members
    #[command(subcommand)]
    World(LevelZeroCommand),
    /// A region's own cluster: which nodes are its members
    Region {
        /// The region
        region: String,
        #[command(subcommand)]
        command: LevelZeroCommand,
    },
    /// A cluster whose majority is gone for good: what its survivors hold, and a new life on the best of them; without a
    /// name, the clusters that were recovered
    Recover(RecoverCommand),
    /// Check every pair of a cluster's replicas and compare them; exit code 1 where they are not whole and the same
    Verify {
        /// The cluster
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// What the scrub has read on each node, and which pairs it found damaged
    Integrity {
        #[command(flatten)]
        world: World,
    },
    /// Keyspaces
    #[command(subcommand)]
    Keyspace(KeyspaceCommand),
    /// Namespaces: logical etcds, each in a cluster of its own
    #[command(subcommand)]
    Namespace(NamespaceCommand),
    /// Accounts and access keys of the S3 gateway
    #[command(subcommand)]
    S3(S3Command),
    /// The shards of a bucket: their ranges of keys, clusters and sizes
    Shards {
        bucket: String,
        #[command(flatten)]
        world: World,
    },
    /// Buckets
    #[command(subcommand)]
    Bucket(BucketCommand),
}

#[derive(Args, Debug, Clone)]
pub struct RecoverCommand {
    /// The cluster
    pub name: Option<String>,
    /// The cluster's name again: begin its new life, and lose what no survivor holds
    #[arg(long, value_name = "NAME", conflicts_with = "discard", requires_all = ["name", "from"])]
    pub confirm: Option<String>,
    /// The survivor that the survey called best: nothing is changed if another one is by now
    #[arg(long, value_name = "NODE", requires = "confirm")]
    pub from: Option<u64>,
    /// Remove what the life before left on this node, once the new life serves
    #[arg(long, value_name = "NODE", requires = "name")]
    pub discard: Option<u64>,
    #[command(flatten)]
    pub world: World,
}

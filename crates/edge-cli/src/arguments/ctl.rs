//! `hive ctl`: what operators see and change. Its groups are in files of their own.

use super::{
    BucketCommand, ClusterCommand, KeyspaceCommand, LevelZeroCommand, NamespaceCommand, NodeCommand, NodeFlow,
    S3Command, World,
};
use clap::{Args, Subcommand};

/// `hive ctl upgrade`: the world's format level.
#[derive(Subcommand, Debug)]
pub enum UpgradeCommand {
    /// Show the world's format level, each node's, and what prevents the next level
    Status {
        #[command(flatten)]
        world: World,
    },
    /// Raise the world's format level when every node runs the new version; older versions cannot come back
    Finalize {
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum CtlCommand {
    /// Show whether the world is well, and what to look at if not
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
    /// Drain a node before a restart, empty it, take it back, remove it
    #[command(subcommand)]
    Node(NodeCommand),
    /// Spread the leaders of clusters evenly over the nodes: shows the plan, then moves one after the other
    Rebalance(RebalanceCommand),
    /// The name until 0.2.0 of `hive ctl node decommission`
    #[command(hide = true)]
    Decommission(NodeFlow),
    /// The name until 0.2.0 of `hive ctl node recommission`
    #[command(hide = true)]
    Recommission {
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// The name until 0.2.0 of `hive ctl node remove`
    #[command(hide = true)]
    Forget {
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Which formats the world writes, and which nodes are not ready for newer ones
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
    /// Recover a cluster whose majority is gone for good: show what its survivors hold, or with --confirm let it continue
    /// from the best one; without a name, list past recoveries
    Recover(RecoverCommand),
    /// What is wrong, as this node knows it, and what to do about each; exit code 1 where one of them is bad
    Alarms {
        #[command(flatten)]
        world: World,
    },
    /// Check every pair of a cluster's replicas and compare them; exit code 1 if one is damaged or differs
    Verify {
        /// The cluster
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// Show what the scrub has read on each node, and which pairs it found damaged
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

#[derive(Args, Debug)]
pub struct RebalanceCommand {
    /// Show which leaders would move, and move none
    #[arg(long)]
    pub plan: bool,
    /// Let leaders move to another region, too: writes from near the old one take longer then
    #[arg(long)]
    pub across_regions: bool,
    #[command(flatten)]
    pub world: World,
}

#[derive(Args, Debug, Clone)]
pub struct RecoverCommand {
    /// The cluster
    pub name: Option<String>,
    /// The cluster's name again, to confirm: it continues from the survivor, and what no survivor holds is lost
    #[arg(long, value_name = "NAME", conflicts_with = "discard", requires_all = ["name", "from"])]
    pub confirm: Option<String>,
    /// The best survivor, as the survey showed it; refused if another one is the best now
    #[arg(long, value_name = "NODE", requires = "confirm")]
    pub from: Option<u64>,
    /// Remove what this node keeps of the ended life, when the recovered cluster serves
    #[arg(long, value_name = "NODE", requires = "name")]
    pub discard: Option<u64>,
    #[command(flatten)]
    pub world: World,
}

//! `hive ctl node`: the nodes, and taking one out of service for a while or for good.

use super::World;
use clap::{Args, Subcommand};

#[derive(Subcommand, Debug)]
pub enum NodeCommand {
    /// The nodes
    List {
        #[command(flatten)]
        world: World,
    },
    /// Hand over all that a node leads, so that it can be restarted: its replicas stay. It lasts until `undrain` or its restart
    Drain(NodeFlow),
    /// Let a drained node lead again
    Undrain {
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Empty a node for good: its replicas move to others under their rules
    Decommission(NodeFlow),
    /// Take a node that is being decommissioned back into service
    Recommission {
        node: u64,
        #[command(flatten)]
        world: World,
    },
    /// Remove a node from the list of nodes: one that was emptied or is gone for good, and is stopped
    Remove {
        node: u64,
        #[command(flatten)]
        world: World,
    },
}

/// What takes time.
#[derive(Args, Debug)]
pub struct NodeFlow {
    pub node: u64,
    /// Return when it has begun; run the command again to see the progress
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    pub world: World,
}

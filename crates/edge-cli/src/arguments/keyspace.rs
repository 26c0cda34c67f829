//! `hive ctl keyspace`: keyspaces.

use super::{EngineMove, World};
use crate::engines::{help_of_nodes, EngineName};
use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub enum KeyspaceCommand {
    /// Create a keyspace
    Create {
        name: String,
        /// For example "size=5 location=world failure_domain=chassis"
        #[arg(long)]
        rule: String,
        /// What it keeps: plain values, every version of them (the etcd door's namespaces), or a database of the Redis door
        #[arg(long, default_value = "plain", value_parser = ["plain", "versioned", "redis"])]
        kind: String,
        /// How keys are spread over partitions
        #[arg(long, default_value = "hash", value_parser = ["hash", "range"])]
        partition: String,
        /// Virtual partitions; fixed for the keyspace's life. 16 by default, 1 of the kinds versioned and redis
        #[arg(long)]
        partitions: Option<u16>,
        /// Clusters the partitions are spread over
        #[arg(long, default_value_t = 1)]
        clusters: u16,
        /// Lower bounds of partitions 1… (range only)
        #[arg(long = "split-key", value_delimiter = ',')]
        split_keys: Vec<String>,
        #[arg(long, value_parser = EngineName::OfNodes, hide_possible_values = true, help = help_of_nodes("The engine of its replicas, by default each node's own"))]
        engine: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// Partitions, owners and a running reshard
    Show {
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// List the keyspaces
    List {
        #[command(flatten)]
        world: World,
    },
    /// Delete a keyspace and its data
    Delete {
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        world: World,
    },
    /// Move all its clusters to another engine: their replicas are recreated one by one, online
    SetEngine(EngineMove),
    /// Spread the partitions over another number of clusters, online
    Reshard {
        name: String,
        clusters: u16,
        /// Wait until it is done
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        world: World,
    },
}

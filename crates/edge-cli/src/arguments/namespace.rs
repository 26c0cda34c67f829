//! `hive ctl namespace`: logical etcds.

use super::World;
use crate::engines::{help_of_nodes, EngineName};
use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub enum NamespaceCommand {
    /// Make a namespace: a logical etcd in a cluster of its own
    Create {
        name: String,
        /// Where its replicas go, for example "size=3 location=world failure_domain=az"
        #[arg(long, default_value = "size=3 location=world failure_domain=az")]
        rule: String,
        #[arg(long, value_parser = EngineName::OfNodes, hide_possible_values = true, help = help_of_nodes("The engine of its replicas, by default each node's own"))]
        engine: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// All of them
    List {
        #[command(flatten)]
        world: World,
    },
    /// Show a namespace: its revision, what is compacted, its keys and leases
    Show {
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// Delete a namespace with all of its keys and leases
    Delete {
        name: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        world: World,
    },
}

//! `hive ctl namespace`: logical etcds.

use super::World;
use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub enum NamespaceCommand {
    /// Make one: an etcd of its own, in a cluster of its own
    Create {
        name: String,
        /// Where its replicas go, for example "size=3 location=world failure_domain=az"
        #[arg(long, default_value = "size=3 location=world failure_domain=az")]
        rule: String,
        /// The engine of its replicas; each node's default where absent
        #[arg(long)]
        engine: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// All of them
    List {
        #[command(flatten)]
        world: World,
    },
    /// One: its revision, what is compacted, its keys and leases
    Show {
        name: String,
        #[command(flatten)]
        world: World,
    },
    /// Delete one, with all of its keys and leases
    Delete {
        name: String,
        /// Do not ask whether it is meant
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        world: World,
    },
}

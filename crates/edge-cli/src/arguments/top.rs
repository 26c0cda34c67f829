//! `hive top`.

use super::World;
use clap::Args;

/// What nodes are sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Order {
    Node,
    Load,
    Disk,
    Reads,
    Writes,
    P99,
}

impl Order {
    /// The next one, for a key that goes through all.
    pub fn next(self) -> Order {
        match self {
            Order::Node => Order::Load,
            Order::Load => Order::Disk,
            Order::Disk => Order::Reads,
            Order::Reads => Order::Writes,
            Order::Writes => Order::P99,
            Order::P99 => Order::Node,
        }
    }

    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Order::Node => "node",
            Order::Load => "load",
            Order::Disk => "disk",
            Order::Reads => "reads",
            Order::Writes => "writes",
            Order::P99 => "p99",
        }
    }
}

#[derive(Args, Debug)]
pub struct TopArguments {
    /// Seconds from one look to the next
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub every: u64,
    /// Look once and print a table; also where standard output is no terminal
    #[arg(long)]
    pub once: bool,
    /// Sort nodes by: node, load, disk, reads, writes or p99
    #[arg(long, default_value = "node")]
    pub sort: Order,
    #[command(flatten)]
    pub world: World,
}

//! `hive top`.

use super::World;
use clap::{Args, ValueEnum};

/// What nodes are sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
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
        let all = Order::value_variants();
        let at = all.iter().position(|order| *order == self).unwrap_or_default();
        all[(at + 1) % all.len()]
    }

    /// As the command line has it.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
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

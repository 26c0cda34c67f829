//! `hive top`.

use super::World;
use clap::Args;

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
    pub sort: crate::top::Order,
    #[command(flatten)]
    pub world: World,
}

//! `hive node`: one node in this process.

use crate::arguments::NodeArguments;
use crate::failure::Failure;
use edge_node::config::Config;

/// Runs a node until it is told to stop.
pub fn run(arguments: &NodeArguments) -> Result<(), Failure> {
    let config = Config::load(&arguments.config).map_err(|error| Failure::usage(error.to_string()))?;
    if arguments.check {
        println!("{} is in order", arguments.config.display());
        return Ok(());
    }
    crate::node::start(config)
}

fn start(config: Config) -> Result<(), Failure> {
    edge_node::run(config).map_err(|error| Failure::refused(error.to_string()))
}

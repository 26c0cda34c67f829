//! `hive node`: one node in this process.

use crate::arguments::NodeArguments;
use crate::failure::Failure;
use edge_node::config::Config;

/// Runs a node until a signal stops it.
pub fn run(arguments: &NodeArguments) -> Result<(), Failure> {
    if arguments.check {
        return crate::config::check(&arguments.config, false);
    }
    let logging = edge_node::logging::Settings::of_environment().map_err(Failure::usage)?;
    let config = Config::load(&arguments.config).map_err(|error| Failure::usage(error.to_string()))?;
    edge_node::logging::init(logging);
    let stop = edge_node::signals().map_err(|error| Failure::refused(format!("cannot listen for signals: {error}")))?;
    edge_node::run(config, stop).map_err(|error| Failure::refused(error.to_string()))
}

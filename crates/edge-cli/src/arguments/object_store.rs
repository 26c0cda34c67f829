//! `hive restore` and `hive attach`: what reads a world out of an object store.

use crate::failure::Failure;
use clap::Args;
use std::path::PathBuf;

/// What an object store holds of a node.
#[derive(Args, Debug)]
pub struct HeldPlace {
    /// The node's engine.object.url
    #[arg(long)]
    pub from: String,
    /// An option of the store as NAME=VALUE (endpoint, region, access_key_id, …); repeat it for more
    #[arg(long = "option", value_parser = name_and_value)]
    pub options: Vec<(String, String)>,
    /// The node whose data to read, if there are several
    #[arg(long)]
    pub node: Option<u64>,
    /// Which of the node's disks, if it had several
    #[arg(long)]
    pub disk: Option<u64>,
}

impl HeldPlace {
    /// Refuses options that everybody would read.
    pub fn check(&self) -> Result<(), Failure> {
        match self.options.iter().find(|(name, _)| edge_node::config::secrets::is_secret(name)) {
            Some((name, _)) => Err(Failure::usage(format!("every user of the machine can read a process's arguments: leave {name} to the environment (AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN)"))),
            None => Ok(()),
        }
    }
}

#[cfg(feature = "engine-object")]
impl HeldPlace {
    /// Whose data.
    pub fn which(&self) -> edge_node::restore::Which {
        edge_node::restore::Which { node: self.node.map(base_types::NodeId), disk: self.disk.map(base_types::DiskId) }
    }
}

#[derive(Args, Debug)]
pub struct AttachArguments {
    #[command(flatten)]
    pub place: HeldPlace,
    /// The address to answer clients at; without it, the command prints what is there and ends
    #[arg(long)]
    pub listen: Option<std::net::SocketAddr>,
    /// Listen beyond this machine: everybody who reaches the address can then read everything
    #[arg(long, requires = "listen")]
    pub insecure: bool,
    /// How often to read what is new in the store, in milliseconds
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=120_000))]
    pub follow_ms: u64,
}

#[derive(Args, Debug)]
pub struct RestoreArguments {
    #[command(flatten)]
    pub place: HeldPlace,
    /// The data directory to make
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Only show which nodes' data is there
    #[arg(long)]
    pub list: bool,
    /// JSON for machines instead of text
    #[arg(long)]
    pub json: bool,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

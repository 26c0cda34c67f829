//! `hive config`: the file node.toml.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Print a complete, commented node.toml: every setting with its default, its unit and what it does
    Init {
        /// Write it to this file, which must not exist yet, with mode 0600
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Set a setting, for example world.name=prod or tuning.tick_ms=20; a list or a table in the form of TOML
        #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
        set: Vec<(String, String)>,
    },
    /// Check a node.toml and all that it names: certificates, data directory, ports
    Check {
        /// The node's configuration
        file: PathBuf,
        /// JSON for machines instead of text
        #[arg(long)]
        json: bool,
    },
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
    pair.ok_or_else(|| "write KEY=VALUE, for example world.name=prod".into())
}

//! `hive kv` and `hive load`: keys.

use super::{Levels, World};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What the key-value commands share.
#[derive(Args, Debug, Clone)]
pub struct KvCommon {
    /// The keyspace of the keys
    #[arg(long, default_value = "default")]
    pub keyspace: String,
    #[command(flatten)]
    pub levels: Levels,
    #[command(flatten)]
    pub world: World,
}

#[derive(Subcommand, Debug)]
pub enum KvCommand {
    /// Set a key
    Put {
        key: String,
        /// The value; `-` reads it from standard input
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// Apply the write once: give the id that an unknown outcome printed, within 60 s of the first try
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
        #[command(flatten)]
        common: KvCommon,
    },
    /// Print a key's value; exit code 1 where it is absent
    Get {
        key: String,
        /// Read nothing older than this position: ID.GENERATION.INDEX of an earlier answer's `at` (--json prints it)
        #[arg(long, value_name = "POSITION")]
        after: Option<String>,
        #[command(flatten)]
        common: KvCommon,
    },
    /// Remove a key
    Del {
        key: String,
        /// Apply the write once: give the id that an unknown outcome printed, within 60 s of the first try
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
        #[command(flatten)]
        common: KvCommon,
    },
    /// List keys and values in order, one a line, as `hive load` reads them
    Scan {
        /// Only keys that begin with this
        #[arg(long, default_value = "")]
        prefix: String,
        /// Only keys after this
        #[arg(long)]
        start_after: Option<String>,
        /// Only keys before this
        #[arg(long)]
        end: Option<String>,
        /// At most so many; by default all
        #[arg(long)]
        limit: Option<u64>,
        /// From the last key to the first
        #[arg(long)]
        reverse: bool,
        /// Without values
        #[arg(long)]
        keys_only: bool,
        #[command(flatten)]
        common: KvCommon,
    },
    /// Run the commands of a file, one a line: put k v / get k / del k / scan [prefix [limit]]; `-` is standard input
    Exec(ExecArguments),
}

#[derive(Args, Debug, Clone)]
pub struct ExecArguments {
    pub file: PathBuf,
    /// Run the commands on the embedded store in this directory, not on a world; the directory is made if it is absent
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// With --store: writes are on the disk within a second, not when they are answered
    #[arg(long, requires = "store")]
    pub weak: bool,
    #[command(flatten)]
    pub common: KvCommon,
}

#[derive(Args, Debug, Clone)]
pub struct LoadArguments {
    /// TSV (key, tab, value; \t \n \r \\ \xNN escaped) or JSON lines ({"key":…,"value":…}, or *_base64); `-` is standard input
    pub file: PathBuf,
    /// The keyspace that gets the keys
    #[arg(long)]
    pub keyspace: String,
    /// Writes under way at a time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub parallel: u16,
    /// Continue after this line, as an earlier run's report says
    #[arg(long, default_value_t = 0)]
    pub skip_lines: u64,
    /// Write the report here too, as JSON
    #[arg(long)]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub levels: Levels,
    #[command(flatten)]
    pub world: World,
}

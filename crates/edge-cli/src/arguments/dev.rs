//! `hive dev` and `hive node`: what starts nodes.

use crate::engines::EngineName;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug, Clone)]
pub struct DevArguments {
    /// How many nodes
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub nodes: u16,
    /// Where everything is kept
    #[arg(long, default_value = "hive-data")]
    pub data: PathBuf,
    /// Node i's HTTP port is this plus 100 plus i, its S3 port plus 400, its peer port plus 600
    #[arg(long, default_value_t = 7000, value_parser = clap::value_parser!(u16).range(1..=64000))]
    pub base_port: u16,
    /// The engine of rules that name none
    #[arg(long, default_value = "lmdb", value_parser = EngineName::Here)]
    pub engine: String,
    /// Core threads of each node
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: u16,
    /// A bucket's shard with more keys than this is split in three
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(8..=10_000_000))]
    pub s3_split_keys: u64,
    /// A split by keys waits while more than this part of the machine's CPU time is in use, in percent; 0: it never waits
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub s3_split_cpu_max_percent: u32,
    /// Where objects over 64 KiB go: a directory, or the URL of an object store (s3://bucket/prefix; its keys
    /// come from AWS_ACCESS_KEY_ID and so on); by default a directory beside the nodes'
    #[arg(long)]
    pub s3_data: Option<String>,
    /// Make new buckets as AWS made them before April 2023: ACLs count, and public access is not blocked. For older tools
    #[arg(long)]
    pub older_bucket_defaults: bool,
    /// Write ports and process ids here once every door serves
    #[arg(long)]
    pub ready_file: Option<PathBuf>,
    /// Delete what an earlier world left in the data directory
    #[arg(long)]
    pub fresh: bool,
    /// As in production: every door speaks TLS and asks for a credential; the ready file has root's token and the
    /// certificates' authority
    #[arg(long)]
    pub secure: bool,
    /// Accept tokens of this OIDC issuer; `hive group create` gives roles to its groups
    #[arg(long, requires = "secure")]
    pub oidc_issuer: Option<String>,
    /// The audience (aud) of the issuer's tokens for this world
    #[arg(long, default_value = "hive")]
    pub oidc_audience: String,
    /// Do not start a node again that died
    #[arg(long)]
    pub no_restart: bool,
    /// Print the ready file's JSON instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct NodeArguments {
    /// The node's configuration
    #[arg(long)]
    pub config: PathBuf,
    /// Only check what could refuse the start: configuration, data directory, certificates, ports
    #[arg(long)]
    pub check: bool,
}

//! `hive simple-kv`: a node as the second paper starts one. The paper's own line, with one hyphen each and without the word
//! `simple-kv`, is read as this (`simple_kv.rs`).

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct SimpleKvArguments {
    /// The directory of this node: its data, and its node.toml, which is written at the first start
    #[arg(long)]
    pub db_location: PathBuf,
    /// This node's ip:port for clients, as the config file has it: http.listen in node.toml
    #[arg(long)]
    pub http_address: String,
    /// The name of its shard in the config file
    #[arg(long)]
    pub shard: String,
    /// It is not the shard's master but one of its replicas
    #[arg(long, num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, default_value_t = false, default_missing_value = "true")]
    pub replica: bool,
    /// The shards, one YAML document each, the same for every node: topology in node.toml
    #[arg(long)]
    pub config_file: PathBuf,
    /// The engine: engine.default in node.toml. boltdb is lmdb, badgerdb is fjall
    #[arg(long, default_value = "lmdb")]
    pub db_type: String,
}

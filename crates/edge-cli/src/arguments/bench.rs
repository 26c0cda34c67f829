//! `hive bench`: measurements.

use super::TlsFiles;
use crate::engines::EngineName;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug, Clone)]
pub struct BenchArguments {
    /// kv-put, kv-get, levels, failover, simple-kv, s3-object-put, s3-object-get, listing, bucket, split, embedded,
    /// availability, overload, larger-than-memory, etcd-door, redis-door, or all (without bucket and the last five)
    #[arg(value_parser = [
        "kv-put", "kv-get", "levels", "failover", "simple-kv", "s3-object-put", "s3-object-get", "listing", "bucket",
        "split", "embedded", "availability", "overload", "larger-than-memory", "etcd-door", "redis-door", "all",
    ])]
    pub workload: String,
    /// Measure this world; by default a fresh one is started
    #[arg(long = "endpoint", value_delimiter = ',')]
    pub endpoints: Vec<String>,
    #[command(flatten)]
    pub tls: TlsFiles,
    /// The ready file of the world at --endpoint: its process ids give CPU time, and the leader that failover kills
    #[arg(long)]
    pub ready_file: Option<PathBuf>,
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub clients: u32,
    /// How long each run takes, in seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Stop a run after so many operations instead
    #[arg(long)]
    pub operations: Option<u64>,
    /// The size of a value, in bytes
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pub value_bytes: u32,
    /// Keys written and read
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub keys: u64,
    /// How often each measurement is repeated
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Where report.json and report.html go
    #[arg(long, default_value = "target/bench")]
    pub out: PathBuf,
    /// Nodes of a world started for the measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub nodes: u16,
    /// simple-kv: measure these engines, each in a world of one node (comma-separated)
    #[arg(long = "engine", value_delimiter = ',', value_parser = EngineName::Here)]
    pub engines: Vec<String>,
    /// listing: over buckets of about so many shards (comma-separated)
    #[arg(long, value_delimiter = ',', default_values_t = [1u64, 100], value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub shards: Vec<u64>,
    /// Write keys in random order, so that shards are split by rows; else keys only grow (listing and split: always random)
    #[arg(long)]
    pub spread: bool,
    /// S3 workloads: rows above which a world started for the measurement splits a shard
    #[arg(long, value_parser = clap::value_parser!(u64).range(8..))]
    pub split_keys: Option<u64>,
    /// split: the part of the full rate, in percent, that continues while shards are split
    #[arg(long, default_value_t = 70, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub load_percent: u32,
    /// embedded: numbers of cores to measure (comma-separated); by default 1 to all there are
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: Vec<u16>,
    /// availability: how long; the standard schedule's faults of a day fill 60, shorter runs have fewer of them.
    /// larger-than-memory: how long keys are overwritten
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    pub minutes: u64,
    /// availability: decides the order of the faults and the members that they hit
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// availability: operations a second of each level
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rate: u32,
    /// larger-than-memory: what all nodes together may use, page cache included (needs a control group)
    #[arg(long, default_value_t = 2_048, value_parser = clap::value_parser!(u64).range(64..=1_048_576))]
    pub memory_mib: u64,
    /// availability: measure this under the same faults, too
    #[arg(long, value_parser = ["etcd"])]
    pub beside: Option<String>,
    /// Ports of a world started for the measurement, as in `hive dev`
    #[arg(long, default_value_t = 17000)]
    pub base_port: u16,
    /// Print the report's JSON
    #[arg(long)]
    pub json: bool,
}

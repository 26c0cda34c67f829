//! Benchmarks and their report: one command measures Hive and, where it is installed, etcd beside it.
//!
//!   workloads.rs ──▶ load.rs (clients) ──▶ measure.rs (percentiles, CPU) ──▶ report.rs (text, JSON, HTML) + plot.rs
//!         └──▶ world.rs (a fresh `hive dev`), etcd.rs (five members), failover.rs (kill -9 the leader), objects.rs, listing.rs (S3 metadata)
//!   availability.rs: the standard schedule of faults on five processes, and on etcd's beside them
//!   overload.rs: twice of what a world can do, then half; larger.rs + limit.rs: data of three times the memory
//!   etcd_door.rs, redis_door.rs: doors beside the systems whose protocols they speak, by those systems' own tools
//!   embedded.rs: the embedded store beside LMDB, redb and fjall, in this process
//!
//! By design: every figure says how many errors came with it and what it did not measure.
//! Not here: correctness (proof-check, proof-sim). Ships in the program as `hive bench`.
#![deny(missing_docs)]

mod availability;
mod embedded;
mod etcd;
mod etcd_door;
mod failover;
mod larger;
mod limit;
mod listing;
mod load;
mod measure;
mod objects;
mod overload;
mod plot;
mod redis_door;
mod report;
mod request;
mod simple_kv;
mod wire;
mod workloads;
mod world;

pub use report::Report;
pub use request::Order;

use std::path::PathBuf;
use std::time::Duration;

/// What to measure with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program `hive`, which starts worlds.
    pub program: PathBuf,
    /// The world to measure; a fresh one is started where empty.
    pub endpoints: Vec<String>,
    /// What `https://` endpoints are asked with.
    pub tls: Option<hive_client::Tls>,
    /// That world's ready file, where there is one.
    pub ready_file: Option<PathBuf>,
    /// Connections.
    pub clients: usize,
    /// The length of a run.
    pub duration: Duration,
    /// Ends a run after so many operations instead.
    pub operations: Option<u64>,
    /// The size of a value.
    pub value_bytes: usize,
    /// Keys written and read.
    pub keys: u64,
    /// Runs of each measurement.
    pub runs: usize,
    /// Where the report goes.
    pub out: PathBuf,
    /// Nodes of a fresh world.
    pub nodes: u16,
    /// simple-kv: the engines measured, each in a fresh world of one node; empty: a world as for the rest.
    pub engines: Vec<String>,
    /// embedded: on so many cores each; 1 to all there are where empty.
    pub cores: Vec<u16>,
    /// Ports of a fresh world.
    pub base_port: u16,
    /// How keys lie that are written one after the other.
    pub order: Order,
    /// listing: over buckets of about so many shards each.
    pub shards: Vec<u64>,
    /// Rows above which a fresh world splits a shard; a workload's own number where absent.
    pub split_keys: Option<u64>,
    /// split: the part of the full rate, in percent, that continues while shards are split.
    pub load_percent: u32,
    /// availability: how long; a full run of an hour holds what a day of the standard schedule holds. larger-than-memory: how
    /// long keys are overwritten.
    pub minutes: u64,
    /// availability: the order of the faults, and whom they meet.
    pub seed: u64,
    /// availability: operations a second of each level.
    pub rate: u32,
    /// larger-than-memory: what all nodes together may use, page cache included.
    pub memory_mib: u64,
    /// availability: another system that is measured under the same faults.
    pub beside: Option<String>,
    /// More words for the `hive dev` of a fresh world.
    pub dev_arguments: Vec<String>,
    /// The program's version, for the report.
    pub version: String,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A workload that needs more than it was given.
    #[error("{0}")]
    Usage(String),
    /// The world did not start or does not answer.
    #[error("the world to measure does not serve: {0}")]
    World(String),
    /// A file of the report.
    #[error("{path}: {reason}")]
    Report {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
}

impl BenchError {
    /// 2 usage, 3 unavailable, 1 else.
    pub fn exit_code(&self) -> u8 {
        match self {
            BenchError::Usage(_) => 2,
            BenchError::World(_) => 3,
            BenchError::Report { .. } => 1,
        }
    }
}

/// Measures a workload (`all` for every one) and writes report.json and report.html.
pub fn run(workload: &str, options: &Options) -> Result<Report, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| BenchError::World(error.to_string()))?;
    let local = tokio::task::LocalSet::new();
    let report = local.block_on(&runtime, measure(workload, options))?;
    report.write(&options.out)?;
    Ok(report)
}

/// Those with a verdict of their own stand beside the others, which share their way of loading.
async fn measure(workload: &str, options: &Options) -> Result<Report, BenchError> {
    let mut report = Report::new(workload, options);
    match workload {
        "overload" => overload::run(options, &mut report).await?,
        "larger-than-memory" => larger::run(options, &mut report).await?,
        _ => return workloads::run(workload, options).await,
    }
    Ok(report)
}

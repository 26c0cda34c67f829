//! `hive bench`: hands the workloads of proof-bench what only the program knows: itself.

use crate::arguments::BenchArguments;
use crate::failure::Failure;
use proof_bench::{Options, Order};
use std::time::Duration;

/// Measures.
pub fn run(arguments: BenchArguments) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::refused(format!("own program: {error}")))?;
    let options = Options {
        program,
        endpoints: arguments.endpoints,
        tls: arguments.tls.read()?,
        ready_file: arguments.ready_file,
        clients: arguments.clients as usize,
        duration: Duration::from_secs(arguments.seconds),
        operations: arguments.operations,
        value_bytes: arguments.value_bytes as usize,
        keys: arguments.keys,
        runs: arguments.runs as usize,
        out: arguments.out,
        nodes: arguments.nodes,
        engines: arguments.engines,
        cores: arguments.cores,
        base_port: arguments.base_port,
        order: if arguments.spread { Order::Spread } else { Order::Growing },
        split_keys: arguments.split_keys,
        shards: arguments.shards,
        load_percent: arguments.load_percent,
        minutes: arguments.minutes,
        seed: arguments.seed,
        rate: arguments.rate,
        beside: arguments.beside,
        memory_mib: arguments.memory_mib,
        dev_arguments: Vec::new(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let report = proof_bench::run(&arguments.workload, &options)
        .map_err(|error| Failure { code: error.exit_code(), message: error.to_string() })?;
    if arguments.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.text());
    }
    match report.failures() {
        [] => Ok(()),
        failures => Err(Failure { code: 1, message: failures.join("; ") }),
    }
}

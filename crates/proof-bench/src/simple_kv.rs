//! The second paper's tables: average latency and rate at one and four clients, writes with and without
//! sync, and reads, for each engine, through the plain routes of a world of one node.
//!
//! What is synced is Hive's log; an engine is written later, in large batches. So engines differ little
//! in the writes a client sees, and in reads once the data is in them: the keys are left to reach the
//! engine before they are read.
//!
//! Not here: what an engine does by itself (its own example or docs/engines/).

use crate::report::{Measurement, Report};
use crate::request::Operation;
use crate::workloads::{measure, say, Target, SIMPLE_OPERATIONS};
use crate::world::World;
use crate::{BenchError, Options};
use serde_json::{json, Value};
use std::fmt::Write;
use std::time::Duration;

/// The suite's name in the report, apart from the one measured on a world of several nodes.
const SUITE: &str = "engines";
/// What is measured, and its name in the table.
const OPERATIONS: [(Operation, &str); 3] = [
    (Operation::PlainPutAt("strong"), "write, synced"),
    (Operation::PlainPutAt("hopeful"), "write, not synced"),
    (Operation::PlainGet, "read"),
];
const CLIENTS: [usize; 2] = [1, 4];
/// Well beyond the time after which a node writes what it holds in memory to the engine.
const FLUSHED_AFTER: Duration = Duration::from_secs(3);

/// Measures every engine of the options.
pub async fn run(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    for engine in &options.engines {
        say(&format!("simple-kv on {engine}"));
        let options = Options { nodes: 1, engines: vec![engine.clone()], ..options.clone() };
        let world = World::open(&options, false).await?;
        let target = Target { system: engine, endpoints: &world.endpoints, pids: world.process_ids() };
        let count = Some(options.operations.unwrap_or(SIMPLE_OPERATIONS));
        for (operation, _) in OPERATIONS {
            if operation.reads() {
                tokio::time::sleep(FLUSHED_AFTER).await;
            }
            for clients in CLIENTS {
                measure(&options, report, &target, SUITE, operation, clients, count).await;
            }
        }
    }
    report.note("simple-kv with --engine: a world of one node, data of the run's size (in the page cache)".into());
    Ok(())
}

/// One cell: average latency in microseconds, and the rate.
fn cell(of: &Measurement) -> (Option<f64>, Option<f64>) {
    (of.mean("mean_us"), of.mean("rate"))
}

/// The name in the table of what the report calls by its route.
fn name(of: &Measurement) -> &'static str {
    match of.operation.as_str() {
        "GET /get" => OPERATIONS[2].1,
        "POST /put hopeful" => OPERATIONS[1].1,
        _ => OPERATIONS[0].1,
    }
}

fn rows(measurements: &[Measurement]) -> Vec<&Measurement> {
    measurements.iter().filter(|measurement| measurement.suite == SUITE).collect()
}

/// The table for people; nothing where nothing of it was measured.
pub fn text(measurements: &[Measurement]) -> String {
    let rows = rows(measurements);
    let mut out = String::new();
    if rows.is_empty() {
        return out;
    }
    let _ = writeln!(out, "\n{:<8} {:<18} {:>22} {:>22}", "engine", "operation", "1 client", "4 clients");
    for pair in rows.chunks(CLIENTS.len()) {
        let _ = write!(out, "{:<8} {:<18}", pair[0].system, name(pair[0]));
        for measurement in pair {
            let (latency, rate) = cell(measurement);
            let latency = latency.map_or("-".into(), |micros| format!("{micros:.0} µs"));
            let rate = rate.map_or("-".into(), |rate| format!("{rate:.0}/s"));
            let _ = write!(out, " {latency:>10} {rate:>11}");
        }
        out.push('\n');
    }
    out
}

/// The table for machines.
pub fn json(measurements: &[Measurement]) -> Value {
    let row = |measurement: &&Measurement| {
        let (latency, rate) = cell(measurement);
        json!({
            "engine": measurement.system, "operation": name(measurement), "clients": measurement.clients,
            "average_us": latency, "rate": rate,
        })
    };
    rows(measurements).iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{histogram, Run};
    use std::collections::BTreeMap;

    fn measurement(operation: &str, clients: usize, micros: u64) -> Measurement {
        let mut latency = histogram();
        latency.record_n(micros, 1_000).unwrap();
        let run = Run {
            operations: 1_000,
            errors: BTreeMap::new(),
            seconds: 0.5,
            latency,
            server_cpu: None,
            client_cpu: Duration::ZERO,
        };
        Measurement::new(SUITE, "redb", operation, clients, 100, &[run])
    }

    #[test]
    fn the_table_has_a_row_for_each_operation_and_a_column_for_each_number_of_clients() {
        let all = ["POST /put strong", "POST /put hopeful", "GET /get"];
        let all: Vec<_> = all.iter().flat_map(|o| [measurement(o, 1, 100), measurement(o, 4, 250)]).collect();
        let text = text(&all);
        let read = text.lines().find(|line| line.contains("read")).unwrap();
        let words: Vec<&str> = read.split_whitespace().collect();
        assert_eq!(words, ["redb", "read", "100", "µs", "2000/s", "250", "µs", "2000/s"], "{text}");
        assert_eq!(text.lines().count(), 5, "{text}");
        assert_eq!(json(&all)[2]["operation"], "write, not synced");
        assert_eq!(json(&all).as_array().map(Vec::len), Some(6));
        assert_eq!(super::text(&[]), "");
    }
}

//! The etcd door beside etcd, by etcd's own benchmark tool, which knows nothing of Hive.
//!
//!   five nodes of Hive ─┐
//!   five members of etcd ┴─ benchmark put, range (linearizable), watch-latency ──▶ rates, latencies, the servers' CPU time
//!                           crowd: puts without watches, then beside 10,000, half of them stalled ──▶ latencies, memory
//!
//! By design: both are asked by the same tool with the same words, in turns, a fresh world each; every endpoint has its share of the
//! connections. Clients and servers share the machine.
//! `crowd` (scripts/etcd_crowd) fails where a watch misses a put, gets one twice or out of order, and with it the benchmark.
//! Not here: etcd's JSON gateway (workloads.rs), faults (availability.rs).

use crate::etcd::{self, Etcd};
use crate::measure::{cpu_time_of, round};
use crate::world::World;
use crate::{BenchError, Options};
use serde_json::{json, Value};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The tool's connections: some to each endpoint.
const CONNECTIONS: u32 = 20;
/// Requests of a run where the command names no number.
const REQUESTS: u64 = 50_000;
/// Watches at a time: streams, and watches of each.
const WATCH_STREAMS: u64 = 100;
const WATCHES_A_STREAM: u64 = 100;
/// Puts that are watched, and how many a second: each goes to every watch.
const WATCHED_PUTS: u64 = 60;
const WATCHED_PUTS_A_SECOND: u64 = 2;
/// The row of the crowd of watches, and the tool that measures it.
const CROWD: &str = "crowd";
/// Connections of the crowd, and its puts a second: few enough for both systems on one small machine.
const CROWD_STREAMS: u64 = 100;
const CROWD_PUTS_A_SECOND: u64 = 10;
const CROWD_PUTS: u64 = 300;
/// The key that is read.
const KEY: &str = "bench";

/// One run of the tool.
struct Told {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_us: Option<f64>,
}

/// A system under test.
struct System<'a> {
    name: &'static str,
    endpoints: String,
    pids: Vec<u32>,
    tools: &'a Path,
    say: fn(&str),
}

/// What was measured: a note on how, the table for people, the rows for machines.
pub struct Measured {
    pub note: String,
    pub text: String,
    pub json: Value,
}

/// Measures both. `say` hears of the progress.
pub async fn run(options: &Options, say: fn(&str)) -> Result<Measured, BenchError> {
    let Some(program) = etcd::find() else { return Err(BenchError::Usage(etcd::MISSING.into())) };
    let tools = program.parent().map(PathBuf::from).unwrap_or_default();
    if !["benchmark", "etcdctl", CROWD].iter().all(|tool| tools.join(tool).is_file()) {
        let message =
            "benchmark, etcdctl and crowd are not beside etcd; build all four with `scripts/etcd.sh DIRECTORY`";
        return Err(BenchError::Usage(message.into()));
    }
    let mut rows: Vec<Value> = Vec::new();
    for run in 1..=options.runs {
        say(&format!("etcd-door, run {run} of {}: Hive", options.runs));
        {
            let world = World::open(options, false).await?;
            let endpoints = world.etcd_endpoints();
            if endpoints.is_empty() {
                return Err(BenchError::Usage("the world's --ready-file names no etcd doors".into()));
            }
            let system =
                System { name: "hive", endpoints: endpoints.join(","), pids: world.process_ids(), tools: &tools, say };
            system.measure(options, &mut rows)?;
        }
        say(&format!("etcd-door, run {run} of {}: etcd", options.runs));
        let cluster = Etcd::start(&program, &options.out).await?;
        let system = System {
            name: "etcd",
            endpoints: cluster.endpoints.join(","),
            pids: cluster.process_ids(),
            tools: &tools,
            say,
        };
        system.measure(options, &mut rows)?;
    }
    let note = format!(
        "etcd-door: by etcd's own benchmark tool, gRPC, {CONNECTIONS} connections over all endpoints; watch: {} watches of one key, {WATCHED_PUTS_A_SECOND} puts a second",
        WATCH_STREAMS * WATCHES_A_STREAM
    );
    Ok(Measured { note, text: table(&rows), json: json!(rows) })
}

impl System<'_> {
    fn measure(&self, options: &Options, rows: &mut Vec<Value>) -> Result<(), BenchError> {
        let total = options.operations.unwrap_or(REQUESTS).to_string();
        let (size, keys) = (options.value_bytes.to_string(), options.keys.to_string());
        let put = ["put", "--key-size", "16", "--sequential-keys", "--key-space-size", &keys, "--val-size", &size];
        let put: Vec<&str> = put.into_iter().chain(["--total", &total]).collect();
        self.row("put", options, &put, rows)?;
        self.etcdctl(&["put", KEY, &"v".repeat(options.value_bytes)])?;
        self.row("range, linearizable", options, &["range", KEY, "--total", &total], rows)?;
        self.row("range, serializable", options, &["range", KEY, "--consistency", "s", "--total", &total], rows)?;
        let (streams, watches) = (WATCH_STREAMS.to_string(), WATCHES_A_STREAM.to_string());
        let (puts, rate) = (WATCHED_PUTS.to_string(), WATCHED_PUTS_A_SECOND.to_string());
        let watch = ["watch-latency", "--streams", &streams, "--watchers-per-stream", &watches];
        let watch: Vec<&str> = watch.into_iter().chain(["--put-total", &puts, "--put-rate", &rate]).collect();
        self.row("watch latency", options, &watch, rows)?;
        self.crowd(rows)
    }

    /// Puts without watches, and beside 10,000 of which half are stalled.
    fn crowd(&self, rows: &mut Vec<Value>) -> Result<(), BenchError> {
        (self.say)(&format!(
            "etcd-door {}: puts beside {} watches, half of them stalled",
            self.name,
            WATCH_STREAMS * WATCHES_A_STREAM
        ));
        let watches = (WATCH_STREAMS * WATCHES_A_STREAM).to_string();
        let (streams, puts, rate) =
            (CROWD_STREAMS.to_string(), CROWD_PUTS.to_string(), CROWD_PUTS_A_SECOND.to_string());
        let pids = self.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut command = Command::new(self.tools.join(CROWD));
        command.args(["-watches", &watches, "-streams", &streams, "-puts", &puts, "-rate", &rate, "-pids", &pids]);
        let text = output(command.arg(&self.endpoints))?;
        let mut row: Value = serde_json::from_str(&text)
            .map_err(|error| BenchError::World(format!("crowd told no figures ({error}):\n{text}")))?;
        (row["system"], row["operation"]) = (self.name.into(), CROWD.into());
        rows.push(row);
        Ok(())
    }

    fn row(&self, what: &str, options: &Options, words: &[&str], rows: &mut Vec<Value>) -> Result<(), BenchError> {
        (self.say)(&format!("etcd-door {}: {what}", self.name));
        let told = self.benchmark(options, words)?;
        rows.push(json!({
            "system": self.name, "operation": what, "rate": round(told.rate), "p50_ms": round(told.p50_ms),
            "p99_ms": round(told.p99_ms), "server_cpu_us_per_operation": told.cpu_us.map(round),
        }));
        Ok(())
    }

    /// Runs the tool. It prints one report a kind of operation; the last one is of what is measured.
    fn benchmark(&self, options: &Options, words: &[&str]) -> Result<Told, BenchError> {
        let (connections, clients) = (CONNECTIONS.to_string(), options.clients.to_string());
        let mut command = Command::new(self.tools.join("benchmark"));
        command.args(["--endpoints", &self.endpoints, "--conns", &connections, "--clients", &clients, "--precise"]);
        let before = cpu_time_of(&self.pids);
        let text = output(command.args(words))?;
        let cpu = cpu_time_of(&self.pids).zip(before).map(|(after, before)| after.saturating_sub(before));
        let told = told(&text).ok_or_else(|| {
            BenchError::World(format!("etcd's benchmark {} told no figures:\n{text}", words.join(" ")))
        })?;
        let operations = told.operations.max(1);
        let per = |cpu: Duration| cpu.as_secs_f64() * 1e6 / operations as f64;
        Ok(Told { rate: told.rate, p50_ms: told.p50_ms, p99_ms: told.p99_ms, cpu_us: cpu.map(per) })
    }

    fn etcdctl(&self, words: &[&str]) -> Result<(), BenchError> {
        output(Command::new(self.tools.join("etcdctl")).args(["--endpoints", &self.endpoints]).args(words)).map(drop)
    }
}

fn output(command: &mut Command) -> Result<String, BenchError> {
    let done = command.output().map_err(|error| BenchError::World(error.to_string()))?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    match done.status.success() {
        true => Ok(text),
        false => Err(BenchError::World(format!("{text}{}", String::from_utf8_lossy(&done.stderr)))),
    }
}

/// What the tool's report says.
struct Figures {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    operations: u64,
}

fn told(text: &str) -> Option<Figures> {
    let last = |before: &str| text.lines().rev().find_map(|line| line.trim().strip_prefix(before).map(str::trim));
    let number = |text: &str| text.split_whitespace().next()?.trim_end_matches('.').parse::<f64>().ok();
    // "Requests/sec:	1234.5678"; "  50% in 0.0012 secs."; "  0.0010 [12]	|∎∎" for each column of the histogram.
    let percentile = |of: &str| number(last(of)?).map(|seconds| seconds * 1e3);
    let columns = text.rsplit("Response time histogram:").next()?;
    let count = |line: &str| line.split_once('[')?.1.split_once(']')?.0.parse::<u64>().ok();
    Some(Figures {
        rate: number(last("Requests/sec:")?)?,
        p50_ms: percentile("50% in")?,
        p99_ms: percentile("99% in")?,
        operations: columns.lines().filter_map(count).sum(),
    })
}

fn table(rows: &[Value]) -> String {
    let mut out =
        String::from("| operation | system | op/s | p50 ms | p99 ms | server µs/op |\n|---|---|--:|--:|--:|--:|\n");
    let told = |row: &&Value| row["operation"] != CROWD;
    let mut operations: Vec<&str> = rows.iter().filter(told).filter_map(|row| row["operation"].as_str()).collect();
    operations.dedup();
    let mut seen = Vec::new();
    for operation in operations {
        if seen.contains(&operation) {
            continue;
        }
        seen.push(operation);
        for system in ["hive", "etcd"] {
            let of: Vec<&Value> =
                rows.iter().filter(|row| row["operation"] == operation && row["system"] == system).collect();
            let mean = |field: &str| {
                let all: Vec<f64> = of.iter().filter_map(|row| row[field].as_f64()).collect();
                (!all.is_empty()).then(|| round(all.iter().sum::<f64>() / all.len() as f64))
            };
            let cell = |field: &str| mean(field).map_or("-".into(), |value| value.to_string());
            let figures = ["rate", "p50_ms", "p99_ms", "server_cpu_us_per_operation"].map(cell);
            let _ = writeln!(out, "| {operation} | {system} | {} |", figures.join(" | "));
        }
    }
    out + &crowd_table(rows)
}

/// The puts beside the crowd, a line a run.
fn crowd_table(rows: &[Value]) -> String {
    let mut out = String::from(
        "\n| system | watches, stalled | put p99 alone, beside them, ms | memory before, with watches, after, MiB | takers, stalled ones had all after, s |\n|---|---|---|---|---|\n",
    );
    for row in rows.iter().filter(|row| row["operation"] == CROWD) {
        let number = |field: &str| row[field].as_f64().unwrap_or(f64::NAN);
        let mib = |field: &str| round(number(field) / 1024.0);
        let _ = writeln!(
            out,
            "| {} | {}, {} | {}, {} | {}, {}, {} | {}, {} |",
            row["system"].as_str().unwrap_or("-"),
            row["watches"],
            row["stalled"],
            round(number("alone_p99_ms")),
            round(number("beside_p99_ms")),
            mib("memory_before_kib"),
            mib("memory_with_watches_kib"),
            mib("memory_after_puts_kib"),
            round(number("last_taker_had_all_after_s")),
            round(number("stalled_had_all_after_s")),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_report_is_read() {
        let text = "\nSummary:\n  Total:\t2.0000 secs.\n  Slowest:\t0.0200 secs.\n  Requests/sec:\t5000.5\n\n\
            Response time histogram:\n  0.0010 [4]\t|∎\n  0.0020 [9996]\t|∎∎∎\n\nLatency distribution:\n  10% in 0.0011 secs.\n  \
            50% in 0.0012 secs.\n  99% in 0.0150 secs.\n  99.9% in 0.0199 secs.\n";
        let figures = told(text).unwrap();
        assert_eq!((figures.rate, figures.operations), (5000.5, 10_000));
        assert!((figures.p50_ms - 1.2).abs() < 1e-9 && (figures.p99_ms - 15.0).abs() < 1e-9);
        assert!(told("nothing").is_none());
    }

    #[test]
    fn the_crowd_has_a_table_of_its_own() {
        let crowd = json!({
            "system": "hive", "operation": CROWD, "watches": 10_000, "stalled": 5_000, "alone_p99_ms": 10.0, "beside_p99_ms": 20.5,
            "memory_before_kib": 1024, "memory_with_watches_kib": 2048, "memory_after_puts_kib": 4096,
            "last_taker_had_all_after_s": 0.0, "stalled_had_all_after_s": 1.5,
        });
        let text = table(&[crowd]);
        assert!(text.ends_with("| hive | 10000, 5000 | 10, 20.5 | 1, 2, 4 | 0, 1.5 |\n"), "{text}");
    }
}

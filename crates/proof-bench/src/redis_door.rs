//! The Redis door beside Redis, by Redis' own redis-benchmark, which knows nothing of Hive.
//!
//!   one node of Hive ─────────────────┐
//!   redis-server, appendfsync always ─┼─ redis-benchmark SET, GET at pipeline 1 and 16 ──▶ rates, latencies, the servers' CPU time
//!   the world of `--nodes` ───────────┘
//!
//! By design: all are asked by the same tool with the same words, in turns, fresh each; every run goes through one address. Clients and
//! servers share the machine. A reply that is an error ends redis-benchmark, and with it this benchmark.
//! Not here: the JSON API (workloads.rs), faults (scripts/redis-clients.sh).

use crate::measure::{cpu_time_of, round};
use crate::world::{spawn_bound, stop, World};
use crate::{BenchError, Options};
use serde_json::{json, Value};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Requests of a run where the command names no number.
const REQUESTS: u64 = 100_000;
/// Commands that a connection sends before it reads a reply.
const PIPELINES: [u32; 2] = [1, 16];
/// What is measured, in this order: what is written first is read then.
const COMMANDS: [&str; 2] = ["set", "get"];
/// Port of the redis-server that is started.
const PORT: u16 = 23_979;
const START_TIMEOUT: Duration = Duration::from_secs(30);
const MISSING: &str =
    "redis-server and redis-benchmark: not found on PATH; `scripts/redis.sh DIRECTORY` unpacks Debian's, then \
    PATH=DIRECTORY:$PATH";

/// What was measured: a note on how, the table for people, the rows for machines.
pub struct Measured {
    pub note: String,
    pub text: String,
    pub json: Value,
}

/// A system under test.
struct System<'a> {
    name: String,
    /// `host:port` of the door that is asked.
    address: &'a str,
    pids: Vec<u32>,
    tool: &'a Path,
}

/// What a line of redis-benchmark says.
struct Told {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// Measures all. `say` hears of the progress.
pub async fn run(options: &Options, say: fn(&str)) -> Result<Measured, BenchError> {
    let (Some(server), Some(tool)) = (find("redis-server"), find("redis-benchmark")) else {
        return Err(BenchError::Usage(MISSING.into()));
    };
    let mut rows: Vec<Value> = Vec::new();
    for run in 1..=options.runs {
        let measure = |system: System<'_>, rows: &mut Vec<Value>| {
            say(&format!("redis-door, run {run} of {}: {}", options.runs, system.name));
            system.measure(options, rows)
        };
        measure_hive(options, 1, &tool, measure, &mut rows).await?;
        let redis = Redis::start(&server, &options.out).await?;
        let address = format!("127.0.0.1:{PORT}");
        let pids = vec![redis.child.id()];
        measure(System { name: redis.version.clone(), address: &address, pids, tool: &tool }, &mut rows)?;
        drop(redis);
        if options.nodes > 1 {
            measure_hive(options, options.nodes, &tool, measure, &mut rows).await?;
        }
    }
    let note = format!(
        "redis-door: by redis-benchmark, {} connections to one address, values of {} bytes, {} keys at random; redis-server with \
         appendfsync always",
        options.clients, options.value_bytes, options.keys
    );
    Ok(Measured { note, text: table(&rows), json: json!(rows) })
}

async fn measure_hive(
    options: &Options,
    nodes: u16,
    tool: &Path,
    measure: impl Fn(System<'_>, &mut Vec<Value>) -> Result<(), BenchError>,
    rows: &mut Vec<Value>,
) -> Result<(), BenchError> {
    let world = World::open(&Options { nodes, ..options.clone() }, false).await?;
    let addresses = world.redis_endpoints();
    let Some(address) = addresses.first() else {
        return Err(BenchError::Usage("the world's --ready-file names no Redis doors".into()));
    };
    let name = format!("hive, {} node{}", addresses.len(), if addresses.len() == 1 { "" } else { "s" });
    measure(System { name, address, pids: world.process_ids(), tool }, rows)
}

impl System<'_> {
    fn measure(&self, options: &Options, rows: &mut Vec<Value>) -> Result<(), BenchError> {
        for pipeline in PIPELINES {
            for command in COMMANDS {
                let requests = options.operations.unwrap_or(REQUESTS);
                let before = cpu_time_of(&self.pids);
                let told = self.benchmark(options, command, pipeline, requests)?;
                let cpu = cpu_time_of(&self.pids).zip(before).map(|(after, before)| after.saturating_sub(before));
                rows.push(json!({
                    "system": self.name, "operation": format!("{command}, pipeline {pipeline}"), "rate": round(told.rate),
                    "p50_ms": told.p50_ms, "p99_ms": told.p99_ms,
                    "server_cpu_us_per_operation": cpu.map(|cpu| round(cpu.as_secs_f64() * 1e6 / requests.max(1) as f64)),
                }));
            }
        }
        Ok(())
    }

    fn benchmark(&self, options: &Options, what: &str, pipeline: u32, requests: u64) -> Result<Told, BenchError> {
        let (host, port) = self.address.rsplit_once(':').unwrap_or((self.address, "6379"));
        let mut command = Command::new(self.tool);
        command.args(["-h", host, "-p", port, "-t", what, "--csv", "-P", &pipeline.to_string()]);
        command.args(["-n", &requests.to_string(), "-c", &options.clients.to_string()]);
        command.args(["-d", &options.value_bytes.max(1).to_string(), "-r", &options.keys.to_string()]);
        let done = command.output().map_err(|error| BenchError::World(error.to_string()))?;
        let (text, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        match told(&text) {
            Some(told) if done.status.success() => Ok(told),
            _ => Err(BenchError::World(format!("redis-benchmark -t {what} told no figures:\n{text}{errors}"))),
        }
    }
}

/// `"SET","17513.13","1.700","0.520","1.567","2.743","4.271","10.063"`: rate, then latencies in milliseconds: mean, least, p50, p95,
/// p99, most.
fn told(text: &str) -> Option<Told> {
    let line = text.lines().rev().find(|line| line.starts_with("\"SET\"") || line.starts_with("\"GET\""))?;
    let number = |at: usize| line.split(',').nth(at)?.trim_matches('"').parse::<f64>().ok();
    Some(Told { rate: number(1)?, p50_ms: number(4)?, p99_ms: number(6)? })
}

fn table(rows: &[Value]) -> String {
    let mut out =
        String::from("| operation | system | op/s | p50 ms | p99 ms | server µs/op |\n|---|---|--:|--:|--:|--:|\n");
    let names = |field: &str| {
        let mut names: Vec<&str> = Vec::new();
        for name in rows.iter().filter_map(|row| row[field].as_str()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    for operation in names("operation") {
        for system in names("system") {
            let of = rows.iter().filter(|row| row["operation"] == operation && row["system"] == system);
            let of: Vec<Value> = of.cloned().collect();
            let cell = |field: &str| crate::measure::mean(&of, field).map_or("-".into(), |value| value.to_string());
            let figures = ["rate", "p50_ms", "p99_ms", "server_cpu_us_per_operation"].map(cell);
            let _ = writeln!(out, "| {operation} | {system} | {} |", figures.join(" | "));
        }
    }
    out
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// A redis-server of our own; stopped and deleted when it goes.
struct Redis {
    child: Child,
    version: String,
    directory: PathBuf,
}

impl Redis {
    async fn start(program: &Path, out: &Path) -> Result<Redis, BenchError> {
        let failed = |error: std::io::Error| BenchError::World(format!("redis-server: {error}"));
        let directory = std::path::absolute(out.join("redis")).map_err(failed)?;
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).map_err(failed)?;
        let version = Command::new(program).arg("--version").output().map_err(failed)?;
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let version = version.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("?").to_owned();
        let log = std::fs::File::create(directory.join("log")).map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["--port", &PORT.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
        command.args(["--appendfsync", "always", "--dir"]).arg(&directory);
        let child = spawn_bound(command.stdin(Stdio::null()).stdout(log).stderr(Stdio::null())).map_err(failed)?;
        let redis = Redis { child, version: format!("redis {version}"), directory };
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", PORT)).is_err() {
            if start.elapsed() > START_TIMEOUT {
                let message = format!("redis-server does not answer; see {}", redis.directory.join("log").display());
                return Err(BenchError::World(message));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        stop(&mut self.child);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_line_is_read() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\
            \"max_latency_ms\"\n\"SET\",\"17513.13\",\"1.700\",\"0.520\",\"1.567\",\"2.743\",\"4.271\",\"10.063\"\n";
        let told = told(text).unwrap();
        assert_eq!((told.rate, told.p50_ms, told.p99_ms), (17513.13, 1.567, 4.271));
        assert!(super::told("Error from server: ERR no\n").is_none());
    }

    #[test]
    fn runs_of_a_system_share_a_line_of_the_table() {
        let row = |system: &str, rate: f64| {
            json!({"system": system, "operation": "set, pipeline 1", "rate": rate, "p50_ms": 1.0, "p99_ms": 2.0,
                "server_cpu_us_per_operation": 3.0})
        };
        let text = table(&[row("hive, 1 node", 10.0), row("redis 7", 20.0), row("hive, 1 node", 30.0)]);
        assert!(text.contains("| set, pipeline 1 | hive, 1 node | 20 | 1 | 2 | 3 |\n"), "{text}");
        assert!(text.contains("| set, pipeline 1 | redis 7 | 20 |"), "{text}");
    }
}

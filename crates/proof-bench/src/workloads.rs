//! What is measured: the suites and the order in which they run.
//!
//! Always: each suite has a world of its own unless endpoints are named; a suite that fails is reported
//! in the report and the others continue (with `all`); keys that are read were written before.

use crate::etcd::{self, Etcd};
use crate::etcd_door;
use crate::load::{self, End, Job, Keys};
use crate::measure::Run;
use crate::redis_door;
use crate::report::{Measurement, Report, Section};
use crate::request::{Operation, Template};
use crate::world::World;
use crate::{availability, embedded, failover, listing, objects, simple_kv, BenchError, Options};
use std::time::Duration;

/// Not counted, before each run.
const WARM_UP: Duration = Duration::from_secs(1);
/// Connections that write the keys a read needs.
const FILL_CLIENTS: usize = 128;
/// Levels of writes, weakest first.
const LEVELS: [&str; 4] = ["hopeful", "eventual", "strong", "absolute"];
/// The part of the full rate at which the levels are compared.
const LADDER_PERCENT: f64 = 20.0;
/// Operations of each run of simple-kv, as in the second paper's tables.
pub const SIMPLE_OPERATIONS: u64 = 1_000;

/// What is loaded: Hive or its peer.
pub struct Target<'t> {
    pub system: &'t str,
    pub endpoints: &'t [String],
    pub pids: Vec<u32>,
}

/// Runs a workload, or all of them.
pub async fn run(workload: &str, options: &Options) -> Result<Report, BenchError> {
    let mut report = Report::new(workload, options);
    if workload != "all" {
        suite(workload, options, &mut report).await?;
        return Ok(report);
    }
    for name in [
        "kv-put",
        "kv-get",
        "levels",
        "failover",
        "simple-kv",
        "s3-object-put",
        "s3-object-get",
        "listing",
        "split",
        "embedded",
        "etcd",
    ] {
        say(name);
        if let Err(error) = suite(name, options, &mut report).await {
            report.note(format!("{name} was not measured: {error}"));
        }
    }
    Ok(report)
}

/// Progress, on standard error.
pub fn say(what: &str) {
    eprintln!("bench: {what}");
}

async fn suite(name: &str, options: &Options, report: &mut Report) -> Result<(), BenchError> {
    if name == "etcd" {
        return etcd_suite(options, report).await;
    }
    if name == "etcd-door" {
        let measured = etcd_door::run(options, say).await?;
        report.note(measured.note);
        report.sections.push(Section { name: "etcd door", text: measured.text, json: measured.json });
        return Ok(());
    }
    if name == "redis-door" {
        let measured = redis_door::run(options, say).await?;
        report.note(measured.note);
        report.sections.push(Section { name: "Redis door", text: measured.text, json: measured.json });
        return Ok(());
    }
    if name == "availability" {
        return availability::run(options, report).await;
    }
    if name == "embedded" {
        return embedded::run(options, report);
    }
    if name == "simple-kv" && !options.engines.is_empty() {
        return simple_kv::run(options, report).await;
    }
    if listing::SUITES.contains(&name) {
        return listing::run(name, options, report).await;
    }
    if objects::SUITES.contains(&name) {
        return objects::run(name, options, report).await;
    }
    let world = World::open(options, name == "failover").await?;
    let target = Target { system: "hive", endpoints: &world.endpoints, pids: world.process_ids() };
    if target.pids.is_empty() {
        report.note("CPU time of the servers was not measured: name the world's --ready-file".into());
    }
    match name {
        "kv-put" => measure(options, report, &target, name, Operation::Put("strong"), options.clients, None).await,
        "kv-get" => {
            fill(options, &target, Operation::Put("strong")).await?;
            measure(options, report, &target, name, Operation::Get("strong"), options.clients, None).await;
        }
        "levels" => {
            for level in LEVELS {
                measure(options, report, &target, name, Operation::Put(level), options.clients, None).await;
            }
            fill(options, &target, Operation::Put("strong")).await?;
            for level in ["eventual", "strong"] {
                measure(options, report, &target, name, Operation::Get(level), options.clients, None).await;
            }
            ladder(options, report, &target).await;
        }
        "simple-kv" => {
            for clients in [1, 4] {
                for operation in [Operation::PlainPut, Operation::PlainGet] {
                    measure(options, report, &target, name, operation, clients, Some(SIMPLE_OPERATIONS)).await;
                }
            }
        }
        "failover" => failover::run(options, &world, report).await?,
        other => return Err(BenchError::Usage(format!("there is no workload '{other}'"))),
    }
    Ok(())
}

/// The levels again at a fixed part of what the machine bears: with the CPU full every level waits for the CPU, and
/// only below that do they wait for what they promise.
async fn ladder(options: &Options, report: &mut Report, target: &Target<'_>) {
    let Some(full) = report.rate_of("levels", "put strong").filter(|rate| *rate > 0.0) else { return };
    let pace = (full * LADDER_PERCENT / 100.0).max(1.0);
    report.note(format!(
        "levels at {LADDER_PERCENT} % load: {pace:.0} requests a second, by the client that is free; late requests count from when they were due"
    ));
    for operation in LEVELS.map(Operation::Put).into_iter().chain(["eventual", "strong"].map(Operation::Get)) {
        measure_at(options, report, target, "levels at fixed load", operation, (options.clients, Some(pace)), None)
            .await;
    }
}

async fn etcd_suite(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let Some(program) = etcd::find() else {
        report.note(etcd::MISSING.into());
        return Ok(());
    };
    let cluster = Etcd::start(&program, &options.out).await?;
    report.note(format!(
        "{}: five members without TLS, synced, loaded through its own JSON gateway over HTTP/1.1",
        cluster.version
    ));
    let target = Target { system: "etcd", endpoints: &cluster.endpoints, pids: cluster.process_ids() };
    measure(options, report, &target, "kv-put", Operation::EtcdPut, options.clients, None).await;
    fill(options, &target, Operation::EtcdPut).await?;
    measure(options, report, &target, "kv-get", Operation::EtcdGet(false), options.clients, None).await;
    measure(options, report, &target, "levels", Operation::EtcdGet(true), options.clients, None).await;
    Ok(())
}

/// Writes every key once.
pub async fn fill(options: &Options, target: &Target<'_>, operation: Operation) -> Result<(), BenchError> {
    fill_with(options, target, operation, FILL_CLIENTS).await.map(|_| ())
}

/// The same with so many connections, and the run it was.
pub async fn fill_with(
    options: &Options,
    target: &Target<'_>,
    operation: Operation,
    clients: usize,
) -> Result<Run, BenchError> {
    let template = Template::new(operation, options.value_bytes, options.order);
    let job = Job {
        endpoints: target.endpoints,
        template: &template,
        clients: clients.min(options.keys as usize),
        keys: Keys::InTurn(options.keys),
        pace: None,
        warm_up: Duration::ZERO,
        end: End::Operations(options.keys),
        progress: Some("keys written"),
        pids: &target.pids,
    };
    let run = load::run(&job).await;
    if run.operations < options.keys {
        return Err(BenchError::World(format!(
            "only {} of {} keys could be written: {:?}",
            run.operations, options.keys, run.errors
        )));
    }
    Ok(run)
}

/// Runs of one operation, into the report.
pub async fn measure(
    options: &Options,
    report: &mut Report,
    target: &Target<'_>,
    suite: &str,
    operation: Operation,
    clients: usize,
    operations: Option<u64>,
) {
    measure_at(options, report, target, suite, operation, (clients, None), operations).await;
}

/// Runs of one operation by so many clients at a pace, into the report.
async fn measure_at(
    options: &Options,
    report: &mut Report,
    target: &Target<'_>,
    suite: &str,
    operation: Operation,
    (clients, pace): (usize, Option<f64>),
    operations: Option<u64>,
) {
    let template = Template::new(operation, options.value_bytes, options.order);
    // A short suite reads what its own short put suite wrote.
    let keys = operations.unwrap_or(options.keys);
    let end = operations.or(options.operations).map_or(End::After(options.duration), End::Operations);
    let job = Job {
        endpoints: target.endpoints,
        template: &template,
        clients,
        keys: if operation.reads() { Keys::Random(keys) } else { Keys::InTurn(keys) },
        pace,
        warm_up: WARM_UP,
        end,
        progress: None,
        pids: &target.pids,
    };
    let mut runs: Vec<Run> = Vec::new();
    for number in 1..=options.runs {
        let run = load::run(&job).await;
        say(&format!(
            "{} {} run {number}: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms, {} errors",
            target.system,
            name_of(operation),
            run.rate(),
            run.percentile_ms(50.0),
            run.percentile_ms(99.0),
            run.error_count()
        ));
        runs.push(run);
    }
    report.add(Measurement::new(suite, target.system, &name_of(operation), clients, options.value_bytes, &runs));
}

fn name_of(operation: Operation) -> String {
    match operation {
        Operation::Put(level) => format!("put {level}"),
        Operation::Get(level) => format!("get {level}"),
        Operation::PlainPut => "POST /put".into(),
        Operation::PlainPutAt(level) => format!("POST /put {level}"),
        Operation::PlainGet => "GET /get".into(),
        Operation::ObjectPut => "PutObject strong".into(),
        Operation::ObjectGet => "GetObject strong".into(),
        Operation::ObjectList => "ListObjectsV2, 1,000 keys".into(),
        Operation::EtcdPut => "put".into(),
        Operation::EtcdGet(false) => "get linearizable".into(),
        Operation::EtcdGet(true) => "get serializable".into(),
    }
}

//! The object workloads, over the JSON API as a gateway of one's own would: put, get, listings, a split under load.
//!
//! ```text
//!   s3-object-put, s3-object-get   Hive paper, Figures 6 and 7
//!   listing    pages of 1,000 keys at random places, a full walk, a walk in parts; at several numbers of shards
//!   split      puts at 70 % of the full rate while a shard is split in three
//! ```
//!
//! Always: the number of shards a figure was taken at is counted, not assumed.

use crate::load::{self, Keys};
use crate::measure::{cpu_time, histogram, round, Run};
use crate::report::{Measurement, Report};
use crate::request::{Operation, Template, BUCKET};
use crate::workloads::{fill, measure, say, Target};
use crate::world::World;
use crate::{BenchError, Options};
use hive_client::{Client, ClientError};
use serde_json::{json, Value};
use std::time::{Duration, Instant};

/// The suites told here.
pub const SUITES: [&str; 4] = ["s3-object-put", "s3-object-get", "listing", "split"];
/// Whose the bucket is.
const ACCOUNT: &str = "hive-bench";
/// How long making account and bucket may take.
const MAKE_MS: u64 = 30_000;
/// How long shards may take to split.
const SPLIT_TIMEOUT: Duration = Duration::from_secs(600);
/// How often shards are counted.
const COUNT_PAUSE: Duration = Duration::from_millis(200);
/// Shards are taken for settled when they have been as many for so long.
const SETTLED: Duration = Duration::from_secs(5);
/// The part of the full rate that goes on while a shard is split.
const LOAD_PERCENT: f64 = 70.0;
/// Load before and behind a split.
const AROUND: Duration = Duration::from_secs(2);
/// Parts of a walk in parts.
const PARTS: u64 = 8;

/// Runs a suite.
pub async fn run(name: &str, options: &Options, report: &mut Report) -> Result<(), BenchError> {
    match name {
        "listing" => {
            for shards in &options.shards {
                listing(options, report, *shards).await?;
            }
            Ok(())
        }
        "split" => split(options, report).await,
        _ => figures(name, options, report).await,
    }
}

/// Put or get, as fast as answers come.
async fn figures(name: &str, options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let world = open(options, None).await?;
    let target = target(&world);
    if name == "s3-object-put" {
        measure(options, report, &target, name, Operation::ObjectPut, options.clients, None).await;
    } else {
        fill(options, &target, Operation::ObjectPut).await?;
        measure(options, report, &target, name, Operation::ObjectGet, options.clients, None).await;
    }
    let shards = count_shards(&world.client).await?;
    report.note(format!("{name}: {shards} shards at the end"));
    Ok(())
}

/// A world with the bucket; a fresh one splits shards above `split_keys`.
async fn open(options: &Options, split_keys: Option<u64>) -> Result<World, BenchError> {
    let mut options = options.clone();
    if let Some(keys) = split_keys {
        options.dev_arguments.extend(["--s3-split-keys".to_owned(), keys.to_string()]);
    }
    let world = World::open(&options, false).await?;
    let make = [
        json!({"action": "CreateAccount", "account": ACCOUNT, "deadline_ms": MAKE_MS}),
        json!({"action": "CreateBucket", "bucket": BUCKET, "account": ACCOUNT, "deadline_ms": MAKE_MS}),
    ];
    for body in make {
        match world.client.action(body).await {
            // There from an earlier run against the same world.
            Ok(_) | Err(ClientError::Refused { status: 409, .. }) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(world)
}

fn failed(error: ClientError) -> BenchError {
    BenchError::World(error.to_string())
}

fn target(world: &World) -> Target<'_> {
    Target { system: "hive", endpoints: &world.endpoints, pids: world.process_ids() }
}

async fn count_shards(client: &Client) -> Result<usize, BenchError> {
    let (mut count, mut after) = (0, Value::Null);
    loop {
        let body = json!({"action": "ListClusters", "prefix": "shard@", "start_after": after});
        let mut page = client.action(body).await.map_err(failed)?;
        count += page["clusters"].as_array().map_or(0, Vec::len);
        after = page["next"].take();
        if after.is_null() {
            return Ok(count);
        }
    }
}

/// Waits until there are at least so many shards, and for a while no more come.
async fn settle(client: &Client, least: usize) -> Result<usize, BenchError> {
    let (begin, mut last, mut since) = (Instant::now(), 0, Instant::now());
    loop {
        let now = count_shards(client).await?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if now >= least && since.elapsed() >= SETTLED {
            return Ok(now);
        }
        if begin.elapsed() > SPLIT_TIMEOUT {
            return Err(BenchError::World(format!("there are {now} shards, not {least}, after {SPLIT_TIMEOUT:?}")));
        }
        tokio::time::sleep(COUNT_PAUSE).await;
    }
}

async fn listing(options: &Options, report: &mut Report, shards: u64) -> Result<(), BenchError> {
    // A shard that was split has between a third of the bound and the bound.
    let split_keys = if shards <= 1 { 10_000_000 } else { (options.keys * 3 / (shards * 2)).max(8) };
    let world = open(options, Some(split_keys)).await?;
    let target = target(&world);
    fill(options, &target, Operation::ObjectPut).await?;
    let found = settle(&world.client, if shards <= 1 { 1 } else { shards as usize / 2 }).await?;
    let suite = format!("listing, {found} shards");
    measure(options, report, &target, &suite, Operation::ObjectList, 1, None).await;
    measure(options, report, &target, &suite, Operation::ObjectList, options.clients, None).await;
    let whole = walk(&world.client, None, None).await?;
    report.add(Measurement::new(&suite, "hive", "walk, page by page", 1, 0, std::slice::from_ref(&whole.run)));
    let parts = walk_in_parts(&world.client).await?;
    let text = format!(
        "{suite}: a walk over {} keys had {:.0} entries/s; in {PARTS} parts at a time {:.0} entries/s",
        whole.entries,
        whole.rate(),
        parts
    );
    say(&text);
    report.note(text);
    Ok(())
}

/// A walk that was made.
struct Walk {
    entries: u64,
    run: Run,
}

impl Walk {
    fn rate(&self) -> f64 {
        self.entries as f64 / self.run.seconds.max(1e-9)
    }
}

/// All keys behind one and up to another, page by page.
async fn walk(client: &Client, from: Option<&str>, to: Option<&str>) -> Result<Walk, BenchError> {
    let mut latency = histogram();
    let (begin, mut entries, mut token) = (Instant::now(), 0u64, Value::Null);
    let cpu = cpu_time(std::process::id()).unwrap_or_default();
    loop {
        let mut body = json!({
            "action": "ListObjectsV2", "bucket": BUCKET, "max_keys": 1000, "start_after": from,
        });
        if !token.is_null() {
            body["continuation_token"] = token;
        }
        let start = Instant::now();
        let mut page = client.action(body).await.map_err(failed)?;
        latency.saturating_record(start.elapsed().as_micros() as u64);
        let list = page["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
        let within = |entry: &&Value| to.is_none_or(|to| entry["key"].as_str().is_some_and(|key| key < to));
        let count = list.iter().filter(within).count();
        entries += count as u64;
        let over = count < list.len();
        token = page["next_continuation_token"].take();
        if token.is_null() || over {
            break;
        }
    }
    let run = Run {
        operations: latency.len(),
        errors: Default::default(),
        seconds: begin.elapsed().as_secs_f64(),
        latency,
        server_cpu: None,
        client_cpu: cpu_time(std::process::id()).unwrap_or_default().saturating_sub(cpu),
    };
    Ok(Walk { entries, run })
}

/// Entries a second of several walks at a time, cut evenly by the metadata service.
async fn walk_in_parts(client: &Client) -> Result<f64, BenchError> {
    let body = json!({"action": "CutPoints", "bucket": BUCKET, "parts": PARTS});
    let cuts = client.action(body).await.map_err(failed)?;
    let keys: Vec<String> = cuts["keys"]
        .as_array()
        .map_or(Vec::new(), |keys| keys.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect());
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..=keys.len() {
        let (client, from, to) = (client.clone(), at.checked_sub(1).map(|at| keys[at].clone()), keys.get(at).cloned());
        tasks.spawn_local(async move { walk(&client, from.as_deref(), to.as_deref()).await });
    }
    let mut entries = 0;
    while let Some(done) = tasks.join_next().await {
        let done = done.map_err(|error| BenchError::World(error.to_string()))?;
        entries += done?.entries;
    }
    Ok(entries as f64 / begin.elapsed().as_secs_f64().max(1e-9))
}

/// Puts at a fixed rate, before, while and after a shard is split in three.
async fn split(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let (most, few) = (options.keys, options.keys * 9 / 10);
    let world = open(options, Some(most)).await?;
    let target = target(&world);
    let filled = Options { keys: few, ..options.clone() };
    fill(&filled, &target, Operation::ObjectPut).await?;
    let before = count_shards(&world.client).await?;
    let full = full_rate(options, &target, few).await;
    let pace = (full * LOAD_PERCENT / 100.0).max(1.0);
    let template = Template::new(Operation::ObjectPut, options.value_bytes);
    let shared = load::Shared::new(&world.endpoints, Keys::Random(few), Some(pace), u64::MAX, true);
    let tasks = load::start(&shared, &template, options.clients);
    shared.count(true);
    tokio::time::sleep(AROUND).await;
    let begun = shared.elapsed();
    // The keys that are too many for one shard.
    let more = Options { keys: most + most / 20, ..options.clone() };
    fill(&more, &target, Operation::ObjectPut).await?;
    let after = settle(&world.client, before + 2).await?;
    let ended = shared.elapsed();
    tokio::time::sleep(AROUND).await;
    shared.count(false);
    let run = shared.run_so_far();
    load::finish(&shared, tasks).await;
    let text = format!(
        "split: {before} to {after} shards at {LOAD_PERCENT} % load ({pace:.0} put/s), from {:.1} s to {:.1} s of the run (with {} s in which nothing more came); longest time without an acknowledgement {} ms",
        begun.as_secs_f64(),
        ended.as_secs_f64(),
        SETTLED.as_secs(),
        round(shared.longest_gap() as f64 / 1_000.0),
    );
    say(&text);
    report.note(text);
    report.add(Measurement::new(
        "split",
        "hive",
        "PutObject strong while a shard splits",
        options.clients,
        options.value_bytes,
        &[run],
    ));
    for line in counters(&world).await {
        report.note(line);
    }
    Ok(())
}

/// What the nodes count of splits, added up.
async fn counters(world: &World) -> Vec<String> {
    let mut sums: std::collections::BTreeMap<String, f64> = Default::default();
    for at in 0..world.endpoints.len() {
        let Ok((200, text)) = world.client.get_path(at, "/metrics").await else { continue };
        for line in String::from_utf8_lossy(&text).lines().filter(|line| line.starts_with("hive_s3_")) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let name = name.split('{').next().unwrap_or(name).to_owned();
            *sums.entry(name).or_default() += value.parse::<f64>().unwrap_or(0.0);
        }
    }
    sums.into_iter().filter(|(_, sum)| *sum > 0.0).map(|(name, sum)| format!("split: {name} {sum}")).collect()
}

/// Puts a second when answers are all that is waited for.
async fn full_rate(options: &Options, target: &Target<'_>, keys: u64) -> f64 {
    let template = Template::new(Operation::ObjectPut, options.value_bytes);
    let job = load::Job {
        endpoints: target.endpoints,
        template: &template,
        clients: options.clients,
        keys: Keys::Random(keys),
        pace: None,
        warm_up: Duration::from_millis(500),
        end: load::End::After(options.duration.min(Duration::from_secs(5))),
        pids: &[],
    };
    load::run(&job).await.rate()
}

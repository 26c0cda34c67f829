//! The object workloads, over the JSON API as a gateway of one's own would: put, get, splits under load.
//!
//! ```text
//!   s3-object-put, s3-object-get   Hive paper, Figures 6 and 7
//!   split      puts at a part of the full rate, one in four of a new key, while shards are split in three
//! ```
//!
//! By design: the number of shards a figure was taken at is counted, not assumed.
//! Not here: listings (listing.rs).

use crate::listing::{count_shards, settle};
use crate::load::{self, Keys};
use crate::measure::{round, Run};
use crate::report::{Measurement, Report};
use crate::request::{Operation, Order, Template, BUCKET};
use crate::workloads::{fill, measure, say, Target};
use crate::world::World;
use crate::{BenchError, Options};
use hive_client::ClientError;
use serde_json::json;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The suites told here.
pub const SUITES: [&str; 3] = ["s3-object-put", "s3-object-get", "split"];
/// Rows above which a shard is split where nothing else is asked for: what nodes do by themselves.
pub const SPLIT_KEYS: u64 = 40_000;
/// Whose the bucket is.
const ACCOUNT: &str = "hive-bench";
/// How long making account and bucket may take.
const MAKE_MS: u64 = 30_000;
/// How long the load may take to bring all keys, and the first shard to be split.
const SPLIT_TIMEOUT: Duration = Duration::from_secs(900);
/// How often it is looked how far that is.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// Of so many puts of that load one is of a new key.
const NEW_ONE_IN: u64 = 4;
/// Load before and behind the splits.
const AROUND: Duration = Duration::from_secs(2);

/// Runs a suite.
pub async fn run(name: &str, options: &Options, report: &mut Report) -> Result<(), BenchError> {
    match name {
        "split" => split(options, report).await,
        _ => figures(name, options, report).await,
    }
}

/// Put or get, as fast as answers come.
async fn figures(name: &str, options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let world = open(options).await?;
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

/// A world with the bucket.
pub async fn open(options: &Options) -> Result<World, BenchError> {
    let mut options = options.clone();
    if let Some(keys) = options.split_keys {
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

pub fn failed(error: ClientError) -> BenchError {
    BenchError::World(error.to_string())
}

pub fn target(world: &World) -> Target<'_> {
    Target { system: "hive", endpoints: &world.endpoints, pids: world.process_ids() }
}

/// Puts at a fixed rate while shards are split in three: first the only one, so that clients feel all of it, then
/// others, until all keys are there.
async fn split(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let bound = options.split_keys.unwrap_or(SPLIT_KEYS.min(options.keys / 2)).max(8);
    // Keys that only grow would never be split.
    let mut options = Options { order: Order::Spread, split_keys: Some(bound), ..options.clone() };
    // What a split does to clients is the question, not when it begins: nodes, clients and whatever else runs share one machine.
    options.dev_arguments.extend(["--s3-split-cpu-max-percent".to_owned(), "0".to_owned()]);
    let options = &options;
    let few = bound * 9 / 10;
    let world = open(options).await?;
    let target = target(&world);
    fill(&Options { keys: few, ..options.clone() }, &target, Operation::ObjectPut).await?;
    let percent = options.load_percent;
    let full = overwrites(options, &target, few, None).await.rate();
    let pace = (full * f64::from(percent) / 100.0).max(1.0);
    let calm = overwrites(options, &target, few, Some(pace)).await;
    let text = format!(
        "split: {percent} % of the full rate ({full:.0} put/s) keep {:.0} % of this machine's CPU busy while nothing is split",
        busy_percent(&calm),
    );
    say(&text);
    report.note(text);
    let template = Template::new(Operation::ObjectPut, options.value_bytes, options.order);
    let keys = Keys::Widening(few, NEW_ONE_IN);
    let shared = load::Shared::new(&world.endpoints, keys, Some(pace), u64::MAX, true);
    let tasks = load::start(&shared, &template, options.clients);
    shared.count(true);
    let first = under_load(options, &world, &shared).await;
    let run = shared.run_so_far();
    let stopped_at = shared.keys();
    load::finish(&shared, tasks).await;
    let first = first?;
    let shards = settle(&world, bound).await?;
    let text = format!(
        "split: 1 to {shards} shards of at most {bound} rows at {percent} % load ({pace:.0} put/s, one in {NEW_ONE_IN} of a new key, {stopped_at} keys at the end); \
         clients' longest time without an acknowledgement while the only shard was split: {} ms",
        round(shared.longest_gap(first) as f64 / 1_000.0),
    );
    say(&text);
    report.note(text);
    let (operation, clients) = ("PutObject strong while shards split", options.clients);
    report.add(Measurement::new("split", "hive", operation, clients, options.value_bytes, &[run]));
    let operation = "PutObject strong at that rate, nothing split";
    report.add(Measurement::new("split", "hive", operation, clients, options.value_bytes, &[calm]));
    for line in counters(&world).await {
        say(&line);
        report.note(line);
    }
    Ok(())
}

/// Lets the load continue until all keys are there. When the first split was over, by the load's clock.
async fn under_load(options: &Options, world: &World, shared: &Rc<load::Shared>) -> Result<Duration, BenchError> {
    let (begin, mut first) = (Instant::now(), None);
    while begin.elapsed() < SPLIT_TIMEOUT {
        tokio::time::sleep(LOOK_PAUSE).await;
        if first.is_none() && count_shards(&world.client).await? > 1 {
            first = Some(shared.elapsed());
            say(&format!("the first shard was split {:.1} s after the load began", shared.elapsed().as_secs_f64()));
        }
        if let Some(first) = first.filter(|_| shared.keys() >= options.keys) {
            tokio::time::sleep(AROUND).await;
            return Ok(first);
        }
    }
    let message = format!(
        "after {SPLIT_TIMEOUT:?} {} of {} keys were put, split: {}",
        shared.keys(),
        options.keys,
        first.is_some()
    );
    Err(BenchError::World(message))
}

/// The nodes' metrics of splits, added up.
async fn counters(world: &World) -> Vec<String> {
    let mut sums: std::collections::BTreeMap<String, f64> = Default::default();
    for at in 0..world.endpoints.len() {
        let Ok((200, text)) = world.client.get_path(at, "/metrics").await else { continue };
        for line in String::from_utf8_lossy(&text).lines().filter(|line| line.starts_with("hive_s3_")) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            *sums.entry(without_lane(name)).or_default() += value.parse::<f64>().unwrap_or(0.0);
        }
    }
    let of = |name: &str| sums.get(name).copied().unwrap_or(0.0);
    let mut lines: Vec<String> = sums.iter().map(|(name, sum)| format!("split: {name} {sum}")).collect();
    let cutovers = of("hive_s3_cutover_blocked_seconds_count");
    let within = |bound: &str| of(&format!("hive_s3_cutover_blocked_seconds_bucket{{le=\"{bound}\"}}"));
    let longest = sums.iter().filter_map(|(name, count)| {
        let bound = name.strip_prefix("hive_s3_cutover_blocked_seconds_bucket{le=\"")?.strip_suffix("\"}")?;
        (*count >= cutovers).then(|| bound.parse::<f64>().ok())?
    });
    let longest = longest.fold(f64::INFINITY, f64::min) * 1e3;
    lines.push(format!(
        "split: {cutovers:.0} cut-overs blocked writers for {:.1} ms on average, at most {longest:.0} ms, {:.0} of them longer than 50 ms; {:.0} rows/s copied by each flow",
        of("hive_s3_cutover_blocked_seconds_sum") * 1e3 / cutovers.max(1.0),
        cutovers - within("0.05"),
        of("hive_s3_rows_copied_total") / of("hive_s3_copy_seconds_total").max(1e-9),
    ));
    lines
}

/// A sample's name with its labels, without the lane's.
fn without_lane(sample: &str) -> String {
    let Some((name, labels)) = sample.trim_end_matches('}').split_once('{') else { return sample.to_owned() };
    let labels: Vec<&str> = labels.split(',').filter(|label| !label.starts_with("lane=")).collect();
    if labels.is_empty() {
        name.to_owned()
    } else {
        format!("{name}{{{}}}", labels.join(","))
    }
}

/// Puts over keys that are there, as fast as answers come, or at a rate.
async fn overwrites(options: &Options, target: &Target<'_>, keys: u64, pace: Option<f64>) -> Run {
    let template = Template::new(Operation::ObjectPut, options.value_bytes, options.order);
    let job = load::Job {
        endpoints: target.endpoints,
        template: &template,
        clients: options.clients,
        keys: Keys::Random(keys),
        pace,
        warm_up: Duration::from_millis(500),
        end: load::End::After(options.duration.min(Duration::from_secs(5))),
        progress: None,
        pids: &target.pids,
    };
    load::run(&job).await
}

/// What servers and clients used of all cores there are.
fn busy_percent(run: &Run) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let used = run.server_cpu.unwrap_or_default() + run.client_cpu;
    100.0 * used.as_secs_f64() / (run.seconds * cores as f64).max(1e-9)
}

//! A bucket that is filled and then looked at whole: pages, walks, counts, cuts.
//!
//! ```text
//!   listing   100,000 keys at several numbers of shards
//!   bucket    one of many small objects: how fast it fills, what an object costs on disk and in memory
//!
//!   fill ─▶ shards split until none has too many rows ─▶ pages · counts · cuts · a walk · a walk in parts
//! ```
//!
//! By design: the number of shards a figure was taken at is counted, not assumed, and nothing is measured while shards are
//! on their way; a walk counts the keys that it got, each read out of the answer.
//! Not here: puts and gets (objects.rs).

use crate::load;
use crate::measure::{cpu_time, histogram, round, Run};
use crate::objects::{failed, open, target};
use crate::report::{Measurement, Report};
use crate::request::{Operation, Order, BUCKET};
use crate::wire::{self, Wire};
use crate::workloads::{fill_with, measure, say};
use crate::world::{memory_of, World};
use crate::{BenchError, Options};
use hive_client::Client;
use serde::Deserialize;
use serde_json::{json, Value};
use std::time::{Duration, Instant};

/// The suites told here.
pub const SUITES: [&str; 2] = ["listing", "bucket"];
/// How long shards may take to come to rest.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1_800);
/// How often shards are looked at meanwhile, and how often that is printed.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
const TELL_EVERY: Duration = Duration::from_secs(5);
/// Rows of a shard that is not to be split (with one shard asked for).
const NEVER_SPLIT: u64 = 10_000_000;
/// Calls of each kind whose latency is taken one by one.
const CALLS: usize = 200;
/// Parts of a walk in parts.
const PARTS: u64 = 8;
/// Failures of one page after which a walk is given up.
const PAGE_TRIES_MAX: u32 = 20;
const PAGE_PAUSE: Duration = Duration::from_millis(50);

/// Runs a suite.
pub async fn run(name: &str, options: &Options, report: &mut Report) -> Result<(), BenchError> {
    if name == "bucket" {
        return bucket(options, report).await;
    }
    for shards in &options.shards {
        listing(options, report, *shards).await?;
    }
    Ok(())
}

/// The same keys in about so many shards.
async fn listing(options: &Options, report: &mut Report, shards: u64) -> Result<(), BenchError> {
    // A shard that was split has between a third of the bound and the bound.
    let about = (options.keys * 3 / (shards.max(1) * 2)).max(8);
    let split_keys = options.split_keys.unwrap_or(if shards <= 1 { NEVER_SPLIT } else { about });
    // Keys that only grow are cut at their end, one shard after the other; these are split by rows.
    let options = Options { order: Order::Spread, split_keys: Some(split_keys), ..options.clone() };
    let world = open(&options).await?;
    let clients = options.clients;
    fill_with(&options, &target(&world), Operation::ObjectPut, clients).await?;
    let found = settle(&world, split_keys).await?;
    look(&options, report, &world, &format!("listing, {found} shards")).await
}

/// One bucket with all of the keys, and what they cost.
async fn bucket(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let world = open(options).await?;
    let before = memory_of(&world.process_ids());
    let run = fill_with(options, &target(&world), Operation::ObjectPut, options.clients).await?;
    let (bytes, clients) = (options.value_bytes, options.clients);
    report.add(Measurement::new("bucket", "hive", "PutObject strong, filling", clients, bytes, &[run]));
    let split_keys = options.split_keys.unwrap_or(crate::objects::SPLIT_KEYS);
    // One that was narrowed late is left alone until it has a quarter more than twice as many (decision 0021).
    let most = if options.order == Order::Growing { split_keys * 9 / 4 } else { split_keys };
    let found = settle(&world, most).await?;
    for line in costs(options, &world, before) {
        say(&line);
        report.note(line);
    }
    look(options, report, &world, &format!("bucket, {found} shards")).await
}

/// What an object costs.
fn costs(options: &Options, world: &World, before: Option<u64>) -> Vec<String> {
    let replicas = options.nodes.min(REPLICAS);
    let copies = (options.keys * u64::from(replicas)).max(1) as f64;
    let mut lines = Vec::new();
    let head = format!("bucket: {} objects of {} bytes, {replicas} replicas", options.keys, options.value_bytes);
    if let Some((disk, log)) = world.disk_bytes() {
        let engine = disk.saturating_sub(log);
        lines.push(format!(
            "{head}: {:.2} GB on disk, of that {:.2} GB log; without the log {:.0} bytes an object and replica",
            disk as f64 / 1e9,
            log as f64 / 1e9,
            engine as f64 / copies,
        ));
    }
    if let Some((after, before)) = memory_of(&world.process_ids()).zip(before) {
        let more = after.saturating_sub(before);
        lines.push(format!(
            "{head}: {:.0} MB of anonymous memory in all nodes, {:.0} MB more than before: {:.1} bytes an object and replica",
            after as f64 / 1e6,
            more as f64 / 1e6,
            more as f64 / copies,
        ));
    }
    lines
}

/// Replicas of a shard where there are nodes enough (rule `size=5`).
const REPLICAS: u16 = 5;

/// Every way of looking at a bucket.
async fn look(options: &Options, report: &mut Report, world: &World, suite: &str) -> Result<(), BenchError> {
    let (client, target) = (&world.client, target(world));
    let count = json!({"action": "CountObjects", "bucket": BUCKET});
    let (counting, told) = calls(client, &count).await?;
    let keys = told["keys"].as_u64().unwrap_or(0);
    if keys < options.keys {
        report.note(format!("{suite}: {keys} keys are there, not {}: puts failed", options.keys));
    }
    report.add(Measurement::new(suite, "hive", "CountObjects, all", 1, 0, &[counting]));
    let cuts = json!({"action": "CutPoints", "bucket": BUCKET, "parts": PARTS});
    let (cutting, cuts) = calls(client, &cuts).await?;
    report.add(Measurement::new(suite, "hive", &format!("CutPoints, {PARTS} parts"), 1, 0, &[cutting]));
    measure(options, report, &target, suite, Operation::ObjectList, 1, None).await;
    measure(options, report, &target, suite, Operation::ObjectList, options.clients, None).await;
    let whole = walk(&world.endpoints, 0, None, None).await?;
    report.add(Measurement::new(suite, "hive", "walk, page by page", 1, 0, std::slice::from_ref(&whole.run)));
    if whole.entries != keys {
        return Err(BenchError::World(format!("the walk got {} keys, there are {keys}", whole.entries)));
    }
    let cuts = cuts["keys"].as_array().cloned().unwrap_or_default();
    let parts = walk_in_parts(&world.endpoints, &cuts, keys).await?;
    let text = format!(
        "{suite}: a walk over {keys} keys had {:.0} entries/s; in {} parts at a time {parts:.0} entries/s",
        whole.entries as f64 / whole.run.seconds.max(1e-9),
        cuts.len() + 1,
    );
    say(&text);
    report.note(text);
    Ok(())
}

/// A shard as `DescribeShards` shows it.
struct ShardSeen {
    serving: bool,
    rows: u64,
}

/// All shards of the bucket's map.
async fn shards(client: &Client) -> Result<Vec<ShardSeen>, BenchError> {
    let (mut found, mut token) = (Vec::new(), Value::Null);
    loop {
        let body = json!({"action": "DescribeShards", "bucket": BUCKET, "continuation_token": token});
        let mut page = client.action(body).await.map_err(failed)?;
        let seen = |shard: &Value| ShardSeen {
            serving: shard["state"] == "serving",
            rows: shard["versions"].as_u64().unwrap_or(0),
        };
        found.extend(page["shards"].as_array().into_iter().flatten().map(seen));
        token = page["continuation_token"].take();
        if token.is_null() {
            return Ok(found);
        }
    }
}

/// How many shards there are.
pub async fn count_shards(client: &Client) -> Result<usize, BenchError> {
    shards(client).await.map(|shards| shards.len())
}

/// Clusters of shards, those included that wait to be removed.
async fn count_clusters(client: &Client) -> Result<usize, BenchError> {
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

/// Waits until every shard serves, none has more rows than so many, and what they were made from is removed.
pub async fn settle(world: &World, rows_max: u64) -> Result<usize, BenchError> {
    let (begin, mut told) = (Instant::now(), Instant::now());
    loop {
        let seen = shards(&world.client).await?;
        let busy = seen.iter().filter(|shard| !shard.serving || shard.rows > rows_max).count();
        let clusters = if busy == 0 { count_clusters(&world.client).await? } else { seen.len() };
        if busy == 0 && clusters == seen.len() {
            say(&format!("{} shards at rest after {:.0} s", seen.len(), begin.elapsed().as_secs_f64()));
            return Ok(seen.len());
        }
        let text = format!("{} shards, {busy} too large or on their way, {clusters} clusters", seen.len());
        if begin.elapsed() > SETTLE_TIMEOUT {
            return Err(BenchError::World(format!("shards are not at rest after {SETTLE_TIMEOUT:?}: {text}")));
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            say(&text);
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// The same call again and again, one at a time, and what the last answered.
async fn calls(client: &Client, body: &Value) -> Result<(Run, Value), BenchError> {
    let (mut latency, mut told) = (histogram(), Value::Null);
    let (begin, cpu) = (Instant::now(), cpu_time(std::process::id()).unwrap_or_default());
    for _ in 0..CALLS {
        let start = Instant::now();
        told = client.action(body.clone()).await.map_err(failed)?;
        latency.saturating_record(start.elapsed().as_micros() as u64);
    }
    Ok((run_of(latency, begin, cpu), told))
}

fn run_of(latency: hdrhistogram::Histogram<u64>, begin: Instant, cpu: Duration) -> Run {
    Run {
        operations: latency.len(),
        errors: Default::default(),
        seconds: begin.elapsed().as_secs_f64(),
        latency,
        server_cpu: None,
        client_cpu: cpu_time(std::process::id()).unwrap_or_default().saturating_sub(cpu),
    }
}

/// A walk that was made.
struct Walk {
    entries: u64,
    run: Run,
}

/// What a walk reads of a page. Keys of the benchmark need no escapes, so they are read where they stand.
#[derive(Deserialize)]
struct PageSeen<'p> {
    #[serde(borrow)]
    contents: Vec<EntrySeen<'p>>,
    next_continuation_token: Option<&'p str>,
}

#[derive(Deserialize)]
struct EntrySeen<'p> {
    key: &'p str,
}

/// All keys behind one and up to another, page by page, from the endpoint of this number on.
async fn walk(endpoints: &[String], first: usize, from: Option<&str>, to: Option<&str>) -> Result<Walk, BenchError> {
    let (mut latency, mut entries, mut token) = (histogram(), 0u64, None);
    let (begin, cpu) = (Instant::now(), cpu_time(std::process::id()).unwrap_or_default());
    let mut pages = Pages { endpoints, at: first, stream: None, answer: Vec::new() };
    loop {
        let body = json!({
            "action": "ListObjectsV2", "bucket": BUCKET, "max_keys": 1000, "start_after": from, "continuation_token": token,
        });
        let start = Instant::now();
        let body = pages.ask(&body).await?;
        let page: PageSeen<'_> =
            serde_json::from_slice(body).map_err(|error| BenchError::World(format!("a page: {error}")))?;
        latency.saturating_record(start.elapsed().as_micros() as u64);
        let within = page.contents.iter().filter(|entry| to.is_none_or(|to| entry.key < to)).count();
        entries += within as u64;
        token = page.next_continuation_token.map(str::to_owned);
        if token.is_none() || within < page.contents.len() {
            return Ok(Walk { entries, run: run_of(latency, begin, cpu) });
        }
    }
}

/// Where a walk asks.
struct Pages<'e> {
    endpoints: &'e [String],
    at: usize,
    stream: Option<Wire>,
    answer: Vec<u8>,
}

impl Pages<'_> {
    /// The answer's body. What fails is retried at the next node.
    async fn ask(&mut self, body: &Value) -> Result<&[u8], BenchError> {
        let body = body.to_string();
        let length = body.len();
        let request = format!("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        let mut tries = 0;
        let length = loop {
            if let Some(length) = self.once(request.as_bytes()).await {
                break length;
            }
            tries += 1;
            if tries > PAGE_TRIES_MAX {
                return Err(BenchError::World(format!("a page was refused {tries} times")));
            }
            (self.stream, self.at) = (None, self.at + 1);
            tokio::time::sleep(PAGE_PAUSE).await;
        };
        Ok(&self.answer[self.answer.len() - length..])
    }

    /// Asks once; the length of the body, which is the end of the answer.
    async fn once(&mut self, request: &[u8]) -> Option<usize> {
        if self.stream.is_none() {
            self.stream = wire::connect(&self.endpoints[self.at % self.endpoints.len()]).await;
        }
        let (status, body) = load::exchange(self.stream.as_mut()?, request, &mut self.answer).await.ok()?;
        (status == 200).then_some(body.len())
    }
}

/// Entries a second of several walks at a time, cut evenly by the metadata service.
async fn walk_in_parts(endpoints: &[String], cuts: &[Value], keys: u64) -> Result<f64, BenchError> {
    let cuts: Vec<String> = cuts.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect();
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..=cuts.len() {
        // A cut is the first key of a part; a walk begins behind a key.
        let from = at.checked_sub(1).map(|at| just_before(&cuts[at]));
        let (endpoints, to) = (endpoints.to_vec(), cuts.get(at).cloned());
        tasks.spawn_local(async move { walk(&endpoints, at, from.as_deref(), to.as_deref()).await });
    }
    let mut entries = 0;
    while let Some(done) = tasks.join_next().await {
        let done = done.map_err(|error| BenchError::World(error.to_string()))?;
        entries += done?.entries;
    }
    let seconds = begin.elapsed().as_secs_f64().max(1e-9);
    if entries != keys {
        return Err(BenchError::World(format!("walks in parts were told {entries} keys, there are {keys}")));
    }
    Ok(round(entries as f64 / seconds))
}

/// A text before a key and behind all others of the benchmark that are: its last digit is taken for what is below, and
/// `~` lies behind all digits.
fn just_before(key: &str) -> String {
    let mut before = key.to_owned();
    match before.pop() {
        Some(last) if last > '0' => format!("{before}{}~", char::from(last as u8 - 1)),
        // `/` lies below all digits.
        _ => format!("{before}/~"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_a_key_lies_no_other() {
        for (key, below) in [("bench-000000000042", "bench-000000000041"), ("bench-000000000040", "bench-000000000039")]
        {
            let before = just_before(key);
            assert!(before.as_str() < key && before.as_str() > below, "{before}");
        }
    }

    #[test]
    fn pages_are_read_where_they_stand() {
        let text =
            r#"{"ok":true,"contents":[{"key":"a","size":1},{"key":"b","size":2}],"next_continuation_token":"t"}"#;
        let page: PageSeen<'_> = serde_json::from_str(text).unwrap();
        assert_eq!((page.contents[1].key, page.next_continuation_token), ("b", Some("t")));
        let last: PageSeen<'_> = serde_json::from_str(r#"{"contents":[]}"#).unwrap();
        assert!(last.contents.is_empty() && last.next_continuation_token.is_none());
    }
}

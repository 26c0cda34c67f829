use super::*;
use base_types::s3::S3Action;
use serde_json::Value;

const BOUNDS: [u64; BUCKETS - 1] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000,
];

fn histogram(counts: &[(usize, u64)]) -> Histogram {
    let mut histogram = Histogram::default();
    for (bucket, count) in counts {
        histogram.0[*bucket] += count;
    }
    histogram
}

fn counters(seconds: u64, reads: u64, writes: u64) -> Counters {
    Counters {
        elapsed_ms: seconds * 1_000,
        reads: histogram(&[(3, reads)]),
        writes: histogram(&[(6, writes)]),
        peer_bytes: seconds * 1_000_000,
        cpu_ms: seconds * 250,
        ..Counters::default()
    }
}

fn gauges(seconds: u64) -> Gauges {
    Gauges { unix_ms: 1_000_000 + seconds * 1_000, load: 500, disk: 120, ..Gauges::default() }
}

fn parsed(history: &History, since_ms: u64, now: Counters, at: Gauges) -> Value {
    serde_json::from_str(&history.json(since_ms, now, at)).unwrap()
}

#[test]
fn the_ring_keeps_the_newest_samples() {
    let mut history = History::new(&BOUNDS);
    let count = SAMPLES_MAX as u64 + 50;
    for index in 0..=count {
        history.take(counters(index * 10, index * 100, index * 50), gauges(index * 10));
    }
    assert_eq!(history.samples.len(), SAMPLES_MAX);
    let answer = parsed(&history, 0, counters(count * 10, count * 100, count * 50), gauges(count * 10));
    let samples = answer["samples"].as_array().unwrap();
    assert_eq!(samples.len(), SAMPLES_MAX);
    assert_eq!(samples.last().unwrap()[0], 1_000_000 + count * 10_000);
    assert_eq!(samples[0][0], 1_000_000 + 51 * 10_000);
    assert!(history.json(0, counters(0, 0, 0), gauges(0)).len() < 512 << 10, "an answer stays small");
}

#[test]
fn a_sample_is_what_happened_since_the_one_before() {
    let mut history = History::new(&BOUNDS);
    history.take(counters(0, 1_000, 1_000), gauges(0));
    assert!(parsed(&history, 0, counters(0, 1_000, 1_000), gauges(0))["samples"].as_array().unwrap().is_empty());
    history.take(counters(10, 1_100, 1_050), gauges(10));
    let answer = parsed(&history, 0, counters(12, 1_120, 1_050), gauges(12));
    let fields: Vec<&str> = answer["fields"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let of = |sample: &Value, name: &str| sample[fields.iter().position(|field| *field == name).unwrap()].clone();
    let sample = &answer["samples"][0];
    assert_eq!(sample.as_array().unwrap().len(), fields.len());
    assert_eq!((of(sample, "reads_per_s"), of(sample, "writes_per_s")), (10.0.into(), 5.0.into()));
    // All reads are between 200 and 500 µs, all writes between 2 and 5 ms.
    assert_eq!((of(sample, "read_p50_us"), of(sample, "read_p99_us")), (350.into(), 497.into()));
    assert_eq!((of(sample, "write_p50_us"), of(sample, "write_p99_us")), (3_500.into(), 5_000.into()));
    assert_eq!((of(sample, "process_cpu_permille"), of(sample, "peer_bytes_per_s")), (250.into(), 1_000_000.into()));
    // Two seconds more: 20 reads and no write, whose latency is then 0.
    let live = &answer["live"];
    assert_eq!((of(live, "reads_per_s"), of(live, "writes_per_s")), (10.0.into(), 0.0.into()));
    assert_eq!((of(live, "write_p99_us"), of(live, "load_permille")), (0.into(), 500.into()));
    let newer = parsed(&history, 1_010_000, counters(10, 1_100, 1_050), gauges(10));
    assert!(newer["samples"].as_array().unwrap().is_empty() && newer["live"].is_null());
}

#[test]
fn quantiles_survive_extremes() {
    assert_eq!(Histogram::default().quantile_us(990, &BOUNDS), 0);
    assert_eq!(histogram(&[(BUCKETS - 1, 3)]).quantile_us(500, &BOUNDS), 5_000_000);
    assert_eq!(histogram(&[(0, u64::MAX), (1, u64::MAX)]).quantile_us(990, &BOUNDS), 49);
    assert_eq!(histogram(&[(0, 1)]).quantile_us(500, &BOUNDS), 50);
    assert_eq!(histogram(&[(0, 99), (7, 1)]).quantile_us(990, &BOUNDS), 50);
    assert_eq!(histogram(&[(0, 98), (7, 2)]).quantile_us(990, &BOUNDS), 7_500);
}

#[test]
fn named_actions_exist() {
    let known =
        |name: &str| door_http::ACTIONS.iter().any(|(action, _)| *action == name) || S3Action::NAMES.contains(&name);
    for name in READS.iter().chain(WRITES).chain(MIXED).filter(|name| **name != "RedisCall") {
        assert!(known(name), "{name} is no action");
    }
    assert_eq!((group("KvGet"), group("PutObject"), group("Redis")), (Group::Read, Group::Write, Group::Mixed));
    assert_eq!(group("ListNodes"), Group::Other);
}

#[test]
fn the_ring_stays_small() {
    assert!(
        std::mem::size_of::<Sample>() * SAMPLES_MAX <= 256 << 10,
        "{} bytes a sample",
        std::mem::size_of::<Sample>()
    );
}

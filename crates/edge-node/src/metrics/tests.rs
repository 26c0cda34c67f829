//! The names of all metrics: `UPDATE_GOLDEN=1 cargo test -p edge-node --lib metrics` writes `testdata/metrics.txt` again.

use super::*;
use crate::counters;
use crate::testing::{healthy, node_info};
use base_types::action::QuorumInfo;
use base_types::NodeId;
use core_cluster::api::LaneStatistics;
use core_node::{ReshardCounters, RouterStatistics};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Words of the names that 0.1 had, and units that are not base units.
const FORBIDDEN: &[&str] =
    &["ms", "us", "kib", "mib", "max", "min", "vain", "frozen", "narrowed", "carried", "quiesced", "lost", "tail_lag"];

/// A gauge that is no plain number names its unit last.
const UNITS: &[&str] = &["seconds", "bytes"];

fn certificates() -> Vec<CertificateState> {
    let of = |door| CertificateState { door, begins: 0, expires: 1, problem: None };
    vec![of("peer"), of("client")]
}

/// One call of one method, as a client makes it.
fn etcd() -> door_etcd::Metrics {
    let metrics = door_etcd::Metrics::default();
    metrics.count_for_tests("/etcdserverpb.KV/Range");
    metrics
}

/// One command, as a client sends it.
fn redis() -> door_redis::Metrics {
    let metrics = door_redis::Metrics::default();
    metrics.count_for_tests("get");
    metrics
}

/// One answer to an S3 client.
fn s3() -> door_s3::Metrics {
    let metrics = door_s3::Metrics::default();
    metrics.count_for_tests("get_object", 200);
    metrics.count_for_tests("get_object", 404);
    metrics
}

/// A page on which each metric has at least one sample.
fn whole_page() -> String {
    let mut report = LaneReport::default();
    counters::lane(&LaneStatistics::default(), &mut report.metrics);
    counters::router(&RouterStatistics::default(), &mut report.metrics);
    counters::reshards(&ReshardCounters::default(), &mut report.metrics);
    report.requests.push(("KvPut", Latency::default()));
    report.busiest.extend((0..30).map(busy));
    let mut status = healthy("dev".into(), NodeId(1));
    status.quorum.push(QuorumInfo { cluster: "metadata@a".parse().unwrap(), answers: true });
    status.certificate_expires_ms = 1;
    let health = Health { status, nodes: vec![node_info(1)], unix_ms: 0 };
    text(
        &[Arc::new(Mutex::new(report))],
        Host { room: &Room::new(8, 1 << 20), data: Path::new("/"), drained: false },
        certificates(),
        Some(Duration::ZERO),
        Doors { s3: Some(&s3()), etcd: Some(&etcd()), redis: Some(&redis()) },
        Some(health),
    )
}

fn busy(recent: u64) -> BusyCluster {
    BusyCluster { name: format!("redis@c-{recent}").parse().unwrap(), entries: 1_000 + recent, recent }
}

#[test]
fn only_the_busiest_clusters_are_named() {
    let page = whole_page();
    let named: Vec<&str> = page.lines().filter(|line| line.starts_with("hive_cluster_log_entries_total{")).collect();
    assert_eq!(named.len(), BUSIEST_SHOWN);
    assert_eq!(named[0], "hive_cluster_log_entries_total{cluster=\"redis@c-29\"} 1029");
}

struct Family<'a> {
    name: &'a str,
    kind: &'a str,
    help: &'a str,
    labels: BTreeSet<String>,
}

fn families(page: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            families.push(Family { name, kind: "", help, labels: BTreeSet::new() });
        } else if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            families.last_mut().unwrap().kind = kind;
        } else if let Some((sample, rest)) = line.split_once('{') {
            let family = families.last_mut().unwrap();
            assert!(sample.starts_with(family.name), "{line} under {}", family.name);
            let labels = rest.split_once('}').unwrap().0.split(',').filter_map(|label| label.split_once('='));
            let fixed = |key: &str| ["door", "kind", "target", "blocked"].contains(&key);
            let shown =
                |(key, value): (&str, &str)| if fixed(key) { format!("{key}={value}") } else { key.to_string() };
            family.labels.extend(labels.filter(|(key, _)| *key != "le").map(shown));
        }
    }
    families
}

#[test]
fn metric_names_follow_prometheus() {
    let page = whole_page();
    let mut seen = BTreeSet::new();
    for Family { name, kind, help, .. } in families(&page) {
        let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        assert!(name.starts_with("hive_") && plain, "{name}");
        assert!(seen.insert(name), "{name} has two descriptors");
        let words: Vec<&str> = name.split('_').collect();
        for forbidden in FORBIDDEN {
            assert!(!format!("_{name}_").contains(&format!("_{forbidden}_")), "{name}: \"{forbidden}\"");
        }
        for unit in UNITS {
            let inside = words[..words.len() - 1].iter().any(|word| word == unit);
            assert!(!inside, "{name}: the unit is the last word before _total");
        }
        assert!(!name.ends_with("_total"), "{name}: the encoder adds _total to counters, and gauges have none");
        if kind == "counter" {
            assert!(page.contains(&format!("\n{name}_total")), "{name} is a counter without _total");
        }
        if kind == "histogram" {
            assert!(name.ends_with("_seconds"), "{name}: a histogram of durations is in seconds");
        }
        let capital =
            help.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit()) || help.starts_with("hive ");
        assert!(capital && help.ends_with('.') && help.len() > 10, "{name}: help \"{help}\" is no sentence");
    }
}

#[test]
fn metric_names_are_those_of_the_golden_list() {
    let mut found = String::new();
    for Family { name, kind, labels, .. } in families(&whole_page()) {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let total = if kind == "counter" { "_total" } else { "" };
        found += format!("{kind:9} {name}{total} {}", labels.join(" ")).trim_end();
        found.push('\n');
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/metrics.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(golden, found, "if a metric is meant to change, note it in CHANGELOG.md and set UPDATE_GOLDEN=1");
}

#[test]
fn lanes_have_labels_and_histograms_add_up() {
    let mut report = LaneReport::default();
    let metric = |name, label, value| Metric { name, help: "Text.", label, value };
    report.metrics.push(metric("log_batches", None, Value::Counter(7)));
    report.metrics.push(metric("reads", Some(("kind", "lease")), Value::Counter(3)));
    report.metrics.push(metric("reads", Some(("kind", "index")), Value::Counter(4)));
    report.metrics.push(metric("archive_lag_seconds", None, Value::SecondsGauge(1.5)));
    let mut blocked = BlockedHistogram::default();
    blocked.record(Duration::from_millis(20));
    blocked.record(Duration::from_millis(60));
    report.metrics.push(metric("s3_cutover_blocked_seconds", None, Value::Blocked(blocked)));
    report.log_sync.record(Duration::from_micros(70));
    report.log_sync.record(Duration::from_secs(9));
    report.requests.push(("KvPut", report.log_sync.clone()));
    let reports = vec![Arc::new(Mutex::new(report)), Arc::new(Mutex::new(LaneReport::default()))];
    let room = Room::new(8, 1 << 20);
    let _held: Vec<_> = (0..5).map(|_| room.http.admit([127, 0, 0, 1].into())).collect();
    let text = text(
        &reports,
        Host { room: &room, data: Path::new("/"), drained: true },
        Vec::new(),
        None,
        Doors { s3: Some(&s3()), ..Doors::default() },
        None,
    );
    for line in [
        "hive_log_batches_total{lane=\"0\"} 7",
        "hive_reads_total{lane=\"0\",kind=\"index\"} 4",
        "hive_archive_lag_seconds{lane=\"0\"} 1.5",
        "hive_s3_cutover_blocked_seconds_bucket{le=\"0.02\",lane=\"0\"} 1",
        "hive_s3_cutover_blocked_seconds_bucket{le=\"0.1\",lane=\"0\"} 2",
        "hive_s3_cutover_blocked_seconds_sum{lane=\"0\"} 0.08",
        "hive_client_connections{door=\"http\"} 5",
        "hive_log_sync_seconds_bucket{le=\"0.0001\",lane=\"0\"} 1",
        "hive_log_sync_seconds_bucket{le=\"+Inf\",lane=\"0\"} 2",
        "hive_request_seconds_count{action=\"KvPut\",lane=\"0\"} 2",
        "hive_health_answered 0.0",
        "hive_s3_requests_total{operation=\"GetObject\",code=\"404\"} 1",
        "hive_s3_request_seconds_count{operation=\"GetObject\"} 2",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} not in\n{text}");
    }
    assert!(text.contains("hive_process_cpu_seconds_total"));
}

use super::*;
use crate::measure::histogram;
use std::time::Duration;

fn options() -> Options {
    Options {
        program: "hive".into(),
        endpoints: Vec::new(),
        tls: None,
        ready_file: None,
        clients: 4,
        duration: Duration::from_secs(1),
        operations: None,
        value_bytes: 2048,
        keys: 10,
        runs: 2,
        out: "out".into(),
        nodes: 5,
        engines: Vec::new(),
        cores: Vec::new(),
        base_port: 17000,
        order: crate::Order::Growing,
        split_keys: None,
        load_percent: 70,
        shards: vec![1],
        minutes: 60,
        seed: 1,
        rate: 100,
        beside: None,
        memory_mib: 64,
        dev_arguments: Vec::new(),
        version: "0.1.0".into(),
    }
}

fn sample() -> Report {
    let mut latency = histogram();
    (1..=100).for_each(|micros| latency.record(micros * 100).unwrap());
    let errors = BTreeMap::from([("503 <NoLeader>".to_owned(), 2)]);
    let run =
        Run { operations: 100, errors, seconds: 0.5, latency, server_cpu: None, client_cpu: Duration::from_millis(1) };
    let mut report = Report::new("all", &options());
    report.add(Measurement::new("kv-put", "hive", "put strong", 4, 2048, &[run.clone(), run]));
    report.failovers.push(Failover {
        leader: 2,
        gap_ms: 700.5,
        writes: 10,
        errors: BTreeMap::new(),
        killed_at_s: 0.1,
        timeline: vec![3, 0, 4],
        column_s: 0.05,
    });
    report
}

#[test]
fn the_report_is_written_whole() {
    let directory = tempfile::tempdir().unwrap();
    sample().write(directory.path()).unwrap();
    let json: Value = serde_json::from_slice(&std::fs::read(directory.path().join("report.json")).unwrap()).unwrap();
    assert_eq!(json["measurements"][0]["mean"]["rate"], 200.0);
    assert_eq!(json["measurements"][0]["errors"], 4);
    assert_eq!(json["longest_gap_ms"], 700.5);
    let html = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("700.5") && html.contains("&lt;NoLeader&gt;"));
    assert!(!html.contains("<NoLeader>"));
}

#[test]
fn the_text_names_every_measurement() {
    let text = sample().text();
    assert!(text.contains("put strong") && text.contains("longest gap 700.5 ms"), "{text}");
}

#[test]
fn dates_are_iso() {
    assert_eq!(iso(0), "1970-01-01T00:00:00Z");
    assert_eq!(iso(951_827_696), "2000-02-29T12:34:56Z");
    assert_eq!(iso(1_795_219_200), "2026-11-21T00:00:00Z");
}

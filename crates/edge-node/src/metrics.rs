//! `/metrics`: what all lanes laid out, as OpenMetrics text.
//!
//! Always: counters are what lanes left behind (at most a second old), so a lane that hangs can be seen; health is what the
//! node answers now, and `health_answered` is 0 where it does not. Not here: what the numbers mean inside the core (core-node names them).

use crate::clients::Room;
use crate::lane::latency::{Latency, BOUNDS_US};
use crate::lane::LaneReport;
use base_types::action::{NodeInfo, StatusInfo};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt::Error;
use std::sync::{Arc, Mutex};

/// Of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text.
pub fn text(reports: &[Arc<Mutex<LaneReport>>], room: &Room, health: Option<Health>) -> String {
    let lanes = reports.iter().map(|report| report.lock().map(|report| report.clone()).unwrap_or_default()).collect();
    let mut registry = Registry::with_prefix("hive");
    registry.register_collector(Box::new(Snapshot {
        lanes,
        room: room.clone(),
        process: crate::monitor::process_usage(),
        health,
    }));
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut out, &registry);
    out
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessUsage {
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    pub open_files: u64,
}

/// What the node answered when it was asked for this page.
#[derive(Debug, Clone)]
pub struct Health {
    pub status: StatusInfo,
    pub nodes: Vec<NodeInfo>,
    /// Of this machine's wall clock.
    pub unix_ms: u64,
}

struct Snapshot {
    lanes: Vec<LaneReport>,
    health: Option<Health>,
    room: Room,
    process: ProcessUsage,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "snapshot of {} lanes", self.lanes.len())
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        self.process(&mut encoder)?;
        self.core(&mut encoder)?;
        self.host(&mut encoder)?;
        self.health(&mut encoder)?;
        self.latencies(&mut encoder)
    }
}

impl Snapshot {
    fn process(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        encoder
            .encode_descriptor("process_cpu_seconds", "CPU time of this process", None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(&self.process.cpu_seconds, None)?;
        let gauges = [
            ("process_resident_bytes", "memory of this process", self.process.resident_bytes),
            ("process_open_files", "open descriptors of this process", self.process.open_files),
            ("http_connections", "clients' connections at the JSON door", self.room.http.open() as u64),
            ("s3_connections", "clients' connections at the S3 door", self.room.s3.open() as u64),
            ("operator_connections", "connections kept for operators, in use", self.room.operators.open() as u64),
            ("unfinished_bytes", "bytes of requests that are not whole yet", self.room.unfinished.held() as u64),
        ];
        for (name, help, value) in gauges {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&(value as i64))?;
        }
        Ok(())
    }

    fn health(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let mut gauge = |name, help, value: f64| {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
        };
        let number = |yes: bool| f64::from(u8::from(yes));
        gauge("health_answered", "whether this node told its health in time", number(self.health.is_some()))?;
        let Some(Health { status, nodes, unix_ms }) = &self.health else { return Ok(()) };
        gauge("ready", "whether this node can do any of its work", number(status.ready))?;
        gauge("not_ready_reasons", "reasons why it cannot", status.not_ready.len() as f64)?;
        gauge("degraded_reasons", "reasons why it cannot do all of its work", status.degraded.len() as f64)?;
        gauge("nodes", "nodes of the node map", f64::from(status.nodes_total))?;
        gauge("nodes_up", "nodes of the node map that are up", f64::from(status.nodes_up))?;
        let help = "how long a log write has been under way, or took last, the longest of all lanes";
        gauge("log_write_wait_seconds", help, f64::from(status.log_write_ms) / 1e3)?;
        if status.certificate_expires_ms > 0 {
            let left = status.certificate_expires_ms as f64 / 1e3 - *unix_ms as f64 / 1e3;
            gauge("certificate_expiry_seconds", "until this node's certificate expires; negative: since it did", left)?;
        }
        let help = "whether a cluster known by configuration answers strong reads";
        let mut metric = encoder.encode_descriptor("quorum", help, None, MetricType::Gauge)?;
        for quorum in &status.quorum {
            let labels = [("cluster", quorum.cluster.to_string())];
            metric.encode_family(&labels)?.encode_gauge(&number(quorum.answers))?;
        }
        let help = "whether a node is up, as this node sees it";
        let mut metric = encoder.encode_descriptor("node_up", help, None, MetricType::Gauge)?;
        for node in nodes {
            let labels = [("node", node.node.to_string())];
            metric.encode_family(&labels)?.encode_gauge(&number(node.up))?;
        }
        Ok(())
    }

    /// Every machine of this build names the same counters in the same order, so the first lane's names serve for all.
    fn core(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let Some(named) = self.lanes.iter().map(|lane| &lane.counters).max_by_key(|counters| counters.len()) else {
            return Ok(());
        };
        for counter in named {
            let kind = if counter.gauge { MetricType::Gauge } else { MetricType::Counter };
            let mut metric = encoder.encode_descriptor(counter.name, counter.help, None, kind)?;
            for (lane, report) in self.lanes.iter().enumerate() {
                let Some(found) = report.counters.iter().find(|found| found.name == counter.name) else { continue };
                encode_lane(&mut metric, lane, counter.gauge, found.value)?;
            }
        }
        Ok(())
    }

    fn host(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        type Read = fn(&LaneReport) -> u64;
        let rows: [(&str, &str, bool, Read); 6] = [
            ("turns", "turns of the lane", false, |lane| lane.turns),
            ("turn_events", "events of all turns", false, |lane| lane.turn_events),
            ("requests_waiting", "client requests in hand", true, |lane| lane.requests_waiting),
            ("peer_sent_bytes", "bytes sent to peers", false, |lane| lane.peer_bytes_sent),
            ("peer_sent_frames", "frames sent to peers", false, |lane| lane.peer_frames_sent),
            ("peer_dropped_frames", "frames dropped: no connection, or a full queue", false, |lane| {
                lane.peer_frames_dropped
            }),
        ];
        for (name, help, gauge, read) in rows {
            let kind = if gauge { MetricType::Gauge } else { MetricType::Counter };
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for (lane, report) in self.lanes.iter().enumerate() {
                encode_lane(&mut metric, lane, gauge, read(report))?;
            }
        }
        Ok(())
    }

    fn latencies(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let help = "time from a log write's start to its end on disk";
        let mut metric = encoder.encode_descriptor("log_sync_seconds", help, None, MetricType::Histogram)?;
        for (lane, report) in self.lanes.iter().enumerate() {
            encode_latency(&mut metric.encode_family(&[("lane", lane.to_string())])?, &report.log_sync)?;
        }
        let help = "time from a request to its answer, by action";
        let mut metric = encoder.encode_descriptor("request_seconds", help, None, MetricType::Histogram)?;
        for (lane, report) in self.lanes.iter().enumerate() {
            for (action, latency) in &report.requests {
                let labels = [("action", (*action).to_string()), ("lane", lane.to_string())];
                encode_latency(&mut metric.encode_family(&labels)?, latency)?;
            }
        }
        Ok(())
    }
}

fn encode_lane(metric: &mut MetricEncoder, lane: usize, gauge: bool, value: u64) -> Result<(), Error> {
    let labels = [("lane", lane.to_string())];
    let mut member = metric.encode_family(&labels)?;
    if gauge {
        member.encode_gauge(&(value as i64))
    } else {
        member.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }
}

fn encode_latency(metric: &mut MetricEncoder, latency: &Latency) -> Result<(), Error> {
    let bounds = BOUNDS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(latency.buckets).collect();
    metric.encode_histogram::<NoLabelSet>(latency.sum_us as f64 / 1e6, latency.count(), &buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Counter;
    use std::time::Duration;

    #[test]
    fn lanes_are_told_apart_and_histograms_add_up() {
        let mut report = LaneReport::default();
        report.counters.push(Counter { name: "log_batches", help: "batches", gauge: false, value: 7 });
        report.counters.push(Counter { name: "replicas", help: "replicas", gauge: true, value: 3 });
        report.log_sync.record(Duration::from_micros(70));
        report.log_sync.record(Duration::from_secs(9));
        report.requests.push(("KvPut", report.log_sync.clone()));
        let reports = vec![Arc::new(Mutex::new(report)), Arc::new(Mutex::new(LaneReport::default()))];
        let room = Room::new(8, 1 << 20);
        let _held: Vec<_> = (0..5).map(|_| room.http.admit([127, 0, 0, 1].into())).collect();
        let text = text(&reports, &room, None);
        for line in [
            "hive_log_batches_total{lane=\"0\"} 7",
            "hive_replicas{lane=\"0\"} 3",
            "hive_http_connections 5",
            "hive_log_sync_seconds_bucket{le=\"0.0001\",lane=\"0\"} 1",
            "hive_log_sync_seconds_bucket{le=\"+Inf\",lane=\"0\"} 2",
            "hive_request_seconds_count{action=\"KvPut\",lane=\"0\"} 2",
            "hive_health_answered 0.0",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} not in\n{text}");
        }
        assert!(text.contains("hive_process_cpu_seconds_total"));
    }
}

//! `/metrics`: the lanes' reports as OpenMetrics text.
//!
//! By design: counters are those of the lanes' last reports (at most a second old), so a lane that hangs can be seen; health is
//! what the node answers now, and `health_answered` is 0 where it does not. Every name and label stands in
//! `testdata/metrics.txt`. Not here: the core's own numbers (counters.rs).

use crate::clients::Room;
use crate::lane::latency::{Latency, BOUNDS_US};
use crate::lane::{LaneReport, BUSIEST_SHOWN};
use crate::machine::{Metric, Value};
use crate::monitor::{disk_space, process_usage, DiskSpace, ProcessUsage};
use crate::tls::CertificateState;
use base_types::action::{NodeInfo, StatusInfo};
use base_types::format_level::{BUILD_VERSION, LEVEL_MAX};
use core_cluster::api::BusyCluster;
use core_node::BlockedHistogram;
use door_etcd::metrics::{MethodCounts, BUCKETS_US as ETCD_BUCKETS_US};
use door_redis::metrics::{CommandCounts, BUCKETS_US as REDIS_BUCKETS_US};
use door_s3::metrics::BUCKETS_US as S3_BUCKETS_US;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt::Error;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text.
pub fn text(
    reports: &[Arc<Mutex<LaneReport>>],
    host: Host<'_>,
    certificates: Vec<CertificateState>,
    directory_age: Option<Duration>,
    doors: Doors<'_>,
    health: Option<Health>,
) -> String {
    let lanes = reports.iter().map(|report| report.lock().map(|report| report.clone()).unwrap_or_default()).collect();
    let mut registry = Registry::with_prefix("hive");
    registry.register_collector(Box::new(Snapshot {
        lanes,
        room: host.room.clone(),
        disk: disk_space(host.data),
        drained: host.drained,
        certificates,
        directory_age,
        etcd: doors.etcd.map(|etcd| (etcd.counts(), etcd.refused())),
        redis: doors.redis.map(|redis| (redis.counts(), redis.connections())),
        s3: doors.s3.map(door_s3::Metrics::counts),
        process: process_usage(),
        health,
    }));
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut out, &registry);
    out
}

/// What is asked for while the page is made.
#[derive(Clone, Copy)]
pub struct Host<'h> {
    pub room: &'h Room,
    /// The data directory, whose disk is looked at.
    pub data: &'h Path,
    /// Whether an operator drained the node.
    pub drained: bool,
}

/// What doors have counted, where there are such.
#[derive(Clone, Copy, Default)]
pub struct Doors<'d> {
    pub s3: Option<&'d door_s3::Metrics>,
    pub etcd: Option<&'d door_etcd::Metrics>,
    pub redis: Option<&'d door_redis::Metrics>,
}

/// What the node answered for this page.
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
    disk: DiskSpace,
    drained: bool,
    certificates: Vec<CertificateState>,
    directory_age: Option<Duration>,
    /// By operation and status.
    s3: Option<Vec<(&'static str, u16, door_s3::metrics::Counts)>>,
    /// Of every method, and how many were refused because too many were under way.
    etcd: Option<(Vec<MethodCounts>, u64)>,
    /// Of every command, and connections that were accepted.
    redis: Option<(Vec<CommandCounts>, u64)>,
    process: ProcessUsage,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "snapshot of {} lanes", self.lanes.len())
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        self.build(&mut encoder)?;
        self.process(&mut encoder)?;
        self.disk(&mut encoder)?;
        self.certificates(&mut encoder)?;
        self.directory(&mut encoder)?;
        self.core(&mut encoder)?;
        self.host(&mut encoder)?;
        self.health(&mut encoder)?;
        self.s3(&mut encoder)?;
        self.etcd(&mut encoder)?;
        self.redis(&mut encoder)?;
        self.latencies(&mut encoder)?;
        self.busiest(&mut encoder)
    }
}

impl Snapshot {
    fn build(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let help = "1, with the version of this program and the greatest format level that it serves as labels.";
        let labels = [("version", BUILD_VERSION.to_string()), ("format_level", LEVEL_MAX.0.to_string())];
        let mut metric = encoder.encode_descriptor("build_info", help, None, MetricType::Gauge)?;
        metric.encode_family(&labels)?.encode_gauge(&1i64)
    }

    /// Nothing where the disk cannot be looked at.
    fn disk(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        if self.disk.all == 0 {
            return Ok(());
        }
        let gauges = [
            ("disk_size_bytes", "Size of the disk of the data directory.", self.disk.all),
            (
                "disk_free_bytes",
                "Room on the disk of the data directory. Below limits.disk_free_bytes_min clients' writes are refused.",
                self.disk.free,
            ),
        ];
        for (name, help, value) in gauges {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&(value as i64))?;
        }
        Ok(())
    }

    /// Operations that nobody has asked for yet have no samples.
    fn s3(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let Some(rows) = &self.s3 else { return Ok(()) };
        let help = "Requests of S3 clients that were answered, by operation and HTTP status.";
        let mut metric = encoder.encode_descriptor("s3_requests", help, None, MetricType::Counter)?;
        for (operation, status, counts) in rows {
            let labels = [("operation", pascal(operation)), ("code", status.to_string())];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&counts.requests(), None)?;
        }
        let help = "Time from a request of an S3 client to the head of its answer, by operation.";
        let mut metric = encoder.encode_descriptor("s3_request_seconds", help, None, MetricType::Histogram)?;
        for of_one in rows.chunk_by(|one, next| one.0 == next.0) {
            let sum = |bucket: usize| of_one.iter().map(|(_, _, counts)| counts.buckets[bucket]).sum::<u64>();
            let buckets: [u64; S3_BUCKETS_US.len() + 1] = std::array::from_fn(sum);
            let total_us = of_one.iter().map(|(_, _, counts)| counts.total_us).sum();
            encode_histogram(
                &mut metric.encode_family(&[("operation", pascal(of_one[0].0))])?,
                &S3_BUCKETS_US,
                &buckets,
                total_us,
            )?;
        }
        Ok(())
    }

    fn process(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        encoder
            .encode_descriptor("process_cpu_seconds", "CPU time of this process.", None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(&self.process.cpu_seconds, None)?;
        let gauges = [
            ("process_resident_bytes", "Resident memory of this process.", self.process.resident_bytes),
            ("process_open_files", "Open file descriptors of this process.", self.process.open_files),
            (
                "unfinished_request_bytes",
                "Bytes of requests that have not arrived whole; limits.unfinished_bytes_max bounds them.",
                self.room.unfinished.held() as u64,
            ),
        ];
        for (name, help, value) in gauges {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&(value as i64))?;
        }
        let help = "Open connections of clients, by door; operator: those kept free for operators. limits.connections_max bounds each.";
        let mut metric = encoder.encode_descriptor("client_connections", help, None, MetricType::Gauge)?;
        let room = &self.room;
        let doors = [
            ("http", room.http.open()),
            ("s3", room.s3.open()),
            ("etcd", room.etcd.open()),
            ("redis", room.redis.open()),
            ("operator", room.operators.open()),
        ];
        for (door, open) in doors {
            metric.encode_family(&[("door", door)])?.encode_gauge(&(open as i64))?;
        }
        Ok(())
    }

    fn certificates(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let help =
            "When the certificate of a door expires, seconds since 1970; door: client or peer. Replace it in time.";
        let mut metric =
            encoder.encode_descriptor("certificate_expiry_timestamp_seconds", help, None, MetricType::Gauge)?;
        for state in &self.certificates {
            metric.encode_family(&[("door", state.door)])?.encode_gauge(&state.expires)?;
        }
        let help =
            "1 if changed certificate files of a door do not fit and the ones before are in use; /ready says why.";
        let mut metric = encoder.encode_descriptor("certificate_reload_failed", help, None, MetricType::Gauge)?;
        for state in &self.certificates {
            metric.encode_family(&[("door", state.door)])?.encode_gauge(&i64::from(state.problem.is_some()))?;
        }
        Ok(())
    }

    fn directory(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let Some(age) = self.directory_age else { return Ok(()) };
        let help = "Time since this node knew that its copy of the directory of users is the newest. If it grows, revoked tokens still count here.";
        encoder
            .encode_descriptor("access_directory_age_seconds", help, None, MetricType::Gauge)?
            .encode_gauge(&age.as_secs_f64())
    }

    fn health(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let mut gauge = |name, help, value: f64| {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
        };
        let number = |yes: bool| f64::from(u8::from(yes));
        let help = "1 if this node reported its health in time. If it is 0, the node hangs or is overloaded.";
        gauge("health_answered", help, number(self.health.is_some()))?;
        let help = "1 while an operator drains this node (hive ctl node drain): it leads nothing that others can lead.";
        gauge("node_drained", help, number(self.drained))?;
        let Some(Health { status, nodes, unix_ms }) = &self.health else { return Ok(()) };
        gauge("ready", "1 if this node can do any of its work.", number(status.ready))?;
        let help = "Reasons why it cannot; hive ctl status prints them.";
        gauge("not_ready_reasons", help, status.not_ready.len() as f64)?;
        let help = "Reasons why this node cannot do all of its work; hive ctl status prints them.";
        gauge("degraded_reasons", help, status.degraded.len() as f64)?;
        gauge("nodes", "Nodes of the node map.", f64::from(status.nodes_total))?;
        gauge("nodes_up", "Nodes of the node map that are up.", f64::from(status.nodes_up))?;
        let help = "Time of the current log write, or of the last one, the longest of all lanes. If it is high, check the disk.";
        gauge("log_write_wait_seconds", help, f64::from(status.log_write_ms) / 1e3)?;
        if status.certificate_expires_ms > 0 {
            let left = status.certificate_expires_ms as f64 / 1e3 - *unix_ms as f64 / 1e3;
            let help = "Time until this node's certificate expires, negative after that. Replace it in time.";
            gauge("certificate_expiry_seconds", help, left)?;
        }
        let help =
            "1 if a cluster that is known by configuration answers strong reads. If it is 0, bring its members up.";
        let mut metric = encoder.encode_descriptor("quorum", help, None, MetricType::Gauge)?;
        for quorum in &status.quorum {
            let labels = [("cluster", quorum.cluster.to_string())];
            metric.encode_family(&labels)?.encode_gauge(&number(quorum.answers))?;
        }
        let help = "1 if a node is up, as this node sees it.";
        let mut metric = encoder.encode_descriptor("node_up", help, None, MetricType::Gauge)?;
        for node in nodes {
            let labels = [("node", node.node.to_string())];
            metric.encode_family(&labels)?.encode_gauge(&number(node.up))?;
        }
        Ok(())
    }

    /// Methods that nobody has called yet have no samples.
    fn etcd(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let Some((methods, refused)) = &self.etcd else { return Ok(()) };
        let ended = |method: &MethodCounts| method.codes.iter().sum::<u64>();
        let called: Vec<(&str, &MethodCounts)> = methods
            .iter()
            .filter(|method| method.open > 0 || ended(method) > 0)
            .map(|method| (method.path.trim_start_matches('/'), method))
            .collect();
        let help = "Calls of etcd's clients that ended, by method and gRPC code.";
        let mut metric = encoder.encode_descriptor("etcd_requests", help, None, MetricType::Counter)?;
        for (method, counts) in &called {
            for (code, count) in counts.codes.iter().enumerate().filter(|(_, count)| **count > 0) {
                let labels = [("method", (*method).to_string()), ("code", code.to_string())];
                metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(count, None)?;
            }
        }
        let help = "Calls and streams of etcd's clients under way, by method.";
        let mut metric = encoder.encode_descriptor("etcd_requests_open", help, None, MetricType::Gauge)?;
        for (method, counts) in &called {
            metric.encode_family(&[("method", *method)])?.encode_gauge(&(counts.open as i64))?;
        }
        let help = "Time from a call of an etcd client to its answer, by method; streams are left out.";
        let mut metric = encoder.encode_descriptor("etcd_request_seconds", help, None, MetricType::Histogram)?;
        for (method, counts) in &called {
            encode_histogram(
                &mut metric.encode_family(&[("method", *method)])?,
                &ETCD_BUCKETS_US,
                &counts.buckets,
                counts.total_us,
            )?;
        }
        let help = "Calls of etcd's clients that were refused because too many were under way.";
        encoder
            .encode_descriptor("etcd_requests_refused", help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(refused, None)
    }

    /// Commands that nobody has sent yet have no samples.
    fn redis(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let Some((commands, connections)) = &self.redis else { return Ok(()) };
        let help = "Commands of Redis clients that were answered, by command.";
        let mut metric = encoder.encode_descriptor("redis_commands", help, None, MetricType::Counter)?;
        for counts in commands {
            metric
                .encode_family(&[("command", counts.name)])?
                .encode_counter::<NoLabelSet, _, u64>(&counts.calls, None)?;
        }
        let help = "Commands of Redis clients that were answered with an error, by command.";
        let mut metric = encoder.encode_descriptor("redis_command_errors", help, None, MetricType::Counter)?;
        for counts in commands {
            metric
                .encode_family(&[("command", counts.name)])?
                .encode_counter::<NoLabelSet, _, u64>(&counts.errors, None)?;
        }
        let help = "Time from a command of a Redis client to its answer, by command; waiting for a key is in it.";
        let mut metric = encoder.encode_descriptor("redis_command_seconds", help, None, MetricType::Histogram)?;
        for counts in commands {
            encode_histogram(
                &mut metric.encode_family(&[("command", counts.name)])?,
                &REDIS_BUCKETS_US,
                &counts.buckets,
                counts.total_us,
            )?;
        }
        let help = "Connections of Redis clients that were accepted since the node started.";
        encoder
            .encode_descriptor("redis_connections_accepted", help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(connections, None)
    }

    /// Every machine of this build has the same metrics in the same order, so the longest list of a lane serves for all.
    fn core(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let Some(named) = self.lanes.iter().map(|lane| &lane.metrics).max_by_key(|metrics| metrics.len()) else {
            return Ok(());
        };
        for family in named.chunk_by(|one, next| one.name == next.name) {
            let first = &family[0];
            let mut metric = encoder.encode_descriptor(first.name, first.help, None, kind(&first.value))?;
            for member in family {
                for (lane, report) in self.lanes.iter().enumerate() {
                    let is_it = |found: &&Metric| found.name == member.name && found.label == member.label;
                    let Some(found) = report.metrics.iter().find(is_it) else { continue };
                    let labels: Vec<(&str, String)> = [("lane", lane.to_string())]
                        .into_iter()
                        .chain(found.label.map(|(key, value)| (key, value.to_string())))
                        .collect();
                    encode_value(&mut metric.encode_family(&labels)?, &found.value)?;
                }
            }
        }
        Ok(())
    }

    fn host(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        type Read = fn(&LaneReport) -> Value;
        let rows: [(&str, &str, Read); 6] = [
            ("turns", "Turns of the lane: passes over all events that wait.", |lane| Value::Counter(lane.turns)),
            ("turn_events", "Events handled in all turns.", |lane| Value::Counter(lane.turn_events)),
            ("requests_waiting", "Requests of clients under way. If it stays high, the node is overloaded.", |lane| {
                Value::Gauge(lane.requests_waiting)
            }),
            ("peer_sent_bytes", "Bytes sent to peers.", |lane| Value::Counter(lane.peer_bytes_sent)),
            ("peer_sent_frames", "Frames sent to peers.", |lane| Value::Counter(lane.peer_frames_sent)),
            (
                "peer_dropped_frames",
                "Frames not sent because a peer was not connected or its queue was full. If it grows, check the network.",
                |lane| Value::Counter(lane.peer_frames_dropped),
            ),
        ];
        for (name, help, read) in rows {
            let values: Vec<Value> = self.lanes.iter().map(read).collect();
            let Some(first) = values.first() else { continue };
            let mut metric = encoder.encode_descriptor(name, help, None, kind(first))?;
            for (lane, value) in values.iter().enumerate() {
                encode_value(&mut metric.encode_family(&[("lane", lane.to_string())])?, value)?;
            }
        }
        Ok(())
    }

    /// Only the busiest, so that a node with a hundred thousand clusters has as many series as one with ten.
    fn busiest(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let mut busiest: Vec<&BusyCluster> = self.lanes.iter().flat_map(|lane| &lane.busiest).collect();
        busiest.sort_by_key(|busy| std::cmp::Reverse(busy.recent));
        let help = "Log entries committed in the life of a cluster led here; of the ten that committed most in the last second.";
        let mut metric = encoder.encode_descriptor("cluster_log_entries", help, None, MetricType::Counter)?;
        for busy in busiest.into_iter().take(BUSIEST_SHOWN) {
            metric
                .encode_family(&[("cluster", busy.name.to_string())])?
                .encode_counter::<NoLabelSet, _, u64>(&busy.entries, None)?;
        }
        Ok(())
    }

    fn latencies(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let help = "Time from the start of a log write to its end on disk. If it grows, check the disk.";
        let mut metric = encoder.encode_descriptor("log_sync_seconds", help, None, MetricType::Histogram)?;
        for (lane, report) in self.lanes.iter().enumerate() {
            encode_latency(&mut metric.encode_family(&[("lane", lane.to_string())])?, &report.log_sync)?;
        }
        let help = "Time of a write of applied changes to an engine, its sync included. If it grows, check the disk.";
        let mut metric = encoder.encode_descriptor("engine_write_seconds", help, None, MetricType::Histogram)?;
        for (lane, report) in self.lanes.iter().enumerate() {
            encode_latency(&mut metric.encode_family(&[("lane", lane.to_string())])?, &report.engine_write)?;
        }
        let help = "Time from a request to its answer, by action.";
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

/// `get_object` as S3's documentation writes it.
fn pascal(operation: &str) -> String {
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    if operation == door_s3::metrics::OTHER {
        return operation.into();
    }
    operation.split('_').filter(|word| !word.is_empty()).map(capital).collect()
}

fn kind(value: &Value) -> MetricType {
    match value {
        Value::Counter(_) | Value::SecondsCounter(_) => MetricType::Counter,
        Value::Gauge(_) | Value::SecondsGauge(_) => MetricType::Gauge,
        Value::Blocked(_) => MetricType::Histogram,
    }
}

fn encode_value(metric: &mut MetricEncoder, value: &Value) -> Result<(), Error> {
    match value {
        Value::Counter(value) => metric.encode_counter::<NoLabelSet, _, u64>(value, None),
        Value::SecondsCounter(value) => metric.encode_counter::<NoLabelSet, _, f64>(value, None),
        Value::Gauge(value) => metric.encode_gauge(&(*value as i64)),
        Value::SecondsGauge(value) => metric.encode_gauge(value),
        Value::Blocked(blocked) => {
            let bounds = BlockedHistogram::BOUNDS_MS.iter().map(|ms| *ms as f64 / 1e3).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(blocked.buckets).collect();
            let count = blocked.buckets.iter().sum();
            metric.encode_histogram::<NoLabelSet>(blocked.sum_us as f64 / 1e6, count, &buckets, None)
        }
    }
}

fn encode_latency(metric: &mut MetricEncoder, latency: &Latency) -> Result<(), Error> {
    encode_histogram(metric, &BOUNDS_US, &latency.buckets, latency.sum_us)
}

/// Buckets of durations, not cumulative: one for each bound, and those above.
fn encode_histogram(metric: &mut MetricEncoder, bounds_us: &[u64], counts: &[u64], sum_us: u64) -> Result<(), Error> {
    let bounds = bounds_us.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
    metric.encode_histogram::<NoLabelSet>(sum_us as f64 / 1e6, counts.iter().sum(), &buckets, None)
}

#[cfg(test)]
mod tests;

//! Where the console's samples come from: the lanes' reports, the clients' room and the machine.
//!
//! Always: a sample reads the lanes' last reports (at most a second old) and asks no lane, so a lane that hangs delays none.
//! Held by: `samples_are_taken_from_reports`.
//! Not here: the ring and its JSON (edge-console), when to look (monitor.rs).

use crate::clients::Room;
use crate::lane::latency::BOUNDS_US;
use crate::lane::LaneReport;
use crate::machine::Value;
use crate::monitor::{process_usage, unix_ms};
use edge_console::{group, Counters, Gauges, Group, History, SAMPLE_EVERY};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The node's one recorder.
pub struct Recorder {
    begun: Instant,
    reports: Vec<Arc<Mutex<LaneReport>>>,
    room: Room,
    state: Mutex<State>,
}

struct State {
    history: History,
    /// Load of the machine in the looks since the last sample: their sum and number.
    load: (u64, u64),
    disk: u32,
    next: Option<Instant>,
}

impl Recorder {
    /// Of a node that starts now.
    pub fn new(reports: Vec<Arc<Mutex<LaneReport>>>, room: Room) -> Recorder {
        let state = State { history: History::new(&BOUNDS_US), load: (0, 0), disk: 0, next: None };
        Recorder { begun: Instant::now(), reports, room, state: Mutex::new(state) }
    }

    /// A look at the machine: load and disk in thousandths. Takes a sample where one is due.
    pub fn look(&self, load: u32, disk: u32) {
        let now = Instant::now();
        let Ok(mut state) = self.state.lock() else { return };
        state.load = (state.load.0 + u64::from(load), state.load.1 + 1);
        state.disk = disk;
        if state.next.is_some_and(|next| now < next) {
            return;
        }
        state.next = Some(now + SAMPLE_EVERY);
        let (counters, gauges) = self.read(&state);
        state.history.take(counters, gauges);
        state.load = (0, 0);
    }

    /// The last samples in short, oldest first.
    pub fn recent(&self, most: usize) -> Vec<edge_console::Look> {
        self.state.lock().map(|state| state.history.recent(most)).unwrap_or_default()
    }

    /// The samples after a time of the wall clock, as JSON.
    pub fn json(&self, since_ms: u64) -> String {
        let Ok(state) = self.state.lock() else { return String::from("{\"ok\":false}") };
        let (counters, gauges) = self.read(&state);
        state.history.json(since_ms, counters, gauges)
    }

    fn read(&self, state: &State) -> (Counters, Gauges) {
        let usage = process_usage();
        let mut counters = Counters {
            elapsed_ms: self.begun.elapsed().as_millis() as u64,
            cpu_ms: (usage.cpu_seconds * 1e3) as u64,
            ..Counters::default()
        };
        let mut gauges = Gauges {
            unix_ms: unix_ms(),
            load: (state.load.0 / state.load.1.max(1)) as u32,
            disk: state.disk,
            resident_bytes: usage.resident_bytes,
            connections: self.room.open() as u64,
            ..Gauges::default()
        };
        for report in &self.reports {
            if let Ok(report) = report.lock() {
                add(&mut counters, &mut gauges, &report);
            }
        }
        (counters, gauges)
    }
}

fn add(counters: &mut Counters, gauges: &mut Gauges, report: &LaneReport) {
    for (action, latency) in &report.requests {
        match group(action) {
            Group::Read => counters.reads.add(&latency.buckets),
            Group::Write => counters.writes.add(&latency.buckets),
            Group::Mixed => counters.mixed.add(&latency.buckets),
            Group::Other => {}
        }
    }
    counters.log_sync.add(&report.log_sync.buckets);
    counters.peer_bytes += report.peer_bytes_sent;
    gauges.waiting += report.requests_waiting;
    for metric in &report.metrics {
        match (metric.name, &metric.value) {
            ("replicas", Value::Gauge(count)) => gauges.replicas += count,
            ("replicas_leader", Value::Gauge(count)) => gauges.leaders += count,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Metric;
    use std::time::Duration;

    #[test]
    fn samples_are_taken_from_reports() {
        let report = Arc::new(Mutex::new(LaneReport::default()));
        let gauge = |name, count| Metric { name, help: "", label: None, value: Value::Gauge(count) };
        report.lock().unwrap().metrics = vec![gauge("replicas", 14), gauge("replicas_leader", 3)];
        let recorder = Recorder::new(vec![report.clone()], Room::new(8, 1 << 20));
        recorder.look(100, 250);
        for (action, times) in [("KvGet", 30), ("KvPut", 20), ("Status", 500)] {
            let mut latency = crate::lane::latency::Latency::default();
            (0..times).for_each(|_| latency.record(Duration::from_micros(80)));
            report.lock().unwrap().requests.push((action, latency));
        }
        // The next one is due: looks at the machine in between are averaged.
        recorder.look(100, 250);
        recorder.state.lock().unwrap().next = None;
        recorder.look(300, 250);
        let answer: serde_json::Value = serde_json::from_str(&recorder.json(0)).unwrap();
        let fields = answer["fields"].as_array().unwrap();
        let of = |name: &str| answer["samples"][0][fields.iter().position(|field| field == name).unwrap()].clone();
        assert_eq!((of("load_permille"), of("disk_permille")), (200.into(), 250.into()));
        assert_eq!((of("replicas"), of("leaders")), (14.into(), 3.into()));
        assert!(of("reads_per_s").as_f64() > of("writes_per_s").as_f64(), "{answer}");
        assert_eq!(of("mixed_per_s"), 0.0);
    }
}

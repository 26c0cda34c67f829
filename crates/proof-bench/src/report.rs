//! The report: what people read, `report.json`, `report.html`.

use crate::measure::{machine, mean, round, Run, PERCENTILES};
use crate::{embedded, plot, simple_kv, BenchError, Options};
use proof_check::availability::tally::Availability;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The figures every run prints and every table shows.
const COLUMNS: [(&str, &str); 8] = [
    ("rate", "op/s"),
    ("p50_ms", "p50 ms"),
    ("p75_ms", "p75 ms"),
    ("p95_ms", "p95 ms"),
    ("p99_ms", "p99 ms"),
    ("p999_ms", "p999 ms"),
    ("server_cpu_us_per_operation", "server µs/op"),
    ("client_cpu_us_per_operation", "client µs/op"),
];

/// Some runs of one operation.
#[derive(Clone, Debug)]
pub struct Measurement {
    pub suite: String,
    pub system: String,
    pub operation: String,
    pub(crate) clients: usize,
    value_bytes: usize,
    runs: Vec<Value>,
    errors: u64,
}

impl Measurement {
    /// Keeps what the report says of the runs.
    pub fn new(
        suite: &str,
        system: &str,
        operation: &str,
        clients: usize,
        value_bytes: usize,
        runs: &[Run],
    ) -> Measurement {
        Measurement {
            suite: suite.into(),
            system: system.into(),
            operation: operation.into(),
            clients,
            value_bytes,
            errors: runs.iter().map(Run::error_count).sum(),
            runs: runs.iter().map(Run::json).collect(),
        }
    }

    /// The mean of a figure over the runs.
    pub fn mean(&self, field: &str) -> Option<f64> {
        mean(&self.runs, field)
    }

    fn json(&self) -> Value {
        let means: BTreeMap<&str, f64> =
            COLUMNS.iter().filter_map(|(field, _)| Some((*field, self.mean(field)?))).collect();
        json!({
            "suite": self.suite, "system": self.system, "operation": self.operation, "clients": self.clients,
            "value_bytes": self.value_bytes, "runs": self.runs, "mean": means, "errors": self.errors,
        })
    }
}

/// One kill of a leader.
#[derive(Clone, Debug)]
pub struct Failover {
    pub leader: u64,
    pub gap_ms: f64,
    pub writes: u64,
    pub errors: BTreeMap<String, u64>,
    pub killed_at_s: f64,
    /// Writes acknowledged in each column.
    pub timeline: Vec<u64>,
    pub column_s: f64,
}

/// A workload's own part.
#[derive(Clone, Debug)]
pub struct Section {
    pub name: &'static str,
    /// For people.
    pub text: String,
    /// For machines.
    pub json: Value,
}

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Report {
    head: Value,
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) failovers: Vec<Failover>,
    pub(crate) availability: Vec<Availability>,
    pub(crate) sections: Vec<Section>,
    /// What must not be: the program that measures ends with an error.
    pub(crate) failures: Vec<String>,
    notes: Vec<String>,
}

impl Report {
    /// An empty report of a workload.
    pub fn new(workload: &str, options: &Options) -> Report {
        let load = json!({
            "clients": options.clients, "seconds": options.duration.as_secs_f64(), "operations": options.operations,
            "value_bytes": options.value_bytes, "keys": options.keys, "runs": options.runs, "nodes": options.nodes,
            "endpoints": options.endpoints,
        });
        let head = json!({
            "workload": workload, "version": options.version, "date": date(), "machine": machine(), "load": load,
            "command": std::env::args().collect::<Vec<_>>().join(" "),
        });
        let mut notes = vec![
            "closed loop: each client has one request under way; clients, nodes and disk share one machine".to_owned(),
            "Hive: synced log, mutual TLS between nodes, clients spread over all nodes, HTTP/1.1 JSON without TLS"
                .to_owned(),
        ];
        if workload == "availability" {
            notes[0] =
                "open loop: each operation is begun when it is due; clients, nodes and disk share one machine".into();
        }
        if !options.endpoints.is_empty() {
            notes[1] = "Hive: as configured at the endpoints named".into();
        }
        Report {
            head,
            measurements: Vec::new(),
            failovers: Vec::new(),
            availability: Vec::new(),
            sections: Vec::new(),
            failures: Vec::new(),
            notes,
        }
    }

    /// The mean rate of an operation measured before.
    pub(crate) fn rate_of(&self, suite: &str, operation: &str) -> Option<f64> {
        self.measurements.iter().find(|one| one.suite == suite && one.operation == operation)?.mean("rate")
    }

    pub(crate) fn add(&mut self, measurement: Measurement) {
        self.measurements.push(measurement);
    }

    pub(crate) fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// The longest gap of all kills, in milliseconds.
    fn gap_ms(&self) -> Option<f64> {
        self.failovers.iter().map(|failover| failover.gap_ms).reduce(f64::max)
    }

    /// What must not be and was; empty where all is well.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// The report for machines.
    pub fn json(&self) -> Value {
        let failover = |failover: &Failover| {
            json!({
                "leader": failover.leader, "gap_ms": failover.gap_ms, "writes": failover.writes, "errors": failover.errors,
                "killed_at_s": failover.killed_at_s, "column_s": failover.column_s, "timeline": failover.timeline,
            })
        };
        let mut out = self.head.clone();
        out["ok"] = (!self.measurements.is_empty()
            || !self.failovers.is_empty()
            || !self.availability.is_empty()
            || !self.sections.is_empty())
        .into();
        out["measurements"] = self.measurements.iter().map(Measurement::json).collect();
        out["failovers"] = self.failovers.iter().map(failover).collect();
        out["availability"] = self.availability.iter().map(Availability::json).collect();
        for section in &self.sections {
            let list = &mut out[section.name];
            if !list.is_array() {
                *list = json!([]);
            }
            list.as_array_mut().into_iter().for_each(|list| list.push(section.json.clone()));
        }
        out["failures"] = self.failures.clone().into();
        out["longest_gap_ms"] = self.gap_ms().into();
        out["simple_kv"] = simple_kv::json(&self.measurements);
        out["embedded"] = embedded::json(&self.measurements);
        out["notes"] = self.notes.clone().into();
        out
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if !self.measurements.is_empty() {
            let _ = writeln!(
                out,
                "{:<10} {:<7} {:<18} {:>7} {:>9} {}  errors",
                "suite",
                "system",
                "operation",
                "clients",
                "op/s",
                percentile_heads()
            );
        }
        for measurement in &self.measurements {
            let figures: String = PERCENTILES
                .iter()
                .map(|(name, _)| format!("{:>9}", figure(measurement.mean(&format!("{name}_ms")))))
                .collect();
            let cpu =
                format!("{:>9}{:>9}", figure(measurement.mean(COLUMNS[6].0)), figure(measurement.mean(COLUMNS[7].0)));
            let _ = writeln!(
                out,
                "{:<10} {:<7} {:<18} {:>7} {:>9} {figures}{cpu}  {}",
                measurement.suite,
                measurement.system,
                measurement.operation,
                measurement.clients,
                measurement.mean("rate").map_or("-".into(), |rate| format!("{rate:.0}")),
                measurement.errors
            );
        }
        out.push_str(&simple_kv::text(&self.measurements));
        out.push_str(&embedded::text(&self.measurements));
        self.availability.iter().for_each(|run| out.push_str(&run.text()));
        self.sections.iter().for_each(|section| out.push_str(&section.text));
        for failover in &self.failovers {
            let errors: u64 = failover.errors.values().sum();
            let _ = writeln!(
                out,
                "failover: node {} killed, longest gap {} ms, {} writes, {errors} errors",
                failover.leader, failover.gap_ms, failover.writes
            );
        }
        for failure in &self.failures {
            let _ = writeln!(out, "FAILED: {failure}");
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out
    }

    /// Writes report.json and report.html.
    pub fn write(&self, directory: &Path) -> Result<(), BenchError> {
        let written = std::fs::create_dir_all(directory)
            .and_then(|()| std::fs::write(directory.join("report.json"), format!("{:#}\n", self.json())))
            .and_then(|()| std::fs::write(directory.join("report.html"), self.html()));
        written.map_err(|error| BenchError::Report { path: directory.display().to_string(), reason: error.to_string() })
    }

    fn html(&self) -> String {
        let mut out = String::from(HEAD);
        let machine = &self.head["machine"];
        let _ = write!(
            out,
            "<h1>Hive {} – {}</h1><p>{} · {} · {} cores · Linux {}</p><p><code>{}</code></p>",
            escape(&text(&self.head["version"])),
            escape(&text(&self.head["workload"])),
            escape(&text(&self.head["date"])),
            escape(&text(&machine["processor"])),
            machine["cores"],
            escape(&text(&machine["kernel"])),
            escape(&text(&self.head["command"]))
        );
        self.html_measurements(&mut out);
        self.html_failovers(&mut out);
        for run in &self.availability {
            out.push_str(&run.html());
            out.push_str(&plot::failures(run));
        }
        for section in &self.sections {
            let _ = write!(out, "<pre>{}</pre>", escape(&section.text));
        }
        out.push_str("<h2>Notes</h2><ul>");
        for note in &self.notes {
            let _ = write!(out, "<li>{}</li>", escape(note));
        }
        out.push_str("</ul></body></html>\n");
        out
    }

    fn html_measurements(&self, out: &mut String) {
        if self.measurements.is_empty() {
            return;
        }
        let heads: String = COLUMNS.iter().map(|(_, head)| format!("<th>{head}</th>")).collect();
        let _ = write!(out, "<h2>Rates and latencies</h2><table><tr><th>suite</th><th>system</th><th>operation</th><th>clients</th><th>run</th>{heads}<th>errors</th></tr>");
        for measurement in &self.measurements {
            let name = [&measurement.suite, &measurement.system, &measurement.operation]
                .map(|text| format!("<td>{}</td>", escape(text)))
                .concat();
            for (number, run) in measurement.runs.iter().enumerate() {
                let cells: String =
                    COLUMNS.iter().map(|(field, _)| format!("<td>{}</td>", figure(run[*field].as_f64()))).collect();
                let _ = write!(
                    out,
                    "<tr>{name}<td>{}</td><td>{}</td>{cells}<td>{}</td></tr>",
                    measurement.clients,
                    number + 1,
                    escape(&run["errors"].to_string())
                );
            }
            let cells: String =
                COLUMNS.iter().map(|(field, _)| format!("<td>{}</td>", figure(measurement.mean(field)))).collect();
            let _ = write!(
                out,
                "<tr class=mean>{name}<td>{}</td><td>mean</td>{cells}<td>{}</td></tr>",
                measurement.clients, measurement.errors
            );
        }
        out.push_str("</table>");
        out.push_str(&plot::rates(&self.measurements));
        out.push_str(&plot::latencies(&self.measurements));
    }

    fn html_failovers(&self, out: &mut String) {
        if self.failovers.is_empty() {
            return;
        }
        out.push_str("<h2>Failover: kill -9 of the leader</h2><table><tr><th>run</th><th>leader</th><th>longest gap ms</th><th>writes</th><th>errors</th></tr>");
        for (number, failover) in self.failovers.iter().enumerate() {
            let errors = escape(&json!(failover.errors).to_string());
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{errors}</td></tr>",
                number + 1,
                failover.leader,
                failover.gap_ms,
                failover.writes
            );
        }
        out.push_str("</table>");
        self.failovers.iter().for_each(|failover| out.push_str(&plot::timeline(failover)));
    }
}

const HEAD: &str = "<!doctype html><html lang=en><head><meta charset=utf-8><title>Hive benchmarks</title><style>\
body{font:15px/1.45 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#222}\
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #ddd}\
td:nth-child(-n+3),th:nth-child(-n+3){text-align:left}.mean{font-weight:600;background:#f4f6f8}svg{max-width:100%;height:auto}</style></head><body>";

fn percentile_heads() -> String {
    let mut out: String = PERCENTILES.iter().map(|(name, _)| format!("{:>9}", format!("{name} ms"))).collect();
    out.push_str("  srv µs/op  cli µs/op");
    out
}

fn figure(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| if value >= 1_000.0 { format!("{value:.0}") } else { round(value).to_string() })
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Now, in UTC, as ISO 8601.
fn date() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    iso(since)
}

/// Seconds since 1970 as ISO 8601.
fn iso(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok().and_then(|seconds| time::OffsetDateTime::from_unix_timestamp(seconds).ok());
    let at = at.unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    format!("{}T{:02}:{:02}:{:02}Z", at.date(), at.hour(), at.minute(), at.second())
}

#[cfg(test)]
mod tests;

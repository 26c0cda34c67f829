//! Figures: latency percentiles, rates, CPU time of processes.

use hdrhistogram::Histogram;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest latency told apart, in microseconds.
const LATENCY_MICROS_MAX: u64 = 120_000_000;

/// An empty histogram of microseconds, exact to three digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MICROS_MAX, 3).expect("constant bounds")
}

/// The percentiles every report has.
pub const PERCENTILES: [(&str, f64); 5] = [("p50", 50.0), ("p75", 75.0), ("p95", 95.0), ("p99", 99.0), ("p999", 99.9)];

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    pub operations: u64,
    pub errors: BTreeMap<String, u64>,
    pub seconds: f64,
    pub latency: Histogram<u64>,
    /// CPU time of the servers and of this process, where the servers' process ids are known.
    pub server_cpu: Option<Duration>,
    pub client_cpu: Duration,
}

impl Run {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds.max(1e-9)
    }

    /// A percentile in milliseconds.
    pub fn percentile_ms(&self, percentile: f64) -> f64 {
        self.latency.value_at_percentile(percentile) as f64 / 1_000.0
    }

    /// Microseconds of CPU for one operation.
    pub fn cpu_micros(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.operations.max(1) as f64
    }

    /// Errors of all kinds.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// For the report.
    pub fn json(&self) -> Value {
        let mut out = json!({
            "operations": self.operations, "seconds": round(self.seconds), "rate": round(self.rate()), "errors": self.errors,
            "max_ms": self.latency.max() as f64 / 1_000.0, "mean_ms": round(self.latency.mean() / 1_000.0),
            "mean_us": round(self.latency.mean()),
            "client_cpu_us_per_operation": round(self.cpu_micros(self.client_cpu)),
            "server_cpu_us_per_operation": self.server_cpu.map(|cpu| round(self.cpu_micros(cpu))),
        });
        for (name, percentile) in PERCENTILES {
            out[format!("{name}_ms").as_str()] = self.percentile_ms(percentile).into();
        }
        out
    }
}

/// Two digits behind the point.
pub fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The mean of the runs of one field, where every run has it.
pub fn mean(runs: &[Value], field: &str) -> Option<f64> {
    let values: Option<Vec<f64>> = runs.iter().map(|run| run[field].as_f64()).collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(round(values.iter().sum::<f64>() / values.len() as f64))
}

/// CPU time a process has used; `None` where it is gone.
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&stat)
}

/// utime and stime are the 14th and 15th words; the 2nd may hold spaces but ends at the last `)`.
fn parse_stat(stat: &str) -> Option<Duration> {
    let rest = &stat[stat.rfind(')')? + 1..];
    let mut words = rest.split_whitespace().skip(11);
    let ticks: u64 = words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?;
    // SAFETY: asks for a constant of the system.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
    Some(Duration::from_secs_f64(ticks as f64 / per_second))
}

/// CPU time of several processes; `None` where one is unknown.
pub fn cpu_time_of(pids: &[u32]) -> Option<Duration> {
    if pids.is_empty() {
        return None;
    }
    pids.iter().map(|pid| cpu_time(*pid)).sum()
}

/// What the figures were measured on.
pub fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("", |(_, value)| value).trim().to_owned()
    };
    json!({
        "processor": field(&read("/proc/cpuinfo"), "model name"),
        "cores": std::thread::available_parallelism().map_or(0, |cores| cores.get()),
        "memory": field(&read("/proc/meminfo"), "MemTotal"),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_hostile_name_is_read() {
        let stat = "17 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0";
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
        assert_eq!(parse_stat(stat).unwrap().as_secs_f64(), 200.0 / per_second);
        assert!(cpu_time(std::process::id()).is_some());
        assert_eq!(parse_stat("nonsense"), None);
    }

    #[test]
    fn runs_tell_percentiles_and_means() {
        let mut latency = histogram();
        (1..=1000).for_each(|micros| latency.record(micros * 10).unwrap());
        let run = Run {
            operations: 1000,
            errors: BTreeMap::new(),
            seconds: 2.0,
            latency,
            server_cpu: Some(Duration::from_millis(80)),
            client_cpu: Duration::ZERO,
        };
        let json = run.json();
        assert_eq!(json["rate"], 500.0);
        assert_eq!(json["server_cpu_us_per_operation"], 80.0);
        assert!((json["p50_ms"].as_f64().unwrap() - 5.0).abs() < 0.02, "{json}");
        assert_eq!(mean(&[json.clone(), json], "rate"), Some(500.0));
    }
}

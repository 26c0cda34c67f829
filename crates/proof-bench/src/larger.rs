//! Data of three times the memory that the nodes may use, overwritten at random for minutes.
//!
//!   a control group ──holds──▶ a fresh world ──▶ every key written once ──▶ overwrites, minute by minute ──▶ what they cost
//!
//! Figures: latencies; write amplification (what the processes sent to the disk, for each byte that each replica was given);
//! space amplification (what lies on the disk, for each live byte of each replica); logs and numbers of files over time.
//!
//! Always: the bound holds page cache as well as what the processes ask for. Held by: `what_grows_without_end_is_told_from_what_has_come_to_rest`. Not here: reads.

use crate::limit::MemoryLimit;
use crate::load::{self, End, Job, Keys};
use crate::measure::round;
use crate::report::{Report, Section};
use crate::request::{Operation, Template};
use crate::workloads::{fill, say, Target};
use crate::world::World;
use crate::{BenchError, Options};
use serde_json::{json, Value};
use std::fmt::Write;
use std::time::Duration;

/// How many times the memory the data is.
const TIMES_MEMORY: u64 = 3;
/// The replicas of a key, where there are as many nodes.
const REPLICAS_MAX: u64 = 5;
/// A period of the table.
const PERIOD: Duration = Duration::from_secs(60);
/// What lies on the disk in the last quarter of the time must not be more than that of the quarter before, in percent.
const GROWTH_PERCENT_MAX: u64 = 120;

/// One period.
struct Period {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    errors: u64,
    operations: u64,
    written: u64,
    disk: u64,
    log: u64,
    files: u64,
}

/// Measures.
pub async fn run(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    if !options.endpoints.is_empty() {
        return Err(BenchError::Usage(
            "larger-than-memory limits the memory of its own world: leave out --endpoint".into(),
        ));
    }
    let memory = options.memory_mib << 20;
    let limit = MemoryLimit::new(memory)?;
    let world = World::open_limited(options, Some(&limit)).await?;
    let replicas = u64::from(options.nodes).min(REPLICAS_MAX);
    let keys = (memory * TIMES_MEMORY / replicas / options.value_bytes.max(1) as u64).max(1);
    let live = keys * options.value_bytes as u64 * replicas;
    let options = &Options { keys, ..options.clone() };
    let pids = world.process_ids();
    let target = Target { system: "hive", endpoints: &world.endpoints, pids: pids.clone() };
    say(&format!(
        "larger-than-memory: {keys} keys of {} bytes, {replicas} times, in {} MiB",
        options.value_bytes, options.memory_mib
    ));
    fill(options, &target, Operation::Put("strong")).await?;
    let template = Template::new(Operation::Put("strong"), options.value_bytes, options.order);
    let mut periods = Vec::new();
    for minute in 1..=options.minutes {
        let before = written_by(&pids)?;
        let job = Job {
            endpoints: &world.endpoints,
            template: &template,
            clients: options.clients,
            keys: Keys::Random(keys),
            pace: None,
            warm_up: Duration::ZERO,
            end: End::After(PERIOD),
            progress: None,
            pids: &pids,
        };
        let run = load::run(&job).await;
        let (disk, log) = world.disk_bytes().unwrap_or_default();
        let period = Period {
            rate: run.rate(),
            p50_ms: run.percentile_ms(50.0),
            p99_ms: run.percentile_ms(99.0),
            p999_ms: run.percentile_ms(99.9),
            errors: run.error_count(),
            operations: run.operations,
            written: written_by(&pids)?.saturating_sub(before),
            disk,
            log,
            files: world.files().unwrap_or(0),
        };
        say(&format!(
            "larger-than-memory: minute {minute}: {:.0}/s, p99 {:.0} ms, {} errors {:?}, {} MiB on disk, {} files",
            period.rate,
            period.p99_ms,
            period.errors,
            run.errors,
            period.disk >> 20,
            period.files
        ));
        periods.push(period);
    }
    let used = limit.used_most();
    report.sections.push(section(options, &periods, live, replicas, used));
    if grows(&periods) {
        report
            .failures
            .push("larger-than-memory: what lies on the disk still grows in the last quarter of the time".into());
    }
    Ok(())
}

/// What processes have sent to the disk so far.
fn written_by(pids: &[u32]) -> Result<u64, BenchError> {
    let one = |pid: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("write_bytes:"))?.trim().parse::<u64>().ok()
    };
    let gone =
        || BenchError::World("a node has ended: was its memory too small? look at world.log beside the report".into());
    pids.iter().map(one).sum::<Option<u64>>().ok_or_else(gone)
}

/// Whether the last quarter has more on the disk than the one before it, by far.
fn grows(periods: &[Period]) -> bool {
    let quarter = periods.len() / 4;
    if quarter == 0 {
        return false;
    }
    let most = |periods: &[Period]| periods.iter().map(|period| period.disk).max().unwrap_or(0);
    let (before, last) = periods.split_at(periods.len() - quarter);
    most(last) * 100 > most(&before[before.len() - quarter..]) * GROWTH_PERCENT_MAX
}

fn section(options: &Options, periods: &[Period], live: u64, replicas: u64, used: Option<u64>) -> Section {
    let sum = |pick: fn(&Period) -> u64| periods.iter().map(pick).sum::<u64>();
    let most = |pick: fn(&Period) -> u64| periods.iter().map(pick).max().unwrap_or(0);
    let given = sum(|period| period.operations) * options.value_bytes as u64 * replicas;
    let write_amplification = round(sum(|period| period.written) as f64 / given.max(1) as f64);
    let space = |bytes: u64| round(bytes as f64 / live.max(1) as f64);
    let (disk, last) = (most(|period| period.disk), periods.last().map_or(0, |period| period.disk));
    let mut text = format!(
        "larger than memory: {} MiB of live data in {} replicas' files, {} MiB of memory for all processes and their page cache (used at most {}), engine {}\n",
        live >> 20,
        replicas,
        options.memory_mib,
        used.map_or("unknown".into(), |bytes| format!("{} MiB", bytes >> 20)),
        options.engines.first().map_or("of the default", String::as_str),
    );
    let _ = writeln!(
        text,
        "write amplification {write_amplification}, space amplification {} at most, {} at the end; logs {} MiB at most, {} files at most, {} errors",
        space(disk),
        space(last),
        most(|period| period.log) >> 20,
        most(|period| period.files),
        sum(|period| period.errors)
    );
    let heads =
        ["minute", "put/s", "p50 ms", "p99 ms", "p999 ms", "errors", "written MiB", "on disk MiB", "logs MiB", "files"];
    let _ = writeln!(text, "{}", heads.map(|head| format!("{head:>12}")).concat());
    for (number, period) in periods.iter().enumerate() {
        let cells = [
            (number + 1).to_string(),
            format!("{:.0}", period.rate),
            round(period.p50_ms).to_string(),
            round(period.p99_ms).to_string(),
            round(period.p999_ms).to_string(),
            period.errors.to_string(),
            (period.written >> 20).to_string(),
            (period.disk >> 20).to_string(),
            (period.log >> 20).to_string(),
            period.files.to_string(),
        ];
        let _ = writeln!(text, "{}", cells.map(|cell| format!("{cell:>12}")).concat());
    }
    let minute = |period: &Period| -> Value {
        json!({
            "rate": round(period.rate), "p50_ms": period.p50_ms, "p99_ms": period.p99_ms, "p999_ms": period.p999_ms,
            "errors": period.errors, "operations": period.operations, "written_bytes": period.written,
            "disk_bytes": period.disk, "log_bytes": period.log, "files": period.files,
        })
    };
    let json = json!({
        "live_bytes": live, "replicas": replicas, "memory_bytes": options.memory_mib << 20, "memory_used_bytes_max": used,
        "write_amplification": write_amplification, "space_amplification_max": space(disk),
        "space_amplification_last": space(last), "minutes": periods.iter().map(minute).collect::<Vec<_>>(),
    });
    Section { name: "larger_than_memory", text, json }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(disk: u64) -> Period {
        Period {
            rate: 10.0,
            p50_ms: 1.0,
            p99_ms: 2.0,
            p999_ms: 3.0,
            errors: 0,
            operations: 1_000,
            written: 4_096_000,
            disk,
            log: 1 << 20,
            files: 7,
        }
    }

    #[test]
    fn what_grows_without_end_is_told_from_what_has_come_to_rest() {
        let rest: Vec<Period> = [10, 40, 80, 100, 101, 99, 102, 101].map(period).into();
        assert!(!grows(&rest));
        let grown: Vec<Period> = [10, 20, 30, 40, 50, 60, 70, 90].map(period).into();
        assert!(grows(&grown));
        assert!(!grows(&[period(1), period(9)]), "too short to say");
    }

    #[test]
    fn a_process_that_is_gone_is_told() {
        assert!(written_by(&[std::process::id()]).is_ok());
        assert!(written_by(&[u32::MAX - 1]).is_err());
    }
}

//! `hive load`: many keys from a file, several writes at a time.
//!
//! By design: at most `--parallel` writes are under way; a line that fails is named and does not stop the
//! rest; the report says after which line everything is loaded, so that a run that was stopped goes
//! on there (`--skip-lines`). Loading a line twice is harmless: it sets the same key to the same value.

mod parse;

use crate::arguments::LoadArguments;
use crate::failure::Failure;
use crate::output::{ask, client, seconds};
use hive_client::{Client, ClientError};
use indicatif::{ProgressBar, ProgressStyle};
use parse::Record;
use serde_json::{json, Value};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, IsTerminal};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The most failed lines a report lists; the rest is counted.
const FAILED_LISTED_MAX: usize = 1_000;
/// How often a line of progress is printed where there is no terminal.
const PROGRESS_PAUSE: Duration = Duration::from_secs(5);

/// What has been done.
#[derive(Default)]
struct Report {
    loaded: u64,
    bytes: u64,
    failed: u64,
    failures: Vec<(u64, String)>,
    worst: u8,
    /// Lines that are under way or whose outcome is open.
    open: BTreeSet<u64>,
    last_line: u64,
    interrupted: bool,
}

impl Report {
    fn fail(&mut self, line: u64, code: u8, message: String) {
        self.failed += 1;
        self.worst = self.worst.max(code);
        if self.failures.len() < FAILED_LISTED_MAX {
            self.failures.push((line, message));
        }
    }

    /// Every line up to this one has been tried.
    fn complete_through(&self) -> u64 {
        self.open.first().map_or(self.last_line, |first| first - 1)
    }

    fn json(&self, took: Duration) -> Value {
        let failure = |(line, message): &(u64, String)| json!({"line": line, "message": message});
        json!({
            "ok": self.failed == 0 && !self.interrupted, "loaded": self.loaded, "bytes": self.bytes, "failed": self.failed,
            "failures": self.failures.iter().map(failure).collect::<Vec<_>>(), "complete_through_line": self.complete_through(),
            "interrupted": self.interrupted, "seconds": took.as_secs_f64(),
        })
    }
}

/// What a write came to.
type Written = (u64, usize, Result<Value, ClientError>);

/// Loads a file.
pub async fn run(arguments: LoadArguments) -> Result<(), Failure> {
    let client = client(&arguments.world, &arguments.levels)?;
    let (mut source, size) = open(&arguments)?;
    // A misspelt keyspace is reported once, not once a line.
    ask(&client, &arguments.world, json!({"action": "DescribeKeyspace", "keyspace": arguments.keyspace})).await?;
    let progress = Progress::new(size);
    let start = Instant::now();
    let mut report = Report { last_line: 0, ..Report::default() };
    let mut tasks: JoinSet<Written> = JoinSet::new();
    let mut stop = std::pin::pin!(tokio::signal::ctrl_c());
    let mut line = Vec::new();
    let mut position = 0u64;
    loop {
        while tasks.len() >= usize::from(arguments.parallel) && !report.interrupted {
            tokio::select! {
                Some(done) = tasks.join_next() => settle(&mut report, done),
                _ = &mut stop => report.interrupted = true,
            }
        }
        while let Some(done) = tasks.try_join_next() {
            settle(&mut report, done);
        }
        if report.interrupted || !read_line(&mut source, &mut line, &arguments)? {
            break;
        }
        report.last_line += 1;
        position += line.len() as u64;
        progress.show(position, &report, start);
        if report.last_line > arguments.skip_lines {
            submit(&client, &arguments, &line, &mut report, &mut tasks);
        }
    }
    while let Some(done) = tasks.join_next().await {
        settle(&mut report, done);
    }
    progress.finish();
    report.failures.sort();
    tell(&arguments, &report, start.elapsed())
}

fn submit(client: &Client, arguments: &LoadArguments, line: &[u8], report: &mut Report, tasks: &mut JoinSet<Written>) {
    let number = report.last_line;
    match parse::line(line) {
        Ok(None) => {}
        Ok(Some(Record { key, value })) => {
            report.open.insert(number);
            let (client, keyspace) = (client.clone(), arguments.keyspace.clone());
            tasks.spawn(async move { (number, key.len() + value.len(), client.put(&keyspace, &key, &value).await) });
        }
        Err(error) => report.fail(number, 1, error),
    }
}

fn settle(report: &mut Report, done: Result<Written, tokio::task::JoinError>) {
    // A task that panicked leaves its line open: the report then says to continue before it.
    let Ok((line, bytes, result)) = done else { return };
    report.open.remove(&line);
    match result {
        Ok(_) => {
            report.loaded += 1;
            report.bytes += bytes as u64;
        }
        Err(error) => report.fail(line, error.exit_code(), error.to_string()),
    }
}

fn open(arguments: &LoadArguments) -> Result<(Box<dyn BufRead>, Option<u64>), Failure> {
    if arguments.file.to_str() == Some("-") {
        return Ok((Box::new(BufReader::new(std::io::stdin())), None));
    }
    let failed = |error: std::io::Error| Failure::usage(format!("{}: {error}", arguments.file.display()));
    let file = std::fs::File::open(&arguments.file).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    Ok((Box::new(BufReader::with_capacity(1 << 20, file)), Some(size)))
}

/// Reads one line of bounded length; false at the end.
fn read_line(source: &mut dyn BufRead, line: &mut Vec<u8>, arguments: &LoadArguments) -> Result<bool, Failure> {
    use std::io::Read;
    line.clear();
    let read = source.take(parse::LINE_BYTES_MAX as u64 + 1).read_until(b'\n', line);
    let count = read.map_err(|error| Failure::usage(format!("{}: {error}", arguments.file.display())))?;
    if count > parse::LINE_BYTES_MAX {
        let message = format!(
            "{} has a line longer than {} bytes; give TSV or JSON lines",
            arguments.file.display(),
            parse::LINE_BYTES_MAX
        );
        return Err(Failure::usage(message));
    }
    Ok(count > 0)
}

fn tell(arguments: &LoadArguments, report: &Report, took: Duration) -> Result<(), Failure> {
    let value = report.json(took);
    if let Some(file) = &arguments.report {
        std::fs::write(file, format!("{value}\n"))
            .map_err(|error| Failure::refused(format!("{}: {error}", file.display())))?;
    }
    if arguments.world.json {
        println!("{value}");
    } else {
        let rate = report.loaded as f64 / took.as_secs_f64().max(1e-6);
        println!("loaded {} keys ({} bytes) in {}, {rate:.0} keys/s", report.loaded, report.bytes, seconds(took));
        for (line, message) in report.failures.iter().take(20) {
            eprintln!("line {line}: {message}");
        }
        if report.failures.len() > 20 {
            eprintln!("… {} lines failed in all; --report F lists them", report.failed);
        }
    }
    if report.interrupted {
        let through = report.complete_through();
        return Err(Failure { code: 3, message: format!("stopped; continue with --skip-lines {through}") });
    }
    match report.failed {
        0 => Ok(()),
        1 => Err(Failure { code: report.worst, message: "1 line was not loaded".into() }),
        count => Err(Failure { code: report.worst, message: format!("{count} lines were not loaded") }),
    }
}

/// A bar on a terminal, a line now and then elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    told: std::cell::Cell<Instant>,
    size: Option<u64>,
}

impl Progress {
    fn new(size: Option<u64>) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = size.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
            let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {msg} eta {eta}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Progress { bar, told: std::cell::Cell::new(Instant::now()), size }
    }

    fn show(&self, position: u64, report: &Report, start: Instant) {
        let due = if self.bar.is_some() { Duration::from_millis(100) } else { PROGRESS_PAUSE };
        if self.told.get().elapsed() < due {
            return;
        }
        self.told.set(Instant::now());
        let rate = report.loaded as f64 / start.elapsed().as_secs_f64().max(1e-6);
        match &self.bar {
            Some(bar) => {
                bar.set_position(position);
                bar.set_message(format!("{} keys, {rate:.0}/s, {} failed", report.loaded, report.failed));
            }
            None => {
                let of = self.size.map_or(String::new(), |size| format!(", {} %", position * 100 / size.max(1)));
                eprintln!("{} keys loaded, {rate:.0}/s, {} failed{of}", report.loaded, report.failed);
            }
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

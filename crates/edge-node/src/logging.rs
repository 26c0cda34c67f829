//! Log lines on standard error, as text (time, level, text, key=value) or as JSON.
//!
//! Always: a line has at most `LINE_BYTES_MAX` bytes, whatever a client sent, and is one line: control characters are written as
//! escapes; a JSON line is one whole object. One place in the code writes at most `LINES_MAX` lines in a period, and the next
//! line says how many were suppressed (limit.rs). What `s3s` says of requests is not logged, whatever `HIVE_LOG` says: signatures
//! are in it, and each client could make it grow. A `HIVE_LOG` or `HIVE_LOG_FORMAT` that is wrong refuses the start.
//! Held by: `no_line_is_longer_than_its_bound`, `a_line_of_json_is_one_object`, `a_place_is_limited_and_counted`,
//! `no_level_shows_requests_of_s3s`, `a_wrong_setting_is_refused`.

mod json;
mod limit;

use std::fmt::{self, Write};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::EnvFilter;

/// Which lines are written: `info,edge_node=debug`.
const FILTER: &str = "HIVE_LOG";
/// How: `text` or `json`.
const FORMAT: &str = "HIVE_LOG_FORMAT";
/// The longest line, its end included.
pub const LINE_BYTES_MAX: usize = 4 << 10;
/// Of them, for saying how much was left out, and how many lines before it.
const END_BYTES: usize = 80;

/// What decides how this process logs.
#[derive(Debug)]
pub struct Settings {
    filter: EnvFilter,
    json: bool,
}

impl Settings {
    /// From the environment; an error says which variable is wrong, and what would do.
    pub fn of_environment() -> Result<Settings, String> {
        let variable = |name: &str| match std::env::var(name) {
            Ok(text) => Ok(Some(text)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err(format!("{name} is not UTF-8")),
        };
        Settings::parse(variable(FILTER)?.as_deref(), variable(FORMAT)?.as_deref())
    }

    /// From the texts of `HIVE_LOG` and `HIVE_LOG_FORMAT`; `None` or empty: the default.
    pub fn parse(filter: Option<&str>, format: Option<&str>) -> Result<Settings, String> {
        let filter = match filter.map(str::trim).filter(|text| !text.is_empty()) {
            None => EnvFilter::new("info"),
            Some(text) => checked_directives(text)
                .and_then(|plain| EnvFilter::try_new(plain).map_err(|error| error.to_string()))
                .map_err(|error| {
                    format!("{FILTER}={text:?} is wrong: {error}; right are for example info, or warn,edge_node=debug")
                })?,
        };
        match format.map(str::trim) {
            None | Some("" | "text") => Ok(Settings { filter, json: false }),
            Some("json") => Ok(Settings { filter, json: true }),
            Some(other) => Err(format!("{FORMAT}={other:?} is wrong: right are text and json")),
        }
    }
}

/// The directives without the spaces between them. The filter's own parser takes a misspelt level for the name of a module, and no
/// level for all of them.
fn checked_directives(text: &str) -> Result<String, String> {
    let directives: Vec<&str> = text.split(',').map(str::trim).filter(|directive| !directive.is_empty()).collect();
    for directive in &directives {
        let plain = !directive.contains(['=', '[', ':', '_', '-']);
        if plain && directive.parse::<LevelFilter>().is_err() {
            return Err(format!("{directive:?} is no level (off, error, warn, info, debug, trace)"));
        }
        let level = directive.rsplit_once('=').map(|(_, level)| level).filter(|level| !level.contains(']'));
        // The empty text parses as a level, too.
        if level.is_some_and(|level| level.is_empty() || level.parse::<LevelFilter>().is_err()) {
            return Err(format!("{directive:?} does not end with a level (off, error, warn, info, debug, trace)"));
        }
    }
    Ok(directives.join(","))
}

/// Starts it for this process; later calls do nothing.
pub fn init(settings: Settings) {
    if tracing::subscriber::set_global_default(subscriber(settings, std::io::stderr)).is_err() {
        return;
    }
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload();
        // A command or a body may be in an assertion's text: the line has its begin.
        let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
        match text {
            Some(text) => {
                let (at, trace) = (panic.location(), std::backtrace::Backtrace::capture());
                tracing::error!(at = ?at, %text, %trace, "panicked");
            }
            None => usual(panic),
        }
    }));
}

/// What writes such lines.
pub fn subscriber<W>(settings: Settings, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let usual = tracing_subscriber::fmt::format().with_ansi(false).with_target(false);
    tracing_subscriber::fmt()
        .with_env_filter(settings.filter)
        .with_ansi(false)
        .with_writer(writer)
        .event_format(Bounded { usual, json: settings.json, places: limit::Places::default() })
        .finish()
}

/// The usual format, in one line of bounded length. What is too long is never kept: it is counted while it is written.
struct Bounded<F> {
    usual: F,
    json: bool,
    places: limit::Places,
}

impl<S, N, F> FormatEvent<S, N> for Bounded<F>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> Result<(), fmt::Error> {
        if is_of_requests(event.metadata()) {
            return Ok(());
        }
        let Some(suppressed) = self.places.allow(event.metadata().callsite()) else { return Ok(()) };
        if self.json {
            return writer.write_str(&json::line(event, suppressed));
        }
        let mut line = Line { out: &mut writer, room: LINE_BYTES_MAX - END_BYTES, left_out: 0, ends: 0 };
        self.usual.format_event(context, Writer::new(&mut line), event)?;
        line.end(suppressed)
    }
}

/// What `s3s` says is of one request of a client: bodies that it could not read, below `INFO` signatures too. What the node could
/// not do is logged by the door (`s3.rs`) and counted in `hive_s3_requests_total`.
fn is_of_requests(metadata: &tracing::Metadata<'_>) -> bool {
    metadata.target().split("::").next() == Some("s3s")
}

struct Line<'o> {
    out: &'o mut dyn Write,
    room: usize,
    left_out: usize,
    /// Line ends that came last: one is the line's own.
    ends: usize,
}

impl Line<'_> {
    fn put(&mut self, text: &str) -> fmt::Result {
        if self.left_out > 0 || text.len() > self.room {
            self.left_out += text.len();
            return Ok(());
        }
        self.room -= text.len();
        self.out.write_str(text)
    }

    fn put_plain(&mut self, text: &str) -> fmt::Result {
        if text.len() <= self.room || self.left_out > 0 {
            return self.put(text);
        }
        let fits = (0..=self.room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.put(&text[..fits])?;
        self.left_out += text.len() - fits;
        Ok(())
    }

    fn end(&mut self, suppressed: u64) -> fmt::Result {
        if self.left_out > 0 {
            write!(self.out, " … {} bytes left out", self.left_out)?;
        }
        if suppressed > 0 {
            write!(self.out, " suppressed={suppressed}")?;
        }
        self.out.write_str("\n")
    }
}

impl Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let body = text.trim_end_matches('\n');
        if !body.is_empty() {
            for _ in 0..std::mem::take(&mut self.ends) {
                self.put("\\n")?;
            }
            let mut plain = body;
            while let Some(at) = plain.find(char::is_control) {
                let (before, rest) = plain.split_at(at);
                self.put_plain(before)?;
                let mut rest = rest.chars();
                if let Some(control) = rest.next() {
                    self.put(&control.escape_default().to_string())?;
                }
                plain = rest.as_str();
            }
            self.put_plain(plain)?;
        }
        self.ends += text.len() - body.len();
        Ok(())
    }
}

#[cfg(test)]
pub mod tests;

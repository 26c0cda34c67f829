//! Log lines on standard error: time, level, text, key=value.
//!
//! Always: `HIVE_LOG` (for example `info,edge_node=debug`) decides what is logged, `info` by default; a line has at most
//! `LINE_BYTES_MAX` bytes, whatever a client sent, and is one line: control characters are written as escapes. Whatever `HIVE_LOG` says,
//! signatures of S3 requests are not logged (`tests::no_level_shows_requests_of_s3s`).

use std::fmt::{self, Write};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::EnvFilter;

/// The longest line, its end included.
pub const LINE_BYTES_MAX: usize = 4 << 10;
/// Of them, for saying how much was left out.
const END_BYTES: usize = 48;

/// Starts it for this process; later calls do nothing.
pub fn init() {
    let filter = EnvFilter::try_from_env("HIVE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    if tracing::subscriber::set_global_default(subscriber(filter, std::io::stderr)).is_err() {
        return;
    }
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| match panic.payload().downcast_ref::<String>() {
        // A command or a body in an assertion's text: its begin says which.
        Some(text) if text.len() > LINE_BYTES_MAX => tracing::error!(at = ?panic.location(), %text, "panicked"),
        _ => usual(panic),
    }));
}

/// What writes such lines.
pub fn subscriber<W>(filter: EnvFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let usual = tracing_subscriber::fmt::format().with_ansi(false).with_target(false);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(writer)
        .event_format(Bounded { usual })
        .finish()
}

/// The usual format, in one line of bounded length. What is too long is never kept: it is counted while it is written.
struct Bounded<F> {
    usual: F,
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
        let mut line = Line { out: &mut writer, room: LINE_BYTES_MAX - END_BYTES, left_out: 0, ends: 0 };
        self.usual.format_event(context, Writer::new(&mut line), event)?;
        line.end()
    }
}

/// What `s3s` says below `INFO` has whole requests with their signatures, and signatures that it expected.
fn is_of_requests(metadata: &tracing::Metadata<'_>) -> bool {
    metadata.target().split("::").next() == Some("s3s") && *metadata.level() > tracing::Level::INFO
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

    fn end(&mut self) -> fmt::Result {
        if self.left_out > 0 {
            write!(self.out, " … {} bytes left out", self.left_out)?;
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
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn lines_of(log: impl FnOnce()) -> Vec<String> {
        let kept = Kept::default();
        let writer = kept.clone();
        tracing::subscriber::with_default(subscriber(EnvFilter::new("info"), move || writer.clone()), log);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(text.ends_with('\n'));
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn no_level_shows_requests_of_s3s() {
        let kept = Kept::default();
        let writer = kept.clone();
        let filter = EnvFilter::new("trace,s3s::ops=trace");
        tracing::subscriber::with_default(subscriber(filter, move || writer.clone()), || {
            tracing::debug!(target: "s3s::ops", signature = "canary", "hidden");
            tracing::trace!(target: "s3s", "canary");
            tracing::error!(target: "s3s::ops", "failed to prepare");
            tracing::debug!(target: "s3sync", "of something else");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!((text.lines().count(), text.contains("canary")), (2, false), "{text}");
    }

    #[test]
    fn no_line_is_longer_than_its_bound() {
        for long in ["x".repeat(10 << 20), "ß".repeat(1 << 20), "\r\n".repeat(1 << 20), "\u{1b}[31m".repeat(1 << 20)] {
            let lines = lines_of(|| {
                tracing::warn!(body = %long, "shown");
                tracing::warn!(body = ?long, "debug");
                tracing::warn!("{long}");
            });
            assert_eq!(lines.len(), 3, "one event is one line");
            for line in lines {
                assert!(line.len() < LINE_BYTES_MAX && line.len() > LINE_BYTES_MAX / 2, "{}", line.len());
                assert!(line.ends_with("bytes left out") && !line.contains(char::is_control), "{line}");
            }
        }
    }

    #[test]
    fn a_line_cannot_pretend_to_be_two() {
        let lines = lines_of(|| {
            tracing::info!(path = %"/a\n2026-11-23T00:00:00Z ERROR node stopped\n", "short");
            tracing::info!("ends here\n");
        });
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains(r"path=/a\n2026-11-23T00:00:00Z ERROR node stopped"), "{lines:?}");
        assert!(lines[1].ends_with("ends here"), "{lines:?}");
    }
}

//! Lines as they are written.

use super::*;
use std::sync::{Arc, Mutex};
use tracing_subscriber::layer::SubscriberExt;

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

/// What these settings write of these events.
pub fn lines_with(filter: &str, format: &str, log: impl FnOnce()) -> Vec<String> {
    let kept = Kept::default();
    let writer = kept.clone();
    let settings = Settings::parse(Some(filter), Some(format)).unwrap();
    tracing::subscriber::with_default(subscriber(settings, move || writer.clone()), log);
    let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(str::to_owned).collect()
}

fn lines_of(log: impl FnOnce()) -> Vec<String> {
    lines_with("info", "text", log)
}

#[test]
fn no_level_shows_requests_of_s3s() {
    let lines = lines_with("trace,s3s::ops=trace", "text", || {
        tracing::debug!(target: "s3s::ops", signature = "canary", "hidden");
        tracing::trace!(target: "s3s", "canary");
        tracing::error!(target: "s3s::ops", "canary: failed to prepare");
        tracing::debug!(target: "s3sync", "of something else");
    });
    assert_eq!((lines.len(), lines[0].contains("canary")), (1, false), "{lines:?}");
}

#[test]
fn a_wrong_setting_is_refused() {
    let refused = |filter, format| Settings::parse(filter, format).unwrap_err();
    for filter in ["inf", "warning", "info,debgu", "edge_node=loud", "info,edge_node=", "=debug=", "[x=1"] {
        let reason = refused(Some(filter), None);
        assert!(reason.contains("HIVE_LOG=") && reason.contains("warn,edge_node=debug"), "{filter}: {reason}");
    }
    let reason = refused(None, Some("yaml"));
    assert!(reason.contains("HIVE_LOG_FORMAT=\"yaml\"") && reason.contains("text and json"), "{reason}");
    for filter in ["", "info", "OFF", "warn,edge_node=debug", " info , core_node::routing=trace ", "edge_node=debug"] {
        assert!(!Settings::parse(Some(filter), Some("text")).unwrap().json);
    }
    assert!(Settings::parse(None, Some("json")).unwrap().json);
}

#[test]
fn a_line_of_json_is_one_object() {
    let long = "\"\n\u{1}ß".repeat(1 << 20);
    let lines = lines_with("info", "json", || {
        tracing::warn!(
            node = 3u64,
            up = true,
            lag = -2,
            share = 0.5,
            name = "a\nb",
            level = "its own",
            "node {} is down",
            3
        );
        tracing::warn!(body = %long, later = ?long, "shown");
        tracing::warn!("{long}");
    });
    let objects: Vec<serde_json::Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 3);
    assert_eq!(objects[0]["message"], "node 3 is down");
    assert_eq!((&objects[0]["node"], &objects[0]["up"]), (&3.into(), &true.into()));
    assert_eq!((&objects[0]["lag"], &objects[0]["share"]), (&(-2).into(), &0.5.into()));
    assert_eq!((&objects[0]["level"], &objects[0]["level_"]), (&"WARN".into(), &"its own".into()));
    assert!(objects[0]["timestamp"].as_str().unwrap().ends_with('Z') && objects[0]["target"].is_string());
    for (line, object) in lines.iter().zip(&objects).skip(1) {
        assert!(line.len() < LINE_BYTES_MAX && line.len() > LINE_BYTES_MAX / 2, "{}", line.len());
        assert!(object["cut"].as_u64().unwrap() > 1 << 20, "{}", object["cut"]);
    }
}

/// Keeps an event as a line of JSON before which seven were suppressed.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<String>>);

impl<S: Subscriber> tracing_subscriber::Layer<S> for Shown {
    fn on_event(&self, event: &Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        *self.0.lock().unwrap() = json::line(event, 7);
    }
}

#[test]
fn a_place_that_repeats_says_how_many_lines_it_suppressed() {
    let lines = lines_of(|| (0..limit::LINES_MAX * 3).for_each(|at| tracing::warn!(at, "again")));
    assert_eq!(lines.len(), limit::LINES_MAX as usize);
    // The next line says so, in either form.
    let mut text = String::new();
    Line { out: &mut text, room: 64, left_out: 0, ends: 0 }.end(7).unwrap();
    assert_eq!(text, " suppressed=7\n");
    let kept = Shown::default();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(kept.clone()), || tracing::warn!("again"));
    let line: serde_json::Value = serde_json::from_str(&kept.0.lock().unwrap()).unwrap();
    assert_eq!((&line["suppressed"], &line["message"]), (&7.into(), &"again".into()));
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

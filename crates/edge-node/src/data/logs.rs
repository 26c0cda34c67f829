//! The logs of a data directory: begun when the directory is made, and looked for at every later start.
//!
//! ```text
//!  hive-node.json  logs: []  ─▶ each lane's log gets its first batch, synced ─▶ logs: [1, 1]  ─▶ lanes run
//!                                                                    every start ─▶ logs: [batch, batch]
//! ```
//!
//! Always: a log is begun only while the marker says that none has; from then on a lane without it does not start
//! (docs/decisions/0024). Whether the batches are there is the lane's to see (core-cluster `lane/opening.rs`).
//! Held by: `a_lost_log_on_one_node_is_refused_then_healed`.
//! Not here: the marker itself (data.rs), what a batch holds (core-log).

use super::DataError;
use base_types::Tick;
use core_log::{Log, LogAction, LogConfig, LogError, SEGMENT_BYTES_MIN};
use edge_disk::files::make_directory;
use edge_disk::segments::Segments;
use edge_disk::writer::Writer;
use edge_disk::{DiskEvent, LogDirectory};
use std::path::Path;
use std::time::Duration;

/// Rounds of writing a log out; a few are needed.
const ROUNDS_MAX: usize = 100_000;
/// What a directory made by a tool may hold besides.
const NOT_OURS: &str = "lost+found";

/// Every lane has a log, or at least its files: seen before anything is opened, so that what is refused stays untouched.
pub(super) fn check_begun(path: &Path, lanes: u16) -> Result<(), DataError> {
    for lane in 0..lanes {
        let file = format!("lane-{lane}/log");
        let found = match segment_files(&path.join(&file)) {
            Ok(0) => "holds no segment".to_string(),
            Ok(_) => continue,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "is not there".to_string(),
            Err(error) => format!("cannot be read ({error})"),
        };
        return Err(DataError::LogGone { path: path.display().to_string(), file, found });
    }
    Ok(())
}

/// No lane beyond those that the marker names.
pub(super) fn check_lanes(path: &Path, lanes: u16) -> Result<(), DataError> {
    let io = |error: std::io::Error| DataError::Io { path: path.display().to_string(), reason: error.to_string() };
    for entry in std::fs::read_dir(path).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("lane-")).and_then(|number| number.parse().ok());
        if number.is_some_and(|number: u16| number >= lanes) {
            let file = name.to_string_lossy().into_owned();
            return Err(DataError::SurplusLane { path: path.display().to_string(), file, lanes });
        }
    }
    Ok(())
}

/// A directory that is being made holds nothing but logs: what else lies there is of a node that has run.
pub(super) fn check_unused(path: &Path, lanes: u16) -> Result<(), DataError> {
    for lane in 0..lanes {
        let Ok(entries) = std::fs::read_dir(path.join(format!("lane-{lane}"))) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name != "log" && name != NOT_OURS {
                let (file, found) = (format!("lane-{lane}/log"), "has not begun".to_string());
                return Err(DataError::LogGone { path: path.display().to_string(), file, found });
            }
        }
    }
    Ok(())
}

fn segment_files(directory: &Path) -> std::io::Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(directory)? {
        count += usize::from(entry?.path().extension().is_some_and(|extension| extension == "seg"));
    }
    Ok(count)
}

/// Makes a lane's directories and its log's first batch, if they are not there yet.
pub(super) fn begin(lane_directory: &Path, identity: u64) -> Result<(), String> {
    let log_directory = lane_directory.join("log");
    let io = |error: std::io::Error| format!("{}: {error}", log_directory.display());
    make_directory(lane_directory).map_err(io)?;
    make_directory(&log_directory).map_err(io)?;
    // The smallest there is: the log continues in segments of the configured size.
    let config = LogConfig { segment_bytes: SEGMENT_BYTES_MIN, ..LogConfig::default() };
    let read = Log::recover(&mut LogDirectory::new(&log_directory), config.clone(), identity);
    let (mut log, _) = read.map_err(|error: LogError| format!("{}: {error}", log_directory.display()))?;
    if log.synced().0 > 0 {
        return Ok(());
    }
    core_cluster::begin_log(&mut log);
    write_out(&mut log, &log_directory, &config)
}

/// Writes out what is staged, synced.
pub(crate) fn write_out(log: &mut Log, path: &Path, config: &LogConfig) -> Result<(), String> {
    let (mut writer, mut segments) = (Writer::new(path, false), Segments::new(path, config.segment_bytes));
    let mut now = Tick(0);
    for _ in 0..ROUNDS_MAX {
        let actions = log.poll(now);
        if actions.is_empty() && !log.has_staged() {
            return Ok(());
        }
        for action in actions {
            let events = match action {
                LogAction::Write { .. } => writer.carry_out(action).into_iter().collect(),
                other => segments.carry_out(other),
            };
            events.into_iter().try_for_each(|event| on_event(log, event))?;
        }
        now = now + config.seal_after.max(Duration::from_millis(1));
    }
    Err(format!("{}: the log was not written out in {ROUNDS_MAX} rounds", path.display()))
}

fn on_event(log: &mut Log, event: DiskEvent) -> Result<(), String> {
    match event {
        DiskEvent::Written { batch } => log.on_written(batch),
        DiskEvent::SegmentReady { segment } => log.on_segment_ready(segment),
        DiskEvent::Failed { message } => return Err(message),
        DiskEvent::SegmentFailed { .. } => return Err("the disk has no room for the log".into()),
        DiskEvent::Full { .. } => {}
    }
    Ok(())
}

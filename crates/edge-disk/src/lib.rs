//! One log on disk: recovery reads it, a writer thread carries out its actions. A node's lanes and the
//! embedded store use the same.
//!
//! ```text
//!  log ──Write──▶ writer thread   pwrite O_DIRECT|O_DSYNC ──▶ Written | Failed
//!      ──Prepare, Remove──▶ segment thread   recycle by rename, or prewrite + fsync ──▶ SegmentReady | Full
//! ```
//!
//! Always: a batch is reported only after the write that carries it returned, synced; a failed write
//! is reported once and nothing is written after it (never retried: the pages may be marked clean
//! although they are not, ATC'20); a segment has its full, written size and a durable name before it
//! is reported.
//! Two threads, because prewriting 64 MiB must not stand in front of a batch.
//! Held by: `a_failed_write_is_final`, `the_threads_answer_and_end`.
//! Not here: what is in a block (core-log), stalls (the owner watches how long its write is out).
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // The edge is where files and threads are.

mod aligned;
pub mod files;
pub mod segments;
pub mod writer;

use base_types::Tick;
use bytes::Bytes;
use core_log::{BatchNumber, LogAction, LogDisk, LogError, SegmentId};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, SyncSender, TrySendError};

/// Actions that may wait for a thread. The log has one write and a few segments out, so a full queue is a bug.
const ACTIONS_QUEUED_MAX: usize = 1024;
/// A segment larger than this is not one of ours.
const READ_BYTES_MAX: u64 = core_log::SEGMENT_BYTES_MAX;

/// A segment's file name.
pub fn segment_path(directory: &Path, segment: SegmentId) -> PathBuf {
    directory.join(format!("{:016x}.seg", segment.0))
}

/// The segments of a directory, for recovery.
pub struct LogDirectory {
    path: PathBuf,
    files: BTreeMap<SegmentId, File>,
}

impl LogDirectory {
    /// Of this directory.
    pub fn new(path: &Path) -> LogDirectory {
        LogDirectory { path: path.into(), files: BTreeMap::new() }
    }

    fn io(&self, what: &str, error: std::io::Error) -> LogError {
        LogError::Io(format!("{} {what}: {error}", self.path.display()))
    }
}

impl LogDisk for LogDirectory {
    fn segments(&mut self) -> Result<Vec<(SegmentId, u64)>, LogError> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(|error| self.io("listing", error))? {
            let entry = entry.map_err(|error| self.io("listing", error))?;
            let name = entry.file_name();
            let Some(digits) = name.to_str().and_then(|name| name.strip_suffix(".seg")) else { continue };
            let Some(number) = (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten() else {
                continue;
            };
            // A write of the process before us may have ended without its sync.
            let file = File::open(entry.path()).map_err(|error| self.io("open", error))?;
            file.sync_all().map_err(|error| self.io("sync", error))?;
            drop_cached(&file).map_err(|error| self.io("dropping cached pages", error))?;
            let bytes = file.metadata().map_err(|error| self.io("size", error))?.len();
            found.push((SegmentId(number), bytes));
        }
        crate::files::sync_directory(&self.path).map_err(|error| self.io("sync", error))?;
        found.sort();
        Ok(found)
    }

    fn read(&mut self, segment: SegmentId, offset: u64, bytes: usize) -> Result<Bytes, LogError> {
        if bytes as u64 > READ_BYTES_MAX {
            return Err(LogError::Io(format!("a read of {bytes} bytes is beyond {READ_BYTES_MAX}")));
        }
        if !self.files.contains_key(&segment) {
            let path = segment_path(&self.path, segment);
            let file = File::open(&path).map_err(|error| self.io("open", error))?;
            self.files.insert(segment, file);
        }
        let Some(file) = self.files.get(&segment) else { return Err(LogError::Io("segment is not open".into())) };
        let mut out = vec![0u8; bytes];
        let mut filled = 0;
        while filled < bytes {
            match file.read_at(&mut out[filled..], offset + filled as u64) {
                Ok(0) => {
                    return Err(LogError::Io(format!("segment {segment:?} ends before offset {offset} + {bytes}")))
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.io(&format!("segment {segment:?} offset {offset}"), error)),
            }
        }
        Ok(Bytes::from(out))
    }
}

/// Recovery reads what is on the disk, not what a page cache says. Where O_DIRECT is refused, a write that failed leaves pages
/// behind that are marked clean and never reached the disk (ATC'20); the process has ended since, the pages have not. Those
/// that a file system keeps all the same (tmpfs has nothing else) are no disk's.
fn drop_cached(file: &File) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: a call on a descriptor we own; it has no memory effects.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 | libc::ENOSYS | libc::EINVAL => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(error)),
    }
}

/// What the threads tell the log's owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskEvent {
    /// The batch is durable.
    Written { batch: BatchNumber },
    /// A write, or the making of a segment, failed for good.
    Failed { message: String },
    /// A `Prepare` is done.
    SegmentReady { segment: SegmentId },
    /// A `Prepare` found no room; the log retries.
    SegmentFailed { segment: SegmentId },
    /// The disk is (no longer) too full for another segment.
    Full { full: bool },
}

/// Where a thread beside the log's owner puts what it has to tell. Blocks while the owner is behind.
pub type Report = Box<dyn Fn(DiskEvent) + Send>;

/// Sizes the threads need.
#[derive(Clone, Debug)]
pub struct LogDiskOptions {
    pub segment_bytes: u64,
    /// Try O_DIRECT first (off in tests of the fallback).
    pub direct: bool,
}

/// The owner's end of both threads.
pub struct LogWriter {
    writer: Option<SyncSender<LogAction>>,
    segments: Option<SyncSender<LogAction>>,
    threads: Vec<std::thread::JoinHandle<()>>,
    /// When the write that is out was handed over.
    pub write_since: Option<Tick>,
}

impl LogWriter {
    /// Starts both threads; `report` is called from them.
    pub fn start(
        name: &str,
        directory: &Path,
        options: LogDiskOptions,
        report: impl Fn() -> Report,
        spawn: impl Fn(String, Box<dyn FnOnce() + Send>) -> std::io::Result<std::thread::JoinHandle<()>>,
    ) -> std::io::Result<LogWriter> {
        let (writer_sender, writer_queue) = sync_channel(ACTIONS_QUEUED_MAX);
        let (segment_sender, segment_queue) = sync_channel(ACTIONS_QUEUED_MAX);
        let mut writer = writer::Writer::new(directory, options.direct);
        let report_written = report();
        let writer_thread = spawn(
            format!("{name}-log"),
            Box::new(move || {
                while let Ok(action) = writer_queue.recv() {
                    if let Some(event) = writer.carry_out(action) {
                        report_written(event);
                    }
                }
            }),
        )?;
        let mut segments = segments::Segments::new(directory, options.segment_bytes);
        let report_ready = report();
        let segment_thread =
            spawn(format!("{name}-seg"), Box::new(move || segments.run(segment_queue, &report_ready)))?;
        Ok(LogWriter {
            writer: Some(writer_sender),
            segments: Some(segment_sender),
            threads: vec![writer_thread, segment_thread],
            write_since: None,
        })
    }

    /// Hands an action over; an error means that a thread is gone or the log asked for too much.
    pub fn submit(&mut self, now: Tick, action: LogAction) -> Result<(), String> {
        let queue = match &action {
            LogAction::Write { .. } => {
                self.write_since = Some(now);
                &self.writer
            }
            _ => &self.segments,
        };
        let Some(queue) = queue else { return Err("the log's threads have been stopped".into()) };
        queue.try_send(action).map_err(|error| match error {
            TrySendError::Full(_) => format!("more than {ACTIONS_QUEUED_MAX} log actions wait for the disk"),
            TrySendError::Disconnected(_) => "the log's thread has ended".into(),
        })
    }

    /// Finishes what was handed over and ends the threads.
    pub fn stop(&mut self) {
        self.writer = None;
        self.segments = None;
        for thread in self.threads.drain(..) {
            // A panic in it has been reported by its spawner.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod recovery_tests;
#[cfg(test)]
mod tests;

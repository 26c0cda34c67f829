//! The thread that makes segments: recycled under a new name, prewritten, or taken from the reserve.
//!
//! ```text
//! Prepare ─▶ recycle? ─rename─▶ ready
//!         └▶ prewrite ─ok─▶ ready
//!              └ENOSPC─▶ DiskFull(true) ─▶ reserve? ─rename─▶ ready
//!                                          └none─▶ LogSegmentFailed (the log retries)
//! once a second while there is no reserve: a new one; when it could be made, DiskFull(false)
//! ```
//!
//! Always: every `Prepare` is answered once. The reserve is one segment
//! that only a full disk opens, so that Raft (elections, deletes, compaction) continues while clients'
//! writes are refused. A file of its name and another size is no reserve: as a segment it would end a full disk's log, or
//! the next start.
//! Held by: `a_full_disk_opens_the_reserve_and_heals`, `a_reserve_of_another_size_is_made_again_and_never_opened`.
//! Not here: watching free space before it has run out (monitor.rs).

use crate::aligned::AlignedBuffer;
use crate::files::sync_directory;
use crate::{segment_path, DiskEvent, Report};
use core_log::{LogAction, SegmentId};

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How often a full disk is tried again.
const FULL_RETRY: Duration = Duration::from_secs(1);
/// Zeros written at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Makes segments.
pub struct Segments {
    directory: PathBuf,
    segment_bytes: u64,
    full: bool,
    /// The log has its first segments; a reserve is made only after them.
    started: bool,
    #[cfg(test)]
    no_room: bool,
}

impl Segments {
    /// In this directory.
    pub fn new(directory: &Path, segment_bytes: u64) -> Segments {
        Segments {
            directory: directory.into(),
            segment_bytes,
            full: false,
            started: false,
            #[cfg(test)]
            no_room: false,
        }
    }

    /// There is no room for another segment, or there is again.
    #[cfg(test)]
    pub(crate) fn fill_disk(&mut self, full: bool) {
        self.no_room = full;
    }

    /// Carries out actions until the queue's sender is gone.
    pub fn run(&mut self, queue: Receiver<LogAction>, report: &Report) {
        loop {
            let pending = self.full || (self.started && !self.has_reserve());
            let action = if pending {
                match queue.recv_timeout(FULL_RETRY) {
                    Ok(action) => Some(action),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            } else {
                match queue.recv() {
                    Ok(action) => Some(action),
                    Err(_) => return,
                }
            };
            let events = match action {
                Some(action) => self.carry_out(action),
                None => self.retry(),
            };
            events.into_iter().for_each(report);
        }
    }

    /// One action; what to report.
    pub fn carry_out(&mut self, action: LogAction) -> Vec<DiskEvent> {
        match action {
            LogAction::Prepare { segment, recycle } => self.prepare(segment, recycle),
            LogAction::Remove { segment } => {
                // Only room is lost if it stays: recovery finds it again and the log removes it again.
                match std::fs::remove_file(segment_path(&self.directory, segment)) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        tracing::warn!(segment = segment.0, %error, "an unused log segment cannot be removed: check the rights of the data directory");
                    }
                    _ => {}
                }
                Vec::new()
            }
            LogAction::Write { .. } => Vec::new(),
        }
    }

    fn prepare(&mut self, segment: SegmentId, recycle: Option<SegmentId>) -> Vec<DiskEvent> {
        let made = match recycle {
            Some(old) => self.recycle(old, segment),
            None => self.prewrite(&segment_path(&self.directory, segment)),
        };
        match made {
            Ok(()) => {
                self.started = true;
                vec![DiskEvent::SegmentReady { segment }]
            }
            Err(error) if is_full(&error) => self.prepare_when_full(segment),
            Err(error) => vec![DiskEvent::Failed {
                message: format!("making segment {} in {}: {error}", segment.0, self.directory.display()),
            }],
        }
    }

    fn prepare_when_full(&mut self, segment: SegmentId) -> Vec<DiskEvent> {
        let mut events = Vec::new();
        if !self.full {
            self.full = true;
            tracing::error!(directory = %self.directory.display(), "the disk is full: writes are refused until there is room for a log segment");
            events.push(DiskEvent::Full { full: true });
        }
        let opened =
            self.has_reserve().then(|| self.rename(&self.reserve_path(), &segment_path(&self.directory, segment)));
        match opened {
            Some(Ok(())) => events.push(DiskEvent::SegmentReady { segment }),
            _ => events.push(DiskEvent::SegmentFailed { segment }),
        }
        events
    }

    /// The reserve, if it is missing; room for it ends the full state.
    pub fn retry(&mut self) -> Vec<DiskEvent> {
        let mut events = Vec::new();
        let made = if self.has_reserve() { Ok(()) } else { self.prewrite(&self.reserve_path()) };
        match made {
            Ok(()) if self.full => {
                self.full = false;
                tracing::info!(directory = %self.directory.display(), "the disk has room again");
                events.push(DiskEvent::Full { full: false });
            }
            Ok(()) => {}
            Err(error) => tracing::debug!(%error, "no room for the log's reserve segment"),
        }
        events
    }

    fn reserve_path(&self) -> PathBuf {
        self.directory.join("reserve")
    }

    /// Cut, somebody's, or of another configuration, it would be too short for what the log writes there.
    fn has_reserve(&self) -> bool {
        std::fs::metadata(self.reserve_path()).is_ok_and(|found| found.is_file() && found.len() == self.segment_bytes)
    }

    /// Under a new name, at full size; what is in it stays (the log knows its own records).
    fn recycle(&self, old: SegmentId, new: SegmentId) -> std::io::Result<()> {
        let from = segment_path(&self.directory, old);
        if std::fs::metadata(&from)?.len() != self.segment_bytes {
            // Made under another configuration: not worth keeping.
            self.prewrite(&segment_path(&self.directory, new))?;
            return std::fs::remove_file(&from);
        }
        self.rename(&from, &segment_path(&self.directory, new))
    }

    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        std::fs::rename(from, to)?;
        sync_directory(&self.directory)
    }

    /// Written with zeros, so that later writes change no metadata and need no space.
    fn prewrite(&self, path: &Path) -> std::io::Result<()> {
        #[cfg(test)]
        if self.no_room {
            return Err(std::io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let new = path.with_extension("new");
        let result = self.prewrite_at(&new).and_then(|()| self.rename(&new, path));
        if result.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        result
    }

    /// Past the page cache where the file system can: nobody reads these zeros, and in the cache they would take the
    /// place of pages that are read, and memory that a virtual machine has to ask its host for.
    fn prewrite_at(&self, path: &Path) -> std::io::Result<()> {
        match self.write_zeros(path, libc::O_DIRECT) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.write_zeros(path, 0),
            other => other,
        }
    }

    fn write_zeros(&self, path: &Path, flags: i32) -> std::io::Result<()> {
        let file = File::options().write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
        // Room first: told at once if there is none. File systems without it are written to all the same.
        // SAFETY: a call on a descriptor we own.
        let refused = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, self.segment_bytes as libc::off_t) };
        if refused != 0 {
            let error = std::io::Error::last_os_error();
            if is_full(&error) {
                return Err(error);
            }
        }
        let zeros = AlignedBuffer::new(CHUNK_BYTES);
        let mut at = 0;
        while at < self.segment_bytes {
            let chunk = (self.segment_bytes - at).min(CHUNK_BYTES as u64) as usize;
            file.write_all_at(&zeros.bytes()[..chunk], at)?;
            at += chunk as u64;
        }
        file.sync_all()
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC) | Some(libc::EDQUOT) | Some(libc::EFBIG))
}

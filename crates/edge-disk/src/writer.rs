//! The thread that writes batches: one synced pwrite each.
//!
//! Always: after one failure every further write is answered with the same failure, unwritten.
//! Held by: `a_failed_write_is_final`.
//! Not here: making segments (segments.rs).

use crate::aligned::AlignedBuffer;
use crate::{segment_path, DiskEvent};
use core_log::{LogAction, SegmentId, BLOCK_BYTES};

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Open segments kept; the log writes to one at a time, and now and then moves on.
const FILES_OPEN_MAX: usize = 2;
/// The buffer a writer begins with: a full batch.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes batches.
pub struct Writer {
    directory: PathBuf,
    files: Vec<(SegmentId, File)>,
    buffer: AlignedBuffer,
    direct: bool,
    failed: Option<String>,
}

impl Writer {
    /// Into this directory; `direct` tries O_DIRECT.
    pub fn new(directory: &Path, direct: bool) -> Writer {
        Writer {
            directory: directory.into(),
            files: Vec::new(),
            buffer: AlignedBuffer::new(BUFFER_BYTES),
            direct,
            failed: None,
        }
    }

    /// Carries out a write and says what to report. Other actions are not this thread's.
    pub fn carry_out(&mut self, action: LogAction) -> Option<DiskEvent> {
        let LogAction::Write { batch, segment, offset, blocks } = action else { return None };
        if self.failed.is_none() {
            if let Err(error) = self.write(segment, offset, &blocks) {
                let message = format!(
                    "write of {} bytes to segment {} at offset {offset} in {}: {error}",
                    blocks.len(),
                    segment.0,
                    self.directory.display()
                );
                self.failed = Some(message);
            }
        }
        Some(match &self.failed {
            None => DiskEvent::Written { batch },
            Some(message) => DiskEvent::Failed { message: message.clone() },
        })
    }

    fn write(&mut self, segment: SegmentId, offset: u64, blocks: &[u8]) -> std::io::Result<()> {
        assert!(
            offset.is_multiple_of(BLOCK_BYTES as u64) && blocks.len().is_multiple_of(BLOCK_BYTES),
            "the log writes whole blocks"
        );
        let position = self.open(segment)?;
        let aligned = self.buffer.filled(blocks);
        match self.files[position].1.write_all_at(aligned, offset) {
            // Some file systems take the flag and refuse the write; nothing was written then.
            Err(error) if self.direct && error.raw_os_error() == Some(libc::EINVAL) => {
                self.fall_back("the first write");
                let position = self.open(segment)?;
                let aligned = self.buffer.filled(blocks);
                self.files[position].1.write_all_at(aligned, offset)
            }
            other => other,
        }
    }

    /// The position of the segment's open file. Never creates one: a segment is made by `Prepare`.
    fn open(&mut self, segment: SegmentId) -> std::io::Result<usize> {
        if let Some(position) = self.files.iter().position(|(open, _)| *open == segment) {
            return Ok(position);
        }
        let path = segment_path(&self.directory, segment);
        let open = |flags: i32| File::options().write(true).custom_flags(flags).open(&path);
        let file = if self.direct {
            match open(libc::O_DSYNC | libc::O_DIRECT) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    self.fall_back("opening a segment");
                    open(libc::O_DSYNC)?
                }
                other => other?,
            }
        } else {
            open(libc::O_DSYNC)?
        };
        if self.files.len() == FILES_OPEN_MAX {
            self.files.remove(0);
        }
        self.files.push((segment, file));
        Ok(self.files.len() - 1)
    }

    /// From now on through the page cache; still synced by every write (O_DSYNC is a write and an fdatasync in one).
    fn fall_back(&mut self, at: &str) {
        tracing::warn!(directory = %self.directory.display(), at, "the file system refuses O_DIRECT; log writes go through the page cache, synced");
        self.direct = false;
        self.files.clear();
    }
}

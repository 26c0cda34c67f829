//! What the system says, in the contract's words; and the write that is never tried again.
//!
//! By design: a full disk is `Full`, whichever layer reports it.
//! Not here: what an engine's library says (the engine's own `failure`).

use crate::EngineError;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// `EDQUOT` on Linux: the user's share of the disk is used up.
const DISK_QUOTA_EXCEEDED: i32 = 122;
/// Free room that puts leave on the disk, besides what the batch needs: deletes and compaction need some.
pub const FREE_BYTES_MIN: u64 = 64 << 20;
/// A batch may take its bytes this often: once in a journal, once in place, once copied with its page.
const BATCH_COPIES: u64 = 3;

/// An error of the operating system while doing `what`.
pub fn io_failure(what: &str, error: &std::io::Error) -> EngineError {
    use std::io::ErrorKind;
    let full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
        || error.raw_os_error() == Some(DISK_QUOTA_EXCEEDED);
    if full {
        EngineError::Full(format!("{what}: {error}; free room on the disk"))
    } else {
        EngineError::Io(format!("{what}: {error}"))
    }
}

/// An error of the operating system at a path.
pub fn path_failure(path: &Path, error: &std::io::Error) -> EngineError {
    io_failure(&path.display().to_string(), error)
}

/// Bytes a user may still write to the disk of a directory.
pub fn free_bytes(directory: &Path) -> Result<u64, EngineError> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(directory.as_os_str().as_bytes())
        .map_err(|_| EngineError::Io(format!("{} holds a zero byte", directory.display())))?;
    // SAFETY: statvfs fills the zeroed structure it is given; the path ends in a zero and outlives the call.
    let found = unsafe {
        let mut found = std::mem::zeroed::<libc::statvfs>();
        (libc::statvfs(path.as_ptr(), &mut found) == 0).then_some(found)
    };
    let found = found.ok_or_else(|| path_failure(directory, &std::io::Error::last_os_error()))?;
    Ok(found.f_bavail as u64 * found.f_frsize as u64)
}

/// Refuses puts for which the disk has no room, before any of them is written: of the libraries
/// below, most take no further write once one has failed.
pub fn check_room(directory: &Path, free: u64, batch_bytes: u64) -> Result<(), EngineError> {
    let needed = batch_bytes.saturating_mul(BATCH_COPIES).saturating_add(FREE_BYTES_MIN);
    if free < needed {
        return Err(EngineError::Full(format!(
            "the disk of {} has {free} bytes free, a batch of {batch_bytes} bytes is taken while it has {needed}; free room on it",
            directory.display()
        )));
    }
    Ok(())
}

/// Remembers that a write could not be made durable. The pages it was to make durable may be marked
/// clean by the system although they never reached the disk, so no further write is taken.
#[derive(Default, Debug)]
pub struct Latch(AtomicBool);

impl Latch {
    /// An error once it has closed.
    pub fn check(&self) -> Result<(), EngineError> {
        if self.0.load(Ordering::Acquire) {
            return Err(EngineError::Io(
                "an earlier write could not be synced; no more are taken, restart the node".into(),
            ));
        }
        Ok(())
    }

    /// Closes on any error but lack of room, after which nothing of the batch is there.
    pub fn judge(&self, written: Result<(), EngineError>) -> Result<(), EngineError> {
        if written.as_ref().is_err_and(|error| !matches!(error, EngineError::Full(_))) {
            self.0.store(true, Ordering::Release);
        }
        written
    }
}

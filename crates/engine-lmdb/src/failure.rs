//! What LMDB and the system say, in the contract's words.
//!
//! Always: a full disk is `Full`, whichever layer reports it; damage is `Corrupt`; the rest is `Io`.
//! Held by: `a_full_engine_reads_deletes_and_recovers`, `damaged_heads_are_damage`.
//! Not here: damage found by our own checks (`format.rs`, `directory.rs`).

use base_engine::EngineError;
use heed::MdbError;
use std::path::Path;

/// `EDQUOT` on Linux: the user's share of the disk is used up.
const DISK_QUOTA_EXCEEDED: i32 = 122;

/// An error of LMDB while doing `what`.
pub fn lmdb_failure(what: &str, error: heed::Error) -> EngineError {
    let error = match error {
        heed::Error::Mdb(error) => error,
        heed::Error::Io(error) => return io_failure(what, &error),
        other => return EngineError::Io(format!("{what}: {other}")),
    };
    match error {
        MdbError::MapFull => EngineError::Full(format!("{what}: the map is full; raise map_bytes_max or delete")),
        MdbError::PageNotFound
        | MdbError::Corrupted
        | MdbError::Invalid
        | MdbError::Incompatible
        | MdbError::PageFull
        | MdbError::CursorFull
        | MdbError::Problem
        | MdbError::BadValSize => EngineError::Corrupt(format!("{what}: {error}; rebuild the replica from a peer")),
        MdbError::VersionMismatch => {
            EngineError::WrongFormat(format!("{what}: the file is of another LMDB version: {error}"))
        }
        MdbError::Panic => EngineError::Io(format!("{what}: {error}; close the engine and open it again")),
        other => EngineError::Io(format!("{what}: {other}")),
    }
}

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

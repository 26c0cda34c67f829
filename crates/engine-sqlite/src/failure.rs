//! What SQLite says, in the contract's words.
//!
//! Always: no room is `Full`; damage is `Corrupt`; the rest is `Io`.
//! Held by: `a_disk_without_room_refuses_puts_only`, `a_missing_or_cut_file_is_damage`.
//! Not here: damage found by seals (`base_engine::stored::format`).

use base_engine::EngineError;
use rusqlite::{Error, ErrorCode};

/// An error of SQLite while doing `what`.
pub fn sqlite_failure(what: &str, error: &Error) -> EngineError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            EngineError::Full(format!("{what}: {error}; raise bytes_max, free room on the disk, or delete"))
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch) => corrupt(what, error),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            EngineError::Io(format!("{what}: {error}; another program has the file open, stop it"))
        }
        Some(_) => EngineError::Io(format!("{what}: {error}")),
        // Not of SQLite but of what was found: a column or a table that is not what we made.
        None => corrupt(what, error),
    }
}

fn corrupt(what: &str, error: &Error) -> EngineError {
    EngineError::Corrupt(format!("{what}: {error}; rebuild the replica from a peer"))
}

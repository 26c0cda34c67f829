//! What redb says, in the contract's words.
//!
//! Always: no room is `Full`; damage is `Corrupt`; the rest is `Io`.
//! Held by: `a_disk_without_room_refuses_puts_only`, `a_missing_or_cut_file_is_damage`.
//! Not here: damage found by seals (`base_engine::stored::format`).

use base_engine::stored::failure::io_failure;
use base_engine::EngineError;
use redb::Error;
use std::io::ErrorKind;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// An error of redb while doing `what`.
pub fn redb_failure(what: &str, error: impl Into<Error>) -> EngineError {
    match error.into() {
        Error::Io(error) if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) => {
            EngineError::Corrupt(format!("{what}: {error}; rebuild the replica from a peer"))
        }
        Error::Io(error) => io_failure(what, &error),
        Error::UpgradeRequired(version) => EngineError::WrongFormat(format!(
            "{what}: the file has format {version} of an older redb; open it with the release that wrote it"
        )),
        error @ (Error::Corrupted(_)
        | Error::RepairAborted
        | Error::TableDoesNotExist(_)
        | Error::TableTypeMismatch { .. }
        | Error::TypeDefinitionChanged { .. }
        | Error::TableIsMultimap(_)) => {
            EngineError::Corrupt(format!("{what}: {error}; rebuild the replica from a peer"))
        }
        error @ (Error::PreviousIo | Error::LockPoisoned(_)) => {
            EngineError::Io(format!("{what}: {error}; close the engine and open it again"))
        }
        error => EngineError::Io(format!("{what}: {error}")),
    }
}

/// Runs what reads a file nobody has judged yet: redb asserts some of what it finds there.
pub fn guarded<T>(what: &str, open: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| {
        Err(EngineError::Corrupt(format!("{what}: redb met bytes it never wrote; rebuild the replica from a peer")))
    })
}

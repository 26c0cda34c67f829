//! What fjall says, in the contract's words.
//!
//! Always: damage is `Corrupt`; a failed write is `Io` whatever its reason, for fjall takes no further
//! one after it.
//! Held by: `a_disk_without_room_refuses_puts_only`, `lost_and_cut_files_are_damage`.
//! Not here: the room a batch needs (`base_engine::stored` asks for it before anything is written).

use base_engine::stored::failure::io_failure;
use base_engine::EngineError;
use fjall::{Error, LsmError};
use std::io::ErrorKind;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// An error of fjall while doing `what`.
pub fn fjall_failure(what: &str, error: Error) -> EngineError {
    let corrupt = |error: &dyn std::fmt::Debug| {
        EngineError::Corrupt(format!("{what}: {error:?}; rebuild the replica from a peer"))
    };
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData => corrupt(&error),
            _ => io_failure(what, &error),
        },
        Error::InvalidVersion(Some(version)) => EngineError::WrongFormat(format!(
            "{what}: the files are of fjall's format {version}; open them with the release that wrote them"
        )),
        Error::Poisoned => {
            EngineError::Io(format!("{what}: an earlier write of fjall failed; close the engine and open it again"))
        }
        Error::Locked => EngineError::Io(format!("{what}: it is still open; close what holds a snapshot of it")),
        Error::KeyspaceDeleted => EngineError::Io(format!("{what}: {error}")),
        error => corrupt(&error),
    }
}

/// A write that failed is not tried again, not even for want of room: part of it is in the journal.
pub fn write_failure(what: &str, error: Error) -> EngineError {
    match fjall_failure(what, error) {
        EngineError::Full(text) => EngineError::Io(format!("{text}; then restart the node")),
        other => other,
    }
}

/// Runs what reads files nobody has judged yet: fjall asserts some of what it finds there.
pub fn guarded<T>(what: &str, open: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| {
        Err(EngineError::Corrupt(format!("{what}: fjall met bytes it never wrote; rebuild the replica from a peer")))
    })
}

//! What RocksDB says, in the contract's words.
//!
//! Always: damage is `Corrupt`; a failed write is `Io` whatever its reason, for RocksDB takes no further
//! one after it; a text of the shim is freed once.
//! Held by: `every_kind_has_its_word`, `exceptions_become_errors_of_every_call`.
//! Not here: the room a batch needs (`base_engine::stored` asks for it before anything is written).

use crate::ffi::{hive_rocks_free, HiveError};
use base_engine::EngineError;
use std::ffi::c_int;
use std::ptr::null_mut;

// As in shim/status.h.
const OK: c_int = 0;
const CORRUPT: c_int = 1;
const NO_SPACE: c_int = 2;
const NEWER: c_int = 4;
const BUSY: c_int = 5;

impl HiveError {
    /// To be filled by a call.
    pub fn none() -> HiveError {
        HiveError { kind: OK, text: null_mut(), length: 0 }
    }

    /// What the call that filled it said.
    pub fn judge(self, what: &str) -> Result<(), EngineError> {
        if self.kind == OK {
            return Ok(());
        }
        let text = match self.text.is_null() {
            true => "no text".to_string(),
            false => {
                // SAFETY: the shim filled both, and the text lives until it is freed below.
                let bytes = unsafe { std::slice::from_raw_parts(self.text.cast::<u8>(), self.length) };
                String::from_utf8_lossy(bytes).into_owned()
            }
        };
        Err(error_of(self.kind, what, &text))
    }
}

impl Drop for HiveError {
    fn drop(&mut self) {
        // SAFETY: the shim allocated it for us, or it is null, and nobody else frees it.
        unsafe { hive_rocks_free(self.text) }
    }
}

fn error_of(kind: c_int, what: &str, text: &str) -> EngineError {
    match kind {
        CORRUPT => EngineError::Corrupt(format!("{what}: {text}; rebuild the replica from a peer")),
        NO_SPACE => EngineError::Full(format!("{what}: {text}; free room on the disk")),
        NEWER => EngineError::WrongFormat(format!("{what}: {text}; open it with the release that wrote it")),
        BUSY => EngineError::Io(format!("{what}: {text}; stop what has it open")),
        _ => EngineError::Io(format!("{what}: {text}")),
    }
}

/// A write that failed is not tried again, not even for want of room: part of it may be in the journal.
pub fn write_failure(error: EngineError) -> EngineError {
    match error {
        EngineError::Full(text) => EngineError::Io(format!("{text}; then restart the node")),
        EngineError::WrongFormat(text) => EngineError::Io(text),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_word() {
        assert!(matches!(error_of(CORRUPT, "a", "b"), EngineError::Corrupt(text) if text.starts_with("a: b; rebuild")));
        assert!(matches!(error_of(NO_SPACE, "a", "b"), EngineError::Full(_)));
        assert!(matches!(error_of(NEWER, "a", "b"), EngineError::WrongFormat(_)));
        assert!(matches!(error_of(BUSY, "a", "b"), EngineError::Io(_)));
        assert!(matches!(error_of(6, "a", "b"), EngineError::Io(_)));
        assert!(matches!(error_of(7, "a", "b"), EngineError::Io(_)));
        assert!(matches!(write_failure(EngineError::Full("x".into())), EngineError::Io(_)));
        assert_eq!(HiveError::none().judge("nothing"), Ok(()));
    }
}

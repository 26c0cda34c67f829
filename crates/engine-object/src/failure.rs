//! What SlateDB and the object store say, in the contract's words.
//!
//! Always: `Fenced` means only that another process writes now.
//! Held by: `whoever_opened_first_is_refused_for_good`.
//! Not here: which requests are tried again (`base_objects`).

use base_engine::EngineError;
use base_objects::ObjectsError;
use slatedb::{CloseReason, Error, ErrorKind};

/// What an operator is to know of a fenced engine.
const FENCED: &str = "another process has opened this place and is its writer now; stop one of the two";

/// SlateDB's words, where it gives no kind: no manifest is there; it has a number that this release does not know.
const NOTHING: &str = "failed to find latest transactional object";
const OTHER_FORMAT: &str = "format version";

/// An error of SlateDB while doing `what`.
pub fn slate_failure(what: &str, error: &Error) -> EngineError {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = source.source();
    }
    match error.kind() {
        ErrorKind::Closed(CloseReason::Fenced) => EngineError::Io(format!("{what}: {text}; {FENCED}")),
        ErrorKind::Data if text.contains(NOTHING) => {
            EngineError::Io(format!("{what}: {text}; nothing is kept there (any more), name the place that is meant"))
        }
        ErrorKind::Data if text.contains(OTHER_FORMAT) => EngineError::WrongFormat(format!(
            "{what}: {text}; the objects are of another format, open them with the release that wrote them"
        )),
        ErrorKind::Data => EngineError::Corrupt(format!("{what}: {text}; rebuild the replica from a peer")),
        _ => EngineError::Io(format!("{what}: {text}")),
    }
}

/// An error of the place.
pub fn objects_failure(error: &ObjectsError) -> EngineError {
    match error {
        ObjectsError::Invalid(text) => EngineError::WrongFormat(text.clone()),
        other => EngineError::Io(other.to_string()),
    }
}

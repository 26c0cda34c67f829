//! What goes wrong, told so that the caller knows what to do. Doors map it to their protocol.
//!
//! Always: a refusal is a code of one table (`error/code.rs`) and a message for people.
//! Held by: `error_table_matches_its_golden_file`.

mod code;
mod kind;

use crate::codec::{DecodeError, Encode, Reader, Writer};
use alloc::string::String;
pub use code::{ErrorCode, Routing, UnknownCode};
use core::fmt;
pub use kind::{ErrorKind, Outcome};

/// A request that was not done. `code` is stable and for machines, `message` is for people: lower
/// case, no full stop, naming the thing, its value, and the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Why, for programs; kind and outcome follow from it.
    pub code: ErrorCode,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into() }
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.code.kind()
    }

    /// Whether the write can have taken effect.
    pub fn outcome(&self) -> Outcome {
        self.code.outcome()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl core::error::Error for Refusal {}

impl Encode for Refusal {
    fn encode(&self, out: &mut Writer) {
        self.code.encode(out);
        out.string(&self.message);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Refusal { code: ErrorCode::decode(input)?, message: input.string("error message")? })
    }
}

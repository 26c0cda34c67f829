//! The Rust client of Hive's HTTP JSON API: several endpoints, pooled connections, retries that
//! apply once.
//!
//!   Client ──calls.rs──▶ action(JSON) ──client.rs: attempts within the deadline──▶ transport.rs: one HTTP exchange
//!
//! By design: every request carries a request id, the same on each attempt, so that a retry never
//! applies twice; "unknown outcome" is never reported as "failed". Not here: what an action does.
#![deny(missing_docs)]

mod calls;
mod client;
mod silence;
mod tls;
mod token;
mod transport;

/// The embedded store: the node's log and engines in this process, without a world (docs/guides/embedded.md).
#[cfg(feature = "embedded")]
pub use edge_embedded as embedded;

pub use base_types::{ErrorCode, ErrorKind, Outcome};
pub use calls::{base64_text, bytes_field, position, put_bytes, BatchStep, Entry, Page, Scan};
pub use client::{Client, Options};
pub use tls::{Tls, TlsFailure};
pub use token::Token;
pub use transport::Endpoint;

use serde_json::Value;

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// The endpoint is no `http://host:port` or `https://host:port`.
    #[error("endpoint '{0}' is not understood; write http://host:port or https://host:port")]
    Endpoint(String),
    /// An `https://` endpoint, and nothing says whom to trust.
    #[error("endpoint '{0}' needs an authority to trust: name its file (--ca or HIVE_CA)")]
    Untrusted(String),
    /// A file of certificates or a key cannot be used.
    #[error("{path}: {reason}; name files in PEM that fit together")]
    Certificates {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// TLS was refused by all endpoints, by one side or the other; nothing happened.
    #[error("{endpoint}: {reason}")]
    Tls {
        /// The last one asked.
        endpoint: String,
        /// For people, with what to do.
        reason: String,
    },
    /// The node refused; the write did not happen (where it has the outcome `not_applied`).
    #[error("{code}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The stable code, as the node wrote it; [`ClientError::code`] is what programs compare.
        code: String,
        /// For people.
        message: String,
        /// Whether the same request may succeed later.
        retryable: bool,
        /// The whole answer.
        answer: Box<Value>,
    },
    /// No endpoint took the request before the deadline; nothing happened.
    #[error("no endpoint answered within {waited_ms} ms ({last}); is the world running? check that a node listens there, or name others with --endpoint")]
    Unavailable {
        /// How long it was tried.
        waited_ms: u64,
        /// The last failure.
        last: String,
    },
    /// The write may have happened.
    #[error("the outcome is unknown ({last}); read the key, or repeat the write with request_id {request_id} within 60 s of its first try: it applies once")]
    Unknown {
        /// The last failure.
        last: String,
        /// Repeating with this id is safe.
        request_id: String,
    },
    /// Something answered that is no Hive.
    #[error("{endpoint} answered with status {status} and no JSON of Hive's; is it a Hive HTTP port?")]
    BadAnswer {
        /// Who.
        endpoint: String,
        /// The HTTP status.
        status: u16,
    },
}

impl ClientError {
    /// Why the node refused. None where it is no refusal, or the node is newer and gave a code that this client does not
    /// have: then `retryable` and the answer's `outcome` still say what to do.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ClientError::Refused { status, code, .. } => ErrorCode::of_answer(*status, code),
            _ => None,
        }
    }

    /// What a command-line tool exits with: 1 refused, 3 unavailable, 4 outcome unknown.
    pub fn exit_code(&self) -> u8 {
        match self {
            ClientError::Endpoint(_) | ClientError::Untrusted(_) | ClientError::Certificates { .. } => 2,
            ClientError::Unknown { .. } => 4,
            ClientError::Refused { answer, .. } if answer["error"]["outcome"] == "unknown" => 4,
            ClientError::Refused { status: 429 | 503, .. } | ClientError::Unavailable { .. } => 3,
            ClientError::Refused { .. } | ClientError::BadAnswer { .. } | ClientError::Tls { .. } => 1,
        }
    }
}

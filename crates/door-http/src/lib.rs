//! The HTTP JSON API as pure functions: a body becomes a [`base_types::action::Request`], a
//! [`base_types::action::Response`] becomes a status and a body; the same for the plain routes.
//!
//!   body ──json.rs──▶ Value ──request.rs──▶ Request ─ ─ (core-node) ─ ─▶ Response ──answer.rs──▶ body
//!   /put?key=… ──plain.rs──▶ Request                                     Response ──plain.rs──▶ text
//!
//! Always: any bytes in give a request or a typed refusal, never a panic; memory is bounded by the
//! body. Held by: `http_body`. Not here: sockets, headers, timeouts (edge-node); what an action does (core-node).
#![deny(missing_docs)]

mod access;
mod answer;
mod error;
mod fields;
mod json;
mod keys;
mod plain;
mod position;
mod request;
mod s3;
mod versioned;

pub use answer::{answer_name, write_response, write_response_into};
pub use error::{status_of, write_error, HttpError};
pub use plain::{parse_plain, write_plain, Plain, PlainRoute};
pub use request::{parse_request, ACTIONS};
pub use versioned::{write_change, write_reached, WATCH_FROM_NOW};

/// What a door takes at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The longest body.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { body_bytes_max: BODY_BYTES_MAX }
    }
}

/// The longest body by default: a value of the largest size in base64, or a batch of many.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// For the fuzzer: any bytes as a body and as a query; must not panic.
pub fn fuzz(body: &[u8]) {
    let copy = bytes::Bytes::copy_from_slice(body);
    if let Err(refused) = parse_request(copy.clone(), &Limits::default()) {
        let (status, text) = write_error(&refused);
        assert!((400..600).contains(&status));
        assert!(serde_json::from_slice::<serde_json::Value>(&text).is_ok(), "a refusal is JSON");
    }
    if let Ok(query) = core::str::from_utf8(body) {
        for path in ["/put", "/get", "/clean", query] {
            let _ = parse_plain("GET", path, query, copy.clone());
        }
    }
}

//! How a refusal looks to an HTTP client: its status and its JSON. The only place that knows.
//!
//! `CommittedNotAbsolute` is neither applied everywhere nor undone, `CommittedNotInBucket` neither in the bucket nor
//! undone: they answer 504 with outcome `unknown` (the client asked for a level that is not known to be reached) and
//! say `"committed": true`; `at` says where. Retrying it with its request id applies nothing twice.

use base_types::action::Failure;
use base_types::Refusal;

/// A request refused by the door itself, before any core saw it.
#[derive(Clone, PartialEq, Debug)]
pub struct HttpError {
    /// The HTTP status.
    pub status: u16,
    /// Why, and what to do.
    pub refusal: Refusal,
}

impl HttpError {
    /// A refusal with the status of its kind.
    pub fn new(refusal: Refusal) -> HttpError {
        HttpError { status: status_of(&refusal), refusal }
    }

    /// A refusal whose status is HTTP's own business (408, 503…).
    pub fn with_status(status: u16, refusal: Refusal) -> HttpError {
        HttpError { status, refusal }
    }
}

impl From<Refusal> for HttpError {
    fn from(refusal: Refusal) -> HttpError {
        HttpError::new(refusal)
    }
}

impl core::fmt::Display for HttpError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}", self.status, self.refusal)
    }
}

impl std::error::Error for HttpError {}

/// The HTTP status of a refusal.
pub fn status_of(refusal: &Refusal) -> u16 {
    refusal.code.status()
}

/// The status and body of a request the door refused.
pub fn write_error(error: &HttpError) -> (u16, Vec<u8>) {
    let mut body = Vec::with_capacity(256);
    write_failure(&Failure::from(error.refusal.clone()), &mut body);
    (error.status, body)
}

/// Writes the JSON of a refusal.
pub(crate) fn write_failure(failure: &Failure, out: &mut Vec<u8>) {
    let refusal = &failure.refusal;
    out.extend_from_slice(b"{\"ok\":false,\"error\":{\"code\":");
    crate::json::write_text(refusal.code.as_str(), out);
    out.extend_from_slice(b",\"message\":");
    crate::json::write_text(&refusal.message, out);
    out.extend_from_slice(b",\"retryable\":");
    out.extend_from_slice(if refusal.code.retryable() { b"true" } else { b"false" });
    out.extend_from_slice(b",\"outcome\":\"");
    out.extend_from_slice(refusal.outcome().name().as_bytes());
    out.push(b'"');
    if refusal.code.is_committed() {
        out.extend_from_slice(b",\"committed\":true");
    }
    out.push(b'}');
    if let Some(at) = &failure.at {
        crate::position::write_at(at, failure.cluster.as_deref(), out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::ErrorCode;

    #[test]
    fn every_code_is_written_with_its_status_and_outcome() {
        for code in ErrorCode::OWN.iter().copied().filter(|code| !code.is_committed()) {
            let (status, body) = write_error(&Refusal::new(code, "m \"q\"").into());
            assert_eq!(status, code.status(), "{code:?}");
            let (retryable, outcome) = (code.retryable(), code.outcome().name());
            let expected = format!(
                r#"{{"ok":false,"error":{{"code":"{code}","message":"m \"q\"","retryable":{retryable},"outcome":"{outcome}"}}}}"#
            );
            assert_eq!(String::from_utf8(body).unwrap(), expected);
        }
    }

    #[test]
    fn committed_write_is_never_not_applied() {
        let committed: Vec<_> = ErrorCode::OWN.iter().filter(|code| code.is_committed()).collect();
        assert_eq!(committed, [&ErrorCode::CommittedNotAbsolute, &ErrorCode::CommittedNotInBucket]);
        for code in committed {
            let (status, body) = write_error(&Refusal::new(*code, "node 3 lacks it").into());
            assert_eq!(status, 504);
            let text = String::from_utf8(body).unwrap();
            assert!(text.contains(r#""outcome":"unknown","committed":true"#), "{text}");
        }
    }
}

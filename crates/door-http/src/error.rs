//! How a refusal looks to an HTTP client: its status and its JSON. The only place that knows.
//!
//! `CommittedNotAbsolute` is neither applied everywhere nor undone, `CommittedNotInBucket` neither in the bucket nor
//! undone: they answer 504 with outcome `unknown` (the client asked for a level that is not known to be reached) and
//! say `"committed": true`; `at` tells where. Retrying it with its request id applies nothing twice.

use base_types::action::Failure;
use base_types::{ErrorKind, Refusal};

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

    /// A refusal whose status is HTTP's own business (405, 408, 431…).
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

/// The codes of a write that is committed but, at its deadline, not on every member, or in no bucket.
const COMMITTED: [&str; 2] = ["CommittedNotAbsolute", "CommittedNotInBucket"];

/// The HTTP status of a refusal.
pub fn status_of(refusal: &Refusal) -> u16 {
    if COMMITTED.contains(&refusal.code) {
        return 504;
    }
    if let Some(code) = base_types::s3::S3ErrorCode::from_name(refusal.code) {
        return code.status();
    }
    match refusal.kind {
        ErrorKind::Invalid => 400,
        ErrorKind::NotFound => 404,
        ErrorKind::Conflict => 409,
        ErrorKind::Precondition => 412,
        ErrorKind::TooLarge => 413,
        ErrorKind::Overloaded => 429,
        ErrorKind::Corrupt | ErrorKind::Internal => 500,
        ErrorKind::Unavailable => 503,
        ErrorKind::Unknown => 504,
        ErrorKind::Full => 507,
    }
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
    let committed = COMMITTED.contains(&refusal.code);
    let outcome = if committed { "unknown" } else { refusal.outcome().name() };
    out.extend_from_slice(b"{\"ok\":false,\"error\":{\"code\":");
    crate::json::write_text(refusal.code, out);
    out.extend_from_slice(b",\"message\":");
    crate::json::write_text(&refusal.message, out);
    out.extend_from_slice(b",\"retryable\":");
    out.extend_from_slice(if refusal.kind.retryable() || committed { b"true" } else { b"false" });
    out.extend_from_slice(b",\"outcome\":\"");
    out.extend_from_slice(outcome.as_bytes());
    out.push(b'"');
    if committed {
        out.extend_from_slice(b",\"committed\":true");
    }
    out.push(b'}');
    if let Some(at) = &failure.at {
        crate::answer::write_at(at, failure.cluster.as_deref(), out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_status() {
        let golden = [
            (ErrorKind::Invalid, 400, "not_applied", false),
            (ErrorKind::NotFound, 404, "not_applied", false),
            (ErrorKind::Conflict, 409, "not_applied", false),
            (ErrorKind::Precondition, 412, "not_applied", false),
            (ErrorKind::TooLarge, 413, "not_applied", false),
            (ErrorKind::Overloaded, 429, "not_applied", true),
            (ErrorKind::Corrupt, 500, "not_applied", false),
            (ErrorKind::Internal, 500, "not_applied", false),
            (ErrorKind::Unavailable, 503, "not_applied", true),
            (ErrorKind::Unknown, 504, "unknown", true),
            (ErrorKind::Full, 507, "not_applied", false),
        ];
        for byte in 0..=u8::MAX {
            let Some(kind) = ErrorKind::from_byte(byte) else { continue };
            let (_, status, outcome, retryable) =
                *golden.iter().find(|row| row.0 == kind).expect("a new kind needs a status");
            let (written, body) = write_error(&Refusal::new(kind, "NotFound", "m \"q\"").into());
            assert_eq!(written, status, "{kind:?}");
            let expected = format!(
                r#"{{"ok":false,"error":{{"code":"NotFound","message":"m \"q\"","retryable":{retryable},"outcome":"{outcome}"}}}}"#
            );
            assert_eq!(String::from_utf8(body).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_committed_is_never_told_as_not_applied() {
        let kinds = [ErrorKind::Unknown, ErrorKind::Unavailable];
        for (kind, code) in kinds.into_iter().flat_map(|kind| COMMITTED.map(|code| (kind, code))) {
            let (status, body) = write_error(&Refusal::new(kind, code, "node 3 lacks it").into());
            assert_eq!(status, 504);
            let text = String::from_utf8(body).unwrap();
            assert!(text.contains(r#""outcome":"unknown","committed":true"#), "{text}");
        }
    }
}

//! A refusal as S3 writes it. The only place that maps one to the other.

use base_types::s3::S3ErrorCode;
use base_types::{ErrorKind, Refusal};
use s3s::{S3Error, S3ErrorCode as WireCode};

/// The S3 error of a refusal. One that is no S3 code (the world's own: no leader, deadline passed)
/// becomes the code a client library reacts to rightly: back off and retry, or report.
pub fn to_s3(refusal: Refusal) -> S3Error {
    let code = refusal.code.s3().unwrap_or(match refusal.kind() {
        ErrorKind::Overloaded => S3ErrorCode::SlowDown,
        ErrorKind::Unavailable => S3ErrorCode::ServiceUnavailable,
        // It may have happened: S3 clients retry on 500, and what they retry is safe to do twice.
        ErrorKind::Unknown => S3ErrorCode::InternalError,
        ErrorKind::Full => S3ErrorCode::ServiceUnavailable,
        ErrorKind::Invalid => S3ErrorCode::InvalidRequest,
        ErrorKind::TooLarge => S3ErrorCode::EntityTooLarge,
        ErrorKind::NotFound => S3ErrorCode::NoSuchKey,
        ErrorKind::Conflict => S3ErrorCode::OperationAborted,
        ErrorKind::Precondition => S3ErrorCode::PreconditionFailed,
        ErrorKind::Unauthenticated | ErrorKind::Forbidden => S3ErrorCode::AccessDenied,
        ErrorKind::Corrupt | ErrorKind::Internal => S3ErrorCode::InternalError,
    });
    let wire = WireCode::from_bytes(code.name().as_bytes()).unwrap_or(WireCode::InternalError);
    let mut error = S3Error::with_message(wire, refusal.message);
    if let Ok(status) = hyper::StatusCode::from_u16(code.status()) {
        error.set_status_code(status);
    }
    error
}

/// Shorthand for a code with its own words.
pub fn code(code: S3ErrorCode) -> S3Error {
    to_s3(code.into())
}

/// Shorthand for a code with better words.
pub fn because(code: S3ErrorCode, message: impl Into<String>) -> S3Error {
    to_s3(code.because(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::ErrorCode;

    #[test]
    fn every_code_keeps_its_spelling_and_status() {
        for code in S3ErrorCode::ALL {
            let error = to_s3((*code).into());
            assert_eq!(error.code().as_str(), code.name());
            assert_eq!(error.status_code().map(|status| status.as_u16()), Some(code.status()));
        }
    }

    #[test]
    fn the_worlds_own_refusals_make_clients_back_off() {
        let status = |code| to_s3(Refusal::new(code, "m")).status_code().map(|status| status.as_u16());
        assert_eq!(status(ErrorCode::NoLeader), Some(503));
        assert_eq!(status(ErrorCode::Overloaded), Some(503));
        assert_eq!(status(ErrorCode::OutcomeUnknown), Some(500));
    }
}

//! Conditions of requests on an object's current version (RFC 9110, 13; the S3 API reference).
//!
//! Not here: which version is current (`objects.rs`).

use super::command::{Condition, EtagTest};
use base_types::mutant::{planted, Mutant};
use base_types::s3::etag::etag_matches;
use base_types::s3::S3ErrorCode;
use base_types::s3::{field, Document};
use base_types::Refusal;
use bytes::Bytes;

/// What a condition looks at.
pub(super) struct Found {
    etag: String,
    modified_ms: u64,
    size: u64,
}

impl Found {
    /// From a document, or from the fields of it that a listing returns.
    pub fn of(fields: &Bytes) -> Found {
        let document = Document::decode(fields.clone()).unwrap_or_default();
        Found {
            etag: document.text(field::ETAG).unwrap_or_default().to_string(),
            modified_ms: document.number(field::MODIFIED).unwrap_or(0),
            size: document.number(field::SIZE).unwrap_or(0),
        }
    }
}

impl EtagTest {
    fn holds(&self, etag: &str) -> bool {
        match self {
            EtagTest::Any => true,
            EtagTest::OneOf { etags } => etags.iter().any(|wanted| etag_matches(wanted, etag)),
        }
    }
}

impl Condition {
    pub(super) fn is_none(&self) -> bool {
        *self == Condition::default()
    }
}

fn failed(what: &str) -> Refusal {
    let message = format!("the condition {what} does not hold; read the object again");
    S3ErrorCode::PreconditionFailed.because(message)
}

/// A write: `If-Match` wants the object to be there (`NoSuchKey` where it is not), `If-None-Match` not.
/// `base_types::s3::WriteConditions` says the same for the gateway.
pub(super) fn check_write(condition: &Condition, found: Option<&Found>, key: &Bytes) -> Result<(), Refusal> {
    if condition.is_none() {
        return Ok(());
    }
    let Some(found) = found else {
        let wants_one =
            condition.if_match.is_some() || condition.if_size.is_some() || condition.if_modified_at.is_some();
        if wants_one {
            let message = format!("the key {key:?} does not exist, so the condition cannot hold");
            return Err(S3ErrorCode::NoSuchKey.because(message));
        }
        return Ok(());
    };
    if condition.if_match.as_ref().is_some_and(|test| !test.holds(&found.etag)) {
        return Err(failed("If-Match"));
    }
    let none_match = condition.if_none_match.as_ref().filter(|_| !planted(Mutant::NoneMatchIgnored));
    if none_match.is_some_and(|test| test.holds(&found.etag)) {
        return Err(failed("If-None-Match"));
    }
    if condition.if_unmodified_since.is_some_and(|since| seconds(found.modified_ms) > seconds(since)) {
        return Err(failed("If-Unmodified-Since"));
    }
    if condition.if_modified_at.is_some_and(|at| seconds(found.modified_ms) != seconds(at)) {
        return Err(failed("x-amz-if-match-last-modified-time"));
    }
    if condition.if_size.is_some_and(|size| size != found.size) {
        return Err(failed("x-amz-if-match-size"));
    }
    Ok(())
}

/// What a read's conditions come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Send,
    NotModified,
}

/// A read. As in S3, a condition on the ETag voids one on time.
pub(super) fn check_read(condition: &Condition, found: &Found) -> Result<Verdict, Refusal> {
    match &condition.if_match {
        Some(test) if !test.holds(&found.etag) => return Err(failed("If-Match")),
        Some(_) => {}
        None if condition.if_unmodified_since.is_some_and(|since| seconds(found.modified_ms) > seconds(since)) => {
            return Err(failed("If-Unmodified-Since"));
        }
        None => {}
    }
    let known = match &condition.if_none_match {
        Some(test) => test.holds(&found.etag),
        None => condition.if_modified_since.is_some_and(|since| seconds(found.modified_ms) <= seconds(since)),
    };
    Ok(if known { Verdict::NotModified } else { Verdict::Send })
}

/// HTTP dates know seconds only.
fn seconds(ms: u64) -> u64 {
    ms / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        Found { etag: "abc".into(), modified_ms: 5_500, size: 7 }
    }

    fn one(etag: &str) -> Option<EtagTest> {
        Some(EtagTest::OneOf { etags: vec![etag.into()] })
    }

    #[test]
    fn an_etag_makes_the_date_void() {
        let both = Condition { if_match: one("abc"), if_unmodified_since: Some(0), ..Condition::default() };
        assert_eq!(check_read(&both, &found()).unwrap(), Verdict::Send);
        let both = Condition { if_none_match: one("abc"), if_modified_since: Some(0), ..Condition::default() };
        assert_eq!(check_read(&both, &found()).unwrap(), Verdict::NotModified);
        let both = Condition { if_none_match: one("x"), if_modified_since: Some(9_000), ..Condition::default() };
        assert_eq!(check_read(&both, &found()).unwrap(), Verdict::Send);
        let since = Condition { if_modified_since: Some(5_000), ..Condition::default() };
        assert_eq!(check_read(&since, &found()).unwrap(), Verdict::NotModified);
        let unmodified = Condition { if_unmodified_since: Some(4_999), ..Condition::default() };
        assert_eq!(check_read(&unmodified, &found()).unwrap_err().code.as_str(), "PreconditionFailed");
    }

    #[test]
    fn writes_tell_what_is_missing_from_what_is_other() {
        let key = Bytes::from_static(b"k");
        let code = |condition: &Condition, found: Option<&Found>| {
            check_write(condition, found, &key).map_err(|r| r.code.as_str())
        };
        let wants = Condition { if_match: one("\"abc\""), ..Condition::default() };
        assert_eq!(code(&wants, Some(&found())), Ok(()));
        assert_eq!(code(&wants, None), Err("NoSuchKey"));
        let other = Condition { if_match: one("x"), ..Condition::default() };
        assert_eq!(code(&other, Some(&found())), Err("PreconditionFailed"));
        let fresh = Condition { if_none_match: Some(EtagTest::Any), ..Condition::default() };
        assert_eq!((code(&fresh, None), code(&fresh, Some(&found()))), (Ok(()), Err("PreconditionFailed")));
        let sized = Condition { if_size: Some(8), ..Condition::default() };
        assert_eq!((code(&sized, Some(&found())), code(&sized, None)), (Err("PreconditionFailed"), Err("NoSuchKey")));
        let at = |ms| Condition { if_modified_at: Some(ms), ..Condition::default() };
        assert_eq!(code(&at(5_000), Some(&found())), Ok(()));
        assert_eq!(code(&at(6_000), Some(&found())), Err("PreconditionFailed"));
    }
}

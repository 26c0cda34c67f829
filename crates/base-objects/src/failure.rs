//! What an object store says, in words that say what to do.
//!
//! Always: a refusal that no retry mends differs from a store that is not reachable.
//! Held by: `refusals_name_the_remedy`.
//! Not here: which requests are tried again (`limited.rs`).

use object_store::Error;

/// What cannot be done with an object store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectsError {
    /// The place is not written right: fix the setting.
    #[error("{0}")]
    Invalid(String),
    /// The store refuses: rights, credentials, no such bucket, conditions it does not know.
    #[error("{0}")]
    Refused(String),
    /// The store does not answer, or answers that it cannot now.
    #[error("{0}")]
    Unavailable(String),
    /// There is no such object.
    #[error("{0}")]
    Missing(String),
    /// It is there already, or is not what it was said to be.
    #[error("{0}")]
    Conflict(String),
}

/// Whether another try may help.
pub fn is_transient(error: &Error) -> bool {
    match error {
        Error::Generic { .. } => !is_refusal(&whole(error)),
        Error::JoinError { .. } => true,
        _ => false,
    }
}

/// Words of S3's answers that no other try changes. `object_store` gives most of them as `Generic`.
const REFUSALS: [&str; 8] = [
    "NoSuchBucket",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "AccessDenied",
    "InvalidBucketName",
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "MissingCredentials",
];

fn is_refusal(text: &str) -> bool {
    REFUSALS.iter().any(|word| text.contains(word))
}

/// An error with all it comes from: the code S3 gave is often in the last of them.
fn whole(error: &dyn std::error::Error) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    text
}

/// An error while doing `what` at `place`, with what to do about it.
pub fn explain(what: &str, place: &str, error: &Error) -> ObjectsError {
    let text = whole(error);
    let said = |remedy: &str| format!("{what} at {place}: {text}; {remedy}");
    if text.contains("NoSuchBucket") {
        return ObjectsError::Refused(said("make the bucket, or name the right one"));
    }
    if text.contains("InvalidAccessKeyId") || text.contains("SignatureDoesNotMatch") {
        return ObjectsError::Refused(said("give the right access key and secret (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, or the options of this setting)"));
    }
    match error {
        Error::PermissionDenied { .. } => {
            ObjectsError::Refused(said("give this key the rights to list, read, write and delete there"))
        }
        Error::Unauthenticated { .. } => ObjectsError::Refused(said("give an access key and its secret")),
        Error::NotFound { .. } => ObjectsError::Missing(said("name a place that is there")),
        Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. } => {
            ObjectsError::Conflict(said("another writer was first"))
        }
        Error::NotImplemented { .. } | Error::NotSupported { .. } => {
            ObjectsError::Refused(said("use a store that knows conditional writes (If-None-Match)"))
        }
        Error::UnknownConfigurationKey { .. } | Error::InvalidPath { .. } => {
            ObjectsError::Invalid(said("fix the setting"))
        }
        _ if is_refusal(&text) => ObjectsError::Refused(said("check the bucket, its rights, region and endpoint")),
        _ => ObjectsError::Unavailable(said("check the endpoint and the network; it is tried again")),
    }
}

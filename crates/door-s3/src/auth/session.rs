//! The session that a request is of: its token was opened before anything else of it was read.
//!
//! Always: a session is the request's alone, kept by the task that answers it; a session's key signs nothing without its token
//! (`sts::tests::a_sessions_key_needs_its_token`).
//! Not here: how sessions are made and opened (`sts`, and the host).

use super::Signer;
use crate::error::because;
use base_types::s3::S3ErrorCode;
use s3s::S3Result;
use std::future::Future;
use std::sync::Arc;

/// What access keys of sessions begin with.
pub const SESSION_MARK: &str = "HIVT";

/// What a session is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionName {
    /// The account that owns what it makes.
    pub account: String,
    /// The group it is narrowed to; `*`: all of its user's.
    pub role: String,
    /// As its maker called it.
    pub name: String,
}

/// A session token, opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The key that it belongs to.
    pub access_key: String,
    /// Whose it is, with the secret.
    pub signer: Signer,
    /// What it is called.
    pub who: SessionName,
}

tokio::task_local! {
    /// The session of the request that this task answers.
    static SESSION: Option<Arc<Opened>>;
}

/// Answers a request within its session.
pub(crate) async fn within<T>(session: Option<Arc<Opened>>, answer: impl Future<Output = T>) -> T {
    SESSION.scope(session, answer).await
}

/// The session of the request that this task answers.
pub(crate) fn current() -> Option<Arc<Opened>> {
    SESSION.try_with(Clone::clone).ok().flatten()
}

/// The signer of this request by its session; `None`: the key is no session's.
pub(crate) fn signer(access_key: &str) -> S3Result<Option<Signer>> {
    let is_sessions = access_key.starts_with(SESSION_MARK);
    match current() {
        Some(session) if session.access_key == access_key => Ok(Some(session.signer.clone())),
        Some(_) => Err(because(S3ErrorCode::InvalidToken, "The session token is not the access key's")),
        None if is_sessions => Err(because(
            S3ErrorCode::InvalidAccessKeyId,
            "The access key is a session's: send its session token, too (x-amz-security-token)",
        )),
        None => Ok(None),
    }
}

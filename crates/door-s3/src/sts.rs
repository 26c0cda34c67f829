//! STS at the S3 port: temporary credentials for somebody that an OIDC issuer vouches for.
//!
//! ```text
//!   POST / Action=AssumeRoleWithWebIdentity ──form.rs──▶ Sessions::assume (the host) ──answer.rs──▶ XML
//!   POST / Action=GetCallerIdentity, signed ──s3s checks──▶ Route ──answer.rs──▶ XML
//!   any request with x-amz-security-token ──▶ Sessions::open ──▶ the signer of this request alone
//! ```
//!
//! Always: a form is read up to [`FORM_BYTES_MAX`] and no further; a session's key signs nothing without its token
//! (`tests::a_sessions_key_needs_its_token`); what a form asks for and is not done is refused, never ignored
//! (`form::tests::what_is_not_done_is_refused`); each answer is STS's own XML, errors too.
//! Not here: issuers, tokens, sealing (edge-node); what a session may do (`access`, by the groups it was made for).
//! Why: docs/decisions/0075-sts-sessions-are-sealed-tokens.md.

pub mod answer;
pub mod form;

pub use crate::auth::session::{Opened, SessionName, SESSION_MARK};

use crate::auth::session::current;
use crate::auth::Keys;
use crate::error::code;
use crate::signed;
use answer::Caller;
use base_types::s3::S3ErrorCode;
use base_types::Refusal;
use form::{Asked, Assume};
use hyper::header::{HeaderMap, HeaderValue, AUTHORIZATION, CONTENT_TYPE};
use hyper::http::Extensions;
use hyper::{Method, Request, Response, Uri};
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::{Body, HttpError, S3Request, S3Response, S3Result};
use std::sync::Arc;

/// The longest form: a token of 16 KiB, written with percent signs, and the rest.
pub const FORM_BYTES_MAX: usize = 32 << 10;
/// The longest session token.
pub const SESSION_TOKEN_BYTES_MAX: usize = 8 << 10;

/// Why STS refuses: its own codes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// STS's code.
    pub code: &'static str,
    /// HTTP's.
    pub status: u16,
    /// What to do.
    pub message: String,
}

impl Fault {
    /// With these words.
    pub fn new(code: &'static str, status: u16, message: impl Into<String>) -> Fault {
        Fault { code, status, message: message.into() }
    }
}

/// A session that was made.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The public half.
    pub access_key: String,
    /// The secret half.
    pub secret_key: String,
    /// What goes with each request.
    pub session_token: String,
    /// When it ends.
    pub expires_ms: u64,
    /// Who it is, as policies and `GetCallerIdentity` say it.
    pub who: SessionName,
    /// The token's subject.
    pub subject: String,
    /// The token's audience.
    pub audience: String,
    /// The token's issuer.
    pub provider: String,
}

/// Makes and opens sessions.
#[async_trait::async_trait]
pub trait Sessions: Send + Sync + 'static {
    /// Makes one for who the token is of.
    async fn assume(&self, asked: Assume) -> Result<Issued, Fault>;
    /// Opens one; a refusal: it counts for nothing (any more).
    fn open(&self, session_token: &str) -> Result<Opened, Refusal>;
}

/// A gateway that makes none.
pub struct NoSessions;

#[async_trait::async_trait]
impl Sessions for NoSessions {
    async fn assume(&self, _: Assume) -> Result<Issued, Fault> {
        Err(Fault::new(
            "InvalidIdentityToken",
            400,
            "this node believes no OIDC issuer: name one in [[access.oidc]] of its node.toml",
        ))
    }

    fn open(&self, _: &str) -> Result<Opened, Refusal> {
        Err(S3ErrorCode::InvalidToken.because("This node makes no sessions, so the session token is not one of them"))
    }
}

/// The session of a request, where it has one.
pub(crate) fn session_of(
    sessions: &dyn Sessions,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Option<Arc<Opened>>, Refusal> {
    let Some(token) = signed::session_token(uri, headers)? else { return Ok(None) };
    if token.len() > SESSION_TOKEN_BYTES_MAX {
        return Err(
            S3ErrorCode::InvalidToken.because(format!("A session token has at most {SESSION_TOKEN_BYTES_MAX} bytes"))
        );
    }
    sessions.open(&token).map(|session| Some(Arc::new(session)))
}

/// Whether a request is for STS: S3 has no form at the root.
pub(crate) fn is_meant(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    let form = |value: &str| {
        let kind = value.split(';').next().unwrap_or("").trim();
        kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
    };
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    *method == Method::POST && uri.path() == "/" && uri.query().is_none() && kind.is_some_and(form)
}

/// Answers a request to STS. `inner` checks signatures.
pub(crate) async fn answer(
    sessions: &dyn Sessions,
    inner: &S3Service,
    request: Request<Body>,
) -> Result<Response<Body>, HttpError> {
    let answered = match read(request).await {
        Ok((Asked::Assume(asked), _)) => sessions.assume(*asked).await.map(|issued| answer::issued(&issued)),
        Ok((Asked::WhoAmI, request)) => return identity(inner, request).await,
        Err(fault) => Err(fault),
    };
    Ok(answered.unwrap_or_else(|fault| answer::fault(&fault)))
}

async fn read(request: Request<Body>) -> Result<(Asked, Request<Body>), Fault> {
    let (head, mut body) = request.into_parts();
    let stored = body.store_all_limited(FORM_BYTES_MAX).await;
    let bytes = stored.map_err(|_| {
        Fault::new(
            "ValidationError",
            413,
            format!("the form did not come whole, or has more than {FORM_BYTES_MAX} bytes"),
        )
    })?;
    let asked = form::parse(&bytes)?;
    let signed = head.headers.contains_key(AUTHORIZATION);
    match asked {
        Asked::WhoAmI if !signed => {
            Err(Fault::new("MissingAuthenticationToken", 403, "GetCallerIdentity must be signed"))
        }
        Asked::Assume(_) if signed => {
            Err(Fault::new("ValidationError", 400, "AssumeRoleWithWebIdentity is not signed: its token says who asks"))
        }
        asked => Ok((asked, Request::from_parts(head, Body::from(bytes)))),
    }
}

/// Who signed it.
async fn identity(inner: &S3Service, request: Request<Body>) -> Result<Response<Body>, HttpError> {
    if let Err(refusal) = signed::check_for("sts", request.uri(), request.headers()) {
        let code = refusal.code.s3().map_or("ValidationError", |code| code.name());
        return Ok(answer::fault(&Fault::new(code, 400, refusal.message)));
    }
    let response = inner.call(request).await?;
    if response.status().is_success() {
        return Ok(response);
    }
    Ok(answer::translated(response).await)
}

/// What s3s calls once a signature for `GetCallerIdentity` is right.
pub(crate) struct Route(pub Keys);

#[async_trait::async_trait]
impl S3Route for Route {
    fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        is_meant(method, uri, headers)
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let credentials = request.credentials.as_ref().filter(|_| request.service.as_deref() == Some("sts"));
        let access_key = credentials.ok_or_else(|| code(S3ErrorCode::AccessDenied))?.access_key.clone();
        let session = current().map(|session| session.who.clone());
        let signer = self.0.signer(&access_key).await?;
        let caller = match session {
            Some(who) => Caller::Session(who, access_key),
            None if signer.user.is_some() => Caller::User(signer.owner),
            None => Caller::Account(signer.owner.id),
        };
        let mut response = S3Response::new(Body::from(answer::identity(&caller)));
        response.headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer::XML));
        Ok(response)
    }
}

#[cfg(test)]
mod tests;

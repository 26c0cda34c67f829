//! STS's answers, as AWS documents them.
//!
//! Always: every answer is XML of the name space of 2011-06-15, with a request id; an error of s3s comes out as STS writes errors.
//! Held by: `answers_are_as_sts_writes_them`, `a_wrong_signature_is_an_sts_error`.
//! Not here: what is answered.

use super::{Fault, Issued, SessionName};
use crate::convert::timestamp;
use base_types::s3::Owner;
use hyper::header::{HeaderValue, CONTENT_TYPE};
use hyper::{Response, StatusCode};
use s3s::dto::TimestampFormat;
use s3s::xml::{SerResult, Serializer};
use s3s::Body;

/// The content type of all answers.
pub const XML: &str = "text/xml";
const NAME_SPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";
/// The longest answer of s3s that is read again.
const ERROR_BYTES_MAX: usize = 16 << 10;

type Writer<'w> = Serializer<&'w mut Vec<u8>>;

/// Who signed a request.
pub enum Caller {
    /// An S3 account.
    Account(String),
    /// A user of the directory.
    User(Owner),
    /// A session, with its access key.
    Session(SessionName, String),
}

/// `arn:aws:sts::ACCOUNT:assumed-role/ROLE/NAME`.
fn arn(who: &SessionName) -> String {
    format!("arn:aws:sts::{}:assumed-role/{}/{}", who.account, who.role, who.name)
}

/// A document below a root.
fn document(root: &str, write: impl FnOnce(&mut Writer<'_>) -> SerResult) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Serializer::new(&mut out);
    // Into memory, so it cannot fail; a document that ends early is none to any client.
    let _ = writer.decl().and_then(|()| writer.element_with_ns(root, NAME_SPACE, write));
    out
}

fn request_id() -> String {
    let mut bytes = [0; 16];
    // It names the answer for people, and nothing hangs on it.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn metadata(writer: &mut Writer<'_>) -> SerResult {
    writer.element("ResponseMetadata", |writer| writer.content("RequestId", request_id().as_str()))
}

fn response(status: u16, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(XML));
    response
}

/// The answer of `AssumeRoleWithWebIdentity`.
pub fn issued(issued: &Issued) -> Response<Body> {
    let body = document("AssumeRoleWithWebIdentityResponse", |writer| {
        writer.element("AssumeRoleWithWebIdentityResult", |writer| {
            writer.content("SubjectFromWebIdentityToken", issued.subject.as_str())?;
            writer.content("Audience", issued.audience.as_str())?;
            writer.content("Provider", issued.provider.as_str())?;
            writer.element("AssumedRoleUser", |writer| {
                writer.content("Arn", arn(&issued.who).as_str())?;
                writer.content("AssumedRoleId", format!("{}:{}", issued.access_key, issued.who.name).as_str())
            })?;
            writer.element("Credentials", |writer| {
                writer.content("AccessKeyId", issued.access_key.as_str())?;
                writer.content("SecretAccessKey", issued.secret_key.as_str())?;
                writer.content("SessionToken", issued.session_token.as_str())?;
                writer.timestamp("Expiration", &timestamp(issued.expires_ms), TimestampFormat::DateTime)
            })
        })?;
        metadata(writer)
    });
    response(200, body)
}

/// The answer of `GetCallerIdentity`.
pub fn identity(caller: &Caller) -> Vec<u8> {
    let (account, user_id, arn) = match caller {
        Caller::Account(account) => (account, account.clone(), format!("arn:aws:iam::{account}:root")),
        Caller::User(owner) => {
            (&owner.id, owner.id.clone(), format!("arn:aws:iam::{}:user/{}", owner.id, owner.display_name))
        }
        Caller::Session(who, access_key) => (&who.account, format!("{access_key}:{}", who.name), arn(who)),
    };
    document("GetCallerIdentityResponse", |writer| {
        writer.element("GetCallerIdentityResult", |writer| {
            writer.content("Arn", arn.as_str())?;
            writer.content("UserId", user_id.as_str())?;
            writer.content("Account", account.as_str())
        })?;
        metadata(writer)
    })
}

/// An error.
pub fn fault(fault: &Fault) -> Response<Body> {
    error(fault.status, fault.code, &fault.message)
}

fn error(status: u16, code: &str, message: &str) -> Response<Body> {
    let kind = if status >= 500 { "Receiver" } else { "Sender" };
    let body = document("ErrorResponse", |writer| {
        writer.element("Error", |writer| {
            writer.content("Type", kind)?;
            writer.content("Code", code)?;
            writer.content("Message", message)
        })?;
        writer.content("RequestId", request_id().as_str())
    });
    response(status, body)
}

/// An error of s3s, as STS has it.
pub async fn translated(given: Response<Body>) -> Response<Body> {
    let status = given.status().as_u16();
    let mut body = given.into_body();
    let bytes = body.store_all_limited(ERROR_BYTES_MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let within = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(found, _)| found)
    };
    let code = match within("Code").unwrap_or("AccessDenied") {
        "InvalidAccessKeyId" => "InvalidClientTokenId",
        "InvalidToken" => "InvalidClientTokenId",
        other => other,
    };
    // What s3s wrote is XML already: only texts without any markup pass.
    let plain = |text: &&str| !text.contains(['&', '<', '>']);
    error(status, code, within("Message").filter(plain).unwrap_or("the request's signature is not accepted"))
}

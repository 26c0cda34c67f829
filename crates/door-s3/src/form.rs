//! Uploads by HTML form (POST Object): the fields are read, the signature and policy judged, and the file is streamed
//! as the body of a plain PUT.
//!
//! Always: before the file at most [`FIELDS_BYTES_MAX`] and one piece of the body are read, and of the file one piece is
//! in memory; nothing of the file is read before the form's signature and policy let it in and the bucket takes it.
//! What the policy does not name never becomes a header of the PUT.
//! Held by: `a_file_is_never_ahead_of_its_reader_by_more_than_pieces`, `an_anonymous_form_is_refused_before_its_file_is_read`, `a_form_never_becomes_another_call`.
//! Not here: what a PUT does (`gateway`), signatures of other requests (`signed`, `s3s`).

mod policy;

pub(crate) use policy::signing_time;
pub use policy::Signer;

use crate::sts::SESSION_TOKEN_BYTES_MAX;
use base_types::s3::{encode_url, S3ErrorCode, PUT_BYTES_MAX};
use base_types::Refusal;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use hyper::header::{HeaderMap, HeaderName, HeaderValue, CONTENT_TYPE};
use hyper::Method;
use s3s::Body;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};

/// How much of a form may come before its file.
pub const FIELDS_BYTES_MAX: usize = 64 << 10;
/// How many fields a form may have.
pub const FIELDS_MAX: usize = 100;
/// The fields that become headers of the PUT, beside those that begin with one of [`HEADER_PREFIXES`].
const HEADERS: [&str; 10] = [
    "cache-control",
    "content-type",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-md5",
    "expires",
    "if-match",
    "if-none-match",
    "x-amz-expected-bucket-owner",
];
/// `x-amz-copy-source` and the like are not among them: they would make the PUT another call.
const HEADER_PREFIXES: [&str; 10] = [
    "x-amz-acl",
    "x-amz-checksum-",
    "x-amz-grant-",
    "x-amz-meta-",
    "x-amz-object-lock-",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-server-side-encryption",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-website-redirect-location",
];
/// Where a form that a session has signed carries its token. It becomes no header: the PUT is of the session already.
const SESSION_FIELD: &str = "x-amz-security-token";
/// What the key's `${filename}` stands for.
const FILE_NAME: &str = "${filename}";

/// An upload that a form was let in for, as an extension of its PUT.
#[derive(Clone, Debug)]
pub struct Upload {
    /// The access key that signed the form; nobody's where it is absent.
    pub access_key: Option<String>,
    /// When that was, Unix milliseconds.
    pub signed_ms: Option<u64>,
    /// How long the file may be.
    pub length: RangeInclusive<u64>,
}

/// A form, read as far as its file.
pub struct Form {
    /// By name in lower case.
    fields: BTreeMap<String, String>,
    file: Part,
}

/// What the answer of a form's upload is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Success {
    /// Where the browser is sent.
    pub redirect: Option<String>,
    /// 200, 201 or 204.
    pub status: u16,
}

fn malformed(why: impl std::fmt::Display) -> Refusal {
    S3ErrorCode::MalformedPOSTRequest.because(format!("{} ({why})", S3ErrorCode::MalformedPOSTRequest.message()))
}

fn invalid(message: impl Into<String>) -> Refusal {
    S3ErrorCode::InvalidArgument.because(message)
}

/// The boundary of a form's body; `None` where the request is no form.
pub fn boundary(method: &Method, headers: &HeaderMap) -> Option<Result<String, Refusal>> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let named = kind.get(..FORM_DATA.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORM_DATA));
    (*method == Method::POST && named).then(|| multer::parse_boundary(kind).map_err(malformed))
}

const FORM_DATA: &str = "multipart/form-data";

impl Form {
    /// Reads the fields before the file.
    pub async fn read(boundary: String, body: Body) -> Result<Form, Refusal> {
        let gate = Arc::new(Gate { wanted: AtomicBool::new(false), counted: AtomicBool::new(true) });
        let mut parts = multer::Multipart::new(Gated { body, left: FIELDS_BYTES_MAX, gate: gate.clone() }, boundary);
        let mut fields = BTreeMap::new();
        loop {
            let part = poll_fn(|context| gate.step(|| parts.poll_next_field(context))).await.map_err(form_error)?;
            let part = part.ok_or_else(|| invalid("POST requires exactly one file upload per request."))?;
            let name = part
                .name()
                .ok_or_else(|| malformed("a part of the form has no name; give it one"))?
                .to_ascii_lowercase();
            let mut part = Part { part, gate: gate.clone() };
            if name == "file" {
                gate.counted.store(false, Ordering::Relaxed);
                return Ok(Form { fields, file: part }.with_file_name());
            }
            if fields.len() == FIELDS_MAX {
                return Err(malformed(format!("the form has more than {FIELDS_MAX} fields; send fewer")));
            }
            let mut value = Vec::new();
            while let Some(piece) = part.next().await {
                value.extend_from_slice(&piece.map_err(form_error)?);
            }
            let value =
                String::from_utf8(value).map_err(|_| malformed(format!("{name} is not UTF-8; encode it so")))?;
            if fields.contains_key(&name) {
                return Err(invalid(format!("the form has the field {name} twice; send it once")));
            }
            fields.insert(name, value);
        }
    }

    /// `${filename}` is expanded in every field before a policy sees them.
    fn with_file_name(mut self) -> Form {
        let given = self.file.part.file_name().unwrap_or("");
        let name = given.rsplit(['/', '\\']).next().unwrap_or(given).to_owned();
        for (field, value) in &mut self.fields {
            if field != "policy" && value.contains(FILE_NAME) {
                *value = value.replace(FILE_NAME, &name);
            }
        }
        self
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// The key the file is put at.
    pub fn key(&self) -> Result<&str, Refusal> {
        let key = self.field("key").ok_or_else(|| invalid("Bucket POST must contain a field named 'key'."))?;
        if key.is_empty() {
            return Err(invalid("User key must have a length greater than 0."));
        }
        Ok(key)
    }

    /// Who signed it; `None` where nobody did. The signature is not verified yet.
    pub fn signer(&self) -> Result<Option<Signer>, Refusal> {
        Signer::of(&self.fields)
    }

    /// The token of the session that signed it. That the policy names it, [`Form::judge`] says, as of all fields.
    pub fn session_token(&self) -> Result<Option<&str>, Refusal> {
        let Some(token) = self.field(SESSION_FIELD) else { return Ok(None) };
        if self.field("policy").is_none() {
            return Err(invalid(format!(
                "a form with the field {SESSION_FIELD} is signed; sign it, or leave the field out"
            )));
        }
        if token.is_empty() || token.len() > SESSION_TOKEN_BYTES_MAX {
            let message = format!("{SESSION_FIELD} has 1 to {SESSION_TOKEN_BYTES_MAX} bytes");
            return Err(S3ErrorCode::InvalidToken.because(message));
        }
        Ok(Some(token))
    }

    /// Judges the form by the policy it carries, and gives how long the file may be.
    pub fn judge(&self, bucket: &str, now_ms: u64) -> Result<RangeInclusive<u64>, Refusal> {
        match self.field("policy") {
            None => Ok(0..=PUT_BYTES_MAX),
            Some(text) => policy::judge(text, &self.fields, bucket, now_ms),
        }
    }

    /// What the answer is to be.
    pub fn success(&self) -> Result<Success, Refusal> {
        let redirect = self.field("success_action_redirect").or(self.field("redirect")).filter(|url| !url.is_empty());
        if let Some(url) = redirect {
            let good = url.parse::<hyper::Uri>().is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
            // A fragment is no part of the `Uri`. What cannot be sent back is refused now: later the file is put already.
            if !good || HeaderValue::from_str(url).is_err() {
                return Err(invalid("success_action_redirect must be an http or https URL"));
            }
        }
        let status = match self.field("success_action_status") {
            Some("200") => 200,
            Some("201") => 201,
            _ => 204,
        };
        Ok(Success { redirect: redirect.map(str::to_owned), status })
    }

    /// The headers of the PUT.
    pub fn headers(&self) -> Result<HeaderMap, Refusal> {
        let mut out = HeaderMap::new();
        for (name, value) in &self.fields {
            let wanted =
                HEADERS.contains(&name.as_str()) || HEADER_PREFIXES.iter().any(|start| name.starts_with(start));
            let renamed = match name.as_str() {
                "acl" => "x-amz-acl",
                "tagging" => "x-amz-tagging",
                _ if wanted => name,
                SESSION_FIELD => continue,
                _ if name.starts_with("x-amz-") && !policy::SIGNATURE_FIELDS.contains(&name.as_str()) => {
                    return Err(invalid(format!("a form cannot have the field {name}; leave it out")));
                }
                _ => continue,
            };
            let value = if name == "tagging" { tagging_header(value)? } else { value.clone() };
            let bad = |_| invalid(format!("the field {name} cannot be sent as a header; leave it out"));
            let header =
                HeaderName::from_bytes(renamed.as_bytes()).map_err(|_| invalid(format!("bad field {name}")))?;
            if out.insert(header, HeaderValue::from_bytes(value.as_bytes()).map_err(bad)?).is_some() {
                return Err(invalid(format!("the form has {renamed} twice; send it once")));
            }
        }
        Ok(out)
    }

    /// The file.
    pub fn into_file(self) -> Body {
        Body::from(s3s::dto::StreamingBlob::wrap(sync_wrapper::SyncStream::new(self.file)))
    }
}

/// The header of what a form's `tagging` field has as XML.
fn tagging_header(xml: &str) -> Result<String, Refusal> {
    use s3s::xml::Deserialize as _;
    let mut reader = s3s::xml::Deserializer::new(xml.as_bytes());
    let tagging = s3s::dto::Tagging::deserialize(&mut reader);
    let tagging = tagging.map_err(|_| {
        S3ErrorCode::MalformedXML.because("the field tagging is no Tagging document; send the XML of PutObjectTagging")
    })?;
    // `*` and `/` stand for themselves in a query.
    let encoded = |text: Option<&str>| encode_url(text.unwrap_or(""));
    let pair = |tag: &s3s::dto::Tag| format!("{}={}", encoded(tag.key.as_deref()), encoded(tag.value.as_deref()));
    Ok(tagging.tag_set.iter().map(pair).collect::<Vec<_>>().join("&"))
}

/// What went wrong before the file.
fn form_error(error: multer::Error) -> Refusal {
    match &error {
        multer::Error::StreamReadFailed(cause) if cause.is::<TooLong>() => {
            S3ErrorCode::MaxPostPreDataLengthExceededError.because(format!(
                "Your POST request fields preceding the upload file were larger than {FIELDS_BYTES_MAX} bytes"
            ))
        }
        _ => malformed(error),
    }
}

/// The fields before the file are too long.
#[derive(Debug, thiserror::Error)]
#[error("the fields before the file are longer than {FIELDS_BYTES_MAX} bytes")]
struct TooLong;

/// Whether the next piece of a body is wanted, and whether it counts. `multer` takes all there is each time it is asked;
/// behind this gate it gets one piece, and that only once it needs it.
struct Gate {
    wanted: AtomicBool,
    counted: AtomicBool,
}

impl Gate {
    /// Asks `poll` with what there is, and then with one piece more after another.
    fn step<T>(&self, mut poll: impl FnMut() -> Poll<T>) -> Poll<T> {
        loop {
            self.wanted.store(false, Ordering::Relaxed);
            if let Poll::Ready(done) = poll() {
                return Poll::Ready(done);
            }
            self.wanted.store(true, Ordering::Relaxed);
            if let Poll::Ready(done) = poll() {
                return Poll::Ready(done);
            }
            if self.wanted.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
        }
    }
}

/// A body behind a gate.
struct Gated {
    body: Body,
    /// What may still come before the file.
    left: usize,
    gate: Arc<Gate>,
}

impl Stream for Gated {
    type Item = Result<Bytes, s3s::StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.gate.wanted.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        if self.left == 0 && self.gate.counted.load(Ordering::Relaxed) {
            return Poll::Ready(Some(Err(Box::new(TooLong))));
        }
        let piece = Stream::poll_next(Pin::new(&mut self.body), context);
        if let Poll::Ready(Some(Ok(bytes))) = &piece {
            self.gate.wanted.store(false, Ordering::Relaxed);
            self.left = self.left.saturating_sub(bytes.len());
        }
        piece
    }
}

/// A part of a form, read through its gate.
struct Part {
    part: multer::Field<'static>,
    gate: Arc<Gate>,
}

impl Stream for Part {
    type Item = multer::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let part = &mut this.part;
        this.gate.step(|| Pin::new(&mut *part).poll_next(context))
    }
}

#[cfg(test)]
mod tests;

//! What a request must have signed before anything else of it is read: the strict half of SigV4.
//!
//! `s3s` verifies a signature over what the request lists as signed. What it does not list, nobody vouches for;
//! this layer refuses requests in which something of weight is not listed.
//!
//! Always: a request passes with at most one signature, of version 4, for the service `s3`, over `host` and over
//! every `x-amz-*` header that it carries; a presigned one is good for at most [`EXPIRES_MAX_S`]. It is pure, and
//! its work is proportional to the head of the request.
//! Not here: whether the signature is right (`s3s`), whose key it is (`auth`), forms (`form`).

use crate::validate::percent_decoded;
use base_types::s3::S3ErrorCode;
use base_types::Refusal;
use hyper::header::{HeaderMap, HeaderValue, AUTHORIZATION, DATE};
use hyper::Uri;
use s3s::dto::{Timestamp, TimestampFormat};

/// The longest life of a presigned URL, in seconds: seven days.
pub const EXPIRES_MAX_S: u64 = 7 * 24 * 3600;
/// The one algorithm that is taken.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Headers that may be unsigned: a hash that the body must match, and a text for logs. They change nothing of what
/// is done.
const UNSIGNED: [&str; 2] = ["x-amz-content-sha256", "x-amz-user-agent"];
/// The parameters of a presigned URL; each comes once.
const PARAMETERS: [&str; 6] =
    ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Signature", "X-Amz-SignedHeaders"];
/// Where a session token is.
const SESSION_PARAMETER: &str = "X-Amz-Security-Token";
const SESSION_HEADER: &str = "x-amz-security-token";
/// When a request was signed.
const DATE_HEADER: &str = "x-amz-date";
/// The parameters of presigned URLs of version 2.
const OLD_PARAMETERS: [&str; 2] = ["AWSAccessKeyId", "Signature"];

/// Refuses a request whose signature leaves out what it must hold. An anonymous request passes.
pub fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    check_for("s3", uri, headers)
}

/// Dates a signature that is dated by `Date` alone: `s3s` reads `x-amz-date`. The date is part of what is signed either way.
pub(crate) fn date(headers: &mut HeaderMap) {
    if headers.contains_key(DATE_HEADER) || !headers.contains_key(AUTHORIZATION) {
        return;
    }
    let dated = headers.get(DATE).and_then(|value| value.to_str().ok());
    if let Some(stamp) = dated.and_then(stamp_of).and_then(|stamp| HeaderValue::try_from(stamp).ok()) {
        headers.insert(DATE_HEADER, stamp);
    }
}

/// `20261123T120000Z` of `Mon, 23 Nov 2026 12:00:00 GMT`, or of itself.
fn stamp_of(date: &str) -> Option<String> {
    let plain = |at: usize, byte: u8| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    if date.len() == 16 && date.bytes().enumerate().all(|(at, byte)| plain(at, byte)) {
        return Some(date.to_owned());
    }
    let time = Timestamp::parse(TimestampFormat::HttpDate, date).ok()?;
    let mut out = Vec::new();
    time.format(TimestampFormat::DateTime, &mut out).ok()?;
    let plain: String = String::from_utf8(out).ok()?.chars().filter(|c| *c != '-' && *c != ':').collect();
    Some(format!("{}Z", plain.split(['.', 'Z']).next()?))
}

/// The session token that a request carries, in its head or its query.
pub fn session_token(uri: &Uri, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let wrong = |message: &str| S3ErrorCode::InvalidToken.because(message);
    let query = Query::parse(uri.query().unwrap_or(""));
    let mut tokens = query.values_of(SESSION_PARAMETER).map(str::to_owned).collect::<Vec<String>>();
    for value in headers.get_all(SESSION_HEADER) {
        tokens.push(value.to_str().map_err(|_| wrong("The session token is not printable text"))?.to_owned());
    }
    match tokens.len() {
        0 | 1 => Ok(tokens.pop()),
        _ => Err(wrong("The request has more than one session token")),
    }
}

/// The same as [`check`] for another service.
pub(crate) fn check_for(service: &str, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let query = Query::parse(uri.query().unwrap_or(""));
    if query.names.iter().any(|name| OLD_PARAMETERS.contains(&name.as_str())) {
        return Err(only_version_4());
    }
    let mut authorizations = headers.get_all(AUTHORIZATION).iter();
    match (authorizations.next(), query.presigned()) {
        (None, false) => Ok(()),
        (None, true) => check_presigned(service, &query, headers),
        (Some(_), true) => Err(S3ErrorCode::InvalidArgument.because(
            "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter or the Authorization header \
             should be specified",
        )),
        (Some(_), false) if authorizations.next().is_some() => {
            Err(S3ErrorCode::InvalidArgument.because("The request has more than one Authorization header"))
        }
        (Some(value), false) => check_header(service, value.to_str().map_err(|_| malformed_header())?, headers),
    }
}

/// `AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…`.
fn check_header(service: &str, authorization: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    if authorization.starts_with("AWS ") {
        return Err(only_version_4());
    }
    let fields = authorization.strip_prefix(ALGORITHM).filter(|rest| rest.starts_with([' ', '\t']));
    let fields = fields.ok_or_else(|| S3ErrorCode::InvalidArgument.because("Unsupported Authorization Type"))?;
    let mut fields = fields.split(',').map(str::trim);
    let mut field = |name: &str| fields.next().and_then(|field| field.strip_prefix(name)).ok_or_else(malformed_header);
    let (credential, signed) = (field("Credential=")?, field("SignedHeaders=")?);
    let _signature = field("Signature=")?;
    if fields.next().is_some() || !is_for(service, credential) {
        return Err(malformed_header());
    }
    check_signed_headers(signed, headers)
}

fn check_presigned(service: &str, query: &Query, headers: &HeaderMap) -> Result<(), Refusal> {
    let wrong = |message: String| S3ErrorCode::AuthorizationQueryParametersError.because(message);
    let mut values = Vec::with_capacity(PARAMETERS.len());
    for name in PARAMETERS {
        let mut found = query.values_of(name);
        match (found.next(), found.next()) {
            (Some(value), None) => values.push(value),
            _ => return Err(wrong(format!("A presigned URL has each of {} once: see {name}", PARAMETERS.join(", ")))),
        }
    }
    let (algorithm, credential, expires, signed) = (values[0], values[1], values[3], values[5]);
    if algorithm != ALGORITHM {
        return Err(wrong(format!("X-Amz-Algorithm only supports \"{ALGORITHM}\"")));
    }
    if !is_for(service, credential) {
        return Err(wrong("The Credential must be ACCESS-KEY/DATE/REGION/s3/aws4_request".to_owned()));
    }
    match expires.parse::<u64>() {
        Ok(seconds) if seconds <= EXPIRES_MAX_S => {}
        Ok(_) => {
            return Err(wrong(format!(
                "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less \
                 than {EXPIRES_MAX_S} seconds"
            )))
        }
        Err(_) => return Err(wrong("X-Amz-Expires must be a number of seconds".to_owned())),
    }
    check_signed_headers(signed, headers)
}

/// `host` and every header that changes what is done must be among the signed ones.
fn check_signed_headers(signed: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    let is_signed = |name: &str| signed.split(';').any(|signed| signed == name);
    let unsigned = |name: &str| {
        S3ErrorCode::AccessDenied
            .because(format!("There were headers present in the request which were not signed: {name}"))
    };
    if !is_signed("host") {
        return Err(unsigned("host"));
    }
    let of_weight = |name: &&str| name.starts_with("x-amz-") && !UNSIGNED.contains(name);
    match headers.keys().map(|name| name.as_str()).filter(of_weight).find(|name| !is_signed(name)) {
        Some(name) => Err(unsigned(name)),
        None => Ok(()),
    }
}

/// Whether a credential's scope is `ACCESS-KEY/DATE/REGION/s3/aws4_request`.
pub fn for_s3(credential: &str) -> bool {
    is_for("s3", credential)
}

fn is_for(service: &str, credential: &str) -> bool {
    let mut scope = credential.rsplit('/');
    scope.next() == Some("aws4_request") && scope.next() == Some(service)
}

fn only_version_4() -> Refusal {
    S3ErrorCode::InvalidRequest
        .because(format!("The authorization mechanism you have provided is not supported. Please use {ALGORITHM}."))
}

fn malformed_header() -> Refusal {
    S3ErrorCode::AuthorizationHeaderMalformed.because(format!(
        "The authorization header is malformed; it must be {ALGORITHM} \
         Credential=ACCESS-KEY/DATE/REGION/s3/aws4_request, SignedHeaders=…, Signature=…"
    ))
}

/// A query, its names and values decoded. What cannot be decoded stays as it came.
struct Query {
    names: Vec<String>,
    values: Vec<String>,
}

impl Query {
    fn parse(query: &str) -> Query {
        let decoded = |text: &str| percent_decoded(text).unwrap_or_else(|| text.to_owned());
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let (names, values) = pairs.map(|(name, value)| (decoded(name), decoded(value))).unzip();
        Query { names, values }
    }

    /// Whether any part of a signature is in it.
    fn presigned(&self) -> bool {
        self.names.iter().any(|name| PARAMETERS.contains(&name.as_str()))
    }

    fn values_of<'q>(&'q self, wanted: &'q str) -> impl Iterator<Item = &'q str> {
        let pairs = self.names.iter().zip(&self.values);
        pairs.filter(move |(name, _)| *name == wanted).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests;

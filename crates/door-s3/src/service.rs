//! The gateway as an HTTP service: signatures, path and virtual-host style, requests of browsers from
//! elsewhere (CORS), refusals without a body read.

use crate::auth::DecidedByCalls;
use crate::cors::{allow, matching, CrossOrigin};
use crate::error::because;
use crate::gateway::{Gateway, Peer};
use crate::validate;
use base_types::s3::{CorsRule, S3ErrorCode};
use hyper::body::Body as _;
use hyper::header::{HeaderMap, HeaderValue, CONNECTION, EXPECT, HOST, ORIGIN};
use hyper::{Method, Request, Response, StatusCode, Uri};
use s3s::host::{DomainError, MultiDomain};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::validation::NameValidation;
use s3s::{Body, HttpError};

/// How requests are read.
#[derive(Clone, Debug, Default)]
pub struct ServiceConfig {
    /// The domains below which a bucket is a host (`bucket.domain`); path style where empty.
    pub domains: Vec<String>,
}

/// The names S3 takes. Shorter and older ones are refused too: a bucket of such a name cannot be made.
struct Names;

impl NameValidation for Names {
    fn validate_bucket_name(&self, name: &str) -> bool {
        validate::is_bucket_name(name)
    }
}

/// A service that any hyper server can run.
#[derive(Clone)]
pub struct Service {
    inner: S3Service,
    gateway: Gateway,
    domains: Vec<String>,
}

impl Service {
    /// Over a gateway.
    pub fn new(gateway: Gateway, config: &ServiceConfig) -> Result<Service, DomainError> {
        let keys = gateway.keys();
        let mut builder = S3ServiceBuilder::new(gateway.clone());
        builder.set_auth(keys);
        builder.set_access(DecidedByCalls);
        builder.set_validation(Names);
        if !config.domains.is_empty() {
            builder.set_host(MultiDomain::new(&config.domains)?);
        }
        Ok(Service { inner: builder.build(), gateway, domains: config.domains.clone() })
    }

    /// Answers one request.
    pub async fn answer(&self, mut request: Request<Body>, peer: Peer) -> Result<Response<Body>, HttpError> {
        if request.method() == Method::OPTIONS {
            return self.preflight(request.uri(), request.headers()).await;
        }
        let cors = match text(request.headers(), ORIGIN.as_str()) {
            None => None,
            Some(origin) => {
                let asked = CrossOrigin { origin, method: request.method().as_str(), headers: "" };
                let rules = self.rules(request.uri(), request.headers()).await;
                matching(&rules, &asked).map(|rule| allow(rule, &asked, false))
            }
        };
        request.extensions_mut().insert(peer);
        let renamed = renamed_for(request.method(), request.uri());
        let may_have_body = matches!(*request.method(), Method::PUT | Method::POST);
        let waits = text(request.headers(), EXPECT.as_str()).is_some_and(|it| it.eq_ignore_ascii_case("100-continue"));
        let says_no_continue = waits && request.body().is_end_stream();
        let mut response = self.inner.call(request).await?;
        if let Some(renamed) = renamed.filter(|renamed| renamed.is_meant(&response)) {
            response = refused(renamed.code, renamed.code.message())?;
        }
        response.headers_mut().extend(cors.unwrap_or_default());
        if says_no_continue || may_have_body && !response.status().is_success() {
            // A refusal can come before the body was read. The client that waits for `100 Continue` will
            // never send it, and its next request on this connection would be taken for it. Nor is it said where
            // there is no body: botocore then takes this answer's status for that of its next request, too.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// A browser asks whether a page from elsewhere may do something.
    async fn preflight(&self, uri: &Uri, headers: &HeaderMap) -> Result<Response<Body>, HttpError> {
        let asked = text(headers, ORIGIN.as_str()).zip(text(headers, "access-control-request-method"));
        let Some((origin, method)) = asked else {
            let message = "Insufficient information. Origin request header needed.";
            return refused(S3ErrorCode::InvalidRequest, message);
        };
        let wanted = text(headers, "access-control-request-headers").unwrap_or("");
        let asked = CrossOrigin { origin, method, headers: wanted };
        let rules = self.rules(uri, headers).await;
        let Some(rule) = matching(&rules, &asked) else {
            return refused(S3ErrorCode::AccessDenied, "CORSResponse: This CORS request is not allowed.");
        };
        let mut response = Response::new(Body::empty());
        *response.headers_mut() = allow(rule, &asked, true);
        Ok(response)
    }

    /// The rules of the bucket a request names; none where there is no such bucket.
    async fn rules(&self, uri: &Uri, headers: &HeaderMap) -> Vec<CorsRule> {
        let host = text(headers, HOST.as_str()).unwrap_or("");
        let by_host = self.domains.iter().find_map(|domain| host.strip_suffix(domain.as_str())?.strip_suffix('.'));
        let by_path = || uri.path().trim_start_matches('/').split('/').next().unwrap_or("");
        self.gateway.cors_rules(by_host.unwrap_or_else(by_path)).await
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// A refusal of `s3s` for which the API has a code of its own where this subresource is put.
struct Renamed {
    subresource: &'static str,
    /// What the refusal says.
    says: &'static str,
    code: S3ErrorCode,
}

const RENAMED: &[Renamed] = &[
    Renamed { subresource: "acl", says: "<Code>MalformedXML</Code>", code: S3ErrorCode::MalformedACLError },
    Renamed { subresource: "policy", says: "expected UTF-8 body", code: S3ErrorCode::MalformedPolicy },
];

fn renamed_for(method: &Method, uri: &Uri) -> Option<&'static Renamed> {
    let names = |name: &str| uri.query().unwrap_or("").split('&').any(|pair| pair.split('=').next() == Some(name));
    RENAMED.iter().filter(|_| *method == Method::PUT).find(|renamed| names(renamed.subresource))
}

impl Renamed {
    /// Whether this is that refusal. Its body is there whole: `s3s` made it of one piece.
    fn is_meant(&self, response: &Response<Body>) -> bool {
        let says = |body: bytes::Bytes| body.windows(self.says.len()).any(|part| part == self.says.as_bytes());
        response.status() == StatusCode::BAD_REQUEST && response.body().bytes().is_some_and(says)
    }
}

fn refused(code: S3ErrorCode, message: &str) -> Result<Response<Body>, HttpError> {
    let response = because(code, message).to_http_response();
    response.map_err(|error| HttpError::new(Box::new(error)))
}

//! The gateway as an HTTP service: signatures, path and virtual-host style, forms, requests of browsers from
//! elsewhere (CORS), refusals without a body read.
//!
//! Always: `signed::check` lets a request in before anything else of it is read; no body but an object's is longer
//! than [`DOCUMENT_BYTES_MAX`].

use crate::access_log::{self, AccessLog, Flushed};
use crate::auth::session;
use crate::cors::{allow, matching, CrossOrigin};
use crate::error::{because, code, to_s3};
use crate::form::{self, Form, Success};
use crate::gateway::{now_ms, BeforeBody, Gateway, Peer};
use crate::metrics::{Asked, Metrics};
use crate::stamp::RequestId;
use crate::sts::{self, Sessions};
use crate::validate::DOCUMENT_BYTES_MAX;
use crate::website::Visit;
use crate::{document, signed, validate};
use base_types::s3::{encode_url, CorsRule, S3ErrorCode};
use base_types::Refusal;
use hyper::body::Body as _;
use hyper::header::{
    HeaderMap, HeaderValue, AUTHORIZATION, CONNECTION, CONTENT_TYPE, ETAG, EXPECT, HOST, LOCATION, ORIGIN, REFERER,
    USER_AGENT,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Uri};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::dto::PostResponse;
use s3s::host::{DomainError, MultiDomain, S3Host};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::validation::NameValidation;
use s3s::{Body, HttpError, S3Error, S3Result};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// How requests are read.
#[derive(Clone, Debug, Default)]
pub struct ServiceConfig {
    /// The domains below which a bucket is a host (`bucket.domain`); path style where empty.
    pub domains: Vec<String>,
    /// The domains below which a bucket is a website.
    pub website_domains: Vec<String>,
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
    /// Takes the PUTs that forms become: who signed those is verified here, and no signature is left in them.
    forms: S3Service,
    gateway: Gateway,
    /// Objects by path for who visits a website; nobody signs those.
    objects: S3Service,
    log: AccessLog,
    sessions: Arc<dyn Sessions>,
    domains: Vec<String>,
    website_domains: Vec<String>,
    hosts: Option<Arc<MultiDomain>>,
    metrics: Metrics,
}

impl Service {
    /// Over a gateway.
    pub fn new(gateway: Gateway, config: &ServiceConfig) -> Result<Service, DomainError> {
        let domains = config.domains.clone();
        let mut inner = builder(&gateway, &domains)?;
        inner.set_auth(gateway.keys());
        inner.set_access(BeforeBody(gateway.clone()));
        inner.set_route(sts::Route(gateway.keys()));
        let forms = builder(&gateway, &domains)?.build();
        let hosts = if domains.is_empty() { None } else { Some(Arc::new(MultiDomain::new(&domains)?)) };
        let objects = builder(&gateway, &[])?.build();
        let sessions = Arc::new(sts::NoSessions);
        let website_domains = config.website_domains.clone();
        let (log, metrics) = (AccessLog::default(), Metrics::default());
        let inner = inner.build();
        Ok(Service { inner, forms, gateway, objects, log, sessions, domains, website_domains, hosts, metrics })
    }

    /// With sessions of users of OIDC issuers.
    pub fn with_sessions(self, sessions: Arc<dyn Sessions>) -> Service {
        Service { sessions, ..self }
    }

    /// Counting in these counters.
    pub fn with_metrics(self, metrics: Metrics) -> Service {
        Service { metrics, ..self }
    }

    /// Answers one request, counts it and notes it for access logs.
    pub async fn answer(&self, mut request: Request<Body>, peer: Peer) -> Result<Response<Body>, HttpError> {
        let (begun, asked) = (Instant::now(), Asked::default());
        request.extensions_mut().insert(asked.clone());
        let answer = self.answer_noted(request, peer).await;
        let status = answer.as_ref().map_or(StatusCode::INTERNAL_SERVER_ERROR, Response::status);
        self.metrics.count(asked.operation(), status.as_u16(), begun.elapsed());
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            let operation = asked.operation();
            tracing::error!(operation, from = %peer.address, "an S3 request ended with InternalError");
        }
        answer
    }

    async fn answer_noted(&self, request: Request<Body>, peer: Peer) -> Result<Response<Body>, HttpError> {
        let id = RequestId::new();
        let head = access_log::Head::of(&request, peer, self.site(request.headers()).is_some());
        // Boxed: the future of a call is large, and would be moved through each layer's.
        let mut response = self.log.within(&id, head, Box::pin(self.answer_any(request, peer))).await?;
        id.put_on(&mut response);
        Ok(response)
    }

    /// Puts the access logs that wait as objects.
    pub async fn flush_access_logs(&self) -> Flushed {
        self.log.flush(&self.gateway).await
    }

    async fn answer_any(&self, request: Request<Body>, peer: Peer) -> Result<Response<Body>, HttpError> {
        match sts::session_of(&*self.sessions, request.uri(), request.headers()) {
            Ok(session) => session::within(session, self.answer_within(request, peer)).await,
            Err(refusal) => {
                let mut response = refused(to_s3(refusal))?;
                // Its body is not read, and the next request is not to be taken for it.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                Ok(response)
            }
        }
    }

    /// Answers one request, within its session.
    async fn answer_within(&self, request: Request<Body>, peer: Peer) -> Result<Response<Body>, HttpError> {
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
        let may_have_body = matches!(*request.method(), Method::PUT | Method::POST);
        let waits = text(request.headers(), EXPECT.as_str()).is_some_and(|it| it.eq_ignore_ascii_case("100-continue"));
        let says_no_continue = waits && request.body().is_end_stream();
        let for_sts = sts::is_meant(request.method(), request.uri(), request.headers());
        let site = self.site(request.headers()).map(str::to_owned);
        let mut response = match signed::check(request.uri(), request.headers()) {
            _ if site.is_some() => Box::pin(self.visited(request, peer, site.as_deref().unwrap_or(""))).await?,
            _ if for_sts => sts::answer(&*self.sessions, &self.inner, request).await?,
            Err(refusal) => refused(to_s3(refusal))?,
            Ok(()) => self.carried_out(request, peer).await?,
        };
        response.headers_mut().extend(cors.unwrap_or_default());
        if says_no_continue || may_have_body && !response.status().is_success() {
            // A refusal can come before the body was read. The client that waits for `100 Continue` will
            // never send it, and its next request on this connection would be taken for it. Nor is it said where
            // there is no body: botocore then takes this answer's status for that of its next request, too.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Answers a request to a website.
    async fn visited(&self, request: Request<Body>, peer: Peer, bucket: &str) -> Result<Response<Body>, HttpError> {
        let visit = Visit { gateway: &self.gateway, objects: &self.objects, bucket, peer };
        visit.answer(request.method(), request.uri(), request.headers()).await
    }

    /// The bucket whose website a request is sent to, by its host.
    fn site<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let host = text(headers, HOST.as_str())?;
        bucket_below(&self.website_domains, host)
    }

    /// Carries out a request whose signature holds all it must.
    async fn carried_out(&self, mut request: Request<Body>, peer: Peer) -> Result<Response<Body>, HttpError> {
        request.extensions_mut().insert(peer);
        if let Some(boundary) = form::boundary(request.method(), request.headers()) {
            let uri = request.uri().clone();
            let mut response = match self.upload(request, boundary).await {
                Ok(response) => response,
                Err(error) => refused(error)?,
            };
            document::mend(&uri, &mut response);
            return Ok(response);
        }
        signed::date(request.headers_mut());
        let renamed = renamed_for(request.method(), request.uri());
        let uri = request.uri().clone();
        let mut response = self.inner.call(request).await?;
        document::mend(&uri, &mut response);
        if let Some(renamed) = renamed.filter(|renamed| renamed.is_meant(&response)) {
            response = refused(code(renamed.code))?;
        }
        Ok(response)
    }

    /// Takes the file of a form, as the body of a PUT.
    async fn upload(&self, request: Request<Body>, boundary: Result<String, Refusal>) -> S3Result<Response<Body>> {
        let (head, body) = request.into_parts();
        if head.headers.contains_key(AUTHORIZATION) {
            return Err(because(S3ErrorCode::InvalidArgument, "A form is signed by its fields, not by a header"));
        }
        if session::current().is_some() {
            let message = "A form carries its session token in the field x-amz-security-token, which its policy names";
            return Err(because(S3ErrorCode::InvalidArgument, message));
        }
        let (bucket, in_host) = self.form_bucket(&head)?;
        let form = Form::read(boundary.map_err(to_s3)?, body).await.map_err(to_s3)?;
        let token = form.session_token().map_err(to_s3)?;
        let session = token.map(|token| self.sessions.open(token).map(Arc::new)).transpose().map_err(to_s3)?;
        session::within(session, self.put_file(head, form, bucket, in_host)).await
    }

    /// Puts the file of a form, within the form's session.
    async fn put_file(&self, head: Parts, form: Form, bucket: String, in_host: bool) -> S3Result<Response<Body>> {
        let signer = form.signer().map_err(to_s3)?;
        if let Some(signer) = &signer {
            let secret = self.gateway.keys().signer(&signer.access_key).await?.secret_key;
            signer.verify(&secret, now_ms()).map_err(to_s3)?;
        }
        let length = form.judge(&bucket, now_ms()).map_err(to_s3)?;
        let (key, success) = (form.key().map_err(to_s3)?.to_owned(), form.success().map_err(to_s3)?);
        let path = if in_host { encode_url(&key) } else { format!("{bucket}/{}", encode_url(&key)) };
        let uri = format!("/{path}").parse::<Uri>().map_err(|_| code(S3ErrorCode::InvalidURI))?;
        let mut put = Request::new(Body::empty());
        *put.method_mut() = Method::PUT;
        *put.uri_mut() = uri;
        *put.headers_mut() = form.headers().map_err(to_s3)?;
        for name in [HOST, USER_AGENT, REFERER] {
            put.headers_mut().extend(head.headers.get(&name).map(|value| (name, value.clone())));
        }
        let location = format!("{}/{path}", origin_of(&head));
        put.extensions_mut().extend(head.extensions);
        let signed_ms = signer.as_ref().map(|signer| signer.date_ms);
        let access_key = signer.map(|signer| signer.access_key);
        put.extensions_mut().insert(form::Upload { access_key, signed_ms, length });
        *put.body_mut() = form.into_file();
        let answer = self.forms.call(put).await.map_err(|_| code(S3ErrorCode::InternalError))?;
        if !answer.status().is_success() {
            return Ok(answer);
        }
        success.answer(answer.headers(), &location, &bucket, &key)
    }

    /// The bucket a form is sent to, and whether the host names it.
    fn form_bucket(&self, head: &Parts) -> S3Result<(String, bool)> {
        let host = text(&head.headers, HOST.as_str()).unwrap_or("");
        let decoded = validate::percent_decoded(&head.uri.path().replace('+', "%2B"));
        let decoded = decoded.ok_or_else(|| code(S3ErrorCode::InvalidURI))?;
        let named = match &self.hosts {
            Some(hosts) if !is_address(host) => hosts.parse_host_header(host)?.bucket().map(str::to_owned),
            _ => None,
        };
        let in_host = named.is_some();
        let bucket = match (named, decoded.trim_matches('/')) {
            (Some(bucket), "") => bucket,
            (None, bucket) if !bucket.is_empty() && !bucket.contains('/') => bucket.to_owned(),
            _ => return Err(because(S3ErrorCode::MethodNotAllowed, "A form is sent to a bucket: POST /BUCKET")),
        };
        validate::bucket_name(&bucket).map_err(to_s3)?;
        Ok((bucket, in_host))
    }

    /// A browser asks whether a page from elsewhere may do something.
    async fn preflight(&self, uri: &Uri, headers: &HeaderMap) -> Result<Response<Body>, HttpError> {
        let asked = text(headers, ORIGIN.as_str()).zip(text(headers, "access-control-request-method"));
        let Some((origin, method)) = asked else {
            let message = "Insufficient information. Origin request header needed.";
            return refused(because(S3ErrorCode::InvalidRequest, message));
        };
        let wanted = text(headers, "access-control-request-headers").unwrap_or("");
        let asked = CrossOrigin { origin, method, headers: wanted };
        let rules = self.rules(uri, headers).await;
        let Some(rule) = matching(&rules, &asked) else {
            return refused(not_allowed());
        };
        let mut response = Response::new(Body::empty());
        *response.headers_mut() = allow(rule, &asked, true);
        Ok(response)
    }

    /// The rules of the bucket a request names; none where there is no such bucket.
    async fn rules(&self, uri: &Uri, headers: &HeaderMap) -> Vec<CorsRule> {
        let host = text(headers, HOST.as_str()).unwrap_or("");
        let by_host = bucket_below(&self.website_domains, host).or_else(|| bucket_below(&self.domains, host));
        let by_path = || uri.path().trim_start_matches('/').split('/').next().unwrap_or("");
        self.gateway.cors_rules(by_host.unwrap_or_else(by_path)).await
    }
}

/// What both services have in common.
fn builder(gateway: &Gateway, domains: &[String]) -> Result<S3ServiceBuilder, DomainError> {
    let mut builder = S3ServiceBuilder::new(gateway.clone());
    let mut limits = S3Config::default();
    limits.xml_max_body_size = DOCUMENT_BYTES_MAX;
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(limits))));
    builder.set_validation(Names);
    if !domains.is_empty() {
        builder.set_host(MultiDomain::new(domains)?);
    }
    Ok(builder)
}

/// What a browser is refused that asks for what no rule allows: a code of its own.
fn not_allowed() -> S3Error {
    let message = "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, \
                   request method / Access-Control-Request-Method or Access-Control-Request-Headers are not \
                   whitelisted by the resource's CORS spec.";
    let code = s3s::S3ErrorCode::from_bytes(b"AccessForbidden").unwrap_or(s3s::S3ErrorCode::AccessDenied);
    let mut error = S3Error::with_message(code, message);
    error.set_status_code(StatusCode::FORBIDDEN);
    error
}

/// The bucket that a host names below one of these domains.
fn bucket_below<'h>(domains: &[String], host: &'h str) -> Option<&'h str> {
    domains.iter().find_map(|domain| host.strip_suffix(domain.as_str())?.strip_suffix('.'))
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

fn refused(error: S3Error) -> Result<Response<Body>, HttpError> {
    error.to_http_response().map_err(|error| HttpError::new(Box::new(error)))
}

/// Where a request was sent to, as its URL begins; nothing where it named no host.
fn origin_of(head: &Parts) -> String {
    let secure = head.extensions.get::<Peer>().is_some_and(|peer| peer.secure);
    let scheme = if secure { "https" } else { "http" };
    text(&head.headers, HOST.as_str()).map(|host| format!("{scheme}://{host}")).unwrap_or_default()
}

/// Whether a `Host` is an address: no bucket is in it.
fn is_address(host: &str) -> bool {
    host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok()
}

impl Success {
    /// The answer of an upload by form; `put` are the headers of the PUT's.
    fn answer(&self, put: &HeaderMap, location: &str, bucket: &str, key: &str) -> S3Result<Response<Body>> {
        let etag = text(put, ETAG.as_str()).unwrap_or("");
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::NO_CONTENT);
        let kept = |name: &str| ["etag", "x-amz-version-id"].contains(&name) || name.starts_with("x-amz-checksum-");
        let kept = put.iter().filter(|(name, _)| kept(name.as_str()));
        response.headers_mut().extend(kept.map(|(name, value)| (name.clone(), value.clone())));
        let bad = |_| code(S3ErrorCode::InvalidArgument);
        if let Some(url) = &self.redirect {
            let (url, fragment) = url.split_once('#').map_or((url.as_str(), None), |(url, after)| (url, Some(after)));
            let joint = if url.contains('?') { '&' } else { '?' };
            let mut there = format!("{url}{joint}bucket={bucket}&key={}&etag={}", encode_url(key), encode_url(etag));
            there.extend(fragment.into_iter().flat_map(|fragment| ["#", fragment]));
            *response.status_mut() = StatusCode::SEE_OTHER;
            response.headers_mut().insert(LOCATION, HeaderValue::try_from(there).map_err(bad)?);
        } else {
            response.headers_mut().insert(LOCATION, HeaderValue::try_from(location).map_err(bad)?);
            if self.status == 201 {
                let document = PostResponse { location, bucket, key, etag };
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
                *response.body_mut() = Body::from(xml_of(&document)?);
            }
        }
        Ok(response)
    }
}

fn xml_of(document: &impl s3s::xml::Serialize) -> S3Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = s3s::xml::Serializer::new(&mut out);
    let written = writer.decl().and_then(|()| document.serialize(&mut writer));
    written.map_err(|_| code(S3ErrorCode::InternalError))?;
    Ok(out)
}

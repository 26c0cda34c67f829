//! Buckets as websites: what a browser that asks `BUCKET.WEBSITE-DOMAIN` is answered.
//!
//! ```text
//!   all of it elsewhere ─▶ 301      a rule for the key ─▶ its redirect
//!   path/ ─▶ path/INDEX     path ─▶ the object │ else path/INDEX is there ─▶ 302 path/
//!   an object with a redirect of its own ─▶ 301
//!   refused ─▶ a rule for that status ─▶ its redirect │ else the error page, or a page of ours; the status stays
//! ```
//!
//! Always: a visitor is anonymous, whatever it sends: it reads what the bucket lets anybody read, and writes nothing.
//! Held by: `websites_are_served_to_anybody`, `no_text_of_others_is_markup`.
//! Not here: the setting (`gateway/sites.rs`), CORS (`service`).

use crate::error::code;
use crate::gateway::{Gateway, Peer};
use base_types::s3::{encode_url, RoutingRule, S3ErrorCode, Website};
use hyper::header::{
    HeaderMap, HeaderName, HeaderValue, CONTENT_TYPE, HOST, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE, LOCATION, RANGE, REFERER, USER_AGENT,
};
use hyper::{Method, Request, Response, StatusCode, Uri};
use s3s::service::S3Service;
use s3s::{Body, HttpError, S3Error};

/// What of a request's head an object is asked for with.
const PASSED: [HeaderName; 7] =
    [IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RANGE, REFERER, USER_AGENT];
/// An object that is not here but there.
const REDIRECT: &str = "x-amz-website-redirect-location";

/// A request to a website.
pub struct Visit<'v> {
    pub gateway: &'v Gateway,
    /// Objects by path, for who did not sign.
    pub objects: &'v S3Service,
    pub bucket: &'v str,
    pub peer: Peer,
}

/// What went wrong, as a page says it.
struct Failure {
    status: StatusCode,
    code: String,
    message: String,
}

impl From<S3Error> for Failure {
    fn from(error: S3Error) -> Failure {
        Failure {
            status: error.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code: error.code().as_str().to_owned(),
            message: error.message().unwrap_or("").to_owned(),
        }
    }
}

type Answer = Result<Response<Body>, HttpError>;

impl Visit<'_> {
    /// Answers it. A body is not read.
    pub async fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Answer {
        if *method != Method::GET && *method != Method::HEAD {
            return Ok(page(&code(S3ErrorCode::MethodNotAllowed).into()));
        }
        let site = match self.gateway.website(self.bucket).await {
            Ok(site) => site,
            Err(error) => return Ok(page(&error.into())),
        };
        let Some(key) = crate::validate::percent_decoded(&uri.path().trim_start_matches('/').replace('+', "%2B"))
        else {
            return Ok(page(&code(S3ErrorCode::InvalidURI).into()));
        };
        let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or("");
        let here = Here { host, scheme: if self.peer.secure { "https" } else { "http" } };
        if let Some(all) = &site.redirect_all {
            let scheme = all.protocol.as_deref().unwrap_or(here.scheme);
            let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            let there = format!("{scheme}://{}/{}{query}", all.host_name, encode_url(&key));
            return Ok(redirect(StatusCode::MOVED_PERMANENTLY, &there));
        }
        if let Some(rule) = site.routing_rules.iter().find(|rule| matches(rule, &key, None)) {
            return Ok(here.redirect(rule, &key));
        }
        let found = self.object(method, &with_index(&site, &key), headers).await?;
        if !found.status().is_client_error() && !found.status().is_server_error() {
            return Ok(own_redirect(&found).unwrap_or(found));
        }
        if found.status() == StatusCode::RANGE_NOT_SATISFIABLE || found.status() == StatusCode::PRECONDITION_FAILED {
            return Ok(found);
        }
        self.failed(&site, &here, method, &key, failure_of(&found)).await
    }

    /// A key that could not be given: its folder, a rule for that, the error page, or one of ours.
    async fn failed(&self, site: &Website, here: &Here<'_>, method: &Method, key: &str, why: Failure) -> Answer {
        let missing = matches!(why.status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN);
        if missing && !key.is_empty() && !key.ends_with('/') && site.index_suffix.is_some() {
            let folder = format!("{key}/");
            let index = self.object(&Method::HEAD, &with_index(site, &folder), &HeaderMap::new()).await?;
            if index.status().is_success() {
                return Ok(redirect(StatusCode::FOUND, &format!("/{}", encode_url(&folder))));
            }
        }
        if let Some(rule) = site.routing_rules.iter().find(|rule| matches(rule, key, Some(why.status))) {
            return Ok(here.redirect(rule, key));
        }
        if let Some(error_key) = &site.error_key {
            let mut shown = self.object(method, error_key, &HeaderMap::new()).await?;
            if shown.status().is_success() {
                *shown.status_mut() = why.status;
                return Ok(shown);
            }
        }
        Ok(page(&why))
    }

    /// An object, for anybody.
    async fn object(&self, method: &Method, key: &str, headers: &HeaderMap) -> Answer {
        let mut request = Request::new(Body::empty());
        let uri = format!("/{}/{}", self.bucket, encode_url(key)).parse::<Uri>();
        let Ok(uri) = uri else { return Ok(page(&code(S3ErrorCode::InvalidURI).into())) };
        (*request.method_mut(), *request.uri_mut()) = (method.clone(), uri);
        for name in PASSED {
            request.headers_mut().extend(headers.get(&name).map(|value| (name, value.clone())));
        }
        request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
        request.extensions_mut().insert(self.peer);
        self.objects.call(request).await
    }
}

/// Where a request was sent to.
struct Here<'h> {
    host: &'h str,
    scheme: &'static str,
}

impl Here<'_> {
    fn redirect(&self, rule: &RoutingRule, key: &str) -> Response<Body> {
        let rest = key.strip_prefix(rule.key_prefix.as_deref().unwrap_or("")).unwrap_or(key);
        let target = match (&rule.replace_key_with, &rule.replace_key_prefix_with) {
            (Some(whole), _) => whole.clone(),
            (None, Some(prefix)) => format!("{prefix}{rest}"),
            (None, None) => key.to_owned(),
        };
        let scheme = rule.protocol.as_deref().unwrap_or(self.scheme);
        let host = rule.host_name.as_deref().unwrap_or(self.host);
        let status = rule.http_redirect_code.and_then(|status| StatusCode::from_u16(status).ok());
        let there = format!("{scheme}://{host}/{}", encode_url(&target));
        redirect(status.unwrap_or(StatusCode::MOVED_PERMANENTLY), &there)
    }
}

/// Whether a rule is for this key, and for this failure or for none.
fn matches(rule: &RoutingRule, key: &str, failed: Option<StatusCode>) -> bool {
    rule.key_prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix.as_str()))
        && rule.http_error_code == failed.map(|status| status.as_u16())
}

fn with_index(site: &Website, key: &str) -> String {
    match &site.index_suffix {
        Some(suffix) if key.is_empty() || key.ends_with('/') => format!("{key}{suffix}"),
        _ => key.to_owned(),
    }
}

fn own_redirect(found: &Response<Body>) -> Option<Response<Body>> {
    let there = found.headers().get(REDIRECT)?.to_str().ok()?;
    Some(redirect(StatusCode::MOVED_PERMANENTLY, there))
}

fn redirect(status: StatusCode, there: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    match HeaderValue::from_str(there) {
        Ok(there) => response.headers_mut().extend([(LOCATION, there)]),
        Err(_) => return page(&code(S3ErrorCode::InvalidURI).into()),
    }
    response
}

/// What the gateway's own refusal says; of HEAD it has no document.
fn failure_of(found: &Response<Body>) -> Failure {
    let text = found.body().bytes().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let between = |start: &str, end: &str| Some(text.split_once(start)?.1.split_once(end)?.0.to_owned());
    let by_status = found.status().canonical_reason().unwrap_or("Error");
    Failure {
        status: found.status(),
        code: between("<Code>", "</Code>").unwrap_or_else(|| by_status.to_owned()),
        message: between("<Message>", "</Message>").unwrap_or_default(),
    }
}

fn page(why: &Failure) -> Response<Body> {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let title = format!("{} {}", why.status.as_u16(), why.status.canonical_reason().unwrap_or("Error"));
    let text = format!(
        "<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n<ul>\n<li>Code: {}</li>\n\
         <li>Message: {}</li>\n</ul>\n</body>\n</html>\n",
        escape(&why.code),
        escape(&why.message)
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = why.status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_match_by_prefix_and_failure_and_say_where_to() {
        let rule = RoutingRule {
            key_prefix: Some("docs/".into()),
            replace_key_prefix_with: Some("documents/".into()),
            http_redirect_code: Some(302),
            ..RoutingRule::default()
        };
        assert!(matches(&rule, "docs/a", None) && !matches(&rule, "a", None));
        assert!(!matches(&rule, "docs/a", Some(StatusCode::NOT_FOUND)));
        let here = Here { host: "b.site.example", scheme: "http" };
        let answer = here.redirect(&rule, "docs/a b");
        assert_eq!(answer.status(), StatusCode::FOUND);
        assert_eq!(answer.headers()[LOCATION], "http://b.site.example/documents/a%20b");
        let failed = RoutingRule { http_error_code: Some(404), ..RoutingRule::default() };
        assert!(matches(&failed, "a", Some(StatusCode::NOT_FOUND)) && !matches(&failed, "a", None));
    }

    #[test]
    fn no_text_of_others_is_markup() {
        let why = Failure { status: StatusCode::NOT_FOUND, code: "<b>".into(), message: "a&<script>".into() };
        let text = String::from_utf8(page(&why).body().bytes().unwrap().to_vec()).unwrap();
        assert!(text.contains("&lt;b&gt;") && !text.contains("<script>"), "{text}");
    }
}

//! Access logs of buckets: a line for each request, in the format of S3's server access logs, put as objects into a target bucket.
//!
//! ```text
//!   request ─▶ noted by the gateway (bucket with a log, requester) ─▶ line ─▶ pending, by target ─flush─▶ PREFIX YYYY-MM-DD-HH-MM-SS-ID
//! ```
//!
//! By design, as with S3: best effort. Lines wait in this process's memory, [`PENDING_BYTES_MAX`] at most, until the host flushes them;
//! a crash loses them, and so does a target that takes none (each loss is counted, and the next flush reports it). Requests of a bucket
//! without a log cost nothing. Times are until the answer's head; bytes are those the answer announces.
//! Held by: `memory_is_bounded_and_losses_are_counted`, `access_logs_reach_their_bucket`.
//! Not here: the setting (`gateway/sites.rs`), when it is flushed (the host).

use crate::gateway::{now_ms, Gateway, Peer};
use crate::noted;
use crate::stamp::RequestId;
use base_types::s3::encode_url;
use hyper::header::{
    HeaderMap, HeaderName, HeaderValue, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, HOST, REFERER, USER_AGENT,
};
use hyper::{Method, Request, Response, Uri};
use s3s::Body;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What waits in memory at most, all buckets together.
pub const PENDING_BYTES_MAX: usize = 4 << 20;
/// The longest text of a client in a line.
const TEXT_BYTES_MAX: usize = 1024;
/// What waits for one target at most: an eighth, so that no bucket takes the room of all others.
const TARGET_BYTES_MAX: usize = PENDING_BYTES_MAX / 8;
/// Parameters of a presigned URL with which a reader of the log could repeat the request.
const SECRET_PARAMETERS: [&str; 2] = ["x-amz-signature", "x-amz-security-token"];
/// How long a body is that comes in signed pieces.
const DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");

/// Who reads the log, and where it lies: the key of what waits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct To {
    owner: String,
    bucket: String,
    prefix: String,
}

/// Lines that wait for the next flush.
#[derive(Clone, Default)]
pub struct AccessLog(Arc<Mutex<Pending>>);

#[derive(Default)]
struct Pending {
    lines: BTreeMap<To, Vec<u8>>,
    bytes: usize,
    lost: u64,
}

/// What a flush came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flushed {
    /// Objects that were put.
    pub objects: u64,
    /// Lines that were lost since the last flush: memory was full, or their target took them not.
    pub lost: u64,
}

/// What of a request's head a line says.
pub(crate) struct Head {
    method: Method,
    uri: Uri,
    kept: HeaderMap,
    peer: Peer,
    began: Instant,
    began_ms: u64,
    website: bool,
}

impl Head {
    pub(crate) fn of(request: &Request<Body>, peer: Peer, website: bool) -> Head {
        let mut kept = HeaderMap::new();
        for name in [HOST, REFERER, USER_AGENT, AUTHORIZATION, CONTENT_LENGTH, DECODED_LENGTH] {
            kept.extend(request.headers().get(&name).map(|value| (name, value.clone())));
        }
        let (method, uri) = (request.method().clone(), request.uri().clone());
        Head { method, uri, kept, peer, began: Instant::now(), began_ms: now_ms(), website }
    }
}

impl AccessLog {
    /// Answers a request, and writes its line where its bucket has a log.
    pub(crate) async fn within<E>(
        &self,
        id: &RequestId,
        head: Head,
        answer: impl Future<Output = Result<Response<Body>, E>>,
    ) -> Result<Response<Body>, E> {
        let (response, noted) = noted::within(answer).await;
        if let (Ok(response), Some((bucket, owner, to))) = (&response, noted.bucket) {
            let line = line(&head, response, id, (&bucket, &owner), noted.requester.as_deref());
            self.add(To { owner, bucket: to.bucket, prefix: to.prefix }, &line);
        }
        response
    }

    fn add(&self, to: To, line: &str) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_target = pending.lines.get(&to).map_or(0, Vec::len);
        if pending.bytes + line.len() > PENDING_BYTES_MAX || of_target + line.len() > TARGET_BYTES_MAX {
            pending.lost += 1;
            return;
        }
        pending.bytes += line.len();
        pending.lines.entry(to).or_default().extend_from_slice(line.as_bytes());
    }

    /// Puts what waits as objects, one for each target.
    pub(crate) async fn flush(&self, gateway: &Gateway) -> Flushed {
        let taken = {
            let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *pending)
        };
        let mut flushed = Flushed { objects: 0, lost: taken.lost };
        for (to, lines) in taken.lines {
            let key = format!("{}{}-{}", to.prefix, stamp(now_ms()), RequestId::new().as_str());
            let count = lines.iter().filter(|byte| **byte == b'\n').count();
            match Box::pin(gateway.put_log(&to.bucket, &to.owner, key, lines.into())).await {
                Ok(()) => flushed.objects += 1,
                Err(_) => flushed.lost += u64::try_from(count).unwrap_or(u64::MAX),
            }
        }
        flushed
    }
}

/// One line. Its fields: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html>.
fn line(head: &Head, response: &Response<Body>, id: &RequestId, of: (&str, &str), requester: Option<&str>) -> String {
    let (bucket, owner) = of;
    let key = key_of(head, bucket);
    let header = |name| head.kept.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let number = |value: Option<&HeaderValue>| value.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let sent = number(response.headers().get(CONTENT_LENGTH)).filter(|_| head.method != Method::HEAD);
    let range = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let size = match (range.and_then(|range| range.rsplit_once('/')), head.method.as_str()) {
        (Some((_, size)), _) => size.parse().ok(),
        (None, "GET" | "HEAD") if key.is_some() => number(response.headers().get(CONTENT_LENGTH)),
        (None, "PUT") if key.is_some() => {
            number(head.kept.get(DECODED_LENGTH)).or_else(|| number(head.kept.get(CONTENT_LENGTH)))
        }
        _ => None,
    };
    let signed_by = match (header(AUTHORIZATION), head.uri.query().unwrap_or("").contains("X-Amz-Signature=")) {
        (Some(_), _) => "AuthHeader",
        (None, true) => "QueryString",
        (None, false) => "-",
    };
    let took = head.began.elapsed().as_millis();
    let shown = |number: Option<u64>| number.filter(|n| *n > 0).map_or_else(|| "-".to_owned(), |n| n.to_string());
    let version = response.headers().get("x-amz-version-id").and_then(|value| value.to_str().ok()).unwrap_or("-");
    let uri = format!("{} {} HTTP/1.1", head.method, shown_uri(&head.uri));
    format!(
        "{owner} {bucket} [{}] {} {} {} {} {} {} {} {} {} {} {took} {took} {} {} {version} {} {} - {signed_by} {} {} - -\n",
        common_time(head.began_ms),
        head.peer.address,
        requester.unwrap_or("-"),
        id.as_str(),
        operation(head, key.is_some()),
        key.as_deref().map_or_else(|| "-".to_owned(), |key| encode_url(cut(key))),
        quoted(Some(&uri)),
        response.status().as_u16(),
        error_code(response).as_deref().unwrap_or("-"),
        shown(sent),
        shown(size),
        quoted(header(REFERER)),
        quoted(header(USER_AGENT)),
        id.host(),
        if signed_by == "-" { "-" } else { "SigV4" },
        header(HOST).map(cut).filter(|host| !host.contains([' ', '"'])).unwrap_or("-"),
        if head.peer.secure { "TLS" } else { "-" },
    )
}

/// A text of a client: one field, on one line.
fn quoted(text: Option<&str>) -> String {
    let Some(text) = text else { return "\"-\"".to_owned() };
    let plain = |c: char| if c == '"' || c.is_control() { '_' } else { c };
    format!("\"{}\"", cut(text).chars().map(plain).collect::<String>())
}

/// As much of a text as a line has.
fn cut(text: &str) -> &str {
    let mut end = TEXT_BYTES_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The path and the query, without what would let a reader of the log repeat the request.
fn shown_uri(uri: &Uri) -> String {
    let Some(query) = uri.query() else { return uri.path().to_owned() };
    let shown = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if SECRET_PARAMETERS.iter().any(|secret| name.eq_ignore_ascii_case(secret)) => {
            format!("{name}=-")
        }
        _ => pair.to_owned(),
    };
    format!("{}?{}", uri.path(), query.split('&').map(shown).collect::<Vec<_>>().join("&"))
}

/// The key that a request names, by path or by host.
fn key_of(head: &Head, bucket: &str) -> Option<String> {
    let path = head.uri.path().trim_start_matches('/');
    let by_host = head
        .kept
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .is_some_and(|host| host.strip_prefix(bucket).is_some_and(|rest| rest.starts_with('.')));
    let key = match by_host {
        true => path,
        false => path.split_once('/').map_or("", |(_, key)| key),
    };
    let key = crate::validate::percent_decoded(&key.replace('+', "%2B"))?;
    (!key.is_empty()).then_some(key)
}

/// `REST.GET.OBJECT` and the like.
fn operation(head: &Head, of_object: bool) -> String {
    const KNOWN: [(&str, &str); 20] = [
        ("acl", "ACL"),
        ("attributes", "OBJECT_ATTRIBUTES"),
        ("cors", "CORS"),
        ("delete", "MULTI_OBJECT_DELETE"),
        ("encryption", "ENCRYPTION"),
        ("legal-hold", "LEGAL_HOLD"),
        ("lifecycle", "LIFECYCLE"),
        ("location", "LOCATION"),
        ("logging", "LOGGING_STATUS"),
        ("object-lock", "OBJECT_LOCK"),
        ("ownershipControls", "OWNERSHIP_CONTROLS"),
        ("policy", "BUCKETPOLICY"),
        ("publicAccessBlock", "PUBLIC_ACCESS_BLOCK"),
        ("retention", "RETENTION"),
        ("tagging", "TAGGING"),
        ("uploadId", "UPLOAD"),
        ("uploads", "UPLOADS"),
        ("versioning", "VERSIONING"),
        ("versions", "BUCKETVERSIONS"),
        ("website", "WEBSITE"),
    ];
    let names: Vec<&str> =
        head.uri.query().unwrap_or("").split('&').map(|pair| pair.split('=').next().unwrap_or("")).collect();
    let found = KNOWN.iter().find(|(name, _)| names.contains(name));
    let resource = match found {
        Some((_, "UPLOAD")) if names.contains(&"partNumber") => "PART",
        Some((_, resource)) => resource,
        None if of_object => "OBJECT",
        None => "BUCKET",
    };
    let door = if head.website { "WEBSITE" } else { "REST" };
    format!("{door}.{}.{resource}", head.method)
}

fn error_code(response: &Response<Body>) -> Option<String> {
    let text = response.body().bytes().filter(|_| !response.status().is_success())?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Some(text.split_once("<Code>")?.1.split_once("</Code>")?.0.to_owned())
}

fn date(ms: u64) -> time::OffsetDateTime {
    let seconds = i64::try_from(ms / 1000).unwrap_or(0);
    time::OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(time::OffsetDateTime::UNIX_EPOCH)
}

/// `23/Nov/2026:12:00:00 +0000`.
fn common_time(ms: u64) -> String {
    let at = date(ms);
    let month = at.month().to_string();
    let month = month.get(..3).unwrap_or("");
    format!("{:02}/{month}/{}:{:02}:{:02}:{:02} +0000", at.day(), at.year(), at.hour(), at.minute(), at.second())
}

/// `2026-11-23-12-00-00`.
fn stamp(ms: u64) -> String {
    let at = date(ms);
    let month = u8::from(at.month());
    format!("{}-{month:02}-{:02}-{:02}-{:02}-{:02}", at.year(), at.day(), at.hour(), at.minute(), at.second())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(method: &str, uri: &str, host: &str) -> Head {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method.parse().unwrap();
        *request.uri_mut() = uri.parse().unwrap();
        request.headers_mut().insert(HOST, host.parse().unwrap());
        request.headers_mut().insert(USER_AGENT, "a\"b c".parse().unwrap());
        Head::of(&request, Peer { address: "10.0.0.1".parse().unwrap(), secure: true }, false)
    }

    #[test]
    fn line_has_the_fields_of_s3() {
        let head = head("GET", "/b/a%20b?acl", "s3.example");
        let id = RequestId::new();
        let text = line(&head, &Response::new(Body::empty()), &id, ("b", "ann"), None);
        let (before, rest) = text.split_once(" \"GET /b/a%20b?acl HTTP/1.1\" ").expect(&text);
        assert!(
            before.starts_with("ann b [")
                && before.ends_with(&format!("] 10.0.0.1 - {} REST.GET.ACL a%20b", id.as_str())),
            "{text}"
        );
        assert!(rest.starts_with("200 - - - ") && rest.contains(" \"-\" \"a_b c\" - "), "{text}");
        assert!(text.ends_with(" - - - s3.example TLS - -\n"), "{text}");
    }

    #[test]
    fn memory_is_bounded_and_losses_are_counted() {
        let log = AccessLog::default();
        let to = To { owner: "a".into(), bucket: "b".into(), prefix: String::new() };
        let line = "x".repeat(TARGET_BYTES_MAX / 2);
        (0..20).for_each(|_| log.add(to.clone(), &line));
        let held = |log: &AccessLog| {
            let pending = log.0.lock().unwrap();
            (pending.bytes, pending.lost)
        };
        assert_eq!(held(&log), (TARGET_BYTES_MAX, 18), "one target has its share");
        for other in 0..20 {
            log.add(To { bucket: other.to_string(), ..to.clone() }, &line);
        }
        assert!(held(&log).0 <= PENDING_BYTES_MAX && held(&log).1 == 18 + 6, "{:?}", held(&log));
    }

    #[test]
    fn a_line_is_short_and_repeats_no_signature() {
        let long = format!("/b/{}?X-Amz-Signature=canary&x-amz-security-token=canary&versionId=7", "!".repeat(60_000));
        let head = head("GET", &long, &"h".repeat(60_000));
        let text = line(&head, &Response::new(Body::empty()), &RequestId::new(), ("b", "owner"), None);
        assert!(text.len() < 8 * TEXT_BYTES_MAX && !text.contains("canary"), "{} bytes", text.len());
        let short = shown_uri(&"/b/k?X-Amz-Signature=canary&x-amz-security-token=canary&versionId=7".parse().unwrap());
        assert_eq!(short, "/b/k?X-Amz-Signature=-&x-amz-security-token=-&versionId=7");
    }

    #[test]
    fn keys_are_named_by_path_or_by_host() {
        assert_eq!(key_of(&head("GET", "/b/k/l", "s3.example"), "b").as_deref(), Some("k/l"));
        assert_eq!(key_of(&head("GET", "/k/l", "b.s3.example"), "b").as_deref(), Some("k/l"));
        assert_eq!(key_of(&head("GET", "/b", "s3.example"), "b"), None);
        assert_eq!(stamp(1_795_435_200_000), "2026-11-23-12-00-00");
        assert_eq!(common_time(1_795_435_200_000), "23/Nov/2026:12:00:00 +0000");
    }
}

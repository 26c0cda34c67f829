//! Ways in for fuzzing: any bytes as what a client sends before anybody knows who it is.
//!
//! Always: no panic; a refusal carries a code of S3. Held by: `s3_policy`, `s3_signature`. Not here: the targets and seeds (fuzz/).

use crate::access::{Caller, Context, Policy};
use crate::form::Form;
use crate::{signed, sts, validate};
use base_types::Refusal;
use futures::StreamExt as _;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::Uri;
use s3s::dto;
use s3s::xml::{Deserialize, Deserializer};
use s3s::Body;
use std::future::Future;
use std::pin::pin;
use std::task::{Poll, Waker};

fn of_s3<T>(answer: Result<T, Refusal>) -> Option<T> {
    answer.map_err(|refusal| assert!(refusal.code.s3().is_some(), "{refusal:?}")).ok()
}

/// A policy, of a bucket and of a session, a zero byte, and what a request says of itself.
pub fn policy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (text, said) = text.split_once('\0').unwrap_or((&text, ""));
    let session = serde_json::from_str(text).ok().and_then(|value| of_s3(Policy::of_session(&value)));
    for policy in of_s3(Policy::parse(text, "bucket")).into_iter().chain(session) {
        judge(&policy, said);
    }
}

fn judge(policy: &Policy, said: &str) {
    let mut context = Context::default();
    for (key, value) in said.lines().filter_map(|line| line.split_once('=')) {
        context.set(key, value);
    }
    for caller in [Caller::Anonymous, Caller::Account("ann".to_owned())] {
        for (action, key) in [("s3:GetObject", Some(said)), ("s3:ListBucket", None)] {
            let _ = policy.judge(&caller, action, "bucket", key, &context);
            let _ = policy.might_allow(&caller, action);
        }
    }
}

/// A query.
pub fn query(data: &[u8]) {
    let Ok(uri) = [b"/bucket/key?", data].concat().as_slice().try_into().map(|uri: Uri| uri) else { return };
    let _ = of_s3(signed::check(&uri, &HeaderMap::new()));
    for pair in uri.query().unwrap_or("").split('&') {
        let _ = validate::percent_decoded(pair);
        let _ = of_s3(validate::tagging_header(pair));
    }
}

/// Lines: the path and query, then headers. What passes with an `Authorization` has all signed that it must.
pub fn signature(data: &[u8]) {
    let mut lines = data.split(|&byte| byte == b'\n');
    let Ok(uri) = Uri::try_from(lines.next().unwrap_or_default()) else { return };
    let mut headers = HeaderMap::new();
    for line in lines {
        let at = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let value = HeaderValue::from_bytes(line.get(at + 1..).unwrap_or_default());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&line[..at]), value) {
            headers.append(name, value);
        }
    }
    if of_s3(signed::check(&uri, &headers)).is_none() {
        return;
    }
    let Some(authorization) = headers.get("authorization").map(|value| value.as_bytes()) else { return };
    let authorization = String::from_utf8_lossy(authorization);
    for name in headers.keys().filter(|name| name.as_str().starts_with("x-amz-")) {
        let free = matches!(name.as_str(), "x-amz-content-sha256" | "x-amz-user-agent");
        assert!(free || authorization.contains(name.as_str()), "{name} passed and is not signed: {authorization}");
    }
    assert!(authorization.contains("host"), "the host is not signed: {authorization}");
}

/// A byte that says which, and the document.
pub fn document(data: &[u8]) {
    let Some((which, xml)) = data.split_first() else { return };
    match which % 12 {
        0 => read::<dto::AccessControlPolicy>(xml),
        1 => read::<dto::CORSConfiguration>(xml),
        2 => read::<dto::CompletedMultipartUpload>(xml),
        3 => read::<dto::CreateBucketConfiguration>(xml),
        4 => read::<dto::Delete>(xml),
        5 => read::<dto::BucketLifecycleConfiguration>(xml),
        6 => read::<dto::ObjectLockConfiguration>(xml),
        7 => read::<dto::ObjectLockRetention>(xml),
        8 => read::<dto::OwnershipControls>(xml),
        9 => read::<dto::PublicAccessBlockConfiguration>(xml),
        10 => read::<dto::Tagging>(xml),
        _ => read::<dto::VersioningConfiguration>(xml),
    }
}

fn read<'xml, T: Deserialize<'xml>>(xml: &'xml [u8]) {
    let mut reader = Deserializer::new(xml);
    let _ = T::deserialize(&mut reader).and_then(|_| reader.expect_eof());
}

/// A byte that says in pieces of which size, and the body of a form with the boundary `b`.
pub fn form(data: &[u8]) {
    const NOW_MS: u64 = 1_795_435_200_000; // 2026-11-23T12:00:00Z
    let Some((size, body)) = data.split_first() else { return };
    let pieces: Vec<_> = body.chunks(usize::from(*size).max(1) * 16).map(<[u8]>::to_vec).collect();
    let pieces = futures::stream::iter(pieces.into_iter().map(|piece| Ok::<_, std::io::Error>(piece.into())));
    let body = Body::from(dto::StreamingBlob::wrap(pieces));
    let Some(form) = of_s3(at_once(Form::read("b".to_owned(), body))) else { return };
    let _ = of_s3(form.key());
    let _ = of_s3(form.success());
    let _ = of_s3(form.session_token());
    let _ = of_s3(form.judge("bucket", NOW_MS));
    if let Some(headers) = of_s3(form.headers()) {
        let odd = [
            "x-amz-copy-source",
            "x-amz-security-token",
            "host",
            "authorization",
            "transfer-encoding",
            "content-length",
        ];
        assert!(odd.iter().all(|name| !headers.contains_key(*name)), "{headers:?}");
    }
    if let Some(signer) = of_s3(form.signer()).flatten() {
        assert!(signer.verify("no such secret", NOW_MS).is_err());
    }
    let mut file = form.into_file();
    while let Some(Ok(_)) = at_once(file.next()) {}
}

/// A form for STS, and any text as a request's session token. What is refused has words of a bounded length.
pub fn sts(data: &[u8]) {
    if let Err(fault) = sts::form::parse(data) {
        assert!(fault.status >= 400 && fault.message.len() < 1_024, "{fault:?}");
    }
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(data) {
        headers.insert("x-amz-security-token", value);
    }
    let _ = of_s3(sts::session_of(&sts::NoSessions, &Uri::from_static("/b/k"), &headers));
}

/// What is there whole never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a form that is there whole waits"),
    }
}

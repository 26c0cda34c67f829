//! The service as strangers meet it: what nobody signed, forms, documents and policies that are made to hurt.

use bytes::Bytes;
use door_s3::metadata::{tell, MetadataService, OnBehalf};
use door_s3::store::LocalStore;
use door_s3::testing::MemoryMetadata;
use door_s3::validate::DOCUMENT_BYTES_MAX;
use door_s3::{Body, Gateway, Peer, Service, ServiceConfig};
use futures::StreamExt as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::{Request, Response};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

const PIECE: usize = 64 << 10;

struct World {
    service: Service,
    metadata: Arc<MemoryMetadata>,
    _folder: tempfile::TempDir,
}

async fn world() -> World {
    let folder = tempfile::tempdir().expect("folder");
    let metadata = Arc::new(MemoryMetadata::new("fr-par"));
    metadata.add_account("ann", "ann-key", "ann-secret");
    metadata.add_account("bob", "bob-key", "bob-secret");
    let data = Arc::new(LocalStore::open(folder.path()).expect("store"));
    let bucket =
        base_types::s3::CreateBucket { bucket: "bucket".to_owned(), account: "ann".to_owned(), ..Default::default() };
    tell(&*metadata, bucket).await.expect("bucket");
    let open = base_types::s3::DeletePublicAccessBlock { bucket: "bucket".to_owned() };
    tell(&*metadata, open).await.expect("open to the public");
    let gateway = Gateway::new(metadata.clone(), data);
    let service = Service::new(gateway, &ServiceConfig::default()).expect("service");
    World { service, metadata, _folder: folder }
}

impl World {
    async fn ask(&self, request: Request<Body>) -> (u16, String, Response<()>) {
        let peer = Peer { address: [127, 0, 0, 1].into(), secure: false };
        let answer = self.service.answer(request, peer).await.expect("answer");
        let (head, mut body) = answer.into_parts();
        let mut text = Vec::new();
        while let Some(piece) = body.next().await {
            text.extend_from_slice(&piece.expect("piece"));
        }
        (head.status.as_u16(), String::from_utf8(text).expect("text"), Response::from_parts(head, ()))
    }

    async fn size_of(&self, key: &str) -> Option<u64> {
        let head = base_types::s3::HeadObject { bucket: "bucket".into(), key: key.into(), ..Default::default() };
        match self.metadata.call(head.into(), OnBehalf::NODE).await {
            Ok(answer) => base_types::s3::ObjectVersion::try_from(answer).ok().map(|found| found.size),
            Err(_) => None,
        }
    }
}

/// Pieces without end, or `pieces` of them, counted as they are taken.
fn counted(first: Vec<u8>, pieces: usize, last: Vec<u8>) -> (Body, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = taken.clone();
    let middle = futures::stream::repeat_with(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; PIECE]))
    });
    let ends = |bytes: Vec<u8>| futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(bytes))]);
    let all = ends(first).chain(middle.take(pieces)).chain(ends(last));
    (Body::from(s3s::dto::StreamingBlob::wrap(sync_wrapper::SyncStream::new(all))), taken)
}

fn form(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = String::new();
    for (name, value) in fields {
        out += &format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }
    out += "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n";
    out.into_bytes()
}

fn post(fields: &[(&str, &str)], pieces: usize) -> (Request<Body>, Arc<AtomicUsize>) {
    let (body, taken) = counted(form(fields), pieces, b"\r\n--b--\r\n".to_vec());
    let request = Request::post("/bucket").header("host", "s3.local");
    let request = request.header("content-type", "multipart/form-data; boundary=b").body(body).expect("request");
    (request, taken)
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key).expect("key");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// A form that `ann` signed now, with these conditions beside the usual ones.
fn signed_form(conditions: &str, fields: &[(&str, &str)], pieces: usize) -> (Request<Body>, Arc<AtomicUsize>) {
    use base64::Engine as _;
    let now = time::OffsetDateTime::now_utc();
    let day = format!("{}{:02}{:02}", now.year(), u8::from(now.month()), now.day());
    let date = format!("{day}T{:02}{:02}{:02}Z", now.hour(), now.minute(), now.second());
    let credential = format!("ann-key/{day}/fr-par/s3/aws4_request");
    let policy = format!(
        r#"{{"expiration":"2999-01-01T00:00:00Z","conditions":[{{"x-amz-date":"{date}"}},
            {{"x-amz-credential":"{credential}"}},{{"x-amz-algorithm":"AWS4-HMAC-SHA256"}},{{"bucket":"bucket"}},
            ["starts-with","$key",""],["starts-with","$success_action_status",""]{conditions}]}}"#
    );
    let policy = base64::engine::general_purpose::STANDARD.encode(policy);
    let mut key = b"AWS4ann-secret".to_vec();
    for part in [&day, "fr-par", "s3", "aws4_request"] {
        key = mac(&key, part);
    }
    let signature: String = mac(&key, &policy).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut all = fields.to_vec();
    all.extend([
        ("policy", policy.as_str()),
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", &credential),
        ("x-amz-date", &date),
        ("x-amz-signature", &signature),
    ]);
    post(&all, pieces)
}

#[tokio::test]
async fn an_anonymous_form_is_refused_before_its_file_is_read() {
    let world = world().await;
    let (request, taken) = post(&[("key", "k")], 6400);
    let (status, text, head) = world.ask(request).await;
    assert_eq!(status, 403, "{text}");
    assert!(text.contains("AccessDenied"), "{text}");
    assert!(taken.load(Ordering::Relaxed) <= 2, "of 400 MiB {} pieces were read", taken.load(Ordering::Relaxed));
    assert_eq!(head.headers().get("connection").map(|value| value.as_bytes()), Some(&b"close"[..]));
    assert_eq!(world.size_of("k").await, None);
}

#[tokio::test]
async fn a_signed_form_streams_its_file() {
    let world = world().await;
    let (request, _) = signed_form("", &[("key", "in/${filename}"), ("success_action_status", "201")], 100);
    let (status, text, head) = world.ask(request).await;
    assert_eq!(status, 201, "{text}");
    assert!(text.contains("<Bucket>bucket</Bucket><Key>in/f</Key>"), "{text}");
    assert!(head.headers().contains_key("etag") && head.headers().contains_key("location"));
    assert_eq!(world.size_of("in/f").await, Some(100 * PIECE as u64));
}

#[tokio::test]
async fn a_file_beyond_its_policy_ends_with_its_limit() {
    let world = world().await;
    let limit = format!(r#",["content-length-range",1,{}]"#, 10 * PIECE);
    let (request, taken) = signed_form(&limit, &[("key", "k")], 6400);
    let (status, text, _) = world.ask(request).await;
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("EntityTooLarge"), "{text}");
    assert!(taken.load(Ordering::Relaxed) <= 13, "{} pieces of 10 were read", taken.load(Ordering::Relaxed));
    let (request, _) = signed_form(&limit, &[("key", "k")], 0);
    let (status, text, _) = world.ask(request).await;
    assert_eq!((status, text.contains("EntityTooSmall")), (400, true), "{text}");
    assert_eq!(world.size_of("k").await, None);
    let (request, _) = signed_form(&limit, &[("key", "k")], 10);
    assert_eq!(world.ask(request).await.0, 204);
    assert_eq!(world.size_of("k").await, Some(10 * PIECE as u64));
}

#[tokio::test]
async fn a_form_cannot_leave_its_bucket_or_its_policy() {
    let world = world().await;
    let (request, _) = signed_form("", &[("key", "k"), ("acl", "public-read")], 1);
    let (status, text, _) = world.ask(request).await;
    assert_eq!((status, text.contains("Extra input fields: acl")), (403, true), "{text}");
    let (mut request, _) = signed_form("", &[("key", "k")], 1);
    *request.uri_mut() = "/bucket/key".parse().expect("uri");
    assert_eq!(world.ask(request).await.0, 405);
    let (mut request, _) = signed_form("", &[("key", "k")], 1);
    *request.uri_mut() = "/other".parse().expect("uri");
    assert_eq!(world.ask(request).await.0, 403, "its policy is of another bucket");
}

#[tokio::test]
async fn documents_are_read_of_callers_who_may() {
    let world = world().await;
    let calls = [
        ("POST", "/bucket?delete"),
        ("PUT", "/bucket?policy"),
        ("PUT", "/bucket?acl"),
        ("PUT", "/bucket?cors"),
        ("PUT", "/bucket?lifecycle"),
        ("PUT", "/bucket?publicAccessBlock"),
        ("PUT", "/bucket?website"),
        ("POST", "/bucket/key?uploadId=u"),
        ("POST", "/bucket/key?select&select-type=2"),
        ("PUT", "/bucket/key?acl"),
        ("PUT", "/bucket/key?tagging"),
        ("PUT", "/newbucket"),
    ];
    for (method, uri) in calls {
        let (body, taken) = counted(b"<x>".to_vec(), 320, Vec::new());
        let length = DOCUMENT_BYTES_MAX.to_string();
        let request = Request::builder().method(method).uri(uri).header("host", "s3.local");
        let request = request.header("content-length", length).body(body).expect("request");
        let (status, text, _) = world.ask(request).await;
        assert!(matches!(status, 403 | 404 | 501), "{method} {uri}: {status} {text}");
        assert_eq!(taken.load(Ordering::Relaxed), 0, "{method} {uri} was read");
    }
}

#[tokio::test]
async fn a_document_ends_with_its_limit() {
    let world = world().await;
    let open = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"]}]}"#;
    let put = base_types::s3::PutBucketPolicy { bucket: "bucket".into(), policy: open.into() };
    tell(&*world.metadata, put).await.expect("policy");
    let (body, taken) = counted(b"<Delete>".to_vec(), 320, Vec::new());
    let request = Request::post("/bucket?delete").header("host", "s3.local");
    let request = request.header("content-length", (320 * PIECE + 8).to_string()).body(body).expect("request");
    let (status, text, _) = world.ask(request).await;
    assert!(status == 400 && text.contains("MaxMessageLengthExceeded"), "{status} {text}");
    assert_eq!(taken.load(Ordering::Relaxed), 0);
    let (body, taken) = counted(b"<Delete>".to_vec(), 320, Vec::new());
    let request = Request::post("/bucket?delete").header("host", "s3.local").header("content-length", "100");
    let (status, text, _) = world.ask(request.body(body).expect("request")).await;
    assert!(status >= 400, "{status} {text}");
    assert!(taken.load(Ordering::Relaxed) <= DOCUMENT_BYTES_MAX / PIECE + 1, "a length that is no true one");
}

#[tokio::test]
async fn what_nobody_signed_is_refused_with_s3s_codes() {
    let world = world().await;
    let presigned = "/bucket/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=ann-key%2F20261123%2Ffr-par%2Fs3%2F\
        aws4_request&X-Amz-Date=20261123T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=00";
    for (name, value) in [
        ("x-amz-copy-source", "/other/private"),
        ("x-amz-bypass-governance-retention", "true"),
        ("x-amz-acl", "private"),
    ] {
        let request = Request::put(presigned).header("host", "s3.local").header(name, value);
        let (status, text, _) = world.ask(request.body(Body::empty()).expect("request")).await;
        assert!(status == 403 && text.contains("not signed"), "{name}: {status} {text}");
    }
    let old = Request::get("/bucket/k?AWSAccessKeyId=ann-key&Expires=1&Signature=x").header("host", "s3.local");
    let (status, text, _) = world.ask(old.body(Body::empty()).expect("request")).await;
    assert!(status == 400 && text.contains("InvalidRequest"), "{status} {text}");
}

/// Nothing is encrypted at rest, so nothing is taken that asks for it.
#[tokio::test]
async fn encryption_of_every_kind_is_refused() {
    let world = world().await;
    let open = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"]}]}"#;
    let put = base_types::s3::PutBucketPolicy { bucket: "bucket".into(), policy: open.into() };
    tell(&*world.metadata, put).await.expect("policy");
    let customers = [
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-server-side-encryption-customer-key", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="),
        ("x-amz-server-side-encryption-customer-key-md5", "hRasmdxgYDKV3nvbahU1MA=="),
    ];
    let kinds: [&[(&str, &str)]; 3] = [
        &[("x-amz-server-side-encryption", "AES256")],
        &[("x-amz-server-side-encryption", "aws:kms"), ("x-amz-server-side-encryption-aws-kms-key-id", "k")],
        &customers,
    ];
    for headers in kinds {
        for (method, uri) in [("PUT", "/bucket/k"), ("POST", "/bucket/k?uploads")] {
            let request = Request::builder().method(method).uri(uri).header("host", "s3.local");
            let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let body = if method == "PUT" { Body::from("x".to_owned()) } else { Body::empty() };
            let length = if method == "PUT" { "1" } else { "0" };
            let (status, text, _) =
                world.ask(request.header("content-length", length).body(body).expect("request")).await;
            assert!(status == 501 && text.contains("NotImplemented"), "{method} {headers:?}: {status} {text}");
        }
        assert_eq!(world.size_of("k").await, None, "{headers:?}");
    }
}

#[tokio::test]
async fn a_condition_sees_the_query_as_the_call_does() {
    let world = world().await;
    let policy = r#"{"Version":"2012-10-17","Statement":[
        {"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::bucket"},
        {"Effect":"Deny","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::bucket",
         "Condition":{"StringLike":{"s3:prefix":"private/*"}}}]}"#;
    let put = base_types::s3::PutBucketPolicy { bucket: "bucket".into(), policy: policy.into() };
    tell(&*world.metadata, put).await.expect("policy");
    for (uri, expected) in [
        ("/bucket?list-type=2&prefix=public/", 200),
        ("/bucket?list-type=2&prefix=private/", 403),
        ("/bucket?list-type=2&%70refix=private/", 403),
        ("/bucket?list-type=2&prefix=public/&%70refix=private/", 400),
    ] {
        let request = Request::get(uri).header("host", "s3.local").body(Body::empty()).expect("request");
        let (status, text, _) = world.ask(request).await;
        assert_eq!(status, expected, "{uri}: {text}");
    }
}

#[tokio::test]
async fn a_condition_sees_the_tags_of_the_document_and_not_of_a_header() {
    let world = world().await;
    let policy = r#"{"Version":"2012-10-17","Statement":[
        {"Effect":"Allow","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/*"},
        {"Effect":"Allow","Principal":"*","Action":"s3:PutObjectTagging","Resource":"arn:aws:s3:::bucket/*",
         "Condition":{"StringEquals":{"s3:RequestObjectTag/team":"green"}}}]}"#;
    let put = base_types::s3::PutBucketPolicy { bucket: "bucket".into(), policy: policy.into() };
    tell(&*world.metadata, put).await.expect("policy");
    let object = Request::put("/bucket/k").header("host", "s3.local").header("content-length", "1");
    let (status, text, _) = world.ask(object.body(Body::from("x".to_owned())).expect("request")).await;
    assert_eq!(status, 200, "{text}");
    let tagged = |team: &str, header: Option<&str>| {
        let xml = format!("<Tagging><TagSet><Tag><Key>team</Key><Value>{team}</Value></Tag></TagSet></Tagging>");
        let mut request = Request::put("/bucket/k?tagging").header("host", "s3.local");
        if let Some(header) = header {
            request = request.header("x-amz-tagging", header);
        }
        request.header("content-length", xml.len().to_string()).body(Body::from(xml)).expect("request")
    };
    for (team, header, expected) in
        [("green", None, 200), ("red", None, 403), ("red", Some("team=green"), 403), ("green", Some("team=red"), 200)]
    {
        let (status, text, _) = world.ask(tagged(team, header)).await;
        assert_eq!(status, expected, "{team} {header:?}: {text}");
    }
}

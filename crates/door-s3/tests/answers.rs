//! What answers carry beside what was asked, websites, and access logs, over metadata in memory.

use base_types::s3::*;
use door_s3::metadata::{ask, tell};
use door_s3::store::LocalStore;
use door_s3::testing::MemoryMetadata;
use door_s3::{Body, Gateway, Peer, Service, ServiceConfig};
use futures::StreamExt as _;
use hyper::{HeaderMap, Request};
use std::sync::Arc;

struct World {
    service: Service,
    metadata: Arc<MemoryMetadata>,
    _folder: tempfile::TempDir,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

/// Buckets of ann and one of bob; in `bucket` anybody may do anything.
async fn world() -> World {
    let folder = tempfile::tempdir().expect("folder");
    let metadata = Arc::new(MemoryMetadata::new("fr-par"));
    for account in ["ann", "bob"] {
        metadata.add_account(account, &format!("{account}-key"), "secret");
    }
    for (bucket, account) in [("bucket", "ann"), ("logs", "ann"), ("other", "bob")] {
        let open_to_public = bucket == "bucket";
        let call =
            CreateBucket { bucket: bucket.into(), account: account.into(), open_to_public, ..Default::default() };
        tell(&*metadata, call).await.expect("bucket");
    }
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*",
        "Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"]}]}"#;
    tell(&*metadata, PutBucketPolicy { bucket: "bucket".into(), policy: policy.into() }).await.expect("policy");
    let data = Arc::new(LocalStore::open(folder.path()).expect("store"));
    let config = ServiceConfig { domains: vec![], website_domains: vec!["site.local".into()] };
    let service = Service::new(Gateway::new(metadata.clone(), data), &config).expect("service");
    World { service, metadata, _folder: folder }
}

impl World {
    async fn ask(&self, method: &str, uri: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(uri).header("content-length", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "s3.local");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).expect("request");
        let peer = Peer { address: [127, 0, 0, 1].into(), secure: false };
        let (head, mut body) = self.service.answer(request, peer).await.expect("answer").into_parts();
        let mut text = Vec::new();
        while let Some(piece) = body.next().await {
            text.extend_from_slice(&piece.expect("piece"));
        }
        let text = String::from_utf8(text).expect("text");
        Answer { status: head.status.as_u16(), headers: head.headers, text }
    }

    async fn visit(&self, path: &str) -> Answer {
        self.ask("GET", path, &[("host", "bucket.site.local")], "").await
    }

    async fn tell(&self, call: impl Into<S3Action>) {
        tell(&*self.metadata, call).await.expect("told");
    }
}

#[tokio::test]
async fn answers_carry_what_tools_look_for() {
    let world = world().await;
    let put = world.ask("PUT", "/bucket/k", &[], "hello").await;
    let etag = put.header("etag").to_owned();
    assert_eq!((put.status, put.header("x-amz-request-id").len()), (200, 16));
    let unchanged = world.ask("GET", "/bucket/k", &[("if-none-match", &etag)], "").await;
    assert_eq!((unchanged.status, unchanged.header("etag")), (304, &*etag));
    let beyond = world.ask("GET", "/bucket/k", &[("range", "bytes=9-")], "").await;
    assert_eq!((beyond.status, beyond.header("content-range")), (416, "bytes */5"));
    let id = beyond.header("x-amz-request-id");
    assert!(beyond.text.contains(&format!("<RequestId>{id}</RequestId>")), "{}", beyond.text);
    assert_eq!(beyond.header("content-type"), "application/xml");
    let attributes = world.ask("GET", "/bucket/k?attributes", &[("x-amz-object-attributes", "ETag")], "").await;
    assert!(attributes.text.contains(&format!("<ETag>{}</ETag>", etag.trim_matches('"'))), "{}", attributes.text);
    world.tell(PutBucketVersioning { bucket: "bucket".into(), status: Versioning::Enabled }).await;
    assert_eq!(world.ask("DELETE", "/bucket/k", &[], "").await.status, 204);
    let hidden = world.ask("GET", "/bucket/k", &[], "").await;
    assert_eq!((hidden.status, hidden.header("x-amz-delete-marker")), (404, "true"));
    assert_eq!(world.ask("GET", "/bucket/never", &[], "").await.header("x-amz-delete-marker"), "");
}

#[tokio::test]
async fn every_document_can_be_read() {
    let world = world().await;
    for key in ["a%01b", "a%0db", "a%EF%BF%BEb"] {
        assert_eq!(world.ask("PUT", &format!("/bucket/{key}"), &[], "x").await.status, 200);
    }
    let odd = |c: char| c < ' ' && c != '\n' || c == '\u{fffe}';
    for query in ["", "?list-type=2", "?versions"] {
        let listed = world.ask("GET", &format!("/bucket{query}"), &[], "").await.text;
        assert!(listed.contains("<EncodingType>url</EncodingType>") && listed.contains("<Key>a%01b</Key>"), "{listed}");
        assert!(!listed.contains(odd), "{listed:?}");
    }
    let body = "<Delete><Object><Key>a\u{1}b</Key></Object></Delete>";
    let deleted = world.ask("POST", "/bucket?delete", &[], body).await;
    assert_eq!(deleted.status, 200);
    assert!(deleted.text.contains("<Key>a\u{fffd}b</Key>") && !deleted.text.contains(odd), "{:?}", deleted.text);
    assert_eq!(world.ask("HEAD", "/bucket/a%01b", &[], "").await.status, 404);
}

#[tokio::test]
async fn answers_carry_when_an_object_expires() {
    let world = world().await;
    let rule = LifecycleRule {
        id: Some("r".into()),
        enabled: true,
        expiration: Some(Expiration { days: Some(1), ..Expiration::default() }),
        ..LifecycleRule::default()
    };
    world.tell(PutBucketLifecycleConfiguration { bucket: "bucket".into(), rules: vec![rule] }).await;
    for method in ["PUT", "GET", "HEAD"] {
        let answer = world.ask(method, "/bucket/k", &[], "").await;
        assert!(answer.header("x-amz-expiration").ends_with(r#" 00:00:00 GMT", rule-id="r""#), "{:?}", answer.headers);
    }
}

#[tokio::test]
async fn websites_are_served_to_anybody() {
    let world = world().await;
    assert_eq!(world.visit("/").await.status, 404);
    let rule = RoutingRule {
        key_prefix: Some("old/".into()),
        replace_key_prefix_with: Some("new/".into()),
        ..RoutingRule::default()
    };
    let website = Website {
        redirect_all: None,
        index_suffix: Some("index.html".into()),
        error_key: Some("error.html".into()),
        routing_rules: vec![rule],
    };
    world.tell(PutBucketWebsite { bucket: "bucket".into(), website }).await;
    for key in ["index.html", "docs/index.html", "error.html"] {
        assert_eq!(world.ask("PUT", &format!("/bucket/{key}"), &[], key).await.status, 200);
    }
    for (path, text) in [("/", "index.html"), ("/docs/", "docs/index.html")] {
        let answer = world.visit(path).await;
        assert_eq!((answer.status, &*answer.text), (200, text));
    }
    for (path, status, there) in [("/docs", 302, "/docs/"), ("/old/a", 301, "http://bucket.site.local/new/a")] {
        let answer = world.visit(path).await;
        assert_eq!((answer.status, answer.header("location")), (status, there));
    }
    let lost = world.visit("/nowhere").await;
    assert_eq!((lost.status, &*lost.text), (404, "error.html"));
    // Though anybody may write to the bucket, nobody does so here.
    assert_eq!(world.ask("PUT", "/x", &[("host", "bucket.site.local")], "x").await.status, 405);
}

#[tokio::test]
async fn access_logs_reach_their_bucket() {
    let world = world().await;
    let target = LogTarget { bucket: "logs".into(), prefix: "log/".into() };
    world.tell(PutBucketLogging { bucket: "bucket".into(), logging: Some(target) }).await;
    world.ask("PUT", "/bucket/k", &[], "hello").await;
    let missing = world.ask("GET", "/bucket/none", &[], "").await;
    world.ask("GET", "/other/k", &[], "").await;
    assert_eq!(world.service.flush_access_logs().await, door_s3::Flushed { objects: 1, lost: 0 });
    assert_eq!(world.service.flush_access_logs().await, door_s3::Flushed::default());
    let call = ListObjectsV2 { bucket: "logs".into(), prefix: "log/".into(), ..Default::default() };
    let page: ObjectPage = ask(&*world.metadata, call).await.expect("page");
    let call = GetObject { bucket: "logs".into(), key: page.contents[0].key.clone(), ..Default::default() };
    let found: ObjectVersion = ask(&*world.metadata, call).await.expect("log");
    let Some(Data::Inline(bytes)) = found.data else { panic!("not inline") };
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("ann bucket [") && lines[0].contains(" REST.PUT.OBJECT k "), "{text}");
    assert!(lines[1].contains(missing.header("x-amz-request-id")) && lines[1].contains(" 404 NoSuchKey "), "{text}");
}

#[tokio::test]
async fn access_logs_go_where_their_owner_may_put() {
    let world = world().await;
    let put = |target: &str| {
        format!("<BucketLoggingStatus><LoggingEnabled><TargetBucket>{target}</TargetBucket><TargetPrefix>l/</TargetPrefix></LoggingEnabled></BucketLoggingStatus>")
    };
    // Anybody may set the log of `bucket`, and put into it, but into no other.
    for (target, status, code) in [
        ("bucket", 200, ""),
        ("logs", 403, "AccessDenied"),
        ("other", 400, "InvalidTargetBucketForLogging"),
        ("none", 400, "InvalidTargetBucketForLogging"),
    ] {
        let answer = world.ask("PUT", "/bucket?logging", &[], &put(target)).await;
        assert_eq!(answer.status, status, "{target}: {}", answer.text);
        assert!(answer.text.contains(code), "{target}: {}", answer.text);
    }
}

#[tokio::test]
async fn older_defaults_leave_new_buckets_open_to_acls() {
    for older in [false, true] {
        let folder = tempfile::tempdir().expect("folder");
        let metadata = Arc::new(MemoryMetadata::new("fr-par"));
        metadata.add_account("ann", "ann-key", "secret");
        let data = Arc::new(LocalStore::open(folder.path()).expect("store"));
        let gateway = Gateway::new(metadata.clone(), data).with_older_bucket_defaults(older);
        let service = Service::new(gateway, &ServiceConfig::default()).expect("service");
        let world = World { service, metadata, _folder: folder };
        let (date, signature) = sign_put_of_bucket();
        let headers = [("authorization", &*signature), ("x-amz-date", &*date), ("x-amz-content-sha256", EMPTY)];
        let made = world.ask("PUT", "/bucket", &headers, "").await;
        assert_eq!(made.status, 200, "{}", made.text);
        let info: BucketInfo = ask(&*world.metadata, HeadBucket { bucket: "bucket".into() }).await.expect("bucket");
        assert_eq!(info.public_access_block.is_none(), older);
        assert_eq!(info.object_ownership == Some(ObjectOwnership::ObjectWriter), older);
    }
}

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// `PUT /bucket` as ann signs it: the date and the `Authorization`.
fn sign_put_of_bucket() -> (String, String) {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use sha2::Digest as _;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mac = |key: &[u8], text: &str| {
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key).expect("key");
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().to_vec()
    };
    let now = time::OffsetDateTime::now_utc();
    let day = format!("{}{:02}{:02}", now.year(), u8::from(now.month()), now.day());
    let date = format!("{day}T{:02}{:02}{:02}Z", now.hour(), now.minute(), now.second());
    let names = "host;x-amz-content-sha256;x-amz-date";
    let request =
        format!("PUT\n/bucket\n\nhost:s3.local\nx-amz-content-sha256:{EMPTY}\nx-amz-date:{date}\n\n{names}\n{EMPTY}");
    let scope = format!("{day}/fr-par/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&sha2::Sha256::digest(request)));
    let mut key = b"AWS4secret".to_vec();
    for part in [&*day, "fr-par", "s3", "aws4_request"] {
        key = mac(&key, part);
    }
    let signature = hex(&mac(&key, &text));
    (date, format!("AWS4-HMAC-SHA256 Credential=ann-key/{scope}, SignedHeaders={names}, Signature={signature}"))
}

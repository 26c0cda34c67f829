//! Forms in pieces of every size; what is refused before the file, and what a policy lets through.

use super::*;
use crate::signed::ALGORITHM;
use base64::Engine as _;

const NOW_MS: u64 = 1_795_435_200_000; // 2026-11-23T12:00:00Z
const SECRET: &str = "secret";

/// The body of a form; the file is its last part.
fn body(fields: &[(&str, &str)], file: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.extend(format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").bytes());
    }
    let head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\dir\\a b.txt\"\r\n\r\n";
    out.extend(head.bytes());
    out.extend_from_slice(file);
    out.extend(b"\r\n--b--\r\n");
    out
}

fn in_pieces(bytes: Vec<u8>, size: usize) -> Body {
    let pieces: Vec<_> = bytes.chunks(size).map(|piece| Ok::<_, std::io::Error>(piece.to_vec().into())).collect();
    Body::from(s3s::dto::StreamingBlob::wrap(futures::stream::iter(pieces)))
}

fn wait<T>(future: impl std::future::Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("runtime").block_on(future)
}

fn read(fields: &[(&str, &str)], file: &[u8]) -> Result<Form, Refusal> {
    wait(Form::read("b".to_owned(), in_pieces(body(fields, file), 1000)))
}

fn policy(conditions: &str) -> String {
    let text = format!("{{\"expiration\": \"2026-11-23T13:00:00Z\", \"conditions\": [{conditions}]}}");
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn judged(conditions: &str, fields: &[(&str, &str)]) -> Result<RangeInclusive<u64>, &'static str> {
    let policy = policy(conditions);
    let mut fields = fields.to_vec();
    fields.push(("policy", &policy));
    read(&fields, b"x").and_then(|form| form.judge("bucket", NOW_MS)).map_err(|refusal| refusal.code.as_str())
}

#[test]
fn a_form_comes_through_in_pieces_of_any_size() {
    let file: Vec<u8> = (0..5000u32).map(|at| if at % 7 == 0 { b'\r' } else { (at % 251) as u8 }).collect();
    for size in [1, 2, 3, 17, 1000, 100_000] {
        let form = wait(Form::read("b".to_owned(), in_pieces(body(&[("kEy", "k/${filename}")], &file), size)));
        let form = form.unwrap_or_else(|refusal| panic!("{size}: {refusal:?}"));
        assert_eq!(form.key().expect("key"), "k/a b.txt", "a path of the client is left out");
        let pieces = wait(form.into_file().collect::<Vec<_>>());
        let got: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.expect("piece").to_vec()).collect();
        assert!(got == file, "{size}");
    }
}

#[test]
fn a_file_is_never_ahead_of_its_reader_by_more_than_pieces() {
    let taken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = taken.clone();
    let head = body(&[("key", "k")], b"");
    let head = head[..head.len() - 9].to_vec();
    let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(head))]);
    let rest = futures::stream::repeat_with(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(Bytes::from(vec![7; 1000]))
    });
    let stream = Body::from(s3s::dto::StreamingBlob::wrap(sync_wrapper::SyncStream::new(first.chain(rest))));
    wait(async {
        let mut file = Form::read("b".to_owned(), stream).await.expect("form").into_file();
        for _ in 0..100 {
            file.next().await.expect("more").expect("piece");
        }
    });
    let taken = taken.load(Ordering::Relaxed);
    assert!((90..=110).contains(&taken), "{taken} pieces of an endless file were taken for 100 that were read");
}

#[test]
fn fields_before_the_file_are_bounded() {
    let long = "x".repeat(FIELDS_BYTES_MAX + 2000);
    let refused = read(&[("key", "k"), ("x-ignore-a", &long)], b"").map(|_| ()).expect_err("too long");
    assert_eq!(refused.code.as_str(), "MaxPostPreDataLengthExceededError");
    let names: Vec<String> = (0..=FIELDS_MAX).map(|at| format!("f{at}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(read(&many, b"").map(|_| ()).expect_err("too many").code.as_str(), "MalformedPOSTRequest");
    assert_eq!(
        read(&[("key", "k"), ("Key", "l")], b"").map(|_| ()).expect_err("twice").code.as_str(),
        "InvalidArgument"
    );
}

#[test]
fn what_is_no_form_is_refused() {
    let refused = |bytes: &[u8]| {
        wait(Form::read("b".to_owned(), in_pieces(bytes.to_vec(), 10))).map(|_| ()).expect_err("no form").code.as_str()
    };
    assert_eq!(refused(b""), "MalformedPOSTRequest");
    assert_eq!(refused(b"--b--\r\n"), "InvalidArgument", "no file");
    assert_eq!(refused(b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nvalue"), "MalformedPOSTRequest");
    assert_eq!(refused(b"--b\r\nContent-Disposition: form-data\r\n\r\nv\r\n--b--\r\n"), "MalformedPOSTRequest");
    assert_eq!(
        refused(b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\xff\r\n--b"),
        "MalformedPOSTRequest"
    );
    let headers = |value| [(CONTENT_TYPE, HeaderValue::from_static(value))].into_iter().collect::<HeaderMap>();
    assert!(boundary(&Method::POST, &headers("multipart/form-data")).is_some_and(|found| found.is_err()));
    assert!(boundary(&Method::PUT, &headers("multipart/form-data; boundary=b")).is_none());
    assert!(boundary(&Method::POST, &headers("application/xml")).is_none());
}

#[test]
fn a_policy_names_every_field() {
    let key = ("key", "user/a");
    assert_eq!(
        judged("[\"starts-with\", \"$key\", \"user/\"], {\"bucket\": \"bucket\"}", &[key]),
        Ok(0..=PUT_BYTES_MAX)
    );
    assert_eq!(judged("[\"starts-with\", \"$key\", \"other/\"]", &[key]), Err("AccessDenied"));
    assert_eq!(judged("{\"key\": \"user/b\"}", &[key]), Err("AccessDenied"));
    assert_eq!(judged("{\"key\": \"user/a\"}", &[key, ("acl", "public-read")]), Err("AccessDenied"));
    assert_eq!(judged("{\"key\": \"user/a\"}, {\"bucket\": \"other\"}", &[key]), Err("AccessDenied"));
    assert_eq!(judged("{\"key\": \"user/a\"}", &[key, ("bucket", "other")]), Err("AccessDenied"));
    assert!(judged("{\"KEY\": \"user/a\"}", &[key, ("x-ignore-this", "1"), ("submit", "go")]).is_ok());
}

#[test]
fn a_policy_says_how_long_the_file_may_be() {
    let key = ("key", "k");
    let two = "{\"key\": \"k\"}, [\"content-length-range\", 5, 100], [\"content-length-range\", 0, 50]";
    assert_eq!(judged(two, &[key]), Ok(5..=50));
    let huge = "{\"key\": \"k\"}, [\"content-length-range\", 0, 99999999999999]";
    assert_eq!(judged(huge, &[key]), Ok(0..=PUT_BYTES_MAX));
}

#[test]
fn policies_that_are_none_or_old_are_refused() {
    let judge = |text: &str, now| {
        let form = read(&[("key", "k"), ("policy", text)], b"").expect("form");
        form.judge("bucket", now).map_err(|refusal| refusal.code.as_str())
    };
    assert_eq!(judge("not base64", NOW_MS), Err("InvalidPolicyDocument"));
    assert_eq!(judge("e30=", NOW_MS), Err("InvalidPolicyDocument"));
    assert_eq!(judge(&policy("{\"key\": \"k\"}"), NOW_MS + 3_600_000), Err("AccessDenied"));
    assert!(judge(&policy("{\"key\": \"k\"}"), NOW_MS).is_ok());
}

#[test]
fn a_form_is_signed_whole_or_not_at_all() {
    let credential = "AK/20261123/eu-west-1/s3/aws4_request";
    let text = policy("{\"key\": \"k\"}");
    let whole = [
        ("key", "k"),
        ("policy", text.as_str()),
        ("x-amz-algorithm", ALGORITHM),
        ("x-amz-credential", credential),
        ("x-amz-date", "20261123T120000Z"),
        // By Python's hmac: the chain of AWS4secret, 20261123, eu-west-1, s3, aws4_request, then the policy's base64.
        ("x-amz-signature", "e9807c9f7b511d76cb13929ba89bc06bf32c9247a27057bc3f0a51a91c69c0aa"),
    ];
    let signer = |fields: &[(&str, &str)]| read(fields, b"").and_then(|form| form.signer());
    let found = signer(&whole).expect("whole").expect("signed");
    assert_eq!(found.access_key, "AK");
    let verify = |secret, now| found.verify(secret, now).map_err(|refusal| refusal.code.as_str());
    assert_eq!(verify(SECRET, NOW_MS), Ok(()));
    assert_eq!(verify("other", NOW_MS), Err("SignatureDoesNotMatch"));
    assert_eq!(verify(SECRET, NOW_MS - 16 * 60 * 1000), Err("RequestTimeTooSkewed"));
    assert_eq!(verify(SECRET, NOW_MS + 8 * 24 * 3_600_000), Err("AccessDenied"));
    for missing in 1..whole.len() {
        let mut partial = whole.to_vec();
        partial.remove(missing);
        assert_eq!(
            signer(&partial).map_err(|refusal| refusal.code.as_str()),
            Err("InvalidArgument"),
            "without {missing}"
        );
    }
    let changed = |at: usize, value: &'static str| {
        let mut fields = whole.to_vec();
        fields[at].1 = value;
        signer(&fields).map_err(|refusal| refusal.code.as_str()).map(|_| ())
    };
    assert_eq!(changed(3, "AK/20261123/eu-west-1/sts/aws4_request"), Err("InvalidArgument"));
    assert_eq!(changed(3, "AK/20261122/eu-west-1/s3/aws4_request"), Err("InvalidArgument"));
    assert_eq!(changed(3, "AK/2026/eu-west-1/s3/aws4_request"), Err("InvalidArgument"));
    assert_eq!(changed(4, "yesterday"), Err("InvalidArgument"));
    assert_eq!(changed(5, "0g"), Err("InvalidArgument"));
    let old = [("key", "k"), ("AWSAccessKeyId", "AK"), ("policy", "e30="), ("signature", "c2ln")];
    assert_eq!(signer(&old).map_err(|refusal| refusal.code.as_str()), Err("InvalidRequest"));
    assert_eq!(signer(&[("key", "k")]), Ok(None));
}

#[test]
fn a_form_never_becomes_another_call() {
    for name in ["x-amz-copy-source", "x-amz-bypass-governance-retention", "x-amz-date-2"] {
        let form = read(&[("key", "k"), (name, "v")], b"").expect("form");
        assert_eq!(
            form.headers().map(|_| ()).map_err(|refusal| refusal.code.as_str()),
            Err("InvalidArgument"),
            "{name}"
        );
    }
    let form = read(&[("key", "k"), ("Host", "h"), ("acl", "private"), ("x-amz-meta-A", "ü")], b"").expect("form");
    let headers = form.headers().expect("headers");
    assert_eq!((headers.len(), headers.get("x-amz-acl").map(HeaderValue::as_bytes)), (2, Some(&b"private"[..])));
    let both = read(&[("key", "k"), ("acl", "private"), ("x-amz-acl", "public-read")], b"").expect("form");
    assert!(both.headers().is_err());
}

#[test]
fn a_session_token_is_in_a_signed_form_and_in_its_policy() {
    let text = policy("{\"key\": \"k\"}");
    let token = |fields: &[(&str, &str)]| {
        let form = read(fields, b"").expect("form");
        let found = form.session_token().map(|found| found.map(str::to_owned));
        found.map_err(|refusal| refusal.code.as_str())
    };
    let (key, signed) = (("key", "k"), ("policy", text.as_str()));
    assert_eq!(token(&[key, signed]), Ok(None));
    assert_eq!(token(&[key, signed, ("X-Amz-Security-Token", "t")]), Ok(Some("t".into())));
    assert_eq!(token(&[key, ("x-amz-security-token", "t")]), Err("InvalidArgument"), "nobody signed it");
    assert_eq!(token(&[key, signed, ("x-amz-security-token", "")]), Err("InvalidToken"));
    let long = "t".repeat(SESSION_TOKEN_BYTES_MAX + 1);
    assert_eq!(token(&[key, signed, ("x-amz-security-token", &long)]), Err("InvalidToken"));
    let field = ("x-amz-security-token", "t");
    assert_eq!(judged("{\"key\": \"k\"}", &[key, field]), Err("AccessDenied"), "the policy does not name it");
    assert_eq!(judged("{\"key\": \"k\"}, {\"x-amz-security-token\": \"u\"}", &[key, field]), Err("AccessDenied"));
    assert!(judged("{\"key\": \"k\"}, {\"x-amz-security-token\": \"t\"}", &[key, field]).is_ok());
    let form = read(&[key, field], b"").expect("form");
    assert_eq!(form.headers().expect("headers").len(), 0, "the PUT does not carry it");
}

#[test]
fn tags_come_as_xml() {
    let xml = "<Tagging><TagSet><Tag><Key>a b</Key><Value>c&amp;d</Value></Tag></TagSet></Tagging>";
    let form = read(&[("key", "k"), ("tagging", xml)], b"").expect("form");
    let header = form.headers().expect("headers").get("x-amz-tagging").cloned().expect("tagging");
    assert_eq!(header, "a%20b=c%26d");
    let form = read(&[("key", "k"), ("tagging", "<Tagging>")], b"").expect("form");
    assert_eq!(form.headers().map(|_| ()).map_err(|refusal| refusal.code.as_str()), Err("MalformedXML"));
}

#[test]
fn success_is_what_the_form_asks_for() {
    let success =
        |fields: &[(&str, &str)]| read(fields, b"").expect("form").success().map_err(|refusal| refusal.code.as_str());
    assert_eq!(success(&[("success_action_status", "201")]), Ok(Success { redirect: None, status: 201 }));
    assert_eq!(success(&[("success_action_status", "404")]), Ok(Success { redirect: None, status: 204 }));
    assert_eq!(success(&[("success_action_redirect", "javascript:alert(1)")]), Err("InvalidArgument"));
    let broken = "https://example.com/x#a\u{7}b";
    assert_eq!(success(&[("success_action_redirect", broken)]), Err("InvalidArgument"), "refused before the upload");
    let there = success(&[("success_action_redirect", "https://example.com/x")]).expect("good");
    assert_eq!(there.redirect.as_deref(), Some("https://example.com/x"));
}

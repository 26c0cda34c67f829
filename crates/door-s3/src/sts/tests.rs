//! STS over a service whose sessions are the test's.

use super::*;
use crate::auth::session::{signer, within};
use crate::auth::Signer;
use crate::gateway::{Gateway, Peer};
use crate::service::{Service, ServiceConfig};
use crate::testing::MemoryMetadata;
use base_types::s3::Owner;

/// Takes the token `good`, and opens the session token `open`.
struct Fake;

fn who() -> SessionName {
    SessionName { account: "oidc-1".into(), role: "*".into(), name: "ci".into() }
}

#[async_trait::async_trait]
impl Sessions for Fake {
    async fn assume(&self, asked: Assume) -> Result<Issued, Fault> {
        if asked.token != "good" {
            return Err(Fault::new("InvalidIdentityToken", 400, "not <good> & not fine"));
        }
        Ok(Issued {
            access_key: "HIVT1".into(),
            secret_key: "secret".into(),
            session_token: "open".into(),
            expires_ms: 1_800_000_000_000,
            who: who(),
            subject: "a<n>n".into(),
            audience: "hive".into(),
            provider: "https://corp".into(),
        })
    }

    fn open(&self, token: &str) -> Result<Opened, Refusal> {
        if token != "open" {
            return Err(S3ErrorCode::InvalidToken.into());
        }
        let owner = Owner { id: "oidc-1".into(), display_name: "oidc:ann".into() };
        let signer = Signer { secret_key: "secret".into(), owner, user: None };
        Ok(Opened { access_key: "HIVT1".into(), signer, who: who() })
    }
}

fn service(home: &std::path::Path) -> Service {
    let store = crate::store::LocalStore::open(home).unwrap();
    let gateway = Gateway::new(Arc::new(MemoryMetadata::new("eu")), Arc::new(store));
    Service::new(gateway, &ServiceConfig::default()).unwrap().with_sessions(Arc::new(Fake))
}

fn form(body: impl Into<String>) -> Request<Body> {
    let request = Request::post("/")
        .header("host", "s3.example")
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-8");
    request.body(Body::from(body.into())).unwrap()
}

async fn answered(service: &Service, request: Request<Body>) -> (u16, String) {
    let peer = Peer { address: "127.0.0.1".parse().unwrap(), secure: false };
    let response = service.answer(request, peer).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().store_all_limited(1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

const ASSUME: &str = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&WebIdentityToken=";

#[tokio::test]
async fn answers_are_as_sts_writes_them() {
    let home = tempfile::tempdir().unwrap();
    let service = service(home.path());
    let (status, body) = answered(&service, form(format!("{ASSUME}good"))).await;
    assert_eq!(status, 200, "{body}");
    for part in [
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>",
        "<SubjectFromWebIdentityToken>a&lt;n&gt;n</SubjectFromWebIdentityToken>",
        "<Arn>arn:aws:sts::oidc-1:assumed-role/*/ci</Arn>",
        "<SessionToken>open</SessionToken>",
        "<Expiration>2027-01-15T08:00:00",
        "</Credentials></AssumeRoleWithWebIdentityResult><ResponseMetadata><RequestId>",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    let (status, body) = answered(&service, form(format!("{ASSUME}bad"))).await;
    assert_eq!(status, 400);
    assert!(body.contains("<Error><Type>Sender</Type><Code>InvalidIdentityToken</Code>"), "{body}");
    assert!(body.contains("not &lt;good&gt; &amp; not fine"), "{body}");
    for (form_body, code, expected) in [
        ("Action=GetCallerIdentity&Version=2011-06-15".to_string(), "MissingAuthenticationToken", 403),
        (format!("{ASSUME}good&ProviderId=x"), "ValidationError", 400),
        (format!("{ASSUME}good&Policy=x"), "MalformedPolicyDocument", 400),
        (format!("{ASSUME}good&Policy={}", "x".repeat(2_049)), "PackedPolicyTooLarge", 400),
        ("x".repeat(FORM_BYTES_MAX + 1), "ValidationError", 413),
        ("\u{0}%ff%&&=".into(), "MissingAction", 400),
    ] {
        let (status, body) = answered(&service, form(form_body)).await;
        assert!(status == expected && body.contains(&format!("<Code>{code}</Code>")), "{status} {body}");
    }
}

#[tokio::test]
async fn a_wrong_signature_is_an_sts_error() {
    let home = tempfile::tempdir().unwrap();
    let service = service(home.path());
    let signed = |credential: &str| {
        let mut request = form("Action=GetCallerIdentity&Version=2011-06-15");
        let value = format!(
            "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host;x-amz-date, Signature={}",
            "0".repeat(64)
        );
        request.headers_mut().insert(AUTHORIZATION, value.parse().unwrap());
        request.headers_mut().insert("x-amz-date", "20261123T000000Z".parse().unwrap());
        request
    };
    for (credential, code) in [
        ("AK/20261123/eu/sts/aws4_request", "RequestTimeTooSkewed"),
        ("AK/20261123/eu/s3/aws4_request", "AuthorizationHeaderMalformed"),
    ] {
        let (status, body) = answered(&service, signed(credential)).await;
        assert!(status >= 400 && body.contains("<ErrorResponse") && body.contains(code), "{status} {body}");
    }
}

#[tokio::test]
async fn a_sessions_key_needs_its_token() {
    let of = |access_key: &'static str| async move { signer(access_key).map(|found| found.map(|own| own.secret_key)) };
    let code = |found: S3Result<Option<String>>| found.map_err(|error| error.code().as_str().to_owned());
    assert_eq!(code(of("HIVT1").await), Err("InvalidAccessKeyId".into()));
    assert_eq!(code(of("AK").await), Ok(None));
    let session = Some(Arc::new(Fake.open("open").unwrap()));
    assert_eq!(code(within(session.clone(), of("HIVT1")).await), Ok(Some("secret".into())));
    for other in ["HIVT2", "AK"] {
        assert_eq!(code(within(session.clone(), of(other)).await), Err("InvalidToken".into()), "{other}");
    }
}

#[tokio::test]
async fn a_token_that_does_not_open_is_refused_before_the_body() {
    let home = tempfile::tempdir().unwrap();
    let service = service(home.path());
    for token in ["shut", &"x".repeat(SESSION_TOKEN_BYTES_MAX + 1)] {
        let request = Request::put("/b/k").header("host", "s3.example").header("x-amz-security-token", token);
        let (status, body) = answered(&service, request.body(Body::from("body".to_owned())).unwrap()).await;
        assert!(status == 400 && body.contains("InvalidToken"), "{status} {body}");
    }
    let twice = Request::get("/b?X-Amz-Security-Token=open").header("host", "s").header("x-amz-security-token", "open");
    assert_eq!(answered(&service, twice.body(Body::empty()).unwrap()).await.0, 400);
}

#[test]
fn only_forms_at_the_root_are_for_sts() {
    let meant = |method: &str, uri: &str, kind: &str| {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())]);
        is_meant(&method.parse().unwrap(), &uri.parse().unwrap(), &headers)
    };
    const FORM: &str = "application/x-www-form-urlencoded";
    assert!(meant("POST", "/", FORM) && meant("POST", "/", "Application/X-WWW-form-urlencoded; charset=utf-8"));
    for (method, uri, kind) in [
        ("PUT", "/", FORM),
        ("POST", "/b", FORM),
        ("POST", "/?delete", FORM),
        ("POST", "/", "multipart/form-data"),
        ("GET", "/", FORM),
    ] {
        assert!(!meant(method, uri, kind), "{method} {uri} {kind}");
    }
}

/// A form for a bucket that is not there, signed by the session's key; the token as a field, and whether the policy names it.
fn signed_form(token: Option<&str>, named: bool) -> Request<Body> {
    use base64::Engine as _;
    use hmac::{Hmac, KeyInit as _, Mac as _};
    let mac = |key: &[u8], text: &str| {
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key).unwrap();
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().to_vec()
    };
    let now = crate::gateway::now_ms();
    let time = |ms: u64| {
        let mut text = Vec::new();
        crate::convert::timestamp(ms).format(s3s::dto::TimestampFormat::DateTime, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let date: String = time(now).chars().filter(|letter| !"-:".contains(*letter)).take(15).chain(['Z']).collect();
    let condition = token.filter(|_| named).map(|token| format!(r#",{{"x-amz-security-token":"{token}"}}"#));
    let credential = format!("HIVT1/{}/eu/s3/aws4_request", &date[..8]);
    let policy = format!(
        r#"{{"expiration":"{}","conditions":[{{"key":"k"}},["starts-with","$x-amz-algorithm",""],["starts-with","$x-amz-credential",""],["starts-with","$x-amz-date",""]{}]}}"#,
        time(now + 60_000),
        condition.unwrap_or_default()
    );
    let policy = base64::engine::general_purpose::STANDARD.encode(policy);
    let mut key = mac(b"AWS4secret", &date[..8]);
    for part in ["eu", "s3", "aws4_request"] {
        key = mac(&key, part);
    }
    let signature: String = mac(&key, &policy).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut fields = vec![
        ("key", "k"),
        ("policy", &policy),
        ("x-amz-algorithm", crate::signed::ALGORITHM),
        ("x-amz-credential", &credential),
        ("x-amz-date", &date),
        ("x-amz-signature", &signature),
    ];
    fields.extend(token.map(|token| ("x-amz-security-token", token)));
    fields.push(("file\"; filename=\"f", "body"));
    let part = |(name, value): &(&str, &str)| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let body: String = fields.iter().map(part).chain(["--b--\r\n".into()]).collect();
    let request = Request::post("/bucket").header("host", "s3.example");
    request.header(CONTENT_TYPE, "multipart/form-data; boundary=b").body(Body::from(body)).unwrap()
}

#[tokio::test]
async fn a_form_of_a_session_carries_its_token_and_its_policy_names_it() {
    let home = tempfile::tempdir().unwrap();
    let service = service(home.path());
    for (token, named, status, code) in [
        // Let in: there is no such bucket.
        (Some("open"), true, 404, "NoSuchBucket"),
        (Some("open"), false, 403, "Extra input fields: x-amz-security-token"),
        (Some("other"), true, 400, "InvalidToken"),
        (None, true, 403, "InvalidAccessKeyId"),
    ] {
        let (found, body) = answered(&service, signed_form(token, named)).await;
        assert!(found == status && body.contains(code), "{token:?} {named}: {found} {body}");
    }
    let mut by_header = signed_form(None, true);
    by_header.headers_mut().insert("x-amz-security-token", "open".parse().unwrap());
    let (status, body) = answered(&service, by_header).await;
    assert!(
        status == 400 && body.contains("the field x-amz-security-token"),
        "nothing signs that header: {status} {body}"
    );
}

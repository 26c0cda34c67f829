//! Tokens good and bad, keys good and bad, and an issuer that is a socket of the test.

use super::keys::KeySet;
use super::token::{check, issuer_of, Claims, Wrong, GROUPS_MAX, SKEW_S, TOKEN_BYTES_MAX};
use super::*;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine as _;
use base_access::{Binding, Directory, GroupRow, Row, RowBody};
use ring::rand::SystemRandom;
use ring::signature::{EcdsaKeyPair, Ed25519KeyPair, KeyPair, ECDSA_P256_SHA256_FIXED_SIGNING};
use serde_json::{json, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const NOW_S: u64 = 1_800_000_000;
const ISSUER: &str = "https://corp.example/realm";

fn section(issuer: &str) -> OidcSection {
    serde_json::from_value(json!({"issuer": issuer, "audience": "hive"})).unwrap()
}

/// Somebody who signs, and the public half of the key.
struct Signer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    fn new() -> Signer {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Signer { pair: EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap(), random }
    }

    fn jwk(&self, kid: &str) -> Value {
        let point = self.pair.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..])})
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", part(header), part(claims));
        let signature = self.pair.sign(&self.random, message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": "ES256", "kid": "one", "typ": "JWT"}), claims)
    }
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn keys(list: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": list }).to_string().as_bytes()).unwrap()
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "hive", "sub": "ann", "exp": NOW_S + 600, "iat": NOW_S, "groups": ["devs", "ops"]})
}

/// The claims with some changed; `null` removes one.
fn with(changes: Value) -> Value {
    let mut all = claims();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(all.as_object_mut().unwrap().remove(name)),
            value => all[name] = value.clone(),
        }
    }
    all
}

fn checked(signer: &Signer, claims: &Value) -> Result<Claims, Wrong> {
    check(&signer.token(claims), &keys(&[signer.jwk("one")]), &section(ISSUER), NOW_S)
}

#[test]
fn a_good_token_says_who() {
    let signer = Signer::new();
    let ann = checked(&signer, &claims()).unwrap();
    assert_eq!((ann.subject.as_str(), ann.name.as_str(), ann.expires_ms), ("ann", "ann", (NOW_S + 600) * 1_000));
    assert_eq!(ann.groups, ["devs", "ops"]);
    let audiences =
        with(json!({"aud": ["other", "hive"], "groups": "devs", "nbf": NOW_S, "exp": (NOW_S + 600) as f64}));
    assert_eq!(checked(&signer, &audiences).unwrap().groups, ["devs"]);
    assert_eq!(checked(&signer, &with(json!({"groups": null}))).unwrap().groups, [] as [&str; 0]);
    let named = OidcSection { username_claim: "email".into(), groups_claim: "roles".into(), ..section(ISSUER) };
    let token = signer.token(&with(json!({"email": "a\nnn", "roles": ["x"]})));
    let ann = check(&token, &keys(&[signer.jwk("one")]), &named, NOW_S).unwrap();
    assert_eq!((ann.subject.as_str(), ann.name.as_str()), ("ann", "a\\nnn"));
    assert_eq!(ann.groups, ["x"]);
}

#[test]
fn issuer_audience_and_times_count() {
    let signer = Signer::new();
    for (changes, wrong) in [
        (json!({"iss": "https://other.example"}), Wrong::Issuer),
        (json!({"iss": "https://corp.example/realm/"}), Wrong::Issuer),
        (json!({"aud": "somebody"}), Wrong::Audience),
        (json!({"aud": ["somebody", "else"]}), Wrong::Audience),
        (json!({"aud": []}), Wrong::Audience),
        (json!({"exp": NOW_S - SKEW_S}), Wrong::Expired),
        (json!({"exp": 0}), Wrong::Expired),
        (json!({"nbf": NOW_S + SKEW_S + 1}), Wrong::Early),
        (json!({"iat": NOW_S + SKEW_S + 1}), Wrong::Early),
    ] {
        assert_eq!(checked(&signer, &with(changes.clone())).unwrap_err(), wrong, "{changes}");
    }
    let late = with(json!({"exp": NOW_S - SKEW_S + 1, "nbf": NOW_S + SKEW_S, "iat": NOW_S + SKEW_S}));
    assert!(checked(&signer, &late).is_ok(), "clocks may differ by {SKEW_S} s");
}

#[test]
fn claims_of_another_type_are_refused() {
    let signer = Signer::new();
    let many: Vec<String> = (0..=GROUPS_MAX).map(|at| at.to_string()).collect();
    for (name, value) in [
        ("exp", json!("1900000000")),
        ("exp", json!(-1)),
        ("exp", json!(null)),
        ("exp", json!([NOW_S + 600])),
        ("nbf", json!("0")),
        ("nbf", json!({})),
        ("iat", json!(true)),
        ("iat", json!(1e300)),
        ("aud", json!(7)),
        ("aud", json!(null)),
        ("sub", json!(null)),
        ("sub", json!(7)),
        ("sub", json!("")),
        ("sub", json!("s".repeat(256))),
        ("groups", json!({"devs": true})),
        ("groups", json!(["devs", 7])),
        ("groups", json!(7)),
        ("groups", json!(many)),
    ] {
        let mut changed = claims();
        changed[name] = value.clone();
        assert_eq!(checked(&signer, &changed).unwrap_err(), Wrong::Claim(name.into()), "{name}: {value}");
    }
    let named = OidcSection { username_claim: "email".into(), ..section(ISSUER) };
    let token = signer.token(&claims());
    assert_eq!(check(&token, &keys(&[signer.jwk("one")]), &named, NOW_S), Err(Wrong::Claim("email".into())));
}

#[test]
fn algorithms_are_listed() {
    let (signer, other) = (Signer::new(), Signer::new());
    let set = keys(&[signer.jwk("one")]);
    let check = |text: &str| check(text, &set, &section(ISSUER), NOW_S).unwrap_err();
    for alg in ["none", "None", "HS256", "HS512", "ES512", "RS1", "", "A128KW"] {
        let token = signer.sign(&json!({"alg": alg, "kid": "one"}), &claims());
        assert_eq!(check(&token), Wrong::Malformed, "{alg}");
        assert_eq!(issuer_of(&token), Err(Wrong::Malformed), "{alg}");
    }
    // A key of one kind checks nothing of another.
    for alg in ["RS256", "EdDSA", "ES384"] {
        assert_eq!(check(&signer.sign(&json!({"alg": alg, "kid": "one"}), &claims())), Wrong::UnknownKey, "{alg}");
    }
    assert_eq!(check(&other.token(&claims())), Wrong::Signature);
    assert_eq!(check(&signer.sign(&json!({"alg": "ES256", "kid": "two"}), &claims())), Wrong::UnknownKey);
    let critical = json!({"alg": "ES256", "kid": "one", "crit": ["b64"], "b64": false});
    assert_eq!(check(&signer.sign(&critical, &claims())), Wrong::Malformed);
    let token = signer.token(&claims());
    let unsigned = format!("{}.", token.rsplit_once('.').unwrap().0);
    assert_eq!(check(&unsigned), Wrong::Signature);
    // The key in the token's own head vouches for nobody.
    let own = json!({"alg": "ES256", "kid": "one", "jwk": other.jwk("one")});
    assert_eq!(check(&other.sign(&own, &claims())), Wrong::Signature);
}

#[test]
fn a_changed_token_is_refused() {
    let signer = Signer::new();
    let set = keys(&[signer.jwk("one")]);
    let token = signer.token(&claims());
    for at in (0..token.len()).step_by(7) {
        let mut bytes = token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(check(&changed, &set, &section(ISSUER), NOW_S).is_err(), "byte {at}");
    }
    for bad in [
        "",
        ".",
        "..",
        "...",
        "a.b",
        "a.b.c",
        "é.é.é",
        "{}.{}.{}",
        &token[1..],
        &format!("{token}.x"),
        &format!(".{token}"),
    ] {
        assert_eq!(issuer_of(bad), Err(Wrong::Malformed), "{bad}");
        assert_eq!(check(bad, &set, &section(ISSUER), NOW_S), Err(Wrong::Malformed), "{bad}");
    }
    let deep = format!("{}.{}.x", part(&json!({"alg": "ES256"})), URL_SAFE_NO_PAD.encode("[".repeat(10_000)));
    assert_eq!(issuer_of(&deep), Err(Wrong::Malformed));
    let long = signer.token(&with(json!({"groups": ["g".repeat(TOKEN_BYTES_MAX)]})));
    assert_eq!(issuer_of(&long), Err(Wrong::Long));
    assert_eq!(check(&long, &set, &section(ISSUER), NOW_S), Err(Wrong::Long));
}

#[test]
fn symmetric_keys_are_passed_over() {
    let signer = Signer::new();
    let secret = json!({"kty": "oct", "kid": "one", "k": "c2VjcmV0", "alg": "HS256"});
    let sealing = json!({"use": "enc", "kid": "one", "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"});
    let unknown = json!({"kty": "PQ", "kid": "one"});
    let huge = json!({"kty": "RSA", "kid": "one", "n": URL_SAFE_NO_PAD.encode([0xff; 1_024]), "e": "AQAB"});
    let bad = [secret, sealing, unknown, huge, json!(7), json!({})];
    assert!(KeySet::parse(json!({ "keys": bad }).to_string().as_bytes()).is_err());
    let set = keys(&[&bad[..], &[signer.jwk("one")]].concat());
    assert!(check(&signer.token(&claims()), &set, &section(ISSUER), NOW_S).is_ok());
    for document in ["", "<html>", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[]}"#, r#"{"keys":[{"kty":"RSA"}]}"#] {
        assert!(KeySet::parse(document.as_bytes()).is_err(), "{document}");
    }
}

#[test]
fn a_token_without_a_key_name_needs_one_key() {
    let (signer, other) = (Signer::new(), Signer::new());
    let token = signer.sign(&json!({"alg": "ES256"}), &claims());
    let check = |set: &[Value]| check(&token, &keys(set), &section(ISSUER), NOW_S);
    assert!(check(&[signer.jwk("one")]).is_ok());
    assert_eq!(check(&[signer.jwk("one"), other.jwk("two")]), Err(Wrong::UnknownKey));
}

#[test]
fn other_kinds_of_keys_check_too() {
    let random = SystemRandom::new();
    let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
    let set = keys(&[json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "ed"})]);
    let message = format!("{}.{}", part(&json!({"alg": "EdDSA", "kid": "ed"})), part(&claims()));
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(pair.sign(message.as_bytes())));
    assert!(check(&token, &set, &section(ISSUER), NOW_S).is_ok());
    // Made by scripts/oidc/sign_fixture.py, with keys that were thrown away.
    let fixture: Value = serde_json::from_str(include_str!("../../../testdata/oidc_rsa.json")).unwrap();
    let set = KeySet::parse(fixture["jwks"].to_string().as_bytes()).unwrap();
    for (alg, token) in fixture["tokens"].as_object().unwrap() {
        let token = token.as_str().unwrap();
        assert_eq!(check(token, &set, &section(ISSUER), NOW_S).unwrap().subject, "ann", "{alg}");
        let at = token.len() - 10;
        let changed = format!("{}{}{}", &token[..at], if &token[at..=at] == "A" { "B" } else { "A" }, &token[at + 1..]);
        assert_eq!(check(&changed, &set, &section(ISSUER), NOW_S), Err(Wrong::Signature), "{alg}");
    }
}

#[test]
fn what_others_wrote_is_shown_bounded() {
    let shown = bounded(&"é\n\u{1b}[2J".repeat(1_000));
    assert!(shown.len() <= REASON_BYTES_MAX + '…'.len_utf8() && !shown.contains('\n') && !shown.contains('\u{1b}'));
    assert_eq!(bounded("short"), "short");
}

/// An issuer on loopback that answers each path with what the test says, and counts.
struct Loopback {
    issuer: String,
    asked: Arc<AtomicU64>,
}

async fn loopback(documents: impl Fn(&str, &str) -> Option<String> + Send + 'static) -> Loopback {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let issuer = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let asked = Arc::new(AtomicU64::new(0));
    let (own, counted) = (issuer.clone(), asked.clone());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4_096];
            let count = stream.read(&mut head).await.unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..count]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or("/");
            counted.fetch_add(1, Ordering::Relaxed);
            let answer = match documents(&own, path) {
                Some(body) => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
                None => "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".into(),
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Loopback { issuer, asked }
}

fn discovery(issuer: &str, jwks: &str) -> String {
    json!({"issuer": issuer, "jwks_uri": jwks}).to_string()
}

#[tokio::test]
async fn keys_are_fetched_from_a_good_issuer_only() {
    let jwks = json!({"keys": [Signer::new().jwk("one")]}).to_string();
    let good = jwks.clone();
    let server = loopback(move |own, path| {
        Some(if path == "/keys" { good.clone() } else { discovery(own, &format!("{own}/keys")) })
    });
    let server = server.await;
    assert!(fetch::keys(&section(&server.issuer)).await.is_ok());
    assert_eq!(server.asked.load(Ordering::Relaxed), 2);
    type Documents = Box<dyn Fn(&str, &str) -> Option<String> + Send>;
    let bad: [(&str, Documents); 7] = [
        ("of the issuer", Box::new(|_, _| Some(discovery("https://other.example", "https://other.example/keys")))),
        ("https:// URL", Box::new(|own, _| Some(discovery(own, "http://192.0.2.1/keys")))),
        ("no URL", Box::new(|own, _| Some(discovery(own, "file:///etc/passwd")))),
        ("no discovery document", Box::new(|_, _| Some("<html>\u{1b}[2J".into()))),
        ("302", Box::new(|_, _| None)),
        (
            "no JSON",
            Box::new(|own, path| {
                Some(if path == "/k" { "garbage".into() } else { discovery(own, &format!("{own}/k")) })
            }),
        ),
        ("length limit", Box::new(|_, _| Some("x".repeat(fetch::DOCUMENT_BYTES_MAX + 1)))),
    ];
    for (part, documents) in bad {
        let server = loopback(documents).await;
        let error = fetch::keys(&section(&server.issuer)).await.err().unwrap();
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(fetch::keys(&section("http://127.0.0.1:1")).await.is_err());
}

#[test]
fn addresses_of_issuers_are_checked() {
    for good in
        ["https://a.example", "https://a.example:8443/x", "http://127.0.0.1:1", "http://[::1]:1/x", "http://localhost"]
    {
        assert!(crate::config::Place::of(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "a.example",
        "http://a.example",
        "http://10.0.0.1",
        "ftp://a.example",
        "https://",
        "https://u:p@a.example",
        "http://127.0.0.1.example",
    ] {
        assert!(crate::config::Place::of(bad).is_err(), "{bad}");
    }
}

/// A hub that believes one issuer, and whose directory has one group of it.
fn hub(home: &std::path::Path, issuer: &str) -> Arc<AccessHub> {
    let access = crate::config::AccessSection { required: true, oidc: vec![section(issuer)], ..Default::default() };
    let group = GroupRow {
        id: 11,
        issuer: issuer.into(),
        claim: "devs".into(),
        tenant: None,
        roles: vec![Binding { role: "reader".into(), on: None }],
        created_ms: 0,
        requests: Default::default(),
    };
    let row = Row { epoch: 1, changed_ms: 0, body: Some(RowBody::Group(group)) };
    let directory = Directory::new(1, [("group/developers".to_string(), row)].into());
    crate::access::file::write(home, "w", &directory, unix_ms()).unwrap();
    AccessHub::open(&access, home.into(), "w", &[], Default::default()).0
}

#[tokio::test]
async fn an_unknown_key_asks_the_issuer_once_in_a_while() {
    let (old, new) = (Signer::new(), Signer::new());
    let published = Arc::new(std::sync::Mutex::new(vec![old.jwk("one")]));
    let shown = published.clone();
    let server = loopback(move |own, path| {
        let keys = shown.lock().unwrap().clone();
        Some(if path == "/keys" { json!({ "keys": keys }).to_string() } else { discovery(own, &format!("{own}/keys")) })
    });
    let server = server.await;
    let home = tempfile::tempdir().unwrap();
    let hub = hub(home.path(), &server.issuer);
    let now_s = unix_ms() / 1_000;
    let of = |signer: &Signer, kid: &str| {
        let claims = with(json!({"iss": server.issuer, "exp": now_s + 600, "iat": now_s}));
        signer.sign(&json!({"alg": "ES256", "kid": kid}), &claims)
    };
    assert_eq!(hub.vouched(&of(&old, "one")).await.unwrap_err(), Wrong::UnknownKey, "nobody has fetched keys yet");
    let issuer = hub.issuers.list[0].clone();
    let mut silent = false;
    issuer.note(fetch::keys(&issuer.section).await, &hub.issuers.kept, &mut silent);
    let ann = hub.vouched(&of(&old, "one")).await.unwrap().user;
    assert_eq!((ann.name.as_str(), &ann.groups[..]), ("oidc:ann", &[11][..]));
    assert_eq!(ann.account, base_access::account_of_oidc(&server.issuer, "ann"));
    let Caller::Oidc { decided_at: None, .. } = hub.oidc(&of(&old, "one")).await.unwrap() else { panic!() };
    published.lock().unwrap().push(new.jwk("two"));
    // It was asked a moment ago: nobody waits, nobody asks.
    let asked = server.asked.load(Ordering::Relaxed);
    assert_eq!(hub.vouched(&of(&new, "two")).await.unwrap_err(), Wrong::UnknownKey);
    assert_eq!(server.asked.load(Ordering::Relaxed), asked);
    // Later it is asked, and the request waits for what it says.
    issuer.asked_ms.store(unix_ms() - FETCH_EVERY_MIN.as_millis() as u64, Ordering::Relaxed);
    let fresh = async {
        issuer.wanted.notified().await;
        issuer.note(fetch::keys(&issuer.section).await, &hub.issuers.kept, &mut silent);
    };
    let (vouched, ()) = tokio::join!(async { hub.vouched(&of(&new, "two")).await }, fresh);
    assert!(vouched.is_ok());
    // An issuer that fell silent: its last keys count for a day.
    issuer.note(Err("down".into()), &hub.issuers.kept, &mut silent);
    assert!(silent && hub.vouched(&of(&old, "one")).await.is_ok());
    issuer.given_ms.store(unix_ms() - KEYS_LIMIT.as_millis() as u64 - 1_000, Ordering::Relaxed);
    assert_eq!(hub.vouched(&of(&old, "one")).await.unwrap_err(), Wrong::Unreachable);
    assert_eq!(hub.vouched(&old.token(&claims())).await.unwrap_err(), Wrong::Issuer);
}

#[tokio::test]
async fn kept_keys_are_no_younger() {
    let signer = Signer::new();
    let jwks = json!({ "keys": [signer.jwk("one")] }).to_string();
    let server = loopback(move |own, path| {
        Some(if path == "/keys" { jwks.clone() } else { discovery(own, &format!("{own}/keys")) })
    });
    let server = server.await;
    let home = tempfile::tempdir().unwrap();
    let now_s = unix_ms() / 1_000;
    let claims = with(json!({"iss": server.issuer, "exp": now_s + 600, "iat": now_s}));
    let token = signer.sign(&json!({"alg": "ES256", "kid": "one"}), &claims);
    let first = hub(home.path(), &server.issuer);
    let issuer = &first.issuers.list[0];
    issuer.note(fetch::keys(&issuer.section).await, &first.issuers.kept, &mut false);
    assert!(first.vouched(&token).await.is_ok());
    // The node starts again, and the issuer is gone: nobody asks it here.
    assert!(hub(home.path(), &server.issuer).vouched(&token).await.is_ok());
    let given = first.issuers.kept.of(&server.issuer).unwrap();
    let at = |given_ms: u64, document: &str| {
        let given = Given { given_ms, document: document.into() };
        first.issuers.kept.keep(&server.issuer, given).unwrap();
        hub(home.path(), &server.issuer)
    };
    let day = KEYS_LIMIT.as_millis() as u64;
    assert_eq!(
        at(given.given_ms - day - 1_000, &given.document).vouched(&token).await.unwrap_err(),
        Wrong::Unreachable
    );
    // A clock that was ahead: from now on they are a day good, and no longer.
    let ahead = at(unix_ms() + 9 * day, &given.document);
    assert!(ahead.vouched(&token).await.is_ok());
    assert!(ahead.issuers.list[0].given_ms.load(Ordering::Relaxed) <= unix_ms());
    // Keys that a later build does not take.
    assert_eq!(at(unix_ms(), "{\"keys\":[]}").vouched(&token).await.unwrap_err(), Wrong::UnknownKey);
}

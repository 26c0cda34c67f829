//! The client doors with TLS, as clients meet them.

use crate::ca::{self, Issued};
use crate::config::{ClientCertificates, Config};
use crate::node::NodeHandle;
use crate::testing::{config, speak_tls, start, TlsClient, TlsConnection};
use crate::tls::Certificates;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

struct Fixture {
    home: tempfile::TempDir,
    node: NodeHandle,
}

fn fixture(change: impl FnOnce(&mut Config)) -> Fixture {
    let home = tempfile::tempdir().unwrap();
    let mut config = config(home.path(), 1);
    speak_tls(home.path(), &mut config);
    change(&mut config);
    let (node, _, _) = start(config);
    Fixture { home, node }
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").into_bytes()
}

fn post(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").into()
}

const READ: &str = r#"{"action":"KvGet","keyspace":"d","key":"k"}"#;

impl Fixture {
    fn client(&self, user: Option<&Issued>) -> TlsClient {
        TlsClient::new(self.home.path(), user)
    }

    fn user(&self, name: &str) -> Issued {
        ca::clients::issue_user(&self.home.path().join("clients"), name, 30).unwrap()
    }

    fn ask(&self, client: &TlsClient, bytes: &[u8]) -> std::io::Result<String> {
        client.talk(self.node.http_address(), bytes)
    }
}

/// A certificate of the authority in `directory` that ended yesterday.
fn expired(directory: &Path, purpose: rcgen::ExtendedKeyUsagePurpose, name: rcgen::SanType) -> Issued {
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let issuer = rcgen::KeyPair::from_pem(&read("ca.key")).unwrap();
    let issuer = rcgen::Issuer::from_ca_cert_pem(&read("ca.pem"), issuer).unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.subject_alt_names = vec![name];
    params.extended_key_usages = vec![purpose];
    (params.not_before, params.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
    let key = rcgen::KeyPair::generate().unwrap();
    let file = |ending: &str| directory.join(format!("expired.{ending}"));
    std::fs::write(file("pem"), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    std::fs::write(file("key"), key.serialize_pem()).unwrap();
    Issued { authority: directory.join("ca.pem"), certificate: file("pem"), key: file("key") }
}

#[test]
fn door_answers_by_tls_1_2_and_later_and_by_nothing_else() {
    let fixture = fixture(|_| {});
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut client = TlsClient::of_versions(fixture.home.path(), None, &[version]);
        for protocols in [vec![], vec![b"http/1.1".to_vec()], vec![b"h2".to_vec(), b"http/1.1".to_vec()]] {
            client.config.alpn_protocols = protocols;
            assert!(fixture.ask(&client, &post(READ)).unwrap().starts_with("HTTP/1.1 200"));
        }
        client.config.alpn_protocols = vec![b"h2".to_vec()];
        assert!(fixture.ask(&client, &post(READ)).is_err());
    }
    let mut plain = fixture.client(None).dial(fixture.node.http_address());
    plain.write_all(&post(READ)).unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("write https:// instead of http://"), "{answer}");
    let mut garbage = fixture.client(None).dial(fixture.node.http_address());
    garbage.write_all(b"\x16\x03\x01\x00\x05hello and more").unwrap();
    let mut bytes = Vec::new();
    let _ = garbage.read_to_end(&mut bytes);
    assert!(bytes.len() < 32 && !bytes.starts_with(b"HTTP"), "{bytes:?}");
    fixture.node.stop().unwrap();
}

#[test]
fn client_refuses_a_wrong_name_and_a_foreign_authority() {
    let fixture = fixture(|_| {});
    let mut client = fixture.client(None);
    client.name = "elsewhere.example";
    assert!(fixture.ask(&client, &get("/health")).unwrap_err().to_string().contains("not valid for name"));
    let other = tempfile::tempdir().unwrap();
    ca::clients::init(&other.path().join("clients"), "dev").unwrap();
    let stranger = TlsClient::new(other.path(), None);
    assert!(fixture.ask(&stranger, &get("/health")).unwrap_err().to_string().contains("UnknownIssuer"));
    fixture.node.stop().unwrap();
}

#[test]
fn users_certificate_is_required_for_all_but_life() {
    let required = |config: &mut Config| {
        config.tls.as_mut().unwrap().client_certificates = Some(ClientCertificates::Required);
    };
    let fixture = fixture(required);
    let nobody = fixture.client(None);
    for path in ["/health", "/ready"] {
        assert!(fixture.ask(&nobody, &get(path)).unwrap().starts_with("HTTP/1.1 200"), "{path}");
    }
    for asked in [get("/metrics"), get("/get?key=k"), get("/"), post(READ)] {
        let answer = fixture.ask(&nobody, &asked).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("CertificateRequired"), "{answer}");
        assert!(answer.contains("--cert and --key"), "{answer}");
    }
    let ann = fixture.user("ann");
    assert!(fixture.ask(&fixture.client(Some(&ann)), &post(READ)).unwrap().starts_with("HTTP/1.1 200"));
    fixture.node.stop().unwrap();
}

#[test]
fn certificate_that_is_no_users_is_refused() {
    let fixture = fixture(|_| {});
    let clients = fixture.home.path().join("clients");
    let purpose = rcgen::ExtendedKeyUsagePurpose::ClientAuth;
    let uri = |uri: &str| rcgen::SanType::URI(uri.try_into().unwrap());
    let refused = |issued: &Issued| fixture.ask(&fixture.client(Some(issued)), &post(READ)).is_err();
    // Of another authority, of the peers', for serving only, expired.
    let other = tempfile::tempdir().unwrap();
    ca::clients::init(other.path(), "dev").unwrap();
    assert!(refused(&ca::clients::issue_user(other.path(), "ann", 30).unwrap()));
    let node = ca::issue(&fixture.home.path().join("ca"), base_types::NodeId(1), &[], 2).unwrap();
    assert!(refused(&node));
    assert!(refused(&ca::clients::issue_server(&clients, "x", &["localhost".into()], 30).unwrap()));
    assert!(refused(&expired(&clients, purpose, uri("spiffe://dev/user/ann"))));
    // Of the clients' authority, but of another world: told in HTTP, whether one is required or not.
    std::fs::write(clients.join("world"), "other").unwrap();
    let foreign = ca::clients::issue_user(&clients, "ann", 30).unwrap();
    let answer = fixture.ask(&fixture.client(Some(&foreign)), &post(READ)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("spiffe://other/user/ann"), "{answer}");
    assert!(fixture.ask(&fixture.client(Some(&foreign)), &get("/health")).unwrap().starts_with("HTTP/1.1 200"));
    fixture.node.stop().unwrap();
}

#[test]
fn half_open_handshakes_of_one_address_keep_no_other_out() {
    let fixture = fixture(|config| config.limits.header_timeout_ms = 20_000);
    let (flooder, mut other) = (fixture.client(None), fixture.client(None));
    other.from = [127, 0, 0, 2].into();
    // The first bytes of a handshake, and never more.
    let flood: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = flooder.dial(fixture.node.http_address());
            stream.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    for _ in 0..30 {
        let began = Instant::now();
        assert!(fixture.ask(&other, &get("/health")).unwrap().starts_with("HTTP/1.1 200"));
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
    drop(flood);
    // And the same address is served again.
    assert!(fixture.ask(&flooder, &get("/health")).unwrap().starts_with("HTTP/1.1 200"));
    fixture.node.stop().unwrap();
}

#[test]
fn slow_handshake_is_ended() {
    let fixture = fixture(|config| config.limits.header_timeout_ms = 300);
    let client = fixture.client(None);
    for begun in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"] {
        let began = Instant::now();
        let mut stream = client.dial(fixture.node.http_address());
        stream.write_all(begun).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        assert!(began.elapsed() < Duration::from_secs(5), "{begun:?}: {:?}", began.elapsed());
    }
    // A whole handshake and then silence, and half a head.
    for begun in [&b""[..], b"GET /hea"] {
        let began = Instant::now();
        let mut stream = client.connect(fixture.node.http_address()).unwrap();
        stream.write_all(begun).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        assert!(began.elapsed() < Duration::from_secs(5), "{begun:?}: {:?}", began.elapsed());
    }
    fixture.node.stop().unwrap();
}

fn keep_asking(stream: &mut TlsConnection) -> String {
    stream.write_all(b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut bytes = [0; 4096];
    let count = stream.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

fn shown(stream: &TlsConnection) -> Vec<u8> {
    stream.conn.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn changed_files_are_taken_up_and_bad_ones_left_aside_while_connections_continue() {
    let fixture = fixture(|_| {});
    let (client, clients) = (fixture.client(None), fixture.home.path().join("clients"));
    let address = fixture.node.http_address();
    let mut early = client.connect(address).unwrap();
    assert!(keep_asking(&mut early).starts_with("HTTP/1.1 200"));
    let issued = ca::clients::issue_server(&clients, "1", &["localhost".into()], 60).unwrap();
    fixture.node.reload_certificates();
    assert!(keep_asking(&mut early).starts_with("HTTP/1.1 200"), "the connection continues");
    let renewed = client.connect(address).unwrap();
    assert_ne!(shown(&early), shown(&renewed));
    let metrics = || fixture.ask(&client, &get("/metrics")).unwrap();
    assert!(metrics().contains("hive_certificate_reload_failed{door=\"client\"} 0"), "{}", metrics());
    // Another key, half a file, an expired certificate: what is in use stays in use.
    let (key, certificate) = (std::fs::read(&issued.key).unwrap(), std::fs::read(&issued.certificate).unwrap());
    let name = rcgen::SanType::DnsName("localhost".try_into().unwrap());
    let old = expired(&clients, rcgen::ExtendedKeyUsagePurpose::ServerAuth, name);
    let old = (std::fs::read(&old.key).unwrap(), std::fs::read(&old.certificate).unwrap());
    for (bad_key, bad_certificate) in [(&old.0, &certificate), (&key, &certificate[..50].to_vec()), (&old.0, &old.1)] {
        std::fs::write(&issued.key, bad_key).unwrap();
        std::fs::write(&issued.certificate, bad_certificate).unwrap();
        fixture.node.reload_certificates();
        assert!(keep_asking(&mut early).contains("certificate files of the client ports are not in use"));
        assert_eq!(shown(&client.connect(address).unwrap()), shown(&renewed));
        assert!(metrics().contains("hive_certificate_reload_failed{door=\"client\"} 1"));
    }
    std::fs::write(&issued.key, &key).unwrap();
    std::fs::write(&issued.certificate, &certificate).unwrap();
    fixture.node.reload_certificates();
    assert!(!keep_asking(&mut early).contains("not in use"));
    assert!(metrics().contains("hive_certificate_reload_failed{door=\"client\"} 0"));
    fixture.node.stop().unwrap();
}

#[test]
fn node_starts_with_an_expired_certificate_and_reports_it() {
    let home = tempfile::tempdir().unwrap();
    let mut config = config(home.path(), 1);
    speak_tls(home.path(), &mut config);
    let name = rcgen::SanType::DnsName("localhost".try_into().unwrap());
    let old = expired(&home.path().join("clients"), rcgen::ExtendedKeyUsagePurpose::ServerAuth, name);
    let tls = config.tls.as_mut().unwrap();
    (tls.certificate, tls.key) = (old.certificate, old.key);
    let reasons = Certificates::load(&config).unwrap().reasons(2_000_000_000);
    assert!(
        reasons.len() == 1 && reasons[0].contains("expired") && reasons[0].contains("hive ca issue"),
        "{reasons:?}"
    );
    let (node, _, _) = start(config);
    let error = TlsClient::new(home.path(), None).connect(node.http_address()).err().unwrap().to_string();
    assert!(error.contains("expired"), "{error}");
    node.stop().unwrap();
}

#[test]
fn advertised_host_that_the_certificate_does_not_name_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let mut config = config(home.path(), 1);
    speak_tls(home.path(), &mut config);
    let warnings = |config: &Config| crate::node::check(config).unwrap();
    for (advertised, named) in
        [("localhost:1", true), ("127.0.0.1:1", true), ("hive.example:1", false), ("[::1]:1", false)]
    {
        config.http_advertise = advertised.into();
        let warned = warnings(&config).iter().any(|text| text.contains("http.advertise gives to clients"));
        assert_eq!(warned, !named, "{advertised}");
    }
}

#[test]
fn a_revoked_certificate_ends_its_connections() {
    let home = tempfile::tempdir().unwrap();
    let mut config = config(home.path(), 1);
    speak_tls(home.path(), &mut config);
    let clients = home.path().join("clients");
    let issue = |user: &str| ca::clients::issue_user(&clients, user, 30).unwrap();
    let revoke = |issued: &Issued| ca::revoke(&clients, &ca::Revoke::File(issued.certificate.clone())).unwrap();
    let (eve, bob) = (issue("eve"), issue("bob"));
    let list = revoke(&eve).list;
    config.tls.as_mut().unwrap().client_revocations = Some(list.clone());
    let (node, _, _) = start(config);
    let address = node.http_address();
    let client = |user: &Issued| TlsClient::new(home.path(), Some(user));
    let asks = |user: &Issued| client(user).talk(address, &post(READ));
    let error = asks(&eve).unwrap_err().to_string();
    assert!(error.contains("Revoked"), "{error}");
    assert!(asks(&bob).unwrap().starts_with("HTTP/1.1 200"));
    assert!(TlsClient::new(home.path(), None).talk(address, &post(READ)).unwrap().starts_with("HTTP/1.1 200"));
    let (mut of_bob, mut of_nobody) =
        (client(&bob).connect(address).unwrap(), TlsClient::new(home.path(), None).connect(address).unwrap());
    assert!(
        keep_asking(&mut of_bob).starts_with("HTTP/1.1 200") && keep_asking(&mut of_nobody).starts_with("HTTP/1.1 200")
    );
    // What does not fit leaves the list in use.
    let whole = std::fs::read(&list).unwrap();
    let other = tempfile::tempdir().unwrap();
    ca::clients::init(other.path(), "dev").unwrap();
    let foreign = ca::clients::issue_user(other.path(), "ann", 30).unwrap();
    let foreign = ca::revoke(other.path(), &ca::Revoke::File(foreign.certificate)).unwrap().list;
    for bad in [b"nothing".to_vec(), whole[..whole.len() / 2].to_vec(), std::fs::read(foreign).unwrap()] {
        std::fs::write(&list, bad).unwrap();
        node.reload_certificates();
        assert!(keep_asking(&mut of_nobody).contains("certificate files of the client ports are not in use"));
        assert!(asks(&eve).is_err() && asks(&bob).is_ok());
    }
    std::fs::write(&list, whole).unwrap();
    revoke(&bob);
    node.reload_certificates();
    let mut rest = Vec::new();
    // The connection ends: what was asked meanwhile is answered or not.
    let _ = of_bob.write_all(b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let _ = of_bob.read_to_end(&mut rest);
    assert!(keep_asking(&mut of_nobody).starts_with("HTTP/1.1 200"), "others continue");
    assert!(asks(&bob).unwrap_err().to_string().contains("Revoked"));
    node.stop().unwrap();
}

#[test]
fn connection_ends_with_the_users_certificate() {
    use crate::ca::CertificateName;
    use crate::tls::Shown;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let name = CertificateName::of_uri("spiffe://dev/user/ann", "dev").unwrap();
    let user = |until| Shown::User { name: name.clone(), until, id: Default::default() };
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(5), crate::http::certificate_ends(&user(1), None)).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), crate::http::certificate_ends(&user(i64::MAX), None))
            .await
            .is_err());
        let nothing = crate::http::certificate_ends(&Shown::Nothing, None);
        assert!(tokio::time::timeout(Duration::from_millis(20), nothing).await.is_err());
    });
}

/// A PROXY header of version 2 for a client at `from`.
fn header(from: &str) -> Vec<u8> {
    use proxy_header::{ProxiedAddress, ProxyHeader};
    let address = ProxiedAddress::stream(from.parse().unwrap(), "127.0.0.1:80".parse().unwrap());
    let mut header = Vec::new();
    ProxyHeader::with_tlvs(Some(address), []).encode_v2(&mut header).unwrap();
    header
}

#[test]
fn json_door_takes_headers_of_listed_proxies_before_tls_and_of_nobody_else() {
    for (tls, listed) in [(true, true), (true, false), (false, true), (false, false)] {
        let fixture = fixture(|config| {
            let proxy = if listed { "127.0.0.0/8" } else { "10.0.0.0/8" };
            config.http_proxies = crate::config::Proxies::new(vec![proxy.parse().unwrap()]);
            config.limits.header_timeout_ms = 2_000;
            if !tls {
                config.tls = None;
            }
        });
        let client = fixture.client(None);
        let ask = |before: &[u8]| -> String {
            let mut stream = client.dial(fixture.node.http_address());
            stream.write_all(before).unwrap();
            let mut answer = Vec::new();
            if tls {
                let name = "localhost".try_into().unwrap();
                let config = std::sync::Arc::new(client.config.clone());
                let mut session = rustls::ClientConnection::new(config, name).unwrap();
                let mut stream = rustls::Stream::new(&mut session, &mut stream);
                let _ = stream.write_all(&get("/health"));
                let _ = stream.read_to_end(&mut answer);
            } else {
                let _ = stream.write_all(&get("/health"));
                let _ = stream.read_to_end(&mut answer);
            }
            String::from_utf8_lossy(&answer).into_owned()
        };
        let whole = header("203.0.113.7:1");
        assert_eq!(ask(&whole).starts_with("HTTP/1.1 200"), listed, "tls {tls}: {}", ask(&whole));
        assert_eq!(ask(b"").starts_with("HTTP/1.1 200"), !listed, "without a header, tls {tls}");
        // Version 1, half a header, a family there is not, a length beyond what is read.
        let mut family = whole.clone();
        family[13] = 0xff;
        let mut long = whole.clone();
        (long[14], long[15]) = (0xff, 0xff);
        for bad in [b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n".to_vec(), whole[..20].to_vec(), family, long] {
            assert!(!ask(&bad).starts_with("HTTP/1.1 200"), "tls {tls}, listed {listed}: {bad:02x?}");
        }
        fixture.node.stop().unwrap();
    }
}

#[test]
fn slow_proxy_header_is_ended() {
    let fixture = fixture(|config| {
        config.http_proxies =
            crate::config::Proxies::new(vec!["127.0.0.1".parse::<std::net::IpAddr>().unwrap().into()]);
        config.limits.header_timeout_ms = 300;
    });
    let whole = header("203.0.113.7:1");
    for sent in [&whole[..1], &whole[..20], &whole[..]] {
        let began = Instant::now();
        let mut stream = fixture.client(None).dial(fixture.node.http_address());
        stream.write_all(sent).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        assert!(began.elapsed() < Duration::from_secs(5), "{} bytes: {:?}", sent.len(), began.elapsed());
    }
    fixture.node.stop().unwrap();
}

#[test]
fn handshakes_count_for_the_client_behind_a_proxy() {
    let fixture = fixture(|config| {
        config.http_proxies = crate::config::Proxies::new(vec!["127.0.0.0/8".parse().unwrap()]);
    });
    let client = fixture.client(None);
    // Through one proxy, a client that floods and one that does not.
    let flood: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = client.dial(fixture.node.http_address());
            stream.write_all(&[header("203.0.113.7:1"), b"\x16\x03\x01\x02\x00\x01".to_vec()].concat()).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    let mut stream = client.dial(fixture.node.http_address());
    stream.write_all(&header("203.0.113.8:1")).unwrap();
    let mut session =
        rustls::ClientConnection::new(std::sync::Arc::new(client.config.clone()), "localhost".try_into().unwrap())
            .unwrap();
    let mut stream = rustls::Stream::new(&mut session, &mut stream);
    stream.write_all(&get("/health")).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 200") && began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    drop(flood);
    fixture.node.stop().unwrap();
}

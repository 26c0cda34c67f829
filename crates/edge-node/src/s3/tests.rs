use crate::config::{Config, S3Config, S3Data};
use crate::node::{NodeHandle, StartError};
use crate::testing::{config, Stub};
use base_types::s3::*;
use door_s3::metadata::tell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

struct Fixture {
    _home: tempfile::TempDir,
    node: NodeHandle,
    stub: Stub,
}

fn with_gateway(home: &tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Config {
    let mut config = config(home.path(), 1);
    config.s3 = Some(S3Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        region: "fr-par".into(),
        domains: Vec::new(),
        data: S3Data::Directory(home.path().join("s3-data")),
        threads: 2,
        proxies: Default::default(),
        older_bucket_defaults: false,
        website_domains: Vec::new(),
    });
    change(&mut config);
    config
}

/// A node with a bucket `open` that takes everything from everybody, so that nothing needs a signature.
fn fixture(change: impl FnOnce(&mut Config)) -> Fixture {
    let home = tempfile::tempdir().unwrap();
    let (stub, _) = Stub::new();
    let node = NodeHandle::start(with_gateway(&home, change), Box::new(stub.clone())).unwrap();
    let metadata = stub.metadata.clone();
    metadata.add_account("ann", "key", "secret");
    let bucket = || "open".to_owned();
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::open","arn:aws:s3:::open/*"]}]}"#;
    let made = async {
        tell(&*metadata, CreateBucket { bucket: bucket(), account: "ann".into(), ..Default::default() }).await?;
        tell(&*metadata, DeletePublicAccessBlock { bucket: bucket() }).await?;
        tell(&*metadata, PutBucketPolicy { bucket: bucket(), policy: policy.into() }).await
    };
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(made).unwrap();
    Fixture { _home: home, node, stub }
}

impl Fixture {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.node.s3_address().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// Sends bytes and reads until the other side closes.
    fn talk(&self, head: &str, body: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(head.as_bytes()).unwrap();
        // What is refused early may be closed before all of it is sent.
        let _ = stream.write_all(body);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn put(&self, key: &str, body: &[u8]) -> String {
        let length = body.len();
        let head =
            format!("PUT /open/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        self.talk(&head, body)
    }

    fn get(&self, path: &str, more: &str) -> String {
        self.talk(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{more}\r\n"), b"")
    }
}

#[test]
fn objects_small_and_large_come_back() {
    let fixture = fixture(|_| {});
    for (key, size) in [("small", 5usize), ("large", 300_000)] {
        let body: Vec<u8> = (0..size).map(|at| b'a' + (at % 23) as u8).collect();
        let put = fixture.put(key, &body);
        assert!(put.starts_with("HTTP/1.1 200"), "{put}");
        let got = fixture.get(&format!("/open/{key}"), "");
        let (head, got) = got.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && got.as_bytes() == body, "{head}");
        let part = fixture.get(&format!("/open/{key}"), "range: bytes=1-3\r\n");
        assert!(part.starts_with("HTTP/1.1 206") && part.ends_with("bcd"), "{part}");
    }
    let data = std::fs::read_dir(fixture._home.path().join("s3-data/data")).unwrap().count();
    assert_eq!(data, 1, "only the large one is in the data store");
    assert!(fixture.get("/open?list-type=2", "").contains("<KeyCount>2</KeyCount>"));
    let missing = fixture.get("/open/none", "");
    assert!(missing.starts_with("HTTP/1.1 404") && missing.contains("<Code>NoSuchKey</Code>"), "{missing}");
    let denied = fixture.get("/", "");
    assert!(denied.starts_with("HTTP/1.1 403") && denied.contains("<Code>AccessDenied</Code>"), "{denied}");
    fixture.node.stop().unwrap();
}

#[test]
fn malformed_requests_are_refused() {
    let fixture = fixture(|_| {});
    for head in [
        "\x16\x03\x01\r\n\r\n",
        "GET / HTTP/9.9\r\nhost: x\r\n\r\n",
        "PUT /open/k HTTP/1.1\r\nhost: x\r\ncontent-length: +5\r\n\r\n",
    ] {
        let answer = fixture.talk(head, b"12345");
        assert!(answer.starts_with("HTTP/1.1 400"), "{head:?}: {answer}");
    }
    let both = "PUT /open/k HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = fixture.talk(both, b"0\r\n\r\nGET /open/k HTTP/1.1\r\nhost: x\r\n\r\n");
    // hyper takes the chunks and forgets the length, and such a put needs one.
    assert!(answer.starts_with("HTTP/1.1 411") && answer.matches("HTTP/1.1").count() == 1, "{answer}");
    let many = fixture.get("/", &"a: b\r\n".repeat(1000));
    assert!(many.starts_with("HTTP/1.1 431"), "{many}");
    fixture.node.stop().unwrap();
}

#[test]
fn the_slow_are_let_go_and_leave_no_object() {
    let fixture = fixture(|config| {
        config.limits.header_timeout_ms = 200;
        config.limits.body_timeout_ms = 200;
    });
    for sent in ["", "GET / HT", "GET /open/k HTTP/1.1\r\nhost: x\r\n", "GET /open/none HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let began = Instant::now();
        fixture.talk(sent, b"");
        assert!(began.elapsed() < Duration::from_secs(3), "{sent:?} was let wait {:?}", began.elapsed());
    }
    let slow = fixture.talk("PUT /open/k HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\n", b"{");
    assert!(slow.starts_with("HTTP/1.1 400") && slow.contains("IncompleteBody"), "{slow}");
    assert!(fixture.get("/open/k", "").contains("NoSuchKey"));
    fixture.node.stop().unwrap();
}

/// How often something is asked for that will be so soon.
const ATTEMPTS: usize = 50;
/// How long anything may take on a busy machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_flood_on_one_door_leaves_the_other() {
    let fixture = fixture(|config| config.limits.connections_max = 4);
    let flood = |address: std::net::SocketAddr| -> Vec<TcpStream> {
        (0..8).map(|_| TcpStream::connect(address).unwrap()).collect()
    };
    let bytes = |address: std::net::SocketAddr| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let s3 = flood(fixture.node.s3_address().unwrap());
    let full = (0..ATTEMPTS).any(|_| fixture.talk("", b"").starts_with("HTTP/1.1 503"));
    assert!(full, "the S3 door is not bounded");
    assert!(bytes(fixture.node.http_address()).starts_with("HTTP/1.1 200"));
    drop(s3);
    let dropped = Instant::now();
    while !fixture.get("/open?list-type=2", "").starts_with("HTTP/1.1 200") {
        assert!(dropped.elapsed() < PATIENCE, "connections are not given back");
    }
    let http = flood(fixture.node.http_address());
    assert!(fixture.get("/open?list-type=2", "").starts_with("HTTP/1.1 200"));
    assert!(bytes(fixture.node.http_address()).starts_with("HTTP/1.1 200"), "operators have places of their own");
    drop(http);
    fixture.node.stop().unwrap();
}

#[test]
fn unfinished_bodies_are_bounded_together() {
    let fixture = fixture(|config| config.limits.unfinished_bytes_max = 1 << 20);
    let head = "PUT /open/big HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n";
    let mut unfinished: Vec<TcpStream> = (0..8).map(|_| fixture.connect()).collect();
    for stream in &mut unfinished {
        stream.write_all(head.as_bytes()).unwrap();
        let _ = stream.write_all(&[b'x'; 10_000]);
    }
    let refused = unfinished.iter_mut().filter(|stream| {
        let mut answer = [0; 1024];
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let count = (&mut &**stream).read(&mut answer).unwrap_or(0);
        let text = String::from_utf8_lossy(&answer[..count]).into_owned();
        assert!(count == 0 || text.starts_with("HTTP/1.1 503") && text.contains("<Code>SlowDown</Code>"), "{text}");
        assert!(count == 0 || text.contains("retry-after: 1"), "{text}");
        count > 0
    });
    assert_eq!(refused.count(), 4, "768 KiB hold four of 160 KiB");
    assert!(fixture.get("/open?list-type=2", "").starts_with("HTTP/1.1 200"), "what has no body is served");
    drop(unfinished);
    let dropped = Instant::now();
    while !fixture.put("large", &[b'y'; 300_000]).starts_with("HTTP/1.1 200") {
        assert!(dropped.elapsed() < PATIENCE, "bytes are not given back");
    }
    fixture.node.stop().unwrap();
}

#[test]
fn a_gateway_whose_store_cannot_be_opened_refuses_the_start() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("s3-data"), "a file").unwrap();
    let (stub, _) = Stub::new();
    let error = NodeHandle::start(with_gateway(&home, |_| {}), Box::new(stub)).err().expect("refused");
    assert!(matches!(error, StartError::S3 { .. }) && error.to_string().contains("s3-data"), "{error}");
}

#[test]
fn gateway_speaks_tls_and_conditions_see_it() {
    use crate::testing::{speak_tls, TlsClient};
    let home = tempfile::tempdir().unwrap();
    let fixture = fixture(|config| speak_tls(home.path(), config));
    let secure = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::open","arn:aws:s3:::open/*"],
        "Condition":{"Bool":{"aws:SecureTransport":"true"}}}]}"#;
    let put = PutBucketPolicy { bucket: "open".into(), policy: secure.into() };
    let (metadata, runtime) =
        (fixture.stub.metadata.clone(), tokio::runtime::Builder::new_current_thread().build().unwrap());
    runtime.block_on(async { tell(&*metadata, put).await }).unwrap();
    let (client, address) = (TlsClient::new(home.path(), None), fixture.node.s3_address().unwrap());
    let body = vec![b'x'; 300_000];
    let head = "PUT /open/k HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 300000\r\n\r\n";
    let answer = client.talk(address, &[head.as_bytes(), &body].concat()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let got = client.talk(address, b"GET /open/k HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    assert!(got.starts_with("HTTP/1.1 200") && got.split_once("\r\n\r\n").unwrap().1.as_bytes() == body);
    let plain = fixture.get("/open/k", "");
    assert!(plain.starts_with("HTTP/1.1 400") && plain.contains("write https:// instead of http://"), "{plain}");
    assert!(plain.contains("<Code>InvalidRequest</Code>"), "{plain}");
    fixture.node.stop().unwrap();
}

#[test]
fn gateway_may_require_a_users_certificate() {
    use crate::config::ClientCertificates;
    use crate::testing::{speak_tls, TlsClient};
    let home = tempfile::tempdir().unwrap();
    let fixture = fixture(|config| {
        speak_tls(home.path(), config);
        config.tls.as_mut().unwrap().s3_client_certificates = Some(ClientCertificates::Required);
    });
    let list = b"GET /open?list-type=2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let address = fixture.node.s3_address().unwrap();
    let refused = TlsClient::new(home.path(), None).talk(address, list).unwrap();
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("<Code>AccessDenied</Code>"), "{refused}");
    assert!(refused.contains("a user's certificate"), "{refused}");
    let ann = crate::ca::clients::issue_user(&home.path().join("clients"), "ann", 30).unwrap();
    let served = TlsClient::new(home.path(), Some(&ann)).talk(address, list).unwrap();
    assert!(served.starts_with("HTTP/1.1 200"), "{served}");
    fixture.node.stop().unwrap();
}

#[test]
fn requests_in_hand_end_before_the_node_does() {
    let fixture = fixture(|_| {});
    let mut stream = fixture.connect();
    let head = "PUT /open/late HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut begun = [0; 25];
    stream.read_exact(&mut begun).unwrap();
    assert!(begun.starts_with(b"HTTP/1.1 100 Continue"));
    let stub = fixture.stub.clone();
    let stopping = std::thread::spawn(move || fixture.node.stop());
    std::thread::sleep(Duration::from_millis(100));
    stream.write_all(b"late").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    stopping.join().unwrap().unwrap();
    drop(stub);
}

#[test]
fn denied_network_is_denied_to_a_listener_of_both_versions() {
    let fixture = fixture(|config| config.s3.as_mut().unwrap().listen = "[::]:0".parse().unwrap());
    let policy = r#"{"Version":"2012-10-17","Statement":[
        {"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::open","arn:aws:s3:::open/*"]},
        {"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::open","arn:aws:s3:::open/*"],
         "Condition":{"IpAddress":{"aws:SourceIp":"127.0.0.0/8"}}}]}"#;
    let status = || {
        let port = fixture.node.s3_address().unwrap().port();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(b"GET /open?list-type=2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).get(9..12).map(str::to_owned)
    };
    assert_eq!(status().as_deref(), Some("200"));
    let put = PutBucketPolicy { bucket: "open".into(), policy: policy.into() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { tell(&*fixture.stub.metadata, put).await }).unwrap();
    assert_eq!(status().as_deref(), Some("403"));
    fixture.node.stop().unwrap();
}

#[test]
fn the_client_behind_a_listed_proxy_is_judged_and_nobody_elses_word_counts() {
    use proxy_header::{ProxiedAddress, ProxyHeader, SslInfo, Tlv};
    let policy = r#"{"Version":"2012-10-17","Statement":[
        {"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::open","arn:aws:s3:::open/*"]},
        {"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::open","arn:aws:s3:::open/*"],
         "Condition":{"NotIpAddress":{"aws:SourceIp":"203.0.113.0/24"}}},
        {"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::open","arn:aws:s3:::open/*"],
         "Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}"#;
    let through = |from: &str, secure: bool| {
        let address = ProxiedAddress::stream(from.parse().unwrap(), "127.0.0.1:80".parse().unwrap());
        let tls = secure.then(|| Tlv::Ssl(SslInfo::new(true, false, false, 0)));
        let mut header = Vec::new();
        ProxyHeader::with_tlvs(Some(address), tls).encode_v2(&mut header).unwrap();
        header
    };
    let ask = |fixture: &Fixture, header: &[u8]| {
        let mut stream = fixture.connect();
        stream.write_all(header).unwrap();
        stream.write_all(b"GET /open?list-type=2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    for listed in [true, false] {
        let fixture = fixture(|config| {
            let proxy = if listed { "127.0.0.0/8" } else { "10.0.0.0/8" };
            config.s3.as_mut().unwrap().proxies = crate::config::Proxies::new(vec![proxy.parse().unwrap()]);
        });
        let put = PutBucketPolicy { bucket: "open".into(), policy: policy.into() };
        let metadata = fixture.stub.metadata.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { tell(&*metadata, put).await }).unwrap();
        let status = |header: &[u8]| ask(&fixture, header).get(9..12).map(str::to_owned);
        let expected = |with: &str| Some(if listed { with } else { "400" }.to_owned());
        assert_eq!(status(&through("203.0.113.7:1", true)), expected("200"));
        assert_eq!(status(&through("203.0.113.7:1", false)), expected("403"), "without TLS");
        assert_eq!(status(&through("198.51.100.1:1", true)), expected("403"), "from elsewhere");
        let plain = status(b"");
        assert_eq!(plain.as_deref(), if listed { None } else { Some("403") }, "without a header");
        fixture.node.stop().unwrap();
    }
}

mod console;

use crate::config::Config;
use crate::node::NodeHandle;
use crate::testing::{config, expect, start};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

struct Fixture {
    _home: tempfile::TempDir,
    node: NodeHandle,
    events: Receiver<String>,
}

fn fixture(change: impl FnOnce(&mut Config)) -> Fixture {
    let home = tempfile::tempdir().unwrap();
    let mut config = config(home.path(), 1);
    change(&mut config);
    let (node, _, events) = start(config);
    Fixture { _home: home, node, events }
}

impl Fixture {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.node.http_address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// Sends bytes and reads until the other side closes.
    fn talk(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        read_to_end(&mut stream)
    }

    fn post(&self, body: &str) -> String {
        let length = body.len();
        self.talk(
            format!(
                "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            )
            .as_bytes(),
        )
    }
}

fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&bytes)),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn routes_answer() {
    let fixture = fixture(|_| {});
    let get = |path: &str| {
        fixture.talk(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes())
    };
    assert!(get("/").contains("Hive speaks JSON"));
    assert!(get("/health").contains(r#""world":"dev","node":1"#));
    assert!(get("/ready").starts_with("HTTP/1.1 200"));
    assert!(get("/metrics").contains("hive_turns_total"));
    let nothing = get("/nothing");
    assert!(nothing.starts_with("HTTP/1.1 404") && nothing.contains("there is nothing at /nothing"), "{nothing}");
    assert!(get("/put?key=k&value=v").starts_with("HTTP/1.1 200"));
    assert!(get("/put?value=v").starts_with("HTTP/1.1 400"));
    assert!(fixture.post(r#"{"action":"KvPut","keyspace":"d","key":"k","value":"v"}"#).starts_with("HTTP/1.1 200"));
    let unknown = fixture.post(r#"{"action":"KvPutt"}"#);
    assert!(unknown.starts_with("HTTP/1.1 400") && unknown.contains("UnknownAction"), "{unknown}");
    assert!(fixture.post("{").contains("MalformedJson"));
    let method = fixture.talk(b"DELETE /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert!(method.starts_with("HTTP/1.1 405"), "{method}");
    fixture.node.stop().unwrap();
}

#[test]
fn bodies_are_bounded_before_they_are_read() {
    let fixture = fixture(|config| config.limits.body_bytes_max = 1000);
    // Ten gigabytes are declared: refused without waiting for a byte of them.
    let declared = fixture.talk(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10000000000\r\n\r\n");
    assert!(declared.starts_with("HTTP/1.1 413") && declared.contains("raise limits.body_bytes_max"), "{declared}");
    // A little too much: a client that sends all of it before reading hears why, and not only that the pipe is broken.
    let mut long = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 12000000\r\n\r\n".to_vec();
    long.resize(long.len() + 12_000_000, b' ');
    let answer = fixture.talk(&long);
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("BodyTooLarge"), "{answer}");
    // Chunked: refused once it is too much and nothing more comes, closed though more was to come.
    let mut chunked = b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..3 {
        chunked.extend_from_slice(b"190\r\n");
        chunked.extend_from_slice(&[b' '; 0x190]);
        chunked.extend_from_slice(b"\r\n");
    }
    assert!(fixture.talk(&chunked).starts_with("HTTP/1.1 413"));
    // In pieces, but within the bound.
    let body = r#"{"action":"KvDelete","keyspace":"d","key":"k"}"#;
    let (first, second) = body.split_at(10);
    let pieces = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len()
    );
    assert!(fixture.talk(pieces.as_bytes()).starts_with("HTTP/1.1 200"));
    fixture.node.stop().unwrap();
}

#[test]
fn malformed_requests_are_refused_and_closed() {
    let fixture = fixture(|_| {});
    for bytes in [
        &b"\x16\x03\x01\x02\x00garbage\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: +5\r\n\r\n12345",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n12345",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let answer = fixture.talk(bytes);
        assert!(answer.starts_with("HTTP/1.1 400"), "{:?}: {answer}", String::from_utf8_lossy(bytes));
    }
    // Both lengths: a smuggler's favourite.
    let both = fixture.talk(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert!(both.starts_with("HTTP/1.1 400") && both.matches("HTTP/1.1").count() == 1, "{both}");
    // A head that never ends, and too many lines.
    let long = fixture.talk(format!("GET /{} HTTP/1.1\r\n", "x".repeat(200 << 10)).as_bytes());
    assert!(long.is_empty() || long.starts_with("HTTP/1.1 4"), "{long}");
    let many = fixture.talk(format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1000)).as_bytes());
    assert!(many.starts_with("HTTP/1.1 431"), "{many}");
    fixture.node.stop().unwrap();
}

#[test]
fn the_slow_are_let_go() {
    let fixture = fixture(|config| {
        config.limits.header_timeout_ms = 200;
        config.limits.body_timeout_ms = 200;
    });
    for sent in
        ["", "GET / HT", "GET / HTTP/1.1\r\nhost: localhost\r\n", "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"]
    {
        let began = Instant::now();
        fixture.talk(sent.as_bytes());
        assert!(began.elapsed() < Duration::from_secs(3), "{sent:?} was let wait {:?}", began.elapsed());
    }
    let slow = fixture.talk(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{");
    assert!(slow.starts_with("HTTP/1.1 408"), "{slow}");
    fixture.node.stop().unwrap();
}

#[test]
fn a_client_that_goes_away_cancels_and_connections_are_bounded() {
    let fixture = fixture(|config| config.limits.connections_max = 2);
    let mut waiting = fixture.connect();
    waiting
        .write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 22\r\n\r\n{\"action\":\"ListNodes\"}")
        .unwrap();
    expect(&fixture.events, "request ListNodes");
    let mut idle = fixture.connect();
    idle.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut chunk = [0; 1024];
    assert!(idle.read(&mut chunk).unwrap() > 0);
    let asks = as_curl_sends("/get?key=k", "localhost", None, "");
    let turned_away = fixture.talk(&asks);
    assert!(turned_away.starts_with("HTTP/1.1 503"), "{turned_away}");
    drop(waiting);
    expect(&fixture.events, "cancel");
    drop(idle);
    let patience = Instant::now() + Duration::from_secs(5);
    while !fixture.talk(&asks).starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < patience, "connections are not given back");
    }
    fixture.node.stop().unwrap();
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let fixture = fixture(|_| {});
    let one = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let put = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 46\r\n\r\n{\"action\":\"KvDelete\",\"keyspace\":\"d\",\"key\":\"k\"}";
    let last = "GET /console/nothing HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answers = fixture.talk(format!("{one}{put}{one}{last}").as_bytes());
    let codes: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(codes, ["200", "200", "200", "404"]);
    fixture.node.stop().unwrap();
}

/// What curl 8.5 sends for `curl URL`, and with a body for `curl URL -d BODY`.
fn as_curl_sends(path: &str, host: &str, body: Option<&str>, more: &str) -> Vec<u8> {
    let always = format!("Host: {host}\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n{more}connection: close\r\n");
    match body {
        None => format!("GET {path} HTTP/1.1\r\n{always}\r\n"),
        Some(body) => format!(
            "POST {path} HTTP/1.1\r\n{always}Content-Length: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n{body}",
            body.len()
        ),
    }
    .into_bytes()
}

#[test]
fn foreign_pages_are_refused_and_curl_is_served() {
    let fixture = fixture(|config| config.http_names = vec!["hive.example".into()]);
    let host = fixture.node.http_address().to_string();
    let put = r#"{"action":"KvPut","keyspace":"d","key":"k","value":"v"}"#;
    let talk =
        |path: &str, host: &str, body: Option<&str>, more: &str| fixture.talk(&as_curl_sends(path, host, body, more));
    for host in [host.as_str(), "localhost:7101", "hive.example", "127.0.0.1:50001"] {
        assert!(talk("/", host, Some(put), "").starts_with("HTTP/1.1 200"), "{host}");
        for path in ["/put?key=k&value=v", "/get?key=k"] {
            let answer = talk(path, host, None, "");
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("nosniff"), "{host} {path}: {answer}");
        }
    }
    let served = fixture.events.try_iter().filter(|event| event.starts_with("request Kv")).count();
    assert_eq!(served, 12);
    for more in ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        for (path, body) in
            [("/", Some(put)), ("/put?key=k&value=v", None), ("/put?key=k", Some("v")), ("/get?key=k", None)]
        {
            let answer = talk(path, &host, body, more);
            assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("ForeignPage"), "{more:?} {path}: {answer}");
            assert!(answer.contains("send it from a program such as curl"), "{answer}");
        }
    }
    let rebound = talk("/", "evil.example:7101", Some(put), "Origin: http://evil.example:7101\r\n");
    assert!(rebound.starts_with("HTTP/1.1 403") && rebound.contains("http.names in node.toml"), "{rebound}");
    assert!(talk("/metrics", "evil.example:7101", None, "").starts_with("HTTP/1.1 403"));
    assert!(talk("/health", "evil.example:7101", None, "").starts_with("HTTP/1.1 200"));
    // A browser that asks beforehand is allowed nothing.
    for path in ["/", "/put?key=k&value=v"] {
        let asks = format!("OPTIONS {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\nconnection: close\r\n\r\n");
        let answer = fixture.talk(asks.as_bytes()).to_lowercase();
        assert!(answer.starts_with("http/1.1 40") && !answer.contains("access-control"), "{answer}");
    }
    let reached = fixture.events.try_iter().filter(|event| event.starts_with("request Kv")).collect::<Vec<_>>();
    assert!(reached.is_empty(), "{reached:?}");
    fixture.node.stop().unwrap();
}

#[test]
fn operators_are_answered_while_clients_flood() {
    let fixture = fixture(|config| config.limits.connections_max = 8);
    // Twice as many as clients and operators may have together, all silent, and they keep coming.
    let flood: Vec<TcpStream> = (0..160).map(|_| TcpStream::connect(fixture.node.http_address()).unwrap()).collect();
    let get = |path: &str| fixture.talk(&as_curl_sends(path, "localhost", None, ""));
    for path in ["/health", "/ready", "/metrics"] {
        let answer = get(path);
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    let act = |body: &str| fixture.talk(&as_curl_sends("/", "localhost", Some(body), ""));
    assert!(act(r#"{"action":"Status"}"#).starts_with("HTTP/1.1 200"));
    assert!(act(r#"{"action":"DeleteKeyspace","keyspace":"d"}"#).starts_with("HTTP/1.1 200"));
    for answer in [act(r#"{"action":"KvGet","keyspace":"d","key":"k"}"#), get("/get?key=k")] {
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1"), "{answer}");
        assert!(answer.contains("only /health, /ready, /metrics and administration"), "{answer}");
    }
    drop(flood);
    let patience = Instant::now() + Duration::from_secs(5);
    while !act(r#"{"action":"KvGet","keyspace":"d","key":"k"}"#).starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < patience, "connections are not given back");
    }
    fixture.node.stop().unwrap();
}

/// A number of `/metrics`.
fn metric(fixture: &Fixture, name: &str) -> u64 {
    let text = fixture.talk(&as_curl_sends("/metrics", "localhost", None, ""));
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    found.unwrap_or_else(|| panic!("{name} is not in {text}"))
}

#[test]
fn unfinished_requests_are_bounded_together() {
    let bound = 256 << 10;
    let fixture =
        fixture(|config| (config.limits.body_bytes_max, config.limits.unfinished_bytes_max) = (100 << 10, bound));
    let begun = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n{\"action\":\"KvPut\"";
    let mut unfinished: Vec<TcpStream> = Vec::new();
    for _ in 0..10 {
        let mut stream = fixture.connect();
        let _ = stream.write_all(&[&begun[..], &[b' '; 60 << 10]].concat());
        unfinished.push(stream);
    }
    let refused = |stream: &mut TcpStream| {
        let mut head = [0; 1024];
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let count = stream.read(&mut head).unwrap_or(0);
        let answer = String::from_utf8_lossy(&head[..count]).into_owned();
        assert!(count == 0 || answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: 1"), "{answer}");
        assert!(count == 0 || answer.contains("unfinished_bytes_max"), "{answer}");
        count > 0
    };
    // A refusal waits two seconds for the rest of the body, and keeps none of it.
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(unfinished.iter_mut().filter_map(|stream| refused(stream).then_some(())).count() >= 6);
    let held = metric(&fixture, "hive_unfinished_request_bytes");
    assert!(held > 0 && held <= bound as u64, "{held}");
    // What comes at once is whole and counts nowhere; another address has a share of its own.
    assert!(fixture.post(r#"{"action":"KvGet","keyspace":"d","key":"k"}"#).starts_with("HTTP/1.1 200"));
    drop(unfinished);
    let patience = Instant::now() + Duration::from_secs(5);
    while metric(&fixture, "hive_unfinished_request_bytes") > 0 {
        assert!(Instant::now() < patience, "bytes are not given back");
    }
    // Heads that never end count too.
    let heads: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = fixture.connect();
            let _ = stream.write_all(format!("GET /health HTTP/1.1\r\na: {}", "x".repeat(60 << 10)).as_bytes());
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let held = metric(&fixture, "hive_unfinished_request_bytes");
    assert!(held > 0 && held <= bound as u64, "{held}");
    drop(heads);
    fixture.node.stop().unwrap();
}

#[test]
fn who_does_not_take_answers_is_let_go() {
    let fixture = fixture(|config| config.limits.body_timeout_ms = 300);
    let mut stream = fixture.connect();
    // The node stops reading once its answers are not taken, and then writing here would wait for ever.
    stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    let requests = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1_000);
    let ended = (0..10_000).find_map(|_| stream.write_all(requests.as_bytes()).err()).expect("it is never let go");
    let closed = [std::io::ErrorKind::ConnectionReset, std::io::ErrorKind::BrokenPipe];
    assert!(closed.contains(&ended.kind()), "{ended:?}");
    fixture.node.stop().unwrap();
}

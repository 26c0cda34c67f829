//! What a node logs of what strangers send it: short lines, one for each event, at any level.
//!
//! A test program of its own: what it listens to is the whole process's log.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Kept;

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Sends bytes and reads what comes back, until the other side closes.
fn talk(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // What is refused early is closed before all of it is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

#[test]
fn malformed_requests_are_never_logged_whole() {
    let settings = edge_node::logging::Settings::parse(Some("trace"), None).unwrap();
    tracing::subscriber::set_global_default(edge_node::logging::subscriber(settings, || Kept)).unwrap();
    let home = tempfile::tempdir().unwrap();
    let node = common::start(home.path(), "");
    let mark = "canary".repeat(500_000);
    let (http, s3) = (node.http_address(), node.s3_address().unwrap());
    let bodies = [
        format!("{{\"action\":\"{mark}\"}}"),
        format!("{{\"action\":\"KvPut\",\"{mark}\":1}}"),
        format!("{{\"action\":\"KvPut\",\"key\":\"k\",\"consistency\":\"{mark}\"}}"),
        format!("{{\"action\":\"KvPut\",{mark}"),
        format!("{}{mark}", "[".repeat(1_000_000)),
        format!("{{\"action\":\"CreateBucket\",\"bucket\":\"\\u001b[31m\\r\\n{mark}\"}}"),
    ];
    for body in bodies {
        let answer = talk(http, &post("/", &body));
        assert!(answer.starts_with("HTTP/1.1 4") && answer.len() < 4_096, "{}: {:.400}", answer.len(), answer);
    }
    let head = format!(
        "GET /{} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: {}\r\n\r\n",
        &mark[..40_000],
        &mark[..40_000]
    );
    let peer = node.peer_address();
    for address in [http, s3, peer] {
        talk(address, head.as_bytes());
        talk(address, &[mark.as_bytes(), b"\r\n\r\n"].concat());
    }
    let xml = format!("<Delete><Object><Key>{mark}</Key></Object>");
    talk(s3, &post("/bucket?delete", &xml));
    talk(s3, &post("/bucket", &format!("--x\r\n{mark}")));
    // Nothing of these is logged in length any more; what would be is cut.
    tracing::info!("{}", &mark[..40_000]);
    node.stop().unwrap();
    let log = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
    for line in log.lines() {
        assert!(line.len() < edge_node::logging::LINE_BYTES_MAX, "{} bytes: {line:.400}", line.len());
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    assert!(log.contains("bytes left out"), "nothing was too long: this test shows nothing");
}

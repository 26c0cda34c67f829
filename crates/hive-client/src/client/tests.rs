//! The client against tiny HTTP servers that answer by script.

use super::*;
use crate::silence::PROBE_LONGEST;
use crate::ErrorCode;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// What the server does with one request.
#[derive(Clone, Copy)]
enum Act {
    Answer(u16, &'static str),
    /// Reads it and closes without an answer.
    Hang,
    /// Reads it and says nothing, as a process that is stopped.
    Silence,
}

const OK: Act = Act::Answer(200, r#"{"ok":true,"found":true,"value":"v"}"#);
const NO_LEADER: Act = Act::Answer(
    503,
    r#"{"ok":false,"error":{"code":"NoLeader","message":"none","retryable":true,"outcome":"not_applied"}}"#,
);
const UNKNOWN: Act = Act::Answer(
    504,
    r#"{"ok":false,"error":{"code":"OutcomeUnknown","message":"lost","retryable":true,"outcome":"unknown"}}"#,
);
const REFUSED: Act = Act::Answer(
    400,
    r#"{"ok":false,"error":{"code":"EmptyKey","message":"m","retryable":false,"outcome":"not_applied"}}"#,
);

/// Serves the script, its last act for ever; answers its address and the bodies it saw.
async fn serve(script: &'static [Act]) -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let bodies = seen.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let bodies = bodies.clone();
            tokio::spawn(async move {
                while let Some(body) = read_request(&mut stream).await {
                    let at = bodies.lock().unwrap().len();
                    bodies.lock().unwrap().push(serde_json::from_slice(&body).unwrap_or(Value::Null));
                    let (status, text) = match script[at.min(script.len() - 1)] {
                        Act::Answer(status, text) => (status, text),
                        Act::Hang => return,
                        Act::Silence => continue,
                    };
                    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{text}", text.len());
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    (address, seen)
}

async fn read_request(stream: &mut tokio::net::TcpStream) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.ok().filter(|count| *count > 0)?;
        data.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&data).to_lowercase();
        let Some(end) = text.find("\r\n\r\n") else { continue };
        let length: usize =
            text.split("content-length: ").nth(1).map_or(0, |rest| rest.split("\r\n").next().unwrap().parse().unwrap());
        if data.len() >= end + 4 + length {
            return Some(data.split_off(end + 4));
        }
    }
}

fn client(endpoints: &[&str], deadline_ms: u64) -> Client {
    let options = Options { deadline: Some(Duration::from_millis(deadline_ms)), ..Options::default() };
    Client::new(endpoints).unwrap().with_options(options)
}

#[tokio::test]
async fn a_retry_carries_the_same_request_id_and_goes_elsewhere() {
    let (first, seen_first) = serve(&[NO_LEADER]).await;
    let (second, seen_second) = serve(&[Act::Hang, OK]).await;
    let client = client(&[&first, &second], 5_000);
    client.put("default", b"k", b"v").await.unwrap();
    let mut ids: Vec<Value> = seen_first.lock().unwrap().iter().map(|body| body["request_id"].clone()).collect();
    assert!(!ids.is_empty() && seen_second.lock().unwrap().len() == 2);
    ids.extend(seen_second.lock().unwrap().iter().map(|body| body["request_id"].clone()));
    assert!(ids.iter().all(|id| *id == ids[0] && id.as_str().unwrap().len() == 32), "{ids:?}");
}

#[tokio::test]
async fn a_dead_endpoint_is_left() {
    let dead = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let (alive, _) = serve(&[OK]).await;
    let both = client(&[&dead, &alive], 5_000);
    for _ in 0..4 {
        assert_eq!(both.get("default", b"k").await.unwrap().unwrap(), "v");
    }
    let error = client(&[&dead], 50).put("default", b"k", b"v").await.unwrap_err();
    assert!(matches!(error, ClientError::Unavailable { .. }), "nothing was sent: {error}");
    assert_eq!(error.exit_code(), 3);
}

/// Each call begins at another endpoint; only the first whose turn the silent one is waits for it.
#[tokio::test]
async fn a_silent_endpoint_is_asked_once_not_by_every_call() {
    let (silent, asked) = serve(&[Act::Silence]).await;
    let (alive, _) = serve(&[OK]).await;
    let both = client(&[&silent, &alive], 5_000);
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < ATTEMPT_LEAST * 2 {
        both.get("default", b"k").await.unwrap();
        calls += 1;
        if asked.lock().unwrap().len() == 1 && calls >= 20 {
            break;
        }
    }
    assert_eq!(asked.lock().unwrap().len(), 1, "of {calls} calls one waited");
    // Where all are silent one is asked all the same.
    let alone = client(&[&silent], 100);
    for _ in 0..2 {
        assert!(matches!(alone.get("default", b"k").await, Err(ClientError::Unavailable { .. })));
    }
    assert_eq!(asked.lock().unwrap().len(), 3);
}

/// It accepts connections and reads, and says nothing until it has been probed twice. Probes have no body.
#[tokio::test]
async fn a_silent_endpoint_is_probed_before_it_gets_an_operation() {
    let (silent, asked) = serve(&[Act::Silence, Act::Silence, OK]).await;
    let (alive, _) = serve(&[OK]).await;
    let both = client(&[&silent, &alive], 5_000);
    let operations = || asked.lock().unwrap().iter().map(|body| !body.is_null()).collect::<Vec<bool>>();
    both.get("default", b"k").await.unwrap();
    let (start, mut slowest) = (Instant::now(), Duration::ZERO);
    while operations().len() < 4 && start.elapsed() < PROBE_LONGEST * 3 {
        let begun = Instant::now();
        both.get("default", b"k").await.unwrap();
        slowest = slowest.max(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(operations()[..4], [true, false, false, true], "one operation, then probes until one is answered");
    assert!(slowest < ATTEMPT_LEAST, "{slowest:?}: no other operation waited for it");
}

#[tokio::test]
async fn unknown_is_told_apart_from_failed() {
    // An attempt that may have been applied makes a later "not applied" uncertain.
    let (address, _) = serve(&[UNKNOWN, NO_LEADER]).await;
    let error = client(&[&address], 120).put("default", b"k", b"v").await.unwrap_err();
    assert!(matches!(error, ClientError::Unknown { .. }), "{error}");
    assert_eq!(error.exit_code(), 4);
    // A read has no outcome to be unknown.
    let (address, _) = serve(&[Act::Hang]).await;
    let error = client(&[&address], 120).get("default", b"k").await.unwrap_err();
    assert!(matches!(error, ClientError::Unavailable { .. }), "{error}");
    let (address, _) = serve(&[NO_LEADER]).await;
    let error = client(&[&address], 60).put("default", b"k", b"v").await.unwrap_err();
    assert!(error.code() == Some(ErrorCode::NoLeader), "{error}");
}

#[tokio::test]
async fn a_refusal_that_will_not_change_is_not_repeated() {
    let (address, seen) = serve(&[REFUSED]).await;
    let error = client(&[&address], 5_000).put("default", b"", b"v").await.unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn connections_are_kept() {
    let (address, seen) = serve(&[OK]).await;
    let client = client(&[&address], 5_000);
    for _ in 0..3 {
        client.get("default", b"\xff").await.unwrap();
    }
    assert_eq!(seen.lock().unwrap()[0]["key_base64"], "/w==");
}

#[tokio::test]
async fn something_else_than_hive_is_named() {
    let (address, _) = serve(&[Act::Answer(200, "<html>")]).await;
    let error = client(&[&address], 500).get("default", b"k").await.unwrap_err();
    assert!(error.to_string().contains("is it a Hive HTTP port"), "{error}");
}

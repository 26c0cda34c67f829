//! The worked example of docs/contributing/door.md: a door as two pure functions. It reads `get KEY` and `put KEY VALUE`, a
//! command a line, and answers a line.
//!
//! Always: any bytes give a request or a refusal, never a panic; a write whose outcome is unknown never reads as "not done".
//! Held by: `lines_become_requests`, `responses_become_lines`.
//! Not here: sockets, limits of connections, who the caller is (edge-node knows them).

use base_types::access::Caller;
use base_types::action::{Action, ActionResult, Answer, KvTarget, Request, Response};
use base_types::{ErrorCode, Outcome, Refusal};
use bytes::Bytes;
use std::time::Duration;

/// The longest line. A door bounds what it takes before it looks at it.
const LINE_BYTES_MAX: usize = 8 << 10;
/// How long a client of this door waits.
const DEADLINE: Duration = Duration::from_secs(5);

/// A line becomes a request.
fn parse_line(line: &[u8], caller: Caller) -> Result<Request, Refusal> {
    if line.len() > LINE_BYTES_MAX {
        let message = format!("the line is {} bytes long; send at most {LINE_BYTES_MAX}", line.len());
        return Err(Refusal::new(ErrorCode::BodyTooLarge, message));
    }
    let target = KvTarget::Keyspace("default".into());
    let words: Vec<Bytes> = line.splitn(3, |byte| *byte == b' ').map(Bytes::copy_from_slice).collect();
    let action = match &words[..] {
        [verb, key] if verb == "get" => Action::KvGet { target, key: key.clone() },
        [verb, key, value] if verb == "put" => Action::KvPut { target, key: key.clone(), value: value.clone() },
        _ => {
            return Err(Refusal::new(ErrorCode::Malformed, "the line is no command; send `get KEY` or `put KEY VALUE`"))
        }
    };
    Ok(Request {
        action,
        consistency: None,
        read_consistency: None,
        deadline: DEADLINE,
        request_id: None,
        after: None,
        expected_bucket_owner: None,
        caller,
    })
}

/// A response becomes a line.
fn write_line(response: &Response) -> Vec<u8> {
    match response {
        Ok(Answer { result: ActionResult::Value { value: Some(value) }, .. }) => [b"value ", &value[..]].concat(),
        Ok(Answer { result: ActionResult::Value { value: None }, .. }) => b"absent".to_vec(),
        Ok(_) => b"done".to_vec(),
        Err(failure) => {
            let refusal = &failure.refusal;
            let word = if refusal.outcome() == Outcome::NotApplied { "refused" } else { "unknown" };
            format!("{word} {}: {}", refusal.code, refusal.message).into_bytes()
        }
    }
}

#[test]
fn lines_become_requests() {
    let action = |line: &str| parse_line(line.as_bytes(), Caller::Anyone).map(|request| request.action);
    let target = || KvTarget::Keyspace("default".into());
    assert_eq!(action("get a"), Ok(Action::KvGet { target: target(), key: "a".into() }));
    let put = Action::KvPut { target: target(), key: "a".into(), value: "b c".into() };
    assert_eq!(action("put a b c"), Ok(put));
    for line in ["", "get", "get a b", "put a", "delete a", "\u{0}"] {
        assert_eq!(action(line).unwrap_err().code, ErrorCode::Malformed, "{line:?}");
    }
    assert_eq!(action(&"x".repeat(LINE_BYTES_MAX + 1)).unwrap_err().code, ErrorCode::BodyTooLarge);
}

#[test]
fn responses_become_lines() {
    let done = |result| Ok(Answer { result, at: None, cluster: None, level: None });
    let failed = |code, message: &str| Err(Refusal::new(code, message).into());
    let lines = [
        (done(ActionResult::Done), "done"),
        (done(ActionResult::Value { value: None }), "absent"),
        (done(ActionResult::Value { value: Some("v".into()) }), "value v"),
        (failed(ErrorCode::EmptyKey, "give a key"), "refused EmptyKey: give a key"),
        (failed(ErrorCode::OutcomeUnknown, "read it"), "unknown OutcomeUnknown: read it"),
    ];
    for (response, line) in lines {
        assert_eq!(String::from_utf8(write_line(&response)).unwrap(), line);
    }
}

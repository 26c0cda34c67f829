//! What HTTP clients send and hear: a request as the bytes of a JSON body, read by the door's own parser; the core's answer
//! as the body that the door writes, read back as a client does.
//!
//! ```text
//!   request ──render──▶ bytes ──door: parse──▶ the same request ──▶ core
//!   client ◀──read── bytes ◀──door: write── response
//! ```
//!
//! Always: a client acts on what its bytes said, never on what the core said. Where the two differ in anything a client may
//! rely on, the run fails.
//! Not here: sockets, headers, TLS (edge-node), the gateway's XML.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use base_types::action::{
    Action, ActionResult, Answer, BatchStep, Failure, KvTarget, Level, RedisReply, Request, Response,
};
use base_types::{Generation, LogIndex, OrderedAt, Outcome, Refusal, Term};
use bytes::Bytes;
use door_http::Limits;
use serde_json::{json, Map, Value};

/// A request as its node's door reads it. `Err`: the door read something else than was sent.
pub fn through_door(request: &Request) -> Option<Result<Request, String>> {
    let body = render(request)?;
    let bytes = Bytes::from(body.to_string());
    Some(match door_http::parse_request(bytes, &Limits::default()) {
        Ok(parsed) if parsed == *request => Ok(parsed),
        Ok(parsed) => Err(format!("the door read {parsed:?} where a client sent {request:?} as {body}")),
        Err(error) => Err(format!("the door refused {body}: {error:?}")),
    })
}

/// The body; `None`: a call that these clients do not send as JSON.
fn render(request: &Request) -> Option<Value> {
    let mut body = Map::new();
    body.insert("action".into(), request.action.name().into());
    match &request.action {
        Action::KvPut { target, key, value } => {
            name_target(&mut body, target);
            put_bytes(&mut body, "key", key);
            put_bytes(&mut body, "value", value);
        }
        Action::KvGet { target, key } | Action::KvDelete { target, key } => {
            name_target(&mut body, target);
            put_bytes(&mut body, "key", key);
        }
        Action::KvCompareAndSet { target, key, expected, value } => {
            name_target(&mut body, target);
            put_bytes(&mut body, "key", key);
            expected.iter().for_each(|bytes| put_bytes(&mut body, "expected", bytes));
            value.iter().for_each(|bytes| put_bytes(&mut body, "value", bytes));
        }
        Action::KvScan { target, prefix, start_after, end, limit, reverse, keys_only } => {
            name_target(&mut body, target);
            put_bytes(&mut body, "prefix", prefix);
            start_after.iter().for_each(|bytes| put_bytes(&mut body, "start_after", bytes));
            end.iter().for_each(|bytes| put_bytes(&mut body, "end", bytes));
            body.insert("limit".into(), (*limit).into());
            body.insert("reverse".into(), (*reverse).into());
            body.insert("keys_only".into(), (*keys_only).into());
        }
        Action::KvBatch { target, steps } => {
            name_target(&mut body, target);
            body.insert("steps".into(), steps.iter().map(step).collect());
        }
        Action::Redis { target, command } => {
            name_target(&mut body, target);
            body.insert("command".into(), command.iter().map(item).collect());
        }
        _ => return None,
    }
    request.consistency.iter().for_each(|level| _ = body.insert("consistency".into(), level.name().into()));
    request.read_consistency.iter().for_each(|level| _ = body.insert("read_consistency".into(), level.name().into()));
    body.insert("deadline_ms".into(), (request.deadline.as_millis() as u64).into());
    request.request_id.iter().for_each(|id| _ = body.insert("request_id".into(), format!("{:032x}", id.0).into()));
    Some(Value::Object(body))
}

fn name_target(body: &mut Map<String, Value>, target: &KvTarget) {
    match target {
        KvTarget::Cluster(name) => body.insert("cluster".into(), name.as_str().into()),
        KvTarget::Keyspace(name) => body.insert("keyspace".into(), name.as_str().into()),
    };
}

/// Text as text now and then, where it is any; else base64.
fn put_bytes(body: &mut Map<String, Value>, name: &str, bytes: &Bytes) {
    match std::str::from_utf8(bytes).ok().filter(|_| bytes.len().is_multiple_of(2)) {
        Some(text) => body.insert(name.into(), text.into()),
        None => body.insert(format!("{name}_base64"), STANDARD.encode(bytes).into()),
    };
}

fn item(bytes: &Bytes) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

fn step(step: &BatchStep) -> Value {
    let mut body = Map::new();
    match step {
        BatchStep::Put { key, value } => {
            body.insert("op".into(), "put".into());
            put_bytes(&mut body, "key", key);
            put_bytes(&mut body, "value", value);
        }
        BatchStep::Delete { key } => {
            body.insert("op".into(), "delete".into());
            put_bytes(&mut body, "key", key);
        }
    }
    Value::Object(body)
}

/// An answer as its client reads it from the door's bytes. `Err`: they say something else than the core did.
pub fn heard(action: &Action, response: &Response) -> Result<Response, String> {
    let (status, bytes) = door_http::write_response(door_http::answer_name(action), response);
    let read = read(action, response, status, &bytes);
    read.map_err(|why| format!("the door wrote {status} {:?} for {response:?}: {why}", String::from_utf8_lossy(&bytes)))
}

fn read(action: &Action, response: &Response, status: u16, bytes: &[u8]) -> Result<Response, String> {
    let body: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match (response, body["ok"].as_bool()) {
        (Ok(answer), Some(true)) if status == 200 => {
            let read = Answer { result: read_result(action, answer, &body)?, ..answer.clone() };
            same("at", &read_at(&body)?, &answer.at)?;
            let level = answer.level.map(|level| match level {
                Level::Write(level) => level.name(),
                Level::Read(level) => level.name(),
            });
            same("level", &body["level"].as_str(), &level)?;
            same("result", &read.result, &answer.result)?;
            Ok(Ok(read))
        }
        (Err(failure), Some(false)) if status >= 400 => {
            same("at", &read_at(&body)?, &failure.at)?;
            read_failure(failure, &body["error"]).map(Err)
        }
        _ => Err("another status, or `ok`".to_string()),
    }
}

fn read_result(action: &Action, answer: &Answer, body: &Value) -> Result<ActionResult, String> {
    Ok(match action {
        Action::KvGet { .. } => {
            let value = read_bytes(body, "value")?;
            same("found", &body["found"].as_bool(), &Some(value.is_some()))?;
            ActionResult::Value { value }
        }
        Action::KvDelete { .. } => {
            ActionResult::Deleted { existed: body["existed"].as_bool().ok_or("existed is missing")? }
        }
        Action::KvScan { .. } => {
            let entries = body["entries"].as_array().ok_or("entries are missing")?.iter().map(|entry| {
                Ok((
                    read_bytes(entry, "key")?.ok_or("a key is missing")?,
                    read_bytes(entry, "value")?.unwrap_or_default(),
                ))
            });
            ActionResult::Page { entries: entries.collect::<Result<_, String>>()?, next: read_bytes(body, "next")? }
        }
        Action::Redis { .. } => ActionResult::Redis { reply: read_redis(&body["reply"])? },
        _ => {
            if answer.result == ActionResult::Done {
                same("action", &body["action"].as_str(), &Some(action.name()))?;
            }
            answer.result.clone()
        }
    })
}

fn read_redis(reply: &Value) -> Result<RedisReply, String> {
    Ok(match reply {
        Value::Null => RedisReply::Nil,
        Value::Number(number) => RedisReply::Integer(number.as_i64().ok_or("no 64 bits")?),
        Value::String(text) if text == "OK" => RedisReply::Ok,
        Value::String(text) => RedisReply::Bulk(Bytes::copy_from_slice(text.as_bytes())),
        other => return Err(format!("a reply that none of these clients asked for: {other}")),
    })
}

fn read_bytes(body: &Value, name: &str) -> Result<Option<Bytes>, String> {
    match (&body[name], &body[format!("{name}_base64")]) {
        (Value::String(text), Value::Null) => Ok(Some(Bytes::copy_from_slice(text.as_bytes()))),
        (Value::Null, Value::String(text)) => {
            STANDARD.decode(text).map(|bytes| Some(Bytes::from(bytes))).map_err(|error| error.to_string())
        }
        (Value::Null, Value::Null) => Ok(None),
        other => Err(format!("{name} is {other:?}")),
    }
}

fn read_at(body: &Value) -> Result<Option<OrderedAt>, String> {
    let named = &body["at"];
    if named.is_null() {
        return Ok(None);
    }
    let number = |name: &str| named[name].as_u64().ok_or(format!("at.{name} is missing"));
    let position = named["position"].as_u64().map_or(u32::MAX, |position| position as u32);
    Ok(Some(OrderedAt {
        cluster: base_types::ClusterId(number("id")?),
        generation: Generation(number("generation")? as u32),
        term: Term(number("term")?),
        index: LogIndex(number("index")?),
        position,
    }))
}

/// What a client may conclude: that nothing happened, only where nothing did; that it may retry.
fn read_failure(failure: &Failure, error: &Value) -> Result<Failure, String> {
    let refusal = &failure.refusal;
    same("code", &error["code"].as_str(), &Some(refusal.code.as_str()))?;
    let happened = match (error["outcome"].as_str(), error["committed"].as_bool()) {
        (Some("unknown"), _) => true,
        (Some("not_applied"), None) => false,
        other => return Err(format!("outcome and committed are {other:?}")),
    };
    if !happened && (refusal.outcome() == Outcome::Unknown || refusal.code.is_committed()) {
        return Err("it may have happened".to_string());
    }
    same("outcome", &happened, &(refusal.outcome() == Outcome::Unknown))?;
    same("retryable", &error["retryable"].as_bool(), &Some(refusal.code.retryable()))?;
    let message = error["message"].as_str().ok_or("message is missing")?.to_string();
    Ok(Failure { refusal: Refusal::new(refusal.code, message), ..failure.clone() })
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, read: &T, told: &T) -> Result<(), String> {
    (read == told).then_some(()).ok_or_else(|| format!("{what} reads as {read:?}, and is {told:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::{RequestId, WriteConsistency};
    use std::time::Duration;

    fn request(action: Action) -> Request {
        Request {
            action,
            consistency: Some(WriteConsistency::Strong),
            read_consistency: None,
            deadline: Duration::from_millis(500),
            request_id: Some(RequestId(7)),
            after: None,
            expected_bucket_owner: None,
            caller: base_types::access::Caller::Anyone,
        }
    }

    #[test]
    fn what_clients_send_is_what_the_door_reads() {
        let target = || KvTarget::Keyspace("ks0".into());
        let bytes = |text: &'static [u8]| Bytes::from_static(text);
        let actions = [
            Action::KvPut { target: target(), key: bytes(b"\x01k\"\\"), value: bytes(b"\xff\x00") },
            Action::KvGet { target: KvTarget::Cluster("metadata/redis@t0".parse().unwrap()), key: bytes(b"k") },
            Action::KvDelete { target: target(), key: bytes(b"\x7f\xc3\xa9k") },
            Action::KvCompareAndSet { target: target(), key: bytes(b"k"), expected: None, value: Some(bytes(b"")) },
            Action::KvScan {
                target: target(),
                prefix: Bytes::new(),
                start_after: Some(bytes(b"\x80")),
                end: None,
                limit: 7,
                reverse: true,
                keys_only: false,
            },
            Action::KvBatch {
                target: target(),
                steps: vec![
                    BatchStep::Put { key: bytes(b"ab"), value: bytes(b"x") },
                    BatchStep::Delete { key: bytes(b"\xfe") },
                ],
            },
            Action::Redis {
                target: KvTarget::Cluster("redis@t0".parse().unwrap()),
                command: vec![bytes(b"INCR"), bytes(b"\xff")],
            },
        ];
        for action in actions {
            let request = request(action);
            assert_eq!(through_door(&request), Some(Ok(request.clone())));
        }
        assert_eq!(through_door(&request(Action::Status)), None);
    }

    #[test]
    fn what_the_door_writes_is_what_clients_hear() {
        let get = Action::KvGet { target: KvTarget::Keyspace("ks0".into()), key: Bytes::from_static(b"k") };
        for value in [None, Some(Bytes::from_static(b"\xff")), Some(Bytes::from_static(b"a\"\n"))] {
            let answer = Answer { result: ActionResult::Value { value }, at: None, cluster: None, level: None };
            assert_eq!(heard(&get, &Ok(answer.clone())), Ok(Ok(answer)));
        }
        let refusal = Refusal::new(base_types::ErrorCode::OutcomeUnknown, "lost");
        let told = heard(&get, &Err(Failure::from(refusal))).unwrap().unwrap_err();
        assert_eq!(
            (told.refusal.code, told.refusal.outcome()),
            (base_types::ErrorCode::OutcomeUnknown, Outcome::Unknown)
        );
    }
}

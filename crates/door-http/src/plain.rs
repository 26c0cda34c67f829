//! The plain routes of the second paper: `/put?key=&value=`, `/get?key=`, `/clean`.
//!
//! Keys and values are bytes: `%FF` is one byte, `+` is a space, nothing is mended. A `POST /put`
//! without `value` in its query takes its body as the value.
//! Always: an answer is plain (`/clean`: JSON); a refusal is the JSON every refusal is.
//! Held by: `bytes_are_exact`, `refusals_name_the_thing`.

use crate::error::{status_of, write_failure, HttpError};
use crate::json::{clip, write_number, write_text};
use crate::keys::{check_key, check_value, KEYSPACE_DEFAULT};
use crate::request::request_id;
use base_types::action::{Action, ActionResult, Answer, KvTarget, Request, Response};
use base_types::{ErrorCode, ReadConsistency, Refusal, RequestId, WriteConsistency, DEADLINE_DEFAULT, DEADLINE_MAX};
use bytes::Bytes;
use std::time::Duration;

/// The longest query: a key and a value of the largest sizes would not fit a request line anyway.
pub const QUERY_BYTES_MAX: usize = 64 << 10;

/// Which of the three.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlainRoute {
    /// `/put`
    Put,
    /// `/get`
    Get,
    /// `/clean`
    Clean,
}

/// A plain request, understood.
#[derive(Clone, PartialEq, Debug)]
pub struct Plain {
    /// Which route.
    pub route: PlainRoute,
    /// `strict=1`: an absent key is 404, not an empty body.
    pub strict: bool,
    /// What to ask the node.
    pub request: Request,
}

/// What the query may hold.
#[derive(Default)]
struct Query {
    key: Option<Bytes>,
    value: Option<Bytes>,
    keyspace: Option<String>,
    consistency: Option<WriteConsistency>,
    read_consistency: Option<ReadConsistency>,
    deadline: Option<Duration>,
    request_id: Option<RequestId>,
    strict: bool,
}

/// Reads a request of the plain routes.
pub fn parse_plain(method: &str, path: &str, query: &str, body: Bytes) -> Result<Plain, HttpError> {
    let route = match path {
        "/put" => PlainRoute::Put,
        "/get" => PlainRoute::Get,
        "/clean" => PlainRoute::Clean,
        other => {
            let message = format!(
                "there is nothing at '{}'; try POST / with an action, /put, /get, /clean, /health, /metrics",
                clip(other)
            );
            return Err(Refusal::new(ErrorCode::NotFound, message).into());
        }
    };
    if method != "GET" && method != "POST" {
        let message = format!("{path} takes GET and POST, not {}", clip(method));
        return Err(HttpError::new(Refusal::new(ErrorCode::MethodNotAllowed, message)));
    }
    let parsed = parse_query(query)?;
    let strict = parsed.strict;
    Ok(Plain { route, strict, request: request(route, parsed, method == "POST", body)? })
}

fn request(route: PlainRoute, query: Query, posted: bool, body: Bytes) -> Result<Request, Refusal> {
    let keyspace = query.keyspace.unwrap_or_else(|| KEYSPACE_DEFAULT.to_owned());
    let key = |key: Option<Bytes>| {
        check_key(
            key.ok_or_else(|| Refusal::new(ErrorCode::MissingField, "the query needs key=, for example /get?key=k"))?,
        )
    };
    let action = match route {
        PlainRoute::Put => {
            let posted = if posted { Some(body) } else { None };
            let value = query.value.or(posted).ok_or_else(|| {
                Refusal::new(
                    ErrorCode::MissingField,
                    "the query needs value=, for example /put?key=k&value=v; or POST the value",
                )
            })?;
            Action::KvPut { target: KvTarget::Keyspace(keyspace), key: key(query.key)?, value: check_value(value)? }
        }
        PlainRoute::Get => Action::KvGet { target: KvTarget::Keyspace(keyspace), key: key(query.key)? },
        PlainRoute::Clean => Action::DescribeKeyspace { keyspace },
    };
    Ok(Request {
        action,
        consistency: query.consistency,
        read_consistency: query.read_consistency,
        deadline: query.deadline.unwrap_or(DEADLINE_DEFAULT),
        request_id: query.request_id,
        after: None,
        expected_bucket_owner: None,
        caller: base_types::access::Caller::Anyone,
    })
}

fn parse_query(query: &str) -> Result<Query, Refusal> {
    if query.len() > QUERY_BYTES_MAX {
        let message = format!(
            "the query has {} bytes, and at most {QUERY_BYTES_MAX} are taken; POST the value instead",
            query.len()
        );
        return Err(Refusal::new(ErrorCode::BodyTooLarge, message));
    }
    let mut out = Query::default();
    let mut seen: Vec<Bytes> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        if seen.contains(&name) {
            return Err(Refusal::new(
                ErrorCode::DuplicateField,
                format!("parameter '{}' is given twice; give it once", clip(&String::from_utf8_lossy(&name))),
            ));
        }
        set(&mut out, &name, value)?;
        seen.push(name);
    }
    Ok(out)
}

fn set(out: &mut Query, name: &[u8], value: Bytes) -> Result<(), Refusal> {
    match name {
        b"key" => out.key = Some(value),
        b"value" => out.value = Some(value),
        b"keyspace" => out.keyspace = Some(text("keyspace", &value)?.to_owned()),
        b"consistency" => out.consistency = Some(level("consistency", &value)?),
        b"read_consistency" => out.read_consistency = Some(level("read_consistency", &value)?),
        b"request_id" => out.request_id = Some(request_id(text("request_id", &value)?)?),
        b"deadline_ms" => out.deadline = Some(deadline(text("deadline_ms", &value)?)?),
        b"strict" => out.strict = flag(text("strict", &value)?)?,
        other => {
            let message = format!(
                "there is no parameter '{}'; known are key, value, keyspace, consistency, read_consistency, deadline_ms, request_id, strict",
                clip(&String::from_utf8_lossy(other))
            );
            return Err(Refusal::new(ErrorCode::UnknownField, message));
        }
    }
    Ok(())
}

fn text<'v>(name: &str, value: &'v Bytes) -> Result<&'v str, Refusal> {
    core::str::from_utf8(value).map_err(|_| Refusal::new(ErrorCode::InvalidField, format!("'{name}' is not UTF-8")))
}

fn level<T: core::str::FromStr<Err = base_types::consistency::UnknownLevel>>(
    name: &str,
    value: &Bytes,
) -> Result<T, Refusal> {
    let word = text(name, value)?;
    word.parse()
        .map_err(|error| Refusal::new(ErrorCode::UnknownLevel, format!("'{name}' is '{}': {error}", clip(word))))
}

fn deadline(word: &str) -> Result<Duration, Refusal> {
    let most = DEADLINE_MAX.as_millis() as u64;
    match word.parse::<u64>() {
        Ok(millis) if (1..=most).contains(&millis) => Ok(Duration::from_millis(millis)),
        _ => Err(Refusal::new(
            ErrorCode::LimitOutOfRange,
            format!("'deadline_ms' is '{}'; give 1 to {most}", clip(word)),
        )),
    }
}

fn flag(word: &str) -> Result<bool, Refusal> {
    match word {
        "1" | "true" => Ok(true),
        "" | "0" | "false" => Ok(false),
        other => Err(Refusal::new(ErrorCode::InvalidField, format!("'strict' is '{}'; give 0 or 1", clip(other)))),
    }
}

/// Percent-decoding, byte for byte: a broken escape is refused, not passed on.
fn decode(text: &str) -> Result<Bytes, Refusal> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Ok(Bytes::copy_from_slice(text.as_bytes()));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => {
                    let message = format!("'{}' has a '%' without two hex digits; write %25 for '%'", clip(text));
                    return Err(Refusal::new(ErrorCode::InvalidRequest, message));
                }
            },
            other => other,
        });
    }
    Ok(Bytes::from(out))
}

fn digit(byte: Option<&u8>) -> Option<u8> {
    char::from(*byte?).to_digit(16).map(|digit| digit as u8)
}

/// The status, content type and body of the answer to a plain request.
pub fn write_plain(route: PlainRoute, strict: bool, response: &Response) -> (u16, &'static str, Vec<u8>) {
    const TEXT: &str = "text/plain; charset=utf-8";
    match (route, response) {
        (_, Err(failure)) => {
            let mut body = Vec::with_capacity(256);
            write_failure(failure, &mut body);
            (status_of(&failure.refusal), "application/json", body)
        }
        (PlainRoute::Put, Ok(_)) => (200, TEXT, b"OK\n".to_vec()),
        (PlainRoute::Get, Ok(Answer { result: ActionResult::Value { value: Some(value) }, .. })) => {
            (200, "application/octet-stream", value.to_vec())
        }
        (PlainRoute::Get, Ok(_)) => (if strict { 404 } else { 200 }, TEXT, Vec::new()),
        (PlainRoute::Clean, Ok(answer)) => (200, "application/json", clean_body(answer)),
    }
}

/// What a reshard moved: there is nothing left to clean by hand, so this only reports.
fn clean_body(answer: &Answer) -> Vec<u8> {
    let ActionResult::Keyspace(info) = &answer.result else { return b"{}".to_vec() };
    let mut out = b"{\"ok\":true,\"keyspace\":".to_vec();
    write_text(&info.name, &mut out);
    out.extend_from_slice(b",\"epoch\":");
    write_number(info.epoch, &mut out);
    out.extend_from_slice(b",\"moved_partitions\":");
    write_number(info.moved_partitions, &mut out);
    out.extend_from_slice(b",\"moved_keys\":");
    write_number(info.moved_keys, &mut out);
    out.extend_from_slice(b",\"resharding\":");
    out.extend_from_slice(if info.reshard.is_some() { b"true" } else { b"false" });
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests;

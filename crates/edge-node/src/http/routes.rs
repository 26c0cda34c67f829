//! Which path is answered by what.

use super::browser::{self, Asked};
use super::{body, HttpDoor};
use crate::lane::door::LaneDoor;
use crate::metrics;
use base_types::action::{Action, ActionResult, Request};
use base_types::{ErrorKind, Refusal};
use bytes::Bytes;
use door_http::HttpError;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Response, StatusCode};
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

pub(super) const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// How long `/ready` waits for the core.
const READY_DEADLINE: Duration = Duration::from_secs(1);

const HELP: &str = "\
Hive speaks JSON: POST / with an action, for example

  curl -d '{\"action\":\"KvPut\",\"keyspace\":\"default\",\"key\":\"k\",\"value\":\"v\"}' http://HOST/
  curl -d '{\"action\":\"KvGet\",\"keyspace\":\"default\",\"key\":\"k\"}' http://HOST/
  curl -d '{\"action\":\"Status\"}' http://HOST/

Plain routes: /put?key=k&value=v  /get?key=k  /clean
For operators: /health  /ready  /metrics
";

const CONSOLE: &str =
    "the web console is not in this build; it comes with the console issue. Until then: hive ctl status, /metrics\n";

pub(super) type Answered = Response<Full<Bytes>>;

/// Answers a request.
pub async fn answer(
    own: Rc<HttpDoor>,
    door: Rc<LaneDoor>,
    request: hyper::Request<Incoming>,
) -> Result<Answered, Infallible> {
    let (head, incoming) = request.into_parts();
    // Two lengths: a front and we might cut the stream differently (request smuggling).
    if head.headers.contains_key(TRANSFER_ENCODING) && head.headers.contains_key(CONTENT_LENGTH) {
        let refusal = Refusal::invalid("Malformed", "a request has a content-length or a transfer-encoding, not both");
        return Ok(closing(refused(&HttpError::new(refusal))));
    }
    let path = head.uri.path();
    let action = path == "/" && head.method == Method::POST;
    let asked = match path {
        "/put" | "/get" | "/clean" => Asked::Data,
        "/health" | "/ready" => Asked::Life,
        _ if action => Asked::Data,
        _ => Asked::Numbers,
    };
    if let Err(error) = browser::check(&head, asked, &own.hosts) {
        body::discard(incoming).await;
        return Ok(closing(refused(&error)));
    }
    if asked == Asked::Data {
        let limits = &own.limits;
        let body = match body::read(incoming, limits.door.body_bytes_max, limits.body_timeout).await {
            Ok(body) => body,
            Err(error) => return Ok(closing(refused(&error))),
        };
        return Ok(if action { json(&own, door, body).await } else { plain(door, &head, body).await });
    }
    if head.method != Method::GET && head.method != Method::HEAD {
        let message = format!("{path} takes GET; actions go to POST /");
        let refusal = Refusal::invalid("MethodNotAllowed", message);
        return Ok(closing(refused(&HttpError::with_status(405, refusal))));
    }
    Ok(match path {
        "/" => respond(200, TEXT, HELP.as_bytes().to_vec()),
        "/health" => respond(
            200,
            JSON,
            format!("{{\"ok\":true,\"world\":\"{}\",\"node\":{}}}", own.world, own.node).into_bytes(),
        ),
        "/ready" => ready(door).await,
        "/metrics" => {
            let text = metrics::text(&own.reports, &own.connections, health(door).await);
            respond(200, metrics::CONTENT_TYPE, text.into_bytes())
        }
        _ if path == "/console" || path.starts_with("/console/") => respond(404, TEXT, CONSOLE.as_bytes().to_vec()),
        _ => {
            let path: String = path.chars().take(100).collect();
            let message = format!("there is nothing at {path}; GET / lists the routes");
            refused(&HttpError::new(Refusal::new(ErrorKind::NotFound, "NotFound", message)))
        }
    })
}

async fn json(own: &HttpDoor, door: Rc<LaneDoor>, body: Bytes) -> Answered {
    let request = match door_http::parse_request(body, &own.limits.door) {
        Ok(request) => request,
        Err(error) => return refused(&error),
    };
    let action = door_http::answer_name(&request.action);
    let response = door.ask(request).await;
    let (status, body) = door_http::write_response(action, &response);
    respond(status, JSON, body)
}

async fn plain(door: Rc<LaneDoor>, head: &hyper::http::request::Parts, body: Bytes) -> Answered {
    let query = head.uri.query().unwrap_or("");
    let plain = match door_http::parse_plain(head.method.as_str(), head.uri.path(), query, body) {
        Ok(plain) => plain,
        Err(error) => return refused(&error),
    };
    let response = door.ask(plain.request).await;
    let (status, kind, body) = door_http::write_plain(plain.route, plain.strict, &response);
    let mut answer = respond(status, kind, body);
    // A value is bytes, whatever a browser would like to make of it.
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// 200: the node can do some of its work, and `degraded` says what it cannot do; 503: it can do none, and `not_ready` says why.
async fn ready(door: Rc<LaneDoor>) -> Answered {
    let response = timely(door, Action::Status).await;
    let is_ready =
        matches!(&response, Ok(answer) if matches!(&answer.result, ActionResult::Status(status) if status.ready));
    let (_, body) = door_http::write_response("Status", &response);
    respond(if is_ready { 200 } else { 503 }, JSON, body)
}

/// A question about this node that a lane that hangs must not hold up.
async fn timely(door: Rc<LaneDoor>, action: Action) -> base_types::action::Response {
    let request = Request {
        action,
        consistency: None,
        read_consistency: None,
        deadline: READY_DEADLINE,
        request_id: None,
        after: None,
        expected_bucket_owner: None,
    };
    tokio::time::timeout(READY_DEADLINE, door.ask(request)).await.unwrap_or_else(|_| {
        let message = format!(
            "the core does not answer within {} ms; restart the node if that lasts",
            READY_DEADLINE.as_millis()
        );
        Err(Refusal::new(ErrorKind::Unavailable, "NotReady", message).into())
    })
}

/// What `/metrics` tells of this node's health.
async fn health(door: Rc<LaneDoor>) -> Option<metrics::Health> {
    let ActionResult::Status(status) = timely(door.clone(), Action::Status).await.ok()?.result else { return None };
    let ActionResult::Nodes { nodes } = timely(door, Action::ListNodes).await.ok()?.result else { return None };
    Some(metrics::Health { status, nodes, unix_ms: crate::monitor::unix_ms() })
}

pub(super) fn refused(error: &HttpError) -> Answered {
    let (status, body) = door_http::write_error(error);
    respond(status, JSON, body)
}

pub(super) fn respond(status: u16, kind: &'static str, body: Vec<u8>) -> Answered {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

pub(super) fn closing(mut response: Answered) -> Answered {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

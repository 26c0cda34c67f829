//! Which path is answered by what.

use super::browser::{self, Asked};
use super::lines::{self, AnswerBody, Watch};
use super::secrets;
use super::{body, console, Caller, HttpDoor};
use crate::access::credentials::CHALLENGE;
use crate::alarms;
use crate::ca::CertificateName;
use crate::clients::OPERATORS_PATIENCE;
use crate::lane::door::LaneDoor;
use crate::metrics;
use base_types::access::Caller as Asker;
use base_types::action::{Action, ActionResult, Answer, Failure, Request, Response as BaseResponse};
use base_types::s3::S3Action;
use base_types::{ErrorCode, ErrorKind, Refusal};
use bytes::Bytes;
use door_http::{HttpError, PlainRoute};
use hyper::body::Incoming;
use hyper::header::{
    HeaderValue, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, TRANSFER_ENCODING, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Response, StatusCode};
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

pub(super) const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// How often `/clean` looks whether the removal is done.
const CLEAN_PAUSE: Duration = Duration::from_millis(50);
/// How long `/ready` waits for the core.
const READY_DEADLINE: Duration = Duration::from_secs(1);

/// The longest body of an operator's request on a connection kept for them.
const OPERATORS_BODY_BYTES_MAX: usize = 64 << 10;

const HELP: &str = "\
Hive speaks JSON: POST / with an action, for example

  curl -d '{\"action\":\"KvPut\",\"keyspace\":\"default\",\"key\":\"k\",\"value\":\"v\"}' http://HOST/
  curl -d '{\"action\":\"KvGet\",\"keyspace\":\"default\",\"key\":\"k\"}' http://HOST/
  curl -d '{\"action\":\"Status\"}' http://HOST/

Plain routes: /put?key=k&value=v  /get?key=k  /clean
For operators: /console/ (in a browser)  /health  /ready  /metrics  /alarms
";

pub(super) type Answered = Response<AnswerBody>;

/// Answers a request.
pub async fn answer(
    own: Rc<HttpDoor>,
    door: Rc<LaneDoor>,
    caller: Caller,
    request: hyper::Request<Incoming>,
) -> Result<Answered, Infallible> {
    let page = console::is_page(request.uri().path(), request.headers());
    let answered = route(own, door, caller, request).await?;
    Ok(if page { console::soften(answered) } else { answered })
}

async fn route(
    own: Rc<HttpDoor>,
    door: Rc<LaneDoor>,
    caller: Caller,
    request: hyper::Request<Incoming>,
) -> Result<Answered, Infallible> {
    let (head, incoming) = request.into_parts();
    // Two lengths: a front and we might cut the stream differently (request smuggling).
    if head.headers.contains_key(TRANSFER_ENCODING) && head.headers.contains_key(CONTENT_LENGTH) {
        let refusal = Refusal::new(
            ErrorCode::Malformed,
            "the request has a content-length and a transfer-encoding; send one of them",
        );
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
    if let Some(reason) = caller.refusal.as_ref().filter(|_| asked != Asked::Life) {
        body::discard(incoming).await;
        let refusal = Refusal::new(ErrorCode::CertificateRequired, &**reason);
        return Ok(closing(refused(&HttpError::new(refusal))));
    }
    // /health and /ready answer everybody; everything else needs a known client.
    let asks = match asked {
        Asked::Life => Asker::Anyone,
        _ if caller.local => Asker::Node,
        _ => match own.access.caller(&head.headers, caller.certificate.as_ref().map(CertificateName::user)).await {
            Ok(asks) => asks,
            Err(refusal) => {
                body::discard(incoming).await;
                return Ok(closing(refused(&HttpError::new(refusal))));
            }
        },
    };
    let open = asked == Asked::Life || path == "/" || console::is_file(path);
    if own.access.required() && asks == Asker::Anyone && !open {
        body::discard(incoming).await;
        return Ok(closing(refused(&HttpError::new(nobody()))));
    }
    if let Some(place) = caller.operator.as_ref().filter(|_| !action) {
        if asked == Asked::Data || !place.answer() {
            body::discard(incoming).await;
            return Ok(closing(refused(&crowded())));
        }
    }
    if asked == Asked::Data {
        let body = match read_body(&own, &caller, incoming).await {
            Ok(body) => body,
            Err(error) => return Ok(closing(refused(&error))),
        };
        return Ok(match action {
            true => json(&own, door, &caller, asks, body).await,
            false => plain(door, &head, asks, body).await,
        });
    }
    if head.method != Method::GET && head.method != Method::HEAD {
        let message = format!("{path} takes GET; use GET, or send an action to POST /");
        let refusal = Refusal::new(ErrorCode::MethodNotAllowed, message);
        return Ok(closing(refused(&HttpError::new(refusal))));
    }
    Ok(match path {
        "/" => respond(200, TEXT, HELP.as_bytes().to_vec()),
        "/health" => respond(
            200,
            JSON,
            format!("{{\"ok\":true,\"world\":\"{}\",\"node\":{}}}", own.world, own.node).into_bytes(),
        ),
        "/ready" => ready(&own, door).await,
        "/metrics" => {
            let health = health(&own, door).await;
            let age = own.access.age(crate::monitor::unix_ms());
            let doors = metrics::Doors { s3: own.s3.as_ref(), etcd: own.etcd.as_deref(), redis: own.redis.as_deref() };
            let host = metrics::Host { room: &own.room, data: &own.data, drained: own.drain.is_drained() };
            let text = metrics::text(&own.reports, host, own.certificates.states(), age, doors, health);
            respond(200, metrics::CONTENT_TYPE, text.into_bytes())
        }
        "/alarms" => alarms_for(&own, door, asks).await,
        console::HISTORY => respond(200, JSON, own.recorder.json(console::since(head.uri.query())).into_bytes()),
        _ => console::file(path).unwrap_or_else(|| {
            let path: String = path.chars().take(100).collect();
            let message = format!("there is nothing at {path}; use a route that GET / lists");
            refused(&HttpError::new(Refusal::new(ErrorCode::NotFound, message)))
        }),
    })
}

/// An operator's body is small: what is kept for operators is bounded by that and by their places.
async fn read_body(own: &HttpDoor, caller: &Caller, incoming: Incoming) -> Result<Bytes, HttpError> {
    let limits = &own.limits;
    let (mut bytes_max, mut time) = (limits.door.body_bytes_max, limits.body_timeout);
    if caller.operator.is_some() {
        (bytes_max, time) = (bytes_max.min(OPERATORS_BODY_BYTES_MAX), time.min(OPERATORS_PATIENCE));
        return body::read(incoming, bytes_max, time, None).await;
    }
    body::read(incoming, bytes_max, time, Some(own.room.unfinished.holder(caller.address))).await
}

async fn json(own: &HttpDoor, door: Rc<LaneDoor>, caller: &Caller, asks: Asker, body: Bytes) -> Answered {
    let mut request = match door_http::parse_request(body, &own.limits.door) {
        Ok(request) => request,
        Err(error) => return refused(&error),
    };
    if caller.operator.as_ref().is_some_and(|place| !is_administration(&request.action) || !place.answer()) {
        return closing(refused(&crowded()));
    }
    request.caller = asks;
    let action = door_http::answer_name(&request.action);
    let mut request = match Watch::of(request) {
        Ok(asked) => return lines::answer(own, door, asked).await,
        Err(other) => *other,
    };
    let drawn = match secrets::prepare(&own.access, &mut request).await {
        Ok(drawn) => drawn,
        Err(refusal) => return refused(&HttpError::new(refusal)),
    };
    if let Err(failure) = secrets::read_to_seal(&own.access, door.clone(), &mut request).await {
        let (status, body) = door_http::write_response(action, &Err(failure));
        return respond(status, JSON, body);
    }
    let mut response = with_own_reasons(own, door.ask(request).await);
    secrets::reveal(drawn, &mut response);
    let (status, body) = door_http::write_response(action, &response);
    respond(status, JSON, body)
}

/// What is to be said of certificates, the directory of users and how far a drain is, is known here, and not to the core.
fn with_own_reasons(own: &HttpDoor, mut response: base_types::action::Response) -> base_types::action::Response {
    match &mut response {
        Ok(Answer { result: ActionResult::Status(status), .. }) => {
            let now_ms = crate::monitor::unix_ms();
            status.degraded.extend(own.certificates.reasons(i64::try_from(now_ms / 1_000).unwrap_or(i64::MAX)));
            status.degraded.extend(own.access.reasons(now_ms));
            status.warnings.extend(own.drain.warning(own.node));
        }
        Ok(Answer { result: ActionResult::Drain(info), .. }) => info.hand_overs_due = own.drain.hand_overs_due(),
        _ => {}
    }
    response
}

/// Of `/clean`: carries on with the reshard that this answer names as unfinished, and waits for it inside the deadline. Its last
/// step of each move is that the old owner removes what was moved, so nothing is left to be removed after it.
async fn clean(door: &Rc<LaneDoor>, described: Request, mut response: BaseResponse) -> BaseResponse {
    let begun = tokio::time::Instant::now();
    let left = || described.deadline.saturating_sub(begun.elapsed());
    if let Some((keyspace, clusters)) = unfinished(&response) {
        // The same number again changes no plan, and this node works on it. Who may not ask for that still waits for the others.
        let action = Action::Reshard { keyspace, clusters };
        let _ = door.clone().ask(Request { action, request_id: None, deadline: left(), ..described.clone() }).await;
    }
    while unfinished(&response).is_some() && left() > CLEAN_PAUSE {
        tokio::time::sleep(CLEAN_PAUSE).await;
        match door.clone().ask(Request { request_id: None, deadline: left(), ..described.clone() }).await {
            Ok(answer) => response = Ok(answer),
            // The removal continues without this answer.
            Err(_) => break,
        }
    }
    response
}

/// The keyspace and the number of clusters of a reshard that is not done.
fn unfinished(response: &BaseResponse) -> Option<(String, u16)> {
    let ActionResult::Keyspace(info) = &response.as_ref().ok()?.result else { return None };
    Some((info.name.clone(), info.reshard.as_ref()?.target_clusters))
}

async fn plain(door: Rc<LaneDoor>, head: &hyper::http::request::Parts, asks: Asker, body: Bytes) -> Answered {
    let query = head.uri.query().unwrap_or("");
    let mut plain = match door_http::parse_plain(head.method.as_str(), head.uri.path(), query, body) {
        Ok(plain) => plain,
        Err(error) => return refused(&error),
    };
    plain.request.caller = asks;
    let asked = plain.request.clone();
    let mut response = door.clone().ask(plain.request).await;
    if plain.route == PlainRoute::Clean {
        response = clean(&door, asked, response).await;
    }
    let (status, kind, body) = door_http::write_plain(plain.route, plain.strict, &response);
    let mut answer = respond(status, kind, body);
    // A value is bytes, whatever a browser would like to make of it.
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// 200: the node can do some of its work, and `degraded` says what it cannot do; 503: it can do none, and `not_ready` says why.
async fn ready(own: &HttpDoor, door: Rc<LaneDoor>) -> Answered {
    let response = with_own_reasons(own, timely(door, Action::Status, Asker::Node).await);
    let is_ready =
        matches!(&response, Ok(answer) if matches!(&answer.result, ActionResult::Status(status) if status.ready));
    let (_, body) = door_http::write_response("Status", &response);
    respond(if is_ready { 200 } else { 503 }, JSON, body)
}

/// A question about this node that a lane that hangs must not hold up.
async fn timely(door: Rc<LaneDoor>, action: Action, caller: Asker) -> base_types::action::Response {
    let request = Request {
        action,
        consistency: None,
        read_consistency: None,
        deadline: READY_DEADLINE,
        request_id: None,
        after: None,
        expected_bucket_owner: None,
        caller,
    };
    tokio::time::timeout(READY_DEADLINE, door.ask(request)).await.unwrap_or_else(|_| {
        let message = format!(
            "the core does not answer within {} ms; restart the node if that lasts",
            READY_DEADLINE.as_millis()
        );
        Err(Refusal::new(ErrorCode::NotReady, message).into())
    })
}

/// What `/metrics` says of this node's health.
async fn health(own: &HttpDoor, door: Rc<LaneDoor>) -> Option<metrics::Health> {
    let response = with_own_reasons(own, timely(door.clone(), Action::Status, Asker::Node).await);
    let ActionResult::Status(status) = response.ok()?.result else { return None };
    let ActionResult::Nodes { nodes } = timely(door, Action::ListNodes, Asker::Node).await.ok()?.result else {
        return None;
    };
    Some(metrics::Health { status, nodes, unix_ms: crate::monitor::unix_ms() })
}

/// What is wrong: for those who may ask for the status and the nodes.
async fn alarms_for(own: &HttpDoor, door: Rc<LaneDoor>, asks: Asker) -> Answered {
    let found = async {
        let status = with_own_reasons(own, timely(door.clone(), Action::Status, asks.clone()).await)?;
        Ok((status.result, timely(door, Action::ListNodes, asks).await?.result))
    };
    let listed = match found.await {
        Ok((ActionResult::Status(status), ActionResult::Nodes { nodes })) => {
            let recent = own.recorder.recent(alarms::SAMPLES);
            Some(alarms::alarms(&status, &nodes, &recent, crate::monitor::unix_ms()))
        }
        Err(failure) if is_denied(&failure) => return refused(&HttpError::new(failure.refusal)),
        Ok(_) | Err(_) => None,
    };
    respond(200, JSON, alarms::json(own.node, listed).into_bytes())
}

fn is_denied(failure: &Failure) -> bool {
    matches!(failure.refusal.kind(), ErrorKind::Forbidden)
}

/// What operators ask, and clients whose data it is do not. Every action is named: a new one must be put on one side.
fn is_administration(action: &Action) -> bool {
    use S3Action as S3;
    match action {
        Action::KvPut { .. } | Action::KvGet { .. } | Action::KvDelete { .. } | Action::KvScan { .. } => false,
        Action::KvBatch { .. } | Action::KvCompareAndSet { .. } | Action::Redis { .. } => false,
        Action::RedisCall { .. } => false,
        Action::Versioned { .. } => false,
        Action::S3(S3::CreateAccount(_) | S3::DeleteAccount(_) | S3::ListAccounts(_)) => true,
        Action::S3(S3::CreateAccessKey(_) | S3::GetAccessKey(_) | S3::SealAccessKey(_)) => true,
        Action::S3(S3::DeleteAccessKey(_) | S3::ListAccessKeys(_)) => true,
        Action::S3(S3::GetBucketQuota(_) | S3::PutBucketQuota(_) | S3::DeleteBucketQuota(_)) => true,
        Action::S3(_) => false,
        Action::CreateKeyspace { .. } | Action::DeleteKeyspace { .. } | Action::DescribeKeyspace { .. } => true,
        Action::ListKeyspaces | Action::Reshard { .. } | Action::CreateCluster { .. } => true,
        Action::DeleteCluster { .. } | Action::ResolveCluster { .. } | Action::DescribeCluster { .. } => true,
        Action::VerifyCluster { .. } | Action::ListClusters { .. } | Action::TransferLeader { .. } => true,
        Action::AddMember { .. } | Action::SkipEntry { .. } | Action::RemoveMember { .. } => true,
        Action::RecoverCluster { .. } | Action::ListRecoveries { .. } | Action::DiscardEnded { .. } => true,
        Action::MoveMember { .. } | Action::SetEngine { .. } | Action::SetDefaultConsistency { .. } => true,
        Action::DrainNode { .. } => true,
        Action::ListNodes | Action::DecommissionNode { .. } | Action::RecommissionNode { .. } => true,
        Action::ForgetNode { .. } | Action::UpgradeStatus | Action::FinalizeUpgrade | Action::Status => true,
        Action::Access(_) => true,
    }
}

/// The request gives no credential.
fn nobody() -> Refusal {
    let message = "this node needs a credential: send `Authorization: Bearer` with a token (`hive token create`; HIVE_TOKEN or --token-file for the program hive)";
    Refusal::new(ErrorCode::Unauthenticated, message)
}

fn crowded() -> HttpError {
    let message = "more connections than limits.connections_max, or than one address may have of them; only /health, /ready, /metrics and administration are answered now; close connections, or retry later";
    HttpError::with_status(503, Refusal::new(ErrorCode::Overloaded, message))
}

pub(super) fn refused(error: &HttpError) -> Answered {
    let (status, body) = door_http::write_error(error);
    let mut answer = respond(status, JSON, body);
    if error.refusal.kind() == ErrorKind::Unauthenticated {
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
    }
    if error.refusal.kind() == ErrorKind::Overloaded {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer
}

pub(super) fn respond(status: u16, kind: &'static str, body: Vec<u8>) -> Answered {
    let mut response = Response::new(AnswerBody::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

pub(super) fn closing(mut response: Answered) -> Answered {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

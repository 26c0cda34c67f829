//! The JSON gateway under `/v3/`, as etcd's grpc-gateway: fields by their names in the .proto files, 64-bit numbers as texts, bytes in base64,
//! defaults left out; `/health` and `/version`.
//!
//! ```text
//!   POST /v3/kv/range {…} ─▶ message ─▶ the gRPC method ─▶ message ─▶ {…}            streams: one {"result":…} a line
//! ```
//! Always: it knows no method: paths and messages are those of the descriptors (`methods.rs`), and what is done is what gRPC does.
//! Not here: frames of gRPC (`gateway/frames.rs`), what pages of other sites may cause (edge-node, as at its JSON door).

mod frames;

use crate::methods::{Method, Methods};
use crate::proto::ETCD_VERSION;
use crate::service::{EtcdService, Room};
use bytes::Bytes;
use frames::{framed, Frames};
use futures::StreamExt;
use http::{header, Method as Verb, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use prost::Message;
use prost_reflect::{DeserializeOptions, DynamicMessage, SerializeOptions};
use serde_json::{json, Value};
use tonic::body::Body;
use tonic::{Code, Status};

/// JSON of a request takes at most so many times the bytes of its message: base64, names, blanks.
const JSON_FACTOR: usize = 3;

/// Answers a request that is no gRPC.
pub(crate) async fn answer(service: &EtcdService, request: Request<Body>, room: Room) -> Response<Body> {
    match (request.method(), request.uri().path()) {
        (&Verb::GET, "/health") => Ok(health(service).await),
        (&Verb::GET, "/version") => {
            let version = json!({"etcdserver": ETCD_VERSION, "etcdcluster": ETCD_VERSION, "storage": ETCD_VERSION});
            Ok(reply(StatusCode::OK, &version))
        }
        (verb, path) => match Methods::table().of_url(path) {
            Some(method) if verb == Verb::POST => call(service, method, request, room).await,
            Some(_) => problem(StatusCode::METHOD_NOT_ALLOWED, Code::Unimplemented, "Method Not Allowed"),
            None => problem(StatusCode::NOT_FOUND, Code::NotFound, "Not Found"),
        },
    }
    .unwrap_or_else(|status| refusal(&status))
}

async fn health(service: &EtcdService) -> Response<Body> {
    match service.door().store.healthy().await {
        Ok(()) => reply(StatusCode::OK, &json!({"health": "true", "reason": ""})),
        Err(refusal) => {
            let reason = refusal.to_string();
            reply(StatusCode::SERVICE_UNAVAILABLE, &json!({"health": "false", "reason": reason}))
        }
    }
}

async fn call(
    service: &EtcdService,
    method: &'static Method,
    request: Request<Body>,
    room: Room,
) -> Result<Response<Body>, Status> {
    let limits = service.door().limits;
    let (head, body) = request.into_parts();
    let body = Limited::new(body, limits.decode_bytes_max().saturating_mul(JSON_FACTOR)).collect();
    let body = tokio::time::timeout(limits.call_time, body).await;
    let body = body.map_err(|_| Status::from(crate::status::TIMEOUT))?;
    let body = body.map_err(|_| Status::from(crate::status::REQUEST_TOO_LARGE))?.to_bytes();
    let messages = messages(method, &body)?;
    let mut inner = Request::post(&method.path).header(header::CONTENT_TYPE, "application/grpc");
    for name in ["authorization", "token"] {
        if let Some(value) = head.headers.get(name) {
            inner = inner.header(name, value);
        }
    }
    let body = framed(messages, method.outlives_requests());
    let mut inner = inner.body(body).map_err(|error| Status::internal(error.to_string()))?;
    *inner.extensions_mut() = head.extensions;
    let response = service.run(method, inner, room).await;
    if let Some(status) = Status::from_header_map(response.headers()).filter(|status| status.code() != Code::Ok) {
        return Err(status);
    }
    let frames = Frames::new(response.into_body());
    if method.many_answers {
        Ok(stream(method, frames))
    } else {
        unary(method, frames).await
    }
}

/// The messages of a body. Nothing is an empty message; a method of many requests takes one value after the other.
fn messages(method: &Method, body: &Bytes) -> Result<Vec<Bytes>, Status> {
    let values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    let values = values.collect::<Result<Vec<_>, _>>().map_err(malformed)?;
    let values = if values.is_empty() { vec![json!({})] } else { values };
    if values.len() > 1 && !method.many_requests {
        return Err(Status::invalid_argument("hive: there is more after the request; send one value"));
    }
    // As etcd's gateway: fields that are not known are passed over.
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let read = |value| DynamicMessage::deserialize_with_options(method.input.clone(), value, &options);
    values.into_iter().map(|value| Ok(read(value).map_err(malformed)?.encode_to_vec().into())).collect()
}

fn malformed(error: serde_json::Error) -> Status {
    Status::invalid_argument(format!("hive: the request is no JSON of its message: {error}"))
}

fn json_of(method: &Method, message: Bytes) -> Result<Value, Status> {
    let message = DynamicMessage::decode(method.output.clone(), message);
    let message = message.map_err(|error| Status::internal(format!("hive: an answer does not decode: {error}")))?;
    let options =
        SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(true).skip_default_fields(true);
    let value = message.serialize_with_options(serde_json::value::Serializer, &options);
    value.map_err(|error| Status::internal(format!("hive: an answer has no JSON: {error}")))
}

async fn unary(method: &Method, mut frames: Frames) -> Result<Response<Body>, Status> {
    let message = frames.next().await?;
    // The status comes after the message.
    while frames.next().await?.is_some() {}
    let message = message.ok_or_else(|| Status::internal("hive: there was no answer; report this bug"))?;
    Ok(reply(StatusCode::OK, &json_of(method, message)?))
}

fn stream(method: &'static Method, frames: Frames) -> Response<Body> {
    let lines = futures::stream::unfold(Some(frames), move |frames| async move {
        let mut frames = frames?;
        let next = match frames.next().await {
            Ok(None) => return None,
            Ok(Some(message)) => json_of(method, message).map(|value| json!({ "result": value })),
            Err(status) => Err(status),
        };
        let (line, rest) = match next {
            Ok(line) => (line, Some(frames)),
            Err(status) => (stream_error(&status), None),
        };
        Some((line, rest))
    });
    let lines = lines.map(|line| {
        let mut line = line.to_string();
        line.push('\n');
        Ok::<_, std::convert::Infallible>(http_body::Frame::data(Bytes::from(line)))
    });
    let mut response = Response::new(Body::new(StreamBody::new(lines)));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

fn stream_error(status: &Status) -> Value {
    let http = http_status(status.code());
    json!({"error": {
        "grpc_code": status.code() as i32,
        "http_code": http.as_u16(),
        "message": status.message(),
        "http_status": http.canonical_reason().unwrap_or_default(),
    }})
}

/// The HTTP status of a code of gRPC, as grpc-gateway has it.
fn http_status(code: Code) -> StatusCode {
    let status = match code {
        Code::Ok => 200,
        Code::Cancelled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::DeadlineExceeded => 504,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::PermissionDenied => 403,
        Code::Unauthenticated => 401,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    };
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// A refusal as JSON.
pub(crate) fn refusal(status: &Status) -> Response<Body> {
    problem_of(http_status(status.code()), status.code(), status.message())
}

fn problem(status: StatusCode, code: Code, message: &str) -> Result<Response<Body>, Status> {
    Ok(problem_of(status, code, message))
}

fn problem_of(status: StatusCode, code: Code, message: &str) -> Response<Body> {
    reply(status, &json!({"error": message, "code": code as i32, "message": message}))
}

fn reply(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from(value.to_string()))));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

//! The HTTP door of a process that reads along (`attach.rs`): the same JSON as a node's, without lanes.
//!
//! By design: requests are answered one at a time, beside the threads of the connections; connections and bodies are
//! bounded.
//! Not here: what is answered.

use super::browser::{self, Asked, Hosts};
use super::{body, routes, HEADERS_MAX, HEAD_BYTES_MAX};
use crate::attach::Attached;
use crate::clients::{Bytes as Unfinished, ClientStream, Head, HeldBytes};
use base_types::action::Action;
use base_types::{ErrorCode, Refusal};
use door_http::{HttpError, Limits};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::Method;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections at a time; others wait.
const CONNECTIONS_MAX: usize = 256;
/// Bytes of requests that are not whole yet, of all connections.
const UNFINISHED_BYTES_MAX: usize = 64 << 20;
/// How long a head, or a body, may take.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after the listener itself failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Answers clients until the process ends.
pub async fn serve(attached: Attached, listener: TcpListener) {
    let attached = Arc::new(Mutex::new(attached));
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let unfinished = Unfinished::new(UNFINISHED_BYTES_MAX);
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (attached, unfinished) = (attached.clone(), unfinished.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let head = Head::new(unfinished.holder(peer.ip()));
            let stream = ClientStream::new(stream, CLIENT_TIMEOUT, head.clone());
            let service = service_fn(move |request| {
                head.begin();
                let (head, held) = (head.clone(), unfinished.holder(peer.ip()));
                let answer = answer(attached.clone(), held, request);
                async move {
                    let answer = answer.await;
                    head.end();
                    answer
                }
            });
            // Errors are the client's.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(CLIENT_TIMEOUT)
                .max_headers(HEADERS_MAX)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    attached: Arc<Mutex<Attached>>,
    held: HeldBytes,
    request: hyper::Request<Incoming>,
) -> Result<routes::Answered, Infallible> {
    let (head, incoming) = request.into_parts();
    let asked = if head.uri.path() == "/" { Asked::Data } else { Asked::Life };
    if let Err(error) = browser::check(&head, asked, &Hosts::default()) {
        body::discard(incoming).await;
        return Ok(routes::closing(routes::refused(&error)));
    }
    let action = match (head.method, head.uri.path()) {
        (Method::POST, "/") => {
            let limits = Limits::default();
            let body = match body::read(incoming, limits.body_bytes_max, CLIENT_TIMEOUT, Some(held)).await {
                Ok(body) => body,
                Err(error) => return Ok(routes::closing(routes::refused(&error))),
            };
            match door_http::parse_request(body, &limits) {
                Ok(request) => request.action,
                Err(error) => return Ok(routes::refused(&error)),
            }
        }
        (Method::GET, "/health" | "/ready") => Action::Status,
        (_, path) => {
            let path: String = path.chars().take(100).collect();
            let message =
                format!("there is nothing at {path}; this process reads along: POST / takes KvGet and KvScan");
            let refusal = Refusal::new(ErrorCode::NotFound, message);
            return Ok(routes::closing(routes::refused(&HttpError::new(refusal))));
        }
    };
    let name = door_http::answer_name(&action);
    let answered = tokio::task::spawn_blocking(move || {
        attached.lock().unwrap_or_else(PoisonError::into_inner).answer(&action) // It holds no half-made state.
    });
    let response = answered
        .await
        .unwrap_or_else(|error| Err(Refusal::new(ErrorCode::Internal, format!("answering failed: {error}")).into()));
    let (status, body) = door_http::write_response(name, &response);
    Ok(routes::respond(status, routes::JSON, body))
}

//! The door as one HTTP service: gRPC where the content is `application/grpc`, else the JSON gateway.
//!
//! ```text
//!   http::Request ─▶ room for one more? ─┬─ gRPC ─────────────▶ the method's service ─▶ body, counted until its end
//!                                        └─ JSON (gateway.rs) ─▶ the same, as an inner request
//! ```
//! Always: limits come before anybody is asked who it is.
//! Not here: sockets, TLS, HTTP (edge-node: one [`Connection`] for each of its connections).

use crate::gateway;
use crate::methods::Methods;
use crate::service::{unknown, EtcdService};
use crate::status::TOO_MANY_REQUESTS;
use bytes::Bytes;
use http::{Request, Response};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::Status;

/// The door for one connection. Its clones share the connection's room.
#[derive(Clone)]
pub struct Connection {
    service: EtcdService,
    room: Arc<Semaphore>,
}

impl Connection {
    /// A connection that has nothing under way.
    pub fn new(service: &EtcdService) -> Connection {
        let room = Arc::new(Semaphore::new(service.door().limits.connection_requests_max));
        Connection { service: service.clone(), room }
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let request = request.map(Body::new);
        let content = request.headers().get(http::header::CONTENT_TYPE);
        let grpc = content.is_some_and(|content| content.as_bytes().starts_with(b"application/grpc"));
        let Some(room) = self.service.take_room(&self.room) else {
            let status = Status::from(TOO_MANY_REQUESTS);
            return if grpc { status.into_http() } else { gateway::refusal(&status) };
        };
        if !grpc {
            return gateway::answer(&self.service, request, room).await;
        }
        match Methods::table().of_path(request.uri().path()) {
            Some(method) => self.service.run(method, request, room).await,
            None => unknown(request.uri().path()).into_http(),
        }
    }
}

impl<B> tower_service::Service<Request<B>> for Connection
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let connection = self.clone();
        Box::pin(async move { Ok(connection.answer(request).await) })
    }
}

/// Refuses a request that has no right to be answered, before any of it is read: gRPC and JSON each in their own way.
pub fn refuse(headers: &http::HeaderMap, status: &Status) -> Response<Body> {
    let content = headers.get(http::header::CONTENT_TYPE);
    match content.is_some_and(|content| content.as_bytes().starts_with(b"application/grpc")) {
        true => status.clone().into_http(),
        false => gateway::refusal(status),
    }
}

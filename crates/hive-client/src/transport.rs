//! One HTTP exchange with one endpoint, over a pool of kept-alive connections.
//!
//! Always: an answer is at most `ANSWER_BYTES_MAX`; a failure says whether the request can have
//! reached the node. Not here: when to try again (client.rs).

use crate::ClientError;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{handshake, SendRequest};
use hyper::{header, Method, Request};
use hyper_util::rt::TokioIo;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The longest answer: a page of a scan in base64, with room.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Idle connections kept for one endpoint.
const IDLE_MAX: usize = 64;
/// How long a connection may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// An endpoint that was asked and said nothing is asked last for so long: one that is stopped or cut off costs one call its
/// patience, not every call whose turn it is. An answer ends it at once.
const SILENT_FOR: Duration = Duration::from_secs(2);

/// A node's HTTP port and the idle connections to it.
pub struct Endpoint {
    address: String,
    silent_until: Mutex<Option<Instant>>,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

/// An exchange that came to no answer.
pub(crate) struct Broken {
    /// The node may have the request.
    pub sent: bool,
    /// The connection had been idle and was found closed: try at once on a fresh one.
    pub stale: bool,
    pub reason: String,
}

impl Endpoint {
    /// From `http://host:port`, with or without the scheme or a slash at the end.
    pub fn parse(text: &str) -> Result<Endpoint, ClientError> {
        let address = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let port = address.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then(|| port.parse::<u16>()));
        match port {
            Some(Ok(_)) if !address.contains("://") => Ok(Endpoint {
                address: address.to_owned(),
                silent_until: Mutex::new(None),
                idle: Mutex::new(Vec::new()),
            }),
            _ => Err(ClientError::Endpoint(text.to_owned())),
        }
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether it was asked a short while ago, said nothing, and has not answered since.
    pub(crate) fn is_silent(&self) -> bool {
        let silent = self.silent_until.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        silent.is_some_and(|until| Instant::now() < until)
    }

    /// It said nothing for as long as was waited for it, or it answered.
    pub(crate) fn set_silent(&self, silent: bool) {
        let mut until = self.silent_until.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *until = silent.then(|| Instant::now() + SILENT_FOR);
    }

    fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while let Some(connection) = idle.pop() {
            if !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    fn put_back(&self, connection: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if idle.len() < IDLE_MAX && !connection.is_closed() {
            idle.push(connection);
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Broken> {
        let failed =
            |reason: String| Broken { sent: false, stale: false, reason: format!("{}: {reason}", self.address) };
        let stream = match timeout(CONNECT_TIMEOUT, TcpStream::connect(&self.address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed(format!("no connection within {} ms", CONNECT_TIMEOUT.as_millis()))),
        };
        let _ = stream.set_nodelay(true);
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| failed(error.to_string()))?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Sends a request and reads the whole answer: its status and body.
    pub(crate) async fn exchange(&self, method: Method, path: &str, body: Bytes) -> Result<(u16, Bytes), Broken> {
        let (mut connection, reused) = match self.take_idle() {
            Some(connection) => (connection, true),
            None => (self.connect().await?, false),
        };
        let broken = |error: hyper::Error| Broken {
            // A cancelled request was never written to the connection.
            sent: !error.is_canceled(),
            stale: reused && error.is_canceled(),
            reason: format!("{}: {error}", self.address),
        };
        connection.ready().await.map_err(|error| Broken { sent: false, stale: reused, ..broken(error) })?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.address)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body));
        let request = request.map_err(|error| Broken { sent: false, stale: false, reason: error.to_string() })?;
        let response = connection.send_request(request).await.map_err(broken)?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body =
            body.map_err(|error| Broken { sent: true, stale: false, reason: format!("{}: {error}", self.address) })?;
        self.put_back(connection);
        Ok((status, body.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_or_refused() {
        for text in ["http://127.0.0.1:7101", "127.0.0.1:7101/", "http://node-1.example:80/"] {
            assert!(Endpoint::parse(text).is_ok(), "{text}");
        }
        for text in ["", "localhost", "https://x:1", "http://x", "http://x:99999", ":80"] {
            assert!(Endpoint::parse(text).is_err(), "{text}");
        }
    }
}

//! One HTTP exchange with one endpoint, over a pool of kept-alive connections.
//!
//! Always: an answer is at most `ANSWER_BYTES_MAX`; a failure says whether the request can have
//! reached the node. Held by: `endpoints_are_read_or_refused`. Not here: when to try again (client.rs).

use crate::silence::{Silence, PROBE_PATIENCE};
use crate::tls::{explain, Tls};
use crate::token::Token;
use crate::ClientError;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{handshake, SendRequest};
use hyper::{header, Method, Request};
use hyper_util::rt::TokioIo;
use std::sync::Mutex;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// The longest answer: a page of a scan in base64, with room.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Idle connections kept for one endpoint.
const IDLE_MAX: usize = 64;
/// How long a connection may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long TLS may take to come up on it.
const TLS_TIMEOUT: Duration = Duration::from_secs(5);

/// A node's HTTP port and the idle connections to it.
pub struct Endpoint {
    address: String,
    /// The address is the path of a Unix socket.
    unix: bool,
    tls: Option<Tls>,
    pub(crate) silence: Silence,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

/// An exchange that came to no answer.
pub(crate) struct Broken {
    /// The node may have the request.
    pub sent: bool,
    /// The connection had been idle and was found closed: try at once on a fresh one.
    pub stale: bool,
    /// TLS was refused, and will be again.
    pub untrusted: bool,
    /// It said nothing, not even that it takes no connection.
    pub silent: bool,
    pub reason: String,
}

impl Broken {
    /// Nothing was sent.
    fn before(reason: String) -> Broken {
        Broken { sent: false, stale: false, untrusted: false, silent: false, reason }
    }
}

impl Endpoint {
    /// From `unix:/path/of/a/socket`, `http://host:port` or `https://host:port`, with or without a slash at the end. Without a scheme it is `https` where
    /// `tls` is given.
    pub fn parse(text: &str, tls: Option<&Tls>) -> Result<Endpoint, ClientError> {
        let (secure, address) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(address), _) => (false, address),
            (_, Some(address)) => (true, address),
            _ => (tls.is_some(), text),
        };
        if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
            return Ok(Endpoint {
                address: path.to_owned(),
                unix: true,
                tls: None,
                silence: Silence::default(),
                idle: Mutex::new(Vec::new()),
            });
        }
        let address = address.trim_end_matches('/');
        if secure && tls.is_none() {
            return Err(ClientError::Untrusted(text.to_owned()));
        }
        let port = address.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then(|| port.parse::<u16>()));
        match port {
            Some(Ok(_)) if !address.contains("://") => Ok(Endpoint {
                address: address.to_owned(),
                unix: false,
                tls: tls.filter(|_| secure).cloned(),
                silence: Silence::default(),
                idle: Mutex::new(Vec::new()),
            }),
            _ => Err(ClientError::Endpoint(text.to_owned())),
        }
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() {
            "https"
        } else {
            "http"
        }
    }

    fn host(&self) -> &str {
        self.address.rsplit_once(':').map_or(&self.address, |(host, _)| host)
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Asks whether it answers at all.
    pub(crate) async fn probe(&self) {
        let asked = self.exchange(Method::GET, "/health", Bytes::new(), None);
        match timeout(PROBE_PATIENCE, asked).await {
            Ok(Err(broken)) if broken.silent => {}
            // Also a refused connection: it costs an operation nothing to be refused so.
            Ok(_) => self.silence.probe_answered(),
            Err(_) => {}
        }
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
        let failed = |reason: String| Broken::before(format!("{}: {reason}", self.address));
        let silent = |reason: String| Broken { silent: true, ..failed(reason) };
        if self.unix {
            let stream = UnixStream::connect(&self.address).await.map_err(|error| failed(error.to_string()))?;
            let made = handshake(TokioIo::new(stream)).await;
            let (sender, connection) = made.map_err(|error| failed(error.to_string()))?;
            tokio::spawn(connection);
            return Ok(sender);
        }
        let stream = match timeout(CONNECT_TIMEOUT, TcpStream::connect(&self.address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(silent(format!("no connection within {} ms", CONNECT_TIMEOUT.as_millis()))),
        };
        let _ = stream.set_nodelay(true);
        let sender = match &self.tls {
            None => {
                let made = handshake(TokioIo::new(stream)).await;
                let (sender, connection) = made.map_err(|error| failed(error.to_string()))?;
                tokio::spawn(connection);
                sender
            }
            Some(tls) => {
                let secured = timeout(TLS_TIMEOUT, tls.connect(self.host(), stream)).await;
                let stream = secured
                    .map_err(|_| silent(format!("no TLS within {} ms", TLS_TIMEOUT.as_millis())))?
                    .map_err(|error| Broken { untrusted: error.lasting, ..failed(error.reason) })?;
                let made = handshake(TokioIo::new(stream)).await;
                let (sender, connection) = made.map_err(|error| failed(error.to_string()))?;
                tokio::spawn(connection);
                sender
            }
        };
        Ok(sender)
    }

    /// Sends a request and reads the whole answer: its status and body.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        token: Option<&Token>,
    ) -> Result<(u16, Bytes), Broken> {
        let (mut connection, reused) = match self.take_idle() {
            Some(connection) => (connection, true),
            None => (self.connect().await?, false),
        };
        let broken = |error: hyper::Error| {
            // With TLS 1.3 a node's word on a client's certificate comes when the client believes itself connected.
            let failure = explain(&error, self.host());
            Broken {
                // A cancelled request was never written to the connection, and one after a refused certificate never read.
                sent: !error.is_canceled() && !failure.lasting,
                stale: reused && error.is_canceled(),
                untrusted: failure.lasting,
                silent: false,
                reason: format!("{}: {}", self.address, failure.reason),
            }
        };
        connection.ready().await.map_err(|error| Broken { sent: false, stale: reused, ..broken(error) })?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, if self.unix { "localhost" } else { &self.address })
            .header(header::CONTENT_TYPE, "application/json");
        let request = match token {
            Some(token) => request.header(header::AUTHORIZATION, token.header()),
            None => request,
        };
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| Broken::before(error.to_string()))?;
        let response = connection.send_request(request).await.map_err(broken)?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body =
            body.map_err(|error| Broken { sent: true, ..Broken::before(format!("{}: {error}", self.address)) })?;
        self.put_back(connection);
        Ok((status, body.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_or_refused() {
        for text in ["unix:/tmp/admin.sock", "http://127.0.0.1:7101", "127.0.0.1:7101/", "http://node-1.example:80/"] {
            assert!(Endpoint::parse(text, None).is_ok(), "{text}");
        }
        for text in ["", "localhost", "https://x:1", "http://x", "http://x:99999", ":80"] {
            assert!(Endpoint::parse(text, None).is_err(), "{text}");
        }
    }
}

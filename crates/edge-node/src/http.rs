//! The HTTP door of one thread: connections, routes, limits.
//!
//! ```text
//! POST /                JSON action          door-http parses and writes
//! GET|POST /put /get /clean   plain routes   door-http parses and writes
//! GET /health           200 while the process lives; nothing else is looked at
//! GET /ready            200 while this node can do any of its work (`degraded`: what it cannot), else 503 (`not_ready`: why)
//! GET /metrics          OpenMetrics text
//! GET /                 help; /console/ comes with a later issue
//! ```
//!
//! Always: memory for a request is bounded by the body limit and grows with the bytes that came; heads
//! and bodies have a time; a client that goes away cancels its request; connections are bounded.
//! Not here: JSON (door-http), what actions do (core-node).

#[cfg(feature = "engine-object")]
pub mod attached;
mod body;
mod browser;
mod routes;

pub use browser::Hosts;

use crate::lane::door::LaneDoor;
use crate::lane::LaneReport;
use crate::quiet::Quiet;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Header lines a request may have.
const HEADERS_MAX: usize = 64;
/// Bytes of a request's head, and of the read buffer.
const HEAD_BYTES_MAX: usize = 96 << 10;
/// The pause after the listener itself failed (out of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// What a connection over the limit is told.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n";

/// Bounds of the door.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    pub door: door_http::Limits,
    pub connections_max: usize,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
}

/// What all connections of a thread share.
pub struct HttpDoor {
    pub lanes: Vec<Rc<LaneDoor>>,
    pub limits: HttpLimits,
    /// Connections of the whole node.
    pub connections: Arc<AtomicUsize>,
    /// All lanes' numbers.
    pub reports: Vec<Arc<Mutex<LaneReport>>>,
    pub world: String,
    pub node: u64,
    /// The names this node answers to.
    pub hosts: Hosts,
    pub state: HttpState,
}

/// What changes.
#[derive(Default)]
pub struct HttpState {
    next_lane: Cell<usize>,
    quiet: Quiet,
}

/// Counts a connection while it lives.
struct Counted<'a>(&'a HttpDoor);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HttpDoor {
    /// Accepts until draining begins.
    pub async fn run(self: Rc<Self>, listener: TcpListener, draining: watch::Receiver<bool>) {
        let mut stop = draining.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    if let Some(left_out) = self.state.quiet.allow() {
                        tracing::warn!(%error, left_out, "accepting clients' connections failed");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if self.connections.fetch_add(1, Ordering::Relaxed) >= self.limits.connections_max {
                self.connections.fetch_sub(1, Ordering::Relaxed);
                if let Some(left_out) = self.state.quiet.allow() {
                    tracing::warn!(
                        limit = self.limits.connections_max,
                        left_out,
                        "more connections than limits.connections_max; a client was turned away"
                    );
                }
                let _ = stream.try_write(BUSY);
                continue;
            }
            let (own, draining) = (self.clone(), draining.clone());
            tokio::task::spawn_local(async move {
                let _counted = Counted(&own);
                own.clone().serve(stream, draining).await;
            });
        }
    }

    async fn serve(self: Rc<Self>, stream: TcpStream, mut draining: watch::Receiver<bool>) {
        let _ = stream.set_nodelay(true);
        // hyper's own timer begins with the first byte of a head: silence before it is timed here.
        if tokio::time::timeout(self.limits.header_timeout, stream.readable()).await.is_err() {
            return;
        }
        let lane = self.state.next_lane.get();
        self.state.next_lane.set(lane.wrapping_add(1));
        let door = self.lanes[lane % self.lanes.len()].clone();
        let own = self.clone();
        let service = service_fn(move |request| routes::answer(own.clone(), door.clone(), request));
        // No pipeline_flush: with it hyper never flushes its answer to a head it cannot parse.
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            biased;
            // Errors are the client's: a bad head, a time that ran out, a connection reset.
            _ = connection.as_mut() => return,
            _ = draining.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

#[cfg(test)]
mod tests;

//! The HTTP door of one thread: connections, routes, limits.
//!
//! ```text
//! POST /                JSON action          door-http parses and writes
//! GET|POST /put /get /clean   plain routes   door-http parses and writes
//! GET /health           200 while the process lives; nothing else is looked at
//! GET /ready            200 while this node can do any of its work (`degraded`: what it cannot), else 503 (`not_ready`: why)
//! GET /metrics          OpenMetrics text
//! GET /alarms           what is wrong, as this node knows it, and what to do: JSON
//! GET /                 help
//! GET /console/…        the console's files, for everybody (they hold no data); /console/history: its samples, as /metrics
//! ```
//!
//! Where `[tls]` asks for users' certificates, all but `/health` and `/ready` want one.
//!
//! Always: memory for a request is bounded by the body limit, and for all unfinished ones by the node's, and grows with the bytes
//! that came; heads, bodies and the taking of answers have a time; a client that goes away cancels its request; connections are
//! bounded, and where clients' take all the room, operators' requests are answered still.
//! Held by: `unfinished_requests_are_bounded_together`, `operators_are_answered_while_clients_flood`, `a_client_that_goes_away_cancels_and_connections_are_bounded`.
//! Not here: JSON (door-http), what actions do (core-node).

#[cfg(feature = "engine-object")]
pub mod attached;
mod body;
pub(crate) mod browser;
mod console;
mod lines;
mod routes;
pub(crate) mod secrets;

pub use browser::Hosts;

use crate::access::AccessHub;
use crate::ca::CertificateName;
use crate::clients::{
    accept, ClientStream, Connection, DoorStream, Entrance, Guest, Head, Place, Room, OPERATORS_PATIENCE,
};
use crate::drain::Drain;
use crate::history::Recorder;
use crate::lane::door::LaneDoor;
use crate::lane::LaneReport;
use crate::quiet::Quiet;
use crate::tls::{expired, Certificates, Doors, Shown};
use base_types::{ErrorCode, Refusal};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::watch;

/// Header lines a request may have.
const HEADERS_MAX: usize = 64;
/// Bytes of a request's head, and of the read buffer.
const HEAD_BYTES_MAX: usize = 96 << 10;
/// The pause after the listener itself failed (out of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The answer to a connection over the limit.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n";

/// Bounds of the door.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    pub door: door_http::Limits,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
}

/// What all connections of a thread share.
pub struct HttpDoor {
    pub lanes: Vec<Rc<LaneDoor>>,
    /// Where the node keeps its data.
    pub data: PathBuf,
    /// What is counted of S3 clients, for `/metrics`.
    pub s3: Option<door_s3::Metrics>,
    /// And of etcd's.
    pub etcd: Option<Arc<door_etcd::Metrics>>,
    /// And of Redis clients.
    pub redis: Option<Arc<door_redis::Metrics>>,
    pub limits: HttpLimits,
    /// Of the whole node.
    pub room: Room,
    /// All lanes' numbers.
    pub reports: Vec<Arc<Mutex<LaneReport>>>,
    /// What the console's charts show.
    pub recorder: Arc<Recorder>,
    pub world: String,
    pub node: u64,
    /// The names this node answers to.
    pub hosts: Hosts,
    pub entrance: Entrance,
    pub certificates: Certificates,
    /// Whether clients must show a user's certificate.
    pub certificate_required: bool,
    /// Who may come in.
    pub access: Arc<AccessHub>,
    /// Whether the node is drained.
    pub drain: Arc<Drain>,
    pub state: HttpState,
}

/// What changes.
#[derive(Default)]
pub struct HttpState {
    next_lane: Cell<usize>,
    quiet: Quiet,
    watches: lines::Watches,
}

/// What a connection was let in as.
struct Standing {
    /// Counted while this lives.
    _client: Option<Connection>,
    /// There was no room for clients: it may ask what operators ask.
    operator: Option<Rc<Place>>,
}

/// Who asks, as far as the request's treatment depends on it.
#[derive(Clone)]
struct Caller {
    address: IpAddr,
    operator: Option<Rc<Place>>,
    /// The user whose verified certificate was shown.
    certificate: Option<CertificateName>,
    /// What TLS says against its requests.
    refusal: Option<Rc<str>>,
    /// It came by the Unix socket in the data directory: a program that reaches it is this node's operator.
    local: bool,
}

impl HttpDoor {
    /// Accepts until draining begins.
    pub async fn run(self: Rc<Self>, listener: TcpListener, draining: watch::Receiver<bool>) {
        let mut stop = draining.clone();
        while let Some((stream, peer)) = accept::next(&listener, &mut stop, "http", &self.state.quiet).await {
            let Some(standing) = self.let_in(peer.ip()) else {
                if self.entrance.speaks_plain_text() {
                    let _ = stream.try_write(BUSY);
                }
                continue;
            };
            let (own, draining) = (self.clone(), draining.clone());
            tokio::task::spawn_local(async move {
                // The whole of it moves here, and ends with the connection.
                let standing = standing;
                let served = own.clone().serve(stream, peer, standing.operator.clone(), draining);
                match &standing.operator {
                    None => served.await,
                    Some(place) => tokio::select! { () = served => {} () = place.lost() => {} },
                }
            });
        }
    }

    /// Accepts on the Unix socket of the data directory until draining begins: the way in when all tokens are lost.
    pub async fn run_socket(self: Rc<Self>, listener: UnixListener, draining: watch::Receiver<bool>) {
        let mut stop = draining.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            // Its clients have a share of their own among the connections, as those of one address have.
            let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let Some(standing) = self.let_in(address) else { continue };
            let caller =
                Caller { address, operator: standing.operator.clone(), certificate: None, refusal: None, local: true };
            let (own, draining) = (self.clone(), draining.clone());
            tokio::task::spawn_local(async move {
                let _standing = standing;
                own.serve_guest(DoorStream::Unix(stream), caller, Shown::Nothing, draining).await;
            });
        }
        // A socket that is left would be in the way of who copies the directory.
        if let Some(path) = listener.local_addr().ok().and_then(|address| address.as_pathname().map(Path::to_path_buf))
        {
            let _ = std::fs::remove_file(path);
        }
    }

    fn let_in(&self, from: IpAddr) -> Option<Standing> {
        let client = self.room.http.admit(from);
        if client.is_some() {
            return Some(Standing { _client: client, operator: None });
        }
        if let Some(suppressed) = self.state.quiet.allow() {
            let limit = self.room.http.max();
            tracing::warn!(limit, %from, suppressed, "more connections than limits.connections_max, or more from one address than three quarters of it; only operators' requests are answered on new ones");
        }
        let place = self.room.operators.enter(from)?;
        Some(Standing { _client: None, operator: Some(Rc::new(place)) })
    }

    async fn serve(
        self: Rc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        operator: Option<Rc<Place>>,
        draining: watch::Receiver<bool>,
    ) {
        let header_timeout = self.limits.header_timeout;
        let header_timeout = if operator.is_some() { header_timeout.min(OPERATORS_PATIENCE) } else { header_timeout };
        let Some(guest) = self.entrance.enter(stream, peer, header_timeout).await else { return };
        let Guest { stream, address, shown, .. } = guest;
        let caller = Caller {
            address,
            operator,
            certificate: shown.name().cloned(),
            refusal: shown.refusal(self.certificate_required).map(Rc::from),
            local: false,
        };
        self.serve_guest(stream, caller, shown, draining).await;
    }

    /// Requests of a client that was let in, one after the other.
    async fn serve_guest(
        self: Rc<Self>,
        stream: DoorStream,
        caller: Caller,
        shown: Shown,
        mut draining: watch::Receiver<bool>,
    ) {
        let patience = |limit: Duration| if caller.operator.is_some() { limit.min(OPERATORS_PATIENCE) } else { limit };
        let (header_timeout, body_timeout) = (patience(self.limits.header_timeout), patience(self.limits.body_timeout));
        let lane = self.state.next_lane.get();
        self.state.next_lane.set(lane.wrapping_add(1));
        let door = self.lanes[lane % self.lanes.len()].clone();
        let head = Head::new(self.room.unfinished.holder(caller.address));
        let stream = ClientStream::new(stream, body_timeout, head.clone());
        let (own, keep_alive) = (self.clone(), caller.operator.is_none());
        let service = service_fn(move |request| {
            head.begin();
            let (head, answer) = (head.clone(), routes::answer(own.clone(), door.clone(), caller.clone(), request));
            async move {
                let answer = answer.await;
                head.end();
                answer
            }
        });
        // No pipeline_flush: with it hyper never flushes its answer to a head it cannot parse.
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .keep_alive(keep_alive)
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            biased;
            // Errors are the client's: a bad head, a time that ran out, a connection reset.
            _ = connection.as_mut() => return,
            _ = draining.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
            () = certificate_ends(&shown, self.entrance.doors()) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

/// Ends when the certificate a client has shown does, or is revoked; never for others.
pub(crate) async fn certificate_ends(shown: &Shown, doors: Option<&Doors>) {
    let Shown::User { until, id, .. } = shown else { return std::future::pending().await };
    let revoked = async {
        match doors {
            Some(doors) => doors.revokes(id).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = expired(*until) => {}
        () = revoked => {}
    }
}

/// For who speaks HTTP to a port with TLS.
pub(crate) fn no_tls() -> String {
    let message = "this port speaks TLS: write https:// instead of http://";
    let (_, body) = door_http::write_error(&Refusal::new(ErrorCode::InvalidRequest, message).into());
    let body = String::from_utf8_lossy(&body) + "\n";
    format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests;

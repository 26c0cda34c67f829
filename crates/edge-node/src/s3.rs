//! The S3 gateway's host: threads of its own beside the cores.
//!
//! ```text
//!  socket ─▶ hive-s3-i: hyper ─▶ door-s3 ─┬─▶ NodeMetadata ─letter─▶ a core's thread: LaneDoor::ask
//!                                         └─▶ data store (a directory, or an object store)
//!  hive-s3-0 besides: background (what crashes left, what deletes freed, lifecycle rules)
//! ```
//!
//! Always: connections are bounded apart from the HTTP door's; a client that stops sending or taking bytes, or is too slow at
//! it, is cut off; calls under way are bounded. Held by: `the_slow_are_let_go_and_leave_no_object`, `a_flood_on_one_door_leaves_the_other`. Why not on the cores' threads: decision 0016.
//! Not here: S3 itself (door-s3), what a call does (core-node).

mod background;
mod lifecycle;
mod metadata;
pub mod thread;

pub use metadata::NodeMetadata;

use crate::access::AccessHub;
use crate::clients::{accept, BodyLimit, ClientStream, Entrance, Guest, Head, Room};
use crate::config::{S3Config, S3Data};
use crate::http::{certificate_ends, HttpLimits};
use crate::quiet::Quiet;
use base_types::s3::S3ErrorCode;
use door_s3::store::{DataStore, LocalStore};
use door_s3::{Gateway, Peer, Service, ServiceConfig};
use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderValue, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::StatusCode;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What log lines call it.
const DOOR: &str = "s3";
/// Threads one S3 thread may have waiting for a disk.
pub const BLOCKING_THREADS_MAX: usize = 16;
/// Header lines a request may have: user metadata alone may be dozens.
const HEADERS_MAX: usize = 128;
/// Bytes of a request's head, and of the read buffer.
const HEAD_BYTES_MAX: usize = 96 << 10;
/// What one body counts for at most while it comes: what the gateway keeps of a small object or of a form's fields, and what hyper
/// has read beyond.
const BODY_COUNTED_BYTES: usize = (64 << 10) + HEAD_BYTES_MAX;
/// The answer to a connection over the limit.
const BUSY: &[u8] = b"HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n";

/// Opens the data store a configuration names.
pub async fn open_store(data: &S3Data) -> Result<Arc<dyn DataStore>, String> {
    match data {
        S3Data::Directory(path) => {
            let store = LocalStore::open(path).map_err(|error| error.to_string())?;
            // The directory itself may be a mount that others look into, and a group may share it; what is in it is ours.
            for folder in ["intents", "temp", "data"] {
                crate::private::close(&path.join(folder), 0o007);
            }
            Ok(Arc::new(store))
        }
        S3Data::Url { url, options } => open_url(url, options).await,
    }
}

#[cfg(feature = "s3-object-store")]
async fn open_url(
    url: &str,
    options: &std::collections::BTreeMap<String, String>,
) -> Result<Arc<dyn DataStore>, String> {
    // Of several threads one installs it: the others find it there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let parsed = url::Url::parse(url).map_err(|error| format!("{url}: {error}"))?;
    // As with every client of such stores: what is not said here is taken from the environment.
    let known = ["AWS_", "AZURE_", "GOOGLE_"];
    let environment = std::env::vars().filter(|(name, _)| known.iter().any(|prefix| name.starts_with(prefix)));
    let all = environment.map(|(name, value)| (name.to_lowercase(), value)).chain(options.clone());
    let (store, prefix) = object_store::parse_url_opts(&parsed, all).map_err(|error| format!("{url}: {error}"))?;
    let store: Arc<dyn object_store::ObjectStore> = Arc::new(object_store::prefix::PrefixStore::new(store, prefix));
    let store = door_s3::store::ObjectsStore::open(store).await.map_err(|error| error.to_string())?;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "s3-object-store"))]
async fn open_url(url: &str, _: &std::collections::BTreeMap<String, String>) -> Result<Arc<dyn DataStore>, String> {
    Err(format!("{url}: this build has no object stores; build with the feature s3-object-store, or name a directory"))
}

/// What a body counts for until it is whole: no more of it is ever in memory, and where less is to come, that.
fn counted(body: &Incoming) -> usize {
    let most = body.size_hint().upper().unwrap_or(u64::MAX);
    usize::try_from(most).unwrap_or(usize::MAX).min(BODY_COUNTED_BYTES)
}

/// S3's way to say that there is no room for a body now.
fn slow_down() -> hyper::Response<door_s3::Body> {
    let message = "Unfinished requests take all of limits.unfinished_bytes_max, or one address its three quarters; retry later, or raise it";
    let mut answer = refusal(StatusCode::SERVICE_UNAVAILABLE, S3ErrorCode::SlowDown.name(), message);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

fn certificate_required(reason: &str) -> hyper::Response<door_s3::Body> {
    refusal(StatusCode::FORBIDDEN, S3ErrorCode::AccessDenied.name(), reason)
}

fn refusal(status: StatusCode, code: &str, message: &str) -> hyper::Response<door_s3::Body> {
    let mut answer = hyper::Response::new(door_s3::Body::from(error_xml(code, message)));
    *answer.status_mut() = status;
    let headers = [(CONTENT_TYPE, "application/xml"), (CONNECTION, "close")];
    answer.headers_mut().extend(headers.map(|(name, value)| (name, HeaderValue::from_static(value))));
    answer
}

fn error_xml(code: &str, message: &str) -> String {
    let message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    )
}

/// For who speaks HTTP to a port with TLS.
fn no_tls() -> String {
    let body = error_xml(S3ErrorCode::InvalidRequest.name(), "This port speaks TLS: write https:// instead of http://");
    format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/xml\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The gateway of one node.
pub fn service(
    config: &S3Config,
    metadata: Arc<NodeMetadata>,
    store: Arc<dyn DataStore>,
    access: Arc<AccessHub>,
) -> Result<Service, String> {
    let stale_limit = access.stale_limit();
    let gateway = Gateway::new(metadata, store).with_known_keys(access.clone());
    let gateway = gateway.with_stale_limit(stale_limit).with_older_bucket_defaults(config.older_bucket_defaults);
    let names = ServiceConfig { domains: config.domains.clone(), website_domains: config.website_domains.clone() };
    let service = Service::new(gateway, &names);
    service.map(|service| service.with_sessions(access)).map_err(|error| error.to_string())
}

/// The S3 door of one thread.
pub struct S3Door {
    pub service: Service,
    pub limits: HttpLimits,
    pub entrance: Entrance,
    /// Whether clients must show a user's certificate beside their signatures.
    pub certificate_required: bool,
    /// Of the whole node.
    pub room: Room,
    pub quiet: Quiet,
}

impl S3Door {
    /// Accepts until draining begins.
    pub async fn run(self: Rc<Self>, listener: TcpListener, draining: watch::Receiver<bool>) {
        let mut stop = draining.clone();
        while let Some((stream, peer)) = accept::next(&listener, &mut stop, DOOR, &self.quiet).await {
            let Some(connection) = self.room.s3.admit(peer.ip()) else {
                accept::turned_away(&self.room.s3, peer.ip(), DOOR, &self.quiet);
                if self.entrance.speaks_plain_text() {
                    let _ = stream.try_write(BUSY);
                }
                continue;
            };
            let (own, draining) = (self.clone(), draining.clone());
            tokio::task::spawn_local(async move {
                let _given_back_at_the_end = connection;
                own.serve(stream, peer, draining).await;
            });
        }
    }

    async fn serve(&self, stream: TcpStream, peer: SocketAddr, mut draining: watch::Receiver<bool>) {
        let Some(guest) = self.entrance.enter(stream, peer, self.limits.header_timeout).await else { return };
        let Guest { stream, address, secure, shown } = guest;
        let (peer, refusal) = (Peer { address, secure }, shown.refusal(self.certificate_required).map(Rc::<str>::from));
        let patience = self.limits.body_timeout;
        let head = Head::new(self.room.unfinished.holder(peer.address));
        let stream = ClientStream::new(stream, patience, head.clone());
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            head.begin();
            let (head, service, refusal) = (head.clone(), self.service.clone(), refusal.clone());
            let mut held = self.room.unfinished.holder(peer.address);
            let has_room = held.grow(counted(request.body()));
            async move {
                let answer = if let Some(reason) = refusal {
                    Ok(certificate_required(&reason))
                } else if has_room {
                    let body = |body| door_s3::Body::http_body(BodyLimit::new(body, patience, held));
                    service.answer(request.map(body), peer).await
                } else {
                    Ok(slow_down())
                };
                head.end();
                answer
            }
        });
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
            () = certificate_ends(&shown, self.entrance.doors()) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

#[cfg(test)]
mod tests;

//! One thread of the etcd door, from its runtime to its end.
//!
//! By design: it says once whether it serves; it ends when the node stops. Connections are bounded, a connection has at most
//! [`STREAMS_MAX`] requests under way, and one that answers no ping is cut off.

use super::{compaction, NodeStore};
use crate::clients::gather::{drive, gather};
use crate::clients::{accept, ClientStream, DoorThread, Entrance, Guest, Head, Room};
use crate::config::EtcdConfig;
use crate::cores;
use crate::http::browser::{self, Asked};
use crate::http::{certificate_ends, Hosts, HttpLimits};
use crate::quiet::Quiet;
use crate::tls::Doors;
use door_etcd::{CertificateUser, Connection, EtcdService, Status};
use door_http::HttpError;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::Version;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// What log lines call it.
const DOOR: &str = "etcd";
/// Requests that one connection may have under way, watches' streams among them.
const STREAMS_MAX: u32 = 1_000;
/// What one request may send before it is taken, and all of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// The header lines of a request together.
const HEAD_BYTES_MAX: u32 = 32 << 10;
/// A connection without a word for so long is asked whether it lives, and has so long to answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long streams that do not end by themselves (watches) keep a connection that is being closed.
const DRAIN_MAX: Duration = Duration::from_secs(3);
/// Threads that may wait for a disk: snapshots do.
const BLOCKING_THREADS_MAX: usize = 1;

/// What a thread is made with.
pub struct EtcdPlan {
    pub index: usize,
    pub config: EtcdConfig,
    /// For this node's own work, on the first thread.
    pub store: Arc<NodeStore>,
    /// Each with the door of its namespace, which all threads share.
    pub listeners: Vec<(EtcdService, TcpListener)>,
    pub limits: HttpLimits,
    pub tls: Option<Arc<Doors>>,
    pub certificate_required: bool,
    /// The names browsers may know this node by.
    pub hosts: Hosts,
    pub room: Room,
    /// Told once: this thread serves, or why it cannot.
    pub opened: std::sync::mpsc::Sender<Result<(), String>>,
}

/// Runs a thread to its end.
pub fn run(plan: EtcdPlan, stop: watch::Receiver<bool>, drain: watch::Receiver<bool>) {
    let thread = DoorThread {
        opened: plan.opened.clone(),
        blocking_threads_max: BLOCKING_THREADS_MAX,
        blocking_name: format!("hive-etcd-disk-{}", plan.index),
    };
    thread.run(serve(plan, stop, drain));
}

async fn serve(plan: EtcdPlan, mut stop: watch::Receiver<bool>, drain: watch::Receiver<bool>) -> Result<(), String> {
    cores::gather_answers();
    if let (0, Some(how)) = (plan.index, plan.config.auto_compaction) {
        tokio::task::spawn_local(compaction::run(plan.store, how, stop.clone()));
    }
    let hosts = Rc::new(plan.hosts);
    for (service, listener) in plan.listeners {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(|error| error.to_string())?;
        let entrance = Entrance::new(DOOR, plan.tls.clone(), plan.config.proxies.clone(), super::no_tls);
        let door = EtcdDoor {
            service,
            limits: plan.limits.clone(),
            entrance: entrance.with_http2(),
            certificate_required: plan.certificate_required,
            hosts: hosts.clone(),
            room: plan.room.clone(),
            quiet: Quiet::default(),
        };
        tokio::task::spawn_local(Rc::new(door).run(listener, drain.clone()));
    }
    let _ = plan.opened.send(Ok(()));
    let _ = stop.wait_for(|stop| *stop).await;
    Ok(())
}

/// The door at one listener of one thread.
struct EtcdDoor {
    service: EtcdService,
    limits: HttpLimits,
    entrance: Entrance,
    certificate_required: bool,
    hosts: Rc<Hosts>,
    room: Room,
    quiet: Quiet,
}

/// Runs what a connection needs beside itself on this thread.
#[derive(Clone, Copy)]
struct OnThisThread;

impl<F: std::future::Future + 'static> hyper::rt::Executor<F> for OnThisThread {
    fn execute(&self, work: F) {
        tokio::task::spawn_local(async move { drop(work.await) });
    }
}

impl EtcdDoor {
    /// Accepts until draining begins.
    async fn run(self: Rc<Self>, listener: tokio::net::TcpListener, draining: watch::Receiver<bool>) {
        let mut stop = draining.clone();
        while let Some((stream, peer)) = accept::next(&listener, &mut stop, DOOR, &self.quiet).await {
            let Some(connection) = self.room.etcd.admit(peer.ip()) else {
                accept::turned_away(&self.room.etcd, peer.ip(), DOOR, &self.quiet);
                continue;
            };
            let (own, draining) = (self.clone(), draining.clone());
            tokio::task::spawn_local(async move {
                let _given_back_at_the_end = connection;
                own.serve(stream, peer, draining).await;
            });
        }
    }

    async fn serve(self: Rc<Self>, stream: TcpStream, peer: SocketAddr, mut draining: watch::Receiver<bool>) {
        let Some(guest) = self.entrance.enter(stream, peer, self.limits.header_timeout).await else { return };
        let Guest { stream, address, shown, .. } = guest;
        let head = Head::new(self.room.unfinished.holder(address));
        // Bounded by the windows above, not by the head of the one request that HTTP/1.1 has.
        head.begin();
        let stream = ClientStream::new(stream, self.limits.body_timeout, head);
        let (stream, gathered) = gather(stream);
        let user = shown.name().map(|name| name.user().to_owned());
        let client = Rc::new(Client { user, refusal: shown.refusal(self.certificate_required) });
        let hosts = self.hosts.clone();
        let connection = Connection::new(&self.service);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (connection, client, hosts) = (connection.clone(), client.clone(), hosts.clone());
            // On the heap, for hyper moves what answers a request several times before it runs.
            Box::pin(async move { Ok::<_, Infallible>(answer(&connection, request, &client, &hosts).await) })
        });
        let mut builder = auto::Builder::new(OnThisThread);
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_buf_size(HEAD_BYTES_MAX as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEAD_BYTES_MAX)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            biased;
            // Errors are the client's: a bad head, a time that ran out, a connection reset.
            () = poll_fn(|context| drive(connection.as_mut(), &gathered, context)) => return,
            _ = draining.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
            () = certificate_ends(&shown, self.entrance.doors()) => connection.as_mut().graceful_shutdown(),
        }
        // Streams of watches do not end by themselves.
        let ended = poll_fn(|context| drive(connection.as_mut(), &gathered, context));
        let _ = tokio::time::timeout(DRAIN_MAX, ended).await;
    }
}

/// What a connection has shown of its client.
struct Client {
    /// The user whose certificate it has shown.
    user: Option<String>,
    /// What TLS says against its requests.
    refusal: Option<String>,
}

/// What a request is answered.
async fn answer(
    connection: &Connection,
    request: hyper::Request<Incoming>,
    client: &Client,
    hosts: &Hosts,
) -> hyper::Response<door_etcd::Body> {
    let (mut head, body) = request.into_parts();
    if let Err(status) = may_ask(&head, client, hosts) {
        return door_etcd::refuse(&head.headers, &status);
    }
    if let Some(user) = &client.user {
        head.extensions.insert(CertificateUser(user.clone()));
    }
    connection.answer(hyper::Request::from_parts(head, body)).await
}

/// What anybody may ask, who shows no certificate either: `/health`, and gRPC's own health service.
fn asks_health(path: &str) -> bool {
    path == "/health" || path.starts_with("/grpc.health.v1.Health/")
}

/// Whether the node lives is everybody's to ask. What a browser sends comes by HTTP/1.1 unless the address is https, and is looked at
/// as at the JSON door; over TLS a page of another name meets a certificate that has not its name.
fn may_ask(head: &Parts, client: &Client, hosts: &Hosts) -> Result<(), Status> {
    let asked = if asks_health(head.uri.path()) { Asked::Life } else { Asked::Data };
    if asked == Asked::Life {
        return Ok(());
    }
    if let Some(reason) = &client.refusal {
        return Err(Status::unauthenticated(reason));
    }
    if head.version < Version::HTTP_2 {
        let message = |error: HttpError| Status::permission_denied(format!("hive: {}", error.refusal.message));
        browser::check(head, asked, hosts).map_err(message)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(version: Version, path: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = hyper::Request::post(path).version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let (client, hosts) = (Client { user: None, refusal: None }, Hosts::new(["etcd.internal:2379"]));
        let asked = |version, path: &str, headers: &[(&str, &str)]| {
            may_ask(&head(version, path, headers), &client, &hosts).map_err(|status| status.code() as i32)
        };
        let (old, new) = (Version::HTTP_11, Version::HTTP_2);
        let range = "/v3/kv/range";
        assert_eq!(asked(old, range, &[("host", "127.0.0.1:7301")]), Ok(()));
        assert_eq!(asked(old, range, &[("host", "etcd.internal:2379")]), Ok(()));
        assert_eq!(asked(old, range, &[("host", "rebound.example:7301")]), Err(7));
        assert_eq!(asked(old, range, &[("host", "127.0.0.1:7301"), ("origin", "http://evil.example")]), Err(7));
        assert_eq!(asked(old, range, &[("host", "127.0.0.1:7301"), ("sec-fetch-site", "cross-site")]), Err(7));
        assert_eq!(asked(old, "/health", &[("host", "balancer.example")]), Ok(()));
        // gRPC clients name the node as they like.
        assert_eq!(asked(new, "/etcdserverpb.KV/Range", &[("host", "any.example")]), Ok(()));
    }

    #[test]
    fn who_has_shown_no_certificate_is_told_so() {
        let client = Client { user: None, refusal: Some("show one".into()) };
        let refused = may_ask(&head(Version::HTTP_2, "/etcdserverpb.KV/Range", &[]), &client, &Hosts::default());
        assert_eq!(refused.unwrap_err().code() as i32, 16);
        for path in ["/health", "/grpc.health.v1.Health/Check"] {
            assert!(may_ask(&head(Version::HTTP_2, path, &[]), &client, &Hosts::default()).is_ok());
        }
    }
}

//! One thread of the etcd door, from its runtime to its end.
//!
//! Always: it says once whether it serves; it ends when the node stops. Connections are bounded, a connection has at most
//! [`STREAMS_MAX`] requests under way, and one that answers no ping is cut off.

use super::{compaction, NodeStore};
use crate::clients::{ClientStream, Entrance, Guest, Head, Room};
use crate::config::EtcdConfig;
use crate::http::{certificate_ends, HttpLimits};
use crate::quiet::Quiet;
use crate::tls::Doors;
use door_etcd::{CertificateUser, Connection, EtcdService};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::LocalSet;

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
/// The pause after a listener itself failed (out of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Threads that may wait for a disk: none does.
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
    pub room: Room,
    /// Told once: this thread serves, or why it cannot.
    pub opened: std::sync::mpsc::Sender<Result<(), String>>,
}

/// Runs a thread to its end.
pub fn run(plan: EtcdPlan, stop: watch::Receiver<bool>, drain: watch::Receiver<bool>) {
    let opened = plan.opened.clone();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS_MAX).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return drop(opened.send(Err(error.to_string()))),
    };
    let local = LocalSet::new();
    runtime.block_on(local.run_until(async move {
        if let Err(reason) = serve(plan, stop, drain).await {
            let _ = opened.send(Err(reason));
        }
    }));
    // What is left (connections that did not end in time) is dropped here.
    drop(local);
    runtime.shutdown_timeout(Duration::from_millis(100));
}

async fn serve(plan: EtcdPlan, mut stop: watch::Receiver<bool>, drain: watch::Receiver<bool>) -> Result<(), String> {
    if let (0, Some(how)) = (plan.index, plan.config.auto_compaction) {
        tokio::task::spawn_local(compaction::run(plan.store, how, stop.clone()));
    }
    for (service, listener) in plan.listeners {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(|error| error.to_string())?;
        let entrance = Entrance::new("etcd", plan.tls.clone(), plan.config.proxies.clone(), super::no_tls);
        let door = EtcdDoor {
            service,
            limits: plan.limits.clone(),
            entrance: entrance.with_http2(),
            certificate_required: plan.certificate_required,
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
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if let Some(left_out) = self.quiet.allow() {
                        tracing::warn!(%error, left_out, "accepting etcd clients' connections failed");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(connection) = self.room.etcd.admit(peer.ip()) else {
                if let Some(left_out) = self.quiet.allow() {
                    let (limit, from) = (self.room.etcd.max(), peer.ip());
                    tracing::warn!(limit, %from, left_out, "more connections than limits.connections_max, or more from one address than three quarters of it; an etcd client was turned away");
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

    async fn serve(self: Rc<Self>, stream: TcpStream, peer: SocketAddr, mut draining: watch::Receiver<bool>) {
        let Some(guest) = self.entrance.enter(stream, peer, self.limits.header_timeout).await else { return };
        let Guest { stream, address, shown, .. } = guest;
        let head = Head::new(self.room.unfinished.holder(address));
        // Bounded by the windows above, not by the head of the one request that HTTP/1.1 has.
        head.begin();
        let stream = ClientStream::new(stream, self.limits.body_timeout, head);
        let user: Option<Arc<str>> = shown.name().map(|name| Arc::from(name.user()));
        let refusal: Option<Arc<str>> = shown.refusal(self.certificate_required).map(Arc::from);
        let connection = Connection::new(&self.service);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (connection, user, refusal) = (connection.clone(), user.clone(), refusal.clone());
            async move { Ok::<_, Infallible>(answer(&connection, request, user, refusal).await) }
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
            _ = connection.as_mut() => return,
            _ = draining.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
            () = certificate_ends(&shown, self.entrance.doors()) => connection.as_mut().graceful_shutdown(),
        }
        // Streams of watches do not end by themselves.
        let _ = tokio::time::timeout(DRAIN_MAX, connection).await;
    }
}

/// What a request is answered. `user`: whose certificate the client has shown; `refusal`: what TLS says against it.
async fn answer(
    connection: &Connection,
    mut request: hyper::Request<Incoming>,
    user: Option<Arc<str>>,
    refusal: Option<Arc<str>>,
) -> hyper::Response<door_etcd::Body> {
    // Whether the node lives is everybody's to ask.
    if let Some(reason) = refusal.filter(|_| request.uri().path() != "/health") {
        return door_etcd::refuse(&request, &reason);
    }
    if let Some(user) = user {
        request.extensions_mut().insert(CertificateUser(user.to_string()));
    }
    connection.answer(request).await
}

//! One thread of the Redis door, from its runtime to its end.
//!
//! By design: it says once whether it serves; it ends when the node stops. Connections are bounded, an answer that is not taken in time ends
//! its connection, and one whose client has shown a certificate ends with that certificate.
//! Not here: what a connection may hold (`limits.rs` in door-redis).

use super::NodeDatabase;
use crate::clients::{accept, ClientStream, DoorThread, Entrance, Guest, Head, Room};
use crate::config::RedisConfig;
use crate::cores;
use crate::http::{certificate_ends, HttpLimits};
use crate::quiet::Quiet;
use crate::tls::Doors;
use door_redis::{Door, Metrics};
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// What log lines call it.
const DOOR: &str = "redis";
/// How long a connection that is being closed may take with what it has in hand.
const DRAIN_MAX: Duration = Duration::from_secs(3);
/// Threads that may wait for a disk: none does.
const BLOCKING_THREADS_MAX: usize = 1;

/// What a thread is made with.
pub struct RedisPlan {
    pub config: RedisConfig,
    /// Each with the database of its clients.
    pub listeners: Vec<(Arc<NodeDatabase>, TcpListener)>,
    pub metrics: Arc<Metrics>,
    pub limits: HttpLimits,
    pub tls: Option<Arc<Doors>>,
    pub certificate_required: bool,
    pub room: Room,
    /// Told once: this thread serves, or why it cannot.
    pub opened: std::sync::mpsc::Sender<Result<(), String>>,
}

/// Runs a thread to its end.
pub fn run(plan: RedisPlan, stop: watch::Receiver<bool>, drain: watch::Receiver<bool>) {
    let thread = DoorThread {
        opened: plan.opened.clone(),
        blocking_threads_max: BLOCKING_THREADS_MAX,
        blocking_name: "hive-redis-disk".into(),
    };
    thread.run(serve(plan, stop, drain));
}

async fn serve(plan: RedisPlan, mut stop: watch::Receiver<bool>, drain: watch::Receiver<bool>) -> Result<(), String> {
    cores::gather_answers();
    for (database, listener) in plan.listeners {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(|error| error.to_string())?;
        let own = RedisListener {
            door: Door::start(database, plan.metrics.clone()),
            limits: plan.limits.clone(),
            entrance: Entrance::new(DOOR, plan.tls.clone(), plan.config.proxies.clone(), super::no_tls),
            certificate_required: plan.certificate_required,
            room: plan.room.clone(),
            quiet: Quiet::default(),
        };
        tokio::task::spawn_local(Rc::new(own).run(listener, drain.clone()));
    }
    let _ = plan.opened.send(Ok(()));
    let _ = stop.wait_for(|stop| *stop).await;
    Ok(())
}

/// A connection's bytes of unfinished commands count against the node's bound, as unfinished heads of HTTP do.
struct Unfinished(Arc<Head>);

impl door_redis::Settles for Unfinished {
    fn settled(&self) {
        self.0.begin();
        self.0.end();
    }
}

/// The door at one listener of one thread.
struct RedisListener {
    door: Rc<Door>,
    limits: HttpLimits,
    entrance: Entrance,
    certificate_required: bool,
    room: Room,
    quiet: Quiet,
}

impl RedisListener {
    /// Accepts until draining begins.
    async fn run(self: Rc<Self>, listener: tokio::net::TcpListener, draining: watch::Receiver<bool>) {
        let mut stop = draining.clone();
        while let Some((stream, peer)) = accept::next(&listener, &mut stop, DOOR, &self.quiet).await {
            let Some(connection) = self.room.redis.admit(peer.ip()) else {
                accept::turned_away(&self.room.redis, peer.ip(), DOOR, &self.quiet);
                continue;
            };
            let (own, draining) = (self.clone(), draining.clone());
            tokio::task::spawn_local(async move {
                let _given_back_at_the_end = connection;
                own.serve(stream, peer, draining).await;
            });
        }
    }

    async fn serve(self: Rc<Self>, stream: TcpStream, peer: SocketAddr, draining: watch::Receiver<bool>) {
        let Some(guest) = self.entrance.enter(stream, peer, self.limits.header_timeout).await else { return };
        let Guest { stream, address, shown, .. } = guest;
        let head = Head::new(self.room.unfinished.holder(address));
        let mut stream = ClientStream::new(stream, self.limits.body_timeout, head.clone());
        let unfinished = Unfinished(head);
        if let Some(reason) = shown.refusal(self.certificate_required) {
            let _ = stream.write_all(format!("-NOAUTH {reason}\r\n").as_bytes()).await;
            let _ = stream.shutdown().await;
            return;
        }
        let user = shown.name().map(|name| name.user().to_owned());
        let shown_address = SocketAddr::new(address, peer.port()).to_string();
        let mut stop = draining.clone();
        let overdue = async {
            let _ = stop.wait_for(|stop| *stop).await;
            tokio::time::sleep(DRAIN_MAX).await;
        };
        tokio::select! {
            biased;
            () = door_redis::serve(self.door.clone(), stream, shown_address, user, &unfinished, draining) => {}
            () = certificate_ends(&shown, self.entrance.doors()) => {}
            () = overdue => {}
        }
    }
}

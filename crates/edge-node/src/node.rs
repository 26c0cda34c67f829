//! One node from its configuration: what is opened, in which order, and how it ends.
//!
//! ```text
//! data directory ─▶ certificates ─▶ ports ─▶ threads (each opens its lanes) ─▶ S3 gateway ─▶ serving
//! stop: others take over what it leads (HAND_OVER_MAX) ─▶ no new connections ─▶ requests in hand end (DRAIN_MAX) ─▶ lanes, disks, engines end ─▶ exit 0
//! failure of any lane or helper thread: everything ends at once, exit not 0
//! ```
//!
//! Always: a port is only taken when everything that can refuse the start has been looked at; nothing
//! is served before all lanes of a thread are open.
//! Held by: `a_port_in_use_refuses_the_start`, `a_check_refuses_what_a_start_refuses_and_touches_nothing`.
//! Not here: signals and the exit code (edge-cli calls `run` and `wait_for_signal`).

mod doors;
mod marks;
mod redis;
pub mod run;
mod thread;

use crate::access::sealing::Sealing;
use crate::access::{oidc, AccessHub, Keeper};
use crate::chance;
use crate::clients::{open_files, Room};
use crate::clock::Clock;
use crate::config::Config;
use crate::cores::{Cores, LETTERS_WAITING_MAX};
use crate::data::{DataDirectory, DataError};
use crate::drain::Drain;
use crate::engines::sizes::EngineSizes;
use crate::etcd;
use crate::history::Recorder;
use crate::http::{Hosts, HttpLimits};
use crate::lane::{panic_text, LaneReport, MAILBOX_EVENTS_MAX};
use crate::machine::MachineFactory;
use crate::mailbox::{mailbox, Receiver, Sender};
use crate::monitor::Monitor;
use crate::peers::Own;
use crate::s3;
use crate::tls::{Certificates, TlsError};
use base_types::{BootId, LaneId};
use core_node::api::{Event, NodeConfig};
use core_placement::Door;
use doors::{Named, NamedListeners};
use std::net::{SocketAddr, TcpListener};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// How long requests in hand may take when the node stops.
pub const DRAIN_MAX: Duration = Duration::from_secs(3);
/// Connections the system keeps for us until they are accepted.
const BACKLOG: i32 = 1024;
/// How far the logs have reached is written down this often, where it has changed.
const MARKS_EVERY: Duration = Duration::from_secs(60);
/// What an operator who wrote it is reminded of.
const INSECURE: &str = "insecure = true: who reaches the JSON door can read and change everything, keys of S3 accounts too, and nothing is encrypted on the way";
/// The same where client doors speak TLS.
const INSECURE_WITH_TLS: &str =
    "insecure = true: who reaches the JSON door can read and change everything, keys of S3 accounts too";
/// JSON, S3, etcd and Redis: each has room for `limits.connections_max`.
const CLIENT_DOORS: u64 = 4;

/// Why a node does not start, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot listen on {address} for {door}: {reason}")]
    Listen { door: &'static str, address: SocketAddr, reason: String },
    #[error("lane {lane} cannot be opened: {reason}")]
    Lane { lane: u16, reason: String },
    #[error("the S3 gateway cannot be started: {reason}")]
    S3 { reason: String },
    #[error("the etcd door cannot be started: {reason}")]
    Etcd { reason: String },
    #[error("the Redis door cannot be started: {reason}")]
    Redis { reason: String },
    #[error("thread {name} cannot be started: {reason}")]
    Thread { name: String, reason: String },
    /// It had started; this process must end with an exit code that is not 0.
    #[error("node stopped: {reason}")]
    Failed { reason: String },
}

/// What all threads of a node share; read only, but for the channels.
pub(crate) struct Shared {
    pub config: Config,
    pub data: DataDirectory,
    pub certificates: Certificates,
    pub own: Own,
    pub factory: Box<dyn MachineFactory>,
    pub clock: Clock,
    pub http_advertise: String,
    pub peer_advertise: String,
    /// The doors that the node map names beside the HTTP door.
    pub doors: Vec<Door>,
    pub http_limits: HttpLimits,
    pub room: Room,
    pub access: Arc<AccessHub>,
    pub drain: Arc<Drain>,
    pub mailboxes: Vec<Sender<Event>>,
    /// Who the members of the level 0 clusters were when this node last heard.
    pub remembered: Vec<core_node::api::Announcement>,
    pub reports: Vec<Arc<Mutex<LaneReport>>>,
    /// What the console's charts show.
    pub recorder: Arc<Recorder>,
    /// Requests of S3 clients; none where there is no such door.
    pub s3: Option<door_s3::Metrics>,
    /// Calls of etcd's clients; none where there is no such door.
    pub etcd: Option<Arc<door_etcd::Metrics>>,
    /// Commands of Redis clients; none where there is no such door.
    pub redis: Option<Arc<door_redis::Metrics>>,
    /// Measured where there is an etcd door, whose clients ask.
    pub engine_sizes: Arc<EngineSizes>,
    pub failure: Failure,
}

/// The first failure of a node; the thread that has it stops everything.
#[derive(Clone)]
pub(crate) struct Failure {
    first: Arc<Mutex<Option<String>>>,
    stop: watch::Sender<bool>,
    drain: watch::Sender<bool>,
}

impl Failure {
    pub fn report(&self, reason: String) {
        tracing::error!(%reason, "this node ends");
        if let Ok(mut first) = self.first.lock() {
            first.get_or_insert(reason);
        }
        self.drain.send_replace(true);
        self.stop.send_replace(true);
    }

    /// A helper thread whose panic ends the node.
    pub fn spawn(&self, name: String, work: Box<dyn FnOnce() + Send>) -> std::io::Result<JoinHandle<()>> {
        let failure = self.clone();
        std::thread::Builder::new().name(name.clone()).spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                failure.report(format!("thread {name} panicked: {}", panic_text(&*panic)));
            }
        })
    }
}

/// A node that runs.
pub struct NodeHandle {
    http: SocketAddr,
    peer: SocketAddr,
    s3: Option<SocketAddr>,
    etcd: Option<SocketAddr>,
    redis: Option<SocketAddr>,
    failure: Failure,
    threads: Vec<JoinHandle<()>>,
    monitor_stop: Option<std::sync::mpsc::Sender<()>>,
    marks_stop: Option<std::sync::mpsc::Sender<()>>,
    /// The data directory's lock among others: held until every thread has ended.
    _shared: Arc<Shared>,
}

/// Looks at everything that may refuse a start, as a start does, and leaves all as it is; what it would warn of. Not looked at:
/// what lanes and engines hold, and a gateway's object store. A node that runs on this very directory has its ports, rightly.
pub fn check(config: &Config) -> Result<Vec<String>, StartError> {
    let mut warnings = Vec::new();
    let runs = crate::data::check(&config.data, &config.world, config.node)?;
    let certificates = Certificates::load(config)?;
    warnings.extend(certificates.reasons(i64::try_from(crate::monitor::unix_ms() / 1_000).unwrap_or(i64::MAX)));
    warnings.extend(unnamed(config, &certificates));
    if runs {
        warnings.push(format!(
            "data directory {} is in use: the node runs; its ports were not tried",
            config.data.display()
        ));
    } else {
        listen("http", config.http_listen, 1)?;
        listen("peer", config.peer_listen, 1)?;
        if let Some(s3) = &config.s3 {
            listen("s3", s3.listen, 1)?;
        }
        for (address, _) in config.etcd.iter().flat_map(|etcd| &etcd.listeners) {
            listen("etcd", *address, 1)?;
        }
        for (address, _) in config.redis.iter().flat_map(|redis| &redis.listeners) {
            listen("redis", *address, 1)?;
        }
    }
    if config.insecure {
        warnings.push(insecure(config.tls.is_some()).into());
    }
    for (section, members) in [("world", &config.world_members), ("region", &config.region_members)] {
        if members.len() == 2 {
            warnings.push(format!(
                "[{section}] lists two members: a cluster of two stops when either is down, and cannot mend a lost disk; list 1, 3 or 5"
            ));
        }
    }
    Ok(warnings)
}

impl NodeHandle {
    /// Starts a node; returns when it serves.
    pub fn start(config: Config, factory: Box<dyn MachineFactory>) -> Result<NodeHandle, StartError> {
        let data = DataDirectory::open(&config.data, &config.world, config.node, config.lanes)?;
        let certificates = Certificates::load(&config)?;
        let threads_wanted = config.cores.min(usize::from(data.lanes));
        tell_lanes(&config, &data);
        if config.insecure {
            tracing::warn!("{}", insecure(config.tls.is_some()));
        }
        if let Some(warning) = unnamed(&config, &certificates) {
            tracing::warn!("{warning}");
        }
        let http = listen("http", config.http_listen, threads_wanted)?;
        let peer = listen("peer", config.peer_listen, threads_wanted)?;
        let s3 = match &config.s3 {
            Some(s3) => listen("s3", s3.listen, s3.threads)?,
            None => Vec::new(),
        };
        let named = doors::bind(&config)?;
        let (http_address, peer_address) = (local_address(&http), local_address(&peer));
        let (failure, mailbox_ends, shared, keeper) =
            share(config, data, certificates, factory, http_address, peer_address, &named)?;
        let mut handle = NodeHandle {
            http: http_address,
            peer: peer_address,
            s3: (!s3.is_empty()).then(|| local_address(&s3)),
            etcd: named.etcd.first().map(|(_, listeners)| local_address(listeners)),
            redis: named.redis.first().map(|(_, listeners)| local_address(listeners)),
            failure,
            threads: Vec::new(),
            monitor_stop: None,
            marks_stop: None,
            _shared: shared.clone(),
        };
        let started = handle
            .start_keeper(keeper)
            .and_then(|()| handle.start_threads(&shared, mailbox_ends, Listeners { http, peer, s3, named }));
        if let Err(error) = started {
            let _ = handle.stop();
            return Err(error);
        }
        let shown = |address: Option<SocketAddr>| address.map_or("none".to_owned(), |address| address.to_string());
        let (s3_address, etcd_address, redis_address) = (shown(handle.s3), shown(handle.etcd), shown(handle.redis));
        tracing::info!(world = %shared.own.world, node = shared.own.node.0, http = %http_address, peer = %peer_address, s3 = s3_address, etcd = etcd_address, redis = redis_address, lanes = shared.data.lanes, threads = threads_wanted, fresh = shared.data.fresh, "node started");
        Ok(handle)
    }

    fn start_keeper(&mut self, keeper: Keeper) -> Result<(), StartError> {
        let hub = keeper.hub();
        if !hub.issuers.is_empty() {
            let stop = self.failure.stop.subscribe();
            self.spawn("hive-oidc".into(), Box::new(move || oidc::Issuers::run(&hub, stop)))?;
        }
        let stop = self.failure.stop.subscribe();
        self.spawn("hive-access".into(), Box::new(move || keeper.run(stop)))
    }

    fn start_threads(
        &mut self,
        shared: &Arc<Shared>,
        mut mailbox_ends: Vec<Option<Receiver<Event>>>,
        listeners: Listeners,
    ) -> Result<(), StartError> {
        let threads = listeners.http.len();
        let (opened, openings) = std::sync::mpsc::channel();
        let mut cores = Vec::new();
        for (index, (http, peer)) in listeners.http.into_iter().zip(listeners.peer).enumerate() {
            let mut lanes = Vec::new();
            for lane in (index..mailbox_ends.len()).step_by(threads) {
                lanes.extend(mailbox_ends[lane].take().map(|mailbox| (LaneId(lane as u16), mailbox)));
            }
            let (letters_to, letters) = tokio::sync::mpsc::channel(LETTERS_WAITING_MAX);
            cores.push(letters_to);
            let (shared, opened) = (shared.clone(), opened.clone());
            let plan = thread::Plan { index, threads, lanes, http, peer, letters, shared, opened };
            let (stop, drain) = (self.failure.stop.subscribe(), self.failure.drain.subscribe());
            self.spawn(format!("hive-core-{index}"), Box::new(move || thread::run(plan, stop, drain)))?;
        }
        drop(opened);
        for _ in 0..threads {
            // A thread that panics while opening drops its sender and has reported why.
            openings.recv().map_err(|_| StartError::Failed { reason: self.reason() })??;
        }
        marks::write(&shared.data);
        let cores = Arc::new(Cores::new(cores));
        self.start_s3(shared, &cores, listeners.s3)?;
        self.start_etcd(shared, &cores, listeners.named.etcd)?;
        self.start_redis(shared, &cores, listeners.named.redis)?;
        self.start_marks(shared)?;
        self.start_monitor(shared)
    }

    /// A thread of its own: a disk that hangs must keep nobody else waiting.
    fn start_marks(&mut self, shared: &Arc<Shared>) -> Result<(), StartError> {
        let (stop, stopped) = std::sync::mpsc::channel();
        self.marks_stop = Some(stop);
        let shared = shared.clone();
        self.spawn("hive-marks".into(), Box::new(move || marks::keep(&shared.data, MARKS_EVERY, &stopped)))
    }

    /// The gateway's threads; none where it is not configured.
    fn start_s3(
        &mut self,
        shared: &Arc<Shared>,
        cores: &Arc<Cores>,
        listeners: Vec<TcpListener>,
    ) -> Result<(), StartError> {
        let Some(config) = &shared.config.s3 else { return Ok(()) };
        let (threads, metadata) =
            (listeners.len(), Arc::new(s3::NodeMetadata::new(cores.clone(), shared.access.clone())));
        let (opened, openings) = std::sync::mpsc::channel();
        for (index, listener) in listeners.into_iter().enumerate() {
            let plan = s3::thread::S3Plan {
                index,
                config: config.clone(),
                listener,
                metadata: metadata.clone(),
                access: shared.access.clone(),
                metrics: shared.s3.clone(),
                limits: shared.http_limits.clone(),
                tls: shared.certificates.clients.clone(),
                certificate_required: shared.config.tls.as_ref().is_some_and(|tls| tls.requires_s3_certificates()),
                room: shared.room.clone(),
                node: shared.own.node.0,
                opened: opened.clone(),
            };
            let (stop, drain) = (self.failure.stop.subscribe(), self.failure.drain.subscribe());
            self.spawn(format!("hive-s3-{index}"), Box::new(move || s3::thread::run(plan, stop, drain)))?;
        }
        drop(opened);
        for _ in 0..threads {
            let opening = openings.recv().map_err(|_| StartError::Failed { reason: self.reason() })?;
            opening.map_err(|reason| StartError::S3 { reason })?;
        }
        Ok(())
    }

    /// The etcd door's threads; none where it is not configured.
    fn start_etcd(&mut self, shared: &Arc<Shared>, cores: &Arc<Cores>, listeners: Named) -> Result<(), StartError> {
        let Some(config) = &shared.config.etcd else { return Ok(()) };
        let tokens = Arc::new(etcd::Tokens::new().map_err(|reason| StartError::Etcd { reason })?);
        let (opened, openings) = std::sync::mpsc::channel();
        let mut threads: Vec<Vec<_>> = (0..config.threads).map(|_| Vec::new()).collect();
        let mut first = None;
        for ((namespace, listeners), door) in listeners.into_iter().zip(shared.doors_of(etcd::DOOR_PREFIX)) {
            let store = Arc::new(etcd::NodeStore {
                cores: cores.clone(),
                access: shared.access.clone(),
                tokens: tokens.clone(),
                node: shared.own.node,
                namespace,
                picked: first.is_some(),
                url: door.url.clone(),
                data: shared.data.path.clone(),
                sizes: shared.engine_sizes.clone(),
            });
            first.get_or_insert_with(|| store.clone());
            let metrics = shared.etcd.clone().unwrap_or_default();
            let service = door_etcd::counted_service(store, door_etcd::Limits::default(), metrics);
            for (thread, listener) in threads.iter_mut().zip(listeners) {
                thread.push((service.clone(), listener));
            }
        }
        // The listener for all namespaces is always there.
        let Some(store) = first else { return Ok(()) };
        for (index, listeners) in threads.into_iter().enumerate() {
            let plan = etcd::thread::EtcdPlan {
                index,
                config: config.clone(),
                store: store.clone(),
                listeners,
                limits: shared.http_limits.clone(),
                tls: shared.certificates.clients.clone(),
                certificate_required: shared.config.tls.as_ref().is_some_and(|tls| tls.requires_certificates()),
                hosts: shared.hosts(),
                room: shared.room.clone(),
                opened: opened.clone(),
            };
            let (stop, drain) = (self.failure.stop.subscribe(), self.failure.drain.subscribe());
            self.spawn(format!("hive-etcd-{index}"), Box::new(move || etcd::thread::run(plan, stop, drain)))?;
        }
        drop(opened);
        for _ in 0..config.threads {
            let opening = openings.recv().map_err(|_| StartError::Failed { reason: self.reason() })?;
            opening.map_err(|reason| StartError::Etcd { reason })?;
        }
        Ok(())
    }

    fn start_monitor(&mut self, shared: &Arc<Shared>) -> Result<(), StartError> {
        let recorder = shared.recorder.clone();
        let monitor = Monitor {
            data: shared.data.path.clone(),
            disk_free_bytes_min: shared.config.limits.disk_free_bytes_min,
            lanes: shared.mailboxes.clone(),
            certificates: shared.certificates.clone(),
            engine_sizes: shared.config.etcd.as_ref().map(|_| shared.engine_sizes.clone()),
            on_look: Box::new(move |load, disk| recorder.look(load, disk)),
        };
        let (stop, stopped) = std::sync::mpsc::channel();
        self.monitor_stop = Some(stop);
        self.spawn("hive-monitor".into(), Box::new(move || monitor.run(stopped)))
    }

    fn spawn(&mut self, name: String, work: Box<dyn FnOnce() + Send>) -> Result<(), StartError> {
        let thread = self.failure.spawn(name.clone(), work);
        self.threads.push(thread.map_err(|error| StartError::Thread { name, reason: error.to_string() })?);
        Ok(())
    }

    fn reason(&self) -> String {
        let first = self.failure.first.lock().ok().and_then(|first| first.clone());
        first.unwrap_or_else(|| "a thread ended without saying why".into())
    }

    /// Where clients reach it.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// Where peers reach it.
    pub fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    /// Where etcd clients reach it; nowhere without an etcd door.
    pub fn etcd_address(&self) -> Option<SocketAddr> {
        self.etcd
    }

    /// Where Redis clients reach it; nowhere without a Redis door.
    pub fn redis_address(&self) -> Option<SocketAddr> {
        self.redis
    }

    /// Where S3 clients reach it; nowhere without a gateway.
    pub fn s3_address(&self) -> Option<SocketAddr> {
        self.s3
    }

    /// Reads the files of certificates again; open connections continue.
    pub fn reload_certificates(&self) {
        self._shared.certificates.reload();
    }

    /// Becomes true when the node ends by itself (or is being stopped).
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.failure.stop.subscribe()
    }

    /// Stops it in order: others take over what it leads, no new connections, requests in hand end, then everything else.
    pub fn stop(mut self) -> Result<(), StartError> {
        let failed = self.failure.stop.subscribe();
        self._shared.drain.hand_over(|| *failed.borrow());
        self.failure.drain.send_replace(true);
        let room = &self._shared.room;
        let patience = std::time::Instant::now() + DRAIN_MAX;
        let mut stop = self.failure.stop.subscribe();
        while room.open() > 0 && std::time::Instant::now() < patience && !*stop.borrow_and_update() {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.failure.stop.send_replace(true);
        (self.monitor_stop, self.marks_stop) = (None, None);
        for thread in self.threads.drain(..) {
            // Its panic, if any, has been reported.
            let _ = thread.join();
        }
        let failed = self.failure.first.lock().ok().and_then(|first| first.clone());
        match failed {
            Some(reason) => Err(StartError::Failed { reason }),
            None => {
                // All of it is written by now: an older copy of a log will be known as such, however young it is.
                marks::write(&self._shared.data);
                Ok(())
            }
        }
    }
}

/// The doors' sockets: one of each for each core thread, and one for each thread of the gateway.
struct Listeners {
    http: Vec<TcpListener>,
    peer: Vec<TcpListener>,
    s3: Vec<TcpListener>,
    named: NamedListeners,
}

/// Room for clients: as configured, or as the limit on open files allows.
fn room(limits: &crate::config::LimitsSection) -> Room {
    let descriptors = open_files::raise();
    let connections = open_files::connections(limits.connections_max, CLIENT_DOORS, descriptors);
    if connections < limits.connections_max {
        tracing::warn!(configured = limits.connections_max, allowed = connections, descriptors, "fewer clients' connections than limits.connections_max are allowed at each door: raise the limit on open files (ulimit -n, LimitNOFILE=)");
    }
    Room::new(connections, limits.unfinished_bytes_max)
}

/// Clients compare the host they ask with the certificate.
fn unnamed(config: &Config, certificates: &Certificates) -> Option<String> {
    let host = config.http_advertise.rsplit_once(':').map_or(config.http_advertise.as_str(), |(host, _)| host);
    let named = certificates.clients.as_ref().is_none_or(|doors| doors.current().names(host));
    (!named).then(|| {
        format!("tls.certificate does not name {host}, which http.advertise gives to clients; issue one with `hive ca issue --server … --address {host}`, or advertise a name that it has")
    })
}

fn insecure(tls: bool) -> &'static str {
    if tls {
        INSECURE_WITH_TLS
    } else {
        INSECURE
    }
}

fn tell_lanes(config: &Config, data: &DataDirectory) {
    let lanes = usize::from(data.lanes);
    if lanes < config.cores {
        tracing::warn!(lanes, cores = config.cores, "the data directory has fewer lanes than there are cores; the others stay idle (lanes are fixed when a data directory is made)");
    } else if lanes > config.cores {
        tracing::info!(lanes, cores = config.cores, "several lanes share a core");
    }
}

type Parts = (Failure, Vec<Option<Receiver<Event>>>, Arc<Shared>, Keeper);

fn share(
    config: Config,
    data: DataDirectory,
    certificates: Certificates,
    factory: Box<dyn MachineFactory>,
    http: SocketAddr,
    peer: SocketAddr,
    named: &NamedListeners,
) -> Result<Parts, StartError> {
    let boot = chance::draw().map_err(|error| StartError::Failed { reason: format!("no random numbers: {error}") })?;
    let failure = Failure { first: Arc::default(), stop: watch::Sender::new(false), drain: watch::Sender::new(false) };
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..data.lanes).map(|_| mailbox(MAILBOX_EVENTS_MAX)).unzip();
    // A port of 0 (tests) is known only now.
    let known = |advertise: &str, bound: SocketAddr| {
        if advertise.ends_with(":0") {
            bound.to_string()
        } else {
            advertise.into()
        }
    };
    let (remembered, forgotten) = crate::remembered::read(&data.path);
    if let Some(why) = forgotten {
        tracing::warn!("{why}");
    }
    let sealing = Sealing::load(config.access.sealing_key_file.as_deref());
    let sealing = sealing.map_err(|reason| StartError::Failed { reason })?;
    let (access, keeper, nobody) = AccessHub::open(&config.access, data.path.clone(), &config.world, &senders, sealing);
    if let Some(why) = nobody {
        tracing::error!("{why}");
    }
    let limits = &config.limits;
    let clock = Clock::start();
    if config.tuning.read_leases && !clock.counts_suspension() {
        tracing::warn!("this system has no clock that counts suspension; leases are off, strong reads ask the members");
    }
    let doors = doors::told(&config, certificates.clients.is_some(), named);
    let reports: Vec<Arc<Mutex<LaneReport>>> = (0..data.lanes).map(|_| Arc::default()).collect();
    let room = room(limits);
    let shared = Shared {
        doors,
        own: Own {
            world: config.world.clone(),
            incarnation: Arc::new(data.incarnation().into()),
            level: Arc::new(data.level().0.into()),
            node: config.node,
            boot: BootId(boot),
            lane_count: data.lanes,
        },
        http_advertise: known(&config.http_advertise, http),
        peer_advertise: known(&config.peer_advertise, peer),
        http_limits: HttpLimits {
            door: door_http::Limits { body_bytes_max: limits.body_bytes_max },
            header_timeout: Duration::from_millis(limits.header_timeout_ms),
            body_timeout: Duration::from_millis(limits.body_timeout_ms),
        },
        recorder: Arc::new(Recorder::new(reports.clone(), room.clone())),
        reports,
        room,
        access,
        clock,
        drain: Arc::new(Drain::new(senders.clone())),
        mailboxes: senders,
        remembered,
        s3: config.s3.as_ref().map(|_| door_s3::Metrics::default()),
        etcd: config.etcd.as_ref().map(|_| Arc::default()),
        redis: config.redis.as_ref().map(|_| Arc::default()),
        engine_sizes: Arc::default(),
        failure: failure.clone(),
        config,
        data,
        certificates,
        factory,
    };
    Ok((failure, receivers.into_iter().map(Some).collect(), Arc::new(shared), keeper))
}

impl Shared {
    /// The doors of the node map whose names begin so, in the order of their listeners.
    pub fn doors_of<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = &'s Door> {
        self.doors.iter().filter(move |door| door.name.starts_with(prefix))
    }

    /// The names clients may know this node by.
    pub fn hosts(&self) -> Hosts {
        let own = [&self.http_advertise, &self.peer_advertise];
        Hosts::new(own.into_iter().chain(&self.config.http_names).map(String::as_str))
    }

    /// How many members the world's cluster has: as was last heard, or as is configured, where that may be a hint only.
    fn world_size(&self) -> usize {
        let world = self.remembered.iter().find(|known| known.cluster == base_types::ClusterId(1));
        let heard = world.map_or(0, |known| known.members.iter().filter(|(member, _)| !member.learner).count());
        heard.max(self.config.world_members.len())
    }

    /// What a lane's core gets to know.
    pub fn node_config(&self, lane: LaneId) -> std::io::Result<NodeConfig> {
        let config = &self.config;
        let members = |members: &std::collections::BTreeMap<_, String>| {
            members.iter().map(|(node, address)| (*node, address.clone())).collect()
        };
        Ok(NodeConfig {
            world: config.world.clone(),
            incarnation: self.data.incarnation(),
            superseded_by: self.data.superseded_by(),
            level: self.data.level(),
            level_max: base_types::format_level::LEVEL_MAX,
            node: config.node,
            disk: self.data.disk,
            log_reached: self.data.log_reached(lane.0),
            boot: self.own.boot,
            lane,
            lane_count: self.data.lanes,
            labels: config.labels.clone(),
            peer_address: self.peer_advertise.clone(),
            http_address: self.http_advertise.clone(),
            doors: self.doors.clone(),
            world_members: members(&config.world_members),
            region_members: members(&config.region_members),
            remembered: self.remembered.clone(),
            default_engine: config.engine.default.clone(),
            engines: crate::engines::NAMES.iter().map(|name| (*name).into()).collect(),
            version: base_types::format_level::BUILD_VERSION.into(),
            tuning: core_node::api::Tuning {
                read_leases: config.tuning.read_leases && self.clock.counts_suspension(),
                ..config.core_tuning()
            },
            seed: chance::draw()?,
            s3: config.tuning.s3(self.world_size(), config.s3.as_ref()),
            access: core_node::api::AccessConfig { required: config.access.required, ..Default::default() },
        })
    }
}

/// One listener for each thread, all on one port: the kernel spreads connections over them.
fn listen(door: &'static str, address: SocketAddr, count: usize) -> Result<Vec<TcpListener>, StartError> {
    let refuse = |error: std::io::Error| StartError::Listen {
        door,
        address,
        reason: match error.kind() {
            std::io::ErrorKind::AddrInUse => "another process listens there; stop it, or choose another port".into(),
            _ => error.to_string(),
        },
    };
    // The first without SO_REUSEPORT: with it, two nodes of one user would silently share a port.
    if count > 1 && address.port() != 0 {
        drop(bind(address, false).map_err(refuse)?);
    }
    let first = bind(address, count > 1).map_err(refuse)?;
    let bound = first.local_addr().map_err(refuse)?;
    let mut listeners = vec![first];
    for _ in 1..count {
        listeners.push(bind(bound, true).map_err(refuse)?);
    }
    Ok(listeners)
}

fn bind(address: SocketAddr, share_port: bool) -> std::io::Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if share_port {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn local_address(listeners: &[TcpListener]) -> SocketAddr {
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    listeners.first().and_then(|listener| listener.local_addr().ok()).unwrap_or(unknown)
}

#[cfg(test)]
mod mishaps;
#[cfg(test)]
mod tests;

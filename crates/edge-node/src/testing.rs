//! A node around a stub machine, for the tests of sockets, limits and TLS.

use crate::ca;
use crate::config::{Config, DoorSection, HttpSection, MemberSection, NodeFile};
use crate::machine::{Machine, MachineFactory, Metric, Opened, Value};
use crate::node::NodeHandle;
use base_engine::Engine;
use base_types::action::{Action, ActionResult, Answer, NodeInfo, Response, StatusInfo};
use base_types::s3::S3Action;
use base_types::{NodeId, Tick};
use core_log::LogDisk;
use core_node::api::{Effect, Effects, Event, NodeConfig};
use door_s3::metadata::{MetadataService, OnBehalf};
use door_s3::testing::MemoryMetadata;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[path = "../../../fuzz/common/golden.rs"]
pub mod golden;

/// What a stub saw and does.
#[derive(Clone)]
pub struct Stub {
    events: Arc<Mutex<Sender<String>>>,
    /// Effects its next turn has.
    pub effects: Arc<Mutex<Vec<Effect>>>,
    /// Answers the S3 calls.
    pub metadata: Arc<MemoryMetadata>,
}

struct StubMachine {
    stub: Stub,
    config: NodeConfig,
}

impl Stub {
    pub fn new() -> (Stub, Receiver<String>) {
        let (sender, receiver) = channel();
        let metadata = Arc::new(MemoryMetadata::new("fr-par"));
        (Stub { events: Arc::new(Mutex::new(sender)), effects: Arc::default(), metadata }, receiver)
    }
}

impl Stub {
    /// The memory never waits: one look is enough.
    fn s3(&self, call: S3Action) -> Response {
        let mut asked = self.metadata.call(call, OnBehalf::NODE);
        match asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(answer)) => {
                Ok(Answer { result: ActionResult::S3(answer), at: None, level: None, cluster: None })
            }
            Poll::Ready(Err(refusal)) => Err(refusal.into()),
            Poll::Pending => panic!("the memory waits"),
        }
    }
}

impl MachineFactory for Stub {
    fn open(&self, config: NodeConfig, _: Vec<Arc<dyn Engine>>, disk: &mut dyn LogDisk, _: Tick) -> Opened {
        disk.segments().map_err(|error| error.to_string())?;
        Ok((Box::new(StubMachine { stub: self.clone(), config }), Effects::default()))
    }
}

impl Machine for StubMachine {
    fn step(&mut self, _: Tick, event: Event, effects: &mut Effects) {
        let told = match event {
            Event::Request { ticket, request, .. } => {
                match &request.action {
                    // Never answered.
                    Action::ListNodes => {}
                    Action::ListKeyspaces => panic!("asked to"),
                    Action::S3(call) => {
                        let response = self.stub.s3(call.clone());
                        effects.list.push(Effect::Reply { ticket, response });
                    }
                    Action::Status => effects.list.push(Effect::Reply { ticket, response: Ok(self.status()) }),
                    _ => effects.list.push(Effect::Reply {
                        ticket,
                        response: Ok(Answer { result: ActionResult::Done, at: None, level: None, cluster: None }),
                    }),
                }
                format!("request {}", request.action.name())
            }
            Event::Timer
            | Event::Machine { .. }
            | Event::Clock { .. }
            | Event::DiskFull { .. }
            | Event::Drained { .. } => return,
            Event::Cancel { .. } => "cancel".into(),
            Event::Frame { from, frame } => format!("frame {from} {}", frame.len()),
            Event::PeerUp { node } => format!("up {node}"),
            Event::PeerDown { node } => format!("down {node}"),
            other => format!("{other:?}"),
        };
        let _ = self.stub.events.lock().unwrap().send(told);
    }

    fn finish_turn(&mut self, _: Tick, effects: &mut Effects) {
        effects.list.append(&mut self.stub.effects.lock().unwrap());
    }

    fn next_wake(&self) -> Tick {
        // Looks for effects now and then.
        if self.stub.effects.lock().unwrap().is_empty() {
            Tick::NEVER
        } else {
            Tick(0)
        }
    }

    fn durable_batch(&self) -> u64 {
        1
    }

    fn metrics(&self, out: &mut Vec<Metric>) {
        out.push(Metric { name: "stub", help: "One.", label: None, value: Value::Gauge(1) });
    }

    fn hand_overs_due(&self) -> usize {
        0
    }

    fn busiest(&self, _: usize) -> Vec<core_cluster::api::BusyCluster> {
        Vec::new()
    }
}

impl StubMachine {
    fn status(&self) -> Answer {
        let status = healthy(self.config.world.clone(), self.config.node);
        Answer { result: ActionResult::Status(status), at: None, level: None, cluster: None }
    }
}

/// The status of a node that has nothing to report.
pub fn healthy(world: String, node: NodeId) -> StatusInfo {
    StatusInfo {
        world,
        node,
        ready: true,
        not_ready: Vec::new(),
        degraded: Vec::new(),
        quorum: Vec::new(),
        nodes_up: 1,
        nodes_total: 1,
        clusters: 0,
        leaders: 0,
        quiesced: 0,
        config_cluster: None,
        warnings: Vec::new(),
        log_write_ms: 0,
        certificate_expires_ms: 0,
    }
}

/// What a node that is well has in the node map.
pub fn node_info(id: u64) -> NodeInfo {
    NodeInfo {
        node: NodeId(id),
        up: true,
        draining: false,
        region: String::new(),
        az: String::new(),
        rack: String::new(),
        chassis: String::new(),
        peer_address: String::new(),
        http_address: String::new(),
        doors: Vec::new(),
        score: 0,
        clusters: 0,
        leaders: 0,
        disk: base_types::DiskId(id),
        cores: 1,
        version: String::new(),
        seen_ms_ago: 0,
    }
}

/// A configuration under `home` for node `id` of world `dev`, certificates of `home`'s authority, ports of the system's choice.
pub fn config(home: &Path, id: u64) -> Config {
    if !home.join("ca").exists() {
        ca::init(&home.join("ca"), "dev").unwrap();
    }
    let issued = ca::issue(&home.join("ca"), NodeId(id), &[], 2).unwrap();
    let (listen, advertise) = ("127.0.0.1:0".to_owned(), Some(format!("127.0.0.1:{}", 50_000 + id)));
    let file = NodeFile {
        id,
        data: home.join(format!("data-{id}")),
        insecure: false,
        cores: Some(1),
        first_core: None,
        lanes: None,
        topology: None,
        world: crate::config::WorldSection {
            name: "dev".into(),
            members: vec![MemberSection { id: 99, address: "127.0.0.1:9".into() }],
        },
        region: crate::config::RegionSection { name: "fr-par".into(), members: Vec::new() },
        location: crate::config::LocationSection { az: "1".into(), rack: "1".into(), chassis: "1".into() },
        http: HttpSection {
            listen: listen.clone(),
            advertise: advertise.clone(),
            names: Vec::new(),
            proxies: Vec::new(),
        },
        peer: DoorSection { listen, advertise },
        s3: None,
        etcd: None,
        redis: None,
        certificates: crate::config::CertificatesSection {
            authority: issued.authority,
            certificate: issued.certificate,
            key: issued.key,
            revocations: None,
        },
        tls: None,
        engine: Default::default(),
        access: Default::default(),
        limits: Default::default(),
        tuning: Default::default(),
    };
    let text = file.to_toml().unwrap();
    let mut config = crate::config::check(&home.join("node.toml"), &text, file).unwrap();
    config.engine.lmdb.map_bytes_max = 16 << 20;
    config
}

/// A running stub.
pub fn start(config: Config) -> (NodeHandle, Stub, Receiver<String>) {
    let (stub, events) = Stub::new();
    let node = NodeHandle::start(config, Box::new(stub.clone())).unwrap();
    (node, stub, events)
}

/// The next thing a stub saw that begins with `what`.
pub fn expect(events: &Receiver<String>, what: &str) -> String {
    let patience = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let left = patience.saturating_duration_since(std::time::Instant::now());
        let event = events.recv_timeout(left).unwrap_or_else(|_| panic!("no event {what:?}"));
        if event.starts_with(what) {
            return event;
        }
    }
}

/// Gives client doors TLS: a certificate of an authority of clients in `home`, for `localhost` and 127.0.0.1.
pub fn speak_tls(home: &Path, config: &mut Config) {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let issued = ca::clients::prepare(&home.join("clients"), "dev", &[(config.node, names)], 30).unwrap().remove(0);
    config.tls = Some(crate::config::TlsSection {
        certificate: issued.certificate,
        key: issued.key,
        client_authority: Some(issued.authority),
        client_revocations: None,
        client_certificates: None,
        s3_client_certificates: None,
    });
}

/// A client of doors that speak TLS.
pub struct TlsClient {
    pub config: rustls::ClientConfig,
    /// What it connects from.
    pub from: std::net::Ipv4Addr,
    /// The name it expects in the certificate.
    pub name: &'static str,
}

pub type TlsConnection = rustls::StreamOwned<rustls::ClientConnection, std::net::TcpStream>;

impl TlsClient {
    /// That trusts the authority in `home`; with a user's certificate and key where they are given.
    pub fn new(home: &Path, user: Option<&ca::Issued>) -> TlsClient {
        TlsClient::of_versions(home, user, rustls::DEFAULT_VERSIONS)
    }

    pub fn of_versions(
        home: &Path,
        user: Option<&ca::Issued>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> TlsClient {
        use rustls::pki_types::pem::PemObject;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let chain = |path: &Path| -> Vec<rustls::pki_types::CertificateDer<'static>> {
            rustls::pki_types::CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect()
        };
        let mut roots = rustls::RootCertStore::empty();
        chain(&home.join("clients/ca.pem")).into_iter().for_each(|authority| roots.add(authority).unwrap());
        let builder = rustls::ClientConfig::builder_with_protocol_versions(versions).with_root_certificates(roots);
        let config = match user {
            None => builder.with_no_client_auth(),
            Some(issued) => {
                let key = rustls::pki_types::PrivateKeyDer::from_pem_file(&issued.key).unwrap();
                builder.with_client_auth_cert(chain(&issued.certificate), key).unwrap()
            }
        };
        TlsClient { config, from: std::net::Ipv4Addr::LOCALHOST, name: "localhost" }
    }

    /// A TCP connection from this client's address.
    pub fn dial(&self, to: std::net::SocketAddr) -> std::net::TcpStream {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&std::net::SocketAddr::from((self.from, 0)).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        let stream = std::net::TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// A connection whose handshake is over.
    pub fn connect(&self, to: std::net::SocketAddr) -> std::io::Result<TlsConnection> {
        let name = self.name.try_into().unwrap();
        let mut session = rustls::ClientConnection::new(Arc::new(self.config.clone()), name).unwrap();
        let mut stream = self.dial(to);
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(rustls::StreamOwned::new(session, stream))
    }

    /// Sends bytes and reads to the end.
    pub fn talk(&self, to: std::net::SocketAddr, bytes: &[u8]) -> std::io::Result<String> {
        use std::io::{Read, Write};
        let mut stream = self.connect(to)?;
        stream.write_all(bytes)?;
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Err(error) if answer.is_empty() => Err(error),
            _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    }
}

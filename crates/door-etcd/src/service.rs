//! All services of the door, and what a call of gRPC is on its way to one of them: in time, in its room, counted.
//!
//! Always: a request holds its room until its answer's last byte is sent or dropped; what takes longer than its time is answered, and
//! nothing of it continues here.
//! Not here: connections, and what is no gRPC (`connection.rs`).

use crate::door::Door;
use crate::elections::{ElectionService, LockService};
use crate::health::HealthService;
use crate::limits::{Limits, ANSWER_BYTES_MAX};
use crate::methods::Method;
use crate::metrics::Metrics;
use crate::proto::etcdserverpb as pb;
use crate::proto::v3electionpb::election_server::ElectionServer;
use crate::proto::v3lockpb::lock_server::LockServer;
use crate::status::TIMEOUT;
use crate::store::Store;
use crate::watch::{Hubs, WatchService};
use crate::{auth, cluster, kv, lease, maintenance, watch};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;
use tower_service::Service as _;

/// What a message may be larger in an answer than its rows: headers, counts, framing of many small ones.
const ANSWER_BYTES_MORE: usize = 32 << 20;

/// The door as a service. Cheap to clone.
#[derive(Clone)]
pub struct EtcdService {
    parts: Arc<Parts>,
}

struct Parts {
    door: Arc<Door>,
    metrics: Arc<Metrics>,
    room: Arc<Semaphore>,
    kv: pb::kv_server::KvServer<kv::KvService>,
    lease: pb::lease_server::LeaseServer<lease::LeaseService>,
    cluster: pb::cluster_server::ClusterServer<cluster::ClusterService>,
    maintenance: pb::maintenance_server::MaintenanceServer<maintenance::MaintenanceService>,
    auth: pb::auth_server::AuthServer<auth::AuthService>,
    hubs: Arc<Hubs>,
    watch: pb::watch_server::WatchServer<WatchService>,
    election: ElectionServer<ElectionService>,
    lock: LockServer<LockService>,
    health: HealthServer<HealthService>,
}

/// The door to a store, with counters of its own.
pub fn service(store: Arc<dyn Store>, limits: Limits) -> EtcdService {
    counted_service(store, limits, Arc::default())
}

/// The door to a store, counting with others.
pub fn counted_service(store: Arc<dyn Store>, limits: Limits, metrics: Arc<Metrics>) -> EtcdService {
    let door = Door::new(store, limits);
    let hubs = Hubs::new(door.clone(), watch::Settings::default());
    let (read, write) = (limits.decode_bytes_max(), ANSWER_BYTES_MAX + ANSWER_BYTES_MORE);
    macro_rules! server {
        ($server:path, $service:path) => {{
            use $server as Server;
            Server::new($service(door.clone())).max_decoding_message_size(read).max_encoding_message_size(write)
        }};
    }
    EtcdService {
        parts: Arc::new(Parts {
            metrics,
            room: Arc::new(Semaphore::new(limits.requests_max)),
            kv: server!(pb::kv_server::KvServer, kv::KvService),
            lease: server!(pb::lease_server::LeaseServer, lease::LeaseService),
            cluster: server!(pb::cluster_server::ClusterServer, cluster::ClusterService),
            maintenance: server!(pb::maintenance_server::MaintenanceServer, maintenance::MaintenanceService),
            auth: server!(pb::auth_server::AuthServer, auth::AuthService),
            // Messages with events are as long as their revision.
            watch: pb::watch_server::WatchServer::new(WatchService::new(hubs.clone())).max_decoding_message_size(read),
            election: ElectionServer::new(ElectionService(hubs.clone())).max_decoding_message_size(read),
            lock: LockServer::new(LockService(hubs.clone())).max_decoding_message_size(read),
            health: HealthServer::new(HealthService::new(door.clone())).max_decoding_message_size(read),
            hubs,
            door,
        }),
    }
}

impl EtcdService {
    /// Room for a request of a connection with this room of its own; none: too many are under way.
    pub(crate) fn take_room(&self, own: &Arc<Semaphore>) -> Option<Room> {
        let taken =
            own.clone().try_acquire_owned().ok().and_then(|own| {
                Some(Room { _connection: own, _all: self.parts.room.clone().try_acquire_owned().ok()? })
            });
        if taken.is_none() {
            self.parts.metrics.refuse();
        }
        taken
    }

    /// What was counted.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.parts.metrics
    }

    /// What watches hold.
    pub fn watch_figures(&self) -> watch::Figures {
        self.parts.hubs.figures()
    }

    pub(crate) fn door(&self) -> &Arc<Door> {
        &self.parts.door
    }

    /// Carries out a request of gRPC for a method.
    pub(crate) async fn run(&self, method: &'static Method, request: Request<Body>, room: Room) -> Response<Body> {
        let call = Call { metrics: self.parts.metrics.clone(), method, begun: Instant::now(), code: None, _room: room };
        call.metrics.begin(method.index);
        let response = match self.run_in_time(method, request).await {
            Ok(response) => self.as_grpc_go(response),
            Err(status) => status.into_http(),
        };
        call.watch(response)
    }

    async fn run_in_time(&self, method: &Method, request: Request<Body>) -> Result<Response<Body>, Status> {
        let call_time = self.parts.door.limits.call_time;
        let asked = asked_time(request.headers());
        let request = if method.waits() { self.whole(request).await? } else { request };
        let time = match asked {
            asked if method.waits() => asked,
            asked => Some(asked.map_or(call_time, |asked| asked.min(call_time))),
        };
        let Some(time) = time else { return Ok(self.route(request).await) };
        match tokio::time::timeout(time, self.route(request)).await {
            Ok(response) => Ok(response),
            Err(_) if asked == Some(time) => Err(Status::deadline_exceeded("context deadline exceeded")),
            Err(_) => Err(TIMEOUT.into()),
        }
    }

    /// Reads a request's body to its end: what waits for others is not to wait for its own client, too.
    async fn whole(&self, request: Request<Body>) -> Result<Request<Body>, Status> {
        /// The flag and length before a message.
        const FRAME_BYTES: usize = 5;
        let limits = self.parts.door.limits;
        let (head, body) = request.into_parts();
        let body = Limited::new(body, limits.decode_bytes_max() + FRAME_BYTES).collect();
        let body = tokio::time::timeout(limits.call_time, body).await.map_err(|_| Status::from(TIMEOUT))?;
        let body = body.map_err(|error| Status::resource_exhausted(format!("grpc: received message: {error}")))?;
        Ok(Request::from_parts(head, Body::new(Full::new(body.to_bytes()))))
    }

    /// A message that is too large to be read is called so with the code and the text of etcd's own library.
    fn as_grpc_go(&self, response: Response<Body>) -> Response<Body> {
        const TOO_LARGE: &str = "Error, decoded message length too large: found ";
        let status = Status::from_header_map(response.headers());
        let found = status.as_ref().and_then(|status| status.message().strip_prefix(TOO_LARGE)?.split(' ').next());
        let Some(found) = found else { return response };
        let limit = self.parts.door.limits.decode_bytes_max();
        Status::resource_exhausted(format!("grpc: received message larger than max ({found} vs. {limit})")).into_http()
    }

    async fn route(&self, request: Request<Body>) -> Response<Body> {
        let service = request.uri().path().split('/').nth(1).unwrap_or_default();
        let parts = &self.parts;
        let answered = match service {
            "etcdserverpb.KV" => parts.kv.clone().call(request).await,
            "etcdserverpb.Lease" => parts.lease.clone().call(request).await,
            "etcdserverpb.Cluster" => parts.cluster.clone().call(request).await,
            "etcdserverpb.Maintenance" => parts.maintenance.clone().call(request).await,
            "etcdserverpb.Watch" => parts.watch.clone().call(request).await,
            "v3electionpb.Election" => parts.election.clone().call(request).await,
            "v3lockpb.Lock" => parts.lock.clone().call(request).await,
            "etcdserverpb.Auth" => parts.auth.clone().call(request).await,
            "grpc.health.v1.Health" => parts.health.clone().call(request).await,
            other => Ok(unknown(other).into_http()),
        };
        match answered {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

pub(crate) fn unknown(service: &str) -> Status {
    Status::unimplemented(format!("unknown service {}", service.escape_debug().take(100).collect::<String>()))
}

/// How long a client waits, as `grpc-timeout` says: up to eight digits and a unit.
fn asked_time(headers: &http::HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3_600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// The room that a request takes: of its connection, and of all.
pub(crate) struct Room {
    _connection: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// A call from its beginning to the end of its answer's body.
struct Call {
    metrics: Arc<Metrics>,
    method: &'static Method,
    begun: Instant,
    code: Option<Code>,
    _room: Room,
}

impl Call {
    fn watch(mut self, response: Response<Body>) -> Response<Body> {
        self.code = Status::from_header_map(response.headers()).map(|status| status.code());
        response.map(|body| Body::new(Watched { body, call: self }))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let stream = self.method.many_requests || self.method.many_answers;
        let took = (!stream).then(|| self.begun.elapsed());
        self.metrics.end(self.method.index, self.code.unwrap_or(Code::Cancelled), took);
    }
}

/// An answer's body, with the call that it ends.
struct Watched {
    body: Body,
    call: Call,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
                self.call.code = Some(status.code());
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

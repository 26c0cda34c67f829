//! The service `grpc.health.v1.Health`, which load balancers and clients of etcd ask.
//!
//! Always: SERVING follows a strong read of the listener's namespace that began at most [`CHECK_AGE`] ([`WATCH_EVERY`] for a watch) before,
//! as for `/health`. Anybody may ask, so one read serves all who ask meanwhile, and watches are bounded. As etcd, it knows the service "" only.
//! Not here: what the read is ([`crate::store::Store::healthy`]); who is not asked for a certificate (edge-node).

use crate::door::Door;
use crate::status::TOO_MANY_REQUESTS;
use futures::stream;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// How old the read may be that a check is answered from.
const CHECK_AGE: Duration = Duration::from_millis(250);
/// How often a watch looks: as a watch of a leader (`watch/`) does.
const WATCH_EVERY: Duration = Duration::from_secs(3);
/// Watches at a time.
const WATCHES_MAX: usize = 1_000;

/// The service.
#[derive(Clone)]
pub struct HealthService {
    door: Arc<Door>,
    /// When the last read began, and what came of it. Who holds the lock reads.
    last: Arc<Mutex<Option<(Instant, ServingStatus)>>>,
    watches: Arc<Semaphore>,
}

impl HealthService {
    /// The service of a door.
    pub fn new(door: Arc<Door>) -> HealthService {
        HealthService { door, last: Arc::default(), watches: Arc::new(Semaphore::new(WATCHES_MAX)) }
    }

    /// What a read says that began at most so long before this call.
    async fn status(&self, age: Duration) -> ServingStatus {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((_, status)) = last.filter(|(begun, _)| *begun + age >= asked) {
            return status;
        }
        let begun = Instant::now();
        let status = match self.door.store.healthy().await {
            Ok(()) => ServingStatus::Serving,
            Err(_) => ServingStatus::NotServing,
        };
        *last = Some((begun, status));
        status
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

/// A watch, with what it has said.
struct Watch {
    health: HealthService,
    said: Option<ServingStatus>,
    _place: OwnedSemaphorePermit,
}

impl Watch {
    /// What is new.
    async fn next(mut self) -> Option<(Result<HealthCheckResponse, Status>, Watch)> {
        loop {
            let age = if self.said.is_none() { CHECK_AGE } else { WATCH_EVERY };
            let status = self.health.status(age).await;
            if self.said.replace(status) != Some(status) {
                return Some((Ok(response(status)), self));
            }
            tokio::time::sleep(WATCH_EVERY).await;
        }
    }
}

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if !request.get_ref().service.is_empty() {
            return Err(Status::not_found("unknown service"));
        }
        Ok(Response::new(response(self.status(CHECK_AGE).await)))
    }

    type WatchStream = Pin<Box<dyn futures::Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let Ok(place) = self.watches.clone().try_acquire_owned() else { return Err(TOO_MANY_REQUESTS.into()) };
        let watch = Watch { health: self.clone(), said: None, _place: place };
        if request.get_ref().service.is_empty() {
            return Ok(Response::new(Box::pin(stream::unfold(watch, Watch::next))));
        }
        // The protocol wants the stream to stay: the service may become known. Here none ever does.
        let unknown = stream::unfold(Some(watch), |watch| async move {
            match watch {
                Some(watch) if watch.said.is_none() => {
                    let said = Some(ServingStatus::ServiceUnknown);
                    Some((Ok(response(ServingStatus::ServiceUnknown)), Some(Watch { said, ..watch })))
                }
                _ => std::future::pending().await,
            }
        });
        Ok(Response::new(Box::pin(unknown)))
    }
}

//! The Watch service.
//!
//! Always: who asks is looked up before anything is kept for the stream; there is room for a bounded number of streams.
//! Not here: what a stream does (`stream.rs`).

use super::hub::Hubs;
use super::stream::WatchStream;
use crate::proto::etcdserverpb::watch_server::Watch;
use crate::proto::etcdserverpb::{WatchRequest, WatchResponse};
use crate::status::TOO_MANY_REQUESTS;
use crate::store::Session;
use futures::stream::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::vec;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tonic::{Request, Response, Status, Streaming};

/// The metadata with which a client asks that its stream ends where the cluster has no leader.
const HAS_LEADER: &str = "hasleader";

/// The Watch service of a door.
pub struct WatchService {
    hubs: Arc<Hubs>,
}

/// The messages of a stream. Dropped, it ends its watches.
pub struct Watching {
    messages: mpsc::Receiver<Result<Vec<WatchResponse>, Status>>,
    /// What was received and not given yet.
    ready: vec::IntoIter<WatchResponse>,
    task: AbortHandle,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stream for Watching {
    type Item = Result<WatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(message) = self.ready.next() {
                return Poll::Ready(Some(Ok(message)));
            }
            match ready!(self.messages.poll_recv(context)) {
                Some(Ok(messages)) => self.ready = messages.into_iter(),
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl WatchService {
    /// The service of these hubs.
    pub fn new(hubs: Arc<Hubs>) -> WatchService {
        WatchService { hubs }
    }

    /// Begins a stream. A session that is an error is the answer to each watch that is asked for, as with etcd.
    pub fn open<R>(
        &self,
        session: Result<Session, Status>,
        require_leader: bool,
        requests: R,
    ) -> Result<Watching, Status>
    where
        R: Stream<Item = Result<WatchRequest, Status>> + Send + Unpin + 'static,
    {
        let room = self.hubs.streams.clone().try_acquire_owned().map_err(|_| Status::from(TOO_MANY_REQUESTS))?;
        // One send waits (`stream::MESSAGES_BYTES`), so that a client that takes nothing holds little.
        let (out, messages) = mpsc::channel(1);
        let hub = self.hubs.of(session.as_ref().map_or("", |session| &session.namespace));
        let stream = WatchStream::new(self.hubs.clone(), hub, session, out);
        let task = tokio::spawn(async move {
            stream.run(requests, require_leader).await;
            drop(room);
        });
        Ok(Watching { messages, ready: Vec::new().into_iter(), task: task.abort_handle() })
    }
}

#[async_trait::async_trait]
impl Watch for WatchService {
    type WatchStream = Watching;

    async fn watch(&self, request: Request<Streaming<WatchRequest>>) -> Result<Response<Watching>, Status> {
        let session = self.hubs.door().session(&request).await;
        let require_leader = request.metadata().get(HAS_LEADER).is_some_and(|value| value == "true");
        Ok(Response::new(self.open(session, require_leader, request.into_inner())?))
    }
}

//! The Election service.
//!
//! Always: the leader is the key of the name that was created first; `Proclaim` and `Resign` touch it only if it is the one that
//! the caller was given.
//! Not here: the order of those that wait (`queue.rs`).

use super::queue::{gone, Queue, Withdrawal};
use crate::kv::rows::pair_of;
use crate::proto::etcdserverpb::ResponseHeader;
use crate::proto::v3electionpb::election_server::Election;
use crate::proto::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest, ProclaimResponse,
    ResignRequest, ResignResponse,
};
use crate::revision;
use crate::status::{of_refusal, LEASE_NOT_FOUND};
use crate::store::Place;
use crate::watch::admission::nothing_of;
use crate::watch::{Hubs, Single};
use base_types::versioned::{Pair, Span};
use futures::stream::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tonic::{Request, Response, Status};

/// The service.
pub struct ElectionService(pub Arc<Hubs>);

// Texts of etcd's Go client, which has no gRPC codes for them.
const NOT_LEADER: &str = "election: not leader";
const NO_LEADER_YET: &str = "election: no leader";
const NO_LEADER_KEY: &str = "\"leader\" field must be provided";

/// What `Observe` sends. Dropped, it observes no more.
pub struct Observing {
    messages: mpsc::Receiver<Result<LeaderResponse, Status>>,
    task: AbortHandle,
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stream for Observing {
    type Item = Result<LeaderResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.poll_recv(context)
    }
}

impl ElectionService {
    async fn queue<T>(&self, request: &Request<T>, name: &[u8]) -> Result<Queue, Status> {
        Ok(Queue::new(&self.0, self.0.door().session(request).await?, name))
    }

    fn header(&self, queue: &Queue, place: Place, stamp: u64) -> Option<ResponseHeader> {
        Some(self.0.door().header(&queue.session, place, stamp))
    }
}

#[async_trait::async_trait]
impl Election for ElectionService {
    async fn campaign(&self, request: Request<CampaignRequest>) -> Result<Response<CampaignResponse>, Status> {
        let queue = self.queue(&request, &request.get_ref().name).await?;
        let CampaignRequest { name, lease, value } = request.into_inner();
        let lease = queue.lease(lease).await?;
        let entry = queue.enter(lease, value.clone()).await?;
        let mut withdrawal = Withdrawal::new(&queue, &entry);
        if entry.found.as_ref().is_some_and(|found| found.value != value) {
            let (is_there, ..) = queue.change(&entry.key, entry.created, value, lease).await?;
            if !is_there {
                return Err(Status::unknown(NOT_LEADER));
            }
        }
        // etcd answers such a call that it leads, though its key is gone.
        let (stamp, place) = queue.wait(&entry).await?.ok_or_else(|| Status::from(LEASE_NOT_FOUND))?;
        withdrawal.disarm();
        let rev = revision::of_stamp(entry.created);
        let leader = Some(LeaderKey { name, key: entry.key, rev, lease: lease as i64 });
        Ok(Response::new(CampaignResponse { header: self.header(&queue, place, stamp), leader }))
    }

    async fn proclaim(&self, request: Request<ProclaimRequest>) -> Result<Response<ProclaimResponse>, Status> {
        let queue = self.queue(&request, b"").await?;
        let ProclaimRequest { leader, value } = request.into_inner();
        let LeaderKey { key, rev, lease, .. } = leader.ok_or_else(|| Status::unknown(NO_LEADER_KEY))?;
        let (is_there, stamp, place) = queue.change(&key, created_at(rev), value, lease as u64).await?;
        if !is_there {
            return Err(Status::unknown(NOT_LEADER));
        }
        Ok(Response::new(ProclaimResponse { header: self.header(&queue, place, stamp) }))
    }

    async fn leader(&self, request: Request<LeaderRequest>) -> Result<Response<LeaderResponse>, Status> {
        let queue = self.queue(&request, &request.get_ref().name).await?;
        let (stamp, place, first) = queue.first().await?;
        let Pair { key, row } = first.ok_or_else(|| Status::unknown(NO_LEADER_YET))?;
        let (header, kv) = (self.header(&queue, place, stamp), Some(pair_of(key, row)));
        Ok(Response::new(LeaderResponse { header, kv }))
    }

    type ObserveStream = Observing;

    async fn observe(&self, request: Request<LeaderRequest>) -> Result<Response<Observing>, Status> {
        let queue = self.queue(&request, &request.get_ref().name).await?;
        // One message waits: who does not take is sent the later leaders when it does.
        let (out, messages) = mpsc::channel(1);
        let hubs = self.0.clone();
        let task = tokio::spawn(async move {
            if let Err(status) = observe(&hubs, &queue, &out).await {
                // The client may be gone by now; then there is nobody to tell.
                let _ = out.send(Err(status)).await;
            }
        });
        Ok(Response::new(Observing { messages, task: task.abort_handle() }))
    }

    async fn resign(&self, request: Request<ResignRequest>) -> Result<Response<ResignResponse>, Status> {
        let queue = self.queue(&request, b"").await?;
        let leader = request.into_inner().leader;
        let LeaderKey { key, rev, .. } = leader.ok_or_else(|| Status::unknown(NO_LEADER_KEY))?;
        let (stamp, place) = queue.leave(key, created_at(rev)).await?;
        Ok(Response::new(ResignResponse { header: self.header(&queue, place, stamp) }))
    }
}

/// The stamp of a leader's revision. Of none, one at which nothing was created: an absent key's is 0.
fn created_at(rev: i64) -> u64 {
    match revision::to_stamp(rev) {
        0 => u64::MAX,
        stamp => stamp,
    }
}

type Out = mpsc::Sender<Result<LeaderResponse, Status>>;

/// Sends each leader and each of its proclamations, in order. Before each it is looked whether its client may still read them: a read
/// comes before each leader.
async fn observe(hubs: &Hubs, queue: &Queue, out: &Out) -> Result<(), Status> {
    let door = hubs.door();
    let watch = |span: Span, from: u64| Single::after(hubs, &queue.session.namespace, span, from);
    loop {
        let (stamp, place, first) = queue.first().await?;
        let Some(Pair { key, row }) = first else {
            let span = queue.span();
            let mut any = watch(span, stamp);
            // Whatever it is, the queue is read again.
            if any.next().await.is_err_and(|ended| !ended.is_compacted()) {
                return Err(gone());
            }
            continue;
        };
        let header = Some(door.header(&queue.session, place, stamp));
        let mut leader = watch(Span::One { key: key.clone() }, stamp);
        send(out, LeaderResponse { header, kv: Some(pair_of(key.clone(), row)) }).await?;
        'leads: loop {
            let batch = match leader.next().await {
                Ok(batch) => batch,
                Err(ended) if ended.is_compacted() => break 'leads,
                Err(_) => return Err(gone()),
            };
            door.store.permits(&queue.session, &nothing_of(&queue.span())).map_err(|refusal| of_refusal(&refusal))?;
            for change in batch.changes() {
                let Some(row) = change.after.clone() else { break 'leads };
                let header = Some(door.header(&queue.session, place, change.at.stamp));
                send(out, LeaderResponse { header, kv: Some(pair_of(key.clone(), row)) }).await?;
            }
        }
    }
}

async fn send(out: &Out, message: LeaderResponse) -> Result<(), Status> {
    out.send(Ok(message)).await.map_err(|_| Status::cancelled("the client is gone"))
}

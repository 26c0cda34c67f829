//! The Lease service.
//!
//! Always: an answer about a lease is the cluster's, at its own time; nothing is kept here. Seconds that are left are rounded down, so that
//! a client renews too early rather than too late.
//! Not here: who proposes the end of leases (edge-node).

use crate::door::Door;
use crate::proto::etcdserverpb as pb;
use crate::proto::etcdserverpb::lease_server::Lease;
use crate::status::{unexpected, LEASE_EXISTS, LEASE_NOT_FOUND, LEASE_TTL_TOO_LARGE};
use crate::store::{Place, Session};
use base_types::versioned::{
    Command, LeaseInfo, Query, Reply, LEASES_MAX, LEASE_KEYS_A_STEP_MAX, LEASE_TTL_MS_MAX, PAGE_ROWS_MAX,
};
use base_types::ReadConsistency;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use std::pin::Pin;
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming};

/// The shortest lease, in seconds: etcd's with its default settings.
pub const TTL_MIN: i64 = 2;
/// Numbers that are drawn for one grant.
const DRAWS_MAX: u32 = 8;
/// Steps of one revocation: each deletes up to 4,096 keys. What is left goes with `LeaseExpire`.
const REVOKE_STEPS_MAX: u32 = 100_000;
/// Renewals that a stream sends in one command.
const RENEWALS_MAX: usize = 256;
/// Keys of one lease that an answer lists.
const KEYS_MAX: usize = 1_000_000;

/// The service.
pub struct LeaseService(pub Arc<Door>);

/// The number of a lease; etcd's are signed.
fn number(lease: i64) -> u64 {
    lease as u64
}

fn seconds(ms: u64) -> i64 {
    i64::try_from(ms / 1_000).unwrap_or(i64::MAX)
}

impl LeaseService {
    async fn grant(&self, session: &Session, lease: i64, ttl_ms: u64) -> Result<(Reply, Place), Status> {
        if lease != 0 {
            return self.0.change(session, Command::LeaseGrant { lease: number(lease), ttl_ms }).await;
        }
        let mut refused = Status::from(LEASE_EXISTS);
        for _ in 0..DRAWS_MAX {
            let drawn = (self.0.store.random() & i64::MAX as u64).max(1);
            match self.0.change(session, Command::LeaseGrant { lease: drawn, ttl_ms }).await {
                Err(status) if status.message() == LEASE_EXISTS.text => refused = status,
                answer => return answer,
            }
        }
        Err(refused)
    }

    async fn lookup(
        &self,
        session: &Session,
        lease: i64,
        with_keys: bool,
    ) -> Result<(Option<LeaseInfo>, Vec<Bytes>, Place), Status> {
        let (mut keys, mut keys_after) = (Vec::new(), None);
        loop {
            let limit = if with_keys { PAGE_ROWS_MAX } else { 1 };
            let query = Query::Lease { lease: number(lease), keys_after, limit };
            let (reply, place) = self.0.ask(session, query, ReadConsistency::Strong).await?;
            let Reply::Lease { lease: found, keys: page, more } = reply else { return Err(unexpected("Lease")) };
            if !with_keys {
                return Ok((found, Vec::new(), place));
            }
            keys_after = page.last().cloned();
            keys.extend(page);
            if !more || keys_after.is_none() || keys.len() >= KEYS_MAX {
                return Ok((found, keys, place));
            }
        }
    }
}

/// Renews leases for one stream.
async fn renew(door: &Door, session: &Session, leases: &[i64]) -> Result<Vec<pb::LeaseKeepAliveResponse>, Status> {
    let command = Command::LeaseKeepAlive { leases: leases.iter().copied().map(number).collect() };
    let (reply, place) = door.change(session, command).await?;
    let Reply::Kept { ttls_ms } = reply else { return Err(unexpected("LeaseKeepAlive")) };
    if ttls_ms.len() != leases.len() {
        return Err(unexpected("LeaseKeepAlive"));
    }
    let header = Some(door.header_without_stamp(session, place).await);
    let answer = |(id, ttl_ms): (&i64, u64)| pb::LeaseKeepAliveResponse { header, id: *id, ttl: seconds(ttl_ms) };
    Ok(leases.iter().zip(ttls_ms).map(answer).collect())
}

/// The answers to a stream of renewals; the first error ends it.
fn renewals(
    door: Arc<Door>,
    session: Session,
    requests: impl Stream<Item = Result<pb::LeaseKeepAliveRequest, Status>> + Send + 'static,
) -> impl Stream<Item = Result<pb::LeaseKeepAliveResponse, Status>> + Send {
    let session = Arc::new(session);
    requests.ready_chunks(RENEWALS_MAX).flat_map(move |chunk| {
        let (door, session) = (door.clone(), session.clone());
        futures::stream::once(async move {
            let mut problem = None;
            let mut leases = Vec::with_capacity(chunk.len());
            for request in chunk {
                match request {
                    Ok(request) => leases.push(request.id),
                    Err(status) => problem = Some(status),
                }
            }
            let mut answers: Vec<Result<_, Status>> = match renew(&door, &session, &leases).await {
                Ok(answers) => answers.into_iter().map(Ok).collect(),
                Err(status) => vec![Err(status)],
            };
            answers.extend(problem.map(Err));
            futures::stream::iter(answers)
        })
        .flatten()
    })
}

#[tonic::async_trait]
impl Lease for LeaseService {
    async fn lease_grant(
        &self,
        request: Request<pb::LeaseGrantRequest>,
    ) -> Result<Response<pb::LeaseGrantResponse>, Status> {
        let pb::LeaseGrantRequest { ttl, id } = *request.get_ref();
        let ttl_ms = u64::try_from(ttl.max(TTL_MIN)).unwrap_or(0).saturating_mul(1_000);
        if ttl_ms > LEASE_TTL_MS_MAX {
            return Err(LEASE_TTL_TOO_LARGE.into());
        }
        let session = self.0.session(&request).await?;
        let (reply, place) = self.grant(&session, id, ttl_ms).await?;
        let Reply::Granted { lease, ttl_ms } = reply else { return Err(unexpected("LeaseGrant")) };
        let header = Some(self.0.header_without_stamp(&session, place).await);
        let (id, ttl) = (lease as i64, seconds(ttl_ms));
        Ok(Response::new(pb::LeaseGrantResponse { header, id, ttl, error: String::new() }))
    }

    async fn lease_revoke(
        &self,
        request: Request<pb::LeaseRevokeRequest>,
    ) -> Result<Response<pb::LeaseRevokeResponse>, Status> {
        let session = self.0.session(&request).await?;
        let lease = number(request.get_ref().id);
        let mut last = None;
        for _ in 0..REVOKE_STEPS_MAX {
            let command = Command::LeaseRevoke { lease, limit: LEASE_KEYS_A_STEP_MAX };
            let (stamp, more, place) = match self.0.change(&session, command).await {
                Ok((Reply::Ended { stamp, more, .. }, place)) => (stamp, more, place),
                Ok(_) => return Err(unexpected("LeaseRevoke")),
                // It was ending, and the last step was somebody else's.
                Err(status) if status.message() == LEASE_NOT_FOUND.text && last.is_some() => break,
                Err(status) => return Err(status),
            };
            last = Some((stamp, place));
            if !more {
                break;
            }
        }
        let (stamp, place) = last.ok_or_else(|| unexpected("LeaseRevoke"))?;
        let header = Some(self.0.header(&session, place, stamp));
        Ok(Response::new(pb::LeaseRevokeResponse { header }))
    }

    type LeaseKeepAliveStream = Pin<Box<dyn Stream<Item = Result<pb::LeaseKeepAliveResponse, Status>> + Send>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let session = self.0.session(&request).await?;
        let mut ended = false;
        let answers = renewals(self.0.clone(), session, request.into_inner());
        let answers = answers.take_while(move |answer| {
            let open = !std::mem::replace(&mut ended, answer.is_err());
            futures::future::ready(open)
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<pb::LeaseTimeToLiveRequest>,
    ) -> Result<Response<pb::LeaseTimeToLiveResponse>, Status> {
        let session = self.0.session(&request).await?;
        let pb::LeaseTimeToLiveRequest { id, keys } = *request.get_ref();
        let (found, keys, place) = self.lookup(&session, id, keys).await?;
        let header = Some(self.0.header_without_stamp(&session, place).await);
        let response = match found.filter(|lease| lease.left_ms > 0) {
            Some(LeaseInfo { ttl_ms, left_ms, .. }) => {
                pb::LeaseTimeToLiveResponse { header, id, ttl: seconds(left_ms), granted_ttl: seconds(ttl_ms), keys }
            }
            // As etcd: no error.
            None => pb::LeaseTimeToLiveResponse { header, id, ttl: -1, granted_ttl: 0, keys: Vec::new() },
        };
        Ok(Response::new(response))
    }

    async fn lease_leases(
        &self,
        request: Request<pb::LeaseLeasesRequest>,
    ) -> Result<Response<pb::LeaseLeasesResponse>, Status> {
        let session = self.0.session(&request).await?;
        let (mut leases, mut after) = (Vec::new(), 0);
        loop {
            let query = Query::Leases { after, limit: PAGE_ROWS_MAX };
            let (reply, place) = self.0.ask(&session, query, ReadConsistency::Strong).await?;
            let Reply::Leases { leases: page, more } = reply else { return Err(unexpected("Leases")) };
            after = page.last().map_or(after, |lease| lease.lease);
            let empty = page.is_empty();
            leases.extend(page.into_iter().map(|lease| pb::LeaseStatus { id: lease.lease as i64 }));
            if !more || empty || leases.len() as u64 >= LEASES_MAX {
                let header = Some(self.0.header_without_stamp(&session, place).await);
                return Ok(Response::new(pb::LeaseLeasesResponse { header, leases }));
            }
        }
    }
}

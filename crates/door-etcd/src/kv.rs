//! The KV service: ranges, puts, deletes, transactions, compaction.
//!
//! ```text
//!   request ─▶ check (etcd's errors) ─▶ one Command or Query ─▶ reply ─▶ response at a revision
//! ```
//! Always: a request that changes something is one command, so it is done at one revision or not at all.
//! Not here: what commands mean (core-backends, versioned/).

mod compare;
mod range;
pub(crate) mod rows;
mod span;
mod txn;

pub use span::span_of;

use crate::door::Door;
use crate::proto::etcdserverpb as pb;
use crate::proto::etcdserverpb::kv_server::Kv;
use crate::revision;
use crate::status::{unexpected, COMPACTED, REQUEST_TOO_LARGE};
use crate::store::{Place, Session};
use base_types::versioned::{Command, Committed, Operation, Outcome, Reply, Transaction, COLLECT_ROWS_MAX};
use base_types::ReadConsistency;
use prost::Message;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Steps of `Collect` that a physical compaction runs; what is left goes with later commits.
const COLLECT_STEPS_MAX: u32 = 10_000;

/// The service.
pub struct KvService(pub Arc<Door>);

impl KvService {
    fn check_size(&self, message: &impl Message) -> Result<(), Status> {
        if message.encoded_len() > self.0.limits.request_bytes_max {
            return Err(REQUEST_TOO_LARGE.into());
        }
        Ok(())
    }

    /// Commits one operation; its outcome, and the stamp.
    async fn commit(&self, session: &Session, operation: Operation) -> Result<(Outcome, u64, Place), Status> {
        let transaction = Transaction { then: vec![operation], ..Transaction::default() };
        let (mut committed, stamp, place) = self.commit_all(session, transaction).await?;
        let outcome = committed.results.pop().ok_or_else(|| unexpected("Commit"))?;
        Ok((outcome, stamp, place))
    }

    async fn commit_all(&self, session: &Session, transaction: Transaction) -> Result<(Committed, u64, Place), Status> {
        match self.0.change(session, Command::Commit { transaction }).await? {
            (Reply::Committed { stamp, committed, .. }, place) => Ok((committed, stamp, place)),
            _ => Err(unexpected("Commit")),
        }
    }

    /// Revisions below the first change: there is nothing to forget, unless something was forgotten already.
    async fn compact_nothing(&self, session: &Session) -> Result<pb::CompactionResponse, Status> {
        let (info, place) = self.0.describe(session, ReadConsistency::Strong).await?;
        if info.compacted > 0 {
            return Err(COMPACTED.into());
        }
        Ok(pb::CompactionResponse { header: Some(self.0.header(session, place, info.stamp)) })
    }

    /// Removes what a compaction gave up, until nothing is left that may go.
    async fn collect(&self, session: &Session) -> Result<(), Status> {
        for _ in 0..COLLECT_STEPS_MAX {
            match self.0.change(session, Command::Collect { limit: COLLECT_ROWS_MAX }).await? {
                (Reply::Collected { more: true, .. }, _) => {}
                (Reply::Collected { .. }, _) => return Ok(()),
                _ => return Err(unexpected("Collect")),
            }
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl Kv for KvService {
    async fn range(&self, request: Request<pb::RangeRequest>) -> Result<Response<pb::RangeResponse>, Status> {
        range::check(request.get_ref())?;
        let session = self.0.session(&request).await?;
        Ok(Response::new(range::answer(&self.0, &session, request.get_ref()).await?))
    }

    type RangeStreamStream = range::Stream;

    async fn range_stream(
        &self,
        request: Request<pb::RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        let response = self.range(request).await?.into_inner();
        let part = pb::RangeStreamResponse { range_response: Some(response) };
        Ok(Response::new(Box::pin(futures::stream::once(async move { Ok(part) }))))
    }

    async fn put(&self, request: Request<pb::PutRequest>) -> Result<Response<pb::PutResponse>, Status> {
        txn::check_put(request.get_ref())?;
        self.check_size(request.get_ref())?;
        let session = self.0.session(&request).await?;
        let request = request.into_inner();
        let key = request.key.clone();
        let operation = txn::put(request);
        match self.commit(&session, operation).await? {
            (Outcome::Put { previous }, stamp, place) => Ok(Response::new(pb::PutResponse {
                header: Some(self.0.header(&session, place, stamp)),
                prev_kv: previous.map(|row| rows::pair_of(key, row)),
            })),
            _ => Err(unexpected("Put")),
        }
    }

    async fn delete_range(
        &self,
        request: Request<pb::DeleteRangeRequest>,
    ) -> Result<Response<pb::DeleteRangeResponse>, Status> {
        txn::check_delete(request.get_ref())?;
        let session = self.0.session(&request).await?;
        let operation = txn::delete(request.into_inner());
        match self.commit(&session, operation).await? {
            (Outcome::Deleted { count, previous }, stamp, place) => Ok(Response::new(pb::DeleteRangeResponse {
                header: Some(self.0.header(&session, place, stamp)),
                deleted: rows::count(count),
                prev_kvs: previous.into_iter().map(rows::pair).collect(),
            })),
            _ => Err(unexpected("Delete")),
        }
    }

    async fn txn(&self, request: Request<pb::TxnRequest>) -> Result<Response<pb::TxnResponse>, Status> {
        txn::check(request.get_ref(), self.0.limits.txn_ops_max)?;
        self.check_size(request.get_ref())?;
        let session = self.0.session(&request).await?;
        let request = request.into_inner();
        let (committed, stamp, place) = self.commit_all(&session, txn::transaction(&request)?).await?;
        let header = self.0.header(&session, place, stamp);
        txn::response(&request, committed, header).map(Response::new)
    }

    async fn compact(
        &self,
        request: Request<pb::CompactionRequest>,
    ) -> Result<Response<pb::CompactionResponse>, Status> {
        let session = self.0.session(&request).await?;
        let pb::CompactionRequest { revision, physical } = *request.get_ref();
        if revision < 0 {
            return Err(COMPACTED.into());
        }
        let stamp = revision::to_stamp(revision);
        if stamp == 0 {
            return self.compact_nothing(&session).await.map(Response::new);
        }
        let (reply, place) = self.0.change(&session, Command::Compact { stamp }).await?;
        let Reply::Done { stamp } = reply else { return Err(unexpected("Compact")) };
        if physical {
            self.collect(&session).await?;
        }
        Ok(Response::new(pb::CompactionResponse { header: Some(self.0.header(&session, place, stamp)) }))
    }
}

//! The Lock service.
//!
//! Always: the lock is held while its key is there; the call that has it answers the key.
//! Held by: `one_holds_the_lock_at_a_time`.
//! Not here: the order of those that wait (`queue.rs`).

use super::queue::{Queue, Withdrawal};
use crate::proto::v3lockpb::lock_server::Lock;
use crate::proto::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};
use crate::status::unexpected;
use crate::watch::Hubs;
use base_types::versioned::{Command, Operation, Reply, Span, Transaction};
use bytes::Bytes;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// The service.
pub struct LockService(pub Arc<Hubs>);

/// As etcd says it: an error of its Go client's, without a gRPC code of its own.
fn expired() -> Status {
    Status::unknown("mutex: session is expired")
}

#[async_trait::async_trait]
impl Lock for LockService {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        let door = self.0.door();
        let session = door.session(&request).await?;
        let LockRequest { name, lease } = request.into_inner();
        let queue = Queue::new(&self.0, session, &name);
        let entry = queue.enter(queue.lease(lease).await?, Bytes::new()).await?;
        let mut withdrawal = Withdrawal::new(&queue, &entry);
        let (stamp, place) = queue.wait(&entry).await?.ok_or_else(expired)?;
        withdrawal.disarm();
        let header = Some(door.header(&queue.session, place, stamp));
        Ok(Response::new(LockResponse { header, key: entry.key }))
    }

    async fn unlock(&self, request: Request<UnlockRequest>) -> Result<Response<UnlockResponse>, Status> {
        let door = self.0.door();
        let session = door.session(&request).await?;
        let then = vec![Operation::Delete { span: Span::One { key: request.into_inner().key }, previous: false }];
        let transaction = Transaction { then, ..Transaction::default() };
        let (reply, place) = door.change(&session, Command::Commit { transaction }).await?;
        let Reply::Committed { stamp, .. } = reply else { return Err(unexpected("Commit")) };
        Ok(Response::new(UnlockResponse { header: Some(door.header(&session, place, stamp)) }))
    }
}

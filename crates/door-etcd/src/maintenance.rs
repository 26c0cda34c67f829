//! The Maintenance service: what there is to say of a namespace's cluster, and what needs no maintenance.
//!
//! Always: what is answered with success is true: there are no alarms, nothing to defragment. What Hive does elsewhere is refused with the
//! command that does it.
//! Not here: hashes (`hash.rs`), snapshots (`snapshot.rs`).

use crate::door::Door;
use crate::hash::hash_at;
use crate::proto::etcdserverpb as pb;
use crate::proto::etcdserverpb::maintenance_server::Maintenance;
use crate::proto::ETCD_VERSION;
use crate::revision::{of_stamp, to_stamp};
use crate::snapshot;
use crate::status::{elsewhere, of_refusal, BAD_LEADER_TRANSFEREE};
use base_types::ReadConsistency;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// A size that was measured. `etcdctl endpoint status` divides by it, and ends where it is 0: before the first measurement it is 1.
fn size(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX).max(1)
}

/// The service.
pub struct MaintenanceService(pub Arc<Door>);

impl MaintenanceService {
    /// The hash at a revision, with what it was compacted at.
    async fn hash_of<T>(&self, request: &Request<T>, revision: i64) -> Result<pb::HashKvResponse, Status> {
        let session = self.0.session(request).await?;
        let (info, place) = self.0.describe(&session, ReadConsistency::Eventual).await?;
        let (hash, stamp) = hash_at(&self.0, &session, to_stamp(revision)).await?;
        Ok(pb::HashKvResponse {
            header: Some(self.0.header(&session, place, info.stamp)),
            hash,
            compact_revision: if info.compacted == 0 { -1 } else { of_stamp(info.compacted) },
            hash_revision: of_stamp(stamp),
        })
    }
}

#[tonic::async_trait]
impl Maintenance for MaintenanceService {
    async fn alarm(&self, request: Request<pb::AlarmRequest>) -> Result<Response<pb::AlarmResponse>, Status> {
        let session = self.0.session(&request).await?;
        if request.get_ref().action() == pb::alarm_request::AlarmAction::Activate {
            return Err(elsewhere("no alarm can be raised: a node whose disk is full refuses writes by itself"));
        }
        let (info, place) = self.0.describe(&session, ReadConsistency::Eventual).await?;
        let header = Some(self.0.header(&session, place, info.stamp));
        Ok(Response::new(pb::AlarmResponse { header, alarms: Vec::new() }))
    }

    async fn status(&self, request: Request<pb::StatusRequest>) -> Result<Response<pb::StatusResponse>, Status> {
        let session = self.0.session(&request).await?;
        let (info, place) = self.0.describe(&session, ReadConsistency::Eventual).await?;
        let (members, _) = self.0.store.members(&session).await.map_err(|refusal| of_refusal(&refusal))?;
        let leader = members.iter().find(|member| member.leads).map_or(0, |member| member.id);
        let (total, used) = self.0.store.sizes();
        let errors = if leader == 0 { vec!["etcdserver: no leader".to_string()] } else { Vec::new() };
        Ok(Response::new(pb::StatusResponse {
            header: Some(self.0.header(&session, place, info.stamp)),
            version: ETCD_VERSION.to_string(),
            leader,
            raft_index: place.index,
            raft_applied_index: place.index,
            raft_term: place.term,
            errors,
            storage_version: ETCD_VERSION.to_string(),
            db_size: size(total),
            db_size_in_use: size(used),
            ..Default::default()
        }))
    }

    async fn defragment(
        &self,
        request: Request<pb::DefragmentRequest>,
    ) -> Result<Response<pb::DefragmentResponse>, Status> {
        // Space of compacted history is used again by itself.
        let session = self.0.session(&request).await?;
        let (info, place) = self.0.describe(&session, ReadConsistency::Eventual).await?;
        let header = Some(self.0.header(&session, place, info.stamp));
        Ok(Response::new(pb::DefragmentResponse { header }))
    }

    async fn hash(&self, request: Request<pb::HashRequest>) -> Result<Response<pb::HashResponse>, Status> {
        let pb::HashKvResponse { header, hash, .. } = self.hash_of(&request, 0).await?;
        Ok(Response::new(pb::HashResponse { header, hash }))
    }

    async fn hash_kv(&self, request: Request<pb::HashKvRequest>) -> Result<Response<pb::HashKvResponse>, Status> {
        let revision = request.get_ref().revision;
        self.hash_of(&request, revision).await.map(Response::new)
    }

    type SnapshotStream = snapshot::Stream;

    async fn snapshot(&self, request: Request<pb::SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        let session = self.0.session(&request).await?;
        snapshot::stream(self.0.clone(), session).await.map(Response::new)
    }

    async fn move_leader(
        &self,
        request: Request<pb::MoveLeaderRequest>,
    ) -> Result<Response<pb::MoveLeaderResponse>, Status> {
        self.0.session(&request).await?;
        let mut status = Status::from(BAD_LEADER_TRANSFEREE);
        if let Ok(text) = "leaders are moved by `hive ctl cluster transfer`".parse() {
            status.metadata_mut().insert("hive-message", text);
        }
        Err(status)
    }

    async fn downgrade(
        &self,
        request: Request<pb::DowngradeRequest>,
    ) -> Result<Response<pb::DowngradeResponse>, Status> {
        self.0.session(&request).await?;
        Err(elsewhere(
            "there is no etcd here to downgrade; docs/guides/operations/upgrade.md says how versions of Hive change",
        ))
    }
}

//! The Cluster service: the nodes that serve the namespace. They are changed by `hive ctl`, never by a client of etcd.
//!
//! Always: a change is refused with the command that does it.

use crate::door::Door;
use crate::proto::etcdserverpb as pb;
use crate::proto::etcdserverpb::cluster_server::Cluster;
use crate::status::{elsewhere, of_refusal};
use crate::store::Member;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// The service.
pub struct ClusterService(pub Arc<Door>);

const CHANGED_ELSEWHERE: &str =
    "members are nodes of the world: a new node joins when it starts, `hive ctl cluster move` moves a \
     replica, `hive ctl node remove` removes a node that is gone (`hive ctl --help` lists all)";

fn member(member: Member) -> pb::Member {
    let Member { id, name, client_urls, peer_urls, .. } = member;
    pb::Member { id, name, peer_ur_ls: peer_urls, client_ur_ls: client_urls, is_learner: false }
}

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn member_add(
        &self,
        request: Request<pb::MemberAddRequest>,
    ) -> Result<Response<pb::MemberAddResponse>, Status> {
        self.0.session(&request).await?;
        Err(elsewhere(CHANGED_ELSEWHERE))
    }

    async fn member_remove(
        &self,
        request: Request<pb::MemberRemoveRequest>,
    ) -> Result<Response<pb::MemberRemoveResponse>, Status> {
        self.0.session(&request).await?;
        Err(elsewhere(CHANGED_ELSEWHERE))
    }

    async fn member_update(
        &self,
        request: Request<pb::MemberUpdateRequest>,
    ) -> Result<Response<pb::MemberUpdateResponse>, Status> {
        self.0.session(&request).await?;
        Err(elsewhere(CHANGED_ELSEWHERE))
    }

    async fn member_list(
        &self,
        request: Request<pb::MemberListRequest>,
    ) -> Result<Response<pb::MemberListResponse>, Status> {
        let session = self.0.session(&request).await?;
        let (members, place) = self.0.store.members(&session).await.map_err(|refusal| of_refusal(&refusal))?;
        let header = Some(self.0.header_without_stamp(&session, place).await);
        Ok(Response::new(pb::MemberListResponse { header, members: members.into_iter().map(member).collect() }))
    }

    async fn member_promote(
        &self,
        request: Request<pb::MemberPromoteRequest>,
    ) -> Result<Response<pb::MemberPromoteResponse>, Status> {
        self.0.session(&request).await?;
        Err(elsewhere(CHANGED_ELSEWHERE))
    }
}

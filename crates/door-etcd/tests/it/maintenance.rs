//! Maintenance and Cluster.

use super::*;
use pb::cluster_client::ClusterClient;
use pb::maintenance_client::MaintenanceClient;

#[tokio::test]
async fn status_is_true_where_it_is_known() {
    let bed = Bed::new();
    bed.put("a", "1").await;
    let mut client = MaintenanceClient::new(bed.connection());
    let status = client.status(pb::StatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.leader, status.raft_term, status.raft_index), (1, 3, 1));
    // `etcdctl endpoint status` divides by the size.
    assert_eq!((status.db_size, status.db_size_in_use), (1, 1), "nothing was measured yet");
    bed.store.take_bytes(8_192);
    let measured = client.status(pb::StatusRequest {}).await.unwrap().into_inner();
    assert_eq!((measured.db_size, measured.db_size_in_use), (8_192, 4_096));
    assert_eq!((status.header.unwrap().revision, &status.version[..]), (2, "3.6.0"));
    assert!(client.alarm(pb::AlarmRequest::default()).await.unwrap().into_inner().alarms.is_empty());
    let raise = pb::AlarmRequest { action: pb::alarm_request::AlarmAction::Activate as i32, ..Default::default() };
    assert_eq!(client.alarm(raise).await.unwrap_err().code(), Code::Unimplemented);
    client.defragment(pb::DefragmentRequest {}).await.unwrap();
    let text = "etcdserver: bad leader transferee";
    refused(client.move_leader(pb::MoveLeaderRequest { target_id: 2 }).await, Code::FailedPrecondition, text);
    let mut snapshot = client.snapshot(pb::SnapshotRequest {}).await.unwrap().into_inner();
    let first = snapshot.message().await.unwrap().unwrap();
    assert_eq!((first.header.unwrap().revision, &first.version[..], first.blob.len() % 4_096), (2, "3.6.0", 0));
    let sum = snapshot.message().await.unwrap().unwrap();
    assert_eq!((first.remaining_bytes, sum.blob.len()), (0, 32));
    assert!(snapshot.message().await.unwrap().is_none());
    assert_eq!(client.downgrade(pb::DowngradeRequest::default()).await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn hashes_follow_the_data() {
    let bed = Bed::new();
    let mut client = MaintenanceClient::new(bed.connection());
    let mut hash = async |revision| client.hash_kv(pb::HashKvRequest { revision }).await.map(|hash| hash.into_inner());
    bed.put("a", "1").await;
    let first = hash(0).await.unwrap();
    assert_eq!((first.hash_revision, first.compact_revision), (2, -1));
    bed.put("a", "2").await;
    let second = hash(0).await.unwrap();
    assert_ne!(first.hash, second.hash);
    assert_eq!(hash(2).await.unwrap().hash, first.hash);
    refused(hash(9).await, Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision");
    let whole = client.hash(pb::HashRequest {}).await.unwrap().into_inner();
    assert_eq!(whole.hash, second.hash);
}

#[tokio::test]
async fn members_are_nodes() {
    let bed = Bed::new();
    let mut client = ClusterClient::new(bed.connection());
    let list = client.member_list(pb::MemberListRequest::default()).await.unwrap().into_inner();
    assert_eq!(list.header.unwrap().cluster_id, 7);
    let names: Vec<_> = list.members.iter().map(|member| (&member.name[..], &member.client_ur_ls[0][..])).collect();
    assert_eq!(names[0], ("node-1", "http://127.0.0.1:2379"));
    assert_eq!(names.len(), 3);
    let add = client.member_add(pb::MemberAddRequest::default()).await.unwrap_err();
    assert!(add.code() == Code::Unimplemented && add.message().contains("hive ctl"));
    for status in [
        client.member_remove(pb::MemberRemoveRequest::default()).await.map(drop),
        client.member_update(pb::MemberUpdateRequest::default()).await.map(drop),
        client.member_promote(pb::MemberPromoteRequest::default()).await.map(drop),
    ] {
        assert_eq!(status.unwrap_err().code(), Code::Unimplemented);
    }
}

//! Ranges, puts, deletes, compaction.

use super::*;
use base_types::access::Caller;
use base_types::ErrorCode;
use door_etcd::door::Door;
use door_etcd::store::{Place, Session};
use door_etcd::testing::NAMESPACE;
use pb::range_request::{SortOrder, SortTarget};

#[tokio::test]
async fn fresh_namespace_is_at_revision_one() {
    let bed = Bed::new();
    let empty = bed.range(all()).await.unwrap();
    assert_eq!((empty.header.unwrap().revision, empty.count, empty.kvs.len()), (1, 0, 0));
    let header = bed.kv().put(put("a", "1")).await.unwrap().into_inner().header.unwrap();
    assert_eq!((header.revision, header.cluster_id, header.member_id, header.raft_term), (2, 7, 1, 3));
    let got = bed.range(one("a")).await.unwrap();
    let kv = &got.kvs[0];
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version, &kv.value[..]), (2, 2, 1, &b"1"[..]));
    assert_eq!(bed.put("a", "2").await, 3);
    let kv = bed.range(one("a")).await.unwrap().kvs.remove(0);
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (2, 3, 2));
}

#[tokio::test]
async fn range_end_has_three_forms() {
    let bed = Bed::new();
    for key in ["a", "b", "ba", "c"] {
        bed.put(key, "v").await;
    }
    let range =
        |key: &str, end: &str| pb::RangeRequest { key: bytes(key), range_end: bytes(end), ..Default::default() };
    for (key, end, expected) in [
        ("b", "", &["b"][..]),
        ("b", "c", &["b", "ba"]),
        ("b", "\0", &["b", "ba", "c"]),
        ("\0", "\0", &["a", "b", "ba", "c"]),
        ("c", "b", &[]),
        ("b", "b", &[]),
    ] {
        let got = bed.range(range(key, end)).await.unwrap();
        assert_eq!(keys(&got), expected, "{key:?} to {end:?}");
        assert_eq!(got.count, expected.len() as i64);
    }
}

#[tokio::test]
async fn limit_count_and_more() {
    let bed = Bed::new();
    for key in ["a", "b", "c"] {
        bed.put(key, "v").await;
    }
    let got = bed.range(pb::RangeRequest { limit: 2, ..all() }).await.unwrap();
    assert_eq!((keys(&got), got.more, got.count), (vec!["a".into(), "b".into()], true, 3));
    let got = bed.range(pb::RangeRequest { limit: 3, ..all() }).await.unwrap();
    assert_eq!((got.kvs.len(), got.more, got.count), (3, false, 3));
    let got = bed.range(pb::RangeRequest { limit: -1, ..all() }).await.unwrap();
    assert_eq!((got.kvs.len(), got.more, got.count), (3, false, 3));
    let got = bed.range(pb::RangeRequest { count_only: true, limit: 1, ..all() }).await.unwrap();
    assert_eq!((got.kvs.len(), got.more, got.count), (0, false, 3));
    let got = bed.range(pb::RangeRequest { keys_only: true, ..all() }).await.unwrap();
    assert!(got.kvs.len() == 3 && got.kvs.iter().all(|kv| kv.value.is_empty() && kv.mod_revision > 1));
    let got = bed.range(pb::RangeRequest { serializable: true, ..all() }).await.unwrap();
    assert_eq!(got.count, 3);
}

#[tokio::test]
async fn sorting_by_every_target() {
    let bed = Bed::new();
    for (key, value) in [("c", "1"), ("a", "3"), ("b", "2"), ("a", "0")] {
        bed.put(key, value).await;
    }
    let sorted = |target, order| pb::RangeRequest { sort_target: target as i32, sort_order: order as i32, ..all() };
    for (target, order, expected) in [
        (SortTarget::Key, SortOrder::None, "abc"),
        (SortTarget::Key, SortOrder::Descend, "cba"),
        (SortTarget::Version, SortOrder::Descend, "abc"),
        (SortTarget::Create, SortOrder::Ascend, "cab"),
        (SortTarget::Mod, SortOrder::None, "cba"),
        (SortTarget::Value, SortOrder::Ascend, "acb"),
    ] {
        let got = bed.range(sorted(target, order)).await.unwrap();
        assert_eq!(keys(&got).concat(), expected, "{target:?} {order:?}");
        // Sorted first, cut then; and by value also where no value is wanted.
        let cut = pb::RangeRequest { limit: 1, keys_only: true, ..sorted(target, order) };
        let got = bed.range(cut).await.unwrap();
        assert_eq!((keys(&got).concat(), got.more, got.count), (expected[..1].to_string(), true, 3));
        assert!(got.kvs[0].value.is_empty());
    }
    let wrong = pb::RangeRequest { sort_order: 9, ..all() };
    refused(bed.range(wrong).await, Code::InvalidArgument, "etcdserver: invalid sort option");
}

#[tokio::test]
async fn filters_by_revision() {
    let bed = Bed::new();
    for (key, value) in [("a", "1"), ("b", "1"), ("a", "2")] {
        bed.put(key, value).await;
    }
    for (request, expected) in [
        (pb::RangeRequest { min_mod_revision: 4, ..all() }, "a"),
        (pb::RangeRequest { max_mod_revision: 3, ..all() }, "b"),
        (pb::RangeRequest { max_mod_revision: 1, ..all() }, ""),
        (pb::RangeRequest { max_mod_revision: -1, ..all() }, ""),
        (pb::RangeRequest { min_create_revision: 3, ..all() }, "b"),
        (pb::RangeRequest { max_create_revision: 2, ..all() }, "a"),
        (pb::RangeRequest { min_mod_revision: 1, ..all() }, "ab"),
    ] {
        let got = bed.range(request.clone()).await.unwrap();
        assert_eq!((keys(&got).concat(), got.count), (expected.to_string(), 2), "{request:?}");
    }
}

#[tokio::test]
async fn reads_of_the_past() {
    let bed = Bed::new();
    assert_eq!(bed.put("a", "1").await, 2);
    assert_eq!(bed.put("a", "2").await, 3);
    let at = |revision| pb::RangeRequest { revision, ..one("a") };
    let got = bed.range(at(2)).await.unwrap();
    assert_eq!((&got.kvs[0].value[..], got.header.unwrap().revision), (&b"1"[..], 3));
    let got = bed.range(at(1)).await.unwrap();
    assert_eq!((got.kvs.len(), got.header.unwrap().revision), (0, 3));
    assert_eq!(&bed.range(at(-5)).await.unwrap().kvs[0].value[..], b"2");
    let text = "etcdserver: mvcc: required revision is a future revision";
    refused(bed.range(at(4)).await, Code::OutOfRange, text);
}

#[tokio::test]
async fn compaction_forgets_what_lies_below() {
    let bed = Bed::new();
    for value in ["1", "2", "3"] {
        bed.put("a", value).await;
    }
    let compact = |revision, physical| {
        let mut kv = bed.kv();
        async move { kv.compact(pb::CompactionRequest { revision, physical }).await.map(|done| done.into_inner()) }
    };
    let compacted = "etcdserver: mvcc: required revision has been compacted";
    let future = "etcdserver: mvcc: required revision is a future revision";
    assert_eq!(compact(1, false).await.unwrap().header.unwrap().revision, 4);
    assert_eq!(compact(3, true).await.unwrap().header.unwrap().revision, 4);
    let at = |revision| pb::RangeRequest { revision, ..one("a") };
    refused(bed.range(at(2)).await, Code::OutOfRange, compacted);
    refused(bed.range(at(1)).await, Code::OutOfRange, compacted);
    assert_eq!(&bed.range(at(3)).await.unwrap().kvs[0].value[..], b"2");
    for revision in [-1, 0, 1, 3] {
        refused(compact(revision, false).await, Code::OutOfRange, compacted);
    }
    refused(compact(5, false).await, Code::OutOfRange, future);
}

#[tokio::test]
async fn put_options() {
    let bed = Bed::new();
    let mut kv = bed.kv();
    let missing = pb::PutRequest { ignore_value: true, ..put("a", "") };
    refused(kv.put(missing.clone()).await, Code::InvalidArgument, "etcdserver: key not found");
    bed.put("a", "1").await;
    let got = kv.put(pb::PutRequest { prev_kv: true, ..put("a", "2") }).await.unwrap().into_inner();
    assert_eq!(got.prev_kv.map(|kv| (kv.value, kv.mod_revision)), Some((bytes("1"), 2)));
    kv.put(missing).await.unwrap();
    let kept = bed.range(one("a")).await.unwrap().kvs.remove(0);
    assert_eq!((kept.value, kept.version), (bytes("2"), 3));
    let wrong = pb::PutRequest { ignore_value: true, ..put("a", "3") };
    refused(kv.put(wrong).await, Code::InvalidArgument, "etcdserver: value is provided");
    let wrong = pb::PutRequest { ignore_lease: true, lease: 1, ..put("a", "3") };
    refused(kv.put(wrong).await, Code::InvalidArgument, "etcdserver: lease is provided");
    let wrong = pb::PutRequest { lease: 99, ..put("a", "3") };
    refused(kv.put(wrong).await, Code::NotFound, "etcdserver: requested lease not found");
    let empty = "etcdserver: key is not provided";
    refused(kv.put(put("", "3")).await, Code::InvalidArgument, empty);
    refused(kv.range(one("")).await, Code::InvalidArgument, empty);
    refused(kv.delete_range(pb::DeleteRangeRequest::default()).await, Code::InvalidArgument, empty);
}

#[tokio::test]
async fn delete_counts_and_shows_what_was() {
    let bed = Bed::new();
    for key in ["a", "b", "c"] {
        bed.put(key, key).await;
    }
    let delete = pb::DeleteRangeRequest { key: bytes("a"), range_end: bytes("c"), prev_kv: true };
    let got = bed.kv().delete_range(delete.clone()).await.unwrap().into_inner();
    assert_eq!((got.deleted, got.prev_kvs.len(), got.header.unwrap().revision), (2, 2, 5));
    assert_eq!(got.prev_kvs[1].value, bytes("b"));
    // Nothing is there any more: no new revision.
    let got = bed.kv().delete_range(delete).await.unwrap().into_inner();
    assert_eq!((got.deleted, got.header.unwrap().revision), (0, 5));
}

#[tokio::test]
async fn large_ranges_come_whole() {
    let bed = Bed::new();
    let value = "v".repeat(500_000);
    for number in 0..30 {
        bed.put(&format!("k{number:02}"), &value).await;
    }
    let before = bed.store.asked();
    let got = bed.range(all()).await.unwrap();
    assert_eq!((got.kvs.len(), got.count, got.more), (30, 30, false));
    assert!(bed.store.asked() - before >= 4, "one page holds 4 MiB");
    assert!(got.kvs.iter().all(|kv| kv.value.len() == value.len()));
    let got = bed.range(pb::RangeRequest { limit: 20, ..all() }).await.unwrap();
    assert_eq!((got.kvs.len(), got.count, got.more), (20, 30, true));
    let got = bed.range(pb::RangeRequest { limit: 3, sort_order: SortOrder::Descend as i32, ..all() }).await.unwrap();
    assert_eq!((keys(&got), got.count, got.more), (vec!["k29".into(), "k28".into(), "k27".into()], 30, true));
}

#[tokio::test]
async fn counts_go_beyond_one_page() {
    let bed = Bed::new();
    for block in 0..250 {
        let op = |number: usize| pb::RequestOp {
            request: Some(pb::request_op::Request::RequestPut(put(&format!("k{:05}", block * 100 + number), ""))),
        };
        bed.kv().txn(pb::TxnRequest { success: (0..100).map(op).collect(), ..Default::default() }).await.unwrap();
    }
    let got = bed.range(pb::RangeRequest { count_only: true, ..all() }).await.unwrap();
    assert_eq!((got.count, got.kvs.len()), (25_000, 0));
    let got = bed.range(pb::RangeRequest { limit: 10, ..all() }).await.unwrap();
    assert_eq!((got.count, got.kvs.len(), got.more), (25_000, 10, true));
    let got = bed.range(pb::RangeRequest { limit: 24_999, keys_only: true, ..all() }).await.unwrap();
    assert_eq!((got.count, got.kvs.len(), got.more), (25_000, 24_999, true));
    let got = bed.range(pb::RangeRequest { keys_only: true, ..all() }).await.unwrap();
    assert_eq!((got.count, got.kvs.len(), got.more), (25_000, 25_000, false));
    let filtered = pb::RangeRequest { limit: 5, min_mod_revision: 240, ..all() };
    let got = bed.range(filtered).await.unwrap();
    assert_eq!((got.count, keys(&got)[0].as_str(), got.more), (25_000, "k23800", true));
}

#[tokio::test]
async fn too_large_ranges_are_refused() {
    let bed = Bed::new();
    let value = "v".repeat(1_000_000);
    for number in 0..70 {
        bed.put(&format!("k{number:02}"), &value).await;
    }
    let status = bed.range(all()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().starts_with("grpc: trying to send message larger than max"), "{}", status.message());
    assert_eq!(bed.range(pb::RangeRequest { limit: 10, ..all() }).await.unwrap().count, 70);
    assert_eq!(bed.range(pb::RangeRequest { keys_only: true, ..all() }).await.unwrap().kvs.len(), 70);
}

#[tokio::test]
async fn store_refusals_get_etcd_texts() {
    let bed = Bed::new();
    for (code, grpc, text) in [
        (ErrorCode::NoLeader, Code::Unavailable, "etcdserver: no leader"),
        (ErrorCode::OutcomeUnknown, Code::Unavailable, "etcdserver: request timed out"),
        (ErrorCode::DeadlineExceeded, Code::Unavailable, "etcdserver: request timed out"),
        (ErrorCode::ShuttingDown, Code::Unavailable, "etcdserver: server stopped"),
        (ErrorCode::NotLeader, Code::Unavailable, "etcdserver: leader changed"),
        (ErrorCode::Overloaded, Code::ResourceExhausted, "etcdserver: too many requests"),
        (ErrorCode::DiskFull, Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
        (ErrorCode::PermissionDenied, Code::PermissionDenied, "etcdserver: permission denied"),
        (ErrorCode::TransactionTooLarge, Code::InvalidArgument, "etcdserver: request is too large"),
        (ErrorCode::Quarantined, Code::DataLoss, "etcdserver: corrupt cluster"),
        (ErrorCode::Unauthenticated, Code::Unauthenticated, "etcdserver: invalid auth token"),
    ] {
        bed.store.refuse_next(code);
        let status = bed.kv().put(put("a", "1")).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (grpc, text));
        assert_eq!(status.metadata().get("hive-code").unwrap(), code.as_str());
        assert_eq!(status.metadata().get("hive-message").unwrap(), "as the test wanted");
    }
    bed.store.refuse_next(ErrorCode::UnknownKeyspace);
    let text = "hive: UnknownKeyspace: as the test wanted";
    refused(bed.range(all()).await, Code::NotFound, text);
}

#[tokio::test]
async fn values_beyond_the_limits_are_too_large() {
    let bed = Bed::new();
    let text = "etcdserver: request is too large";
    // A value of Hive has at most 1 MiB, a key 1,024 bytes, a request 1.5 MiB; 2 MiB are not even read.
    refused(bed.kv().put(put("a", &"v".repeat((1 << 20) + 1))).await, Code::InvalidArgument, text);
    refused(bed.kv().put(put(&"k".repeat(1_025), "v")).await, Code::InvalidArgument, text);
    refused(bed.kv().put(put("a", &"v".repeat(1_600_000))).await, Code::InvalidArgument, text);
    let status = bed.kv().put(put("a", &"v".repeat(2_200_000))).await.unwrap_err();
    let text = "grpc: received message larger than max (2200008 vs. 2097152)";
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, text));
    bed.kv().put(put("a", &"v".repeat(1 << 20))).await.unwrap();
}

#[tokio::test]
async fn read_of_the_past_has_the_newest_revision() {
    let bed = Bed::new();
    bed.put("a", "1").await;
    bed.put("a", "2").await;
    let got = bed.range(pb::RangeRequest { revision: 2, serializable: true, ..one("a") }).await.unwrap();
    assert_eq!(got.header.unwrap().revision, 3);
}

#[tokio::test]
async fn namespaces_are_apart() {
    let bed = Bed::new();
    let named = |namespace: &str, key: &str| {
        let mut request = tonic::Request::new(put(key, "v"));
        request.metadata_mut().insert("authorization", format!("Bearer ns={namespace}").parse().unwrap());
        request
    };
    for namespace in ["one", "two"] {
        let got = bed.kv().put(named(namespace, "a")).await.unwrap().into_inner();
        assert_eq!(got.header.unwrap().revision, 2, "{namespace}");
    }
    let mut token = tonic::Request::new(one("a"));
    token.metadata_mut().insert("token", "ns=one".parse().unwrap());
    assert_eq!(bed.kv().range(token).await.unwrap().into_inner().count, 1);
    assert_eq!(bed.range(one("a")).await.unwrap().count, 0);
}

#[tokio::test]
async fn namespace_made_again_begins_again() {
    let bed = Bed::new();
    assert_eq!((bed.put("a", "1").await, bed.put("a", "2").await), (2, 3));
    bed.store.remake(NAMESPACE);
    assert_eq!(bed.range(all()).await.unwrap().header.unwrap().revision, 1);
    assert_eq!(bed.put("a", "1").await, 2);
}

#[tokio::test]
async fn header_of_an_older_snapshot_stays() {
    let bed = Bed::new();
    let door = Door::new(bed.store.clone(), Limits::default());
    let session = Session { caller: Caller::Anyone, namespace: NAMESPACE.into() };
    let place = Place { cluster: 7, ..Place::default() };
    assert_eq!(door.header(&session, place, 5).revision, 5);
    // A client that lists and watches from the next revision on would miss what came in between.
    assert_eq!(door.header(&session, place, 3).revision, 3);
    assert_eq!(door.header_without_stamp(&session, place).await.revision, 5);
}

//! Leases.

use super::*;
use futures::StreamExt;
use pb::lease_client::LeaseClient;

fn leases(bed: &Bed) -> LeaseClient<Connection> {
    LeaseClient::new(bed.connection())
}

fn grant(id: i64, ttl: i64) -> pb::LeaseGrantRequest {
    pb::LeaseGrantRequest { id, ttl }
}

#[tokio::test]
async fn grants_and_their_limits() {
    let bed = Bed::new();
    let mut client = leases(&bed);
    let got = client.lease_grant(grant(0, 60)).await.unwrap().into_inner();
    assert!(got.id > 0 && got.ttl == 60 && got.header.unwrap().revision == 1, "{got:?}");
    let got = client.lease_grant(grant(77, 0)).await.unwrap().into_inner();
    assert_eq!((got.id, got.ttl), (77, door_etcd::lease::TTL_MIN));
    refused(client.lease_grant(grant(77, 5)).await, Code::FailedPrecondition, "etcdserver: lease already exists");
    let text = "etcdserver: too large lease TTL";
    for ttl in [9_000_000_001, i64::MAX] {
        refused(client.lease_grant(grant(0, ttl)).await, Code::OutOfRange, text);
    }
    client.lease_grant(grant(-3, 9_000_000_000)).await.unwrap();
    let all = client.lease_leases(pb::LeaseLeasesRequest {}).await.unwrap().into_inner().leases;
    assert_eq!(all.len(), 3);
    assert!(all.iter().any(|lease| lease.id == -3) && all.iter().any(|lease| lease.id == 77));
}

#[tokio::test]
async fn keys_go_with_their_lease() {
    let bed = Bed::new();
    let mut client = leases(&bed);
    client.lease_grant(grant(5, 30)).await.unwrap();
    for key in ["a", "b"] {
        bed.kv().put(pb::PutRequest { lease: 5, ..put(key, "v") }).await.unwrap();
    }
    assert_eq!(bed.range(one("a")).await.unwrap().kvs[0].lease, 5);
    bed.store.pass_ms(10_500);
    let ask = |keys| pb::LeaseTimeToLiveRequest { id: 5, keys };
    let got = client.lease_time_to_live(ask(true)).await.unwrap().into_inner();
    assert_eq!((got.ttl, got.granted_ttl, got.keys), (19, 30, vec![bytes("a"), bytes("b")]));
    assert_eq!(got.header.unwrap().revision, 3, "the last revision that this door has seen");
    assert!(client.lease_time_to_live(ask(false)).await.unwrap().into_inner().keys.is_empty());
    let got = client.lease_revoke(pb::LeaseRevokeRequest { id: 5 }).await.unwrap().into_inner();
    assert_eq!(got.header.unwrap().revision, 4);
    assert_eq!(bed.range(all()).await.unwrap().count, 0);
    let text = "etcdserver: requested lease not found";
    refused(client.lease_revoke(pb::LeaseRevokeRequest { id: 5 }).await, Code::NotFound, text);
    let got = client.lease_time_to_live(ask(true)).await.unwrap().into_inner();
    assert_eq!((got.id, got.ttl, got.granted_ttl), (5, -1, 0));
}

#[tokio::test]
async fn keep_alive_renews_and_says_what_is_gone() {
    let bed = Bed::new();
    let mut client = leases(&bed);
    client.lease_grant(grant(5, 30)).await.unwrap();
    bed.store.pass_ms(20_000);
    let requests = futures::stream::iter([5, 6, 5]).map(|id| pb::LeaseKeepAliveRequest { id });
    let answers = client.lease_keep_alive(requests).await.unwrap().into_inner();
    let answers: Vec<_> = answers.map(|answer| answer.map(|answer| (answer.id, answer.ttl)).unwrap()).collect().await;
    assert_eq!(answers, [(5, 30), (6, 0), (5, 30)]);
    let got = client.lease_time_to_live(pb::LeaseTimeToLiveRequest { id: 5, keys: false }).await.unwrap();
    assert_eq!(got.into_inner().ttl, 30);
    bed.store.refuse_next(base_types::ErrorCode::NoLeader);
    let requests = futures::stream::iter([pb::LeaseKeepAliveRequest { id: 5 }]);
    let answers = client.lease_keep_alive(requests).await.unwrap().into_inner();
    let answers: Vec<_> = answers.collect().await;
    assert_eq!(answers.len(), 1);
    refused(answers.into_iter().next().unwrap(), Code::Unavailable, "etcdserver: no leader");
}

#[tokio::test]
async fn lease_that_is_over_takes_no_keys() {
    let bed = Bed::new();
    leases(&bed).lease_grant(grant(5, 30)).await.unwrap();
    bed.store.pass_ms(30_001);
    let late = bed.kv().put(pb::PutRequest { lease: 5, ..put("a", "v") }).await;
    refused(late, Code::NotFound, "etcdserver: requested lease not found");
    let got = leases(&bed).lease_time_to_live(pb::LeaseTimeToLiveRequest { id: 5, keys: true }).await.unwrap();
    assert_eq!(got.into_inner().ttl, -1);
}

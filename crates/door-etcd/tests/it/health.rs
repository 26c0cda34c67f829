//! gRPC's own health service.

use super::*;
use base_types::ErrorCode;
use std::time::Duration;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::HealthCheckRequest;

fn asked(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.into() }
}

/// A client that has authenticated nowhere, at a door that asks everybody else who they are.
fn client() -> (Bed, HealthClient<Connection>) {
    let bed = Bed::with(MemoryStore::new(true), Limits::default());
    let client = HealthClient::new(bed.connection());
    (bed, client)
}

#[tokio::test(start_paused = true)]
async fn serving_follows_the_read() {
    let (bed, mut client) = client();
    let check =
        async |client: &mut HealthClient<Connection>| client.check(asked("")).await.unwrap().into_inner().status();
    assert_eq!(check(&mut client).await, ServingStatus::Serving);
    let before = bed.store.asked();
    for _ in 0..100 {
        assert_eq!(check(&mut client).await, ServingStatus::Serving);
    }
    assert_eq!(bed.store.asked(), before, "one read serves all who ask within a moment");
    tokio::time::advance(Duration::from_secs(1)).await;
    bed.store.refuse_next(ErrorCode::NoLeader);
    assert_eq!(check(&mut client).await, ServingStatus::NotServing);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(check(&mut client).await, ServingStatus::Serving);
    refused(client.check(asked("kv")).await, Code::NotFound, "unknown service");
}

#[tokio::test(start_paused = true)]
async fn a_watch_says_what_changes() {
    let (bed, mut client) = client();
    let mut watch = client.watch(asked("")).await.unwrap().into_inner();
    let mut next = async || watch.message().await.unwrap().unwrap().status();
    assert_eq!(next().await, ServingStatus::Serving);
    bed.store.refuse_next(ErrorCode::NoLeader);
    assert_eq!(next().await, ServingStatus::NotServing);
    assert_eq!(next().await, ServingStatus::Serving);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_no_service_stays() {
    let (_bed, mut client) = client();
    let mut watch = client.watch(asked("kv")).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
    let more = tokio::time::timeout(Duration::from_secs(60), watch.message());
    assert!(more.await.is_err());
}

#[tokio::test]
async fn watches_are_bounded() {
    let limits = Limits { connection_requests_max: 10_000, ..Limits::default() };
    let bed = Bed::with(MemoryStore::default(), limits);
    let mut client = HealthClient::new(bed.connection());
    let mut open = Vec::new();
    for _ in 0..1_000 {
        open.push(client.watch(asked("kv")).await.unwrap());
    }
    let text = "etcdserver: too many requests";
    refused(client.watch(asked("")).await, Code::ResourceExhausted, text);
    drop(open.pop());
    client.watch(asked("")).await.unwrap();
}

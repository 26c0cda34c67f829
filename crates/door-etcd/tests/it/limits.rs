//! Room, time, counters.

use super::*;
use http_body_util::{BodyExt, StreamBody};
use std::time::Duration;

fn counts(bed: &Bed, path: &str) -> door_etcd::metrics::MethodCounts {
    bed.service.metrics().counts().into_iter().find(|method| method.path == path).unwrap()
}

const RANGE: &str = "/etcdserverpb.KV/Range";
const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";

#[tokio::test]
async fn calls_are_counted_by_code() {
    let bed = Bed::new();
    bed.range(all()).await.unwrap();
    bed.range(one("")).await.unwrap_err();
    let range = counts(&bed, RANGE);
    assert_eq!((range.codes[0], range.codes[3], range.open), (1, 1, 0));
    assert_eq!(range.buckets.iter().sum::<u64>(), 2);
    assert_eq!(bed.service.metrics().counts().len(), 51);
}

#[tokio::test]
async fn connection_has_room_for_so_many() {
    let limits = Limits { connection_requests_max: 1, requests_max: 2, ..Limits::default() };
    let bed = Bed::with(MemoryStore::default(), limits);
    let connection = bed.connection();
    let open = |connection: &Connection| {
        let mut client = pb::lease_client::LeaseClient::new(connection.clone());
        async move { client.lease_keep_alive(futures::stream::pending()).await }
    };
    let first = open(&connection).await.unwrap();
    assert_eq!(counts(&bed, KEEP_ALIVE).open, 1);
    let text = "etcdserver: too many requests";
    refused(open(&connection).await, Code::ResourceExhausted, text);
    let second = open(&bed.connection()).await.unwrap();
    refused(open(&bed.connection()).await, Code::ResourceExhausted, text);
    assert_eq!(bed.service.metrics().refused(), 2);
    drop((first, second));
    assert_eq!((counts(&bed, KEEP_ALIVE).open, counts(&bed, KEEP_ALIVE).codes[1]), (0, 2));
    open(&connection).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_come_are_answered() {
    let bed = Bed::new();
    for (content, path, text) in
        [("application/grpc", RANGE, ""), ("application/json", "/v3/kv/range", "request timed out")]
    {
        let body = StreamBody::new(futures::stream::pending::<Result<http_body::Frame<Bytes>, std::io::Error>>());
        let request = http::Request::post(path).header("content-type", content).body(body).unwrap();
        let begun = tokio::time::Instant::now();
        let response = bed.connection().answer(request).await;
        assert_eq!(begun.elapsed(), Limits::default().call_time);
        let status = Status::from_header_map(response.headers()).map(|status| status.message().to_string());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let text_of = String::from_utf8_lossy(&body).into_owned();
        assert!(text_of.contains(text));
        if content == "application/grpc" {
            assert_eq!(status.as_deref(), Some("etcdserver: request timed out"));
        }
    }
    let body = StreamBody::new(futures::stream::pending::<Result<http_body::Frame<Bytes>, std::io::Error>>());
    let request = http::Request::post(RANGE)
        .header("content-type", "application/grpc")
        .header("grpc-timeout", "250m")
        .body(body)
        .unwrap();
    let begun = tokio::time::Instant::now();
    let response = bed.connection().answer(request).await;
    assert_eq!(begun.elapsed(), Duration::from_millis(250));
    let status = Status::from_header_map(response.headers()).unwrap();
    assert_eq!((status.code(), status.message()), (Code::DeadlineExceeded, "context deadline exceeded"));
}

#[tokio::test]
async fn unknown_methods_are_unimplemented() {
    let bed = Bed::new();
    for path in ["/etcdserverpb.KV/Nothing", "/", "", "/x.Y/Z", "/etcdserverpb.KV"] {
        let uri = if path.is_empty() { "*" } else { path };
        let request = http::Request::post(uri).header("content-type", "application/grpc");
        let response = bed.connection().answer(request.body(tonic::body::Body::empty()).unwrap()).await;
        let status = Status::from_header_map(response.headers()).unwrap();
        assert_eq!(status.code(), Code::Unimplemented, "{path}");
    }
}

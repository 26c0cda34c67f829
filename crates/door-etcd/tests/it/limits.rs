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

/// A message as gRPC frames it: whether it is compressed, the length that it announces, its bytes. More never comes.
async fn framed(path: &str, encoding: Option<&str>, compressed: u8, announced: u32, bytes: &[u8]) -> Status {
    let bed = Bed::new();
    let frame = [&[compressed][..], &announced.to_be_bytes(), bytes].concat();
    let sent = futures::stream::iter([Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from(frame)))]);
    let body = StreamBody::new(futures::StreamExt::chain(sent, futures::stream::pending()));
    let mut request = http::Request::post(path).header("content-type", "application/grpc");
    if let Some(encoding) = encoding {
        request = request.header("grpc-encoding", encoding);
    }
    let begun = tokio::time::Instant::now();
    let response = bed.connection().answer(request.body(body).unwrap()).await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "it waits for what was announced");
    let in_head = Status::from_header_map(response.headers());
    let trailers = response.into_body().collect().await.unwrap().trailers().cloned().unwrap_or_default();
    in_head.or_else(|| Status::from_header_map(&trailers)).unwrap()
}

/// Nothing is unpacked, so a little never becomes much.
#[tokio::test(start_paused = true)]
async fn compressed_messages_are_refused_unread() {
    for encoding in ["gzip", "deflate", "zstd"] {
        let refused = framed(RANGE, Some(encoding), 1, 1 << 10, &[0x1f; 1 << 10]).await;
        assert_eq!(refused.code(), Code::Unimplemented, "{encoding}: {refused:?}");
    }
    let unnamed = framed(RANGE, None, 1, 1 << 10, &[0x1f; 1 << 10]).await;
    assert_eq!(unnamed.code(), Code::Internal, "{unnamed:?}");
}

#[tokio::test(start_paused = true)]
async fn announced_lengths_allocate_nothing() {
    for announced in [u32::MAX, 1 << 30, 3 << 20] {
        let refused = framed(RANGE, None, 0, announced, b"x").await;
        assert_eq!(refused.code(), Code::ResourceExhausted, "{announced}: {refused:?}");
    }
}

/// Transactions in transactions, a thousand deep: refused while it is decoded.
#[tokio::test(start_paused = true)]
async fn deep_messages_are_refused() {
    let field = |number: u8, bytes: Vec<u8>| {
        let mut out = vec![number << 3 | 2];
        prost::encoding::encode_varint(bytes.len() as u64, &mut out);
        [out, bytes].concat()
    };
    let deep = (0..1_000).fold(Vec::new(), |inner, _| field(2, field(4, inner)));
    let refused = framed("/etcdserverpb.KV/Txn", None, 0, deep.len() as u32, &deep).await;
    assert!(refused.message().contains("recursion limit"), "{refused:?}");
}

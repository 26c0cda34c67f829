//! The door through generated clients and through JSON, on a store in memory with the real backend.

mod auth;
mod gateway;
mod health;
mod kv;
mod lease;
mod limits;
mod maintenance;
mod random;
mod txn;
mod watch;

use bytes::Bytes;
use door_etcd::proto::etcdserverpb as pb;
use door_etcd::testing::MemoryStore;
use door_etcd::{service, Connection, EtcdService, Limits};
use pb::kv_client::KvClient;
use std::sync::Arc;
use tonic::{Code, Status};

/// A door with its store.
struct Bed {
    store: Arc<MemoryStore>,
    service: EtcdService,
}

impl Bed {
    fn new() -> Bed {
        Bed::with(MemoryStore::default(), Limits::default())
    }

    fn with(store: MemoryStore, limits: Limits) -> Bed {
        let store = Arc::new(store);
        Bed { service: service(store.clone(), limits), store }
    }

    fn connection(&self) -> Connection {
        Connection::new(&self.service)
    }

    fn kv(&self) -> KvClient<Connection> {
        KvClient::new(self.connection()).max_decoding_message_size(usize::MAX)
    }

    /// Puts; the revision.
    async fn put(&self, key: &str, value: &str) -> i64 {
        self.kv().put(put(key, value)).await.unwrap().into_inner().header.unwrap().revision
    }

    async fn range(&self, request: pb::RangeRequest) -> Result<pb::RangeResponse, Status> {
        self.kv().range(request).await.map(|response| response.into_inner())
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put(key: &str, value: &str) -> pb::PutRequest {
    pb::PutRequest { key: bytes(key), value: bytes(value), ..Default::default() }
}

fn one(key: &str) -> pb::RangeRequest {
    pb::RangeRequest { key: bytes(key), ..Default::default() }
}

/// All keys.
fn all() -> pb::RangeRequest {
    pb::RangeRequest { key: bytes("\0"), range_end: bytes("\0"), ..Default::default() }
}

fn keys(response: &pb::RangeResponse) -> Vec<String> {
    response.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect()
}

#[track_caller]
fn refused<T>(result: Result<T, Status>, code: Code, text: &str) {
    match result {
        Ok(_) => panic!("not refused: {text}"),
        Err(status) => assert_eq!((status.code(), status.message()), (code, text)),
    }
}

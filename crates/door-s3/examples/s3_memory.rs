//! The gateway over a metadata service in memory, for driving it with real clients:
//! `cargo run -p door-s3 --features testing --example s3_memory -- [ADDRESS] [FOLDER] [DOMAIN…]`.
//! Prints `ready ADDRESS` when it serves. Two accounts: `demo` (key `demo-access-key`) and `other`
//! (key `other-access-key`), secrets `demo-secret-key` and `other-secret-key`.

use door_s3::store::LocalStore;
use door_s3::testing::MemoryMetadata;
use door_s3::{sweep, Gateway, Peer, Service, ServiceConfig};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::time::Duration;

/// How often freed bytes are collected: often, so that tests see it.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9000".to_owned());
    let folder = arguments.next().unwrap_or_else(|| "target/s3-memory".to_owned());
    let metadata = Arc::new(MemoryMetadata::new("fr-par"));
    metadata.add_account("demo", "demo-access-key", "demo-secret-key");
    metadata.add_account("other", "other-access-key", "other-secret-key");
    let data = Arc::new(LocalStore::open(folder)?);
    let gateway = Gateway::new(metadata.clone(), data.clone());
    // A domain of websites begins with its mark.
    let (website_domains, domains) = arguments.partition(|domain| domain.starts_with("site."));
    let service = Service::new(gateway, &ServiceConfig { domains, website_domains })?;
    let logs = service.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            logs.flush_access_logs().await;
            if let Err(error) = sweep::drain_freed(&*metadata, &*data).await {
                eprintln!("sweep: {error}");
            }
        }
    });
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("ready {}", listener.local_addr()?);
    loop {
        let (socket, peer) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let service = service.clone();
        let peer = Peer { address: peer.ip(), secure: false };
        let answer = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let service = service.clone();
            let request = request.map(door_s3::Body::from);
            async move { service.answer(request, peer).await }
        });
        tokio::spawn(async move {
            let server = hyper::server::conn::http1::Builder::new();
            let _ = server.serve_connection(TokioIo::new(socket), answer).await;
        });
    }
}

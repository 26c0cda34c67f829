//! One thread of the gateway, from its runtime to its end.
//!
//! By design: it says once whether it serves; it ends when the node stops.

use super::background::Background;
use super::metadata::NodeMetadata;
use super::{open_store, service, S3Door, BLOCKING_THREADS_MAX};
use crate::clients::{DoorThread, Entrance, Room};
use crate::config::S3Config;
use crate::http::HttpLimits;
use crate::quiet::Quiet;
use crate::tls::Doors;
use door_s3::Service;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often the access logs of buckets are put: a crash loses what waits.
const LOG_EVERY: Duration = Duration::from_secs(60);
/// How long a node that stops waits for the last of them.
const LOG_END_WAIT: Duration = Duration::from_secs(1);

/// What a thread is made with.
pub struct S3Plan {
    pub index: usize,
    pub config: S3Config,
    pub listener: TcpListener,
    pub metadata: Arc<NodeMetadata>,
    pub access: Arc<crate::access::AccessHub>,
    /// Counted for the whole node.
    pub metrics: Option<door_s3::Metrics>,
    pub limits: HttpLimits,
    pub tls: Option<Arc<Doors>>,
    pub certificate_required: bool,
    pub room: Room,
    pub node: u64,
    /// Told once: this thread serves, or why it cannot.
    pub opened: std::sync::mpsc::Sender<Result<(), String>>,
}

/// Runs a thread to its end.
pub fn run(plan: S3Plan, stop: watch::Receiver<bool>, drain: watch::Receiver<bool>) {
    let thread = DoorThread {
        opened: plan.opened.clone(),
        blocking_threads_max: BLOCKING_THREADS_MAX,
        blocking_name: format!("hive-s3-disk-{}", plan.index),
    };
    thread.run(serve(plan, stop, drain));
}

async fn serve(plan: S3Plan, mut stop: watch::Receiver<bool>, drain: watch::Receiver<bool>) -> Result<(), String> {
    let store = open_store(&plan.config.data).await?;
    let service = service(&plan.config, plan.metadata.clone(), store.clone(), plan.access)?;
    let service = service.with_metrics(plan.metrics.unwrap_or_default());
    let listener = tokio::net::TcpListener::from_std(plan.listener).map_err(|error| error.to_string())?;
    let entrance = Entrance::new("s3", plan.tls, plan.config.proxies.clone(), super::no_tls);
    let (limits, certificate_required, room) = (plan.limits, plan.certificate_required, plan.room);
    let door = Rc::new(S3Door { service, limits, entrance, certificate_required, room, quiet: Quiet::default() });
    let logs = door.service.clone();
    tokio::task::spawn_local(door.run(listener, drain));
    tokio::task::spawn_local(keep_flushing(logs.clone(), Quiet::default()));
    if plan.index == 0 {
        let background = Background { metadata: plan.metadata, store, node: plan.node, quiet: Quiet::default() };
        tokio::task::spawn_local(background.run());
    }
    let _ = plan.opened.send(Ok(()));
    let _ = stop.wait_for(|stop| *stop).await;
    // Best effort: the cores may be gone.
    let _ = tokio::time::timeout(LOG_END_WAIT, logs.flush_access_logs()).await;
    Ok(())
}

/// Puts the access logs that wait in this thread as objects, until dropped.
async fn keep_flushing(service: Service, quiet: Quiet) {
    loop {
        tokio::time::sleep(LOG_EVERY).await;
        let lost = service.flush_access_logs().await.lost;
        if let Some(suppressed) = (lost > 0).then(|| quiet.allow()).flatten() {
            tracing::warn!(
                lost,
                suppressed,
                "lines of buckets' access logs were lost: memory was full, or the target bucket took none"
            );
        }
    }
}

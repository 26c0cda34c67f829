//! How threads that are no tasks wait for what is done by tasks.
//!
//! One runtime for all engines of a process, never dropped: an engine may be dropped by a thread that is
//! itself inside another runtime, where a runtime may not be.
//!
//! Always: a caller waits on a channel, with a deadline.
//! Held by: `a_stalled_store_makes_a_write_wait`.
//! Not here: what is done.

use base_engine::EngineError;
use std::future::Future;
use std::sync::mpsc::{sync_channel, RecvTimeoutError};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Threads for requests, tables and merging.
const THREADS: usize = 2;

/// The runtime.
pub fn runtime() -> Result<&'static Runtime, EngineError> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let runtime =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("hive-object").enable_all().build();
        runtime.map_err(|error| error.to_string())
    });
    made.as_ref().map_err(|error| EngineError::Io(format!("making the threads of engine object: {error}")))
}

/// Does it on the runtime and waits.
pub fn wait<T: Send + 'static>(
    what: &str,
    deadline: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, EngineError> {
    let (send, receive) = sync_channel(1);
    runtime()?.spawn(async move {
        let _ = send.send(work.await);
    });
    receive.recv_timeout(deadline).map_err(|error| match error {
        RecvTimeoutError::Timeout => EngineError::Io(format!(
            "{what}: the object store has not answered for {deadline:?}; whether it took the request is not known; check the endpoint, then restart the node"
        )),
        RecvTimeoutError::Disconnected => EngineError::Io(format!("{what}: its task ended without an answer")),
    })
}

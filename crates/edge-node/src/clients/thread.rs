//! A thread of a door beside the cores: its runtime, from its beginning to its end.
//!
//! By design: it says once whether it serves; what does not end in time when the node stops is dropped.
//! Not here: what the thread serves (`s3/`, `etcd/`, `redis/`).

use std::future::Future;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::task::LocalSet;

/// How long threads that wait for a disk are waited for at the end.
const DISK_PATIENCE: Duration = Duration::from_millis(100);

/// What a thread is made with.
pub struct DoorThread {
    /// Told once: this thread serves, or why it cannot. The first is for `serve` to say.
    pub opened: Sender<Result<(), String>>,
    /// Threads that may wait for a disk, at most.
    pub blocking_threads_max: usize,
    /// What those are called.
    pub blocking_name: String,
}

impl DoorThread {
    /// Runs what serves, until it ends.
    pub fn run<F: Future<Output = Result<(), String>>>(self, serve: F) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(self.blocking_threads_max)
            .thread_name(self.blocking_name)
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(self.opened.send(Err(error.to_string()))),
        };
        let local = LocalSet::new();
        runtime.block_on(local.run_until(async {
            if let Err(reason) = serve.await {
                let _ = self.opened.send(Err(reason));
            }
        }));
        // What is left (connections that did not end in time) is dropped here; the disk is not waited for.
        drop(local);
        runtime.shutdown_timeout(DISK_PATIENCE);
    }
}

//! The gateway's background work: bytes nothing names, and lifecycle rules.
//!
//! ```text
//!   every DRAIN_EVERY       freed bytes are removed                         (each node)
//!   every SWEEP_EVERY       intents of crashed uploads are looked at        (one node at a time: the store's lock)
//!   every LIFECYCLE_EVERY   rules are carried out                           (each bucket: the node its name falls to)
//! ```
//!
//! By design: nothing depends on who does it or how often; a failure is logged (seldom) and tried
//! again at the next round. Not here: what is removed (door_s3::sweep), what is due (door_s3::lifecycle).

use super::lifecycle;
use super::metadata::NodeMetadata;
use crate::quiet::Quiet;
use door_s3::store::DataStore;
use door_s3::sweep;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// How often freed bytes are removed.
const DRAIN_EVERY: Duration = Duration::from_secs(10);
/// How often intents are looked at; they expire after a day.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// How often lifecycle rules are carried out; they count in days.
const LIFECYCLE_EVERY: Duration = Duration::from_secs(3600);
/// The pause before the first of each: a node that starts has better things to do.
const FIRST_AFTER: Duration = Duration::from_secs(15);

/// What it works with.
pub struct Background {
    pub metadata: Arc<NodeMetadata>,
    pub store: Arc<dyn DataStore>,
    pub node: u64,
    pub quiet: Quiet,
}

impl Background {
    /// Runs until dropped.
    pub async fn run(self) {
        let begin = Instant::now() + FIRST_AFTER;
        let (mut drain, mut sweep, mut lifecycle) = (begin, begin, begin);
        loop {
            tokio::time::sleep_until(drain.min(sweep).min(lifecycle)).await;
            let now = Instant::now();
            if now >= drain {
                self.tell("removing freed data", sweep::drain_freed(&*self.metadata, &*self.store).await);
                drain = Instant::now() + DRAIN_EVERY;
            }
            if now >= sweep {
                self.tell("sweeping what crashes left", self.sweep().await);
                sweep = Instant::now() + SWEEP_EVERY;
            }
            if now >= lifecycle {
                self.tell("carrying out lifecycle rules", lifecycle::round(&self.metadata, self.node, now_ms()).await);
                lifecycle = Instant::now() + LIFECYCLE_EVERY;
            }
        }
    }

    async fn sweep(&self) -> Result<(), sweep::SweepError> {
        let Some(_held) = self.store.begin_sweep().await? else { return Ok(()) };
        let swept = sweep::sweep(&*self.metadata, &*self.store, now_ms()).await?;
        if swept.orphans > 0 {
            tracing::info!(
                orphans = swept.orphans,
                settled = swept.settled,
                "bytes that crashed uploads left were removed"
            );
        }
        Ok(())
    }

    fn tell<T, E: std::fmt::Display>(&self, doing: &str, result: Result<T, E>) {
        if let Err(error) = result {
            if let Some(suppressed) = self.quiet.allow() {
                tracing::warn!(%error, suppressed, "{doing} failed and is tried again");
            }
        }
    }
}

/// Now, in milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

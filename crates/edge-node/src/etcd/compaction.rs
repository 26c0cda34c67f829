//! Automatic compaction, by time or by count, as etcd's `--auto-compaction-mode` and `--auto-compaction-retention`.
//!
//! ```text
//!   every node: each namespace's stamp, now and then ─▶ samples      the node whose replica leads: Compact at the oldest sample's stamp
//! ```
//! Always: what is compacted was superseded at least the retention ago (`tests::nothing_younger_is_compacted`); at most
//! [`NAMESPACES_MAX`] namespaces are looked after, one call at a time. After a start, or a change of leader to a node that was down, the
//! retention counts from then, so history is kept longer, never shorter.
//! Not here: what a compaction does (core-backends, versioned/).

use super::NodeStore;
use crate::config::AutoCompaction;
use crate::quiet::Quiet;
use base_types::access::Caller;
use base_types::action::KeyspaceKind;
use base_types::versioned::{Command, Query, Reply};
use base_types::ReadConsistency;
use door_etcd::store::{Session, Store};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Namespaces that are looked after, in the order of their names.
const NAMESPACES_MAX: usize = 100_000;
/// How often stamps are looked at where compaction goes by count.
const EVERY_BY_COUNT: Duration = Duration::from_secs(300);
/// How many samples a retention is divided into.
const SAMPLES: u32 = 10;
/// The longest between two samples, and the shortest.
const EVERY_MAX: Duration = Duration::from_secs(360);
const EVERY_MIN: Duration = Duration::from_millis(100);

/// The stamps that a namespace was seen at.
#[derive(Default)]
pub struct Samples(VecDeque<(Instant, u64)>);

impl Samples {
    /// Notes a stamp; what may be compacted at: the newest that was seen at least the retention ago.
    pub fn note(&mut self, now: Instant, stamp: u64, retention: Duration) -> Option<u64> {
        self.0.push_back((now, stamp));
        let mut old = None;
        while let Some((at, stamp)) = self.0.front().copied().filter(|(at, _)| now.duration_since(*at) >= retention) {
            old = Some((at, stamp));
            self.0.pop_front();
        }
        // It is old enough next time, too.
        if let Some(old) = old {
            self.0.push_front(old);
        }
        old.map(|(_, stamp)| stamp)
    }
}

/// Looks after all namespaces until the node stops.
pub async fn run(store: Arc<NodeStore>, how: AutoCompaction, mut stop: watch::Receiver<bool>) {
    let every = match how {
        AutoCompaction::Periodic(retention) => (retention / SAMPLES).clamp(EVERY_MIN, EVERY_MAX),
        AutoCompaction::Revisions(_) => EVERY_BY_COUNT,
    };
    let (mut seen, quiet) = (BTreeMap::<String, Samples>::new(), Quiet::default());
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(every) => {}
        }
        if let Err(reason) = round(&store, how, &mut seen).await {
            if let Some(suppressed) = quiet.allow() {
                tracing::warn!(reason, suppressed, "namespaces were not compacted; it is tried again");
            }
        }
    }
}

async fn round(store: &NodeStore, how: AutoCompaction, seen: &mut BTreeMap<String, Samples>) -> Result<(), String> {
    let keyspaces = store.keyspaces().await.map_err(|refusal| refusal.message)?;
    let names: Vec<String> = keyspaces
        .into_iter()
        .filter(|keyspace| keyspace.kind == KeyspaceKind::Versioned)
        .map(|keyspace| keyspace.name)
        .take(NAMESPACES_MAX)
        .collect();
    seen.retain(|name, _| names.contains(name));
    let mut failed = None;
    for name in names {
        let samples = seen.entry(name.clone()).or_default();
        if let Err(refusal) = look_at(store, how, samples, name).await {
            failed.get_or_insert(refusal.message);
        }
    }
    failed.map_or(Ok(()), Err)
}

async fn look_at(
    store: &NodeStore,
    how: AutoCompaction,
    samples: &mut Samples,
    namespace: String,
) -> Result<(), base_types::Refusal> {
    let session = Session { caller: Caller::Node, namespace };
    let (reply, _) = store.ask(&session, Query::Describe, ReadConsistency::Eventual).await?;
    let Reply::Info { info } = reply else { return Ok(()) };
    let at = match how {
        AutoCompaction::Periodic(retention) => samples.note(Instant::now(), info.stamp, retention),
        AutoCompaction::Revisions(kept) => info.stamp.checked_sub(kept),
    };
    let Some(stamp) = at.filter(|stamp| *stamp > info.compacted && *stamp > 0) else { return Ok(()) };
    let (members, _) = store.members(&session).await?;
    if !members.iter().any(|member| member.leads && member.id == store.node.0) {
        return Ok(());
    }
    store.change(&session, Command::Compact { stamp }).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_younger_is_compacted() {
        let (begin, mut samples) = (Instant::now(), Samples::default());
        let retention = Duration::from_secs(60);
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        assert_eq!(samples.note(at(0), 5, retention), None);
        assert_eq!(samples.note(at(30), 9, retention), None);
        assert_eq!(samples.note(at(59), 12, retention), None);
        assert_eq!(samples.note(at(60), 14, retention), Some(5));
        assert_eq!(samples.note(at(89), 15, retention), Some(5), "nine was seen 59 s ago");
        assert_eq!(samples.note(at(90), 15, retention), Some(9));
        assert_eq!(samples.note(at(400), 20, retention), Some(15));
        assert!(samples.0.len() <= 2, "old samples go");
    }
}

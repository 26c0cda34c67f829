//! The follower of a hub: reads all changes of the namespace in order and publishes them.
//!
//! ```text
//!   Changes after what was read ──▶ publish
//!        │ compacted meanwhile ──▶ lapse: every watcher looks for itself, and those that miss something end
//!        │ refused ──▶ pause, longer each time, then the same read again
//!        └ no such namespace, several times ──▶ all watches end
//! ```
//! Always: what comes next is decided by the board's position, so a read that is repeated, late or of an older replica neither loses
//! nor repeats a change.
//! Not here: watchers that read for themselves (`catch_up.rs`).

use super::board::Ended;
use super::hub::Hub;
use super::pages::Pages;
use crate::store::{Place, Session, Store};
use base_types::versioned::{Change, Position, Query, Reply, Span};
use base_types::{ErrorCode, ErrorKind, ReadConsistency, Refusal};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a reader pauses after an empty answer that came at once: a member keeps a bounded number of reads.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest pause after reads that failed.
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// So many reads in a row must say that there is no such namespace.
const GONE_READS: u32 = 3;
/// So many looks in a row must find no leader.
const NO_LEADER_LOOKS: u32 = 2;

/// Changes, up to where all are given, and where the answer comes from.
pub(super) type Page = (Vec<Change>, Position, Place);

/// Runs until it is aborted.
pub(super) async fn follow(hub: Arc<Hub>) {
    tokio::join!(read(&hub), look_for_leader(&hub));
}

/// How long to pause after so many failures.
pub(super) fn backoff(failures: u32) -> Duration {
    PAUSE.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX)
}

async fn read(hub: &Hub) {
    let (mut pages, mut failures, mut missing) = (hub.pages(), 0u32, 0u32);
    let all = Span::From { start: Bytes::new() };
    loop {
        if hub.wants_before() && !pages.before() {
            pages = hub.pages();
        }
        let page = tokio::select! {
            page = next_changes(&*hub.door.store, &hub.node, &all, &pages, 0) => page,
            () = hub.before_wanted.notified() => continue,
        };
        match page {
            Ok((changes, reached, place)) => {
                (failures, missing) = (0, 0);
                if hub.publish(pages.take(changes, reached), place).is_err() {
                    pages = hub.pages();
                }
            }
            Err(refusal) => {
                failures = failures.saturating_add(1);
                missing = if refusal.kind() == ErrorKind::NotFound { missing + 1 } else { 0 };
                if missing >= GONE_READS {
                    hub.end_all(&Ended::Gone);
                }
                if refusal.code == ErrorCode::StampCompacted {
                    if let Ok((info, _)) = hub.describe(ReadConsistency::Strong).await {
                        hub.lapse(info.compacted);
                        pages = hub.pages();
                        continue;
                    }
                }
                tokio::time::sleep(backoff(failures)).await;
            }
        }
    }
}

/// Changes after what was taken in: the one place that decides how to wait for more.
async fn next_changes(
    store: &dyn Store,
    session: &Session,
    span: &Span,
    pages: &Pages,
    limit: u32,
) -> Result<Page, Refusal> {
    let (span, after, before) = (span.clone(), pages.next(), pages.before());
    let (asked, query) = (Instant::now(), Query::Await { span, after, limit, before, pin: 0 });
    let page = page_of(store.ask(session, query, ReadConsistency::Eventual).await?)?;
    if page.0.is_empty() && asked.elapsed() < PAUSE {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(page)
}

/// A page of changes that are there.
pub(super) async fn changes(
    store: &dyn Store,
    session: &Session,
    span: &Span,
    pages: &Pages,
    limit: u32,
    level: ReadConsistency,
) -> Result<Page, Refusal> {
    let (span, after, before) = (span.clone(), pages.next(), pages.before());
    page_of(store.ask(session, Query::Changes { span, after, limit, before, pin: 0 }, level).await?)
}

fn page_of(answer: (Reply, Place)) -> Result<Page, Refusal> {
    match answer {
        (Reply::Changes { changes, reached, .. }, place) => Ok((changes, reached, place)),
        _ => Err(Refusal::new(ErrorCode::Internal, "the store's answer is not one to Changes; report this bug")),
    }
}

/// Looks now and then whether the cluster has a leader, while a stream must know.
async fn look_for_leader(hub: &Hub) {
    let mut failures = 0;
    loop {
        tokio::time::sleep(hub.settings.leader_every).await;
        if hub.leader.receiver_count() == 0 {
            failures = 0;
            continue;
        }
        match hub.describe(ReadConsistency::Strong).await {
            Ok(_) => failures = 0,
            Err(_) => failures += 1,
        }
        hub.leader.send_if_modified(|known| {
            let leads = failures < NO_LEADER_LOOKS;
            std::mem::replace(known, leads) != leads
        });
    }
}

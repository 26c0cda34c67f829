//! How a watcher that is behind gets what it misses: from the hub's recent changes, by reads of its own span, or, where many are
//! late, by reads that they share (`shared.rs`).
//!
//! Always: the board decides each step, so the watcher is joined exactly where its reads end; a batch has whole revisions only; reads
//! of all watchers of the node take turns ([`super::CATCH_UPS_MAX`]).
//! Not here: when a watcher may catch up (`stream.rs`: when its client takes).

use super::board::{Ended, Step};
use super::follower::{backoff, changes, Page};
use super::hub::Hub;
use super::pages::{Pages, Whole};
use super::revision::{pick, Batch, Pick, Revision, Wanted};
use super::shared::Found;
use super::spans::WatcherId;
use super::BATCH_BYTES;
use base_types::mutant::{planted, Mutant};
use base_types::versioned::{Span, PAGE_ROWS_MAX};
use base_types::{ErrorCode, ErrorKind, ReadConsistency, Refusal};
use bytes::Bytes;
use std::sync::Arc;

/// Changes of the first page of a catch-up. Later pages have as many as fill a batch.
const FIRST_CHANGES: u32 = 16;
/// After so many pages without progress the leader is asked: the replica that answered is behind the hub's.
const OLD_PAGES_MAX: u32 = 5;

/// What the next step came to.
pub(super) enum Caught {
    Batch(Batch),
    /// It is synced, or has ended: the mailbox names it where there is something.
    Done,
}

/// Continues until there is something to send, or the watcher is synced.
pub(super) async fn catch_up(hub: Arc<Hub>, id: WatcherId) -> Caught {
    loop {
        let (wanted, revisions, up_to) = match hub.step(id) {
            Step::Done => return Caught::Done,
            Step::Ring { wanted, revisions, up_to } => (wanted, revisions, up_to),
            Step::Store { wanted, from } => match from_store(&hub, &wanted, from).await {
                Ok((revisions, up_to)) => (wanted, revisions, up_to),
                Err(Ended::Compacted(at)) if planted(Mutant::WatchCompactionUnheard) => {
                    hub.advance(id, at);
                    continue;
                }
                Err(ended) => {
                    hub.end(id, ended);
                    return Caught::Done;
                }
            },
        };
        let batch = batch_of(&wanted, &revisions, up_to);
        hub.advance(id, batch.up_to);
        if !batch.events.is_empty() {
            return Caught::Batch(batch);
        }
        tokio::task::yield_now().await;
    }
}

/// The first of what a watcher wants of these, about [`BATCH_BYTES`].
fn batch_of(wanted: &Wanted, revisions: &[Arc<Revision>], up_to: u64) -> Batch {
    let mut batch = Batch::default();
    for revision in revisions {
        if batch.bytes >= BATCH_BYTES {
            return batch;
        }
        pick(wanted, revision, Pick::From(0), &mut batch);
        batch.up_to = revision.stamp;
    }
    batch.up_to = up_to;
    batch
}

/// What comes after a stamp: read for this watcher alone, or for all that are late.
async fn from_store(hub: &Hub, wanted: &Wanted, from: u64) -> Result<Found, Ended> {
    let reader = hub.shared.reader();
    if !reader.crowded {
        let whole = read(hub, wanted, from).await?;
        return Ok((whole.revisions.into_iter().map(Arc::new).collect(), whole.up_to));
    }
    if let Some(found) = hub.shared.find(from, wanted.before) {
        return Ok(found);
    }
    let _turn = hub.shared.turn.lock().await;
    // While it waited another may have read it.
    if let Some(found) = hub.shared.find(from, wanted.before) {
        return Ok(found);
    }
    let before = wanted.before || hub.wants_before();
    let all = Wanted { span: Span::From { start: Bytes::new() }, puts: true, deletes: true, before };
    let whole = read(hub, &all, from).await?;
    Ok(hub.shared.keep(whole, before))
}

/// Changes after a stamp: as many as make a batch, and at least one whole revision or progress.
async fn read(hub: &Hub, wanted: &Wanted, from: u64) -> Result<Whole, Ended> {
    let mut pages = Pages::after(from, wanted.before);
    let mut whole = Whole { after: from, revisions: Vec::new(), up_to: from };
    let (mut limit, mut bytes, mut failures, mut old) = (FIRST_CHANGES, 0usize, 0u32, 0u32);
    loop {
        let level = if old < OLD_PAGES_MAX { ReadConsistency::Eventual } else { ReadConsistency::Strong };
        match page(hub, wanted, &pages, limit, level).await {
            Ok((found, reached, _)) => {
                let (count, last) = (found.len(), pages.next());
                let next = pages.take(found, reached);
                bytes += next.revisions.iter().map(|revision| revision.bytes).sum::<usize>();
                whole.revisions.extend(next.revisions);
                whole.up_to = next.up_to;
                if reached <= last {
                    old += 1;
                    tokio::time::sleep(backoff(0)).await;
                }
                let ended = count == 0 || reached.sub == u32::MAX;
                if whole.up_to > from && (ended || bytes >= BATCH_BYTES / 2) {
                    return Ok(whole);
                }
                if count > 0 && bytes > 0 {
                    let wanted = (count * BATCH_BYTES / bytes).max(FIRST_CHANGES as usize);
                    limit = u32::try_from(wanted).unwrap_or(PAGE_ROWS_MAX).min(PAGE_ROWS_MAX);
                }
            }
            Err(refusal) => {
                failures = failures.saturating_add(1);
                if let Some(ended) = ended_by(hub, &refusal, failures).await {
                    return Err(ended);
                }
                tokio::time::sleep(backoff(failures)).await;
            }
        }
    }
}

async fn page(hub: &Hub, wanted: &Wanted, pages: &Pages, limit: u32, level: ReadConsistency) -> Result<Page, Refusal> {
    let _turn = hub.catch_ups.acquire().await;
    changes(&*hub.door.store, &hub.node, &wanted.span, pages, limit, level).await
}

/// Whether a refusal ends the watch. Everything else is retried: the namespace may be without a leader for a while.
async fn ended_by(hub: &Hub, refusal: &Refusal, failures: u32) -> Option<Ended> {
    if refusal.code == ErrorCode::StampCompacted {
        let (info, _) = hub.describe(ReadConsistency::Strong).await.ok()?;
        return Some(Ended::Compacted(info.compacted));
    }
    (refusal.kind() == ErrorKind::NotFound && failures > 3).then_some(Ended::Gone)
}

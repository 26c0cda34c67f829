//! Reads of history that late watchers of one namespace share.
//!
//! ```text
//!   few are late ──▶ each reads its own span (`catch_up.rs`)
//!   many are late ─▶ the page of all keys that is kept for its position ─▶ its changes, picked out of it
//!                        └─ none ─▶ one of them reads it, the others wait for it
//! ```
//! Always: what is kept is bounded ([`KEPT_BYTES_MAX`]) and goes with the last reader; a page has all changes between its two ends, so a
//! watcher with a position between them misses nothing, whichever key it watches.
//! Held by: `thousands_that_are_late_share_their_reads`, `watchers_see_what_was_written`.
//! Not here: how a page is read (`catch_up.rs`), where a watcher continues (`board.rs`).

use super::pages::Whole;
use super::revision::Revision;
use super::CATCH_UPS_MAX;
use base_types::mutant::{planted, Mutant};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Watchers that read at once, each for itself. More share: their reads would only wait for one another.
const ALONE_MAX: usize = CATCH_UPS_MAX;
/// Bytes of pages that a namespace keeps for late watchers. The last page is kept whatever its size.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// What a watcher finds: all revisions after its position, up to a stamp.
pub(super) type Found = (Vec<Arc<Revision>>, u64);

struct Page {
    after: u64,
    up_to: u64,
    revisions: Vec<Arc<Revision>>,
    bytes: usize,
    with_before: bool,
}

#[derive(Default)]
struct State {
    readers: usize,
    pages: VecDeque<Page>,
    bytes: usize,
}

/// The shared reads of a hub.
#[derive(Default)]
pub(super) struct SharedReads {
    state: Mutex<State>,
    /// Held by who reads a page for all.
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// A watcher that reads. With the last of them goes what is kept.
pub(super) struct Reader<'a> {
    shared: &'a SharedReads,
    /// Whether it has to share.
    pub(super) crowded: bool,
}

impl SharedReads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A watcher begins to read.
    pub(super) fn reader(&self) -> Reader<'_> {
        let mut state = self.state();
        state.readers += 1;
        Reader { shared: self, crowded: state.readers > ALONE_MAX }
    }

    /// What is kept of all changes after a position.
    pub(super) fn find(&self, from: u64, before: bool) -> Option<Found> {
        let state = self.state();
        let early = u64::from(planted(Mutant::WatchSharedPageSkips));
        let fits = |page: &&Page| page.after <= from + early && from < page.up_to && (page.with_before || !before);
        let page = state.pages.iter().rev().find(fits)?;
        let first = page.revisions.partition_point(|revision| revision.stamp <= from);
        Some((page.revisions[first..].to_vec(), page.up_to))
    }

    /// Keeps a page of all keys for the others.
    pub(super) fn keep(&self, whole: Whole, with_before: bool) -> Found {
        let (after, up_to) = (whole.after, whole.up_to);
        let bytes = whole.revisions.iter().map(|revision| revision.bytes).sum();
        let revisions: Vec<_> = whole.revisions.into_iter().map(Arc::new).collect();
        let mut state = self.state();
        state.pages.push_back(Page { after, up_to, revisions: revisions.clone(), bytes, with_before });
        state.bytes += bytes;
        while state.bytes > KEPT_BYTES_MAX && state.pages.len() > 1 {
            let Some(oldest) = state.pages.pop_front() else { break };
            state.bytes -= oldest.bytes;
        }
        (revisions, up_to)
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.state().bytes
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.readers -= 1;
        if state.readers == 0 {
            (state.pages, state.bytes) = (VecDeque::new(), 0);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use base_types::versioned::{Change, Position};
    use bytes::Bytes;

    fn page(after: u64, up_to: u64, value: usize) -> Whole {
        let row = base_types::versioned::Row {
            created: 1,
            modified: 1,
            version: 1,
            lease: 0,
            value: Bytes::from(vec![0; value]),
        };
        let change = |stamp| Change {
            at: Position { stamp, sub: 0 },
            time_ms: 0,
            key: "k".into(),
            after: Some(row.clone()),
            before: None,
        };
        let revisions = (after + 1..=up_to).map(|stamp| Revision::new(stamp, vec![change(stamp)], false)).collect();
        Whole { after, revisions, up_to }
    }

    #[test]
    pub fn page_serves_positions_between_its_ends() {
        let shared = SharedReads::default();
        let _reader = shared.reader();
        shared.keep(page(10, 20, 1), false);
        let stamps = |from| {
            let (revisions, up_to) = shared.find(from, false)?;
            assert_eq!(up_to, 20);
            Some((revisions.first()?.stamp, revisions.len()))
        };
        assert_eq!(
            (stamps(9), stamps(10), stamps(15), stamps(19), stamps(20)),
            (None, Some((11, 10)), Some((16, 5)), Some((20, 1)), None)
        );
        assert!(shared.find(10, true).is_none(), "it has no former values");
    }

    #[test]
    fn what_is_kept_is_bounded_and_goes_with_the_last_reader() {
        let shared = SharedReads::default();
        let readers: Vec<_> = (0..ALONE_MAX + 1).map(|_| shared.reader()).collect();
        assert_eq!(readers.iter().filter(|reader| reader.crowded).count(), 1);
        for number in 0..100 {
            shared.keep(page(number * 10, number * 10 + 10, 100_000), false);
            assert!(shared.bytes() <= KEPT_BYTES_MAX);
        }
        assert!(shared.find(0, false).is_none() && shared.find(990, false).is_some());
        drop(readers);
        assert_eq!(shared.bytes(), 0);
    }
}

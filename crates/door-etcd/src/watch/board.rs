//! What a hub knows: how far the changes were published, the recent ones, and its watchers with what each is due.
//!
//! ```text
//!            publish ─▶ ring ──over its bytes──▶ (dropped; watchers that still wait for it fall behind)
//!                         │ by span
//!   Synced: queue of references into the ring ──take──▶ batch      queue full, or the ring moved on ──▶ Behind
//!   Behind: a position, nothing else ──step: ring or store──▶ batch … ──reached the board's position──▶ Synced
//! ```
//!
//! Always: a watcher is given each wanted change after its position once, in order, whole revisions at a time. What queues refer to
//! is in the ring, and the ring counts the references too: its bound is the bound of both. A watcher that is behind costs
//! its position, and publishing does not look at it.
//! Not here: reading the store (`follower.rs`, `catch_up.rs`), messages (`stream.rs`).

use super::mailbox::Mailbox;
use super::pages::Whole;
use super::revision::{pick, Batch, Pick, Revision, Wanted};
use super::spans::{Spans, WatcherId};
use super::Settings;
use base_types::mutant::{planted, Mutant};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// What a reference from a queue takes, with its entry in the list of receivers.
const REFERENCE_BYTES: usize = 40;
/// The most changes of the ring that one step of a catch-up looks at.
const STEP_CHANGES_MAX: usize = 4_096;

/// Why a watch ended without its client having asked for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// What it would be given next was compacted; at which stamp, which is the first that can be watched.
    Compacted(u64),
    /// The namespace is gone.
    Gone,
}

impl Ended {
    pub fn is_compacted(&self) -> bool {
        matches!(self, Ended::Compacted(_))
    }
}

enum Mode {
    Synced,
    Behind,
    Ended(Ended),
}

struct Watcher {
    wanted: Arc<Wanted>,
    /// Everything up to here was taken; what comes at or before it is not given.
    from: u64,
    queue: VecDeque<(Arc<Revision>, Pick)>,
    mode: Mode,
    mailbox: Arc<Mailbox>,
    /// Whether the mailbox names it.
    listed: bool,
}

struct Held {
    revision: Arc<Revision>,
    receivers: Vec<WatcherId>,
}

impl Held {
    fn bytes(&self) -> usize {
        self.revision.bytes + self.receivers.len() * REFERENCE_BYTES
    }
}

/// What a watcher is due.
#[derive(Debug)]
pub(super) enum Taken {
    Nothing,
    Batch(Batch),
    /// It has to catch up ([`Board::step`]).
    Behind,
    /// It is no longer on the board.
    Ended(Ended),
}

/// Where a watcher that is behind gets its next changes.
#[derive(Debug)]
pub(super) enum Step {
    /// Nowhere: it is synced now, has ended or was removed.
    Done,
    /// From these, which are all after its position up to `up_to`.
    Ring { wanted: Arc<Wanted>, revisions: Vec<Arc<Revision>>, up_to: u64 },
    /// From the store, after this position.
    Store { wanted: Arc<Wanted>, from: u64 },
}

/// Why a page cannot be published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unfit {
    /// It begins after the board's position.
    Gap,
    /// A watcher wants former values, and the page has none.
    NoBefore,
}

/// The board of a hub.
pub(super) struct Board {
    position: u64,
    ring: VecDeque<Held>,
    ring_bytes: usize,
    /// All published after this stamp is in the ring.
    ring_from: u64,
    /// All published after this stamp has former values.
    before_from: u64,
    spans: Spans,
    watchers: HashMap<WatcherId, Watcher>,
    next: WatcherId,
    /// How many watchers want former values.
    want_before: usize,
    /// How often a watcher fell behind.
    stalls: u64,
    recent_bytes_max: usize,
    queue_revisions_max: usize,
}

impl Board {
    /// A board without watchers.
    pub fn new(settings: &Settings, seed: u64) -> Board {
        Board {
            position: 0,
            ring: VecDeque::new(),
            ring_bytes: 0,
            ring_from: 0,
            before_from: 0,
            spans: Spans::new(seed),
            watchers: HashMap::new(),
            next: 1,
            want_before: 0,
            stalls: 0,
            recent_bytes_max: settings.recent_bytes_max,
            queue_revisions_max: settings.queue_revisions_max,
        }
    }

    /// Begins again at a stamp. There are no watchers.
    pub fn restart(&mut self, position: u64) {
        assert!(self.watchers.is_empty(), "a board with watchers does not begin again");
        self.ring.clear();
        (self.ring_bytes, self.before_from) = (0, 0);
        (self.position, self.ring_from) = (position, position);
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn watchers(&self) -> usize {
        self.watchers.len()
    }

    pub fn wants_before(&self) -> bool {
        self.want_before > 0
    }

    /// Bytes of the ring and of the references to it; how many wait in queues; how many watchers are behind; how many fell behind.
    pub fn figures(&self) -> (usize, usize, usize, u64) {
        let queued = self.watchers.values().map(|watcher| watcher.queue.len()).sum();
        let behind = self.watchers.values().filter(|watcher| matches!(watcher.mode, Mode::Behind)).count();
        (self.ring_bytes, queued, behind, self.stalls)
    }

    /// A new watcher, of what comes after a stamp.
    pub fn add(&mut self, wanted: Arc<Wanted>, from: u64, mailbox: Arc<Mailbox>) -> WatcherId {
        let id = self.next;
        self.next += 1;
        self.want_before += usize::from(wanted.before);
        let mode = if from >= self.position { Mode::Synced } else { Mode::Behind };
        let mut watcher = Watcher { wanted, from, queue: VecDeque::new(), mode, mailbox, listed: false };
        match watcher.mode {
            Mode::Synced => self.spans.insert(&watcher.wanted.span, id),
            _ => watcher.list(id),
        }
        self.watchers.insert(id, watcher);
        id
    }

    pub fn remove(&mut self, id: WatcherId) {
        if let Some(watcher) = self.watchers.remove(&id) {
            self.want_before -= usize::from(watcher.wanted.before);
            if matches!(watcher.mode, Mode::Synced) {
                self.spans.remove(&watcher.wanted.span, id);
            }
        }
    }

    /// Publishes what was read. What is known already is left out.
    pub fn publish(&mut self, whole: Whole) -> Result<(), Unfit> {
        if whole.after > self.position {
            return Err(Unfit::Gap);
        }
        let unfit = || whole.revisions.iter().any(|revision| !revision.with_before);
        if self.wants_before() && unfit() {
            return Err(Unfit::NoBefore);
        }
        for revision in whole.revisions {
            if revision.stamp > self.position {
                self.publish_one(Arc::new(revision));
            }
        }
        self.position = self.position.max(whole.up_to);
        Ok(())
    }

    fn publish_one(&mut self, revision: Arc<Revision>) {
        let (mut receivers, mut full) = (Vec::new(), Vec::new());
        for (index, change) in revision.changes.iter().enumerate() {
            let deleted = change.after.is_none();
            self.spans.of(&change.key, |id, alone| {
                let Some(watcher) = self.watchers.get_mut(&id) else { return };
                if revision.stamp <= watcher.from || !watcher.wanted.takes(deleted) {
                    return;
                }
                if watcher.queue.back().is_some_and(|(last, _)| last.stamp == revision.stamp) {
                    return; // A range; it looks through the rest of the revision itself.
                }
                if watcher.queue.len() == self.queue_revisions_max {
                    full.push(id);
                    return;
                }
                let index = index as u32;
                watcher.queue.push_back((revision.clone(), if alone { Pick::One(index) } else { Pick::From(index) }));
                watcher.list(id);
                receivers.push(id);
            });
        }
        self.position = revision.stamp;
        if !revision.with_before {
            self.before_from = revision.stamp;
        }
        full.into_iter().for_each(|id| self.fall_behind(id));
        let held = Held { revision, receivers };
        self.ring_bytes += held.bytes();
        self.ring.push_back(held);
        self.shorten_ring();
    }

    fn shorten_ring(&mut self) {
        while self.ring_bytes > self.recent_bytes_max && self.ring.len() > 1 {
            let Some(oldest) = self.ring.pop_front() else { return };
            self.ring_bytes -= oldest.bytes();
            self.ring_from = oldest.revision.stamp;
            for id in oldest.receivers {
                let waits =
                    |watcher: &Watcher| watcher.queue.front().is_some_and(|(first, _)| first.stamp <= self.ring_from);
                if self.watchers.get(&id).is_some_and(waits) {
                    self.fall_behind(id);
                }
            }
        }
    }

    /// Takes a synced watcher off the fan-out. It keeps its position: what it has taken, and what it did not want before the first that
    /// waits. Without that a compaction below could end a watch whose client has learned that nothing is missing.
    fn fall_behind(&mut self, id: WatcherId) {
        let Some(watcher) = self.watchers.get_mut(&id) else { return };
        if matches!(watcher.mode, Mode::Synced) {
            watcher.mode = Mode::Behind;
            if let Some((first, _)) = watcher.queue.front().filter(|_| !planted(Mutant::WatchStallGoesBack)) {
                watcher.from = watcher.from.max(first.stamp.saturating_sub(1));
            }
            if planted(Mutant::WatchStallForgets) {
                watcher.from = watcher.queue.back().map_or(watcher.from, |(last, _)| last.stamp);
            }
            watcher.queue = VecDeque::new();
            watcher.list(id);
            self.spans.remove(&watcher.wanted.span, id);
            self.stalls += 1;
        }
    }

    /// What is between the position and a stamp cannot be had any more: all watchers look for themselves what they miss.
    pub fn lapse(&mut self, to: u64) {
        let (before, ids) = (self.position, self.watchers.keys().copied().collect::<Vec<_>>());
        for id in ids {
            if let Some(watcher) = self.watchers.get_mut(&id) {
                if matches!(watcher.mode, Mode::Synced) && watcher.queue.is_empty() {
                    watcher.from = watcher.from.max(before);
                }
            }
            self.fall_behind(id);
        }
        self.ring.clear();
        self.ring_bytes = 0;
        self.position = self.position.max(to);
        self.ring_from = self.position;
    }

    /// Ends every watch.
    pub fn end_all(&mut self, why: &Ended) {
        let ids: Vec<_> = self.watchers.keys().copied().collect();
        ids.into_iter().for_each(|id| self.end(id, why.clone()));
    }

    /// Ends a watch. Its stream finds out when it takes.
    pub fn end(&mut self, id: WatcherId, why: Ended) {
        let Some(watcher) = self.watchers.get_mut(&id) else { return };
        if matches!(watcher.mode, Mode::Synced) {
            self.spans.remove(&watcher.wanted.span, id);
        }
        watcher.queue = VecDeque::new();
        watcher.mode = Mode::Ended(why);
        watcher.list(id);
    }

    /// What a watcher is due: about `bytes` of it, or one revision if that has more. To be called for each id that the mailbox gives.
    pub fn take(&mut self, id: WatcherId, bytes: usize) -> Taken {
        let Some(watcher) = self.watchers.get_mut(&id) else { return Taken::Nothing };
        watcher.listed = false;
        match &watcher.mode {
            Mode::Behind => Taken::Behind,
            Mode::Ended(why) => {
                let why = why.clone();
                self.remove(id);
                Taken::Ended(why)
            }
            Mode::Synced => {
                let mut batch = Batch::default();
                while batch.bytes < bytes {
                    let Some((revision, at)) = watcher.queue.pop_front() else { break };
                    watcher.from = revision.stamp;
                    pick(&watcher.wanted, &revision, at, &mut batch);
                }
                if !watcher.queue.is_empty() {
                    watcher.list(id);
                }
                batch.up_to = watcher.from;
                if batch.events.is_empty() {
                    Taken::Nothing
                } else {
                    Taken::Batch(batch)
                }
            }
        }
    }

    /// The next step of a watcher that is behind.
    pub fn step(&mut self, id: WatcherId) -> Step {
        let Some(watcher) = self.watchers.get_mut(&id) else { return Step::Done };
        match watcher.mode {
            Mode::Behind => (),
            Mode::Synced => return Step::Done,
            Mode::Ended(_) => {
                watcher.list(id);
                return Step::Done;
            }
        }
        let (wanted, from) = (watcher.wanted.clone(), watcher.from);
        if from >= self.position {
            watcher.mode = Mode::Synced;
            self.spans.insert(&wanted.span, id);
            return Step::Done;
        }
        if from < self.ring_from || wanted.before && from < self.before_from {
            return Step::Store { wanted, from };
        }
        let first = self.ring.partition_point(|held| held.revision.stamp <= from);
        let (mut revisions, mut changes, mut up_to) = (Vec::new(), 0, self.position);
        for held in self.ring.range(first..) {
            if changes >= STEP_CHANGES_MAX {
                up_to = revisions.last().map_or(from, |last: &Arc<Revision>| last.stamp);
                break;
            }
            changes += held.revision.changes.len();
            revisions.push(held.revision.clone());
        }
        Step::Ring { wanted, revisions, up_to }
    }

    /// A watcher that is behind was given all up to a stamp.
    pub fn advance(&mut self, id: WatcherId, up_to: u64) {
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.from = watcher.from.max(up_to);
        }
    }

    /// Names a watcher in its mailbox again: what it was given has been sent.
    pub fn list(&mut self, id: WatcherId) {
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.list(id);
        }
    }

    /// The position, if each of these watchers has taken all up to it and none begins after it.
    pub fn caught_up(&self, mut ids: impl Iterator<Item = WatcherId>) -> Option<u64> {
        let position = self.position;
        let synced = |watcher: &Watcher| {
            matches!(watcher.mode, Mode::Synced) && watcher.queue.is_empty() && watcher.from <= position
        };
        ids.all(|id| self.watchers.get(&id).is_some_and(synced)).then_some(position)
    }
}

impl Watcher {
    fn list(&mut self, id: WatcherId) {
        if !self.listed {
            self.listed = true;
            self.mailbox.put(id);
        }
    }
}

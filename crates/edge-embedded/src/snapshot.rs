//! One instant of all cores, and walks through it.
//!
//! ```text
//!   each core: view, engine snapshot ─▶ number S: all up to it is in memory ─▶ are the views still the same?
//!                        ▲──────────────────────────── no ───────────────────────────┘
//! ```
//!
//! What is in a core's engine snapshot or its memories, with a number up to S, is then all that was ever
//! written up to S, and nothing later is in the engine snapshot: memory goes to the engine only by way of
//! another view. A walk merges the cores' memories and engine snapshots by key.
//!
//! Always: no lock is taken; a snapshot's answers never change; of a batch it shows all or nothing.
//! Held by: `a_snapshot_is_one_instant_of_all_cores`.
//! Not here: single newest values (`Store::get`).

use crate::core::{Shared, View};
use crate::error::StoreError;
use crate::flusher::SPACE;
use crate::memory::{Found, Memory};
use base_engine::{Direction, EngineSnapshot, KeyRange};
use bytes::Bytes;
use std::borrow::Borrow;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A view changes twice in a flush, which takes a synced write: nobody is overtaken so often.
const TRIES_MAX: usize = 10_000;
/// Pairs, and their bytes, taken from an engine at a time.
const PAGE_PAIRS: usize = 256;
const PAGE_BYTES: usize = 256 << 10;

/// Which keys, and which way. All of them in ascending order by default.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Range {
    /// From this key on (inclusive).
    pub start: Vec<u8>,
    /// Up to before this key; `None`: to the end.
    pub end: Option<Vec<u8>>,
    /// From the last key down.
    pub reverse: bool,
}

impl Range {
    /// Every key.
    pub fn all() -> Range {
        Range::default()
    }

    /// From `start` up to before `end`.
    pub fn between(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Range {
        Range { start: start.into(), end: Some(end.into()), reverse: false }
    }

    /// The keys that begin with `prefix`.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Range {
        let start: Vec<u8> = prefix.into();
        // The first key behind all of them: the last byte that can be raised is.
        let kept = start.iter().rposition(|byte| *byte < u8::MAX);
        let end = kept.map(|at| [&start[..at], &[start[at] + 1]].concat());
        Range { start, end, reverse: false }
    }

    /// The same keys from the last down.
    pub fn reversed(mut self) -> Range {
        self.reverse = !self.reverse;
        self
    }
}

struct Part {
    view: Arc<View>,
    engine: Box<dyn EngineSnapshot>,
}

/// All keys as of one instant.
pub struct Snapshot {
    parts: Vec<Part>,
    /// The directory stays locked: an engine of it is open.
    _shared: Arc<Shared>,
    number: u64,
}

impl Snapshot {
    pub(crate) fn take(shared: &Arc<Shared>) -> Result<Snapshot, StoreError> {
        for _ in 0..TRIES_MAX {
            let mut parts = Vec::with_capacity(shared.cores.len());
            for core in &shared.cores {
                let view = core.view.load_full();
                parts.push(Part { view, engine: core.engine.snapshot()? });
            }
            let number = shared.order.stable();
            let same = |(core, part): (&crate::core::Core, &Part)| Arc::ptr_eq(&core.view.load(), &part.view);
            if shared.cores.iter().zip(&parts).all(same) {
                return Ok(Snapshot { parts, _shared: shared.clone(), number });
            }
            std::thread::yield_now();
        }
        Err(StoreError::Io("no instant was found in which no core was changing engines; try again".into()))
    }

    /// The value of a key at the snapshot's instant.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let part = &self.parts[usize::from(crate::core::owner_of(key, self.parts.len() as u16))];
        for memory in std::iter::once(&part.view.active).chain(&part.view.frozen) {
            if let Some(value) = memory.get(key, self.number) {
                return Ok(value);
            }
        }
        Ok(part.engine.get(SPACE, key)?)
    }

    /// The keys and values of a range in order.
    pub fn scan(&self, range: Range) -> Scan<&Snapshot> {
        Scan::new(self, range)
    }
}

/// Where pairs come from.
#[derive(Clone, Copy)]
enum Source {
    Active(usize),
    Frozen(usize),
    Engine(usize),
}

struct Cursor {
    source: Source,
    head: Option<Found>,
    /// The engine's pairs behind the head.
    page: VecDeque<(Bytes, Bytes)>,
    /// Whether the engine has more behind the page.
    more: bool,
}

/// A walk through a range; ends after the first error.
pub struct Scan<S> {
    snapshot: S,
    range: Range,
    /// By core, then active, frozen, engine: of equal keys the first counts. Empty until the first step.
    cursors: Vec<Cursor>,
    begun: bool,
    failed: bool,
}

impl<S: Borrow<Snapshot>> Scan<S> {
    pub(crate) fn new(snapshot: S, range: Range) -> Scan<S> {
        Scan { snapshot, range, cursors: Vec::new(), begun: false, failed: false }
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        self.begun = true;
        if self.range.end.as_ref().is_some_and(|end| *end <= self.range.start) {
            return Ok(());
        }
        let parts = &self.snapshot.borrow().parts;
        let mut sources = Vec::new();
        for (core, part) in parts.iter().enumerate() {
            sources.push(Source::Active(core));
            sources.extend(part.view.frozen.is_some().then_some(Source::Frozen(core)));
            sources.push(Source::Engine(core));
        }
        for source in sources {
            let mut cursor = Cursor { source, head: None, page: VecDeque::new(), more: true };
            self.advance(&mut cursor, None)?;
            self.cursors.push(cursor);
        }
        Ok(())
    }

    /// Moves a cursor behind the key it was at.
    fn advance(&self, cursor: &mut Cursor, at: Option<&Bytes>) -> Result<(), StoreError> {
        let snapshot = self.snapshot.borrow();
        let memory = match cursor.source {
            Source::Active(core) => Some(&snapshot.parts[core].view.active),
            Source::Frozen(core) => snapshot.parts[core].view.frozen.as_ref(),
            Source::Engine(core) => {
                if cursor.page.is_empty() && cursor.more {
                    (cursor.page, cursor.more) = self.page(snapshot.parts[core].engine.as_ref(), at)?;
                }
                cursor.head = cursor.page.pop_front().map(|(key, value)| (key, Some(value)));
                return Ok(());
            }
        };
        cursor.head = memory.and_then(|memory| self.next_in(memory, snapshot.number, at));
        Ok(())
    }

    fn next_in(&self, memory: &Memory, number: u64, at: Option<&Bytes>) -> Option<Found> {
        let found = match self.range.reverse {
            false => match at {
                Some(key) => memory.next(key, false, number),
                None => memory.next(&self.range.start, true, number),
            },
            true => memory.previous(at.map(|key| &key[..]).or(self.range.end.as_deref()), number),
        };
        found.filter(|(key, _)| self.holds(key))
    }

    fn holds(&self, key: &[u8]) -> bool {
        key >= &self.range.start[..] && self.range.end.as_ref().is_none_or(|end| key < &end[..])
    }

    /// The engine's next pairs, and whether there are more after them.
    fn page(
        &self,
        engine: &dyn EngineSnapshot,
        at: Option<&Bytes>,
    ) -> Result<(VecDeque<(Bytes, Bytes)>, bool), StoreError> {
        let (mut page, mut bytes, mut more) = (VecDeque::new(), 0, false);
        // The first key behind `k` in byte order is `k` with a zero byte.
        let behind = at.map(|key| [key, &[0][..]].concat());
        let (start, end, direction) = match self.range.reverse {
            false => (behind.as_deref().unwrap_or(&self.range.start), self.range.end.as_deref(), Direction::Forward),
            true => (&self.range.start[..], at.map(|key| &key[..]).or(self.range.end.as_deref()), Direction::Backward),
        };
        engine.range(SPACE, KeyRange { start, end }, direction, &mut |key, value| {
            if page.len() >= PAGE_PAIRS || bytes >= PAGE_BYTES {
                more = true;
                return ControlFlow::Break(());
            }
            bytes += key.len() + value.len();
            page.push_back((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
            ControlFlow::Continue(())
        })?;
        Ok((page, more))
    }

    fn step(&mut self) -> Result<Option<(Bytes, Bytes)>, StoreError> {
        if !self.begun {
            self.begin()?;
        }
        loop {
            let mut best: Option<&Found> = None;
            for head in self.cursors.iter().filter_map(|cursor| cursor.head.as_ref()) {
                let nearer = |than: &&Found| match self.range.reverse {
                    false => head.0 < than.0,
                    true => head.0 > than.0,
                };
                if best.as_ref().is_none_or(nearer) {
                    best = Some(head);
                }
            }
            let Some((key, value)) = best.cloned() else { return Ok(None) };
            let mut cursors = std::mem::take(&mut self.cursors);
            for cursor in cursors.iter_mut().filter(|cursor| cursor.head.as_ref().is_some_and(|head| head.0 == key)) {
                self.advance(cursor, Some(&key))?;
            }
            self.cursors = cursors;
            if let Some(value) = value {
                return Ok(Some((key, value)));
            }
        }
    }
}

impl<S: Borrow<Snapshot>> Iterator for Scan<S> {
    type Item = Result<(Bytes, Bytes), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        step.transpose()
    }
}

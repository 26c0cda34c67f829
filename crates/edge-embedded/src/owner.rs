//! A core's own thread: from its mailbox to its log, from its memory to its engine.
//!
//! ```text
//!   turn   events ─▶ letters ─▶ cut the log ─▶ write what is due, synced ─▶ freeze and give to the engine ─▶ sleep
//! ```
//!
//! The write is done on this thread: while it is under way letters gather, and the next write takes all
//! of them. Segments are made on a second thread, the engine is written on a third (`flusher.rs`).
//!
//! Always: a waiter hears only of what is synced; a failed write, a failed engine or a panic latches the
//! store; every queue has a bound.
//! Held by: `a_failed_disk_latches_the_store`.
//! Not here: what a log is (core-log) and how it is written (edge-disk).

use crate::core::{Core, Shared, View};
use crate::flusher::{Flush, Job};
use crate::journal::Journal;
use base_engine::EngineError;
use base_types::{LogIndex, Tick};
use core_log::LogAction;
use edge_disk::writer::Writer;
use edge_disk::DiskEvent;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reports and jobs that may wait for a thread: there are a few segments and one flush out.
pub const QUEUED_MAX: usize = 64;
/// Weak writes of so many bytes are written out before their time.
const WRITE_BYTES: u64 = 1 << 20;
/// A full engine, and a cut that waits for another core, are tried again so often.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// What the threads beside it tell the owner.
pub enum Event {
    Disk(DiskEvent),
    Engine(Result<(), EngineError>),
}

/// What an owner is made of.
pub struct Owner {
    pub shared: Arc<Shared>,
    pub core: usize,
    pub journal: Journal,
    pub writer: Writer,
    pub segments: SyncSender<LogAction>,
    pub flusher: SyncSender<Job>,
    pub events: Receiver<Event>,
    pub state: State,
}

/// What it remembers from turn to turn.
pub struct State {
    begun: Instant,
    /// When the oldest write that is not written out was taken.
    unwritten_since: Option<Tick>,
    /// The log waits for a segment.
    starved: bool,
    /// When the active memory was first seen not to be empty.
    active_since: Option<Tick>,
    /// The memory on its way into the engine: what it lets the log cut, and up to which number.
    flushing: Option<(LogIndex, u64)>,
    /// When the engine, found full, is tried again.
    retry_at: Option<Tick>,
    /// What the engine holds.
    engine_index: LogIndex,
    /// The log keeps something for another core's sake; when that is looked at again.
    kept_until: Option<Tick>,
}

impl Default for State {
    fn default() -> State {
        State {
            begun: Instant::now(),
            unwritten_since: None,
            starved: false,
            active_since: None,
            flushing: None,
            retry_at: None,
            engine_index: LogIndex(0),
            kept_until: None,
        }
    }
}

impl Owner {
    /// Works until the store is closed.
    pub fn run(mut self) {
        self.core().bell.hang_up();
        while !self.turn() {}
    }

    fn core(&self) -> &Core {
        &self.shared.cores[self.core]
    }

    fn now(&self) -> Tick {
        // Far enough from 0 that no subtraction clips.
        Tick::from_millis(1_000) + self.state.begun.elapsed()
    }

    /// One turn; true: all is done and the store is closed.
    fn turn(&mut self) -> bool {
        let now = self.now();
        self.take_events();
        self.take_letters(now);
        if self.shared.failure().is_some() {
            self.journal.on_failed();
        } else {
            self.cut(now);
            if self.must_write(now) {
                self.write(now);
            }
            self.feed_engine(now);
        }
        if self.shared.stopping.load(Ordering::Acquire) && self.is_done() {
            return true;
        }
        self.sleep(now);
        false
    }

    fn take_letters(&mut self, now: Tick) {
        let failed = self.shared.failure().is_some();
        // Those that come while it is done are taken next time.
        for _ in 0..crate::mailbox::LETTERS_MAX {
            let Some(letter) = self.shared.cores[self.core].mailbox.take() else { break };
            match failed {
                false => self.journal.record(letter),
                true => letter.waiter.into_iter().for_each(|waiter| waiter.fail()),
            }
        }
        if self.journal.has_unwritten() {
            self.state.unwritten_since.get_or_insert(now);
        }
    }

    fn take_events(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Disk(event) => self.on_disk(event),
                Event::Engine(result) => self.on_engine(result),
            }
        }
    }

    fn on_disk(&mut self, event: DiskEvent) {
        match event {
            DiskEvent::Written { batch } => self.journal.on_written(batch),
            DiskEvent::Failed { message } => self.shared.fail(message),
            DiskEvent::SegmentReady { segment } => {
                self.journal.on_segment(segment, true);
                self.state.starved = false;
            }
            DiskEvent::SegmentFailed { segment } => {
                self.journal.on_segment(segment, false);
                self.state.starved = false;
            }
            DiskEvent::Full { full } => self.core().disk_full.store(full, Ordering::Relaxed),
        }
    }

    /// Whether something is to be written out now.
    fn must_write(&self, now: Tick) -> bool {
        if self.state.starved {
            return now >= self.journal.next_wake();
        }
        if !self.journal.has_unwritten() {
            return self.journal.has_waiters() || now >= self.journal.next_wake();
        }
        let due = self.state.unwritten_since.is_some_and(|since| now >= since + self.shared.options.flush_every);
        let stopping = self.shared.stopping.load(Ordering::Acquire);
        due || stopping || self.journal.has_waiters() || self.journal.unwritten_bytes() >= WRITE_BYTES
    }

    /// Writes out everything that is recorded.
    fn write(&mut self, now: Tick) {
        let mut wrote = true;
        while wrote {
            wrote = false;
            for action in self.journal.poll(now) {
                match action {
                    LogAction::Write { .. } => {
                        wrote = true;
                        let event = self.writer.carry_out(action);
                        event.into_iter().for_each(|event| self.on_disk(event));
                    }
                    other => {
                        if self.segments.try_send(other).is_err() {
                            self.shared.fail("the thread that makes log segments has ended or hangs".into());
                        }
                    }
                }
            }
            if self.shared.failure().is_some() {
                return self.journal.on_failed();
            }
        }
        self.state.starved = self.journal.has_unwritten();
        if !self.state.starved {
            self.state.unwritten_since = None;
        }
        self.core().segments.store(self.journal.segments(), Ordering::Relaxed);
    }

    /// Gives the active memory to the engine when it is large or old enough, or the store is closing.
    fn feed_engine(&mut self, now: Tick) {
        if self.state.flushing.is_some() {
            return self.feed_again(now);
        }
        let view = self.core().view.load_full();
        if view.active.is_empty() {
            return;
        }
        let since = *self.state.active_since.get_or_insert(now);
        let large = view.active.bytes() >= self.shared.core_memory_bytes() / 2;
        if large || now >= since + self.shared.options.engine_every || self.shared.stopping.load(Ordering::Acquire) {
            self.freeze(now);
        }
    }

    fn freeze(&mut self, now: Tick) {
        self.take_letters(now);
        let shared = self.shared.clone();
        let core = &shared.cores[self.core];
        let writers = core.stop_writers();
        self.take_letters(now);
        let (index, number) = (self.journal.mark(), shared.order.last());
        let frozen = core.view.load().active.clone();
        core.view.store(Arc::new(View { active: Arc::default(), frozen: Some(frozen.clone()) }));
        drop(writers);
        self.state.active_since = None;
        self.state.flushing = Some((index, number));
        self.give(Flush { memory: frozen, number });
    }

    fn give(&mut self, flush: Flush) {
        if self.flusher.try_send(Job::Flush(flush)).is_err() {
            self.shared.fail("the thread that writes the engine has ended or hangs".into());
        }
    }

    /// The engine was full.
    fn feed_again(&mut self, now: Tick) {
        let Some((_, number)) = self.state.flushing else { return };
        if self.state.retry_at.is_none_or(|at| now < at) {
            return;
        }
        self.state.retry_at = None;
        let frozen = self.core().view.load().frozen.clone();
        frozen.into_iter().for_each(|memory| self.give(Flush { memory, number }));
    }

    fn on_engine(&mut self, result: Result<(), EngineError>) {
        let full = match result {
            Ok(()) => false,
            Err(EngineError::Full(_)) => true,
            Err(error) => return self.shared.fail(format!("core {}: {error}", self.core)),
        };
        self.core().engine_full.store(full, Ordering::Relaxed);
        if full {
            self.state.retry_at = Some(self.now() + RETRY_EVERY);
            return;
        }
        let Some((index, number)) = self.state.flushing.take() else { return };
        let core = self.core();
        core.durable.store(number, Ordering::Release);
        let view = core.view.load_full();
        core.view.store(Arc::new(View { active: view.active.clone(), frozen: None }));
        let freed = view.frozen.as_ref().map_or(0, |memory| memory.bytes());
        core.memory_bytes.fetch_sub(freed, Ordering::Relaxed);
        let _ = self.flusher.try_send(Job::Free(view));
        self.state.engine_index = index;
        self.state.kept_until = Some(Tick(0));
    }

    /// Cuts the log behind what the engines hold.
    fn cut(&mut self, now: Tick) {
        if self.state.kept_until.is_none_or(|until| now < until) {
            return;
        }
        let shared = &self.shared;
        let durable = |core: u16| shared.cores[usize::from(core)].durable.load(Ordering::Acquire);
        let kept = self.journal.trim(self.state.engine_index, durable);
        self.state.kept_until = kept.then(|| now + RETRY_EVERY);
        if self.journal.has_unwritten() {
            self.state.unwritten_since.get_or_insert(now);
        }
    }

    /// Closing: nothing is left that this thread could still do. What a full engine did not take is in the log.
    fn is_done(&self) -> bool {
        if self.shared.failure().is_some() {
            return true;
        }
        let core = self.core();
        let given = core.view.load().active.is_empty() && self.state.flushing.is_none();
        let refused = core.engine_full.load(Ordering::Relaxed) || self.state.starved;
        core.mailbox.is_empty()
            && !self.journal.has_waiters()
            && (given || refused)
            && (!self.journal.has_unwritten() || self.state.starved)
    }

    fn sleep(&mut self, now: Tick) {
        let core = &self.shared.cores[self.core];
        let is_idle = || core.mailbox.is_empty();
        if self.shared.failure().is_some() {
            return core.bell.sleep(Some(RETRY_EVERY), false, is_idle);
        }
        let (active_is_empty, state) = (core.view.load().active.is_empty(), &self.state);
        let unwritten = self.journal.has_unwritten();
        let mut until = match unwritten && !state.starved {
            true => state.unwritten_since.map_or(now, |since| since + self.shared.options.flush_every),
            false => self.journal.next_wake(),
        };
        if state.flushing.is_none() && !active_is_empty {
            until = until.min(state.active_since.map_or(now, |since| since + self.shared.options.engine_every));
        }
        for at in [state.retry_at, state.kept_until].into_iter().flatten() {
            until = until.min(at);
        }
        if until <= now || core.mailbox.is_filling() {
            return;
        }
        let time = (until != Tick::NEVER).then(|| until.since(now));
        core.bell.sleep(time, unwritten, || is_idle() && (!active_is_empty || core.view.load().active.is_empty()));
    }
}

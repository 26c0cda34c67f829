//! What happened, as one number: every event of a run goes into a hash, kept every thousand events,
//! so that two runs of one seed can be compared, or where they part.
//!
//! Not here: what a person reads of it (`recorder` and the files beside it).

pub mod line;
pub mod recorder;
mod seen;
pub mod timeline;

use line::Line;
use recorder::SharedRecorder;
use xxhash_rust::xxh3::Xxh3;

/// Events between two kept hashes.
pub const TRACE_INTERVAL: u64 = 1_000;

/// The hash of a run so far.
pub struct Trace {
    hash: Xxh3,
    /// One event as bytes; kept to reuse its memory.
    event: Vec<u8>,
    /// Events so far.
    pub events: u64,
    /// The hash after each `TRACE_INTERVAL` events.
    pub points: Vec<u64>,
    /// Who keeps it for a reader, if anybody does.
    recorder: Option<SharedRecorder>,
}

impl Trace {
    /// An empty trace.
    pub fn new(recorder: Option<SharedRecorder>) -> Trace {
        Trace { hash: Xxh3::new(), event: Vec::new(), events: 0, points: Vec::new(), recorder }
    }

    /// Something happened at `now`; `what` is its kind, the numbers its content.
    pub fn note(&mut self, now: u64, what: &'static str, numbers: &[u64]) {
        self.event.clear();
        self.event.extend_from_slice(&now.to_le_bytes());
        self.event.extend_from_slice(what.as_bytes());
        numbers.iter().for_each(|number| self.event.extend_from_slice(&number.to_le_bytes()));
        self.hash.update(&self.event);
        self.events += 1;
        if self.events.is_multiple_of(TRACE_INTERVAL) {
            self.points.push(self.hash.digest());
        }
    }

    /// A line for the reader, if one of this moment is wanted.
    pub fn say(&self, now: u64, line: impl FnOnce() -> Line) {
        if self.recorder.as_ref().is_some_and(|recorder| recorder.borrow().wants(now)) {
            let line = line();
            self.with(now, |recorder| recorder.push(now, line));
        }
    }

    /// The recorder, if there is one.
    pub fn with(&self, now: u64, look: impl FnOnce(&mut recorder::Recorder)) {
        if let Some(recorder) = &self.recorder {
            let mut recorder = recorder.borrow_mut();
            recorder.now_us = now;
            look(&mut recorder);
        }
    }

    /// The recorder, if it wants lines of this moment.
    pub fn with_lines(&self, now: u64, look: impl FnOnce(&mut recorder::Recorder)) {
        if self.recorder.as_ref().is_some_and(|recorder| recorder.borrow().wants(now)) {
            self.with(now, look);
        }
    }

    /// A phase of the run begins.
    pub fn phase(&self, now: u64, name: &'static str) {
        self.with(now, |recorder| recorder.phase(now, name));
    }

    /// Whether somebody looks.
    pub fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    /// The hash of everything so far.
    pub fn digest(&self) -> u64 {
        self.hash.digest()
    }
}

/// Values are padded with `x`: a reader needs one.
pub fn without_padding(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    for letter in text.chars() {
        if !(letter == 'x' && short.ends_with('x')) {
            short.push(letter);
        }
    }
    short
}

//! What happened, as one number: every event of a run goes into a hash, kept every thousand events,
//! so that two runs of one seed can be told to be the same, or where they part.

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
    /// Told on standard output as well.
    pub loud: bool,
}

impl Trace {
    /// An empty trace.
    pub fn new(loud: bool) -> Trace {
        Trace { hash: Xxh3::new(), event: Vec::new(), events: 0, points: Vec::new(), loud }
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

    /// A line for the reader of a loud trace.
    pub fn say(&self, now: u64, text: impl FnOnce() -> String) {
        if self.loud {
            println!("{:>12.6} {}", now as f64 / 1e6, without_padding(&text()));
        }
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

//! What clients asked, when, and what they were told: the only thing the history checkers see.
//!
//! By design: times are the observer's own true clock, so `returned < invoked` of two records means that
//! one really ended before the other began; every written value is used by one write only.
//! Not here: retries (a record is one operation with all its attempts under one request id).

use base_types::action::Level;
use base_types::{OrderedAt, ReadConsistency, RequestId, WriteConsistency};
use bytes::Bytes;

/// Microseconds of the observer's clock.
pub type Time = u64;

/// What keys live in: a cluster by name (all its lives) or a keyspace. Numbered by the history's maker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Place(pub u32);

/// What was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // The fields are those of the actions of the same name.
pub enum Operation {
    Put {
        key: Bytes,
        value: Bytes,
    },
    Get {
        key: Bytes,
    },
    Delete {
        key: Bytes,
    },
    /// Sets or removes (`value: None`) where the value is `expected`.
    CompareAndSet {
        key: Bytes,
        expected: Option<Bytes>,
        value: Option<Bytes>,
    },
    /// All or none; `None` removes. No key twice.
    Batch {
        steps: Vec<(Bytes, Option<Bytes>)>,
    },
    Scan {
        prefix: Bytes,
        start_after: Option<Bytes>,
        end: Option<Bytes>,
        limit: u32,
        reverse: bool,
        keys_only: bool,
    },
    /// Adds one to a counter (a key of its own kind, never touched by the others but `Clear`).
    Increment {
        key: Bytes,
    },
    /// Reads a counter.
    ReadCounter {
        key: Bytes,
    },
    /// The place was deleted with all its keys.
    Clear,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Answered.
    Ok,
    /// Definitely not done, now and for ever.
    Failed,
    /// Nobody can say; it may yet happen.
    Unknown,
}

/// What the answer said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Observed {
    /// Nothing but that it was done.
    Done,
    /// A key's value.
    Value(Option<Bytes>),
    /// Whether the deleted key was there; `None` where the level does not tell.
    Deleted(Option<bool>),
    /// A page of a scan. `next`: more keys follow.
    Page {
        /// The pairs as listed.
        entries: Vec<(Bytes, Bytes)>,
        /// The `start_after` of the next page.
        next: Option<Bytes>,
    },
    /// A counter's value.
    Integer(i64),
    /// The condition did not hold; nothing was changed.
    ConditionFailed,
}

/// One operation of one client.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// Its number in the history.
    pub id: u64,
    /// Who asked. A client has at most one operation open.
    pub client: u32,
    /// Where its keys live.
    pub place: Place,
    /// What was asked.
    pub operation: Operation,
    /// The id all attempts shared.
    pub request_id: RequestId,
    /// The level that was asked for, or (where the answer says so) reached.
    pub level: Level,
    /// When the first attempt left.
    pub invoked: Time,
    /// When the answer came; `None`: open-ended.
    pub returned: Option<Time>,
    /// How it ended.
    pub ending: Ending,
    /// What the answer said.
    pub observed: Option<Observed>,
    /// Where the answer says it was ordered.
    pub at: Option<OrderedAt>,
}

impl Record {
    /// Whether the answer is bound by real-time order: strong reads, strong, absolute and s3 writes.
    pub fn is_strong(&self) -> bool {
        matches!(
            self.level,
            Level::Read(ReadConsistency::Strong)
                | Level::Write(WriteConsistency::Strong)
                | Level::Write(WriteConsistency::Absolute)
                | Level::Write(WriteConsistency::S3)
        )
    }

    /// Whether it can change anything.
    pub fn is_write(&self) -> bool {
        !matches!(self.operation, Operation::Get { .. } | Operation::Scan { .. } | Operation::ReadCounter { .. })
    }

    /// Whether it surely changed the state, at a moment between invocation and return.
    pub fn is_settled_write(&self) -> bool {
        self.is_write()
            && self.ending == Ending::Ok
            && self.is_strong()
            && self.observed != Some(Observed::ConditionFailed)
    }

    /// Whether it may or may not have changed the state, at any moment after its invocation: outcome
    /// unknown, or acknowledged at a level that may lose it.
    pub fn is_ghost(&self) -> bool {
        self.is_write() && (self.ending == Ending::Unknown || (self.ending == Ending::Ok && !self.is_strong()))
    }

    /// What it writes: keys with their new values. Empty for `Clear`, counters and reads.
    pub fn effects(&self) -> Vec<(&Bytes, Option<&Bytes>)> {
        match &self.operation {
            Operation::Put { key, value } => vec![(key, Some(value))],
            Operation::Delete { key } => vec![(key, None)],
            Operation::CompareAndSet { key, value, .. } => vec![(key, value.as_ref())],
            Operation::Batch { steps } => steps.iter().map(|(key, value)| (key, value.as_ref())).collect(),
            _ => Vec::new(),
        }
    }

    /// The return time, or the end of all time.
    pub fn returned_or_never(&self) -> Time {
        self.returned.unwrap_or(Time::MAX)
    }
}

/// Everything that was asked, in the order of `id`.
#[derive(Clone, Default, Debug)]
pub struct History {
    /// The records.
    pub records: Vec<Record>,
    /// Places whose keys move between clusters: the order in replies holds only within one cluster,
    /// so the fast checker leaves them to the black box.
    pub moving: Vec<Place>,
}

/// The keys a page speaks for: those of the scan's range up to where the page ended.
pub fn page_covers(operation: &Operation, next: Option<&Bytes>, key: &[u8]) -> bool {
    let Operation::Scan { prefix, start_after, end, reverse, .. } = operation else { return false };
    if !key.starts_with(prefix) || end.as_ref().is_some_and(|end| !*reverse && key >= end.as_ref()) {
        return false;
    }
    let behind_start = match (start_after, reverse) {
        (None, _) => true,
        (Some(start), false) => key > start.as_ref(),
        (Some(start), true) => key < start.as_ref(),
    };
    let before_next = match (next, reverse) {
        (None, _) => true,
        (Some(next), false) => key <= next.as_ref(),
        (Some(next), true) => key >= next.as_ref(),
    };
    behind_start && before_next
}

/// Short ways to write histories by hand.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use base_types::{ClusterId, Generation, LogIndex, Term};

    fn text(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    pub fn record(invoked: Time, returned: Time, operation: Operation, observed: Observed) -> Record {
        let level = match operation {
            Operation::Get { .. } | Operation::Scan { .. } | Operation::ReadCounter { .. } => {
                Level::Read(ReadConsistency::Strong)
            }
            _ => Level::Write(WriteConsistency::Strong),
        };
        Record {
            id: 0,
            client: 0,
            place: Place(0),
            operation,
            request_id: RequestId(0),
            level,
            invoked,
            returned: Some(returned),
            ending: Ending::Ok,
            observed: Some(observed),
            at: None,
        }
    }

    pub fn history(records: Vec<Record>) -> History {
        let records = records.into_iter().enumerate().map(|(id, record)| Record { id: id as u64, ..record }).collect();
        History { records, moving: Vec::new() }
    }

    pub fn put(invoked: Time, returned: Time, key: &str, value: &str) -> Record {
        record(invoked, returned, Operation::Put { key: text(key), value: text(value) }, Observed::Done)
    }

    pub fn get(invoked: Time, returned: Time, key: &str, value: Option<&str>) -> Record {
        record(invoked, returned, Operation::Get { key: text(key) }, Observed::Value(value.map(text)))
    }

    pub fn delete(invoked: Time, returned: Time, key: &str, existed: bool) -> Record {
        record(invoked, returned, Operation::Delete { key: text(key) }, Observed::Deleted(Some(existed)))
    }

    pub fn swap(invoked: Time, returned: Time, key: &str, expected: Option<&str>, value: &str, held: bool) -> Record {
        let operation =
            Operation::CompareAndSet { key: text(key), expected: expected.map(text), value: Some(text(value)) };
        record(invoked, returned, operation, if held { Observed::Done } else { Observed::ConditionFailed })
    }

    pub fn scan(invoked: Time, returned: Time, pairs: &[(&str, &str)]) -> Record {
        let operation = Operation::Scan {
            prefix: Bytes::new(),
            start_after: None,
            end: None,
            limit: 100,
            reverse: false,
            keys_only: false,
        };
        let entries = pairs.iter().map(|(key, value)| (text(key), text(value))).collect();
        record(invoked, returned, operation, Observed::Page { entries, next: None })
    }

    pub fn increment(invoked: Time, returned: Time, key: &str, value: i64) -> Record {
        record(invoked, returned, Operation::Increment { key: text(key) }, Observed::Integer(value))
    }

    pub fn read_counter(invoked: Time, returned: Time, key: &str, value: i64) -> Record {
        record(invoked, returned, Operation::ReadCounter { key: text(key) }, Observed::Integer(value))
    }

    pub fn at(term: u64, index: u64, position: u32, record: Record) -> Record {
        let at = OrderedAt {
            cluster: ClusterId(1),
            generation: Generation(1),
            term: Term(term),
            index: LogIndex(index),
            position,
        };
        Record { at: Some(at), ..record }
    }

    pub fn failed(record: Record) -> Record {
        Record { ending: Ending::Failed, observed: None, ..record }
    }

    pub fn unknown(record: Record) -> Record {
        Record { ending: Ending::Unknown, observed: None, returned: None, ..record }
    }

    pub fn weak(level: WriteConsistency, record: Record) -> Record {
        Record { level: Level::Write(level), ..record }
    }
}

//! Commands, queries and replies of the `versioned` backend, with their byte forms (docs/formats/backend-versioned.md).
//!
//! ```text
//!   VersionedCall::Change(Command) ──▶ Reply        VersionedCall::Ask(Query) ──▶ Reply
//! ```
//! By design: transactions nest at most [`NESTING_MAX`] deep, which the decoder checks before it descends; everything else is bounded by
//! the bytes that are there.
//! Not here: what a command does, rows of the space (`versioned/` in core-backends).

#![allow(missing_docs)] // Fields whose names say all there is; docs/formats/backend-versioned.md has each.

use crate::codec::{DecodeError, Reader, Writer};
use crate::wire::Wire;
use crate::{encode_by_wire, wire_enum, wire_struct};
use alloc::vec::Vec;
use bytes::Bytes;

/// The stamp of a space without a commit. Commits have stamps above.
pub const STAMP_FIRST: u64 = 1;
/// How deep transactions lie in each other; the outermost is the first.
pub const NESTING_MAX: usize = 8;
/// The most operations of a commit, and the most conditions, both branches of every nested transaction included.
pub const COMMIT_OPERATIONS_MAX: usize = crate::BATCH_OPERATIONS_MAX;
/// The most keys that one commit changes.
pub const COMMIT_CHANGES_MAX: usize = 10_000;
/// The most bytes of former and new values that one commit moves.
pub const COMMIT_BYTES_MAX: usize = 16 << 20;
/// The most rows that one commit looks at: by its conditions, its reads and its deletes of ranges.
pub const COMMIT_VISITS_MAX: u32 = 20_000;
/// The most rows that one query looks at; its page ends there.
pub const QUERY_VISITS_MAX: u32 = 20_000;
/// The bytes after which a page ends, and the most that the results of a commit have.
pub const PAGE_BYTES_MAX: usize = crate::SCAN_PAGE_BYTES_MAX;
/// The most rows of a page.
pub const PAGE_ROWS_MAX: u32 = crate::SCAN_LIMIT_MAX;
/// The most pins at a time.
pub const PINS_MAX: u64 = 64;
/// The longest that a pin is kept without being renewed.
pub const PIN_KEEP_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// The most leases at a time.
pub const LEASES_MAX: u64 = 1 << 20;
/// The longest a lease may be granted for: 9,000,000,000 s, as etcd has it.
pub const LEASE_TTL_MS_MAX: u64 = 9_000_000_000_000;
/// The most leases that one command renews, and that one step of `LeaseExpire` ends.
pub const LEASES_A_COMMAND_MAX: usize = 1_000;
/// The most keys that one step of a lease's end deletes.
pub const LEASE_KEYS_A_STEP_MAX: u32 = 4_096;
/// The most rows of history that one `Collect` removes.
pub const COLLECT_ROWS_MAX: u32 = 4_096;

wire_enum! {
    /// Keys: one, a range, or all from one on.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Span {
        1 => One { key: Bytes },
        /// `end` is exclusive.
        2 => Range { start: Bytes, end: Bytes },
        3 => From { start: Bytes },
    }
}

wire_enum! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Relation {
        1 => Equal,
        2 => NotEqual,
        3 => Less,
        4 => Greater,
    }
}

impl Relation {
    pub fn holds<T: Ord + ?Sized>(self, found: &T, wanted: &T) -> bool {
        match self {
            Relation::Equal => found == wanted,
            Relation::NotEqual => found != wanted,
            Relation::Less => found < wanted,
            Relation::Greater => found > wanted,
        }
    }
}

wire_enum! {
    /// What is compared. A key that is absent has zeros for numbers; a comparison of its value never holds.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Check {
        1 => Version { relation: Relation, number: u64 },
        2 => Created { relation: Relation, stamp: u64 },
        3 => Modified { relation: Relation, stamp: u64 },
        4 => Lease { relation: Relation, lease: u64 },
        5 => Value { relation: Relation, value: Bytes },
        /// Nothing of the span was put or deleted after this stamp.
        6 => UnchangedSince { stamp: u64 },
    }
}

wire_struct! {
    /// Holds if it holds for every key of the span that is there; where none is, for an absent key.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Condition {
        pub span: Span,
        pub check: Check,
    }
}

wire_struct! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Put {
        pub key: Bytes,
        pub value: Bytes,
        /// The lease that the key is attached to; 0: none.
        pub lease: u64,
        /// Whether the answer holds what the key was.
        pub previous: bool,
        /// The key keeps its value (`value` is ignored); it must be there.
        pub keep_value: bool,
        /// The key keeps its lease (`lease` is ignored); it must be there.
        pub keep_lease: bool,
    }
}

wire_struct! {
    /// Bounds of what a read gives, each inclusive; 0: none.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Filter {
        pub modified_min: u64,
        pub modified_max: u64,
        pub created_min: u64,
        pub created_max: u64,
    }
}

wire_struct! {
    /// A read of keys in order, at one stamp.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Read {
        pub span: Span,
        /// 0: the newest.
        pub at: u64,
        /// 0: what a page holds.
        pub limit: u32,
        pub keys_only: bool,
        /// Whether the rest of the span is counted after the page is full.
        pub count: bool,
        /// Only `count`, no rows.
        pub count_only: bool,
        pub filter: Filter,
    }
}

impl Read {
    /// The newest rows of all keys.
    pub fn all() -> Read {
        Read {
            span: Span::From { start: Bytes::new() },
            at: 0,
            limit: 0,
            keys_only: false,
            count: false,
            count_only: false,
            filter: Filter::default(),
        }
    }
}

/// A step of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Each variant explains its fields.
pub enum Operation {
    Put(Put),
    /// Removes every key of the span; `previous`: the answer holds what they were.
    Delete {
        span: Span,
        previous: bool,
    },
    /// Sees what the steps before it have written, unless it names a stamp.
    Read(Read),
    /// Its conditions are compared before any step of the commit.
    Nested(Transaction),
}

/// Conditions, what is done where all hold, and what is done else.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transaction {
    pub conditions: Vec<Condition>,
    pub then: Vec<Operation>,
    pub otherwise: Vec<Operation>,
}

wire_struct! {
    /// A key's value with its stamps.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Row {
        /// The stamp that the key came to be at.
        pub created: u64,
        /// The stamp of its last put.
        pub modified: u64,
        /// How many puts since it came to be, from 1.
        pub version: u64,
        /// The lease it is attached to; 0: none.
        pub lease: u64,
        pub value: Bytes,
    }
}

wire_struct! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Pair {
        pub key: Bytes,
        pub row: Row,
    }
}

wire_struct! {
    /// What a read gives.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct Page {
        pub rows: Vec<Pair>,
        /// Where the next page begins.
        pub next: Option<Bytes>,
        /// How many keys of the span were passed, whatever the filter.
        pub count: u64,
        /// Where the count ended, if that is not the end of the span.
        pub counted_to: Option<Bytes>,
    }
}

/// What one operation came to.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // As the operations.
pub enum Outcome {
    Put { previous: Option<Row> },
    Deleted { count: u64, previous: Vec<Pair> },
    Page(Page),
    Nested(Committed),
}

/// What a transaction came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Committed {
    /// Whether all conditions held, and `then` was done.
    pub succeeded: bool,
    /// For each operation of the branch that was done.
    pub results: Vec<Outcome>,
}

wire_struct! {
    /// A place in the order of all changes: a commit's stamp, and the change within it, from 0.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
    pub struct Position {
        pub stamp: u64,
        pub sub: u32,
    }
}

impl Position {
    /// After all changes of a stamp.
    pub const fn end_of(stamp: u64) -> Position {
        Position { stamp, sub: u32::MAX }
    }

    /// The last stamp of which all changes lie before it. Amid a stamp, the rest of that stamp is still to come.
    pub const fn seen_up_to(self) -> u64 {
        match self.sub {
            u32::MAX => self.stamp,
            _ => self.stamp.saturating_sub(1),
        }
    }
}

wire_struct! {
    /// A change of a key.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Change {
        pub at: Position,
        /// The cluster's time of the commit.
        pub time_ms: u64,
        pub key: Bytes,
        /// What was put; none: the key was deleted.
        pub after: Option<Row>,
        /// What the key was before, where that was asked for.
        pub before: Option<Row>,
    }
}

wire_struct! {
    /// The state of the whole.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Info {
        /// Of the last commit.
        pub stamp: u64,
        /// No later commit has this stamp or one below.
        pub closed: u64,
        /// Reads below are refused.
        pub compacted: u64,
        /// History is kept from here on: below `compacted` only for pins.
        pub horizon: u64,
        pub keys: u64,
        pub leases: u64,
        pub pins: u64,
        /// Whether `Collect` would remove something.
        pub garbage: bool,
        /// Whether `LeaseExpire` would end something now.
        pub due: bool,
        /// The cluster's time at which the next lease ends; 0: there is none.
        pub due_ms: u64,
    }
}

wire_struct! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct LeaseInfo {
        pub lease: u64,
        pub ttl_ms: u64,
        /// How much longer it lives; 0: it is ending.
        pub left_ms: u64,
    }
}

wire_enum! {
    /// A change.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Command {
        /// All of it at one stamp, or, where it is refused, nothing.
        1 => Commit { transaction: Transaction },
        /// Reads below this stamp are refused from now on.
        2 => Compact { stamp: u64 },
        /// Removes history that nothing reads any more.
        3 => Collect { limit: u32 },
        /// Keeps what is read at this stamp (0: the newest) until the cluster's time is `keep_ms` later. Again: renews.
        4 => Pin { pin: u64, stamp: u64, keep_ms: u64 },
        5 => Unpin { pin: u64 },
        6 => LeaseGrant { lease: u64, ttl_ms: u64 },
        7 => LeaseKeepAlive { leases: Vec<u64> },
        /// Ends a lease and deletes its keys, at most `limit` a step.
        8 => LeaseRevoke { lease: u64, limit: u32 },
        /// The same for all leases whose time is over by the entry's cluster time, and for those that are ending.
        9 => LeaseExpire { limit: u32 },
        /// Later commits have stamps above this one.
        10 => Close { stamp: u64 },
    }
}

wire_enum! {
    /// A question.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Query {
        /// `pin` (0: none) lets a read go below what was compacted, down to the pin's stamp.
        1 => Read { read: Read, pin: u64 },
        /// Changes after a position, in order.
        2 => Changes { span: Span, after: Position, limit: u32, before: bool, pin: u64 },
        3 => Describe,
        /// A lease, and its keys after one.
        4 => Lease { lease: u64, keys_after: Option<Bytes>, limit: u32 },
        5 => Leases { after: u64, limit: u32 },
        /// The last stamp that was committed at this cluster time or before.
        6 => StampAt { time_ms: u64 },
        /// As `Changes`. Where there is none, the member keeps the read until one is applied, or for some seconds.
        7 => Await { span: Span, after: Position, limit: u32, before: bool, pin: u64 },
    }
}

wire_enum! {
    /// What commands and queries are answered with.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Reply {
        /// `stamp`: of the last commit, which is this one if `changes` is not 0.
        1 => Committed { stamp: u64, changes: u32, committed: Committed },
        2 => Done { stamp: u64 },
        3 => Collected { rows: u32, more: bool },
        4 => Pinned { stamp: u64, until_ms: u64 },
        5 => Granted { lease: u64, ttl_ms: u64 },
        /// For each lease its time to live; 0: there is none.
        6 => Kept { ttls_ms: Vec<u64> },
        /// `leases`: those that are gone now. `more`: keys or leases are left.
        7 => Ended { stamp: u64, leases: Vec<u64>, keys: u32, more: bool },
        8 => Page { stamp: u64, page: Page },
        /// All up to `reached` has been given; `more`: there is more by now.
        9 => Changes { changes: Vec<Change>, reached: Position, more: bool },
        10 => Info { info: Info },
        11 => Lease { lease: Option<LeaseInfo>, keys: Vec<Bytes>, more: bool },
        12 => Leases { leases: Vec<LeaseInfo>, more: bool },
    }
}

impl Operation {
    fn put_in(&self, out: &mut Writer) {
        match self {
            Operation::Put(put) => put.put(out.u8(1)),
            Operation::Delete { span, previous } => {
                span.put(out.u8(2));
                previous.put(out);
            }
            Operation::Read(read) => read.put(out.u8(3)),
            Operation::Nested(transaction) => transaction.put(out.u8(4)),
        }
    }

    /// `depth`: how many transactions may lie in this one's.
    fn take_in(input: &mut Reader, depth: usize) -> Result<Operation, DecodeError> {
        Ok(match input.u8("operation")? {
            1 => Operation::Put(Put::take(input)?),
            2 => Operation::Delete { span: Span::take(input)?, previous: bool::take(input)? },
            3 => Operation::Read(Read::take(input)?),
            4 if depth == 0 => return Err(DecodeError::TooLarge("depth of a transaction")),
            4 => Operation::Nested(Transaction::take_in(input, depth - 1)?),
            _ => return Err(DecodeError::Unknown("operation")),
        })
    }
}

impl Transaction {
    fn take_in(input: &mut Reader, depth: usize) -> Result<Transaction, DecodeError> {
        let conditions = Vec::<Condition>::take(input)?;
        let mut branch = || -> Result<Vec<Operation>, DecodeError> {
            let count = input.count("operations")?;
            (0..count).map(|_| Operation::take_in(input, depth)).collect()
        };
        Ok(Transaction { conditions, then: branch()?, otherwise: branch()? })
    }
}

impl Wire for Transaction {
    fn put(&self, out: &mut Writer) {
        self.conditions.put(out);
        for branch in [&self.then, &self.otherwise] {
            out.varint(branch.len() as u64);
            branch.iter().for_each(|operation| operation.put_in(out));
        }
    }

    fn take(input: &mut Reader) -> Result<Transaction, DecodeError> {
        Transaction::take_in(input, NESTING_MAX - 1)
    }
}

impl Committed {
    fn take_in(input: &mut Reader, depth: usize) -> Result<Committed, DecodeError> {
        let succeeded = input.bool("succeeded")?;
        let count = input.count("results")?;
        let results = (0..count).map(|_| Outcome::take_in(input, depth)).collect::<Result<_, _>>()?;
        Ok(Committed { succeeded, results })
    }
}

impl Outcome {
    fn put_in(&self, out: &mut Writer) {
        match self {
            Outcome::Put { previous } => previous.put(out.u8(1)),
            Outcome::Deleted { count, previous } => {
                count.put(out.u8(2));
                previous.put(out);
            }
            Outcome::Page(page) => page.put(out.u8(3)),
            Outcome::Nested(committed) => committed.put(out.u8(4)),
        }
    }

    fn take_in(input: &mut Reader, depth: usize) -> Result<Outcome, DecodeError> {
        Ok(match input.u8("outcome")? {
            1 => Outcome::Put { previous: <Option<Row> as Wire>::take(input)? },
            2 => Outcome::Deleted { count: u64::take(input)?, previous: Vec::<Pair>::take(input)? },
            3 => Outcome::Page(Page::take(input)?),
            4 if depth == 0 => return Err(DecodeError::TooLarge("depth of a result")),
            4 => Outcome::Nested(Committed::take_in(input, depth - 1)?),
            _ => return Err(DecodeError::Unknown("outcome")),
        })
    }
}

impl Wire for Committed {
    fn put(&self, out: &mut Writer) {
        out.bool(self.succeeded).varint(self.results.len() as u64);
        self.results.iter().for_each(|result| result.put_in(out));
    }

    fn take(input: &mut Reader) -> Result<Committed, DecodeError> {
        Committed::take_in(input, NESTING_MAX - 1)
    }
}

encode_by_wire!(Transaction);
encode_by_wire!(Committed);

/// What a client asks of a `versioned` backend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VersionedCall {
    /// To change something, or to renew it.
    Change(Command),
    /// To know something.
    Ask(Query),
}

impl VersionedCall {
    /// The call's name in the HTTP JSON API.
    pub fn name(&self) -> &'static str {
        match self {
            VersionedCall::Change(command) => match command {
                Command::Commit { .. } => "KvTransaction",
                Command::Compact { .. } => "KvCompact",
                Command::Collect { .. } => "KvCollect",
                Command::Pin { .. } => "KvPin",
                Command::Unpin { .. } => "KvUnpin",
                Command::LeaseGrant { .. } => "KvLeaseGrant",
                Command::LeaseKeepAlive { .. } => "KvLeaseKeepAlive",
                Command::LeaseRevoke { .. } => "KvLeaseRevoke",
                Command::LeaseExpire { .. } => "KvLeaseExpire",
                Command::Close { .. } => "KvClose",
            },
            VersionedCall::Ask(query) => match query {
                Query::Read { .. } => "KvRead",
                Query::Changes { .. } => "KvHistory",
                Query::Describe => "KvDescribe",
                Query::Lease { .. } => "KvLease",
                Query::Leases { .. } => "KvLeases",
                Query::StampAt { .. } => "KvStampAt",
                Query::Await { .. } => "KvWatch",
            },
        }
    }

    /// Whether it changes nothing.
    pub fn read_only(&self) -> bool {
        matches!(self, VersionedCall::Ask(_))
    }
}

//! The `versioned` backend: keys with versions, and all of them as they were at any stamp that is kept. One transaction is one entry
//! of the log; each that changes something has a stamp above all before it. It is what etcd's revisions are made of, and what one
//! range of a transactional keyspace will be (decision 0077).
//!
//! ```text
//!   Commit{conditions, then, otherwise} ─▶ d  newest ── put over or deleted ─▶ h  by the stamp of its end ──Collect──▶ (nothing)
//!                                                                                   └ i  by key
//! ```
//!
//! Always: a refused command changed nothing; a read at a stamp gives the same on every member and at any time, until it is compacted;
//! time is the cluster's own.
//! Requires: a read of the space within `apply` sees what the same command has already written.
//! Not here: gRPC, sorted answers, automatic compaction (the door); reads that are kept, the proposal of `LeaseExpire` and
//! `Collect` (core-cluster). Rows and commands are drawn in docs/formats/backend-versioned.md.

mod commit;
mod feed;
mod history;
mod invariants;
mod lease;
mod page;
mod read;
mod rows;
mod stage;
#[cfg(test)]
pub(crate) mod tests;
mod upkeep;

pub use base_types::versioned::{
    Change, Check, Command, Committed, Condition, Filter, Info, LeaseInfo, Operation, Outcome, Page, Pair, Position,
    Put, Query, Read, Relation, Reply, Row, Span, Transaction, COLLECT_ROWS_MAX, COMMIT_BYTES_MAX, COMMIT_CHANGES_MAX,
    COMMIT_OPERATIONS_MAX, COMMIT_VISITS_MAX, LEASES_A_COMMAND_MAX, LEASES_MAX, LEASE_KEYS_A_STEP_MAX,
    LEASE_TTL_MS_MAX, NESTING_MAX, PAGE_BYTES_MAX, PAGE_ROWS_MAX, PINS_MAX, PIN_KEEP_MS_MAX, QUERY_VISITS_MAX,
    STAMP_FIRST,
};

use crate::contract::{decode, ApplyContext, Backend, Checked, SpaceRead, SpaceWrite, Takeover, Upkeep};
use crate::reply::encode_reply;
use base_engine::EngineError;
use base_types::{ErrorCode, Refusal, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;
use page::{Room, When};
use rows::Meta;

/// Why a command or query did not run to its end.
#[derive(Debug)]
enum Fail {
    Refused(Refusal),
    /// Damage: the replica stops.
    Engine(EngineError),
}

impl From<EngineError> for Fail {
    fn from(error: EngineError) -> Fail {
        Fail::Engine(error)
    }
}

impl From<Refusal> for Fail {
    fn from(refusal: Refusal) -> Fail {
        Fail::Refused(refusal)
    }
}

fn refuse<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, Fail> {
    Err(Fail::Refused(Refusal::new(code, message)))
}

fn reply_of(done: Result<Reply, Fail>) -> Result<Bytes, EngineError> {
    match done {
        Ok(reply) => Ok(encode_reply(&Ok(reply))),
        Err(Fail::Refused(refusal)) => Ok(encode_reply::<Reply>(&Err(refusal))),
        Err(Fail::Engine(error)) => Err(error),
    }
}

/// The backend, as the table has it.
pub(crate) struct Versioned;

impl Backend for Versioned {
    fn validate(&self, command: &Bytes) -> Result<(), Refusal> {
        parse(command).map(drop)
    }

    fn apply(&self, at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
        reply_of(parse(command).map_err(Fail::from).and_then(|command| run(at.cluster_time_ms, space, command)))
    }

    fn waits(&self, query: &Bytes) -> bool {
        feed::waits(query)
    }

    fn has_waiting_queries(&self) -> bool {
        true
    }

    fn next_query(&self, query: &Bytes, reply: &Bytes) -> Option<Bytes> {
        feed::next_query(query, reply)
    }

    fn upkeep(&self, space: &dyn SpaceRead) -> Result<Option<Upkeep>, EngineError> {
        upkeep::next(space)
    }

    fn takeover(
        &self,
        space: &dyn SpaceRead,
        began_ms: u64,
        now_ms: u64,
        after: &[u8],
    ) -> Result<Option<Takeover>, EngineError> {
        upkeep::takeover(space, began_ms, now_ms, after)
    }

    fn check_invariants(&self, space: &dyn SpaceRead) -> Checked {
        invariants::check(space)
    }

    fn query(&self, cluster_time_ms: u64, space: &dyn SpaceRead, query: &Bytes) -> Result<Bytes, EngineError> {
        let query = decode::<Query>("versioned query", query).and_then(|query| {
            check_query(&query)?;
            Ok(query)
        });
        reply_of(query.map_err(Fail::from).and_then(|query| answer(cluster_time_ms, space, query)))
    }
}

fn parse(command: &Bytes) -> Result<Command, Refusal> {
    let command: Command = decode("versioned command", command)?;
    check(&command)?;
    Ok(command)
}

fn run(now_ms: u64, space: &mut dyn SpaceWrite, command: Command) -> Result<Reply, Fail> {
    let meta = Meta::read(space)?;
    match command {
        Command::Commit { transaction } => commit::apply(space, meta, now_ms, transaction),
        Command::Compact { stamp } => history::compact(space, meta, now_ms, stamp),
        Command::Collect { limit } => history::collect(space, meta, now_ms, limit),
        Command::Pin { pin, stamp, keep_ms } => history::pin(space, meta, now_ms, pin, stamp, keep_ms),
        Command::Unpin { pin } => history::unpin(space, meta, now_ms, pin),
        Command::LeaseGrant { lease, ttl_ms } => lease::grant(space, meta, now_ms, lease, ttl_ms),
        Command::LeaseKeepAlive { leases } => lease::keep_alive(space, now_ms, &leases),
        Command::LeaseRevoke { lease, limit } => lease::revoke(space, meta, now_ms, lease, limit),
        Command::LeaseExpire { limit } => lease::expire(space, meta, now_ms, limit),
        Command::Close { stamp } => history::close(space, meta, stamp),
    }
}

fn answer(now_ms: u64, space: &dyn SpaceRead, query: Query) -> Result<Reply, Fail> {
    let meta = Meta::read(space)?;
    match query {
        Query::Read { read, pin } => {
            let stamp = history::readable_at(space, &meta, now_ms, read.at, pin)?;
            let when = if stamp >= meta.stamp { When::Newest(Vec::new()) } else { When::At(stamp) };
            let mut room = Room { visits: QUERY_VISITS_MAX, bytes: PAGE_BYTES_MAX };
            Ok(Reply::Page { stamp, page: page::read(space, &read, when, &mut room)? })
        }
        Query::Changes { span, after, limit, before, pin } | Query::Await { span, after, limit, before, pin } => {
            feed::page(space, &meta, now_ms, &feed::Asked { span: &span, after, limit, before, pin })
        }
        Query::Describe => {
            let due_ms = lease::next_due(space)?;
            let due = due_ms.is_some_and(|due_ms| due_ms <= now_ms);
            let old = meta.horizon > 0 && history::has_garbage(&meta);
            let garbage = old || meta.horizon < meta.compacted && meta.pins == 0;
            let Meta { stamp, closed, compacted, horizon, keys, leases, pins, .. } = meta;
            let due_ms = due_ms.map_or(0, |due_ms| due_ms.max(1));
            Ok(Reply::Info {
                info: Info { stamp, closed, compacted, horizon, keys, leases, pins, garbage, due, due_ms },
            })
        }
        Query::Lease { lease, keys_after, limit } => {
            Ok(lease::describe(space, now_ms, lease, keys_after.as_deref(), limit as usize)?)
        }
        Query::Leases { after, limit } => Ok(lease::list(space, now_ms, after, limit as usize)?),
        Query::StampAt { time_ms } => Ok(Reply::Done { stamp: history::stamp_at(space, &meta, time_ms)? }),
    }
}

fn check(command: &Command) -> Result<(), Refusal> {
    match command {
        Command::Commit { transaction } => {
            let mut counts = (0, 0);
            check_transaction(transaction, &mut counts)
        }
        Command::Compact { stamp: 0 } => Err(out_of_range("the stamp to compact at is 0; give 1 or more".into())),
        Command::Compact { .. } | Command::Close { .. } | Command::Unpin { .. } => Ok(()),
        Command::Collect { limit } => check_limit("collect limit", *limit, COLLECT_ROWS_MAX),
        Command::Pin { pin: 0, .. } => Err(out_of_range("the pin's number is 0; give 1 or more".into())),
        Command::Pin { keep_ms, .. } => check_time("a pin is kept", *keep_ms, PIN_KEEP_MS_MAX),
        Command::LeaseGrant { lease: 0, .. } => Err(out_of_range("the lease's number is 0; give 1 or more".into())),
        Command::LeaseGrant { ttl_ms, .. } => check_time("a lease lives", *ttl_ms, LEASE_TTL_MS_MAX),
        Command::LeaseKeepAlive { leases } if leases.len() > LEASES_A_COMMAND_MAX => {
            Err(out_of_range(format!("{} leases are to be renewed; give at most {LEASES_A_COMMAND_MAX}", leases.len())))
        }
        Command::LeaseKeepAlive { .. } => Ok(()),
        Command::LeaseRevoke { limit, .. } | Command::LeaseExpire { limit } => {
            check_limit("limit of keys", *limit, LEASE_KEYS_A_STEP_MAX)
        }
    }
}

fn check_query(query: &Query) -> Result<(), Refusal> {
    match query {
        Query::Read { read, .. } => check_read(read),
        Query::Changes { span, limit, .. } | Query::Await { span, limit, .. } => {
            check_span(span)?;
            check_most("limit of changes", *limit, PAGE_ROWS_MAX)
        }
        Query::Lease { limit, .. } | Query::Leases { limit, .. } => check_most("limit", *limit, PAGE_ROWS_MAX),
        Query::Describe | Query::StampAt { .. } => Ok(()),
    }
}

fn check_transaction(transaction: &Transaction, counts: &mut (usize, usize)) -> Result<(), Refusal> {
    counts.0 += transaction.conditions.len();
    counts.1 += transaction.then.len() + transaction.otherwise.len();
    if counts.0 > COMMIT_OPERATIONS_MAX || counts.1 > COMMIT_OPERATIONS_MAX {
        let message =
            format!("the transaction has more than {COMMIT_OPERATIONS_MAX} conditions or operations; give fewer");
        return Err(Refusal::new(ErrorCode::TransactionTooLarge, message));
    }
    for condition in &transaction.conditions {
        check_span(&condition.span)?;
        if let Check::Value { value, .. } = &condition.check {
            check_value(value)?;
        }
    }
    transaction.then.iter().chain(&transaction.otherwise).try_for_each(|operation| match operation {
        Operation::Put(put) => {
            check_key(&put.key)?;
            check_value(&put.value)
        }
        Operation::Delete { span, .. } => check_span(span),
        Operation::Read(read) => check_read(read),
        Operation::Nested(nested) => check_transaction(nested, counts),
    })
}

fn check_read(read: &Read) -> Result<(), Refusal> {
    check_span(&read.span)?;
    check_most("read limit", read.limit, PAGE_ROWS_MAX)
}

/// The bounds of a range may be longer than keys, or empty.
fn check_span(span: &Span) -> Result<(), Refusal> {
    match span {
        Span::One { key } => check_key(key),
        Span::Range { .. } | Span::From { .. } => Ok(()),
    }
}

/// Refuses a key that cannot be kept. Doors call it too, before they look for a cluster.
pub fn check_key(key: &[u8]) -> Result<(), Refusal> {
    if key.is_empty() {
        return Err(Refusal::new(ErrorCode::EmptyKey, "the key is empty; a key has at least one byte"));
    }
    let length = rows::escaped_len(key);
    if length > KEY_BYTES_MAX {
        let message =
            format!("the key is {length} bytes long (a zero byte counts as two); at most {KEY_BYTES_MAX} are taken");
        return Err(Refusal::new(ErrorCode::KeyTooLarge, message));
    }
    Ok(())
}

fn check_value(value: &[u8]) -> Result<(), Refusal> {
    if value.len() > VALUE_BYTES_MAX {
        let message = format!("the value is {} bytes long; at most {VALUE_BYTES_MAX} are taken", value.len());
        return Err(Refusal::new(ErrorCode::ValueTooLarge, message));
    }
    Ok(())
}

fn check_limit(what: &str, value: u32, most: u32) -> Result<(), Refusal> {
    if value == 0 {
        return Err(out_of_range(format!("{what} is 0; give 1 to {most}")));
    }
    check_most(what, value, most)
}

fn check_most(what: &str, value: u32, most: u32) -> Result<(), Refusal> {
    if value > most {
        return Err(out_of_range(format!("{what} is {value}; give at most {most}")));
    }
    Ok(())
}

fn check_time(what: &str, ms: u64, most: u64) -> Result<(), Refusal> {
    if ms == 0 || ms > most {
        return Err(out_of_range(format!("{what} {ms} ms; give 1 to {most}")));
    }
    Ok(())
}

fn out_of_range(message: String) -> Refusal {
    Refusal::new(ErrorCode::LimitOutOfRange, message)
}

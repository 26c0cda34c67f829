//! Keyspaces of the kind `versioned`: one partition in one cluster, which keeps every version (decision 0081). The etcd door calls them
//! namespaces.
//!
//! ```text
//!   KvPut, KvGet, KvScan, …   ──▶ Commit | Read        ──▶ the answer a plain keyspace would give
//!   KvTransaction, KvHistory, … (Action::Versioned)    ──▶ the backend's own reply
//! ```
//! Always: an action on keys means here what it means in a plain keyspace, so clients need not know the kind (`tests.rs` compares them).
//! Not here: what a commit does (core-backends, versioned/), where keys of plain keyspaces lie (`map.rs`).

use crate::payload::Payload;
use crate::scan_request::ScanRequest;
use base_types::action::{Action, ActionResult, BatchStep};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::versioned::{
    Check, Command, Condition, Operation, Outcome, Put, Query, Read, Relation, Reply, Span, Transaction, VersionedCall,
};
use base_types::{ErrorCode, Refusal, BATCH_OPERATIONS_MAX, COMMAND_BYTES_MAX};
use bytes::Bytes;
use core_backends::metadata::check_pair;

/// What a cluster's `versioned` backend is asked for an action.
pub fn versioned_payload(action: &Action) -> Result<Payload, Refusal> {
    if let Some(request) = ScanRequest::from_action(action) {
        return scan(&request).map(|query| Payload::Read(query.to_bytes()));
    }
    let transaction = match action {
        Action::Versioned { call, .. } => return call_payload(call),
        Action::KvGet { key, .. } => {
            check_pair(key, None)?;
            let read = Read { span: Span::One { key: key.clone() }, ..Read::all() };
            return Ok(Payload::Read(Query::Read { read, pin: 0 }.to_bytes()));
        }
        Action::KvPut { key, value, .. } => plainly(vec![put(key, value)?]),
        Action::KvDelete { key, .. } => plainly(vec![delete(key)?]),
        Action::KvBatch { steps, .. } => plainly(batch(steps)?),
        Action::KvCompareAndSet { key, expected, value, .. } => {
            let then = match value {
                Some(value) => put(key, value)?,
                None => delete(key)?,
            };
            let check = match expected {
                Some(_) if planted(Mutant::PlainSwapUnchecked) => {
                    Check::Version { relation: Relation::Greater, number: 0 }
                }
                Some(value) => Check::Value { relation: Relation::Equal, value: value.clone() },
                None => Check::Version { relation: Relation::Equal, number: 0 },
            };
            let conditions = vec![Condition { span: Span::One { key: key.clone() }, check }];
            Transaction { conditions, ..plainly(vec![then]) }
        }
        other => return Err(not_for_versions(other)),
    };
    command_payload(&Command::Commit { transaction })
}

/// Refuses what only a cluster's leader proposes, by itself (decision 0082).
pub fn refuse_internal(call: &VersionedCall) -> Result<(), Refusal> {
    if matches!(call, VersionedCall::Change(Command::LeaseExpire { .. })) {
        let message =
            "leases end by themselves: only a cluster's leader proposes their end; use KvLeaseRevoke to end one";
        return Err(Refusal::new(ErrorCode::UnknownAction, message));
    }
    Ok(())
}

fn call_payload(call: &VersionedCall) -> Result<Payload, Refusal> {
    refuse_internal(call)?;
    match call {
        VersionedCall::Change(command) => command_payload(command),
        VersionedCall::Ask(query) => Ok(Payload::Read(query.to_bytes())),
    }
}

fn command_payload(command: &Command) -> Result<Payload, Refusal> {
    let bytes = command.to_bytes();
    if bytes.len() > COMMAND_BYTES_MAX {
        let message = format!("the command is {} bytes long; at most {COMMAND_BYTES_MAX} are taken", bytes.len());
        return Err(Refusal::new(ErrorCode::BodyTooLarge, message));
    }
    Ok(Payload::Write(bytes))
}

fn not_for_versions(action: &Action) -> Refusal {
    Refusal::new(ErrorCode::Internal, format!("{} is no action on keys with versions", action.name()))
}

fn plainly(then: Vec<Operation>) -> Transaction {
    Transaction { conditions: Vec::new(), then, otherwise: Vec::new() }
}

fn put(key: &Bytes, value: &Bytes) -> Result<Operation, Refusal> {
    check_pair(key, Some(value))?;
    let (key, value, keep_lease) = (key.clone(), value.clone(), planted(Mutant::PlainPutKeepsLease));
    Ok(Operation::Put(Put { key, value, lease: 0, previous: false, keep_value: false, keep_lease }))
}

fn delete(key: &Bytes) -> Result<Operation, Refusal> {
    check_pair(key, None)?;
    Ok(Operation::Delete { span: Span::One { key: key.clone() }, previous: false })
}

/// A batch may name a key twice, a commit may not: the last step on a key is what is left of it.
fn batch(steps: &[BatchStep]) -> Result<Vec<Operation>, Refusal> {
    if steps.is_empty() || steps.len() > BATCH_OPERATIONS_MAX {
        let message = format!("{} steps in one batch; give 1 to {BATCH_OPERATIONS_MAX}", steps.len());
        return Err(Refusal::new(ErrorCode::LimitOutOfRange, message));
    }
    let mut last = std::collections::BTreeMap::new();
    for step in steps {
        match step {
            BatchStep::Put { key, value } => last.insert(key, put(key, value)?),
            BatchStep::Delete { key } => last.insert(key, delete(key)?),
        };
    }
    Ok(last.into_values().collect())
}

fn scan(request: &ScanRequest) -> Result<Query, Refusal> {
    request.check()?;
    if request.reverse {
        let message = "a versioned keyspace is not read backwards; leave 'reverse' out";
        return Err(Refusal::new(ErrorCode::InvalidField, message));
    }
    let (start, end) = (request.start.clone(), request.end.clone());
    let span = match end {
        Some(end) => Span::Range { end: end.max(start.clone()), start },
        None => Span::From { start },
    };
    let read = Read { span, limit: request.limit, keys_only: request.keys_only, ..Read::all() };
    Ok(Query::Read { read, pin: 0 })
}

/// What the backend's reply means to the client that asked for this action.
pub fn read_versioned_reply(action: &Action, reply: Bytes) -> Result<ActionResult, Refusal> {
    let reply: Reply = core_backends::decode_reply(reply)?;
    if matches!(action, Action::Versioned { .. }) {
        return Ok(ActionResult::Versioned(Box::new(reply)));
    }
    match (action, reply) {
        (Action::KvGet { .. }, Reply::Page { page, .. }) => {
            Ok(ActionResult::Value { value: page.rows.into_iter().next().map(|pair| pair.row.value) })
        }
        (Action::KvScan { .. }, Reply::Page { page, .. }) => {
            let more = page.next.is_some();
            let entries: Vec<(Bytes, Bytes)> = page.rows.into_iter().map(|pair| (pair.key, pair.row.value)).collect();
            let next = entries.last().filter(|_| more).map(|(key, _)| key.clone());
            Ok(ActionResult::Page { entries, next })
        }
        (Action::KvDelete { .. }, Reply::Committed { committed, .. }) => {
            let existed = matches!(committed.results.first(), Some(Outcome::Deleted { count, .. }) if *count > 0);
            Ok(ActionResult::Deleted { existed })
        }
        (Action::KvCompareAndSet { .. }, Reply::Committed { committed, .. }) if !committed.succeeded => {
            let message = "the key has another value than 'expected'; read it again before comparing";
            Err(Refusal::new(ErrorCode::ConditionFailed, message))
        }
        (_, Reply::Committed { .. }) => Ok(ActionResult::Done),
        (action, _) => Err(Refusal::new(
            ErrorCode::Internal,
            format!("{} was answered with another call's reply; report it", action.name()),
        )),
    }
}

//! Puts, deletes and transactions: etcd's checks, the store's transaction, etcd's responses.
//!
//! Always: a transaction that the checks let through changes no key twice, whichever branches are taken; results have the shape
//! of the branch that was taken.
//! Not here: comparisons (`compare.rs`).

use super::compare::condition;
use super::span::{holds, span_of};
use super::{range, rows};
use crate::proto::etcdserverpb as pb;
use crate::proto::etcdserverpb::request_op::Request as Op;
use crate::proto::etcdserverpb::response_op::Response as Done;
use crate::status::{
    unexpected, DUPLICATE_KEY, EMPTY_KEY, KEY_NOT_FOUND, LEASE_PROVIDED, TOO_MANY_OPS, VALUE_PROVIDED,
};
use base_types::versioned::{Committed, Operation, Outcome, Put, Read, Span, Transaction, NESTING_MAX, PAGE_ROWS_MAX};
use bytes::Bytes;
use std::collections::BTreeSet;
use tonic::Status;

/// Refuses what is no put.
pub(super) fn check_put(put: &pb::PutRequest) -> Result<(), Status> {
    if put.key.is_empty() {
        return Err(EMPTY_KEY.into());
    }
    if put.ignore_value && !put.value.is_empty() {
        return Err(VALUE_PROVIDED.into());
    }
    if put.ignore_lease && put.lease != 0 {
        return Err(LEASE_PROVIDED.into());
    }
    Ok(())
}

/// Refuses what is no delete.
pub(super) fn check_delete(delete: &pb::DeleteRangeRequest) -> Result<(), Status> {
    if delete.key.is_empty() {
        return Err(EMPTY_KEY.into());
    }
    Ok(())
}

/// The operation of a put.
pub(super) fn put(put: pb::PutRequest) -> Operation {
    let pb::PutRequest { key, value, lease, prev_kv, ignore_value, ignore_lease } = put;
    Operation::Put(Put {
        key,
        value,
        lease: lease as u64,
        previous: prev_kv,
        keep_value: ignore_value,
        keep_lease: ignore_lease,
    })
}

/// The operation of a delete.
pub(super) fn delete(delete: pb::DeleteRangeRequest) -> Operation {
    Operation::Delete { span: span_of(&delete.key, &delete.range_end), previous: delete.prev_kv }
}

/// Refuses a transaction as etcd does, before anything is done.
pub(super) fn check(txn: &pb::TxnRequest, ops_max: usize) -> Result<(), Status> {
    check_level(txn, ops_max, NESTING_MAX)?;
    check_keys(&txn.success)?;
    check_keys(&txn.failure)?;
    Ok(())
}

fn check_level(txn: &pb::TxnRequest, ops_max: usize, depth: usize) -> Result<(), Status> {
    let operations = txn.compare.len().max(txn.success.len()).max(txn.failure.len());
    let (Some(left), Some(depth)) = (ops_max.checked_sub(operations), depth.checked_sub(1)) else {
        return Err(TOO_MANY_OPS.into());
    };
    if txn.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(EMPTY_KEY.into());
    }
    txn.success.iter().chain(&txn.failure).try_for_each(|op| match &op.request {
        Some(Op::RequestRange(request)) => range::check(request),
        Some(Op::RequestPut(put)) => check_put(put),
        Some(Op::RequestDeleteRange(delete)) => check_delete(delete),
        Some(Op::RequestTxn(nested)) => check_level(nested, left, depth),
        None => Err(KEY_NOT_FOUND.into()),
    })
}

/// What a branch may put and delete.
#[derive(Default)]
struct Touched {
    puts: BTreeSet<Bytes>,
    deletes: Vec<Span>,
}

impl Touched {
    /// A put of this branch or of one below it: no other put has the key, and no delete reaches it.
    fn put(&mut self, key: &Bytes, twice: bool) -> Result<(), Status> {
        let deleted = self.deletes.iter().any(|span| holds(span, key));
        if deleted || !self.puts.insert(key.clone()) && !twice {
            return Err(DUPLICATE_KEY.into());
        }
        Ok(())
    }
}

/// Refuses a branch that can change a key twice: etcd's `checkIntervals`. Two branches of one nested transaction may put one key, since
/// only one of them is done.
fn check_keys(ops: &[pb::RequestOp]) -> Result<Touched, Status> {
    let mut all = Touched::default();
    for op in ops {
        if let Some(Op::RequestDeleteRange(delete)) = &op.request {
            all.deletes.push(span_of(&delete.key, &delete.range_end));
        }
    }
    for op in ops {
        let Some(Op::RequestTxn(nested)) = &op.request else { continue };
        let (then, otherwise) = (check_keys(&nested.success)?, check_keys(&nested.failure)?);
        then.puts.iter().try_for_each(|key| all.put(key, false))?;
        all.deletes.extend(then.deletes);
        otherwise.puts.iter().try_for_each(|key| all.put(key, then.puts.contains(key)))?;
        all.deletes.extend(otherwise.deletes);
    }
    for op in ops {
        if let Some(Op::RequestPut(put)) = &op.request {
            all.put(&put.key, false)?;
        }
    }
    Ok(all)
}

/// The store's transaction.
pub(super) fn transaction(txn: &pb::TxnRequest) -> Result<Transaction, Status> {
    Ok(Transaction {
        conditions: txn.compare.iter().map(condition).collect::<Result<_, _>>()?,
        then: txn.success.iter().map(operation).collect::<Result<_, _>>()?,
        otherwise: txn.failure.iter().map(operation).collect::<Result<_, _>>()?,
    })
}

fn operation(op: &pb::RequestOp) -> Result<Operation, Status> {
    Ok(match &op.request {
        Some(Op::RequestRange(request)) => {
            let read = range::read_of(request);
            Operation::Read(Read { limit: limit(request), count: !read.count_only, ..read })
        }
        Some(Op::RequestPut(request)) => put(request.clone()),
        Some(Op::RequestDeleteRange(request)) => delete(request.clone()),
        Some(Op::RequestTxn(nested)) => Operation::Nested(transaction(nested)?),
        None => return Err(KEY_NOT_FOUND.into()),
    })
}

/// A limit that the store takes; a larger one is cut by the bounds of a commit anyway.
fn limit(request: &pb::RangeRequest) -> u32 {
    let wanted = range::rows_wanted(request).unwrap_or(0);
    u32::try_from(wanted).unwrap_or(PAGE_ROWS_MAX).min(PAGE_ROWS_MAX)
}

/// The response of a transaction.
pub(super) fn response(
    txn: &pb::TxnRequest,
    committed: Committed,
    header: pb::ResponseHeader,
) -> Result<pb::TxnResponse, Status> {
    // Within, a header has only the revision, as etcd's have.
    let inner = pb::ResponseHeader { revision: header.revision, ..Default::default() };
    let mut response = nested(txn, committed, inner)?;
    response.header = Some(header);
    Ok(response)
}

fn nested(txn: &pb::TxnRequest, committed: Committed, header: pb::ResponseHeader) -> Result<pb::TxnResponse, Status> {
    let Committed { succeeded, results } = committed;
    let ops = if succeeded { &txn.success } else { &txn.failure };
    if ops.len() != results.len() {
        return Err(unexpected("a transaction"));
    }
    let responses = ops.iter().zip(results).map(|(op, outcome)| done(op, outcome, header)).collect::<Result<_, _>>()?;
    Ok(pb::TxnResponse { header: Some(header), succeeded, responses })
}

fn done(op: &pb::RequestOp, outcome: Outcome, header: pb::ResponseHeader) -> Result<pb::ResponseOp, Status> {
    let given = Some(header);
    let response = match (&op.request, outcome) {
        (Some(Op::RequestRange(request)), Outcome::Page(page)) => {
            let more = page.next.is_some();
            let response = range::finish(request, page.rows, more, page.count);
            Done::ResponseRange(pb::RangeResponse { header: given, ..response })
        }
        (Some(Op::RequestPut(put)), Outcome::Put { previous }) => {
            let prev_kv = previous.map(|row| rows::pair_of(put.key.clone(), row));
            Done::ResponsePut(pb::PutResponse { header: given, prev_kv })
        }
        (Some(Op::RequestDeleteRange(_)), Outcome::Deleted { count, previous }) => {
            let prev_kvs = previous.into_iter().map(rows::pair).collect();
            Done::ResponseDeleteRange(pb::DeleteRangeResponse { header: given, deleted: rows::count(count), prev_kvs })
        }
        (Some(Op::RequestTxn(txn)), Outcome::Nested(committed)) => Done::ResponseTxn(nested(txn, committed, header)?),
        _ => return Err(unexpected("a transaction")),
    };
    Ok(pb::ResponseOp { response: Some(response) })
}

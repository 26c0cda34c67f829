//! Leases: keys that go when nobody renews what they are attached to.
//!
//! ```text
//!   grant ─▶ living ──(revoked, or time is over)──▶ ending ──steps──▶ gone
//!              └─renewed─┘                            each deletes keys, at one stamp of its own
//! ```
//!
//! Time is the cluster's, as the entry has it: a leader proposes the end, and applying decides whether it has come. An ending
//! lease takes no keys and is not renewed.
//!
//! Always: a key is deleted with a lease only while it is attached to it, so once; `e`, `t` and `k` agree.
//! Not here: who proposes (core-cluster, `upkeep.rs`).

use super::history::save;
use super::read::{names, newest};
use super::rows::{attached_key, damage, due_key, end_of, lease_key, LeaseRow, Meta, DUE, LEASE};
use super::stage::Stage;
use super::{refuse, Fail};
use super::{LeaseInfo, Reply, LEASES_A_COMMAND_MAX, LEASES_MAX, LEASE_KEYS_A_STEP_MAX};
use crate::contract::{SpaceRead, SpaceWrite};
use base_engine::{Direction, EngineError, KeyRange};
use base_types::mutant::{planted, Mutant};
use base_types::ErrorCode;
use bytes::Bytes;
use core::ops::ControlFlow;

/// The bytes of values after which a step ends; one value may go beyond.
const STEP_BYTES_MAX: usize = 8 << 20;

pub(super) fn grant(
    space: &mut dyn SpaceWrite,
    mut meta: Meta,
    now_ms: u64,
    lease: u64,
    ttl_ms: u64,
) -> Result<Reply, Fail> {
    if LeaseRow::read(space, lease)?.is_some() {
        return refuse(ErrorCode::LeaseExists, format!("there is a lease {lease}; take another number"));
    }
    if meta.leases >= LEASES_MAX {
        return refuse(
            ErrorCode::Overloaded,
            format!("there are {LEASES_MAX} leases; revoke some, or wait for their end"),
        );
    }
    meta.leases = meta.leases.saturating_add(1);
    set(space, lease, None, LeaseRow { ttl_ms, due_ms: now_ms.saturating_add(ttl_ms) });
    save(space, &meta);
    Ok(Reply::Granted { lease, ttl_ms })
}

/// Renews leases; what has ended, or is ending, has no time to live.
pub(super) fn keep_alive(space: &mut dyn SpaceWrite, now_ms: u64, leases: &[u64]) -> Result<Reply, Fail> {
    let mut ttls_ms = Vec::with_capacity(leases.len());
    for lease in leases {
        let row = LeaseRow::read(space, *lease)?.filter(|row| row.lives(now_ms));
        if let Some(row) = row {
            set(space, *lease, Some(row), LeaseRow { due_ms: now_ms.saturating_add(row.ttl_ms), ..row });
        }
        ttls_ms.push(row.map_or(0, |row| row.ttl_ms));
    }
    Ok(Reply::Kept { ttls_ms })
}

/// Ends a lease, and deletes up to `limit` of its keys.
pub(super) fn revoke(
    space: &mut dyn SpaceWrite,
    mut meta: Meta,
    now_ms: u64,
    lease: u64,
    limit: u32,
) -> Result<Reply, Fail> {
    let Some(row) = LeaseRow::read(space, lease)? else {
        return refuse(
            ErrorCode::NoSuchLease,
            format!("there is no lease {lease}; it has ended, or was never granted"),
        );
    };
    let (keys, gone) = end_step(space, &mut meta, now_ms, lease, row, limit)?;
    let leases = if gone { vec![lease] } else { Vec::new() };
    Ok(Reply::Ended { stamp: meta.stamp, leases, keys, more: !gone })
}

/// Ends the leases whose time is over, those that are ending first.
pub(super) fn expire(space: &mut dyn SpaceWrite, mut meta: Meta, now_ms: u64, limit: u32) -> Result<Reply, Fail> {
    let (due, mut more) = due(space, now_ms.saturating_add(early_ms()), LEASES_A_COMMAND_MAX)?;
    let (mut leases, mut keys) = (Vec::new(), 0u32);
    for (due_ms, lease) in due {
        if keys >= limit {
            more = true;
            break;
        }
        let row = LeaseRow::read(space, lease)?.filter(|row| row.due_ms == due_ms);
        let row = row.ok_or_else(|| damage(format!("lease {lease} is not what the order of leases says")))?;
        let (ended, gone) = end_step(space, &mut meta, now_ms, lease, row, limit - keys)?;
        keys += ended;
        if gone {
            leases.push(lease);
        } else {
            more = true;
            break;
        }
    }
    Ok(Reply::Ended { stamp: meta.stamp, leases, keys, more })
}

/// Deletes up to `limit` keys of a lease, at one stamp, and the lease with the last; how many, and whether it is gone.
fn end_step(
    space: &mut dyn SpaceWrite,
    meta: &mut Meta,
    now_ms: u64,
    lease: u64,
    row: LeaseRow,
    limit: u32,
) -> Result<(u32, bool), Fail> {
    let limit = limit.clamp(1, LEASE_KEYS_A_STEP_MAX) as usize;
    let (keys, mut more) = names(space, &attached_key(lease, &[]), None, limit)?;
    let mut stage = Stage::open(space, *meta, now_ms)?;
    let mut bytes = 0;
    for key in keys {
        if bytes > STEP_BYTES_MAX {
            more = true;
            break;
        }
        let Some(row) = newest(&*stage.space, &key)? else {
            if planted(Mutant::LeaseKeyDeletedTwice) || planted(Mutant::LeaseKeepsDetached) {
                continue;
            }
            return Err(damage(format!("lease {lease} has a key that is not there")).into());
        };
        bytes += row.value.len();
        stage.delete(&key, row)?;
    }
    let (after, count) = stage.finish()?;
    *meta = after;
    if more {
        set(space, lease, Some(row), LeaseRow { due_ms: 0, ..row });
        return Ok((count, false));
    }
    space.delete(lease_key(lease));
    space.delete(due_key(row.due_ms, lease));
    meta.leases = meta.leases.saturating_sub(1);
    save(space, meta);
    Ok((count, true))
}

/// Writes a lease, and its place in the order of ends.
fn set(space: &mut dyn SpaceWrite, lease: u64, before: Option<LeaseRow>, row: LeaseRow) {
    if let Some(before) = before.filter(|_| !planted(Mutant::RenewalForgotten)) {
        space.delete(due_key(before.due_ms, lease));
    }
    let row = match before {
        // The lease ends when it would have ended without.
        Some(before) if planted(Mutant::RenewalForgotten) && row.due_ms != 0 => before,
        _ => row,
    };
    space.put(due_key(row.due_ms, lease), Bytes::new());
    space.put(lease_key(lease), row.row());
}

/// Leases whose time is over, soonest first, up to a number; and whether there are more.
pub(super) fn due(space: &dyn SpaceRead, now_ms: u64, most: usize) -> Result<(Vec<(u64, u64)>, bool), EngineError> {
    let end = due_key(now_ms.saturating_add(1), 0);
    let (mut found, mut more, mut fault) = (Vec::new(), false, None);
    space.range(KeyRange { start: &[DUE], end: Some(&end) }, Direction::Forward, &mut |row, _| {
        more = found.len() == most;
        match due_parts(row) {
            _ if more => return ControlFlow::Break(()),
            Ok(parts) => found.push(parts),
            Err(error) => fault = Some(error),
        }
        if fault.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    fault.map_or(Ok((found, more)), Err)
}

/// Before the first lease that ends after a time.
pub(super) fn due_from(ms: u64) -> Bytes {
    due_key(ms.saturating_add(1), 0)
}

/// Right after a lease in the order of ends.
pub(super) fn after_due(due_ms: u64, lease: u64) -> Bytes {
    due_key(due_ms, lease.saturating_add(1))
}

/// Leases that end from a place in the order on and before a time, up to a number; and whether there are more.
pub(super) fn between(
    space: &dyn SpaceRead,
    start: &[u8],
    until_ms: u64,
    most: usize,
) -> Result<(Vec<(u64, u64)>, bool), EngineError> {
    let end = due_key(until_ms, 0);
    if start >= &end[..] {
        return Ok((Vec::new(), false));
    }
    let (rows, more) = crate::rows::page(space, start, Some(&end), Direction::Forward, most)?;
    Ok((rows.iter().map(|(row, _)| due_parts(row)).collect::<Result<_, _>>()?, more))
}

/// So long before its time a lease ends.
pub(super) fn early_ms() -> u64 {
    if planted(Mutant::LeaseEndsEarly) {
        2_000
    } else {
        0
    }
}

/// When the next lease ends, in the cluster's time.
pub(super) fn next_due(space: &dyn SpaceRead) -> Result<Option<u64>, EngineError> {
    let (mut first, end) = (None, end_of(DUE));
    space.range(KeyRange { start: &[DUE], end: Some(&end) }, Direction::Forward, &mut |row, _| {
        first = Some(due_parts(row).map(|(due_ms, _)| due_ms));
        ControlFlow::Break(())
    })?;
    first.transpose()
}

pub(super) fn due_parts(row: &[u8]) -> Result<(u64, u64), EngineError> {
    Ok((crate::rows::key_number(row, 1)?, crate::rows::key_number(row, 9)?))
}

fn info(lease: u64, row: LeaseRow, now_ms: u64) -> LeaseInfo {
    LeaseInfo { lease, ttl_ms: row.ttl_ms, left_ms: row.due_ms.saturating_sub(now_ms) }
}

/// A lease and a page of its keys.
pub(super) fn describe(
    space: &dyn SpaceRead,
    now_ms: u64,
    lease: u64,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Reply, EngineError> {
    let row = LeaseRow::read(space, lease)?;
    let (keys, more) =
        if limit == 0 { (Vec::new(), false) } else { names(space, &attached_key(lease, &[]), after, limit)? };
    Ok(Reply::Lease { lease: row.map(|row| info(lease, row, now_ms)), keys, more })
}

/// A page of all leases.
pub(super) fn list(space: &dyn SpaceRead, now_ms: u64, after: u64, limit: usize) -> Result<Reply, EngineError> {
    let Some(first) = after.checked_add(1) else { return Ok(Reply::Leases { leases: Vec::new(), more: false }) };
    let (start, end) = (lease_key(first), end_of(LEASE));
    let (rows, more) = crate::rows::page(space, &start, Some(&end), Direction::Forward, limit)?;
    let leases =
        rows.into_iter().map(|(key, row)| Ok(info(crate::rows::key_number(&key, 1)?, LeaseRow::decode(row)?, now_ms)));
    Ok(Reply::Leases { leases: leases.collect::<Result<_, EngineError>>()?, more })
}

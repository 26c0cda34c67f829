//! Which stamps can be read, and how history goes: compaction, pins, collection.
//!
//! ```text
//!   0 ……… collected ── horizon ────── compacted ────────── stamp
//!     gone          may go    for pins          for everybody
//! ```
//!
//! `compacted` is what clients asked for. `horizon` follows it as far as the oldest pin lets it. A row of history is read at stamps
//! below its own, so those up to the horizon serve no read. Those of the horizon itself are kept: they say what changed there, and
//! etcd's watches may begin at the revision of a compaction (decision 0134).
//!
//! Always: `collected <= horizon <= compacted <= stamp`, and none of them goes back.
//! Not here: reading (`read.rs`). Who compacts, and when: the door.

use super::rows::{end_of, history_key, history_position, index_key, pin_key, Head, Meta, PinRow, META, PIN};
use super::{refuse, Fail};
use super::{Position, Reply, COLLECT_ROWS_MAX, PINS_MAX, PIN_KEEP_MS_MAX};
use crate::contract::{SpaceRead, SpaceWrite};
use base_engine::{Direction, EngineError, KeyRange};
use base_types::mutant::{planted, Mutant};
use base_types::ErrorCode;
use bytes::Bytes;
use core::ops::ControlFlow;

/// The greatest stamp that can be closed: commits have room above.
pub(super) const CLOSED_MAX: u64 = 1 << 62;
/// Rows of history that a commit removes beside twice as many as it makes, and the most.
const SWEEP_ROWS: u32 = 16;
const SWEEP_ROWS_MAX: u32 = 1_024;

/// The stamp to read at (0: the newest), or why that cannot be read. A pin lets a read go down to its stamp.
pub(super) fn readable_at(space: &dyn SpaceRead, meta: &Meta, now_ms: u64, asked: u64, pin: u64) -> Result<u64, Fail> {
    if asked == 0 {
        return Ok(meta.stamp);
    }
    if asked > meta.readable() {
        return refuse(
            ErrorCode::StampInFuture,
            format!("stamp {asked} is in the future; the last commit has stamp {}", meta.stamp),
        );
    }
    check_since(space, meta, now_ms, asked, pin)?;
    Ok(asked)
}

/// Refuses what needs history from a stamp on, where some of that is gone.
pub(super) fn check_since(space: &dyn SpaceRead, meta: &Meta, now_ms: u64, since: u64, pin: u64) -> Result<(), Fail> {
    let floor = floor(space, meta, now_ms, pin)?;
    if since < floor && !planted(Mutant::HorizonIgnored) {
        return compacted(since, floor);
    }
    Ok(())
}

/// Refuses changes after a position, where some of them are gone. Those of the compacted stamp itself are there.
pub(super) fn check_after(
    space: &dyn SpaceRead,
    meta: &Meta,
    now_ms: u64,
    after: Position,
    pin: u64,
) -> Result<(), Fail> {
    let (seen, floor) = (after.seen_up_to(), floor(space, meta, now_ms, pin)?);
    // Stores of builds before 0.2.0 have collected the compacted stamp, too.
    let gone = seen.saturating_add(1) < floor || after < meta.collected;
    if gone && !planted(Mutant::HorizonIgnored) {
        return compacted(seen, floor);
    }
    Ok(())
}

fn floor(space: &dyn SpaceRead, meta: &Meta, now_ms: u64, pin: u64) -> Result<u64, Fail> {
    Ok(if pin == 0 { meta.compacted } else { pinned(space, now_ms, pin)?.stamp.min(meta.compacted) })
}

fn compacted<T>(stamp: u64, floor: u64) -> Result<T, Fail> {
    refuse(ErrorCode::StampCompacted, format!("stamp {stamp} has been compacted; read at stamp {floor} or later"))
}

fn pinned(space: &dyn SpaceRead, now_ms: u64, pin: u64) -> Result<PinRow, Fail> {
    match space.get(&pin_key(pin))?.map(PinRow::decode).transpose()?.filter(|row| row.until_ms > now_ms) {
        Some(row) => Ok(row),
        None => refuse(ErrorCode::NoSuchPin, format!("there is no pin {pin}, or its time is over; pin again")),
    }
}

/// Refuses reads below a stamp.
pub(super) fn compact(space: &mut dyn SpaceWrite, mut meta: Meta, now_ms: u64, stamp: u64) -> Result<Reply, Fail> {
    if stamp > meta.stamp {
        let message = format!("stamp {stamp} is in the future; the last commit has stamp {}", meta.stamp);
        return refuse(ErrorCode::StampInFuture, message);
    }
    if stamp <= meta.compacted {
        let message = format!("stamp {stamp} has been compacted; the last compaction was at {}", meta.compacted);
        return refuse(ErrorCode::StampCompacted, message);
    }
    meta.compacted = stamp;
    raise_horizon(space, &mut meta, now_ms)?;
    save(space, &meta);
    Ok(Reply::Done { stamp: meta.stamp })
}

/// Puts later commits above a stamp.
pub(super) fn close(space: &mut dyn SpaceWrite, mut meta: Meta, stamp: u64) -> Result<Reply, Fail> {
    if stamp > CLOSED_MAX {
        return refuse(
            ErrorCode::LimitOutOfRange,
            format!("stamp {stamp} cannot be closed; give at most {CLOSED_MAX}"),
        );
    }
    if stamp > meta.readable() {
        meta.closed = stamp;
        save(space, &meta);
    }
    Ok(Reply::Done { stamp: meta.stamp })
}

/// Keeps what is read at a stamp, or renews that.
pub(super) fn pin(
    space: &mut dyn SpaceWrite,
    mut meta: Meta,
    now_ms: u64,
    pin: u64,
    stamp: u64,
    keep_ms: u64,
) -> Result<Reply, Fail> {
    let until_ms = now_ms.saturating_add(keep_ms.min(PIN_KEEP_MS_MAX));
    let living: Vec<_> = pins(space)?.into_iter().filter(|(_, row)| row.until_ms > now_ms).collect();
    let known = living.iter().find(|(key, _)| *key == pin_key(pin)).map(|(_, row)| *row);
    let stamp = match known {
        Some(known) if stamp == 0 || stamp == known.stamp => known.stamp,
        Some(known) => {
            let message = format!("pin {pin} is at stamp {}; unpin it, or take another number", known.stamp);
            return refuse(ErrorCode::Conflict, message);
        }
        None if living.len() as u64 >= PINS_MAX => {
            return refuse(
                ErrorCode::Overloaded,
                format!("there are {PINS_MAX} pins; unpin one, or wait until one ends"),
            );
        }
        None => readable_at(space, &meta, now_ms, stamp, 0)?,
    };
    // A refusal changes nothing, so what is over goes only now.
    drop_expired_pins(space, &mut meta, now_ms)?;
    if known.is_none() {
        meta.pins = meta.pins.saturating_add(1);
    }
    space.put(pin_key(pin), PinRow { stamp, until_ms }.row());
    save(space, &meta);
    Ok(Reply::Pinned { stamp, until_ms })
}

pub(super) fn unpin(space: &mut dyn SpaceWrite, mut meta: Meta, now_ms: u64, pin: u64) -> Result<Reply, Fail> {
    if space.get(&pin_key(pin))?.is_some() {
        space.delete(pin_key(pin));
        meta.pins = meta.pins.saturating_sub(1);
    }
    raise_horizon(space, &mut meta, now_ms)?;
    save(space, &meta);
    Ok(Reply::Done { stamp: meta.stamp })
}

/// Removes up to `limit` rows of history that serve nobody.
pub(super) fn collect(space: &mut dyn SpaceWrite, mut meta: Meta, now_ms: u64, limit: u32) -> Result<Reply, Fail> {
    raise_horizon(space, &mut meta, now_ms)?;
    let (rows, more) = remove(space, &mut meta, limit.min(COLLECT_ROWS_MAX))?;
    save(space, &meta);
    Ok(Reply::Collected { rows, more })
}

/// What a commit of so many changes removes by the way, so that garbage never grows faster than it goes.
pub(super) fn sweep(space: &mut dyn SpaceWrite, meta: &mut Meta, now_ms: u64, changes: u32) -> Result<(), EngineError> {
    raise_horizon(space, meta, now_ms)?;
    if has_garbage(meta) {
        remove(space, meta, changes.saturating_mul(2).saturating_add(SWEEP_ROWS).min(SWEEP_ROWS_MAX))?;
    }
    Ok(())
}

/// Whether something may go.
pub(super) fn has_garbage(meta: &Meta) -> bool {
    meta.collected < garbage_end(meta)
}

/// Up to where history may go.
fn garbage_end(meta: &Meta) -> Position {
    meta.horizon.checked_sub(1).map(Position::end_of).unwrap_or_default()
}

pub(super) fn save(space: &mut dyn SpaceWrite, meta: &Meta) {
    space.put(Bytes::from_static(&[META]), meta.row());
}

fn pins(space: &dyn SpaceRead) -> Result<Vec<(Bytes, PinRow)>, EngineError> {
    let end = end_of(PIN);
    let mut rows = Vec::new();
    space.range(KeyRange { start: &[PIN], end: Some(&end) }, Direction::Forward, &mut |key, row| {
        rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(row)));
        ControlFlow::Continue(())
    })?;
    rows.into_iter().map(|(key, row)| Ok((key, PinRow::decode(row)?))).collect()
}

/// When the pin ends whose time is over first.
pub(super) fn first_end_of_pin(space: &dyn SpaceRead) -> Result<Option<u64>, EngineError> {
    Ok(pins(space)?.into_iter().map(|(_, row)| row.until_ms).min())
}

/// Removes the pins whose time is over; the stamp of the oldest that is left.
fn drop_expired_pins(space: &mut dyn SpaceWrite, meta: &mut Meta, now_ms: u64) -> Result<Option<u64>, EngineError> {
    if meta.pins == 0 {
        return Ok(None);
    }
    let (gone, kept): (Vec<_>, Vec<_>) = pins(space)?.into_iter().partition(|(_, row)| row.until_ms <= now_ms);
    for (key, _) in gone {
        space.delete(key);
        meta.pins = meta.pins.saturating_sub(1);
    }
    Ok(kept.into_iter().map(|(_, row)| row.stamp).min())
}

/// The horizon follows what was compacted, as far as pins let it.
fn raise_horizon(space: &mut dyn SpaceWrite, meta: &mut Meta, now_ms: u64) -> Result<(), EngineError> {
    if meta.horizon >= meta.compacted {
        return Ok(());
    }
    let oldest = drop_expired_pins(space, meta, now_ms)?.filter(|_| !planted(Mutant::PinIgnored));
    let reached = oldest.map_or(meta.compacted, |oldest| oldest.min(meta.compacted));
    meta.horizon = meta.horizon.max(reached);
    Ok(())
}

/// Removes the oldest rows up to the horizon; how many, and whether more are left. It begins where the last removal ended, so
/// that it does not pass what the engine may not have dropped yet.
fn remove(space: &mut dyn SpaceWrite, meta: &mut Meta, limit: u32) -> Result<(u32, bool), EngineError> {
    let mut end = garbage_end(meta);
    if planted(Mutant::CompactionDropsLive) {
        // One stamp too many: what a read at the horizon needs.
        end = Position::end_of(meta.horizon.saturating_add(1));
    }
    let start = Position { stamp: meta.collected.stamp, sub: meta.collected.sub.saturating_add(1) };
    let (from, until) = (history_key(start), history_key(end));
    let (mut spent, mut more, mut fault) = (Vec::<(Position, Head)>::new(), false, None);
    if from < until {
        space.range(KeyRange { start: &from, end: Some(&until) }, Direction::Forward, &mut |key, row| {
            more = spent.len() >= limit as usize;
            if more {
                return ControlFlow::Break(());
            }
            match history_position(key).and_then(|at| Ok((at, Head::decode(row)?))) {
                Ok(row) => {
                    spent.push(row);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    fault = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
    }
    if let Some(fault) = fault {
        return Err(fault);
    }
    let rows = spent.len() as u32;
    meta.collected = match spent.last() {
        Some((at, _)) if more => *at,
        _ if more => meta.collected,
        _ => meta.collected.max(garbage_end(meta)),
    };
    for (at, head) in spent {
        space.delete(history_key(at));
        if head.indexed {
            space.delete(index_key(&head.key, at.stamp));
        }
    }
    Ok((rows, more))
}

/// The last stamp that was committed at this cluster time or before; at the least what was compacted.
///
/// Stamps and times grow together, so it is found by halving: a seek for each bit of the distance.
pub(super) fn stamp_at(space: &dyn SpaceRead, meta: &Meta, time_ms: u64) -> Result<u64, EngineError> {
    let (mut low, mut high) = (meta.compacted, meta.stamp);
    while low < high {
        // Not below the upper half, so that each step narrows.
        let middle = low + (high - low).div_ceil(2);
        match first_commit(space, middle, high)? {
            // Nothing was committed from here on.
            None => high = middle - 1,
            Some((stamp, at_ms)) if at_ms <= time_ms => low = stamp,
            Some(_) => high = middle - 1,
        }
    }
    Ok(low)
}

/// The first stamp from one on, up to another, that has a change, with its time.
fn first_commit(space: &dyn SpaceRead, from: u64, until: u64) -> Result<Option<(u64, u64)>, EngineError> {
    let (start, end) = (history_key(Position { stamp: from, sub: 0 }), history_key(Position::end_of(until)));
    let mut found = None;
    space.range(KeyRange { start: &start, end: Some(&end) }, Direction::Forward, &mut |key, row| {
        found = Some(history_position(key).and_then(|at| Ok((at.stamp, Head::decode(row)?.time_ms))));
        ControlFlow::Break(())
    })?;
    found.transpose()
}

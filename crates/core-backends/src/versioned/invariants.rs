//! What must hold of the rows of one cluster, whatever commands came.
//!
//! Always: it reads and changes nothing; it walks every row, so it is for tests and the simulator.
//! Not here: what a client may expect (the tests compare with a model of etcd's keys).

use super::command::{Position, Row};
use super::lease::due_parts;
use super::rows::{
    attached_key, decode_row, due_key, end_of, history_key, history_position, index_key, index_parts, index_sub,
    lease_key, LeaseRow, Meta, Past, PinRow, ATTACHED, DATA, DUE, HISTORY, INDEX, LEASE, PIN,
};
use crate::contract::SpaceRead;
use crate::rows::key_number;
use base_engine::{Direction, EngineError, KeyRange};
use base_types::holds;
use base_types::invariant::Broken;
use bytes::Bytes;
use core::ops::ControlFlow;
use std::collections::BTreeMap;

/// Checks that newest rows and history say the same at each stamp, that positions, counts and leases agree.
pub fn check_invariants(space: &dyn SpaceRead) -> Result<(), Broken> {
    let meta = Meta::read(space).map_err(broken)?;
    let (collected, readable) = (meta.collected.stamp, meta.readable());
    holds!(collected <= meta.horizon, "collected to {collected}, beyond the horizon {}", meta.horizon);
    holds!(meta.horizon <= meta.compacted, "the horizon {} is beyond {}", meta.horizon, meta.compacted);
    holds!(meta.compacted <= meta.stamp, "compacted to {}, beyond the last commit {}", meta.compacted, meta.stamp);
    let keys = newest_rows(space, &meta)?;
    let changes = history(space, &meta, readable)?;
    index(space, &changes)?;
    let mut lives: BTreeMap<&Bytes, Life<'_>> = BTreeMap::new();
    for (at, past) in &changes {
        let life = lives.entry(&past.key).or_insert(Life { last: None, at: Position::default() });
        follows(life, *at, past)?;
        *life = Life { last: Some(past), at: *at };
    }
    for (key, life) in &lives {
        let row = keys.get(*key);
        let deleted = life.last.is_some_and(|past| past.deleted);
        holds!(deleted == row.is_none(), "{key:?} was last changed at {:?}, and its newest row is {row:?}", life.at);
        holds!(
            row.is_none_or(|row| row.modified == life.at.stamp),
            "{key:?} was last put at {:?}, and its newest row is {row:?}",
            life.at
        );
    }
    for (key, row) in &keys {
        let known = lives.contains_key(key) || row.modified <= meta.horizon;
        holds!(known, "{key:?} was put at {}, which history does not know", row.modified);
    }
    leases(space, &meta, &keys)
}

/// The last change of a key so far.
struct Life<'a> {
    last: Option<&'a Past>,
    at: Position,
}

/// A change begins with what the one before it left.
fn follows(life: &Life<'_>, at: Position, past: &Past) -> Result<(), Broken> {
    let key = &past.key;
    holds!(!past.deleted || past.before.is_some(), "{key:?} was deleted at {at:?}, and was not there");
    if let Some(before) = &past.before {
        holds!(before.modified < at.stamp, "{key:?} changed at {at:?}, and was put at {}", before.modified);
        plausible(key, before)?;
    }
    let Some(last) = life.last else { return Ok(()) };
    match (&past.before, last.deleted) {
        (None, deleted) => holds!(deleted, "{key:?} came to be at {at:?}, and was there"),
        (Some(before), deleted) => holds!(
            !deleted && before.modified == life.at.stamp,
            "{key:?} changed at {at:?} from what was put at {}, and was changed at {:?} before",
            before.modified,
            life.at
        ),
    }
    Ok(())
}

fn plausible(key: &Bytes, row: &Row) -> Result<(), Broken> {
    holds!(
        row.created >= 1 && row.created <= row.modified && row.version >= 1,
        "{key:?} came to be at {}, was put at {}, has version {}",
        row.created,
        row.modified,
        row.version
    );
    holds!((row.version == 1) == (row.created == row.modified), "{key:?} has version {}", row.version);
    Ok(())
}

fn newest_rows(space: &dyn SpaceRead, meta: &Meta) -> Result<BTreeMap<Bytes, Row>, Broken> {
    let mut keys = BTreeMap::new();
    for (key, row) in rows(space, DATA)? {
        let (key, row) = (key.slice(1..), decode_row(row).map_err(broken)?);
        plausible(&key, &row)?;
        holds!(row.modified <= meta.stamp, "{key:?} was put at {}, after the last commit {}", row.modified, meta.stamp);
        keys.insert(key, row);
    }
    holds!(keys.len() as u64 == meta.keys, "{} keys are there, and {} are counted", keys.len(), meta.keys);
    Ok(keys)
}

/// All changes, in order. Within a commit their numbers have no gap.
fn history(space: &dyn SpaceRead, meta: &Meta, readable: u64) -> Result<Vec<(Position, Past)>, Broken> {
    let mut changes: Vec<(Position, Past)> = Vec::new();
    for (key, row) in rows(space, HISTORY)? {
        let at = history_position(&key).map_err(broken)?;
        holds!(at > meta.collected, "change {at:?} is there, and collected to {:?}", meta.collected);
        holds!(at.stamp <= readable, "change {at:?} is beyond the last commit {}", meta.stamp);
        let expected = match changes.last() {
            Some((last, _)) if last.stamp == at.stamp => last.sub + 1,
            _ if at.stamp == meta.collected.stamp => meta.collected.sub + 1,
            _ => 0,
        };
        holds!(at.sub == expected, "change {at:?} follows; expected number {expected}");
        let past = Past::decode(row).map_err(broken)?;
        let earlier = changes.last().map_or(0, |(_, past)| past.time_ms);
        holds!(past.time_ms >= earlier, "change {at:?} is of {} ms, one before it of {earlier} ms", past.time_ms);
        changes.push((at, past));
    }
    Ok(changes)
}

/// The index has a row for each change that found its key there, and no other.
fn index(space: &dyn SpaceRead, changes: &[(Position, Past)]) -> Result<(), Broken> {
    let indexed = changes.iter().filter(|(_, past)| past.before.is_some());
    let expected: BTreeMap<Bytes, u32> = indexed.map(|(at, past)| (index_key(&past.key, at.stamp), at.sub)).collect();
    let rows = rows(space, INDEX)?;
    holds!(rows.len() == expected.len(), "{} index rows for {} changes", rows.len(), expected.len());
    for (key, value) in rows {
        let (name, stamp) = index_parts(&key).map_err(broken)?;
        let sub = index_sub(&value).map_err(broken)?;
        let known = expected.get(&key) == Some(&sub);
        holds!(known, "the index names {:?}, which is not there", (history_key(Position { stamp, sub }), name));
    }
    Ok(())
}

fn leases(space: &dyn SpaceRead, meta: &Meta, keys: &BTreeMap<Bytes, Row>) -> Result<(), Broken> {
    let mut leases = BTreeMap::new();
    for (key, row) in rows(space, LEASE)? {
        leases.insert(key_number(&key, 1).map_err(broken)?, LeaseRow::decode(row).map_err(broken)?);
    }
    holds!(leases.len() as u64 == meta.leases, "{} leases, and {} are counted", leases.len(), meta.leases);
    let due = rows(space, DUE)?;
    holds!(due.len() == leases.len(), "{} leases in the order of ends, and {}", due.len(), leases.len());
    for (key, _) in due {
        let (due_ms, lease) = due_parts(&key).map_err(broken)?;
        let known = leases.get(&lease).is_some_and(|row| due_key(row.due_ms, lease) == key);
        holds!(known, "lease {lease} ends at {due_ms} ms by the order of ends alone");
    }
    let attached = keys.iter().filter(|(_, row)| row.lease != 0);
    let mut expected: Vec<Bytes> = attached.clone().map(|(key, row)| attached_key(row.lease, key)).collect();
    expected.sort();
    let found: Vec<Bytes> = rows(space, ATTACHED)?.into_iter().map(|(key, _)| key).collect();
    holds!(found == expected, "keys attached to leases: {found:?}; by the keys: {expected:?}");
    for (key, row) in attached {
        holds!(leases.contains_key(&row.lease), "{key:?} is attached to {:?}, which is gone", lease_key(row.lease));
    }
    let pins = rows(space, PIN)?;
    holds!(pins.len() as u64 == meta.pins, "{} pins, and {} are counted", pins.len(), meta.pins);
    for (_, row) in pins {
        let pin = PinRow::decode(row).map_err(broken)?;
        holds!(pin.stamp >= meta.horizon, "a pin at {} is below the horizon {}", pin.stamp, meta.horizon);
    }
    Ok(())
}

fn rows(space: &dyn SpaceRead, tag: u8) -> Result<Vec<(Bytes, Bytes)>, Broken> {
    let (mut rows, end) = (Vec::new(), end_of(tag));
    space
        .range(KeyRange { start: &[tag], end: Some(&end) }, Direction::Forward, &mut |key, row| {
            rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(row)));
            ControlFlow::Continue(())
        })
        .map_err(broken)?;
    Ok(rows)
}

fn broken(error: EngineError) -> Broken {
    Broken(error.to_string())
}

//! What must hold of the rows of one cluster, whatever commands came.
//!
//! Always: it reads and changes nothing, and at most `ROWS_MAX` rows of a kind: of a cluster that has more it says nothing.
//! Not here: what a client may expect (the tests compare with a model of etcd's keys).

use super::lease::due_parts;
use super::rows::{
    attached_key, decode_row, due_key, end_of, history_position, index_key, index_parts, index_sub, LeaseRow, Meta,
    Past, PinRow, ATTACHED, DATA, DUE, HISTORY, INDEX, LEASE, PIN,
};
use super::{Position, Row};
use crate::contract::SpaceRead;
use crate::invariants::{walk, Checked};
use crate::rows::key_number;
use base_engine::EngineError;
use base_types::holds;
use base_types::invariant::Broken;
use bytes::Bytes;
use std::collections::BTreeMap;

/// All rows of a cluster.
struct Found {
    meta: Meta,
    keys: BTreeMap<Bytes, Row>,
    changes: Vec<(Position, Past)>,
    /// Each row's key, and what it names.
    index: Vec<(Bytes, Position)>,
    leases: BTreeMap<u64, LeaseRow>,
    /// Each row's key, and the lease that it names.
    due: Vec<(Bytes, u64)>,
    attached: Vec<Bytes>,
    pins: Vec<PinRow>,
}

/// Checks that newest rows and history say the same at each stamp, that positions, counts and leases agree.
pub(super) fn check(space: &dyn SpaceRead) -> Checked {
    match find(space)? {
        Some(found) => Ok(check_found(&found)),
        None => Ok(Ok(())),
    }
}

/// None: there are more rows than are read.
fn find(space: &dyn SpaceRead) -> Result<Option<Found>, EngineError> {
    let mut kinds = Vec::new();
    for tag in [DATA, HISTORY, INDEX, LEASE, DUE, ATTACHED, PIN] {
        let mut rows = Vec::new();
        let all = walk(space, &[tag], &end_of(tag), &mut |key, row| {
            rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(row)));
        })?;
        if all.is_none() {
            return Ok(None);
        }
        kinds.push(rows);
    }
    let Ok([data, history, index, leases, due, attached, pins]) = <[Vec<(Bytes, Bytes)>; 7]>::try_from(kinds) else {
        return Ok(None);
    };
    let name = |(key, row): (Bytes, Bytes)| {
        let (_, stamp) = index_parts(&key)?;
        Ok((key, Position { stamp, sub: index_sub(&row)? }))
    };
    let lease = |(key, row): (Bytes, Bytes)| Ok((key_number(&key, 1)?, LeaseRow::decode(row)?));
    Ok(Some(Found {
        meta: Meta::read(space)?,
        keys: data
            .into_iter()
            .map(|(key, row)| Ok((key.slice(1..), decode_row(row)?)))
            .collect::<Result<_, EngineError>>()?,
        changes: history
            .into_iter()
            .map(|(key, row)| Ok((history_position(&key)?, Past::decode(row)?)))
            .collect::<Result<_, EngineError>>()?,
        index: index.into_iter().map(name).collect::<Result<_, EngineError>>()?,
        leases: leases.into_iter().map(lease).collect::<Result<_, EngineError>>()?,
        due: due
            .into_iter()
            .map(|(key, _)| due_parts(&key).map(|(_, lease)| (key, lease)))
            .collect::<Result<_, EngineError>>()?,
        attached: attached.into_iter().map(|(key, _)| key).collect(),
        pins: pins.into_iter().map(|(_, row)| PinRow::decode(row)).collect::<Result<_, EngineError>>()?,
    }))
}

fn check_found(found: &Found) -> Result<(), Broken> {
    let Found { meta, keys, changes, .. } = found;
    let collected = meta.collected.stamp;
    holds!(collected <= meta.horizon, "collected to {collected}, beyond the horizon {}", meta.horizon);
    holds!(meta.horizon <= meta.compacted, "the horizon {} is beyond {}", meta.horizon, meta.compacted);
    holds!(meta.compacted <= meta.stamp, "compacted to {}, beyond the last commit {}", meta.compacted, meta.stamp);
    newest_rows(keys, meta)?;
    history(changes, meta)?;
    index(found)?;
    let mut lives: BTreeMap<&Bytes, Life<'_>> = BTreeMap::new();
    for (at, past) in changes {
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
    for (key, row) in keys {
        let known = lives.contains_key(key) || row.modified <= meta.horizon;
        holds!(known, "{key:?} was put at {}, which history does not know", row.modified);
    }
    leases(found)
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

fn newest_rows(keys: &BTreeMap<Bytes, Row>, meta: &Meta) -> Result<(), Broken> {
    for (key, row) in keys {
        plausible(key, row)?;
        holds!(row.modified <= meta.stamp, "{key:?} was put at {}, after the last commit {}", row.modified, meta.stamp);
    }
    holds!(keys.len() as u64 == meta.keys, "{} keys are there, and {} are counted", keys.len(), meta.keys);
    Ok(())
}

/// All changes are in order. Within a commit their numbers have no gap.
fn history(changes: &[(Position, Past)], meta: &Meta) -> Result<(), Broken> {
    let mut last: Option<(Position, u64)> = None;
    for (at, past) in changes {
        let at = *at;
        holds!(at > meta.collected, "change {at:?} is there, and collected to {:?}", meta.collected);
        holds!(at.stamp <= meta.stamp, "change {at:?} is beyond the last commit {}", meta.stamp);
        let expected = match last {
            Some((last, _)) if last.stamp == at.stamp => last.sub + 1,
            _ if at.stamp == meta.collected.stamp => meta.collected.sub.saturating_add(1),
            _ => 0,
        };
        holds!(at.sub == expected, "change {at:?} follows; expected number {expected}");
        let earlier = last.map_or(0, |(_, time_ms)| time_ms);
        holds!(past.time_ms >= earlier, "change {at:?} is of {} ms, one before it of {earlier} ms", past.time_ms);
        last = Some((at, past.time_ms));
    }
    Ok(())
}

/// The index has a row for each change that found its key there, and no other.
fn index(found: &Found) -> Result<(), Broken> {
    let indexed = found.changes.iter().filter(|(_, past)| past.before.is_some());
    let expected: BTreeMap<Bytes, Position> = indexed.map(|(at, past)| (index_key(&past.key, at.stamp), *at)).collect();
    let count = found.index.len();
    holds!(count == expected.len(), "{count} index rows for {} changes", expected.len());
    for (key, at) in &found.index {
        holds!(expected.get(key) == Some(at), "the index names change {at:?} by {key:?}, which is not there");
    }
    Ok(())
}

fn leases(found: &Found) -> Result<(), Broken> {
    let Found { meta, keys, leases, due, attached, pins, .. } = found;
    holds!(leases.len() as u64 == meta.leases, "{} leases, and {} are counted", leases.len(), meta.leases);
    holds!(due.len() == leases.len(), "{} leases in the order of ends, and {}", due.len(), leases.len());
    for (key, lease) in due {
        let known = leases.get(lease).is_some_and(|row| due_key(row.due_ms, *lease) == *key);
        holds!(known, "lease {lease} ends as the order of ends alone has it");
    }
    let of_leases = || keys.iter().filter(|(_, row)| row.lease != 0);
    let mut expected: Vec<Bytes> = of_leases().map(|(key, row)| attached_key(row.lease, key)).collect();
    expected.sort();
    holds!(*attached == expected, "keys attached to leases: {attached:?}; by the keys: {expected:?}");
    for (key, row) in of_leases() {
        holds!(leases.contains_key(&row.lease), "{key:?} is attached to lease {}, which is gone", row.lease);
    }
    holds!(pins.len() as u64 == meta.pins, "{} pins, and {} are counted", pins.len(), meta.pins);
    for pin in pins {
        holds!(pin.stamp >= meta.horizon, "a pin at {} is below the horizon {}", pin.stamp, meta.horizon);
    }
    Ok(())
}

//! What always holds of the redis backend's rows.
//!
//! Always (asserted here): its state counts the keys, each of which has one sequence; the keys that will expire (mutant
//! `ExpiringCounted`); and what is left to the sweep.
//! Not here: elements, which a walk of one key finds (`tests.rs`).

use super::store::{self, Database, State, EXPIRY, GARBAGE, GARBAGE_EPOCH, META, SEQUENCE};
use crate::contract::SpaceRead;
use crate::invariants::{count, count_tag, Checked};
use base_types::holds;
use base_types::invariant::Broken;

struct Found {
    number: usize,
    database: Database,
    keys: Option<u64>,
    sequences: Option<u64>,
    expiring: Option<u64>,
}

pub(super) fn check(space: &dyn SpaceRead) -> Checked {
    let state = State::read(space)?;
    let mut found = Vec::with_capacity(state.databases.len());
    for (number, database) in state.databases.into_iter().enumerate() {
        let of_epoch = |tag| {
            let (start, end) = store::epoch_rows(tag, database.epoch);
            count(space, &start, &end)
        };
        let (keys, sequences, expiring) = (of_epoch(META)?, of_epoch(SEQUENCE)?, of_epoch(EXPIRY)?);
        found.push(Found { number, database, keys, sequences, expiring });
    }
    let garbage = count_tag(space, GARBAGE)?.zip(count_tag(space, GARBAGE_EPOCH)?).map(|(keys, epochs)| keys + epochs);
    Ok(found.iter().try_for_each(check_found).and_then(|()| check_garbage(garbage, state.garbage)))
}

fn same(rows: Option<u64>, counted: u64) -> bool {
    rows.is_none_or(|rows| rows == counted)
}

fn check_garbage(found: Option<u64>, counted: u64) -> Result<(), Broken> {
    holds!(same(found, counted), "{found:?} rows tell of garbage, and {counted} are counted");
    Ok(())
}

fn check_found(found: &Found) -> Result<(), Broken> {
    let Database { keys, expiring, .. } = found.database;
    let number = found.number;
    holds!(same(found.keys, keys), "database {number} has {:?} keys, and {keys} are counted", found.keys);
    holds!(
        same(found.sequences, keys),
        "{:?} sequences are those of {keys} keys of database {number}",
        found.sequences
    );
    holds!(
        same(found.expiring, expiring),
        "{:?} keys of database {number} will expire, and {expiring} are counted",
        found.expiring
    );
    Ok(())
}

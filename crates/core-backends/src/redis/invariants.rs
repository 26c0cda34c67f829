//! What always holds of the redis backend's rows.
//!
//! Always (asserted here): its state counts the keys, each of which has one sequence; the keys that will expire (mutant
//! `ExpiringCounted`); and what is left to the sweep.
//! Not here: elements, which a walk of one key finds (`tests.rs`).

use super::store::{self, State, EXPIRY, GARBAGE, GARBAGE_EPOCH, META, SEQUENCE};
use crate::contract::SpaceRead;
use crate::invariants::{count, count_tag, Checked};
use base_engine::EngineError;
use base_types::holds;
use base_types::invariant::Broken;

struct Found {
    state: State,
    keys: Option<u64>,
    sequences: Option<u64>,
    expiring: Option<u64>,
    garbage: Option<u64>,
}

pub(super) fn check(space: &dyn SpaceRead) -> Checked {
    Ok(check_found(&find(space)?))
}

fn find(space: &dyn SpaceRead) -> Result<Found, EngineError> {
    let state = State::read(space)?;
    let of_epoch = |tag| {
        let (start, end) = store::epoch_rows(tag, state.epoch);
        count(space, &start, &end)
    };
    let (keys, sequences, expiring) = (of_epoch(META)?, of_epoch(SEQUENCE)?, of_epoch(EXPIRY)?);
    let garbage = count_tag(space, GARBAGE)?.zip(count_tag(space, GARBAGE_EPOCH)?).map(|(keys, epochs)| keys + epochs);
    Ok(Found { state, keys, sequences, expiring, garbage })
}

fn check_found(found: &Found) -> Result<(), Broken> {
    let State { keys, garbage, expiring, .. } = found.state;
    let same = |rows: Option<u64>, counted: u64| rows.is_none_or(|rows| rows == counted);
    holds!(same(found.keys, keys), "there are {:?} keys, and {keys} are counted", found.keys);
    holds!(same(found.sequences, keys), "{:?} sequences are those of {keys} keys", found.sequences);
    holds!(same(found.expiring, expiring), "{:?} keys will expire, and {expiring} are counted", found.expiring);
    holds!(same(found.garbage, garbage), "{:?} rows tell of garbage, and {garbage} are counted", found.garbage);
    Ok(())
}

//! The whole check: every pair is visited and its checksum tried, and every space's keys add up.
//!
//! By design: reads only; memory is bounded by one pair.
//! Not here: mending. A damaged engine is rebuilt from a peer.

use crate::environment::Environment;
use crate::failure::lmdb_failure;
use crate::format;
use crate::View;
use base_engine::fences::{self, FencedView};
use base_engine::{Direction, EngineError, KeyRange};
use std::ops::ControlFlow;

/// Visits everything; the number of pairs.
pub fn whole(environment: &Environment) -> Result<u64, EngineError> {
    let failed = |error: heed::Error| lmdb_failure("checking the whole engine", error);
    let reader = environment.env.read_txn().map_err(failed)?;
    let mut visited = [0; 2];
    for (database, is_meta) in [(&environment.spaces, false), (&environment.meta, true)] {
        for pair in database.iter(&reader).map_err(failed)? {
            let (key, stored) = pair.map_err(failed)?;
            format::unseal(key, stored)?;
            visited[usize::from(is_meta)] += 1;
            if !is_meta {
                format::space_of(key)?;
            }
        }
        let counted = database.len(&reader).map_err(failed)?;
        let found = visited[usize::from(is_meta)];
        if found != counted {
            return Err(EngineError::Corrupt(format!(
                "{found} pairs are found where LMDB counts {counted}; rebuild the replica"
            )));
        }
    }
    let (view, mut proved) = (View { environment, reader: &reader }, 0);
    for space in view.roll()?.spaces() {
        fences::range(&view, space, KeyRange::ALL, Direction::Forward, &mut |_, _| {
            proved += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        view.durable_index(space)?;
    }
    if proved != visited[0] {
        return Err(EngineError::Corrupt(format!(
            "{} pairs are found, {proved} of them in spaces that are known; rebuild the replica",
            visited[0]
        )));
    }
    Ok(visited[0])
}

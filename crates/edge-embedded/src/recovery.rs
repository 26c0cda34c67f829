//! Opening: what the logs hold and the engines do not is given to the engines, then the logs are cut.
//!
//! ```text
//!   each log ─▶ records ─▶ each change to its key's core, if its engine does not hold it ─▶ newest wins
//!                                        engines written, all of them ─▶ logs cut
//! ```
//!
//! Always: nothing is written before every log has been read and found whole (or its damage accepted);
//! no log is cut before *every* engine is written, for a batch over several cores is in one log only.
//! Held by: `power_cuts_take_nothing_that_was_synced_and_no_part_of_a_batch`.
//! Not here: the logs' own recovery (core-log), which cuts a torn tail back to the last whole batch.

use crate::core::owner_of;
use crate::flusher;
use crate::journal::Journal;
use crate::record;
use base_engine::{Engine, EngineError};
use base_types::codec::DecodeError;
use bytes::Bytes;
use core_log::RecoveryReport;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is missing in the engines, of each core.
pub struct Replay {
    cores: Vec<BTreeMap<Bytes, (u64, Option<Bytes>)>>,
    /// The last number of anything.
    pub last: u64,
}

/// Reads the logs. `durable` is up to which number each core's engine holds everything.
pub fn replay(journals: &[Journal], durable: &[u64]) -> Result<Replay, DecodeError> {
    let mut cores = vec![BTreeMap::new(); journals.len()];
    let mut last = durable.iter().copied().max().unwrap_or(0);
    for entry in journals.iter().flat_map(Journal::entries) {
        for (number, changes) in record::read(entry)? {
            last = last.max(number);
            for (key, value) in changes {
                let core = usize::from(owner_of(&key, journals.len() as u16));
                let older = cores[core].get(&key).is_none_or(|(held, _)| *held < number);
                if number > durable[core] && older {
                    cores[core].insert(key, (number, value));
                }
            }
        }
    }
    Ok(Replay { cores, last })
}

/// Gives the engines what they lack, and cuts the logs. Cut short by a crash, it is done again.
pub fn finish(
    replay: Replay,
    journals: &mut [Journal],
    engines: &[Arc<dyn Engine>],
) -> Result<u64, (u16, EngineError)> {
    for (core, changes) in replay.cores.into_iter().enumerate() {
        if changes.is_empty() {
            continue;
        }
        let changes = changes.into_iter().map(|(key, (_, value))| (key, value));
        let written = flusher::write(engines[core].as_ref(), changes, replay.last);
        written.map_err(|error| (core as u16, error))?;
    }
    journals.iter_mut().for_each(Journal::trim_all);
    Ok(replay.last)
}

/// What was found wrong with a core's log, for people; the second: whether acknowledged writes are lost.
pub fn findings(core: u16, report: &RecoveryReport) -> (Vec<String>, bool) {
    let notes = report.notes.iter().map(|note| format!("core {core}: {note}"));
    let damage = report.damage.iter().map(|damage| format!("core {core}: rot in the log: {damage:?}"));
    (notes.chain(damage).collect(), !report.damage.is_empty())
}

#[cfg(test)]
mod tests;

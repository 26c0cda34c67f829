//! Weak writes before the audit: what a leader has acknowledged, and not committed yet.
//!
//! Strong reads see a hopeful or eventual write once it is committed, so the audit waits for that, up to `COMMIT_US`. A write that is
//! never applied is then missed by the audit. Scenario `hopeful-write-right-before-the-audit.toml`.
//! Not here: which losses are allowed (proof-check, ledger.rs).

use super::Run;
use base_types::action::Level;
use proof_check::Ending;
use std::collections::BTreeMap;

/// A leader that nothing disturbs commits within this.
pub const COMMIT_US: u64 = 5_000_000;

/// Whether each leader has applied what was acknowledged in its own term.
pub fn are_applied(run: &Run) -> bool {
    let records = run.load.history.records.iter();
    let acknowledged = records.filter(|record| matches!((record.level, record.ending), (Level::Write(_), Ending::Ok)));
    let mut last = BTreeMap::new();
    for at in acknowledged.filter_map(|record| record.at) {
        let index = last.entry((at.cluster, at.generation, at.term)).or_insert(at.index);
        *index = at.index.max(*index);
    }
    let machines = run.world.nodes.iter().flat_map(|node| &node.lanes).filter_map(|lane| lane.machine.as_ref());
    let mut leaders = machines.flat_map(|machine| machine.views()).filter(|view| view.is_leader);
    leaders.all(|view| last.get(&(view.cluster, view.generation, view.term)).is_none_or(|at| *at <= view.applied))
}

//! Weak writes before the audit: what a leader has acknowledged, and not committed yet.
//!
//! Always: the audit does not begin while a leader of the write's own term has still to apply a write that it acknowledged; a
//! write that is never applied is waited for only so long, and then missed by the audit. Held by: lane seed 12416.
//! Not here: which losses are allowed (proof-check, ledger.rs).

use super::Run;
use base_types::action::Level;
use proof_check::Ending;

/// A leader that nothing disturbs commits within this.
const COMMIT_US: u64 = 5_000_000;

impl Run {
    /// Strong reads see a hopeful or eventual write once it is committed: the audit waits for that.
    pub(super) fn weak_writes_commit(&mut self) {
        let until = self.world.now + COMMIT_US;
        self.pump(until, |run| run.weak_writes_are_applied());
    }

    fn weak_writes_are_applied(&self) -> bool {
        let records = self.load.history.records.iter();
        let acknowledged =
            records.filter(|record| matches!((record.level, record.ending), (Level::Write(_), Ending::Ok)));
        let mut last = std::collections::BTreeMap::new();
        for at in acknowledged.filter_map(|record| record.at) {
            let index = last.entry((at.cluster, at.generation, at.term)).or_insert(at.index);
            *index = at.index.max(*index);
        }
        let machines = self.world.nodes.iter().flat_map(|node| &node.lanes).filter_map(|lane| lane.machine.as_ref());
        let mut leaders = machines.flat_map(|machine| machine.views()).filter(|view| view.is_leader);
        leaders.all(|view| last.get(&(view.cluster, view.generation, view.term)).is_none_or(|at| *at <= view.applied))
    }
}

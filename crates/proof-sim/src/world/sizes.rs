//! Looking at the lengths of queues and tables: every few turns of every core.
//!
//! Always: looking changes nothing of what happens.
//! Not here: the bounds (the parts name them), the marks (`marks`).

use super::World;
use crate::host::INBOX_EVENTS_MAX;
use crate::machine::Machine;
use base_types::sizes::{Sizes, Stay};
use proof_check::Violation;

/// Turns of the world between two looks: a prime, so that no core's rhythm hides from it.
const TURNS_BETWEEN_LOOKS: u64 = 127;
/// Actions that may wait for one lane's disk: one write is out at a time, segments are few.
const DISK_QUEUE_MAX: usize = 1_024;
/// Freezes of one split or merge that may expire before its switch: each is longer than the one before.
const FREEZES_EXPIRED_MAX: u64 = 5;

impl World {
    /// After a turn: now and then, looks at the core that had it.
    pub(super) fn look_at_sizes(&mut self, node: usize, lane: usize, machine: &dyn Machine) {
        self.turns += 1;
        if !self.turns.is_multiple_of(TURNS_BETWEEN_LOOKS) {
            return;
        }
        let mut sizes = machine.sizes();
        let host = &self.nodes[node].lanes[lane];
        sizes.passing("events waiting, a core (host)", host.inbox.len(), INBOX_EVENTS_MAX);
        sizes.passing("actions for the log's disk, a core (host)", host.disk.queue.len(), DISK_QUEUE_MAX);
        self.note_sizes(node, lane, &sizes);
    }

    fn note_sizes(&mut self, node: usize, lane: usize, sizes: &Sizes) {
        for message in self.marks.note(sizes) {
            let message = format!("node {} lane {lane}: {message}", self.nodes[node].id);
            self.violate(Violation::new("bounds", message, vec![]));
        }
    }

    /// Work under way in any core that lives: node, lane, what, how much.
    pub fn under_way(&self) -> Vec<(usize, usize, &'static str, u64)> {
        let mut found = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            for (lane, host) in node.lanes.iter().enumerate() {
                let Some(machine) = host.machine.as_ref() else { continue };
                let sizes = machine.sizes();
                let passing = sizes.iter().filter(|(_, size)| size.stay == Stay::Passing && size.length > 0);
                found.extend(passing.map(|(name, size)| (number, lane, name, size.length)));
            }
        }
        found
    }

    /// What the cores that live have counted, at the end of a run.
    pub fn count_lives(&mut self) {
        for node in 0..self.nodes.len() {
            self.count_life(node);
        }
    }

    /// What a node's cores have counted in this life.
    pub(super) fn count_life(&mut self, node: usize) {
        let (mut unequal, mut expired) = (0, 0);
        for machine in self.nodes[node].lanes.iter().filter_map(|lane| lane.machine.as_ref()) {
            self.walked.add_life(&machine.statistics());
            unequal += machine.splits_unequal();
            expired = expired.max(machine.freezes_expired_max());
        }
        if expired > FREEZES_EXPIRED_MAX {
            let message =
                format!("a split or merge of node {} let a freeze of writers expire {expired} times", node + 1);
            self.violate(Violation::new("in-vain", message, Vec::new()));
        }
        if unequal > 0 {
            let message = format!("node {} gave up {unequal} splits: both sides did not hold the same", node + 1);
            self.violate(Violation::new("equal", message, Vec::new()));
        }
    }
}

//! A cut at the moment that strains a lease most. A leader is cut off as soon as a round has renewed its lease. From
//! then on its clock runs as slow, and the others' as fast, as is allowed. So its lease ends as late, and the promise
//! it rests on as early, as they ever can.
//!
//! Always: it acts at a turn's end, before anything of that turn leaves; once each time it begins.
//! Not here: when it begins and ends (`faults`), who reads meanwhile (`load`).

use super::World;
use crate::machine::Machine;
use crate::plan::FaultKind;
use crate::trace::line::{Kind, Line};
use base_types::{ClusterId, Tick};
use std::collections::BTreeMap;

/// Clocks run within 5 % of each other: 1.024 to 0.976 is 4.9 %.
const DRIFT_PPM: i64 = 24_000;

/// The cut that waits for its moment, or has been made.
#[derive(Default)]
pub struct LeaseEnd {
    cut: Option<usize>,
    /// The lease of each node's replicas, as last seen.
    seen: BTreeMap<(usize, ClusterId), Tick>,
}

impl World {
    /// Waits for the next lease. False: it does already.
    pub fn begin_lease_end(&mut self) -> bool {
        let idle = self.lease_end.is_none();
        self.lease_end.get_or_insert_default();
        idle
    }

    /// What was cut off is back, and clocks are right.
    pub fn end_lease_end(&mut self) {
        if let Some(node) = self.lease_end.take().and_then(|end| end.cut) {
            self.hide(node, false);
            self.bend_clocks(|_| 0);
        }
    }

    fn bend_clocks(&mut self, drift: impl Fn(usize) -> i64) {
        let now = self.now;
        for node in 0..self.nodes.len() {
            self.nodes[node].clock.set_drift(now, drift(node));
            self.clock_changed(node);
        }
    }

    /// A turn of a node is over and nothing of it has left: whether it has renewed a lease it had.
    pub(super) fn watch_lease(&mut self, node: usize, machine: &dyn Machine) {
        let Some(end) = self.lease_end.as_mut().filter(|end| end.cut.is_none()) else { return };
        let mut renewed = false;
        for glance in machine.glances().into_iter().filter(|glance| glance.is_leader) {
            let before = end.seen.insert((node, glance.cluster), glance.lease_until);
            renewed |= before.is_some_and(|before| before < glance.lease_until);
        }
        if renewed {
            end.cut = Some(node);
            self.hide(node, true);
            self.bend_clocks(|other| if other == node { -DRIFT_PPM } else { DRIFT_PPM });
            self.probe(FaultKind::LeaseEnd.name());
            self.trace
                .say(self.now, || Line::new(Kind::Fault, "lease_end: it has a fresh lease and is cut off").node(node));
        }
    }
}

//! A machine that its hypervisor holds: the process stops, and its clock shows nothing of it.
//!
//! Always: a hold ends with its hazard, with healing, or with the process.
//! Not here: a suspend, in which the clock runs (`pause` in faults.rs), who may be held (`plan`: leases off).

use super::{Due, World};

impl World {
    /// Holds a node's machine for so long. False: it does not run.
    pub fn hold(&mut self, node: usize, micros: u64) -> bool {
        if !self.nodes[node].running {
            return false;
        }
        let (now, until) = (self.now, self.now + micros);
        let host = &mut self.nodes[node];
        host.clock.hold(now, until);
        host.paused_until = host.paused_until.max(until);
        self.clock_changed(node);
        self.nodes[node].disturbed_at = until;
        self.schedule(until, Due::Resume { node });
        true
    }
}

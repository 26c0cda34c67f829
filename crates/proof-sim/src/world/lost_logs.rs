//! Logs that are gone, or another's, under a disk id that is kept: an operator forgot a mount, or mixed volumes up.
//!
//! Always: a node whose log was spoiled so must refuse to start; its operator then wipes it (`lives.rs`), and it comes back as
//! a lost disk does.
//! Not here: whole disks that are lost or old (`faults.rs`).

use super::World;
use crate::disk::SimDisk;
use crate::plan::{FaultKind, Hazard};
use crate::trace::line::{Kind, Line};
use proof_check::Violation;

impl World {
    /// The node dies, and its logs are gone or another's when it comes back. False where it had none yet.
    pub fn spoil_log(&mut self, hazard: &Hazard, node: usize) -> bool {
        self.kill(node, Some(hazard.for_ms * 1_000), false);
        let lanes = self.nodes[node].lanes.len();
        let lane = self.random.fault.below(lanes as u64) as usize;
        let other = match hazard.kind {
            FaultKind::LogLost => SimDisk::default(),
            _ if self.nodes.len() == 1 && lanes == 1 => SimDisk::default(),
            _ if lanes > 1 => self.nodes[node].lanes[(lane + 1) % lanes].disk.clone(),
            _ => {
                let peers = self.nodes.len() as u64 - 1;
                let peer = (node + 1 + self.random.fault.below(peers.max(1)) as usize) % self.nodes.len();
                self.nodes[peer].lanes[0].disk.clone()
            }
        };
        let (spoiled, swapped) = (hazard.kind, lanes > 1 && hazard.kind == FaultKind::LogSwapped);
        let own = &mut self.nodes[node].lanes[lane].disk;
        if own.reached == 0 {
            return false;
        }
        let taken = SimDisk { segments: other.segments, reached: own.reached, spoiled: true, ..SimDisk::default() };
        let segments = std::mem::replace(own, taken).segments;
        if swapped {
            let mate = &mut self.nodes[node].lanes[(lane + 1) % lanes].disk;
            *mate = SimDisk { segments, reached: mate.reached, spoiled: mate.reached > 0, ..SimDisk::default() };
        }
        self.nodes[node].disk_suspect = true;
        self.trace.say(self.now, || Line::new(Kind::Fault, spoiled.describe()).node(node).lane(lane));
        true
    }

    /// All lanes of a node are open: none of them on a log that was not its own.
    pub(super) fn check_logs(&mut self, node: usize) {
        if let Some(lane) = self.nodes[node].lanes.iter().position(|lane| lane.disk.spoiled) {
            let message = format!("node {} starts although the log of its lane {lane} is gone or another's", node + 1);
            self.violate(Violation::new("start", message, vec![]));
        }
    }
}

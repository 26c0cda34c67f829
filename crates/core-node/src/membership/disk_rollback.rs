//! Disks that have forgotten: an old image put back, or a disk that lied about what it had written.
//!
//!   every frame names disk and durable batch ──▶ another boot that began with less of it: refused, and answered
//!   told so ──▶ the process ends: the node needs an empty disk, and is rebuilt from its peers
//!
//! Such a node would vote against what it has voted, and lack what it has acknowledged. Alone it cannot
//! know: every disk is in order by itself. So a node that has heard of a later batch takes nothing from it.
//!
//! A member of a cluster of one needs nobody to lead it. So a lane says something to every lane of a peer as soon as
//! they are connected, and not only with its next heartbeat: it is mostly told before it may lead.
//!
//! Always: a late frame of an earlier boot harms nobody: it is dropped, and the word about it meets no
//! such boot. Soft state: peers that were restarted since have forgotten as well (docs/proof/simulation.md).
//! Held by: `only_a_boot_that_began_with_less_has_forgotten`.
//! Not here: which batches are durable (core-log), what a lost disk leads to (replica_repair.rs).

use crate::api::Effect;
use crate::context::{CoreContext, Turn};
use crate::frame::{Item, Sender};
use base_types::mutant::{planted, Mutant};
use base_types::{BootId, DiskId, LaneId, NodeId};
use std::collections::BTreeMap;

/// Lanes of other nodes that are remembered; those heard of later are not.
const LANES_HEARD_MAX: usize = 65_536;

/// The latest that was heard of a lane's disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Heard {
    boot: BootId,
    disk: DiskId,
    batch: u64,
}

/// What this core has heard of the disks of others.
#[derive(Debug, Default)]
pub struct DiskRollback(BTreeMap<(NodeId, LaneId), Heard>);

impl DiskRollback {
    /// Takes note of a frame's sender; the batch that its disk has forgotten, if it has.
    pub fn note(&mut self, from: &Sender) -> Option<u64> {
        let now = Heard { boot: from.boot, disk: from.disk, batch: from.batch };
        let full = self.0.len() >= LANES_HEARD_MAX;
        let Some(heard) = self.0.get_mut(&(from.node, from.lane)) else {
            if !full {
                self.0.insert((from.node, from.lane), now);
            }
            return None;
        };
        if heard.disk != now.disk {
            *heard = now;
        } else if heard.boot == now.boot {
            heard.batch = if planted(Mutant::MemoryStepsBack) { now.batch } else { heard.batch.max(now.batch) };
        } else if from.batch_at_boot >= heard.batch {
            *heard = now;
        } else {
            return Some(heard.batch);
        }
        None
    }

    /// Whether a frame's sender is refused because its disk has forgotten; it learns why.
    pub fn refuses_memory(&mut self, turn: &mut Turn<'_>, from: &Sender) -> bool {
        let Some(batch) = self.note(from) else { return false };
        let why = format!(
            "disk {} of its lane {} is older than it was: batch {batch} of its log was seen",
            from.disk, from.lane
        );
        turn.refuse_frame(from.node, &why);
        turn.core.send(from.node, from.lane, &Item::DiskForgot { boot: from.boot, disk: from.disk, batch });
        true
    }

    /// Lanes remembered, and the most there may be.
    pub fn size(&self) -> (usize, usize) {
        (self.0.len(), LANES_HEARD_MAX)
    }
}

/// A peer is connected: its lanes hear what log this lane has, even if there is nothing else to say.
pub fn greet(core: &mut CoreContext, node: NodeId) {
    let lanes = core.nodes().peers().lanes_of(node).unwrap_or(core.config().lane_count);
    for lane in 0..lanes {
        core.greet(node, LaneId(lane));
    }
}

/// A peer has seen more of this lane's log than there is.
pub fn on_disk_forgot(turn: &mut Turn<'_>, from: NodeId, (boot, disk, batch): (BootId, DiskId, u64)) {
    let own = turn.core.sender();
    if boot != own.boot || disk != own.disk || batch <= own.batch_at_boot {
        return;
    }
    let reason = format!(
        "node {from} has seen batch {batch} of the log of lane {}, which ended at {} when it started: the disk is older than it was \
         (an old image was put back, or it lost what it had acknowledged); start the node with an empty data \
         directory, and it is rebuilt from its peers",
        own.lane, own.batch_at_boot
    );
    turn.effects.list.push(Effect::Halt { reason });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(boot: u64, disk: u64, batch_at_boot: u64, batch: u64) -> Sender {
        let (node, lane) = (NodeId(3), LaneId(0));
        Sender {
            node,
            boot: BootId(boot),
            lane,
            lanes: 1,
            disk: DiskId(disk),
            batch_at_boot,
            batch,
            incarnation: 0,
            level: base_types::FormatLevel(1),
        }
    }

    #[test]
    fn only_a_boot_that_began_with_less_has_forgotten() {
        let mut memory = DiskRollback::default();
        assert_eq!(memory.note(&sender(1, 7, 0, 10)), None);
        // Frames of one boot may overtake each other.
        assert_eq!(memory.note(&sender(1, 7, 0, 8)), None);
        assert_eq!(memory.note(&sender(2, 7, 10, 10)), None);
        assert_eq!(memory.note(&sender(2, 7, 10, 15)), None);
        // It has forgotten, however much it has written since.
        assert_eq!(memory.note(&sender(3, 7, 14, 20)), Some(15));
        // A late frame of the first boot is refused as well; the boot of now continues.
        assert_eq!(memory.note(&sender(1, 7, 0, 10)), Some(15));
        assert_eq!(memory.note(&sender(2, 7, 10, 16)), None);
        // Another disk begins anew.
        assert_eq!(memory.note(&sender(4, 8, 0, 0)), None);
    }
}

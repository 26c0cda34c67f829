//! Values that become others below every checksum: what only a comparison of members finds.
//!
//! Always: such values are those of keys that are written once and read at the very end (`once/…`); from then on that replica's state
//! is not compared by the simulator, until another takes its place. One that is still there at rest is a violation.
//! Not here: how the core finds it (core-cluster, `chain.rs`, `verify.rs`).

use super::World;
use crate::plan::Hazard;
use crate::trace::line::{About, Kind, Line};
use base_types::{ClusterId, ReplicaId};
use core_cluster::api::ReplicaView;
use std::collections::BTreeSet;

/// Nodes, clusters and the replicas.
pub type Diverged = BTreeSet<(usize, ClusterId, ReplicaId)>;

/// What clients that write once put in front of their keys.
const ONCE: &[u8] = b"once/";

/// A replica that is mended from others, of a cluster that clients write to.
fn is_of_clients(view: &ReplicaView) -> bool {
    view.members.len() >= 3 && view.name.tail().starts_with('t') && !view.blank && !view.damaged
}

impl World {
    /// Some values of one node's engine become others. False where it holds none that nobody reads.
    pub fn diverge(&mut self, hazard: &Hazard, node: usize) -> bool {
        // The next node that has a replica of a cluster of clients.
        let has_one = |of: &usize| {
            let machines = self.nodes[*of].lanes.iter().filter_map(|lane| lane.machine.as_ref());
            machines.flat_map(|machine| machine.views()).any(|view| is_of_clients(&view))
        };
        let nodes = self.nodes.len();
        let Some(node) = (node..node + nodes).map(|of| of % nodes).find(has_one) else { return false };
        let mut hit = false;
        for _ in 0..hazard.amount.max(1) {
            let random = &mut self.random.fault;
            let lane = random.below(self.nodes[node].lanes.len() as u64) as usize;
            let (which, place, bit) = (random.below(1 << 32), random.below(1 << 32), random.below(1 << 32));
            let host = &self.nodes[node].lanes[lane];
            let Some(machine) = host.machine.as_ref() else { continue };
            let mut views = machine.views();
            views.retain(is_of_clients);
            let Some(view) = views.get(which as usize % views.len().max(1)) else { continue };
            let of_once = |key: &[u8]| key.windows(ONCE.len()).any(|part| part == ONCE);
            let changed = host.engine.flip_bit_one_of(view.space, place as usize, bit as usize, &of_once);
            if let Some(key) = changed {
                let about = (node, view.cluster, view.replica);
                self.trace.say(self.now, || {
                    let text = format!("{} diverges at {key:?}", view.name);
                    Line::new(Kind::Fault, text).node(node).about(Some(About::named(view.name.as_str())))
                });
                self.nodes[node].disk_suspect = true;
                self.diverged.insert(about);
                hit = true;
            }
        }
        hit
    }

    /// Whether what a replica holds is not what it wrote.
    pub fn has_diverged(&self, node: usize, view: &ReplicaView) -> bool {
        self.diverged.contains(&(node, view.cluster, view.replica))
    }

    /// The same of whichever replica the node has of a cluster.
    pub(super) fn may_have_diverged(&self, node: usize, cluster: ClusterId) -> bool {
        self.diverged.range((node, cluster, ReplicaId(0))..=(node, cluster, ReplicaId(u64::MAX))).next().is_some()
    }
}

//! Members that `reference` does not know of: its record of a cluster led here is compared with what the leader holds.
//!
//!   clusters led here, a page at a time ──(name, generation, digest of the members)──▶ `reference` ──▶ differ: told anew
//!
//! A change is reported by the node that saw it (replica_repair.rs), and that memory dies with the process: all members of a cluster may have been
//! restarted between a change and its report. A node that leaves would then be listed for ever.
//!
//! By design: one question of a lane at a time; a member of the world that lags names too many, and telling once more does no
//! harm. Not here: telling (replica_repair.rs), lives that are over (stale_generations.rs).

use crate::context::level_zero::is_level_zero;
use crate::context::Turn;
use crate::membership::replica_repair::{told_members, ReplicaRepair};
use crate::routing::operation::{Operation, Owner};
use crate::routing::resolve::RESOLVE_TIMEOUT;
use crate::routing::Routing;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{BackendKind, ClusterId, ReadConsistency};
use core_backends::reference::{members_digest, Query, Reply};
use core_cluster::api::{LocalKind, ReplicaView};
use core_flow::{decode_call, CallResult};

/// Clusters compared at a time: all of a common node at once, and a question stays small.
const COMPARED_AT_ONCE: usize = 512;

/// How far the clusters led here were compared.
#[derive(Debug, Default)]
pub struct Untold {
    after: ClusterId,
    asking: bool,
}

impl Untold {
    /// Asks whether `reference` lists the members of the next clusters led here.
    pub fn compare_members(&mut self, turn: &mut Turn<'_>, routing: &mut Routing, views: &[ReplicaView]) {
        if self.asking || planted(Mutant::MembersNotCompared) {
            return;
        }
        let after = self.after;
        let led = views.iter().filter(|view| view.is_leader && view.cluster > after && !is_level_zero(view.cluster));
        let due: Vec<&ReplicaView> = led.take(COMPARED_AT_ONCE).collect();
        let last = due.last().filter(|_| due.len() == COMPARED_AT_ONCE);
        self.after = last.map_or(ClusterId(0), |view| view.cluster);
        if due.is_empty() {
            return;
        }
        let digest =
            |view: &&ReplicaView| (view.name.clone(), view.generation, members_digest(&told_members(&view.members)));
        let asked = due.iter().map(|view| view.cluster).collect();
        let kind = LocalKind::Read {
            backend: BackendKind::Reference,
            query: Query::Outdated { members: due.iter().map(digest).collect() }.to_bytes(),
            consistency: Some(ReadConsistency::Eventual),
        };
        self.asking = true;
        let deadline = turn.now + RESOLVE_TIMEOUT;
        let operation = Operation::new(Owner::Compared(asked), turn.core.world(), kind, turn.now, deadline);
        routing.start_operation(turn, operation);
    }

    /// `reference` named those it lists otherwise; or could not be asked, and is asked later.
    pub fn on_members_compared(
        &mut self,
        turn: &mut Turn<'_>,
        repair: &mut ReplicaRepair,
        asked: &[ClusterId],
        result: CallResult,
    ) {
        self.asking = false;
        let Ok((Reply::Outdated { places }, _)) = decode_call::<Reply>(result) else { return };
        for cluster in places.iter().filter_map(|place| asked.get(*place as usize)) {
            repair.members_are_untold(turn.core, turn.now, *cluster);
        }
    }
}

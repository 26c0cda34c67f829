//! Replicas of a life of a cluster that is over, although nobody told them: they were cut off when it was deleted, or
//! had joined after `reference` last heard of the members. They may even have a leader among themselves.
//!
//!   every replica here, a page at a time ──(name, generation)──▶ `reference`, any member of the world ──▶ over: removed
//!                                                                                                             └▶ recovered without it: ended, kept
//!
//! Always: removed only on the word of `reference`, and by generation: a life that is over never begins again, so a
//! member of the world that is behind names too few and none wrongly. One question of a lane at a time.
//! Not here: a replica whose cluster lives but has gone on without it (flows/orphan.rs).

use crate::context::level_zero::is_level_zero;
use crate::context::Turn;
use crate::membership::replica_repair::ReplicaRepair;
use crate::routing::operation::{Operation, Owner};
use crate::routing::resolve::RESOLVE_TIMEOUT;
use crate::routing::Routing;
use base_types::codec::Encode;
use base_types::{BackendKind, ClusterId, ClusterName, Generation, ReadConsistency};
use core_backends::reference::{Query, Reply};
use core_cluster::api::{LocalKind, ReplicaView};
use core_flow::{decode_call, CallResult};

/// Lives asked after at a time: all of a common node at once, and a question stays small.
const LIVES_AT_ONCE: usize = 512;

/// How far the lane's replicas were asked after.
#[derive(Debug, Default)]
pub struct StaleGenerations {
    after: ClusterId,
    asking: bool,
}

impl StaleGenerations {
    /// Asks whether the next replicas' clusters live on.
    pub fn ask_after_lives(&mut self, turn: &mut Turn<'_>, routing: &mut Routing, views: &[ReplicaView]) {
        if self.asking {
            return;
        }
        let after = self.after;
        let due = views.iter().filter(|view| view.cluster > after && !is_level_zero(view.cluster));
        let due: Vec<&ReplicaView> = due.take(LIVES_AT_ONCE).collect();
        self.after = due.last().filter(|_| due.len() == LIVES_AT_ONCE).map_or(ClusterId(0), |view| view.cluster);
        if due.is_empty() {
            return;
        }
        let lives: Vec<(ClusterName, Generation, ClusterId)> =
            due.iter().map(|view| (view.name.clone(), view.generation, view.cluster)).collect();
        let asked = due.iter().map(|view| (view.cluster, view.generation)).collect();
        let kind = LocalKind::Read {
            backend: BackendKind::Reference,
            query: Query::Buried { lives }.to_bytes(),
            consistency: Some(ReadConsistency::Eventual),
        };
        self.asking = true;
        let deadline = turn.now + RESOLVE_TIMEOUT;
        let operation = Operation::new(Owner::Lives(asked), turn.core.world(), kind, turn.now, deadline);
        routing.start_operation(turn, operation);
    }

    /// `reference` told which are over; or could not be asked, and is asked later.
    pub fn on_lives(
        &mut self,
        turn: &mut Turn<'_>,
        repair: &mut ReplicaRepair,
        asked: &[(ClusterId, Generation)],
        result: CallResult,
    ) {
        self.asking = false;
        let Ok((Reply::Buried { places, ended }, _)) = decode_call::<Reply>(result) else { return };
        let superseded = ended.iter().filter_map(|(place, by)| Some((asked.get(*place as usize)?, *by)));
        for ((cluster, generation), by) in superseded {
            let is_here = turn.lane.view(*cluster).is_some_and(|view| view.generation == *generation);
            if is_here && turn.lane.end_life(turn.now, *cluster, by) {
                turn.core.wake_lane();
            }
        }
        let over = places.iter().filter_map(|place| asked.get(*place as usize));
        for (cluster, generation) in over {
            if repair.destroy_replica(turn, *cluster, *generation) {
                let text = format!("a replica of cluster {cluster} is removed: that life of the cluster was deleted");
                turn.note(crate::api::NoteLevel::Info, text);
            }
        }
    }
}

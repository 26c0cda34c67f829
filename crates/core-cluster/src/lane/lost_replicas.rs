//! Replicas whose record rotted in every copy: one was here, and no record says what it was.
//!
//! Which replica it was is known from its hard state, which names it. Its leader hears `Lost` and replaces it by
//! a new one; until then no replica of that cluster is made here, above all not that one anew: it has
//! voted and acknowledged, and would come back having forgotten it.
//!
//!   hard state gone too: who speaks as its leader ◀─ FloorAsk ── here
//!                        confirms that it leads   ── FloorTold ─▶ lost: the last of all that were ever made; then as above
//!
//! The lost one was made before this life began, so before it asked: a leader that was confirmed after that knows of it,
//! and no replica above its answer can be the lost one.
//!
//! Always: no replica that may be the lost one is made here again (mutant `FloorOneTooHigh`; `tests/leader_handoff.rs`).
//! Spaces without an owner are kept while anything is lost: one of them may be its only copy.
//! Not here: rot in other records of a replica (`Replica::damage`).

use crate::api::{Notice, PeerMessage, ReplicaSpec};
use crate::lane::Lane;
use crate::meta::STATE_TOMBSTONES;
use crate::wire::Payload;
use base_types::codec::Encode;
use base_types::{ClusterId, Generation, NodeId, ReplicaId};
use bytes::Bytes;
use core_backends::reference::CLUSTER_ID_FIRST;
use core_raft::{HardState, MessageKind, STATE_HARD};
use std::collections::BTreeMap;

/// The lost by cluster: which replica it was, or the last one that it can have been; `None`: not known yet.
pub type LostReplicas = BTreeMap<ClusterId, Option<ReplicaId>>;

impl Lane {
    /// A cluster is in the log without the record that makes a replica.
    pub(crate) fn note_lost(&mut self, cluster: ClusterId, notes: &mut Vec<String>) {
        let hard_state = self.context.log.borrow().state(cluster, STATE_HARD).map(HardState::from_bytes);
        let replica = match hard_state {
            Some(Ok(state)) if state.replica != ReplicaId(0) => Some(state.replica),
            _ => None,
        };
        notes.push(match replica {
            Some(replica) => format!(
                "cluster {cluster}: the record of its replica {replica} rotted beyond repair; its leader is asked to replace it"
            ),
            None => format!(
                "cluster {cluster}: all records of its replica rotted beyond repair, and which replica it was; its leader is \
                 asked which it can have been, and to replace it. If it has no leader (`hive ctl status`), bring its other \
                 members back, or start this node with an empty data directory"
            ),
        });
        self.lost.insert(cluster, replica);
    }

    /// A message for a lost replica. False: nothing is lost of that cluster.
    pub(crate) fn on_message_for_lost(
        &mut self,
        from: NodeId,
        cluster: ClusterId,
        generation: Generation,
        payload: &Bytes,
    ) -> bool {
        let Some(lost) = self.lost.get(&cluster) else { return false };
        let life = self.context.told.life;
        let message = match Payload::from_bytes(payload.clone()) {
            Ok(Payload::Raft(message)) => message,
            Ok(Payload::FloorTold { replica, life: asked }) if asked == life && lost.is_none() => {
                self.lost.insert(cluster, Some(replica));
                return true;
            }
            _ => return true,
        };
        let leads = matches!(message.kind(), MessageKind::Append | MessageKind::Heartbeat);
        match *lost {
            // The one that replaces it: not here yet.
            Some(lost) if message.to() > lost => {
                self.context.output.notices.push(Notice::UnknownCluster { from, cluster, generation });
            }
            // Of several that it can have been it was the one that its leader still counts on.
            Some(_) if leads => self.answer_for_lost(from, cluster, generation, Payload::Lost { from: message.to() }),
            None if leads => self.answer_for_lost(from, cluster, generation, Payload::FloorAsk { life }),
            _ => {}
        }
        true
    }

    fn answer_for_lost(&mut self, to: NodeId, cluster: ClusterId, generation: Generation, payload: Payload) {
        self.context.statistics.messages_sent += 1;
        let payload = payload.to_bytes();
        self.context.output.messages.push(PeerMessage { to, cluster, generation, payload });
    }

    /// Whether a replica may be made where one is lost: only one that replaces it. What is left of the lost one goes.
    pub(crate) fn give_way(&mut self, spec: &ReplicaSpec) -> bool {
        let Some(lost) = self.lost.get(&spec.cluster).copied() else { return true };
        match lost {
            Some(lost) if spec.initial_members.is_empty() && spec.replica > lost => {
                self.forget_lost(spec.cluster, lost);
                true
            }
            _ => false,
        }
    }

    /// The lost replica is buried, and its records are let go.
    pub(crate) fn forget_lost(&mut self, cluster: ClusterId, replica: ReplicaId) {
        self.lost.remove(&cluster);
        let mut log = self.context.log.borrow_mut();
        self.tombstones.bury(cluster, replica, log.state_bytes_max());
        log.put_state(ClusterId(0), STATE_TOMBSTONES, self.tombstones.to_bytes());
        log.forget(cluster);
    }

    /// Nobody can say whose records rotted: a first replica is made here of no cluster that may have had one.
    pub(crate) fn bury_unknown(&mut self, clusters: &[ClusterId]) {
        let known = clusters.iter().map(|cluster| cluster.0).max().unwrap_or(0);
        self.tombstones.raise_floor(known.max(CLUSTER_ID_FIRST - 1));
        self.context.log.borrow_mut().put_state(ClusterId(0), STATE_TOMBSTONES, self.tombstones.to_bytes());
    }

    /// The list of the destroyed itself rotted: everything up to the highest id ever seen here counts as destroyed.
    pub(crate) fn bury_all(&mut self, clusters: &[ClusterId], notes: &mut Vec<String>) {
        let floor = clusters.iter().map(|cluster| cluster.0).max().unwrap_or(0);
        self.tombstones.raise_floor(floor);
        let mut log = self.context.log.borrow_mut();
        log.put_state(ClusterId(0), STATE_TOMBSTONES, self.tombstones.to_bytes());
        notes.push(format!(
            "the list of clusters destroyed here rotted; those up to {floor} that are not here count as destroyed"
        ));
    }
}

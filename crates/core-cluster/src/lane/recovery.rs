//! A cluster that lost its majority for good begins a new life on one survivor; replicas of the life before end.
//!
//! ```text
//!   survivor ──begin_life(generation + 1)──▶ the only voter, with its whole log ──▶ leads, members are added
//!   any replica of an earlier life ──hears of a later one──▶ ended: no group, no answer, log and rows kept ──discarded──▶ gone
//! ```
//!
//! Always: a later term, the new generation, the new membership and where the old log ended are written in one batch, before
//! anything follows from them; membership entries up to there change nothing, and no snapshot is made of a state that does
//! not lie beyond; an ended replica is never recreated, voted with or written over.
//! Sound only if one life of a generation begins once: `reference` says where (core-backends), an operator says that
//! it must (decision 0044). Not here: choosing the survivor (base-types, survivor.rs; core-node, flows/recover.rs).

use crate::api::{NewLife, PeerMessage, ReplicaSpec};
use crate::lane::Lane;
use crate::meta::LIVES_MAX;
use crate::replica::{life, Replica};
use crate::wire::Payload;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, ErrorCode, Generation, NodeId, Refusal, Survivor, Tick};
use bytes::Bytes;

impl Lane {
    /// What a replica here holds of its cluster.
    pub fn survivor(&self, cluster: ClusterId) -> Option<Survivor> {
        self.replica(cluster).map(|replica| life::survivor_of(replica, &self.context))
    }

    /// Begins a new life of a cluster on a replica here. `Ok(false)`: it has begun already. Durable with the next log batch.
    pub fn begin_life(&mut self, now: Tick, life: NewLife) -> Result<bool, Refusal> {
        let NewLife { cluster, replica, from, to } = life;
        let Some(here) = self.replica(cluster).filter(|here| here.spec.replica == replica) else {
            let message = format!("replica {replica} of cluster {cluster} is not on this node");
            return Err(Refusal::new(ErrorCode::SurvivorGone, message));
        };
        if here.spec.generation == to && here.ended == Generation(0) {
            return Ok(false);
        }
        let survivor = life::survivor_of(here, &self.context);
        let crowded = here.recovered.as_ref().is_some_and(|recovered| recovered.lives.len() >= LIVES_MAX);
        if here.spec.generation != from || from >= to || !survivor.can_begin() || crowded {
            let message = format!(
                "replica {replica} of cluster {} is of life {} and {}; it cannot begin life {to} after {from}",
                here.spec.name,
                here.spec.generation,
                survivor.state.as_str()
            );
            return Err(Refusal::new(ErrorCode::SurvivorUnfit, message));
        }
        self.with_replica(cluster, |context, replica| {
            life::begin(replica, context, to);
            let members = &replica.meta.members;
            assert!(members.len() == 1 && replica.meta.membership.is_voter(members[0].replica), "a life begins alone");
            assert!(replica.spec.generation > from || planted(Mutant::LifeNotRaised), "a life begins later");
        });
        self.wake(now, cluster);
        Ok(true)
    }

    /// A later life of the cluster has begun without this replica. False: there is none of an earlier one here.
    pub fn end_life(&mut self, now: Tick, cluster: ClusterId, by: Generation) -> bool {
        let earlier = self.replica(cluster).is_some_and(|replica| replica.latest_life() < by);
        if !earlier || planted(Mutant::EndedLifeServes) {
            return false;
        }
        self.with_replica(cluster, |context, replica| life::end(replica, context, by));
        self.wake(now, cluster);
        true
    }

    /// A message of another life than that of the replica here. False: it is of a later one, or none is here.
    pub(crate) fn on_message_of_another_life(
        &mut self,
        now: Tick,
        from: NodeId,
        cluster: ClusterId,
        generation: Generation,
        payload: &Bytes,
    ) -> bool {
        let Some(latest) = self.replica(cluster).map(Replica::latest_life) else { return false };
        if let Ok(Payload::LifeOver { by }) = Payload::from_bytes(payload.clone()) {
            // Answered only with a later life: two that know the same would tell each other for ever.
            if by < latest {
                self.tell_of_life(from, cluster, by, latest);
            } else {
                self.end_life(now, cluster, by);
            }
            return true;
        }
        if generation < latest {
            self.tell_of_life(from, cluster, generation, latest);
            return true;
        }
        false
    }

    fn tell_of_life(&mut self, to: NodeId, cluster: ClusterId, generation: Generation, by: Generation) {
        self.context.statistics.messages_sent += 1;
        let payload = Payload::LifeOver { by }.to_bytes();
        self.context.output.messages.push(PeerMessage { to, cluster, generation, payload });
    }

    /// A node is connected (again): replicas of an earlier life may be there.
    pub(crate) fn tell_of_new_lives(&mut self, node: NodeId) {
        let begun = self.replicas_where(&|replica| {
            replica.recovered.is_some() && replica.ended == Generation(0) && replica.meta.member_on(node).is_none()
        });
        for (cluster, _) in begun {
            let Some(by) = self.replica(cluster).map(|replica| replica.spec.generation) else { continue };
            self.tell_of_life(node, cluster, Generation(by.0.saturating_sub(1)), by);
        }
    }

    /// What an ended life left on this node is not written over: only an operator says that nobody needs it.
    pub(crate) fn check_not_ended(&self, spec: &ReplicaSpec) -> Result<(), Refusal> {
        let kept = self.replica(spec.cluster).filter(|replica| replica.ended > Generation(0));
        let Some(kept) = kept.filter(|_| !planted(Mutant::EndedDataGivesWay)) else { return Ok(()) };
        let message = format!(
            "node {} keeps data of life {} of cluster {}, which has ended; run `hive ctl recover {} --discard {}` when nobody needs it",
            self.context.config.node, kept.spec.generation, spec.name, spec.name, self.context.config.node
        );
        Err(Refusal::new(ErrorCode::EndedLifeKept, message))
    }
}

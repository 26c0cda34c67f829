//! A cluster that lost its majority for good begins a new life on one survivor; replicas of the life before end.
//!
//! ```text
//!   survivor ──begin_life(generation + 1)──▶ the only voter, with its whole log ──▶ leads, members are added
//!   any replica of an earlier life ──hears of a later one──▶ ended: no group, no answer, log and rows kept ──discarded──▶ gone
//! ```
//!
//! Always: a later term, the new generation, the new membership and where the old log ended are written in one batch, before
//! anything follows from them; membership entries up to there change nothing, and no snapshot is made of a state that does
//! not lie beyond; an ended replica is never made anew, voted with or written over.
//! Sound only if one life of a generation begins once: `reference` says where (core-backends), an operator says that
//! it must (decision 0044). Not here: choosing the survivor (base-types, survivor.rs; core-node, flows/recover.rs).

use crate::api::{Begun, Member, Notice, PeerMessage, ReplicaSpec};
use crate::lane::Lane;
use crate::meta::{ClusterMeta, Recovered, ReplicaRecord, LIVES_MAX};
use crate::overlay::Overlay;
use crate::replica::Replica;
use crate::shared::Shared;
use crate::wire::Payload;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{
    ClusterId, ErrorKind, FormerMember, Generation, LogIndex, NodeId, Refusal, ReplicaId, Survivor, SurvivorState,
    Term, Tick,
};
use bytes::Bytes;
use core_raft::{HardState, Membership, STATE_HARD};
use std::rc::Rc;
use std::sync::Arc;

/// Ids of replicas that the life before may have given and no survivor knows of.
const REPLICA_IDS_PASSED: u64 = 1_000;

/// Lives that began here, kept for who watches until they are taken (after every turn).
const BEGUN_MAX: usize = 1 << 10;

/// A new life of a cluster, to begin on one survivor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewLife {
    /// The cluster.
    pub cluster: ClusterId,
    /// The survivor.
    pub replica: ReplicaId,
    /// The life that is over.
    pub from: Generation,
    /// The one that begins.
    pub to: Generation,
}

impl ClusterMeta {
    /// A replica that began its life on its own is its only member until an entry of that life says otherwise: what its
    /// engine holds may be older.
    pub(crate) fn begin_with(&mut self, record: &ReplicaRecord, own: Member) {
        let recovered = record.recovered.as_ref().filter(|recovered| self.applied <= recovered.at());
        let Some(recovered) = recovered else { return };
        self.membership = alone(own.replica);
        self.members = Arc::new([own]);
        self.next_replica = self.next_replica.max(recovered.next_replica);
    }
}

fn alone(replica: ReplicaId) -> Rc<Membership> {
    Rc::new(Membership { voters: vec![replica], ..Membership::default() })
}

impl Shared {
    /// A replica of this node as a voter.
    pub(crate) fn own_member(&self, replica: ReplicaId) -> Member {
        Member { replica, node: self.config.node, disk: self.config.disk, learner: false }
    }
}

impl Replica {
    /// Whether an operation or a message of this life is for it.
    pub fn is_of_life(&self, generation: Generation) -> bool {
        self.spec.generation == generation && self.ended == Generation(0)
    }

    /// Whether what happened at this index belongs to the life before.
    pub fn is_of_life_before(&self, index: LogIndex) -> bool {
        self.recovered.as_ref().is_some_and(|recovered| index <= recovered.at()) && !planted(Mutant::OldMembersComeBack)
    }

    /// The life that an entry belongs to: what it means must not depend on when it is applied.
    pub fn life_of(&self, index: LogIndex) -> Generation {
        let before = self.recovered.iter().flat_map(|recovered| &recovered.lives).find(|(at, _)| index <= *at);
        let now = self.spec.generation;
        before.map_or(now, |(_, life)| if planted(Mutant::LifeOfEntriesForgotten) { now } else { *life })
    }

    /// The latest life of its cluster that it knows.
    fn latest_life(&self) -> Generation {
        self.spec.generation.max(self.ended)
    }

    /// What it holds, for who decides whether a new life begins on it.
    fn survivor(&self, shared: &Shared) -> Survivor {
        let log = shared.log.borrow();
        let cluster = self.spec.cluster;
        let last = log.last_index(cluster).max(self.meta.applied);
        let last_term = log.term(cluster, last).unwrap_or(self.meta.applied_term);
        let hard = log.state(cluster, STATE_HARD).and_then(|bytes| HardState::from_bytes(bytes).ok());
        let state = match () {
            () if self.ended > Generation(0) => SurvivorState::Ended,
            () if self.blank => SurvivorState::Blank,
            () if self.group.is_none() => SurvivorState::Damaged,
            () if self.is_quarantined() => SurvivorState::Quarantined,
            () if self.has_damage() => SurvivorState::Mending,
            () => SurvivorState::Whole,
        };
        let members = self.meta.members.iter().map(|member| FormerMember {
            replica: member.replica,
            node: member.node,
            disk: member.disk,
            learner: member.learner,
        });
        let commit = self.group.as_ref().map(|group| group.commit()).or(hard.map(|hard| hard.commit));
        let leader = self.group.as_ref().and_then(|group| group.leader());
        let follows = self.meta.members.iter().find(|member| Some(member.replica) == leader).map(|member| member.node);
        Survivor {
            node: shared.config.node,
            disk: shared.config.disk,
            replica: self.spec.replica,
            generation: self.spec.generation,
            state,
            term: self.term().max(hard.map_or(Term(0), |hard| hard.term)),
            last_term,
            last,
            commit: commit.unwrap_or(LogIndex(0)).max(self.meta.applied),
            applied: self.meta.applied,
            durable: self.durable.index,
            follows,
            members: members.collect(),
        }
    }

    /// Begins a new life on its own.
    fn begin_life(&mut self, shared: &mut Shared, to: Generation) {
        let (cluster, from) = (self.spec.cluster, self.spec.generation);
        let own = shared.own_member(self.spec.replica);
        self.leave_group(shared);
        let (last, term) = {
            let log = shared.log.borrow();
            (log.last_index(cluster).max(self.meta.applied), self.latest_term(shared))
        };
        self.witness_begun(shared, last);
        let next_replica = ReplicaId(self.meta.next_replica.max(own.replica).0 + REPLICA_IDS_PASSED);
        if !planted(Mutant::LifeNotRaised) {
            self.spec.generation = to;
        }
        let mut lives = self.recovered.take().map(|recovered| recovered.lives).unwrap_or_default();
        lives.retain(|(at, _)| *at > self.durable.index);
        lives.push((last, from));
        self.recovered = Some(Recovered { lives, next_replica });
        self.meta.membership = alone(own.replica);
        self.meta.members = Arc::new([own]);
        self.meta.next_replica = next_replica;
        shared.common.share_meta(&mut self.meta);
        (self.told, self.removed) = (None, false);
        self.heard_from.clear();
        let commit = self.meta.applied;
        let hard_state = HardState { term: Term(term.0 + 1), commit, replica: own.replica, ..HardState::default() };
        shared.log.borrow_mut().put_state(cluster, STATE_HARD, hard_state.to_bytes());
        self.stage_record(shared);
        self.make_group(shared);
        let message = format!(
            "it begins life {} of its cluster alone, from its log up to {last}; replicas of the life before are ended when they are heard of",
            self.spec.generation
        );
        let name = self.spec.name.clone();
        shared.output.notices.push(Notice::Recovered { cluster, name, message });
    }

    /// Keeps what the log held for who watches (simulator only).
    fn witness_begun(&self, shared: &mut Shared, last: LogIndex) {
        if shared.config.witness.is_none() || shared.begun.len() >= BEGUN_MAX {
            return;
        }
        let cluster = self.spec.cluster;
        let mut terms: Vec<(LogIndex, Term)> = Vec::new();
        let log = shared.log.borrow();
        for index in log.first_index(cluster).0..=log.last_index(cluster).0 {
            let term = log.term(cluster, LogIndex(index)).unwrap_or_default();
            if terms.last().is_none_or(|(_, before)| *before != term) {
                terms.push((LogIndex(index), term));
            }
        }
        drop(log);
        shared.begun.push(Begun { cluster, ended: self.spec.generation, last, terms });
    }

    fn latest_term(&self, shared: &Shared) -> Term {
        let stored = shared.log.borrow().state(self.spec.cluster, STATE_HARD);
        let stored = stored.and_then(|bytes| HardState::from_bytes(bytes).ok()).map_or(Term(0), |hard| hard.term);
        self.meta.applied_term.max(stored)
    }

    /// Gives up its part in the group it was in, and all that waited for it.
    fn leave_group(&mut self, shared: &mut Shared) {
        self.lose_leadership(shared);
        self.drop_admin(shared);
        self.drop_incoming(shared);
        self.group = None;
        self.late.clear();
        self.holds_back = false;
        self.life += 1;
        self.unsynced = 0;
        self.quiesced = false;
    }

    /// A later life has begun without it.
    fn end(&mut self, shared: &mut Shared, by: Generation) {
        self.ended = by;
        self.leave_group(shared);
        self.stay_ended(shared);
        self.stage_record(shared);
    }

    /// It keeps its log and its rows, and does nothing with them.
    pub fn stay_ended(&mut self, shared: &mut Shared) {
        self.group = None;
        (self.repair, self.mending, self.quarantine, self.walk) = (None, None, None, None);
        self.removed = false;
        self.dirty_since = None;
        if !self.overlay.is_frozen() {
            // The log has what is not durable.
            self.overlay = Overlay::new(shared.config.keep);
        }
        let message = format!(
            "it belongs to life {} of cluster {}, and life {} began without it (the cluster was recovered): it serves nothing, \
             and its data is kept; when nobody needs it, run `hive ctl recover {} --discard {}`",
            self.spec.generation, self.spec.name, self.ended, self.spec.name, shared.config.node
        );
        self.damaged = Some(message.as_str().into());
        shared.output.notices.push(Notice::Ended {
            cluster: self.spec.cluster,
            name: self.spec.name.clone(),
            replica: self.spec.replica,
            by: self.ended,
            message,
        });
    }
}

impl Lane {
    /// What a replica here holds of its cluster.
    pub fn survivor(&self, cluster: ClusterId) -> Option<Survivor> {
        self.replica(cluster).map(|replica| replica.survivor(&self.shared))
    }

    /// Begins a new life of a cluster on a replica here. `Ok(false)`: it has begun already. Durable with the next log batch.
    pub fn begin_life(&mut self, now: Tick, life: NewLife) -> Result<bool, Refusal> {
        let NewLife { cluster, replica, from, to } = life;
        let Some(here) = self.replica(cluster).filter(|here| here.spec.replica == replica) else {
            let message = format!("replica {replica} of cluster {cluster} is not on this node");
            return Err(Refusal::new(ErrorKind::Conflict, "SurvivorGone", message));
        };
        if here.spec.generation == to && here.ended == Generation(0) {
            return Ok(false);
        }
        let survivor = here.survivor(&self.shared);
        let crowded = here.recovered.as_ref().is_some_and(|recovered| recovered.lives.len() >= LIVES_MAX);
        if here.spec.generation != from || from >= to || !survivor.can_begin() || crowded {
            let message = format!(
                "replica {replica} of cluster {} is of life {} and {}; it cannot begin life {to} after {from}",
                here.spec.name,
                here.spec.generation,
                survivor.state.as_str()
            );
            return Err(Refusal::new(ErrorKind::Conflict, "SurvivorUnfit", message));
        }
        self.with_replica(cluster, |shared, replica| {
            replica.begin_life(shared, to);
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
        self.with_replica(cluster, |shared, replica| replica.end(shared, by));
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
        if generation < latest {
            self.tell_of_life(from, cluster, generation, latest);
            return true;
        }
        match Payload::from_bytes(payload.clone()) {
            Ok(Payload::LifeOver { by }) => {
                self.end_life(now, cluster, by);
                true
            }
            _ => false,
        }
    }

    fn tell_of_life(&mut self, to: NodeId, cluster: ClusterId, generation: Generation, by: Generation) {
        self.shared.statistics.messages_sent += 1;
        let payload = Payload::LifeOver { by }.to_bytes();
        self.shared.output.messages.push(PeerMessage { to, cluster, generation, payload });
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
            self.shared.config.node, kept.spec.generation, spec.name, spec.name, self.shared.config.node
        );
        Err(Refusal::new(ErrorKind::Conflict, "EndedLifeKept", message))
    }
}

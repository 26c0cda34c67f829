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

use crate::api::{Begun, Member, NewLife, Notice, PeerMessage, ReplicaSpec};
use crate::lane::Lane;
use crate::meta::{ClusterMeta, Recovered, ReplicaRecord, LIVES_MAX};
use crate::replica::Replica;
use crate::shared::Shared;
use crate::wire::Payload;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{
    ClusterId, ErrorCode, FormerMember, Generation, LogIndex, NodeId, Refusal, ReplicaId, Survivor, SurvivorState,
    Term, Tick,
};
use bytes::Bytes;
use core_raft::{HardState, Membership, STATE_HARD};
use std::rc::Rc;
use std::sync::Arc;

/// Ids of replicas that the life before may have given and no survivor knows of.
const REPLICA_IDS_PASSED: u64 = 1_000;

/// Terms of a level 0 cluster that the life before may have had and its survivor never saw: by its leader's term nodes tell
/// copies of the node map apart, and nothing above it says which is later.
const TERMS_PASSED: u64 = 1 << 20;

/// Lives that began here, kept for who watches until they are taken (after every turn).
const BEGUN_MAX: usize = 1 << 10;

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

/// What it holds, for who decides whether a new life begins on it.
fn survivor_of(replica: &Replica, shared: &Shared) -> Survivor {
    let log = shared.log.borrow();
    let cluster = replica.spec.cluster;
    let last = log.last_index(cluster).max(replica.meta.applied);
    let last_term = log.term(cluster, last).unwrap_or(replica.meta.applied_term);
    let hard = log.state(cluster, STATE_HARD).and_then(|bytes| HardState::from_bytes(bytes).ok());
    let state = match () {
        () if replica.ended > Generation(0) => SurvivorState::Ended,
        () if replica.blank => SurvivorState::Blank,
        () if replica.group.is_none() => SurvivorState::Damaged,
        () if replica.is_quarantined() => SurvivorState::Quarantined,
        () if replica.has_damage() => SurvivorState::Mending,
        () => SurvivorState::Whole,
    };
    let members = replica.meta.members.iter().map(|member| FormerMember {
        replica: member.replica,
        node: member.node,
        disk: member.disk,
        learner: member.learner,
    });
    let commit = replica.group.as_ref().map(|group| group.commit()).or(hard.map(|hard| hard.commit));
    let leader = replica.group.as_ref().and_then(|group| group.leader());
    let follows = replica.meta.members.iter().find(|member| Some(member.replica) == leader).map(|member| member.node);
    Survivor {
        node: shared.config.node,
        disk: shared.config.disk,
        replica: replica.spec.replica,
        generation: replica.spec.generation,
        state,
        term: replica.term().max(hard.map_or(Term(0), |hard| hard.term)),
        last_term,
        last,
        commit: commit.unwrap_or(LogIndex(0)).max(replica.meta.applied),
        applied: replica.meta.applied,
        durable: replica.durable.index,
        follows,
        members: members.collect(),
    }
}

/// Begins a new life on its own.
fn begin(replica: &mut Replica, shared: &mut Shared, to: Generation) {
    let (cluster, from) = (replica.spec.cluster, replica.spec.generation);
    let own = shared.own_member(replica.spec.replica);
    leave_group(replica, shared);
    let (last, term) = {
        let log = shared.log.borrow();
        (log.last_index(cluster).max(replica.meta.applied), latest_term(replica, shared))
    };
    witness_begun(replica, shared, last);
    let next_replica = ReplicaId(replica.meta.next_replica.max(own.replica).0 + REPLICA_IDS_PASSED);
    if !planted(Mutant::LifeNotRaised) {
        replica.spec.generation = to;
    }
    let mut lives = replica.recovered.take().map(|recovered| recovered.lives).unwrap_or_default();
    lives.retain(|(at, _)| *at > replica.durable.index);
    lives.push((last, from));
    replica.recovered = Some(Recovered { lives, next_replica });
    replica.meta.membership = alone(own.replica);
    replica.meta.members = Arc::new([own]);
    replica.meta.next_replica = next_replica;
    shared.common.share_meta(&mut replica.meta);
    (replica.told, replica.removed) = (None, false);
    replica.heard_from.clear();
    let commit = replica.meta.applied;
    let passed = if replica.spec.name.is_level_zero() { TERMS_PASSED } else { 1 };
    let hard_state = HardState { term: Term(term.0 + passed), commit, replica: own.replica, ..HardState::default() };
    shared.log.borrow_mut().put_state(cluster, STATE_HARD, hard_state.to_bytes());
    replica.stage_record(shared);
    replica.make_group(shared);
    let message = format!(
        "it begins life {} of its cluster alone, from its log up to {last}; replicas of the life before are ended when they are heard of",
        replica.spec.generation
    );
    let name = replica.spec.name.clone();
    shared.output.notices.push(Notice::Recovered { cluster, name, message });
}

/// Keeps what the log held for who watches (simulator only).
fn witness_begun(replica: &Replica, shared: &mut Shared, last: LogIndex) {
    if shared.config.witness.is_none() || shared.begun.len() >= BEGUN_MAX {
        return;
    }
    let cluster = replica.spec.cluster;
    let mut terms: Vec<(LogIndex, Term)> = Vec::new();
    let log = shared.log.borrow();
    for index in log.first_index(cluster).0..=log.last_index(cluster).0 {
        let term = log.term(cluster, LogIndex(index)).unwrap_or_default();
        if terms.last().is_none_or(|(_, before)| *before != term) {
            terms.push((LogIndex(index), term));
        }
    }
    drop(log);
    shared.begun.push(Begun { cluster, ended: replica.spec.generation, last, terms });
}

fn latest_term(replica: &Replica, shared: &Shared) -> Term {
    let stored = shared.log.borrow().state(replica.spec.cluster, STATE_HARD);
    let stored = stored.and_then(|bytes| HardState::from_bytes(bytes).ok()).map_or(Term(0), |hard| hard.term);
    replica.meta.applied_term.max(stored)
}

/// Gives up its part in the group it was in, and all that waited for it.
fn leave_group(replica: &mut Replica, shared: &mut Shared) {
    replica.lose_leadership(shared);
    replica.drop_admin(shared);
    replica.drop_incoming(shared);
    replica.group = None;
    replica.late.clear();
    replica.holds_back = false;
    replica.life += 1;
    replica.unsynced = 0;
    replica.quiesced = false;
}

/// A later life has begun without it.
fn end(replica: &mut Replica, shared: &mut Shared, by: Generation) {
    replica.ended = by;
    leave_group(replica, shared);
    replica.stay_ended(shared);
    replica.stage_record(shared);
}

impl Lane {
    /// What a replica here holds of its cluster.
    pub fn survivor(&self, cluster: ClusterId) -> Option<Survivor> {
        self.replica(cluster).map(|replica| survivor_of(replica, &self.shared))
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
        let survivor = survivor_of(here, &self.shared);
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
        self.with_replica(cluster, |shared, replica| {
            begin(replica, shared, to);
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
        self.with_replica(cluster, |shared, replica| end(replica, shared, by));
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
        Err(Refusal::new(ErrorCode::EndedLifeKept, message))
    }
}

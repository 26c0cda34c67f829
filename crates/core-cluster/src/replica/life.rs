//! Lives of a cluster: a replica that begins a new one alone, or whose life has ended.
//!
//! Always: a later term, the new generation, the new membership and the last index of the old log are written in one batch,
//! before anything follows from them (`recovery::begin_life` asserts that a life begins alone and later; mutants
//! `LifeNotRaised`, `OldMembersComeBack`). Membership entries up to that index change nothing.
//! Not here: who may begin one (`lane/recovery.rs`). Why: decision 0044.

use crate::api::{Begun, Notice};
use crate::context::LaneContext;
use crate::meta::{alone, Recovered};
use crate::replica::Replica;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{FormerMember, Generation, LogIndex, ReplicaId, Survivor, SurvivorState, Term};
use core_raft::{HardState, STATE_HARD};
use std::sync::Arc;

/// Ids of replicas that the life before may have given and no survivor knows of.
const REPLICA_IDS_PASSED: u64 = 1_000;

/// Terms of a level 0 cluster that the life before may have had and its survivor never saw: by its leader's term nodes tell
/// copies of the node map apart, and nothing above it says which is later.
const TERMS_PASSED: u64 = 1 << 20;

/// Lives that began here, kept for who watches until they are taken (after every turn).
const BEGUN_MAX: usize = 1 << 10;

/// What it holds, for who decides whether a new life begins on it.
pub fn survivor_of(replica: &Replica, lane: &LaneContext) -> Survivor {
    let log = lane.log.borrow();
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
        node: lane.config.node,
        disk: lane.config.disk,
        replica: replica.spec.replica,
        generation: replica.spec.generation,
        state,
        term: replica.term().max(hard.map_or(Term(0), |hard| hard.term)),
        last_term,
        last,
        commit: commit.unwrap_or(LogIndex(0)).max(replica.meta.applied),
        applied: replica.meta.applied,
        durable: replica.flushes.index(),
        follows,
        members: members.collect(),
    }
}

/// Begins a new life on its own.
pub fn begin(replica: &mut Replica, lane: &mut LaneContext, to: Generation) {
    let (cluster, from) = (replica.spec.cluster, replica.spec.generation);
    let own = lane.own_member(replica.spec.replica);
    leave_group(replica, lane);
    let (last, term) = {
        let log = lane.log.borrow();
        (log.last_index(cluster).max(replica.meta.applied), latest_term(replica, lane))
    };
    witness_begun(replica, lane, last);
    let next_replica = ReplicaId(replica.meta.next_replica.max(own.replica).0 + REPLICA_IDS_PASSED);
    if !planted(Mutant::LifeNotRaised) {
        replica.spec.generation = to;
    }
    let mut lives = replica.recovered.take().map(|recovered| recovered.lives).unwrap_or_default();
    lives.retain(|(at, _)| *at > replica.flushes.index());
    lives.push((last, from));
    replica.recovered = Some(Recovered { lives, next_replica });
    replica.meta.membership = alone(own.replica);
    replica.meta.members = Arc::new([own]);
    replica.meta.next_replica = next_replica;
    lane.interner.share_meta(&mut replica.meta);
    (replica.told, replica.removed) = (None, false);
    replica.heard_from.clear();
    let commit = replica.meta.applied;
    let passed = if replica.spec.name.is_level_zero() { TERMS_PASSED } else { 1 };
    let hard_state = HardState { term: Term(term.0 + passed), commit, replica: own.replica, ..HardState::default() };
    lane.log.borrow_mut().put_state(cluster, STATE_HARD, hard_state.to_bytes());
    replica.stage_record(lane);
    replica.make_group(lane);
    let message = format!(
        "it begins life {} of its cluster alone, from its log up to {last}; replicas of the life before are ended when they are heard of",
        replica.spec.generation
    );
    let name = replica.spec.name.clone();
    lane.output.notices.push(Notice::Recovered { cluster, name, message });
}

/// Keeps what the log held for who watches (simulator only).
fn witness_begun(replica: &Replica, lane: &mut LaneContext, last: LogIndex) {
    if lane.config.witness.is_none() || lane.begun.len() >= BEGUN_MAX {
        return;
    }
    let cluster = replica.spec.cluster;
    let mut terms: Vec<(LogIndex, Term)> = Vec::new();
    let log = lane.log.borrow();
    for index in log.first_index(cluster).0..=log.last_index(cluster).0 {
        let term = log.term(cluster, LogIndex(index)).unwrap_or_default();
        if terms.last().is_none_or(|(_, before)| *before != term) {
            terms.push((LogIndex(index), term));
        }
    }
    drop(log);
    lane.begun.push(Begun { cluster, ended: replica.spec.generation, last, terms });
}

fn latest_term(replica: &Replica, lane: &LaneContext) -> Term {
    let stored = lane.log.borrow().state(replica.spec.cluster, STATE_HARD);
    let stored = stored.and_then(|bytes| HardState::from_bytes(bytes).ok()).map_or(Term(0), |hard| hard.term);
    replica.meta.applied_term.max(stored)
}

/// Gives up its part in the group it was in, and all that waited for it.
fn leave_group(replica: &mut Replica, lane: &mut LaneContext) {
    replica.lose_leadership(lane);
    replica.drop_admin(lane);
    replica.drop_incoming(lane);
    replica.group = None;
    replica.late.clear();
    replica.holds_back = false;
    replica.life += 1;
    replica.unsynced = 0;
    replica.quiesced = false;
}

/// A later life has begun without it.
pub fn end(replica: &mut Replica, lane: &mut LaneContext, by: Generation) {
    replica.ended = by;
    leave_group(replica, lane);
    replica.stay_ended(lane);
    replica.stage_record(lane);
}

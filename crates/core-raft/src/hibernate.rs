//! Hibernation of a quiescent member: it gives the library's node back (two kilobytes and more, most of it for a leader at
//! work) and makes a new one from the log when anything happens to the member.
//!
//! Always: only a member hibernates that has nothing under way and has applied all it holds; a leader only while every
//! member has all of it too. A member that wakes acts as if it had never hibernated: term, vote, commit, configuration,
//! leader, a follower's promise and a leader's check of its quorum are restored (mutant `SleepForgetsVote`;
//! `hibernated_follower_keeps_its_promise`, `hibernated_leader_acts_as_before`).
//! Not here: when to hibernate (core-cluster), what wakes a member (`group.rs`).

use crate::library::{library_node, Setup};
use crate::membership::{Membership, MEMBERS_MAX};
use crate::storage::{GroupStorage, HardState};
use base_types::mutant::{planted, Mutant};
use base_types::{LogIndex, ReplicaId, Term};
use raft::{ProgressState, RawNode, StateRole};
use std::rc::Rc;

/// What a hibernating member keeps.
pub(crate) struct Hibernating {
    /// With term, vote and commit in `hard_state`, and the configuration in force.
    pub(crate) storage: GroupStorage,
    /// The leader, which may be itself; `INVALID_ID`: none.
    pub(crate) leader: u64,
    /// Of a follower: ticks since the leader's last message. Of a leader: ticks since its last check of its quorum.
    pub(crate) election_elapsed: usize,
    applied: u64,
    /// Of a leader: the members heard since, one bit for each (`MEMBERS_MAX` of them fit), by id.
    heard: Option<u128>,
}

/// Whether every member follows closely and has all entries, so that its progress can be restored from the log.
fn all_follow(node: &RawNode<GroupStorage>) -> bool {
    let last = node.raft.raft_log.last_index();
    let progress = node.raft.prs();
    let simple = progress.conf().to_conf_state().voters_outgoing.is_empty() && progress.iter().len() <= MEMBERS_MAX;
    simple
        && progress.iter().all(|(_, progress)| {
            progress.matched == last
                && progress.next_idx == last + 1
                && progress.state == ProgressState::Replicate
                && progress.pending_request_snapshot == raft::INVALID_INDEX
                && progress.ins.count() == 0
        })
}

/// Sets all members' progress to what `all_follow` found, and marks the members that the leader has heard.
fn restore_leader(node: &mut RawNode<GroupStorage>, heard: u128) {
    let last = node.raft.raft_log.last_index();
    node.raft.state = StateRole::Leader;
    let mut progress: Vec<_> = node.raft.mut_prs().iter_mut().collect();
    progress.sort_unstable_by_key(|(id, _)| **id);
    for (at, (_, progress)) in progress.into_iter().enumerate() {
        progress.matched = last;
        progress.become_replicate();
        progress.recent_active = heard & (1 << at) != 0;
    }
}

impl Hibernating {
    /// Whether a settled member has nothing under way that hibernation would lose.
    pub(crate) fn may_hibernate(node: &RawNode<GroupStorage>) -> bool {
        let raft = &node.raft;
        let log = &raft.raft_log;
        let nothing_under_way = raft.msgs.is_empty()
            && raft.read_states.is_empty()
            && raft.pending_request_snapshot == raft::INVALID_INDEX
            && log.applied == log.committed
            && log.committed == log.last_index()
            && !node.has_ready();
        match raft.state {
            StateRole::Follower => nothing_under_way,
            StateRole::Leader => {
                nothing_under_way
                    && raft.pending_read_count() == 0
                    && raft.lead_transferee.is_none()
                    && !raft.has_pending_conf()
                    && raft.commit_to_current_term()
                    && all_follow(node)
            }
            StateRole::PreCandidate | StateRole::Candidate => false,
        }
    }

    /// Whether it leads.
    pub(crate) fn leads(&self) -> bool {
        self.heard.is_some()
    }

    /// Every member of a leader: each has all entries.
    pub(crate) fn members_led(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        let Membership { voters, learners, .. } = &*self.storage.membership;
        voters.iter().chain(learners).copied().filter(|_| self.leads())
    }

    /// Takes what is needed from a node that may hibernate. The node must not be used afterwards.
    pub(crate) fn of(node: &mut RawNode<GroupStorage>) -> Hibernating {
        let raft = &node.raft;
        let hard_state = HardState {
            term: Term(raft.term),
            vote: ReplicaId(if planted(Mutant::SleepForgetsVote) { raft::INVALID_ID } else { raft.vote }),
            commit: LogIndex(raft.raft_log.committed),
            replica: ReplicaId(raft.id),
        };
        let membership = Membership::from_library(&raft.prs().conf().to_conf_state());
        let shared = &raft.store().membership;
        let membership = if membership == **shared { shared.clone() } else { Rc::new(membership) };
        let (leader, election_elapsed, applied) = (raft.leader_id, raft.election_elapsed, raft.raft_log.applied);
        let heard = (raft.state == StateRole::Leader).then(|| {
            let mut active: Vec<_> = raft.prs().iter().map(|(id, progress)| (*id, progress.recent_active)).collect();
            active.sort_unstable();
            active.iter().enumerate().fold(0, |heard, (at, (_, active))| heard | u128::from(*active) << at)
        });
        let store = node.mut_store();
        let snapshot_point = store.snapshot_point.clone();
        let storage =
            GroupStorage { log: store.log.clone(), cluster: store.cluster, hard_state, membership, snapshot_point };
        Hibernating { storage, leader, election_elapsed, applied, heard }
    }

    /// The node as it was. `self` must not be used afterwards.
    pub(crate) fn wake(&mut self, config: &Setup) -> Box<RawNode<GroupStorage>> {
        let storage = GroupStorage {
            log: self.storage.log.clone(),
            cluster: self.storage.cluster,
            hard_state: self.storage.hard_state,
            membership: self.storage.membership.clone(),
            snapshot_point: self.storage.snapshot_point.clone(),
        };
        let node = library_node(config, self.applied, storage);
        let mut node = node.expect("the library made a node of this very configuration before");
        node.raft.leader_id = self.leader;
        node.raft.election_elapsed = self.election_elapsed;
        if let Some(heard) = self.heard {
            restore_leader(&mut node, heard);
        }
        // The library takes the leader for news: this ready holds that and nothing else.
        if node.has_ready() {
            let ready = node.ready();
            let number = ready.number();
            node.advance_append_async(ready);
            node.on_persist_ready(number);
        }
        node
    }
}

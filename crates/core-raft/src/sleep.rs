//! A quiet member's sleep: the library's node (two kilobytes and more, most of it what only a leader at work needs) is
//! given back, and made anew from the log when anything happens to the member.
//!
//! Always: only a member sleeps that has nothing under way and has applied all it holds, and a leader only where
//! every member has all of it too; waking restores term, vote, commit, configuration, the leader and how long ago it was
//! heard (a follower's promise) or asked who hears it (a leader's check), so a member that slept says what it would have
//! said without.
//! Not here: when it is time to rest (core-cluster), who wakes it (`group.rs`).

use crate::group::Setup;
use crate::membership::{Membership, MEMBERS_MAX};
use crate::storage::{GroupStorage, HardState};
use base_types::mutant::{planted, Mutant};
use base_types::{LogIndex, ReplicaId, Term};
use raft::{Config, ProgressState, RawNode, StateRole};
use std::rc::Rc;

/// Bytes of entries in one append message; a follower far behind is fed in such pieces.
const APPEND_BYTES_MAX: u64 = 128 << 10;
/// Append messages under way to one follower.
const INFLIGHT_MESSAGES_MAX: usize = 64;
/// Bytes proposed and not yet committed; beyond it proposals are refused (overloaded).
const UNCOMMITTED_BYTES_MAX: u64 = 64 << 20;
/// Bytes of committed entries handed out at once, so that one group cannot hold a turn.
const COMMITTED_BYTES_MAX: u64 = 4 << 20;

/// The library draws its election timeouts from a thread generator; between these two there is one value
/// to draw, and no count of ticks gets there.
const LIBRARY_ELECTION_TICKS: (usize, usize) = (usize::MAX - 1, usize::MAX);

/// The library's node over a storage that holds the configuration at `applied`.
pub(crate) fn library_node(
    config: &Setup,
    applied: u64,
    storage: GroupStorage,
) -> raft::Result<Box<RawNode<GroupStorage>>> {
    let library_config = Config {
        id: config.replica.0,
        election_tick: config.election_ticks,
        min_election_tick: LIBRARY_ELECTION_TICKS.0,
        max_election_tick: LIBRARY_ELECTION_TICKS.1,
        heartbeat_tick: config.heartbeat_ticks,
        applied,
        max_size_per_msg: APPEND_BYTES_MAX,
        max_inflight_msgs: INFLIGHT_MESSAGES_MAX,
        check_quorum: true,
        pre_vote: true,
        batch_append: true,
        // Followers learn of a commit with the next append or heartbeat: a message for it alone, and its
        // answer, would be a fifth of all.
        skip_bcast_commit: true,
        max_uncommitted_size: UNCOMMITTED_BYTES_MAX,
        max_committed_size_per_ready: COMMITTED_BYTES_MAX,
        ..Config::default()
    };
    let logger = slog::Logger::root(slog::Discard, slog::o!());
    Ok(Box::new(RawNode::new(&library_config, storage, &logger)?))
}

/// What a sleeping member keeps.
pub(crate) struct Asleep {
    /// With term, vote and commit in `hard_state`, and the configuration in force.
    pub(crate) storage: GroupStorage,
    /// Whom it follows, itself where it leads; `INVALID_ID`: nobody.
    pub(crate) leader: u64,
    /// Ticks since it last heard that leader; of a leader, since it last made sure that a quorum hears it.
    pub(crate) election_elapsed: usize,
    applied: u64,
    /// Of a leader: whom it has heard since, one bit for each member in order of their ids.
    heard: Option<u64>,
}

/// Whether every member follows closely and has all there is, so that its progress can be told from the log.
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

/// Sets all members' progress to what `all_follow` has found, and whom the leader has heard.
fn restore_leader(node: &mut RawNode<GroupStorage>, heard: u64) {
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

impl Asleep {
    /// Whether a settled member has nothing under way that would be forgotten.
    pub(crate) fn may_sleep(node: &RawNode<GroupStorage>) -> bool {
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

    /// Every member it knows, if it leads: all of them have all there is.
    pub(crate) fn members_led(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        let Membership { voters, learners, .. } = &*self.storage.membership;
        voters.iter().chain(learners).copied().filter(|_| self.leads())
    }

    /// Of such a node, which is of no use afterwards.
    pub(crate) fn of(node: &mut RawNode<GroupStorage>) -> Asleep {
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
            active.iter().enumerate().fold(0, |heard, (at, (_, active))| heard | u64::from(*active) << at)
        });
        let store = node.mut_store();
        let snapshot_point = store.snapshot_point.clone();
        let storage =
            GroupStorage { log: store.log.clone(), cluster: store.cluster, hard_state, membership, snapshot_point };
        Asleep { storage, leader, election_elapsed, applied, heard }
    }

    /// The node as it was. `self` is of no use afterwards.
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

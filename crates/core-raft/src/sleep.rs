//! A follower's sleep: the library's node (two kilobytes and more, most of it what only a leader needs) is given
//! back, and made anew from the log when anything happens to the member.
//!
//! Always: only a follower sleeps that has nothing under way and has applied all it holds; waking restores
//! term, vote, commit, configuration, the leader it follows and the promise it has given that leader, so a member
//! that slept says what it would have said without.
//! Not here: when it is time to rest (core-cluster), who wakes it (`group.rs`).

use crate::group::Setup;
use crate::membership::Membership;
use crate::storage::{GroupStorage, HardState};
use base_types::{LogIndex, ReplicaId, Term};
use raft::{Config, RawNode, StateRole};
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
    /// Whom it follows; `INVALID_ID`: nobody.
    pub(crate) leader: u64,
    /// Ticks since it last heard that leader.
    pub(crate) election_elapsed: usize,
    applied: u64,
}

impl Asleep {
    /// Whether a settled member has nothing under way that would be forgotten.
    pub(crate) fn may_sleep(node: &RawNode<GroupStorage>) -> bool {
        let raft = &node.raft;
        let log = &raft.raft_log;
        raft.state == StateRole::Follower
            && raft.msgs.is_empty()
            && raft.read_states.is_empty()
            && raft.pending_request_snapshot == raft::INVALID_INDEX
            && log.applied == log.committed
            && log.committed == log.last_index()
            && !node.has_ready()
    }

    /// Of such a node, which is of no use afterwards.
    pub(crate) fn of(node: &mut RawNode<GroupStorage>) -> Asleep {
        let raft = &node.raft;
        let hard_state = HardState {
            term: Term(raft.term),
            vote: ReplicaId(raft.vote),
            commit: LogIndex(raft.raft_log.committed),
            replica: ReplicaId(raft.id),
        };
        let membership = Membership::from_library(&raft.prs().conf().to_conf_state());
        let shared = &raft.store().membership;
        let membership = if membership == **shared { shared.clone() } else { Rc::new(membership) };
        let (leader, election_elapsed, applied) = (raft.leader_id, raft.election_elapsed, raft.raft_log.applied);
        let store = node.mut_store();
        let snapshot_point = store.snapshot_point.clone();
        let storage =
            GroupStorage { log: store.log.clone(), cluster: store.cluster, hard_state, membership, snapshot_point };
        Asleep { storage, leader, election_elapsed, applied }
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

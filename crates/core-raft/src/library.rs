//! How the library's node is made: its constants, and its bounds on messages and memory.
//!
//! Not here: who uses the node (`group.rs`), what a hibernating member keeps of it (`hibernate.rs`).

use crate::storage::GroupStorage;
use base_types::{ClusterId, ReplicaId};
use raft::{Config, RawNode};

/// The lasting part of a [`crate::GroupConfig`].
pub(crate) struct Setup {
    pub(crate) cluster: ClusterId,
    pub(crate) replica: ReplicaId,
    pub(crate) election_ticks: usize,
    pub(crate) heartbeat_ticks: usize,
    pub(crate) seed: u64,
}

/// Bytes of entries in one append message; a follower that lags is sent such pieces.
const APPEND_BYTES_MAX: u64 = 128 << 10;
/// Append messages under way to one follower.
const INFLIGHT_MESSAGES_MAX: usize = 64;
/// Bytes proposed and not yet committed; beyond it proposals are refused (overloaded).
const UNCOMMITTED_BYTES_MAX: u64 = 64 << 20;
/// Bytes of committed entries handed out at once, so that one group cannot hold a turn.
const COMMITTED_BYTES_MAX: u64 = 4 << 20;

/// The library draws its election timeouts from a thread generator. Between these two there is one value to draw, and
/// no count of ticks reaches it.
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
        // answer, would be a fifth of all messages. Where reads wait for it: `Group::announce_commit`.
        skip_bcast_commit: true,
        max_uncommitted_size: UNCOMMITTED_BYTES_MAX,
        max_committed_size_per_ready: COMMITTED_BYTES_MAX,
        ..Config::default()
    };
    let logger = slog::Logger::root(slog::Discard, slog::o!());
    Ok(Box::new(RawNode::new(&library_config, storage, &logger)?))
}

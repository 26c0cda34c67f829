//! What the library reads: one cluster's part of the lane's log, its hard state, and the point a
//! snapshot can be taken at.

use crate::membership::Membership;
use crate::message::entry_to_library;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{ClusterId, LogIndex, ReplicaId, Term};
use core_log::Log;
use raft::eraftpb::{ConfState, Entry, HardState as LibraryHardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};
use std::cell::RefCell;
use std::rc::Rc;

/// The log's state record that holds the hard state.
pub const STATE_HARD: u8 = 1;

/// What a replica must never forget (Raft paper, figure 2, "persistent state").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HardState {
    /// The latest term it has seen.
    pub term: Term,
    /// Whom it voted for in that term; replica 0: nobody.
    pub vote: ReplicaId,
    /// A commit index it has known; the true one may be higher.
    pub commit: LogIndex,
    /// Whose state it is: told where the record that makes the replica has rotted. 0 in records of older builds.
    pub replica: ReplicaId,
}

impl Encode for HardState {
    fn encode(&self, out: &mut Writer) {
        out.varint(self.term.0).varint(self.vote.0).varint(self.commit.0).varint(self.replica.0);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(HardState {
            term: Term(input.varint("term")?),
            vote: ReplicaId(input.varint("vote")?),
            commit: LogIndex(input.varint("commit")?),
            replica: if input.remaining() == 0 { ReplicaId(0) } else { ReplicaId(input.varint("replica")?) },
        })
    }
}

/// The state the engine holds durably: what a snapshot taken now would contain at least.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapshotPoint {
    /// The last index in it.
    pub index: LogIndex,
    /// That entry's term.
    pub term: Term,
    /// The configuration at that index; shared, as most replicas hold the same one for years.
    pub membership: Rc<Membership>,
}

/// The library's view.
pub(crate) struct GroupStorage {
    pub(crate) log: Rc<RefCell<Log>>,
    pub(crate) cluster: ClusterId,
    pub(crate) hard_state: HardState,
    /// The configuration at the applied index when the group is made; later ones live in the library.
    pub(crate) membership: Rc<Membership>,
    pub(crate) snapshot_point: SnapshotPoint,
}

fn index(value: LogIndex) -> u64 {
    value.0
}

impl Storage for GroupStorage {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let hard = LibraryHardState {
            term: self.hard_state.term.0,
            vote: self.hard_state.vote.0,
            commit: self.hard_state.commit.0,
            ..LibraryHardState::default()
        };
        let conf: ConfState = self.membership.to_library();
        Ok(RaftState::new(hard, conf))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        let log = self.log.borrow();
        if low < index(log.first_index(self.cluster)) {
            return Err(Error::Store(StorageError::Compacted));
        }
        let bytes_max = max_size.into().unwrap_or(u64::MAX);
        log.entries(self.cluster, LogIndex(low), LogIndex(high), bytes_max)
            .map(|entries| entries.into_iter().map(entry_to_library).collect())
            .ok_or(Error::Store(StorageError::Unavailable))
    }

    fn term(&self, at: u64) -> raft::Result<u64> {
        if at == 0 {
            return Ok(0);
        }
        let log = self.log.borrow();
        if let Some(term) = log.term(self.cluster, LogIndex(at)) {
            return Ok(term.0);
        }
        if at < index(log.first_index(self.cluster)) {
            return Err(Error::Store(StorageError::Compacted));
        }
        Err(Error::Store(StorageError::Unavailable))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(index(self.log.borrow().first_index(self.cluster)))
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(index(self.log.borrow().last_index(self.cluster)))
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        let point = &self.snapshot_point;
        let first = index(self.log.borrow().first_index(self.cluster));
        if point.index.0 == 0 || point.index.0 < request_index || point.index.0 + 1 < first {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        metadata.index = point.index.0;
        metadata.term = point.term.0;
        metadata.set_conf_state(point.membership.to_library());
        Ok(snapshot)
    }
}

//! A replica that outlived its world: what one engine's spaces hold is enough to continue alone.
//!
//! ```text
//!  space  ─ label  whose it is: cluster, generation, name, rule, replica     (the replica's own)
//!         ─ meta   applied index and term, members, levels                   (the cluster's)
//!         ─ rows   the state at that index
//!            │ all other members are lost, for good
//!            ▼
//!  the same rows, meta with one member, a log that begins behind the index: a cluster of one
//! ```
//!
//! Sound only if **no other member ever comes back** as what it was: two majorities of two configurations
//! need not meet. That is the operator's word, not something a program can know; what it can do is let the
//! old one's writes to the store fail (engine-object fences it).
//!
//! Always: nothing that was acknowledged as in the store is missing (checker `levels`, mutant `KeptToldEarly`). A cluster's
//! time and request ids continue, so a request that was applied before is not applied again (`tests/restore.rs`).
//! Not here: copying the rows, writing the log out (edge-node).

use crate::api::{Member, ReplicaSpec};
use crate::meta::{ClusterMeta, ReplicaRecord, LABEL_KEY, META_KEY, STATE_REPLICA};
use base_engine::{BatchOperation, Direction, EngineError, EngineRead, KeyRange, Visit};
use base_types::codec::Encode;
use base_types::{BackendKind, ClusterName, DiskId, LogIndex, NodeId, OrderedAt, ReplicaId, SpaceId, Term};
use bytes::Bytes;
use core_backends::SpaceRead;
use core_log::Log;
use core_raft::{HardState, Membership, STATE_HARD};

/// Says in a space whose it is.
pub(crate) fn label(spec: &ReplicaSpec, space: SpaceId) -> BatchOperation {
    let record = ReplicaRecord::new(spec.clone(), space, false);
    BatchOperation::Put { space, key: Bytes::from_static(LABEL_KEY), value: record.to_bytes() }
}

/// Where a replica continues.
#[derive(Clone, Debug)]
pub struct Home {
    /// The node.
    pub node: NodeId,
    /// Its disk.
    pub disk: DiskId,
    /// The engine there.
    pub engine: String,
    /// Its space in that engine.
    pub space: SpaceId,
}

/// A replica that continues alone.
#[derive(Clone, Debug)]
pub struct RestoredReplica {
    record: ReplicaRecord,
    meta: ClusterMeta,
}

/// One backend's rows of a space, without anything in front of them.
struct Rows<'a> {
    engine: &'a dyn EngineRead,
    space: SpaceId,
    backend: u8,
}

impl Rows<'_> {
    fn whole(&self, key: &[u8]) -> Vec<u8> {
        [&[self.backend], key].concat()
    }
}

impl SpaceRead for Rows<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.engine.get(self.space, &self.whole(key))
    }

    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        let (start, end) = (self.whole(range.start), range.end.map(|end| self.whole(end)));
        let end = end.unwrap_or_else(|| vec![self.backend + 1]);
        let bounds = KeyRange { start: &start, end: Some(&end) };
        self.engine.range(self.space, bounds, direction, &mut |key, value| visit(&key[1..], value))
    }
}

/// What a space turned out to be.
#[derive(Debug)]
pub enum Found {
    /// A replica.
    Replica(Box<RestoredReplica>),
    /// Nothing whole: a snapshot that was coming in, or a space being dropped.
    Unfinished,
}

impl RestoredReplica {
    /// Reads a space.
    pub fn read(engine: &dyn EngineRead, space: SpaceId, home: Home) -> Result<Found, EngineError> {
        let (Some(label), Some(meta)) = (engine.get(space, LABEL_KEY)?, engine.get(space, META_KEY)?) else {
            return Ok(Found::Unfinished);
        };
        let corrupt = |what: &str, error: &dyn std::fmt::Display| {
            EngineError::Corrupt(format!("the {what} of space {} does not decode: {error}", space.0))
        };
        let mut record = ReplicaRecord::from_bytes(label).map_err(|error| corrupt("label", &error))?;
        let mut meta = ClusterMeta::from_bytes(meta).map_err(|error| corrupt("meta record", &error))?;
        if record.space != space || engine.durable_index(space)? != meta.applied || meta.applied == LogIndex(0) {
            return Ok(Found::Unfinished);
        }
        let replica = record.spec.replica;
        let member = Member { replica, node: home.node, disk: home.disk, learner: false };
        meta.membership = Membership { voters: vec![replica], ..Membership::default() }.into();
        meta.members = vec![member].into();
        record.spec.engine = home.engine.into();
        record.spec.initial_members = vec![member].into();
        record.space = home.space;
        Ok(Found::Replica(Box::new(RestoredReplica { record, meta })))
    }

    /// The cluster's name.
    pub fn name(&self) -> &ClusterName {
        &self.record.spec.name
    }

    /// The cluster, and its generation: of two spaces of one cluster the later counts.
    pub fn order(&self) -> (u64, u32, u64) {
        (self.record.spec.cluster.0, self.record.spec.generation.0, self.meta.applied.0)
    }

    /// Which replica it was.
    pub fn replica(&self) -> ReplicaId {
        self.record.spec.replica
    }

    /// The index it continues from.
    pub fn applied(&self) -> LogIndex {
        self.meta.applied
    }

    /// Where an answer from these rows stands.
    pub fn at(&self) -> OrderedAt {
        let (cluster, generation) = (self.record.spec.cluster, self.record.spec.generation);
        OrderedAt { cluster, generation, term: self.meta.applied_term, index: self.meta.applied, position: u32::MAX }
    }

    /// Answers a query from the rows, as a member answers an eventual read from what it has applied: for who only
    /// reads along.
    pub fn query(&self, engine: &dyn EngineRead, backend: BackendKind, query: &Bytes) -> Result<Bytes, EngineError> {
        let rows = Rows { engine, space: self.record.space, backend: backend as u8 };
        core_backends::query(backend, self.meta.cluster_time_ms, &rows, query)
    }

    /// What the new space says of itself, behind all rows.
    pub fn rows(&self) -> Vec<BatchOperation> {
        let space = self.record.space;
        let put = |key, value| BatchOperation::Put { space, key: Bytes::from_static(key), value };
        vec![
            put(META_KEY, self.meta.to_bytes()),
            put(LABEL_KEY, self.record.to_bytes()),
            BatchOperation::Durable { space, index: self.meta.applied },
        ]
    }

    /// Stages in a new log what makes a replica of it at the next start.
    pub fn stage(&self, log: &mut Log) {
        let (cluster, applied) = (self.record.spec.cluster, self.meta.applied);
        // A term that nobody can have led in: the old world's last may have been later than what is here.
        let term = Term(self.meta.applied_term.0 + 1);
        let replica = self.record.spec.replica;
        let hard_state = HardState { term, commit: applied, replica, ..HardState::default() };
        log.put_state(cluster, STATE_REPLICA, self.record.to_bytes());
        log.compact(cluster, applied, self.meta.applied_term);
        log.put_state(cluster, STATE_HARD, hard_state.to_bytes());
    }
}

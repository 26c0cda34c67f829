//! What a cluster knows of itself: replicated, kept in its space under one key, part of every snapshot.

use crate::api::{Member, ReplicaSpec};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{
    ClusterId, DiskId, Generation, LogIndex, NodeId, ReadConsistency, ReplicaId, SpaceId, Term, WriteConsistency,
};
use bytes::Bytes;
use core_raft::Membership;
use std::rc::Rc;
use std::sync::Arc;

/// The log of a new cluster starts as if entry 1 had been its creation: a replica that joins later
/// can then never be fed from the log alone, it always starts from a snapshot.
pub const FIRST_INDEX: LogIndex = LogIndex(1);
/// The term of the creation.
pub const FIRST_TERM: Term = Term(1);
/// The log's state record that makes a replica: its specification and its space.
pub const STATE_REPLICA: u8 = 2;
/// The log's state record (cluster 0) of clusters destroyed here.
pub const STATE_TOMBSTONES: u8 = 3;
/// The key of the meta record in the cluster's space (first byte: the cluster itself, no backend).
pub const META_KEY: &[u8] = b"\x00meta";
/// Where a space is labelled: the `ReplicaRecord` of whose it is, in the form of the log's record. It belongs
/// to the replica, not to the cluster: nothing that is replicated reads it.
pub const LABEL_KEY: &[u8] = b"\x00label";
/// The most members a cluster has (voters, learners).
pub const MEMBERS_MAX: usize = 128;
const FORMAT: u8 = 1;
/// The replica record's form once a cluster was recovered: its replica there, and those of the life before.
const FORMAT_LIVES: u8 = 2;
/// The meta record's form once an engine was chosen (`AdminCommand::SetEngine`); before, it has the first one.
const FORMAT_ENGINE: u8 = 2;
/// The meta record's form with the number of what was applied (chain.rs).
const FORMAT_CHAIN: u8 = 3;

impl Encode for Member {
    fn encode(&self, out: &mut Writer) {
        out.varint(self.replica.0).varint(self.node.0).u64(self.disk.0).bool(self.learner);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Member {
            replica: ReplicaId(input.varint("replica")?),
            node: NodeId(input.varint("node")?),
            disk: DiskId(input.u64("disk")?),
            learner: input.bool("learner")?,
        })
    }
}

pub fn encode_members(out: &mut Writer, members: &[Member]) {
    out.varint(members.len() as u64);
    for member in members {
        member.encode(out);
    }
}

pub fn decode_members(input: &mut Reader) -> Result<Vec<Member>, DecodeError> {
    let count = input.count("members")?;
    if count > MEMBERS_MAX {
        return Err(DecodeError::TooLarge("members"));
    }
    (0..count).map(|_| Member::decode(input)).collect()
}

impl Encode for ReplicaSpec {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.cluster.0).u32(self.generation.0).string(self.name.as_str());
        out.string(&self.rule).string(&self.engine);
        out.u8(self.consistency as u8).u8(self.read_consistency as u8).varint(self.replica.0);
        encode_members(out, &self.initial_members);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(ReplicaSpec {
            cluster: ClusterId(input.u64("cluster")?),
            generation: Generation(input.u32("generation")?),
            name: input.string("name")?.parse().map_err(|_| DecodeError::Unknown("cluster name"))?,
            rule: input.string("rule")?.into(),
            engine: input.string("engine")?.into(),
            consistency: WriteConsistency::from_byte(input.u8("level")?).ok_or(DecodeError::Unknown("level"))?,
            read_consistency: ReadConsistency::from_byte(input.u8("level")?).ok_or(DecodeError::Unknown("level"))?,
            replica: ReplicaId(input.varint("replica")?),
            initial_members: decode_members(input)?.into(),
        })
    }
}

impl Recovered {
    /// Where the life before ended.
    pub fn at(&self) -> LogIndex {
        self.lives.last().map_or(LogIndex(0), |(at, _)| *at)
    }
}

/// The `STATE_REPLICA` record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaRecord {
    pub spec: ReplicaSpec,
    pub space: SpaceId,
    /// No snapshot has arrived yet: it holds nothing and is nothing.
    pub blank: bool,
    /// It lost what it promised. Kept here, because the log reports rot only until the segment is gone.
    pub damaged: bool,
    /// It began this life of its cluster without a majority (life.rs).
    pub recovered: Option<Recovered>,
    /// Its life is over: this later one has begun without it. Zero: none.
    pub ended: Generation,
}

/// The most lives that entries of one log may belong to, beside the present one.
pub const LIVES_MAX: usize = 8;

/// How a replica began a life of its cluster on its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// The lives before, those of which the engine may lack an entry, each with its last one: the last where its log ended when
    /// the present one began. Membership entries up to there change nothing.
    pub lives: Vec<(LogIndex, Generation)>,
    /// Replicas of the life before all have ids below this.
    pub next_replica: ReplicaId,
}

impl ReplicaRecord {
    /// A replica that is made: nothing has befallen it.
    pub fn new(spec: ReplicaSpec, space: SpaceId, blank: bool) -> ReplicaRecord {
        ReplicaRecord { spec, space, blank, damaged: false, recovered: None, ended: Generation(0) }
    }

    /// Its form without spare room: the log keeps it while the replica lives.
    pub fn kept_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.to_bytes())
    }
}

impl Encode for ReplicaRecord {
    fn encode(&self, out: &mut Writer) {
        let plain = self.recovered.is_none() && self.ended == Generation(0);
        out.u8(if plain { FORMAT } else { FORMAT_LIVES });
        self.spec.encode(out);
        out.u64(self.space.0).bool(self.blank).bool(self.damaged);
        if !plain {
            out.option(self.recovered.as_ref(), |out, recovered| {
                out.varint(recovered.lives.len() as u64);
                recovered.lives.iter().for_each(|(at, life)| {
                    out.varint(at.0).u32(life.0);
                });
                out.varint(recovered.next_replica.0);
            });
            out.u32(self.ended.0);
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let format = input.u8("replica record format")?;
        if ![FORMAT, FORMAT_LIVES].contains(&format) {
            return Err(DecodeError::version("replica record", format, FORMAT_LIVES));
        }
        let spec = ReplicaSpec::decode(input)?;
        let mut record = ReplicaRecord::new(spec, SpaceId(input.u64("space")?), input.bool("blank")?);
        record.damaged = input.bool("damaged")?;
        if format == FORMAT_LIVES {
            record.recovered = input.option("recovered", |input| {
                let count = input.count("lives")?;
                if count > LIVES_MAX {
                    return Err(DecodeError::TooLarge("lives"));
                }
                let life = |_| Ok((LogIndex(input.varint("recovered at")?), Generation(input.u32("generation")?)));
                let lives = (0..count).map(life).collect::<Result<_, DecodeError>>()?;
                Ok(Recovered { lives, next_replica: ReplicaId(input.varint("next replica")?) })
            })?;
            record.ended = Generation(input.u32("ended by")?);
        }
        Ok(record)
    }
}

/// The engine a cluster was moved to, in the place of the one its rule was made with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChosenEngine {
    pub engine: String,
    /// Replica ids are given once and grow: one below this was made before, and is to be replaced by one made since. So
    /// no member's engine need be known to anybody but itself, and what is left to do is seen in the members alone.
    pub since: ReplicaId,
}

/// The cluster's own replicated state at one index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterMeta {
    pub applied: LogIndex,
    pub applied_term: Term,
    /// LaneContext with the snapshot points made of it, and with other replicas (interner.rs).
    pub membership: Rc<Membership>,
    /// Sorted by replica; shared with the last report to the node, and with other replicas (interner.rs).
    pub members: Arc<[Member]>,
    /// The next replica id to give.
    pub next_replica: ReplicaId,
    pub consistency: WriteConsistency,
    pub read_consistency: ReadConsistency,
    /// `None`: the rule's, as it was made.
    pub engine: Option<Rc<ChosenEngine>>,
    /// The stamp of the last applied entry.
    pub cluster_time_ms: u64,
    /// The same entry's stamp that request ids expire by.
    pub id_time_ms: u64,
    /// What was applied, in one number (chain.rs). `None`: by a release that kept none.
    pub chain: Option<u64>,
}

/// The membership of a cluster with one voter.
pub fn alone(replica: ReplicaId) -> Rc<Membership> {
    Rc::new(Membership { voters: vec![replica], ..Membership::default() })
}

impl ClusterMeta {
    /// A cluster as it is created; a blank replica has no members.
    pub fn initial(spec: &ReplicaSpec) -> ClusterMeta {
        let blank = spec.initial_members.is_empty();
        let mut members = spec.initial_members.to_vec();
        members.sort_unstable();
        let next = members.iter().map(|member| member.replica.0).max().unwrap_or(0) + 1;
        ClusterMeta {
            applied: if blank { LogIndex(0) } else { FIRST_INDEX },
            applied_term: if blank { Term(0) } else { FIRST_TERM },
            membership: Rc::new(Membership {
                voters: members.iter().map(|member| member.replica).collect(),
                ..Membership::default()
            }),
            members: members.into(),
            next_replica: ReplicaId(next),
            consistency: spec.consistency,
            read_consistency: spec.read_consistency,
            engine: None,
            cluster_time_ms: 0,
            id_time_ms: 0,
            chain: (!blank).then_some(0),
        }
    }

    /// A replica that began its life on its own is its only member until an entry of that life says otherwise: what its
    /// engine holds may be older.
    pub(crate) fn begin_with(&mut self, record: &ReplicaRecord, own: Member) {
        let recovered = record.recovered.as_ref().filter(|recovered| self.applied <= recovered.at());
        let Some(recovered) = recovered else { return };
        self.membership = alone(own.replica);
        self.members = Arc::new([own]);
        self.next_replica = self.next_replica.max(recovered.next_replica);
    }

    /// Who runs on a node.
    pub fn member_on(&self, node: NodeId) -> Option<Member> {
        self.members.iter().copied().find(|member| member.node == node)
    }

    /// Replicas below this are to be replaced; zero: none.
    pub fn engine_since(&self) -> ReplicaId {
        self.engine.as_ref().map_or(ReplicaId(0), |chosen| chosen.since)
    }

    /// Where a replica runs.
    pub fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        self.members.iter().find(|member| member.replica == replica).map(|member| member.node)
    }
}

impl Encode for ClusterMeta {
    fn encode(&self, out: &mut Writer) {
        let format = match (self.chain, &self.engine) {
            (Some(_), _) => FORMAT_CHAIN,
            (None, Some(_)) => FORMAT_ENGINE,
            (None, None) => FORMAT,
        };
        out.u8(format).varint(self.applied.0).varint(self.applied_term.0);
        self.membership.encode(out);
        encode_members(out, &self.members);
        out.varint(self.next_replica.0).u8(self.consistency as u8).u8(self.read_consistency as u8);
        out.varint(self.cluster_time_ms).varint(self.id_time_ms);
        if let Some(chain) = self.chain {
            out.u64(chain).bool(self.engine.is_some());
        }
        if let Some(chosen) = &self.engine {
            out.string(&chosen.engine).varint(chosen.since.0);
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let format = input.u8("meta format")?;
        if ![FORMAT, FORMAT_ENGINE, FORMAT_CHAIN].contains(&format) {
            return Err(DecodeError::version("meta record", format, FORMAT_CHAIN));
        }
        let mut meta = ClusterMeta {
            applied: LogIndex(input.varint("applied")?),
            applied_term: Term(input.varint("applied term")?),
            membership: Rc::new(Membership::decode(input)?),
            members: decode_members(input)?.into(),
            next_replica: ReplicaId(input.varint("next replica")?),
            consistency: WriteConsistency::from_byte(input.u8("level")?).ok_or(DecodeError::Unknown("level"))?,
            read_consistency: ReadConsistency::from_byte(input.u8("level")?).ok_or(DecodeError::Unknown("level"))?,
            engine: None,
            cluster_time_ms: input.varint("cluster time")?,
            id_time_ms: input.varint("id time")?,
            chain: None,
        };
        if format == FORMAT_CHAIN {
            meta.chain = Some(input.u64("chain")?);
        }
        if format == FORMAT_ENGINE || (format == FORMAT_CHAIN && input.bool("engine chosen")?) {
            let (engine, since) = (input.string("engine")?, ReplicaId(input.varint("engine since")?));
            meta.engine = Some(Rc::new(ChosenEngine { engine, since }));
        }
        Ok(meta)
    }
}

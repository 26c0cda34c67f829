//! What goes into a [`crate::Lane`] and what comes out: operations on local replicas, messages for
//! peers, jobs for the engine.

pub use crate::request_id_terms::RequestIdTerms;
use base_engine::{BatchOperation, Engine, EngineError, VerifiedPart, WriteBatch};
use base_types::mutant::{planted, Mutant};
use base_types::{
    BackendKind, ClusterId, ClusterName, DiskId, FormatLevel, Generation, LogIndex, NodeId, OrderedAt, ReadConsistency,
    Refusal, ReplicaId, RequestId, SpaceId, Term, Tick, Ticket, WriteConsistency,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The longest that a member keeps a read that waits for a change (parked.rs).
pub const PARK_MAX: Duration = Duration::from_secs(10);

/// Keys of a whole space, each with its new value or (`None`) its tombstone.
pub type Layer = BTreeMap<Bytes, Option<Bytes>>;

/// What a node must know to hold a replica. The same on every initial member but for `replica`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaSpec {
    pub cluster: ClusterId,
    pub generation: Generation,
    pub name: ClusterName,
    /// The rule as text (core-placement parses it).
    pub rule: Arc<str>,
    /// The engine's name.
    pub engine: Arc<str>,
    pub consistency: WriteConsistency,
    pub read_consistency: ReadConsistency,
    /// This replica.
    pub replica: ReplicaId,
    /// The cluster's first members; empty for a replica that joins later (it starts blank, as nothing, and is sent a snapshot).
    pub initial_members: Arc<[Member]>,
}

/// A member: which replica, on which node, on which disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct Member {
    pub replica: ReplicaId,
    pub node: NodeId,
    pub disk: DiskId,
    pub learner: bool,
}

/// Something to do on a local replica. Each gets exactly one [`Completion`] with its ticket.
#[derive(Clone, PartialEq, Debug)]
pub struct LocalOperation {
    pub ticket: Ticket,
    pub cluster: ClusterId,
    pub generation: Generation,
    /// Local time after which it is given up (a write that was proposed then ends `Unknown`).
    pub deadline: Tick,
    pub kind: LocalKind,
}

#[derive(Clone, PartialEq, Debug)]
pub enum LocalKind {
    Write {
        backend: BackendKind,
        command: Bytes,
        consistency: Option<WriteConsistency>,
        request_id: RequestId,
        /// The router's estimate of the cluster's own clock when it sent this (milliseconds; 0: no
        /// estimate yet). Guards exactly-once against frames that were long under way: see
        /// docs/decisions (cluster time). A refusal `StaleRoute` carries the right time; the router
        /// rebases and sends again.
        cluster_time_ms: u64,
    },
    Read {
        backend: BackendKind,
        query: Bytes,
        consistency: Option<ReadConsistency>,
    },
    Admin(AdminCommand),
}

/// Changes of the cluster itself; leader only.
#[derive(Clone, PartialEq, Debug)]
pub enum AdminCommand {
    /// Learner, snapshot, voter. Idempotent: done when the node is a voter on this disk.
    AddMember {
        node: NodeId,
        disk: DiskId,
    },
    RemoveMember {
        node: NodeId,
    },
    /// A node came back with a new disk: removes its old replica and adds a new one, jointly.
    ReplaceDisk {
        node: NodeId,
        disk: DiskId,
    },
    /// A member's place goes to another node: that one joins as a learner, and once it has caught up it
    /// becomes a voter in the same joint change in which the old member goes. Done when the one is a voter
    /// on this disk and the other is no member.
    ReplaceMember {
        from: NodeId,
        node: NodeId,
        disk: DiskId,
    },
    TransferLeader {
        node: NodeId,
    },
    /// A member's replica is replaced by a new one on the same node and disk: what a node without another to take its
    /// place does to move to another engine. Done when the node's replica is a later one that votes.
    RenewMember {
        node: NodeId,
        replica: ReplicaId,
    },
    /// Replicas made from now on are in this engine; those there are stay until they are replaced.
    SetEngine {
        engine: String,
    },
    SetDefaultConsistency {
        consistency: Option<WriteConsistency>,
        read_consistency: Option<ReadConsistency>,
    },
    /// An entry that no member can apply is passed without a change, by all (quarantine.rs).
    SkipEntry {
        index: LogIndex,
    },
    /// The leader's view of members and progress.
    Describe,
    /// Every member checks every pair at one index; answered when all have, or at the deadline with how far
    /// they are. `run`: the one begun before.
    Verify {
        run: Option<u64>,
    },
}

/// How an operation ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Completion {
    pub ticket: Ticket,
    pub outcome: LocalOutcome,
}

#[derive(Clone, PartialEq, Debug)]
pub enum LocalOutcome {
    /// A write reached its level. `reply` is the backend's (empty for hopeful and eventual: not applied yet).
    Written {
        reply: Bytes,
        at: OrderedAt,
        level: WriteConsistency,
        cluster_time_ms: u64,
    },
    Read {
        reply: Bytes,
        at: OrderedAt,
        level: ReadConsistency,
        cluster_time_ms: u64,
    },
    Described(ClusterDescription),
    Verified(Box<ClusterVerification>),
    AdminDone {
        at: OrderedAt,
    },
    /// An absolute write committed, but its deadline came before every member had it.
    CommittedNotAbsolute {
        reply: Bytes,
        at: OrderedAt,
        missing: Vec<NodeId>,
    },
    /// A write at level `s3` committed, but its deadline (or the end of this leader's term) came before a bucket had
    /// it. `kept`: what is known to be in one (0: no member is known to have one).
    CommittedNotKept {
        reply: Bytes,
        at: OrderedAt,
        kept: LogIndex,
    },
    /// Not led here. The router asks `leader`, or another member.
    NotLeader {
        leader: Option<NodeId>,
        term: Term,
        members: Vec<Member>,
    },
    /// No such replica here (any more), or another generation.
    NoSuchCluster,
    /// The route's clock estimate is too far off: rebase to `cluster_time_ms` and send again.
    StaleRoute {
        cluster_time_ms: u64,
    },
    /// Definitely not applied.
    Refused(Refusal),
    /// Proposed, and then the outcome was lost from sight (deadline, leadership lost).
    Unknown {
        message: String,
    },
}

/// The answer to `Describe`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterDescription {
    pub cluster: ClusterId,
    pub generation: Generation,
    pub name: ClusterName,
    /// As it is now: with the engine that was chosen since.
    pub rule: String,
    /// What the leader's own replica is in.
    pub engine: String,
    /// Members below this replica were made before the engine was chosen, and are still to be replaced; zero: none.
    pub engine_since: ReplicaId,
    pub leader: Option<NodeId>,
    pub term: Term,
    pub commit: LogIndex,
    pub applied: LogIndex,
    pub consistency: WriteConsistency,
    pub read_consistency: ReadConsistency,
    /// Each with the last index known in its log (0 unknown).
    pub members: Vec<(Member, LogIndex)>,
    /// Members that keep the cluster in a bucket, and the last index known to be there.
    pub kept: Vec<(NodeId, LogIndex)>,
    pub quiesced: bool,
    pub cluster_time_ms: u64,
}

/// What a verification found so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterVerification {
    pub cluster: ClusterId,
    pub generation: Generation,
    pub name: ClusterName,
    pub run: u64,
    /// Every member has told, or does not answer.
    pub done: bool,
    /// Where the members are compared; zero: not known yet.
    pub index: LogIndex,
    pub members: Vec<MemberVerification>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberVerification {
    pub member: Member,
    pub told: Verified,
}

/// What a member says of its pairs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verified {
    /// It has not come to the mark.
    Unknown,
    /// So many pairs so far.
    Walking { pairs: u64 },
    /// All pairs at this index; the digest is of those that are whole.
    Checked { index: LogIndex, pairs: u64, bytes: u64, hash: u64, damaged: u64 },
    /// It could not stand still at the mark (a flush was under way), or its snapshot expired.
    Missed,
    /// Its engine cannot be read.
    Unreadable { message: String },
    /// It does not answer.
    Silent,
}

impl Verified {
    /// Whether nothing more is to be expected.
    pub fn is_final(&self) -> bool {
        !matches!(self, Verified::Unknown | Verified::Walking { .. })
    }
}

/// What a lane wants done; drained after every turn.
#[derive(Debug, Default)]
pub struct LaneOutput {
    pub completions: Vec<Completion>,
    /// For the lane of this cluster on that node; core-node batches them, one frame a peer a turn.
    pub messages: Vec<PeerMessage>,
    /// For the log's disk, in order.
    pub log: Vec<core_log::LogAction>,
    /// For the engine's writer thread; ends with `Lane::on_engine_done`.
    pub engine: Vec<EngineJob>,
    /// What happened to replicas here.
    pub notices: Vec<Notice>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerMessage {
    pub to: NodeId,
    pub cluster: ClusterId,
    pub generation: Generation,
    /// Opaque to core-node; the receiving lane decodes it in `on_peer_message`.
    pub payload: Bytes,
}

/// Work for the thread beside the core that writes the engine. One at a time per engine.
#[derive(Clone, Debug)]
pub struct EngineJob {
    pub job: u64,
    /// The engine's name.
    pub engine: String,
    pub work: EngineWork,
}

/// What a flush writes: layers of overlays as they are, each of a space, and what goes beside them. They become a batch
/// where they are written: there are ten thousands of pairs, for which the core would stand still.
#[derive(Clone, Debug, Default)]
pub struct Flush {
    pub layers: Vec<(SpaceId, Arc<Layer>)>,
    pub beside: Vec<BatchOperation>,
}

impl Flush {
    fn batch(&self) -> WriteBatch {
        let pairs: usize = self.layers.iter().map(|(_, layer)| layer.len()).sum();
        let mut operations = Vec::with_capacity(pairs + self.beside.len());
        for (space, layer) in &self.layers {
            let space = *space;
            for (key, value) in layer.iter() {
                let key = key.clone();
                match value {
                    Some(value) => operations.push(BatchOperation::Put { space, key, value: value.clone() }),
                    None if planted(Mutant::DeleteLostInFlush) => {}
                    None => operations.push(BatchOperation::Delete { space, key }),
                }
            }
        }
        operations.extend(self.beside.iter().cloned());
        WriteBatch { operations }
    }
}

#[derive(Clone, Debug)]
pub enum EngineWork {
    Write(Arc<WriteBatch>),
    Flush(Arc<Flush>),
    /// Layers that are written are let go of: with all their pairs that takes longer than a core should stand still.
    Forget(Vec<Arc<Layer>>),
    DropSpace {
        space: base_types::SpaceId,
        limit: usize,
    },
    /// A part of what the engine keeps is read and checked (`Engine::verify`).
    Verify {
        after: Bytes,
    },
}

/// What a job came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EngineAnswer {
    Done,
    /// A drop has more to do.
    More,
    Verified(VerifiedPart),
}

impl EngineWork {
    /// Does it, on the engine's thread.
    pub fn carry_out(&self, engine: &dyn Engine) -> Result<EngineAnswer, EngineError> {
        match self {
            EngineWork::Write(batch) => engine.write(batch).map(|()| EngineAnswer::Done),
            EngineWork::Flush(flush) => engine.write(&flush.batch()).map(|()| EngineAnswer::Done),
            EngineWork::Forget(_) => Ok(EngineAnswer::Done),
            EngineWork::DropSpace { space, limit } => {
                let more = engine.drop_space(*space, *limit)?;
                Ok(if more { EngineAnswer::More } else { EngineAnswer::Done })
            }
            EngineWork::Verify { after } => engine.verify(after).map(EngineAnswer::Verified),
        }
    }
}

/// What the node should know about a local replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// Leadership, members or engine as seen here changed; for caches and the config cluster.
    Changed {
        cluster: ClusterId,
        generation: Generation,
        name: ClusterName,
        leader: Option<NodeId>,
        members: Arc<[Member]>,
        /// Members below this replica are to be replaced by ones in another engine.
        engine_since: ReplicaId,
    },
    /// Who leads has changed, or is about to: for the operator.
    Leadership { name: ClusterName, term: Term, event: Leadership },
    /// The replica is gone from this node (removed, or the cluster deleted).
    Gone { cluster: ClusterId, name: ClusterName, replica: ReplicaId },
    /// This replica lost what it promised (rot that no peer could mend): it waits to be replaced.
    Damaged { cluster: ClusterId, name: ClusterName, message: String },
    /// This replica serves nothing: it cannot apply an entry, or its group is not to be trusted.
    Quarantined { cluster: ClusterId, name: ClusterName, message: String },
    /// It serves again.
    Released { cluster: ClusterId, name: ClusterName },
    /// A later life of the cluster has begun without this replica: it serves nothing, and is kept until it is discarded.
    Ended { cluster: ClusterId, name: ClusterName, replica: ReplicaId, by: Generation, message: String },
    /// This replica began a life of its cluster on its own.
    Recovered { cluster: ClusterId, name: ClusterName, message: String },
    /// Pairs of a replica read as damaged, were mended, or cannot be.
    Mending { cluster: ClusterId, name: ClusterName, message: String, lost: bool },
    /// A scrub cannot read an engine.
    ScrubFailed { engine: String, message: String },
    /// The log failed: nothing is acknowledged any more; the process should end and recover.
    LogFailed { message: String },
    /// An engine failed: nothing is acknowledged any more; the process should end and recover.
    EngineFailed { engine: String, message: String },
    /// A peer addressed a cluster that is not here; core-node may answer with what it knows.
    UnknownCluster { from: NodeId, cluster: ClusterId, generation: Generation },
}

/// A change of who leads a cluster, as a replica sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Leadership {
    /// This replica leads. `before`: the last leader it knew.
    Begun { before: Option<NodeId>, reason: &'static str },
    /// It asked this member to lead in its place.
    HandingOver { to: NodeId, reason: &'static str },
    /// It no longer leads, and nobody took over that it knows of.
    Ended { reason: &'static str },
}

/// How a lane is set up.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    pub node: NodeId,
    pub disk: DiskId,
    pub lane: base_types::LaneId,
    /// What the log's checksums cover: a hash of world, disk and lane.
    pub log_identity: u64,
    /// The batch that the log is known to have reached, by a mark kept outside its files. 0: it may be new.
    pub log_reached: u64,
    pub seed: u64,
    pub tick_ms: u64,
    pub heartbeat_ticks: usize,
    pub election_ticks: usize,
    pub quiesce_after_ticks: u32,
    /// Whether a leader answers strong reads by itself while its lease lasts; else each waits for a round (reads.rs).
    pub read_leases: bool,
    /// A leader whose log write takes so many election timeouts hands leadership over; zero: never (log_stall.rs).
    pub log_stall_elections: u32,
    /// A log write that takes longer counts as failed, in time in which the process runs.
    pub log_stall_ms: u64,
    pub flush_bytes: u64,
    pub flush_after_ms: u64,
    pub log_keep_bytes: u64,
    pub snapshot_chunk_bytes: usize,
    /// How much a scrub reads of each engine in a second; zero: there is none.
    pub scrub_bytes_per_second: u64,
    /// A round of a scrub begins no sooner than so long behind the one before.
    pub scrub_round_ms: u64,
    /// Each space says in itself whose it is (`restore.rs`): for engines that outlive the node.
    pub label_spaces: bool,
    /// Replicas in this engine are durable tails (`archive_ack.rs`): it outlives the machine. Only with `label_spaces`.
    pub tail_engine: Option<Arc<str>>,
    /// Until then rare orders are made common (buggify.rs): simulator only, else `Tick(0)`.
    pub buggify_until: Tick,
    /// Commands of this kind are kept when they were applied, with their replies, for who watches the order of things
    /// (`Lane::take_witnessed`): simulator only, else `None`.
    pub witness: Option<BackendKind>,
    /// How long state machines keep what may still be asked for: alike on all nodes.
    pub keep: core_backends::Keep,
    /// How long and how many request ids are remembered: other than the default in the simulator only.
    pub request_ids: RequestIdTerms,
    /// The world's format level: what this lane may write.
    pub level: FormatLevel,
    /// The greatest level that this program serves: what this lane reads.
    pub level_max: FormatLevel,
    pub log: core_log::LogConfig,
}

/// A replica here that came to lead. For the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Won {
    pub cluster: ClusterId,
    pub generation: Generation,
    pub term: Term,
}

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

/// A replica here that began a life of its cluster alone, and what its log held then. For the simulator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begun {
    pub cluster: ClusterId,
    /// The life before.
    pub ended: Generation,
    /// The last entry of its log.
    pub last: LogIndex,
    /// From which entry on its log has which term. What lies before the first is committed and compacted.
    pub terms: Vec<(LogIndex, Term)>,
}

impl Begun {
    /// Whether it held the entry of this index and term.
    pub fn keeps(&self, term: Term, index: LogIndex) -> bool {
        let of = self.terms.iter().rev().find(|(from, _)| *from <= index);
        index <= self.last && of.is_none_or(|(_, held)| *held == term)
    }
}

/// A command that a replica has applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Witnessed {
    pub cluster: ClusterId,
    pub generation: Generation,
    pub name: ClusterName,
    pub index: LogIndex,
    pub command: Bytes,
    pub reply: Bytes,
}

/// A local replica at a glance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaView {
    pub cluster: ClusterId,
    pub generation: Generation,
    pub name: ClusterName,
    pub replica: ReplicaId,
    /// Where its engine keeps it.
    pub space: SpaceId,
    pub leader: Option<NodeId>,
    pub is_leader: bool,
    pub is_learner: bool,
    pub term: Term,
    pub commit: LogIndex,
    pub applied: LogIndex,
    pub quiesced: bool,
    pub damaged: bool,
    /// A later life of its cluster has begun without it, this one. Zero: none.
    pub ended: Generation,
    /// It serves nothing, and why.
    pub quarantined: Option<Arc<str>>,
    /// Pairs of its engine are known to be damaged, and not mended yet (or never).
    pub mending: bool,
    /// Blank: waits for its first snapshot.
    pub blank: bool,
    pub members: Arc<[Member]>,
    /// Members below this replica are to be replaced by ones in another engine.
    pub engine_since: ReplicaId,
    pub cluster_time_ms: u64,
}

/// A local replica in short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Glance {
    pub cluster: ClusterId,
    pub generation: Generation,
    pub term: Term,
    pub is_leader: bool,
    pub quiesced: bool,
    /// Until when it answers strong reads by itself, if it leads.
    pub lease_until: Tick,
    pub applied: LogIndex,
    pub cluster_time_ms: u64,
    pub damaged: bool,
    pub quarantined: bool,
    /// It is quarantined because of a panic: never the doing of a disk.
    pub panicked: bool,
    pub blank: bool,
}

/// Counters of a lane; all only grow but the gauges (`replicas`, `leaders`, `quiesced`, `overlay_bytes`, `pairs_damaged`, `tail…`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneStatistics {
    pub replicas: u64,
    pub leaders: u64,
    pub quiesced: u64,
    pub overlay_bytes: u64,
    pub log_segments: u64,
    pub log_batches: u64,
    pub log_bytes: u64,
    /// What the last start cut off the log's end as torn.
    pub log_cut_records: u64,
    pub log_cut_bytes: u64,
    pub proposals: u64,
    pub entries_applied: u64,
    pub commands_applied: u64,
    pub duplicates_suppressed: u64,
    /// Writes refused because commits took longer than they had left.
    pub writes_too_late: u64,
    pub reads_lease: u64,
    pub reads_index: u64,
    pub reads_eventual: u64,
    pub elections_started: u64,
    /// Times a log write stalled and this lane's leaders began to hand leadership over.
    pub log_stalls: u64,
    pub elections_won: u64,
    pub snapshots_sent: u64,
    pub snapshots_installed: u64,
    pub entries_repaired: u64,
    /// Entries, bytes and whole rounds of scrubs, and parts that could not be read.
    pub scrub_entries: u64,
    pub scrub_bytes: u64,
    pub scrub_rounds: u64,
    pub scrub_failures: u64,
    /// Pairs that are being mended now.
    pub pairs_damaged: u64,
    /// Pairs found damaged, put again from another member's or overwritten meanwhile, and given up: damaged everywhere.
    pub pairs_found_damaged: u64,
    pub pairs_repaired: u64,
    pub pairs_lost: u64,
    /// Replicas given up because pairs could not be mended one by one: rebuilt as damaged ones.
    pub replicas_rebuilt: u64,
    /// Replicas that serve nothing now, how often that began, and entries passed by an operator's word.
    pub replicas_quarantined: u64,
    pub quarantines: u64,
    pub entries_skipped: u64,
    /// Replicas given up because they contradict the majority of their cluster.
    pub contradictions: u64,
    pub messages_sent: u64,
    pub flushes: u64,
    /// Replicas here that are durable tails.
    pub tails: u64,
    /// Entries applied to them and not yet in their buckets.
    pub tail_entries_behind: u64,
    /// The age of the oldest of those.
    pub tail_lag_ms: u64,
    /// Entries by which the voter that lags most is behind its leader here, of those that answer.
    pub follower_lag_entries: u64,
    /// Members that leaders here have not heard from lately.
    pub followers_silent: u64,
}

/// A cluster that is led here, and how busy it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BusyCluster {
    pub name: ClusterName,
    /// Entries committed in the life of the cluster.
    pub entries: u64,
    /// Of them, since it was last looked at.
    pub recent: u64,
}

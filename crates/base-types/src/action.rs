//! What a door may ask of a node, and what it gets back. Doors translate their protocol to an
//! [`Action`] and an [`Answer`] to their protocol; they decide nothing else.
//!
//! Names follow the HTTP JSON API: action `KvPut` is [`Action::KvPut`], its fields are these fields.
//! Not here: how an action is carried out (`core-node`), bytes on the wire (`door-*`).

use crate::access::{AccessAction, AccessAnswer, Caller};
pub use crate::redis::RedisReply;
use crate::redis::{RedisAnswer, RedisCall};
use crate::versioned::VersionedCall;
use crate::{
    ClusterId, ClusterName, FormatLevel, Generation, LogIndex, NodeId, OrderedAt, PartitionId, ReadConsistency,
    Refusal, ReplicaId, RequestId, WriteConsistency,
};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;

/// One request of a client: an action and what is common to all of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// What to do.
    pub action: Action,
    /// The level of a write; the cluster's default where absent.
    pub consistency: Option<WriteConsistency>,
    /// The level of a read; the cluster's default where absent.
    pub read_consistency: Option<ReadConsistency>,
    /// How long the client will wait; at most `DEADLINE_MAX`.
    pub deadline: Duration,
    /// Equal ids apply once; drawn by the node where the client names none.
    pub request_id: Option<RequestId>,
    /// What the client has seen: a read answers nothing older.
    pub after: Option<ReadAfter>,
    /// Whose the bucket must be that a call of S3 is about; one that is another's, or becomes so on the way, is left
    /// alone (`AccessDenied`). (`DeleteBucket` has a field of its own for it.)
    pub expected_bucket_owner: Option<String>,
    /// Who asks, as the door found out. Never taken from the request itself.
    pub caller: Caller,
}

/// A position that a client's session has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadAfter {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its generation.
    pub generation: Generation,
    /// The log index.
    pub index: LogIndex,
}

impl ReadAfter {
    /// Whether what was read there holds all that was seen. Positions of another cluster say nothing.
    pub fn is_met(&self, at: &OrderedAt) -> bool {
        (self.cluster, self.generation) == (at.cluster, at.generation) && at.index >= self.index
    }
}

/// Where a key lives: in a keyspace, or directly in one cluster's `metadata` backend.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum KvTarget {
    /// A keyspace by name.
    Keyspace(String),
    /// A cluster that has a `metadata` backend.
    Cluster(ClusterName),
}

/// How a keyspace maps keys to its virtual partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partitioning {
    /// By order: a partition is a range of keys; scans stay cheap.
    Range,
    /// By hash: even load; scans merge all partitions.
    Hash,
}

/// What a keyspace keeps of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeyspaceKind {
    /// The newest value of each, in any number of partitions and clusters.
    #[default]
    Plain,
    /// Every version until it is compacted, with leases and transactions; one partition in one cluster.
    Versioned,
    /// What Redis commands make of them: a database of the Redis door; one partition in one cluster.
    Redis,
}

impl KeyspaceKind {
    /// The kind's word.
    pub fn as_str(self) -> &'static str {
        match self {
            KeyspaceKind::Plain => "plain",
            KeyspaceKind::Versioned => "versioned",
            KeyspaceKind::Redis => "redis",
        }
    }
}

/// One step of a `KvBatch`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BatchStep {
    /// Sets a key.
    Put {
        /// The key.
        key: Bytes,
        /// Its new value.
        value: Bytes,
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: Bytes,
    },
}

/// Everything a client can ask for.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // The fields are the HTTP JSON API's own; docs/guides/api has each.
pub enum Action {
    /// Sets a key.
    KvPut { target: KvTarget, key: Bytes, value: Bytes },
    /// Reads a key.
    KvGet { target: KvTarget, key: Bytes },
    /// Removes a key; says whether it was there.
    KvDelete { target: KvTarget, key: Bytes },
    /// Reads keys in order. `start_after` is exclusive; `end` is exclusive; `prefix` narrows both.
    /// `reverse` walks from the end down (`start_after` is then the exclusive upper bound).
    KvScan {
        target: KvTarget,
        prefix: Bytes,
        start_after: Option<Bytes>,
        end: Option<Bytes>,
        limit: u32,
        reverse: bool,
        keys_only: bool,
    },
    /// Several steps, all or none, in one cluster.
    KvBatch { target: KvTarget, steps: Vec<BatchStep> },
    /// Sets (`value: Some`) or removes (`None`) a key if its value is `expected` (`None`: absent).
    KvCompareAndSet { target: KvTarget, key: Bytes, expected: Option<Bytes>, value: Option<Bytes> },

    /// Makes a keyspace of `partitions` virtual partitions over `clusters` clusters. `split_keys`
    /// (range only) are the lower bounds of partitions 1…; evenly cut by the first byte where absent.
    CreateKeyspace {
        keyspace: String,
        kind: KeyspaceKind,
        partitioning: Partitioning,
        partitions: u16,
        clusters: u16,
        split_keys: Vec<Bytes>,
        rule: String,
        engine: Option<String>,
    },
    /// Removes a keyspace and its clusters.
    DeleteKeyspace { keyspace: String },
    /// Describes a keyspace's partitions and clusters.
    DescribeKeyspace { keyspace: String },
    /// Lists keyspaces.
    ListKeyspaces,
    /// Spreads a keyspace's partitions over `clusters` clusters, online. Returns at once; progress in `DescribeKeyspace`.
    Reshard { keyspace: String, clusters: u16 },

    /// Makes a cluster by a rule such as `size=5 location=fr-par failure_domain=az`.
    CreateCluster { name: ClusterName, rule: String },
    /// Deletes a cluster and its data.
    DeleteCluster { name: ClusterName },
    /// Where a cluster is: id, generation, members, last known leader.
    ResolveCluster { name: ClusterName },
    /// As `ResolveCluster`, with the members' progress, asked of the leader.
    DescribeCluster { name: ClusterName },
    /// Every member checks every pair at one index, and their results are compared. Answers at the deadline at the
    /// latest, with the progress so far; a retry with `run` follows the same run.
    VerifyCluster { name: ClusterName, run: Option<u64> },
    /// Lists clusters by name.
    ListClusters { prefix: String, start_after: Option<String>, limit: u32 },
    /// Hands leadership to a member.
    TransferLeader { name: ClusterName, node: NodeId },
    /// Adds a replica: learner, snapshot, then voter.
    AddMember { name: ClusterName, node: NodeId },
    /// Has an entry skipped that no member can apply: the cluster is quarantined at it.
    SkipEntry { name: ClusterName, index: LogIndex },
    /// Surveys what is left of a cluster whose majority is gone for good; with its name as confirmation, begins a new life of
    /// it on the best survivor; refused if `survivor` is given and another one is best by now.
    RecoverCluster { name: ClusterName, confirm: Option<String>, survivor: Option<NodeId> },
    /// Lists recoveries, of one cluster or of all.
    ListRecoveries { name: Option<ClusterName> },
    /// Removes what an ended life of a cluster left on a node.
    DiscardEnded { name: ClusterName, node: NodeId },
    /// Removes a node's replica.
    RemoveMember { name: ClusterName, node: NodeId },
    /// Puts a node's replica on another node: on `to`, or on the one the rule and the scores say. The newcomer
    /// learns first, and votes in the same change in which the old one goes.
    MoveMember { name: ClusterName, from: NodeId, to: Option<NodeId> },
    /// Has a cluster, or every cluster of a keyspace, be kept in another engine: new replicas are made in it, and those
    /// there are follow one by one. Returns at once; progress in `DescribeCluster`.
    SetEngine { target: KvTarget, engine: String },
    /// Changes a cluster's default levels.
    SetDefaultConsistency {
        name: ClusterName,
        consistency: Option<WriteConsistency>,
        read_consistency: Option<ReadConsistency>,
    },

    /// Runs a command of the `redis` backend, for example `["SET", "k", "v", "NX"]`: in a keyspace of the kind `redis` (its database 0),
    /// or in a cluster with such a backend.
    Redis { target: KvTarget, command: Vec<Bytes> },

    /// A call of the Redis door: many commands at once, transactions, waits. Where: as `Redis`.
    RedisCall { target: KvTarget, call: Box<RedisCall> },

    /// A call on keys with versions: in a keyspace of the kind `versioned`, or in a cluster with such a backend.
    Versioned { target: KvTarget, call: Box<VersionedCall> },

    /// A call of the S3 API.
    S3(crate::s3::S3Action),

    /// A call on users, roles, tokens and tenants.
    Access(AccessAction),

    /// The node map.
    ListNodes,
    /// Drains the asked node, or ends that: it hands over what it leads to members that can lead, keeps its replicas, and takes no
    /// leadership over. It is not kept: a node that restarts is not drained. Returns at once; a retry reports how many are left.
    DrainNode { node: NodeId, drained: bool },
    /// Takes a node out of service: nothing new is put there, and every replica moves away under its rule. Returns at
    /// once; a retry reports how many are left.
    DecommissionNode { node: NodeId },
    /// Takes a node back into service.
    RecommissionNode { node: NodeId },
    /// Strikes a node off the list that is gone for good: it is down and no cluster's member.
    ForgetNode { node: NodeId },
    /// Which formats the world writes, and what an upgrade of them waits for.
    UpgradeStatus,
    /// Raises the formats to the greatest level that the asked node serves; no older build can come back.
    FinalizeUpgrade,
    /// The health of the world as this node sees it.
    Status,
}

impl Action {
    /// The action's name in the HTTP JSON API.
    pub fn name(&self) -> &'static str {
        match self {
            Action::KvPut { .. } => "KvPut",
            Action::KvGet { .. } => "KvGet",
            Action::KvDelete { .. } => "KvDelete",
            Action::KvScan { .. } => "KvScan",
            Action::KvBatch { .. } => "KvBatch",
            Action::KvCompareAndSet { .. } => "KvCompareAndSet",
            Action::CreateKeyspace { .. } => "CreateKeyspace",
            Action::DeleteKeyspace { .. } => "DeleteKeyspace",
            Action::DescribeKeyspace { .. } => "DescribeKeyspace",
            Action::ListKeyspaces => "ListKeyspaces",
            Action::Reshard { .. } => "Reshard",
            Action::CreateCluster { .. } => "CreateCluster",
            Action::DeleteCluster { .. } => "DeleteCluster",
            Action::ResolveCluster { .. } => "ResolveCluster",
            Action::DescribeCluster { .. } => "DescribeCluster",
            Action::VerifyCluster { .. } => "VerifyCluster",
            Action::ListClusters { .. } => "ListClusters",
            Action::TransferLeader { .. } => "TransferLeader",
            Action::AddMember { .. } => "AddMember",
            Action::RecoverCluster { .. } => "RecoverCluster",
            Action::ListRecoveries { .. } => "ListRecoveries",
            Action::DiscardEnded { .. } => "DiscardEnded",
            Action::SkipEntry { .. } => "SkipEntry",
            Action::RemoveMember { .. } => "RemoveMember",
            Action::MoveMember { .. } => "MoveMember",
            Action::SetEngine { .. } => "SetEngine",
            Action::SetDefaultConsistency { .. } => "SetDefaultConsistency",
            Action::Redis { .. } => "Redis",
            Action::RedisCall { .. } => "RedisCall",
            Action::Versioned { call, .. } => call.name(),
            Action::S3(call) => call.name(),
            Action::Access(call) => call.name(),
            Action::ListNodes => "ListNodes",
            Action::DrainNode { .. } => "DrainNode",
            Action::DecommissionNode { .. } => "DecommissionNode",
            Action::RecommissionNode { .. } => "RecommissionNode",
            Action::ForgetNode { .. } => "ForgetNode",
            Action::UpgradeStatus => "UpgradeStatus",
            Action::FinalizeUpgrade => "FinalizeUpgrade",
            Action::Status => "Status",
        }
    }
}

/// What a request came to.
pub type Response = Result<Answer, Failure>;

/// A request that was not (or not surely) done.
#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    /// Why, and what to do.
    pub refusal: Refusal,
    /// Where it was ordered, if it was (`CommittedNotAbsolute`, `CommittedNotInBucket`).
    pub at: Option<OrderedAt>,
    /// The name of the cluster that `at` numbers.
    pub cluster: Option<Arc<ClusterName>>,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure { refusal, at: None, cluster: None }
    }
}

/// A request that was done.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The result.
    pub result: ActionResult,
    /// Where it was ordered; absent where no cluster was asked.
    pub at: Option<OrderedAt>,
    /// The name of the cluster that `at` numbers.
    pub cluster: Option<Arc<ClusterName>>,
    /// The level a write reached or a read was served at.
    pub level: Option<Level>,
}

/// The level an answer stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Of a write.
    Write(WriteConsistency),
    /// Of a read.
    Read(ReadConsistency),
}

/// The results, one kind for each shape.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // The fields are the HTTP JSON API's own; docs/guides/api has each.
pub enum ActionResult {
    /// Nothing to say but that it was done.
    Done,
    /// A key's value, if it is there.
    Value {
        value: Option<Bytes>,
    },
    /// Whether the key was there.
    Deleted {
        existed: bool,
    },
    /// A page; `next` is the `start_after` of the next one where there is more.
    Page {
        entries: Vec<(Bytes, Bytes)>,
        next: Option<Bytes>,
    },
    /// A Redis reply.
    Redis {
        reply: RedisReply,
    },
    /// What a call of the Redis door came to.
    RedisCall(RedisAnswer),
    /// What a call on keys with versions came to.
    Versioned(Box<crate::versioned::Reply>),
    /// What a call of the S3 API came to.
    S3(crate::s3::S3Answer),
    /// What a call on users, roles, tokens and tenants came to.
    Access(AccessAnswer),
    Keyspace(KeyspaceInfo),
    Keyspaces {
        keyspaces: Vec<KeyspaceInfo>,
    },
    Cluster(ClusterInfo),
    Clusters {
        clusters: Vec<ClusterInfo>,
        next: Option<String>,
    },
    Verification(VerificationInfo),
    Recovery(RecoveryInfo),
    Recoveries {
        recoveries: Vec<RecoveryInfo>,
    },
    Nodes {
        nodes: Vec<NodeInfo>,
    },
    Drain(DrainInfo),
    Decommission(DecommissionInfo),
    Upgrade(UpgradeInfo),
    Status(StatusInfo),
}

/// A keyspace.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct KeyspaceInfo {
    pub name: String,
    pub kind: KeyspaceKind,
    pub partitioning: Partitioning,
    pub partitions: u16,
    pub epoch: u64,
    pub rule: String,
    pub engine: String,
    /// Which cluster owns each partition, in partition order.
    pub owners: Vec<ClusterName>,
    /// Lower bounds of partitions 1… (range only).
    pub split_keys: Vec<Bytes>,
    /// A running reshard.
    pub reshard: Option<ReshardInfo>,
    /// What the last reshard moved: partitions, keys.
    pub moved_partitions: u64,
    pub moved_keys: u64,
}

/// A reshard under way.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct ReshardInfo {
    pub target_clusters: u16,
    pub moves_done: u32,
    pub moves_total: u32,
    pub moving: Option<PartitionId>,
}

/// A cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct ClusterInfo {
    pub name: ClusterName,
    pub cluster: crate::ClusterId,
    pub generation: crate::Generation,
    pub rule: String,
    pub leader: Option<NodeId>,
    pub term: crate::Term,
    pub commit: crate::LogIndex,
    pub applied: crate::LogIndex,
    pub consistency: WriteConsistency,
    pub read_consistency: ReadConsistency,
    pub members: Vec<MemberInfo>,
    /// What the leader's own replica is kept in; the others' may differ (docs/engines). `None`: it was not asked.
    pub engine: Option<String>,
    /// What is not as the rule wants it, for example a member that is down; empty when well.
    pub warnings: Vec<String>,
}

/// A member of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct MemberInfo {
    pub node: NodeId,
    pub replica: ReplicaId,
    pub learner: bool,
    /// The last index known to be in its log; 0 where unknown.
    pub matched: crate::LogIndex,
    /// Of one that keeps its replica in a bucket: the last index known to be there.
    pub kept: Option<crate::LogIndex>,
    /// Of an earlier engine than the cluster's rule names: it is still to be replaced.
    pub moves: bool,
    pub up: bool,
}

/// What a verification of a cluster found so far.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct VerificationInfo {
    pub name: ClusterName,
    pub cluster: crate::ClusterId,
    pub generation: crate::Generation,
    pub run: u64,
    pub done: bool,
    /// The index at which members are compared; 0: not known yet.
    pub index: crate::LogIndex,
    /// Whether all members hold the same, undamaged; absent until it is done.
    pub whole: Option<bool>,
    pub members: Vec<MemberVerified>,
    /// What an operator should do; empty when well.
    pub advice: Vec<String>,
}

/// What a member of a cluster holds.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct MemberVerified {
    pub node: NodeId,
    pub replica: ReplicaId,
    pub learner: bool,
    /// `waiting`, `checking`, `same`, `differs`, `damaged`, `unclear`, `missed`, `unreadable`, `silent`.
    pub state: &'static str,
    pub pairs: u64,
    pub bytes: u64,
    /// Of the pairs that are whole.
    pub digest: Option<u64>,
    pub damaged: u64,
}

/// Where a recovery stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryState {
    /// Nothing was changed.
    Surveyed,
    /// The new life has begun; the cluster has fewer members than its rule wants.
    Open,
    /// It has its members again.
    Whole,
}

impl RecoveryState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            RecoveryState::Surveyed => "surveyed",
            RecoveryState::Open => "open",
            RecoveryState::Whole => "whole",
        }
    }
}

/// What is left of a cluster whose majority is gone for good, and what was made of it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct RecoveryInfo {
    pub name: ClusterName,
    pub cluster: ClusterId,
    /// The life that ends or ended.
    pub ended: Generation,
    pub state: RecoveryState,
    /// The best survivor.
    pub survivor: Option<NodeId>,
    /// When and through which node it was recovered; zero: it was not.
    pub unix_ms: u64,
    pub by: NodeId,
    /// What each node that answered held.
    pub survivors: Vec<crate::Survivor>,
    /// Members that did not answer.
    pub silent: Vec<NodeId>,
    /// Nodes whose data of the ended life is kept until it is discarded.
    pub held: Vec<NodeId>,
    /// What may be lost, what appears, what is in the way.
    pub findings: Vec<String>,
}

/// How far a node is that is drained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct DrainInfo {
    pub node: NodeId,
    pub drained: bool,
    /// Clusters that it leads and another member may take over; `None` while they are being counted. Counted by the host, of all
    /// cores: a core answers `None`.
    pub hand_overs_due: Option<u32>,
}

/// How far a node's decommissioning is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct DecommissionInfo {
    pub node: NodeId,
    pub draining: bool,
    /// Replicas it still holds; none left: it can be stopped.
    pub replicas: u32,
    /// What stands in the way of the others, and what to do.
    pub obstacles: Vec<String>,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct NodeInfo {
    pub node: NodeId,
    pub up: bool,
    /// Being decommissioned.
    pub draining: bool,
    pub region: String,
    pub az: String,
    pub rack: String,
    pub chassis: String,
    pub peer_address: String,
    pub http_address: String,
    /// Its other doors, as far as they are known: `etcd/` and a namespace, and the url.
    pub doors: Vec<(String, String)>,
    /// Load + disk + occupancy; the allocator takes the lowest first.
    pub score: u32,
    pub clusters: u32,
    pub leaders: u32,
    pub disk: crate::DiskId,
    pub cores: u16,
    pub version: String,
    /// Milliseconds since the last heartbeat, as the map's holder saw it.
    pub seen_ms_ago: u64,
}

/// The world's formats, and what raising them waits for (decision 0070).
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct UpgradeInfo {
    /// The world's format level.
    pub level: FormatLevel,
    /// The greatest that the asked node serves: what `FinalizeUpgrade` raises the world to.
    pub target: FormatLevel,
    pub nodes: Vec<UpgradeNode>,
    /// Why the world cannot be raised yet, one sentence for each node, each with what to do.
    pub blockers: Vec<String>,
}

/// A node's program.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct UpgradeNode {
    pub node: NodeId,
    pub up: bool,
    pub version: String,
    /// The greatest format level that it serves.
    pub level_max: FormatLevel,
}

/// The world as one node sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct StatusInfo {
    pub world: String,
    pub node: NodeId,
    /// Whether this node can do any of its work. Losing the world's or a region's majority alone leaves it ready.
    pub ready: bool,
    /// Why it is not ready: plain sentences, each with what to do. Empty where it is.
    pub not_ready: Vec<String>,
    /// What does not work although the node is ready: plain sentences, each with what to do.
    pub degraded: Vec<String>,
    /// The clusters known by configuration, and whether each answered just now.
    pub quorum: Vec<QuorumInfo>,
    pub nodes_up: u32,
    pub nodes_total: u32,
    pub clusters: u32,
    pub leaders: u32,
    pub quiesced: u32,
    /// This node's configuration cluster, where it has one.
    pub config_cluster: Option<ClusterName>,
    /// What an operator should look at, worst first; empty when well.
    pub warnings: Vec<String>,
    /// The longest that a log write has been under way, or took when it was last written, of all lanes.
    pub log_write_ms: u32,
    /// When this node's certificate expires, Unix milliseconds; zero where the host did not tell.
    pub certificate_expires_ms: u64,
}

/// What `StatusInfo::warnings` says of a node that is down.
pub fn down_warning(node: NodeId, peer_address: &str) -> String {
    alloc::format!("node {node} ({peer_address}) is down")
}

/// Whether a cluster known by configuration (the world's, a region's) answers a strong read.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct QuorumInfo {
    pub cluster: ClusterName,
    pub answers: bool,
}

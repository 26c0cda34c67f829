//! One operation on a cluster under way: who wants it, how far it is.
//!
//!   Resolving ──route──▶ Local | Remote ──outcome──▶ done
//!       ▲                    │ not leader, timeout, peer down, unknown
//!       └────── Backoff ◀────┘
//!
//! Always: a write keeps its request id through all attempts, so it applies at most once; once an
//! attempt may have been proposed (`maybe_applied`) the operation never ends "not applied". What is asked of a
//! cluster ([`Target`]) is built when that cluster is known, and never changed for another.
//! Held by: `a_request_id_applies_once`, `counters_survive_chaos`.
//! Not here: what decides (router.rs).

use crate::api::Spent;
use crate::context::access::Granted;
use crate::context::Turn;
use base_types::action::{Action, ReadAfter};
use base_types::mutant::{planted, Mutant};
use base_types::{
    BackendKind, ClusterId, ClusterName, ErrorCode, Generation, NodeId, OrderedAt, ReadConsistency, Refusal, RequestId,
    Tick, Ticket, WriteConsistency,
};
use core::time::Duration;
use core_cluster::api::{AdminCommand, LocalKind};
use core_keyspace::Payload;
use std::sync::Arc;

/// The most operations a core has under way.
pub const PENDING_REQUESTS_MAX: usize = 65_536;
/// The most attempts of one operation; its deadline usually ends it long before.
pub const ATTEMPTS_MAX: u32 = 250;

/// Denials that an operation remembers: more than a cluster has members.
const REFUTED_MAX: usize = 32;

/// Until when, and for whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    pub deadline: Tick,
    /// `None`: for this node itself.
    pub granted: Option<Granted>,
}

/// Who learns how it ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Owner {
    /// A client, through the host. `ticket: None`: it went away.
    Client { ticket: Option<Ticket>, shape: Shape },
    /// A call of a plan.
    Plan { plan: u64, index: usize },
    /// Operations that wait for a cluster's location.
    Resolve(Arc<ClusterName>),
    /// Requests that wait for a keyspace's document.
    Keyspace(String),
    /// The leader of `cluster` here asks itself what a new member must be told.
    Heal { node: NodeId },
    /// A member on a lost disk is to be replaced.
    Replace { cluster: ClusterId, node: NodeId },
    /// `reference` receives a cluster's members.
    TellMembers { cluster: ClusterId },
    /// The node map's authority reads, or writes, the allocator.
    Registry(RegistryWork),
    /// The configuration cluster receives what this node has joined.
    ConfigWrite,
    /// A listed cluster's leader is asked to take this node back.
    ConfigNudge(Arc<ClusterName>),
    /// A member of the world answers from what it has applied where a cluster is.
    Elsewhere(Arc<ClusterName>),
    /// A member of the world (or of the region: its copy) answers a keyspace's document from what it has applied.
    KeyspaceElsewhere { keyspace: String, copy: bool },
    /// Whether a level 0 cluster answers, for a status.
    Probe { round: u64, cluster: ClusterId },
    /// Flows that were left unfinished.
    Unfinished,
    /// Whether the clusters of these replicas live on.
    Lives(Vec<(ClusterId, Generation)>),
    /// Whether `reference` lists the members of these clusters, which are led here.
    Compared(Vec<ClusterId>),
}

/// What the node map's authority asks of the allocator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistryWork {
    Load,
    Draining,
    Changes,
    Register(NodeId),
    Report(Vec<NodeId>),
}

/// What a client's answer is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A reply to an action on keys, of the `metadata` backend or of the one that the keyspace has.
    Metadata,
    /// A reply of the `redis` backend.
    Redis,
    /// What a call of the Redis door came to.
    RedisCall,
    /// A reply of the `versioned` backend.
    Versioned,
    /// A leader's description.
    Describe,
    /// What a verification found.
    Verify,
    /// A record of the `reference` backend.
    Resolve,
    /// A page of such records.
    List,
    /// Nothing but that it was done.
    Done,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Waits for `reference`, or for a keyspace's document.
    Resolving,
    /// In this core's own lane.
    Local,
    /// Sent to a node (or another lane of this one).
    Remote { node: NodeId },
    /// Waits before the next attempt.
    Backoff,
}

/// A request on keys of a keyspace: kept until it ends, since a partition may move under it.
#[derive(Clone, PartialEq, Debug)]
pub struct KeyspaceWork {
    pub keyspace: String,
    pub action: Action,
    /// The client's (or the drawn) request id.
    pub request_id: RequestId,
    /// The levels that were asked for; `None`: the cluster's own.
    pub consistency: Option<WriteConsistency>,
    pub read_consistency: Option<ReadConsistency>,
    /// Whether the cluster must be found (anew) before the next attempt.
    pub place: bool,
    /// The document version that proved wrong: only a newer one will do.
    pub avoid: Option<u64>,
    /// The answer, if the cluster that is asked refuses and no newer document says otherwise.
    pub crosses: Option<Refusal>,
}

impl KeyspaceWork {
    /// What a backend of its cluster is asked.
    pub fn kind(&self, backend: BackendKind, payload: Payload) -> LocalKind {
        match payload {
            Payload::Write(command) => {
                let (consistency, request_id) = (self.consistency, self.request_id);
                LocalKind::Write { backend, command, consistency, request_id, cluster_time_ms: 0 }
            }
            Payload::Read(query) => {
                let plain = backend == BackendKind::Versioned && matches!(self.action, Action::KvGet { .. });
                let anywhere = plain && planted(Mutant::PlainGetAnywhere);
                let consistency = if anywhere { Some(ReadConsistency::Eventual) } else { self.read_consistency };
                LocalKind::Read { backend, query, consistency }
            }
        }
    }
}

/// A cluster, and what it is asked.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    pub name: Arc<ClusterName>,
    pub kind: LocalKind,
}

/// What an operation is to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Goal {
    /// This, on a cluster that its owner named.
    Call(Target),
    /// This, on keys: wherever they lie. `target`: where they were found last.
    Keys { work: Box<KeyspaceWork>, target: Option<Target> },
}

/// What was last seen of an operation, for the message when it fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LastSeen {
    /// Something happened to the attempt.
    Event(&'static str),
    /// It was refused, not for good.
    Code(ErrorCode),
}

/// One operation.
#[derive(Clone, PartialEq, Debug)]
pub struct Operation {
    pub owner: Owner,
    pub goal: Goal,
    pub begun: Tick,
    pub deadline: Tick,
    pub phase: Phase,
    /// When the node of the latest attempt was asked.
    pub asked: Tick,
    pub asked_node: Option<NodeId>,
    /// What its timer is set to.
    pub timer: Tick,
    pub attempt: u32,
    /// Attempts that got no answer in time.
    pub timeouts: u32,
    /// Redirects and rounds since the last backoff.
    pub redirects: u32,
    pub rounds: u32,
    /// Whether the cluster was looked up anew for this operation.
    pub refreshed: u32,
    /// Nodes that said that this life of the cluster is not there: no guess that leads to them alone is tried again.
    pub refuted: Vec<(ClusterId, Generation, NodeId)>,
    /// Members asked in this round.
    pub tried: Vec<NodeId>,
    pub maybe_applied: bool,
    /// For the message when it fails.
    pub last: LastSeen,
    /// The last refusal that was not taken for an answer.
    pub refused: Option<Refusal>,
    /// Of a read: what its session has seen. An older answer is not taken; the leader is asked instead.
    pub after: Option<ReadAfter>,
    /// For whom it is done; `None`: for this node itself.
    pub granted: Option<Granted>,
    /// How often that was decided again.
    pub renewals: u32,
}

impl Operation {
    /// Where its time went, if it took longer than it should. What waits for a change, or for somebody else, took what it was given.
    pub fn spent(&self, turn: &Turn<'_>) -> Option<Spent> {
        let took = turn.now.since(self.begun);
        let slow_ms = turn.core.config().tuning.slow_request_ms;
        if slow_ms == 0 || took < Duration::from_millis(slow_ms) || self.kind().is_some_and(waits_by_itself) {
            return None;
        }
        let before = if self.attempt == 0 { took } else { self.asked.since(self.begun) };
        let cluster = self.target().map(|target| target.name.clone());
        let (attempts, timeouts) = (self.attempt, self.timeouts);
        Some(Spent { cluster, node: self.asked_node, took, before, attempts, timeouts, plan: None })
    }

    /// A fresh operation on a cluster.
    pub fn new(owner: Owner, name: Arc<ClusterName>, kind: LocalKind, now: Tick, deadline: Tick) -> Operation {
        Operation::with_goal(owner, Goal::Call(Target { name, kind }), now, deadline)
    }

    /// A fresh operation.
    pub fn with_goal(owner: Owner, goal: Goal, now: Tick, deadline: Tick) -> Operation {
        Operation {
            owner,
            goal,
            begun: now,
            deadline,
            phase: Phase::Resolving,
            asked: now,
            asked_node: None,
            timer: deadline,
            attempt: 0,
            timeouts: 0,
            redirects: 0,
            rounds: 0,
            refreshed: 0,
            refuted: Vec::new(),
            tried: Vec::new(),
            maybe_applied: false,
            last: LastSeen::Event("nothing yet"),
            refused: None,
            after: None,
            granted: None,
            renewals: 0,
        }
    }

    /// What is asked of which cluster; `None` where its keys have not been found yet.
    pub fn target(&self) -> Option<&Target> {
        match &self.goal {
            Goal::Call(target) => Some(target),
            Goal::Keys { target, .. } => target.as_ref(),
        }
    }

    /// The same, for the next attempt.
    pub fn target_mut(&mut self) -> Option<&mut Target> {
        match &mut self.goal {
            Goal::Call(target) => Some(target),
            Goal::Keys { target, .. } => target.as_mut(),
        }
    }

    /// What is asked.
    pub fn kind(&self) -> Option<&LocalKind> {
        self.target().map(|target| &target.kind)
    }

    /// The cluster that it waits for: while its keys have not been found, the world's, which knows where they are.
    pub fn waits_for<'a>(&'a self, world: &'a Arc<ClusterName>) -> &'a Arc<ClusterName> {
        self.target().map_or(world, |target| &target.name)
    }

    /// What it is to do, where that is on keys of a keyspace.
    pub fn keys(&self) -> Option<&KeyspaceWork> {
        match &self.goal {
            Goal::Call(_) => None,
            Goal::Keys { work, .. } => Some(work),
        }
    }

    /// The same, to note where it stands.
    pub fn keys_mut(&mut self) -> Option<&mut KeyspaceWork> {
        match &mut self.goal {
            Goal::Call(_) => None,
            Goal::Keys { work, .. } => Some(work),
        }
    }

    /// The backend that is asked.
    pub fn backend(&self) -> Option<BackendKind> {
        match self.kind()? {
            LocalKind::Write { backend, .. } | LocalKind::Read { backend, .. } => Some(*backend),
            _ => None,
        }
    }

    /// Whether what is asked can change anything.
    pub fn is_write(&self) -> bool {
        matches!(self.kind(), Some(LocalKind::Write { .. }))
    }

    /// A node said that it has no replica of this life.
    pub fn refute(&mut self, cluster: ClusterId, generation: Generation, node: NodeId) {
        if self.refuted.len() >= REFUTED_MAX {
            self.refuted.remove(0);
        }
        self.refuted.push((cluster, generation, node));
    }

    /// Whether a route leads to a node that has not denied it.
    pub fn may_try(&self, cluster: ClusterId, generation: Generation, mut nodes: impl Iterator<Item = NodeId>) -> bool {
        nodes.any(|node| !self.refuted.contains(&(cluster, generation, node)))
    }

    /// Whether an answer from there is older than what its session has seen.
    pub fn has_seen_later(&self, at: &OrderedAt, level: ReadConsistency) -> bool {
        let Some(after) = self.after.filter(|after| !after.is_met(at)) else { return false };
        let eventual = level == ReadConsistency::Eventual;
        // A strong read is the best there is of another cluster, or of a later life of this one.
        let comparable = eventual || (after.cluster, after.generation) == (at.cluster, at.generation);
        let planted = if eventual { Mutant::SessionReadsOlder } else { Mutant::StrongEndsSession };
        comparable && !self::planted(planted)
    }

    /// Whether any member may answer, for a cluster with this default.
    pub fn any_member(&self, default: ReadConsistency) -> bool {
        matches!(self.kind(), Some(LocalKind::Read { consistency, .. }) if consistency.unwrap_or(default) == ReadConsistency::Eventual)
    }
}
/// Whether it may take its time by its nature: it waits for a change, for every member, for a bucket, or for members to be moved.
fn waits_by_itself(kind: &LocalKind) -> bool {
    match kind {
        LocalKind::Write { consistency, .. } => {
            matches!(consistency, Some(WriteConsistency::Absolute | WriteConsistency::S3))
        }
        LocalKind::Read { backend, query, .. } => core_backends::waits(*backend, query),
        LocalKind::Admin(command) => *command != AdminCommand::Describe,
    }
}

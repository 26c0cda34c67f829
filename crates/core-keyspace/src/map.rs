//! Where a key lives: the cached form of a keyspace document, and the way from an action to the one
//! cluster and command that carry it out.
//!
//! Always: finding a key costs one hash (hash keyspaces) or a binary search over the split keys (range); nothing is
//! allocated but the command's bytes. A map may be stale: the cluster then refuses, and [`retry_of`] decides what to
//! do.
//! Not here: reading the document (`read.rs`), scans over several clusters (`scan.rs`).

use crate::document::{backend_of, Document, KeyspaceState};
use crate::payload::Payload;
use crate::redis::{no_commands, redis_payload};
use crate::scan_request::ScanRequest;
use crate::versioned::versioned_payload;
use base_types::action::{Action, ActionResult, BatchStep, KeyspaceKind, Partitioning};
use base_types::codec::Encode;
use base_types::{
    BackendKind, ClusterName, ErrorCode, PartitionId, Refusal, Routing, BATCH_OPERATIONS_MAX, COMMAND_BYTES_MAX,
};
use bytes::Bytes;
use core_backends::metadata::{check_pair, Command, Query, Reply, ScanScopes, Scope, ScopedStep};
use std::sync::Arc;

/// A keyspace as cached. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyspaceMap {
    /// The document's version in the world cluster.
    pub version: u64,
    inner: Arc<Inner>,
}

#[derive(PartialEq, Eq, Debug)]
struct Inner {
    document: Document,
    clusters: Vec<ClusterName>,
}

/// An action on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routed<'m> {
    /// To this cluster.
    pub cluster: &'m ClusterName,
    /// To this backend of it.
    pub backend: BackendKind,
    /// With this.
    pub payload: Payload,
    /// A batch whose keys lie in several clusters: refused so, unless this cluster (the first key's) remembers that it
    /// applied it before they parted.
    pub crosses: Option<Refusal>,
}

/// What a refusal of a cluster means to a router that sent it a keyspace's command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// It is the answer.
    No,
    /// Ask the same cluster again in a moment (a partition is about to switch).
    Later,
    /// Read the document again and route again. If the document has not changed, wait a moment first. Only after a
    /// *definite* refusal: an attempt whose outcome is unknown is retried at the same cluster, with the same scope and
    /// request id, until it is known.
    Relocate,
}

/// See [`Retry`]. All three are definite: nothing was applied.
#[deny(clippy::wildcard_enum_match_arm)] // A new way of routing must be thought of here.
pub fn retry_of(refusal: &Refusal) -> Retry {
    match refusal.code.routing() {
        Routing::PartitionSwitching => Retry::Later,
        Routing::PartitionMoved | Routing::ClusterGone | Routing::ClusterReplaced => Retry::Relocate,
        // A keyspace has no shards.
        Routing::Answer | Routing::ShardSwitching | Routing::ShardMoved => Retry::No,
    }
}

/// Whether a cluster's name belongs to the keyspaces: clients may not create or delete it themselves.
pub fn is_keyspace_cluster(name: &ClusterName) -> bool {
    name.tail().starts_with("ks-")
}

impl KeyspaceMap {
    /// From a document as it was read at `version`.
    pub fn new(version: u64, document: Document) -> Result<KeyspaceMap, Refusal> {
        let clusters: Result<Vec<ClusterName>, Refusal> =
            (0..document.clusters_most()).map(|number| document.cluster(number)).collect();
        Ok(KeyspaceMap { version, inner: Arc::new(Inner { document, clusters: clusters? }) })
    }

    /// From the document's body.
    pub fn from_body(version: u64, body: Bytes) -> Result<KeyspaceMap, Refusal> {
        KeyspaceMap::new(version, Document::decode_body(body)?)
    }

    /// The document.
    pub fn document(&self) -> &Document {
        &self.inner.document
    }

    /// The partition a key belongs to.
    pub fn partition_of(&self, key: &[u8]) -> PartitionId {
        let document = &self.inner.document;
        PartitionId(match document.partitioning {
            Partitioning::Hash => (xxhash_rust::xxh3::xxh3_64(key) % document.partitions().max(1) as u64) as u16,
            Partitioning::Range => document.split_keys.partition_point(|split| split.as_ref() <= key) as u16,
        })
    }

    /// The cluster that owns a partition, and the partition's present scope.
    pub fn owner_of(&self, partition: PartitionId) -> Option<(u16, &ClusterName, Scope)> {
        let (at, inner) = (usize::from(partition.0), &*self.inner);
        let number = *inner.document.owners.get(at)?;
        let epoch = *inner.document.epochs.get(at)?;
        Some((number, inner.clusters.get(usize::from(number))?, Scope { partition, epoch }))
    }

    /// The cluster and scope of a key.
    pub fn locate(&self, key: &[u8]) -> Option<(&ClusterName, Scope)> {
        self.owner_of(self.partition_of(key)).map(|(_, cluster, scope)| (cluster, scope))
    }

    /// Refuses a keyspace that does not serve (yet, or any more).
    pub fn check_serves(&self) -> Result<(), Refusal> {
        let name = &self.inner.document.name;
        match self.inner.document.state {
            KeyspaceState::Ready => Ok(()),
            KeyspaceState::Creating => {
                Err(Refusal::new(ErrorCode::NotReady, format!("keyspace '{name}' is being created; retry in a moment")))
            }
            KeyspaceState::Deleting => Err(unknown_keyspace(name)),
        }
    }

    /// The cluster and command of a key-value action other than `KvScan`.
    pub fn route(&self, action: &Action) -> Result<Routed<'_>, Refusal> {
        self.check_serves()?;
        match self.kind() {
            KeyspaceKind::Redis => self.route_whole(redis_payload(action, &self.document().name)?),
            kind if matches!(action, Action::Redis { .. } | Action::RedisCall { .. }) => {
                Err(no_commands(&self.document().name, kind.as_str()))
            }
            KeyspaceKind::Versioned => self.route_whole(versioned_payload(action)?),
            KeyspaceKind::Plain => self.route_plain(action),
        }
    }

    fn route_plain(&self, action: &Action) -> Result<Routed<'_>, Refusal> {
        let (first, crosses) = match action {
            Action::KvPut { key, .. }
            | Action::KvGet { key, .. }
            | Action::KvDelete { key, .. }
            | Action::KvCompareAndSet { key, .. } => (key, None),
            Action::KvBatch { steps, .. } => self.first_key(steps)?,
            Action::Versioned { call, .. } => {
                let message = format!(
                    "keyspace '{}' is plain and keeps the newest values only, so {} has nothing to work on; make a keyspace with kind=versioned",
                    self.document().name,
                    call.name()
                );
                return Err(Refusal::new(ErrorCode::InvalidKeyspace, message));
            }
            other => return Err(no_key_value(other)),
        };
        let cluster = self.locate(first).map(|(cluster, _)| cluster);
        let payload = payload(action, |key| self.locate(key).map(|(_, scope)| scope))?;
        cluster.map(|cluster| Routed { cluster, backend: BackendKind::Metadata, payload, crosses }).ok_or_else(|| {
            Refusal::new(
                ErrorCode::Internal,
                format!("keyspace '{}' has a partition without owner", self.document().name),
            )
        })
    }

    /// All of it lies in one cluster.
    fn route_whole(&self, payload: Payload) -> Result<Routed<'_>, Refusal> {
        let without = || Refusal::new(ErrorCode::CorruptDocument, "a keyspace of one cluster has none; report it");
        let cluster = self.inner.clusters.first().ok_or_else(without)?;
        Ok(Routed { cluster, backend: backend_of(self.kind()), payload, crosses: None })
    }

    /// What it keeps of its keys.
    pub fn kind(&self) -> KeyspaceKind {
        self.inner.document.kind
    }

    /// The first key of a batch, and why it cannot be carried out now where its keys lie in several clusters.
    fn first_key<'s>(&self, steps: &'s [BatchStep]) -> Result<(&'s Bytes, Option<Refusal>), Refusal> {
        let key_of = |step: &'s BatchStep| match step {
            BatchStep::Put { key, .. } | BatchStep::Delete { key } => key,
        };
        let number = |key: &Bytes| self.owner_of(self.partition_of(key)).map(|(number, ..)| number);
        let first = steps.first().map(key_of).ok_or_else(empty_batch)?;
        let other = steps.iter().map(key_of).find(|key| number(key) != number(first));
        let crosses = other.map(|other| {
            let (first, other) = (first.escape_ascii(), other.escape_ascii());
            let message = format!(
                "keys '{first}' and '{other}' lie in different clusters; a batch is atomic in one cluster: send them apart"
            );
            Refusal::new(ErrorCode::BatchCrossesClusters, message)
        });
        Ok((first, crosses))
    }
}

/// The command or query of a key-value action on a cluster without partitions, `KvScan` included.
pub fn plain_payload(action: &Action) -> Result<Payload, Refusal> {
    if let Some(request) = ScanRequest::from_action(action) {
        request.check()?;
        return Ok(Payload::Read(
            request.query(ScanScopes::Plain, request.limit, base_types::SCAN_PAGE_BYTES_MAX as u32).to_bytes(),
        ));
    }
    payload(action, |_| None)
}

fn payload(action: &Action, scope: impl Fn(&[u8]) -> Option<Scope>) -> Result<Payload, Refusal> {
    let command = match action {
        Action::KvGet { key, .. } => {
            check_pair(key, None)?;
            return Ok(Payload::Read(Query::Get { scope: scope(key), key: key.clone() }.to_bytes()));
        }
        Action::KvPut { key, value, .. } => {
            check_pair(key, Some(value))?;
            Command::Put { scope: scope(key), key: key.clone(), value: value.clone() }
        }
        Action::KvDelete { key, .. } => {
            check_pair(key, None)?;
            Command::Delete { scope: scope(key), key: key.clone() }
        }
        Action::KvCompareAndSet { key, expected, value, .. } => {
            check_pair(key, value.as_ref())?;
            Command::CompareAndSet {
                scope: scope(key),
                key: key.clone(),
                expected: expected.clone(),
                value: value.clone(),
            }
        }
        Action::KvBatch { steps, .. } => batch(steps, scope)?,
        other => return Err(no_key_value(other)),
    };
    let bytes = command.to_bytes();
    if bytes.len() > COMMAND_BYTES_MAX {
        return Err(Refusal::new(
            ErrorCode::BodyTooLarge,
            format!("the command is {} bytes long; at most {COMMAND_BYTES_MAX} are taken", bytes.len()),
        ));
    }
    Ok(Payload::Write(bytes))
}

fn batch(steps: &[BatchStep], scope: impl Fn(&[u8]) -> Option<Scope>) -> Result<Command, Refusal> {
    if steps.is_empty() {
        return Err(empty_batch());
    }
    if steps.len() > BATCH_OPERATIONS_MAX {
        return Err(Refusal::new(
            ErrorCode::LimitOutOfRange,
            format!("{} steps in one batch; give 1 to {BATCH_OPERATIONS_MAX}", steps.len()),
        ));
    }
    let mut scoped = Vec::with_capacity(steps.len());
    for step in steps {
        let key = match step {
            BatchStep::Put { key, value } => {
                check_pair(key, Some(value))?;
                key
            }
            BatchStep::Delete { key } => {
                check_pair(key, None)?;
                key
            }
        };
        scoped.push(ScopedStep { scope: scope(key), step: step.clone() });
    }
    Ok(Command::Batch { steps: scoped })
}

fn empty_batch() -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, "the batch has no steps; give at least one")
}

fn no_key_value(action: &Action) -> Refusal {
    Refusal::new(ErrorCode::Internal, format!("{} is no action on keys", action.name()))
}

/// The refusal for a keyspace that is not there.
pub(crate) fn unknown_keyspace(name: &str) -> Refusal {
    let message = format!("keyspace '{}' does not exist; create it first", name.escape_default());
    Refusal::new(ErrorCode::UnknownKeyspace, message)
}

/// What the `metadata` backend's reply to a routed action means to the client.
pub fn read_reply(reply: Bytes) -> Result<ActionResult, Refusal> {
    Ok(match core_backends::decode_reply(reply)? {
        Reply::Value { value } => ActionResult::Value { value },
        Reply::Deleted { existed } => ActionResult::Deleted { existed },
        Reply::Page { entries, more, .. } => {
            let next = if more { entries.last().map(|(key, _)| key.clone()) } else { None };
            ActionResult::Page { entries, next }
        }
        _ => ActionResult::Done,
    })
}

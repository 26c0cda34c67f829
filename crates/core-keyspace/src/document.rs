//! The keyspace document: which cluster owns which partition, in which epoch, and what is under way.
//!
//! Always: partition `p` belongs to cluster `owners[p]` at `epochs[p]`, both lists are exactly
//! `partitions` long, split keys ascend strictly; a document that does not keep this does not decode.
//! Not here: where it is kept (`store.rs`), how keys are found (`map.rs`).
//! Form: docs/formats/backend-metadata.md, last part.

use base_types::action::{KeyspaceInfo, KeyspaceKind, Partitioning, ReshardInfo};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{BackendKind, ClusterName, ErrorCode, PartitionId, Refusal, KEY_BYTES_MAX};
use bytes::Bytes;
use core_backends::metadata::KEYSPACE_PARTITIONS_MAX;

/// The longest name of a keyspace.
pub const KEYSPACE_NAME_BYTES_MAX: usize = 64;
/// The most clusters a keyspace is spread over: each owns at least one partition.
pub(crate) const KEYSPACE_CLUSTERS_MAX: u16 = KEYSPACE_PARTITIONS_MAX;
/// The most bytes all split keys of a keyspace have together: the document stays small.
const SPLIT_KEYS_BYTES_MAX: usize = 128 << 10;
/// The longest rule kept.
const RULE_BYTES_MAX: usize = 1024;
const DOCUMENT_VERSION: u8 = 1;
/// The same with the keyspace's kind before its name: written for kinds that an older build does not know.
const DOCUMENT_VERSION_WITH_KIND: u8 = 2;
/// A kind's byte in a document.
const KIND_VERSIONED: u8 = 1;
const KIND_REDIS: u8 = 2;
pub(crate) const FIRST_EPOCH: u64 = 1;
/// A keyspace's first epoch is drawn from so many.
pub(crate) const FIRST_EPOCHS: u64 = 1 << 40;

/// What a keyspace is made from.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // The fields are the action's own.
pub struct KeyspaceSpec {
    pub name: String,
    pub kind: KeyspaceKind,
    pub partitioning: Partitioning,
    pub partitions: u16,
    pub clusters: u16,
    pub split_keys: Vec<Bytes>,
    pub rule: String,
    pub engine: Option<String>,
}

/// Where a keyspace is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum KeyspaceState {
    /// Its clusters are being made.
    Creating = 1,
    /// It serves.
    Ready = 2,
    /// Its clusters are being removed.
    Deleting = 3,
}

/// How far the move of one partition is, as far as the document must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum MovePhase {
    /// Not begun.
    Waiting = 1,
    /// Under way; the two clusters know how far.
    Copying = 2,
    /// The new owner serves; the old one still has the pairs.
    Releasing = 3,
}

/// A partition's move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Move {
    pub partition: PartitionId,
    pub from: u16,
    pub to: u16,
    /// The epoch at `from`; it is one more at `to`.
    pub epoch: u64,
    pub phase: MovePhase,
}

/// A reshard under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reshard {
    pub target: u16,
    /// The new clusters are there.
    pub prepared: bool,
    pub done: u32,
    pub total: u32,
    pub moves: Vec<Move>,
}

/// See the file's header.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Document {
    pub name: String,
    pub kind: KeyspaceKind,
    pub state: KeyspaceState,
    pub partitioning: Partitioning,
    pub split_keys: Vec<Bytes>,
    pub rule: String,
    pub engine: Option<String>,
    /// Raised with every change of an owner.
    pub epoch: u64,
    /// How many clusters it has; they are numbered from 0.
    pub clusters: u16,
    pub owners: Vec<u16>,
    pub epochs: Vec<u64>,
    pub(crate) reshard: Option<Reshard>,
    /// What the last reshard has moved.
    pub moved_partitions: u64,
    pub moved_keys: u64,
}

/// The name of a plain keyspace's cluster number `number`.
pub fn cluster_name(keyspace: &str, number: u16) -> Result<ClusterName, Refusal> {
    name_of(KeyspaceKind::Plain, keyspace, number)
}

fn name_of(kind: KeyspaceKind, keyspace: &str, number: u16) -> Result<ClusterName, Refusal> {
    format!("{}@ks-{keyspace}-{number}", backend_of(kind)).parse().map_err(|error| {
        Refusal::new(ErrorCode::UnnamableCluster, format!("keyspace '{keyspace}' makes no cluster name: {error}"))
    })
}

/// What keeps the keys of such a keyspace.
pub(crate) fn backend_of(kind: KeyspaceKind) -> BackendKind {
    match kind {
        KeyspaceKind::Plain => BackendKind::Metadata,
        KeyspaceKind::Versioned => BackendKind::Versioned,
        KeyspaceKind::Redis => BackendKind::Redis,
    }
}

/// The key of a keyspace's document in the world cluster's `reference` backend.
pub fn document_key(keyspace: &str) -> String {
    format!("{DOCUMENT_PREFIX}{keyspace}")
}

/// What all keyspaces' documents begin with.
pub(crate) const DOCUMENT_PREFIX: &str = "keyspace/";

fn invalid(message: String) -> Refusal {
    Refusal::new(ErrorCode::InvalidKeyspace, message)
}

/// Refuses a name that is no good in cluster names, addresses and file names.
pub fn validate_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > KEYSPACE_NAME_BYTES_MAX {
        return Err(invalid(format!(
            "keyspace name is {} bytes long; give 1 to {KEYSPACE_NAME_BYTES_MAX}",
            name.len()
        )));
    }
    if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.')) {
        return Err(invalid(format!(
            "keyspace name '{}' may hold a-z, 0-9, '-', '_' and '.' only",
            name.escape_default()
        )));
    }
    Ok(())
}

/// Refuses a number of clusters the partitions cannot be spread over.
pub(crate) fn validate_clusters(clusters: u16, partitions: usize) -> Result<(), Refusal> {
    let most = partitions.min(usize::from(KEYSPACE_CLUSTERS_MAX));
    if clusters == 0 || usize::from(clusters) > most {
        return Err(invalid(format!("{clusters} clusters cannot share {partitions} partitions; give 1 to {most}")));
    }
    Ok(())
}

impl KeyspaceSpec {
    /// The document of a new keyspace.
    pub(crate) fn document(&self) -> Result<Document, Refusal> {
        validate_name(&self.name)?;
        if self.partitions == 0 || self.partitions > KEYSPACE_PARTITIONS_MAX {
            return Err(invalid(format!("{} partitions; give 1 to {KEYSPACE_PARTITIONS_MAX}", self.partitions)));
        }
        validate_clusters(self.clusters, usize::from(self.partitions))?;
        if self.kind != KeyspaceKind::Plain && self.partitions != 1 {
            return Err(invalid(format!(
                "a {} keyspace has one partition in one cluster; leave 'partitions' and 'clusters' out",
                self.kind.as_str()
            )));
        }
        if self.rule.len() > RULE_BYTES_MAX {
            return Err(invalid(format!("rule is {} bytes long; at most {RULE_BYTES_MAX} are taken", self.rule.len())));
        }
        if let Some(engine) = self.engine.as_deref() {
            if engine.is_empty() || !engine.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
                return Err(Refusal::new(
                    ErrorCode::UnknownEngine,
                    format!("engine '{}' has no engine's name", engine.escape_default()),
                ));
            }
        }
        let partitions = usize::from(self.partitions);
        let (count, clusters) = (partitions as u32, u32::from(self.clusters));
        let owner = |p: u32| match self.partitioning {
            Partitioning::Hash => (p % clusters) as u16,
            Partitioning::Range => (p * clusters / count) as u16,
        };
        Ok(Document {
            name: self.name.clone(),
            kind: self.kind,
            state: KeyspaceState::Creating,
            partitioning: self.partitioning,
            split_keys: self.checked_split_keys()?,
            rule: self.rule.clone(),
            engine: self.engine.clone(),
            epoch: FIRST_EPOCH,
            clusters: self.clusters,
            owners: (0..count).map(owner).collect(),
            epochs: vec![FIRST_EPOCH; partitions],
            reshard: None,
            moved_partitions: 0,
            moved_keys: 0,
        })
    }

    fn checked_split_keys(&self) -> Result<Vec<Bytes>, Refusal> {
        let wanted = usize::from(self.partitions) - 1;
        if self.partitioning == Partitioning::Hash {
            return match self.split_keys.len() {
                0 => Ok(Vec::new()),
                count => Err(invalid(format!(
                    "{count} split keys for a hash keyspace; split keys belong to range keyspaces"
                ))),
            };
        }
        if self.split_keys.is_empty() {
            return Ok(even_split_keys(self.partitions));
        }
        if self.split_keys.len() != wanted {
            let given = self.split_keys.len();
            return Err(invalid(format!(
                "{given} split keys for {} partitions; give {wanted} or none",
                self.partitions
            )));
        }
        check_split_keys(&self.split_keys).map_err(invalid)?;
        Ok(self.split_keys.clone())
    }
}

/// Lower bounds that cut the keys evenly: by the first byte, by the first two where there are many.
fn even_split_keys(partitions: u16) -> Vec<Bytes> {
    let count = u32::from(partitions);
    (1..count)
        .map(|p| {
            if count <= 256 {
                Bytes::copy_from_slice(&[(p * 256 / count) as u8])
            } else {
                Bytes::copy_from_slice(&((p * 65_536 / count) as u16).to_be_bytes())
            }
        })
        .collect()
}

fn check_split_keys(split_keys: &[Bytes]) -> Result<(), String> {
    if let Some(bad) = split_keys.iter().position(|key| key.is_empty() || key.len() > KEY_BYTES_MAX) {
        return Err(format!("split key {bad} is {} bytes long; give 1 to {KEY_BYTES_MAX}", split_keys[bad].len()));
    }
    if let Some(bad) = split_keys.windows(2).position(|pair| pair[0] >= pair[1]) {
        return Err(format!("split key {} is not behind split key {bad}; give them in ascending order", bad + 1));
    }
    let bytes: usize = split_keys.iter().map(Bytes::len).sum();
    if bytes > SPLIT_KEYS_BYTES_MAX {
        return Err(format!("split keys are {bytes} bytes together; at most {SPLIT_KEYS_BYTES_MAX} are taken"));
    }
    Ok(())
}

impl Document {
    /// How many partitions it has.
    pub fn partitions(&self) -> usize {
        self.owners.len()
    }

    /// The name of its cluster number `number`.
    pub fn cluster(&self, number: u16) -> Result<ClusterName, Refusal> {
        name_of(self.kind, &self.name, number)
    }

    /// Whether this is what `spec` would make (a creation that is asked for again).
    pub(crate) fn is_of(&self, fresh: &Document) -> bool {
        // First epochs are drawn: each who makes it would begin with others.
        let as_created = Document { state: fresh.state, epochs: fresh.epochs.clone(), ..self.clone() };
        as_created == *fresh
    }

    /// The rule of its clusters, engine included.
    pub(crate) fn cluster_rule(&self) -> String {
        match &self.engine {
            Some(engine) if !self.rule.split_whitespace().any(|word| word.starts_with("engine=")) => {
                format!("{} engine={engine}", self.rule).trim_start().to_string()
            }
            _ => self.rule.clone(),
        }
    }

    /// The highest number of clusters it has or is about to have.
    pub(crate) fn clusters_most(&self) -> u16 {
        self.clusters.max(self.reshard.as_ref().map_or(0, |reshard| reshard.target))
    }

    /// What clients receive.
    pub fn info(&self) -> Result<KeyspaceInfo, Refusal> {
        let names: Result<Vec<ClusterName>, Refusal> = (0..self.clusters_most()).map(|n| self.cluster(n)).collect();
        let names = names?;
        Ok(KeyspaceInfo {
            name: self.name.clone(),
            kind: self.kind,
            partitioning: self.partitioning,
            partitions: self.partitions() as u16,
            epoch: self.epoch,
            rule: self.rule.clone(),
            engine: self.engine.clone().unwrap_or_default(),
            owners: self.owners.iter().filter_map(|owner| names.get(usize::from(*owner)).cloned()).collect(),
            split_keys: self.split_keys.clone(),
            reshard: self.reshard.as_ref().map(|reshard| ReshardInfo {
                target_clusters: reshard.target,
                moves_done: reshard.done,
                moves_total: reshard.total,
                moving: reshard.moves.iter().find(|m| m.phase != MovePhase::Waiting).map(|m| m.partition),
            }),
            moved_partitions: self.moved_partitions,
            moved_keys: self.moved_keys,
        })
    }

    /// From the body kept in the world cluster. A body that does not decode is damage or a newer Hive's.
    pub fn decode_body(body: Bytes) -> Result<Document, Refusal> {
        Document::from_bytes(body).map_err(|error| {
            Refusal::new(
                ErrorCode::CorruptDocument,
                format!("keyspace document does not decode: {error}; was it written by a newer hive?"),
            )
        })
    }

    fn check(&self) -> Result<(), DecodeError> {
        let partitions = self.partitions();
        let clusters = self.clusters_most();
        let splits = if self.partitioning == Partitioning::Range { partitions.saturating_sub(1) } else { 0 };
        let whole = (1..=usize::from(KEYSPACE_PARTITIONS_MAX)).contains(&partitions)
            && self.epochs.len() == partitions
            && self.split_keys.len() == splits
            && self.clusters >= 1
            && (self.kind == KeyspaceKind::Plain || (partitions == 1 && clusters == 1))
            && clusters <= KEYSPACE_CLUSTERS_MAX
            && self.owners.iter().all(|owner| *owner < clusters)
            && check_split_keys(&self.split_keys).is_ok()
            && validate_name(&self.name).is_ok();
        let moves_whole =
            self.reshard.iter().flat_map(|reshard| &reshard.moves).all(|m| {
                usize::from(m.partition.0) < partitions && m.from < clusters && m.to < clusters && m.from != m.to
            });
        if whole && moves_whole {
            Ok(())
        } else {
            Err(DecodeError::Unknown("keyspace document"))
        }
    }
}

impl Encode for Move {
    fn encode(&self, out: &mut Writer) {
        out.u16(self.partition.0).u16(self.from).u16(self.to).varint(self.epoch).u8(self.phase as u8);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Move {
            partition: PartitionId(input.u16("partition")?),
            from: input.u16("from")?,
            to: input.u16("to")?,
            epoch: input.varint("epoch")?,
            phase: match input.u8("move phase")? {
                1 => MovePhase::Waiting,
                2 => MovePhase::Copying,
                3 => MovePhase::Releasing,
                _ => return Err(DecodeError::Unknown("move phase")),
            },
        })
    }
}

impl Encode for Reshard {
    fn encode(&self, out: &mut Writer) {
        out.u16(self.target).bool(self.prepared).u32(self.done).u32(self.total).varint(self.moves.len() as u64);
        self.moves.iter().for_each(|m| m.encode(out));
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let (target, prepared) = (input.u16("target")?, input.bool("prepared")?);
        let (done, total) = (input.u32("moves done")?, input.u32("moves total")?);
        Ok(Reshard { target, prepared, done, total, moves: list(input, "moves", Move::decode)? })
    }
}

fn list<T>(
    input: &mut Reader,
    what: &'static str,
    mut take: impl FnMut(&mut Reader) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = input.count(what)?;
    if count > usize::from(KEYSPACE_PARTITIONS_MAX) {
        return Err(DecodeError::TooLarge(what));
    }
    (0..count).map(|_| take(input)).collect()
}

impl Encode for Document {
    fn encode(&self, out: &mut Writer) {
        let partitioning = match self.partitioning {
            Partitioning::Range => 1,
            Partitioning::Hash => 2,
        };
        match self.kind {
            KeyspaceKind::Plain => out.u8(DOCUMENT_VERSION),
            KeyspaceKind::Versioned => out.u8(DOCUMENT_VERSION_WITH_KIND).u8(KIND_VERSIONED),
            KeyspaceKind::Redis => out.u8(DOCUMENT_VERSION_WITH_KIND).u8(KIND_REDIS),
        };
        out.string(&self.name).u8(self.state as u8).u8(partitioning);
        out.varint(self.split_keys.len() as u64);
        self.split_keys.iter().for_each(|key| {
            out.bytes(key);
        });
        out.string(&self.rule).option(self.engine.as_deref(), |w, engine| {
            w.string(engine);
        });
        out.varint(self.epoch).u16(self.clusters).varint(self.owners.len() as u64);
        for (owner, epoch) in self.owners.iter().zip(&self.epochs) {
            out.u16(*owner).varint(*epoch);
        }
        out.option(self.reshard.as_ref(), |w, reshard| reshard.encode(w));
        out.varint(self.moved_partitions).varint(self.moved_keys);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let version = input.u8("document version")?;
        let kind = match version {
            DOCUMENT_VERSION => KeyspaceKind::Plain,
            DOCUMENT_VERSION_WITH_KIND => match input.u8("keyspace kind")? {
                KIND_VERSIONED => KeyspaceKind::Versioned,
                KIND_REDIS => KeyspaceKind::Redis,
                _ => return Err(DecodeError::Unknown("keyspace kind")),
            },
            _ => return Err(DecodeError::version("keyspace document", version, DOCUMENT_VERSION_WITH_KIND)),
        };
        let name = input.string("name")?;
        let state = match input.u8("state")? {
            1 => KeyspaceState::Creating,
            2 => KeyspaceState::Ready,
            3 => KeyspaceState::Deleting,
            _ => return Err(DecodeError::Unknown("state")),
        };
        let partitioning = match input.u8("partitioning")? {
            1 => Partitioning::Range,
            2 => Partitioning::Hash,
            _ => return Err(DecodeError::Unknown("partitioning")),
        };
        let split_keys = list(input, "split keys", |r| r.bytes("split key"))?;
        let rule = input.string("rule")?;
        let engine = input.option("engine", |r| r.string("engine"))?;
        let (epoch, clusters) = (input.varint("epoch")?, input.u16("clusters")?);
        let (owners, epochs) =
            list(input, "partitions", |r| Ok((r.u16("owner")?, r.varint("epoch")?)))?.into_iter().unzip();
        let document = Document {
            name,
            kind,
            state,
            partitioning,
            split_keys,
            rule,
            engine,
            epoch,
            clusters,
            owners,
            epochs,
            reshard: input.option("reshard", Reshard::decode)?,
            moved_partitions: input.varint("moved partitions")?,
            moved_keys: input.varint("moved keys")?,
        };
        document.check()?;
        Ok(document)
    }
}

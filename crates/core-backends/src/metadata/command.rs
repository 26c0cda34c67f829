//! Commands and queries of the `metadata` backend, with their byte forms (docs/formats/backend-metadata.md).
//!
//! Always: a decoded key or value is a slice of the command's own bytes; counts are checked against
//! the bytes that are there before anything is allocated (fuzz target `backend_metadata`).
//! Not here: what a command does (`write.rs`, `partition.rs`), what a query finds (`scan.rs`).

use crate::memory::{Carried, MemoryPage, CARRIED_MAX};
use base_types::action::BatchStep;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{PartitionId, BATCH_OPERATIONS_MAX};
use bytes::Bytes;

/// The most virtual partitions a keyspace has.
pub const KEYSPACE_PARTITIONS_MAX: u16 = 1024;
/// The longest a freeze may last before writes break it.
pub const FREEZE_LEASE_MS_MAX: u32 = 10_000;
/// The most pairs one `Import` carries, one `Dirty` page lists, or one `Release` removes.
pub const MOVE_PAIRS_MAX: usize = 4_096;
/// The most bytes of keys and values one exported page has (one pair may exceed it).
pub const MOVE_PAGE_BYTES_MAX: usize = 1 << 20;

/// Which partition, in which of its lives, a key belongs to. Every move of a partition to another
/// cluster raises its epoch, so a command that was routed by an old document is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Scope {
    /// The virtual partition.
    pub partition: PartitionId,
    /// Its epoch.
    pub epoch: u64,
}

/// One step of a batch; the steps of one batch may lie in several partitions of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScopedStep {
    /// Where the key belongs; `None`: plain use of a cluster without partitions.
    pub scope: Option<Scope>,
    /// What to do.
    pub step: BatchStep,
}

/// How far an import has come. The importing cluster keeps the cursor with the pairs. So a mover that crashed resumes
/// there, and a late copy of an earlier import finds another cursor and changes nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ImportCursor {
    /// The last key copied. Of a partition that is dropped: the last raw key removed.
    pub after: Option<Bytes>,
    /// Every key has been copied once; only dirty ones are left.
    pub copied: bool,
    /// The dirty sequence up to which changes have been taken over.
    pub dirty: u64,
}

/// A change.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Each variant explains its fields.
pub enum Command {
    /// Sets a key.
    Put { scope: Option<Scope>, key: Bytes, value: Bytes },
    /// Removes a key; the reply says whether it was there.
    Delete { scope: Option<Scope>, key: Bytes },
    /// All steps in order, or none.
    Batch { steps: Vec<ScopedStep> },
    /// Sets (`Some`) or removes (`None`) the key if its value is `expected` (`None`: absent).
    CompareAndSet { scope: Option<Scope>, key: Bytes, expected: Option<Bytes>, value: Option<Bytes> },
    /// All steps in order if every one of these keys has this value (`None`: is absent); else none.
    BatchIf { expected: Vec<Expected>, steps: Vec<ScopedStep> },
    /// Takes partitions, empty.
    Adopt { scopes: Vec<Scope> },
    /// The owner begins to record which keys change.
    BeginMove { scope: Scope },
    /// Writes are refused for `lease_ms`; the first write after that breaks the freeze.
    Freeze { scope: Scope, lease_ms: u32 },
    /// Writes are taken again.
    Unfreeze { scope: Scope },
    /// The owner gives the partition up for good, if it is frozen and nothing changed since `dirty`.
    Handover { scope: Scope, dirty: u64 },
    /// The new owner begins to take pairs; `scope` has the new epoch.
    PrepareImport { scope: Scope },
    /// Sets and removes pairs and moves the cursor from `expected` to `cursor`; where the cursor is another, nothing
    /// changes and the reply holds that cursor.
    Import { scope: Scope, expected: ImportCursor, cursor: ImportCursor, pairs: Vec<(Bytes, Option<Bytes>)> },
    /// The new owner takes clients.
    Activate { scope: Scope },
    /// The import is given up; `Release` then removes what had come.
    AbortImport { scope: Scope },
    /// Removes up to `limit` pairs of a partition that was handed over or aborted.
    Release { scope: Scope, limit: u32 },
    /// The new owner remembers requests that the old one has applied, before it takes clients.
    Remember { scope: Scope, ids: Vec<Carried> },
}

/// What a key must be for a batch to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The partition it is in; none: a plain key.
    pub scope: Option<Scope>,
    /// The key.
    pub key: Bytes,
    /// Its value; `None`: it is absent.
    pub value: Option<Bytes>,
}

/// The first byte of `Remember`, and of the query `Remembered`.
pub(super) const REMEMBER: u8 = 26;
pub(super) const REMEMBERED: u8 = 7;

/// Which keys a scan covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScanScopes {
    /// The plain keys.
    Plain,
    /// These partitions; each must be owned at its epoch.
    Partitions(Vec<Scope>),
    /// Lists the partitions that the cluster owns.
    Owned,
}

/// A question.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Each variant explains its fields.
pub enum Query {
    /// A key's value.
    Get { scope: Option<Scope>, key: Bytes },
    /// Pairs from `start` (inclusive) to `end` (exclusive) in key order over all scopes together,
    /// or from the end down; without values where `keys_only`.
    Scan {
        scopes: ScanScopes,
        start: Bytes,
        end: Option<Bytes>,
        reverse: bool,
        limit: u32,
        bytes_max: u32,
        keys_only: bool,
    },
    /// Keys changed since dirty sequence `after`, in the order they changed, with what they are now.
    Dirty { scope: Scope, after: u64, limit: u32 },
    /// Pairs behind `after` for the new owner.
    ExportPage { scope: Scope, after: Option<Bytes>, bytes_max: u32 },
    /// Every partition this cluster knows of.
    Partitions,
    /// One partition.
    Partition { partition: PartitionId },
    /// Which requests on a partition's keys were applied, in entries behind `after`. The cluster itself answers it.
    Remembered { partition: PartitionId, after: u64 },
}

/// Where a partition stands in one cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PartitionState {
    /// Serves reads and writes.
    Owned = 1,
    /// Serves, and records which keys change.
    Moving = 2,
    /// Serves reads; writes wait until the freeze ends.
    Frozen = 3,
    /// Takes pairs from the present owner; serves nobody.
    Importing = 4,
    /// Given up; its pairs wait to be removed.
    Dropping = 5,
    /// Given up and removed; stays as a mark that this epoch never comes back here.
    Released = 6,
}

/// What a cluster reports of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionInfo {
    /// Which, and in which life.
    pub scope: Scope,
    /// Where it stands.
    pub state: PartitionState,
    /// How many pairs it has here, exactly.
    pub keys: u64,
    /// The sequence of the last recorded change (owner, while moving).
    pub dirty: u64,
    /// How far the import is (new owner).
    pub cursor: ImportCursor,
}

/// What a command or a query comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Each variant explains its fields.
pub enum Reply {
    /// Done; nothing to tell.
    Done,
    /// Of `Delete`.
    Deleted { existed: bool },
    /// Of every command on one partition but `Release`: where it now stands.
    Partition(PartitionInfo),
    /// Of `Release`: how many pairs went, and whether more are left.
    Released { removed: u64, more: bool },
    /// Of `Get`.
    Value { value: Option<Bytes> },
    /// Of `Scan`: the pairs, whether there are more, and which partitions were covered.
    Page { entries: Vec<(Bytes, Bytes)>, more: bool, covered: Vec<Scope> },
    /// Of `Dirty`: each key with its value (`None`: removed), the sequence reached, whether there is more.
    Dirty { pairs: Vec<(Bytes, Option<Bytes>)>, reached: u64, more: bool },
    /// Of `ExportPage`.
    Export { pairs: Vec<(Bytes, Bytes)>, more: bool },
    /// Of the queries `Partitions` and `Partition` (none or one then).
    Partitions(Vec<PartitionInfo>),
    /// Of `Remembered`.
    Remembered(MemoryPage),
}

impl Encode for Scope {
    fn encode(&self, out: &mut Writer) {
        out.u16(self.partition.0).varint(self.epoch);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let partition = PartitionId(input.u16("partition")?);
        if partition.0 >= KEYSPACE_PARTITIONS_MAX {
            return Err(DecodeError::TooLarge("partition"));
        }
        Ok(Scope { partition, epoch: input.varint("epoch")? })
    }
}

impl Encode for ImportCursor {
    fn encode(&self, out: &mut Writer) {
        out.option(self.after.as_ref(), put_bytes).bool(self.copied).varint(self.dirty);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(ImportCursor {
            after: input.option("cursor key", |r| r.bytes("cursor key"))?,
            copied: input.bool("copied")?,
            dirty: input.varint("dirty sequence")?,
        })
    }
}

fn put_bytes(out: &mut Writer, value: &Bytes) {
    out.bytes(value);
}

fn put_scope(out: &mut Writer, scope: &Option<Scope>) {
    out.option(scope.as_ref(), |w, s| s.encode(w));
}

fn take_scope(input: &mut Reader) -> Result<Option<Scope>, DecodeError> {
    input.option("scope", Scope::decode)
}

/// A list with its length in front; no more than `most`.
fn take_list<T>(
    input: &mut Reader,
    what: &'static str,
    most: usize,
    mut take: impl FnMut(&mut Reader) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = input.count(what)?;
    if count > most {
        return Err(DecodeError::TooLarge(what));
    }
    let mut list = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        list.push(take(input)?);
    }
    Ok(list)
}

fn put_scopes(out: &mut Writer, scopes: &[Scope]) {
    out.varint(scopes.len() as u64);
    for scope in scopes {
        scope.encode(out);
    }
}

fn take_scopes(input: &mut Reader) -> Result<Vec<Scope>, DecodeError> {
    take_list(input, "scopes", usize::from(KEYSPACE_PARTITIONS_MAX), Scope::decode)
}

fn put_changes(out: &mut Writer, pairs: &[(Bytes, Option<Bytes>)]) {
    out.varint(pairs.len() as u64);
    for (key, value) in pairs {
        out.bytes(key).option(value.as_ref(), put_bytes);
    }
}

fn take_changes(input: &mut Reader) -> Result<Vec<(Bytes, Option<Bytes>)>, DecodeError> {
    take_list(input, "pairs", MOVE_PAIRS_MAX, |r| Ok((r.bytes("key")?, r.option("value", |r| r.bytes("value"))?)))
}

fn put_pairs(out: &mut Writer, pairs: &[(Bytes, Bytes)]) {
    out.varint(pairs.len() as u64);
    for (key, value) in pairs {
        out.bytes(key).bytes(value);
    }
}

fn take_pairs(input: &mut Reader) -> Result<Vec<(Bytes, Bytes)>, DecodeError> {
    take_list(input, "pairs", base_types::SCAN_LIMIT_MAX as usize, |r| Ok((r.bytes("key")?, r.bytes("value")?)))
}

fn put_carried(out: &mut Writer, ids: &[Carried]) {
    out.varint(ids.len() as u64);
    ids.iter().for_each(|carried| carried.encode(out));
}

fn take_carried(input: &mut Reader, most: usize) -> Result<Vec<Carried>, DecodeError> {
    take_list(input, "request ids", most, Carried::decode)
}

impl Encode for ScopedStep {
    fn encode(&self, out: &mut Writer) {
        put_scope(out, &self.scope);
        match &self.step {
            BatchStep::Put { key, value } => out.u8(1).bytes(key).bytes(value),
            BatchStep::Delete { key } => out.u8(2).bytes(key),
        };
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let scope = take_scope(input)?;
        let step = match input.u8("batch step")? {
            1 => BatchStep::Put { key: input.bytes("key")?, value: input.bytes("value")? },
            2 => BatchStep::Delete { key: input.bytes("key")? },
            _ => return Err(DecodeError::Unknown("batch step")),
        };
        Ok(ScopedStep { scope, step })
    }
}

impl Encode for Expected {
    fn encode(&self, out: &mut Writer) {
        put_scope(out, &self.scope);
        out.bytes(&self.key).option(self.value.as_ref(), put_bytes);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Expected {
            scope: take_scope(input)?,
            key: input.bytes("expected key")?,
            value: input.option("expected", |r| r.bytes("expected"))?,
        })
    }
}

impl Command {
    /// A little more than the bytes its form takes, so that encoding a put allocates once.
    fn bytes_hint(&self) -> usize {
        match self {
            Command::Put { key, value, .. } => key.len() + value.len() + 32,
            Command::CompareAndSet { key, expected, value, .. } => {
                key.len() + expected.as_ref().map_or(0, Bytes::len) + value.as_ref().map_or(0, Bytes::len) + 48
            }
            _ => 64,
        }
    }
}

impl Encode for Command {
    fn encode(&self, out: &mut Writer) {
        match self {
            Command::Put { scope, key, value } => {
                put_scope(out.u8(1), scope);
                out.bytes(key).bytes(value);
            }
            Command::Delete { scope, key } => {
                put_scope(out.u8(2), scope);
                out.bytes(key);
            }
            Command::Batch { steps } => {
                out.u8(3).varint(steps.len() as u64);
                steps.iter().for_each(|step| step.encode(out));
            }
            Command::CompareAndSet { scope, key, expected, value } => {
                put_scope(out.u8(4), scope);
                out.bytes(key).option(expected.as_ref(), put_bytes).option(value.as_ref(), put_bytes);
            }
            Command::BatchIf { expected, steps } => {
                out.u8(5).varint(expected.len() as u64);
                expected.iter().for_each(|one| one.encode(out));
                out.varint(steps.len() as u64);
                steps.iter().for_each(|step| step.encode(out));
            }
            Command::Adopt { scopes } => put_scopes(out.u8(16), scopes),
            Command::BeginMove { scope } => scope.encode(out.u8(17)),
            Command::Freeze { scope, lease_ms } => {
                scope.encode(out.u8(18));
                out.u32(*lease_ms);
            }
            Command::Unfreeze { scope } => scope.encode(out.u8(19)),
            Command::Handover { scope, dirty } => {
                scope.encode(out.u8(20));
                out.varint(*dirty);
            }
            Command::PrepareImport { scope } => scope.encode(out.u8(21)),
            Command::Import { scope, expected, cursor, pairs } => {
                scope.encode(out.u8(22));
                expected.encode(out);
                cursor.encode(out);
                put_changes(out, pairs);
            }
            Command::Activate { scope } => scope.encode(out.u8(23)),
            Command::AbortImport { scope } => scope.encode(out.u8(24)),
            Command::Release { scope, limit } => {
                scope.encode(out.u8(25));
                out.u32(*limit);
            }
            Command::Remember { scope, ids } => {
                scope.encode(out.u8(REMEMBER));
                put_carried(out, ids);
            }
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("command")? {
            1 => Command::Put { scope: take_scope(input)?, key: input.bytes("key")?, value: input.bytes("value")? },
            2 => Command::Delete { scope: take_scope(input)?, key: input.bytes("key")? },
            3 => Command::Batch { steps: take_list(input, "batch", BATCH_OPERATIONS_MAX, ScopedStep::decode)? },
            4 => Command::CompareAndSet {
                scope: take_scope(input)?,
                key: input.bytes("key")?,
                expected: input.option("expected", |r| r.bytes("expected"))?,
                value: input.option("value", |r| r.bytes("value"))?,
            },
            5 => Command::BatchIf {
                expected: take_list(input, "expected", BATCH_OPERATIONS_MAX, Expected::decode)?,
                steps: take_list(input, "batch", BATCH_OPERATIONS_MAX, ScopedStep::decode)?,
            },
            16 => Command::Adopt { scopes: take_scopes(input)? },
            17 => Command::BeginMove { scope: Scope::decode(input)? },
            18 => Command::Freeze { scope: Scope::decode(input)?, lease_ms: input.u32("lease")? },
            19 => Command::Unfreeze { scope: Scope::decode(input)? },
            20 => Command::Handover { scope: Scope::decode(input)?, dirty: input.varint("dirty sequence")? },
            21 => Command::PrepareImport { scope: Scope::decode(input)? },
            22 => Command::Import {
                scope: Scope::decode(input)?,
                expected: ImportCursor::decode(input)?,
                cursor: ImportCursor::decode(input)?,
                pairs: take_changes(input)?,
            },
            23 => Command::Activate { scope: Scope::decode(input)? },
            24 => Command::AbortImport { scope: Scope::decode(input)? },
            25 => Command::Release { scope: Scope::decode(input)?, limit: input.u32("limit")? },
            REMEMBER => Command::Remember { scope: Scope::decode(input)?, ids: take_carried(input, CARRIED_MAX)? },
            _ => return Err(DecodeError::Unknown("metadata command")),
        })
    }

    fn to_bytes(&self) -> Bytes {
        let mut out = Writer::with_capacity(self.bytes_hint());
        self.encode(&mut out);
        out.finish()
    }
}

impl Encode for ScanScopes {
    fn encode(&self, out: &mut Writer) {
        match self {
            ScanScopes::Plain => {
                out.u8(0);
            }
            ScanScopes::Partitions(scopes) => put_scopes(out.u8(1), scopes),
            ScanScopes::Owned => {
                out.u8(2);
            }
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("scan scopes")? {
            0 => ScanScopes::Plain,
            1 => ScanScopes::Partitions(take_scopes(input)?),
            2 => ScanScopes::Owned,
            _ => return Err(DecodeError::Unknown("scan scopes")),
        })
    }
}

impl Encode for Query {
    fn encode(&self, out: &mut Writer) {
        match self {
            Query::Get { scope, key } => {
                put_scope(out.u8(1), scope);
                out.bytes(key);
            }
            Query::Scan { scopes, start, end, reverse, limit, bytes_max, keys_only } => {
                scopes.encode(out.u8(2));
                out.bytes(start)
                    .option(end.as_ref(), put_bytes)
                    .bool(*reverse)
                    .u32(*limit)
                    .u32(*bytes_max)
                    .bool(*keys_only);
            }
            Query::Dirty { scope, after, limit } => {
                scope.encode(out.u8(3));
                out.varint(*after).u32(*limit);
            }
            Query::ExportPage { scope, after, bytes_max } => {
                scope.encode(out.u8(4));
                out.option(after.as_ref(), put_bytes).u32(*bytes_max);
            }
            Query::Partitions => {
                out.u8(5);
            }
            Query::Partition { partition } => {
                out.u8(6).u16(partition.0);
            }
            Query::Remembered { partition, after } => {
                out.u8(REMEMBERED).u16(partition.0).varint(*after);
            }
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("query")? {
            1 => Query::Get { scope: take_scope(input)?, key: input.bytes("key")? },
            2 => Query::Scan {
                scopes: ScanScopes::decode(input)?,
                start: input.bytes("start")?,
                end: input.option("end", |r| r.bytes("end"))?,
                reverse: input.bool("reverse")?,
                limit: input.u32("limit")?,
                bytes_max: input.u32("bytes")?,
                keys_only: input.bool("keys only")?,
            },
            3 => {
                Query::Dirty { scope: Scope::decode(input)?, after: input.varint("after")?, limit: input.u32("limit")? }
            }
            4 => Query::ExportPage {
                scope: Scope::decode(input)?,
                after: input.option("after", |r| r.bytes("after"))?,
                bytes_max: input.u32("bytes")?,
            },
            5 => Query::Partitions,
            6 => Query::Partition { partition: PartitionId(input.u16("partition")?) },
            REMEMBERED => {
                Query::Remembered { partition: PartitionId(input.u16("partition")?), after: input.varint("after")? }
            }
            _ => return Err(DecodeError::Unknown("metadata query")),
        })
    }
}

impl PartitionState {
    /// From its byte on disk and wire.
    pub fn from_byte(byte: u8) -> Option<Self> {
        use PartitionState::*;
        [Owned, Moving, Frozen, Importing, Dropping, Released].into_iter().find(|state| *state as u8 == byte)
    }

    /// Whether clients' reads are served.
    pub fn serves(self) -> bool {
        matches!(self, PartitionState::Owned | PartitionState::Moving | PartitionState::Frozen)
    }

    /// The word used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            PartitionState::Owned => "owned",
            PartitionState::Moving => "moving",
            PartitionState::Frozen => "frozen",
            PartitionState::Importing => "importing",
            PartitionState::Dropping => "dropping",
            PartitionState::Released => "released",
        }
    }
}

impl Encode for PartitionInfo {
    fn encode(&self, out: &mut Writer) {
        self.scope.encode(out);
        out.u8(self.state as u8).varint(self.keys).varint(self.dirty);
        self.cursor.encode(out);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(PartitionInfo {
            scope: Scope::decode(input)?,
            state: PartitionState::from_byte(input.u8("state")?).ok_or(DecodeError::Unknown("state"))?,
            keys: input.varint("keys")?,
            dirty: input.varint("dirty sequence")?,
            cursor: ImportCursor::decode(input)?,
        })
    }
}

impl Encode for Reply {
    fn encode(&self, out: &mut Writer) {
        match self {
            Reply::Done => {
                out.u8(0);
            }
            Reply::Deleted { existed } => {
                out.u8(1).bool(*existed);
            }
            Reply::Partition(info) => info.encode(out.u8(2)),
            Reply::Released { removed, more } => {
                out.u8(3).varint(*removed).bool(*more);
            }
            Reply::Value { value } => {
                out.u8(4).option(value.as_ref(), put_bytes);
            }
            Reply::Page { entries, more, covered } => {
                put_pairs(out.u8(5), entries);
                put_scopes(out.bool(*more), covered);
            }
            Reply::Dirty { pairs, reached, more } => {
                put_changes(out.u8(6), pairs);
                out.varint(*reached).bool(*more);
            }
            Reply::Export { pairs, more } => {
                put_pairs(out.u8(7), pairs);
                out.bool(*more);
            }
            Reply::Partitions(list) => {
                out.u8(8).varint(list.len() as u64);
                list.iter().for_each(|info| info.encode(out));
            }
            Reply::Remembered(page) => {
                page.encode(out.u8(9));
            }
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("metadata reply")? {
            0 => Reply::Done,
            1 => Reply::Deleted { existed: input.bool("existed")? },
            2 => Reply::Partition(PartitionInfo::decode(input)?),
            3 => Reply::Released { removed: input.varint("removed")?, more: input.bool("more")? },
            4 => Reply::Value { value: input.option("value", |r| r.bytes("value"))? },
            5 => Reply::Page { entries: take_pairs(input)?, more: input.bool("more")?, covered: take_scopes(input)? },
            6 => Reply::Dirty {
                pairs: take_changes(input)?,
                reached: input.varint("reached")?,
                more: input.bool("more")?,
            },
            7 => Reply::Export { pairs: take_pairs(input)?, more: input.bool("more")? },
            8 => Reply::Partitions(take_list(
                input,
                "partitions",
                usize::from(KEYSPACE_PARTITIONS_MAX),
                PartitionInfo::decode,
            )?),
            9 => Reply::Remembered(MemoryPage::decode(input)?),
            _ => return Err(DecodeError::Unknown("metadata reply")),
        })
    }
}

//! Request ids that go along when a part of a cluster's keys moves to another cluster.
//!
//! Which ids were applied is the cluster's own memory (core-cluster): no backend sees it, and the cluster does not know
//! what a command means. Here is what each must know of the other: which part of the keys a command is about, which
//! query asks for the memory of a part, which command brings one.
//!
//! Always: told from the first bytes, since it is asked of every command that is applied.
//! Not here: what is remembered and for how long (core-cluster, request_ids.rs), when it is carried (core-node,
//! keyspace/run.rs). Why: docs/decisions/0005-exactly-once-and-cluster-time.md.

use crate::{encode_reply, metadata};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{BackendKind, PartitionId, RequestId};
use bytes::Bytes;

/// The most ids one command brings; a page of what is remembered ends there, or with the entry that goes beyond.
pub const CARRIED_MAX: usize = 1_024;
/// The most ids a page has: no entry has more.
pub const PAGE_IDS_MAX: usize = 64 << 10;

/// The part of a cluster's keys that a command is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Part(u16);

impl Part {
    /// The cluster as a whole: nothing moves.
    pub const WHOLE: Part = Part(0);
    /// Several parts at once: goes along with each of them.
    pub const SEVERAL: Part = Part(u16::MAX);

    /// One partition.
    pub fn one(partition: PartitionId) -> Part {
        Part(partition.0.saturating_add(1).min(u16::MAX - 1))
    }

    /// As kept.
    pub fn number(self) -> u16 {
        self.0
    }

    /// From what was kept.
    pub fn from_number(number: u16) -> Part {
        Part(number)
    }

    /// Whether what is remembered of this goes along when `moving` moves.
    pub fn goes_with(self, moving: Part) -> bool {
        self == moving || self == Part::SEVERAL
    }
}

/// A request that was applied, as one cluster tells another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    pub id: RequestId,
    /// How much longer it must be remembered.
    pub keep_ms: u64,
    pub part: Part,
    /// How it was answered.
    pub reply: Bytes,
}

impl Encode for Carried {
    fn encode(&self, out: &mut Writer) {
        out.u128(self.id.0).varint(self.keep_ms).u16(self.part.0).bytes(&self.reply);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Carried {
            id: RequestId(input.u128("request id")?),
            keep_ms: input.varint("keep")?,
            part: Part(input.u16("part")?),
            reply: input.bytes("reply")?,
        })
    }
}

/// The memory that a query asks for: of which part, behind which index of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryAsked {
    pub part: Part,
    pub after: u64,
}

/// A page of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryPage {
    pub ids: Vec<Carried>,
    /// The index up to which all has been told.
    pub reached: u64,
    pub more: bool,
}

/// Which part a command is about.
pub fn part_of(backend: BackendKind, command: &Bytes) -> Part {
    match backend {
        BackendKind::Metadata => metadata::part_of(command),
        _ => Part::WHOLE,
    }
}

/// Whether a query asks the cluster for its memory.
pub fn memory_asked(backend: BackendKind, query: &Bytes) -> Option<MemoryAsked> {
    match backend {
        BackendKind::Metadata => metadata::memory_asked(query),
        _ => None,
    }
}

/// The reply to such a query.
pub fn tell_memory(page: MemoryPage) -> Bytes {
    encode_reply(&Ok(metadata::Reply::Remembered(page)))
}

/// What a command that was carried out brings for the cluster's memory.
pub fn memory_brought(backend: BackendKind, command: &Bytes, reply: &Bytes) -> Vec<Carried> {
    match backend {
        BackendKind::Metadata if reply.first() == Some(&0) => metadata::memory_brought(command),
        _ => Vec::new(),
    }
}

//! Request ids that go along when a part of a cluster's keys moves to another cluster.
//!
//! Which ids were applied is the cluster's own memory (core-cluster): no backend sees it, and the cluster does not know
//! what a command means. Here is what each must know of the other: which part of the keys a command is about, which
//! query asks for the memory of a part, which command brings one.
//!
//! Always: told from the first bytes, since it is asked of every command that is applied.
//! Not here: what is remembered and for how long (core-cluster, request_ids.rs), when it is carried (core-node,
//! keyspace/run.rs). Why: docs/decisions/0005-exactly-once-and-cluster-time.md.

use crate::{encode_reply, metadata, shard, ApplyContext, SpaceWrite};
use base_engine::EngineError;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::{BackendKind, PartitionId, RequestId};
use bytes::Bytes;

/// The most ids one command brings; a page of what is remembered ends there, or with the entry that goes beyond.
pub const CARRIED_MAX: usize = 1_024;
/// The bytes of replies after which a command that brings ids ends; one id's reply may go beyond.
const CARRIED_BYTES_MAX: usize = 1 << 20;
/// The most ids a page has: no entry has more (one of 1 MiB that brings ids, or deletes keys, with at least 24 bytes each).
pub const PAGE_IDS_MAX: usize = 64 << 10;

/// As much of a key as is kept with a request on it: mostly all. Of two keys that begin with so many same bytes it is
/// not told which a request was about; it goes along with both.
pub const KEPT_KEY_BYTES_MAX: usize = 64;
/// Stands for `Part::OBJECTS` where a key follows. No partition has that number.
const PLACED: u16 = u16::MAX - 1;
const _: () = assert!(metadata::KEYSPACE_PARTITIONS_MAX < PLACED - 1);

/// The part of a cluster's keys that a command is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Part(u16);

impl Part {
    /// The cluster as a whole: nothing moves.
    pub const WHOLE: Part = Part(0);
    /// Several parts at once: goes along with each of them.
    pub const SEVERAL: Part = Part(u16::MAX);
    /// The objects of a shard. Which of the shards that take over keys is told is a matter of the key
    /// ([`About::may_lie_in`]); an id too many does no harm.
    pub const OBJECTS: Part = Part(1);

    /// One partition.
    pub fn one(partition: PartitionId) -> Part {
        Part(partition.0.saturating_add(1).min(u16::MAX - 1))
    }

    /// Whether what is remembered of this goes along when `moving` moves.
    pub fn goes_with(self, moving: Part) -> bool {
        self == moving || self == Part::SEVERAL
    }
}

/// What a command is about, as far as it is kept: a part of the keys, and of an object's the key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    pub part: Part,
    /// The key, or its first [`KEPT_KEY_BYTES_MAX`] bytes. Empty: not known, or several.
    key: Box<[u8]>,
}

impl From<Part> for About {
    fn from(part: Part) -> About {
        About { part, key: Box::default() }
    }
}

impl About {
    /// An object.
    pub fn object(key: &[u8]) -> About {
        About { part: Part::OBJECTS, key: key[..key.len().min(KEPT_KEY_BYTES_MAX)].into() }
    }

    /// Whether its key may lie in this range: never `false` where it does.
    pub fn may_lie_in(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        let key = &*self.key;
        let cut_short = key.len() == KEPT_KEY_BYTES_MAX && !planted(Mutant::LongKeysTakenForWhole);
        let reaches_start = key >= start || cut_short && start.starts_with(key);
        key.is_empty() || reaches_start && end.is_none_or(|end| key < end)
    }

    /// What it takes to keep it.
    pub fn bytes(&self) -> usize {
        self.key.len()
    }

    /// Its number as kept: those of parts that have no key are what they were before keys were kept.
    fn number(&self) -> u16 {
        if self.key.is_empty() {
            self.part.0
        } else {
            PLACED
        }
    }

    fn with_key(number: u16, input: &mut Reader) -> Result<About, DecodeError> {
        if number != PLACED {
            return Ok(Part(number).into());
        }
        match input.bytes("key")? {
            key if key.is_empty() || key.len() > KEPT_KEY_BYTES_MAX => Err(DecodeError::TooLarge("key")),
            key => Ok(About::object(&key)),
        }
    }

    /// As a cluster's rows have it: a number, and behind that of an object its key.
    pub fn encode_short(&self, out: &mut Writer) {
        out.varint(u64::from(self.number()));
        if !self.key.is_empty() {
            out.bytes(&self.key);
        }
    }

    pub fn decode_short(input: &mut Reader) -> Result<About, DecodeError> {
        let number = u16::try_from(input.varint("part")?).map_err(|_| DecodeError::TooLarge("part"))?;
        About::with_key(number, input)
    }
}

/// A request that was applied, as one cluster tells another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    pub id: RequestId,
    /// How much longer it must be remembered.
    pub keep_ms: u64,
    pub about: About,
    /// How it was answered.
    pub reply: Bytes,
}

impl Encode for Carried {
    fn encode(&self, out: &mut Writer) {
        out.u128(self.id.0).varint(self.keep_ms).u16(self.about.number());
        if !self.about.key.is_empty() {
            out.bytes(&self.about.key);
        }
        out.bytes(&self.reply);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Carried {
            id: RequestId(input.u128("request id")?),
            keep_ms: input.varint("keep")?,
            about: {
                let number = input.u16("part")?;
                About::with_key(number, input)?
            },
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

impl Encode for MemoryPage {
    fn encode(&self, out: &mut Writer) {
        out.varint(self.ids.len() as u64);
        self.ids.iter().for_each(|carried| carried.encode(out));
        out.varint(self.reached).bool(self.more);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let count = input.count("ids")?;
        if count > PAGE_IDS_MAX {
            return Err(DecodeError::TooLarge("ids"));
        }
        let ids: Result<Vec<Carried>, DecodeError> = (0..count).map(|_| Carried::decode(input)).collect();
        Ok(MemoryPage { ids: ids?, reached: input.varint("reached")?, more: input.bool("more")? })
    }
}

/// What a command is about.
pub fn about_of(backend: BackendKind, command: &Bytes) -> About {
    match backend {
        BackendKind::Metadata => metadata::part_of(command).into(),
        BackendKind::Shard => shard::about_of(command),
        _ => Part::WHOLE.into(),
    }
}

/// Whether a query asks the cluster for its memory.
pub fn memory_asked(backend: BackendKind, query: &Bytes) -> Option<MemoryAsked> {
    match backend {
        BackendKind::Metadata => metadata::memory_asked(query),
        BackendKind::Shard => shard::memory_asked(query),
        _ => None,
    }
}

/// The reply to such a query.
pub fn tell_memory(backend: BackendKind, page: MemoryPage) -> Bytes {
    match backend {
        BackendKind::Shard => encode_reply(&Ok(shard::Reply::Remembered { page })),
        _ => encode_reply(&Ok(metadata::Reply::Remembered(page))),
    }
}

/// What one command each may bring.
pub fn in_commands(ids: Vec<Carried>) -> Vec<Vec<Carried>> {
    let mut commands: Vec<Vec<Carried>> = Vec::new();
    let mut bytes = 0;
    for carried in ids {
        let more = carried.reply.len() + carried.about.bytes();
        let full = |last: &Vec<Carried>| last.len() >= CARRIED_MAX || bytes + more > CARRIED_BYTES_MAX;
        if commands.last().is_none_or(full) {
            commands.push(Vec::new());
            bytes = 0;
        }
        bytes += more;
        commands.last_mut().into_iter().for_each(|last| last.push(carried.clone()));
    }
    commands
}

/// What a command that was carried out brings for the cluster's memory; of requests of its own, for `keep_ms`.
pub fn memory_brought(backend: BackendKind, command: &Bytes, reply: &Bytes, keep_ms: u64) -> Vec<Carried> {
    match backend {
        BackendKind::Metadata if reply.first() == Some(&0) => metadata::memory_brought(command),
        BackendKind::Shard if reply.first() == Some(&0) => shard::memory_brought(command, reply, keep_ms),
        _ => Vec::new(),
    }
}

/// As [`crate::apply`], but what a command asks beside other things, and what the cluster remembers (`known`), is not
/// done once more. (A command that is remembered as a whole does not come here.)
pub fn apply_once(
    backend: BackendKind,
    at: ApplyContext,
    space: &mut dyn SpaceWrite,
    command: &Bytes,
    known: &dyn Fn(RequestId) -> Option<Bytes>,
) -> Result<Bytes, EngineError> {
    match backend {
        BackendKind::Shard => shard::each::apply(at, space, command, known),
        _ => crate::apply(backend, at, space, command),
    }
}

#[cfg(test)]
pub(crate) mod tests;

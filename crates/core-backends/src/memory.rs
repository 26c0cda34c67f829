//! Remembered request ids (deduplication) that move with a part of a cluster's keys to another cluster.
//!
//! Which ids were applied is the cluster's own memory (core-cluster): no backend sees it, and the cluster does not know
//! what a command means. Here are the words in which each learns of the other: the part of the keys that a command is
//! about, the memory of a part, as it is asked for and as it is brought.
//!
//! By design: nothing here knows a backend (`cargo xtask tidy` counts circles).
//! Not here: what each backend says of its commands (`contract.rs`), what is remembered and for how long (core-cluster, request_ids.rs), when it is carried (core-keyspace,
//! reshard/run.rs). Why: docs/decisions/0061-request-ids-move-with-keys.md.

use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::{PartitionId, RequestId};
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
/// Partitions have smaller numbers.
pub const PARTITION_NUMBER_END: u16 = PLACED - 1;

/// The part of a cluster's keys that a command is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Part(u16);

impl Part {
    /// The cluster as a whole: nothing moves.
    pub const WHOLE: Part = Part(0);
    /// Several parts at once: goes along with each of them.
    pub const SEVERAL: Part = Part(u16::MAX);
    /// The objects of a shard. The key decides which of a split's targets receives the id ([`About::may_lie_in`]); a
    /// superfluous id does no harm.
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

/// An applied request, as one cluster sends it to another.
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

#[cfg(test)]
pub(crate) mod tests;

//! Verifying what an engine keeps, a part at a time, and a space's digest, to compare replicas by.
//!
//! ```text
//!   Engine::verify(after) ─▶ VerifiedPart { …, next } ─▶ Engine::verify(next) … until next is None
//! ```
//!
//! Always: a part is bounded, so that a scrub can pause after each. A digest depends on the pairs of a space alone: it
//! is the same in every engine, whatever the engine puts around them.
//! Held by: `digests_tell_changes`, `verifying_meets_everything_and_finds_nothing`.
//! Not here: what an engine's checksums are; asking a healthy replica for what is damaged (core-cluster, `value_repair.rs`).

use crate::{Direction, Engine, EngineError, EngineRead, KeyRange};
use base_types::SpaceId;
use bytes::Bytes;
use std::ops::ControlFlow;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A part ends behind so many pairs, or bytes.
pub const PART_PAIRS_MAX: u64 = 1000;
/// A part ends behind so many bytes.
pub const PART_BYTES_MAX: u64 = 4 << 20;

/// What one step of verifying found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedPart {
    /// Entries that were read and checked.
    pub entries: u64,
    /// Bytes read for it: what a rate limit counts.
    pub bytes: u64,
    /// Keys that are damaged and were told apart; the engine refuses them until they are written anew.
    /// Damage an engine cannot tell apart by keys is an error instead.
    pub damaged: Vec<(SpaceId, Bytes)>,
    /// Spaces whose durable index is damaged: written anew, it is whole again.
    pub indexes: Vec<SpaceId>,
    /// Where to continue; `None`: this was the last part.
    pub next: Option<Bytes>,
}

/// A space's pairs in one number; equal replicas at one index have equal ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Pairs.
    pub pairs: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// XXH3-64 chained over keys and values in order.
    pub hash: u64,
}

impl Digest {
    /// The next pair, in ascending order.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.pairs += 1;
        self.bytes += (key.len() + value.len()) as u64;
        // The key's length goes in, so that no byte can pass from a key to its value.
        let length = xxh3_64_with_seed(&(key.len() as u64).to_le_bytes(), self.hash);
        self.hash = xxh3_64_with_seed(value, xxh3_64_with_seed(key, length));
    }
}

/// The digest of a space: take it of a snapshot.
pub fn digest(read: &dyn EngineRead, space: SpaceId) -> Result<Digest, EngineError> {
    let mut digest = Digest::default();
    read.range(space, KeyRange::ALL, Direction::Forward, &mut |key, value| {
        digest.add(key, value);
        ControlFlow::Continue(())
    })?;
    Ok(digest)
}

/// A part by reading pairs, which tries their seals: for engines that have nothing better.
/// `after`: empty, or space and key of the last pair of the part before.
pub fn verify_by_reading<E: Engine + ?Sized>(engine: &E, after: &[u8]) -> Result<VerifiedPart, EngineError> {
    let (from, mut start) = match after.split_first_chunk::<8>() {
        Some((space, key)) => (SpaceId(u64::from_be_bytes(*space)), [key, &[0]].concat()),
        None => (SpaceId(0), Vec::new()),
    };
    let mut part = VerifiedPart::default();
    let mut spaces = engine.spaces()?;
    spaces.sort_unstable();
    for one in spaces.into_iter().filter(|one| *one >= from) {
        if one != from {
            start.clear();
        }
        match engine.durable_index(one) {
            Err(EngineError::Corrupt(_)) => part.indexes.push(one),
            other => drop(other?),
        }
        let mut last = None;
        engine.walk(one, KeyRange { start: &start, end: None }, &mut |key, value| {
            part.entries += 1;
            part.bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
            if value.is_none() {
                part.damaged.push((one, Bytes::copy_from_slice(key)));
            }
            if part.entries < PART_PAIRS_MAX && part.bytes < PART_BYTES_MAX {
                return ControlFlow::Continue(());
            }
            last = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        if let Some(key) = last {
            part.next = Some([&one.0.to_be_bytes()[..], &key].concat().into());
            return Ok(part);
        }
    }
    Ok(part)
}

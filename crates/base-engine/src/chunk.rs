//! Moving a space from one engine to another in bounded pieces: what snapshots and rebuilds stream.
//!
//!   version u8 = 1 │ done u8 │ count varint │ count × (key: varint, bytes │ value: varint, bytes)
//!
//! Always: keys within a chunk ascend strictly and begin behind `after_key`; a chunk that is not
//! `done` holds at least one pair, so that asking again behind its last key ends; decoding allocates
//! no more than a small multiple of the bytes that are there.
//! Not here: who sends chunks to whom, checksums of the frame around them (core-cluster).

use crate::{BatchOperation, Direction, Engine, EngineError, EngineRead, KeyRange, WriteBatch};
use crate::{ENGINE_KEY_BYTES_MAX, ENGINE_VALUE_BYTES_MAX};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::SpaceId;
use bytes::Bytes;
use std::ops::ControlFlow;

/// The form's version.
const CHUNK_VERSION: u8 = 1;
/// The most pairs `export` puts into one chunk, however small they are.
pub const CHUNK_PAIRS_MAX: usize = 65_536;
/// Pairs for which decoding reserves memory before it has seen them.
const PAIRS_RESERVED_MAX: usize = 256;

/// Some consecutive pairs of a space.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// The pairs, keys strictly ascending.
    pub pairs: Vec<(Bytes, Bytes)>,
    /// Whether the space ends after them.
    pub done: bool,
}

impl Chunk {
    /// The `after_key` with which the next chunk is asked for.
    pub fn last_key(&self) -> Option<&Bytes> {
        self.pairs.last().map(|(key, _)| key)
    }

    /// The chunk as puts into a space; the caller may add the durable index to the last one.
    pub fn batch(&self, space: SpaceId) -> WriteBatch {
        let put = |(key, value): &(Bytes, Bytes)| BatchOperation::Put { space, key: key.clone(), value: value.clone() };
        WriteBatch { operations: self.pairs.iter().map(put).collect() }
    }
}

/// The pairs of a space behind `after_key` (`None`: from its start), until their keys and values make
/// up `bytes_max`. At least one pair, if there is any. Read it from a snapshot: chunks of a
/// changing engine do not add up to any one moment.
pub fn export(
    read: &dyn EngineRead,
    space: SpaceId,
    after_key: Option<&[u8]>,
    bytes_max: usize,
) -> Result<Chunk, EngineError> {
    // The first key behind `k` in byte order is `k` with a zero byte.
    let start = after_key.map(|key| [key, &[0]].concat()).unwrap_or_default();
    let mut chunk = Chunk { pairs: Vec::new(), done: true };
    let mut bytes = 0;
    read.range(space, KeyRange { start: &start, end: None }, Direction::Forward, &mut |key, value| {
        let size = key.len() + value.len();
        let full = bytes + size > bytes_max || chunk.pairs.len() >= CHUNK_PAIRS_MAX;
        if full && !chunk.pairs.is_empty() {
            chunk.done = false;
            return ControlFlow::Break(());
        }
        bytes += size;
        chunk.pairs.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    })?;
    Ok(chunk)
}

/// Writes a chunk into a space. Doing it twice changes nothing.
pub fn import(engine: &dyn Engine, space: SpaceId, chunk: &Chunk) -> Result<(), EngineError> {
    if chunk.pairs.is_empty() {
        return Ok(());
    }
    engine.write(&chunk.batch(space))
}

impl Encode for Chunk {
    fn encode(&self, out: &mut Writer) {
        out.u8(CHUNK_VERSION).bool(self.done).varint(self.pairs.len() as u64);
        for (key, value) in &self.pairs {
            out.bytes(key).bytes(value);
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let version = input.u8("chunk version")?;
        if version != CHUNK_VERSION {
            return Err(DecodeError::version("chunk", version, CHUNK_VERSION));
        }
        let done = input.bool("chunk end")?;
        let count = input.count("chunk pairs")?;
        if count > CHUNK_PAIRS_MAX {
            return Err(DecodeError::TooLarge("chunk pairs"));
        }
        let mut pairs: Vec<(Bytes, Bytes)> = Vec::with_capacity(count.min(PAIRS_RESERVED_MAX));
        for _ in 0..count {
            let key = input.bytes("chunk key")?;
            let value = input.bytes("chunk value")?;
            if key.len() > ENGINE_KEY_BYTES_MAX {
                return Err(DecodeError::TooLarge("chunk key"));
            }
            if value.len() > ENGINE_VALUE_BYTES_MAX {
                return Err(DecodeError::TooLarge("chunk value"));
            }
            if pairs.last().is_some_and(|(last, _)| *last >= key) {
                return Err(DecodeError::Unknown("order of chunk keys"));
            }
            pairs.push((key, value));
        }
        if pairs.is_empty() && !done {
            return Err(DecodeError::Unknown("chunk end"));
        }
        Ok(Chunk { pairs, done })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &'static str, value: &'static str) -> (Bytes, Bytes) {
        (Bytes::from_static(key.as_bytes()), Bytes::from_static(value.as_bytes()))
    }

    #[test]
    fn a_chunk_survives_its_bytes() {
        let chunk = Chunk { pairs: vec![pair("", "x"), pair("a", ""), pair("b", "y")], done: false };
        assert_eq!(Chunk::from_bytes(chunk.to_bytes()), Ok(chunk));
        let empty = Chunk { pairs: vec![], done: true };
        assert_eq!(Chunk::from_bytes(empty.to_bytes()), Ok(empty));
    }

    #[test]
    fn hostile_chunks_are_refused() {
        let unordered = Chunk { pairs: vec![pair("b", ""), pair("a", "")], done: true };
        assert_eq!(Chunk::from_bytes(unordered.to_bytes()), Err(DecodeError::Unknown("order of chunk keys")));
        let twice = Chunk { pairs: vec![pair("a", ""), pair("a", "")], done: true };
        assert!(Chunk::from_bytes(twice.to_bytes()).is_err());
        let endless = Chunk { pairs: vec![], done: false };
        assert_eq!(Chunk::from_bytes(endless.to_bytes()), Err(DecodeError::Unknown("chunk end")));
        let many = Bytes::from_static(&[CHUNK_VERSION, 1, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(Chunk::from_bytes(many), Err(DecodeError::TooLarge("chunk pairs")));
        assert!(Chunk::from_bytes(Bytes::from_static(&[2, 1, 0])).is_err());
        let long_key = Chunk { pairs: vec![(vec![0; ENGINE_KEY_BYTES_MAX + 1].into(), Bytes::new())], done: true };
        assert_eq!(Chunk::from_bytes(long_key.to_bytes()), Err(DecodeError::TooLarge("chunk key")));
    }

    #[test]
    fn every_cut_of_a_chunk_is_an_error() {
        let whole = Chunk { pairs: vec![pair("a", "1"), pair("b", "22")], done: true }.to_bytes();
        for length in 0..whole.len() {
            assert!(Chunk::from_bytes(whole.slice(..length)).is_err(), "cut at {length}");
        }
    }
}

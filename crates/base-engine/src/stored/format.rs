//! The bytes every stored engine keeps, in one ordered map; drawn in docs/formats/engine-stored.md.
//!
//!   'D' │ space u64 big-endian           → durable index u64 │ seal
//!   'F'                                  → version u32 │ seal
//!   'I'                                  → identity text │ seal
//!   'P' │ space u64 big-endian │ key     → value │ seal
//!   'R'                                  → roll of spaces │ seal          version 2: engines with fences
//!   'S' │ space u64 big-endian │ start   → fence │ seal                   (crate::fences)
//!
//! One map and not one for each kind: an engine with a journal of its own that loses the journal's end
//! to rot goes back to an earlier state *as a whole*; with two maps, written out at different times,
//! pairs could stay that the durable index knows nothing of.
//!
//! Always: every value ends in a seal over its whole key and itself; integers in values are
//! little-endian; keys of a space stay in byte order.
//! Held by: `a_seal_finds_flips_swaps_and_cuts`, `keys_keep_their_order_and_come_back`.
//! Not here: what an engine puts around these bytes (pages, tables, journals).

use crate::EngineError;
use base_types::{LogIndex, SpaceId};
use bytes::Bytes;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The version this code writes and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;
/// The same, inside the files of engines with fences; those of the version before get them when they are opened.
pub const FENCED_VERSION: u32 = 2;
/// Key of the format version.
pub const VERSION_KEY: &[u8] = b"F";
/// Key of the identity.
pub const IDENTITY_KEY: &[u8] = b"I";
/// First byte of the keys of durable indexes.
pub const DURABLE_TAG: u8 = b'D';
/// First byte of the keys of pairs.
pub const PAIR_TAG: u8 = b'P';
/// Key of the roll of spaces.
pub const ROLL_KEY: &[u8] = b"R";
/// First byte of the keys of fences.
pub const FENCE_TAG: u8 = b'S';
/// Tag and space in front of a pair's key.
pub const PREFIX_BYTES: usize = 1 + 8;
/// The checksum behind each value.
pub const SEAL_BYTES: usize = 4;

fn prefix(tag: u8, space: SpaceId) -> [u8; PREFIX_BYTES] {
    let mut key = [tag; PREFIX_BYTES];
    key[1..].copy_from_slice(&space.0.to_be_bytes());
    key
}

/// The key of a pair.
pub fn pair_key(space: SpaceId, key: &[u8]) -> Vec<u8> {
    [&prefix(PAIR_TAG, space)[..], key].concat()
}

/// The key of a pair, into a buffer used again.
pub fn write_pair_key(out: &mut Vec<u8>, space: SpaceId, key: &[u8]) {
    out.clear();
    out.extend_from_slice(&prefix(PAIR_TAG, space));
    out.extend_from_slice(key);
}

/// The first key behind a space's pairs.
pub fn space_end(space: SpaceId) -> Vec<u8> {
    space.0.checked_add(1).map_or(vec![PAIR_TAG + 1], |next| prefix(PAIR_TAG, SpaceId(next)).to_vec())
}

/// The key of a fence.
pub fn fence_key(space: SpaceId, start: &[u8]) -> Vec<u8> {
    [&prefix(FENCE_TAG, space)[..], start].concat()
}

/// The first key behind a space's fences.
pub fn fences_end(space: SpaceId) -> Vec<u8> {
    space.0.checked_add(1).map_or(vec![FENCE_TAG + 1], |next| prefix(FENCE_TAG, SpaceId(next)).to_vec())
}

/// The key of a durable index.
pub fn durable_key(space: SpaceId) -> [u8; PREFIX_BYTES] {
    prefix(DURABLE_TAG, space)
}

/// The space a pair's or a durable index's key belongs to.
pub fn space_of(whole_key: &[u8]) -> Result<SpaceId, EngineError> {
    let bytes = whole_key.first_chunk::<PREFIX_BYTES>().map(|[_, space @ ..]| SpaceId(u64::from_be_bytes(*space)));
    bytes.ok_or_else(|| {
        EngineError::Corrupt(format!("the key {} is shorter than a space's number", whole_key.escape_ascii()))
    })
}

/// The checksum of a value under its whole key.
pub fn seal(whole_key: &[u8], value: &[u8]) -> [u8; SEAL_BYTES] {
    (xxh3_64_with_seed(value, xxh3_64(whole_key)) as u32).to_le_bytes()
}

/// A value with its checksum.
pub fn sealed(whole_key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + SEAL_BYTES);
    write_sealed(&mut out, whole_key, value);
    out
}

/// A value with its checksum, into a buffer used again.
pub fn write_sealed(out: &mut Vec<u8>, whole_key: &[u8], value: &[u8]) {
    out.clear();
    out.extend_from_slice(value);
    out.extend_from_slice(&seal(whole_key, value));
}

/// The value inside what is stored, if its checksum holds.
pub fn unseal<'a>(whole_key: &[u8], stored: &'a [u8]) -> Result<&'a [u8], EngineError> {
    match stored.split_last_chunk::<SEAL_BYTES>() {
        Some((value, found)) if *found == seal(whole_key, value) => Ok(value),
        _ => Err(EngineError::Corrupt(format!(
            "the stored {} bytes under key {} do not match their checksum; rebuild the replica from a peer",
            stored.len(),
            whole_key.escape_ascii()
        ))),
    }
}

/// The same for bytes that are ours already: no copy.
pub fn unseal_bytes(whole_key: &[u8], stored: Bytes) -> Result<Bytes, EngineError> {
    let length = unseal(whole_key, &stored)?.len();
    Ok(stored.slice(..length))
}

/// A durable index as stored.
pub fn decode_index(whole_key: &[u8], stored: &[u8]) -> Result<LogIndex, EngineError> {
    let value = unseal(whole_key, stored)?;
    let bytes: [u8; 8] = value.try_into().map_err(|_| {
        EngineError::Corrupt(format!(
            "the durable index under key {} has {} bytes, not 8",
            whole_key.escape_ascii(),
            value.len()
        ))
    })?;
    Ok(LogIndex(u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_finds_flips_swaps_and_cuts() {
        let stored = sealed(b"key", b"value");
        assert_eq!(unseal(b"key", &stored), Ok(&b"value"[..]));
        for bit in 0..stored.len() * 8 {
            let mut flipped = stored.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(b"key", &flipped).is_err(), "bit {bit}");
        }
        assert!(unseal(b"yek", &stored).is_err(), "another key's value");
        for length in 0..stored.len() {
            assert!(unseal(b"key", &stored[..length]).is_err(), "cut at {length}");
        }
        assert_eq!(unseal_bytes(b"", sealed(b"", b"").into()), Ok(Bytes::new()));
    }

    #[test]
    fn keys_keep_their_order_and_come_back() {
        assert!(pair_key(SpaceId(1), &[0xff; 9]) < pair_key(SpaceId(2), b""));
        assert!(pair_key(SpaceId(u64::MAX), &[0xff; 99]) < space_end(SpaceId(u64::MAX)));
        assert_eq!(space_end(SpaceId(1)), pair_key(SpaceId(2), b""));
        assert_eq!(space_of(&pair_key(SpaceId(77), b"x")), Ok(SpaceId(77)));
        assert_eq!(space_of(&durable_key(SpaceId(u64::MAX))), Ok(SpaceId(u64::MAX)));
        assert!(space_of(b"short").is_err());
    }
}

//! The bytes inside the environment; drawn in docs/formats/engine-lmdb.md.
//!
//!   database `spaces`   space u64 big-endian │ key            → value │ seal
//!   database `meta`     'F'                                   → version u32 │ seal
//!                       'I'                                   → identity text │ seal
//!                       'D' │ space u64 big-endian            → durable index u64 │ seal
//!                       'R'                                   → roll of spaces │ seal
//!   database `fences`   space u64 big-endian │ start          → fence │ seal        (base_engine::fences)
//!
//! LMDB keeps no checksums. So every value ends in one, over its whole key and itself. A read finds a flipped bit, or a
//! value that belongs to another key.
//!
//! Always: integers in values are little-endian; keys of a space stay in byte order.
//! Held by: `keys_keep_their_order_and_come_back`.
//! Not here: files (`directory.rs`), transactions.

use base_engine::EngineError;
use base_types::{LogIndex, SpaceId};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The version this code writes and the newest it reads.
pub const FORMAT_VERSION: u32 = 2;
/// The version without fences and roll: they are made when it is opened.
pub const VERSION_WITHOUT_FENCES: u32 = 1;
/// The database of all pairs.
pub const SPACES_DATABASE: &str = "spaces";
/// The database of fences.
pub const FENCES_DATABASE: &str = "fences";
/// The database of everything else.
pub const META_DATABASE: &str = "meta";
/// Named databases of an environment.
pub const DATABASES_MAX: u32 = 3;
/// Key of the format version.
pub const VERSION_KEY: &[u8] = b"F";
/// Key of the identity.
pub const IDENTITY_KEY: &[u8] = b"I";
/// Key of the roll of spaces.
pub const ROLL_KEY: &[u8] = b"R";
/// First byte of the keys of durable indexes.
pub const DURABLE_TAG: u8 = b'D';
/// A space's number in front of its keys.
pub const SPACE_BYTES: usize = 8;
/// Whole keys up to this long are looked up from the stack.
const SHORT_BYTES: usize = 128;
/// The checksum behind each value.
pub const SEAL_BYTES: usize = 4;

/// The key of a pair.
pub fn pair_key(space: SpaceId, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(SPACE_BYTES + key.len());
    write_pair_key(&mut out, space, key);
    out
}

/// The key of a pair, into a buffer used again.
pub fn write_pair_key(out: &mut Vec<u8>, space: SpaceId, key: &[u8]) {
    out.clear();
    out.extend_from_slice(&space.0.to_be_bytes());
    out.extend_from_slice(key);
}

/// The key of a pair to be looked up once: short ones, which most are, without asking for memory.
pub enum LookUpKey {
    Short([u8; SHORT_BYTES], usize),
    Long(Vec<u8>),
}

impl LookUpKey {
    pub fn new(space: SpaceId, key: &[u8]) -> LookUpKey {
        let (length, mut short) = (SPACE_BYTES + key.len(), [0; SHORT_BYTES]);
        let Some(place) = short.get_mut(..length) else { return LookUpKey::Long(pair_key(space, key)) };
        let (head, rest) = place.split_at_mut(SPACE_BYTES);
        head.copy_from_slice(&space.0.to_be_bytes());
        rest.copy_from_slice(key);
        LookUpKey::Short(short, length)
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            LookUpKey::Short(bytes, length) => &bytes[..*length],
            LookUpKey::Long(bytes) => bytes,
        }
    }
}

/// The first key behind a space; `None` for the last space.
pub fn space_end(space: SpaceId) -> Option<[u8; SPACE_BYTES]> {
    space.0.checked_add(1).map(u64::to_be_bytes)
}

/// The space a pair's key belongs to.
pub fn space_of(pair_key: &[u8]) -> Result<SpaceId, EngineError> {
    let bytes = pair_key.first_chunk::<SPACE_BYTES>();
    bytes.map(|bytes| SpaceId(u64::from_be_bytes(*bytes))).ok_or_else(|| {
        EngineError::Corrupt(format!("the key {pair_key:?} in '{SPACES_DATABASE}' is shorter than a space's number"))
    })
}

/// The key of a durable index.
pub fn durable_key(space: SpaceId) -> [u8; 1 + SPACE_BYTES] {
    let mut key = [DURABLE_TAG; 1 + SPACE_BYTES];
    key[1..].copy_from_slice(&space.0.to_be_bytes());
    key
}

/// The space of a durable index's key.
pub fn durable_space(key: &[u8]) -> Result<SpaceId, EngineError> {
    let space = key.strip_prefix(&[DURABLE_TAG]).and_then(|rest| rest.try_into().ok()).map(u64::from_be_bytes);
    space.map(SpaceId).ok_or_else(|| EngineError::Corrupt(format!("'{META_DATABASE}' holds the unknown key {key:?}")))
}

/// The checksum of a value under its whole key.
pub fn seal(whole_key: &[u8], value: &[u8]) -> [u8; SEAL_BYTES] {
    let sum = xxh3_64_with_seed(value, xxh3_64(whole_key)) as u32;
    sum.to_le_bytes()
}

/// A value with its checksum: for small ones.
pub fn sealed(whole_key: &[u8], value: &[u8]) -> Vec<u8> {
    [value, &seal(whole_key, value)].concat()
}

/// The value inside what is stored, if its checksum holds.
pub fn unseal<'a>(whole_key: &[u8], stored: &'a [u8]) -> Result<&'a [u8], EngineError> {
    // A damaged length could lead beyond the map; nothing that large was ever written.
    let bounded = stored.len() <= base_engine::ENGINE_VALUE_BYTES_MAX + SEAL_BYTES;
    let parts = stored.split_last_chunk::<SEAL_BYTES>().filter(|_| bounded);
    match parts {
        Some((value, found)) if *found == seal(whole_key, value) => Ok(value),
        _ => Err(EngineError::Corrupt(format!(
            "the stored {} bytes under key {} do not match their checksum; rebuild the replica from a peer",
            stored.len(),
            whole_key.escape_ascii()
        ))),
    }
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
        assert_eq!(unseal(b"", &sealed(b"", b"")), Ok(&b""[..]));
    }

    #[test]
    fn keys_keep_their_order_and_come_back() {
        assert!(pair_key(SpaceId(1), &[0xff; 9]) < pair_key(SpaceId(2), b""));
        assert_eq!(space_of(&pair_key(SpaceId(77), b"x")), Ok(SpaceId(77)));
        assert!(space_of(b"short").is_err());
        assert_eq!(durable_space(&durable_key(SpaceId(u64::MAX))), Ok(SpaceId(u64::MAX)));
        assert!(durable_space(b"Dshort").is_err() && durable_space(b"F").is_err());
        assert_eq!(space_end(SpaceId(u64::MAX)), None);
    }

    #[test]
    fn a_key_is_looked_up_as_it_was_written() {
        for length in [0, 1, SHORT_BYTES - SPACE_BYTES, SHORT_BYTES - SPACE_BYTES + 1, 1056] {
            let (space, key) = (SpaceId(u64::MAX - 7), vec![0xfe; length]);
            assert_eq!(LookUpKey::new(space, &key).bytes(), pair_key(space, &key), "{length}");
        }
    }
}

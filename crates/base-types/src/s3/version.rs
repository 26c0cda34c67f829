//! Version ids. A shard stamps every version with a number that only grows (decision 0011). Clients see the number and
//! a check, which distinguishes a mistyped or invented id from a lost one.
//!
//! Always: an id names one version of a key for ever; a later version has a greater stamp.
//! Held by: `ids_come_back_and_inventions_do_not`, `versions_are_stamped_upwards_even_if_clocks_are_not`.
//! Not here: where versions lie (core-backends, shard/keys.rs).

use crate::codec::{DecodeError, Encode, Reader, Writer};
use alloc::string::String;
use alloc::vec::Vec;

/// When a version was made, in its bucket's order. Zero: none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct VersionStamp(pub u64);

/// Which version of a key is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// The newest.
    #[default]
    Current,
    /// The one that was put without versioning (`null`).
    Null,
    /// This one.
    Stamp(VersionStamp),
}

const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TEXT_DIGITS: usize = 20;

fn check_of(stamp: u64) -> u32 {
    xxhash_rust::xxh3::xxh3_64_with_seed(&stamp.to_be_bytes(), 0x7665_7273) as u32
}

impl VersionStamp {
    /// The id clients see: twenty digits and letters.
    pub fn text(self) -> String {
        let mut value = (u128::from(self.0) << 32 | u128::from(check_of(self.0))) << 4;
        let mut out = [0u8; TEXT_DIGITS];
        for digit in out.iter_mut().rev() {
            *digit = DIGITS[(value & 31) as usize];
            value >>= 5;
        }
        out.iter().map(|digit| char::from(*digit)).collect()
    }
}

impl Version {
    /// From what a client gave; `None`: no version id of ours.
    pub fn parse(text: &str) -> Option<Version> {
        if text == "null" {
            return Some(Version::Null);
        }
        if text.len() != TEXT_DIGITS {
            return None;
        }
        let digits: Option<Vec<usize>> = text.bytes().map(|byte| DIGITS.iter().position(|d| *d == byte)).collect();
        let value = digits?.into_iter().fold(0u128, |value, digit| value << 5 | digit as u128);
        let stamp = (value >> 36) as u64;
        let sound = value & 15 == 0 && (value >> 4) as u32 == check_of(stamp) && stamp != 0;
        sound.then_some(Version::Stamp(VersionStamp(stamp)))
    }
}

impl Encode for VersionStamp {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.0);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(VersionStamp(input.u64("version stamp")?))
    }
}

impl Encode for Version {
    fn encode(&self, out: &mut Writer) {
        match self {
            Version::Current => out.u8(0),
            Version::Null => out.u8(1),
            Version::Stamp(stamp) => out.u8(2).u64(stamp.0),
        };
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("version")? {
            0 => Version::Current,
            1 => Version::Null,
            2 => Version::Stamp(VersionStamp::decode(input)?),
            _ => return Err(DecodeError::Unknown("version")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_and_inventions_do_not() {
        for stamp in [1, 255, 1 << 40, u64::MAX] {
            let text = VersionStamp(stamp).text();
            assert_eq!(text.len(), 20);
            assert_eq!(Version::parse(&text), Some(Version::Stamp(VersionStamp(stamp))));
            let mut wrong = text.clone().into_bytes();
            wrong[3] = if wrong[3] == b'0' { b'1' } else { b'0' };
            assert_eq!(Version::parse(core::str::from_utf8(&wrong).unwrap()), None);
        }
        assert_eq!(Version::parse("null"), Some(Version::Null));
        for text in ["", "Null", "00000000000000000000", "uuuuuuuuuuuuuuuuuuuu", "ééééé"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}

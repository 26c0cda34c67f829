//! The byte codec for commands, frames and log payloads: little-endian fixed integers, LEB128
//! lengths, and slices taken out of the input without copying.
//!
//! Always: a decoder never allocates from a declared length it has not checked against the bytes
//! that are there, and never panics on any input.
//! Held by: `a_declared_length_is_not_trusted`, `base_codec`.

use crate::format_level::BUILD_VERSION;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

/// The most bytes a 64-bit LEB128 integer takes.
const VARINT_BYTES_MAX: usize = 10;
/// The room a buffer begins with: most of what is written is shorter, and need not grow step by step.
const FIRST_BYTES: usize = 64;

/// Bytes that do not decode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The input ends inside a field.
    #[error("ends inside {0}")]
    Truncated(&'static str),
    /// A field has a value that does not exist.
    #[error("{0} has an unknown value")]
    Unknown(&'static str),
    /// Bytes of a version that this build does not read; `known` is the newest that it does. `version` makes it.
    #[error("{what} has version {found}, and this build ({BUILD_VERSION}) reads up to {known}: {}", version_remedy(*found, *known))]
    Version {
        /// The format.
        what: &'static str,
        /// The version that its bytes name.
        found: u32,
        /// The newest that this build reads.
        known: u32,
    },
    /// A count or length is beyond its bound.
    #[error("{0} is beyond its bound")]
    TooLarge(&'static str),
    /// Something follows where the input should end.
    #[error("bytes are left behind the end")]
    TrailingBytes,
    /// A text is no UTF-8.
    #[error("{0} is not UTF-8")]
    NotUtf8(&'static str),
}

impl DecodeError {
    /// The bytes of `what` name a version that this build does not read.
    pub fn version(what: &'static str, found: impl Into<u32>, known: impl Into<u32>) -> DecodeError {
        DecodeError::Version { what, found: found.into(), known: known.into() }
    }
}

fn version_remedy(found: u32, known: u32) -> &'static str {
    match found > known {
        true => "install here the release of hive that wrote it, or a later one (`hive ctl nodes` shows versions)",
        false => "read it with the release of hive that wrote it",
    }
}

/// Takes values off the front of a shared buffer; byte strings come out as slices of it.
#[derive(Clone, Debug)]
pub struct Reader {
    rest: Bytes,
}

impl Reader {
    /// Reads from the start of `input`.
    pub fn new(input: Bytes) -> Reader {
        Reader { rest: input }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn take(&mut self, count: usize, what: &'static str) -> Result<Bytes, DecodeError> {
        if self.rest.len() < count {
            return Err(DecodeError::Truncated(what));
        }
        Ok(self.rest.split_to(count))
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        if self.rest.len() < N {
            return Err(DecodeError::Truncated(what));
        }
        let mut out = [0; N];
        out.copy_from_slice(&self.rest[..N]);
        bytes::Buf::advance(&mut self.rest, N);
        Ok(out)
    }

    /// One byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    /// A boolean: 0 or 1, nothing else.
    pub fn bool(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Unknown(what)),
        }
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Sixteen bytes, little-endian.
    pub fn u128(&mut self, what: &'static str) -> Result<u128, DecodeError> {
        Ok(u128::from_le_bytes(self.array(what)?))
    }

    /// An unsigned LEB128 integer of at most ten bytes.
    pub fn varint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        if let Some(byte) = self.rest.first().copied().filter(|byte| byte & 0x80 == 0) {
            bytes::Buf::advance(&mut self.rest, 1);
            return Ok(u64::from(byte));
        }
        let mut value = 0u64;
        for (shift, byte) in self.rest.iter().take(VARINT_BYTES_MAX).enumerate() {
            let part = u64::from(byte & 0x7f);
            if shift == VARINT_BYTES_MAX - 1 && part > 1 {
                return Err(DecodeError::TooLarge(what));
            }
            value |= part << (7 * shift);
            if byte & 0x80 == 0 {
                bytes::Buf::advance(&mut self.rest, shift + 1);
                return Ok(value);
            }
        }
        let ended = self.rest.len() < VARINT_BYTES_MAX;
        Err(if ended { DecodeError::Truncated(what) } else { DecodeError::TooLarge(what) })
    }

    /// A count of things of which each takes at least one byte, so it cannot exceed what is left.
    pub fn count(&mut self, what: &'static str) -> Result<usize, DecodeError> {
        let value = self.varint(what)?;
        if value > self.rest.len() as u64 {
            return Err(DecodeError::TooLarge(what));
        }
        Ok(value as usize)
    }

    /// A byte string with its length in front, sharing the input's memory.
    pub fn bytes(&mut self, what: &'static str) -> Result<Bytes, DecodeError> {
        let count = self.count(what)?;
        self.take(count, what)
    }

    /// A text with its length in front.
    pub fn string(&mut self, what: &'static str) -> Result<String, DecodeError> {
        let bytes = self.bytes(what)?;
        core::str::from_utf8(&bytes).map(String::from).map_err(|_| DecodeError::NotUtf8(what))
    }

    /// A value that may be absent: a boolean, then the value.
    pub fn option<T>(
        &mut self,
        what: &'static str,
        read: impl FnOnce(&mut Reader) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if self.bool(what)? {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> Bytes {
        core::mem::take(&mut self.rest)
    }

    /// Refuses anything left over.
    pub fn end(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::TrailingBytes)
        }
    }
}

/// Appends values to a growing buffer; the counterpart of [`Reader`].
#[derive(Clone, Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// An empty buffer.
    pub fn new() -> Writer {
        Writer::with_capacity(FIRST_BYTES)
    }

    /// An empty buffer with room.
    pub fn with_capacity(bytes: usize) -> Writer {
        Writer { out: Vec::with_capacity(bytes) }
    }

    /// How many bytes have been written.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.out.push(value);
        self
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.u8(u8::from(value))
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Sixteen bytes, little-endian.
    pub fn u128(&mut self, value: u128) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// An unsigned LEB128 integer.
    #[inline]
    pub fn varint(&mut self, value: u64) -> &mut Self {
        match value {
            0..0x80 => self.u8(value as u8),
            _ => self.long_varint(value),
        }
    }

    fn long_varint(&mut self, mut value: u64) -> &mut Self {
        let (mut bytes, mut count) = ([0; VARINT_BYTES_MAX], 1);
        while value >= 0x80 {
            bytes[count - 1] = value as u8 | 0x80;
            value >>= 7;
            count += 1;
        }
        bytes[count - 1] = value as u8;
        self.raw(&bytes[..count])
    }

    /// A byte string with its length in front.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.varint(value.len() as u64);
        self.raw(value)
    }

    /// A text with its length in front.
    pub fn string(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// A value that may be absent.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Writer, T)) -> &mut Self {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
        self
    }

    /// Bytes as they are.
    #[inline]
    pub fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.out.extend_from_slice(value);
        self
    }

    /// The buffer.
    pub fn finish(self) -> Bytes {
        Bytes::from(self.out)
    }

    /// The buffer, still growable.
    pub fn into_vec(self) -> Vec<u8> {
        self.out
    }
}

/// Things with one byte form.
pub trait Encode: Sized {
    /// Appends the form.
    fn encode(&self, out: &mut Writer);
    /// Takes the form off the front.
    fn decode(input: &mut Reader) -> Result<Self, DecodeError>;

    /// The form alone.
    fn to_bytes(&self) -> Bytes {
        let mut out = Writer::new();
        self.encode(&mut out);
        out.finish()
    }

    /// From the form alone; anything left over is an error.
    fn from_bytes(input: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(input);
        let value = Self::decode(&mut reader)?;
        reader.end()?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = Writer::new();
        out.u8(7).bool(true).u16(300).u32(70_000).u64(1 << 40).u128(1 << 100);
        for value in [0, 1, 127, 128, 16_384, u64::MAX] {
            out.varint(value);
        }
        out.bytes(b"abc").string("dé").option(Some(5u8), |w, v| {
            w.u8(v);
        });
        let mut input = Reader::new(out.finish());
        assert_eq!(input.u8("").unwrap(), 7);
        assert!(input.bool("").unwrap());
        assert_eq!(input.u16("").unwrap(), 300);
        assert_eq!(input.u32("").unwrap(), 70_000);
        assert_eq!(input.u64("").unwrap(), 1 << 40);
        assert_eq!(input.u128("").unwrap(), 1 << 100);
        for value in [0, 1, 127, 128, 16_384, u64::MAX] {
            assert_eq!(input.varint("").unwrap(), value);
        }
        assert_eq!(&input.bytes("").unwrap()[..], b"abc");
        assert_eq!(input.string("").unwrap(), "dé");
        assert_eq!(input.option("", |r| r.u8("")).unwrap(), Some(5));
        input.end().unwrap();
    }

    #[test]
    fn a_declared_length_is_not_trusted() {
        let mut out = Writer::new();
        out.varint(u64::MAX);
        assert_eq!(Reader::new(out.finish()).bytes("value"), Err(DecodeError::TooLarge("value")));
        assert_eq!(Reader::new(Bytes::from_static(&[0xff; 11])).varint("n"), Err(DecodeError::TooLarge("n")));
        assert_eq!(Reader::new(Bytes::from_static(&[2])).bool("b"), Err(DecodeError::Unknown("b")));
    }
}

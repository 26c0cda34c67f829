//! The `PARTS` field of a document: the parts of a completed upload, in order, and where their bytes are.
//!
//! ```text
//! count varint · part*      part = number varint · size varint · etag · checksums · location
//! etag = 1 · 16 bytes (hexadecimal as it is shown) | 0 · text       text = length varint · bytes
//! ```
//!
//! Always: ten thousand parts with places of sixty bytes fit a document; a part without a location has its
//! bytes in the object's inline data (only the last part can be so small).
//! Held by: `as_many_parts_as_there_can_be_fit_a_document`, `parts_come_back_and_tell_their_places`.
//! Not here: what is in `checksums` (the reader of attributes), what a location means (a data store).

use super::document::{field, peek_field, Document, DOCUMENT_BYTES_MAX};
use super::PART_NUMBER_MAX;
use crate::codec::{DecodeError, Reader, Writer};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

/// One part as a document keeps it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredPart {
    /// The number it was uploaded under.
    pub number: u32,
    /// How many bytes.
    pub size: u64,
    /// The MD5, without quotes.
    pub etag: String,
    /// For who reads attributes.
    pub checksums: Bytes,
    /// Where a data store has it; empty: in the object's inline data.
    pub location: String,
}

/// The field's bytes.
pub fn encode_parts(parts: &[StoredPart]) -> Bytes {
    let mut out = Writer::with_capacity(parts.len() * 64 + 4);
    out.varint(parts.len() as u64);
    for part in parts {
        out.varint(u64::from(part.number)).varint(part.size);
        match etag_bytes(&part.etag) {
            Some(bytes) => out.u8(1).raw(&bytes),
            None => out.u8(0).string(&part.etag),
        };
        out.bytes(&part.checksums).string(&part.location);
    }
    out.finish()
}

/// From the field's bytes, whole.
pub fn decode_parts(field: Bytes) -> Result<Vec<StoredPart>, DecodeError> {
    if field.len() > DOCUMENT_BYTES_MAX {
        return Err(DecodeError::TooLarge("parts"));
    }
    let mut input = Reader::new(field);
    let count = input.count("parts")?;
    if count > PART_NUMBER_MAX as usize {
        return Err(DecodeError::TooLarge("parts"));
    }
    let parts: Result<Vec<StoredPart>, DecodeError> = (0..count).map(|_| decode_part(&mut input)).collect();
    let parts = parts?;
    input.end()?;
    Ok(parts)
}

fn decode_part(input: &mut Reader) -> Result<StoredPart, DecodeError> {
    let number = input.varint("part number")?;
    let number = u32::try_from(number).map_err(|_| DecodeError::TooLarge("part number"))?;
    let size = input.varint("part size")?;
    let etag = match input.u8("part etag kind")? {
        0 => input.string("part etag")?,
        1 => hexadecimal(input.u64("part etag")?, input.u64("part etag")?),
        _ => return Err(DecodeError::Unknown("part etag kind")),
    };
    Ok(StoredPart {
        number,
        size,
        etag,
        checksums: input.bytes("part checksums")?,
        location: input.string("location")?,
    })
}

/// Sixteen bytes where they come back as the same text.
fn etag_bytes(etag: &str) -> Option<[u8; 16]> {
    let digits = etag.as_bytes();
    if digits.len() != 32 {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut out = [0; 16];
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = digit(digits[2 * at])? << 4 | digit(digits[2 * at + 1])?;
    }
    Some(out)
}

fn hexadecimal(first: u64, second: u64) -> String {
    let mut out = String::with_capacity(32);
    for byte in first.to_le_bytes().into_iter().chain(second.to_le_bytes()) {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }));
        }
    }
    out
}

/// The names of a data store that an encoded document consists of: its own, and its parts'.
pub fn locations_of(encoded: &Bytes) -> Result<Vec<Bytes>, DecodeError> {
    let mut found = Vec::new();
    let own = peek_field(encoded, field::LOCATION).filter(|own| !own.is_empty());
    found.extend(own.map(|own| encoded.slice_ref(own)));
    if let Some(parts) = peek_field(encoded, field::PARTS) {
        let places = decode_parts(encoded.slice_ref(parts))?.into_iter().map(|part| Bytes::from(part.location));
        found.extend(places.filter(|place| !place.is_empty()));
    }
    Ok(found)
}

impl Document {
    /// The parts, where the object has some.
    pub fn parts(&self) -> Result<Vec<StoredPart>, DecodeError> {
        self.get(field::PARTS).map_or(Ok(Vec::new()), |parts| decode_parts(parts.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u32, etag: &str, location: &str) -> StoredPart {
        let checksums = Bytes::from_static(b"c");
        StoredPart { number, size: 5 << 20, etag: etag.into(), checksums, location: location.into() }
    }

    #[test]
    fn parts_come_back_and_tell_their_places() {
        let parts = [part(1, "0123456789abcdef0123456789abcdef", "one"), part(7, "ODD", ""), part(9, "", "nine")];
        let mut document = Document::new();
        document.set(field::PARTS, Some(encode_parts(&parts))).set(field::LOCATION, Some(Bytes::from_static(b"own")));
        document.set_number(field::SIZE, 5);
        assert_eq!(document.parts().unwrap(), parts);
        assert_eq!(locations_of(&document.encode()).unwrap(), ["own", "one", "nine"]);
        assert!(locations_of(&Document::new().encode()).unwrap().is_empty());
    }

    #[test]
    fn as_many_parts_as_there_can_be_fit_a_document() {
        let etag = "f".repeat(32);
        let parts: Vec<_> = (1..=PART_NUMBER_MAX).map(|number| part(number, &etag, &"x".repeat(60))).collect();
        let bytes = encode_parts(&parts);
        assert!(bytes.len() < DOCUMENT_BYTES_MAX - 64 * 1024, "{}", bytes.len());
        assert_eq!(decode_parts(bytes).unwrap(), parts);
    }

    #[test]
    fn bytes_that_are_no_parts_are_refused() {
        for bytes in [&[][..], &[1], &[1, 1, 1, 2], &[1, 1, 1, 0, 0, 0, 0, 9], &[0xff, 0xff, 0xff, 1]] {
            assert!(decode_parts(Bytes::copy_from_slice(bytes)).is_err(), "{bytes:?}");
        }
    }
}

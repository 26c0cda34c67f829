//! The document of an object version: numbered fields, each a byte string.
//!
//! ```text
//! field*        field = id varint · length varint · bytes          ids ascend, none twice
//! ```
//!
//! Always: fields below [`LIST_FIELDS_END`] are what a listing returns and stand first, so a listing's row is a prefix
//! of the document; fields this version does not know are kept as they came.
//! Held by: `a_document_comes_back_with_what_it_does_not_know`.
//! Not here: what is in a field that only the edge reads (ACLs, tags, user metadata: BSON there).

use crate::codec::{DecodeError, Reader, Writer};
use alloc::vec::Vec;
use bytes::Bytes;

/// The longest document: ten thousand parts with their places fit.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// The most fields one document has.
pub const DOCUMENT_FIELDS_MAX: usize = 256;
/// Listings return the fields below this id.
pub const LIST_FIELDS_END: u16 = 16;

/// The numbers of the fields. Never reuse one.
#[allow(missing_docs)] // Named as in the S3 API reference.
pub mod field {
    /// Text, without quotes.
    pub const ETAG: u16 = 1;
    /// Number of bytes.
    pub const SIZE: u16 = 2;
    /// Unix milliseconds; set by the shard.
    pub const MODIFIED: u16 = 3;
    /// Text; absent: STANDARD.
    pub const STORAGE_CLASS: u16 = 4;
    /// Text; absent: the bucket's owner.
    pub const OWNER: u16 = 5;
    pub const CHECKSUM_ALGORITHM: u16 = 6;
    pub const CHECKSUM_TYPE: u16 = 7;
    pub const RESTORE: u16 = 8;

    pub const CONTENT_TYPE: u16 = 16;
    pub const CACHE_CONTROL: u16 = 17;
    pub const CONTENT_DISPOSITION: u16 = 18;
    pub const CONTENT_ENCODING: u16 = 19;
    pub const CONTENT_LANGUAGE: u16 = 20;
    pub const EXPIRES: u16 = 21;
    pub const WEBSITE_REDIRECT: u16 = 22;
    pub const USER_METADATA: u16 = 23;
    pub const TAGS: u16 = 24;
    pub const ACL: u16 = 25;
    pub const CHECKSUM: u16 = 26;
    /// [`super::super::encode_parts`].
    pub const PARTS: u16 = 27;
    /// Where the data store has the data; opaque here.
    pub const LOCATION: u16 = 28;
    pub const ENCRYPTION: u16 = 29;
    /// Text: GOVERNANCE or COMPLIANCE.
    pub const LOCK_MODE: u16 = 30;
    /// Unix milliseconds.
    pub const LOCK_UNTIL: u16 = 31;
    /// Text: ON; absent or anything else: off.
    pub const LEGAL_HOLD: u16 = 32;
    pub const REPLICATION: u16 = 33;
    /// Named fields this version has no number for, as the edge wrote them.
    pub const EXTRA: u16 = 127;
}

/// A document, decoded; the fields share the memory they were read from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Document {
    fields: Vec<(u16, Bytes)>,
}

impl Document {
    /// No field.
    pub fn new() -> Document {
        Document::default()
    }

    /// A field's bytes.
    pub fn get(&self, id: u16) -> Option<&Bytes> {
        self.fields.binary_search_by_key(&id, |(id, _)| *id).ok().map(|at| &self.fields[at].1)
    }

    /// Sets a field, or (`None`) removes it.
    pub fn set(&mut self, id: u16, value: Option<Bytes>) -> &mut Document {
        match (self.fields.binary_search_by_key(&id, |(id, _)| *id), value) {
            (Ok(at), Some(value)) => self.fields[at].1 = value,
            (Ok(at), None) => {
                self.fields.remove(at);
            }
            (Err(at), Some(value)) => self.fields.insert(at, (id, value)),
            (Err(_), None) => {}
        }
        self
    }

    /// A field that is a number; `None` where it is absent or no number.
    pub fn number(&self, id: u16) -> Option<u64> {
        self.get(id).and_then(|bytes| read_number(bytes))
    }

    /// Sets a field that is a number.
    pub fn set_number(&mut self, id: u16, value: u64) -> &mut Document {
        let mut out = Writer::with_capacity(10);
        out.varint(value);
        self.set(id, Some(out.finish()))
    }

    /// A field that is a text.
    pub fn text(&self, id: u16) -> Option<&str> {
        self.get(id).and_then(|bytes| core::str::from_utf8(bytes).ok())
    }

    /// Every field.
    pub fn fields(&self) -> &[(u16, Bytes)] {
        &self.fields
    }

    /// The byte form.
    pub fn encode(&self) -> Bytes {
        let bytes = self.fields.iter().map(|(_, value)| value.len() + 8).sum();
        let mut out = Writer::with_capacity(bytes);
        for (id, value) in &self.fields {
            out.varint(u64::from(*id)).bytes(value);
        }
        out.finish()
    }

    /// From the byte form, whole.
    pub fn decode(bytes: Bytes) -> Result<Document, DecodeError> {
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(DecodeError::TooLarge("document"));
        }
        let mut input = Reader::new(bytes);
        let mut fields: Vec<(u16, Bytes)> = Vec::new();
        while input.remaining() > 0 {
            let id = take_id(&mut input)?;
            if fields.last().is_some_and(|(last, _)| *last >= id) {
                return Err(DecodeError::Unknown("document field order"));
            }
            if fields.len() >= DOCUMENT_FIELDS_MAX {
                return Err(DecodeError::TooLarge("document fields"));
            }
            fields.push((id, input.bytes("document field")?));
        }
        Ok(Document { fields })
    }
}

fn take_id(input: &mut Reader) -> Result<u16, DecodeError> {
    u16::try_from(input.varint("document field number")?).map_err(|_| DecodeError::TooLarge("document field number"))
}

fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    // The tenth byte holds the topmost bit alone.
    (bytes.len() >= 10 && bytes[9] == 1).then_some((value | 1 << 63, 10))
}

/// A field that is a number.
pub fn read_number(bytes: &[u8]) -> Option<u64> {
    read_varint(bytes).filter(|(_, taken)| *taken == bytes.len()).map(|(value, _)| value)
}

/// A field out of an encoded document, without decoding the rest.
pub fn peek_field(mut encoded: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (id, taken) = read_varint(encoded)?;
        encoded = encoded.get(taken..)?;
        let (length, taken) = read_varint(encoded)?;
        let length = usize::try_from(length).ok()?;
        let value = encoded.get(taken..)?.get(..length)?;
        if id >= u64::from(wanted) {
            return (id == u64::from(wanted)).then_some(value);
        }
        encoded = &encoded[taken + length..];
    }
}

/// A number out of an encoded document, without decoding the rest: what an index walk reads.
pub fn peek_number(encoded: &[u8], wanted: u16) -> Option<u64> {
    peek_field(encoded, wanted).and_then(read_number)
}

/// Shows every field of an encoded document, in place; ends at the first byte that is none.
pub fn each_field<'a>(mut encoded: &'a [u8], mut show: impl FnMut(u16, &'a [u8])) {
    while let Some((id, taken)) = read_varint(encoded) {
        let Ok(id) = u16::try_from(id) else { return };
        let Some((length, more)) = encoded.get(taken..).and_then(read_varint) else { return };
        let Some(rest) = encoded.get(taken + more..) else { return };
        let Some((value, rest)) = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length)) else {
            return;
        };
        show(id, value);
        encoded = rest;
    }
}

/// How many bytes at the start of an encoded document are the fields that a listing returns.
pub fn list_fields_bytes(encoded: &[u8]) -> usize {
    let mut at = 0;
    while let Some((id, taken)) = read_varint(&encoded[at..]) {
        if id >= u64::from(LIST_FIELDS_END) {
            break;
        }
        let Some((length, more)) = encoded.get(at + taken..).and_then(read_varint) else { break };
        match at.checked_add(taken + more).and_then(|start| start.checked_add(usize::try_from(length).ok()?)) {
            Some(end) if end <= encoded.len() => at = end,
            _ => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Document {
        let mut document = Document::new();
        document.set(field::ETAG, Some(Bytes::from_static(b"abc")));
        document.set_number(field::SIZE, 70_000);
        document.set(900, Some(Bytes::from_static(b"of a later version")));
        document.set(field::TAGS, Some(Bytes::new()));
        document
    }

    #[test]
    fn a_document_comes_back_with_what_it_does_not_know() {
        let document = sample();
        let bytes = document.encode();
        assert_eq!(Document::decode(bytes.clone()).unwrap(), document);
        assert_eq!(peek_number(&bytes, field::SIZE), Some(70_000));
        assert_eq!((peek_number(&bytes, field::MODIFIED), peek_number(&bytes, 5000)), (None, None));
        let mut shown = Vec::new();
        each_field(&bytes, |id, value| shown.push((id, Bytes::copy_from_slice(value))));
        assert_eq!(shown, document.fields());
        let listed = Document::decode(bytes.slice(..list_fields_bytes(&bytes))).unwrap();
        assert_eq!(listed.fields().len(), 2);
        assert_eq!((listed.text(field::ETAG), listed.get(900)), (Some("abc"), None));
    }

    #[test]
    fn numbers_reach_their_end() {
        for value in [0, 127, 128, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut document = Document::new();
            document.set_number(field::SIZE, value);
            assert_eq!(document.number(field::SIZE), Some(value));
            assert_eq!(peek_number(&document.encode(), field::SIZE), Some(value));
        }
    }

    #[test]
    fn bytes_that_are_no_document_are_refused() {
        for bytes in [&[1u8][..], &[1, 5, 0], &[2, 0, 1, 0], &[1, 0, 1, 0], &[0xff, 0xff, 0xff, 1, 0], &[0xff; 12]] {
            assert!(Document::decode(Bytes::copy_from_slice(bytes)).is_err(), "{bytes:?}");
            let _ = (peek_number(bytes, 2), list_fields_bytes(bytes));
            each_field(bytes, |_, _| {});
        }
    }
}

//! An entry's words in its row and in a reply, and what a reply can take.

use super::super::{fail, Fail, Reply, REPLY_BYTES_MAX, REPLY_ELEMENTS_MAX};
use super::ids::Id;
use crate::contract::corrupt_row;
use base_engine::EngineError;
use base_types::codec::{DecodeError, Reader, Writer};
use base_types::KEY_BYTES_MAX;
use bytes::Bytes;

/// Elements of a reply that an entry takes beside its words: itself, its id, the array of words.
const ENTRY_ELEMENTS: usize = 3;

/// Entries, and whether there was one more that did not fit.
#[derive(Default)]
pub(super) struct Entries {
    pub entries: Vec<(Id, Vec<Bytes>)>,
    pub more: bool,
}

/// What a reply can still take.
pub(super) struct Room {
    elements: usize,
    bytes: usize,
}

impl Room {
    pub fn new() -> Room {
        Room { elements: REPLY_ELEMENTS_MAX, bytes: REPLY_BYTES_MAX }
    }

    /// False: it does not fit.
    pub fn take(&mut self, elements: usize, bytes: usize) -> bool {
        let left = self.elements.checked_sub(elements).zip(self.bytes.checked_sub(bytes));
        if let Some((elements, bytes)) = left {
            (self.elements, self.bytes) = (elements, bytes);
        }
        left.is_some()
    }

    /// As `take`, for an entry with its id.
    pub fn take_entry(&mut self, words: &[Bytes]) -> bool {
        self.take(words.len() + ENTRY_ELEMENTS, words.iter().map(Bytes::len).sum())
    }
}

pub(super) fn entry_value(words: &[Bytes]) -> Bytes {
    let mut out = Writer::with_capacity(8 + words.iter().map(|word| word.len() + 4).sum::<usize>());
    out.varint(words.len() as u64);
    for word in words {
        out.bytes(word);
    }
    out.finish()
}

pub(super) fn entry_words(row: &[u8]) -> Result<Vec<Bytes>, EngineError> {
    let mut input = Reader::new(Bytes::copy_from_slice(row));
    let decoded: Result<Vec<Bytes>, DecodeError> = (|| {
        let count = input.count("fields of an entry")?;
        (0..count).map(|_| input.bytes("field of an entry")).collect()
    })();
    decoded.map_err(|error| corrupt_row("redis stream entry", error))
}

pub(super) fn entry_reply((id, words): (Id, Vec<Bytes>)) -> Reply {
    Reply::Array(vec![id.reply(), Reply::Array(words.into_iter().map(Reply::Bulk).collect())])
}

/// A name of a client's as error texts show it: on one line.
pub(super) fn shown(name: &[u8]) -> String {
    let name = name.get(..KEY_BYTES_MAX).unwrap_or(name);
    String::from_utf8_lossy(name).replace(['\r', '\n'], " ")
}

pub(super) fn too_large<T>() -> Result<T, Fail> {
    fail(format!(
        "ERR reply is larger than {REPLY_ELEMENTS_MAX} elements or {REPLY_BYTES_MAX} bytes; read it in parts (COUNT)"
    ))
}

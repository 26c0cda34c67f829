//! One key of a backup, and its bytes in a part (docs/formats/backup.md).
//!
//! ```text
//!   kind u8 │ key length u16 │ value length u32 │ modified u64 │ lease u64 │ key │ value       little-endian
//! ```

use bytes::{Buf, Bytes};

/// Before the key.
const HEAD_BYTES: usize = 1 + 2 + 4 + 8 + 8;
const KIND_PUT: u8 = 1;
const KIND_DELETE: u8 = 2;

/// A key as it was, or (in an increment) that it was gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub key: Bytes,
    /// The stamp of its last put; 0 in a plain keyspace.
    pub modified: u64,
    /// The lease it was attached to; 0: none.
    pub lease: u64,
    /// None: it was deleted.
    pub value: Option<Bytes>,
}

impl Entry {
    /// A key that is gone.
    pub fn deleted(key: Bytes) -> Entry {
        Entry { key, modified: 0, lease: 0, value: None }
    }

    /// What it has of key and value.
    pub fn bytes(&self) -> u64 {
        (self.key.len() + self.value.as_ref().map_or(0, Bytes::len)) as u64
    }

    /// Appends it. Keys and values of a world are far below what the lengths can say.
    pub fn write(&self, out: &mut Vec<u8>) {
        let value = self.value.as_deref().unwrap_or_default();
        assert!(self.key.len() <= usize::from(u16::MAX) && u32::try_from(value.len()).is_ok());
        out.reserve(HEAD_BYTES + self.key.len() + value.len());
        out.push(if self.value.is_some() { KIND_PUT } else { KIND_DELETE });
        out.extend((self.key.len() as u16).to_le_bytes());
        out.extend((value.len() as u32).to_le_bytes());
        out.extend(self.modified.to_le_bytes());
        out.extend(self.lease.to_le_bytes());
        out.extend_from_slice(&self.key);
        out.extend_from_slice(value);
    }

    /// Reads what [`Entry::write`] wrote; what does not fit is said in words.
    pub fn read(input: &mut Bytes) -> Result<Entry, &'static str> {
        if input.len() < HEAD_BYTES {
            return Err("an entry is cut off");
        }
        let kind = input.get_u8();
        let (key, value) = (usize::from(input.get_u16_le()), input.get_u32_le() as usize);
        let (modified, lease) = (input.get_u64_le(), input.get_u64_le());
        if input.len() < key + value {
            return Err("an entry is longer than its part");
        }
        let (key, value) = (input.split_to(key), input.split_to(value));
        match kind {
            KIND_PUT => Ok(Entry { key, modified, lease, value: Some(value) }),
            KIND_DELETE if value.is_empty() => Ok(Entry { key, modified, lease, value: None }),
            _ => Err("an entry is of no known kind"),
        }
    }
}

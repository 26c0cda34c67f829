//! Writes as a log entry holds them (docs/formats/embedded.md).
//!
//! ```text
//!   entry   record, record, …
//!   record  number u64 │ body: count varint │ count × (kind u8: 0 delete, 1 put │ key │ value, if put)
//! ```
//!
//! Always: a body is made once, by the writer; keys and values in memory are slices of it. Whatever
//! bytes are read, the answer is an error, not a panic.
//! Held by: `hostile_entries_are_errors_and_no_panics`.
//! Not here: checksums (core-log has them).

use base_types::codec::{DecodeError, Reader, Writer};
use bytes::{BufMut, Bytes, BytesMut};

const DELETE: u8 = 0;
const PUT: u8 = 1;

/// One key and its new value; `None`: it goes.
pub type Change = (Bytes, Option<Bytes>);

/// A write as it is recorded, and its parts as slices of that.
pub struct Body {
    pub bytes: Bytes,
    pub changes: Vec<Change>,
}

/// Makes a body.
pub fn body<'c>(changes: impl ExactSizeIterator<Item = (&'c [u8], Option<&'c [u8]>)>) -> Body {
    let mut out = Writer::new();
    out.varint(changes.len() as u64);
    for (key, value) in changes {
        out.u8(if value.is_some() { PUT } else { DELETE }).bytes(key);
        if let Some(value) = value {
            out.bytes(value);
        }
    }
    let bytes = out.finish();
    let changes = read_body(&mut Reader::new(bytes.clone())).unwrap_or_default();
    Body { bytes, changes }
}

fn read_body(input: &mut Reader) -> Result<Vec<Change>, DecodeError> {
    let count = input.count("number of changes")?;
    let mut changes = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        let kind = input.u8("kind of change")?;
        let key = input.bytes("key")?;
        let value = match kind {
            DELETE => None,
            PUT => Some(input.bytes("value")?),
            _ => return Err(DecodeError::Unknown("kind of change")),
        };
        changes.push((key, value));
    }
    Ok(changes)
}

/// The bytes a record takes in an entry.
pub fn record_bytes(body: &Bytes) -> usize {
    8 + body.len()
}

/// Adds a record to an entry.
pub fn push(entry: &mut BytesMut, number: u64, body: &Bytes) {
    entry.put_u64_le(number);
    entry.put_slice(body);
}

/// The records of an entry.
pub fn read(entry: Bytes) -> Result<Vec<(u64, Vec<Change>)>, DecodeError> {
    let mut input = Reader::new(entry);
    let mut records = Vec::new();
    while input.remaining() > 0 {
        let number = input.u64("number of a write")?;
        records.push((number, read_body(&mut input)?));
    }
    Ok(records)
}

/// Fuzzing's way in: any bytes are an entry or refused; one that is comes back from records made of it anew.
pub fn fuzz_entry(bytes: &[u8]) {
    let Ok(records) = read(Bytes::copy_from_slice(bytes)) else { return };
    let mut again = BytesMut::new();
    for (number, changes) in &records {
        let made = body(changes.iter().map(|(key, value)| (&key[..], value.as_deref())));
        assert_eq!(made.changes, *changes, "a body does not survive its own bytes");
        push(&mut again, *number, &made.bytes);
    }
    // Numbers may have been written longer than they need be, never shorter.
    assert!(again.len() <= bytes.len(), "{} bytes of {}", again.len(), bytes.len());
    assert_eq!(read(again.freeze()).as_ref(), Ok(&records), "an entry does not survive its own bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Bytes {
        let mut entry = BytesMut::new();
        let batch: [(&[u8], Option<&[u8]>); 3] = [(b"a", Some(b"1")), (b"", Some(b"")), (b"\xff", None)];
        push(&mut entry, 7, &body(batch.into_iter()).bytes);
        push(&mut entry, 9, &body([(&b"k"[..], None)].into_iter()).bytes);
        entry.freeze()
    }

    #[test]
    fn records_come_back() {
        let records = read(entry()).unwrap();
        assert_eq!(records.len(), 2);
        assert_eq!((records[0].0, records[0].1.len()), (7, 3));
        assert_eq!(records[0].1[0], (Bytes::from_static(b"a"), Some(Bytes::from_static(b"1"))));
        assert_eq!(records[1], (9, vec![(Bytes::from_static(b"k"), None)]));
    }

    /// Any bytes are an answer; cut or changed ones never add a change that was not there.
    #[test]
    fn hostile_entries_are_errors_and_no_panics() {
        let whole = entry();
        for length in 1..whole.len() {
            let _ = read(whole.slice(..length));
            for bit in 0..8 {
                let mut flipped = whole.to_vec();
                flipped[length] ^= 1 << bit;
                let _ = read(flipped.into());
            }
        }
        assert!(read(whole.slice(..whole.len() - 1)).is_err());
        assert!(read(Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0x0f])).is_err());
        assert!(read(Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0])).is_err());
    }
}

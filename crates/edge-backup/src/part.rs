//! A part: entries in the order of their keys, compressed, in a file of bounded size (docs/formats/backup.md).
//!
//! ```text
//!   "HIVEBAK1" │ backup 16 │ number u32 │ entries u32 │ raw bytes u32 │ LZ4 block
//! ```
//!
//! Always: a part is read only if its length, its SHA-256, its backup, its number, its count and the order of its keys are those of
//! the record that names it. Held by: `truncated_part_is_refused`, `flipped_bit_is_refused`, `part_of_another_backup_is_refused`,
//! `swapped_parts_are_refused`.

use crate::depot::Depot;
use crate::entry::Entry;
use crate::files::sha256;
use crate::BackupError;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};

/// A part ends with the entry that makes its raw bytes so many.
pub const PART_BYTES: usize = 8 << 20;
/// The most raw bytes of a part: what it ends after, and the longest entry.
const RAW_BYTES_MAX: usize = PART_BYTES + (2 << 20);
/// The longest file of a part: LZ4 makes what it cannot compress longer by 1/255 at most.
const FILE_BYTES_MAX: u64 = (RAW_BYTES_MAX + RAW_BYTES_MAX / 128 + 1024) as u64;
const MAGIC: &[u8; 8] = b"HIVEBAK1";
const HEAD_BYTES: usize = 8 + 16 + 4 + 4 + 4;
/// What names of parts begin with.
pub const PREFIX: &str = "part-";

/// The name of a backup: random.
pub type BackupId = [u8; 16];

/// A key in JSON: text where it is UTF-8, base64 elsewhere.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyText {
    Text(String),
    Base64 { base64: String },
}

impl KeyText {
    pub fn of(key: &[u8]) -> KeyText {
        match std::str::from_utf8(key) {
            Ok(text) => KeyText::Text(text.into()),
            Err(_) => KeyText::Base64 { base64: STANDARD.encode(key) },
        }
    }

    /// None: it is no base64.
    pub fn bytes(&self) -> Option<Bytes> {
        match self {
            KeyText::Text(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
            KeyText::Base64 { base64 } => STANDARD.decode(base64).ok().map(Bytes::from),
        }
    }
}

/// What a manifest says of a part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartRecord {
    pub file: String,
    pub first: KeyText,
    pub last: KeyText,
    pub entries: u32,
    /// Of these: keys that are gone (in an increment).
    pub deletions: u32,
    /// Bytes of keys and values.
    pub bytes: u64,
    pub file_bytes: u64,
    pub sha256: String,
    /// When its keys were read, by the clock of the machine that made the backup.
    pub read_from_ms: u64,
    pub read_to_ms: u64,
}

/// The file of a part, from 1.
pub fn file_name(number: u32) -> String {
    format!("{PREFIX}{number:06}")
}

/// The number in the name of a part's file; none where it is another file's name.
pub fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_prefix(PREFIX)?.get(..6)?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// A part that is being filled.
#[derive(Default)]
pub struct PartBuilder {
    raw: Vec<u8>,
    entries: u32,
    deletions: u32,
    bytes: u64,
    first: Bytes,
    last: Bytes,
}

impl PartBuilder {
    pub fn push(&mut self, entry: &Entry) {
        if self.entries == 0 {
            self.first = entry.key.clone();
        }
        assert!(self.entries == 0 || self.last < entry.key, "keys come in order");
        self.last = entry.key.clone();
        self.entries += 1;
        self.deletions += u32::from(entry.value.is_none());
        self.bytes += entry.bytes();
        entry.write(&mut self.raw);
    }

    pub fn raw_bytes(&self) -> usize {
        self.raw.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Writes the part; it is durable after that.
    pub async fn finish(
        self,
        dir: &Depot,
        backup: &BackupId,
        number: u32,
        times: (u64, u64),
    ) -> Result<PartRecord, BackupError> {
        assert!(self.raw.len() <= RAW_BYTES_MAX, "a part is bounded");
        let mut file = Vec::with_capacity(HEAD_BYTES + self.raw.len() / 2);
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(backup);
        file.extend(number.to_le_bytes());
        file.extend(self.entries.to_le_bytes());
        file.extend((self.raw.len() as u32).to_le_bytes());
        file.extend(lz4_flex::block::compress(&self.raw));
        let (file_bytes, sha256) = (file.len() as u64, sha256(&file));
        dir.put(&file_name(number), file).await?;
        Ok(PartRecord {
            file: file_name(number),
            first: KeyText::of(&self.first),
            last: KeyText::of(&self.last),
            entries: self.entries,
            deletions: self.deletions,
            bytes: self.bytes,
            file_bytes,
            sha256,
            read_from_ms: times.0,
            read_to_ms: times.1,
        })
    }
}

/// Reads a part and compares it with its record.
pub async fn read(dir: &Depot, backup: &BackupId, number: u32, record: &PartRecord) -> Result<Vec<Entry>, BackupError> {
    let damaged = |what: String| BackupError::damaged(dir.file(&file_name(number)), what);
    if record.file != file_name(number) {
        return Err(damaged(format!("the record of part {number} names {}", record.file)));
    }
    let file = dir.get(&file_name(number), FILE_BYTES_MAX).await?;
    let file = Bytes::from(file.ok_or_else(|| damaged("it is missing".into()))?);
    if file.len() as u64 != record.file_bytes {
        return Err(damaged(format!("it has {} bytes instead of {}", file.len(), record.file_bytes)));
    }
    let found = sha256(&file);
    if found != record.sha256 {
        return Err(damaged(format!("its SHA-256 is {found} instead of {}", record.sha256)));
    }
    let entries = decode(file, backup, number).map_err(damaged)?;
    let deletions = entries.iter().filter(|entry| entry.value.is_none()).count() as u32;
    let bytes: u64 = entries.iter().map(Entry::bytes).sum();
    if (entries.len() as u32, deletions, bytes) != (record.entries, record.deletions, record.bytes) {
        return Err(damaged(format!("it has {} entries, its record says {}", entries.len(), record.entries)));
    }
    let ends = (entries.first().map(|entry| entry.key.clone()), entries.last().map(|entry| entry.key.clone()));
    if ends != (record.first.bytes(), record.last.bytes()) {
        return Err(damaged("its first or last key is not that of its record".into()));
    }
    Ok(entries)
}

/// The entries of a file, whatever its bytes are.
pub fn decode(mut file: Bytes, backup: &BackupId, number: u32) -> Result<Vec<Entry>, String> {
    if file.len() < HEAD_BYTES || file.split_to(MAGIC.len()) != MAGIC[..] {
        return Err("it is no part of a backup".into());
    }
    if file.split_to(backup.len()) != backup[..] {
        return Err("it is a part of another backup".into());
    }
    let (found, count, raw_bytes) = (file.get_u32_le(), file.get_u32_le(), file.get_u32_le() as usize);
    if found != number {
        return Err(format!("it is part {found} instead of {number}"));
    }
    if raw_bytes > RAW_BYTES_MAX {
        return Err(format!("it would have {raw_bytes} bytes, more than any part"));
    }
    let raw =
        lz4_flex::block::decompress(&file, raw_bytes).map_err(|error| format!("it does not decompress: {error}"))?;
    let mut raw = Bytes::from(raw);
    let mut entries: Vec<Entry> = Vec::new();
    while !raw.is_empty() {
        let entry = Entry::read(&mut raw)?;
        if entries.last().is_some_and(|last| last.key >= entry.key) {
            return Err("its keys are out of order".into());
        }
        entries.push(entry);
    }
    match entries.len() == count as usize {
        true => Ok(entries),
        false => Err(format!("it has {} entries instead of {count}", entries.len())),
    }
}

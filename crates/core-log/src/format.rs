//! The bytes of the log: batch headers, record headers, directories. Drawn in docs/formats/log.md.
//!
//! Always: every checksum covers where the bytes belong (log, segment, offset), so bytes that were
//! written elsewhere or in an earlier life of a segment do not verify; decoding takes any bytes
//! without panicking and without allocating from an unchecked length.
//! Held by: `a_batch_header_survives_and_refuses_other_places`, `a_record_header_is_sealed_to_its_place`, `headers_with_sound_checksums_and_absurd_fields_are_survived`, `an_earlier_life_of_a_segment_is_never_read`.
//! Not here: when batches are written (`batch.rs`), what is made of them at start (`recovery.rs`).

use crate::BLOCK_BYTES;
use alloc::vec::Vec;
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, LogIndex, Term};
use bytes::Bytes;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The first eight bytes of every batch.
pub(crate) const MAGIC: [u8; 8] = *b"HiveLog\n";
/// The format this build writes, and the only one it reads.
pub const FORMAT_VERSION: u16 = 1;
/// Bytes of a batch header; the first record follows at once.
pub(crate) const BATCH_HEADER_BYTES: usize = 104;
/// Bytes of a record header; the payload follows at once.
pub(crate) const RECORD_HEADER_BYTES: usize = 56;
/// Records start at multiples of this, so that a reader that lost its place finds the next one.
pub(crate) const RECORD_ALIGN: usize = 8;
/// Batch numbers, segment ids and indexes end here: arithmetic on them never overflows.
pub(crate) const NUMBER_END: u64 = 1 << 62;
/// More segments are never in use at once; a header that says so is none.
const SEGMENTS_MAX: u64 = 1 << 20;
/// Flag of a batch written only to prove that the batch before it was durable.
pub(crate) const FLAG_SEAL: u16 = 1;

/// Flag of a batch in a part of its segment that held nothing but zeros before: what is missing of it is zeros.
pub(crate) const FLAG_FIRST_LIFE: u16 = 2;
/// What a disk writes whole or not at all, at least.
pub(crate) const SECTOR_BYTES: usize = 512;

/// What a record does when it is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// Sets the entry and removes everything after it.
    Entry = 1,
    /// Sets the entry and nothing else (a live tail moved, a hole mended).
    MovedEntry = 2,
    /// Sets a state.
    State = 3,
    /// Entries up to the index are gone.
    Compact = 4,
    /// All entries are gone; the log continues after the index.
    Reset = 5,
    /// The cluster is gone.
    Forget = 6,
    /// The entry is known to have rotted (a hole that moved).
    Hole = 7,
    /// The state is known to have rotted in every copy.
    LostState = 8,
}

impl RecordKind {
    fn from_byte(byte: u8) -> Option<RecordKind> {
        const ALL: [RecordKind; 8] = [
            RecordKind::Entry,
            RecordKind::MovedEntry,
            RecordKind::State,
            RecordKind::Compact,
            RecordKind::Reset,
            RecordKind::Forget,
            RecordKind::Hole,
            RecordKind::LostState,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One record as it is staged.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub kind: RecordKind,
    /// The entry's or the state's own kind.
    pub detail: u8,
    pub cluster: ClusterId,
    pub index: LogIndex,
    pub term: Term,
    pub data: Bytes,
    pub context: Bytes,
}

impl Record {
    /// A record that is all header.
    pub fn bare(kind: RecordKind, detail: u8, cluster: ClusterId, index: LogIndex, term: Term) -> Record {
        Record { kind, detail, cluster, index, term, data: Bytes::new(), context: Bytes::new() }
    }

    /// Bytes it takes in a batch.
    pub fn encoded_bytes(&self) -> usize {
        record_bytes(self.data.len() + self.context.len())
    }
}

/// Bytes a record with this payload takes in a batch.
pub(crate) fn record_bytes(payload: usize) -> usize {
    RECORD_HEADER_BYTES + align_up(payload, RECORD_ALIGN)
}

/// `value` rounded up to a multiple of `to`.
pub(crate) fn align_up(value: usize, to: usize) -> usize {
    value.div_ceil(to) * to
}

/// The header of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct BatchHeader {
    pub version: u16,
    pub flags: u16,
    pub records: u32,
    pub identity: u64,
    pub segment: u64,
    pub offset: u64,
    pub number: u64,
    /// The checksum in the header of the batch before.
    pub previous: u64,
    /// Segments before this one are not needed once this batch is durable.
    pub log_start: u64,
    /// The number of the first batch in that segment; 0: not known.
    pub log_start_number: u64,
    pub records_bytes: u32,
    pub echo_bytes: u32,
    pub directory_checksum: u64,
    /// The directory checksum of the batch before.
    pub echo_checksum: u64,
    pub checksum: u64,
}

impl BatchHeader {
    /// Bytes of the whole batch, padding included.
    pub fn total_bytes(&self) -> u64 {
        let inner = BATCH_HEADER_BYTES as u64 + u64::from(self.records_bytes) + u64::from(self.echo_bytes);
        inner.div_ceil(BLOCK_BYTES as u64) * BLOCK_BYTES as u64
    }

    /// Where its records begin in the segment.
    pub fn records_at(&self) -> u64 {
        self.offset + BATCH_HEADER_BYTES as u64
    }

    /// Where the directory of the batch before begins in the segment.
    pub fn echo_at(&self) -> u64 {
        self.records_at() + u64::from(self.records_bytes)
    }

    /// Writes the header with its checksum, which it returns.
    pub fn encode(&self, out: &mut [u8]) -> u64 {
        out[0..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&self.version.to_le_bytes());
        out[10..12].copy_from_slice(&self.flags.to_le_bytes());
        out[12..16].copy_from_slice(&self.records.to_le_bytes());
        put_u64(out, 16, self.identity);
        put_u64(out, 24, self.segment);
        put_u64(out, 32, self.offset);
        put_u64(out, 40, self.number);
        put_u64(out, 48, self.previous);
        put_u64(out, 56, self.log_start);
        put_u64(out, 64, self.log_start_number);
        out[72..76].copy_from_slice(&self.records_bytes.to_le_bytes());
        out[76..80].copy_from_slice(&self.echo_bytes.to_le_bytes());
        put_u64(out, 80, self.directory_checksum);
        put_u64(out, 88, self.echo_checksum);
        let checksum = xxh3_64_with_seed(&out[..96], self.identity);
        put_u64(out, 96, checksum);
        checksum
    }

    /// The header at the start of `block`, whosever and wherever from it is; `None` if there is none.
    pub fn decode(block: &[u8]) -> Option<BatchHeader> {
        let bytes = block.get(..BATCH_HEADER_BYTES)?;
        if bytes[0..8] != MAGIC {
            return None;
        }
        let header = BatchHeader {
            version: u16::from_le_bytes([bytes[8], bytes[9]]),
            flags: u16::from_le_bytes([bytes[10], bytes[11]]),
            records: get_u32(bytes, 12),
            identity: get_u64(bytes, 16),
            segment: get_u64(bytes, 24),
            offset: get_u64(bytes, 32),
            number: get_u64(bytes, 40),
            previous: get_u64(bytes, 48),
            log_start: get_u64(bytes, 56),
            log_start_number: get_u64(bytes, 64),
            records_bytes: get_u32(bytes, 72),
            echo_bytes: get_u32(bytes, 76),
            directory_checksum: get_u64(bytes, 80),
            echo_checksum: get_u64(bytes, 88),
            checksum: get_u64(bytes, 96),
        };
        (xxh3_64_with_seed(&bytes[..96], header.identity) == header.checksum).then_some(header)
    }

    /// Whether it stands where it was meant to, in a segment of `segment_bytes`.
    pub fn is_at(&self, identity: u64, segment: u64, offset: u64, segment_bytes: u64) -> bool {
        let fits = self.total_bytes() <= segment_bytes.saturating_sub(offset);
        let misplaced = self.offset != offset && !planted(Mutant::IdentityNotChecked);
        let earlier_life =
            self.segment != segment && !planted(Mutant::RecycledSegmentTrusted) && !planted(Mutant::IdentityNotChecked);
        let sane = self.number < NUMBER_END
            && self.log_start_number <= self.number
            && self.log_start <= self.segment
            && self.segment - self.log_start < SEGMENTS_MAX;
        self.identity == identity && self.version == FORMAT_VERSION && sane && fits && !misplaced && !earlier_life
    }
}

/// What a record's header says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RecordHeader {
    pub kind: RecordKind,
    pub detail: u8,
    pub cluster: ClusterId,
    pub index: LogIndex,
    pub term: Term,
    pub payload_checksum: u64,
    pub data_bytes: u32,
    pub context_bytes: u32,
}

impl RecordHeader {
    /// The header of `record` whose payload is `payload`.
    pub fn of(record: &Record, identity: u64, payload: &[u8]) -> RecordHeader {
        let mut header = RecordHeader {
            kind: record.kind,
            detail: record.detail,
            cluster: record.cluster,
            index: record.index,
            term: record.term,
            payload_checksum: 0,
            data_bytes: record.data.len() as u32,
            context_bytes: record.context.len() as u32,
        };
        header.payload_checksum = header.checksum_of(identity, payload);
        header
    }

    /// Bytes of the payload without padding.
    pub fn payload_bytes(&self) -> usize {
        self.data_bytes as usize + self.context_bytes as usize
    }

    fn checksum_of(&self, identity: u64, payload: &[u8]) -> u64 {
        let mut seed = [0u8; 26];
        put_u64(&mut seed, 0, self.cluster.0);
        put_u64(&mut seed, 8, self.index.0);
        put_u64(&mut seed, 16, self.term.0);
        seed[24] = self.kind as u8;
        seed[25] = self.detail;
        xxh3_64_with_seed(payload, xxh3_64_with_seed(&seed, identity))
    }

    /// Whether `payload` is what was written for this record.
    pub fn payload_is_whole(&self, identity: u64, payload: &[u8]) -> bool {
        planted(Mutant::SkipChecksum) || self.checksum_of(identity, payload) == self.payload_checksum
    }

    /// The header's bytes, sealed with where they stand.
    pub fn encode(&self, place: u64) -> [u8; RECORD_HEADER_BYTES] {
        let mut out = [0u8; RECORD_HEADER_BYTES];
        put_u64(&mut out, 8, self.cluster.0);
        put_u64(&mut out, 16, self.index.0);
        put_u64(&mut out, 24, self.term.0);
        put_u64(&mut out, 32, self.payload_checksum);
        out[40..44].copy_from_slice(&self.data_bytes.to_le_bytes());
        out[44..48].copy_from_slice(&self.context_bytes.to_le_bytes());
        out[48] = self.kind as u8;
        out[49] = self.detail;
        let checksum = xxh3_64_with_seed(&out[8..], place);
        put_u64(&mut out, 0, checksum);
        out
    }

    /// The header at the start of `bytes` if it was written for this place.
    pub fn decode(bytes: &[u8], place: u64) -> Option<RecordHeader> {
        let bytes = bytes.get(..RECORD_HEADER_BYTES)?;
        let sealed = xxh3_64_with_seed(&bytes[8..], place) == get_u64(bytes, 0);
        if sealed {
            Self::decode_unsealed(bytes)
        } else {
            None
        }
    }

    /// The header's fields where other checksums vouch for them (a directory's).
    pub fn decode_unsealed(bytes: &[u8]) -> Option<RecordHeader> {
        let bytes = bytes.get(..RECORD_HEADER_BYTES)?;
        let sane = get_u64(bytes, 16) < NUMBER_END;
        sane.then_some(RecordHeader {
            kind: RecordKind::from_byte(bytes[48])?,
            detail: bytes[49],
            cluster: ClusterId(get_u64(bytes, 8)),
            index: LogIndex(get_u64(bytes, 16)),
            term: Term(get_u64(bytes, 24)),
            payload_checksum: get_u64(bytes, 32),
            data_bytes: get_u32(bytes, 40),
            context_bytes: get_u32(bytes, 44),
        })
    }
}

/// What seals a record header to its place.
pub(crate) fn place(identity: u64, segment: u64, offset: u64) -> u64 {
    let (segment, offset) = if planted(Mutant::IdentityNotChecked) { (0, 0) } else { (segment, offset) };
    let mut bytes = [0u8; 24];
    put_u64(&mut bytes, 0, identity);
    put_u64(&mut bytes, 8, segment);
    put_u64(&mut bytes, 16, offset);
    xxh3_64(&bytes)
}

/// A directory's checksum.
pub(crate) fn directory_checksum(identity: u64, directory: &[u8]) -> u64 {
    xxh3_64_with_seed(directory, identity)
}

/// Appends a record's line to a directory: its header and, for a state, its payload.
pub(crate) fn push_directory(directory: &mut Vec<u8>, header: &[u8], kind: RecordKind, payload: &[u8]) {
    directory.extend_from_slice(header);
    if kind == RecordKind::State {
        directory.extend_from_slice(payload);
        directory.resize(align_up(directory.len(), RECORD_ALIGN), 0);
    }
}

/// One line of a directory.
pub(crate) struct DirectoryLine<'a> {
    pub header_bytes: &'a [u8],
    pub header: RecordHeader,
    /// A state's payload.
    pub inline: Option<&'a [u8]>,
}

/// The lines of a directory; `None` where it does not parse to its end.
pub(crate) fn read_directory(mut rest: &[u8]) -> Option<Vec<DirectoryLine<'_>>> {
    let mut lines = Vec::new();
    while !rest.is_empty() {
        let header_bytes = rest.get(..RECORD_HEADER_BYTES)?;
        let header = RecordHeader::decode_unsealed(header_bytes)?;
        rest = &rest[RECORD_HEADER_BYTES..];
        let mut inline = None;
        if header.kind == RecordKind::State {
            inline = Some(rest.get(..header.payload_bytes())?);
            rest = rest.get(align_up(header.payload_bytes(), RECORD_ALIGN)..)?;
        }
        lines.push(DirectoryLine { header_bytes, header, inline });
    }
    Some(lines)
}

fn put_u64(out: &mut [u8], at: usize, value: u64) {
    out[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get_u64(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}

fn get_u32(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_header_survives_and_refuses_other_places() {
        let header = BatchHeader {
            version: FORMAT_VERSION,
            flags: FLAG_SEAL,
            records: 3,
            identity: 9,
            segment: 4,
            offset: 8192,
            number: 77,
            previous: 5,
            log_start: 2,
            log_start_number: 50,
            records_bytes: 100,
            echo_bytes: 5000,
            directory_checksum: 1,
            echo_checksum: 2,
            checksum: 0,
        };
        let mut block = [0u8; BLOCK_BYTES];
        let checksum = header.encode(&mut block);
        let read = BatchHeader::decode(&block).unwrap();
        assert_eq!(read, BatchHeader { checksum, ..header });
        assert_eq!(read.total_bytes(), 8192);
        assert!(read.is_at(9, 4, 8192, 16384));
        assert!(!read.is_at(9, 4, 8192, 12288), "does not fit");
        assert!(!read.is_at(8, 4, 8192, 16384) && !read.is_at(9, 3, 8192, 16384) && !read.is_at(9, 4, 4096, 16384));
        for bit in 0..BATCH_HEADER_BYTES * 8 {
            let mut rotted = block;
            rotted[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BatchHeader::decode(&rotted), None);
        }
    }

    #[test]
    fn a_record_header_is_sealed_to_its_place() {
        let record = Record::bare(RecordKind::State, 3, ClusterId(1), LogIndex(2), Term(3));
        let header = RecordHeader::of(&record, 9, b"payload");
        let bytes = header.encode(place(9, 1, 96));
        assert_eq!(RecordHeader::decode(&bytes, place(9, 1, 96)), Some(header.clone()));
        for other in [place(8, 1, 96), place(9, 2, 96), place(9, 1, 104)] {
            assert_eq!(RecordHeader::decode(&bytes, other), None);
        }
        assert!(header.payload_is_whole(9, b"payload") && !header.payload_is_whole(9, b"paylobd"));
        assert!(!header.payload_is_whole(8, b"payload"), "another log's");
    }
}

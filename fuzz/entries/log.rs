//! Ways in to core-log: one record, and whole segments.
//!
//! Segments in an input are written short: a byte of [`Mend`] flags, then blocks, each a u16 length and
//! so many bytes, the rest of the block zero; eight blocks a segment. Checksums would turn nearly every
//! mutation away at the door, so the flags say which of them are made right again first: then the
//! fields after them are what is hostile ("forged", RELIABILITY.md row 62).
//!
//! Always: recovery gives a log or an error; a log it gives takes and writes an append.

use base_types::{ClusterId, LogIndex, Term, Tick};
use bytes::Bytes;
use core_log::{Log, LogConfig, LogDisk, LogEntry, LogError, SegmentId, BLOCK_BYTES, SEGMENT_BYTES_MIN};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The identity the seeds were written with (`FUZZ_IDENTITY` of core-log).
pub const IDENTITY: u64 = 0;
/// The most segments one input makes.
const SEGMENTS_MAX: usize = 4;
const BLOCKS_PER_SEGMENT: usize = SEGMENT_BYTES_MIN as usize / BLOCK_BYTES;
const BATCH_HEADER_BYTES: usize = 104;
const RECORD_HEADER_BYTES: usize = 56;
const MAGIC: &[u8] = b"HiveLog\n";
const STATE: u8 = 3;

/// What is made right again before recovery sees it.
mod mend {
    pub const HEADER: u8 = 1;
    pub const RECORDS: u8 = 2;
    pub const DIRECTORY: u8 = 4;
    pub const CHAIN: u8 = 8;
    pub const PLACE: u8 = 16;
}

/// The bytes of a record header and a directory.
pub fn log_record(data: &[u8]) {
    core_log::fuzz_record(data);
}

/// The short form of one segment image, as the seeds hold it.
pub fn shorten(image: &[u8], out: &mut Vec<u8>) {
    for block in image.chunks(BLOCK_BYTES) {
        let used = block.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        out.extend_from_slice(&(used as u16).to_le_bytes());
        out.extend_from_slice(&block[..used]);
    }
}

fn lengthen(mut data: &[u8]) -> Vec<Vec<u8>> {
    let mut segments: Vec<Vec<u8>> = Vec::new();
    while let Some((length, rest)) = data.split_first_chunk::<2>() {
        let used = usize::from(u16::from_le_bytes(*length)).min(BLOCK_BYTES).min(rest.len());
        if segments.last().is_none_or(|segment| segment.len() == BLOCKS_PER_SEGMENT * BLOCK_BYTES) {
            if segments.len() == SEGMENTS_MAX {
                break;
            }
            segments.push(Vec::new());
        }
        let segment = segments.last_mut().expect("one was pushed");
        let end = segment.len() + BLOCK_BYTES;
        segment.extend_from_slice(&rest[..used]);
        segment.resize(end, 0);
        data = &rest[used..];
    }
    segments
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |found| u64::from_le_bytes(found.try_into().expect("eight bytes")))
}

fn short(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 4).map_or(0, |found| u32::from_le_bytes(found.try_into().expect("four bytes")) as usize)
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    if let Some(field) = bytes.get_mut(at..at + 8) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

/// Seals the record at `at` anew and returns its line of the directory and where the next one begins.
fn mend_record(segment: &mut [u8], id: u64, at: usize, seal: bool) -> Option<(Vec<u8>, usize)> {
    segment.get(at..at + RECORD_HEADER_BYTES)?;
    let payload_at = at + RECORD_HEADER_BYTES;
    let payload_bytes = short(segment, at + 40).checked_add(short(segment, at + 44))?;
    let payload = segment.get(payload_at..payload_at.checked_add(payload_bytes)?)?.to_vec();
    if seal {
        let mut seed = [0u8; 26];
        seed[..24].copy_from_slice(&segment[at + 8..at + 32]);
        seed[24..].copy_from_slice(&segment[at + 48..at + 50]);
        put(segment, at + 32, xxh3_64_with_seed(&payload, xxh3_64_with_seed(&seed, IDENTITY)));
        let place: Vec<u8> = [IDENTITY, id, at as u64].iter().flat_map(|value| value.to_le_bytes()).collect();
        let sealed = xxh3_64_with_seed(&segment[at + 8..payload_at], xxh3_64(&place));
        put(segment, at, sealed);
    }
    let mut line = segment[at..payload_at].to_vec();
    if segment[at + 48] == STATE {
        line.extend_from_slice(&payload);
        line.resize(line.len().next_multiple_of(8), 0);
    }
    Some((line, payload_at + payload_bytes.next_multiple_of(8)))
}

/// What one batch hands to the next.
#[derive(Default)]
struct Previous {
    checksum: u64,
    directory: Vec<u8>,
}

fn mend_batch(segment: &mut [u8], id: u64, at: usize, flags: u8, previous: &mut Previous) {
    let end = at + BATCH_HEADER_BYTES + short(segment, at + 72);
    let (mut record, mut directory) = (at + BATCH_HEADER_BYTES, Vec::new());
    while record < end.min(segment.len()) {
        let Some((line, next)) = mend_record(segment, id, record, flags & mend::RECORDS != 0) else { break };
        directory.extend_from_slice(&line);
        record = next;
    }
    if flags & mend::PLACE != 0 {
        put(segment, at + 16, IDENTITY);
        put(segment, at + 24, id);
        put(segment, at + 32, at as u64);
    }
    if flags & mend::DIRECTORY != 0 {
        put(segment, at + 80, xxh3_64_with_seed(&directory, IDENTITY));
    }
    if flags & mend::CHAIN != 0 {
        put(segment, at + 48, previous.checksum);
        put(segment, at + 88, xxh3_64_with_seed(&previous.directory, IDENTITY));
        let echo = end.min(segment.len())..end.saturating_add(previous.directory.len()).min(segment.len());
        let copied = echo.len();
        segment[echo].copy_from_slice(&previous.directory[..copied]);
    }
    if flags & mend::HEADER != 0 {
        let checksum = xxh3_64_with_seed(&segment[at..at + 96], number(segment, at + 16));
        put(segment, at + 96, checksum);
    }
    *previous = Previous { checksum: number(segment, at + 96), directory };
}

fn mend_all(segments: &mut [Vec<u8>], flags: u8) {
    let mut previous = Previous::default();
    for (place, segment) in segments.iter_mut().enumerate() {
        for at in (0..segment.len()).step_by(BLOCK_BYTES) {
            if segment[at..].starts_with(MAGIC) {
                mend_batch(segment, place as u64 + 1, at, flags, &mut previous);
            }
        }
    }
}

struct Images(Vec<Bytes>);

impl LogDisk for Images {
    fn segments(&mut self) -> Result<Vec<(SegmentId, u64)>, LogError> {
        Ok((1..).zip(&self.0).map(|(id, _)| (SegmentId(id), SEGMENT_BYTES_MIN)).collect())
    }

    fn read(&mut self, segment: SegmentId, offset: u64, bytes: usize) -> Result<Bytes, LogError> {
        let end = offset.checked_add(bytes as u64).filter(|end| *end <= SEGMENT_BYTES_MIN);
        let image = (segment.0 as usize).checked_sub(1).and_then(|place| self.0.get(place));
        let (Some(end), Some(image)) = (end, image) else { return Err(LogError::Io("outside the segment".into())) };
        let mut out = image.slice((offset as usize).min(image.len())..(end as usize).min(image.len())).to_vec();
        out.resize(bytes, 0);
        Ok(Bytes::from(out))
    }
}

/// Segments that hold anything: recovered, asked, written to.
pub fn log_segment(data: &[u8]) {
    let Some((flags, rest)) = data.split_first() else { return };
    let mut segments = lengthen(rest);
    mend_all(&mut segments, *flags);
    let config = LogConfig { segment_bytes: SEGMENT_BYTES_MIN, ..LogConfig::default() };
    let mut disk = Images(segments.into_iter().map(Bytes::from).collect());
    let Ok((mut log, _)) = Log::recover(&mut disk, config, IDENTITY) else { return };
    for cluster in log.clusters() {
        let (first, last) = (log.first_index(cluster), log.last_index(cluster));
        assert!(first.0 <= last.0 + 1, "a log of {first:?} to {last:?}");
        let _ = (log.holes(cluster), log.entries(cluster, first, LogIndex(last.0 + 1), 1 << 16));
        (0..4).for_each(|kind| drop(log.state(cluster, kind)));
        let next = LogIndex(last.0 + 1);
        let term = log.term(cluster, last).unwrap_or(Term(1));
        log.append(
            cluster,
            &[LogEntry { term, index: next, kind: 0, data: Bytes::from_static(b"next"), context: Bytes::new() }],
        );
        assert_eq!(log.last_index(cluster), next);
    }
    log.put_state(ClusterId(1), 1, Bytes::from_static(b"state"));
    log.poll(Tick(0));
}

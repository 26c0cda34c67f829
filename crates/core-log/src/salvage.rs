//! Reads batches out of a segment's image: whole ones, and what is left of rotted ones.
//!
//! Always: any bytes are taken without panicking; a record is returned only under a checksum that
//! covers what it is and where it stood.
//! Held by: `any_bytes_are_survived`, `a_rotted_record_header_takes_nothing_with_it`.
//! Not here: whether a batch that is not whole is torn or rotted (`recovery.rs`).

use crate::format::{
    align_up, directory_checksum, place, push_directory, read_directory, record_bytes, BatchHeader, RecordHeader,
    RecordKind, BATCH_HEADER_BYTES, RECORD_ALIGN, RECORD_HEADER_BYTES,
};
use crate::BLOCK_BYTES;
use alloc::vec::Vec;
use bytes::Bytes;

/// A record read back; `payload` is `None` where it rotted.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub header: RecordHeader,
    pub payload: Option<Bytes>,
}

/// The header of a batch of this log at this place of a segment's image, if there is one.
pub(crate) fn header_at(image: &[u8], identity: u64, segment: u64, offset: u64) -> Option<BatchHeader> {
    let block = image.get(usize::try_from(offset).ok()?..)?;
    BatchHeader::decode(block).filter(|header| header.is_at(identity, segment, offset, image.len() as u64))
}

/// The first header from `from` on, standing where it was meant to, that `wanted` takes.
pub(crate) fn find_header(
    image: &[u8],
    (identity, segment): (u64, u64),
    from: u64,
    wanted: impl Fn(&BatchHeader) -> bool,
) -> Option<BatchHeader> {
    let blocks = (from..image.len() as u64).step_by(BLOCK_BYTES);
    let strict =
        |offset| header_at(image, identity, segment, offset).filter(|it| it.segment == segment && it.offset == offset);
    blocks.filter_map(strict).find(wanted)
}

/// The record at `at` (behind its header comes its payload), if it lies before `end`.
fn record_at(image: &Bytes, header: &BatchHeader, at: usize, end: usize) -> Option<Found> {
    let place = place(header.identity, header.segment, at as u64);
    let record = RecordHeader::decode(image.get(at..end)?, place)?;
    let payload = payload_at(image, &record, at, end)?;
    let whole = record.payload_is_whole(header.identity, &payload);
    Some(Found { header: record, payload: whole.then_some(payload) })
}

fn payload_at(image: &Bytes, record: &RecordHeader, at: usize, end: usize) -> Option<Bytes> {
    let from = at + RECORD_HEADER_BYTES;
    let to = from.checked_add(record.payload_bytes())?;
    (to <= end && to <= image.len()).then(|| image.slice(from..to))
}

/// All records of a batch and its directory, if every byte of it verifies.
pub(crate) fn read_whole(image: &Bytes, header: &BatchHeader, offset: u64) -> Option<(Vec<Found>, Vec<u8>)> {
    let mut directory = Vec::new();
    let mut records = Vec::new();
    // A planted bug may take a batch from elsewhere: its places are those it names itself.
    let shift = header.offset.wrapping_sub(offset) as usize;
    let mut at = usize::try_from(offset).ok()? + BATCH_HEADER_BYTES;
    let end = at + header.records_bytes as usize;
    for _ in 0..header.records {
        let place = place(header.identity, header.segment, at.wrapping_add(shift) as u64);
        let bytes = image.get(at..end)?;
        let record = RecordHeader::decode(bytes, place)?;
        let payload = payload_at(image, &record, at, end)?;
        if !record.payload_is_whole(header.identity, &payload) {
            return None;
        }
        push_directory(&mut directory, &bytes[..RECORD_HEADER_BYTES], record.kind, &payload);
        at += record_bytes(payload.len());
        records.push(Found { header: record, payload: Some(payload) });
    }
    let sealed = directory_checksum(header.identity, &directory) == header.directory_checksum;
    let skip = base_types::mutant::planted(base_types::mutant::Mutant::SkipChecksum);
    let echo = image.get(end..end + header.echo_bytes as usize)?;
    let echo_whole = directory_checksum(header.identity, echo) == header.echo_checksum;
    (at == end && ((sealed && echo_whole) || skip)).then_some((records, directory))
}

/// The directory of the batch before, as this batch repeats it.
pub(crate) fn read_echo<'a>(image: &'a [u8], header: &BatchHeader) -> Option<&'a [u8]> {
    let from = usize::try_from(header.echo_at()).ok()?;
    let echo = image.get(from..from.checked_add(header.echo_bytes as usize)?)?;
    (directory_checksum(header.identity, echo) == header.echo_checksum).then_some(echo)
}

/// The records an echo names, without the payloads that only their own batch holds.
pub(crate) fn from_echo_alone(identity: u64, echo: &[u8]) -> Option<Vec<Found>> {
    let lines = read_directory(echo)?;
    Some(
        lines
            .into_iter()
            .map(|line| Found { payload: inline(identity, &line.header, line.inline), header: line.header })
            .collect(),
    )
}

/// The records an echo names with their payloads out of a batch at `offset`; `None` if the batch did not stand there.
pub(crate) fn from_echo(
    image: &Bytes,
    (identity, segment): (u64, u64),
    offset: u64,
    echo: &[u8],
) -> Option<Vec<Found>> {
    let mut at = usize::try_from(offset).ok()?.checked_add(BATCH_HEADER_BYTES)?;
    let mut records = Vec::new();
    for line in read_directory(echo)? {
        RecordHeader::decode(line.header_bytes, place(identity, segment, at as u64))?;
        let there = payload_at(image, &line.header, at, image.len())
            .filter(|payload| line.header.payload_is_whole(identity, payload));
        let payload = there.or_else(|| inline(identity, &line.header, line.inline));
        at += record_bytes(line.header.payload_bytes());
        records.push(Found { header: line.header, payload });
    }
    Some(records)
}

/// A payload that needs no other copy: a state's that the directory repeats, or none at all.
fn inline(identity: u64, header: &RecordHeader, bytes: Option<&[u8]>) -> Option<Bytes> {
    let bytes = match bytes {
        Some(bytes) => bytes,
        None if header.payload_bytes() == 0 && header.kind != RecordKind::State => &[],
        None => return None,
    };
    header.payload_is_whole(identity, bytes).then(|| Bytes::copy_from_slice(bytes))
}

/// Every record that verifies between two places, found record by record and, where a header had
/// rotted, by trying every place at which one may start. Also whether anything had to be skipped.
pub(crate) fn walk(image: &Bytes, (identity, segment): (u64, u64), from: u64, to: u64) -> (Vec<Found>, bool) {
    let header = BatchHeader { identity, segment, ..BatchHeader::default() };
    let end = (to as usize).min(image.len());
    let mut at = align_up(from as usize, RECORD_ALIGN);
    let (mut found, mut skipped) = (Vec::new(), false);
    while at < end {
        match record_at(image, &header, at, end) {
            Some(record) => {
                at += record_bytes(record.header.payload_bytes());
                found.push(record);
            }
            None => {
                skipped = true;
                at += RECORD_ALIGN;
            }
        }
    }
    (found, skipped)
}

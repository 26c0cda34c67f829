//! Reads a log back at start, and distinguishes a torn tail from rot.
//!
//!   whole batch ──▶ replayed
//!   not whole ── a later batch proves it was durable ──▶ rot: salvaged, what is lost becomes holes
//!      │  └───── the same batch follows elsewhere ─────▶ was cut off by an earlier recovery, or the segment was full
//!      └── nothing follows ── nothing of the write is missing ──▶ rot: salvaged
//!                       └──── else ──▶ torn tail: cut off and reported, the log continues after it
//!
//! Always: nothing is written; a batch proves the one before it durable because it is handed out only
//! after it; what rotted is named (entry, state, or every cluster), never dropped in silence; what was cut off once is never read again,
//! for nothing is written over it that could make it whole.
//! Held by: `whatever_rots_nothing_is_missing_in_silence`, `a_torn_tail_is_cut_and_the_log_goes_on_after_it`, `what_was_cut_off_never_comes_back`.
//! Not here: single batches (`salvage.rs`), what records mean (`replay.rs`).

use crate::cluster::ClusterLog;
use crate::format::{
    align_up, place, record_bytes, BatchHeader, RecordHeader, FLAG_FIRST_LIFE, FORMAT_VERSION, NUMBER_END,
    RECORD_ALIGN, RECORD_HEADER_BYTES, SECTOR_BYTES,
};
use crate::ledger::{Ledger, NO_SEQUENCE};
use crate::replay::{damage_of, Replay};
use crate::salvage::{find_header, from_echo, from_echo_alone, header_at, read_echo, read_whole, walk, Found};
use crate::segments::{Segment, Segments};
use crate::staging::Staging;
use crate::{
    Damage, Log, LogConfig, LogDisk, LogError, RecoveryReport, BATCH_PART_OF_SEGMENT, BLOCK_BYTES, SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN,
};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use base_types::mutant::{planted, Mutant};
use bytes::{Bytes, BytesMut};
use core::ops::Range;

/// A segment that cannot be read at once is read in parts of this size, and only parts that fail block by block.
const CHUNK_BYTES: usize = 1 << 20;
/// Images of segments kept while recovering: the one being read and the one looked ahead into.
const IMAGES_KEPT: usize = 2;
/// The most findings told one by one.
const NOTES_MAX: usize = 64;

/// See `Log::recover`.
pub(crate) fn recover(
    disk: &mut dyn LogDisk,
    mut config: LogConfig,
    identity: u64,
) -> Result<(Log, RecoveryReport), LogError> {
    config.segment_bytes -= config.segment_bytes % BLOCK_BYTES as u64;
    if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&config.segment_bytes) {
        return Err(LogError::WrongFormat(format!(
            "log segments of {} bytes are not supported; choose {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}",
            config.segment_bytes
        )));
    }
    let mut images = Images::open(disk)?;
    let Some(newest) = newest(&mut images, identity)? else {
        let report = RecoveryReport { notes: images.notes.take(), ..RecoveryReport::default() };
        return Ok((fresh(&images.sizes, config, identity), report));
    };
    let mut walker = Walker::new(images, identity, &newest);
    walker.run()?;
    Ok(walker.finish(config))
}

/// Findings for people, bounded.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn push(&mut self, note: String) {
        match self.0.len() {
            NOTES_MAX => self.0.push("further findings are not listed".into()),
            count if count < NOTES_MAX => self.0.push(note),
            _ => {}
        }
    }

    fn take(&mut self) -> Vec<String> {
        core::mem::take(&mut self.0)
    }
}

/// Segment images, read when needed.
struct Images<'a> {
    disk: &'a mut dyn LogDisk,
    sizes: BTreeMap<u64, u64>,
    kept: VecDeque<(u64, Bytes)>,
    unreadable: BTreeSet<u64>,
    notes: Notes,
}

impl<'a> Images<'a> {
    fn open(disk: &'a mut dyn LogDisk) -> Result<Images<'a>, LogError> {
        let mut sizes = BTreeMap::new();
        for (segment, bytes) in disk.segments()? {
            if bytes > SEGMENT_BYTES_MAX {
                return Err(LogError::WrongFormat(format!(
                    "log segment {} has {bytes} bytes; at most {SEGMENT_BYTES_MAX} are supported, so it is no segment of this log",
                    segment.0
                )));
            }
            if (1..BLOCK_BYTES as u64).contains(&bytes) {
                return Err(LogError::WrongFormat(format!(
                    "log segment {} has {bytes} bytes, and the smallest batch has {BLOCK_BYTES}: it was cut or is no segment; put the whole file back, or move it away if it is not Hive's",
                    segment.0
                )));
            }
            if segment.0 >= NUMBER_END {
                return Err(LogError::WrongFormat(format!("log segment {} has an impossible number", segment.0)));
            }
            sizes.insert(segment.0, bytes - bytes % BLOCK_BYTES as u64);
        }
        Ok(Images { disk, sizes, kept: VecDeque::new(), unreadable: BTreeSet::new(), notes: Notes::default() })
    }

    /// The whole segment; `None` if there is none.
    fn get(&mut self, segment: u64) -> Result<Option<Bytes>, LogError> {
        if let Some((_, image)) = self.kept.iter().find(|(id, _)| *id == segment) {
            return Ok(Some(image.clone()));
        }
        let Some(&bytes) = self.sizes.get(&segment) else { return Ok(None) };
        let image = match self.disk.read(crate::SegmentId(segment), 0, bytes as usize) {
            Ok(image) if image.len() as u64 == bytes => image,
            _ => self.read_in_parts(segment, bytes as usize)?,
        };
        if self.kept.len() == IMAGES_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((segment, image.clone()));
        Ok(Some(image))
    }

    /// A segment with unreadable sectors: their blocks are taken as zeros, that is, as rotted.
    fn read_in_parts(&mut self, segment: u64, bytes: usize) -> Result<Bytes, LogError> {
        let mut image = BytesMut::zeroed(bytes);
        let (mut bad, mut last) = (0, LogError::Io(format!("segment {segment} could not be read")));
        for chunk in (0..bytes).step_by(CHUNK_BYTES) {
            let end = bytes.min(chunk + CHUNK_BYTES);
            match self.disk.read(crate::SegmentId(segment), chunk as u64, end - chunk) {
                Ok(read) if read.len() == end - chunk => {
                    image[chunk..end].copy_from_slice(&read);
                    continue;
                }
                _ => {}
            }
            for at in (chunk..end).step_by(BLOCK_BYTES) {
                match self.disk.read(crate::SegmentId(segment), at as u64, BLOCK_BYTES) {
                    Ok(block) if block.len() == BLOCK_BYTES => image[at..at + BLOCK_BYTES].copy_from_slice(&block),
                    Ok(_) => bad += 1,
                    Err(error) => (bad, last) = (bad + 1, error),
                }
            }
        }
        if bad * BLOCK_BYTES == bytes {
            return Err(last);
        }
        if bad > 0 && self.unreadable.insert(segment) {
            self.notes.push(format!("log segment {segment}: {bad} blocks cannot be read; taken as rotted"));
        }
        Ok(image.freeze())
    }
}

/// The newest batch that is whole (else, the newest that has a header): it says where the log starts.
fn newest(images: &mut Images<'_>, identity: u64) -> Result<Option<BatchHeader>, LogError> {
    let ids: Vec<u64> = images.sizes.keys().rev().copied().collect();
    let (mut any, mut foreign): (Option<BatchHeader>, Option<LogError>) = (None, None);
    for id in ids {
        let Some(image) = images.get(id)? else { continue };
        foreign = foreign.or(refusal(&image, identity, id));
        if let Some(later) = newer_batch(&image, identity, id) {
            return Err(later);
        }
        let mut headers = Vec::new();
        let mut at = 0;
        while let Some(header) = find_header(&image, (identity, id), at, |_| true) {
            at = header.offset + BLOCK_BYTES as u64;
            headers.push(header);
        }
        headers.sort_by_key(|header| core::cmp::Reverse(header.number));
        if let Some(header) = headers.iter().find(|header| read_whole(&image, header, header.offset).is_some()) {
            return Ok(Some(header.clone()));
        }
        any = any.or(headers.into_iter().next());
    }
    match (any, foreign) {
        (None, Some(refusal)) => Err(refusal),
        (any, _) => Ok(any),
    }
}

/// A batch of this log, in its place, of a format after this build's: what a newer build wrote last is never cut off as a
/// torn tail.
fn newer_batch(image: &[u8], identity: u64, segment: u64) -> Option<LogError> {
    let header_at = |offset: usize| BatchHeader::decode(&image[offset..]).map(|header| (offset, header));
    let is_newer = |(offset, header): &(usize, BatchHeader)| {
        let place = (header.identity, header.segment, header.offset);
        header.version > FORMAT_VERSION && place == (identity, segment, *offset as u64)
    };
    let (offset, header) = (0..image.len()).step_by(BLOCK_BYTES).filter_map(header_at).find(is_newer)?;
    Some(LogError::WrongFormat(format!(
        "log segment {segment}, offset {offset}: format {}, this build reads format {FORMAT_VERSION}: start the build that wrote it",
        header.version
    )))
}

/// Why a segment cannot be this log's: it begins with a sound batch of another log or format.
fn refusal(image: &[u8], identity: u64, segment: u64) -> Option<LogError> {
    let header = BatchHeader::decode(image)?;
    if header.version != FORMAT_VERSION {
        return Some(LogError::WrongFormat(format!(
            "log segment {segment} has format {}; this build reads format {FORMAT_VERSION}: start the build that wrote it",
            header.version
        )));
    }
    (header.identity != identity).then(|| {
        LogError::WrongFormat(format!(
            "log segment {segment} belongs to another log (identity {:016x}, expected {identity:016x}); its files were moved or its world, disk or lane changed",
            header.identity
        ))
    })
}

/// A log without any batch; files that are there are spares.
fn fresh(sizes: &BTreeMap<u64, u64>, config: LogConfig, identity: u64) -> Log {
    let first = sizes.keys().next().copied().unwrap_or(1);
    let place = LogPlace { identity, last: 0, chain: 0, directory: Vec::new(), sealed: true };
    let ready = ready_spares(sizes, first, config.segment_bytes);
    let mut segments = Segments::new(&config, VecDeque::new(), 0, first, ready);
    sizes.keys().filter(|id| **id >= first + ready as u64).for_each(|id| segments.remove(*id));
    assemble(config, place, segments, BTreeMap::new(), 0)
}

/// What of a batch does not verify, as ranges of the image.
fn unverified(image: &Bytes, batch: &BatchHeader) -> Vec<Range<usize>> {
    let (from, end) = (batch.records_at() as usize, batch.echo_at() as usize);
    let mut ranges = Vec::new();
    let mut at = from;
    while at < end {
        let place = place(batch.identity, batch.segment, at as u64);
        let Some(record) = image.get(at..end).and_then(|bytes| RecordHeader::decode(bytes, place)) else {
            ranges.push(at..end);
            break;
        };
        let payload = at + RECORD_HEADER_BYTES..at + RECORD_HEADER_BYTES + record.payload_bytes();
        if !image.get(payload.clone()).is_some_and(|bytes| record.payload_is_whole(batch.identity, bytes)) {
            ranges.push(payload.start..payload.end.min(end));
        }
        at += record_bytes(record.payload_bytes());
    }
    if read_echo(image, batch).is_none() {
        ranges.push(end..end + batch.echo_bytes as usize);
    }
    if ranges.is_empty() {
        // Each record verifies and the row of them does not: a mixture of two writes.
        ranges.push(from..end);
    }
    ranges
}

/// How many files from `first` on are spares of the right size.
fn ready_spares(sizes: &BTreeMap<u64, u64>, first: u64, segment_bytes: u64) -> usize {
    (first..).take_while(|id| sizes.get(id) == Some(&segment_bytes)).count()
}

/// Where a recovered log continues.
struct LogPlace {
    identity: u64,
    last: u64,
    chain: u64,
    directory: Vec<u8>,
    sealed: bool,
}

fn assemble(
    config: LogConfig,
    place: LogPlace,
    segments: Segments,
    clusters: BTreeMap<base_types::ClusterId, Box<ClusterLog>>,
    next_sequence: u64,
) -> Log {
    let part = (config.segment_bytes / BATCH_PART_OF_SEGMENT) as usize;
    let limit = config.batch_bytes_max.min(part);
    let live_bytes = clusters.values().map(|log| live_bytes(log)).sum();
    let ledger = Ledger {
        staging: Staging::new(place.last, next_sequence, limit),
        segments,
        live_bytes,
        // A batch of one record, with the directory of the one before, fits an empty segment.
        record_bytes_max: config.segment_bytes as usize - part - 2 * BLOCK_BYTES,
        state_bytes_max: part,
    };
    Log {
        hints: BTreeMap::new(),
        config,
        identity: place.identity,
        clusters,
        ledger,
        tails: Default::default(),
        writing: None,
        synced: place.last,
        chain: place.chain,
        directory: place.directory,
        old_directory: Vec::new(),
        buffer: BytesMut::new(),
        sealed: place.sealed,
        idle_since: None,
        starved: false,
        failed: false,
        statistics: Default::default(),
    }
}

/// What a cluster's records with a sequence take.
fn live_bytes(log: &ClusterLog) -> u64 {
    let entries = log.slots.iter().filter(|slot| slot.sequence != NO_SEQUENCE);
    let entries: usize = entries.map(|slot| record_bytes(slot.payload_bytes())).sum();
    let states: usize = log.states.iter().map(|state| record_bytes(state.payload_bytes())).sum();
    (entries + states + log.compacted_sequence.map_or(0, |_| record_bytes(0))) as u64
}

/// Sequences of everything that counts in a cluster.
fn live_sequences(log: &ClusterLog) -> impl Iterator<Item = u64> + '_ {
    let entries = log.slots.iter().map(|slot| slot.sequence);
    let states = log.states.iter().map(|state| state.sequence);
    entries.chain(states).chain(log.compacted_sequence).filter(|sequence| *sequence != NO_SEQUENCE)
}

/// Goes through the batches in order.
struct Walker<'a> {
    images: Images<'a>,
    identity: u64,
    start: u64,
    /// Where the next batch is expected.
    segment: u64,
    offset: u64,
    /// Its number and what it must name as its predecessor; `None`: whatever stands there.
    expected: Option<u64>,
    chain: Option<u64>,
    place: LogPlace,
    replay: Replay,
    /// The batch and the sequence with which each segment begins.
    begins: BTreeMap<u64, (u64, u64)>,
    /// Sequences that came out of rotted batches: fewer copies of them are left than should be.
    weak: Vec<Range<u64>>,
    unknown: bool,
    report: RecoveryReport,
}

impl<'a> Walker<'a> {
    fn new(images: Images<'a>, identity: u64, newest: &BatchHeader) -> Walker<'a> {
        let start = newest.log_start;
        Walker {
            images,
            identity,
            start,
            segment: start,
            offset: 0,
            expected: (newest.log_start_number > 0).then_some(newest.log_start_number),
            chain: None,
            place: LogPlace { identity, last: 0, chain: 0, directory: Vec::new(), sealed: true },
            replay: Replay::default(),
            begins: BTreeMap::new(),
            weak: Vec::new(),
            unknown: false,
            report: RecoveryReport::default(),
        }
    }

    fn run(&mut self) -> Result<(), LogError> {
        loop {
            let image = self.images.get(self.segment)?;
            let here = image.as_ref().and_then(|image| self.header_here(image));
            if let (Some(image), Some(header)) = (&image, &here) {
                if let Some((records, directory)) = read_whole(image, header, self.offset) {
                    self.accept(header, records, directory);
                    continue;
                }
            }
            let from = here.as_ref().map_or(self.offset, |header| self.offset + header.total_bytes());
            match self.next_evidence(from)? {
                Some(next) if self.expected == Some(next.number) => self.go_to(&next),
                Some(next) if !planted(Mutant::RotIsTorn) => {
                    self.salvage(here.as_ref(), &next)?;
                    self.go_to(&next);
                }
                next => {
                    if let (None, Some(last), Some(image)) = (&next, &here, &image) {
                        if self.is_rot(last, image) {
                            self.salvage_last(last, image);
                            continue;
                        }
                    }
                    self.end(here);
                    return Ok(());
                }
            }
        }
    }

    /// The header of the batch that is expected here.
    fn header_here(&self, image: &Bytes) -> Option<BatchHeader> {
        if planted(Mutant::RecycledSegmentTrusted) || planted(Mutant::IdentityNotChecked) {
            return header_at(image, self.identity, self.segment, self.offset);
        }
        header_at(image, self.identity, self.segment, self.offset).filter(|header| {
            self.expected.is_none_or(|number| number == header.number)
                && self.chain.is_none_or(|chain| chain == header.previous)
        })
    }

    /// The next batch that was written after the one expected here, or is that one elsewhere.
    fn next_evidence(&mut self, from: u64) -> Result<Option<BatchHeader>, LogError> {
        let (expected, chain) = (self.expected, self.chain);
        let wanted = |header: &BatchHeader| match expected {
            Some(number) if header.number == number => chain.is_none_or(|chain| chain == header.previous),
            Some(number) => header.number > number,
            None => true,
        };
        let ids: Vec<u64> = self.images.sizes.range(self.segment..).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(image) = self.images.get(id)? else { continue };
            let from = if id == self.segment { from } else { 0 };
            if let Some(header) = find_header(&image, (self.identity, id), from, wanted) {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    fn accept(&mut self, header: &BatchHeader, records: Vec<Found>, directory: Vec<u8>) {
        self.expected = Some(header.number);
        self.begin();
        records.into_iter().for_each(|found| self.replay.apply(found));
        self.report.batches += 1;
        self.offset += header.total_bytes();
        self.expected = Some(header.number + 1);
        self.chain = Some(header.checksum);
        self.place = LogPlace {
            identity: self.identity,
            last: header.number,
            chain: header.checksum,
            directory,
            sealed: header.flags & crate::format::FLAG_SEAL != 0,
        };
    }

    /// Notes where the segment begins, if nothing of it was read yet.
    fn begin(&mut self) {
        let number = if self.offset == 0 { self.expected.unwrap_or(0) } else { 0 };
        let first = (number, self.replay.next_sequence());
        self.begins.entry(self.segment).or_insert(first);
    }

    /// Skips to a later batch; all before it is done with.
    fn go_to(&mut self, next: &BatchHeader) {
        self.begin();
        (self.segment, self.offset) = (next.segment, next.offset);
        self.expected = Some(next.number);
        self.chain = Some(next.previous);
        self.place.last = next.number.saturating_sub(1);
        self.place.chain = next.previous;
    }

    /// Nothing follows a batch that is not whole: whether it was written to its end all the same. A sector that a crash kept from
    /// the disk holds what stood there before; in a segment's first life that is zeros (docs/formats/log.md).
    fn is_rot(&self, last: &BatchHeader, image: &Bytes) -> bool {
        let expected = self.expected == Some(last.number) && self.chain.is_none_or(|chain| chain == last.previous);
        expected
            && last.flags & FLAG_FIRST_LIFE != 0
            && !planted(Mutant::LastRotIsTorn)
            && unverified(image, last).into_iter().all(|range| {
                let from = range.start / SECTOR_BYTES * SECTOR_BYTES;
                let to = align_up(range.end, SECTOR_BYTES).min(image.len());
                image[from..to].chunks(SECTOR_BYTES).all(|sector| sector.iter().any(|byte| *byte != 0))
            })
    }

    /// Reads what is left of the last batch. The log continues after it, for it was durable.
    fn salvage_last(&mut self, last: &BatchHeader, image: &Bytes) {
        self.begin();
        let first_sequence = self.replay.next_sequence();
        let (records, skipped) = walk(image, (self.identity, self.segment), last.records_at(), last.echo_at());
        let whole = records.iter().filter(|found| found.payload.is_some()).count();
        let what = if skipped { "some records cannot be identified" } else { "all records are identified" };
        self.images.notes.push(format!(
            "log segment {}, offset {}: rot in batch {}, the last one, of which every sector was written; {what}, {whole} of {} are whole",
            self.segment, self.offset, last.number, last.records
        ));
        self.unknown |= skipped;
        self.report.batches += u64::from(!skipped);
        records.into_iter().for_each(|found| self.replay.apply(found));
        self.weak.push(first_sequence..self.replay.next_sequence());
        self.offset += last.total_bytes();
        self.expected = Some(last.number + 1);
        self.chain = Some(last.checksum);
        self.place = LogPlace {
            identity: self.identity,
            last: last.number,
            chain: last.checksum,
            // No directory: who meets this batch again reads it record by record, as here.
            directory: vec![0; RECORD_ALIGN],
            sealed: false,
        };
    }

    /// Nothing follows: a batch that is not whole here was never acknowledged (or is beyond telling).
    fn end(&mut self, here: Option<BatchHeader>) {
        self.begin();
        let Some(torn) = here else { return };
        self.report.torn_tail = true;
        if self.expected.is_none() {
            self.place.last = torn.number.saturating_sub(1);
            self.place.chain = torn.previous;
        }
        // The next batch has the same number. Torn in turn, in this place, it could bring just what is missing here: then this
        // batch would be whole, after decisions were made without it.
        let (segment, offset, number) = (self.segment, self.offset, torn.number);
        self.report.cut_records += u64::from(torn.records);
        self.report.cut_bytes += torn.total_bytes();
        let sure = match torn.flags & FLAG_FIRST_LIFE != 0 {
            true => "sectors of it are missing, so it was never acknowledged",
            false => "it was never acknowledged, unless it rotted since it was written (the segment was used before: that cannot be told)",
        };
        self.images.notes.push(format!(
            "log segment {segment}, offset {offset}: batch {number} is torn; {} records in {} bytes are cut off; {sure}",
            torn.records,
            torn.total_bytes()
        ));
        if planted(Mutant::TornIsRot) {
            self.unknown = true;
        }
        if !planted(Mutant::TornPlaceReused) {
            self.offset += torn.total_bytes();
        }
    }

    /// Gets out of rotted batches what is left: everything from here up to `next`.
    fn salvage(&mut self, here: Option<&BatchHeader>, next: &BatchHeader) -> Result<(), LogError> {
        self.begin();
        let first_sequence = self.replay.next_sequence();
        let lost = self.expected.map(|number| next.number.saturating_sub(number));
        let echo = self.images.get(next.segment)?.and_then(|image| read_echo(&image, next).map(Bytes::copy_from_slice));
        let (records, complete) = match self.by_echo(lost, echo.as_deref())? {
            Some(records) => (records, true),
            None => self.by_walk(here, lost, echo.as_deref(), next)?,
        };
        self.unknown |= !complete;
        let whole = records.iter().filter(|found| found.payload.is_some()).count();
        let what = if complete { "all records are identified" } else { "some records cannot be identified" };
        let note = format!(
            "log segment {}, offset {}: rot in what batch {} proves durable; {what}, {whole} of {} are whole",
            self.segment,
            self.offset,
            next.number,
            records.len()
        );
        self.images.notes.push(note);
        self.report.batches += u64::from(complete);
        self.place.directory = echo.map(|echo| echo.to_vec()).unwrap_or_default();
        self.place.sealed = false;
        records.into_iter().for_each(|found| self.replay.apply(found));
        self.weak.push(first_sequence..self.replay.next_sequence());
        Ok(())
    }

    /// Where one batch is lost: its records as the next repeats them, with the payloads still there.
    fn by_echo(&mut self, lost: Option<u64>, echo: Option<&[u8]>) -> Result<Option<Vec<Found>>, LogError> {
        let Some(echo) = echo.filter(|_| lost.is_none_or(|lost| lost == 1)) else { return Ok(None) };
        if lost.is_none() && echo.is_empty() {
            return Ok(None);
        }
        let mut places = self.places_of_expected()?;
        if lost.is_some() {
            // At the head of the next segment: there was no room for it here.
            places.push((self.segment + 1, 0));
        }
        for (segment, offset) in places {
            let Some(image) = self.images.get(segment)? else { continue };
            if let Some(records) = from_echo(&image, (self.identity, segment), offset, echo) {
                return Ok(Some(records));
            }
        }
        // It stood nowhere (a lost or misdirected write): what it held is known all the same.
        Ok(if lost == Some(1) { from_echo_alone(self.identity, echo) } else { None })
    }

    /// Where the batch that is expected here may stand: here, or after batches of its number that were cut off.
    fn places_of_expected(&mut self) -> Result<Vec<(u64, u64)>, LogError> {
        let mut places = vec![(self.segment, self.offset)];
        let Some(image) = self.images.get(self.segment)? else { return Ok(places) };
        let mut offset = self.offset;
        while let Some(header) = header_at(&image, self.identity, self.segment, offset) {
            if self.expected != Some(header.number) {
                break;
            }
            offset += header.total_bytes();
            places.push((self.segment, offset));
        }
        Ok(places)
    }

    /// Where that does not do: every record that still verifies, then what the echo adds.
    fn by_walk(
        &mut self,
        here: Option<&BatchHeader>,
        lost: Option<u64>,
        echo: Option<&[u8]>,
        next: &BatchHeader,
    ) -> Result<(Vec<Found>, bool), LogError> {
        let mut records = Vec::new();
        if let (Some(header), Some(1), Some(image)) = (here, lost, self.images.get(self.segment)?) {
            if header.checksum == next.previous {
                let (found, skipped) =
                    walk(&image, (self.identity, self.segment), header.records_at(), header.echo_at());
                return Ok((found, !skipped));
            }
        }
        for id in self.segment..=next.segment {
            let Some(image) = self.images.get(id)? else { continue };
            let from = if id == self.segment { self.offset } else { 0 };
            let to = if id == next.segment { next.offset } else { image.len() as u64 };
            records.extend(walk(&image, (self.identity, id), from, to).0);
        }
        let key = |found: &Found| {
            (
                found.header.cluster,
                found.header.kind as u8,
                found.header.index,
                found.header.term,
                found.header.payload_checksum,
            )
        };
        let known: BTreeSet<_> = records.iter().map(key).collect();
        let named = echo.and_then(|echo| from_echo_alone(self.identity, echo)).unwrap_or_default();
        records.extend(named.into_iter().filter(|found| !known.contains(&key(found))));
        Ok((records, false))
    }

    fn finish(mut self, config: LogConfig) -> (Log, RecoveryReport) {
        let next_sequence = self.replay.next_sequence();
        let clusters = core::mem::take(&mut self.replay).finish();
        let missing: Vec<u64> = (self.start..=self.segment).filter(|id| !self.images.sizes.contains_key(id)).collect();
        if !missing.is_empty() {
            self.unknown = true;
            self.images
                .notes
                .push(format!("log segments {missing:?} are missing; restore them or rebuild this node's replicas"));
        }
        self.report.damage = damage_of(&clusters);
        if self.unknown {
            self.report.damage.push(Damage::Unknown { clusters: clusters.keys().copied().collect() });
        }
        self.report.notes = self.images.notes.take();
        let zeros = self.images.get(self.segment).ok().flatten().is_some_and(|image| {
            image.get(self.offset as usize..).is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
        });
        let mut segments = self.segments(&config, &clusters, next_sequence);
        segments.set_first_life(zeros);
        let weak = core::mem::take(&mut self.weak);
        let place = core::mem::replace(
            &mut self.place,
            LogPlace { identity: 0, last: 0, chain: 0, directory: vec![], sealed: true },
        );
        let gaps = clusters.values().any(|log| log.slots.iter().any(|slot| slot.sequence == NO_SEQUENCE));
        let mut log = assemble(config, place, segments, clusters, next_sequence);
        if gaps || !weak.is_empty() {
            let again = |sequence: u64| sequence == NO_SEQUENCE || weak.iter().any(|range| range.contains(&sequence));
            let Log { clusters, ledger, .. } = &mut log;
            for (cluster, held) in clusters {
                held.move_states(*cluster, &again, ledger);
                held.move_entries(*cluster, &again, usize::MAX, ledger);
            }
        }
        (log, self.report)
    }

    /// The segments as the log will use them.
    fn segments(
        &self,
        config: &LogConfig,
        clusters: &BTreeMap<base_types::ClusterId, Box<ClusterLog>>,
        next_sequence: u64,
    ) -> Segments {
        let sizes = &self.images.sizes;
        let mut in_use: VecDeque<Segment> = VecDeque::new();
        let mut begin = (0, next_sequence);
        for id in (self.start..=self.segment).rev() {
            begin = self.begins.get(&id).copied().unwrap_or((0, begin.1));
            in_use.push_front(Segment::new(id, sizes.get(&id).copied().unwrap_or(0), begin.0, begin.1));
        }
        for (cluster, log) in clusters {
            for sequence in live_sequences(log) {
                let at = in_use.partition_point(|segment| segment.first_sequence <= sequence).saturating_sub(1);
                in_use[at].live += 1;
                in_use[at].clusters.insert(*cluster);
            }
        }
        let ready = ready_spares(sizes, self.segment + 1, config.segment_bytes);
        let mut segments = Segments::new(config, in_use, self.offset, self.segment + 1, ready);
        for &id in sizes.keys() {
            if id < self.start && sizes[&id] == config.segment_bytes {
                segments.retire(id);
            } else if id < self.start || id > self.segment + ready as u64 {
                segments.remove(id);
            }
        }
        segments
    }
}

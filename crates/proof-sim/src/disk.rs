//! One lane's log disk: what is durable, what is being written, and how it goes wrong.
//!
//!   queued ──begin──▶ in flight ──finish──▶ durable
//!                        └──crash──▶ none, all, a prefix, or any subset of its sectors
//!
//! Always: only `finish` and a crash change durable bytes (and the faults that say they do).
//! Not here: when things finish (`host`), what the bytes mean (core-log).

use crate::random::Random;
use crate::segment::Segment;
use bytes::Bytes;
use core_log::{LogAction, LogDisk, LogError, SegmentId};
use std::collections::{BTreeMap, VecDeque};

/// What a disk writes at once, whatever happens.
pub const SECTOR_BYTES: usize = 512;

/// How the next write goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteFault {
    /// Error, and any part of it may be there.
    Fails,
    /// Acknowledged, not done.
    Lost,
    /// Acknowledged, done elsewhere.
    Misdirected,
}

/// How an action ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finished {
    Written(core_log::BatchNumber),
    Ready(SegmentId),
    NoRoom(SegmentId),
    Removed,
    Failed(String),
    /// It was to be written where nothing was prepared.
    Unprepared(String),
}

/// The disk of one lane's log.
#[derive(Clone, Default, Debug)]
pub struct SimDisk {
    pub segments: BTreeMap<SegmentId, Segment>,
    pub queue: VecDeque<LogAction>,
    pub in_flight: Option<LogAction>,
    pub next_fault: Option<WriteFault>,
    /// The last write that ended whole: in a segment that was used before, rot there cannot be told from a torn tail.
    pub last_write: Option<(SegmentId, u64, u64)>,
    /// Whether its header says that its part of the segment held zeros before (docs/formats/log.md).
    pub last_is_first: bool,
    /// The mark that a host keeps outside the log: the batch that it had reached at its last start, at least 1 once a
    /// batch is durable.
    pub reached: u64,
    /// What is here is not this lane's log.
    pub spoiled: bool,
    /// Every write fails.
    pub read_only: bool,
    /// No segment can be made.
    pub full: bool,
}

impl SimDisk {
    /// The next action, if none is under way and it can begin.
    pub fn begin(&mut self) -> Option<&LogAction> {
        if self.in_flight.is_some() {
            return None;
        }
        self.in_flight = self.queue.pop_front();
        self.in_flight.as_ref()
    }

    /// What is under way is done (or fails).
    pub fn finish(&mut self, segment_bytes: u64, random: &mut Random) -> Option<Finished> {
        let action = self.in_flight.take()?;
        Some(match action {
            LogAction::Write { batch, segment, offset, blocks } => {
                let fault = if self.read_only { Some(WriteFault::Fails) } else { self.next_fault.take() };
                match fault {
                    None => match self.put(segment, offset, &blocks) {
                        true => {
                            self.last_write = Some((segment, offset, offset + blocks.len() as u64));
                            self.last_is_first = is_first_life(&blocks);
                            self.reached = self.reached.max(1);
                            Finished::Written(batch)
                        }
                        false => Finished::Unprepared(format!(
                            "{segment:?} is not prepared up to {}",
                            offset + blocks.len() as u64
                        )),
                    },
                    Some(WriteFault::Fails) => {
                        self.tear(segment, offset, &blocks, random);
                        Finished::Failed("input/output error (injected)".to_string())
                    }
                    Some(WriteFault::Lost) => Finished::Written(batch),
                    Some(WriteFault::Misdirected) => {
                        self.misdirect(segment, offset, &blocks, random);
                        Finished::Written(batch)
                    }
                }
            }
            // A recycled segment is there already; only a new one takes room.
            LogAction::Prepare { segment, recycle } if self.full && recycle.is_none() => Finished::NoRoom(segment),
            LogAction::Prepare { segment, recycle } => {
                let old = recycle.and_then(|recycle| self.segments.remove(&recycle));
                let mut held = old.unwrap_or_default();
                held.resize(segment_bytes as usize);
                self.segments.insert(segment, held);
                Finished::Ready(segment)
            }
            LogAction::Remove { segment } => {
                self.segments.remove(&segment);
                Finished::Removed
            }
        })
    }

    fn put(&mut self, segment: SegmentId, offset: u64, blocks: &[u8]) -> bool {
        self.segments.get_mut(&segment).is_some_and(|held| held.write(offset as usize, blocks))
    }

    fn tear(&mut self, segment: SegmentId, offset: u64, blocks: &[u8], random: &mut Random) {
        let sectors = blocks.len() / SECTOR_BYTES;
        let mode = random.below(4);
        let prefix = random.below(sectors as u64 + 1) as usize;
        for sector in 0..sectors {
            let keep = match mode {
                0 => false,
                1 => true,
                2 => sector < prefix,
                _ => random.per_mille(500),
            };
            if keep {
                let from = sector * SECTOR_BYTES;
                self.put(segment, offset + from as u64, &blocks[from..from + SECTOR_BYTES]);
            }
        }
    }

    fn misdirect(&mut self, segment: SegmentId, offset: u64, blocks: &[u8], random: &mut Random) {
        let block = core_log::BLOCK_BYTES as u64;
        let room =
            self.segments.get(&segment).map_or(0, |held| held.len() as u64).saturating_sub(blocks.len() as u64) / block;
        let target = random.below(room + 1) * block;
        self.put(segment, if target == offset { (offset + block) % (room.max(1) * block) } else { target }, blocks);
    }

    /// The power (or the process) is gone: what was queued is lost, what was under way torn.
    pub fn crash(&mut self, random: &mut Random) {
        self.queue.clear();
        self.next_fault = None;
        match self.in_flight.take() {
            Some(LogAction::Write { segment, offset, blocks, .. }) => self.tear(segment, offset, &blocks, random),
            Some(LogAction::Remove { segment }) if random.per_mille(500) => drop(self.segments.remove(&segment)),
            // A rename that was not synced: done, or not.
            Some(LogAction::Prepare { segment, recycle: Some(recycle) }) if random.per_mille(500) => {
                if let Some(bytes) = self.segments.remove(&recycle) {
                    self.segments.insert(segment, bytes);
                }
            }
            _ => {}
        }
    }

    /// Rots some sectors that hold data. False where there is none.
    pub fn rot(&mut self, sectors: u64, random: &mut Random) -> bool {
        let mut used: Vec<(SegmentId, usize)> = Vec::new();
        for (id, held) in &self.segments {
            let is_last = |number: usize| {
                let at = (number * SECTOR_BYTES) as u64;
                self.last_write.is_some_and(|(segment, from, to)| segment == *id && (from..to).contains(&at))
            };
            used.extend(held.used_sectors(SECTOR_BYTES).filter(|number| !is_last(*number)).map(|number| (*id, number)));
        }
        if used.is_empty() {
            return false;
        }
        self.flip(sectors, &used, random);
        true
    }

    /// Rots some sectors of the last write that ended, where its segment was not used before, behind the first one. False where there are none.
    pub fn rot_tail(&mut self, sectors: u64, random: &mut Random) -> bool {
        let Some((id, from, to)) = self.last_write.filter(|_| self.last_is_first) else { return false };
        // Without its header nothing says that there was a write.
        let written = from as usize / SECTOR_BYTES + 1..to as usize / SECTOR_BYTES;
        let Some(held) = self.segments.get(&id) else { return false };
        let used: Vec<_> =
            held.used_sectors(SECTOR_BYTES).filter(|at| written.contains(at)).map(|at| (id, at)).collect();
        if used.is_empty() {
            return false;
        }
        self.flip(sectors, &used, random);
        true
    }

    fn flip(&mut self, sectors: u64, used: &[(SegmentId, usize)], random: &mut Random) {
        for _ in 0..sectors {
            let (id, number) = *random.pick(used);
            let at = number * SECTOR_BYTES + random.below(SECTOR_BYTES as u64) as usize;
            let Some(held) = self.segments.get_mut(&id) else { continue };
            if let Some(byte) = held.read(at, 1) {
                held.write(at, &[byte[0] ^ 1 << random.below(8)]);
            }
        }
    }
}

/// What a batch's header says: bit 1 of the flags at byte 10.
fn is_first_life(blocks: &[u8]) -> bool {
    blocks.get(10).is_some_and(|flags| flags & 2 != 0)
}

impl LogDisk for SimDisk {
    fn segments(&mut self) -> Result<Vec<(SegmentId, u64)>, LogError> {
        Ok(self.segments.iter().map(|(id, held)| (*id, held.len() as u64)).collect())
    }

    fn read(&mut self, segment: SegmentId, offset: u64, bytes: usize) -> Result<Bytes, LogError> {
        let from = offset as usize;
        self.segments
            .get(&segment)
            .and_then(|held| held.read(from, bytes))
            .map(Bytes::from)
            .ok_or_else(|| LogError::Io(format!("{segment:?} has no bytes {offset}…+{bytes}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core_log::BatchNumber;

    fn write(offset: u64, byte: u8) -> LogAction {
        let blocks = Bytes::from(vec![byte; core_log::BLOCK_BYTES]);
        LogAction::Write { batch: BatchNumber(1), segment: SegmentId(1), offset, blocks }
    }

    fn prepared() -> (SimDisk, Random) {
        let (mut disk, mut random) = (SimDisk::default(), Random::stream(1, "disk"));
        disk.queue.push_back(LogAction::Prepare { segment: SegmentId(1), recycle: None });
        disk.begin();
        assert_eq!(disk.finish(16_384, &mut random), Some(Finished::Ready(SegmentId(1))));
        (disk, random)
    }

    #[test]
    fn only_finished_writes_are_durable_and_a_crash_tears_the_one_under_way() {
        let (mut disk, mut random) = prepared();
        disk.queue.extend([write(0, 1), write(4096, 2), write(8192, 3)]);
        disk.begin();
        assert_eq!(disk.finish(16_384, &mut random), Some(Finished::Written(BatchNumber(1))));
        disk.begin();
        disk.crash(&mut random);
        let bytes = disk.segments[&SegmentId(1)].read(0, 16_384).expect("as long as that");
        assert!(bytes[..4096].iter().all(|byte| *byte == 1));
        assert!(bytes[4096..8192].chunks(SECTOR_BYTES).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        assert!(bytes[8192..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn faults_do_what_they_say() {
        let (mut disk, mut random) = prepared();
        for (fault, acknowledged) in
            [(WriteFault::Lost, true), (WriteFault::Misdirected, true), (WriteFault::Fails, false)]
        {
            disk.next_fault = Some(fault);
            disk.queue.push_back(write(0, 9));
            disk.begin();
            let finished = disk.finish(16_384, &mut random);
            assert_eq!(matches!(finished, Some(Finished::Written(_))), acknowledged, "{fault:?}");
        }
        assert!(disk.rot(3, &mut random));
    }

    #[test]
    fn the_last_write_rots_behind_its_header_where_its_part_was_never_used() {
        let (mut disk, mut random) = prepared();
        let finish = |disk: &mut SimDisk, random: &mut Random, flags: u8| {
            let mut blocks = vec![7; core_log::BLOCK_BYTES];
            blocks[10] = flags;
            let (segment, blocks) = (SegmentId(1), Bytes::from(blocks));
            disk.queue.push_back(LogAction::Write { batch: BatchNumber(1), segment, offset: 0, blocks });
            disk.begin();
            disk.finish(16_384, random);
        };
        assert!(!disk.rot_tail(9, &mut random), "nothing was written");
        finish(&mut disk, &mut random, 0);
        assert!(!disk.rot_tail(9, &mut random), "a tear would look alike");
        finish(&mut disk, &mut random, 2);
        assert!(disk.rot_tail(9, &mut random));
        let bytes = disk.segments[&SegmentId(1)].read(0, core_log::BLOCK_BYTES).expect("as long as that");
        assert!(bytes[..SECTOR_BYTES].iter().enumerate().all(|(at, byte)| at == 10 || *byte == 7));
        assert!(bytes[SECTOR_BYTES..].iter().any(|byte| *byte != 7));
    }
}

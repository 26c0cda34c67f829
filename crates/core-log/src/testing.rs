//! A disk in memory for tests and the simulator: carries out log actions in two steps, and can crash,
//! tear, rot, lose and misdirect.
//!
//!   start(action) ─▶ pending ─finish─▶ durable        crash: of pending, any sectors or none
//!
//! By design: what was finished survives a crash, unless a fault was asked for.
//! Not here: when things go wrong (the caller draws that; `choose(n)` yields a number below n).

use crate::{BatchNumber, Log, LogAction, LogDisk, LogError, SegmentId, BLOCK_BYTES};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use base_types::Tick;
use bytes::Bytes;

/// What a disk writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// What the log must be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskEvent {
    /// Call `Log::on_written`.
    Written(BatchNumber),
    /// Call `Log::on_segment_ready`.
    Ready(SegmentId),
    /// Call `Log::on_segment_failed`.
    NoRoom(SegmentId),
    /// Call `Log::on_failed`.
    Failed,
}

/// A draw below its argument.
pub type Choose<'c> = &'c mut dyn FnMut(u64) -> u64;

/// See the file's head. Cloning it takes an image of the disk.
#[derive(Clone, Default)]
pub struct TestDisk {
    segment_bytes: u64,
    /// Contents up to the last byte ever written; zeros behind.
    files: BTreeMap<SegmentId, Vec<u8>>,
    pending: VecDeque<LogAction>,
    /// The most segment files there is room for; 0: no bound.
    pub files_max: usize,
    /// The next write to finish is reported done and never reaches the disk.
    pub lose_next: bool,
    /// The next write to finish goes there instead.
    pub misdirect_next: Option<(SegmentId, u64)>,
    /// The next write to finish fails.
    pub fail_next: bool,
    /// Blocks that cannot be read.
    pub unreadable: BTreeMap<SegmentId, Vec<u64>>,
}

impl TestDisk {
    /// An empty disk for segments of this size.
    pub fn new(segment_bytes: u64) -> TestDisk {
        TestDisk { segment_bytes, ..TestDisk::default() }
    }

    /// Takes an action on; it has no effect yet, except that a removal is done at once.
    pub fn start(&mut self, action: LogAction) {
        match action {
            LogAction::Remove { segment } => {
                self.files.remove(&segment);
            }
            action => self.pending.push_back(action),
        }
    }

    /// Actions taken on and not finished.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Finishes the oldest action: it is durable, or failed.
    pub fn finish(&mut self) -> Option<DiskEvent> {
        match self.pending.pop_front()? {
            LogAction::Write { batch, segment, offset, blocks } => {
                if core::mem::take(&mut self.fail_next) {
                    return Some(DiskEvent::Failed);
                }
                let (segment, offset) = self.misdirect_next.take().unwrap_or((segment, offset));
                if !core::mem::take(&mut self.lose_next) {
                    self.put(segment, offset, &blocks);
                }
                Some(DiskEvent::Written(batch))
            }
            LogAction::Prepare { segment, recycle } => {
                if self.files_max > 0 && recycle.is_none() && self.files.len() >= self.files_max {
                    return Some(DiskEvent::NoRoom(segment));
                }
                self.prepare(segment, recycle);
                Some(DiskEvent::Ready(segment))
            }
            LogAction::Remove { segment } => {
                self.files.remove(&segment);
                self.finish()
            }
        }
    }

    /// The process and the machine stop: of what is pending, any part may have reached the disk.
    pub fn crash(&mut self, choose: Choose<'_>) {
        for action in core::mem::take(&mut self.pending) {
            match action {
                LogAction::Write { segment, offset, blocks, .. } => self.tear(segment, offset, &blocks, choose),
                LogAction::Prepare { segment, recycle } if choose(2) == 0 => self.prepare(segment, recycle),
                _ => {}
            }
        }
    }

    /// Lets none, all, or any subset of the write's sectors reach the disk.
    fn tear(&mut self, segment: SegmentId, offset: u64, blocks: &Bytes, choose: Choose<'_>) {
        let mode = choose(4);
        for at in (0..blocks.len()).step_by(SECTOR_BYTES) {
            let written = match mode {
                0 => false,
                1 => true,
                2 => choose(2) == 0,
                _ => choose(8) != 0,
            };
            if written {
                self.put(segment, offset + at as u64, &blocks[at..at + SECTOR_BYTES]);
            }
        }
    }

    fn prepare(&mut self, segment: SegmentId, recycle: Option<SegmentId>) {
        let file = recycle.and_then(|old| self.files.remove(&old)).unwrap_or_default();
        self.files.insert(segment, file);
    }

    fn put(&mut self, segment: SegmentId, offset: u64, bytes: &[u8]) {
        let Some(file) = self.files.get_mut(&segment) else { return };
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        assert!(to as u64 <= self.segment_bytes, "a write ends at {to}, behind the segment's end");
        assert_eq!((from % SECTOR_BYTES, bytes.len() % SECTOR_BYTES), (0, 0), "writes are whole sectors");
        if file.len() < to {
            file.resize(to, 0);
        }
        file[from..to].copy_from_slice(bytes);
    }

    /// Flips one bit.
    pub fn rot(&mut self, segment: SegmentId, offset: u64, bit: u8) {
        if let Some(byte) = self.files.get_mut(&segment).and_then(|file| file.get_mut(offset as usize)) {
            *byte ^= 1 << (bit % 8);
        }
    }

    /// A whole sector becomes garbage.
    pub fn rot_sector(&mut self, segment: SegmentId, offset: u64) {
        let from = offset as usize / SECTOR_BYTES * SECTOR_BYTES;
        if let Some(sector) = self.files.get_mut(&segment).and_then(|file| file.get_mut(from..from + SECTOR_BYTES)) {
            sector.iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// Bytes of a segment that were ever written (in this or an earlier life).
    pub fn written(&self, segment: SegmentId) -> u64 {
        self.files.get(&segment).map_or(0, |file| file.len() as u64)
    }

    /// The segment files there are.
    pub fn files(&self) -> Vec<SegmentId> {
        self.files.keys().copied().collect()
    }

    /// A segment's file is gone.
    pub fn lose_file(&mut self, segment: SegmentId) {
        self.files.remove(&segment);
    }

    /// The bytes that were ever written of a segment.
    pub fn image(&self, segment: SegmentId) -> Option<&[u8]> {
        self.files.get(&segment).map(Vec::as_slice)
    }

    /// Carries out everything the log wants until it wants nothing more at `now`.
    pub fn drive(&mut self, log: &mut Log, now: Tick) {
        loop {
            let actions = log.poll(now);
            if actions.is_empty() && self.pending.is_empty() {
                return;
            }
            actions.into_iter().for_each(|action| self.start(action));
            while let Some(event) = self.finish() {
                tell(log, event);
            }
        }
    }
}

/// Hands an event to the log.
pub fn tell(log: &mut Log, event: DiskEvent) {
    match event {
        DiskEvent::Written(batch) => log.on_written(batch),
        DiskEvent::Ready(segment) => log.on_segment_ready(segment),
        DiskEvent::NoRoom(segment) => log.on_segment_failed(segment),
        DiskEvent::Failed => log.on_failed(),
    }
}

impl LogDisk for TestDisk {
    fn segments(&mut self) -> Result<Vec<(SegmentId, u64)>, LogError> {
        Ok(self.files.keys().map(|id| (*id, self.segment_bytes)).collect())
    }

    fn read(&mut self, segment: SegmentId, offset: u64, bytes: usize) -> Result<Bytes, LogError> {
        let end = offset.saturating_add(bytes as u64);
        let file = self.files.get(&segment).filter(|_| end <= self.segment_bytes);
        let file = file.ok_or_else(|| LogError::Io(format!("no bytes {offset} to {end} in segment {}", segment.0)))?;
        let hit = |block: &u64| *block * (BLOCK_BYTES as u64) < end && (*block + 1) * BLOCK_BYTES as u64 > offset;
        if self.unreadable.get(&segment).is_some_and(|blocks| blocks.iter().any(hit)) {
            return Err(LogError::Io("unreadable sector".to_string()));
        }
        let from = (offset as usize).min(file.len());
        let mut out = file[from..(end as usize).min(file.len())].to_vec();
        out.resize(bytes, 0);
        Ok(Bytes::from(out))
    }
}

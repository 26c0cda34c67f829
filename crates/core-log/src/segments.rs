//! The segment files: which hold the log, which are spare, which are given back.
//!
//!   Prepare ─▶ Preparing ─ready─▶ spare ─▶ active ─full─▶ in use ─nothing live, and a durable batch
//!                 └─failed─▶ again later                          says so─▶ retired ─▶ recycled, removed
//!
//! Always: segments in use have consecutive ids and the last is the active one. The oldest is freed first, so a record
//! of a removal outlives the records it removes. A segment is retired only after a batch whose `log_start` lies beyond
//! it is durable.
//! Not here: moving live records out of the way (`tails.rs`).

use crate::{LogAction, LogConfig, SegmentId};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use base_types::holds;
use base_types::invariant::Broken;
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, Tick};
use core::time::Duration;

/// How long after a failed `Prepare` the next is tried.
const PREPARE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A segment that holds part of the log.
pub(crate) struct Segment {
    pub id: u64,
    pub bytes: u64,
    /// Whether it held nothing but zeros where nothing was written yet.
    pub zeros: bool,
    /// The number of its first batch; 0: not known.
    pub first_batch: u64,
    /// The sequence of its first record; the next segment's is where it ends.
    pub first_sequence: u64,
    /// Records in it that still count.
    pub live: u64,
    /// The sequence before which the log must be durable for everything dead in it to be dead for good.
    pub last_kill: u64,
    /// Clusters with records that counted when they were written.
    pub clusters: BTreeSet<ClusterId>,
}

impl Segment {
    pub fn new(id: u64, bytes: u64, first_batch: u64, first_sequence: u64) -> Segment {
        Segment {
            id,
            bytes,
            zeros: false,
            first_batch,
            first_sequence,
            live: 0,
            last_kill: 0,
            clusters: BTreeSet::new(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spare {
    Wanted,
    Preparing {
        recycle: Option<u64>,
    },
    /// Whether it holds nothing but zeros.
    Ready {
        zeros: bool,
    },
}

/// All segments of a log.
pub(crate) struct Segments {
    in_use: VecDeque<Segment>,
    /// Where the next batch goes in the active segment.
    head: u64,
    spares: BTreeMap<u64, Spare>,
    next_id: u64,
    retired: Vec<u64>,
    removals: Vec<u64>,
    segment_bytes: u64,
    spare_target: usize,
    soft_max: usize,
    prepare_failed: bool,
    retry_at: Tick,
}

impl Segments {
    /// `in_use` ends with the active segment; `ready` are spares with the next ids.
    pub fn new(config: &LogConfig, in_use: VecDeque<Segment>, head: u64, first_id: u64, ready: usize) -> Segments {
        let next = in_use.back().map_or(first_id, |active| active.id + 1);
        Segments {
            in_use,
            head,
            spares: (next..next + ready as u64).map(|id| (id, Spare::Ready { zeros: false })).collect(),
            next_id: next + ready as u64,
            retired: Vec::new(),
            removals: Vec::new(),
            segment_bytes: config.segment_bytes,
            spare_target: config.spare_segments.max(1),
            soft_max: config.segments_soft_max.max(2),
            prepare_failed: false,
            retry_at: Tick(0),
        }
    }

    pub fn in_use(&self) -> usize {
        self.in_use.len()
    }

    pub fn spares_ready(&self) -> usize {
        self.spares.values().filter(|spare| matches!(spare, Spare::Ready { .. })).count()
    }

    /// The oldest segment, unless it is the active one.
    pub fn oldest(&self) -> Option<&Segment> {
        if self.in_use.len() > 1 {
            self.in_use.front()
        } else {
            None
        }
    }

    /// The sequence at which the oldest segment ends.
    pub fn oldest_end(&self) -> u64 {
        self.in_use.get(1).map_or(0, |next| next.first_sequence)
    }

    pub fn in_use_bytes(&self) -> u64 {
        self.in_use.iter().map(|segment| segment.bytes).sum()
    }

    pub fn is_over(&self) -> bool {
        self.in_use.len() > self.soft_max
    }

    /// So many segments that even large tails are moved.
    pub fn is_pressed(&self) -> bool {
        self.in_use.len() > 2 * self.soft_max
    }

    /// The place for batch `number` of `bytes`, whose first record has this sequence; `None`: no segment is ready.
    pub fn place(&mut self, bytes: u64, number: u64, first_sequence: u64) -> Option<(u64, u64)> {
        if let Some(active) = self.in_use.back() {
            if self.head + bytes <= active.bytes {
                return Some((active.id, self.head));
            }
        }
        let (id, spare) = self.spares.first_key_value().map(|(id, spare)| (*id, *spare))?;
        let Spare::Ready { zeros } = spare else { return None };
        assert!(
            bytes <= self.segment_bytes,
            "a batch of {bytes} bytes does not fit a segment of {}",
            self.segment_bytes
        );
        self.spares.remove(&id);
        self.in_use.push_back(Segment { zeros, ..Segment::new(id, self.segment_bytes, number, first_sequence) });
        self.head = 0;
        Some((id, 0))
    }

    /// Whether what is left of the active segment holds zeros.
    pub fn set_first_life(&mut self, zeros: bool) {
        self.in_use.back_mut().into_iter().for_each(|active| active.zeros = zeros);
    }

    /// Whether the place that `place` gave out holds zeros.
    pub fn is_first_life(&self) -> bool {
        self.in_use.back().is_some_and(|active| active.zeros)
    }

    /// Takes the place that `place` gave out.
    pub fn advance(&mut self, bytes: u64) -> &mut Segment {
        self.head += bytes;
        self.in_use.back_mut().expect("a batch was placed")
    }

    /// A record of this sequence, already written, counts no more once everything before `dead_at` is durable.
    pub fn kill(&mut self, sequence: u64, dead_at: u64) {
        let behind = self.in_use.partition_point(|segment| segment.first_sequence <= sequence);
        if behind == 0 {
            assert!(planted(Mutant::LiveTailLost), "record {sequence} died after its segment was retired");
            return;
        }
        let segment = &mut self.in_use[behind - 1];
        segment.live = segment.live.checked_sub(1).expect("more records died in a segment than lived");
        segment.last_kill = segment.last_kill.max(dead_at);
    }

    /// The first segment still needed once everything before `end` is durable, and its first batch.
    pub fn log_start(&self, end: u64) -> (u64, u64) {
        let active = self.in_use.len().saturating_sub(1);
        let dead = |segment: &Segment| segment.live == 0 && segment.last_kill <= end;
        let mut needed = self.in_use.iter().position(|segment| !dead(segment)).unwrap_or(active).min(active);
        if planted(Mutant::LiveTailLost) {
            needed = needed.max(self.in_use.len().saturating_sub(self.soft_max));
        }
        self.in_use.get(needed).map_or((self.next_id, 0), |segment| (segment.id, segment.first_batch))
    }

    /// Whether these, the sequences of all written records that matter, are those that the segments count.
    pub fn check(&self, written: &[u64]) -> Result<(), Broken> {
        let mut found = vec![0u64; self.in_use.len()];
        for sequence in written {
            let after = self.in_use.partition_point(|segment| segment.first_sequence <= *sequence);
            holds!(after > 0, "record {sequence} matters, and its segment is retired");
            found[after - 1] += 1;
        }
        let mut before = None;
        for (segment, found) in self.in_use.iter().zip(found) {
            let (id, live) = (segment.id, segment.live);
            holds!(live == found, "segment {id} holds {found} records that matter, and {live} are counted");
            holds!(before.is_none_or(|before| before + 1 == id), "segment {id} follows {before:?}");
            before = Some(id);
        }
        Ok(())
    }

    /// A batch with this `log_start` is durable: whether the oldest segment changed.
    pub fn retire_before(&mut self, log_start: u64) -> bool {
        let before = self.in_use.len();
        while self.in_use.len() > 1 && self.in_use[0].id < log_start {
            let segment = self.in_use.pop_front().expect("longer than one");
            assert!(
                segment.live == 0 || planted(Mutant::LiveTailLost),
                "segment {} is retired with {} live records",
                segment.id,
                segment.live
            );
            // A segment that recovery missed has no file to give back.
            if segment.bytes > 0 {
                self.retire(segment.id);
            }
        }
        before != self.in_use.len()
    }

    /// A file that holds nothing needed.
    pub fn retire(&mut self, id: u64) {
        self.retired.push(id);
    }

    /// A file that is of no use at all.
    pub fn remove(&mut self, id: u64) {
        self.removals.push(id);
    }

    pub fn on_ready(&mut self, id: u64) {
        if let Some(spare) = self.spares.get_mut(&id) {
            *spare = Spare::Ready { zeros: matches!(spare, Spare::Preparing { recycle: None }) };
            self.prepare_failed = false;
        }
    }

    /// The segment could not be made. What was to be recycled is given up, which frees its room.
    pub fn on_prepare_failed(&mut self, id: u64) {
        let Some(spare) = self.spares.get_mut(&id) else { return };
        if let Spare::Preparing { recycle } = *spare {
            *spare = Spare::Wanted;
            self.removals.extend(recycle);
            self.prepare_failed = true;
            self.retry_at = Tick::NEVER;
        }
    }

    pub fn prepare_failed(&self) -> bool {
        self.prepare_failed
    }

    /// When a failed `Prepare` is tried again.
    pub fn retry_at(&self) -> Tick {
        if self.prepare_failed {
            self.retry_at
        } else {
            Tick::NEVER
        }
    }

    /// What is to be done with files now.
    pub fn plan(&mut self, now: Tick, actions: &mut Vec<LogAction>) {
        actions.extend(self.removals.drain(..).map(|id| LogAction::Remove { segment: SegmentId(id) }));
        while self.spares.len() < self.spare_target {
            self.spares.insert(self.next_id, Spare::Wanted);
            self.next_id += 1;
        }
        if self.may_prepare(now) {
            for (id, spare) in &mut self.spares {
                if *spare == Spare::Wanted {
                    let recycle = if self.retired.is_empty() { None } else { Some(self.retired.remove(0)) };
                    *spare = Spare::Preparing { recycle };
                    actions.push(LogAction::Prepare { segment: SegmentId(*id), recycle: recycle.map(SegmentId) });
                }
            }
        }
        while self.retired.len() > self.spare_target {
            actions.push(LogAction::Remove { segment: SegmentId(self.retired.remove(0)) });
        }
    }

    fn may_prepare(&mut self, now: Tick) -> bool {
        if !self.prepare_failed {
            return true;
        }
        if self.retry_at == Tick::NEVER {
            self.retry_at = now + PREPARE_RETRY_AFTER;
        }
        if now < self.retry_at {
            return false;
        }
        self.retry_at = Tick::NEVER;
        true
    }
}

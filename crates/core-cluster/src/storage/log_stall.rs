//! How long the log's write has been under way, and what comes of it (decision 0034).
//!
//!   write out ──an election timeout──▶ this lane's leaders hand over ──LaneConfig::log_stall_ms──▶ the log has failed
//!       └── ends ──▶ nothing is under way
//!
//! Only time in which the process ran counts: between two turns at most `GAP_TICKS_MAX` ticks. A process that
//! was stopped (SIGSTOP, a suspend, a debugger) does not blame its disk for that time.
//! A disk that is slow all the time moves no leader to and fro: each stall that moved leaders doubles what the
//! next one waits for, up to `DOUBLINGS_MAX` times, until none has for `FORGOTTEN_AFTER`.
//!
//! A write that is under way is looked at once a tick (`next_look`).
//! Not here: who takes over (`leader_handoff.rs`), what a failed log means (lane.rs).

use base_types::mutant::{planted, Mutant};
use base_types::Tick;
use std::time::Duration;

/// What a gap between two looks counts at most.
const GAP_TICKS_MAX: u64 = 2;
/// What the next stall waits for is at most doubled so often: 4.8 s where an election timeout is 300 ms.
const DOUBLINGS_MAX: u32 = 4;
/// A stall that moved leaders is forgotten after this long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

/// The write that is under way, and what became of earlier ones.
#[derive(Debug, Default)]
pub struct LogStall {
    /// Time that counts, of the write that is under way.
    counted: Option<Duration>,
    looked: Tick,
    /// The write under way has moved leaders, or has tried to.
    moved: bool,
    doublings: u32,
    last_moved: Tick,
}

/// What a look at the write under way finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looked {
    Well,
    /// Leaders are to hand over; the first look of this write that finds so.
    Stalls,
    /// Leaders are to hand over.
    StillStalls,
    /// The log counts as failed, after this long.
    Failed(Duration),
}

/// The times of a lane that decide.
#[derive(Clone, Copy, Debug)]
pub struct StallTimes {
    pub tick: Duration,
    /// Leaders hand over after this long; `None`: never.
    pub hand_over: Option<Duration>,
    pub failed: Duration,
}

impl LogStall {
    /// A write has been handed to the disk.
    pub fn begin(&mut self, now: Tick) {
        (self.counted, self.looked, self.moved) = (Some(Duration::ZERO), now, false);
    }

    /// It has ended.
    pub fn end(&mut self) {
        (self.counted, self.moved) = (None, false);
    }

    /// Whether this lane's leaders are to hand over, as of the last look.
    pub fn is_stalled(&self) -> bool {
        self.moved
    }

    /// Counts the time since the last look.
    pub fn look(&mut self, now: Tick, times: StallTimes) -> Looked {
        let Some(counted) = self.counted.as_mut() else { return Looked::Well };
        let gap = now.since(self.looked);
        let gap_max = times.tick * GAP_TICKS_MAX as u32;
        *counted += if planted(Mutant::StallCountsPauses) { gap } else { gap.min(gap_max) };
        self.looked = now;
        let counted = *counted;
        if counted >= times.failed {
            self.end();
            return Looked::Failed(counted);
        }
        if self.moved {
            return Looked::StillStalls;
        }
        if self.doublings > 0 && now.since(self.last_moved) >= FORGOTTEN_AFTER {
            self.doublings = 0;
        }
        let Some(patience) = times.hand_over.map(|once| once * (1 << self.doublings)) else { return Looked::Well };
        if counted < patience || planted(Mutant::StalledLeaderStays) {
            return Looked::Well;
        }
        (self.moved, self.last_moved) = (true, now);
        self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
        Looked::Stalls
    }

    /// When it wants to be looked at next.
    pub fn next_look(&self, tick: Duration) -> Tick {
        match self.counted {
            Some(_) => self.looked + tick,
            None => Tick::NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: StallTimes = StallTimes {
        tick: Duration::from_millis(10),
        hand_over: Some(Duration::from_millis(100)),
        failed: Duration::from_millis(5_000),
    };

    fn at(ms: u64) -> Tick {
        Tick(1_000_000 + ms * 1_000)
    }

    /// Looks once a tick for so long; when it first stalled, and when it failed.
    fn watch(stall: &mut LogStall, from: u64, for_ms: u64) -> (Option<u64>, Option<u64>) {
        stall.begin(at(from));
        let (mut stalled, mut failed) = (None, None);
        for ms in (from..from + for_ms).step_by(10) {
            match stall.look(at(ms), TIMES) {
                Looked::Stalls => stalled = Some(ms - from),
                Looked::Failed(_) => failed = Some(ms - from),
                Looked::Well | Looked::StillStalls => {}
            }
        }
        stall.end();
        (stalled, failed)
    }

    #[test]
    fn a_stall_moves_leaders_then_fails_the_log() {
        let mut stall = LogStall::default();
        assert_eq!(watch(&mut stall, 0, 6_000), (Some(100), Some(5_000)));
        assert_eq!(stall.next_look(TIMES.tick), Tick::NEVER);
    }

    #[test]
    fn time_of_a_stopped_process_does_not_count() {
        let mut stall = LogStall::default();
        stall.begin(at(0));
        assert_eq!(stall.look(at(10), TIMES), Looked::Well);
        assert_eq!(stall.look(at(60_000), TIMES), Looked::Well);
        assert!(!stall.is_stalled());
        // It continues from where it was.
        for ms in (60_010..60_070).step_by(10) {
            assert_eq!(stall.look(at(ms), TIMES), Looked::Well);
        }
        assert_eq!(stall.look(at(60_070), TIMES), Looked::Stalls);
    }

    #[test]
    fn a_slow_disk_waits_longer_each_time_until_it_is_well_for_long() {
        let mut stall = LogStall::default();
        let waits: Vec<_> = (0..6).map(|round| watch(&mut stall, round * 3_000, 2_900).0).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1_600, 1_600].map(Some));
        assert_eq!(watch(&mut stall, 100_000, 500).0, Some(100));
    }

    #[test]
    fn nobody_hands_over_where_it_is_turned_off() {
        let mut stall = LogStall::default();
        let never = StallTimes { hand_over: None, ..TIMES };
        stall.begin(at(0));
        assert!((0..490).all(|tick| stall.look(at(tick * 10), never) == Looked::Well));
    }
}

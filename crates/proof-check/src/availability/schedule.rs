//! The standard schedule of faults: what a day holds, spread over a day of virtual time, or pressed into a shorter run.
//!
//! Always: as many faults of a kind as the run has room for, each of its usual length; the same seed gives the same
//! order. Only the cut of a zone is made shorter in runs under an hour, since it would be all of them: its length is in
//! the report. Held by: `a_short_run_holds_fewer_faults_of_the_same_length`, `seeds_decide_the_order_and_nothing_else`. Not here: doing it (proof-bench, proof-sim).

use std::time::Duration;

/// Leaders killed in a day.
const KILLS: u64 = 24;
/// Leaders stopped and let go again.
const PAUSES: u64 = 4;
/// Moves of the keyspace to more or fewer clusters ("continuous split and merge").
const RESHARDS: u64 = 6;
/// A day, as it is.
pub const DAY: Duration = Duration::from_secs(86_400);
/// What a day's faults are pressed into where time is real.
pub const PRESSED: Duration = Duration::from_secs(3_600);
/// How long a killed node stays down.
pub const DOWN: Duration = Duration::from_secs(5);
/// How long a paused node is stopped.
pub const PAUSE: Duration = Duration::from_secs(10);
/// How long a zone is cut off, in a run of an hour or more.
pub const CUT: Duration = Duration::from_secs(300);
/// How long a clock stays wrong.
pub const JUMPED: Duration = Duration::from_secs(60);
/// How long a disk is slow, and what each of its syncs then takes longer.
pub const SLOW_DISK: Duration = Duration::from_secs(30);
/// See [`SLOW_DISK`].
pub const SYNC_DELAY: Duration = Duration::from_secs(1);

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// kill -9 of the leader; it is started again.
    Kill,
    /// SIGSTOP of the leader, then SIGCONT.
    Pause,
    /// The zone with the leader is cut off from the rest; both sides reach their clients.
    Cut,
    /// A node is killed and starts again with an empty directory.
    Wipe,
    /// All nodes are stopped and started in turn, as an upgrade does it.
    Rolling,
    /// Every sync of the leader's disk takes a second longer.
    SlowDisk,
    /// The keyspace moves to another number of clusters.
    Reshard,
    /// The time of day of a node jumps an hour, and back.
    ClockJump,
}

/// All kinds, in the order of the report.
pub const KINDS: [Kind; 8] =
    [Kind::Kill, Kind::Pause, Kind::Cut, Kind::Wipe, Kind::Rolling, Kind::SlowDisk, Kind::Reshard, Kind::ClockJump];

impl Kind {
    /// In the report.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kill => "kill",
            Kind::Pause => "pause",
            Kind::Cut => "zone cut",
            Kind::Wipe => "wipe",
            Kind::Rolling => "rolling",
            Kind::SlowDisk => "slow disk",
            Kind::Reshard => "reshard",
            Kind::ClockJump => "clock jump",
        }
    }
}

/// One fault of the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    /// What.
    pub kind: Kind,
    /// When it begins, at the earliest: the one before must be mended.
    pub at: Duration,
}

/// Faults of a kind in a day of the standard schedule; 0: it has none of the kind, or leaves their number open.
pub fn day_count(kind: Kind) -> u64 {
    match kind {
        Kind::Kill => KILLS,
        Kind::Pause => PAUSES,
        Kind::Cut | Kind::Wipe | Kind::Rolling | Kind::ClockJump => 1,
        Kind::SlowDisk | Kind::Reshard => 0,
    }
}

/// How long a zone is cut off in a run of some length.
pub fn cut_length(length: Duration) -> Duration {
    CUT.mul_f64((length.as_secs_f64() / PRESSED.as_secs_f64()).min(1.0))
}

/// The plan of a run, with only the kinds that the measured system takes. `day` is the time that a day's faults are spread
/// over: [`DAY`] or [`PRESSED`].
pub fn plan(length: Duration, day: Duration, seed: u64, kinds: &[Kind]) -> Vec<Planned> {
    let share = |count: u64| (count * length.as_secs()).div_ceil(day.as_secs().max(1)).max(1);
    let mut order: Vec<Kind> = Vec::new();
    for kind in KINDS.into_iter().filter(|kind| kinds.contains(kind)) {
        let count = match kind {
            Kind::Kill => share(KILLS),
            Kind::Pause => share(PAUSES),
            Kind::Reshard => share(RESHARDS),
            _ => share(1),
        };
        order.extend(std::iter::repeat_n(kind, count as usize));
    }
    let mut random = Random(seed);
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    // What is left of the run beside the faults' own lengths is divided evenly around them.
    let busy: Duration = order.iter().map(|kind| usual_length(*kind, length)).sum();
    let calm = length.saturating_sub(busy) / (order.len() as u32 + 1);
    let mut at = calm;
    order
        .into_iter()
        .map(|kind| {
            let planned = Planned { kind, at };
            at += calm + usual_length(kind, length);
            planned
        })
        .collect()
}

/// Roughly, with what it takes to mend it.
fn usual_length(kind: Kind, length: Duration) -> Duration {
    const MENDED: Duration = Duration::from_secs(3);
    MENDED
        + match kind {
            Kind::Kill | Kind::Wipe => DOWN,
            Kind::Pause => PAUSE,
            Kind::Cut => cut_length(length),
            Kind::Rolling => Duration::from_secs(15),
            Kind::SlowDisk => SLOW_DISK,
            Kind::Reshard => Duration::from_secs(2),
            Kind::ClockJump => JUMPED,
        }
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Any below a number that is not 0.
    pub fn below(&mut self, count: u64) -> u64 {
        self.draw() % count.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(plan: &[Planned], kind: Kind) -> usize {
        plan.iter().filter(|planned| planned.kind == kind).count()
    }

    #[test]
    fn a_full_run_holds_what_a_day_holds() {
        let full = plan(PRESSED, PRESSED, 7, &KINDS);
        assert_eq!(
            [Kind::Kill, Kind::Pause, Kind::Cut, Kind::Wipe, Kind::Rolling, Kind::ClockJump]
                .map(|kind| count(&full, kind)),
            [24, 4, 1, 1, 1, 1]
        );
        assert_eq!(cut_length(PRESSED), Duration::from_secs(300));
        let last = full.last().unwrap();
        assert!(last.at + usual_length(last.kind, PRESSED) <= Duration::from_secs(3_600), "all of it fits");
        assert!(full.windows(2).all(|pair| pair[1].at >= pair[0].at + usual_length(pair[0].kind, PRESSED)));
    }

    #[test]
    fn a_short_run_holds_fewer_faults_of_the_same_length() {
        let five = Duration::from_secs(300);
        let short = plan(five, PRESSED, 7, &KINDS);
        assert_eq!(count(&short, Kind::Kill), 2);
        assert!(KINDS.into_iter().all(|kind| count(&short, kind) >= 1));
        assert_eq!(cut_length(five), Duration::from_secs(25));
    }

    #[test]
    fn seeds_decide_the_order_and_nothing_else() {
        assert_eq!(plan(DAY, DAY, 1, &KINDS), plan(DAY, DAY, 1, &KINDS));
        assert_ne!(plan(DAY, DAY, 1, &KINDS), plan(DAY, DAY, 2, &KINDS));
        assert_eq!(count(&plan(DAY, DAY, 1, &[Kind::Kill]), Kind::Wipe), 0);
    }
}

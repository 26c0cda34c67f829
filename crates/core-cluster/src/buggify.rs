//! Rare orders made common ("buggify", FoundationDB): at a few named points the lane may do what it is
//! always allowed to do and seldom does. Off everywhere but in the simulator.
//!
//! Always: what a point does is within the protocol (late, lost, in pieces, sooner than needed), so a
//! correct lane stays correct; every choice comes from the node's own seed.
//! Held by: `fires_nowhere_when_off_or_over_and_at_every_point_in_some_life_when_on`.
//! Not here: faults of disks, networks and clocks (the simulator makes those).

use base_types::Tick;

/// Where the lane may do otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Point {
    /// Committed entries are applied behind the next tick.
    LateApply = 0,
    /// An append carries its first entry only; the rest is as if lost.
    CutAppend = 1,
    /// A leader hands over to some other voter, unasked (drawn each tick).
    StrayTransfer = 2,
    /// The log is cut as if it were out of room: followers that lag need snapshots.
    EarlyCut = 3,
    /// A read that may be answered is answered in a later turn.
    LateRead = 4,
    /// A commit notice is forgotten: a heartbeat is not sent.
    LostHeartbeat = 5,
}

/// How often in 4096 draws an active point fires.
const fn rate(point: Point) -> u64 {
    match point {
        Point::LateRead | Point::EarlyCut => 1024,
        Point::LateApply => 600,
        Point::CutAppend => 3072,
        Point::LostHeartbeat => 400,
        Point::StrayTransfer => 40,
    }
}

/// The lane's own chance.
#[derive(Clone, Debug)]
pub struct Buggify {
    state: u64,
    /// Bit by `Point`: which are active in this life of the lane.
    active: u8,
    /// Nothing fires from then on: a world that is to heal must be let.
    until: Tick,
}

impl Buggify {
    /// Fires until then; `Tick(0)`: never.
    pub fn new(seed: u64, until: Tick) -> Buggify {
        let mut buggify = Buggify { state: seed ^ 0xb066_1f70_ca11_ab1e, active: 0, until };
        if until > Tick(0) {
            // Each point is active in half of all lives: few at a time, so that one does not hide another.
            buggify.active = (buggify.draw() >> 16) as u8;
        }
        buggify
    }

    /// Time has passed.
    #[inline]
    pub fn on_time(&mut self, now: Tick) {
        if now >= self.until {
            self.active = 0;
        }
    }

    /// A number of the lane's chance.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Whether to do otherwise here, now.
    #[inline]
    pub fn fires(&mut self, point: Point) -> bool {
        self.active & (1 << point as u8) != 0 && self.draw() % 4096 < rate(point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: [Point; 6] = [
        Point::LateApply,
        Point::CutAppend,
        Point::StrayTransfer,
        Point::EarlyCut,
        Point::LateRead,
        Point::LostHeartbeat,
    ];

    #[test]
    fn fires_nowhere_when_off_or_over_and_at_every_point_in_some_life_when_on() {
        let fired = |seed, until, point| {
            let mut buggify = Buggify::new(seed, until);
            buggify.on_time(Tick(5));
            (0..2_000).any(|_| buggify.fires(point))
        };
        for point in POINTS {
            assert!((0..32).all(|seed| !fired(seed, Tick(0), point) && !fired(seed, Tick(5), point)), "{point:?}");
            let lives = (0..32).filter(|seed| fired(*seed, Tick(6), point)).count();
            assert!((4..=28).contains(&lives), "{point:?} is active in {lives} of 32 lives");
        }
    }
}

//! How long a member without a leader waits before it asks to lead.
//!
//!   leader silent ──election_ticks──▶ promise over ──1 tick + 2 × rank──▶ asks (pre-vote) ──▶ asks again,
//!                                                                        sooner at first, then slower
//!
//! The members of a group take turns by rank: a hash of cluster, term and member, so that leadership
//! spreads over the members of many groups, and one group's members never ask in the same tick. Two
//! that ask at once would split the votes, and a split costs a further wait (measured before: 1.8 s).
//!
//! Always: while a member follows a leader it waits at least `election_ticks`, the promise that leases
//! rest on; everything shorter happens only where no leader is followed. A function of its arguments.
//! Not here: what a pre-vote or vote needs to be given (the library), restarts (core-cluster's guard).

use base_types::ClusterId;

/// Behind the promise of `election_ticks`: another member may have heard the leader a little later, or
/// count its ticks from a little later, and would not answer yet.
const MARGIN_TICKS: usize = 1;
/// Between the turns of two members: two round trips, a sync, and a tick that both may count apart.
const TURN_TICKS: usize = 2;
/// A pre-vote that found no majority is asked again after this, doubled each time up to `election_ticks`.
/// It changes nobody's state, and late answers to it still count.
const PRE_VOTE_AGAIN_TICKS: usize = 3;
/// Requests in a row behind which turns no longer help (members that count different terms may stand in
/// each other's way for ever): a seeded draw is added.
const TURNS_MAX: u32 = 3;
/// Who has just said yes to another's pre-vote leaves it this much time.
const STAND_BACK_TICKS: usize = 2;

/// What a member's patience depends on.
pub(crate) struct Situation {
    pub election_ticks: usize,
    /// Its turn among the members: 0 asks first.
    pub rank: usize,
    /// Times it has asked since it last had a leader.
    pub asked: u32,
    pub standing: Standing,
    /// Seeded; drawn anew each time it asks.
    pub draw: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// It follows, a leader or nobody, or it has voted for another.
    Follows,
    /// It has asked for pre-votes.
    AsksBefore,
    /// It has asked for votes.
    Asks,
}

impl Situation {
    /// Ticks to wait, counted from when a leader was heard, a vote given, or this member last asked.
    pub fn ticks(&self) -> usize {
        let turn = self.rank * TURN_TICKS;
        let settled = self.asked < TURNS_MAX;
        let drawn = if settled { 0 } else { (self.draw % self.election_ticks as u64) as usize };
        match self.standing {
            Standing::Follows => self.election_ticks + MARGIN_TICKS + turn + drawn,
            Standing::AsksBefore if settled => {
                let doublings = self.asked.saturating_sub(1);
                (PRE_VOTE_AGAIN_TICKS << doublings).min(self.election_ticks)
            }
            // A vote asked for again is asked in a new term, and the answers under way are lost.
            Standing::Asks if settled => self.election_ticks.div_ceil(2) + turn,
            Standing::AsksBefore | Standing::Asks => self.election_ticks + drawn,
        }
    }

    /// Until when a member that has said yes to another's pre-vote stands back.
    pub fn stand_back(elapsed: usize) -> usize {
        elapsed + STAND_BACK_TICKS
    }
}

/// A member's rank among the others; the leader that has fallen silent has none.
pub(crate) fn rank(cluster: ClusterId, term: u64, voters: impl Iterator<Item = u64>, own: u64, silent: u64) -> usize {
    let turn = |voter: u64| (mix(cluster.0 ^ term.rotate_left(32) ^ mix(voter)), voter);
    let mine = turn(own);
    voters.filter(|voter| *voter != own && *voter != silent && turn(*voter) < mine).count()
}

/// Splitmix's finish: every bit of the input moves every bit of the output.
pub(crate) fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(standing: Standing, rank: usize, asked: u32) -> Situation {
        Situation { election_ticks: 10, rank, asked, standing, draw: 7 }
    }

    #[test]
    fn ranks_are_a_permutation_and_spread_over_clusters() {
        let mut first = [0; 5];
        for cluster in 0..1_000 {
            let voters = [1_u64, 2, 3, 4, 5];
            let mut ranks: Vec<usize> =
                voters.iter().map(|own| rank(ClusterId(cluster), 3, voters.iter().copied(), *own, 0)).collect();
            first[ranks.iter().position(|rank| *rank == 0).unwrap()] += 1;
            ranks.sort_unstable();
            assert_eq!(ranks, [0, 1, 2, 3, 4]);
            let without: Vec<usize> =
                (2..=5).map(|own| rank(ClusterId(cluster), 3, voters.iter().copied(), own, 1)).collect();
            assert!(without.iter().all(|rank| *rank < 4), "the silent leader keeps no turn: {without:?}");
        }
        assert!(first.iter().all(|count| (120..=280).contains(count)), "{first:?}");
    }

    #[test]
    fn nobody_waits_less_than_the_promise_and_no_two_ask_in_one_tick() {
        for asked in 0..10 {
            let waits: Vec<usize> = (0..5).map(|rank| situation(Standing::Follows, rank, asked).ticks()).collect();
            assert!(waits.iter().all(|wait| *wait > 10), "{waits:?}");
            assert!(waits.windows(2).all(|pair| pair[0] + TURN_TICKS <= pair[1]), "{waits:?}");
        }
    }

    #[test]
    fn a_round_in_vain_is_repeated_sooner_at_first_and_slower_later() {
        let before: Vec<usize> = (1..6).map(|asked| situation(Standing::AsksBefore, 1, asked).ticks()).collect();
        assert_eq!(before, [3, 6, 17, 17, 17]);
        let asks: Vec<usize> = (1..6).map(|asked| situation(Standing::Asks, 1, asked).ticks()).collect();
        assert_eq!(asks, [7, 7, 17, 17, 17]);
    }
}

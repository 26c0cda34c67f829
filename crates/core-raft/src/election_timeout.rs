//! Campaign timeouts: how long a member without a leader waits before it campaigns.
//!
//!   leader silent ──election_ticks──▶ promise over ──1 tick + 2 × rank──▶ pre-vote ──▶ campaigns again,
//!                                                                        sooner at first, then slower
//!
//! The members of a group take turns by rank: a hash of cluster, term and member. So leadership spreads over the members
//! of many groups, and no two members of a group campaign in the same tick. Two campaigns at one time would split the
//! votes, and a split costs a further wait (measured before: 1.8 s).
//!
//! Always: a member that follows a leader waits at least `election_ticks`, the promise that leases rest on (mutant
//! `VoteInsidePromise`; `no_follower_campaigns_within_its_promise`). Only a member without a leader waits less.
//! Not here: what a pre-vote or vote must fulfil (the library), restarts (core-cluster's guard).

use base_types::ClusterId;

/// Wait after the promise of `election_ticks` has ended: another member may have heard the leader a little later, or may
/// count its ticks from a little later, and would still refuse its vote.
const MARGIN_TICKS: usize = 1;
/// Between the turns of two members: two round trips, a sync, and a tick that both may count apart.
const TURN_TICKS: usize = 2;
/// A pre-vote without a majority is repeated after this, doubled each time up to `election_ticks`.
/// It changes no member's state, and late answers to it still count.
const PRE_VOTE_AGAIN_TICKS: usize = 3;
/// Campaigns in a row that take turns. Members that count different terms may disturb each other in every turn, so
/// from then on a seeded draw is added.
const TURNS_MAX: u32 = 3;
/// A member that has just granted a pre-vote leaves the candidate this much time.
const DEFER_TICKS: usize = 2;

/// What a member's campaign timeout depends on.
pub(crate) struct CampaignInput {
    pub election_ticks: usize,
    /// Its turn among the members: 0 campaigns first.
    pub rank: usize,
    /// Campaigns since it last had a leader.
    pub campaigns: u32,
    pub state: CampaignState,
    /// Seeded; another one for each campaign.
    pub draw: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CampaignState {
    /// It follows a leader or none, or it has voted for another member.
    Follower,
    /// It has requested pre-votes.
    PreCandidate,
    /// It has requested votes.
    Candidate,
}

impl CampaignInput {
    /// Ticks to wait, counted from the leader's last message, the last vote given, or the last campaign.
    pub fn ticks(&self) -> usize {
        let turn = self.rank * TURN_TICKS;
        let settled = self.campaigns < TURNS_MAX;
        let drawn = if settled { 0 } else { (self.draw % self.election_ticks as u64) as usize };
        match self.state {
            CampaignState::Follower => self.election_ticks + MARGIN_TICKS + turn + drawn,
            CampaignState::PreCandidate if settled => {
                let doublings = self.campaigns.saturating_sub(1);
                (PRE_VOTE_AGAIN_TICKS << doublings).min(self.election_ticks)
            }
            // A repeated request for votes begins a new term, and the answers under way are lost.
            CampaignState::Candidate if settled => self.election_ticks.div_ceil(2) + turn,
            CampaignState::PreCandidate | CampaignState::Candidate => self.election_ticks + drawn,
        }
    }

    /// Until when a member that has granted a pre-vote does not campaign.
    pub fn defer_campaign(elapsed: usize) -> usize {
        elapsed + DEFER_TICKS
    }
}

/// A member's rank among the others, without the leader that has fallen silent.
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

    fn input(state: CampaignState, rank: usize, campaigns: u32) -> CampaignInput {
        CampaignInput { election_ticks: 10, rank, campaigns, state, draw: 7 }
    }

    #[test]
    fn ranks_are_a_permutation_and_spread_leadership() {
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
            assert!(without.iter().all(|rank| *rank < 4), "the silent leader has no turn: {without:?}");
        }
        assert!(first.iter().all(|count| (120..=280).contains(count)), "{first:?}");
    }

    #[test]
    fn no_follower_campaigns_within_its_promise() {
        for campaigns in 0..10 {
            let waits: Vec<usize> =
                (0..5).map(|rank| input(CampaignState::Follower, rank, campaigns).ticks()).collect();
            assert!(waits.iter().all(|wait| *wait > 10), "{waits:?}");
            assert!(waits.windows(2).all(|pair| pair[0] + TURN_TICKS <= pair[1]), "{waits:?}");
        }
    }

    #[test]
    fn failed_campaign_is_repeated_sooner_then_slower() {
        let before: Vec<usize> =
            (1..6).map(|campaigns| input(CampaignState::PreCandidate, 1, campaigns).ticks()).collect();
        assert_eq!(before, [3, 6, 17, 17, 17]);
        let candidates: Vec<usize> =
            (1..6).map(|campaigns| input(CampaignState::Candidate, 1, campaigns).ticks()).collect();
        assert_eq!(candidates, [7, 7, 17, 17, 17]);
    }
}

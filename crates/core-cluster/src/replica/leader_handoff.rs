//! A leader whose disk has no room or ends no write, who cannot apply, or whose node is drained, hands leadership to a member that
//! can lead.
//!
//!   no room ──▶ asks the best member ──takes over──▶ follower
//!                 ▲        └─silent for an election timeout─┐
//!                 └────────── the next, each once ──────────┴─ none left ──▶ leads on and refuses writes,
//!                                                                            asks round again much later
//!
//! No message says whose disk is full, or who is drained: such a member ignores the hand-over (`ignores_hand_over`).
//! A leader whose log write stalls (`log_stall.rs`) hands over only where most voters answer without it, and steps
//! down where none of them takes over: it can commit nothing, and they elect one of their own.
//! The same goes for a leader that waits for a damaged pair (`value_repair.rs`): it commits, and answers nothing.
//! A round begins at most once in `AGAIN_AFTER`, and asks each voter once.
//! Not here: what is refused (`Replica::write_refusal`), where replicas are placed.

use base_types::{ReplicaId, Tick};
use core_raft::{Group, Membership};
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two rounds in which nobody took over.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// A pair that is mended sooner moves no leadership.
pub const APPLYING_STANDS_STILL: Duration = Duration::from_millis(300);

/// Asking the others to lead.
#[derive(Default)]
pub struct Handoff {
    /// The round that is under way, if leadership goes to anybody.
    round: Option<Box<Round>>,
}

#[derive(Default)]
struct Round {
    asked: Vec<ReplicaId>,
    /// Everybody has been asked: not again before this.
    again_at: Option<Tick>,
}

/// What a leader that is unfit does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It leads on, for now.
    LeadOn,
    /// A member was asked, and has yet to take over.
    Wait,
    Ask(ReplicaId),
    /// Nobody of those that were asked has taken over.
    NobodyLeft,
}

impl Handoff {
    /// The leader is fit, or leads no more.
    pub fn end(&mut self) {
        self.round = None;
    }

    /// Whether everybody was asked, and nobody took over.
    pub fn nobody_took_over(&self) -> bool {
        self.round.as_ref().is_some_and(|round| round.again_at.is_some())
    }

    /// The next step of a leader that is unfit.
    pub fn next_step(&mut self, group: &Group, voters: &OtherVoters) -> Step {
        if group.is_transferring() {
            return Step::Wait;
        }
        let round = self.round.get_or_insert_default();
        if round.again_at.is_some_and(|at| voters.now >= at) {
            **round = Round::default();
        }
        if round.again_at.is_some() {
            return Step::LeadOn;
        }
        let Some(next) = voters.next_to_lead(group, &round.asked) else {
            round.again_at = Some(voters.now + AGAIN_AFTER);
            return Step::NobodyLeft;
        };
        round.asked.push(next);
        Step::Ask(next)
    }
}

/// The other members, as their leader has heard them.
pub struct OtherVoters<'a> {
    pub own: ReplicaId,
    pub membership: &'a Membership,
    /// When each last said anything.
    pub answered: &'a BTreeMap<ReplicaId, Tick>,
    pub now: Tick,
    /// Who has answered within this time is there.
    pub recent: Duration,
}

impl OtherVoters<'_> {
    fn answers(&self, replica: ReplicaId) -> bool {
        self.answered.get(&replica).is_some_and(|at| self.now.since(*at) <= self.recent)
    }

    /// Whether those that answer can elect a leader and commit without this one.
    pub fn are_enough(&self) -> bool {
        self.membership.has_majority(|replica| replica != self.own && self.answers(replica))
    }

    /// The voter that lacks least of those that answer and have not been asked.
    fn next_to_lead(&self, group: &Group, asked: &[ReplicaId]) -> Option<ReplicaId> {
        let followers = group.followers();
        followers
            .into_iter()
            .filter(|follower| follower.replica != self.own && !follower.in_snapshot)
            .filter(|follower| self.membership.is_voter(follower.replica))
            .filter(|follower| self.answers(follower.replica) && !asked.contains(&follower.replica))
            .max_by_key(|follower| follower.matched)
            .map(|follower| follower.replica)
    }
}

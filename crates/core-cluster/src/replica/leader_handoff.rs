//! A leader whose disk has no room or ends no write, or who cannot apply, hands leadership to a member that
//! has and can.
//!
//!   no room ──▶ asks the best member ──takes over──▶ follower
//!                 ▲        └─silent for an election timeout─┐
//!                 └────────── the next, each once ──────────┴─ none left ──▶ leads on and refuses writes,
//!                                                                            asks round again much later
//!
//! No message says whose disk is full: a member without room ignores the hand-over (`ignores_hand_over`).
//! A leader whose log write stalls (`log_stall.rs`) hands over only where most voters answer without it, and steps
//! down where none of them takes over: it can commit nothing, and they elect one of their own.
//! The same goes for a leader that waits for a damaged pair (`value_repair.rs`): it commits, and answers nothing.
//! A round begins at most once in `AGAIN_AFTER`, and asks each voter once.
//! Not here: what is refused (`Replica::write_refusal`), where replicas are placed.

use crate::context::LaneContext;
use crate::replica::Replica;
use base_types::{ReplicaId, Tick};
use core_raft::{Group, MessageKind};
use std::time::Duration;

/// Between two rounds in which nobody took over.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// A pair that is mended sooner moves no leadership.
const APPLYING_STANDS_STILL: Duration = Duration::from_millis(300);

/// A round of asking.
#[derive(Default)]
pub struct HandoffRound {
    asked: Vec<ReplicaId>,
    /// Everybody has been asked: not again before this.
    again_at: Option<Tick>,
}

impl Replica {
    /// Of a leader without room, or that cannot apply: whether leadership is on its way to another member.
    pub fn hand_over_if_unfit(&mut self, lane: &LaneContext, now: Tick) -> bool {
        let stalled = lane.stall.is_stalled() && self.others_are_enough(lane, now);
        let unfit =
            stalled || lane.is_out_of_room() || self.stuck_for(now) >= APPLYING_STANDS_STILL || self.is_quarantined();
        if self.leading.is_none() || !unfit {
            self.handoff = None;
            return false;
        }
        if self.group.as_ref().is_some_and(Group::is_transferring) {
            return true;
        }
        let round = self.handoff.get_or_insert_default();
        if round.again_at.is_some_and(|at| now >= at) {
            **round = HandoffRound::default();
        }
        if round.again_at.is_some() {
            return false;
        }
        let Some(next) = self.next_to_lead(lane, now) else {
            self.handoff.get_or_insert_default().again_at = Some(now + AGAIN_AFTER);
            if stalled {
                self.end_lease_for_transfer();
                self.group.as_mut().expect("a leader has a group").step_down();
            }
            return false;
        };
        self.handoff.get_or_insert_default().asked.push(next);
        self.end_lease_for_transfer();
        self.group.as_mut().expect("a leader has a group").transfer_leader(next);
        true
    }

    /// Whether the other voters that answer can elect a leader and commit without this one.
    fn others_are_enough(&self, lane: &LaneContext, now: Tick) -> bool {
        let recent = Duration::from_millis(lane.config.tick_ms * lane.config.election_ticks as u64 * 2);
        let answers = |replica: &&ReplicaId| {
            **replica != self.spec.replica && self.answered.get(replica).is_some_and(|at| now.since(*at) <= recent)
        };
        let membership = &self.meta.membership;
        let enough =
            |voters: &[ReplicaId]| voters.is_empty() || voters.iter().filter(answers).count() > voters.len() / 2;
        enough(&membership.voters) && enough(&membership.voters_outgoing)
    }

    /// The voter that lacks least of those that answer and have not been asked.
    fn next_to_lead(&self, lane: &LaneContext, now: Tick) -> Option<ReplicaId> {
        let recent = Duration::from_millis(lane.config.tick_ms * lane.config.election_ticks as u64 * 2);
        let asked = |replica| self.handoff.as_ref().is_some_and(|round| round.asked.contains(&replica));
        let answers = |replica| self.answered.get(&replica).is_some_and(|at| now.since(*at) <= recent);
        let followers = self.group.as_ref()?.followers();
        followers
            .into_iter()
            .filter(|follower| follower.replica != self.spec.replica && !follower.in_snapshot)
            .filter(|follower| self.meta.membership.is_voter(follower.replica))
            .filter(|follower| answers(follower.replica) && !asked(follower.replica))
            .max_by_key(|follower| follower.matched)
            .map(|follower| follower.replica)
    }

    /// A member without room, or whose log write stalls, does not take leadership over: it could not log its first
    /// entry. One that cannot apply would answer nothing.
    pub fn ignores_hand_over(&self, lane: &LaneContext, kind: MessageKind) -> bool {
        kind == MessageKind::TimeoutNow
            && (lane.is_out_of_room() || lane.stall.is_stalled() || self.is_stuck() || self.is_quarantined())
    }
}

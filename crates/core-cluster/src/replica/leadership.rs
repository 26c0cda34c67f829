//! What an operator reads of who leads a cluster: one event for each change, with its reason.
//!
//!   silence ─▶ PreCandidate ─▶ Candidate ─▶ Leader: "elected"      TimeoutNow ─▶ Candidate ─▶ Leader: "handed over"
//!
//! Always: the new leader reports a change of leaders, nobody else; a leader reports that it stopped only where it saw no newer
//! term, since a newer leader reports by itself. At most [`NEWS_MAX`] events wait for the end of a turn.
//! Held by: `a_change_of_leaders_is_told_once_with_its_reason`. Nothing is decided by what stands here.

use crate::api::Leadership;
use base_types::{NodeId, Term};
use core_raft::Role;

/// A turn of a replica changes leaders once or twice.
const NEWS_MAX: usize = 8;

#[derive(Default, Debug)]
pub struct LeadershipNews {
    /// How it came to ask for votes.
    bid: Option<&'static str>,
    /// The last leader it knew.
    known: Option<NodeId>,
    /// Why it stops leading, if it does so by itself.
    gives_up: Option<&'static str>,
    waiting: Vec<(Term, Leadership)>,
}

impl LeadershipNews {
    /// Its role or term is another one. `leading`: the term that it has led in so far.
    pub fn on_role(&mut self, role: Role, term: Term, leading: Option<Term>) {
        match role {
            Role::PreCandidate => self.bid = Some("the leader was silent for the election timeout"),
            Role::Candidate => _ = self.bid.get_or_insert("the leader handed over"),
            Role::Leader if leading != Some(term) => {
                let before = self.known;
                let alone = "it is the only voter";
                let reason = match self.bid.take() {
                    Some(_) if before.is_none() => "no leader was known",
                    bid => bid.unwrap_or(alone),
                };
                self.push(term, Leadership::Begun { before, reason });
            }
            _ => {}
        }
        if role != Role::Leader {
            let no_majority = "no majority of the members answered for the election timeout";
            let reason = self.gives_up.take().unwrap_or(no_majority);
            if leading == Some(term) {
                self.push(term, Leadership::Ended { reason });
            }
        }
        if role == Role::Follower {
            self.bid = None;
        }
    }

    /// It knows who leads.
    pub fn on_leader(&mut self, leader: Option<NodeId>) {
        self.known = leader.or(self.known);
    }

    /// It asks another member to lead.
    pub fn hands_over(&mut self, term: Term, to: NodeId, reason: &'static str) {
        self.push(term, Leadership::HandingOver { to, reason });
    }

    /// It is about to stop leading by itself.
    pub fn gives_up(&mut self, reason: &'static str) {
        self.gives_up = Some(reason);
    }

    /// What is to be told now.
    pub fn take(&mut self) -> Vec<(Term, Leadership)> {
        std::mem::take(&mut self.waiting)
    }

    fn push(&mut self, term: Term, event: Leadership) {
        if self.waiting.len() < NEWS_MAX {
            self.waiting.push((term, event));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(news: &mut LeadershipNews) -> Vec<Leadership> {
        news.take().into_iter().map(|(_, event)| event).collect()
    }

    #[test]
    fn a_change_of_leaders_is_told_once_with_its_reason() {
        let mut news = LeadershipNews::default();
        // As the replica keeps it.
        let mut leading = None;
        let mut roles = |news: &mut LeadershipNews, term, roles: &[Role]| {
            for role in roles {
                news.on_role(*role, Term(term), leading);
                leading = (*role == Role::Leader).then_some(Term(term));
            }
        };
        roles(&mut news, 1, &[Role::PreCandidate, Role::Candidate, Role::Leader, Role::Leader]);
        assert_eq!(told(&mut news), [Leadership::Begun { before: None, reason: "no leader was known" }]);
        news.on_leader(Some(NodeId(1)));
        news.on_leader(None);
        // A newer term: its leader reports.
        roles(&mut news, 2, &[Role::Follower]);
        assert_eq!(told(&mut news), []);
        news.on_leader(Some(NodeId(2)));
        roles(&mut news, 3, &[Role::Candidate, Role::Leader]);
        assert_eq!(told(&mut news), [Leadership::Begun { before: Some(NodeId(2)), reason: "the leader handed over" }]);
        roles(&mut news, 3, &[Role::Follower]);
        let reason = "no majority of the members answered for the election timeout";
        assert_eq!(told(&mut news), [Leadership::Ended { reason }]);
        roles(&mut news, 4, &[Role::PreCandidate, Role::Candidate, Role::Leader]);
        let reason = "the leader was silent for the election timeout";
        assert_eq!(told(&mut news), [Leadership::Begun { before: Some(NodeId(2)), reason }]);
        news.gives_up("its log write stalls");
        roles(&mut news, 4, &[Role::Follower]);
        assert_eq!(told(&mut news), [Leadership::Ended { reason: "its log write stalls" }]);
    }
}

//! What always holds of a group, checked after each turn that it had a part in.
//!
//! Always (asserted here): applied ≤ committed ≤ last entry; term and commit index never go back; one vote a term; nobody
//! but the leader takes itself for it; a leader commits only entries of its own term, and only what a quorum of the
//! members holds durably.
//! Not here: what only several members together can show (proof-check).

use crate::storage::GroupStorage;
use base_types::holds;
use base_types::invariant::Broken;
use raft::StateRole;

/// What the last check saw: the next compares.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    term: u64,
    vote: u64,
    commit: u64,
    /// Whether it led in that term, with the members of today.
    led: bool,
}

impl Seen {
    /// Other members make a quorum from now on: what was committed before, these need not hold.
    pub(crate) fn on_members_changed(&mut self) {
        self.led = false;
    }

    /// Checks what a member that is awake knows of itself; costs the same whatever the log holds.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub(crate) fn check(&mut self, raft: &mut raft::Raft<GroupStorage>) -> Result<(), Broken> {
        let seen = *self;
        let (term, vote, id) = (raft.term, raft.vote, raft.id);
        let (applied, commit, last) = (raft.raft_log.applied, raft.raft_log.committed, raft.raft_log.last_index());
        holds!(applied <= commit, "applied {applied} lies after the commit index {commit}");
        holds!(commit <= last, "the commit index {commit} lies after the last entry {last}");
        holds!(term >= seen.term, "the term went back from {} to {term}", seen.term);
        let changed = term == seen.term && seen.vote != raft::INVALID_ID && vote != seen.vote;
        holds!(!changed, "the vote of term {term} changed from {} to {vote}", seen.vote);
        holds!(commit >= seen.commit, "the commit index went back from {} to {commit}", seen.commit);
        let leads = raft.state == StateRole::Leader;
        holds!(leads == (raft.leader_id == id), "a {:?} takes {} for the leader", raft.state, raft.leader_id);
        let advanced = leads && seen.led && seen.term == term && commit > seen.commit;
        if advanced {
            let of = raft.raft_log.term(commit).unwrap_or(0);
            holds!(of == term, "the leader of term {term} committed {commit}, an entry of term {of}");
            let quorum = raft.mut_prs().maximal_committed_index().0;
            holds!(commit <= quorum, "the leader committed {commit}, and a quorum holds no more than {quorum}");
        }
        *self = Seen { term, vote, commit, led: leads };
        Ok(())
    }
}

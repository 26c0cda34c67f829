//! A member that contradicts its leader or the majority: it says so, serves nothing more, and is rebuilt.
//!
//! What is committed is never taken back, so a leader's log and a member's committed one agree wherever they meet.
//! Where they do not, one of the two has lost what it had promised (a log that was cut, a disk that came back as it was
//! long ago). The leader has the word of a majority: the member gives way, loudly, for the entries it holds were
//! acknowledged to somebody.
//!
//! Always: a member gives way only to a leader of its own term or a later one (mutant `ContradictionIgnored`).
//! Not here: members whose applied states differ (chain.rs), what a replica does when it is given up
//! (`Replica::damage`), entries that cannot be applied (quarantine.rs).

use crate::context::LaneContext;
use crate::replica::Replica;
use crate::wire::Payload;
use base_types::mutant::{planted, Mutant};
use base_types::{LogIndex, NodeId, ReplicaId, Term};
use core_raft::{Group, Message, MessageKind};

impl Replica {
    /// Whether the message of its leader contradicts what is committed here; then this replica is given up.
    pub fn gives_way_to_its_leader(&mut self, lane: &mut LaneContext, message: &Message) -> bool {
        if self.blank || self.incoming.is_some() || planted(Mutant::ContradictionIgnored) {
            return false;
        }
        let Some(group) = self.group.as_mut() else { return false };
        let Some((index, own, other)) = group.contradiction(message) else { return false };
        self.give_way(
            lane,
            format!("its committed entry {index} is of term {own}, its leader's of term {other}: a log was cut or is an old one"),
        );
        true
    }

    /// A leader hears that a follower holds more than the leader has ever had.
    pub fn send_contradiction(&self, lane: &mut LaneContext, node: NodeId, message: &Message) {
        let Some(group) = self.group.as_ref().filter(|_| self.leading == Some(message.term())) else { return };
        let beyond = message.kind() == MessageKind::AppendResponse
            && !message.is_reject()
            && message.index() > group.last_index();
        if beyond && !planted(Mutant::ContradictionIgnored) {
            let (to, term, index) = (message.from(), message.term(), group.last_index());
            self.send(lane, node, &Payload::Contradicts { to, term, index });
        }
    }

    /// Its leader's log ended here, in this term.
    pub fn on_contradicts(&mut self, lane: &mut LaneContext, to: ReplicaId, term: Term, index: LogIndex) {
        let commit = self.group.as_ref().map_or(LogIndex(0), Group::commit);
        // A leader's log only grows: one that ended there in this term has less than what was committed before it led.
        let concerns = to == self.spec.replica && term == self.term() && !self.is_leader() && !self.blank;
        if concerns && commit > index {
            self.give_way(
                lane,
                format!("it holds committed entries up to {commit}, and its leader's log ended at {index}"),
            );
        }
    }

    /// It is given up, loudly.
    pub fn give_way(&mut self, lane: &mut LaneContext, why: String) {
        lane.statistics.contradictions += 1;
        let text = "it contradicts the majority and is rebuilt from it; acknowledged writes may be lost: compare with a backup";
        self.rebuild(lane, format!("{why}; {text}"));
    }
}

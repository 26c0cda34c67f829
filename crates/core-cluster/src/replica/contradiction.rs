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

use crate::wire::Payload;
use base_types::mutant::{planted, Mutant};
use base_types::{LogIndex, Term};
use core_raft::{Group, Message, MessageKind};

/// Why the message of its leader contradicts what is committed here; then this replica is given up.
pub fn with_leader(group: &mut Group, message: &Message) -> Option<String> {
    let (index, own, other) = group.contradiction(message).filter(|_| !planted(Mutant::ContradictionIgnored))?;
    Some(format!(
        "its committed entry {index} is of term {own}, its leader's of term {other}: a log was cut or is an old one"
    ))
}

/// A leader hears that a follower holds more than the leader has ever had: what it says to that.
pub fn with_follower(group: &Group, leading: Option<Term>, message: &Message) -> Option<Payload> {
    let beyond = leading == Some(message.term())
        && message.kind() == MessageKind::AppendResponse
        && !message.is_reject()
        && message.index() > group.last_index();
    (beyond && !planted(Mutant::ContradictionIgnored)).then(|| {
        let (to, term, index) = (message.from(), message.term(), group.last_index());
        Payload::Contradicts { to, term, index }
    })
}

/// Its leader's log ended here: why that contradicts what is committed here.
pub fn with_log_end(commit: LogIndex, index: LogIndex) -> Option<String> {
    // A leader's log only grows: one that ended there in this term has less than what was committed before it led.
    (commit > index)
        .then(|| format!("it holds committed entries up to {commit}, and its leader's log ended at {index}"))
}

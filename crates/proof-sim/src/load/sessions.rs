//! Clients whose eventual reads include what they have seen: each read names the position that the client has reached,
//! and never goes back.
//!
//! Always: only plain clusters: the keys of others move, and a position of another cluster says nothing.
//! Not here: what is right of the values (proof-check).

use crate::random::Random;
use crate::world::World;
use base_types::action::{Level, ReadAfter};
use base_types::{OrderedAt, ReadConsistency, WriteConsistency};
use proof_check::{Place, Record, Violation};
use std::collections::BTreeMap;

/// What one client's session has seen.
#[derive(Default)]
pub(super) struct Session {
    on: bool,
    seen: BTreeMap<Place, ReadAfter>,
}

impl Session {
    /// Whether a client keeps one is its own draw.
    pub fn new(seed: u64, client: usize, per_mille: u64) -> Session {
        let on = per_mille > 0 && Random::stream(seed, &format!("session {client}")).per_mille(per_mille);
        Session { on, seen: BTreeMap::new() }
    }

    /// What an eventual read is to hold.
    pub fn position(&self, record: &Record) -> Option<ReadAfter> {
        let eventual = record.level == Level::Read(ReadConsistency::Eventual);
        self.seen.get(&record.place).copied().filter(|_| self.on && eventual)
    }

    /// An operation told its place. What was acknowledged early may be lost, place and all.
    pub fn saw(&mut self, world: &mut World, record: &Record, after: Option<ReadAfter>, at: OrderedAt) {
        let sure = match record.level {
            Level::Read(_) => true,
            Level::Write(level) => level >= WriteConsistency::Strong,
        };
        if !self.on || !sure {
            return;
        }
        if let Some(after) = after {
            world.probe("read_after_a_position");
            if (after.cluster, after.generation) == (at.cluster, at.generation) && !after.is_met(&at) {
                let message = format!("{:?} was to hold {after:?} and was answered at {at:?}", record.operation);
                world.violate(Violation::new("session", message, vec![record.id]));
            }
        }
        let now = ReadAfter { cluster: at.cluster, generation: at.generation, index: at.index };
        let held = self.seen.entry(record.place).or_insert(now);
        if (held.cluster, held.generation) != (now.cluster, now.generation) || held.index < now.index {
            *held = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::opener;
    use crate::plan::Layer;
    use base_types::{ClusterId, Generation, LogIndex, RequestId, Term};
    use proof_check::{Ending, Operation};

    #[test]
    fn an_eventual_read_from_before_what_was_seen_is_a_violation() {
        let plan = crate::swarm::draw(1, Layer::Core);
        let opener = opener(&plan);
        let mut world = World::new(plan, opener);
        let record = |level| Record {
            id: 1,
            client: 0,
            place: Place(0),
            operation: Operation::Get { key: bytes::Bytes::from_static(b"k") },
            request_id: RequestId(1),
            level,
            invoked: 0,
            returned: Some(1),
            ending: Ending::Ok,
            observed: None,
            at: None,
        };
        let at = |index| OrderedAt {
            cluster: ClusterId(7),
            generation: Generation(1),
            term: Term(2),
            index: LogIndex(index),
            position: 0,
        };
        let mut session = Session { on: true, seen: BTreeMap::new() };
        let (strong, eventual) =
            (record(Level::Read(ReadConsistency::Strong)), record(Level::Read(ReadConsistency::Eventual)));
        session.saw(&mut world, &strong, None, at(9));
        // What was acknowledged early may be lost with its place.
        session.saw(&mut world, &record(Level::Write(WriteConsistency::Hopeful)), None, at(50));
        let after = session.position(&eventual);
        assert_eq!(after.map(|after| after.index), Some(LogIndex(9)));
        assert_eq!(session.position(&strong), None, "strong reads need none");
        session.saw(&mut world, &eventual, after, at(9));
        assert!(world.violations.is_empty());
        session.saw(&mut world, &eventual, after, at(8));
        assert_eq!(world.violations.first().map(|violation| violation.check), Some("session"));
    }
}

//! What holds inside the world at every moment, fed by whoever can look inside: at most one leader
//! in a term, equal state at an equal applied index, one cluster for a name.
//!
//! Not here: what clients see (the history checkers).

use crate::Violation;
use base_types::{ClusterId, Generation, LogIndex, NodeId, Term};
use std::collections::BTreeMap;

/// Who led which cluster in which term.
#[derive(Default, Debug)]
pub struct LeaderBook {
    leaders: BTreeMap<(ClusterId, Generation, Term), NodeId>,
}

impl LeaderBook {
    /// A node says it leads.
    pub fn note(&mut self, cluster: ClusterId, generation: Generation, term: Term, node: NodeId) -> Option<Violation> {
        let first = *self.leaders.entry((cluster, generation, term)).or_insert(node);
        (first != node).then(|| {
            Violation::new(
                "leaders",
                format!("{first:?} and {node:?} both led {cluster:?} {generation:?} in {term:?}"),
                vec![],
            )
        })
    }

    /// How many terms had a leader.
    pub fn terms(&self) -> usize {
        self.leaders.len()
    }
}

/// The state of replicas, by applied index.
#[derive(Default, Debug)]
pub struct StateBook {
    hashes: BTreeMap<(ClusterId, Generation, LogIndex), (NodeId, u64)>,
}

impl StateBook {
    /// A replica has this state after applying up to `applied`.
    pub fn note(
        &mut self,
        cluster: ClusterId,
        generation: Generation,
        applied: LogIndex,
        node: NodeId,
        hash: u64,
    ) -> Option<Violation> {
        let (first, expected) = *self.hashes.entry((cluster, generation, applied)).or_insert((node, hash));
        (expected != hash).then(|| {
            let message = format!("{cluster:?} {generation:?} at {applied:?}: {first:?} has state {expected:016x}, {node:?} has {hash:016x}");
            Violation::new("states", message, vec![])
        })
    }

    /// How many (cluster, index) pairs were seen.
    pub fn points(&self) -> usize {
        self.hashes.len()
    }
}

/// Names are unique: what clusters that are led go by. Two of one name may be seen for a moment, while the
/// earlier one's members have not yet heard of its end; the message says which.
pub fn named_twice<'a>(led: impl Iterator<Item = (&'a str, ClusterId)>) -> Option<String> {
    let mut names: BTreeMap<&str, ClusterId> = BTreeMap::new();
    for (name, cluster) in led {
        let first = *names.entry(name).or_insert(cluster);
        if first != cluster {
            return Some(format!("{first:?} and {cluster:?} both go by the name {name}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_two_clusters_of_one_name() {
        let led = |list: &[(&'static str, u64)]| {
            named_twice(list.iter().map(|(name, cluster)| (*name, ClusterId(*cluster))).collect::<Vec<_>>().into_iter())
        };
        // A leader and the one it deposed name the same cluster.
        assert_eq!(led(&[("a", 1), ("b", 2), ("a", 1)]), None);
        assert!(led(&[("a", 1), ("b", 2), ("a", 3)]).is_some());
    }

    #[test]
    fn rejects_two_leaders_and_two_states() {
        let mut leaders = LeaderBook::default();
        let (cluster, generation) = (ClusterId(1), Generation(1));
        assert_eq!(leaders.note(cluster, generation, Term(1), NodeId(1)), None);
        assert_eq!(leaders.note(cluster, generation, Term(2), NodeId(2)), None);
        assert!(leaders.note(cluster, generation, Term(1), NodeId(2)).is_some());
        let mut states = StateBook::default();
        assert_eq!(states.note(cluster, generation, LogIndex(5), NodeId(1), 7), None);
        assert_eq!(states.note(cluster, generation, LogIndex(5), NodeId(2), 7), None);
        assert!(states.note(cluster, generation, LogIndex(5), NodeId(3), 8).is_some());
    }
}

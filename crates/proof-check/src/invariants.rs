//! What holds inside the world at every moment, fed by a caller that can look inside: at most one leader in a term,
//! equal state at an equal applied index, one cluster for a name, one owner for a partition and epoch.
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

    /// The node that led in all terms from one to another; `None` where it is not known of each, or not one node.
    pub fn sole_leader(&self, cluster: ClusterId, generation: Generation, from: Term, to: Term) -> Option<NodeId> {
        let terms = (cluster, generation, from)..=(cluster, generation, to);
        let led: Vec<NodeId> = self.leaders.range(terms).map(|(_, node)| *node).collect();
        let first = *led.first()?;
        let whole = led.len() as u64 == (to.0 - from.0).saturating_add(1);
        (whole && led.iter().all(|node| *node == first)).then_some(first)
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

/// Which cluster served which partition of a keyspace, at which epoch.
#[derive(Default, Debug)]
pub struct OwnerBook {
    owners: BTreeMap<(String, u16, u64), String>,
}

impl OwnerBook {
    /// A replica of the cluster serves a partition (keys of it) at an epoch. An epoch belongs to one cluster, for
    /// good: so it does not matter that replicas are seen at different times and may lag.
    pub fn note(&mut self, cluster: &str, partition: u16, epoch: u64) -> Option<Violation> {
        // `metadata@ks-<keyspace>-<number>`
        let keyspace = cluster.rsplit_once('-').map_or(cluster, |(keyspace, _)| keyspace);
        let place = (keyspace.to_string(), partition, epoch);
        let first = self.owners.entry(place).or_insert_with(|| cluster.to_string());
        (first != cluster).then(|| {
            let message = format!("{first} and {cluster} both served partition {partition} at epoch {epoch}");
            Violation::new("epochs", message, vec![])
        })
    }

    /// How many partitions and epochs were seen.
    pub fn seen(&self) -> usize {
        self.owners.len()
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

/// A cluster's own time, by applied index.
#[derive(Default, Debug)]
pub struct TimeBook {
    /// By index. Replicas are seen near their end: most notes are found or added there.
    times: BTreeMap<(ClusterId, Generation), Vec<(LogIndex, u64)>>,
}

impl TimeBook {
    /// A replica has this time after applying up to `applied`: not less than earlier, nor more than later.
    pub fn note(
        &mut self,
        cluster: ClusterId,
        generation: Generation,
        applied: LogIndex,
        time_ms: u64,
    ) -> Option<Violation> {
        let times = self.times.entry((cluster, generation)).or_default();
        let place = times.partition_point(|(index, _)| *index < applied);
        let known = times.get(place).filter(|(index, _)| *index == applied).map(|(_, time)| *time);
        let before = known.or_else(|| place.checked_sub(1).map(|before| times[before].1));
        let behind = times.get(place).map(|(_, time)| *time);
        match known {
            Some(_) => times[place].1 = time_ms,
            None => times.insert(place, (applied, time_ms)),
        }
        let steps_back = before.is_some_and(|before| before > time_ms) || behind.is_some_and(|behind| behind < time_ms);
        steps_back.then(|| {
            let message = format!("the time of {cluster:?} {generation:?} steps back: {time_ms} ms at {applied:?}, between {before:?} and {behind:?}");
            Violation::new("time", message, vec![])
        })
    }
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
    fn rejects_a_time_that_steps_back_and_knows_sole_leaders() {
        let (cluster, generation) = (ClusterId(1), Generation(1));
        let mut times = TimeBook::default();
        assert_eq!(times.note(cluster, generation, LogIndex(5), 100), None);
        assert_eq!(times.note(cluster, generation, LogIndex(9), 100), None);
        assert_eq!(times.note(ClusterId(2), generation, LogIndex(9), 1), None);
        assert!(times.note(cluster, generation, LogIndex(7), 101).is_some());
        assert!(times.note(cluster, generation, LogIndex(10), 99).is_some());
        let mut leaders = LeaderBook::default();
        for (term, node) in [(1, 4), (2, 4), (4, 4), (5, 6)] {
            assert_eq!(leaders.note(cluster, generation, Term(term), NodeId(node)), None);
        }
        assert_eq!(leaders.sole_leader(cluster, generation, Term(1), Term(2)), Some(NodeId(4)));
        assert_eq!(leaders.sole_leader(cluster, generation, Term(1), Term(4)), None);
        assert_eq!(leaders.sole_leader(cluster, generation, Term(4), Term(5)), None);
    }

    #[test]
    fn rejects_two_owners_of_one_partition_and_epoch() {
        let mut owners = OwnerBook::default();
        for (cluster, partition, epoch) in [
            ("metadata@ks-a-b-0", 3, 1),
            // Another replica of it, another epoch, another partition, another keyspace.
            ("metadata@ks-a-b-0", 3, 1),
            ("metadata@ks-a-b-1", 3, 2),
            ("metadata@ks-a-b-1", 4, 1),
            ("metadata@ks-a-1", 3, 1),
            ("metadata@ks-a-b-0", 3, 3),
        ] {
            assert_eq!(owners.note(cluster, partition, epoch), None);
        }
        assert_eq!(owners.seen(), 5);
        assert_eq!(owners.note("metadata@ks-a-b-2", 3, 2).map(|violation| violation.check), Some("epochs"));
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

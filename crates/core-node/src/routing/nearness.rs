//! Which member answers a read that any member may answer.
//!
//! ```text
//!   members that are up ─▶ the nearest by labels: this node, its chassis, rack, az, region, anywhere
//!                        ─▶ of these, those that answered about as soon as the quickest ─▶ in turn
//! ```
//!
//! Always: a member that was never asked, or not lately, counts as quick, so that it is measured anew; times are kept
//! of at most `MEASURED_MAX` nodes. Held by: `unknown_and_forgotten_nodes_are_asked`, `what_is_kept_is_bounded`.
//! Not here: strong reads and writes (router.rs), whether a node is up (context/known_nodes.rs).

use base_types::{NodeId, Tick};
use core::time::Duration;
use core_placement::Labels;
use std::collections::BTreeMap;

/// The most nodes whose times are kept.
const MEASURED_MAX: usize = 1024;
/// How long a time counts.
const MEASURED_FOR: Duration = Duration::from_secs(10);
/// A time takes this part of a new one: an eighth, so that one slow answer does not drive all reads elsewhere.
const PART_OF_NEW: u32 = 8;
/// Members count as equally quick up to this many times the quickest one's time, and this much more.
const AS_QUICK_TIMES: u32 = 2;
const AS_QUICK_MORE: Duration = Duration::from_millis(1);

/// How soon a node answered lately.
#[derive(Clone, Copy)]
struct Measured {
    took: Duration,
    at: Tick,
}

/// What is known of how soon nodes answer.
#[derive(Default)]
pub struct Nearness {
    measured: BTreeMap<NodeId, Measured>,
    /// Counts choices, so that equally near members are asked in turn.
    choices: usize,
}

/// How many levels of the world lie between two places: 0 within a chassis, 4 between regions.
fn levels_apart(one: &Labels, other: &Labels) -> u8 {
    let levels =
        [(&one.region, &other.region), (&one.az, &other.az), (&one.rack, &other.rack), (&one.chassis, &other.chassis)];
    let shared = levels.iter().take_while(|(one, other)| one == other).count();
    (levels.len() - shared) as u8
}

/// The distance of a member: smaller is nearer, and what is down is farthest. `labels`: `None` where the map does not know it.
pub fn distance(here: &Labels, own: bool, up: bool, labels: Option<&Labels>) -> (bool, bool, u8) {
    (!up, !own, labels.map_or(u8::MAX, |labels| levels_apart(here, labels)))
}

impl Nearness {
    /// A node answered a read that any member may answer, or did not in this time.
    pub fn note(&mut self, now: Tick, node: NodeId, took: Duration) {
        let took = match self.lately(now, node) {
            Some(before) => before - before / PART_OF_NEW + took / PART_OF_NEW,
            None => took,
        };
        if self.measured.len() >= MEASURED_MAX && !self.measured.contains_key(&node) {
            let oldest = self.measured.iter().min_by_key(|(_, measured)| measured.at).map(|(node, _)| *node);
            oldest.map(|oldest| self.measured.remove(&oldest));
        }
        self.measured.insert(node, Measured { took, at: now });
    }

    /// One of equally near members.
    pub fn choose(&mut self, now: Tick, near: &[NodeId]) -> Option<NodeId> {
        let quickest = near.iter().filter_map(|node| self.lately(now, *node)).min();
        let bound = quickest.map_or(Duration::MAX, |took| took * AS_QUICK_TIMES + AS_QUICK_MORE);
        let quick = || near.iter().filter(|node| self.lately(now, **node).is_none_or(|took| took <= bound));
        let count = quick().count();
        let chosen = quick().nth(self.choices.checked_rem(count)?).copied();
        self.choices = self.choices.wrapping_add(1);
        chosen
    }

    fn lately(&self, now: Tick, node: NodeId) -> Option<Duration> {
        self.measured.get(&node).filter(|measured| now.since(measured.at) < MEASURED_FOR).map(|measured| measured.took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn place(path: &str) -> Labels {
        let mut words = path.split('/').map(String::from);
        let mut next = || words.next().unwrap();
        Labels { region: next(), az: next(), rack: next(), chassis: next() }
    }

    fn chosen(nearness: &mut Nearness, now: Tick, near: &[NodeId], times: usize) -> BTreeMap<NodeId, usize> {
        let mut counts = BTreeMap::new();
        for _ in 0..times {
            *counts.entry(nearness.choose(now, near).unwrap()).or_default() += 1;
        }
        counts
    }

    #[test]
    fn labels_nest() {
        let here = place("fr/1/r1/c1");
        for (path, apart) in
            [("fr/1/r1/c1", 0), ("fr/1/r1/c2", 1), ("fr/1/r2/c1", 2), ("fr/2/r1/c1", 3), ("nl/1/r1/c1", 4)]
        {
            assert_eq!(levels_apart(&here, &place(path)), apart, "{path}");
        }
        let near = distance(&here, false, true, Some(&place("fr/1/r1/c1")));
        assert!(distance(&here, true, true, Some(&here)) < near, "this node itself is nearest");
        assert!(near < distance(&here, false, true, None), "a node that the map does not know is far");
        assert!(
            distance(&here, false, true, None) < distance(&here, true, false, Some(&here)),
            "and one that is down farther"
        );
    }

    #[test]
    fn equally_quick_nodes_are_asked_in_turn_and_a_slow_one_is_not() {
        let (mut nearness, now) = (Nearness::default(), Tick(0));
        let near = [NodeId(1), NodeId(2), NodeId(3)];
        assert!(chosen(&mut nearness, now, &near, 300).values().all(|count| *count == 100));
        for (node, took) in [(1, 4 * MS), (2, 6 * MS), (3, 40 * MS)] {
            nearness.note(now, NodeId(node), took);
        }
        assert_eq!(chosen(&mut nearness, now, &near, 300), BTreeMap::from([(NodeId(1), 150), (NodeId(2), 150)]));
        // Under load the first one slows down; reads leave it once that is more than a moment's noise.
        nearness.note(now, NodeId(1), 60 * MS);
        assert_eq!(chosen(&mut nearness, now, &near, 300).len(), 2, "one slow answer is noise: 11 ms against 6");
        for _ in 0..10 {
            nearness.note(now, NodeId(1), 80 * MS);
        }
        assert_eq!(chosen(&mut nearness, now, &near, 300), BTreeMap::from([(NodeId(2), 300)]));
    }

    #[test]
    fn unknown_and_forgotten_nodes_are_asked() {
        let (mut nearness, now) = (Nearness::default(), Tick(0));
        let near = [NodeId(1), NodeId(2)];
        nearness.note(now, NodeId(1), MS);
        assert_eq!(chosen(&mut nearness, now, &near, 10).len(), 2, "nobody knows how quick 2 is");
        nearness.note(now, NodeId(2), 100 * MS);
        assert_eq!(chosen(&mut nearness, now, &near, 10).len(), 1);
        assert_eq!(chosen(&mut nearness, now + MEASURED_FOR, &near, 10).len(), 2, "it may have become quick");
        assert_eq!(nearness.choose(now, &[]), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut nearness = Nearness::default();
        for number in 0..2 * MEASURED_MAX as u64 {
            nearness.note(Tick(0) + MS * number as u32, NodeId(number), MS);
        }
        assert_eq!(nearness.measured.len(), MEASURED_MAX);
        assert!(!nearness.measured.contains_key(&NodeId(0)), "the oldest goes");
    }
}

//! Clusters to be looked at when the turn ends: mostly one or two.
//!
//! Always: taken in order, each once, whatever the order and number of touches (`each_comes_once_and_in_order`). A cluster
//! that is touched again while a turn ends belongs to the next turn.
//! Not here: what is looked at (`lane.rs`).

use base_types::ClusterId;

/// Touches of a turn after which those of one cluster are made one: so the list is never longer than this and the
/// clusters of a lane.
const TOUCHES_MAX: usize = 1_024;

/// The set, as a list whose memory is used again.
#[derive(Default)]
pub struct DirtySet {
    list: Vec<ClusterId>,
    /// The memory of the turn before.
    spare: Vec<ClusterId>,
    /// How long the list may grow before it is sorted.
    tidy_at: usize,
}

impl DirtySet {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn insert(&mut self, cluster: ClusterId) {
        if self.list.last() == Some(&cluster) {
            return;
        }
        self.list.push(cluster);
        if self.list.len() > self.tidy_at.max(TOUCHES_MAX) {
            self.tidy();
            self.tidy_at = 2 * self.list.len();
        }
    }

    pub fn remove(&mut self, cluster: ClusterId) {
        self.list.retain(|touched| *touched != cluster);
    }

    /// All of them, in order; touches from now on are others.
    pub fn take(&mut self) -> Vec<ClusterId> {
        self.tidy();
        self.tidy_at = 0;
        std::mem::replace(&mut self.list, std::mem::take(&mut self.spare))
    }

    /// The emptied list of `take`: its memory is used again.
    pub fn give_back(&mut self, list: Vec<ClusterId>) {
        if list.capacity() <= TOUCHES_MAX {
            self.spare = list;
        }
    }

    fn tidy(&mut self) {
        self.list.sort_unstable();
        self.list.dedup();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_once_and_in_order() {
        let mut touched = DirtySet::default();
        for round in 0..3 {
            for number in (0..4_000u64).rev() {
                touched.insert(ClusterId(number % 7));
            }
            assert!(touched.list.len() <= TOUCHES_MAX + 1);
            touched.remove(ClusterId(3));
            let mut taken = touched.take();
            assert_eq!(taken, [0, 1, 2, 4, 5, 6].map(ClusterId), "round {round}");
            touched.insert(ClusterId(9));
            taken.clear();
            touched.give_back(taken);
            assert_eq!(touched.take(), [ClusterId(9)]);
            assert!(touched.is_empty());
        }
    }
}

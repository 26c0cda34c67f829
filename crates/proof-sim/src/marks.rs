//! High-water marks: how long every queue and table of the cores became in a run, beside its bound;
//! and how often the paths were walked that a good run must walk.
//!
//! Always: a length above its bound is a violation at the turn that saw it.
//! Not here: the bounds (the parts name their own), when they are looked at (`world`).

use base_types::sizes::{Sizes, Stay};
use core_cluster::api::LaneStatistics;
use std::collections::BTreeMap;

/// The longest a queue became.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    pub high: u64,
    /// The bound it was measured against then.
    pub bound: u64,
    /// Whether it must empty when nothing is asked any more.
    pub passing: bool,
}

/// The marks of a run, or of many.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marks(BTreeMap<&'static str, Mark>);

impl Marks {
    /// Takes a look; says what is beyond its bound.
    pub fn note(&mut self, sizes: &Sizes) -> Vec<String> {
        let mut beyond = Vec::new();
        for (name, size) in sizes.iter() {
            if size.length > size.bound {
                beyond.push(format!("{name}: {} beyond its bound {}", size.length, size.bound));
            }
            self.raise(name, Mark { high: size.length, bound: size.bound, passing: size.stay == Stay::Passing });
        }
        beyond
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Marks) {
        other.0.iter().for_each(|(name, mark)| self.raise(name, *mark));
    }

    /// By name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Mark)> + '_ {
        self.0.iter().map(|(name, mark)| (*name, *mark))
    }

    fn raise(&mut self, name: &'static str, mark: Mark) {
        let kept = self.0.entry(name).or_insert(mark);
        if mark.high > kept.high {
            *kept = mark;
        }
    }
}

/// A path of the core that a large run must have walked, and its counter.
type Path = (&'static str, fn(&LaneStatistics) -> u64);

/// Paths every layer walks.
const PATHS: &[Path] = &[
    ("elections won", |counted| counted.elections_won),
    ("elections lost", |counted| counted.elections_started.saturating_sub(counted.elections_won)),
    ("strong reads by lease", |counted| counted.reads_lease),
    ("strong reads by a round", |counted| counted.reads_index),
    ("eventual reads", |counted| counted.reads_eventual),
    ("retries answered from memory", |counted| counted.duplicates_suppressed),
    ("snapshots installed", |counted| counted.snapshots_installed),
    ("flushes", |counted| counted.flushes),
];

/// Paths that only a disk that rots leads to: not on the lane layer, where nobody would heal it.
const CORE_PATHS: &[Path] = &[
    ("entries mended from peers", |counted| counted.entries_repaired),
    ("pairs mended from peers", |counted| counted.pairs_repaired),
];

/// How often each path was walked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Walked(BTreeMap<&'static str, u64>);

impl Walked {
    /// Adds what one life of a core counted.
    pub fn add_life(&mut self, counted: &LaneStatistics) {
        for (name, count) in PATHS.iter().chain(CORE_PATHS) {
            *self.0.entry(name).or_default() += count(counted);
        }
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Walked) {
        for (name, count) in &other.0 {
            *self.0.entry(name).or_default() += count;
        }
    }

    /// By name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(name, count)| (*name, *count))
    }

    /// Paths never walked.
    pub fn dead(&self, whole_core: bool) -> Vec<&'static str> {
        let more = if whole_core { CORE_PATHS } else { &[] };
        let names = PATHS.iter().chain(more).map(|(name, _)| *name);
        names.filter(|name| self.0.get(name).copied().unwrap_or(0) == 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_its_bound_is_told_and_the_highest_is_kept() {
        let mut marks = Marks::default();
        for length in [3, 9, 4] {
            let mut sizes = Sizes::default();
            sizes.passing("letters", length, 8);
            assert_eq!(marks.note(&sizes).len(), usize::from(length > 8));
        }
        assert_eq!(marks.iter().collect::<Vec<_>>(), [("letters", Mark { high: 9, bound: 8, passing: true })]);
    }

    #[test]
    fn a_path_never_walked_is_dead() {
        let mut walked = Walked::default();
        assert_eq!(walked.dead(false).len(), PATHS.len());
        walked.add_life(&LaneStatistics { flushes: 1, ..LaneStatistics::default() });
        assert!(!walked.dead(true).contains(&"flushes"));
        assert!(walked.dead(true).contains(&"entries mended from peers"));
    }
}

//! Pages of changes put together to whole revisions.
//!
//! Always: a page that ends within a commit is held back from there until the rest has come; a commit is bounded (10,000 changes,
//! 16 MiB), so what is held back is too. Pages that are older than what was seen give nothing.

use super::revision::Revision;
use base_types::mutant::{planted, Mutant};
use base_types::versioned::{Change, Position};

/// Puts pages together.
pub(super) struct Pages {
    /// Where the next page begins.
    after: Position,
    /// Changes of the commit that `after` is within.
    held: Vec<Change>,
    before: bool,
    /// All up to this stamp was given.
    given: u64,
}

/// What a page completed.
#[derive(Debug)]
pub(super) struct Whole {
    /// The revisions are all after this stamp …
    pub after: u64,
    pub revisions: Vec<Revision>,
    /// … up to this one.
    pub up_to: u64,
}

impl Pages {
    /// Of changes after a stamp, with what keys were `before` or without.
    pub fn after(stamp: u64, before: bool) -> Pages {
        Pages { after: Position::end_of(stamp), held: Vec::new(), before, given: stamp }
    }

    pub fn next(&self) -> Position {
        self.after
    }

    pub fn before(&self) -> bool {
        self.before
    }

    /// Takes in a page that was read after [`Self::next`].
    pub fn take(&mut self, changes: Vec<Change>, reached: Position) -> Whole {
        let seen = self.after;
        if reached >= seen {
            self.held.extend(changes.into_iter().filter(|change| change.at > seen && change.at <= reached));
            self.after = reached;
        }
        let whole = self.after.sub == u32::MAX || planted(Mutant::WatchRevisionSplit);
        let complete = |stamp: u64| stamp < self.after.stamp || whole;
        let cut = self.held.partition_point(|change| complete(change.at.stamp));
        let rest = self.held.split_off(cut);
        let done = std::mem::replace(&mut self.held, rest);
        let up_to = if self.after.sub == u32::MAX { self.after.stamp } else { self.after.stamp.saturating_sub(1) };
        let after = self.given;
        self.given = after.max(up_to);
        Whole { after, revisions: revisions(done, self.before), up_to: self.given }
    }
}

fn revisions(changes: Vec<Change>, before: bool) -> Vec<Revision> {
    let mut found: Vec<Vec<Change>> = Vec::new();
    for change in changes {
        match found.last_mut().filter(|last| last.first().is_some_and(|first| first.at.stamp == change.at.stamp)) {
            Some(last) => last.push(change),
            None => found.push(vec![change]),
        }
    }
    let stamp = |changes: &Vec<Change>| changes.first().map_or(0, |first| first.at.stamp);
    found.into_iter().map(|changes| Revision::new(stamp(&changes), changes, before)).collect()
}

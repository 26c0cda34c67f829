//! How long the queues, buffers and tables of a part are, each beside the bound it promises.
//!
//! By design: one line for a name; where many parts note the same name, the longest counts, so a bound
//! is that of one of them.
//! Not here: who looks (proof-sim after every few turns), what happens at a bound (the part refuses).

use alloc::vec::Vec;

/// Whether a queue empties when nothing is asked of the world any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stay {
    /// Work under way: it ends.
    Passing,
    /// Knowledge: it stays.
    Lasting,
}

/// One queue, buffer or table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// How many entries (or bytes, where the name says so) it holds.
    pub length: u64,
    /// The most it may hold.
    pub bound: u64,
    /// Whether it empties.
    pub stay: Stay,
}

/// The sizes of a part. Few names, noted often, by many parts in one order: a list, searched from behind
/// the one noted last, by where the name lies in memory first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    list: Vec<(&'static str, Size)>,
    next: usize,
}

impl Sizes {
    /// Notes work under way.
    pub fn passing(&mut self, name: &'static str, length: usize, bound: usize) {
        self.note(name, Size { length: length as u64, bound: bound as u64, stay: Stay::Passing });
    }

    /// Notes knowledge.
    pub fn lasting(&mut self, name: &'static str, length: usize, bound: usize) {
        self.note(name, Size { length: length as u64, bound: bound as u64, stay: Stay::Lasting });
    }

    /// Notes a size; the longest of one name is kept.
    pub fn note(&mut self, name: &'static str, size: Size) {
        let (before, behind) = self.list.split_at(self.next.min(self.list.len()));
        let lies = |(known, _): &(&'static str, Size)| core::ptr::eq(*known, name);
        let found = behind.iter().position(lies).map(|place| before.len() + place);
        let found = found.or_else(|| before.iter().position(lies));
        let Some(place) = found.or_else(|| self.list.iter().position(|(known, _)| *known == name)) else {
            return self.list.push((name, size));
        };
        self.next = place + 1;
        let kept = &mut self.list[place].1;
        if (size.length, size.bound) > (kept.length, kept.bound) {
            *kept = size;
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Size)> + '_ {
        self.list.iter().map(|(name, size)| (*name, *size))
    }
}

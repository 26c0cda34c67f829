//! How long the queues, buffers and tables of a part are, each beside the bound it promises.
//!
//! Always: one line for a name; where many parts note the same name, the longest counts, so a bound
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

/// The sizes of a part. Few names, noted often: a list, searched by where the name lies in memory first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sizes(Vec<(&'static str, Size)>);

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
        let same = self.0.iter().position(|(known, _)| core::ptr::eq(*known, name));
        let Some(place) = same.or_else(|| self.0.iter().position(|(known, _)| *known == name)) else {
            return self.0.push((name, size));
        };
        let kept = &mut self.0[place].1;
        if (size.length, size.bound) > (kept.length, kept.bound) {
            *kept = size;
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Size)> + '_ {
        self.0.iter().map(|(name, size)| (*name, *size))
    }
}

//! A space with changes over it that nobody else sees: what scripts run on, tried or committed.
//!
//! By design: a read sees the changes; the space below is never written. Rows in memory are bounded by the caller, who asks [`Overlay::rows`].

use crate::contract::{Keep, SpaceRead, SpaceWrite};
use base_engine::{Direction, EngineError, KeyRange, Visit};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::{Bound, ControlFlow};

/// Changes over a space; `None`: the row is removed.
pub(super) struct Overlay<'s> {
    below: &'s dyn SpaceRead,
    changes: BTreeMap<Bytes, Option<Bytes>>,
}

impl<'s> Overlay<'s> {
    pub fn new(below: &'s dyn SpaceRead) -> Overlay<'s> {
        Overlay { below, changes: BTreeMap::new() }
    }

    /// How many rows differ.
    pub fn rows(&self) -> usize {
        self.changes.len()
    }

    /// What differs, by key.
    pub fn into_changes(self) -> BTreeMap<Bytes, Option<Bytes>> {
        self.changes
    }
}

impl SpaceRead for Overlay<'_> {
    fn keep(&self) -> Keep {
        self.below.keep()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        match self.changes.get(key) {
            Some(changed) => Ok(changed.clone()),
            None => self.below.get(key),
        }
    }

    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        if range.end.is_some_and(|end| end <= range.start) {
            return Ok(());
        }
        let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
        let changed = self.changes.range::<[u8], _>((Bound::Included(range.start), end));
        match direction {
            Direction::Forward => self.merge(range, direction, changed.peekable(), visit),
            Direction::Backward => self.merge(range, direction, changed.rev().peekable(), visit),
        }
    }
}

impl Overlay<'_> {
    fn merge<'c>(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
        mut changed: Peekable<impl Iterator<Item = (&'c Bytes, &'c Option<Bytes>)>>,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        let before = |one: &[u8], other: &[u8]| match direction {
            Direction::Forward => one < other,
            Direction::Backward => one > other,
        };
        let mut ended = false;
        self.below.range(range, direction, &mut |key, value| {
            while let Some((own, row)) = changed.next_if(|(own, _)| before(own, key)) {
                if row.as_ref().is_some_and(|row| visit(own, row).is_break()) {
                    ended = true;
                    return ControlFlow::Break(());
                }
            }
            let over = changed.next_if(|(own, _)| own[..] == *key);
            let flow = match over {
                None => visit(key, value),
                Some((own, Some(row))) => visit(own, row),
                Some((_, None)) => ControlFlow::Continue(()),
            };
            ended = flow.is_break();
            flow
        })?;
        while let (false, Some((own, row))) = (ended, changed.next()) {
            ended = row.as_ref().is_some_and(|row| visit(own, row).is_break());
        }
        Ok(())
    }
}

impl SpaceWrite for Overlay<'_> {
    fn put(&mut self, key: Bytes, value: Bytes) {
        self.changes.insert(key, Some(value));
    }

    fn delete(&mut self, key: Bytes) {
        self.changes.insert(key, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MapSpace;

    fn seen(space: &dyn SpaceRead, direction: Direction, most: usize) -> Vec<String> {
        let mut seen = Vec::new();
        let range = KeyRange { start: b"b", end: Some(b"y") };
        space
            .range(range, direction, &mut |key, value| {
                seen.push(format!("{}{}", String::from_utf8_lossy(key), String::from_utf8_lossy(value)));
                if seen.len() == most {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
        seen
    }

    #[test]
    fn changes_lie_over_what_is_below() {
        let row = |text: &'static str| Bytes::from_static(text.as_bytes());
        let mut below = MapSpace::default();
        for key in ["a", "b", "d", "f", "x", "z"] {
            below.put(row(key), row("0"));
        }
        let mut over = Overlay::new(&below);
        for key in ["c", "d", "w", "y"] {
            over.put(row(key), row("1"));
        }
        over.delete(row("f"));
        over.delete(row("e"));
        let forward = ["b0", "c1", "d1", "w1", "x0"];
        assert_eq!(seen(&over, Direction::Forward, 9), forward);
        assert_eq!(seen(&over, Direction::Forward, 2), forward[..2]);
        let backward: Vec<&str> = forward.into_iter().rev().collect();
        assert_eq!(seen(&over, Direction::Backward, 9), backward);
        assert_eq!(seen(&over, Direction::Backward, 2), backward[..2]);
        assert_eq!((over.get(b"f").unwrap(), over.get(b"d").unwrap(), over.rows()), (None, Some(row("1")), 6));
        over.delete(row("b"));
        over.delete(row("x"));
        assert_eq!(seen(&over, Direction::Forward, 9), ["c1", "d1", "w1"]);
        assert_eq!(below.rows.len(), 6);
    }
}

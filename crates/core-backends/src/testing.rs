//! A space on a map, for tests.

use crate::contract::{SpaceRead, SpaceWrite};
use base_engine::{Direction, EngineError, KeyRange, Visit};
use bytes::Bytes;
use std::collections::BTreeMap;

/// A space on a map.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MapSpace {
    pub rows: BTreeMap<Bytes, Bytes>,
}

impl SpaceRead for MapSpace {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        Ok(self.rows.get(key).cloned())
    }

    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        use std::ops::Bound;
        if range.end.is_some_and(|end| end <= range.start) {
            return Ok(());
        }
        let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
        let mut forward = self.rows.range::<[u8], _>((Bound::Included(range.start), end));
        loop {
            let next = if direction == Direction::Forward { forward.next() } else { forward.next_back() };
            let Some((key, value)) = next else { return Ok(()) };
            if visit(key, value).is_break() {
                return Ok(());
            }
        }
    }
}

impl SpaceWrite for MapSpace {
    fn put(&mut self, key: Bytes, value: Bytes) {
        self.rows.insert(key, value);
    }

    fn delete(&mut self, key: Bytes) {
        self.rows.remove(&key);
    }
}

/// Panics if an invariant of the backend does not hold of its rows.
#[cfg(test)]
pub(crate) fn check(kind: base_types::BackendKind, space: &dyn SpaceRead) {
    if let Err(broken) = crate::check_invariants(kind, space).unwrap() {
        panic!("{broken} ({kind})");
    }
}

//! The dumb twin an engine is compared with, and the seeded choices of the checks.
//!
//! Always: `Model::apply` is the meaning of a batch; nothing here is clever.
//! Not here: the checks.

use crate::{BatchOperation, Direction, EngineRead, KeyRange, WriteBatch};
use base_types::{LogIndex, SpaceId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Pairs as an engine gives them.
pub type Pairs = Vec<(Bytes, Bytes)>;

/// What an engine should hold.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Model {
    /// The pairs of each space.
    pub pairs: BTreeMap<SpaceId, BTreeMap<Bytes, Bytes>>,
    /// The durable index of each space that has one.
    pub durable: BTreeMap<SpaceId, LogIndex>,
}

impl Model {
    /// Does what a batch says.
    pub fn apply(&mut self, batch: &WriteBatch) {
        for operation in &batch.operations {
            match operation.clone() {
                BatchOperation::Put { space, key, value } => {
                    self.pairs.entry(space).or_default().insert(key, value);
                }
                BatchOperation::Delete { space, key } => {
                    self.pairs.entry(space).or_default().remove(&key);
                }
                BatchOperation::Durable { space, index } => {
                    self.durable.insert(space, index);
                }
            }
        }
    }

    /// Every space that holds anything.
    pub fn spaces(&self) -> Vec<SpaceId> {
        let filled = self.pairs.iter().filter(|(_, pairs)| !pairs.is_empty()).map(|(space, _)| *space);
        let all: BTreeSet<SpaceId> = filled.chain(self.durable.keys().copied()).collect();
        all.into_iter().collect()
    }

    /// The pairs of a range, in the order they should be visited.
    pub fn range(&self, space: SpaceId, range: KeyRange<'_>, direction: Direction) -> Pairs {
        let inside = |key: &Bytes| &key[..] >= range.start && range.end.is_none_or(|end| &key[..] < end);
        let all = self.pairs.get(&space).into_iter().flatten();
        let mut found: Pairs = all.filter(|(k, _)| inside(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
        if direction == Direction::Backward {
            found.reverse();
        }
        found
    }

    /// Whether a reader shows exactly this.
    pub fn matches(&self, read: &dyn EngineRead, spaces: &[SpaceId]) -> bool {
        spaces.iter().all(|space| {
            collect(read, *space, KeyRange::ALL, Direction::Forward)
                == self.range(*space, KeyRange::ALL, Direction::Forward)
                && read.durable_index(*space) == Ok(self.durable.get(space).copied().unwrap_or_default())
        })
    }

    /// Fails with a short reason where a reader does not show exactly this.
    pub fn assert_shown_by(&self, read: &dyn EngineRead, spaces: &[SpaceId], when: &str) {
        for space in spaces {
            let seen = collect(read, *space, KeyRange::ALL, Direction::Forward);
            let expected = self.range(*space, KeyRange::ALL, Direction::Forward);
            assert_eq!(seen.len(), expected.len(), "{when}: pairs of space {space}");
            let differing = seen.iter().zip(&expected).find(|(left, right)| left != right);
            assert!(
                differing.is_none(),
                "{when}: space {space} differs at key {:?}",
                differing.map(|(left, _)| &left.0)
            );
            let index = self.durable.get(space).copied().unwrap_or_default();
            assert_eq!(read.durable_index(*space), Ok(index), "{when}: durable index of space {space}");
        }
    }
}

/// All pairs of a range.
pub fn collect(read: &dyn EngineRead, space: SpaceId, range: KeyRange<'_>, direction: Direction) -> Pairs {
    let mut pairs = Vec::new();
    let visited = read.range(space, range, direction, &mut |key, value| {
        pairs.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    });
    visited.expect("the range is readable");
    pairs
}

/// A put.
pub fn put(space: SpaceId, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> BatchOperation {
    BatchOperation::Put {
        space,
        key: Bytes::copy_from_slice(key.as_ref()),
        value: Bytes::copy_from_slice(value.as_ref()),
    }
}

/// A delete.
pub fn delete(space: SpaceId, key: impl AsRef<[u8]>) -> BatchOperation {
    BatchOperation::Delete { space, key: Bytes::copy_from_slice(key.as_ref()) }
}

/// A durable index.
pub fn durable(space: SpaceId, index: u64) -> BatchOperation {
    BatchOperation::Durable { space, index: LogIndex(index) }
}

/// A batch of operations.
pub fn batch(operations: impl Into<Vec<BatchOperation>>) -> WriteBatch {
    WriteBatch { operations: operations.into() }
}

/// SplitMix64: enough for tests, the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// A key out of few, so that choices meet: made of the bytes that trip up encodings.
    pub fn key(&mut self) -> Bytes {
        const BYTES: [u8; 5] = [0x00, 0x01, b'a', 0xfe, 0xff];
        let length = self.below(5);
        (0..length).map(|_| BYTES[self.below(5) as usize]).collect::<Vec<u8>>().into()
    }

    /// A value of up to `bytes_max`, mostly small.
    pub fn value(&mut self, bytes_max: u64) -> Bytes {
        let length = if self.below(10) == 0 { self.below(bytes_max) } else { self.below(40) };
        let byte = self.draw() as u8;
        vec![byte; length as usize].into()
    }

    /// A batch over some spaces; durable indexes ascend.
    pub fn batch(&mut self, spaces: &[SpaceId], operations_max: u64, index: &mut u64) -> WriteBatch {
        let count = 1 + self.below(operations_max);
        let mut operations = Vec::new();
        for _ in 0..count {
            let space = spaces[self.below(spaces.len() as u64) as usize];
            operations.push(match self.below(10) {
                0..=5 => BatchOperation::Put { space, key: self.key(), value: self.value(6000) },
                6..=8 => BatchOperation::Delete { space, key: self.key() },
                _ => {
                    *index += 1;
                    durable(space, *index)
                }
            });
        }
        batch(operations)
    }
}

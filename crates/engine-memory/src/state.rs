//! What the memory engine holds: ordered maps, shared between engine, snapshots and images.
//!
//! Always: a space without pairs and without a durable index is not kept; `bytes_used` is the sum
//! over all pairs of key, value and `PAIR_BYTES`.
//! Not here: locks and faults of writes (`lib.rs`).

use base_engine::{BatchOperation, Direction, EngineError, KeyRange, Visit, WalkVisit, WriteBatch};
use base_types::mutant::{planted, Mutant};
use base_types::{LogIndex, SpaceId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// What a pair costs beside its bytes, roughly: two `Bytes` and its share of a tree node.
const PAIR_BYTES: u64 = 80;

#[derive(Clone, Default, Debug)]
struct Space {
    pairs: BTreeMap<Bytes, Bytes>,
    durable: LogIndex,
    /// Keys whose value reads as damaged.
    damaged: BTreeSet<Bytes>,
    /// Keys of which a flipped bit made others: that they are missing is known as fences know it, until the space is dropped.
    lost: BTreeSet<Bytes>,
}

/// All spaces at one instant.
#[derive(Clone, Default, Debug)]
pub struct State {
    spaces: BTreeMap<SpaceId, Arc<Space>>,
    bytes_used: u64,
}

fn pair_bytes(key: &[u8], value: &[u8]) -> u64 {
    PAIR_BYTES + (key.len() + value.len()) as u64
}

impl Space {
    fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.lost.is_empty() && self.durable == LogIndex(0)
    }

    /// Whether nothing is missing between two keys, the first included.
    fn prove(&self, space: SpaceId, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<(), EngineError> {
        if self.lost.is_empty() || planted(Mutant::AbsenceUnsealed) {
            return Ok(());
        }
        match self.lost.range::<[u8], _>(range).next() {
            Some(lost) => Err(EngineError::Corrupt(format!(
                "the keys around {lost:?} in space {space} cannot be proved: some key is lost; rebuild the replica"
            ))),
            None => Ok(()),
        }
    }

    /// Whether a key that is not found is not there: nothing is lost between the whole pairs around it.
    fn prove_absent(&self, space: SpaceId, key: &[u8]) -> Result<(), EngineError> {
        if self.lost.is_empty() {
            return Ok(());
        }
        let whole = |(found, _): &(&Bytes, &Bytes)| !self.damaged.contains(*found);
        let before = self.pairs.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key))).rev().find(whole);
        let behind = self.pairs.range::<[u8], _>((Bound::Excluded(key), Bound::Unbounded)).find(whole);
        let start = before.map_or(Bound::Unbounded, |(key, _)| Bound::Excluded(&key[..]));
        self.prove(space, (start, behind.map_or(Bound::Unbounded, |(key, _)| Bound::Excluded(&key[..]))))
    }

    fn check(&self, space: SpaceId, key: &[u8]) -> Result<(), EngineError> {
        if !self.damaged.is_empty() && self.damaged.contains(key) {
            return Err(EngineError::Corrupt(format!(
                "the value of key {key:?} in space {space} does not match its checksum; rebuild the replica"
            )));
        }
        Ok(())
    }
}

impl State {
    /// Bytes held, bookkeeping included.
    pub fn bytes_used(&self) -> u64 {
        self.bytes_used
    }

    /// The bytes a batch's puts would add if none of their keys were there.
    pub fn bytes_put(batch: &WriteBatch) -> u64 {
        let put = |operation: &BatchOperation| match operation {
            BatchOperation::Put { key, value, .. } => pair_bytes(key, value),
            _ => 0,
        };
        batch.operations.iter().map(put).sum()
    }

    /// Does what the batch says; returns the number of puts.
    pub fn apply(&mut self, batch: &WriteBatch) -> u64 {
        let mut puts = 0;
        for operation in &batch.operations {
            match operation {
                BatchOperation::Put { space, key, value } => {
                    puts += 1;
                    self.put(*space, key, value);
                }
                BatchOperation::Delete { space, key } => self.delete(*space, key),
                BatchOperation::Durable { space, index } => {
                    Arc::make_mut(self.spaces.entry(*space).or_default()).durable = *index;
                    self.forget_if_empty(*space);
                }
            }
        }
        puts
    }

    fn put(&mut self, id: SpaceId, key: &Bytes, value: &Bytes) {
        let space = Arc::make_mut(self.spaces.entry(id).or_default());
        space.damaged.remove(key);
        self.bytes_used += pair_bytes(key, value);
        if let Some(old) = space.pairs.insert(key.clone(), value.clone()) {
            self.bytes_used -= pair_bytes(key, &old);
        }
    }

    fn delete(&mut self, id: SpaceId, key: &Bytes) {
        let Some(space) = self.spaces.get_mut(&id).filter(|space| space.pairs.contains_key(key)) else {
            return;
        };
        let space = Arc::make_mut(space);
        space.damaged.remove(key);
        if let Some(old) = space.pairs.remove(key) {
            self.bytes_used -= pair_bytes(key, &old);
        }
        self.forget_if_empty(id);
    }

    fn forget_if_empty(&mut self, id: SpaceId) {
        if self.spaces.get(&id).is_some_and(|space| space.is_empty()) {
            self.spaces.remove(&id);
        }
    }

    /// Removes up to `limit` pairs, the durable index with the last; whether anything is left.
    pub fn drop_space(&mut self, id: SpaceId, limit: usize) -> bool {
        let Some(space) = self.spaces.get_mut(&id).map(Arc::make_mut) else {
            return false;
        };
        for _ in 0..limit {
            let Some((key, value)) = space.pairs.pop_first() else { break };
            space.damaged.remove(&key);
            self.bytes_used -= pair_bytes(&key, &value);
        }
        if space.pairs.is_empty() {
            self.spaces.remove(&id);
        }
        self.spaces.contains_key(&id)
    }

    /// The value of a key.
    pub fn get(&self, id: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let Some(space) = self.spaces.get(&id) else { return Ok(None) };
        space.check(id, key)?;
        match space.pairs.get(key) {
            Some(value) => Ok(Some(value.clone())),
            None => space.prove_absent(id, key).map(|()| None),
        }
    }

    /// Visits a range in order.
    pub fn range(
        &self,
        id: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        let Some(space) = self.spaces.get(&id) else { return Ok(()) };
        if range.end.is_some_and(|end| end <= range.start) {
            return Ok(());
        }
        let start = Bound::Included(range.start);
        let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
        let mut pairs = space.pairs.range::<[u8], _>((start, end));
        loop {
            let next = if direction == Direction::Forward { pairs.next() } else { pairs.next_back() };
            let Some((key, value)) = next else { return space.prove(id, (start, end)) };
            match direction {
                Direction::Forward => space.prove(id, (start, Bound::Excluded(key)))?,
                Direction::Backward => space.prove(id, (Bound::Excluded(key), end))?,
            }
            space.check(id, key)?;
            if visit(key, value).is_break() {
                return Ok(());
            }
        }
    }

    /// Visits a range in order; a damaged pair without its value.
    pub fn walk(&self, id: SpaceId, range: KeyRange<'_>, visit: WalkVisit<'_>) -> Result<(), EngineError> {
        let Some(space) = self.spaces.get(&id).filter(|_| range.end.is_none_or(|end| end > range.start)) else {
            return Ok(());
        };
        let (start, end) = (Bound::Included(range.start), range.end.map_or(Bound::Unbounded, Bound::Excluded));
        for (key, value) in space.pairs.range::<[u8], _>((start, end)) {
            space.prove(id, (start, Bound::Excluded(key)))?;
            let whole = !space.damaged.contains(key);
            if visit(key, whole.then_some(value)).is_break() {
                return Ok(());
            }
        }
        space.prove(id, (start, end))
    }

    /// Pairs that read as damaged.
    pub fn damaged(&self) -> Vec<(SpaceId, Bytes)> {
        let of = |(id, space): (&SpaceId, &Arc<Space>)| {
            space.damaged.iter().chain(&space.lost).map(|key| (*id, key.clone())).collect()
        };
        self.spaces.iter().flat_map(|one| -> Vec<_> { of(one) }).collect()
    }

    /// Damages the pair of a space that many places (modulo their number) behind the first; which one it was.
    pub fn damage_any(&mut self, id: SpaceId, place: usize) -> Option<Bytes> {
        let pairs = &self.spaces.get(&id)?.pairs;
        let key = pairs.keys().nth(place.checked_rem(pairs.len())?)?.clone();
        self.damage(id, &key).then_some(key)
    }

    /// Flips a bit (modulo their number) of the key that many places (modulo their number) behind the first: the pair lies under
    /// another key, its seal does not hold there, and the key is lost. Which one it was; `None` where the other is there already.
    pub fn flip_key_one_of(
        &mut self,
        id: SpaceId,
        place: usize,
        bit: usize,
        eligible: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Bytes> {
        let key = self.one_of(id, place, eligible)?;
        let value = self.spaces.get(&id)?.pairs.get(&key)?.clone();
        let mut other = key.to_vec();
        let bit = bit.checked_rem(other.len() * 8)?;
        other[bit / 8] ^= 1 << (bit % 8);
        let other = Bytes::from(other);
        let space = Arc::make_mut(self.spaces.get_mut(&id)?);
        if space.pairs.contains_key(&other) || space.damaged.contains(&key) {
            return None;
        }
        space.pairs.remove(&key);
        space.lost.insert(key.clone());
        space.damaged.insert(other.clone());
        space.pairs.insert(other, value);
        Some(key)
    }

    /// As `damage_any`, among the pairs that `eligible` picks by their key.
    pub fn damage_one_of(&mut self, id: SpaceId, place: usize, eligible: &dyn Fn(&[u8]) -> bool) -> Option<Bytes> {
        let key = self.one_of(id, place, eligible)?;
        self.damage(id, &key).then_some(key)
    }

    /// The key that many places (modulo their number) behind the first of those that `eligible` picks.
    pub fn one_of(&self, id: SpaceId, place: usize, eligible: &dyn Fn(&[u8]) -> bool) -> Option<Bytes> {
        let pairs = &self.spaces.get(&id)?.pairs;
        let count = pairs.keys().filter(|key| eligible(key)).count();
        pairs.keys().filter(|key| eligible(key)).nth(place.checked_rem(count)?).cloned()
    }

    /// The durable index of a space.
    pub fn durable_index(&self, id: SpaceId) -> LogIndex {
        self.spaces.get(&id).map_or(LogIndex(0), |space| space.durable)
    }

    /// Every space that holds anything.
    pub fn spaces(&self) -> Vec<SpaceId> {
        self.spaces.keys().copied().collect()
    }

    /// Marks a value as damaged; whether it is there.
    pub fn damage(&mut self, id: SpaceId, key: &[u8]) -> bool {
        let Some(space) = self.spaces.get_mut(&id).filter(|space| space.pairs.contains_key(key)) else {
            return false;
        };
        Arc::make_mut(space).damaged.insert(Bytes::copy_from_slice(key))
    }

    /// Flips a bit of a value; whether there was one.
    pub fn flip_bit(&mut self, id: SpaceId, key: &[u8], bit: usize) -> bool {
        let Some(space) = self.spaces.get_mut(&id) else { return false };
        let Some(value) = Arc::make_mut(space).pairs.get_mut(key).filter(|value| !value.is_empty()) else {
            return false;
        };
        let mut flipped = value.to_vec();
        let bit = bit % (flipped.len() * 8);
        flipped[bit / 8] ^= 1 << (bit % 8);
        *value = Bytes::from(flipped);
        true
    }
}

//! The engine of tests and simulation: ordered maps in memory, and the faults a simulator asks for.
//!
//! `write` is durable in the sense of the contract: [`MemoryEngine::image`] is what a disk would hold
//! now, and [`MemoryEngine::from_image`] is the machine that comes back with that disk. Dropping an
//! engine without taking its image is losing the disk.
//!
//! Always: the same calls give the same answers (no clock, no randomness, no address order); a
//! snapshot and an image cost one reference, and a write copies only the spaces it touches, and only
//! while a snapshot or an image of them lives; values are shared, never copied.
//! Held by: `an_image_stays_as_it_was`, `values_are_shared_not_copied`.
//! Not here: when things fail (proof-sim decides), persistence (engine-lmdb and its like).
#![deny(missing_docs)]
// One lock, held for moments, never across a visit; the wall this lint builds is around core-*.
#![allow(clippy::disallowed_types)]

mod state;
#[cfg(test)]
mod tests;

use base_engine::{
    Direction, Engine, EngineError, EngineRead, EngineSnapshot, EngineStatistics, KeyRange, Visit, WalkVisit,
    WriteBatch,
};
use base_types::{LogIndex, SpaceId};
use bytes::Bytes;
use state::State;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is durable: cheap to take and to clone.
#[derive(Clone, Default, Debug)]
pub struct MemoryImage {
    state: Arc<State>,
}

/// Everything behind the lock. Readers take a reference to the state and let go of the lock, so a
/// visit may itself read or write.
#[derive(Default)]
struct Inner {
    state: Arc<State>,
    next_write_error: Option<EngineError>,
    bytes_limit: u64,
    batches: u64,
    puts: u64,
}

/// The engine. One node's lane has one.
#[derive(Default)]
pub struct MemoryEngine {
    inner: Mutex<Inner>,
    /// Snapshots of an earlier epoch have expired.
    snapshot_epoch: Arc<AtomicU64>,
}

impl MemoryEngine {
    /// The name in rules.
    pub const NAME: &'static str = "memory";

    /// An empty engine.
    pub fn new() -> MemoryEngine {
        MemoryEngine::default()
    }

    /// An engine holding what another one had made durable.
    pub fn from_image(image: MemoryImage) -> MemoryEngine {
        let inner = Inner { state: image.state, ..Inner::default() };
        MemoryEngine { inner: Mutex::new(inner), snapshot_epoch: Arc::default() }
    }

    /// What is durable now. Later writes do not change it.
    pub fn image(&self) -> MemoryImage {
        MemoryImage { state: self.state() }
    }

    /// Makes the next `write` or `drop_space` fail with this error, changing nothing.
    pub fn fail_next_write(&self, error: EngineError) {
        self.lock().next_write_error = Some(error);
    }

    /// Refuses writes with `Full` that would lead beyond so many bytes; zero lifts the limit.
    /// Deletes and durable indexes are never refused.
    pub fn set_bytes_limit(&self, bytes_limit: u64) {
        self.lock().bytes_limit = bytes_limit;
    }

    /// Damage that a checksum finds: reads that meet this key fail with `Corrupt` until it is written
    /// or deleted. Returns whether the key is there.
    pub fn damage(&self, space: SpaceId, key: &[u8]) -> bool {
        Arc::make_mut(&mut self.lock().state).damage(space, key)
    }

    /// As `damage`, of the pair that many places (modulo their number) behind the space's first: which one it was.
    pub fn damage_any(&self, space: SpaceId, place: usize) -> Option<Bytes> {
        Arc::make_mut(&mut self.lock().state).damage_any(space, place)
    }

    /// As `damage_any`, among the pairs that `eligible` picks by their key.
    pub fn damage_one_of(&self, space: SpaceId, place: usize, eligible: &dyn Fn(&[u8]) -> bool) -> Option<Bytes> {
        Arc::make_mut(&mut self.lock().state).damage_one_of(space, place, eligible)
    }

    /// Flips a bit (modulo their number) of one stored key, so many places (modulo their number) after the space's first. Returns
    /// the lost key. The engine then reports damage as the contract wants it, never absence.
    pub fn flip_key_any(&self, space: SpaceId, place: usize, bit: usize) -> Option<Bytes> {
        self.flip_key_one_of(space, place, bit, &|_| true)
    }

    /// As `flip_key_any`, among the keys that `eligible` picks.
    pub fn flip_key_one_of(
        &self,
        space: SpaceId,
        place: usize,
        bit: usize,
        eligible: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Bytes> {
        Arc::make_mut(&mut self.lock().state).flip_key_one_of(space, place, bit, eligible)
    }

    /// As `flip_bit`, of the pair that many places (modulo their number) behind the first that `eligible` picks: its key.
    pub fn flip_bit_one_of(
        &self,
        space: SpaceId,
        place: usize,
        bit: usize,
        eligible: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Bytes> {
        let mut inner = self.lock();
        let key = inner.state.one_of(space, place, eligible)?;
        Arc::make_mut(&mut inner.state).flip_bit(space, &key, bit).then_some(key)
    }

    /// Pairs that read as damaged, and keys that are lost.
    pub fn damaged(&self) -> Vec<(SpaceId, Bytes)> {
        self.state().damaged()
    }

    /// Damage that nothing finds: flips one bit (modulo the value's length) of a stored value.
    /// Returns whether there was a bit to flip.
    pub fn flip_bit(&self, space: SpaceId, key: &[u8], bit: usize) -> bool {
        Arc::make_mut(&mut self.lock().state).flip_bit(space, key, bit)
    }

    /// Ends every snapshot taken so far: its reads fail with `SnapshotExpired`.
    pub fn expire_snapshots(&self) {
        self.snapshot_epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// The lock. A panic of a visit cannot happen under it, so what it guards is whole even if poisoned.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> Arc<State> {
        self.lock().state.clone()
    }
}

impl Inner {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), EngineError> {
        if let Some(error) = self.next_write_error.take() {
            return Err(error);
        }
        batch.check()?;
        let grows_by = State::bytes_put(batch);
        if self.bytes_limit > 0 && grows_by > 0 && self.state.bytes_used() + grows_by > self.bytes_limit {
            let (used, limit) = (self.state.bytes_used(), self.bytes_limit);
            return Err(EngineError::Full(format!(
                "{used} of {limit} bytes are used, the batch puts {grows_by}; raise the limit or delete"
            )));
        }
        self.puts += Arc::make_mut(&mut self.state).apply(batch);
        self.batches += 1;
        Ok(())
    }
}

impl EngineRead for MemoryEngine {
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.lock().state.get(space, key)
    }

    fn range(
        &self,
        space: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        self.state().range(space, range, direction, visit)
    }

    fn walk(&self, space: SpaceId, range: KeyRange<'_>, visit: WalkVisit<'_>) -> Result<(), EngineError> {
        self.state().walk(space, range, visit)
    }

    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError> {
        Ok(self.lock().state.durable_index(space))
    }
}

impl Engine for MemoryEngine {
    fn name(&self) -> &'static str {
        MemoryEngine::NAME
    }

    fn write(&self, batch: &WriteBatch) -> Result<(), EngineError> {
        self.lock().write(batch)
    }

    fn snapshot(&self) -> Result<Box<dyn EngineSnapshot>, EngineError> {
        let epoch = self.snapshot_epoch.load(Ordering::Acquire);
        Ok(Box::new(MemorySnapshot { state: self.state(), epoch, current_epoch: self.snapshot_epoch.clone() }))
    }

    fn drop_space(&self, space: SpaceId, limit: usize) -> Result<bool, EngineError> {
        let mut inner = self.lock();
        if let Some(error) = inner.next_write_error.take() {
            return Err(error);
        }
        Ok(Arc::make_mut(&mut inner.state).drop_space(space, limit.max(1)))
    }

    fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        Ok(self.lock().state.spaces())
    }

    fn statistics(&self) -> EngineStatistics {
        let inner = self.lock();
        EngineStatistics {
            bytes_used: inner.state.bytes_used(),
            bytes_limit: inner.bytes_limit,
            batches: inner.batches,
            puts: inner.puts,
        }
    }
}

/// One instant of a [`MemoryEngine`].
struct MemorySnapshot {
    state: Arc<State>,
    epoch: u64,
    current_epoch: Arc<AtomicU64>,
}

impl MemorySnapshot {
    fn live(&self) -> Result<&State, EngineError> {
        if self.current_epoch.load(Ordering::Acquire) != self.epoch {
            return Err(EngineError::SnapshotExpired);
        }
        Ok(&self.state)
    }
}

impl EngineRead for MemorySnapshot {
    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.live()?.get(space, key)
    }

    fn range(
        &self,
        space: SpaceId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), EngineError> {
        self.live()?.range(space, range, direction, visit)
    }

    fn walk(&self, space: SpaceId, range: KeyRange<'_>, visit: WalkVisit<'_>) -> Result<(), EngineError> {
        self.live()?.walk(space, range, visit)
    }

    fn durable_index(&self, space: SpaceId) -> Result<LogIndex, EngineError> {
        Ok(self.live()?.durable_index(space))
    }
}

impl EngineSnapshot for MemorySnapshot {}

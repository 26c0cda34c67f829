//! Snapshots that expire: what a reader holds cannot be used again, and the files grow.
//!
//! Always: an expired snapshot never reads again; the writer never waits for a reader.
//! Held by: `a_snapshot_is_one_instant`, `a_nested_read_of_a_snapshot_does_not_lock_up`.
//! Not here: what is read (`mod.rs`).

use crate::EngineError;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError, Weak};
use std::time::{Duration, Instant};

/// Snapshots held at once.
pub const SNAPSHOTS_MAX: usize = 1024;

/// When a snapshot expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotLimits {
    /// Its age.
    pub age_max: Duration,
    /// The bytes written since: what it may make the files grow by.
    pub bytes_behind_max: u64,
}

impl Default for SnapshotLimits {
    fn default() -> SnapshotLimits {
        SnapshotLimits { age_max: Duration::from_secs(600), bytes_behind_max: 4 << 30 }
    }
}

/// All snapshots of an engine; `V` is what one holds.
pub struct Snapshots<V> {
    bytes_written: Arc<AtomicU64>,
    slots: Mutex<Vec<Weak<Slot<V>>>>,
    limits: SnapshotLimits,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing between lock and unlock can leave the vector half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<V> Snapshots<V> {
    /// None yet.
    pub fn new(limits: SnapshotLimits) -> Snapshots<V> {
        Snapshots { bytes_written: Arc::default(), slots: Mutex::default(), limits }
    }

    /// Called by the writer when a write is finished.
    pub fn on_written(&self, bytes: u64) {
        self.bytes_written.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Makes a snapshot of a view.
    pub fn take(&self, view: impl FnOnce() -> Result<V, EngineError>) -> Result<Snapshot<V>, EngineError> {
        let mut slots = lock(&self.slots);
        slots.retain(|slot| slot.strong_count() > 0);
        if slots.len() >= SNAPSHOTS_MAX {
            return Err(EngineError::Io(format!("{SNAPSHOTS_MAX} snapshots are held; end some before taking another")));
        }
        let behind_max = self.limits.bytes_behind_max;
        let slot = Arc::new(Slot {
            bytes_written_max: self.bytes_written.load(Ordering::Acquire).saturating_add(behind_max),
            bytes_written: self.bytes_written.clone(),
            expired: AtomicBool::new(false),
            begun: Instant::now(),
            age_max: self.limits.age_max,
            view: RwLock::new(Some(OneAtATime(view()?))),
        });
        slots.push(Arc::downgrade(&slot));
        Ok(Snapshot { slot, not_shared: PhantomData })
    }

    /// Called by the writer before it begins: frees what expired snapshots hold.
    pub fn expire(&self) {
        lock(&self.slots).retain(|slot| slot.upgrade().is_some_and(|slot| !slot.release_if_expired()));
    }
}

/// A view that several threads may point to, of which one at a time uses it.
struct OneAtATime<V>(V);

// SAFETY: the view is *used* only through `Snapshot::read`, called by the one owner of the snapshot,
// which is `Send` but not `Sync`, so never by two threads at once; the writer's thread only drops it,
// and only with the write lock held, so never during a use. Dropping elsewhere needs `Send`.
unsafe impl<V: Send> Sync for OneAtATime<V> {}

struct Slot<V> {
    view: RwLock<Option<OneAtATime<V>>>,
    expired: AtomicBool,
    begun: Instant,
    age_max: Duration,
    bytes_written: Arc<AtomicU64>,
    bytes_written_max: u64,
}

/// One snapshot; the writer may take its view away.
pub struct Snapshot<V> {
    slot: Arc<Slot<V>>,
    not_shared: PhantomData<Cell<()>>,
}

impl<V> Snapshot<V> {
    /// Runs `read` at the snapshot's instant. Reads may be nested: the writer never waits for the lock.
    pub fn read<T>(&self, read: impl FnOnce(&V) -> Result<T, EngineError>) -> Result<T, EngineError> {
        if self.slot.is_expired() {
            self.slot.release_if_expired();
            return Err(EngineError::SnapshotExpired);
        }
        let guard = self.slot.view.read().unwrap_or_else(PoisonError::into_inner);
        match guard.as_ref() {
            Some(view) => read(&view.0),
            None => Err(EngineError::SnapshotExpired),
        }
    }

    /// Whether the writer has already said that it is too old; cheap enough for every pair of a range.
    pub fn check_not_expired(&self) -> Result<(), EngineError> {
        match self.slot.expired.load(Ordering::Relaxed) {
            true => Err(EngineError::SnapshotExpired),
            false => Ok(()),
        }
    }
}

impl<V> Slot<V> {
    /// Whether it is too old, or too much has been written since. Once true, always true.
    fn is_expired(&self) -> bool {
        if self.expired.load(Ordering::Relaxed) {
            return true;
        }
        let expired =
            self.bytes_written.load(Ordering::Relaxed) > self.bytes_written_max || self.begun.elapsed() > self.age_max;
        if expired {
            self.expired.store(true, Ordering::Relaxed);
        }
        expired
    }

    /// Ends the view of an expired snapshot; whether it is ended. One in use ends at a later call.
    fn release_if_expired(&self) -> bool {
        if !self.is_expired() {
            return false;
        }
        match self.view.try_write() {
            Ok(mut guard) => *guard = None,
            Err(TryLockError::Poisoned(poisoned)) => *poisoned.into_inner() = None,
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }
}

//! Read transactions: one for each point read or range, and snapshots that expire.
//!
//! An old reader keeps LMDB from using freed pages again, and the file grows; so a snapshot expires
//! with its age or with what was written since. Keeping finished transactions for later reads was
//! tried and saves 0.1 µs of 1.4 (docs/engines/lmdb.md): not worth a pool that must be emptied in time.
//!
//! Always: a read that begins after `write` has returned sees it; an expired snapshot never reads again.
//! Not here: what is read (`lib.rs`), writes (`writer.rs`).

use crate::failure::lmdb_failure;
use base_engine::EngineError;
use heed::{AnyTls, Env, RoTxn, WithoutTls};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError, Weak};
use std::time::{Duration, Instant};

type ReadTransaction = RoTxn<'static, WithoutTls>;

/// All readers of an environment.
pub struct Readers {
    env: Env<WithoutTls>,
    bytes_written: Arc<AtomicU64>,
    snapshots: Mutex<Vec<Weak<SnapshotSlot>>>,
    age_max: Duration,
    bytes_behind_max: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing between lock and unlock can leave the vectors half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Readers {
    pub fn new(env: Env<WithoutTls>, age_max: Duration, bytes_behind_max: u64) -> Readers {
        Readers { env, bytes_written: Arc::default(), snapshots: Mutex::default(), age_max, bytes_behind_max }
    }

    /// Runs `read` on the newest state.
    pub fn read<T>(&self, read: impl FnOnce(&RoTxn<'_, AnyTls>) -> Result<T, EngineError>) -> Result<T, EngineError> {
        let transaction = self.env.read_txn().map_err(|error| lmdb_failure("beginning a read", error))?;
        read(&transaction)
    }

    /// Called by the writer when a write is finished.
    pub fn on_written(&self, bytes: u64) {
        self.bytes_written.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Takes a snapshot that expires.
    pub fn snapshot(&self) -> Result<Arc<SnapshotSlot>, EngineError> {
        let transaction: ReadTransaction =
            self.env.clone().static_read_txn().map_err(|error| lmdb_failure("taking a snapshot", error))?;
        let slot = Arc::new(SnapshotSlot {
            bytes_written_max: self.bytes_written.load(Ordering::Acquire).saturating_add(self.bytes_behind_max),
            bytes_written: self.bytes_written.clone(),
            expired: AtomicBool::new(false),
            begun: Instant::now(),
            age_max: self.age_max,
            transaction: RwLock::new(Some(SharedTransaction(transaction))),
        });
        let mut snapshots = lock(&self.snapshots);
        snapshots.retain(|snapshot| snapshot.strong_count() > 0);
        snapshots.push(Arc::downgrade(&slot));
        Ok(slot)
    }

    /// Called by the writer before it begins: frees what expired snapshots hold.
    pub fn expire(&self) {
        lock(&self.snapshots).retain(|snapshot| snapshot.upgrade().is_some_and(|slot| !slot.release_if_expired()));
    }
}

/// A read transaction that several threads may point to, of which one at a time uses it.
struct SharedTransaction(ReadTransaction);

// SAFETY: the transaction is not tied to a thread (`WithoutTls`). It is *used* only through
// `SnapshotSlot::read`, called by the one owner of the snapshot, which is `Send` but not `Sync`
// (`LmdbSnapshot`), so never by two threads at once; the writer's thread only drops it, and only
// with the write lock held, so never during a use.
unsafe impl Sync for SharedTransaction {}

/// One snapshot's transaction, which the writer may take away.
pub struct SnapshotSlot {
    transaction: RwLock<Option<SharedTransaction>>,
    expired: AtomicBool,
    begun: Instant,
    age_max: Duration,
    bytes_written: Arc<AtomicU64>,
    bytes_written_max: u64,
}

impl SnapshotSlot {
    /// Whether it is too old, or too much has been written since. Once true, always true.
    pub fn is_expired(&self) -> bool {
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

    /// Whether the writer has already said so; cheap enough for every pair of a range.
    pub fn is_marked_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }

    /// Runs `read` at the snapshot's instant. Reads may be nested: the writer never waits for the lock.
    pub fn read<T>(&self, read: impl FnOnce(&RoTxn<'_, AnyTls>) -> Result<T, EngineError>) -> Result<T, EngineError> {
        if self.is_expired() {
            self.release_if_expired();
            return Err(EngineError::SnapshotExpired);
        }
        let guard = self.transaction.read().unwrap_or_else(PoisonError::into_inner);
        match guard.as_ref() {
            Some(transaction) => read(&transaction.0),
            None => Err(EngineError::SnapshotExpired),
        }
    }

    /// Ends the transaction of an expired snapshot; whether it is ended. One in use ends at a later call.
    fn release_if_expired(&self) -> bool {
        if !self.is_expired() {
            return false;
        }
        match self.transaction.try_write() {
            Ok(mut guard) => *guard = None,
            Err(TryLockError::Poisoned(poisoned)) => *poisoned.into_inner() = None,
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }
}

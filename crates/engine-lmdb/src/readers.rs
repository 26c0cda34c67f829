//! Read transactions: a few kept ready for point reads, and snapshots that expire.
//!
//! Taking a fresh read transaction costs more than a lookup, so finished ones go back to a pool and
//! serve until the next write. An old reader keeps LMDB from using freed pages again and the file
//! grows, so both kinds are bounded: the pool is emptied by each write, and a snapshot expires with
//! age or with what was written since.
//!
//! Always: a read that begins after `write` has returned sees it: the write counter is raised before
//! `write` returns, and read before a transaction is begun.
//! Not here: what is read (`lib.rs`), writes (`writer.rs`).

use crate::failure::lmdb_failure;
use base_engine::EngineError;
use heed::{AnyTls, Env, RoTxn, WithoutTls};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError, Weak};
use std::time::{Duration, Instant};

/// Transactions kept ready: one for each thread that reads at the same time, commonly one or two.
const POOLED_MAX: usize = 8;

type ReadTransaction = RoTxn<'static, WithoutTls>;

/// A transaction and the number of writes finished before it began.
struct Pooled {
    transaction: ReadTransaction,
    writes: u64,
}

/// All readers of an environment.
pub struct Readers {
    env: Env<WithoutTls>,
    pool: Mutex<Vec<Pooled>>,
    writes: AtomicU64,
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
        Readers {
            env,
            pool: Mutex::default(),
            writes: AtomicU64::new(0),
            bytes_written: Arc::default(),
            snapshots: Mutex::default(),
            age_max,
            bytes_behind_max,
        }
    }

    fn begin(&self) -> Result<ReadTransaction, EngineError> {
        self.env.clone().static_read_txn().map_err(|error| lmdb_failure("beginning a read", error))
    }

    /// Runs `read` on the newest state.
    pub fn read<T>(&self, read: impl FnOnce(&RoTxn<'_, AnyTls>) -> Result<T, EngineError>) -> Result<T, EngineError> {
        let writes = self.writes.load(Ordering::Acquire);
        let ready = lock(&self.pool).pop().filter(|pooled| pooled.writes == writes);
        let pooled = match ready {
            Some(pooled) => pooled,
            None => Pooled { transaction: self.begin()?, writes },
        };
        let result = read(&pooled.transaction);
        let mut pool = lock(&self.pool);
        if result.is_ok() && pool.len() < POOLED_MAX && self.writes.load(Ordering::Acquire) == pooled.writes {
            pool.push(pooled);
        }
        result
    }

    /// Called by the writer before `write` returns.
    pub fn on_written(&self, bytes: u64) {
        self.writes.fetch_add(1, Ordering::AcqRel);
        self.bytes_written.fetch_add(bytes, Ordering::AcqRel);
        lock(&self.pool).clear();
    }

    /// Takes a snapshot that expires.
    pub fn snapshot(&self) -> Result<Arc<SnapshotSlot>, EngineError> {
        let slot = Arc::new(SnapshotSlot {
            bytes_written_max: self.bytes_written.load(Ordering::Acquire).saturating_add(self.bytes_behind_max),
            bytes_written: self.bytes_written.clone(),
            expired: AtomicBool::new(false),
            begun: Instant::now(),
            age_max: self.age_max,
            transaction: RwLock::new(Some(SharedTransaction(self.begin()?))),
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
        let expired = self.bytes_written.load(Ordering::Relaxed) > self.bytes_written_max || self.begun.elapsed() > self.age_max;
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

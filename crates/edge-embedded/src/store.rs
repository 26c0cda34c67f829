//! The store: open, put, get, delete, batches, flush, close.
//!
//! Always: a write that returned is seen by every read that begins then, from any thread; an error
//! says whether the write may have happened.
//! Held by: `it_is_an_ordered_map`.
//! Not here: scans and snapshots (`snapshot.rs`), how a write is done (`core.rs`), threads (`open.rs`).

use crate::core::{Core, Shared};
use crate::error::{OpenError, StoreError};
use crate::mailbox::{Letter, Waiter};
use crate::options::{Durability, Options, BATCH_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::record::{self, Body, Change};
use crate::snapshot::{Range, Scan, Snapshot};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// An embedded key-value store. Share it by reference (or `Arc`) between threads.
///
/// Each of its cores owns a part of the keys (by hash), with a log, an engine and a thread of its own.
/// A write goes into its core's memory and mailbox on the calling thread, and from there, batched, to
/// the log; memory is given to the engine later, and the log is cut after it.
pub struct Store {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    notes: Vec<String>,
    engine: String,
}

/// Several changes that happen together: all or none, after a crash too, and for every snapshot.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Batch {
    /// An empty one.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets a key. Of several changes to a key the last counts.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &mut Batch {
        self.changes.insert(key.into(), Some(value.into()));
        self
    }

    /// Removes a key.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) -> &mut Batch {
        self.changes.insert(key.into(), None);
        self
    }

    /// How many keys it changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether it changes none.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// Numbers for people and metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Cores.
    pub cores: u64,
    /// Writes since the store was made.
    pub last_number: u64,
    /// Bytes that are not in the engines yet.
    pub memory_bytes: u64,
    /// Segment files of the logs.
    pub log_segments: u64,
    /// Bytes of the engines.
    pub engine_bytes: u64,
}

impl Store {
    /// Opens the store in a directory, or makes it.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Store, OpenError> {
        let opened = crate::open::open(path.as_ref(), options)?;
        let threads = Mutex::new(opened.threads);
        Ok(Store { shared: opened.shared, threads, notes: opened.notes, engine: opened.engine })
    }

    /// Sets a key, as the store's options say.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.put_with(key, value, self.shared.options.durability)
    }

    /// Sets a key.
    pub fn put_with(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<(), StoreError> {
        check_key(key)?;
        check_value(value)?;
        self.write_one(record::body([(key, Some(value))].into_iter()), durability)
    }

    /// Removes a key, as the store's options say. No error if it is not there.
    pub fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        self.delete_with(key, self.shared.options.durability)
    }

    /// Removes a key.
    pub fn delete_with(&self, key: &[u8], durability: Durability) -> Result<(), StoreError> {
        check_key(key)?;
        self.write_one(record::body([(key, None)].into_iter()), durability)
    }

    /// Makes all changes of a batch or none, as the store's options say.
    pub fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        self.write_with(batch, self.shared.options.durability)
    }

    /// Makes all changes of a batch or none.
    pub fn write_with(&self, batch: &Batch, durability: Durability) -> Result<(), StoreError> {
        let mut bytes = 0;
        for (key, value) in &batch.changes {
            check_key(key)?;
            value.as_deref().map_or(Ok(()), check_value)?;
            bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        }
        if bytes > BATCH_BYTES_MAX {
            return Err(StoreError::Invalid(format!(
                "a batch of {bytes} bytes is larger than {BATCH_BYTES_MAX}; make several of it"
            )));
        }
        if batch.is_empty() {
            return self.shared.check_open();
        }
        let changes = batch.changes.iter().map(|(key, value)| (key.as_slice(), value.as_deref()));
        let body = record::body(changes);
        match body.changes.len() {
            1 => self.write_one(body, durability),
            _ => self.write_many(body, durability),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let core = self.shared.owner(key);
        let view = core.view.load();
        let memories = std::iter::once(&view.active).chain(&view.frozen);
        for memory in memories {
            if let Some(value) = memory.get(key, u64::MAX) {
                return Ok(value);
            }
        }
        // The view was loaded first: whatever has left memory since is in the engine.
        Ok(core.engine.get(crate::flusher::SPACE, key)?)
    }

    /// The keys and values of a range in order, as of this instant.
    pub fn scan(&self, range: Range) -> Result<Scan<Snapshot>, StoreError> {
        Ok(Scan::new(self.snapshot()?, range))
    }

    /// All keys as of this instant. What it shows does not change; it expires after some minutes.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Snapshot::take(&self.shared)
    }

    /// Waits until everything written before, by any thread, is on the disk.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.shared.check_open()?;
        self.shared.sync_all()
    }

    /// Writes everything out and closes the store. (Dropping it does the same and keeps the error.)
    pub fn close(self) -> Result<(), StoreError> {
        self.shut()
    }

    /// What was found when it was opened: a torn tail cut off, damage accepted.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How many cores share its keys.
    pub fn cores(&self) -> usize {
        self.shared.cores.len()
    }

    /// What writes wait for that do not say.
    pub fn durability(&self) -> Durability {
        self.shared.options.durability
    }

    /// The engine its data rests in.
    pub fn engine(&self) -> &str {
        &self.engine
    }

    /// Its numbers.
    pub fn statistics(&self) -> Statistics {
        let sum = |of: fn(&Core) -> u64| self.shared.cores.iter().map(of).sum();
        Statistics {
            cores: self.shared.cores.len() as u64,
            last_number: self.shared.order.last(),
            memory_bytes: sum(|core| core.memory_bytes.load(Ordering::Relaxed)),
            log_segments: sum(|core| core.segments.load(Ordering::Relaxed)),
            engine_bytes: sum(|core| core.engine.statistics().bytes_used),
        }
    }

    #[cfg(test)]
    pub(crate) fn shared_for_tests(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    fn write_one(&self, body: Body, durability: Durability) -> Result<(), StoreError> {
        let Some(change) = body.changes.into_iter().next() else { return Ok(()) };
        let core = self.shared.owner(&change.0);
        self.shared.admit(core, change.1.is_some())?;
        let waiter = (durability == Durability::Strong).then(|| Waiter::new(1));
        let look = {
            let _gate = core.enter();
            self.check_inside(core)?;
            let ticket = self.shared.order.begin();
            let (number, waiter) = (ticket.number, waiter.clone());
            core.mailbox.put(Letter { number, body: body.bytes, others: Vec::new(), waiter });
            core.insert(change, number, false)
        };
        core.bell.ring(look || waiter.is_some() || core.mailbox.is_filling());
        waiter.map_or(Ok(()), |waiter| self.shared.wait(&waiter, || false))
    }

    /// One record in the log of the first core concerned; memory of all of them, under one number.
    fn write_many(&self, body: Body, durability: Durability) -> Result<(), StoreError> {
        let mut parts: BTreeMap<u16, Vec<Change>> = BTreeMap::new();
        let has_puts = body.changes.iter().any(|change| change.1.is_some());
        for change in body.changes {
            parts.entry(self.shared.owner(&change.0).number).or_default().push(change);
        }
        let cores: Vec<&Core> = parts.keys().map(|number| &self.shared.cores[usize::from(*number)]).collect();
        let Some((first, others)) = cores.split_first() else { return Ok(()) };
        self.admit_others(others, has_puts)?;
        self.shared.admit(first, has_puts)?;
        let waiter = (durability == Durability::Strong).then(|| Waiter::new(1));
        {
            // In the order of the cores, as everybody does.
            let _gates: Vec<_> = cores.iter().map(|core| core.enter()).collect();
            self.check_inside(first)?;
            let ticket = self.shared.order.begin();
            let (number, waiter) = (ticket.number, waiter.clone());
            let others = others.iter().map(|core| core.number).collect();
            first.mailbox.put(Letter { number, body: body.bytes, others, waiter });
            let mixed = cores.len() > 1;
            for (core, changes) in cores.iter().zip(parts.into_values()) {
                let mut look = false;
                for change in changes {
                    look |= core.insert(change, number, mixed);
                }
                core.bell.ring(look);
            }
        }
        first.bell.ring(waiter.is_some() || first.mailbox.is_filling());
        waiter.map_or(Ok(()), |waiter| self.shared.wait(&waiter, || false))
    }

    /// The other cores of a batch have memory for it; no letter goes to them.
    fn admit_others(&self, cores: &[&Core], has_puts: bool) -> Result<(), StoreError> {
        for core in cores {
            self.shared.admit(core, has_puts)?;
            core.mailbox.give_back();
        }
        Ok(())
    }

    /// The store may have been closed while the write waited.
    fn check_inside(&self, core: &Core) -> Result<(), StoreError> {
        let open = self.shared.check_open();
        if open.is_err() {
            core.mailbox.give_back();
        }
        open
    }

    fn shut(&self) -> Result<(), StoreError> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.is_empty() {
            return Ok(());
        }
        self.shared.closed.store(true, Ordering::Release);
        // Writers are done; those who come now are refused.
        self.shared.cores.iter().for_each(|core| drop(core.stop_writers()));
        let synced = self.shared.sync_all();
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.cores.iter().for_each(|core| core.bell.ring(true));
        for thread in threads.drain(..) {
            // A panic in it has latched the store.
            let _ = thread.join();
        }
        match self.shared.failure() {
            Some(reason) => Err(StoreError::Failed { reason: reason.clone() }),
            None => synced,
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.shut();
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Store").field("path", &self.shared.path).field("cores", &self.shared.cores.len()).finish()
    }
}

fn check_key(key: &[u8]) -> Result<(), StoreError> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let length = key.len();
        return Err(StoreError::Invalid(format!("a key of {length} bytes; keys have 1 to {KEY_BYTES_MAX}")));
    }
    Ok(())
}

fn check_value(value: &[u8]) -> Result<(), StoreError> {
    if value.len() > VALUE_BYTES_MAX {
        let length = value.len();
        return Err(StoreError::Invalid(format!(
            "a value of {length} bytes is longer than {VALUE_BYTES_MAX}; split it"
        )));
    }
    Ok(())
}

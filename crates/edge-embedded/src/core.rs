//! What all threads see of the store and of each core.
//!
//! ```text
//!   writer   gate (shared) ─▶ number ─▶ mailbox ─▶ active memory ─▶ number finished
//!   owner    gate (alone, for an instant) ─▶ active memory becomes the frozen one, a new one takes its place
//!   reader   active memory, frozen memory, engine: no gate, no lock
//! ```
//!
//! The gate is what makes an instant: when the owner has it, all that was ever written to the core is in
//! its mailbox and its memory, and nothing is half way. Writers share it and do not wait for each other.
//!
//! By design: whatever is in the frozen memory has smaller numbers than whatever is in the active one, and
//! what the engine holds has numbers no larger than the frozen memory's.
//! Not here: the owner's thread (`owner.rs`), the calls (`store.rs`).

use crate::bell::Bell;
use crate::directory::Directory;
use crate::error::StoreError;
use crate::mailbox::{Letter, Mailbox, Waiter};
use crate::memory::{Memory, VERSION_BYTES};
use crate::options::Options;
use crate::order::Order;
use crate::record::Change;
use arc_swap::ArcSwap;
use base_engine::Engine;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// How often a writer that waits for room looks again.
const ROOM_LOOK_EVERY: Duration = Duration::from_micros(200);

/// What is not in the engine yet.
pub struct View {
    pub active: Arc<Memory>,
    /// On its way into the engine.
    pub frozen: Option<Arc<Memory>>,
}

/// One core.
pub struct Core {
    pub number: u16,
    gate: RwLock<()>,
    pub mailbox: Mailbox,
    pub bell: Bell,
    pub view: ArcSwap<View>,
    pub engine: Arc<dyn Engine>,
    /// Bytes of the active and the frozen memory.
    pub memory_bytes: AtomicU64,
    /// The number up to which the engine holds everything.
    pub durable: AtomicU64,
    /// No room for another log segment; no room in the engine.
    pub disk_full: AtomicBool,
    pub engine_full: AtomicBool,
    /// For people: segments of the log.
    pub segments: AtomicU64,
}

impl Core {
    /// With nothing in memory.
    pub fn new(number: u16, engine: Arc<dyn Engine>, durable: u64) -> Core {
        Core {
            number,
            gate: RwLock::default(),
            mailbox: Mailbox::default(),
            bell: Bell::default(),
            view: ArcSwap::from_pointee(View { active: Arc::default(), frozen: None }),
            engine,
            memory_bytes: AtomicU64::new(0),
            durable: durable.into(),
            disk_full: false.into(),
            engine_full: false.into(),
            segments: AtomicU64::new(0),
        }
    }

    /// Shared with other writers. It guards no data, so a panic under it leaves nothing half done.
    pub fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Alone: nobody is writing.
    pub fn stop_writers(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a change into memory; the caller is inside the gate. `mixed`: its batch has other cores' keys too.
    /// Whether the owner should look.
    pub fn insert(&self, change: Change, number: u64, mixed: bool) -> bool {
        let bytes = change_bytes(&change);
        let view = self.view.load();
        let (key, value) = change;
        if mixed {
            view.active.mix();
        }
        view.active.put(key, number, value);
        self.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
        view.active.grow(bytes)
    }
}

/// What a change takes in memory.
pub fn change_bytes((key, value): &Change) -> u64 {
    VERSION_BYTES + (key.len() + value.as_ref().map_or(0, |value| value.len())) as u64
}

/// The store, as all its threads see it.
pub struct Shared {
    pub path: PathBuf,
    /// Locked as long as a store or a snapshot of it lives.
    _directory: Directory,
    pub options: Options,
    pub order: Order,
    pub cores: Vec<Core>,
    /// No more writes are taken.
    pub closed: AtomicBool,
    /// After that: everything is in the logs, synced; the threads give it to the engines and end.
    pub stopping: AtomicBool,
    failure: OnceLock<String>,
}

impl Shared {
    /// Of these cores.
    pub fn new(directory: Directory, options: Options, cores: Vec<Core>, last: u64) -> Shared {
        Shared {
            path: directory.path.clone(),
            _directory: directory,
            options,
            order: Order::new(last),
            cores,
            closed: false.into(),
            stopping: false.into(),
            failure: OnceLock::new(),
        }
    }

    /// The core that owns a key.
    pub fn owner(&self, key: &[u8]) -> &Core {
        &self.cores[usize::from(owner_of(key, self.cores.len() as u16))]
    }

    /// The share of memory of a core.
    pub fn core_memory_bytes(&self) -> u64 {
        let share = self.options.memory_bytes_max / self.cores.len() as u64;
        share.max(crate::options::CORE_MEMORY_BYTES_MIN)
    }

    /// Latches the store: nothing more is written.
    pub fn fail(&self, reason: String) {
        let _ = self.failure.set(reason);
        self.cores.iter().for_each(|core| core.bell.ring(true));
    }

    /// Why it is latched.
    pub fn failure(&self) -> Option<&String> {
        self.failure.get()
    }

    /// Waits until the core takes a write, and reserves a place in its mailbox. Whatever refuses it, nothing was written.
    pub fn admit(&self, core: &Core, is_put: bool) -> Result<(), StoreError> {
        let mut begun = None;
        loop {
            self.check_open()?;
            if is_put {
                self.check_room(core)?;
            }
            if core.memory_bytes.load(Ordering::Relaxed) < self.core_memory_bytes() && core.mailbox.reserve() {
                return Ok(());
            }
            let waited = begun.get_or_insert_with(Instant::now).elapsed();
            if waited >= self.options.wait_max {
                return Err(StoreError::Overloaded { core: core.number, waited_ms: waited.as_millis() as u64 });
            }
            core.bell.ring(true);
            std::thread::sleep(ROOM_LOOK_EVERY);
        }
    }

    /// Refuses where the store is closed or latched.
    pub fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        match self.failure.get() {
            None => Ok(()),
            Some(reason) => Err(StoreError::Failed { reason: reason.clone() }),
        }
    }

    fn check_room(&self, core: &Core) -> Result<(), StoreError> {
        let full = |reason: &str| StoreError::Full { path: self.path.display().to_string(), reason: reason.into() };
        if core.disk_full.load(Ordering::Relaxed) {
            return Err(full("the disk has none for another log segment"));
        }
        if core.engine_full.load(Ordering::Relaxed) {
            return Err(full("the engine is full, or has reached engine_bytes_max"));
        }
        Ok(())
    }

    /// Puts a letter that only waits behind all that was written to the core.
    pub fn send_waiter(&self, core: &Core, waiter: &Arc<Waiter>) -> Result<(), StoreError> {
        let begun = Instant::now();
        while !core.mailbox.reserve() {
            let waited = begun.elapsed();
            if waited >= self.options.wait_max {
                return Err(StoreError::Overloaded { core: core.number, waited_ms: waited.as_millis() as u64 });
            }
            core.bell.ring(true);
            std::thread::sleep(ROOM_LOOK_EVERY);
        }
        core.mailbox.put(Letter {
            number: 0,
            body: bytes::Bytes::new(),
            others: Vec::new(),
            waiter: Some(waiter.clone()),
        });
        core.bell.ring(true);
        Ok(())
    }

    /// Waits until all cores' logs hold, synced, what was written before.
    pub fn sync_all(&self) -> Result<(), StoreError> {
        self.sync(&self.cores, || false)
    }

    /// Waits until these cores' logs hold, synced, what was written before; or until `give_up`.
    pub fn sync(&self, cores: &[Core], give_up: impl Fn() -> bool) -> Result<(), StoreError> {
        let waiter = Waiter::new(cores.len());
        for core in cores {
            self.send_waiter(core, &waiter)?;
        }
        self.wait(&waiter, give_up)
    }

    /// Waits for the disk; or until `give_up`.
    pub fn wait(&self, waiter: &Waiter, give_up: impl Fn() -> bool) -> Result<(), StoreError> {
        if waiter.wait(self.options.wait_max, || self.failure.get().is_some() || give_up()) {
            return Ok(());
        }
        let reason = match self.failure.get() {
            Some(reason) => reason.clone(),
            None => format!("the disk has not answered for {} ms", self.options.wait_max.as_millis()),
        };
        Err(StoreError::Unknown { reason })
    }
}

/// Which of so many cores owns a key. Part of the format: never changes.
pub fn owner_of(key: &[u8], cores: u16) -> u16 {
    (xxh3_64(key) % u64::from(cores)) as u16
}

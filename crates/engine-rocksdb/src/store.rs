//! One RocksDB database as an ordered map.
//!
//! Always: no key in it ends in `\x01`, the mark of MetaHive's entries: a zero is put behind every key
//! (`mapped`), which keeps their order; `commit` syncs the journal once; a view keeps the database open.
//! Not here: what keys and values mean.

use crate::failure::write_failure;
use crate::ffi::*;
use crate::metahive::{damage_of, Providers};
use crate::RocksConfig;
use base_engine::stored::{Changes, RawStore, RawVerified, RawView, RawVisit};
use base_engine::{Direction, EngineError};
use bytes::Bytes;
use std::ffi::c_void;
use std::ops::ControlFlow;
use std::path::Path;
use std::ptr::{null, NonNull};
use std::sync::Arc;

/// Stands behind every key, so that none ends in MetaHive's mark. It sorts before every other byte, so
/// keys keep their order: of two of which one begins the other, the shorter stays first.
const TERMINATOR: u8 = 0;
/// Journals together; beyond it memtables are written out.
const WAL_BYTES_MAX: u64 = 256 << 20;

/// An open database; closed with the last of its views.
pub(crate) struct Database {
    handle: NonNull<HiveRocks>,
    /// RocksDB's threads call it until the database is closed.
    _providers: Box<Providers>,
}

// SAFETY: RocksDB's database, and the shim's handle around it, may be used by any number of threads.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

impl Database {
    pub(crate) fn handle(&self) -> *mut HiveRocks {
        self.handle.as_ptr()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: it was opened by the shim, and nobody else has it: cursors, pinned values and snapshots
        // end before the `Arc` they hold does.
        unsafe { hive_rocks_close(self.handle()) }
    }
}

/// A RocksDB database.
pub struct RocksStore {
    pub(crate) database: Arc<Database>,
    metahive: bool,
}

/// A key as RocksDB gets it.
pub(crate) fn mapped(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 1);
    out.extend_from_slice(key);
    out.push(TERMINATOR);
    out
}

/// A key as it was given.
pub(crate) fn unmapped(key: &[u8]) -> Result<&[u8], EngineError> {
    match key.split_last() {
        Some((&TERMINATOR, key)) => Ok(key),
        _ => Err(EngineError::Corrupt(format!(
            "the key {} does not end in a zero, as all of ours do; rebuild the replica from a peer",
            key.escape_ascii()
        ))),
    }
}

impl RocksStore {
    /// Opens the database without the contract around it; `made`: it must be there.
    pub fn open(path: &Path, made: bool, config: &RocksConfig) -> Result<RocksStore, EngineError> {
        use std::os::unix::ffi::OsStrExt;
        let providers = Box::new(Providers::new(config.providers.clone()));
        let options = HiveOptions {
            provider: providers.for_shim(),
            cache_bytes: config.cache_bytes,
            memtable_bytes: config.memtable_bytes,
            file_bytes: config.file_bytes,
            wal_bytes_max: WAL_BYTES_MAX,
            threads: i32::try_from(config.threads).unwrap_or(i32::MAX),
            make: u8::from(!made),
            metahive: u8::from(config.metahive),
            sync: u8::from(config.sync),
            direct_reads: u8::from(config.direct_reads),
            stock_blocks: u8::from(config.stock_blocks),
            block_checksums: u8::from(config.block_checksums),
        };
        let what = format!("opening {}", path.display());
        let mut error = HiveError::none();
        // SAFETY: all arguments outlive the call.
        let opened = unsafe { hive_rocks_open(HiveSlice::of(path.as_os_str().as_bytes()), &options, &mut error) };
        match NonNull::new(opened) {
            Some(handle) => Ok(RocksStore {
                database: Arc::new(Database { handle, _providers: providers }),
                metahive: config.metahive,
            }),
            None => Err(missing_is_damage(made, error.judge(&what).err(), &what)),
        }
    }

    fn call(&self, what: &str, call: unsafe extern "C" fn(*mut HiveRocks, *mut HiveError)) -> Result<(), EngineError> {
        let mut error = HiveError::none();
        // SAFETY: the handle is open, and the error outlives the call.
        unsafe { call(self.database.handle(), &mut error) };
        error.judge(what)
    }

    /// Puts pairs without the contract around them (no seals): for figures and tests.
    pub fn put_pairs(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), EngineError> {
        let batch = Batch::new();
        for (key, value) in pairs {
            let key = mapped(key);
            // SAFETY: the batch is ours, and copies both.
            unsafe { hive_rocks_batch_put(batch.0, HiveSlice::of(&key), HiveSlice::of(value)) }
        }
        self.write(&batch)
    }

    fn write(&self, batch: &Batch) -> Result<(), EngineError> {
        let mut error = HiveError::none();
        // SAFETY: the handle is open, the batch and the error outlive the call.
        unsafe { hive_rocks_write(self.database.handle(), batch.0, &mut error) };
        error.judge("writing a batch").map_err(write_failure)
    }

    /// Writes the table in memory out and waits for it: for tests, figures and before files are copied.
    pub fn write_out(&self) -> Result<(), EngineError> {
        self.call("writing a table out", hive_rocks_flush)
    }

    /// Merges everything anew, the lowest level too, and waits for it.
    pub fn compact(&self) -> Result<(), EngineError> {
        self.call("merging tables", hive_rocks_compact)
    }
}

impl RocksStore {
    /// Does `copy` while nothing is written out, merged or deleted: its files are those of one instant.
    pub fn while_quiet<T>(&self, copy: impl FnOnce() -> T) -> Result<T, EngineError> {
        self.call("pausing", hive_rocks_pause)?;
        let copied = copy();
        self.call("going on", hive_rocks_go_on)?;
        Ok(copied)
    }
}

/// A database that was made and is not there any more is damage, whatever RocksDB calls it.
fn missing_is_damage(made: bool, error: Option<EngineError>, what: &str) -> EngineError {
    match error {
        Some(EngineError::WrongFormat(text)) if made && text.contains("does not exist") => EngineError::Corrupt(text),
        Some(error) => error,
        None => EngineError::Io(format!("{what}: RocksDB gave neither a database nor a reason")),
    }
}

impl RawStore for RocksStore {
    const NAME: &'static str = "rocksdb";
    /// In our own files every entry has metadata beside it, which reveals a missing entry.
    const TELLS_LOST_KEYS: bool = true;
    type View = RocksView;

    fn view(&self) -> Result<RocksView, EngineError> {
        let mut error = HiveError::none();
        // SAFETY: the handle is open, and the error outlives the call.
        let snapshot = unsafe { hive_rocks_snapshot(self.database.handle(), &mut error) };
        error.judge("taking a snapshot")?;
        // Null would read the newest of each key, and not one instant.
        if snapshot.is_null() {
            return Err(EngineError::Io("RocksDB gave no snapshot".into()));
        }
        Ok(RocksView { database: self.database.clone(), snapshot })
    }

    fn newest(&self) -> Result<RocksView, EngineError> {
        Ok(RocksView { database: self.database.clone(), snapshot: null() })
    }

    fn commit(&self, changes: &Changes<'_>) -> Result<(), EngineError> {
        let batch = Batch::new();
        changes.each(&mut |key, value| {
            let key = mapped(key);
            // SAFETY: the batch is ours, and copies both.
            match value {
                Some(value) => unsafe { hive_rocks_batch_put(batch.0, HiveSlice::of(&key), HiveSlice::of(value)) },
                None => unsafe { hive_rocks_batch_delete(batch.0, HiveSlice::of(&key)) },
            }
            Ok(())
        })?;
        self.write(&batch)
    }

    fn verify(&self, after: &[u8]) -> Option<Result<RawVerified, EngineError>> {
        // Without metadata pairs are read, and their seals tried.
        self.metahive.then(|| self.verify_part(after))
    }

    fn bytes_used(&self) -> u64 {
        // SAFETY: the handle is open.
        unsafe { hive_rocks_bytes(self.database.handle()) }
    }
}

struct Batch(*mut HiveBatch);

impl Batch {
    fn new() -> Batch {
        // SAFETY: no arguments; it is freed once, below.
        Batch(unsafe { hive_rocks_batch() })
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: ours, and not used after this.
        unsafe { hive_rocks_batch_free(self.0) }
    }
}

/// One instant, or (without a snapshot) the newest for each read.
pub struct RocksView {
    database: Arc<Database>,
    snapshot: *const c_void,
}

// SAFETY: a snapshot is a number of RocksDB's that any thread may read at.
unsafe impl Send for RocksView {}

impl Drop for RocksView {
    fn drop(&mut self) {
        if !self.snapshot.is_null() {
            // SAFETY: taken from this database, which is still open, and released once.
            unsafe { hive_rocks_release(self.database.handle(), self.snapshot) }
        }
    }
}

impl RawView for RocksView {
    fn damaged(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = damage_of(&self.database).into_iter().map(|damage| damage.key).collect();
        keys.dedup();
        keys
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let key = mapped(key);
        let (mut value, mut error) = (HiveSlice::empty(), HiveError::none());
        // SAFETY: the handle is open and all arguments outlive the call; the value lives until it is
        // unpinned, and is copied before.
        let found = unsafe {
            let pinned =
                hive_rocks_get(self.database.handle(), self.snapshot, HiveSlice::of(&key), &mut value, &mut error);
            let found = (!pinned.is_null()).then(|| Bytes::copy_from_slice(value.bytes()));
            hive_rocks_unpin(pinned);
            found
        };
        error.judge("reading a key").map(|()| found)
    }

    fn range(&self, start: &[u8], end: &[u8], direction: Direction, visit: RawVisit<'_>) -> Result<(), EngineError> {
        let cursor = Cursor::new(self, &mapped(start), &mapped(end), direction)?;
        loop {
            let (mut key, mut value, mut error) = (HiveSlice::empty(), HiveSlice::empty(), HiveError::none());
            // SAFETY: the cursor is open, and the slices are not used after the next call on it.
            let (more, key, value) = unsafe {
                let more = hive_rocks_next(cursor.cursor, &mut key, &mut value, &mut error);
                (more != 0, key.bytes(), value.bytes())
            };
            error.judge("reading a range")?;
            if !more || visit(unmapped(key)?, value)? == ControlFlow::Break(()) {
                return Ok(());
            }
        }
    }
}

struct Cursor<'a> {
    cursor: *mut HiveCursor,
    /// It keeps the database and the snapshot alive.
    _view: &'a RocksView,
}

impl<'a> Cursor<'a> {
    fn new(view: &'a RocksView, start: &[u8], end: &[u8], direction: Direction) -> Result<Cursor<'a>, EngineError> {
        let (start, end) = (HiveSlice::of(start), HiveSlice::of(end));
        let backward = (direction == Direction::Backward).into();
        let mut error = HiveError::none();
        // SAFETY: the handle is open; the shim copies the bounds; the error outlives the call.
        let cursor =
            unsafe { hive_rocks_cursor(view.database.handle(), view.snapshot, start, end, backward, &mut error) };
        error.judge("beginning a range")?;
        Ok(Cursor { cursor, _view: view })
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: ours, and not used after this.
        unsafe { hive_rocks_cursor_free(self.cursor) }
    }
}

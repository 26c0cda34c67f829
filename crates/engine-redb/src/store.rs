//! One redb table as an ordered map.
//!
//! redb takes nothing more after one failed call to its file. Lack of room is no reason to stop for
//! good: the database is then opened again on the spot, which leaves the last commit as it was.
//!
//! Always: `commit` syncs twice, and a failed one leaves the state before it.
//! Not here: what keys and values mean.

use crate::disk::{Bound, Disk};
use crate::failure::{guarded, redb_failure};
use crate::RedbConfig;
use base_engine::stored::failure::path_failure;
use base_engine::stored::{Changes, RawStore, RawView, RawVisit};
use base_engine::{Direction, EngineError};
use bytes::Bytes;
use redb::{Database, ReadOnlyTable, ReadableDatabase, StorageBackend, TableDefinition};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("hive");

/// The part of a bounded file that puts leave to deletes, which need pages too, and its bounds.
const RESERVE_DIVISOR: u64 = 8;
const RESERVE_BYTES_MIN: u64 = 512 << 10;
const RESERVE_BYTES_MAX: u64 = 256 << 20;

/// Gives the file; a test gives one that fails.
type OpenDisk = Box<dyn Fn() -> Result<Box<dyn StorageBackend>, EngineError> + Send + Sync>;

/// A redb database.
pub struct RedbStore {
    /// `None`: it was to be opened again and could not.
    database: RwLock<Option<Database>>,
    open_disk: OpenDisk,
    path: PathBuf,
    cache_bytes: usize,
    bytes_max: u64,
    bound: Bound,
}

/// redb wants one type, known when it is compiled.
#[derive(Debug)]
struct Boxed(Box<dyn StorageBackend>);

impl StorageBackend for Boxed {
    fn len(&self) -> Result<u64, std::io::Error> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), std::io::Error> {
        self.0.read(offset, out)
    }

    fn set_len(&self, bytes: u64) -> Result<(), std::io::Error> {
        self.0.set_len(bytes)
    }

    fn sync_data(&self) -> Result<(), std::io::Error> {
        // Never taken for a mere lack of room, whatever the reason: the turn to the new pages may have
        // reached the disk. What failed to sync closes the engine for writing.
        self.0.sync_data().map_err(|error| std::io::Error::other(format!("syncing: {error}")))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), std::io::Error> {
        self.0.write(offset, data)
    }
}

impl RedbStore {
    /// Opens the file; `made`: it must be there and filled.
    pub(crate) fn open(path: PathBuf, made: bool, config: &RedbConfig) -> Result<RedbStore, EngineError> {
        if made {
            let bytes = std::fs::metadata(&path).map_err(|error| path_failure(&path, &error))?.len();
            if bytes == 0 {
                return Err(EngineError::Corrupt(format!("{} is empty; rebuild the replica", path.display())));
            }
        }
        let bound = Bound::none();
        let (disk_path, disk_bound) = (path.clone(), bound.clone());
        let open_disk = Box::new(move || -> Result<Box<dyn StorageBackend>, EngineError> {
            let disk = Disk::open(&disk_path, disk_bound.clone()).map_err(|error| path_failure(&disk_path, &error))?;
            Ok(Box::new(disk))
        });
        RedbStore::open_on(open_disk, path, bound, config)
    }

    /// Opens what `open_disk` gives.
    pub(crate) fn open_on(
        open_disk: OpenDisk,
        path: PathBuf,
        bound: Bound,
        config: &RedbConfig,
    ) -> Result<RedbStore, EngineError> {
        let store = RedbStore {
            database: RwLock::new(None),
            open_disk,
            path,
            cache_bytes: config.cache_bytes,
            bytes_max: config.bytes_max,
            bound,
        };
        store.open_database()?;
        Ok(store)
    }

    fn open_database(&self) -> Result<(), EngineError> {
        let what = format!("opening {}", self.path.display());
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        *database = None; // Closed first: two must never have one file.
        let disk = (self.open_disk)()?;
        *database = Some(guarded(&what, || {
            let mut builder = Database::builder();
            builder.set_cache_size(self.cache_bytes);
            builder.create_with_backend(Boxed(disk)).map_err(|error| redb_failure(&what, error))
        })?);
        Ok(())
    }

    fn with<T>(&self, use_it: impl FnOnce(&Database) -> Result<T, EngineError>) -> Result<T, EngineError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let Some(database) = database.as_ref() else {
            let path = self.path.display();
            return Err(EngineError::Io(format!("{path} could not be opened again; restart the node")));
        };
        use_it(database)
    }

    fn write_all(&self, changes: &Changes<'_>) -> Result<(), EngineError> {
        self.with(|database| {
            let mut transaction = database.begin_write().map_err(|error| redb_failure("beginning a write", error))?;
            transaction.set_quick_repair(true);
            {
                let mut table = transaction.open_table(TABLE).map_err(|error| redb_failure("writing", error))?;
                changes.each(&mut |key, value| {
                    let done = match value {
                        Some(value) => table.insert(key, value),
                        None => table.remove(key),
                    };
                    done.map(drop).map_err(|error| redb_failure("writing a batch", error))
                })?;
            }
            transaction.commit().map_err(|error| redb_failure("committing a write", error))
        })
    }

    /// Room for puts is less than room for all.
    fn move_bound(&self, puts: bool) {
        let reserve = (self.bytes_max / RESERVE_DIVISOR).clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX);
        self.bound.set(match self.bytes_max {
            0 => u64::MAX,
            bytes if puts => bytes.saturating_sub(reserve),
            bytes => bytes,
        });
    }
}

impl RawStore for RedbStore {
    const NAME: &'static str = "redb";
    const FENCED: bool = true;
    type View = RedbView;

    fn view(&self) -> Result<RedbView, EngineError> {
        self.with(|database| {
            let transaction = database.begin_read().map_err(|error| redb_failure("beginning a read", error))?;
            let table = transaction.open_table(TABLE).map_err(|error| redb_failure("beginning a read", error))?;
            Ok(RedbView { table })
        })
    }

    fn commit(&self, changes: &Changes<'_>) -> Result<(), EngineError> {
        self.move_bound(changes.puts() > 0);
        let written = self.write_all(changes);
        if matches!(written, Err(EngineError::Full(_))) {
            self.open_database()?;
        }
        written
    }

    fn bytes_used(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    fn bytes_limit(&self) -> u64 {
        self.bytes_max
    }
}

/// One instant: the table keeps its transaction.
pub struct RedbView {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl RawView for RedbView {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        guarded("reading a key", || {
            let found = self.table.get(key).map_err(|error| redb_failure("reading a key", error))?;
            Ok(found.map(|value| Bytes::copy_from_slice(value.value())))
        })
    }

    fn range(&self, start: &[u8], end: &[u8], direction: Direction, visit: RawVisit<'_>) -> Result<(), EngineError> {
        let failed = |error| redb_failure("reading a range", error);
        let what = "reading a range";
        let mut pairs = guarded(what, || self.table.range::<&[u8]>(start..end).map_err(failed))?;
        let mut next = || match direction {
            Direction::Forward => pairs.next(),
            Direction::Backward => pairs.next_back(),
        };
        // The visit is outside: a panic of its own is not the file's fault.
        while let Some((key, value)) = guarded(what, || next().transpose().map_err(failed))? {
            if visit(key.value(), value.value())?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}

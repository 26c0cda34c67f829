//! One SQLite table as an ordered map.
//!
//! Always: `commit` syncs the WAL once and leaves nothing behind when it fails; a checkpoint that fails
//! for another reason than room closes the store, for what it was to sync may be lost.
//! Not here: what keys and values mean.

use crate::failure::sqlite_failure;
use crate::pool::{connect, Pool};
use crate::SqliteConfig;
use base_engine::stored::failure::path_failure;
use base_engine::stored::{Changes, RawStore, RawView, RawVisit};
use base_engine::{Direction, EngineError};
use bytes::Bytes;
use rusqlite::{CachedStatement, Connection, OptionalExtension};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So that keys and values of the common sizes lie in their page: without one's own row ids, SQLite moves
/// what exceeds a quarter of a page to others.
const PAGE_BYTES: u64 = 16_384;
/// "HIVE", for `file` and its like.
const APPLICATION_ID: u32 = 0x4849_5645;
const READER_CACHE_DIVISOR: u64 = 8;

const GET: &str = "SELECT value FROM pairs WHERE key = ?1";
const FORWARD: &str = "SELECT key, value FROM pairs WHERE key >= ?1 AND key < ?2 ORDER BY key";
const BACKWARD: &str = "SELECT key, value FROM pairs WHERE key >= ?1 AND key < ?2 ORDER BY key DESC";
const PUT: &str = "INSERT OR REPLACE INTO pairs (key, value) VALUES (?1, ?2)";
const DELETE: &str = "DELETE FROM pairs WHERE key = ?1";
const USED: &str =
    "SELECT (SELECT page_count FROM pragma_page_count) - (SELECT freelist_count FROM pragma_freelist_count)";

/// A SQLite database.
pub struct SqliteStore {
    path: PathBuf,
    pool: Arc<Pool>,
    writer: Mutex<Writer>,
    bytes_max: u64,
    checkpoint_bytes: u64,
}

struct Writer {
    connection: Connection,
    /// Since the WAL was last copied as a whole.
    bytes_in_wal: u64,
    /// Why no more is written.
    closed: Option<EngineError>,
}

impl SqliteStore {
    /// Opens the file; `made`: it must be there and filled.
    pub(crate) fn open(path: &Path, made: bool, config: &SqliteConfig) -> Result<SqliteStore, EngineError> {
        if made {
            let bytes = std::fs::metadata(path).map_err(|error| path_failure(path, &error))?.len();
            if bytes == 0 {
                return Err(EngineError::Corrupt(format!("{} is empty; rebuild the replica", path.display())));
            }
        }
        let connection = connect(path, !made, config.cache_bytes)?;
        if !made {
            make(&connection)?;
        }
        check(&connection).map_err(|error| match error {
            EngineError::Io(text) => EngineError::Io(format!("opening {}: {text}", path.display())),
            EngineError::Corrupt(text) => EngineError::Corrupt(format!("opening {}: {text}", path.display())),
            other => other,
        })?;
        if config.bytes_max != 0 {
            let pages = (config.bytes_max / PAGE_BYTES).max(1);
            let bounded = connection.execute_batch(&format!("PRAGMA max_page_count = {pages}"));
            bounded.map_err(|error| sqlite_failure("bounding the file", &error))?;
        }
        let wal = std::fs::metadata(path.with_file_name(crate::WAL_FILE)).map_or(0, |wal| wal.len());
        Ok(SqliteStore {
            path: path.to_path_buf(),
            pool: Arc::new(Pool::new(path, config.cache_bytes / READER_CACHE_DIVISOR)),
            writer: Mutex::new(Writer { connection, bytes_in_wal: wal, closed: None }),
            bytes_max: config.bytes_max,
            checkpoint_bytes: config.checkpoint_bytes,
        })
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panic in between leaves a transaction, which the next `BEGIN` reports.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the WAL into the file, and empties it unless somebody reads from it.
    pub fn checkpoint(&self) -> Result<(), EngineError> {
        self.writer().checkpoint()
    }
}

fn make(connection: &Connection) -> Result<(), EngineError> {
    let text = format!(
        "PRAGMA page_size = {PAGE_BYTES}; PRAGMA application_id = {APPLICATION_ID}; PRAGMA journal_mode = WAL;
         CREATE TABLE pairs (key BLOB NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;"
    );
    connection.execute_batch(&text).map_err(|error| sqlite_failure("making the table", &error))
}

/// Whether the file is what `make` left.
fn check(connection: &Connection) -> Result<(), EngineError> {
    let mode = connection.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
    let mode = mode.map_err(|error| sqlite_failure("reading its head", &error))?;
    if mode != "wal" {
        return Err(EngineError::Corrupt(format!("its journal mode is {mode}, not wal; rebuild the replica")));
    }
    connection.prepare(GET).map(drop).map_err(|error| match sqlite_failure("reading its table", &error) {
        // "no such table" is no damage to SQLite.
        EngineError::Io(text) => EngineError::Corrupt(format!("{text}; rebuild the replica")),
        other => other,
    })
}

impl Writer {
    fn write(&self, changes: &Changes<'_>) -> Result<(), EngineError> {
        let failed = |error: rusqlite::Error| sqlite_failure("writing a batch", &error);
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        let mut put = self.connection.prepare_cached(PUT).map_err(failed)?;
        let mut delete = self.connection.prepare_cached(DELETE).map_err(failed)?;
        changes.each(&mut |key, value| {
            let done = match value {
                Some(value) => put.execute((key, value)),
                None => delete.execute((key,)),
            };
            done.map(drop).map_err(failed)
        })?;
        drop((put, delete));
        self.connection.execute_batch("COMMIT").map_err(|error| sqlite_failure("committing a write", &error))
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        let done = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], row);
        let (in_wal, copied) = done.map_err(|error| sqlite_failure("copying the WAL", &error))?;
        if in_wal == copied {
            self.bytes_in_wal = 0;
        }
        Ok(())
    }
}

impl RawStore for SqliteStore {
    const NAME: &'static str = "sqlite";
    const FENCED: bool = true;
    type View = SqliteView;

    fn view(&self) -> Result<SqliteView, EngineError> {
        let view = self.newest()?;
        // A transaction begins with its first read.
        let begun = view.connection().and_then(|connection| {
            let begin = connection.execute_batch("BEGIN; SELECT 1 FROM pairs LIMIT 1");
            begin.map_err(|error| sqlite_failure("beginning a read", &error))
        });
        begun.map(|()| view)
    }

    fn newest(&self) -> Result<SqliteView, EngineError> {
        Ok(SqliteView { connection: Some(self.pool.take()?), pool: self.pool.clone() })
    }

    fn commit(&self, changes: &Changes<'_>) -> Result<(), EngineError> {
        let mut writer = self.writer();
        if let Some(error) = &writer.closed {
            return Err(error.clone());
        }
        if let Err(error) = writer.write(changes) {
            // SQLite may have rolled it back itself; then this says so, which is no failure.
            let _ = writer.connection.execute_batch("ROLLBACK");
            return Err(error);
        }
        writer.bytes_in_wal += changes.bytes();
        if writer.bytes_in_wal >= self.checkpoint_bytes {
            // The batch is durable in the WAL, whatever becomes of this.
            match writer.checkpoint() {
                Ok(()) | Err(EngineError::Full(_)) => {}
                Err(error) => writer.closed = Some(error),
            }
        }
        Ok(())
    }

    fn bytes_used(&self) -> u64 {
        let pages = self.newest().and_then(|view| {
            let pages = view.connection()?.query_row(USED, [], |row| row.get::<_, i64>(0));
            pages.map_err(|error| sqlite_failure("measuring", &error))
        });
        let wal = std::fs::metadata(self.path.with_file_name(crate::WAL_FILE)).map_or(0, |wal| wal.len());
        pages.map_or(0, |pages| pages.unsigned_abs() * PAGE_BYTES + wal)
    }

    fn bytes_limit(&self) -> u64 {
        self.bytes_max
    }
}

/// One instant, or, without a transaction, the newest for each read.
pub struct SqliteView {
    /// There until the view is dropped.
    connection: Option<Connection>,
    pool: Arc<Pool>,
}

impl SqliteView {
    fn connection(&self) -> Result<&Connection, EngineError> {
        self.connection.as_ref().ok_or_else(|| EngineError::Io("a view that has ended was read".into()))
    }

    fn statement(&self, text: &str) -> Result<CachedStatement<'_>, EngineError> {
        self.connection()?.prepare_cached(text).map_err(|error| sqlite_failure("preparing a read", &error))
    }
}

impl Drop for SqliteView {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            // One whose transaction does not end is not kept (`Pool::put`).
            let _ = if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("COMMIT") };
            self.pool.put(connection);
        }
    }
}

impl RawView for SqliteView {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let mut statement = self.statement(GET)?;
        let value = |row: &rusqlite::Row<'_>| Ok(Bytes::copy_from_slice(row.get_ref(0)?.as_blob()?));
        statement.query_row((key,), value).optional().map_err(|error| sqlite_failure("reading a key", &error))
    }

    fn range(&self, start: &[u8], end: &[u8], direction: Direction, visit: RawVisit<'_>) -> Result<(), EngineError> {
        let failed = |error: rusqlite::Error| sqlite_failure("reading a range", &error);
        let mut statement = self.statement(if direction == Direction::Forward { FORWARD } else { BACKWARD })?;
        let mut rows = statement.query((start, end)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let blob = |at: usize| row.get_ref(at)?.as_blob().map_err(rusqlite::Error::from);
            let (key, value) = (blob(0).map_err(failed)?, blob(1).map_err(failed)?);
            if visit(key, value)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}

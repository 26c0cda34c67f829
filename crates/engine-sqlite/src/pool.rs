//! Connections that read: one for each read at a time, kept for the next.
//!
//! By design: a connection in the pool has no transaction; no more than `IDLE_MAX` wait in it.
//! Not here: the connection that writes (`store.rs`).

use crate::failure::sqlite_failure;
use base_engine::EngineError;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Connections kept for later reads.
const IDLE_MAX: usize = 16;
/// Statements a connection keeps.
const STATEMENTS: usize = 16;
/// How long a connection waits for another's lock: only a checkpoint and a tool from outside take any.
const BUSY_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(2000);
/// Keeps the index of the WAL in memory, and other processes out.
const VFS: &str = "unix-excl";

/// The readers of a file.
pub struct Pool {
    path: PathBuf,
    cache_bytes: u64,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    /// None yet.
    pub fn new(path: &Path, cache_bytes: u64) -> Pool {
        Pool { path: path.to_path_buf(), cache_bytes, idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        // Nothing between lock and unlock can leave the vector half changed.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to read with.
    pub fn take(&self) -> Result<Connection, EngineError> {
        let idle = self.idle().pop();
        idle.map_or_else(|| connect(&self.path, false, self.cache_bytes), Ok)
    }

    /// Gives it back.
    pub fn put(&self, connection: Connection) {
        let mut idle = self.idle();
        if connection.is_autocommit() && idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}

/// A connection, set up.
pub fn connect(path: &Path, make: bool, cache_bytes: u64) -> Result<Connection, EngineError> {
    let what = format!("opening {}", path.display());
    let failed = |error: rusqlite::Error| sqlite_failure(&what, &error);
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, make);
    let connection = Connection::open_with_flags_and_vfs(path, flags, VFS).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // A negative cache size counts KiB. The WAL is copied when we say so, not at a commit.
    let pragmas = format!(
        "PRAGMA cache_size = -{}; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;
         PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0;",
        (cache_bytes >> 10).max(64)
    );
    connection.execute_batch(&pragmas).map_err(failed)?;
    Ok(connection)
}

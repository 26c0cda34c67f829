//! One fjall keyspace as an ordered map.
//!
//! Always: `commit` syncs the journal once; reads are at a snapshot, so that no half-applied batch shows.
//! Not here: what keys and values mean.

use crate::failure::{fjall_failure, guarded, write_failure};
use crate::{journal, FjallConfig};
use base_engine::stored::{Changes, RawStore, RawView, RawVisit};
use base_engine::{Direction, EngineError};
use bytes::Bytes;
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions};
use fjall::{PersistMode, Readable, Snapshot};
use std::path::Path;

const KEYSPACE: &str = "hive";
/// fjall's own marker.
const VERSION_FILE: &str = "version";
/// Values from here on lie apart from their keys.
const SEPARATED_BYTES_MIN: u32 = 1024;
/// All journals together; beyond it tables are written out. fjall's least is 64 MiB.
const JOURNAL_BYTES_MAX: u64 = 256 << 20;

/// A fjall database.
pub struct FjallStore {
    database: Database,
    keyspace: Keyspace,
}

impl FjallStore {
    /// Opens the database; `made`: it must be there.
    pub(crate) fn open(path: &Path, made: bool, config: &FjallConfig) -> Result<FjallStore, EngineError> {
        let what = format!("opening {}", path.display());
        if made {
            if !path.join(VERSION_FILE).exists() {
                // fjall would take the directory for a new one.
                return Err(EngineError::Corrupt(format!(
                    "{what}: {VERSION_FILE} is missing; rebuild the replica from a peer"
                )));
            }
            journal::mend(path)?;
        }
        guarded(&what, || {
            let failed = |error| fjall_failure(&what, error);
            let builder = Database::builder(path)
                .cache_size(config.cache_bytes)
                .worker_threads(config.threads.max(1))
                .max_journaling_size(JOURNAL_BYTES_MAX)
                .manual_journal_persist(true)
                .journal_compression(CompressionType::None);
            let database = builder.open().map_err(failed)?;
            if made && !database.keyspace_exists(KEYSPACE) {
                return Err(EngineError::Corrupt(format!(
                    "{what}: its keyspace is gone; rebuild the replica from a peer"
                )));
            }
            let keyspace = database.keyspace(KEYSPACE, || keyspace_options(config)).map_err(failed)?;
            Ok(FjallStore { database, keyspace })
        })
    }

    /// Writes the table in memory out and waits for it: for tests and figures.
    pub fn write_out(&self) -> Result<(), EngineError> {
        self.keyspace.rotate_memtable_and_wait().map_err(|error| fjall_failure("writing a table out", error))
    }
}

fn keyspace_options(config: &FjallConfig) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .manual_journal_persist(true)
        .max_memtable_size(config.memtable_bytes)
        .with_kv_separation(Some(KvSeparationOptions::default().separation_threshold(SEPARATED_BYTES_MIN)))
}

impl RawStore for FjallStore {
    const NAME: &'static str = "fjall";
    type View = FjallView;

    fn view(&self) -> Result<FjallView, EngineError> {
        Ok(FjallView {
            snapshot: self.database.snapshot(),
            keyspace: self.keyspace.clone(),
            _database: self.database.clone(),
        })
    }

    fn commit(&self, changes: &Changes<'_>) -> Result<(), EngineError> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        changes.each(&mut |key, value| {
            match value {
                Some(value) => batch.insert(&self.keyspace, key, value),
                None => batch.remove(&self.keyspace, key),
            }
            Ok(())
        })?;
        batch.commit().map_err(|error| write_failure("writing a batch", error))
    }

    fn bytes_used(&self) -> u64 {
        self.database.disk_space().unwrap_or_default()
    }
}

/// One instant.
pub struct FjallView {
    snapshot: Snapshot,
    keyspace: Keyspace,
    /// Its threads and files stay as long as a view does.
    _database: Database,
}

impl RawView for FjallView {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let found = self.snapshot.get(&self.keyspace, key).map_err(|error| fjall_failure("reading a key", error))?;
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn range(&self, start: &[u8], end: &[u8], direction: Direction, visit: RawVisit<'_>) -> Result<(), EngineError> {
        let mut pairs = self.snapshot.range(&self.keyspace, start..end);
        while let Some(pair) = match direction {
            Direction::Forward => pairs.next(),
            Direction::Backward => pairs.next_back(),
        } {
            let (key, value) = pair.into_inner().map_err(|error| fjall_failure("reading a range", error))?;
            if visit(&key, &value)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}

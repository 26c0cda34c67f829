//! One SlateDB database as an ordered map.
//!
//! Readers see the snapshot of the last commit that is in the store: a batch on its way there is in
//! SlateDB's memory already, and must not be seen before it is durable.
//!
//! Always: a commit is a batch and a flush of the log, waited for; one at a time (the contract).
//! Held by: `a_kill_at_any_object_leaves_every_commit`.
//! Not here: what keys and values mean.

use crate::collected::Kept;
use crate::failure::{objects_failure, slate_failure};
use crate::waits::{runtime, wait};
use crate::ObjectConfig;
use base_engine::stored::failure::{check_room, free_bytes};
use base_engine::stored::{Changes, RawStore, RawView, RawVisit};
use base_engine::{Direction, EngineError};
use base_objects::object_store::ObjectStore;
use base_objects::{Limited, Meter, ObjectsError};
use bytes::Bytes;
use slatedb::config::{CompactorOptions, GarbageCollectorDirectoryOptions, GarbageCollectorOptions, ScanOptions};
use slatedb::db_cache::moka::{MokaCache, MokaCacheOptions};
use slatedb::{Db, DbIterator, DbSnapshot, GarbageCollectorBuilder, IterationOrder, Settings, WriteBatch};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// The name of the database within its place.
pub(crate) const DATABASE: &str = "hive";
/// A commit that is not in the store by then is given up: whether it is there is not known.
pub const COMMIT_DEADLINE: Duration = Duration::from_secs(600);
/// How long opening may take: the log is read, however large it is.
pub(crate) const OPEN_DEADLINE: Duration = Duration::from_secs(300);
/// How often the first requests of all are tried again, and the pause before.
pub(crate) const OPEN_RETRIES_MAX: usize = 5;
pub(crate) const OPEN_PAUSE: Duration = Duration::from_millis(200);
/// How long a read may take.
pub(crate) const READ_DEADLINE: Duration = Duration::from_secs(120);
/// How long closing may take; what is durable stays so without it.
const CLOSE_DEADLINE: Duration = Duration::from_secs(10);
/// How often the state of the database is asked for: it learns of merged tables, and that it is fenced.
const POLL: Duration = Duration::from_secs(10);
/// How often garbage is looked for.
const COLLECT: Duration = Duration::from_secs(300);
/// Pairs and bytes a walk fetches at a time.
const PAGE_PAIRS: usize = 512;
const PAGE_BYTES: usize = 1 << 20;
/// Commits after which a table is written out, however small it is: each commit is an object that opening the place
/// must read.
const COMMITS_A_TABLE: u64 = 256;
/// What a walk reads ahead.
const READ_AHEAD_BYTES: usize = 1 << 20;
/// Tables in memory that wait to be written; beyond it commits wait.
const TABLES_WAITING: usize = 4;
/// Tables written out and not merged yet; beyond it commits wait for the merging, which looks every few seconds.
const SMALL_TABLES_MAX: usize = 32;
/// A merged object is not longer than this.
const MERGED_BYTES_MAX: usize = 64 << 20;

/// A database and who closes it.
struct Database(Db);

impl Drop for Database {
    fn drop(&mut self) {
        let database = self.0.clone();
        // What is durable is in the store; a store that does not answer is not waited for any longer.
        let _ = wait("closing", CLOSE_DEADLINE, async move { database.close().await });
    }
}

/// A SlateDB database.
pub struct ObjectEngineStore {
    database: Arc<Database>,
    newest: RwLock<Arc<DbSnapshot>>,
    meter: Arc<Meter>,
    /// Bytes committed since it was opened: at most a table's worth of them is in no table yet.
    committed: AtomicU64,
    /// Commits since then.
    commits: AtomicU64,
    memtable_bytes: u64,
    /// The directory beneath, if it is one: it can be full.
    disk: Option<PathBuf>,
}

impl ObjectEngineStore {
    /// Opens the database of a place, or makes it.
    pub(crate) fn open(
        store: Limited,
        place: &str,
        disk: Option<&Path>,
        config: &ObjectConfig,
    ) -> Result<ObjectEngineStore, EngineError> {
        let what = format!("opening {place}");
        let meter = store.meter();
        let (settings, cache_bytes, own_place) =
            (settings(config, disk.is_some()), config.cache_bytes, place.to_string());
        let (identity, note) = (config.identity.clone(), config.note.clone());
        let opened = wait(&what, OPEN_DEADLINE, async move {
            probe_place(&store, &own_place).await?;
            crate::held::keep_owner(&store, &own_place, &identity, &note).await?;
            let store: Arc<dyn ObjectStore> = Arc::new(store);
            let cache = MokaCache::new_with_opts(MokaCacheOptions { max_capacity: cache_bytes, ..Default::default() });
            let garbage = GarbageCollectorBuilder::new(DATABASE, store.clone())
                .with_options(settings.1)
                .with_gc_filter(Arc::new(Kept::default()));
            let builder = Db::builder(DATABASE, store)
                .with_settings(settings.0)
                .with_db_cache(Arc::new(cache), 0)
                .with_gc_builder(garbage);
            builder.build().await.map_err(|error| slate_failure(&format!("opening {own_place}"), &error))
        })??;
        let newest = opened.snapshot().map_err(|error| slate_failure(&what, &error))?;
        Ok(ObjectEngineStore {
            database: Arc::new(Database(opened)),
            newest: RwLock::new(newest),
            meter,
            committed: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            memtable_bytes: config.memtable_bytes as u64,
            disk: disk.map(Path::to_path_buf),
        })
    }

    /// What its requests were.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Writes the table in memory out and waits for it: for tests and figures.
    pub fn write_out(&self) -> Result<(), EngineError> {
        let database = self.database.0.clone();
        let options = slatedb::config::FlushOptions { flush_type: slatedb::config::FlushType::MemTable };
        let flushed =
            wait("writing a table out", COMMIT_DEADLINE, async move { database.flush_with_options(options).await });
        flushed?.map_err(|error| slate_failure("writing a table out", &error))
    }

    /// Has the table in memory written out beside what comes. What fails there fails the next commit.
    fn begin_table(&self) -> Result<(), EngineError> {
        let database = self.database.0.clone();
        let options = slatedb::config::FlushOptions { flush_type: slatedb::config::FlushType::MemTable };
        runtime()?.spawn(async move {
            let _ = database.flush_with_options(options).await;
        });
        Ok(())
    }

    fn snapshot(&self) -> Arc<DbSnapshot> {
        self.newest.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Tries the place; one that only does not answer is tried again.
async fn probe_place(store: &Limited, place: &str) -> Result<(), EngineError> {
    // Two that open at once must not meet in one object.
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let id = format!("{}-{}", std::process::id(), since.as_nanos());
    for _ in 0..OPEN_RETRIES_MAX {
        match base_objects::probe::probe(store, place, &id).await {
            Err(ObjectsError::Unavailable(_)) => tokio::time::sleep(OPEN_PAUSE).await,
            answered => return answered.map_err(|error| objects_failure(&error)),
        }
    }
    base_objects::probe::probe(store, place, &id).await.map_err(|error| objects_failure(&error))
}

/// Of the database and of its garbage collector.
fn settings(config: &ObjectConfig, directory: bool) -> (Settings, GarbageCollectorOptions) {
    let each = || Some(GarbageCollectorDirectoryOptions { interval: Some(COLLECT), ..Default::default() });
    let garbage = GarbageCollectorOptions {
        manifest_options: each(),
        wal_options: each(),
        compacted_options: each(),
        compactions_options: each(),
        // A directory cannot replace an object on a condition.
        boundary_files_enabled: !directory,
        ..Default::default()
    };
    let every = config.merge_every;
    let mut merging = CompactorOptions { poll_interval: every, commit_compacted_interval: every, ..Default::default() };
    if let Some(worker) = &mut merging.worker {
        worker.compactions_poll_interval = every;
        worker.max_sst_size = MERGED_BYTES_MAX;
    }
    let settings = Settings {
        // `commit` flushes: one object a commit, and none without.
        flush_interval: None,
        manifest_poll_interval: POLL,
        l0_sst_size_bytes: config.memtable_bytes,
        l0_max_ssts: SMALL_TABLES_MAX,
        l0_max_ssts_per_key: SMALL_TABLES_MAX,
        max_unflushed_bytes: config.memtable_bytes.saturating_mul(TABLES_WAITING),
        compactor_options: Some(merging),
        garbage_collector_options: None,
        ..Default::default()
    };
    (settings, garbage)
}

impl RawStore for ObjectEngineStore {
    const NAME: &'static str = "object";
    const ELSEWHERE: bool = true;
    type View = ObjectView;

    fn view(&self) -> Result<ObjectView, EngineError> {
        Ok(ObjectView { snapshot: self.snapshot(), _database: self.database.clone() })
    }

    fn commit(&self, changes: &Changes<'_>) -> Result<(), EngineError> {
        if let Some(disk) = &self.disk {
            check_room(disk, free_bytes(disk)?, changes.bytes())?;
        }
        let mut batch = WriteBatch::new();
        changes.each(&mut |key, value| {
            match value {
                Some(value) => batch.put_bytes(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)),
                None => batch.delete(key),
            }
            Ok(())
        })?;
        if batch.is_empty() {
            return Ok(());
        }
        let database = self.database.0.clone();
        let written = wait("writing a batch", COMMIT_DEADLINE, async move {
            let handle = database.write(batch).await?;
            database.flush().await?;
            handle.await_durable().await?;
            database.snapshot()
        })?;
        let snapshot = written.map_err(|error| slate_failure("writing a batch", &error))?;
        self.committed.fetch_add(changes.bytes(), Ordering::Relaxed);
        if (self.commits.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(COMMITS_A_TABLE) {
            self.begin_table()?;
        }
        *self.newest.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
        Ok(())
    }

    fn bytes_used(&self) -> u64 {
        let manifest = self.database.0.manifest();
        let tables: u64 = manifest.all_sst_views().map(|view| view.estimate_size()).sum();
        tables + self.committed.load(Ordering::Relaxed).min(self.memtable_bytes)
    }
}

/// One instant.
pub struct ObjectView {
    snapshot: Arc<DbSnapshot>,
    /// It is not closed while a view is read.
    _database: Arc<Database>,
}

/// A walk and its next pairs.
pub(crate) type Page = Result<(DbIterator, Vec<slatedb::KeyValue>), slatedb::Error>;

pub(crate) async fn next_page(mut walk: DbIterator) -> Page {
    let (mut pairs, mut bytes) = (Vec::new(), 0);
    while pairs.len() < PAGE_PAIRS && bytes < PAGE_BYTES {
        let Some(pair) = walk.next().await? else { break };
        bytes += pair.key.len() + pair.value.len();
        pairs.push(pair);
    }
    Ok((walk, pairs))
}

/// How ranges are read.
pub(crate) fn scan_options(direction: Direction) -> ScanOptions {
    let order = match direction {
        Direction::Forward => IterationOrder::Ascending,
        Direction::Backward => IterationOrder::Descending,
    };
    ScanOptions { order, read_ahead_bytes: READ_AHEAD_BYTES, cache_blocks: true, ..ScanOptions::default() }
}

/// Visits the pages of a walk; `first` begins it.
pub(crate) fn visit_pages(
    first: impl Future<Output = Page> + Send + 'static,
    visit: RawVisit<'_>,
) -> Result<(), EngineError> {
    let failed = |error: slatedb::Error| slate_failure("reading a range", &error);
    let (mut walk, mut pairs) = wait("reading a range", READ_DEADLINE, first)?.map_err(failed)?;
    while !pairs.is_empty() {
        for pair in &pairs {
            if visit(&pair.key, &pair.value)?.is_break() {
                return Ok(());
            }
        }
        (walk, pairs) = wait("reading a range", READ_DEADLINE, next_page(walk))?.map_err(failed)?;
    }
    Ok(())
}

impl RawView for ObjectView {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let (snapshot, key) = (self.snapshot.clone(), key.to_vec());
        let found = wait("reading a key", READ_DEADLINE, async move { snapshot.get(key).await })?;
        found.map_err(|error| slate_failure("reading a key", &error))
    }

    fn range(&self, start: &[u8], end: &[u8], direction: Direction, visit: RawVisit<'_>) -> Result<(), EngineError> {
        let options = scan_options(direction);
        let (snapshot, bounds) = (self.snapshot.clone(), start.to_vec()..end.to_vec());
        visit_pages(async move { next_page(snapshot.scan_with_options(bounds, &options).await?).await }, visit)
    }
}

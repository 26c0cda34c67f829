//! Bytes in a local directory, which several processes may share (nodes on one machine, or on one shared disk).
//!
//!   store-id      the beginning of all names given here; written once, by the maker of the directory
//!   sweep.lock    held by the one process that sweeps
//!   intents/N     who will name N, as JSON; written as N.new, synced, renamed
//!   temp/N        bytes on their way; synced, then renamed to
//!   data/aa/bb/N  where aabb are N's first digits
//!
//! Always: a name of `data/` is whole and synced, file and folder. Held by: `local_keeps_the_contract`. Not here: which are named (`sweep`).

use super::{is_name, DataStore, DataStream, DataWriter, Intent, StoreError, StoreId, SweepGuard, CHUNK_BYTES};
use bytes::Bytes;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

/// How many bytes are written before the system is asked to begin with the disk: a sync of gigabytes
/// at the end would stop everything else.
const SYNC_EVERY_BYTES: u64 = 64 << 20;
/// An intent that is not whole after so long never will be: its writer is gone.
const UNFINISHED_AFTER: Duration = Duration::from_secs(3600);

/// A store in a local directory.
#[derive(Clone)]
pub struct LocalStore {
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    id: StoreId,
}

impl LocalStore {
    /// Opens a directory, making it where it is not there.
    pub fn open(root: impl Into<PathBuf>) -> Result<LocalStore, StoreError> {
        let root = root.into();
        for folder in ["intents", "temp", "data"] {
            let path = root.join(folder);
            fs::create_dir_all(&path).map_err(|error| StoreError::io(format!("making {}", path.display()), error))?;
        }
        let id = match read_id(&root)? {
            Some(id) => id,
            None => write_id(&root)?,
        };
        Ok(LocalStore { inner: Arc::new(Inner { root, id }) })
    }

    /// What a crash left of intents that were never whole: no bytes were written for them.
    fn drop_unfinished_intents(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.path("intents"))? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "new") {
                continue;
            }
            // Younger ones may be another process's, about to be renamed.
            let age = fs::metadata(&path).and_then(|data| data.modified()).map(|modified| modified.elapsed());
            if age.is_ok_and(|age| age.is_ok_and(|age| age > UNFINISHED_AFTER)) {
                gone(fs::remove_file(&path))?;
            }
        }
        Ok(())
    }

    /// The lock of the sweep; the system takes it back from a process that dies.
    fn lock_for_sweep(&self) -> io::Result<Option<File>> {
        let lock = File::create(self.path("sweep.lock"))?;
        match lock.try_lock() {
            Ok(()) => {
                self.drop_unfinished_intents()?;
                Ok(Some(lock))
            }
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn path(&self, folder: &str) -> PathBuf {
        self.inner.root.join(folder)
    }

    fn data_path(&self, name: &str) -> PathBuf {
        self.path("data").join(&name[..2]).join(&name[2..4]).join(name)
    }

    fn write_intent(&self, name: &str, intent: &Intent) -> io::Result<()> {
        let folder = self.path("intents");
        let new = folder.join(format!("{name}.new"));
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(intent)?)?;
        file.sync_all()?;
        fs::rename(&new, folder.join(name))?;
        sync_folder(&folder)
    }

    fn publish(&self, name: &str) -> io::Result<()> {
        let path = self.data_path(name);
        let (inner, outer) = (self.path("data").join(&name[..2]).join(&name[2..4]), self.path("data").join(&name[..2]));
        if !inner.is_dir() {
            fs::create_dir_all(&inner)?;
            sync_folder(&outer)?;
            sync_folder(&self.path("data"))?;
        }
        fs::rename(self.path("temp").join(name), &path)?;
        sync_folder(&inner)
    }

    fn remove_all(&self, name: &str) -> io::Result<()> {
        gone(fs::remove_file(self.data_path(name)))?;
        gone(fs::remove_file(self.path("temp").join(name)))?;
        // Last: while the intent is there, a crash in between is mended by the next sweep.
        gone(fs::remove_file(self.path("intents").join(name)))
    }

    fn list_intents(&self, after: Option<&str>, max: usize) -> io::Result<Vec<(String, Intent)>> {
        let folder = self.path("intents");
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if is_name(&name) && after.is_none_or(|after| name.as_str() > after) {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.truncate(max);
        let mut out = Vec::with_capacity(names.len());
        for name in names {
            match fs::read(folder.join(&name)) {
                Ok(bytes) => out.push((self.inner.id.location(&name), serde_json::from_slice(&bytes)?)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(out)
    }

    /// Runs what blocks beside the async threads.
    async fn blocking<T: Send + 'static>(
        &self,
        doing: String,
        work: impl FnOnce(&LocalStore) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        let done = done.unwrap_or_else(|error| Err(io::Error::other(error.to_string())));
        done.map_err(|error| StoreError::io(doing, error))
    }
}

/// A file that is not there is as good as removed.
fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The id of a store that was made before.
fn read_id(root: &Path) -> Result<Option<StoreId>, StoreError> {
    let path = root.join("store-id");
    match fs::read_to_string(&path) {
        Ok(text) => StoreId::read(&text).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io(format!("reading {}", path.display()), error)),
    }
}

/// Gives a new store its id. Of several processes that do so at once one wins: a link is made only where there is none.
fn write_id(root: &Path) -> Result<StoreId, StoreError> {
    let (id, path) = (StoreId::draw()?, root.join("store-id"));
    let doing = || format!("writing {}", path.display());
    let beside = root.join(format!("store-id.{}", id.text()));
    let made = (|| {
        let mut file = File::create_new(&beside)?;
        file.write_all(format!("{}\n", id.text()).as_bytes())?;
        file.sync_all()?;
        let linked = fs::hard_link(&beside, &path);
        fs::remove_file(&beside)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => sync_folder(root),
        }
    })();
    made.map_err(|error| StoreError::io(doing(), error))?;
    let missing = || StoreError::io(doing(), io::Error::from(io::ErrorKind::NotFound));
    read_id(root)?.ok_or_else(missing)
}

#[async_trait::async_trait]
impl DataStore for LocalStore {
    fn owns(&self, location: &str) -> bool {
        self.inner.id.name(location).is_ok()
    }

    async fn begin_sweep(&self) -> Result<Option<SweepGuard>, StoreError> {
        let lock = self.blocking("locking the data store for a sweep".to_owned(), LocalStore::lock_for_sweep).await?;
        Ok(lock.map(|lock| Box::new(lock) as SweepGuard))
    }

    async fn begin(&self, intent: Intent) -> Result<Box<dyn DataWriter>, StoreError> {
        let name = StoreId::new_name()?;
        let doing = format!("beginning data '{name}'");
        let own = name.clone();
        let begun = self.blocking(doing, move |store| {
            store.write_intent(&own, &intent)?;
            File::create_new(store.path("temp").join(&own))
        });
        let file = tokio::fs::File::from_std(begun.await?);
        let location = self.inner.id.location(&name);
        Ok(Box::new(LocalWriter { store: self.clone(), name, location, file, unsynced_bytes: 0 }))
    }

    async fn read(&self, location: &str, length: u64, range: Range<u64>) -> Result<DataStream, StoreError> {
        let path = self.data_path(self.inner.id.name(location)?);
        let doing = || format!("reading {}", path.display());
        let mut file = tokio::fs::File::open(&path).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::Missing(location.to_owned()),
            _ => StoreError::io(doing(), error),
        })?;
        let found = file.metadata().await.map_err(|error| StoreError::io(doing(), error))?.len();
        if found != length {
            return Err(StoreError::Damaged { location: location.to_owned(), found, expected: length });
        }
        file.seek(io::SeekFrom::Start(range.start)).await.map_err(|error| StoreError::io(doing(), error))?;
        let left = range.end.saturating_sub(range.start);
        Ok(Box::pin(futures::stream::try_unfold((file, left, doing()), next_chunk)))
    }

    async fn settle(&self, location: &str) -> Result<(), StoreError> {
        let name = self.inner.id.name(location)?.to_owned();
        let doing = format!("settling data '{name}'");
        self.blocking(doing, move |store| gone(fs::remove_file(store.path("intents").join(name)))).await
    }

    async fn remove(&self, location: &str) -> Result<(), StoreError> {
        let name = self.inner.id.name(location)?.to_owned();
        self.blocking(format!("removing data '{name}'"), move |store| store.remove_all(&name)).await
    }

    async fn intents(&self, after: Option<&str>, max: usize) -> Result<Vec<(String, Intent)>, StoreError> {
        let after = after.map(|after| self.inner.id.name(after)).transpose()?.map(str::to_owned);
        self.blocking("listing intents".to_owned(), move |store| store.list_intents(after.as_deref(), max)).await
    }
}

type Reading = (tokio::fs::File, u64, String);

async fn next_chunk((mut file, left, doing): Reading) -> Result<Option<(Bytes, Reading)>, StoreError> {
    if left == 0 {
        return Ok(None);
    }
    let want = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
    let mut chunk = vec![0; want];
    file.read_exact(&mut chunk).await.map_err(|error| StoreError::io(doing.clone(), error))?;
    Ok(Some((Bytes::from(chunk), (file, left - want as u64, doing))))
}

struct LocalWriter {
    store: LocalStore,
    name: String,
    location: String,
    file: tokio::fs::File,
    unsynced_bytes: u64,
}

impl LocalWriter {
    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::io(format!("writing data '{}'", self.name), error)
    }
}

#[async_trait::async_trait]
impl DataWriter for LocalWriter {
    fn location(&self) -> &str {
        &self.location
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        self.file.write_all(&bytes).await.map_err(|error| self.failed(error))?;
        self.unsynced_bytes += bytes.len() as u64;
        if self.unsynced_bytes >= SYNC_EVERY_BYTES {
            self.file.sync_data().await.map_err(|error| self.failed(error))?;
            self.unsynced_bytes = 0;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        self.file.flush().await.map_err(|error| self.failed(error))?;
        self.file.sync_all().await.map_err(|error| self.failed(error))?;
        let name = self.name.clone();
        self.store.blocking(format!("publishing data '{name}'"), move |store| store.publish(&name)).await
    }

    async fn abandon(self: Box<Self>) {
        // What stays behind after a failure here, the sweep removes.
        let _ = self.store.remove(&self.location).await;
    }
}

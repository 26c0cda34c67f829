//! Bytes in any store that the crate `object_store` speaks to: S3-compatible ones, other clouds, memory.
//!
//!   store-id     the beginning of all names given here
//!   intents/N    who will name N, as JSON          data/aa/bb/N    the bytes
//!
//! Always: an object of `data/` is whole: those stores show an upload only when it is completed. Uploads
//! that a crash left open there are the store's own to abort; set a rule for it on the bucket.
//! Held by: `other_stores_keep_the_contract`.

use super::{is_name, DataStore, DataStream, DataWriter, Intent, StoreError, StoreId, SweepGuard};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, WriteMultipart,
};
use std::ops::Range;
use std::sync::Arc;

/// The bytes of one part of an upload; S3 takes no smaller ones.
const PART_BYTES: usize = 8 << 20;
/// How many parts are on their way at a time: with [`PART_BYTES`] what one upload holds in memory.
const PARTS_AT_ONCE: usize = 2;

/// A store over another store.
#[derive(Clone)]
pub struct ObjectsStore {
    store: Arc<dyn ObjectStore>,
    id: StoreId,
}

impl ObjectsStore {
    /// Over that; it is given an id where it has none.
    pub async fn open(store: Arc<dyn ObjectStore>) -> Result<ObjectsStore, StoreError> {
        let (path, drawn) = (Path::from("store-id"), StoreId::draw()?);
        let doing = || "reading store-id".to_owned();
        let text = match store.get(&path).await {
            Ok(got) => got.bytes().await.map_err(failed(doing()))?,
            Err(Error::NotFound { .. }) => {
                // Of several that do so at once one wins.
                let only_new = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
                match store.put_opts(&path, drawn.text().to_owned().into(), only_new).await {
                    Ok(_) | Err(Error::AlreadyExists { .. }) => {}
                    Err(error) => return Err(failed("writing store-id".to_owned())(error)),
                }
                store.get(&path).await.map_err(failed(doing()))?.bytes().await.map_err(failed(doing()))?
            }
            Err(error) => return Err(failed(doing())(error)),
        };
        let id = StoreId::read(&String::from_utf8_lossy(&text))?;
        Ok(ObjectsStore { store, id })
    }
}

fn data_path(name: &str) -> Path {
    Path::from(format!("data/{}/{}/{name}", &name[..2], &name[2..4]))
}

fn intent_path(name: &str) -> Path {
    Path::from(format!("intents/{name}"))
}

fn failed(doing: String) -> impl FnOnce(Error) -> StoreError {
    move |error| StoreError::io(doing, std::io::Error::other(error))
}

/// An object that is not there is as good as removed.
fn gone(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::NotFound { .. }) => Ok(()),
        other => other,
    }
}

#[async_trait::async_trait]
impl DataStore for ObjectsStore {
    fn owns(&self, location: &str) -> bool {
        self.id.name(location).is_ok()
    }

    async fn begin_sweep(&self) -> Result<Option<SweepGuard>, StoreError> {
        // Such stores have no locks: several may sweep at once, and do the same.
        Ok(Some(Box::new(())))
    }

    async fn begin(&self, intent: Intent) -> Result<Box<dyn DataWriter>, StoreError> {
        let name = StoreId::new_name()?;
        let doing = format!("beginning data '{name}'");
        let text = serde_json::to_vec(&intent).map_err(|error| StoreError::io(doing.clone(), error.into()))?;
        self.store.put(&intent_path(&name), text.into()).await.map_err(failed(doing.clone()))?;
        let upload = self.store.put_multipart(&data_path(&name)).await.map_err(failed(doing))?;
        let upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        Ok(Box::new(ObjectsWriter { store: self.clone(), location: self.id.location(&name), upload }))
    }

    async fn read(&self, location: &str, length: u64, range: Range<u64>) -> Result<DataStream, StoreError> {
        let name = self.id.name(location)?;
        let doing = format!("reading data '{location}'");
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let got = self.store.get_opts(&data_path(name), options).await.map_err(|error| match error {
            Error::NotFound { .. } => StoreError::Missing(location.to_owned()),
            other => failed(doing.clone())(other),
        })?;
        if got.meta.size != length {
            let location = location.to_owned();
            return Err(StoreError::Damaged { location, found: got.meta.size, expected: length });
        }
        Ok(got.into_stream().map_err(move |error| failed(doing.clone())(error)).boxed())
    }

    async fn settle(&self, location: &str) -> Result<(), StoreError> {
        let name = self.id.name(location)?;
        gone(self.store.delete(&intent_path(name)).await).map_err(failed(format!("settling data '{location}'")))
    }

    async fn remove(&self, location: &str) -> Result<(), StoreError> {
        let name = self.id.name(location)?;
        let doing = format!("removing data '{location}'");
        gone(self.store.delete(&data_path(name)).await).map_err(failed(doing.clone()))?;
        gone(self.store.delete(&intent_path(name)).await).map_err(failed(doing))
    }

    async fn intents(&self, after: Option<&str>, max: usize) -> Result<Vec<(String, Intent)>, StoreError> {
        let doing = || "listing intents".to_owned();
        let folder = Path::from("intents");
        let listed = match after {
            Some(after) => self.store.list_with_offset(Some(&folder), &intent_path(self.id.name(after)?)),
            None => self.store.list(Some(&folder)),
        };
        // Not every store lists in order: the whole list is taken, which is as long as uploads are many.
        let mut names: Vec<String> = listed
            .try_filter_map(|meta| async move { Ok(meta.location.filename().map(str::to_owned)) })
            .try_collect()
            .await
            .map_err(failed(doing()))?;
        names.retain(|name| is_name(name));
        names.sort_unstable();
        names.truncate(max);
        let mut out = Vec::with_capacity(names.len());
        for name in names {
            match self.store.get(&intent_path(&name)).await {
                Ok(got) => {
                    let bytes = got.bytes().await.map_err(failed(doing()))?;
                    let intent =
                        serde_json::from_slice(&bytes).map_err(|error| StoreError::io(doing(), error.into()))?;
                    out.push((self.id.location(&name), intent));
                }
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(failed(doing())(error)),
            }
        }
        Ok(out)
    }
}

struct ObjectsWriter {
    store: ObjectsStore,
    location: String,
    upload: WriteMultipart,
}

#[async_trait::async_trait]
impl DataWriter for ObjectsWriter {
    fn location(&self) -> &str {
        &self.location
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        let doing = format!("writing data '{}'", self.location);
        self.upload.wait_for_capacity(PARTS_AT_ONCE).await.map_err(failed(doing))?;
        self.upload.put(bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let doing = format!("publishing data '{}'", self.location);
        self.upload.finish().await.map(|_| ()).map_err(failed(doing))
    }

    async fn abandon(self: Box<Self>) {
        // What stays behind after a failure here, the sweep removes.
        let (store, location) = (self.store, self.location);
        let _ = self.upload.abort().await;
        let _ = store.remove(&location).await;
    }
}

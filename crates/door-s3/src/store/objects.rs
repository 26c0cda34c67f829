//! Bytes in any store that the crate `object_store` speaks to: S3-compatible ones, other clouds, memory.
//!
//!   intents/N    who will name N, as JSON          data/aa/bb/N    the bytes
//!
//! Always: an object of `data/` is whole: those stores show an upload only when it is completed. Uploads
//! that a crash left open there are the store's own to abort; set a rule for it on the bucket.

use super::{check_name, new_name, DataStore, DataStream, DataWriter, Intent, StoreError};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, WriteMultipart};
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
}

impl ObjectsStore {
    /// Over that.
    pub fn new(store: Arc<dyn ObjectStore>) -> ObjectsStore {
        ObjectsStore { store }
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
    async fn begin(&self, intent: Intent) -> Result<Box<dyn DataWriter>, StoreError> {
        let name = new_name()?;
        let doing = format!("beginning data '{name}'");
        let text = serde_json::to_vec(&intent).map_err(|error| StoreError::io(doing.clone(), error.into()))?;
        self.store.put(&intent_path(&name), text.into()).await.map_err(failed(doing.clone()))?;
        let upload = self.store.put_multipart(&data_path(&name)).await.map_err(failed(doing))?;
        let upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        Ok(Box::new(ObjectsWriter { store: self.clone(), name, upload }))
    }

    async fn read(&self, location: &str, length: u64, range: Range<u64>) -> Result<DataStream, StoreError> {
        check_name(location)?;
        let doing = format!("reading data '{location}'");
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let got = self.store.get_opts(&data_path(location), options).await.map_err(|error| match error {
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
        check_name(location)?;
        gone(self.store.delete(&intent_path(location)).await).map_err(failed(format!("settling data '{location}'")))
    }

    async fn remove(&self, location: &str) -> Result<(), StoreError> {
        check_name(location)?;
        let doing = format!("removing data '{location}'");
        gone(self.store.delete(&data_path(location)).await).map_err(failed(doing.clone()))?;
        gone(self.store.delete(&intent_path(location)).await).map_err(failed(doing))
    }

    async fn intents(&self, after: Option<&str>, max: usize) -> Result<Vec<(String, Intent)>, StoreError> {
        let doing = || "listing intents".to_owned();
        let folder = Path::from("intents");
        let listed = match after {
            Some(after) => self.store.list_with_offset(Some(&folder), &intent_path(after)),
            None => self.store.list(Some(&folder)),
        };
        // Not every store lists in order: the whole list is taken, which is as long as uploads are many.
        let mut names: Vec<String> = listed
            .try_filter_map(|meta| async move { Ok(meta.location.filename().map(str::to_owned)) })
            .try_collect()
            .await
            .map_err(failed(doing()))?;
        names.retain(|name| check_name(name).is_ok());
        names.sort_unstable();
        names.truncate(max);
        let mut out = Vec::with_capacity(names.len());
        for name in names {
            match self.store.get(&intent_path(&name)).await {
                Ok(got) => {
                    let bytes = got.bytes().await.map_err(failed(doing()))?;
                    let intent =
                        serde_json::from_slice(&bytes).map_err(|error| StoreError::io(doing(), error.into()))?;
                    out.push((name, intent));
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
    name: String,
    upload: WriteMultipart,
}

#[async_trait::async_trait]
impl DataWriter for ObjectsWriter {
    fn location(&self) -> &str {
        &self.name
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        let doing = format!("writing data '{}'", self.name);
        self.upload.wait_for_capacity(PARTS_AT_ONCE).await.map_err(failed(doing))?;
        self.upload.put(bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let doing = format!("publishing data '{}'", self.name);
        self.upload.finish().await.map(|_| ()).map_err(failed(doing))
    }

    async fn abandon(self: Box<Self>) {
        // What stays behind after a failure here, the sweep removes.
        let (store, name) = (self.store, self.name);
        let _ = self.upload.abort().await;
        let _ = store.remove(&name).await;
    }
}

//! A backup's files as objects under a prefix.

use crate::BackupError;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::sync::Arc;

/// Environment variables that name credentials and endpoints.
const ENVIRONMENT: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// A prefix in a store.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    /// The URL down to the bucket, without a slash at its end.
    root: String,
    prefix: Path,
}

impl Objects {
    pub fn open(place: &str) -> Result<Objects, BackupError> {
        // Of several threads one installs it: the others find it there.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let wrong = |reason: String| BackupError::Place { place: place.into(), reason };
        let url = url::Url::parse(place).map_err(|error| wrong(error.to_string()))?;
        let known = |name: &str| ENVIRONMENT.iter().any(|prefix| name.starts_with(prefix));
        let environment = std::env::vars().filter(|(name, _)| known(name));
        let options = environment.map(|(name, value)| (name.to_lowercase(), value));
        let (store, prefix) = object_store::parse_url_opts(&url, options).map_err(|error| wrong(error.to_string()))?;
        let root = place.trim_end_matches('/').strip_suffix(prefix.as_ref()).unwrap_or(place);
        Ok(Objects { store: store.into(), root: root.trim_end_matches('/').to_owned(), prefix })
    }

    pub fn shown(&self) -> String {
        format!("{}/{}", self.root, self.prefix).trim_end_matches('/').to_owned()
    }

    fn path(&self, name: &str) -> Path {
        self.prefix.clone().join(name)
    }

    fn failed(&self, name: &str, error: object_store::Error) -> BackupError {
        let reason = std::io::Error::other(error);
        BackupError::File { path: format!("{}/{name}", self.shown()), reason }
    }

    pub async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), BackupError> {
        let put = self.store.put(&self.path(name), bytes.into()).await;
        put.map(drop).map_err(|error| self.failed(name, error))
    }

    pub async fn get(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, BackupError> {
        let found = match self.store.get(&self.path(name)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.failed(name, error)),
        };
        if found.meta.size > most {
            let what = format!("it is longer than {most} bytes");
            return Err(BackupError::Damaged { path: format!("{}/{name}", self.shown()), what });
        }
        let bytes = found.bytes().await.map_err(|error| self.failed(name, error))?;
        Ok(Some(bytes.into()))
    }

    pub async fn has(&self, name: &str) -> Result<bool, BackupError> {
        match self.store.head(&self.path(name)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed(name, error)),
        }
    }

    pub async fn names(&self) -> Result<Vec<String>, BackupError> {
        let found = self.store.list_with_delimiter(Some(&self.prefix)).await.map_err(|error| self.failed("", error))?;
        Ok(found.objects.iter().filter_map(|object| object.location.filename().map(str::to_owned)).collect())
    }

    pub async fn remove(&self, name: &str) -> Result<(), BackupError> {
        self.store.delete(&self.path(name)).await.map_err(|error| self.failed(name, error))
    }

    pub async fn children(&self) -> Result<Vec<Objects>, BackupError> {
        let found = self.store.list_with_delimiter(Some(&self.prefix)).await.map_err(|error| self.failed("", error))?;
        Ok(found.common_prefixes.into_iter().map(|prefix| Objects { prefix, ..self.clone() }).collect())
    }

    pub fn parent(&self) -> Option<Objects> {
        let mut parts: Vec<_> = self.prefix.parts().collect();
        parts.pop()?;
        Some(Objects { prefix: parts.into_iter().collect(), ..self.clone() })
    }
}

//! Where a backup lies: a directory, or names under a prefix in an object store (S3, Azure, GCS), by URL.
//!
//! ```text
//!   /backup/shop-1            a directory: files appear whole, synced, with their directory
//!   s3://bucket/shop-1        objects: a put is whole or not at all
//! ```
//!
//! Always: what was put is durable, and a reader sees the old bytes or the new ones. Held by: `put_leaves_no_temporary_file` for
//! directories; object stores promise it.
//! Not here: credentials. They are taken from the environment (`AWS_…`, `AZURE_…`, `GOOGLE_…`).

use crate::files::{read_whole, sync_folder, write_whole};
use crate::BackupError;
use std::path::PathBuf;

#[cfg(feature = "object-store")]
mod objects;

/// The most backups beside each other that are looked at.
const SIBLINGS_MAX: usize = 10_000;

/// A place for one backup, or for several under it.
#[derive(Clone)]
pub enum Depot {
    /// Files.
    Directory(PathBuf),
    /// Objects.
    #[cfg(feature = "object-store")]
    Objects(objects::Objects),
}

impl Depot {
    /// What has `://` in it is a URL, all else a directory. Nothing is looked at yet.
    pub fn open(place: &str) -> Result<Depot, BackupError> {
        match place.contains("://") {
            false => Ok(Depot::Directory(place.into())),
            #[cfg(feature = "object-store")]
            true => Ok(Depot::Objects(objects::Objects::open(place)?)),
            #[cfg(not(feature = "object-store"))]
            true => Err(BackupError::Place {
                place: place.into(),
                reason: "this build has no object stores; name a directory".into(),
            }),
        }
    }

    /// As people write it.
    pub fn shown(&self) -> String {
        match self {
            Depot::Directory(path) => path.display().to_string(),
            #[cfg(feature = "object-store")]
            Depot::Objects(objects) => objects.shown(),
        }
    }

    /// One of its files, as people write it.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.shown())
    }

    /// Makes the directory.
    pub(crate) fn prepare(&self) -> Result<(), BackupError> {
        match self {
            Depot::Directory(path) => {
                std::fs::create_dir_all(path).map_err(|error| BackupError::file(path, error))?;
                sync_folder(path.parent().unwrap_or(path))
            }
            #[cfg(feature = "object-store")]
            Depot::Objects(_) => Ok(()),
        }
    }

    /// Puts a file, whole and durable.
    pub(crate) async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), BackupError> {
        match self {
            Depot::Directory(path) => write_whole(&path.join(name), &bytes),
            #[cfg(feature = "object-store")]
            Depot::Objects(objects) => objects.put(name, bytes).await,
        }
    }

    /// A file of at most so many bytes; none: it is not there.
    pub(crate) async fn get(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, BackupError> {
        match self {
            Depot::Directory(path) if path.join(name).exists() => Ok(Some(read_whole(&path.join(name), most)?)),
            Depot::Directory(_) => Ok(None),
            #[cfg(feature = "object-store")]
            Depot::Objects(objects) => objects.get(name, most).await,
        }
    }

    /// Whether a file is there.
    pub(crate) async fn has(&self, name: &str) -> Result<bool, BackupError> {
        match self {
            Depot::Directory(path) => Ok(path.join(name).exists()),
            #[cfg(feature = "object-store")]
            Depot::Objects(objects) => objects.has(name).await,
        }
    }

    /// The names of its files.
    pub(crate) async fn names(&self) -> Result<Vec<String>, BackupError> {
        match self {
            Depot::Directory(path) => {
                let failed = |error| BackupError::file(path, error);
                let found = std::fs::read_dir(path).map_err(failed)?;
                let name = |entry: std::io::Result<std::fs::DirEntry>| {
                    Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned())
                };
                found.map(name).collect()
            }
            #[cfg(feature = "object-store")]
            Depot::Objects(objects) => objects.names().await,
        }
    }

    /// Removes a file that is there.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), BackupError> {
        match self {
            Depot::Directory(path) => {
                let removed =
                    std::fs::remove_file(path.join(name)).and_then(|()| std::fs::File::open(path)?.sync_all());
                removed.map_err(|error| BackupError::file(&path.join(name), error))
            }
            #[cfg(feature = "object-store")]
            Depot::Objects(objects) => objects.remove(name).await,
        }
    }

    /// The places under it, by name.
    pub(crate) async fn children(&self) -> Result<Vec<Depot>, BackupError> {
        let mut found: Vec<Depot> = match self {
            Depot::Directory(path) => {
                let entries = std::fs::read_dir(path).map_err(|error| BackupError::file(path, error))?;
                let paths = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
                paths.take(SIBLINGS_MAX).map(Depot::Directory).collect()
            }
            #[cfg(feature = "object-store")]
            Depot::Objects(objects) => {
                let under = objects.children().await?;
                under.into_iter().take(SIBLINGS_MAX).map(Depot::Objects).collect()
            }
        };
        found.sort_by_key(Depot::shown);
        Ok(found)
    }

    /// The places beside it.
    pub(crate) async fn siblings(&self) -> Result<Vec<Depot>, BackupError> {
        let parent = match self {
            Depot::Directory(path) => {
                let whole = std::fs::canonicalize(path).map_err(|error| BackupError::file(path, error))?;
                whole.parent().map(|parent| Depot::Directory(parent.to_owned()))
            }
            #[cfg(feature = "object-store")]
            Depot::Objects(objects) => objects.parent().map(Depot::Objects),
        };
        match parent {
            Some(parent) => parent.children().await,
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn put_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let depot = Depot::open(folder.path().to_str().unwrap()).unwrap();
        crate::tests::run(async {
            depot.put("a", vec![1]).await.unwrap();
            depot.put("a", vec![2, 3]).await.unwrap();
            assert_eq!(depot.names().await.unwrap(), ["a"]);
            assert_eq!(depot.get("a", 2).await.unwrap(), Some(vec![2, 3]));
            assert!(depot.get("a", 1).await.is_err());
            depot.remove("a").await.unwrap();
            assert_eq!(depot.get("a", 9).await.unwrap(), None);
        });
    }
}

//! Where objects are, as settings write it.
//!
//!   s3://bucket/prefix     S3, or what speaks like it (`endpoint` in the options, or AWS_ENDPOINT_URL)
//!   file:///directory      a directory, every write synced
//!   memory:                this process's memory: tests
//!
//! What the options do not say of S3 is taken from the environment (AWS_ACCESS_KEY_ID, AWS_REGION, …).
//!
//! Always: nothing is sent while a place is read or opened; `probe` tries it.
//! Not here: limits and retries (`limited.rs`).

use crate::failure::ObjectsError;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest name of a place.
const URL_BYTES_MAX: usize = 1024;

/// Where objects are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A bucket, and the beginning of all names in it.
    S3 {
        /// The bucket.
        bucket: String,
        /// Without slashes at its ends; may be empty.
        prefix: String,
    },
    /// A directory of this machine.
    Directory(PathBuf),
    /// This process's memory.
    Memory,
}

impl Place {
    /// Reads a URL.
    pub fn parse(url: &str) -> Result<Place, ObjectsError> {
        let wrong = |why: &str| {
            ObjectsError::Invalid(format!(
                "{:?} is no place for objects: {why}; write s3://BUCKET/PREFIX or file:///DIRECTORY",
                url.chars().take(200).collect::<String>()
            ))
        };
        if url.len() > URL_BYTES_MAX || url.chars().any(char::is_control) {
            return Err(wrong("it is too long or holds control characters"));
        }
        if let Some(rest) = url.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let prefix = prefix.trim_matches('/').to_string();
            let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            if bucket.is_empty() || !bucket.chars().all(known) {
                return Err(wrong("it names no bucket"));
            }
            if prefix.split('/').any(|part| part == ".." || part == ".") {
                return Err(wrong("its prefix holds '.' or '..'"));
            }
            return Ok(Place::S3 { bucket: bucket.to_string(), prefix });
        }
        if let Some(path) = url.strip_prefix("file://") {
            return match path.starts_with('/') {
                true => Ok(Place::Directory(PathBuf::from(path))),
                false => Err(wrong("the directory must be absolute")),
            };
        }
        match url {
            "memory:" | "memory://" | "memory:///" => Ok(Place::Memory),
            _ => Err(wrong("its scheme is not known")),
        }
    }

    /// The same place, a level deeper.
    pub fn below(&self, name: &str) -> Place {
        match self {
            Place::S3 { bucket, prefix } if prefix.is_empty() => {
                Place::S3 { bucket: bucket.clone(), prefix: name.to_string() }
            }
            Place::S3 { bucket, prefix } => Place::S3 { bucket: bucket.clone(), prefix: format!("{prefix}/{name}") },
            Place::Directory(path) => Place::Directory(path.join(name)),
            Place::Memory => Place::Memory,
        }
    }

    /// Opens it. Nothing is sent yet; a directory is made.
    pub fn open(&self, options: &BTreeMap<String, String>) -> Result<Arc<dyn ObjectStore>, ObjectsError> {
        match self {
            Place::S3 { bucket, prefix } => open_bucket(bucket, prefix, options),
            Place::Directory(path) => {
                refuse_options(self, options)?;
                let failed = |error: &dyn std::fmt::Display| {
                    ObjectsError::Refused(format!(
                        "{}: {error}; give a directory this user may write to",
                        path.display()
                    ))
                };
                std::fs::create_dir_all(path).map_err(|error| failed(&error))?;
                let store = LocalFileSystem::new_with_prefix(path).map_err(|error| failed(&error))?;
                Ok(Arc::new(store.with_fsync(true)))
            }
            Place::Memory => {
                refuse_options(self, options)?;
                Ok(Arc::new(InMemory::new()))
            }
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Place::Directory(path) => write!(f, "file://{}", path.display()),
            Place::Memory => f.write_str("memory:"),
        }
    }
}

fn refuse_options(place: &Place, options: &BTreeMap<String, String>) -> Result<(), ObjectsError> {
    match options.keys().next() {
        Some(name) => Err(ObjectsError::Invalid(format!("{place} takes no options, but {name:?} is set; remove it"))),
        None => Ok(()),
    }
}

fn open_bucket(
    bucket: &str,
    prefix: &str,
    options: &BTreeMap<String, String>,
) -> Result<Arc<dyn ObjectStore>, ObjectsError> {
    // Of several threads one installs it: the others find it there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = format!("s3://{bucket}/{prefix}");
    let plain_http = options.get("endpoint").cloned().or_else(|| std::env::var("AWS_ENDPOINT_URL").ok());
    let client = ClientOptions::new()
        .with_timeout(crate::limited::REQUEST_DEADLINE)
        .with_connect_timeout(CONNECT_TIMEOUT)
        // An endpoint written with http:// was meant so.
        .with_allow_http(plain_http.is_some_and(|url| url.starts_with("http://")));
    // Retries are `Limited`'s: two layers of them would multiply, and hide from the meter.
    let retries = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let mut builder =
        AmazonS3Builder::from_env().with_client_options(client).with_retry(retries).with_bucket_name(bucket);
    for (name, value) in options {
        let key: AmazonS3ConfigKey = name.to_lowercase().parse().map_err(|_| {
            ObjectsError::Invalid(format!(
                "{place}: the option {name:?} is not known; known are endpoint, region, access_key_id, secret_access_key, session_token and the others of the crate object_store"
            ))
        })?;
        builder = builder.with_config(key, value);
    }
    let store = builder
        .build()
        .map_err(|error| ObjectsError::Invalid(format!("{place}: {error}; fix the options or the environment")))?;
    match prefix.is_empty() {
        true => Ok(Arc::new(store)),
        false => Ok(Arc::new(PrefixStore::new(store, prefix))),
    }
}

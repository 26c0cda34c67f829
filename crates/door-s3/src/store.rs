//! Where objects' bytes are when they are too large to be metadata.
//!
//!   intent (bucket, key, expiry) ─▶ bytes ─▶ finished ─▶ the version is committed ─▶ intent settled
//!
//! A crash between any two steps leaves an intent; `sweep` asks the metadata service whether a version
//! names the bytes and settles or removes them. Always: an intent is durable before the first byte, bytes
//! are durable before a version can name them, and a name is never used twice.
//! Not here: small objects (they travel in the metadata call), who names the bytes (metadata).

mod local;
#[cfg(feature = "object-store")]
mod objects;

pub use local::LocalStore;
#[cfg(feature = "object-store")]
pub use objects::ObjectsStore;

use bytes::Bytes;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How many bytes are read or written at once: what one request holds in memory at most, twice.
pub const CHUNK_BYTES: usize = 256 << 10;
/// How many bytes the random part of a name has.
const NAME_BYTES: usize = 16;

/// What is kept beside bytes until a version names them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Intent {
    /// For this bucket.
    pub bucket: String,
    /// And this key.
    pub key: String,
    /// A version that is ordered later is refused, so that bytes behind it can be removed.
    pub expires_ms: u64,
}

/// What a store could not do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No bytes have that name (any more).
    #[error("no data is stored under '{0}'")]
    Missing(String),
    /// The bytes are not as they were written.
    #[error("data '{location}' has {found} bytes where {expected} were written")]
    Damaged {
        /// Its name.
        location: String,
        /// How many bytes there are.
        found: u64,
        /// How many there must be.
        expected: u64,
    },
    /// A name that this store never gave.
    #[error("'{0}' is no name of this data store")]
    BadName(String),
    /// The disk or the network.
    #[error("{doing}: {source}")]
    Io {
        /// What it was doing.
        doing: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl StoreError {
    pub(crate) fn io(doing: impl Into<String>, source: std::io::Error) -> StoreError {
        StoreError::Io { doing: doing.into(), source }
    }
}

/// Bytes as they come, each piece at most [`CHUNK_BYTES`].
pub type DataStream = BoxStream<'static, Result<Bytes, StoreError>>;

/// A place for bytes.
#[async_trait::async_trait]
pub trait DataStore: Send + Sync + 'static {
    /// Registers the intent and opens a new name for writing.
    async fn begin(&self, intent: Intent) -> Result<Box<dyn DataWriter>, StoreError>;
    /// Reads a range of what has `length` bytes.
    async fn read(&self, location: &str, length: u64, range: Range<u64>) -> Result<DataStream, StoreError>;
    /// A version names it: forgets the intent. Done twice it does nothing.
    async fn settle(&self, location: &str) -> Result<(), StoreError>;
    /// Removes bytes and intent. Done twice it does nothing.
    async fn remove(&self, location: &str) -> Result<(), StoreError>;
    /// Intents by name, at most `max` behind `after`.
    async fn intents(&self, after: Option<&str>, max: usize) -> Result<Vec<(String, Intent)>, StoreError>;
}

/// Bytes on their way into a store.
#[async_trait::async_trait]
pub trait DataWriter: Send {
    /// The name they will have.
    fn location(&self) -> &str;
    /// Takes the next bytes.
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError>;
    /// Makes them durable under their name.
    async fn finish(self: Box<Self>) -> Result<(), StoreError>;
    /// Drops them. (A writer that is merely dropped leaves them to the sweep.)
    async fn abandon(self: Box<Self>);
}

/// A name nobody can guess and no two writes share.
pub(crate) fn new_name() -> Result<String, StoreError> {
    let mut bytes = [0u8; NAME_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::io("drawing a name", std::io::Error::other(error.to_string())))?;
    Ok(crate::checksum::hex(&bytes))
}

/// Names come back from metadata: whatever else stands there must not reach a path.
pub(crate) fn check_name(location: &str) -> Result<(), StoreError> {
    let legal = location.len() == 2 * NAME_BYTES
        && location.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if legal {
        return Ok(());
    }
    Err(StoreError::BadName(location.chars().take(2 * NAME_BYTES).collect()))
}

//! Where objects' bytes are when they are too large to be metadata.
//!
//!   intent (bucket, key, expiry) ─▶ bytes ─▶ finished ─▶ the version is committed ─▶ intent settled
//!
//! A crash between any two steps leaves an intent; `sweep` asks the metadata service whether a version
//! names the bytes and settles or removes them. Always: an intent is durable before the first byte, bytes
//! are durable before a version can name them, and a name is never used twice. A name begins with the id of
//! its store: a node that was given another store says so, and never removes what is not there to remove.
//! Held by: `a_crash_at_each_step_leaves_no_orphan_and_loses_nothing`, `what_another_store_gave_is_left_alone`.
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
/// How many bytes a store's id has.
const ID_BYTES: usize = 4;

/// What is kept beside bytes until a version names them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Intent {
    /// For this bucket.
    pub bucket: String,
    /// And this key.
    pub key: String,
    /// A version that is ordered later is refused, so that bytes after it can be removed.
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
    /// A name that no store gave.
    #[error("'{0}' is no name of a data store")]
    BadName(String),
    /// A name of another store.
    #[error(
        "data '{location}' is in another data store than this node's '{store}'; give all nodes of a world the same \
         data under [s3] in node.toml"
    )]
    OtherStore {
        /// Its name.
        location: String,
        /// The id of this store.
        store: String,
    },
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

/// The right to sweep a store; given back when it is dropped.
pub type SweepGuard = Box<dyn Send>;

/// A place for bytes.
#[async_trait::async_trait]
pub trait DataStore: Send + Sync + 'static {
    /// Whether this store gave the name: what others gave is neither removed nor forgotten here.
    fn owns(&self, location: &str) -> bool;
    /// The right to sweep; none where another process has it. (Where a store cannot tell, everybody has it:
    /// each step of a sweep may be done twice.)
    async fn begin_sweep(&self) -> Result<Option<SweepGuard>, StoreError>;
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

/// The id of a store: the beginning of all names it gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoreId(String);

impl StoreId {
    /// Of a new store.
    pub fn draw() -> Result<StoreId, StoreError> {
        random_hex(ID_BYTES).map(StoreId)
    }

    /// As it was written down when the store was made.
    pub fn read(text: &str) -> Result<StoreId, StoreError> {
        let text = text.trim_end();
        if is_hex(text, ID_BYTES) {
            return Ok(StoreId(text.to_owned()));
        }
        let bad = std::io::Error::new(std::io::ErrorKind::InvalidData, format!("'{}' is no id", text.escape_debug()));
        Err(StoreError::io("reading the data store's id; was it changed by hand?", bad))
    }

    /// As it is written down.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// A name nobody can guess and no two writes share, without the id.
    pub fn new_name() -> Result<String, StoreError> {
        random_hex(NAME_BYTES)
    }

    /// A name as metadata keeps it.
    pub fn location(&self, name: &str) -> String {
        format!("{}-{name}", self.0)
    }

    /// The name without the id. Names come back from metadata: whatever else stands there must not reach a path.
    pub fn name<'l>(&self, location: &'l str) -> Result<&'l str, StoreError> {
        let Some((id, name)) = location.split_once('-').filter(|(id, name)| is_hex(id, ID_BYTES) && is_name(name))
        else {
            return Err(StoreError::BadName(location.chars().take(2 * NAME_BYTES).collect()));
        };
        if id != self.0 {
            return Err(StoreError::OtherStore { location: location.to_owned(), store: self.0.clone() });
        }
        Ok(name)
    }
}

fn random_hex(count: usize) -> Result<String, StoreError> {
    let mut bytes = [0u8; NAME_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::io("drawing a name", std::io::Error::other(error.to_string())))?;
    Ok(crate::checksum::hex(&bytes[..count]))
}

/// A name without the id.
pub(crate) fn is_name(text: &str) -> bool {
    is_hex(text, NAME_BYTES)
}

fn is_hex(text: &str, bytes: usize) -> bool {
    text.len() == 2 * bytes && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

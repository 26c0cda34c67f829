//! Why a store does not open, and why a call has no answer.
//!
//! By design: a message names the thing and the remedy; a write whose outcome is not known says so.
//! Not here: the C interface's codes (edge-embedded-c).

use base_engine::EngineError;

/// Why a directory is not opened. It is left as it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An option that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// There is no store, and none is to be made.
    #[error("there is no store in {path}; name a store's directory, or open it with `create`")]
    Missing {
        /// The directory.
        path: String,
    },
    /// Something else's directory.
    #[error(
        "{path} is not empty and has no hive-store.json ({found} is there); name an empty directory or a store's own"
    )]
    Foreign {
        /// The directory.
        path: String,
        /// Something in it.
        found: String,
    },
    /// Another process, or this one, has it open.
    #[error(
        "the store in {path} is open already, here or in another process; close it there, or name another directory"
    )]
    InUse {
        /// The directory.
        path: String,
    },
    /// Made by a newer build.
    #[error("the store in {path} has format {found}, this build knows up to {known}; use a newer build")]
    NewerFormat {
        /// The directory.
        path: String,
        /// Its format.
        found: u64,
        /// The newest of this build.
        known: u64,
    },
    /// Made otherwise than the options say.
    #[error("the store in {path} was made with {what} {found}, not {asked}; leave the option away, or copy the data into a new store")]
    Differs {
        /// The directory.
        path: String,
        /// Which option.
        what: &'static str,
        /// What it was made with.
        found: String,
        /// What was asked for.
        asked: String,
    },
    /// An engine that this build does not have.
    #[error("this build has no engine '{name}'; use one of {known}, or a build with the cargo feature engine-{name}")]
    UnknownEngine {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// What is on the disk is not what was written.
    #[error("the store in {path} is damaged: {reason}")]
    Corrupt {
        /// The directory.
        path: String,
        /// What was found, and what to do.
        reason: String,
    },
    /// An engine's own error.
    #[error("engine of core {core} in {path}")]
    Engine {
        /// The directory.
        path: String,
        /// Which core's.
        core: u16,
        /// Why.
        source: EngineError,
    },
    /// The operating system refused.
    #[error("{path}: {reason}")]
    Io {
        /// The file or directory.
        path: String,
        /// Why.
        reason: String,
    },
}

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// A key, value or batch that no store takes.
    #[error("{0}")]
    Invalid(String),
    /// The store was closed.
    #[error("the store is closed; open it again")]
    Closed,
    /// No room. Nothing was written.
    #[error("no room in {path}: {reason}; make room or delete keys, and try again")]
    Full {
        /// The store's directory.
        path: String,
        /// What is full.
        reason: String,
    },
    /// The disk is behind. Nothing was written.
    #[error("core {core} has had no room in memory for {waited_ms} ms, for its disk is behind; try again later")]
    Overloaded {
        /// Which core.
        core: u16,
        /// How long was waited.
        waited_ms: u64,
    },
    /// The write is in memory and may or may not be on the disk.
    #[error("the write is not known to be on the disk ({reason}); read the key after the store is opened again")]
    Unknown {
        /// Why.
        reason: String,
    },
    /// A disk or a thread failed: nothing more is written.
    #[error("the store takes no more writes: {reason}; close it, mend the disk and open it again")]
    Failed {
        /// What failed.
        reason: String,
    },
    /// A snapshot or scan was held too long.
    #[error("the snapshot was held longer than the engine allows; take a new one")]
    SnapshotExpired,
    /// A read found what was never written.
    #[error("damaged data: {0}; restore the store from a copy")]
    Corrupt(String),
    /// The operating system refused a read.
    #[error("reading: {0}")]
    Io(String),
}

impl From<EngineError> for StoreError {
    fn from(error: EngineError) -> StoreError {
        match error {
            EngineError::SnapshotExpired => StoreError::SnapshotExpired,
            EngineError::Corrupt(reason) | EngineError::WrongFormat(reason) => StoreError::Corrupt(reason),
            EngineError::Full(reason) | EngineError::Io(reason) => StoreError::Io(reason),
        }
    }
}

//! An engine whose disk is an object store: `slatedb` over S3, what speaks like it, a directory, or memory.
//!
//! ```text
//!  <directory>/ENGINE, LOCK, location     whose it is, that it is open, where the data is
//!  <place>/<owner>/hive/wal, manifest, compacted, …    the data: SlateDB's objects
//! ```
//!
//! A commit is one object of SlateDB's write-ahead log, written only if absent; tables and merging come later, at the
//! same time as commits. The process that opened the place last is its writer. SlateDB writes an empty object where the
//! former writer would write next, so that writer's next commit is refused (`Fenced`), for good.
//!
//! Always: `write` is in the store when it returns; requests go through `base_objects::Limited`; a store
//! that stalls makes a write wait, up to [`COMMIT_DEADLINE`]; a place that is refused keeps every object.
//! Somebody else reads along without writing: `attached.rs`.
//! Not here: spaces, seals, snapshots' age (`base_engine::stored`), limits and retries (`base_objects`).
//! Why it is as it is: docs/decisions/0019; limits and figures: docs/engines/object.md.
//! All of it needs the feature `slatedb`.
#![cfg(feature = "slatedb")]
#![deny(missing_docs)]
// An engine that opens its own files; the wall these lints build is around core-*.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod attached;
mod collected;
mod failure;
mod held;
mod location;
mod store;
#[cfg(test)]
mod tests;
mod waits;

pub use attached::{attach, attach_over, Attached, FOLLOW_MAX};
use base_engine::stored::{Directory, RawStore, SnapshotLimits, StoredEngine};
use base_engine::EngineError;
pub use base_objects;
use base_objects::{Limited, Limits, Place};
use failure::objects_failure;
pub use held::{held, open_held, Held};
use location::Location;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
pub use store::{ObjectEngineStore, COMMIT_DEADLINE};

/// The engine.
pub type ObjectEngine = StoredEngine<ObjectEngineStore>;

/// The name in rules.
pub const NAME: &str = ObjectEngineStore::NAME;

/// How an engine is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectConfig {
    /// Where the data is: `s3://bucket/prefix`, `file:///directory`, `memory:`; empty: below the engine's
    /// own directory.
    pub url: String,
    /// Endpoint, region, keys; what is missing is taken from the environment.
    pub options: BTreeMap<String, String>,
    /// Memory for blocks read.
    pub cache_bytes: u64,
    /// A table in memory of this size becomes an object.
    pub memtable_bytes: usize,
    /// How requests are limited.
    pub limits: Limits,
    /// How often small tables are looked for that should be merged.
    pub merge_every: Duration,
    /// When snapshots expire.
    pub snapshots: SnapshotLimits,
    /// Whose data it is (for example world, disk and lane): part of the objects' names, written when
    /// they are made and compared when they are opened.
    pub identity: String,
    /// Kept beside the identity for a reader that finds the objects and nothing else (`held`).
    pub note: String,
}

impl Default for ObjectConfig {
    fn default() -> ObjectConfig {
        ObjectConfig {
            url: String::new(),
            options: BTreeMap::new(),
            cache_bytes: 64 << 20,
            memtable_bytes: 16 << 20,
            limits: Limits::default(),
            merge_every: Duration::from_secs(5),
            snapshots: SnapshotLimits::default(),
            identity: String::new(),
            note: String::new(),
        }
    }
}

/// Opens what a directory and a configuration name, or makes it. What is somebody else's, of a newer
/// format, or elsewhere than configured is refused untouched (`WrongFormat`); a place that refuses us is
/// `Io`, with the remedy.
pub fn open(directory: impl AsRef<Path>, config: &ObjectConfig) -> Result<ObjectEngine, EngineError> {
    let location = Location::of(directory.as_ref(), config)?;
    open_at(directory.as_ref(), config, &location)
}

fn open_at(directory: &Path, config: &ObjectConfig, location: &Location) -> Result<ObjectEngine, EngineError> {
    let open = || {
        let inner = location.place().open(&config.options).map_err(|error| objects_failure(&error))?;
        Ok(Limited::new(inner, config.limits))
    };
    open_in(directory, config, location, open)
}

/// The same over a store that is at hand: for tests of failing ones.
pub fn open_over(
    directory: &Path,
    config: &ObjectConfig,
    store: std::sync::Arc<dyn base_objects::object_store::ObjectStore>,
) -> Result<ObjectEngine, EngineError> {
    let location = Location::named(Place::Memory);
    open_in(directory, config, &location, || Ok(Limited::new(store, config.limits)))
}

fn open_in(
    directory: &Path,
    config: &ObjectConfig,
    location: &Location,
    open: impl FnOnce() -> Result<Limited, EngineError>,
) -> Result<ObjectEngine, EngineError> {
    let directory = Directory::take(directory, NAME, &location::FILES, &config.identity)?;
    location.keep(&directory)?;
    let disk = location.disk();
    let store = ObjectEngineStore::open(open()?, &location.to_string(), disk, config)?;
    let mut engine = StoredEngine::attach(store, directory, &config.identity, config.snapshots)?;
    if disk.is_none() {
        // The disk beside us does not fill up; one below us is asked by `commit`.
        engine.set_free_bytes(|_| Ok(u64::MAX));
    }
    Ok(engine)
}

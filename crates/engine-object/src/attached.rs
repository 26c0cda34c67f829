//! What an engine keeps in a place, read by a process that is not its owner: nothing is written there, nobody is
//! fenced, and the engine's own writer, should it live, is followed.
//!
//! ```text
//!  the owner ──objects──▶ <place>/<name>/hive/… ──▶ DbReader: the manifest, then the log after it, every `follow`
//! ```
//!
//! Always: only requests that read (`it_writes_nothing`); what is seen was durable (`it_sees_what_is_durable_and_what_comes`).
//! Two reads may see two instants.
//! Not here: what is in the spaces. Garbage is kept for ten minutes by its owner (`collected.rs`), so a reader that
//! follows more often than that does not lose what it reads.

use crate::failure::{objects_failure, slate_failure};
use crate::held::Held;
use crate::store::{next_page, scan_options, visit_pages, DATABASE, OPEN_DEADLINE, READ_DEADLINE};
use crate::waits::wait;
use crate::NAME;
use base_engine::stored::{Bystander, RawView, RawVisit};
use base_engine::{Direction, EngineError};
use base_objects::object_store::ObjectStore;
use base_objects::{Limited, Limits, Meter, Place};
use bytes::Bytes;
use slatedb::config::DbReaderOptions;
use slatedb::db_cache::moka::{MokaCache, MokaCacheOptions};
use slatedb::{DbReader, DbReaderMode};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Follows no seldomer than this: well before what it reads is collected.
pub const FOLLOW_MAX: Duration = Duration::from_secs(120);

/// A reader of what is held.
pub type Attached = Bystander<AttachedView>;

/// The newest instant that is known here.
pub struct AttachedView {
    reader: Arc<DbReader>,
    meter: Arc<Meter>,
}

/// Reads what is held, and looks every `follow` (at most [`FOLLOW_MAX`]) what has come.
pub fn attach(held: &Held, cache_bytes: u64, follow: Duration) -> Result<Attached, EngineError> {
    let place = Place::parse(&held.url).map_err(|error| objects_failure(&error))?;
    if let Place::Directory(path) = &place {
        if !path.is_dir() {
            let message = format!("{}: there is no such directory; name a place that is there", path.display());
            return Err(EngineError::Io(message));
        }
    }
    let store = place.open(&held.options).map_err(|error| objects_failure(&error))?;
    attach_over(store, &held.url, cache_bytes, follow)
}

/// The same over a store that is at hand.
pub fn attach_over(
    store: Arc<dyn ObjectStore>,
    place: &str,
    cache_bytes: u64,
    follow: Duration,
) -> Result<Attached, EngineError> {
    let store = Limited::new(store, Limits::default());
    let meter = store.meter();
    let what = format!("attaching to {place}");
    let said = what.clone();
    let options = DbReaderOptions { manifest_poll_interval: follow.min(FOLLOW_MAX), ..DbReaderOptions::default() };
    let opened = wait(&what, OPEN_DEADLINE, async move {
        let cache = MokaCache::new_with_opts(MokaCacheOptions { max_capacity: cache_bytes, ..Default::default() });
        let builder = DbReader::builder(DATABASE, Arc::new(store) as Arc<dyn ObjectStore>)
            .with_options(options)
            .with_reader_mode(DbReaderMode::FollowLatest)
            .with_db_cache(Arc::new(cache), 0);
        builder.build().await.map_err(|error| slate_failure(&said, &error))
    });
    let view = AttachedView { reader: Arc::new(opened??), meter };
    Bystander::open(view, NAME, Path::new(place))
}

impl AttachedView {
    /// What its requests were.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl RawView for AttachedView {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let (reader, key) = (self.reader.clone(), key.to_vec());
        let found = wait("reading a key", READ_DEADLINE, async move { reader.get(key).await })?;
        found.map_err(|error| slate_failure("reading a key", &error))
    }

    fn range(&self, start: &[u8], end: &[u8], direction: Direction, visit: RawVisit<'_>) -> Result<(), EngineError> {
        let options = scan_options(direction);
        let (reader, bounds) = (self.reader.clone(), start.to_vec()..end.to_vec());
        visit_pages(async move { next_page(reader.scan_with_options(bounds, &options).await?).await }, visit)
    }
}

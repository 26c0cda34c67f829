//! The engines this build has, and how a core's is opened.
//!
//! Not here: what an engine is (base-engine). Another engine is one more arm of `open`, one name and
//! one cargo feature.

use crate::error::OpenError;
use crate::options::Options;
use base_engine::{Engine, EngineError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The engine of stores that name none.
pub const DEFAULT: &str = engine_lmdb::LmdbEngine::NAME;

/// The names there are.
pub const NAMES: &[&str] = &[
    DEFAULT,
    #[cfg(feature = "engine-redb")]
    engine_redb::NAME,
    #[cfg(feature = "engine-fjall")]
    engine_fjall::NAME,
    #[cfg(feature = "engine-rocksdb")]
    engine_rocksdb::NAME,
];

/// A scan or snapshot older than this no longer reads: it would keep freed pages from being used again.
const SNAPSHOT_AGE_MAX: Duration = Duration::from_secs(600);

/// Refuses a name that is none here.
pub fn check(name: &str) -> Result<(), OpenError> {
    match NAMES.contains(&name) {
        true => Ok(()),
        false => Err(OpenError::UnknownEngine { name: name.into(), known: NAMES.join(", ") }),
    }
}

/// Opens a core's engine.
pub fn open(name: &str, path: &Path, identity: String, options: &Options) -> Result<Arc<dyn Engine>, EngineError> {
    match name {
        #[cfg(feature = "engine-redb")]
        engine_redb::NAME => {
            let bytes_max = options.engine_bytes_max;
            let config = engine_redb::RedbConfig { bytes_max, identity, ..Default::default() };
            Ok(Arc::new(engine_redb::open(path, config)?))
        }
        #[cfg(feature = "engine-fjall")]
        engine_fjall::NAME => {
            let config = engine_fjall::FjallConfig { identity, ..Default::default() };
            Ok(Arc::new(engine_fjall::open(path, config)?))
        }
        #[cfg(feature = "engine-rocksdb")]
        engine_rocksdb::NAME => {
            let config = engine_rocksdb::RocksConfig { identity, ..Default::default() };
            Ok(Arc::new(engine_rocksdb::open(path, config)?))
        }
        _ => {
            let config = engine_lmdb::LmdbConfig {
                map_bytes_max: options.engine_bytes_max,
                snapshot_age_max: SNAPSHOT_AGE_MAX,
                identity,
                ..Default::default()
            };
            Ok(Arc::new(engine_lmdb::LmdbEngine::open(path, config)?))
        }
    }
}

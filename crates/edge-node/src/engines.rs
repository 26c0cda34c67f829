//! The engines this build has, and how a lane's are opened.
//!
//! ```text
//! <data>/lane-<n>/<engine>/     made when the engine is used for the first time, but lmdb's at once
//! ```
//!
//! Always: every lane offers every engine of the build; a directory that an engine refuses is named in
//! the error and left as it is; one that is damaged is set aside (engines/aside.rs).
//! Held by: `a_foreign_directory_stops_the_start_with_its_name`, `a_damaged_engine_is_set_aside_and_made_anew`.
//! Not here: what an engine is (base-engine), which one a replica gets (core-node).

use base_engine::Engine;
use lazy::{Lazy, Open};
use section::EngineSection;
use std::path::Path;
use std::sync::Arc;

pub mod aside;
mod lazy;
pub mod section;
pub mod sizes;

/// The names, as rules, keyspaces and node.toml write them.
pub const NAMES: &[&str] = &[
    "lmdb",
    "memory",
    #[cfg(feature = "engine-redb")]
    engine_redb::NAME,
    #[cfg(feature = "engine-fjall")]
    engine_fjall::NAME,
    #[cfg(feature = "engine-sqlite")]
    engine_sqlite::NAME,
    #[cfg(feature = "engine-rocksdb")]
    engine_rocksdb::NAME,
    #[cfg(feature = "engine-object")]
    engine_object::NAME,
];

/// Names that a build may have or not, each by the cargo feature `engine-NAME`.
pub const OPTIONAL: [&str; 5] = ["redb", "fjall", "sqlite", "rocksdb", "object"];

/// Those that this build does not have.
pub fn elsewhere() -> Vec<&'static str> {
    OPTIONAL.into_iter().filter(|name| !NAMES.contains(name)).collect()
}

/// What to do about a name that is none here.
pub fn remedy(name: &str) -> String {
    let here = NAMES.join(", ");
    match OPTIONAL.contains(&name) {
        true => {
            format!("use one of {here}, or a build with the cargo feature engine-{name} (make build ENGINES={name})")
        }
        false => format!("use one of {here}"),
    }
}

/// Judges the place of engine `object`: what is wrong with it, and what to do.
#[cfg(feature = "engine-object")]
pub fn check_place(url: &str) -> Result<(), (String, String)> {
    use engine_object::base_objects::Place;
    let found = format!("{url:?}");
    match Place::parse(url) {
        _ if url.is_empty() => Ok(()),
        Ok(Place::Memory) => Err((found, "use a place that outlives the process: s3://… or file:///…".into())),
        Ok(_) => Ok(()),
        Err(error) => Err((found, error.to_string())),
    }
}

/// Judges the place of engine `object`: this build has none.
#[cfg(not(feature = "engine-object"))]
pub fn check_place(url: &str) -> Result<(), (String, String)> {
    match url.is_empty() {
        true => Ok(()),
        false => Err((format!("{url:?}"), "leave it out, or use a build with the cargo feature engine-object".into())),
    }
}

/// Judges the names of what rocksdb is to keep beside every key: what is wrong with one, and what to do.
#[cfg(feature = "engine-rocksdb")]
pub fn check_providers(names: &[String]) -> Result<(), (String, String)> {
    match names.iter().find(|name| !engine_rocksdb::PROVIDERS.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err((format!("{name:?}"), format!("use {}", engine_rocksdb::PROVIDERS.join(", ")))),
    }
}

/// Judges the names of what rocksdb is to keep beside every key: this build has none.
#[cfg(not(feature = "engine-rocksdb"))]
pub fn check_providers(names: &[String]) -> Result<(), (String, String)> {
    let remedy = "leave it out, or use a build with the cargo feature engine-rocksdb";
    names.first().map_or(Ok(()), |name| Err((format!("{name:?}"), remedy.into())))
}

/// Opens a lane's engines in its directory. The note is for a person who finds an engine's data without the node
/// (`Origin::note`).
pub fn open(lane: &Path, identity: &str, note: &str, section: &EngineSection) -> Result<Vec<Arc<dyn Engine>>, String> {
    let lmdb = engine_lmdb::LmdbConfig {
        map_bytes_max: section.lmdb.map_bytes_max,
        identity: identity.into(),
        ..Default::default()
    };
    let path = lane.join(engine_lmdb::LmdbEngine::NAME);
    crate::data::make_directory(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lmdb = aside::open_or_set_aside(&path, |path| engine_lmdb::LmdbEngine::open(path, lmdb.clone()))?;
    let mut engines: Vec<Arc<dyn Engine>> = vec![Arc::new(lmdb), Arc::new(engine_memory::MemoryEngine::new())];
    for (name, open) in optional(identity, note, section) {
        let open = |path: &Path| Lazy::new(name, path.into(), open.clone());
        let engine = match name {
            // What is damaged is not here.
            "object" => open(&lane.join(name)).map_err(|error| error.to_string())?,
            _ => aside::open_or_set_aside(&lane.join(name), open)?,
        };
        engines.push(Arc::new(engine));
    }
    Ok(engines)
}

/// Those that are features of the build.
#[allow(
    unused_mut,
    unused_variables,
    clippy::vec_init_then_push,
    reason = "which of them are there is chosen at build time"
)]
fn optional(identity: &str, note: &str, section: &EngineSection) -> Vec<(&'static str, Open)> {
    let mut engines: Vec<(&'static str, Open)> = Vec::new();
    #[cfg(feature = "engine-redb")]
    {
        let config = engine_redb::RedbConfig {
            cache_bytes: usize::try_from(section.cache_bytes).unwrap_or(usize::MAX),
            bytes_max: section.file_bytes_max,
            identity: identity.into(),
            ..Default::default()
        };
        engines.push((engine_redb::NAME, Arc::new(move |path| Ok(Box::new(engine_redb::open(path, config.clone())?)))));
    }
    #[cfg(feature = "engine-fjall")]
    {
        let config = engine_fjall::FjallConfig {
            cache_bytes: section.cache_bytes,
            identity: identity.into(),
            ..Default::default()
        };
        engines
            .push((engine_fjall::NAME, Arc::new(move |path| Ok(Box::new(engine_fjall::open(path, config.clone())?)))));
    }
    #[cfg(feature = "engine-sqlite")]
    {
        let config = engine_sqlite::SqliteConfig {
            cache_bytes: section.cache_bytes,
            bytes_max: section.file_bytes_max,
            identity: identity.into(),
            ..Default::default()
        };
        engines.push((
            engine_sqlite::NAME,
            Arc::new(move |path| Ok(Box::new(engine_sqlite::open(path, config.clone())?))),
        ));
    }
    #[cfg(feature = "engine-rocksdb")]
    {
        let providers = section.metahive_providers.iter().filter_map(|name| engine_rocksdb::provider(name));
        let config = engine_rocksdb::RocksConfig {
            cache_bytes: section.cache_bytes,
            providers: providers.collect(),
            identity: identity.into(),
            ..Default::default()
        };
        engines.push((
            engine_rocksdb::NAME,
            Arc::new(move |path| Ok(Box::new(engine_rocksdb::open(path, config.clone())?))),
        ));
    }
    #[cfg(feature = "engine-object")]
    {
        let config = engine_object::ObjectConfig {
            url: section.object.url.clone(),
            options: section.object.options.clone(),
            cache_bytes: section.cache_bytes,
            identity: identity.into(),
            note: note.into(),
            ..Default::default()
        };
        engines.push((engine_object::NAME, Arc::new(move |path| Ok(Box::new(engine_object::open(path, &config)?)))));
    }
    engines
}

#[cfg(test)]
mod tests;

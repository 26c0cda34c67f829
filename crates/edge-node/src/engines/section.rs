//! The section `[engine]` of node.toml, and what it is where it is absent.
//!
//! Not here: whether its values are right (`config/check.rs`).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Engines.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineSection {
    /// Where a rule names none: one of `crate::engines::NAMES`.
    pub default: String,
    /// Memory of one lane's engine for what it read; lmdb uses the system's instead.
    pub cache_bytes: u64,
    /// The most bytes one lane's redb or sqlite may grow to; zero: as many as the disk has.
    pub file_bytes_max: u64,
    /// What rocksdb keeps beside every key, besides checksums: names of `crate::engines::check_providers`.
    pub metahive_providers: Vec<String>,
    pub lmdb: LmdbSection,
    pub object: ObjectSection,
}

/// LMDB.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LmdbSection {
    /// The most bytes one lane's environment may grow to (the file is sparse).
    pub map_bytes_max: u64,
}

/// Replicas whose disk is an object store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectSection {
    /// `s3://bucket/prefix` or `file:///directory`; below the data directory where empty.
    pub url: String,
    /// What is applied is there after this long, if the store keeps up.
    pub lag_ms: u64,
    /// Of the store: endpoint, region, keys. What is missing is taken from the environment.
    pub options: BTreeMap<String, String>,
}

impl Default for EngineSection {
    fn default() -> Self {
        EngineSection {
            default: "lmdb".into(),
            cache_bytes: 64 << 20,
            file_bytes_max: 0,
            metahive_providers: Vec::new(),
            lmdb: LmdbSection::default(),
            object: ObjectSection::default(),
        }
    }
}

impl EngineSection {
    /// Whether replicas here are to be found again without this node.
    pub(crate) fn outlives_the_node(&self) -> bool {
        self.default == "object" || !self.object.url.is_empty()
    }
}

impl Default for ObjectSection {
    fn default() -> Self {
        ObjectSection { url: String::new(), lag_ms: 1_000, options: BTreeMap::new() }
    }
}

impl Default for LmdbSection {
    fn default() -> Self {
        LmdbSection { map_bytes_max: 64 << 30 }
    }
}

//! A static topology in the second paper's form (its Figure 1): one YAML document a shard.
//!
//! ```text
//! Shard:
//!   Name: shard0
//!   Index: 0
//!   Address: 127.0.0.2:8080
//!   Replicas: [127.0.0.22:8080]
//! ---
//! ```
//!
//! Always: indexes are 0, 1, … without a gap or a double, in any order, as the paper asks.
//! Held by: `a_topology_of_the_second_paper_is_read`.
//! Not here: what a shard becomes (core-keyspace).

use super::ConfigError;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// The most shards (a keyspace has no more partitions).
pub const SHARDS_MAX: usize = 1024;

/// One shard: its master's HTTP address and its replicas'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyShard {
    pub name: String,
    pub index: u32,
    pub address: String,
    pub replicas: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "Shard")]
    shard: ShardSection,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct ShardSection {
    name: String,
    index: u32,
    address: String,
    #[serde(default)]
    replicas: Vec<String>,
}

/// Reads and checks a topology; the shards come in index order.
pub fn load(path: &Path) -> Result<Vec<TopologyShard>, ConfigError> {
    parse(&path.display().to_string(), &super::read_bounded(path)?)
}

/// As [`load`], from text.
pub fn parse(path: &str, text: &str) -> Result<Vec<TopologyShard>, ConfigError> {
    let documents: Vec<Document> = serde_saphyr::from_multiple(text)
        .map_err(|error| ConfigError::Syntax { path: path.into(), reason: error.to_string() })?;
    let mut shards: Vec<TopologyShard> = documents
        .into_iter()
        .map(|Document { shard }| TopologyShard {
            name: shard.name,
            index: shard.index,
            address: shard.address,
            replicas: shard.replicas,
        })
        .collect();
    shards.sort_by_key(|shard| shard.index);
    let refuse =
        |what: String, remedy: &str| Err(ConfigError::Invalid { path: path.into(), what, remedy: remedy.into() });
    if shards.is_empty() || shards.len() > SHARDS_MAX {
        return refuse(format!("it has {} shards", shards.len()), "write 1 to 1024 documents, each with one Shard");
    }
    let mut names = BTreeSet::new();
    for (expected, shard) in shards.iter().enumerate() {
        if shard.index as usize != expected {
            return refuse(
                format!("shard {:?} has index {} where {expected} is next", shard.name, shard.index),
                "number the shards 0, 1, 2 … without a gap or a double",
            );
        }
        if !names.insert(&shard.name) {
            return refuse(format!("two shards are named {:?}", shard.name), "give every shard a name of its own");
        }
    }
    // What the start would refuse later is refused here, where the file can still be mended.
    let translated: Vec<_> = shards.iter().map(TopologyShard::translate).collect();
    match core_keyspace::from_static_topology("default", &translated) {
        Ok(_) => Ok(shards),
        Err(error) => refuse(error.to_string(), "correct the topology"),
    }
}

impl TopologyShard {
    /// As core-node takes it.
    pub fn translate(&self) -> core_keyspace::StaticShard {
        core_keyspace::StaticShard {
            name: self.name.clone(),
            index: self.index,
            address: self.address.clone(),
            replicas: self.replicas.clone(),
        }
    }
}

//! What a manifest remembers of a keyspace, so that a restore can create one like it.

use crate::store::{ask, Store};
use crate::BackupError;
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};
use std::collections::BTreeSet;

/// The kind with an instant.
pub const VERSIONED: &str = "versioned";
/// The kind without.
pub const PLAIN: &str = "plain";

/// A keyspace as `DescribeKeyspace` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Keyspace {
    pub name: String,
    pub kind: String,
    pub rule: String,
    pub engine: Option<String>,
    pub partition: String,
    pub partitions: u64,
    pub clusters: u64,
    pub split_keys: Value,
}

impl Keyspace {
    /// What the world says of it.
    pub async fn describe<S: Store>(store: &S, name: &str) -> Result<Keyspace, BackupError> {
        let answer = ask(store, json!({"action": "DescribeKeyspace", "keyspace": name})).await?;
        let found = &answer["keyspace"];
        let text = |field: &'static str| {
            let text = found[field].as_str().map(str::to_owned);
            text.ok_or(BackupError::Answer { action: "DescribeKeyspace".into(), field })
        };
        let owners: BTreeSet<&str> =
            found["owners"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        Ok(Keyspace {
            name: name.to_owned(),
            kind: text("kind")?,
            rule: text("rule")?,
            engine: found["engine"].as_str().map(str::to_owned),
            partition: text("partition")?,
            partitions: found["partitions"].as_u64().unwrap_or(1),
            clusters: owners.len().max(1) as u64,
            split_keys: found["split_keys"].clone(),
        })
    }

    /// The action that creates one like it, by another name, perhaps under another rule.
    pub fn creation(&self, name: &str, rule: Option<&str>) -> Value {
        let mut body = Map::new();
        let mut set = |field: &str, value: Value| body.insert(field.into(), value);
        set("action", "CreateKeyspace".into());
        set("keyspace", name.into());
        set("kind", self.kind.clone().into());
        set("rule", rule.unwrap_or(&self.rule).into());
        if let Some(engine) = &self.engine {
            set("engine", engine.clone().into());
        }
        if self.kind == PLAIN {
            set("partition", self.partition.clone().into());
            set("partitions", self.partitions.into());
            set("clusters", self.clusters.into());
            if self.split_keys.as_array().is_some_and(|keys| !keys.is_empty()) {
                set("split_keys", self.split_keys.clone());
            }
        }
        body.into()
    }
}

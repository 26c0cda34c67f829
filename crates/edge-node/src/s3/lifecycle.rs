//! One round of lifecycle rules: all bucket names of the world, of which this node takes its part.
//!
//! ```text
//!   redis@bucket-names ─SCAN─▶ names ─falls to this node?─▶ rules ─▶ door_s3::lifecycle::Walk
//! ```
//!
//! Always: a bucket falls to one of the nodes that are up (rendezvous hashing: when one goes, only its own
//! buckets move); while nodes disagree about who is up, two may walk one bucket, which does no harm.
//! Held by: `a_bucket_falls_to_one_node_and_stays_while_that_is_up`.

use super::metadata::NodeMetadata;
use base_types::action::{Action, ActionResult, KvTarget, RedisReply};
use base_types::s3::{BucketLifecycle, GetBucketLifecycleConfiguration};
use base_types::{ErrorKind, Refusal};
use bytes::Bytes;
use door_s3::lifecycle::{Done, Walk};
use door_s3::metadata::{ask, OnBehalf};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// The cluster of bucket names, and what keys in it begin with.
const NAMES_CLUSTER: &str = "redis@bucket-names";
const NAME_PREFIX: &str = "bucket/";
/// Names one question brings.
const SCAN_COUNT: &str = "1000";
/// Questions of one round at most.
const SCANS_MAX: usize = 100_000;
/// The pause between two pages of a walk, and between two buckets.
const PACE: Duration = Duration::from_millis(50);

/// Carries out the rules of this node's part of the buckets; the error is the last bucket's that failed.
pub async fn round(metadata: &NodeMetadata, node: u64, now_ms: u64) -> Result<(), Refusal> {
    let nodes = nodes_up(metadata).await?;
    let (mut cursor, mut failed) = ("0".to_owned(), None);
    for _ in 0..SCANS_MAX {
        let (next, names) = names(metadata, &cursor).await?;
        for name in names.iter().filter(|name| owner(name, &nodes) == Some(node)) {
            match bucket(metadata, name, now_ms).await {
                Ok(done) if done != Done::default() => {
                    tracing::info!(bucket = %name, ?done, "lifecycle rules were carried out")
                }
                Ok(_) => {}
                Err(refusal) => failed = Some(refusal),
            }
            tokio::time::sleep(PACE).await;
        }
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    failed.map_or(Ok(()), Err)
}

async fn bucket(metadata: &NodeMetadata, name: &str, now_ms: u64) -> Result<Done, Refusal> {
    let asked = GetBucketLifecycleConfiguration { bucket: name.to_owned() };
    let rules = match ask::<BucketLifecycle>(metadata, asked).await {
        Ok(lifecycle) => lifecycle.rules,
        // No rules, or no bucket any more.
        Err(refusal) if refusal.kind() == ErrorKind::NotFound => return Ok(Done::default()),
        Err(refusal) => return Err(refusal),
    };
    Walk { metadata, bucket: name, rules: &rules, now_ms, pace: PACE }.run().await
}

async fn nodes_up(metadata: &NodeMetadata) -> Result<Vec<u64>, Refusal> {
    let answer = metadata.ask(Action::ListNodes, false, OnBehalf::NODE).await.map_err(|failure| failure.refusal)?;
    let ActionResult::Nodes { nodes } = answer.result else { return Ok(Vec::new()) };
    Ok(nodes.iter().filter(|node| node.up).map(|node| node.node.0).collect())
}

/// The node a bucket falls to.
fn owner(name: &str, nodes: &[u64]) -> Option<u64> {
    let weight = |node: &u64| {
        // The same on all nodes of one build; another build's opinion does no harm.
        let mut hasher = DefaultHasher::new();
        (name, node).hash(&mut hasher);
        hasher.finish()
    };
    nodes.iter().copied().max_by_key(|node| (weight(node), *node))
}

/// Some names, and where to continue (`0`: that was all). No cluster yet: no buckets yet.
async fn names(metadata: &NodeMetadata, cursor: &str) -> Result<(String, Vec<String>), Refusal> {
    let Ok(cluster) = NAMES_CLUSTER.parse() else { return Ok(("0".into(), Vec::new())) };
    let pattern = format!("{NAME_PREFIX}*");
    let words = ["SCAN", cursor, "MATCH", &pattern, "COUNT", SCAN_COUNT];
    let command = words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
    let answer = match metadata
        .ask(Action::Redis { target: KvTarget::Cluster(cluster), command }, false, OnBehalf::NODE)
        .await
    {
        Ok(answer) => answer,
        Err(failure) if failure.refusal.kind() == ErrorKind::NotFound => return Ok(("0".into(), Vec::new())),
        Err(failure) => return Err(failure.refusal),
    };
    let ActionResult::Redis { reply: RedisReply::Array(parts) } = answer.result else {
        return Ok(("0".into(), Vec::new()));
    };
    Ok(read_scan(&parts))
}

fn text(reply: &RedisReply) -> String {
    match reply {
        RedisReply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

fn read_scan(parts: &[RedisReply]) -> (String, Vec<String>) {
    let next = parts.first().map(text).filter(|cursor| !cursor.is_empty()).unwrap_or_else(|| "0".into());
    let keys = match parts.get(1) {
        Some(RedisReply::Array(keys)) => keys.iter().map(text).collect(),
        _ => Vec::new(),
    };
    let names = keys.iter().filter_map(|key| key.strip_prefix(NAME_PREFIX).map(str::to_owned)).collect();
    (next, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_falls_to_one_node_and_stays_while_that_is_up() {
        let all = [1, 2, 3, 4, 5];
        let names: Vec<String> = (0..200).map(|number| format!("bucket-{number}")).collect();
        for node in all {
            let own = names.iter().filter(|name| owner(name, &all) == Some(node)).count();
            assert!((15..80).contains(&own), "node {node} has {own} of 200");
        }
        for name in &names {
            let without_five = owner(name, &all[..4]);
            let before = owner(name, &all);
            assert!(before == Some(5) || before == without_five, "{name}");
        }
        assert_eq!(owner("b", &[]), None);
    }

    #[test]
    fn a_scans_reply_is_read() {
        let bulk = |text: &'static str| RedisReply::Bulk(Bytes::from_static(text.as_bytes()));
        let reply = [bulk("17"), RedisReply::Array(vec![bulk("bucket/a"), bulk("other")])];
        assert_eq!(read_scan(&reply), ("17".into(), vec!["a".into()]));
        assert_eq!(read_scan(&[]), ("0".into(), Vec::new()));
    }
}

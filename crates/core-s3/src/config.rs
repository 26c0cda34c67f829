//! How S3 metadata is laid out: the same on all nodes.
//!
//! Not here: what follows from it (reshard/maintenance.rs, buckets/create.rs).

/// How many keys a shard of a bucket has at most before it is split.
pub const SPLIT_KEYS: u64 = 40_000;

/// How many writes a second a shard of a bucket takes for twenty seconds before it is split.
pub const SPLIT_WRITES: u64 = 5_000;

/// With so much of the machine's CPU time in use a split that can wait does. Clients that ask as fast as they are answered
/// leave 5 to 8 % of a machine idle.
pub const SPLIT_LOAD_PERCENT: u32 = 90;

/// How old freed data is before it is handed on.
pub const FREED_AGE_MS: u64 = 60_000;

/// How S3 metadata is laid out; the same on all nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct S3Config {
    /// The rule that account and bucket clusters and shards are made by, where a bucket asks for no region.
    pub rule: String,
    /// A shard with more keys than this is split in three when its leader's machine has CPU to spare, at the latest with four
    /// times as many, in more parts (decision 0064); neighbours that have less than a quarter together merge.
    pub split_keys: u64,
    /// How old freed data is before it is handed on to who removes the bytes: a reader may have been told its place just before.
    pub freed_age_ms: u64,
    /// A shard that takes more writes a second than this, for two windows of ten seconds, is split where they part. 0: never.
    pub split_writes: u64,
    /// So much of the CPU time of the machine of a shard's leader in use, at the busiest of the last seconds, is none to
    /// spare. 0: splits do not wait.
    pub split_load_percent: u32,
    /// The region that a bucket says it is in which was asked for no other; this node's own where absent.
    pub region: Option<String>,
}

impl S3Config {
    /// For a world of so many nodes: an odd number of replicas, at most five, each in a chassis of its own.
    pub fn for_world(nodes: usize) -> S3Config {
        let size = nodes.clamp(1, 5);
        let size = if size.is_multiple_of(2) { size - 1 } else { size };
        S3Config {
            rule: format!("size={size} location=world failure_domain=chassis"),
            split_keys: SPLIT_KEYS,
            freed_age_ms: FREED_AGE_MS,
            split_writes: SPLIT_WRITES,
            split_load_percent: SPLIT_LOAD_PERCENT,
            region: None,
        }
    }
}

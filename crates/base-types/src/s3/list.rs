//! Listings, counts and cuts.

use super::{ChecksumAlgorithm, ChecksumType, Owner};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Current versions by key, as the first version of the API lists them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListObjects {
    /// The bucket.
    pub bucket: String,
    /// Only keys that begin so.
    #[serde(default)]
    pub prefix: String,
    /// Keys are grouped up to this behind the prefix.
    pub delimiter: Option<String>,
    /// Only keys (and groups) behind this.
    pub marker: Option<String>,
    /// How many at most; 1000 where absent or more.
    pub max_keys: Option<u32>,
    /// `url`: keys in the answer are percent-encoded.
    pub encoding_type: Option<String>,
    /// All pages of one walk show one instant; markers are then what the page before told as the next.
    #[serde(default)]
    pub snapshot: bool,
}

/// Current versions by key, as the second version of the API lists them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListObjectsV2 {
    /// The bucket.
    pub bucket: String,
    /// Only keys that begin so.
    #[serde(default)]
    pub prefix: String,
    /// Keys are grouped up to this behind the prefix.
    pub delimiter: Option<String>,
    /// Only keys behind this (the first page's; later ones go by the token).
    pub start_after: Option<String>,
    /// Where the last page ended; opaque, bound to bucket and tenant.
    pub continuation_token: Option<String>,
    /// How many at most; 1000 where absent or more.
    pub max_keys: Option<u32>,
    /// Whether entries show their owner.
    #[serde(default)]
    pub fetch_owner: bool,
    /// `url`: keys in the answer are percent-encoded.
    pub encoding_type: Option<String>,
    /// All pages of one walk show one instant.
    #[serde(default)]
    pub snapshot: bool,
}

/// The answer of [`ListObjects`] and [`ListObjectsV2`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectPage {
    /// By key.
    pub contents: Vec<ObjectEntry>,
    /// The groups, by name.
    pub common_prefixes: Vec<String>,
    /// Contents and groups.
    pub key_count: u32,
    /// There are more.
    pub is_truncated: bool,
    /// The next page's `marker` (the first version of the API): the last key or group; of a snapshot opaque.
    pub next_marker: Option<String>,
    /// The next page's `continuation_token` (the second version of the API).
    pub next_continuation_token: Option<String>,
}

/// An object in a list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ObjectEntry {
    pub key: String,
    pub last_modified_ms: u64,
    pub etag: String,
    pub size: u64,
    pub storage_class: Option<String>,
    pub owner: Option<Owner>,
    pub checksum_algorithm: Option<ChecksumAlgorithm>,
    pub checksum_type: Option<ChecksumType>,
}

/// All versions by key, newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListObjectVersions {
    /// The bucket.
    pub bucket: String,
    /// Only keys that begin so.
    #[serde(default)]
    pub prefix: String,
    /// Keys are grouped up to this behind the prefix.
    pub delimiter: Option<String>,
    /// Where the last page ended.
    pub key_marker: Option<String>,
    /// With `key_marker`: which version of that key.
    pub version_id_marker: Option<String>,
    /// How many at most; 1000 where absent or more.
    pub max_keys: Option<u32>,
    /// `url`: keys in the answer are percent-encoded.
    pub encoding_type: Option<String>,
    /// All pages of one walk show one instant; the key marker is then what the page before told as the next.
    #[serde(default)]
    pub snapshot: bool,
}

/// The answer of [`ListObjectVersions`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionPage {
    /// Versions and delete markers, by key, newest first.
    pub versions: Vec<VersionEntry>,
    /// The groups, by name.
    pub common_prefixes: Vec<String>,
    /// There are more.
    pub is_truncated: bool,
    /// The next page's `key_marker`; of a snapshot opaque, and alone.
    pub next_key_marker: Option<String>,
    /// The next page's `version_id_marker`.
    pub next_version_id_marker: Option<String>,
}

/// A version in a list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct VersionEntry {
    pub key: String,
    pub version_id: String,
    pub is_latest: bool,
    pub delete_marker: bool,
    pub last_modified_ms: u64,
    pub etag: String,
    pub size: u64,
    pub storage_class: Option<String>,
    pub owner: Option<Owner>,
    pub checksum_algorithm: Option<ChecksumAlgorithm>,
    pub checksum_type: Option<ChecksumType>,
}

/// Exactly how much lies below a prefix.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountObjects {
    /// The bucket.
    pub bucket: String,
    /// Only keys that begin so.
    #[serde(default)]
    pub prefix: String,
    /// All shards are counted as of one instant; writes wait for some round trips while it is taken.
    #[serde(default)]
    pub snapshot: bool,
}

/// The answer of [`CountObjects`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectCount {
    /// Keys that have a current version.
    pub keys: u64,
    /// Versions and delete markers.
    pub versions: u64,
    /// The bytes of all versions.
    pub bytes: u64,
}

/// Keys that cut a bucket into equal parts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutPoints {
    /// The bucket.
    pub bucket: String,
    /// Into how many.
    pub parts: u32,
}

/// The answer of [`CutPoints`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cuts {
    /// Ascending; each is the first key of its part.
    pub keys: Vec<String>,
}

/// The shards a bucket consists of, in the order of keys. (Hive's own: S3 has no such call.)
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribeShards {
    /// The bucket.
    pub bucket: String,
    /// How many at most; 1000 where absent or more.
    pub max_shards: Option<u32>,
    /// Where the last page ended.
    pub continuation_token: Option<String>,
}

/// The answer of [`DescribeShards`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shards {
    /// In the order of keys.
    pub shards: Vec<ShardEntry>,
    /// Where the next page begins; absent: there is none.
    pub continuation_token: Option<String>,
}

/// One shard: a range of keys and the cluster that has them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardEntry {
    /// Its cluster's name.
    pub cluster: String,
    /// Grows with every change of what it owns.
    pub epoch: u64,
    /// The first key it may have; empty: from the beginning.
    pub start: String,
    /// The first key after it; absent: to the end.
    pub end: Option<String>,
    /// What it does: `serving`, `splitting`, and so on.
    pub state: String,
    /// Keys that have a current version.
    pub keys: u64,
    /// Versions and delete markers.
    pub versions: u64,
    /// The bytes of all versions.
    pub bytes: u64,
    /// Snapshots that walks still read.
    pub snapshots: u32,
}

/// Percent-encodes a key as `encoding_type=url` asks for: all but letters, digits and `-_.~/*`.
pub fn encode_url(key: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(key.len());
    for &byte in key.as_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'/' | b'*') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    out
}

//! The housekeeping of bytes that live in a data store.
//!
//! Bytes are written before the version that names them and removed after it. So a crash leaves
//! bytes that nothing names: a store keeps an intent (bucket, key, expiry) beside every write, and asks
//! by [`LookupData`] what became of it; what a delete or an overwrite frees is queued with the very
//! command that frees it and drained by [`ListFreedData`] and [`ForgetFreedData`].
//! A version that arrives behind its intent's expiry (`data_expires_ms`) is refused, or a sweep could
//! remove bytes that are about to be named.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Which of these locations are named by a version, or a part of an upload, of this key?
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupData {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// What to look up.
    pub locations: Vec<String>,
}

/// The first of the bytes that are no longer named, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListFreedData {
    /// How many at most.
    pub max: u32,
}

/// These bytes are gone from the data store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetFreedData {
    /// What to forget.
    pub locations: Vec<String>,
}

/// The answer of [`LookupData`] (those that are named) and [`ListFreedData`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locations {
    /// Names of a data store.
    pub locations: Vec<String>,
}

//! Which keys of what a request is about, as every action on keys has them, and the bounds of keys and values.
//!
//! Not here: which action takes which (`request.rs`, `versioned.rs`).

use crate::fields::Fields;
use base_types::action::KvTarget;
use base_types::{ErrorCode, Refusal, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;

/// The keyspace of a request that names none.
pub const KEYSPACE_DEFAULT: &str = "default";
/// The keyspace or the cluster.
pub(crate) fn target(fields: &mut Fields<'_>) -> Result<KvTarget, Refusal> {
    Ok(named_target(fields)?.unwrap_or_else(|| KvTarget::Keyspace(KEYSPACE_DEFAULT.to_owned())))
}

/// The same where none is taken for granted.
pub(crate) fn named_target(fields: &mut Fields<'_>) -> Result<Option<KvTarget>, Refusal> {
    match (fields.text("keyspace")?, fields.cluster("cluster")?) {
        (Some(_), Some(_)) => {
            Err(Refusal::new(ErrorCode::InvalidField, "both 'keyspace' and 'cluster' are given; give one"))
        }
        (None, Some(cluster)) => Ok(Some(KvTarget::Cluster(cluster))),
        (Some(keyspace), None) => Ok(Some(KvTarget::Keyspace(keyspace.into_owned()))),
        (None, None) => Ok(None),
    }
}

/// Refuses a key no store takes.
pub fn check_key(key: Bytes) -> Result<Bytes, Refusal> {
    match key.len() {
        0 => Err(Refusal::new(ErrorCode::EmptyKey, "the key is empty; give it at least one byte")),
        length if length > KEY_BYTES_MAX => {
            let message = format!("the key has {length} bytes; give at most {KEY_BYTES_MAX}");
            Err(Refusal::new(ErrorCode::KeyTooLong, message))
        }
        _ => Ok(key),
    }
}

/// Refuses a value no store takes.
pub fn check_value(value: Bytes) -> Result<Bytes, Refusal> {
    if value.len() > VALUE_BYTES_MAX {
        let message =
            format!("the value has {} bytes; give at most {VALUE_BYTES_MAX}, or put it as an S3 object", value.len());
        return Err(Refusal::new(ErrorCode::ValueTooLarge, message));
    }
    Ok(value)
}

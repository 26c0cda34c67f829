//! Times of S3's wire as this crate compares them.
//!
//! Not here: times on their way to the wire (`convert.rs`).

use s3s::dto;

/// Milliseconds since 1970.
pub fn millis(time: &dto::Timestamp) -> u64 {
    let time = time::OffsetDateTime::from(time.clone());
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)
}

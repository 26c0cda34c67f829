//! Ways in to base-types: names, levels, replies, refusals, positions.

use super::codec::round_trip;
use base_types::action::RedisReply;
use base_types::{ClusterName, OrderedAt, ReadConsistency, Refusal, WriteConsistency};
use bytes::Bytes;

/// A text as a cluster name; what is taken is written as it was read.
pub fn cluster_name(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    match text.parse::<ClusterName>() {
        Ok(name) => {
            assert_eq!(name.as_str(), text);
            assert!(!name.backends().is_empty());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let _ = (text.parse::<WriteConsistency>(), text.parse::<ReadConsistency>());
}

/// The values every layer shares.
pub fn base_codec(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    round_trip::<RedisReply>(&bytes);
    round_trip::<OrderedAt>(&bytes);
    round_trip::<Refusal>(&bytes);
}

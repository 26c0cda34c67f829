//! What the entries share: a value that decodes must come back from its own bytes.

use base_types::codec::Encode;
use bytes::Bytes;
use core::fmt::Debug;

/// Decodes; what decodes is encoded and decoded again, and must be the same.
pub fn round_trip<T: Encode + PartialEq + Debug>(bytes: &Bytes) -> Option<T> {
    let value = T::from_bytes(bytes.clone()).ok()?;
    assert_eq!(T::from_bytes(value.to_bytes()).as_ref(), Ok(&value), "a decoded value does not survive its own bytes");
    Some(value)
}

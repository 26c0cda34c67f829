//! What a core may put into a bucket by its last count of it, without another.
//!
//! Always: a core puts a small part of what was left, and for a short time only.
//! Held by: `puts_at_the_same_time_into_several_shards_pass_a_quota_by_little`.
//! Not here: counting (objects/quota.rs).

use base_types::s3::Quota;
use base_types::Tick;
use core::time::Duration;

/// How old a count may be when it is used again.
pub(crate) const USAGE_AGE_MAX: Duration = Duration::from_millis(1_000);
/// Of what is left, one core puts this part by one count.
const SHARE: u64 = 64;

/// What this core may put by its last count of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Leave {
    keys: u64,
    bytes: u64,
    /// What parts of open uploads held then.
    pub(crate) held: u64,
    pub(crate) counted_at: Tick,
}

impl Leave {
    pub(crate) fn new(quota: &Quota, (keys, bytes): (u64, u64), held: u64, counted_at: Tick) -> Leave {
        let share = |max: Option<u64>, used| max.map_or(u64::MAX, |max: u64| max.saturating_sub(used) / SHARE);
        Leave { keys: share(quota.keys_max, keys), bytes: share(quota.bytes_max, bytes), held, counted_at }
    }

    /// What is left of it behind one more; `None`: that is too much.
    pub(crate) fn without(self, adds: &Adds<'_>) -> Option<Leave> {
        let keys = self.keys.checked_sub(u64::from(adds.key.is_some()))?;
        Some(Leave { keys, bytes: self.bytes.checked_sub(adds.bytes)?, ..self })
    }
}

/// What is about to be put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adds<'a> {
    /// The object's key; a part of an upload makes no key.
    pub key: Option<&'a str>,
    pub bytes: u64,
    /// Bytes of parts that it takes the place of.
    pub instead_of: u64,
}

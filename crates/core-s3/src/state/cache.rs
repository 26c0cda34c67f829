//! What a core remembers of buckets: names, records, maps of shards.
//!
//! Always: at most [`BUCKETS_MAX`] buckets and [`ENTRIES_MAX`] map entries; a record is used for at most
//! [`RECORD_AGE_MAX`] from the moment its question was sent. Nothing negative is kept.
//! Held by: `old_records_and_older_maps_are_not_used`.
//! Not here: who asks (with_bucket.rs).

use crate::record::BucketRecord;
use crate::state::leave::Leave;
use base_types::mutant::{planted, Mutant};
use base_types::Tick;
use bytes::Bytes;
use core::time::Duration;
use core_backends::shard::Range;
use core_backends::shard_reference::Entry;
use core_flow::Step;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most buckets remembered; beyond it the first by name goes.
pub const BUCKETS_MAX: usize = 10_000;
/// The most map entries of all buckets together; beyond it maps go, first by bucket id.
pub const ENTRIES_MAX: usize = 200_000;
/// Snapshots remembered by one core.
const SNAPSHOTS_MAX: usize = 256;
/// How old a record may be when a call is made by it. Who changes a record waits for longer before it says so.
pub const RECORD_AGE_MAX: Duration = Duration::from_millis(1_000);
/// How old a record is when it is read anew ahead of need, and how long that is left to one who does.
const RECORD_REFRESH_AGE: Duration = Duration::from_millis(500);
/// How long the reading of a map is left to the one who began it.
const MAP_READ_WAIT: Duration = Duration::from_millis(20);
/// What who changes a record waits, so often: a clock that leaps forward ends one of these early, and not all.
const CHANGE_PART: Duration = Duration::from_millis(50);
const CHANGE_PARTS: u32 = 23;
// But for one part it is the age, and a tenth for clocks that do not run alike.
const _: () = assert!((CHANGE_PARTS - 1) as u128 * CHANGE_PART.as_millis() * 10 >= RECORD_AGE_MAX.as_millis() * 11);

/// The wait of who changed a record, before it says so: no core may go by the old one any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ChangeWait(u32);

impl ChangeWait {
    /// The next part of it; none: it is over.
    pub(crate) fn next(&mut self) -> Option<Step> {
        self.0 += 1;
        (self.0 <= CHANGE_PARTS).then_some(Step::Wait(CHANGE_PART))
    }
}

/// A bucket as last read.
#[derive(Clone, PartialEq, Debug)]
pub struct Bucket {
    pub(crate) id: u128,
    pub(crate) record: BucketRecord,
    /// The record's bytes, for compare-and-set.
    pub(crate) body: Bytes,
    /// When the question was sent.
    pub(crate) read_at: Tick,
}

/// A bucket's map as last read: all entries in the order of keys.
#[derive(Clone, PartialEq, Debug)]
pub struct ShardMap {
    pub(crate) version: u64,
    pub(crate) entries: Vec<Entry>,
}

impl ShardMap {
    /// The place of the shard that has a key.
    pub(crate) fn place_of(&self, key: &[u8]) -> usize {
        self.entries.partition_point(|entry| &entry.range.start[..] <= key).saturating_sub(1)
    }

    /// The shard that has a key.
    pub(crate) fn shard_of(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(self.place_of(key))
    }

    /// The shards that meet a range, in the order of keys.
    pub(crate) fn shards_in(&self, range: &Range) -> impl Iterator<Item = &Entry> {
        let range = range.clone();
        self.entries.iter().filter(move |entry| entry.range.meet(&range).is_some())
    }
}

/// A snapshot that stands: what listings with its pin are asked of.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Snapshot {
    pub pin: u128,
    /// The map of that moment.
    pub map: Arc<ShardMap>,
}

/// The cache of one core.
#[derive(Debug, Default)]
pub struct S3Cache {
    ids: BTreeMap<String, u128>,
    buckets: BTreeMap<String, Arc<Bucket>>,
    /// Records being read anew: since when.
    refreshing: BTreeMap<String, Tick>,
    maps: BTreeMap<u128, Arc<ShardMap>>,
    /// Maps being read: since when.
    reading: BTreeMap<u128, Tick>,
    leaves: BTreeMap<u128, Leave>,
    entries: usize,
    snapshots: BTreeMap<(u128, u128), Arc<Snapshot>>,
}

impl S3Cache {
    /// A snapshot of a bucket, by its pin.
    pub(crate) fn snapshot(&self, id: u128, pin: u128) -> Option<Arc<Snapshot>> {
        self.snapshots.get(&(id, pin)).cloned()
    }

    /// A snapshot was made or read.
    pub(crate) fn learn_snapshot(&mut self, id: u128, snapshot: Arc<Snapshot>) {
        if self.snapshots.len() >= SNAPSHOTS_MAX {
            self.snapshots.pop_first();
        }
        self.snapshots.insert((id, snapshot.pin), snapshot);
    }

    /// The id a name had when it was last looked up.
    pub(crate) fn id_of(&self, name: &str) -> Option<u128> {
        self.ids.get(name).copied()
    }

    /// A bucket's record, if it is young enough.
    pub(crate) fn bucket(&self, name: &str, now: Tick) -> Option<Arc<Bucket>> {
        let bucket = self.buckets.get(name)?;
        let young = now.since(bucket.read_at) <= RECORD_AGE_MAX || planted(Mutant::StaleBucketCache);
        young.then(|| bucket.clone())
    }

    /// Whether the caller must refresh a record beside its own work, because the record is in use and old. Only one
    /// caller gets `true`.
    pub(crate) fn claim_refresh(&mut self, name: &str, now: Tick) -> bool {
        let old = |since: Tick| now.since(since) > RECORD_REFRESH_AGE;
        let is_old = self.buckets.get(name).is_some_and(|bucket| old(bucket.read_at));
        if !is_old || self.refreshing.get(name).is_some_and(|since| !old(*since)) {
            return false;
        }
        self.refreshing.insert(name.to_string(), now);
        true
    }

    /// A bucket's map.
    pub(crate) fn map(&self, id: u128) -> Option<Arc<ShardMap>> {
        self.maps.get(&id).cloned()
    }

    /// What may be put into a bucket by the last count of it.
    pub(crate) fn leave(&self, id: u128) -> Option<Leave> {
        self.leaves.get(&id).copied()
    }

    /// A bucket was counted, or something put by that.
    pub(crate) fn give_leave(&mut self, id: u128, leave: Leave) {
        if self.leaves.len() >= BUCKETS_MAX && !self.leaves.contains_key(&id) {
            self.leaves.pop_first();
        }
        self.leaves.insert(id, leave);
    }

    /// A name's id was looked up.
    pub(crate) fn learn_id(&mut self, name: &str, id: u128) {
        if self.ids.len() >= BUCKETS_MAX && !self.ids.contains_key(name) {
            if let Some((first, _)) = self.ids.pop_first() {
                self.buckets.remove(&first);
                self.refreshing.remove(&first);
            }
        }
        self.ids.insert(name.to_string(), id);
    }

    /// A record was read.
    pub(crate) fn learn_bucket(&mut self, name: &str, bucket: Arc<Bucket>) {
        self.learn_id(name, bucket.id);
        self.buckets.insert(name.to_string(), bucket);
    }

    /// Whether the caller must read a map that is not here. For a while only this caller gets `true`.
    pub(crate) fn claim_map(&mut self, id: u128, now: Tick) -> bool {
        if self.reading.get(&id).is_some_and(|since| now.since(*since) < MAP_READ_WAIT) {
            return false;
        }
        if self.reading.len() >= BUCKETS_MAX {
            self.reading.pop_first();
        }
        self.reading.insert(id, now);
        true
    }

    /// A map was read.
    pub(crate) fn learn_map(&mut self, id: u128, map: Arc<ShardMap>) {
        self.reading.remove(&id);
        if self.maps.get(&id).is_some_and(|known| known.version > map.version) {
            return;
        }
        self.forget_map(id);
        self.entries += map.entries.len();
        self.maps.insert(id, map);
        while self.entries > ENTRIES_MAX && self.maps.len() > 1 {
            let Some((_, gone)) = self.maps.pop_first() else { return };
            self.entries -= gone.entries.len();
        }
    }

    /// The map of this version proved stale; a newer one that was read meanwhile stays.
    pub(crate) fn forget_stale_map(&mut self, id: u128, version: u64) {
        if self.maps.get(&id).is_some_and(|known| known.version <= version) {
            self.forget_map(id);
        }
    }

    /// A map is read again before it is used.
    pub(crate) fn forget_map(&mut self, id: u128) {
        if let Some(gone) = self.maps.remove(&id) {
            self.entries -= gone.entries.len();
        }
    }

    /// A bucket proved to be gone, or another one.
    pub(crate) fn forget_bucket(&mut self, name: &str) {
        self.buckets.remove(name);
        self.refreshing.remove(name);
        if let Some(id) = self.ids.remove(name) {
            self.forget_map(id);
        }
    }

    /// A record is about to change, or has changed: it is read again before it is used.
    pub(crate) fn forget_record(&mut self, name: &str) {
        self.buckets.remove(name);
    }

    /// How many buckets and map entries are remembered.
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.ids.len(), self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(version: u64, starts: &[&'static str]) -> ShardMap {
        let entry = |(at, start): (usize, &&'static str)| Entry {
            shard: at as u64 + 1,
            epoch: 1,
            range: Range {
                start: Bytes::from_static(start.as_bytes()),
                end: starts.get(at + 1).map(|end| Bytes::from_static(end.as_bytes())),
            },
            flow: None,
        };
        ShardMap { version, entries: starts.iter().enumerate().map(entry).collect() }
    }

    #[test]
    fn keys_find_their_shard() {
        let map = map(1, &["", "g", "p"]);
        for (key, shard) in [("", 1), ("f", 1), ("g", 2), ("ozz", 2), ("p", 3), ("z", 3)] {
            assert_eq!(map.shard_of(key.as_bytes()).unwrap().shard, shard, "{key}");
        }
        let range = Range { start: "a".into(), end: Some("g".into()) };
        assert_eq!(map.shards_in(&range).map(|entry| entry.shard).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn old_records_and_older_maps_are_not_used() {
        let mut cache = S3Cache::default();
        let bucket = Bucket { id: 7, record: BucketRecord::default(), body: Bytes::new(), read_at: Tick(5) };
        cache.learn_bucket("b", Arc::new(bucket));
        assert!(cache.bucket("b", Tick(5) + RECORD_AGE_MAX).is_some());
        assert!(cache.bucket("b", Tick(6) + RECORD_AGE_MAX).is_none());
        assert_eq!(cache.id_of("b"), Some(7));
        cache.learn_map(7, Arc::new(map(3, &["", "m"])));
        cache.learn_map(7, Arc::new(map(2, &[""])));
        assert_eq!((cache.map(7).unwrap().version, cache.len()), (3, (1, 2)));
        cache.forget_bucket("b");
        assert_eq!(cache.len(), (0, 0));
    }
}

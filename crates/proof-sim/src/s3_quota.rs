//! A bucket with a quota of keys: what is counted in it, and whom it refused.
//!
//! ```text
//!   one shard ever:  every count  <= quota
//!   n shards:        every count of one instant  <= quota + the least of (n - 1) quotas and twice the puts at one time
//!   a refused put:   from its beginning to the refusal as many keys as the quota may have been there
//! ```
//!
//! The guide's (n - 1) times what was left at a put's count is at most (n - 1) quotas; and a put that its count let pass
//! makes one key at most, so that few at one time pass it by few, and those they mislead by as many again. A quota of so
//! few keys gives no leave to put without a count (core-s3, objects/quota.rs), so there is no third term.
//!
//! Not here: asking (`load`, `run/buckets`), counts that differ from listings (`run/buckets`).

use base_types::action::Action;
use base_types::s3::{CountObjects, PutBucketQuota, Quota, S3Action};
use bytes::Bytes;
use proof_check::{Ending, History, Observed, Place, Record, Violation};
use std::collections::{BTreeMap, BTreeSet};

/// Of so many calls of a client of buckets one counts the bucket with a quota; every other time at one instant.
pub const COUNTS_ONE_IN: u64 = 5;
/// With more left a core gives leave to put without a count, which the bound here does not know.
pub const KEYS_MAX: u64 = 63;

/// What was seen of the quota.
#[derive(Default, Debug)]
pub struct Seen {
    /// Keys that were counted; whether at one instant.
    pub counted: Vec<(u64, bool)>,
    /// Records that were refused, and when.
    pub refused: BTreeMap<usize, u64>,
    /// The highest number of a shard that serves at the end; zero: nobody came to look.
    pub shards: u64,
}

/// The call that sets it.
pub fn set(bucket: &str, keys_max: u64) -> S3Action {
    let quota = Quota { keys_max: Some(keys_max), bytes_max: None };
    PutBucketQuota { bucket: bucket.to_string(), quota }.into()
}

/// The call that counts.
pub fn count(bucket: &str, snapshot: bool) -> Action {
    Action::S3(CountObjects { bucket: bucket.to_string(), snapshot, ..CountObjects::default() }.into())
}

/// The number of a shard in the name of its cluster.
pub fn shard_number(cluster: &str) -> Option<u64> {
    cluster.rsplit_once('-').and_then(|(_, number)| number.parse().ok())
}

/// The quota was kept, and refused nobody who was far from it.
pub fn check(history: &History, place: Place, keys_max: u64, seen: &Seen) -> Vec<Violation> {
    let records: Vec<&Record> = history.records.iter().filter(|record| record.place == place).collect();
    let puts: Vec<&&Record> = records.iter().filter(|record| puts_key(record)).collect();
    let over = seen.shards.saturating_sub(1).saturating_mul(keys_max).min(2 * most_at_once(&puts));
    let most = keys_max + over;
    // Shards are counted one after the other: of several only an instant is a number of keys that there were.
    let counts = seen.counted.iter().filter(|(_, instant)| seen.shards == 1 || seen.shards > 1 && *instant);
    let passed = counts.map(|(keys, _)| *keys).max().filter(|keys| *keys > most).map(|keys| {
        let message = format!(
            "{keys} keys were counted in a bucket that may have {keys_max}, at most {most} with shards up to number {}",
            seen.shards
        );
        Violation::new("quota", message, vec![])
    });
    let refused = seen.refused.iter().filter_map(|(id, at)| {
        let record = history.records.get(*id).filter(|record| record.place == place)?;
        let keys = may_be_there(&records, record.invoked, *at);
        (keys < keys_max).then(|| {
            let message =
                format!("a put was refused as over a quota of {keys_max} keys, where at most {keys} may have been");
            Violation::new("quota", message, vec![record.id])
        })
    });
    passed.into_iter().chain(refused).collect()
}

/// Whether it may have made a key.
fn puts_key(record: &Record) -> bool {
    let may_have = record.ending != Ending::Failed && record.observed != Some(Observed::ConditionFailed);
    may_have && record.effects().iter().any(|(_, value)| value.is_some())
}

/// The most of these that were under way at one time. One whose outcome nobody knows may be so to the end.
fn most_at_once(puts: &[&&Record]) -> u64 {
    let mut moments: Vec<(u64, i64)> = Vec::new();
    for put in puts {
        // What ends where another begins overlaps it.
        moments.extend([(put.invoked, 1), (put.returned_or_never().saturating_add(1), -1)]);
    }
    moments.sort_unstable();
    let mut open = 0i64;
    let most = moments.iter().map(|(_, change)| {
        open += change;
        open
    });
    most.max().unwrap_or(0).unsigned_abs()
}

/// Keys that may have been there at some moment of a time: put before its end, and not surely deleted before its beginning.
fn may_be_there(records: &[&Record], from: u64, until: u64) -> u64 {
    let mut deleted: BTreeMap<&Bytes, u64> = BTreeMap::new();
    for record in records.iter().filter(|record| record.ending == Ending::Ok) {
        for (key, _) in record.effects().iter().filter(|(_, value)| value.is_none()) {
            if record.returned_or_never() <= from {
                let begun = deleted.entry(key).or_default();
                *begun = (*begun).max(record.invoked);
            }
        }
    }
    let mut keys: BTreeSet<&Bytes> = BTreeSet::new();
    for record in records.iter().filter(|record| puts_key(record) && record.invoked <= until) {
        for (key, _) in record.effects().into_iter().filter(|(_, value)| value.is_some()) {
            if deleted.get(key).is_none_or(|begun| *begun <= record.returned_or_never()) {
                keys.insert(key);
            }
        }
    }
    keys.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3_load::place_of;
    use base_types::action::Level;
    use base_types::{RequestId, WriteConsistency};
    use proof_check::Operation;

    fn record(id: u64, operation: Operation, invoked: u64, returned: Option<u64>, ending: Ending) -> Record {
        Record {
            id,
            client: 0,
            place: place_of(0),
            operation,
            request_id: RequestId(1),
            level: Level::Write(WriteConsistency::Strong),
            invoked,
            returned,
            ending,
            observed: (ending == Ending::Ok).then_some(Observed::Done),
            at: None,
        }
    }

    fn put(id: u64, key: &'static str, invoked: u64, returned: u64) -> Record {
        let operation = Operation::Put { key: key.into(), value: "v".into() };
        record(id, operation, invoked, Some(returned), Ending::Ok)
    }

    fn delete(id: u64, key: &'static str, invoked: u64, returned: u64) -> Record {
        record(id, Operation::Delete { key: key.into() }, invoked, Some(returned), Ending::Ok)
    }

    fn refused(id: u64, invoked: u64, returned: u64) -> Record {
        let operation = Operation::Put { key: "r".into(), value: "v".into() };
        record(id, operation, invoked, Some(returned), Ending::Failed)
    }

    fn is_broken(records: Vec<Record>, keys_max: u64, seen: &Seen) -> bool {
        !check(&History { records, moving: vec![] }, place_of(0), keys_max, seen).is_empty()
    }

    #[test]
    fn one_shard_never_passes_it_and_several_by_what_is_put_at_one_time() {
        let apart = || vec![put(0, "a", 0, 1), put(1, "b", 2, 3), put(2, "c", 4, 5)];
        let together = || vec![put(0, "a", 0, 9), put(1, "b", 2, 9), put(2, "c", 4, 9)];
        for (records, keys, instant, shards, broken) in [
            (together(), 5, true, 1, true),
            (together(), 5, false, 1, true),
            (together(), 4, true, 1, false),
            (together(), 8, true, 2, false),
            (together(), 9, true, 2, true),
            (together(), 10, true, 3, false),
            (together(), 11, true, 3, true),
            (apart(), 6, true, 3, false),
            (apart(), 7, true, 3, true),
            (apart(), 7, false, 3, false),
        ] {
            let seen = Seen { counted: vec![(1, true), (keys, instant)], shards, ..Seen::default() };
            assert_eq!(is_broken(records, 4, &seen), broken, "{keys} {instant} {shards}");
        }
    }

    #[test]
    fn who_is_refused_may_have_met_as_many_keys() {
        let there = [put(0, "a", 0, 1), put(1, "b", 2, 3)];
        let unknown = record(2, Operation::Put { key: "c".into(), value: "v".into() }, 4, None, Ending::Unknown);
        for (more, broken) in [
            (vec![], false),
            (vec![delete(2, "a", 4, 5)], true),
            (vec![delete(2, "a", 4, 11)], false),
            (vec![delete(2, "a", 4, 5), put(3, "a", 6, 30)], false),
            (vec![delete(2, "a", 4, 5), put(3, "a", 21, 30)], true),
            (vec![unknown, delete(3, "a", 4, 5), delete(4, "c", 6, 7)], false),
        ] {
            let mut records: Vec<Record> = there.iter().cloned().chain(more).collect();
            let id = records.len();
            records.push(refused(id as u64, 10, 20));
            let seen = Seen { refused: [(id, 20)].into(), shards: 3, ..Seen::default() };
            assert_eq!(is_broken(records.clone(), 2, &seen), broken, "{records:?}");
        }
    }

    #[test]
    fn a_shard_tells_its_number() {
        assert_eq!(shard_number("metadata/shard@0af-12"), Some(12));
        assert_eq!(shard_number("bucket@0af"), None);
    }
}

//! Snapshots of a bucket while shards split and merge and clients write: one instant on every page, and how long it is
//! kept. Not here: makers that go no further (given_back.rs).

use super::tended::{Tended, NAME};
use crate::config::S3Config;
use crate::listing::snapshot::{Instant, Progress, SNAPSHOT_KEEP_MS, UNTOLD_KEEP_MS};
use crate::state::S3State;
use base_types::s3::*;
use base_types::Refusal;
use core_backends::shard::{self, Reply};
use core_backends::shard_reference::Entry;
use std::collections::BTreeMap;

/// Drives a snapshot with writes between its calls; `None` where it gave up.
fn pin(bucket: &mut Tended, mut instant: Instant) -> Option<(u128, Vec<Entry>)> {
    let mut answers = Vec::new();
    let mut place = bucket.place();
    for _ in 0..200 {
        let mut context = bucket.world.context(0);
        let progress = instant.next(&mut context, &place, core::mem::take(&mut answers));
        match progress {
            Ok(Progress::Ready(snapshot)) => return Some((snapshot.pin, snapshot.map.entries.clone())),
            Ok(Progress::Step(core_flow::Step::Calls(calls))) => {
                for call in calls {
                    bucket.disturb(true);
                    let answer = bucket.world.carry_out(call);
                    answers.push(answer);
                }
            }
            Ok(Progress::Step(_)) => bucket.world.now_ms += 50,
            Err(crate::buckets::with_bucket::Trouble::Map(_)) => place = bucket.place(),
            Err(_) => return None,
        }
    }
    None
}

#[test]
fn a_snapshot_shows_one_instant_across_splits_until_it_ends() {
    for seed in 30..36 {
        let mut bucket = Tended::new(seed, 8);
        for at in 0..30 {
            bucket.put(&format!("k{at:02}")).unwrap();
        }
        bucket.rest();
        (bucket.world.lost, bucket.world.late) = (20, 20);
        let Some((pin_id, entries)) = pin(&mut bucket, Instant::make()) else { continue };
        let seen = bucket.listed(&entries, Some(pin_id));
        for _ in 0..6 {
            bucket.round(0, true);
            assert_eq!(bucket.listed(&entries, Some(pin_id)), seen, "seed {seed}");
        }
        (bucket.world.lost, bucket.world.late) = (0, 0);
        // Any core finds it again by its pin.
        bucket.world.states[0] = S3State::new(S3Config::for_world(3));
        assert_eq!(pin(&mut bucket, Instant::find(pin_id)), Some((pin_id, entries.clone())));
        bucket.world.now_ms += 2 * SNAPSHOT_KEEP_MS;
        bucket.rest();
        bucket.world.states[0] = S3State::new(S3Config::for_world(3));
        assert_eq!(pin(&mut bucket, Instant::find(pin_id)), None);
        let shards = bucket.world.clusters().into_iter().filter(|name| name.starts_with("shard@")).count();
        assert_eq!(shards, bucket.map().len(), "retired shards go with the last snapshot that reads them");
    }
}

/// A maker that gave up, or whose giving back was lost, must not fill the few places that shards have for pins.
#[test]
fn a_snapshot_that_no_token_names_is_ended_by_the_upkeep() {
    let mut bucket = Tended::new(38, 8);
    for at in 0..30 {
        bucket.put(&format!("k{at:02}")).unwrap();
    }
    bucket.rest();
    let mut left = 0;
    for number in 0..100 {
        let (mut instant, mut answers, place) = (Instant::make(), Vec::new(), bucket.place());
        // Every maker gives up a call later than the one before; some come to their end and tell nobody.
        for _ in 0..number % 12 {
            let mut context = bucket.world.context(0);
            match instant.next(&mut context, &place, core::mem::take(&mut answers)) {
                Ok(Progress::Step(core_flow::Step::Calls(calls))) => {
                    answers = calls.into_iter().map(|call| bucket.world.carry_out(call)).collect();
                }
                Ok(Progress::Step(_)) => bucket.world.now_ms += 50,
                Ok(Progress::Ready(_)) | Err(_) => break,
            }
        }
        left += pins(&mut bucket);
        bucket.world.now_ms += UNTOLD_KEEP_MS / 2;
        bucket.rest();
    }
    assert!(left > 100, "{left}");
    bucket.world.now_ms += 2 * UNTOLD_KEEP_MS;
    bucket.rest();
    assert_eq!(pins(&mut bucket), 0);
    assert!(pin(&mut bucket, Instant::make()).is_some());
}

#[test]
fn a_snapshot_holds_writes_no_longer_than_its_maker_has_time() {
    let mut bucket = Tended::new(38, 8);
    for at in 0..30 {
        bucket.put(&format!("k{at:02}")).unwrap();
    }
    bucket.rest();
    let (mut instant, mut answers, place) = (Instant::make(), Vec::new(), bucket.place());
    // The row, then the pins; then its time is over.
    for _ in 0..2 {
        let mut context = bucket.world.context(0);
        context.deadline = context.now + core::time::Duration::from_millis(200);
        let Ok(Progress::Step(core_flow::Step::Calls(calls))) =
            instant.next(&mut context, &place, core::mem::take(&mut answers))
        else {
            panic!("no calls");
        };
        answers = calls.into_iter().map(|call| bucket.world.carry_out(call)).collect();
    }
    assert_eq!(bucket.put("k00").unwrap_err().code.as_str(), "ShardFrozen");
    bucket.world.now_ms += 201;
    bucket.put("k00").unwrap();
}

/// How many pins the shards of the map hold.
fn pins(bucket: &mut Tended) -> usize {
    let held = bucket.map().into_iter().map(|entry| match bucket.ask(entry.shard, &shard::Query::Describe) {
        Ok(Reply::Shard { info }) => info.pins.len(),
        other => panic!("{other:?}"),
    });
    held.sum()
}

#[test]
fn a_count_as_of_a_snapshot_is_one_instant_and_leaves_no_pin() {
    let mut bucket = Tended::new(37, 8);
    for at in 0..30 {
        bucket.put(&format!("k{at:02}")).unwrap();
    }
    bucket.rest();
    let call = CountObjects { bucket: NAME.into(), prefix: "k0".into(), snapshot: true };
    let count: ObjectCount = bucket.world.ask(call).unwrap();
    assert_eq!((count.keys, count.versions), (10, 10));
    for entry in bucket.map() {
        let Ok(Reply::Shard { info }) = bucket.ask(entry.shard, &shard::Query::Describe) else { panic!() };
        assert!(info.pins.is_empty());
    }
}

#[test]
fn pages_of_a_snapshot_show_one_instant_and_a_whole_one_is_given_back() {
    let mut bucket = Tended::new(36, 8);
    for at in 0..30 {
        bucket.put(&format!("k{at:02}")).unwrap();
    }
    bucket.rest();
    let page = |bucket: &mut Tended, token: Option<String>, max: u32| -> Result<ObjectPage, Refusal> {
        let (continuation_token, snapshot, max_keys) = (token, true, Some(max));
        bucket.world.ask(ListObjectsV2 {
            bucket: NAME.into(),
            continuation_token,
            snapshot,
            max_keys,
            ..Default::default()
        })
    };
    let whole = page(&mut bucket, None, 100).unwrap();
    assert_eq!((whole.contents.len(), whole.is_truncated), (30, false));
    assert_eq!(pins(&mut bucket), 0, "no token names the snapshot");
    let sizes = |page: &ObjectPage| -> BTreeMap<String, u64> {
        page.contents.iter().map(|entry| (entry.key.clone(), entry.size)).collect()
    };
    let expected = sizes(&whole);
    let first = page(&mut bucket, None, 4).unwrap();
    let (mut seen, mut token) = (sizes(&first), first.next_continuation_token.clone());
    while token.is_some() {
        bucket.round(0, true);
        for key in ["k00", "k15", "k29", "k155"] {
            let _ = bucket.put(key);
        }
        let next = page(&mut bucket, token, 4).unwrap();
        seen.extend(sizes(&next));
        token = next.next_continuation_token;
    }
    assert_eq!(seen, expected);
    // The last page may be asked for again; a while later the walk has left nothing behind.
    assert!(pins(&mut bucket) > 0);
    bucket.world.now_ms += 2 * UNTOLD_KEEP_MS;
    bucket.rest();
    assert_eq!(pins(&mut bucket), 0);
    bucket.world.states = (0..3).map(|_| S3State::new(S3Config::for_world(3))).collect();
    let late = page(&mut bucket, first.next_continuation_token, 4);
    assert_eq!(late.unwrap_err().code.as_str(), "SnapshotExpired");
}

/// What a walk by markers shows page by page, until it ends: keys or versions, each with its size.
fn walk_by_markers(bucket: &mut Tended, versions: bool, between: &mut dyn FnMut(&mut Tended)) -> Vec<(String, u64)> {
    let (mut marker, mut seen, mut first) = (None, Vec::new(), true);
    loop {
        // Only the first page asks for the snapshot.
        let snapshot = core::mem::take(&mut first);
        let next = if versions {
            let call = ListObjectVersions {
                bucket: NAME.into(),
                key_marker: marker,
                max_keys: Some(4),
                snapshot,
                ..Default::default()
            };
            let page: VersionPage = bucket.world.ask(call).unwrap();
            assert_eq!((page.next_version_id_marker, page.next_key_marker.is_some()), (None, page.is_truncated));
            seen.extend(
                page.versions.into_iter().map(|entry| (format!("{} {}", entry.key, entry.version_id), entry.size)),
            );
            page.next_key_marker
        } else {
            let call = ListObjects { bucket: NAME.into(), marker, max_keys: Some(4), snapshot, ..Default::default() };
            let page: ObjectPage = bucket.world.ask(call).unwrap();
            seen.extend(page.contents.into_iter().map(|entry| (entry.key, entry.size)));
            page.next_marker
        };
        if next.is_none() {
            return seen;
        }
        marker = next;
        between(bucket);
    }
}

#[test]
fn markers_carry_a_snapshot_on_while_shards_split_and_keys_come_and_go() {
    for versions in [false, true] {
        let mut bucket = Tended::new(33, 8);
        for at in 0..30 {
            bucket.put(&format!("k{at:02}")).unwrap();
        }
        bucket.rest();
        let quiet = walk_by_markers(&mut bucket, versions, &mut |_| {});
        let mut rounds = 0;
        let walked = walk_by_markers(&mut bucket, versions, &mut |bucket| {
            rounds += 1;
            for at in 0..12 {
                bucket.put(&format!("k{:02}{rounds}", at * 3)).unwrap();
            }
            let key = format!("k{:02}", 29 - rounds);
            bucket.world.call(DeleteObject { bucket: NAME.into(), key, ..Default::default() }).unwrap();
            bucket.round(0, true);
        });
        assert_eq!((walked, rounds > 6), (quiet.clone(), true));
        assert_ne!(walk_by_markers(&mut bucket, versions, &mut |_| {}), quiet);
    }
}

#[test]
fn a_marker_that_is_none_of_a_snapshots_is_refused() {
    let mut bucket = Tended::new(34, 8);
    for at in 0..6 {
        bucket.put(&format!("k{at:02}")).unwrap();
    }
    let of = |prefix: &str, marker: &str| ListObjects {
        bucket: NAME.into(),
        prefix: prefix.into(),
        marker: Some(marker.into()),
        max_keys: Some(2),
        snapshot: true,
        ..Default::default()
    };
    let page: ObjectPage = bucket.world.ask(of("", "")).unwrap();
    let marker = page.next_marker.unwrap();
    assert!(bucket.world.call(of("", &marker)).is_ok());
    // A key, a marker of another listing, one that was made up: page after page would show an instant of its own.
    for (prefix, marker) in [("", "k01"), ("k", &marker[..]), ("", &marker[1..])] {
        assert_eq!(
            bucket.world.call(of(prefix, marker)).unwrap_err().code.as_str(),
            "InvalidArgument",
            "{prefix} {marker}"
        );
    }
    let versions = ListObjectVersions { bucket: NAME.into(), snapshot: true, ..Default::default() };
    for (key, version) in [("k01", None), ("k01", Some("null")), (&marker[..], None), ("", Some("null"))] {
        let (key_marker, version_id_marker) = (Some(key.to_string()), version.map(str::to_string));
        let call = ListObjectVersions { key_marker, version_id_marker, ..versions.clone() };
        assert_eq!(bucket.world.call(call).unwrap_err().code.as_str(), "InvalidArgument", "{key} {version:?}");
    }
}

/// Two keys of two shards are only ever written one after the other: no snapshot shows the later without the earlier.
#[test]
fn a_snapshot_never_shows_an_effect_without_its_cause() {
    let mut shown = 0;
    for seed in 40..60 {
        let mut bucket = Tended::new(seed, 8);
        for at in 0..30 {
            bucket.put(&format!("k{at:02}")).unwrap();
        }
        bucket.rest();
        let mut instant = Instant::make();
        let place = bucket.place();
        let mut answers = Vec::new();
        let (mut cause, mut causes) = (0u64, BTreeMap::new());
        let snapshot = loop {
            let mut context = bucket.world.context(0);
            match instant.next(&mut context, &place, core::mem::take(&mut answers)) {
                Ok(Progress::Ready(snapshot)) => break Some(snapshot),
                Ok(Progress::Step(core_flow::Step::Calls(calls))) => {
                    for call in calls {
                        // The cause first; the effect only once that is there.
                        if bucket.world.random.below(2) == 0 && bucket.put("k00").is_ok() {
                            cause = bucket.written;
                            bucket.world.now_ms += bucket.world.random.below(4_000);
                        }
                        if cause > 0 && bucket.put("k29").is_ok() {
                            causes.insert(bucket.written, cause);
                        }
                        let answer = bucket.world.carry_out(call);
                        answers.push(answer);
                    }
                }
                Ok(Progress::Step(_)) => bucket.world.now_ms += 3_100,
                Err(_) => break None,
            }
        };
        let Some(snapshot) = snapshot else { continue };
        let seen = bucket.listed(&snapshot.map.entries, Some(snapshot.pin));
        let cause = causes.get(&seen["k29"]).copied().unwrap_or(0);
        assert!(seen["k00"] >= cause, "seed {seed}: the effect of {cause}, but {seen:?}");
        shown += 1;
    }
    assert!(shown > 5, "{shown} of 20 snapshots were made");
}

//! Splits and merges of a bucket's shards, with answers lost, commands late, runners that die and two at once, and writes
//! between any two calls.

use super::tended::{Tended, NAME};
use super::world::{Running, World};
use crate::clusters;
use crate::planner_for;
use crate::request::{RequestIds, Terms};
use crate::reshard::maintenance;
use crate::reshard::runner;
use base_types::s3::{Versioning as Versioned, *};
use base_types::{Refusal, RequestId};
use bytes::Bytes;
use core_backends::shard_reference::Entry;

/// Fills a bucket while it splits and empties it while it merges; then looks whether all is there, and once.
fn a_life(seed: u64, lost: u64, late: u64, dies: u64) {
    let mut bucket = Tended::new(seed, 8);
    (bucket.world.lost, bucket.world.late) = (lost, late);
    for _ in 0..12 {
        bucket.round(dies, false);
    }
    bucket.rest();
    let map = bucket.map();
    assert!(map.len() > 3, "seed {seed}: {} keys in {} shards", bucket.keys.len(), map.len());
    assert_eq!(bucket.listed(&map, None), bucket.keys, "seed {seed}");
    (bucket.world.lost, bucket.world.late) = (lost, late);
    for _ in 0..10 {
        bucket.round(dies, true);
    }
    bucket.rest();
    for key in bucket.keys.clone().into_keys().skip(1) {
        bucket.delete(&key).unwrap();
    }
    bucket.rest();
    let fewer = bucket.map();
    assert!(fewer.len() < map.len(), "seed {seed}: {} shards are left of {}", fewer.len(), map.len());
    assert_eq!(bucket.listed(&fewer, None), bucket.keys, "seed {seed}");
    // Nothing is left behind: shards of the map alone, and every place but that of the last key.
    let shards = bucket.world.clusters().into_iter().filter(|name| name.starts_with("shard@")).count();
    assert_eq!(shards, fewer.len(), "seed {seed}: {:?}", bucket.world.clusters());
    let (mut freed, kept) = (bucket.freed(), bucket.keys.values().next().copied());
    freed.sort_unstable();
    freed.dedup();
    let refused = bucket.written - freed.len() as u64 - u64::from(kept.is_some());
    assert!(freed.iter().all(|place| Some(*place) != kept), "seed {seed}: what is named was freed");
    // A put that was refused has written nothing, so its place is a matter of the store's intents.
    assert!(refused < bucket.written / 2, "seed {seed}: {refused} of {} places are lost", bucket.written);
}

#[test]
fn shards_split_and_merge_in_peace() {
    a_life(1, 0, 0, 0);
}

#[test]
fn shards_split_and_merge_whatever_becomes_of_answers_and_runners() {
    for seed in 2..8 {
        a_life(seed, 40, 40, 0);
        a_life(seed, 10, 10, 8);
    }
}

/// A bucket whose keys only grow, with a look every few puts.
fn growing(seed: u64, lost: u64, late: u64, dies: u64) -> Tended {
    let mut bucket = Tended::new(seed, 16);
    (bucket.world.lost, bucket.world.late) = (lost, late);
    for at in 0..200 {
        // While the tail changes hands it may be refused.
        while bucket.put(&format!("t{at:04}")).is_err() {
            bucket.rest();
        }
        if at % 3 == 2 {
            let last = bucket.map().pop().unwrap();
            let look = Running::new(0, maintenance::look_at_shard(bucket.id, last.shard));
            bucket.run(vec![look], dies, false);
            bucket.run(vec![Running::new(0, maintenance::look_at_bucket(bucket.id))], dies, false);
            for (id, flow) in core::mem::take(&mut bucket.world.states[0].findings.flows) {
                let runner = |core| Running::new(core, runner::run_flow(id, flow));
                bucket.run(vec![runner(0), runner(1)], dies, false);
            }
        }
    }
    bucket.rest();
    let map = bucket.map();
    assert_eq!(bucket.listed(&map, None), bucket.keys, "seed {seed}");
    bucket
}

#[test]
fn keys_that_only_grow_are_cut_and_never_copied() {
    let mut bucket = Tended::new(90, 16);
    for at in 0..200 {
        bucket.put(&format!("t{at:04}")).unwrap();
        if at % 3 == 2 {
            bucket.rest();
        }
    }
    bucket.rest();
    let (map, counters) = (bucket.map(), bucket.world.states[0].counters);
    assert_eq!(bucket.listed(&map, None), bucket.keys);
    assert_eq!((counters.rows_copied, counters.tail_splits), (0, map.len() as u64 - 1), "{counters:?}");
    // Three quarters of a shard's rows or more are in each.
    assert!((200 / 16..=200 / 12 + 1).contains(&map.len()), "{} shards", map.len());
    // Other keys come among them: then what is too large is split as ever.
    for at in 0..40 {
        bucket.put(&format!("t0003{at:02}")).unwrap();
    }
    bucket.rest();
    assert!(bucket.world.states[0].counters.rows_copied > 0);
    assert_eq!(bucket.listed(&bucket.map(), None), bucket.keys);
}

#[test]
fn tails_change_hands_whatever_becomes_of_answers_and_runners() {
    let mut narrowed = 0;
    for seed in 91..97 {
        narrowed += growing(seed, 40, 40, 0).world.states.iter().map(|state| state.counters.tail_splits).sum::<u64>();
        narrowed += growing(seed, 10, 10, 8).world.states.iter().map(|state| state.counters.tail_splits).sum::<u64>();
    }
    assert!(narrowed > 20, "{narrowed}");
}

/// A put of a key that must not be there yet, asked under one request id.
fn put_once(world: &mut World, core: usize, id: RequestId) -> Result<S3Answer, Refusal> {
    let only_new = WriteConditions { if_none_match: Some("*".into()), ..WriteConditions::default() };
    let call = PutObject {
        bucket: NAME.into(),
        key: "k0305".into(),
        data: Data::Inline(Bytes::from_static(b"x")),
        size: 1,
        etag: "e".into(),
        conditions: only_new,
        ..PutObject::default()
    };
    let terms = Terms { request_id: Some(id), ..Terms::default() };
    let mut running = Running::new(core, planner_for(call.into(), &terms).unwrap());
    world.finish(&mut running)
}

#[test]
fn a_put_asked_again_after_splits_and_merges_is_found_done() {
    for seed in 0..20 {
        let mut tended = Tended::new(seed, 8);
        (0..6).for_each(|number| tended.put(&format!("k{number:03}")).unwrap());
        let id = tended.world.random.request_id();
        put_once(&mut tended.world, 0, id).unwrap();
        (6..60).for_each(|number| tended.put(&format!("k{number:03}")).unwrap());
        // Runners that die, two at once, answers lost, while clients write.
        (tended.world.lost, tended.world.late) = (50, 50);
        (0..4).for_each(|_| tended.round(20, false));
        tended.rest();
        assert!(tended.map().len() > 2);
        let of_call = Terms { request_id: Some(id), ..Terms::default() };
        let step = RequestIds::new(&of_call).id(&mut tended.world.context(0), 0);
        let remembers = |entry: &Entry| tended.world.remembers(&clusters::shard(tended.id, entry.shard).unwrap(), step);
        let remembering: Vec<u64> =
            tended.map().iter().filter(|entry| remembers(entry)).map(|entry| entry.shard).collect();
        assert_eq!(
            remembering,
            [tended.entry_of("k0305").shard],
            "seed {seed}: a target that no retry can reach need not know"
        );
        assert_eq!(put_once(&mut tended.world, 1, id).map(drop), Ok(()), "seed {seed}");
        let keys: Vec<String> = tended.keys.keys().cloned().collect();
        keys.iter().for_each(|key| tended.delete(key).unwrap());
        tended.rest();
        assert_eq!(tended.map().len(), 1);
        assert_eq!(put_once(&mut tended.world, 2, id).map(drop), Ok(()), "seed {seed}, merged");
        let other = tended.world.random.request_id();
        assert_eq!(put_once(&mut tended.world, 2, other).unwrap_err().code.as_str(), "PreconditionFailed");
    }
}

/// Deletes of many keys, asked under one request id.
fn delete_together(world: &mut World, core: usize, id: RequestId, keys: &[&str]) -> DeleteObjectsAnswer {
    let one = |key: &&str| ObjectToDelete { key: (*key).to_owned(), ..ObjectToDelete::default() };
    let objects = keys.iter().map(one).collect();
    let call = DeleteObjects { bucket: NAME.into(), objects, bypass_governance_retention: false };
    let terms = Terms { request_id: Some(id), ..Terms::default() };
    let mut running = Running::new(core, planner_for(call.into(), &terms).unwrap());
    DeleteObjectsAnswer::try_from(world.finish(&mut running).unwrap()).unwrap()
}

/// The keys are in one shard, then in several, then in one again: a marker is laid for each, once.
#[test]
fn deletes_of_many_asked_again_in_other_company_are_found_done() {
    for seed in 0..20 {
        let mut tended = Tended::new(seed, 8);
        (0..6).for_each(|number| tended.put(&format!("k{number:03}")).unwrap());
        tended.world.call(PutBucketVersioning { bucket: NAME.into(), status: Versioned::Enabled }).unwrap();
        let keys = ["k003", "k057", "k031", "k003", "k000"];
        let id = tended.world.random.request_id();
        let first = delete_together(&mut tended.world, 0, id, &keys);
        assert!(first.results.iter().all(|result| result.deleted.is_some()), "{first:?}");
        (6..60).for_each(|number| tended.put(&format!("k{number:03}")).unwrap());
        (tended.world.lost, tended.world.late) = (50, 50);
        (0..4).for_each(|_| tended.round(20, false));
        tended.rest();
        let parted = tended.map().len();
        assert!(parted > 2);
        assert_eq!(delete_together(&mut tended.world, 1, id, &keys), first, "seed {seed}, split");
        let there: Vec<String> = tended.keys.keys().cloned().collect();
        there.iter().for_each(|key| tended.delete(key).unwrap());
        tended.rest();
        assert!(tended.map().len() < parted, "seed {seed}");
        assert_eq!(delete_together(&mut tended.world, 2, id, &keys), first, "seed {seed}, merged");
        // Some of them in a call of their own, which is another's request.
        let other = tended.world.random.request_id();
        assert_ne!(delete_together(&mut tended.world, 2, other, &keys[..2]).results, first.results[..2]);
        let call = ListObjectVersions { bucket: NAME.into(), prefix: "k003".into(), ..ListObjectVersions::default() };
        let page: VersionPage = tended.world.ask(call).unwrap();
        assert_eq!(page.versions.iter().filter(|entry| entry.delete_marker).count(), 3, "seed {seed}");
    }
}

//! What the looks at a bucket find: shards that are too large or too busy, what a late runner began, freed data; and a
//! bucket that is gone.

use super::tended::{Tended, NAME};
use super::world::Running;
use crate::clusters;
use crate::config::FREED_AGE_MS;
use crate::reshard::maintenance;
use crate::reshard::runner;
use base_types::codec::Encode;
use base_types::s3::*;
use base_types::BackendKind;
use bytes::Bytes;
use core_backends::multipart;
use core_backends::shard::{self, Reply};

#[test]
fn a_large_shard_of_a_busy_machine_is_looked_at_until_it_is_split() {
    let mut bucket = Tended::new(99, 8);
    bucket.world.machine_load = 1_000;
    for at in 0..12 {
        bucket.put(&format!("k{:02}", at * 7 % 12)).unwrap();
    }
    let number = bucket.map()[0].shard;
    let look = |bucket: &mut Tended| {
        let mut look = Running::new(0, maintenance::look_at_shard(bucket.id, number));
        while look.response.is_none() {
            bucket.world.step(&mut look);
        }
        look.response.expect("a look ends")
    };
    for _ in 0..5 {
        // It asks to come back, for nothing else would bring a look to a shard that nobody writes to.
        assert_eq!(look(&mut bucket).unwrap_err().refusal.code.as_str(), "NotReady");
        assert_eq!(bucket.map().len(), 1);
    }
    bucket.world.machine_load = 0;
    bucket.rest();
    assert_eq!(bucket.map().len(), 3);
    assert!(look(&mut bucket).is_ok());
}

#[test]
fn a_busy_shard_is_split_where_its_writes_part_and_merges_when_it_is_quiet() {
    let mut bucket = Tended::new(98, 4_000);
    bucket.world.config.split_writes = 20;
    for at in 0..3_000 {
        bucket.put(&format!("k{:03}", at * 7 % 100)).unwrap();
        bucket.world.now_ms += 10;
    }
    let settle = |bucket: &mut Tended| {
        for _ in 0..40 {
            bucket.round(0, false);
            for at in 0..20 {
                bucket.put(&format!("k{:03}", at * 5)).unwrap();
                bucket.world.now_ms += 20;
            }
        }
    };
    settle(&mut bucket);
    let map = bucket.map();
    assert_eq!(map.len(), 3, "{map:?}");
    assert_eq!(bucket.listed(&map, None), bucket.keys);
    bucket.world.now_ms += 60_000;
    bucket.put("k001").unwrap();
    bucket.rest();
    assert_eq!(bucket.map().len(), 1);
}

#[test]
fn a_split_begun_once_more_behind_the_end_of_its_flow_is_ended_by_the_upkeep() {
    let mut bucket = Tended::new(38, 100);
    bucket.put("k").unwrap();
    let own = bucket.map().remove(0);
    let parts = [(Bytes::new(), Some("m".into())), ("m".into(), None)];
    let peer = |(shard, (start, end))| shard::Peer { shard, epoch: own.epoch + 1, range: shard::Range { start, end } };
    let targets = (own.shard + 1..).zip(parts).map(peer).collect();
    let begin = shard::Command::BeginSplit { epoch: own.epoch, targets };
    let state = |told| match told {
        Ok(Reply::Shard { info }) => info.state,
        other => panic!("{other:?}"),
    };
    assert_eq!(state(bucket.tell(own.shard, &begin)), shard::ShardState::Splitting);
    bucket.rest();
    assert_eq!(state(bucket.ask(own.shard, &shard::Query::Describe)), shard::ShardState::Serving);
}

#[test]
fn every_place_of_what_was_overwritten_or_deleted_is_told_until_it_is_forgotten() {
    let mut bucket = Tended::new(20, 8);
    for round in 0..3 {
        for at in 0..20 {
            bucket.put(&format!("k{at:02}")).unwrap();
        }
        if round == 1 {
            bucket.rest();
        }
    }
    bucket.rest();
    bucket.world.now_ms += FREED_AGE_MS;
    bucket.rest();
    let mut freed = bucket.freed();
    freed.sort_unstable();
    freed.dedup();
    assert_eq!(freed, (1..=40).collect::<Vec<u64>>());
    let look_up = |places: &[&str]| LookupData {
        bucket: NAME.into(),
        key: "k00".into(),
        locations: places.iter().map(|place| place.to_string()).collect(),
    };
    let named: Locations = bucket.world.ask(look_up(&["at 41", "at 1", "at 42"])).unwrap();
    assert_eq!(named.locations, ["at 41"]);
    let uploads = clusters::bucket(bucket.id).unwrap();
    for command in [
        multipart::Command::Create {
            key: "k00".into(),
            at_unix_ms: 1,
            document: Bytes::new(),
            initiator: Bytes::new(),
        },
        multipart::Command::PutPart {
            key: "k00".into(),
            upload: 1,
            part: multipart::Part {
                number: 1,
                etag: "e".into(),
                size: 1,
                at_unix_ms: 1,
                checksums: Bytes::new(),
                location: "part".into(),
            },
            inline: None,
            data_expires_ms: None,
        },
    ] {
        bucket.world.write(&uploads, BackendKind::Multipart, &command.to_bytes(), None).unwrap();
    }
    let named: Locations = bucket.world.ask(look_up(&["at 41", "part"])).unwrap();
    assert_eq!(named.locations, ["at 41", "part"]);
    let abort = multipart::Command::Abort { key: "k00".into(), upload: 1 };
    bucket.world.write(&uploads, BackendKind::Multipart, &abort.to_bytes(), None).unwrap();
    bucket.rest();
    let page: Locations = bucket.world.ask(ListFreedData { max: 7 }).unwrap();
    assert_eq!(page.locations, ["part"]);
}

#[test]
fn a_bucket_that_is_removed_leaves_no_place_untold() {
    let mut bucket = Tended::new(71, 8);
    for at in 0..20 {
        bucket.put(&format!("k{at:02}")).unwrap();
    }
    bucket.rest();
    for key in bucket.keys.clone().into_keys() {
        bucket.delete(&key).unwrap();
    }
    bucket.world.call(DeleteBucket { bucket: NAME.into(), ..DeleteBucket::default() }).unwrap();
    let mut freed = bucket.freed();
    freed.sort_unstable();
    freed.dedup();
    assert_eq!(freed, (1..=20).collect::<Vec<u64>>());
}

#[test]
fn a_bucket_that_is_gone_ends_its_upkeep() {
    let mut bucket = Tended::new(70, 8);
    for at in 0..10 {
        bucket.put(&format!("k{at}")).unwrap();
    }
    bucket.world.spaces.clear();
    for planner in [
        maintenance::look_at_bucket(bucket.id),
        maintenance::look_at_shard(bucket.id, 1),
        runner::run_flow(bucket.id, 1),
    ] {
        let mut running = Running::new(0, planner);
        assert!(bucket.world.finish_background(&mut running).is_ok());
    }
}

//! Splits, merges, snapshots and freed data of a bucket, with answers lost, commands late, runners that die and
//! two at once, and writes between any two calls.

use super::world::{Running, World};
use crate::s3::cache::{Bucket, ShardMap};
use crate::s3::freed::FREED_AGE_MS;
use crate::s3::on_bucket::Place;
use crate::s3::record::BucketRecord;
use crate::s3::request::{RequestIds, Terms};
use crate::s3::snapshot::{Instant, Progress, SNAPSHOT_KEEP_MS, UNTOLD_KEEP_MS};
use crate::s3::{clusters, planner_for, reshard, tidy, upkeep};
use base_types::codec::Encode;
use base_types::s3::{Versioning as Versioned, *};
use base_types::{BackendKind, Refusal, RequestId, Tick};
use bytes::Bytes;
use core_backends::shard::{self, Item, ListStart, Listing, Reply, Versioning};
use core_backends::shard_reference::{self, Entry, Flow};
use core_backends::{decode_reply, multipart};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const NAME: &str = "photos";
/// Rounds after which a bucket that is looked at again and again is at rest.
const ROUNDS_MAX: usize = 200;

/// A bucket whose keeper is this test, and what is in it.
pub(super) struct Tended {
    pub world: World,
    pub id: u128,
    keys: BTreeMap<String, u64>,
    written: u64,
}

impl Tended {
    pub fn new(seed: u64, split_keys: u64) -> Tended {
        let mut world = World::new(seed);
        world.config.split_keys = split_keys;
        world.call(CreateAccount { account: "ann".into(), ..CreateAccount::default() }).unwrap();
        let create = CreateBucket { bucket: NAME.into(), account: "ann".into(), ..CreateBucket::default() };
        world.call(create).unwrap();
        let named = clusters::shard(0, 1).unwrap();
        let shard = |name: &String| name.starts_with("shard@") && name.len() == named.as_str().len();
        let made = world.clusters().into_iter().find(shard).unwrap();
        let id = u128::from_str_radix(&made["shard@".len()..made.len() - 2], 16).unwrap();
        Tended { world, id, keys: BTreeMap::new(), written: 0 }
    }

    pub fn map(&self) -> Vec<Entry> {
        let query = shard_reference::Query::Map { start: Bytes::new(), limit: 1000 };
        let bucket = clusters::bucket(self.id).unwrap();
        match self.world.look(&bucket, BackendKind::ShardReference, &query).unwrap() {
            shard_reference::Reply::Entries { entries, more: false, .. } => entries,
            other => panic!("{other:?}"),
        }
    }

    fn flows(&self) -> Vec<Flow> {
        let bucket = clusters::bucket(self.id).unwrap();
        match self.world.look(&bucket, BackendKind::ShardReference, &shard_reference::Query::Flows).unwrap() {
            shard_reference::Reply::Flows { flows } => flows,
            other => panic!("{other:?}"),
        }
    }

    pub fn ask(&self, number: u64, query: &shard::Query) -> Result<Reply, Refusal> {
        self.world.look(&clusters::shard(self.id, number).unwrap(), BackendKind::Shard, query)
    }

    fn tell(&mut self, number: u64, command: &shard::Command) -> Result<Reply, Refusal> {
        let cluster = clusters::shard(self.id, number).unwrap();
        let result = self.world.write(&cluster, BackendKind::Shard, &command.to_bytes(), None);
        decode_reply(result.map_err(|failure| failure.refusal)?.backend().0)
    }

    fn entry_of(&self, key: &str) -> Entry {
        self.map().into_iter().rfind(|entry| entry.range.start[..] <= *key.as_bytes()).unwrap()
    }

    /// Puts a key whose bytes are in a data store; refused while a shard is cut over.
    pub fn put(&mut self, key: &str) -> Result<(), Refusal> {
        let entry = self.entry_of(key);
        self.written += 1;
        let mut document = Document::new();
        document.set_number(field::SIZE, self.written);
        document.set(field::LOCATION, Some(format!("at {}", self.written).into()));
        let step = shard::PutStep {
            epoch: entry.epoch,
            key: Bytes::copy_from_slice(key.as_bytes()),
            versioning: Versioning::Unversioned,
            at_unix_ms: self.world.now_ms,
            document: document.encode(),
            inline: None,
            condition: shard::Condition::default(),
            once: None,
            data_expires_ms: None,
        };
        self.tell(entry.shard, &shard::Command::Put { step })?;
        self.keys.insert(key.to_string(), self.written);
        Ok(())
    }

    fn delete(&mut self, key: &str) -> Result<(), Refusal> {
        let entry = self.entry_of(key);
        let terms = shard::DeleteTerms {
            epoch: entry.epoch,
            versioning: Versioning::Unversioned,
            at_unix_ms: self.world.now_ms,
            bypass_governance: false,
            mfa_missing: false,
            owner: None,
        };
        let key_bytes = Bytes::copy_from_slice(key.as_bytes());
        let condition = shard::Condition::default();
        let step = shard::DeleteStep { key: key_bytes, version: Version::Current, condition };
        self.tell(entry.shard, &shard::Command::Delete { terms, step })?;
        self.keys.remove(key);
        Ok(())
    }

    /// Now and then a client writes.
    fn disturb(&mut self, deletes: bool) {
        if self.world.random.below(3) > 0 {
            return;
        }
        let key = format!("k{:03}", self.world.random.below(60));
        let _ = if deletes && self.world.random.below(3) > 0 { self.delete(&key) } else { self.put(&key) };
    }

    /// Runs background work, writes between its calls; it may die on the way.
    fn run(&mut self, mut all: Vec<Running>, dies: u64, deletes: bool) {
        for _ in 0..4_000 {
            let mut ended = true;
            for running in &mut all {
                if running.response.is_some() || self.world.random.below(1000) < dies {
                    continue;
                }
                ended = false;
                self.world.now_ms += 5;
                self.world.step(running);
            }
            if dies > 0 && self.world.random.below(1000) < dies {
                return;
            }
            self.disturb(deletes);
            if ended {
                return;
            }
        }
    }

    /// One round of the keeper: every shard and the bucket are looked at, flows found are run by two at once.
    fn round(&mut self, dies: u64, deletes: bool) {
        for entry in self.map() {
            let look = Running::new(0, upkeep::look_at_shard(self.id, entry.shard));
            self.run(vec![look], dies, deletes);
        }
        self.run(vec![Running::new(0, upkeep::look_at_bucket(self.id))], dies, deletes);
        for id in core::mem::take(&mut self.world.caches[0].untidy) {
            self.run(vec![Running::new(0, tidy::tidy(id))], dies, deletes);
        }
        let mut found = core::mem::take(&mut self.world.caches[0].found);
        found.dedup();
        for (id, flow) in found {
            let runner = |core| Running::new(core, reshard::run_flow(id, flow));
            self.run(vec![runner(0), runner(1)], dies, deletes);
        }
    }

    /// Without disturbance all comes to rest: no flow, no retired shard, no shard too large.
    pub fn rest(&mut self) {
        (self.world.lost, self.world.late) = (0, 0);
        self.world.settle();
        for _ in 0..ROUNDS_MAX {
            for entry in self.map() {
                let mut look = Running::new(0, upkeep::look_at_shard(self.id, entry.shard));
                let _ = self.world.finish_background(&mut look);
            }
            let mut look = Running::new(0, upkeep::look_at_bucket(self.id));
            let looked = self.world.finish_background(&mut look);
            for id in core::mem::take(&mut self.world.caches[0].untidy) {
                self.world.finish_background(&mut Running::new(0, tidy::tidy(id))).unwrap();
            }
            for bucket in core::mem::take(&mut self.world.caches[0].sweeps) {
                let mut sweep = Running::new(0, crate::s3::sweep::sweep(bucket));
                self.world.finish_background(&mut sweep).unwrap();
            }
            for (id, flow) in core::mem::take(&mut self.world.caches[0].found) {
                let mut runner = Running::new(0, reshard::run_flow(id, flow));
                self.world.finish_background(&mut runner).unwrap();
            }
            if looked.is_ok() && self.flows().is_empty() {
                return;
            }
            self.world.now_ms += FREED_AGE_MS;
        }
        panic!("the bucket does not come to rest: {:?} {:?}", self.map(), self.flows());
    }

    fn listed(&self, entries: &[Entry], pin: Option<u128>) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for entry in entries {
            let listing = Listing {
                epoch: entry.epoch,
                prefix: Bytes::new(),
                delimiter: Bytes::new(),
                start: ListStart::Beginning,
                limit: 1000,
                pin,
            };
            let reply = self.ask(entry.shard, &shard::Query::List { listing }).unwrap();
            let Reply::Page { items, more: false } = reply else { panic!("{reply:?}") };
            for item in items {
                let Item::Object { key, fields, .. } = item else { panic!() };
                let key = String::from_utf8(key.to_vec()).unwrap();
                let size = Document::decode(fields).unwrap().number(field::SIZE).unwrap();
                assert!(all.insert(key, size).is_none(), "a key is listed twice");
            }
        }
        all
    }

    fn freed(&mut self) -> Vec<u64> {
        let mut all = Vec::new();
        loop {
            let page: Locations = self.world.ask(ListFreedData { max: 7 }).unwrap();
            if page.locations.is_empty() {
                return all;
            }
            all.extend(page.locations.iter().map(|place| place["at ".len()..].parse::<u64>().unwrap()));
            self.world.call(ForgetFreedData { locations: page.locations }).unwrap();
        }
    }

    pub fn place(&self) -> Place {
        let bucket = Bucket { id: self.id, record: BucketRecord::default(), body: Bytes::new(), read_at: Tick(0) };
        Place { bucket: Arc::new(bucket), map: Arc::new(ShardMap { version: 1, entries: self.map() }) }
    }
}

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
            let look = Running::new(0, upkeep::look_at_shard(bucket.id, last.shard));
            bucket.run(vec![look], dies, false);
            bucket.run(vec![Running::new(0, upkeep::look_at_bucket(bucket.id))], dies, false);
            for (id, flow) in core::mem::take(&mut bucket.world.caches[0].found) {
                let runner = |core| Running::new(core, reshard::run_flow(id, flow));
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
    let (map, counters) = (bucket.map(), bucket.world.caches[0].counters);
    assert_eq!(bucket.listed(&map, None), bucket.keys);
    assert_eq!((counters.rows_copied, counters.narrowed), (0, map.len() as u64 - 1), "{counters:?}");
    // Three quarters of a shard's rows or more are in each.
    assert!((200 / 16..=200 / 12 + 1).contains(&map.len()), "{} shards", map.len());
    // Other keys come among them: then what is too large is split as ever.
    for at in 0..40 {
        bucket.put(&format!("t0003{at:02}")).unwrap();
    }
    bucket.rest();
    assert!(bucket.world.caches[0].counters.rows_copied > 0);
    assert_eq!(bucket.listed(&bucket.map(), None), bucket.keys);
}

#[test]
fn tails_change_hands_whatever_becomes_of_answers_and_runners() {
    let mut narrowed = 0;
    for seed in 91..97 {
        narrowed += growing(seed, 40, 40, 0).world.caches.iter().map(|cache| cache.counters.narrowed).sum::<u64>();
        narrowed += growing(seed, 10, 10, 8).world.caches.iter().map(|cache| cache.counters.narrowed).sum::<u64>();
    }
    assert!(narrowed > 20, "{narrowed}");
}

#[test]
fn a_large_shard_of_a_busy_machine_is_looked_at_until_it_is_split() {
    let mut bucket = Tended::new(99, 8);
    bucket.world.machine_load = 1_000;
    for at in 0..12 {
        bucket.put(&format!("k{:02}", at * 7 % 12)).unwrap();
    }
    let number = bucket.map()[0].shard;
    let look = |bucket: &mut Tended| {
        let mut look = Running::new(0, upkeep::look_at_shard(bucket.id, number));
        while look.response.is_none() {
            bucket.world.step(&mut look);
        }
        look.response.expect("a look ends")
    };
    for _ in 0..5 {
        // It asks to come back, for nothing else would bring a look to a shard that nobody writes to.
        assert_eq!(look(&mut bucket).unwrap_err().refusal.code, "NotReady");
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

/// Drives a snapshot with writes between its calls; `None` where it gave up.
fn pin(bucket: &mut Tended, mut instant: Instant) -> Option<(u128, Vec<Entry>)> {
    let mut answers = Vec::new();
    let mut place = bucket.place();
    for _ in 0..200 {
        let mut context = bucket.world.context(0);
        let progress = instant.next(&mut context, &place, core::mem::take(&mut answers));
        match progress {
            Ok(Progress::Ready(snapshot)) => return Some((snapshot.pin, snapshot.map.entries.clone())),
            Ok(Progress::Step(crate::planner::Step::Calls(calls))) => {
                for call in calls {
                    bucket.disturb(true);
                    let answer = bucket.world.carry_out(call);
                    answers.push(answer);
                }
            }
            Ok(Progress::Step(_)) => bucket.world.now_ms += 50,
            Err(crate::s3::on_bucket::Trouble::Map(_)) => place = bucket.place(),
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
        bucket.world.caches[0] = Default::default();
        assert_eq!(pin(&mut bucket, Instant::find(pin_id)), Some((pin_id, entries.clone())));
        bucket.world.now_ms += 2 * SNAPSHOT_KEEP_MS;
        bucket.rest();
        bucket.world.caches[0] = Default::default();
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
                Ok(Progress::Step(crate::planner::Step::Calls(calls))) => {
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
        let Ok(Progress::Step(crate::planner::Step::Calls(calls))) =
            instant.next(&mut context, &place, core::mem::take(&mut answers))
        else {
            panic!("no calls");
        };
        answers = calls.into_iter().map(|call| bucket.world.carry_out(call)).collect();
    }
    assert_eq!(bucket.put("k00").unwrap_err().code, "ShardFrozen");
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
    bucket.world.caches = (0..3).map(|_| Default::default()).collect();
    let late = page(&mut bucket, first.next_continuation_token, 4);
    assert_eq!(late.unwrap_err().code, "SnapshotExpired");
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
        assert_eq!(bucket.world.call(of(prefix, marker)).unwrap_err().code, "InvalidArgument", "{prefix} {marker}");
    }
    let versions = ListObjectVersions { bucket: NAME.into(), snapshot: true, ..Default::default() };
    for (key, version) in [("k01", None), ("k01", Some("null")), (&marker[..], None), ("", Some("null"))] {
        let (key_marker, version_id_marker) = (Some(key.to_string()), version.map(str::to_string));
        let call = ListObjectVersions { key_marker, version_id_marker, ..versions.clone() };
        assert_eq!(bucket.world.call(call).unwrap_err().code, "InvalidArgument", "{key} {version:?}");
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
                Ok(Progress::Step(crate::planner::Step::Calls(calls))) => {
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
    for planner in
        [upkeep::look_at_bucket(bucket.id), upkeep::look_at_shard(bucket.id, 1), reshard::run_flow(bucket.id, 1)]
    {
        let mut running = Running::new(0, planner);
        assert!(bucket.world.finish_background(&mut running).is_ok());
    }
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
            "seed {seed}: who cannot be asked again need not know"
        );
        assert_eq!(put_once(&mut tended.world, 1, id).map(drop), Ok(()), "seed {seed}");
        let keys: Vec<String> = tended.keys.keys().cloned().collect();
        keys.iter().for_each(|key| tended.delete(key).unwrap());
        tended.rest();
        assert_eq!(tended.map().len(), 1);
        assert_eq!(put_once(&mut tended.world, 2, id).map(drop), Ok(()), "seed {seed}, merged");
        let other = tended.world.random.request_id();
        assert_eq!(put_once(&mut tended.world, 2, other).unwrap_err().code, "PreconditionFailed");
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

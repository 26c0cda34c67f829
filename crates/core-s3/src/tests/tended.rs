//! A bucket whose keeper is a test: it puts and deletes keys by themselves, looks at shards, runs their flows, and knows what
//! must be there. Not here: what is looked at (flows.rs, maintenance.rs, snapshots.rs, given_back.rs).

use super::world::{Running, World};
use crate::buckets::with_bucket::Place;
use crate::clusters;
use crate::config::FREED_AGE_MS;
use crate::record::BucketRecord;
use crate::reshard::maintenance;
use crate::reshard::retired_shards;
use crate::reshard::runner;
use crate::state::cache::{Bucket, ShardMap};
use base_types::codec::Encode;
use base_types::s3::*;
use base_types::{BackendKind, Refusal, Tick};
use bytes::Bytes;
use core_backends::decode_reply;
use core_backends::shard::{self, Item, ListStart, Listing, Reply, Versioning};
use core_backends::shard_reference::{self, Entry, Flow};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const NAME: &str = "photos";
/// Rounds after which a bucket that is looked at again and again is at rest.
const ROUNDS_MAX: usize = 200;

/// A bucket whose keeper is this test, and what is in it.
pub(super) struct Tended {
    pub world: World,
    pub id: u128,
    /// Each key with the size of its object.
    pub keys: BTreeMap<String, u64>,
    pub written: u64,
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

    pub fn flows(&self) -> Vec<Flow> {
        let bucket = clusters::bucket(self.id).unwrap();
        match self.world.look(&bucket, BackendKind::ShardReference, &shard_reference::Query::Flows).unwrap() {
            shard_reference::Reply::Flows { flows } => flows,
            other => panic!("{other:?}"),
        }
    }

    pub fn ask(&self, number: u64, query: &shard::Query) -> Result<Reply, Refusal> {
        self.world.look(&clusters::shard(self.id, number).unwrap(), BackendKind::Shard, query)
    }

    pub fn tell(&mut self, number: u64, command: &shard::Command) -> Result<Reply, Refusal> {
        let cluster = clusters::shard(self.id, number).unwrap();
        let result = self.world.write(&cluster, BackendKind::Shard, &command.to_bytes(), None);
        decode_reply(result.map_err(|failure| failure.refusal)?.backend().0)
    }

    pub fn entry_of(&self, key: &str) -> Entry {
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

    pub fn delete(&mut self, key: &str) -> Result<(), Refusal> {
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
    pub fn disturb(&mut self, deletes: bool) {
        if self.world.random.below(3) > 0 {
            return;
        }
        let key = format!("k{:03}", self.world.random.below(60));
        let _ = if deletes && self.world.random.below(3) > 0 { self.delete(&key) } else { self.put(&key) };
    }

    /// Runs background work, writes between its calls; it may die on the way.
    pub fn run(&mut self, mut all: Vec<Running>, dies: u64, deletes: bool) {
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
    pub fn round(&mut self, dies: u64, deletes: bool) {
        for entry in self.map() {
            let look = Running::new(0, maintenance::look_at_shard(self.id, entry.shard));
            self.run(vec![look], dies, deletes);
        }
        self.run(vec![Running::new(0, maintenance::look_at_bucket(self.id))], dies, deletes);
        for id in core::mem::take(&mut self.world.states[0].findings.retired) {
            self.run(vec![Running::new(0, retired_shards::remove_retired(id))], dies, deletes);
        }
        let mut found = core::mem::take(&mut self.world.states[0].findings.flows);
        found.dedup();
        for (id, flow) in found {
            let runner = |core| Running::new(core, runner::run_flow(id, flow));
            self.run(vec![runner(0), runner(1)], dies, deletes);
        }
    }

    /// Without disturbance all comes to rest: no flow, no retired shard, no shard too large.
    pub fn rest(&mut self) {
        (self.world.lost, self.world.late) = (0, 0);
        self.world.settle();
        for _ in 0..ROUNDS_MAX {
            for entry in self.map() {
                let mut look = Running::new(0, maintenance::look_at_shard(self.id, entry.shard));
                let _ = self.world.finish_background(&mut look);
            }
            let mut look = Running::new(0, maintenance::look_at_bucket(self.id));
            let looked = self.world.finish_background(&mut look);
            for id in core::mem::take(&mut self.world.states[0].findings.retired) {
                self.world.finish_background(&mut Running::new(0, retired_shards::remove_retired(id))).unwrap();
            }
            for bucket in core::mem::take(&mut self.world.states[0].findings.uploads) {
                let mut sweep = Running::new(0, crate::uploads::sweep::sweep(bucket));
                self.world.finish_background(&mut sweep).unwrap();
            }
            for (id, flow) in core::mem::take(&mut self.world.states[0].findings.flows) {
                let mut runner = Running::new(0, runner::run_flow(id, flow));
                self.world.finish_background(&mut runner).unwrap();
            }
            if looked.is_ok() && self.flows().is_empty() {
                return;
            }
            self.world.now_ms += FREED_AGE_MS;
        }
        panic!("the bucket does not come to rest: {:?} {:?}", self.map(), self.flows());
    }

    pub fn listed(&self, entries: &[Entry], pin: Option<u128>) -> BTreeMap<String, u64> {
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

    pub fn freed(&mut self) -> Vec<u64> {
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

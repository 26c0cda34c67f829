//! A bucket in a world in memory, and what tests of calls on objects do to it.

use super::world::World;
use crate::clusters;
use crate::record;
use base_types::codec::Encode;
use base_types::s3::*;
use base_types::BackendKind;
use bytes::Bytes;
use core_backends::shard::{self, Range};
use core_backends::shard_reference::{self, Entry};
use core_backends::{decode_reply, metadata};

pub(crate) const BUCKET: &str = "photos";

/// A world with a bucket.
pub(crate) fn world(seed: u64) -> World {
    let mut world = World::new(seed);
    world
        .call(CreateAccount { account: "ann".into(), display_name: "Ann".into(), ..CreateAccount::default() })
        .unwrap();
    world.call(CreateBucket { bucket: BUCKET.into(), account: "ann".into(), ..CreateBucket::default() }).unwrap();
    world
}

/// The bucket's id.
pub(crate) fn id(world: &mut World) -> u128 {
    world.call(HeadBucket { bucket: BUCKET.into() }).unwrap();
    world.states[0].cache.id_of(BUCKET).unwrap()
}

/// Changes the bucket's settings, and lets the time pass in which the old ones may be used.
pub(crate) fn set(world: &mut World, change: impl FnOnce(&mut BucketInfo)) {
    let cluster = clusters::bucket(id(world)).unwrap();
    let query = metadata::Query::Get { scope: None, key: Bytes::from_static(b"record") };
    let before = match world.look(&cluster, BackendKind::Metadata, &query).unwrap() {
        metadata::Reply::Value { value } => value.unwrap(),
        other => panic!("{other:?}"),
    };
    let mut after = record::BucketRecord::from_body(&before).unwrap();
    change(&mut after.info);
    let id = id(world);
    world.carry_out(record::write_record(id, Some(before), &after, None).unwrap()).unwrap();
    world.now_ms += 2_000;
}

pub(crate) fn tell_map(world: &mut World, command: &shard_reference::Command) -> shard_reference::Reply {
    let cluster = clusters::bucket(id(world)).unwrap();
    let result = world.write(&cluster, BackendKind::ShardReference, &command.to_bytes(), None).unwrap();
    decode_reply(result.backend().0).unwrap()
}

/// The map of the bucket.
pub(crate) fn map(world: &mut World) -> Vec<Entry> {
    let cluster = clusters::bucket(id(world)).unwrap();
    let query = shard_reference::Query::Map { start: Bytes::new(), limit: 1000 };
    match world.look(&cluster, BackendKind::ShardReference, &query).unwrap() {
        shard_reference::Reply::Entries { entries, .. } => entries,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn tell_shard(world: &mut World, number: u64, command: &shard::Command) -> shard::Reply {
    let cluster = clusters::shard(id(world), number).unwrap();
    let result = world.write(&cluster, BackendKind::Shard, &command.to_bytes(), None).unwrap();
    decode_reply(result.backend().0).unwrap()
}

/// What becomes of a shard that was split.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Old {
    /// Its cluster is there and refuses.
    Refuses,
    /// Its cluster is gone.
    Gone,
}

/// Splits the shard that has the first of some keys, at these keys; caches are not told. Its rows are those that the
/// flow copies: here whole tables, as no client writes meanwhile.
pub(crate) fn split(world: &mut World, cuts: &[&str], old: Old) {
    use shard_reference::Phase::{Copying, Cutting, Planned};
    let source = map(world).into_iter().rfind(|entry| &entry.range.start[..] <= cuts[0].as_bytes()).unwrap();
    let cuts = cuts.iter().map(|cut| Bytes::copy_from_slice(cut.as_bytes())).collect();
    let plan = shard_reference::Command::Plan { sources: vec![(source.shard, source.epoch)], cuts };
    let shard_reference::Reply::Flow { flow } = tell_map(world, &plan) else { panic!("no flow") };
    for (from, to) in [(Planned, Copying), (Copying, Cutting)] {
        tell_map(world, &shard_reference::Command::Advance { flow: flow.flow, from, to });
    }
    copy(world, &flow);
    tell_map(world, &shard_reference::Command::Switch { flow: flow.flow });
    tell_map(world, &shard_reference::Command::Finish { flow: flow.flow });
    if old == Old::Gone {
        let cluster = clusters::shard(id(world), source.shard).unwrap();
        world.spaces.remove(&(cluster, BackendKind::Shard));
    }
}

/// The steps of the flow at the shards.
fn copy(world: &mut World, flow: &shard_reference::Flow) {
    let source = &flow.sources[0];
    for target in &flow.targets {
        let cluster = clusters::shard(id(world), target.shard).unwrap();
        world.spaces.insert((cluster, BackendKind::Shard), Default::default());
        let (epoch, range, sources) = (target.epoch, target.range.clone(), flow.sources.clone());
        tell_shard(world, target.shard, &shard::Command::PrepareImport { epoch, range, sources });
    }
    let (epoch, targets) = (source.epoch, flow.targets.clone());
    tell_shard(world, source.shard, &shard::Command::BeginSplit { epoch, targets });
    for target in &flow.targets {
        let rows = export(world, source, target.range.clone());
        let cursor = shard::ImportCursor { after: Bytes::new(), copied: true, feed: 0 };
        let expected = shard::ImportCursor::default();
        let import = shard::Command::Import { epoch: target.epoch, source: 0, expected, cursor, rows };
        tell_shard(world, target.shard, &import);
    }
    let mut digests = Vec::new();
    for target in &flow.targets {
        let told = digest(world, target);
        digests.push(shard::RangeDigest { range: target.range.clone(), ..told[0].clone() });
    }
    digest(world, source);
    tell_shard(world, source.shard, &shard::Command::Freeze { epoch, lease_ms: 1_000 });
    tell_shard(world, source.shard, &shard::Command::CutOver { epoch, feed: 0, digests });
    let stamp_floor = describe(world, source.shard).last_stamp;
    for target in &flow.targets {
        tell_shard(world, target.shard, &shard::Command::Activate { epoch: target.epoch, stamp_floor });
    }
}

fn export(world: &mut World, source: &shard::Peer, range: Range) -> Vec<(Bytes, Option<Bytes>)> {
    let cluster = clusters::shard(id(world), source.shard).unwrap();
    let (mut all, mut after) = (Vec::new(), Bytes::new());
    loop {
        let query = shard::Query::Export { epoch: source.epoch, range: range.clone(), after, bytes_max: 1 << 20 };
        let shard::Reply::Rows { rows, more } = world.look(&cluster, BackendKind::Shard, &query).unwrap() else {
            panic!("no rows")
        };
        all.extend(rows);
        if !more {
            return all.into_iter().map(|(key, row)| (key, Some(row))).collect();
        }
        after = all.last().unwrap().0.clone();
    }
}

fn describe(world: &mut World, number: u64) -> shard::ShardInfo {
    let cluster = clusters::shard(id(world), number).unwrap();
    match world.look(&cluster, BackendKind::Shard, &shard::Query::Describe).unwrap() {
        shard::Reply::Shard { info } => info,
        other => panic!("{other:?}"),
    }
}

fn digest(world: &mut World, of: &shard::Peer) -> Vec<shard::RangeDigest> {
    loop {
        tell_shard(world, of.shard, &shard::Command::Digest { epoch: of.epoch, limit: 4096 });
        if let Some(digests) = describe(world, of.shard).digests {
            return digests;
        }
    }
}

pub(crate) fn put_call(key: &str, body: &str) -> PutObject {
    PutObject {
        bucket: BUCKET.into(),
        key: key.into(),
        data: Data::Inline(Bytes::copy_from_slice(body.as_bytes())),
        size: body.len() as u64,
        etag: etag::hex(&etag::md5(body.as_bytes())),
        ..PutObject::default()
    }
}

pub(crate) fn put(world: &mut World, key: &str, body: &str) -> PutObjectAnswer {
    world.ask(put_call(key, body)).unwrap()
}

pub(crate) fn get(world: &mut World, key: &str) -> Result<ObjectVersion, base_types::Refusal> {
    world.ask(GetObject { bucket: BUCKET.into(), key: key.into(), ..GetObject::default() })
}

pub(crate) fn delete(world: &mut World, key: &str, version_id: Option<&str>) -> DeleteObjectAnswer {
    let version_id = version_id.map(str::to_owned);
    world.ask(DeleteObject { bucket: BUCKET.into(), key: key.into(), version_id, ..DeleteObject::default() }).unwrap()
}

/// The bytes of a version.
pub(crate) fn body(version: &ObjectVersion) -> &str {
    match &version.data {
        Some(Data::Inline(bytes)) => std::str::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

//! What commands and questions cost, in rows they touch: it must not grow with what they are not about.

use super::bed::*;
use crate::contract::{ApplyContext, SpaceRead, SpaceWrite};
use crate::reply::is_refusal;
use crate::shard::*;
use crate::testing::MapSpace;
use base_engine::{Direction, EngineError, KeyRange, Visit};
use base_types::codec::Encode as _;
use base_types::s3::{field, Version, VersionStamp};
use base_types::LogIndex;
use bytes::Bytes;
use std::cell::Cell;

/// Counts rows that are read, passed and written.
struct Touched<'a> {
    space: &'a mut MapSpace,
    rows: Cell<u64>,
}

impl Touched<'_> {
    fn touch(&self) {
        self.rows.set(self.rows.get() + 1);
    }
}

impl SpaceRead for Touched<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.touch();
        self.space.get(key)
    }
    fn range(&self, range: KeyRange<'_>, direction: Direction, visit: Visit<'_>) -> Result<(), EngineError> {
        self.space.range(range, direction, &mut |key, value| {
            self.touch();
            visit(key, value)
        })
    }
}

impl SpaceWrite for Touched<'_> {
    fn put(&mut self, key: Bytes, value: Bytes) {
        self.touch();
        self.space.put(key, value);
    }
    fn delete(&mut self, key: Bytes) {
        self.touch();
        self.space.delete(key);
    }
}

fn told(bed: &mut Bed, command: &Command) -> u64 {
    let at =
        ApplyContext { life: base_types::Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: bed.now_ms };
    let mut space = Touched { space: &mut bed.space, rows: Cell::new(0) };
    let reply = apply(at, &mut space, &command.to_bytes()).unwrap();
    assert!(!is_refusal(&reply), "{command:?}");
    space.rows.get()
}

fn asked(bed: &mut Bed, question: &Query) -> u64 {
    let now_ms = bed.now_ms;
    let space = Touched { space: &mut bed.space, rows: Cell::new(0) };
    let reply = query(now_ms, &space, &question.to_bytes()).unwrap();
    assert!(!is_refusal(&reply), "{question:?}");
    space.rows.get()
}

/// What each kind of call costs on a key with so many versions between two others.
fn costs(versions: u64) -> Vec<(&'static str, u64)> {
    let mut bed = Bed::serving();
    bed.put("a", Versioning::Enabled, 1).unwrap();
    bed.put("z", Versioning::Enabled, 1).unwrap();
    let stamps: Vec<VersionStamp> =
        (0..versions).map(|size| bed.put("m", Versioning::Enabled, size).unwrap()).collect();
    let middle = Version::Stamp(stamps[stamps.len() / 2]);
    let terms = bed.terms(Versioning::Enabled);
    let step = |version| DeleteStep { key: "m".into(), version, condition: Condition::default() };
    let get = |version| {
        let condition = Condition::default();
        Query::Get { epoch: 1, key: "m".into(), version, inline: true, condition }
    };
    let listing = Listing { limit: 10, ..bed.listing("", "") };
    let put = Command::Put { step: bed.put_step("m", Versioning::Enabled, 7) };
    let update = Command::Update {
        epoch: 1,
        key: "m".into(),
        version: middle,
        changes: vec![(field::TAGS, Some(Bytes::from_static(b"t")))],
        at_unix_ms: bed.now_ms,
        bypass_governance: false,
        condition: Condition::default(),
    };
    vec![
        ("get", asked(&mut bed, &get(Version::Current))),
        ("get a version", asked(&mut bed, &get(middle))),
        ("list", asked(&mut bed, &Query::List { listing: listing.clone() })),
        ("list versions", asked(&mut bed, &Query::ListVersions { listing })),
        ("count", asked(&mut bed, &Query::Count { epoch: 1, prefix: "m".into(), pin: None })),
        ("put", told(&mut bed, &put)),
        ("update a version", told(&mut bed, &update)),
        ("delete", told(&mut bed, &Command::Delete { terms: terms.clone(), step: step(Version::Current) })),
        ("delete a version", told(&mut bed, &Command::Delete { terms: terms.clone(), step: step(middle) })),
    ]
}

/// The record and the current row are read; data, version, current row and record are written.
const PUT_OVER_ROWS: u64 = 6;

#[test]
fn an_object_is_put_over_without_reading_what_it_was() {
    let mut bed = Bed::serving();
    let put = |bed: &mut Bed| {
        bed.now_ms += 1;
        let step = bed.put_step("k", Versioning::Unversioned, 60);
        told(bed, &Command::Put { step })
    };
    put(&mut bed);
    assert_eq!(put(&mut bed), PUT_OVER_ROWS);
    bed.tell(Command::PinPrepare { epoch: 1, pin: 1, freeze_ms: 100, keep_ms: 60_000 }).unwrap();
    bed.tell(Command::PinCommit { pin: 1 }).unwrap();
    assert!(put(&mut bed) > PUT_OVER_ROWS, "a snapshot keeps what the rows were, which must be read for it");
}

/// Every call reads a few rows and the counts' way down, which grows by some rows with each power of their fan.
#[test]
fn a_key_with_many_versions_is_as_cheap_as_one_with_few() {
    let (few, many) = (costs(100), costs(20_000));
    for ((call, few), (_, many)) in few.into_iter().zip(many) {
        assert!(many <= 3 * few + 40, "{call}: {many} rows with 20,000 versions, {few} with 100");
    }
}

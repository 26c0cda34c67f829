//! Seeds of the backends of buckets: objects and listings, splits from both sides, snapshots, narrowing, uploads.

use super::backends::{damaged, life, text};
use crate::Seeds;
use base_types::s3::{field, Document, Version};
use bytes::Bytes;
use core_backends::multipart::{self, Completed, Part, PartName};
use core_backends::shard::{
    Command, Condition, DeleteStep, DeleteTerms, ImportCursor, ListStart, Listing, Peer, PutStep, Query, Range,
    RangeDigest, Versioning,
};
use core_backends::shard_reference::{self, Phase};

pub fn add(seeds: &mut Seeds) {
    add_objects(seeds);
    add_splits(seeds);
    add_map(seeds);
    add_uploads(seeds);
}

fn document(size: u64) -> Bytes {
    let mut document = Document::new();
    document.set_number(field::SIZE, size).set(field::ETAG, Some(text("e")));
    document.set(field::LOCATION, Some(text("place")));
    document.encode()
}

fn put(key: &'static str, versioning: Versioning, once: Option<u128>) -> Command {
    let step = PutStep {
        epoch: 1,
        key: text(key),
        versioning,
        at_unix_ms: 1_000,
        document: document(3),
        inline: once.is_none().then(|| text("abc")),
        condition: Condition::default(),
        once,
        data_expires_ms: None,
    };
    Command::Put { step }
}

fn terms(versioning: Versioning) -> DeleteTerms {
    DeleteTerms { epoch: 1, versioning, at_unix_ms: 2_000, bypass_governance: false, mfa_missing: false, owner: None }
}

fn delete(key: &'static str, versioning: Versioning) -> Command {
    let step = DeleteStep { key: text(key), version: Version::Current, condition: Condition::default() };
    Command::Delete { terms: terms(versioning), step }
}

fn listing(delimiter: &'static str, pin: Option<u128>) -> Listing {
    let (prefix, start) = (text("a"), ListStart::Beginning);
    Listing { epoch: 1, prefix, delimiter: text(delimiter), start, limit: 10, pin }
}

fn asked() -> Vec<Query> {
    vec![
        Query::Get { epoch: 1, key: text("a/b"), version: Version::Current, inline: true, condition: Condition::default() },
        Query::List { listing: listing("/", None) },
        Query::ListVersions { listing: listing("", None) },
        Query::List { listing: listing("", Some(7)) },
        Query::Count { epoch: 1, prefix: text("a"), pin: Some(7) },
        Query::CutPoints { epoch: 1, parts: 3, by_rows: true },
        Query::LoadCuts { epoch: 1, parts: 3 },
        Query::Describe,
        Query::Freed { after: 0, limit: 10, aged_ms: 0 },
        Query::Names { epoch: 1, key: text("a/b"), after: None, locations: vec![text("place")] },
        Query::Export { epoch: 1, range: Range::default(), after: Bytes::new(), bytes_max: 1000 },
        Query::Feed { epoch: 1, range: Range::default(), after: 0, limit: 10 },
    ]
}

fn add_objects(seeds: &mut Seeds) {
    let commands = vec![
        Command::Create { epoch: 1, range: Range::default() },
        put("a/b", Versioning::Unversioned, None),
        put("a/c", Versioning::Enabled, Some(9)),
        Command::PinPrepare { epoch: 1, pin: 7, freeze_ms: 1_000, keep_ms: 100_000 },
        Command::PinCommit { pin: 7 },
        put("a/b", Versioning::Enabled, None),
        delete("a/c", Versioning::Enabled),
        Command::Update {
            epoch: 1,
            key: text("a/b"),
            version: Version::Current,
            changes: vec![(field::TAGS, Some(text("tags")))],
            at_unix_ms: 3_000,
            bypass_governance: false,
            condition: Condition::default(),
        },
        Command::Narrow { epoch: 1, next: 2 },
        Command::Unpin { pin: 7 },
        Command::Sweep { limit: 10 },
        Command::ForgetFreed { until: 9 },
        Command::Drop { epoch: 2, limit: 3, force: true },
    ];
    for length in [3, 5, 8, 9, 13] {
        seeds.add("backend_shard", life(&commands[..length], &asked()));
    }
    let seed = life(&commands, &asked());
    // The record, a current row, a version row, a node of the index, as they should not be.
    for row in [&b"\x01S\x01\x01\x00\x00"[..], b"\x05cb0d\0\xff", b"\x02v\0\x09", b"\x020\xff"] {
        seeds.add("backend_shard", damaged(&seed, row));
    }
}

fn peer(shard: u64, epoch: u64, start: &'static str, end: Option<&'static str>) -> Peer {
    Peer { shard, epoch, range: Range { start: text(start), end: end.map(text) } }
}

fn add_splits(seeds: &mut Seeds) {
    let targets = vec![peer(2, 2, "", Some("b")), peer(3, 2, "b", None)];
    let digest = RangeDigest { range: Range::default(), sum: 1, rows: 1 };
    let source = vec![
        Command::Create { epoch: 1, range: Range::default() },
        put("a", Versioning::Unversioned, None),
        Command::BeginSplit { epoch: 1, targets },
        put("b", Versioning::Unversioned, None),
        delete("a", Versioning::Unversioned),
        Command::Digest { epoch: 1, limit: 10 },
        Command::Freeze { epoch: 1, lease_ms: 100 },
        Command::CutOver { epoch: 1, feed: 4, digests: vec![digest] },
        Command::AbortSplit { epoch: 1 },
        Command::Close { epoch: 1 },
        Command::Reopen { epoch: 1 },
    ];
    for length in [5, 8, 11] {
        seeds.add("backend_shard", life(&source[..length], &asked()));
    }
    let row = |tag: u8, rest: &[u8]| Bytes::from([&[tag], &b"b\0"[..], rest].concat());
    let import = |rows| Command::Import {
        epoch: 1,
        source: 0,
        expected: ImportCursor::default(),
        cursor: ImportCursor { after: text("x"), copied: true, feed: 0 },
        rows,
    };
    let version = Bytes::from([&[2u8][..], &document(3)].concat());
    let current = Bytes::from([&[2u8][..], &[0, 0, 0, 0, 0, 0, 0, 1], &document(3)].concat());
    let target = vec![
        Command::PrepareImport { epoch: 1, range: Range::default(), sources: vec![peer(1, 1, "", None)] },
        import(vec![
            (row(b'c', &[]), Some(current)),
            (row(b'v', &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0]), Some(version)),
            (row(b'n', &[]), None),
        ]),
        Command::Digest { epoch: 1, limit: 10 },
        Command::Activate { epoch: 1, stamp_floor: 99 },
        put("a", Versioning::Suspended, None),
    ];
    for length in [2, 5] {
        seeds.add("backend_shard", life(&target[..length], &asked()));
    }
}

fn add_map(seeds: &mut Seeds) {
    use shard_reference::{Command, Query};
    let advance = |from, to| Command::Advance { flow: 1, from, to };
    let questions = [
        Query::Head,
        Query::Locate { key: text("m") },
        Query::Map { start: text("b"), limit: 10 },
        Query::Flow { flow: 1 },
        Query::Flows,
        Query::Retired { after: 0, limit: 10 },
    ];
    let split = Command::Plan { sources: vec![(1, 1)], cuts: vec![text("g"), text("p")] };
    let narrow = Command::PlanNarrow { source: (1, 1) };
    for (plan, switch) in
        [(split, Command::Switch { flow: 1 }), (narrow, Command::SwitchNarrow { flow: 1, cut: Some(text("k")) })]
    {
        let commands = [
            Command::Initialize,
            plan,
            advance(Phase::Planned, Phase::Copying),
            advance(Phase::Copying, Phase::Cutting),
            switch,
            Command::Finish { flow: 1 },
            Command::Forget { shard: 1 },
            Command::Plan { sources: vec![(2, 2), (3, 2)], cuts: Vec::new() },
            Command::Advance { flow: 2, from: Phase::Planned, to: Phase::Aborting },
            Command::Finish { flow: 2 },
            Command::Close,
        ];
        for length in [2, 5, 11] {
            seeds.add("backend_shard_reference", life(&commands[..length], &questions));
        }
        seeds.add("backend_shard_reference", damaged(&life(&commands, &questions), b"\x02m\0\x01\x01\xff"));
    }
}

fn add_uploads(seeds: &mut Seeds) {
    use multipart::{Command, Query};
    let key = || text("k");
    let part = |number, location| Part {
        number,
        etag: "e".into(),
        size: 5 << 20,
        at_unix_ms: 1,
        checksums: Bytes::new(),
        location: text(location),
    };
    let put = |number, location| Command::PutPart {
        key: key(),
        upload: 1,
        part: part(number, location),
        inline: None,
        data_expires_ms: None,
    };
    let commands = vec![
        Command::Create { key: key(), at_unix_ms: 1, document: document(0), initiator: text("me") },
        put(1, "one"),
        put(2, "two"),
        put(1, "again"),
        Command::BeginComplete { key: key(), upload: 1, parts: vec![PartName { number: 1, etag: "e".into() }] },
        Command::Reopen { key: key(), upload: 1, attempt: 1 },
        Command::Finish { key: key(), upload: 1, outcome: Completed { stamp: 9, null: false, modified_ms: 1 } },
        Command::Abort { key: key(), upload: 1 },
        Command::Collect { limit: 10 },
        Command::Close,
        Command::AbortAll { limit: 10 },
        Command::ForgetFreed { until: 9 },
        Command::Unclose,
    ];
    let questions = vec![
        Query::Upload { key: key(), upload: 1 },
        Query::ListParts { key: key(), upload: 1, after: 0, limit: 10 },
        Query::ListUploads {
            prefix: Bytes::new(),
            delimiter: text("/"),
            key_marker: Bytes::new(),
            upload_marker: None,
            limit: 10,
        },
        Query::Older { before_unix_ms: 9, after: 0, limit: 10 },
        Query::Open,
        Query::Freed { after: 0, limit: 10, aged_ms: 0 },
        Query::Names { key: key(), after: None, locations: vec![text("one")] },
        Query::Due { limit: 10 },
        Query::Upkeep,
    ];
    for length in [1, 4, 5, 8, 13] {
        seeds.add("backend_multipart", life(&commands[..length], &questions));
    }
    for row in [&b"\x03ul\0\x01"[..], b"\x01O\xff\xff\xff\xff\xff\xff\xff\xff", b"\x01L\xff\xff\xff\xff\xff\xff\xff\xff"] {
        seeds.add("backend_multipart", damaged(&life(&commands, &questions), row));
    }
}

//! Splits and merges: at any point, with writes going on, both sides come to the same.

use super::bed::*;
use super::model::{change, compare};
use crate::shard::*;
use base_types::s3::Version;
use bytes::Bytes;

pub fn ranges(cuts: &[&str]) -> Vec<Range> {
    let mut starts = vec![Bytes::new()];
    starts.extend(cuts.iter().map(|cut| Bytes::copy_from_slice(cut.as_bytes())));
    let end = |at: usize| starts.get(at + 1).cloned();
    starts.iter().enumerate().map(|(at, start)| Range { start: start.clone(), end: end(at) }).collect()
}

fn peers(ranges: &[Range], epoch: u64) -> Vec<Peer> {
    let peer = |(at, range): (usize, &Range)| Peer { shard: at as u64, epoch, range: range.clone() };
    ranges.iter().enumerate().map(peer).collect()
}

/// A target, made ready to take rows of these sources.
fn target(epoch: u64, range: &Range, sources: &[Peer]) -> Bed {
    let mut bed = Bed::blank();
    bed.epoch = epoch;
    bed.tell(Command::PrepareImport { epoch, range: range.clone(), sources: sources.to_vec() }).unwrap();
    bed
}

/// One step of copying; whether it has come to the end for now.
pub fn copy_step(source: &Bed, target: &mut Bed, at: usize) -> bool {
    let info = target.info();
    let expected = info.cursors[at].clone();
    let range = info.range.meet(&info.peers[at].range).unwrap();
    let mut cursor = expected.clone();
    let (rows, at_end) = if !expected.copied {
        let export = Query::Export { epoch: source.epoch, range, after: expected.after.clone(), bytes_max: 400 };
        let Ok(Reply::Rows { rows, more }) = source.ask(export) else { panic!() };
        cursor.copied = !more;
        cursor.after = rows.last().map_or(cursor.after, |(key, _)| key.clone());
        (rows.into_iter().map(|(key, row)| (key, Some(row))).collect(), false)
    } else {
        let feed = Query::Feed { epoch: source.epoch, range, after: expected.feed, limit: 5 };
        let Ok(Reply::Feed { rows, reached, more }) = source.ask(feed) else { panic!() };
        cursor.feed = reached;
        (rows, !more)
    };
    let import = Command::Import { epoch: target.epoch, source: at as u16, expected, cursor, rows };
    target.tell(import.clone()).unwrap();
    // It comes again, late: nothing changes.
    let before = target.space.clone();
    target.tell(import).unwrap();
    assert_eq!(target.content(), before.rows.into_iter().filter(|(key, _)| b"cdnov".contains(&key[0])).collect());
    at_end
}

fn digest_all(bed: &mut Bed) {
    while bed.info().digests.is_none() {
        bed.tell(Command::Digest { epoch: bed.epoch, limit: 7 }).unwrap();
    }
}

/// Cuts over, if all is equal.
fn cut_over(source: &mut Bed, targets: &mut [Bed]) -> Result<(), base_types::Refusal> {
    digest_all(source);
    targets.iter_mut().for_each(digest_all);
    source.tell(Command::Freeze { epoch: source.epoch, lease_ms: 1000 })?;
    for target in targets.iter_mut() {
        while !copy_step(source, target, 0) {}
    }
    let digests = targets.iter().flat_map(|target| target.info().digests.unwrap()).collect();
    source.tell(Command::CutOver { epoch: source.epoch, feed: targets[0].info().cursors[0].feed, digests })?;
    let floor = source.info().last_stamp;
    for target in targets.iter_mut() {
        target.now_ms = source.now_ms;
        target.tell(Command::Activate { epoch: target.epoch, stamp_floor: floor })?;
    }
    Ok(())
}

/// Splits in three with writes between all steps; then the three together are the bucket.
pub fn split_in_three(seed: u64, versioning: Versioning) {
    let mut random = Random(seed);
    let (mut source, mut plain_s3) = (Bed::serving(), Plain::default());
    let write = |random: &mut Random, bed: &mut Bed, plain_s3: &mut Plain, writes: u64| {
        for _ in 0..writes {
            let key = random.key();
            change(random, bed, plain_s3, versioning, &key);
        }
    };
    write(&mut random, &mut source, &mut plain_s3, 200);
    let ranges = ranges(&["a\0", "b/"]);
    let whole = [Peer { shard: 0, epoch: 1, range: Range::default() }];
    let mut targets: Vec<Bed> = ranges.iter().map(|range| target(2, range, &whole)).collect();
    source.tell(Command::BeginSplit { epoch: 1, targets: peers(&ranges, 2) }).unwrap();
    for _ in 0..40 {
        let writes = random.below(4);
        write(&mut random, &mut source, &mut plain_s3, writes);
        for target in &mut targets {
            if random.below(3) > 0 {
                copy_step(&source, target, 0);
            }
            if random.below(4) == 0 {
                target.tell(Command::Digest { epoch: 2, limit: 9 }).unwrap();
            }
        }
        if random.below(4) == 0 {
            source.tell(Command::Digest { epoch: 1, limit: 9 }).unwrap();
        }
    }
    cut_over(&mut source, &mut targets).unwrap();
    assert_eq!(source.put("a", versioning, 1).unwrap_err().code.as_str(), "WrongShard");
    let mut all = std::collections::BTreeMap::new();
    targets.iter().for_each(|target| all.extend(target.content()));
    assert_eq!(all, source.content());
    let sum = targets.iter().fold(Totals::default(), |sum, target| sum.plus(&target.info().totals));
    assert_eq!((sum, sum), (plain_s3.count(""), source.info().totals));
    // Each target is now a shard of its own.
    for target in &mut targets {
        let mut own = plain_s3.clone();
        let range = target.info().range;
        own.keys.retain(|key, _| range.holds(key.as_bytes()));
        for _ in 0..60 {
            let key = random.key();
            let refused = target.put(&key, versioning, 3).err().map(|refusal| refusal.code.as_str());
            assert_eq!(refused, (!range.holds(key.as_bytes())).then_some("WrongShard"));
            if refused.is_none() {
                let newest = target.get(&key, Version::Current).unwrap();
                let Reply::Object { stamp, null, .. } = newest else { panic!() };
                own.add(&key, Kept { stamp, null, marker: false, size: 3 });
                change(&mut random, target, &mut own, versioning, &key);
            }
            compare(&mut random, target, &own, None);
        }
    }
}

#[test]
pub fn a_split_at_any_point_loses_and_doubles_nothing() {
    for seed in 0..6 {
        let versioning = [Versioning::Unversioned, Versioning::Enabled, Versioning::Suspended][seed as usize % 3];
        split_in_three(seed, versioning);
    }
}

#[test]
pub fn two_shards_merge_into_one() {
    let mut random = Random(5);
    let halves = ranges(&["a/"]);
    let (mut plain_s3, mut sources) = (Plain::default(), Vec::new());
    for range in &halves {
        let mut bed = Bed::blank();
        bed.tell(Command::Create { epoch: 1, range: range.clone() }).unwrap();
        sources.push(bed);
    }
    let mut merged = target(2, &Range::default(), &peers(&halves, 1));
    for round in 0..30 {
        for _ in 0..10 {
            let key = random.key();
            let at = usize::from(halves[1].holds(key.as_bytes()));
            change(&mut random, &mut sources[at], &mut plain_s3, Versioning::Enabled, &key);
        }
        if round == 10 {
            for source in &mut sources {
                source.tell(Command::BeginSplit { epoch: 1, targets: peers(&[Range::default()], 2) }).unwrap();
            }
        }
        if round > 10 {
            (0..2).for_each(|at| _ = copy_step(&sources[at], &mut merged, at));
        }
    }
    digest_all(&mut merged);
    for (at, source) in sources.iter_mut().enumerate() {
        digest_all(source);
        source.tell(Command::Freeze { epoch: 1, lease_ms: 1000 }).unwrap();
        while !copy_step(source, &mut merged, at) {}
        let (feed, digest) = (merged.info().cursors[at].feed, merged.info().digests.unwrap()[at].clone());
        source.tell(Command::CutOver { epoch: 1, feed, digests: vec![digest] }).unwrap();
    }
    let floor = sources.iter().map(|source| source.info().last_stamp).max().unwrap();
    merged.tell(Command::Activate { epoch: 2, stamp_floor: floor }).unwrap();
    for _ in 0..50 {
        compare(&mut random, &merged, &plain_s3, None);
    }
}

fn splitting() -> (Bed, Vec<Bed>) {
    let mut source = Bed::serving();
    for at in 0..30 {
        source.put(&format!("k{at:02}"), Versioning::Unversioned, at).unwrap();
    }
    let ranges = ranges(&["k10"]);
    let whole = [Peer { shard: 0, epoch: 1, range: Range::default() }];
    let mut targets: Vec<Bed> = ranges.iter().map(|range| target(2, range, &whole)).collect();
    source.tell(Command::BeginSplit { epoch: 1, targets: peers(&ranges, 2) }).unwrap();
    for target in &mut targets {
        while !copy_step(&source, target, 0) {}
        digest_all(target);
    }
    digest_all(&mut source);
    (source, targets)
}

#[test]
pub fn a_cut_over_before_all_is_equal_is_refused() {
    let (mut source, targets) = splitting();
    let digests: Vec<_> = targets.iter().flat_map(|target| target.info().digests.unwrap()).collect();
    let over = |feed, digests: &[RangeDigest]| Command::CutOver { epoch: 1, feed, digests: digests.to_vec() };
    assert_eq!(source.tell(over(0, &digests)).unwrap_err().code.as_str(), "Conflict", "it was not frozen");
    source.tell(Command::Freeze { epoch: 1, lease_ms: 10 }).unwrap();
    let mut wrong = digests.clone();
    wrong[1].sum ^= 1;
    assert_eq!(source.tell(over(0, &wrong)).unwrap_err().code.as_str(), "NotEqual");
    // The freeze runs out, a write comes: the targets lack it.
    source.now_ms += 11;
    source.put("k05", Versioning::Unversioned, 5).unwrap();
    source.tell(Command::Freeze { epoch: 1, lease_ms: 10 }).unwrap();
    assert_eq!(source.tell(over(0, &digests)).unwrap_err().code.as_str(), "Conflict");
}

/// Requests that change no row are remembered too. A runner that carried request ids over during a freeze must learn
/// that the freeze ended meanwhile.
#[test]
pub fn a_cut_over_knows_whether_the_shard_stood_still_all_the_time() {
    for (unfrozen, writes) in [(false, false), (false, true), (true, false)] {
        let (mut source, targets) = splitting();
        let digests: Vec<_> = targets.iter().flat_map(|target| target.info().digests.unwrap()).collect();
        let over = |feed| Command::CutOver { epoch: 1, feed, digests: digests.clone() };
        source.tell(Command::Freeze { epoch: 1, lease_ms: 10 }).unwrap();
        source.now_ms += 9;
        source.tell(Command::Freeze { epoch: 1, lease_ms: 10 }).unwrap();
        assert_eq!(source.info().feed, 0, "it was only made longer");
        match unfrozen {
            true => drop(source.tell(Command::Unfreeze { epoch: 1 }).unwrap()),
            false => source.now_ms += 10,
        }
        assert_eq!(source.tell(over(0)).unwrap_err().code.as_str(), "Conflict", "its freeze has ended");
        if writes {
            // Nothing is there to be removed: no row changes.
            source.delete("none", Versioning::Unversioned, Version::Current).unwrap();
        }
        source.tell(Command::Freeze { epoch: 1, lease_ms: 10 }).unwrap();
        assert_eq!(source.tell(over(0)).unwrap_err().code.as_str(), "Conflict", "somebody may have been served");
        assert_eq!(source.info().feed, 1);
        source.tell(over(1)).unwrap();
    }
}

/// That it is what applying would refuse is looked at with every command (`Bed::tell`).
#[test]
pub fn precheck_of_frozen_or_split_shard_refuses_writes() {
    let (mut source, mut targets) = splitting();
    let at_once = |bed: &Bed, key: &str| {
        let command = Command::Put { step: bed.put_step(key, Versioning::Unversioned, 3) };
        crate::shard::precheck(&bed.space, bed.now_ms, &command).unwrap().map(|refusal| refusal.code.as_str())
    };
    assert_eq!(at_once(&source, "k05"), None);
    source.tell(Command::Freeze { epoch: 1, lease_ms: 10 }).unwrap();
    assert_eq!(at_once(&source, "k05"), Some("ShardFrozen"));
    source.now_ms += 11;
    assert_eq!(at_once(&source, "k05"), None, "the freeze is over, and that write ends it");
    assert_eq!(at_once(&targets[0], "k05"), Some("WrongShard"));
    cut_over(&mut source, &mut targets).unwrap();
    assert_eq!(at_once(&source, "k05"), Some("WrongShard"));
    assert_eq!(at_once(&targets[0], "k05"), None);
    assert_eq!(source.space.rows[&[super::super::keys::STATE][..]][0], 4, "the record begins with the state");
    assert_eq!(targets[0].space.rows[&[super::super::keys::STATE][..]][0], crate::shard::SERVING_BYTE);
}

/// One row of the feed for a write, several for one of many rows; a page ends between two of them.
#[test]
pub fn a_write_of_many_rows_is_doubled_whole() {
    let (mut source, mut targets) = splitting();
    let keys: Vec<String> = (0..150).map(|at| format!("k{at:03}")).collect();
    for key in &keys {
        source.put(key, Versioning::Unversioned, 1).unwrap();
    }
    assert_eq!(source.info().feed, 150);
    let condition = Condition::default();
    let step =
        |key: &String| DeleteStep { key: key.clone().into(), version: Version::Current, condition: condition.clone() };
    let (terms, steps) = (source.terms(Versioning::Unversioned), keys.iter().map(step).collect());
    source.tell(Command::DeleteEach { terms, steps, ids: (1..=150).collect() }).unwrap();
    let changed = source.info().feed - 150;
    assert!((2..150).contains(&changed), "{changed} rows of the feed for one write");
    let feed = |after| source.ask(Query::Feed { epoch: 1, range: Range::default(), after, limit: 1 });
    let Ok(Reply::Feed { rows, reached: 151, more: true }) = feed(150) else { panic!() };
    assert_eq!(rows.len(), crate::shard::work::FEED_NAMES_MAX);
    cut_over(&mut source, &mut targets).unwrap();
    let left: std::collections::BTreeMap<_, _> = targets.iter().flat_map(Bed::content).collect();
    assert!(left == source.content(), "the targets hold what the source does");
}

/// A page of the feed has no more rows than an import takes.
#[test]
pub fn a_page_of_the_feed_is_taken_over_whole() {
    let (mut source, mut targets) = splitting();
    for at in 0..3_000 {
        source.put(&format!("k{at:04}"), Versioning::Unversioned, 3).unwrap();
    }
    let range = targets[1].info().range;
    let (mut pages, mut ended) = (0, false);
    while !ended {
        let expected = targets[1].info().cursors[0].clone();
        let feed = Query::Feed { epoch: 1, range: range.clone(), after: expected.feed, limit: STEP_ROWS_MAX };
        let Ok(Reply::Feed { rows, reached, more }) = source.ask(feed) else { panic!() };
        assert!(rows.len() <= STEP_ROWS_MAX as usize, "{}", rows.len());
        let cursor = ImportCursor { feed: reached, ..expected.clone() };
        targets[1].tell(Command::Import { epoch: 2, source: 0, expected, cursor, rows }).unwrap();
        (pages, ended) = (pages + 1, !more);
    }
    assert!(pages > 1 && targets[1].info().cursors[0].feed == 3_000);
}

#[test]
pub fn a_split_given_up_leaves_nothing_behind() {
    let (mut source, _) = splitting();
    for at in 0..40 {
        source.put(&format!("k{at:02}"), Versioning::Unversioned, 1).unwrap();
    }
    source.tell(Command::AbortSplit { epoch: 1 }).unwrap();
    let again = Command::BeginSplit { epoch: 1, targets: peers(&ranges(&["x"]), 3) };
    assert_eq!(source.tell(again.clone()).unwrap_err().code.as_str(), "NotReady");
    let mut swept = 0;
    while let Reply::Dropped { more: true } = source.tell(Command::Sweep { limit: 20 }).unwrap() {
        let info = source.info();
        let now = info.cursors.first().map_or(0, |removal| removal.feed);
        assert!(now > swept || info.feed == 0, "a step begins behind what the one before it has removed");
        swept = now;
    }
    assert!(source.space.rows.keys().all(|key| key[0] != b'q'));
    source.tell(again).unwrap();
    assert_eq!(source.info().feed, 0);
}

#[test]
pub fn stale_epochs_and_foreign_keys_are_redirected() {
    let mut bed = Bed::blank();
    let range = Range { start: "b".into(), end: Some("d".into()) };
    bed.tell(Command::Create { epoch: 4, range }).unwrap();
    for (epoch, key, code) in
        [(4, "c", None), (3, "c", Some("WrongShard")), (4, "d", Some("WrongShard")), (4, "a", Some("WrongShard"))]
    {
        bed.epoch = epoch;
        assert_eq!(
            bed.put(key, Versioning::Unversioned, 1).err().map(|refusal| refusal.code.as_str()),
            code,
            "{epoch} {key}"
        );
        let read = bed.get(key, Version::Current).err().map(|refusal| refusal.code.as_str());
        assert_eq!(read, code, "{epoch} {key}");
        let listed = bed.page(bed.listing("", ""), false).err().map(|refusal| refusal.code.as_str());
        assert_eq!(listed.is_some(), epoch == 3);
    }
}

#[test]
pub fn a_retired_shard_answers_its_snapshots_until_they_end_and_is_then_dropped() {
    let (mut source, mut targets) = splitting();
    source.tell(Command::PinPrepare { epoch: 1, pin: 6, freeze_ms: 10, keep_ms: 1000 }).unwrap();
    source.tell(Command::PinCommit { pin: 6 }).unwrap();
    cut_over(&mut source, &mut targets).unwrap();
    targets[0].put("k00", Versioning::Unversioned, 900).unwrap();
    let listing = Listing { pin: Some(6), ..source.listing("", "") };
    assert_eq!(source.page(listing, false).unwrap().0.len(), 30);
    assert_eq!(source.page(source.listing("", ""), false).unwrap_err().code.as_str(), "WrongShard");
    let drop_it = Command::Drop { epoch: 1, limit: 9, force: false };
    assert_eq!(source.tell(drop_it.clone()).unwrap_err().code.as_str(), "NotReady");
    source.now_ms += 1000;
    let mut behind = bytes::Bytes::new();
    while let Reply::Dropped { more: true } = source.tell(drop_it.clone()).unwrap() {
        // The engine may have what was removed for a while yet: a step that began at the start would pass all of it.
        let removed = source.info().cursors[0].after.clone();
        assert!(removed > behind, "{removed:?} follows {behind:?}");
        assert!(source.space.rows.keys().all(|key| key[0] == b'S' || *key > removed));
        behind = removed;
    }
    assert_eq!(source.space.rows.len(), 1, "only the mark of its epoch is left");
    assert_eq!(source.tell(drop_it).unwrap(), Reply::Dropped { more: false });
    let again = Command::Create { epoch: 1, range: Range::default() };
    source.tell(again).unwrap();
    assert_eq!(source.put("a", Versioning::Unversioned, 1).unwrap_err().code.as_str(), "WrongShard");
}

#[test]
pub fn rows_that_could_not_be_here_are_not_imported() {
    let whole = [Peer { shard: 0, epoch: 1, range: Range::default() }];
    let range = Range { start: "b".into(), end: None };
    let mut bed = target(2, &range, &whole);
    let good = [&b"c"[..], b"d", &[0]].concat();
    let empty = Bytes::new();
    for (key, value) in [
        (&b"S"[..], empty.clone()),
        (b"c", empty.clone()),
        (b"ca\0", empty.clone()),
        (&good, empty.clone()),
        (&good, Bytes::from_static(&[99; 9])),
        (b"vd\0", Bytes::from_static(&[0])),
        (b"iq", empty),
    ] {
        let rows = vec![(Bytes::copy_from_slice(key), Some(value))];
        let (expected, cursor) = Default::default();
        let import = Command::Import { epoch: 2, source: 0, expected, cursor, rows };
        assert_eq!(bed.tell(import).unwrap_err().code.as_str(), "Malformed", "{key:?}");
    }
}

#[test]
pub fn tokens_stamps_and_freed_data_outlive_a_split() {
    let mut source = Bed::serving();
    source.now_ms = 9_000;
    for at in 0..20 {
        source.put(&format!("k{at:02}"), Versioning::Enabled, at).unwrap();
    }
    let step = PutStep { once: Some(7), ..source.put_step("k15", Versioning::Enabled, 3) };
    let told = source.tell(Command::Put { step: step.clone() }).unwrap();
    let gone = source.put("k16", Versioning::Enabled, 3).unwrap();
    let place = Some(Bytes::from_static(b"place"));
    for (key, location) in [("k17", place), ("k17", None)] {
        let mut document = base_types::s3::Document::new();
        document.set(base_types::s3::field::LOCATION, location);
        let step = PutStep { document: document.encode(), ..source.put_step(key, Versioning::Suspended, 1) };
        source.tell(Command::Put { step }).unwrap();
    }
    source.delete("k16", Versioning::Enabled, Version::Stamp(gone)).unwrap();
    let ranges = ranges(&["k10"]);
    let whole = [Peer { shard: 0, epoch: 1, range: Range::default() }];
    let mut targets: Vec<Bed> = ranges.iter().map(|range| target(2, range, &whole)).collect();
    source.tell(Command::BeginSplit { epoch: 1, targets: peers(&ranges, 2) }).unwrap();
    for target in &mut targets {
        while !copy_step(&source, target, 0) {}
    }
    let last = source.info().last_stamp;
    cut_over(&mut source, &mut targets).unwrap();
    let step = PutStep { epoch: 2, ..step };
    assert_eq!(targets[1].tell(Command::Put { step }).unwrap(), told, "put once, on either side of the split");
    targets[0].now_ms = 1;
    assert!(targets[0].put("k00", Versioning::Enabled, 1).unwrap().0 > last, "an id comes back");
    let listed = targets[1].walk(targets[1].listing("k1", ""), false, 3);
    assert_eq!(listed.len(), 10, "the first key of the shard is listed");
    let drop_it = Command::Drop { epoch: 1, limit: 9, force: false };
    assert_eq!(source.tell(drop_it).unwrap_err().code.as_str(), "NotReady", "freed data is not collected yet");
    let Ok(Reply::Freed { rows, .. }) = source.ask(Query::Freed { after: 0, limit: 9, aged_ms: 0 }) else { panic!() };
    assert_eq!(rows[0].locations, ["place"]);
}

#[test]
pub fn an_import_that_comes_late_brings_nothing_back() {
    let mut source = Bed::serving();
    source.put("k", Versioning::Unversioned, 3).unwrap();
    let whole = [Peer { shard: 0, epoch: 1, range: Range::default() }];
    let mut bed = target(2, &Range::default(), &whole);
    source.tell(Command::BeginSplit { epoch: 1, targets: peers(&[Range::default()], 2) }).unwrap();
    let export = Query::Export { epoch: 1, range: Range::default(), after: Bytes::new(), bytes_max: 400 };
    let Ok(Reply::Rows { rows, more: false }) = source.ask(export) else { panic!() };
    let rows = rows.into_iter().map(|(key, row)| (key, Some(row))).collect();
    let (expected, cursor) = (ImportCursor::default(), ImportCursor { copied: true, ..ImportCursor::default() });
    let import = Command::Import { epoch: 2, source: 0, expected, cursor, rows };
    bed.tell(import.clone()).unwrap();
    source.delete("k", Versioning::Unversioned, Version::Current).unwrap();
    while !copy_step(&source, &mut bed, 0) {}
    bed.tell(import).unwrap();
    assert!(bed.content().is_empty(), "{:?}", bed.content());
}

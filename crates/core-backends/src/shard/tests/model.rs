//! Thousands of random operations; every answer is what the plain S3 says.

use super::bed::*;
use crate::shard::*;
use base_types::s3::Version;

/// One random change of both.
pub fn change(random: &mut Random, bed: &mut Bed, plain_s3: &mut Plain, versioning: Versioning, key: &str) {
    bed.now_ms += random.below(3);
    let null = versioning != Versioning::Enabled;
    if random.below(10) < 6 {
        let size = random.below(1000);
        let Ok(stamp) = bed.put(key, versioning, size) else { return };
        plain_s3.add(key, Kept { stamp, null, marker: false, size });
        return;
    }
    let versions = plain_s3.keys.get(key).cloned().unwrap_or_default();
    let version = match random.below(3) {
        0 => Version::Current,
        1 => Version::Null,
        _ if versions.is_empty() => Version::Stamp(base_types::s3::VersionStamp(77)),
        _ => Version::Stamp(random.pick(&versions).stamp),
    };
    let Ok(deleted) = bed.delete(key, versioning, version) else { return };
    let expected = match version {
        Version::Current if versioning != Versioning::Unversioned => {
            let Deleted::Marked { stamp, null: told } = deleted else { panic!("{deleted:?}") };
            assert_eq!(told, null);
            return plain_s3.add(key, Kept { stamp, null, marker: true, size: 0 });
        }
        Version::Current | Version::Null => plain_s3.remove(key, |version| version.null),
        Version::Stamp(stamp) => plain_s3.remove(key, |version| version.stamp == stamp && !version.null),
    };
    let expected = expected.map_or(Deleted::Nothing, |gone| Deleted::Removed {
        stamp: gone.stamp,
        null: gone.null,
        marker: gone.marker,
    });
    assert_eq!(deleted, expected, "{key:?} {version:?}");
}

/// Compares one random listing, count and read.
pub fn compare(random: &mut Random, bed: &Bed, plain_s3: &Plain, pin: Option<u128>) {
    let mut prefix = random.key();
    prefix = prefix.chars().take(random.below(3) as usize).collect();
    let delimiter = *random.pick(&["", "/", "a", "\0", "b/", "é"]);
    let versions = random.below(2) == 0;
    let limit = 1 + random.below(7) as u32;
    let listing = Listing { pin, ..bed.listing(&prefix, delimiter) };
    let told: Vec<_> = bed.walk(listing, versions, limit).into_iter().map(plain).collect();
    assert_eq!(told, plain_s3.list(&prefix, delimiter, versions), "{prefix:?} {delimiter:?} by {limit}, pin {pin:?}");
    assert_eq!(bed.count(&prefix, pin), plain_s3.count(&prefix), "count of {prefix:?}, pin {pin:?}");
}

fn compare_read(bed: &Bed, plain_s3: &Plain, key: &str) {
    let reply = bed.get(key, Version::Current);
    match plain_s3.keys.get(key).map(|versions| &versions[0]) {
        None => assert_eq!(reply.unwrap_err().code.as_str(), "NoSuchKey"),
        Some(newest) => match reply.unwrap() {
            Reply::Marker { stamp, .. } => assert!(newest.marker && newest.stamp == stamp),
            Reply::Object { stamp, null, latest, inline, .. } => {
                assert!(!newest.marker && newest.stamp == stamp && newest.null == null && latest);
                let inline_bytes = newest.size.is_multiple_of(3).then_some(newest.size as usize % 50);
                assert_eq!(inline.map(|inline| inline.len()), inline_bytes);
            }
            other => panic!("{other:?}"),
        },
    }
}

pub fn compare_cuts(bed: &Bed, plain_s3: &Plain) {
    let keys: Vec<_> = plain_s3.list("", "", false).into_iter().map(|(key, _)| key).collect();
    for parts in [2usize, 3, 7] {
        let query = Query::CutPoints { epoch: bed.epoch, parts: parts as u32, by_rows: false };
        let Ok(Reply::CutPoints { keys: cuts }) = bed.ask(query) else { panic!() };
        let mut expected: Vec<_> = (1..parts).map(|part| keys.len() * part / parts).collect();
        expected.retain(|rank| *rank > 0 && *rank < keys.len());
        expected.dedup();
        let expected: Vec<_> = expected.into_iter().map(|rank| keys[rank].clone().into_bytes()).collect();
        assert_eq!(cuts, expected, "{parts} parts of {} keys", keys.len());
    }
}

fn history_of(seed: u64, versionings: &[Versioning], changes: u64) -> Bed {
    let mut random = Random(seed);
    let (mut bed, mut plain_s3) = (Bed::serving(), Plain::default());
    let mut versioning = versionings[0];
    for step in 0..changes {
        if step % 50 == 49 {
            versioning = *random.pick(versionings);
        }
        let key = random.key();
        change(&mut random, &mut bed, &mut plain_s3, versioning, &key);
        compare_read(&bed, &plain_s3, &key);
        if step % 5 == 0 {
            compare(&mut random, &bed, &plain_s3, None);
        }
        if step % 100 == 0 {
            compare_cuts(&bed, &plain_s3);
        }
    }
    bed
}

#[test]
pub fn a_bucket_that_never_had_versions() {
    let bed = history_of(1, &[Versioning::Unversioned], 1200);
    let nulls = bed.space.rows.keys().filter(|key| key[0] == b'n').count();
    assert_eq!(nulls, 0, "null rows are for versioned buckets");
}

#[test]
pub fn a_bucket_with_versions_on_and_off() {
    let all = [Versioning::Enabled, Versioning::Suspended];
    for seed in 2..5 {
        let bed = history_of(seed, &all, 800);
        assert_eq!(bed.info().totals, bed.count("", None));
    }
    let _ = history_of(9, &[Versioning::Unversioned, Versioning::Enabled], 1000);
}

#[test]
pub fn one_key_with_many_versions_is_counted_and_cut_like_any() {
    let (mut bed, mut plain_s3) = (Bed::serving(), Plain::default());
    for size in 0..300 {
        let stamp = bed.put("m", Versioning::Enabled, size).unwrap();
        plain_s3.add("m", Kept { stamp, null: false, marker: false, size });
        let stamp = bed.put(&format!("{}", size % 40), Versioning::Enabled, size).unwrap();
        plain_s3.add(&format!("{}", size % 40), Kept { stamp, null: false, marker: false, size });
    }
    let mut random = Random(4);
    for _ in 0..100 {
        compare(&mut random, &bed, &plain_s3, None);
    }
    // Away with nearly all of it: nodes join, levels go.
    while plain_s3.keys.contains_key("m") {
        let versions = &plain_s3.keys["m"];
        let stamp = random.pick(versions).stamp;
        bed.delete("m", Versioning::Enabled, Version::Stamp(stamp)).unwrap();
        plain_s3.remove("m", |version| version.stamp == stamp);
        compare(&mut random, &bed, &plain_s3, None);
    }
    for key in 0..40 {
        let key = format!("{key}");
        while let Some(newest) = plain_s3.keys.get(&key).map(|versions| versions[0].stamp) {
            bed.delete(&key, Versioning::Enabled, Version::Stamp(newest)).unwrap();
            plain_s3.remove(&key, |version| version.stamp == newest);
        }
        compare(&mut random, &bed, &plain_s3, None);
    }
    let nodes = bed.space.rows.keys().filter(|key| key[0] == b'i').count();
    assert!(bed.content().is_empty() && nodes <= 2, "{nodes} nodes are left of an empty index");
}

//! Pages of objects and versions over many shards, against a model; counts and cuts.

use super::bed::{self, delete, put, Old, BUCKET};
use super::world::World;
use base_types::s3::*;
use std::collections::BTreeSet;

const KEYS: [&str; 16] =
    ["a", "b/1", "b/2", "b/3", "b/4", "c", "d/x/1", "d/x/2", "d/y", "e", "f/", "f/1", "ü", "ü/1", "z/1", "z/2"];

fn filled(seed: u64, cuts: &[&str]) -> World {
    let mut world = bed::world(seed);
    for key in KEYS {
        put(&mut world, key, key);
    }
    if !cuts.is_empty() {
        bed::split(&mut world, cuts, Old::Refuses);
    }
    world
}

/// Keys and groups in order, as the API reference defines them: a page of everything after `after`.
fn model(prefix: &str, delimiter: &str, after: &str) -> Vec<String> {
    let mut shown = BTreeSet::new();
    for key in KEYS.iter().filter(|key| key.starts_with(prefix)) {
        let group = match delimiter {
            "" => None,
            delimiter => key[prefix.len()..].find(delimiter).map(|at| &key[..prefix.len() + at + delimiter.len()]),
        };
        // A marker that is a group passes over all of it.
        let passed = *key <= after || group == Some(after);
        if !passed {
            shown.insert(group.unwrap_or(key).to_owned());
        }
    }
    shown.into_iter().collect()
}

fn lines(page: &ObjectPage) -> Vec<String> {
    let keys = page.contents.iter().map(|entry| entry.key.clone());
    let mut all: Vec<String> = keys.chain(page.common_prefixes.iter().cloned()).collect();
    all.sort();
    all
}

const CUTS: [&[&str]; 5] =
    [&[], &["b/3"], &["b/2", "b/4"], &["c", "d/x/2", "f/1"], &["b/1", "b/2", "b/3", "b/4", "z/2"]];

#[test]
fn pages_of_every_size_show_what_the_model_shows() {
    for (seed, cuts) in CUTS.iter().enumerate() {
        let mut world = filled(seed as u64, cuts);
        for (prefix, delimiter) in
            [("", ""), ("", "/"), ("b/", "/"), ("d", "/"), ("d/", ""), ("b", "/"), ("q", ""), ("", "x/")]
        {
            for max in [1, 2, 3, 1000] {
                let expected = model(prefix, delimiter, "");
                let call = ListObjectsV2 {
                    bucket: BUCKET.into(),
                    prefix: prefix.into(),
                    delimiter: Some(delimiter.into()),
                    max_keys: Some(max),
                    ..ListObjectsV2::default()
                };
                assert_eq!(walk_v2(&mut world, call, &expected), expected, "{prefix:?} {delimiter:?} {max} {cuts:?}");
                let call = ListObjects {
                    bucket: BUCKET.into(),
                    prefix: prefix.into(),
                    delimiter: Some(delimiter.into()),
                    max_keys: Some(max),
                    ..ListObjects::default()
                };
                assert_eq!(walk_v1(&mut world, call), expected, "{prefix:?} {delimiter:?} {max} {cuts:?}");
            }
        }
    }
}

fn walk_v2(world: &mut World, mut call: ListObjectsV2, expected: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let page: ObjectPage = world.ask(call.clone()).unwrap();
        assert_eq!(page.key_count as usize, page.contents.len() + page.common_prefixes.len());
        all.extend(lines(&page));
        assert_eq!(page.is_truncated, all.len() < expected.len(), "{call:?}");
        assert_eq!(page.is_truncated, page.next_continuation_token.is_some());
        call.continuation_token = page.next_continuation_token;
        if call.continuation_token.is_none() {
            return all;
        }
    }
}

fn walk_v1(world: &mut World, mut call: ListObjects) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let page: ObjectPage = world.ask(call.clone()).unwrap();
        all.extend(lines(&page));
        call.marker = page.next_marker;
        if call.marker.is_none() {
            return all;
        }
    }
}

#[test]
fn markers_need_not_be_keys() {
    let mut world = filled(20, &["b/2", "d/x/2"]);
    for marker in ["", "a", "aa", "b", "b/", "b/2", "b/9", "c", "d/x/", "zz"] {
        for delimiter in ["", "/"] {
            let call = ListObjects {
                bucket: BUCKET.into(),
                marker: Some(marker.into()),
                delimiter: Some(delimiter.into()),
                ..ListObjects::default()
            };
            let found: ObjectPage = world.ask(call).unwrap();
            assert_eq!(lines(&found), model("", delimiter, marker), "{marker:?} {delimiter:?}");
            let (start_after, delimiter) = (Some(marker.to_owned()), Some(delimiter.to_owned()));
            let call = ListObjectsV2 { bucket: BUCKET.into(), start_after, delimiter, ..ListObjectsV2::default() };
            assert_eq!(lines(&world.ask(call).unwrap()), lines(&found));
        }
    }
}

#[test]
fn lines_tell_what_was_put() {
    let mut world = filled(21, &[]);
    let call = ListObjectsV2 { bucket: BUCKET.into(), fetch_owner: true, prefix: "a".into(), ..Default::default() };
    let page: ObjectPage = world.ask(call.clone()).unwrap();
    let entry = &page.contents[0];
    let etag = etag::hex(&etag::md5(b"a"));
    assert_eq!((&entry.key[..], &entry.etag, entry.size), ("a", &etag, 1));
    assert_eq!(entry.owner.as_ref().unwrap().id, "ann");
    assert!(entry.last_modified_ms > 1_600_000_000_000);
    let page: ObjectPage = world.ask(ListObjectsV2 { fetch_owner: false, ..call.clone() }).unwrap();
    assert_eq!(page.contents[0].owner, None);
    let url = ListObjectsV2 {
        prefix: "ü".into(),
        delimiter: Some("/".into()),
        encoding_type: Some("url".into()),
        ..call.clone()
    };
    let page: ObjectPage = world.ask(url).unwrap();
    assert_eq!((&page.contents[0].key[..], &page.common_prefixes[0][..]), ("%C3%BC", "%C3%BC/"));
    let nothing: ObjectPage = world.ask(ListObjectsV2 { max_keys: Some(0), ..call.clone() }).unwrap();
    assert_eq!((nothing.key_count, nothing.is_truncated), (0, false));
    for wrong in [
        ListObjectsV2 { encoding_type: Some("base64".into()), ..call.clone() },
        ListObjectsV2 { continuation_token: Some("made-up".into()), ..call },
    ] {
        assert_eq!(world.call(wrong).unwrap_err().code.as_str(), "InvalidArgument");
    }
}

#[test]
fn tokens_survive_splits_and_fit_no_other_listing() {
    let mut world = filled(22, &[]);
    let call =
        ListObjectsV2 { bucket: BUCKET.into(), max_keys: Some(2), delimiter: Some("/".into()), ..Default::default() };
    let page: ObjectPage = world.ask(call.clone()).unwrap();
    assert_eq!(lines(&page), ["a", "b/"]);
    bed::split(&mut world, &["b/2", "b/4", "c"], Old::Gone);
    let next = ListObjectsV2 { continuation_token: page.next_continuation_token, ..call };
    assert_eq!(lines(&world.ask(next.clone()).unwrap()), ["c", "d/"]);
    for other in [ListObjectsV2 { prefix: "b".into(), ..next.clone() }, ListObjectsV2 { delimiter: None, ..next }] {
        assert_eq!(world.call(other).unwrap_err().code.as_str(), "InvalidArgument");
    }
}

#[test]
fn only_the_shards_that_can_hold_the_answer_are_asked() {
    let mut world = filled(23, &["b/1", "b/2", "b/3", "b/4", "c", "d/y"]);
    world.call(ListObjectsV2 { bucket: BUCKET.into(), ..Default::default() }).unwrap();
    let mut calls = |prefix: &str, delimiter: &str, max: u32| {
        let before = world.calls;
        let (bucket, prefix, delimiter) = (BUCKET.to_owned(), prefix.to_owned(), Some(delimiter.to_owned()));
        let call = ListObjectsV2 { bucket, prefix, delimiter, max_keys: Some(max), ..Default::default() };
        world.call(call).unwrap();
        world.calls - before
    };
    assert_eq!(calls("b/2", "", 1000), 1);
    assert_eq!(calls("a", "", 1000), 1);
    assert_eq!(calls("", "", 0), 0);
    // "a", and then "b/" by its first shard; of those wholly below it none is asked but for "c" and behind.
    assert!(calls("", "/", 3) <= 4);
}

#[test]
fn versions_are_listed_over_shards_newest_first() {
    let mut world = bed::world(24);
    bed::set(&mut world, |info| info.versioning = Some(Versioning::Enabled));
    for round in 0..3 {
        for key in ["a", "b/1", "b/2", "c"] {
            put(&mut world, key, &format!("{key}{round}"));
        }
    }
    delete(&mut world, "c", None);
    bed::split(&mut world, &["b/2", "c"], Old::Refuses);
    let call = ListObjectVersions { bucket: BUCKET.into(), ..ListObjectVersions::default() };
    let whole: VersionPage = world.ask(call.clone()).unwrap();
    assert_eq!(whole.versions.len(), 13);
    let latest: Vec<_> = whole.versions.iter().filter(|entry| entry.is_latest).map(|entry| &entry.key[..]).collect();
    assert_eq!(latest, ["a", "b/1", "b/2", "c"]);
    assert!(whole.versions.windows(2).all(|two| two[0].key < two[1].key || two[0].version_id > two[1].version_id));
    assert!(whole.versions.iter().all(|entry| entry.delete_marker == (entry.key == "c" && entry.is_latest)));
    for max in [1, 2, 5] {
        let mut pages = Vec::new();
        let mut call = ListObjectVersions { max_keys: Some(max), ..call.clone() };
        loop {
            let page: VersionPage = world.ask(call.clone()).unwrap();
            pages.extend(page.versions);
            (call.key_marker, call.version_id_marker) = (page.next_key_marker, page.next_version_id_marker);
            if !page.is_truncated {
                break;
            }
        }
        assert_eq!(pages, whole.versions, "pages of {max}");
    }
    let grouped: VersionPage = world.ask(ListObjectVersions { delimiter: Some("/".into()), ..call.clone() }).unwrap();
    assert_eq!((grouped.versions.len(), &grouped.common_prefixes[..]), (7, &["b/".to_owned()][..]));
    let wrong =
        ListObjectVersions { key_marker: Some("a".into()), version_id_marker: Some("?".into()), ..call.clone() };
    assert_eq!(world.call(wrong).unwrap_err().code.as_str(), "InvalidArgument");
    let alone = ListObjectVersions { version_id_marker: Some("null".into()), ..call };
    assert_eq!(world.call(alone).unwrap_err().code.as_str(), "InvalidArgument");
}

#[test]
fn counts_are_exact_and_cuts_even() {
    for cuts in CUTS {
        let mut world = filled(25, cuts);
        for prefix in ["", "b/", "d", "nothing", "ü"] {
            let below: Vec<_> = KEYS.iter().filter(|key| key.starts_with(prefix)).collect();
            let call = CountObjects { bucket: BUCKET.into(), prefix: prefix.into(), snapshot: false };
            let found: ObjectCount = world.ask(call).unwrap();
            let (keys, bytes) = (below.len() as u64, below.iter().map(|key| key.len() as u64).sum());
            assert_eq!(found, ObjectCount { keys, versions: keys, bytes }, "{prefix:?} {cuts:?}");
        }
        for parts in [1, 2, 3, 4, 8] {
            let found: Cuts = world.ask(CutPoints { bucket: BUCKET.into(), parts }).unwrap();
            let ranks: Vec<usize> =
                found.keys.iter().map(|cut| KEYS.iter().filter(|key| **key < &cut[..]).count()).collect();
            let even: Vec<usize> = (1..parts as usize).map(|part| part * KEYS.len() / parts as usize).collect();
            assert_eq!(ranks, even, "{parts} parts of {cuts:?}: {:?}", found.keys);
        }
    }
    let mut world = filled(26, &[]);
    for parts in [0, 1_000_000] {
        assert_eq!(
            world.call(CutPoints { bucket: BUCKET.into(), parts }).unwrap_err().code.as_str(),
            "InvalidArgument"
        );
    }
}

#[test]
fn shards_are_told_in_order_without_gap_and_hold_all_keys() {
    for cuts in CUTS {
        let mut world = filled(27, cuts);
        for max_shards in [None, Some(1), Some(2)] {
            let (mut all, mut continuation_token) = (Vec::new(), None);
            loop {
                let call = DescribeShards { bucket: BUCKET.into(), max_shards, continuation_token };
                let page: Shards = world.ask(call).unwrap();
                assert!(max_shards.is_none_or(|max| page.shards.len() <= max as usize));
                all.extend(page.shards);
                continuation_token = page.continuation_token;
                if continuation_token.is_none() {
                    break;
                }
            }
            assert_eq!((all[0].start.as_str(), &all[all.len() - 1].end), ("", &None));
            assert!(all.windows(2).all(|pair| pair[0].end.as_ref() == Some(&pair[1].start)), "{all:?}");
            assert!(all.iter().all(|shard| shard.state == "serving"), "{all:?}");
            assert_eq!(all.iter().map(|shard| shard.keys).sum::<u64>(), KEYS.len() as u64);
        }
    }
}

//! Backups that are made while writes continue, stopped, and continued.

use super::{flip, key, refused, run, Bench};
use crate::{list, BackupError, State};
use std::fs;

#[test]
fn backup_is_of_one_instant_while_writes_continue() {
    let bench = Bench::new();
    bench.toy.keep_busy(true);
    let made = bench.create("b").unwrap();
    bench.toy.keep_busy(false);
    let stamp = made.manifest.instant.unwrap().stamp;
    assert!(made.manifest.parts.len() > 3 && made.manifest.entries == 40);
    assert_eq!(bench.toy.pins("k"), 0);
    bench.restore("b", &super::beside("new")).unwrap();
    assert_eq!(bench.toy.content("new", None), bench.toy.content("k", Some(stamp)));
    assert_ne!(bench.toy.content("new", None), bench.toy.content("k", None));
}

#[test]
fn whole_backup_is_never_written_over() {
    let bench = Bench::new();
    bench.create("b").unwrap();
    assert!(refused(bench.create("b")).contains("a whole backup"));
    fs::create_dir(bench.dir("mine")).unwrap();
    fs::write(bench.dir("mine").join("letters"), "dear").unwrap();
    assert!(refused(bench.create("mine")).contains("letters"));
    bench.verify("b").unwrap();
}

#[test]
fn stopped_backup_continues_at_the_same_instant() {
    let bench = Bench::new();
    bench.toy.answer_only(Some(4));
    refused(bench.create("b"));
    bench.toy.answer_only(None);
    let first = fs::read(bench.part("b", 1)).unwrap();
    bench.toy.put("k", "key-00", "later");
    bench.toy.delete("k", "key-39");
    // A compaction passes; the pin keeps the instant.
    bench.toy.compact("k", false);
    let made = bench.create("b").unwrap();
    assert!(made.parts_kept > 0 && made.not_continued.is_none());
    assert_eq!(fs::read(bench.part("b", 1)).unwrap(), first);
    bench.restore("b", &super::beside("new")).unwrap();
    let stamp = made.manifest.instant.unwrap().stamp;
    assert_eq!(bench.toy.content("new", None), bench.toy.content("k", Some(stamp)));
    assert_eq!(bench.toy.content("new", None).len(), 40);
}

#[test]
fn a_new_backup_is_made_after_the_pin_is_gone() {
    for lost in [|bench: &Bench| bench.toy.compact("k", true), |bench: &Bench| bench.toy.begin_life("k")] {
        let bench = Bench::new();
        bench.toy.answer_only(Some(4));
        refused(bench.create("b"));
        bench.toy.answer_only(None);
        bench.toy.put("k", "key-00", "later");
        lost(&bench);
        let made = bench.create("b").unwrap();
        assert!(made.parts_kept == 0 && made.not_continued.is_some());
        bench.restore("b", &super::beside("new")).unwrap();
        assert_eq!(bench.toy.content("new", None), bench.toy.content("k", None));
    }
}

#[test]
fn stale_parts_are_removed() {
    let bench = Bench::new();
    bench.create("other").unwrap();
    bench.toy.answer_only(Some(4));
    refused(bench.create("b"));
    bench.toy.answer_only(None);
    // Later parts that no line of the journal names, one of another backup, and a file cut off.
    for number in [90, 91] {
        fs::copy(bench.part("other", 1), bench.part("b", number)).unwrap();
    }
    fs::write(bench.dir("b").join("part-000004.tmp"), "half").unwrap();
    let journal = bench.dir("b").join(crate::journal::FILE);
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("{text}{{\"file\":\"part-0000")).unwrap();
    let made = bench.create("b").unwrap();
    assert!(made.parts_kept > 0);
    let mut names: Vec<_> = fs::read_dir(bench.dir("b")).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names.len(), made.manifest.parts.len() + 2, "{names:?}");
    bench.verify("b").unwrap();
}

#[test]
fn resume_drops_a_damaged_part_and_all_later() {
    let bench = Bench::new();
    bench.toy.answer_only(Some(5));
    refused(bench.create("b"));
    bench.toy.answer_only(None);
    flip(&bench.part("b", 2), 50);
    assert_eq!(bench.create("b").unwrap().parts_kept, 1);
    bench.verify("b").unwrap();
}

#[test]
fn unfinished_backup_of_another_keyspace_is_left_alone() {
    let bench = Bench::new();
    bench.toy.make("l", "versioned", 1);
    bench.toy.answer_only(Some(4));
    refused(bench.create("b"));
    bench.toy.answer_only(None);
    let options = crate::CreateOptions { keyspace: "l".into(), ..bench.options("b") };
    assert!(refused(bench.create_as(&options)).contains("an unfinished backup of keyspace k"));
    assert!(bench.create("b").unwrap().parts_kept > 0);
}

#[test]
fn plain_keyspace_has_times_and_no_instant() {
    let toy = super::toy::Toy::default();
    toy.make("k", "plain", 3);
    (0..40).for_each(|n| toy.put("k", &key(n), "v"));
    let bench = Bench::of(toy);
    let manifest = bench.create("b").unwrap().manifest;
    assert!(manifest.instant.is_none());
    let text = fs::read_to_string(bench.dir("b").join(crate::manifest::FILE)).unwrap();
    assert!(text.contains("\"instant\": null"));
    assert!(manifest.parts.iter().all(|part| part.read_from_ms > 0 && part.read_from_ms <= part.read_to_ms));
    // Its keys lie in several clusters: no batch takes them.
    assert_eq!(bench.restore("b", &super::beside("new")).unwrap().written, 40);
    assert_eq!(bench.toy.content("new", None), bench.toy.content("k", None));
}

#[test]
fn keyspace_of_another_kind_is_refused() {
    let bench = Bench::new();
    bench.toy.make("k", "redis", 1);
    assert!(matches!(bench.create("b"), Err(BackupError::Kind { .. })));
}

#[test]
fn listing_has_whole_unfinished_and_refused() {
    let bench = Bench::new();
    bench.create("a").unwrap();
    bench.create("b").unwrap();
    flip(&bench.dir("b").join(crate::manifest::SIGNATURE_FILE), 0);
    bench.toy.answer_only(Some(4));
    refused(bench.create("c"));
    let found = run(list(&bench.depot(""), &bench.signer.trusted())).unwrap();
    let states: Vec<_> = found.iter().map(|backup| &backup.state).collect();
    assert_eq!(states.len(), 3);
    assert_eq!(*states[0], State::Whole);
    assert!(matches!(states[1], State::Refused(_)));
    assert!(matches!(states[2], State::Unfinished { parts: 1.., .. }));
    assert_eq!(run(list(&bench.depot("a"), &bench.signer.trusted())).unwrap().len(), 1);
}

#[cfg(feature = "object-store")]
#[test]
fn objects_serve_as_a_directory() {
    let bench = Bench::new();
    let depot = crate::Depot::open("memory:///backups/b").unwrap();
    let options = crate::CreateOptions { dir: depot.clone(), ..bench.options("b") };
    bench.toy.answer_only(Some(4));
    refused(bench.create_as(&options));
    bench.toy.answer_only(None);
    assert!(matches!(super::verify_by(&depot, &[], &bench.signer.trusted()), Err(BackupError::Unfinished { .. })));
    let made = bench.create_as(&options).unwrap();
    assert_eq!(made.manifest.entries, 40);
    assert!(refused(bench.create_as(&options)).contains("a whole backup"));
    assert_eq!(run(list(&depot, &bench.signer.trusted())).unwrap().len(), 1);
    bench.toy.delete("k", "key-07");
    let later = run(depot.siblings()).unwrap();
    assert_eq!(later.len(), 1);
    let chain = super::verify_by(&depot, &[], &bench.signer.trusted()).unwrap();
    run(crate::restore(&bench.toy, &chain, &super::in_place(), &mut |_| {})).unwrap();
    assert_eq!(bench.toy.content("k", None).len(), 40);
}

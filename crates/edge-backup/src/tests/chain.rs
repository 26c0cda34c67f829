//! Increments: what they hold, and that they need their bases.

use super::{beside, refused, verify_by, Bench};
use crate::{BackupError, CreateOptions};

fn on(bench: &Bench, name: &str, base: &str) -> CreateOptions {
    CreateOptions { base: Some(bench.depot(base)), ..bench.options(name) }
}

/// A full backup and two increments, with changes between.
fn three() -> Bench {
    let bench = Bench::new();
    bench.create("full").unwrap();
    bench.toy.put("k", "key-03", "second");
    bench.toy.delete("k", "key-10");
    bench.toy.put("k", "new", "n");
    bench.toy.compact("k", false);
    let one = bench.create_as(&on(&bench, "one", "full")).unwrap().manifest;
    assert_eq!((one.entries, one.deletions), (3, 1));
    bench.toy.put("k", "key-10", "again");
    bench.toy.put("k", "key-03", "third");
    bench.toy.delete("k", "new");
    bench.toy.delete("k", "key-00");
    let two = bench.create_as(&on(&bench, "two", "one")).unwrap().manifest;
    assert_eq!((two.entries, two.deletions), (4, 2));
    bench
}

#[test]
fn chain_gives_the_last_of_each_key() {
    let bench = three();
    assert_eq!(bench.verify("two").unwrap().count(), 3);
    bench.restore("two", &beside("new")).unwrap();
    assert_eq!(bench.toy.content("new", None), bench.toy.content("k", None));
}

#[test]
fn stopped_increment_continues() {
    let bench = Bench::new();
    bench.create("full").unwrap();
    (0..20).for_each(|n| bench.toy.delete("k", &super::key(n * 2)));
    (0..20).for_each(|n| bench.toy.put("k", &super::key(n * 2 + 1), "x"));
    bench.toy.answer_only(Some(5));
    refused(bench.create_as(&on(&bench, "one", "full")));
    bench.toy.answer_only(None);
    let made = bench.create_as(&on(&bench, "one", "full")).unwrap();
    assert!(made.parts_kept > 0);
    assert_eq!((made.manifest.entries, made.manifest.deletions), (40, 20));
    bench.restore("one", &beside("new")).unwrap();
    assert_eq!(bench.toy.content("new", None), bench.toy.content("k", None));
}

#[test]
fn increment_without_its_base_is_refused() {
    let bench = three();
    let away = tempfile::tempdir().unwrap();
    std::fs::rename(bench.dir("one"), away.path().join("one")).unwrap();
    assert!(matches!(bench.verify("two"), Err(BackupError::BaseMissing { .. })));
    let bases = [crate::Depot::Directory(away.path().join("one")), bench.depot("full")];
    verify_by(&bench.depot("two"), &bases, &bench.signer.trusted()).unwrap();
    // A damaged base is as bad as a damaged backup.
    super::flip(&bench.part("full", 1), 60);
    refused(verify_by(&bench.depot("two"), &bases, &bench.signer.trusted()));
}

#[test]
fn increment_on_another_life_is_refused() {
    let bench = Bench::new();
    bench.create("full").unwrap();
    bench.toy.begin_life("k");
    assert!(refused(bench.create_as(&on(&bench, "one", "full"))).contains("a new life"));
    bench.toy.make("k", "plain", 1);
    assert!(matches!(bench.create_as(&on(&bench, "one", "full")), Err(BackupError::NoIncrement { .. })));
}

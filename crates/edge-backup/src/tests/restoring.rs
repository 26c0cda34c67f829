//! What a restore writes, deletes and leaves.

use super::{beside, in_place, key, refused, Bench};
use crate::{BackupError, Place, RestoreOptions};

#[test]
fn restore_in_place_makes_the_keyspace_what_it_was() {
    let bench = Bench::new();
    let before = bench.toy.content("k", None);
    bench.create("b").unwrap();
    bench.toy.put("k", "key-05", "other");
    bench.toy.delete("k", "key-06");
    bench.toy.put("k", "later", "x");
    let restored = bench.restore("b", &in_place()).unwrap();
    assert_eq!((restored.written, restored.deleted, restored.unchanged), (2, 1, 38));
    assert_eq!(restored.stamp_before, Some(44));
    assert_eq!(bench.toy.content("k", None), before);
}

#[test]
fn restore_by_prefix_leaves_the_rest() {
    let bench = Bench::new();
    bench.create("b").unwrap();
    (0..40).for_each(|n| bench.toy.put("k", &key(n), "other"));
    bench.toy.put("k", "key-1x", "x");
    let restored = bench.restore("b", &RestoreOptions { prefix: "key-1".into(), ..in_place() }).unwrap();
    assert_eq!((restored.written, restored.deleted), (10, 1));
    let content = bench.toy.content("k", None);
    assert_eq!(content["key-15".as_bytes()], "value 15");
    assert_eq!(content["key-25".as_bytes()], "other");
    let restored = bench.restore("b", &RestoreOptions { prefix: "key-2".into(), ..beside("new") }).unwrap();
    assert_eq!((restored.written, bench.toy.content("new", None).len()), (10, 10));
}

#[test]
fn stopped_restore_writes_only_what_is_missing() {
    let bench = Bench::new();
    let value = "x".repeat(long_value());
    (0..40).for_each(|n| bench.toy.put("k", &key(n), &value));
    bench.create_as(&crate::CreateOptions { part_bytes: None, ..bench.options("b") }).unwrap();
    bench.toy.answer_only(Some(3));
    refused(bench.restore("b", &beside("new")));
    bench.toy.answer_only(None);
    let some = bench.toy.content("new", None).len() as u64;
    assert!(some > 0 && some < 40, "{some}");
    assert!(matches!(bench.restore("b", &beside("new")), Err(BackupError::TargetTaken { .. })));
    let place = Place::Beside { name: "new".into(), rule: None, resume: true };
    let restored = bench.restore("b", &RestoreOptions { place, ..beside("new") }).unwrap();
    assert_eq!((restored.unchanged, restored.written), (some, 40 - some));
    assert_eq!(bench.toy.content("new", None), bench.toy.content("k", None));
}

/// Five keys make a batch.
fn long_value() -> usize {
    200_000
}

#[test]
fn keys_with_a_lease_are_left_out_and_left_alone() {
    let bench = Bench::new();
    bench.toy.put_leased("k", "lock", "a", 5);
    bench.create("b").unwrap();
    bench.toy.put_leased("k", "up", "b", 6);
    bench.toy.put_leased("k", "lock", "c", 7);
    let restored = bench.restore("b", &in_place()).unwrap();
    assert_eq!((restored.leased, restored.deleted, restored.written), (2, 0, 0));
    let restored = bench.restore("b", &beside("new")).unwrap();
    assert_eq!((restored.leased, restored.written), (1, 40));
    let restored = bench.restore("b", &RestoreOptions { leased: true, ..beside("newer") }).unwrap();
    assert_eq!((restored.leased, restored.written), (0, 41));
}

#[test]
fn bytes_of_any_kind_come_back() {
    let bench = Bench::new();
    for (n, value) in ["\u{0}\u{1}", "\"quoted\\", "grün", ""].iter().enumerate() {
        bench.toy.put("k", &format!("odd-\u{7f}{n}"), value);
    }
    bench.create("b").unwrap();
    bench.restore("b", &beside("new")).unwrap();
    assert_eq!(bench.toy.content("new", None), bench.toy.content("k", None));
}

#[test]
fn keyspace_of_another_kind_is_no_target() {
    let bench = Bench::new();
    bench.create("b").unwrap();
    bench.toy.make("plain", "plain", 1);
    assert!(matches!(bench.restore("b", &beside("plain")), Err(BackupError::TargetKind { .. })));
}

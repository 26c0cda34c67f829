//! Conditions, branches, operations: what one commit does, and what it refuses.

use super::bed::*;
use crate::versioned::*;
use bytes::Bytes;

#[test]
fn first_commit_of_a_new_cluster_is_at_stamp_two() {
    let mut bed = Bed { space: Default::default(), now_ms: 0 };
    let Reply::Info { info } = bed.ask(&Query::Describe).unwrap() else { panic!() };
    assert_eq!((info.stamp, info.keys), (STAMP_FIRST, 0), "as an etcd without keys is at revision 1");
    let transaction = Transaction { then: vec![put("a", "1")], ..Transaction::default() };
    let Reply::Committed { stamp, .. } = bed.tell(&Command::Commit { transaction }).unwrap() else { panic!() };
    assert_eq!(stamp, 2);
    let before = Query::Read { read: read(all(), STAMP_FIRST), pin: 0 };
    assert!(matches!(bed.ask(&before).unwrap(), Reply::Page { page, .. } if page.rows.is_empty()));
}

#[test]
pub fn row_carries_stamps_and_version() {
    let mut bed = Bed::default();
    assert_eq!(bed.commit(vec![put("a", "1")]), Ok(1));
    assert_eq!(bed.commit(vec![put("a", "2"), put("b", "3")]), Ok(2));
    assert_eq!(bed.commit(vec![delete(one("a"))]), Ok(3));
    assert_eq!(bed.commit(vec![put("a", "4")]), Ok(4));
    let row = |at, place: usize| bed.page(read(all(), at), 0).unwrap().rows[place].row.clone();
    let stamps = |row: Row| (row.created, row.modified, row.version);
    assert_eq!(stamps(row(1, 0)), (1, 1, 1));
    assert_eq!(stamps(row(2, 0)), (1, 2, 2));
    assert_eq!(stamps(row(2, 1)), (2, 2, 1));
    assert_eq!(stamps(row(4, 0)), (4, 4, 1), "a key that comes again begins again");
    assert_eq!(bed.seen(3).unwrap(), "b=3");
}

#[test]
pub fn commit_that_changes_nothing_keeps_the_stamp() {
    let mut bed = Bed::default();
    bed.commit(vec![put("a", "1")]).unwrap();
    let before = bed.space.clone();
    assert_eq!(bed.commit(vec![delete(one("b")), Operation::Read(read(all(), 0))]), Ok(1));
    assert_eq!(bed.commit(Vec::new()), Ok(1));
    assert_eq!(bed.space, before);
    assert_eq!(bed.commit(vec![put("a", "1")]), Ok(2), "an equal value is a put all the same");
}

#[test]
pub fn conditions_compare_each_attribute() {
    use Relation::{Equal, Greater, Less, NotEqual};
    let mut bed = Bed::default();
    bed.tell(&Command::LeaseGrant { lease: 7, ttl_ms: 1_000 }).unwrap();
    bed.commit(vec![put("a", "m")]).unwrap();
    bed.commit(vec![leased("a", "m", 7)]).unwrap();
    let value = |relation, value: &str| Check::Value { relation, value: text(value) };
    for (key, check, holds) in [
        ("a", Check::Version { relation: Equal, number: 2 }, true),
        ("a", Check::Version { relation: Less, number: 2 }, false),
        ("a", Check::Created { relation: Equal, stamp: 1 }, true),
        ("a", Check::Modified { relation: Greater, stamp: 1 }, true),
        ("a", Check::Modified { relation: NotEqual, stamp: 2 }, false),
        ("a", Check::Lease { relation: Equal, lease: 7 }, true),
        ("a", value(Equal, "m"), true),
        ("a", value(Less, "n"), true),
        ("a", value(Greater, "n"), false),
        ("x", Check::Created { relation: Equal, stamp: 0 }, true),
        ("x", Check::Version { relation: Greater, number: 0 }, false),
        ("x", value(NotEqual, "m"), false),
    ] {
        let (_, committed) = bed.transact(vec![when(one(key), check.clone())], Vec::new(), Vec::new()).unwrap();
        assert_eq!(committed.succeeded, holds, "{key} {check:?}");
    }
}

#[test]
pub fn condition_on_range_asks_every_key() {
    let mut bed = Bed::default();
    bed.commit(vec![put("a/1", "x"), put("a/2", "x")]).unwrap();
    bed.commit(vec![put("a/2", "y")]).unwrap();
    let mut held =
        |span: Span, check: Check| bed.transact(vec![when(span, check)], Vec::new(), Vec::new()).unwrap().1.succeeded;
    let first = |relation| Check::Version { relation, number: 1 };
    assert!(!held(range("a/", "a0"), first(Relation::Equal)));
    assert!(held(range("a/", "a/2"), first(Relation::Equal)));
    assert!(!held(range("b", "c"), first(Relation::Equal)), "a range without keys is as an absent key");
    assert!(held(range("b", "c"), first(Relation::Less)));
    assert!(!held(range("b", "c"), Check::Value { relation: Relation::Equal, value: Bytes::new() }));
}

/// A transaction that has read a range is valid only while nothing came into it or left it.
#[test]
pub fn unchanged_range_notices_puts_and_deletes() {
    let mut bed = Bed::default();
    bed.commit(vec![put("a", "1"), put("b", "1"), put("c", "1")]).unwrap();
    let read_at = bed.info().stamp;
    let held = |bed: &Bed, span: Span, stamp| {
        let check = vec![when(span, Check::UnchangedSince { stamp })];
        bed.clone().transact(check, Vec::new(), Vec::new()).map(|(_, committed)| committed.succeeded)
    };
    assert_eq!(held(&bed, all(), read_at), Ok(true));
    bed.commit(vec![delete(one("b"))]).unwrap();
    assert_eq!(held(&bed, range("a", "c"), read_at), Ok(false), "a delete is a change");
    assert_eq!(held(&bed, one("b"), read_at), Ok(false));
    assert_eq!(held(&bed, one("a"), read_at), Ok(true));
    assert_eq!(held(&bed, range("a", "b"), read_at), Ok(true));
    bed.commit(vec![put("bb", "1")]).unwrap();
    assert_eq!(held(&bed, range("b", "c"), 2), Ok(false), "a new key is a change");
    assert_eq!(held(&bed, all(), 0), Ok(false));
    refused(held(&bed, all(), 9), "StampInFuture");
    bed.tell(&Command::Compact { stamp: 2 }).unwrap();
    refused(held(&bed, all(), 1), "StampCompacted");
    assert_eq!(held(&bed, range("x", "y"), 2), Ok(true));
}

#[test]
pub fn operations_see_those_before_them() {
    let mut bed = Bed::default();
    bed.commit(vec![put("a", "1"), put("b", "2")]).unwrap();
    let reads = |at| Operation::Read(read(all(), at));
    let then = vec![put("c", "3"), reads(0), delete(one("a")), reads(0), reads(1), delete(range("a", "b"))];
    let (stamp, committed) = bed.transact(Vec::new(), then, Vec::new()).unwrap();
    let shown = |place: usize| match &committed.results[place] {
        Outcome::Page(page) => page.rows.iter().map(|pair| (pair.key.clone(), pair.row.modified)).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(stamp, 2);
    assert_eq!(shown(1), [(text("a"), 1), (text("b"), 1), (text("c"), 2)]);
    assert_eq!(shown(3), [(text("b"), 1), (text("c"), 2)]);
    assert_eq!(shown(4), [(text("a"), 1), (text("b"), 1)]);
    assert_eq!(committed.results[5], Outcome::Deleted { count: 0, previous: Vec::new() });
}

#[test]
pub fn nested_conditions_are_compared_before_any_write() {
    let mut bed = Bed::default();
    bed.commit(vec![put("a", "old")]).unwrap();
    let is_old = || vec![when(one("a"), Check::Value { relation: Relation::Equal, value: text("old") })];
    let nested = Transaction { conditions: is_old(), then: vec![put("b", "then")], otherwise: vec![put("b", "else")] };
    let then = vec![put("a", "new"), Operation::Nested(nested)];
    let (_, committed) = bed.transact(is_old(), then, vec![put("a", "never")]).unwrap();
    assert_eq!(bed.seen(0).unwrap(), "a=new b=then");
    let Outcome::Nested(nested) = &committed.results[1] else { panic!("{committed:?}") };
    assert!(committed.succeeded && nested.succeeded);
    let (_, committed) = bed.transact(is_old(), Vec::new(), vec![put("a", "else")]).unwrap();
    assert!(!committed.succeeded);
    assert_eq!(bed.seen(0).unwrap(), "a=else b=then");
}

#[test]
pub fn key_is_changed_once_in_a_commit() {
    let mut bed = Bed::default();
    bed.commit(vec![put("a", "1")]).unwrap();
    refused(bed.commit(vec![put("a", "2"), put("a", "3")]), "InvalidRequest");
    refused(bed.commit(vec![put("a", "2"), delete(one("a"))]), "InvalidRequest");
    refused(bed.commit(vec![delete(one("a")), put("a", "2")]), "InvalidRequest");
    refused(bed.commit(vec![put("b", "2"), delete(all())]), "InvalidRequest");
    assert_eq!(bed.seen(0).unwrap(), "a=1");
}

#[test]
pub fn put_keeps_value_or_lease_of_a_key_that_is_there() {
    let mut bed = Bed::default();
    bed.tell(&Command::LeaseGrant { lease: 7, ttl_ms: 1_000 }).unwrap();
    let with = |key: &str, lease, keep_value, keep_lease| {
        let (key, value) = (text(key), text("new"));
        vec![Operation::Put(Put { key, value, lease, previous: true, keep_value, keep_lease })]
    };
    refused(bed.commit(with("a", 0, true, false)), "KeyNotFound");
    refused(bed.commit(with("a", 0, false, true)), "KeyNotFound");
    refused(bed.commit(with("a", 8, false, false)), "NoSuchLease");
    bed.commit(vec![leased("a", "old", 7)]).unwrap();
    let (_, committed) = bed.transact(Vec::new(), with("a", 0, true, false), Vec::new()).unwrap();
    let Outcome::Put { previous: Some(previous) } = &committed.results[0] else { panic!() };
    assert_eq!((previous.lease, &previous.value[..]), (7, &b"old"[..]));
    assert_eq!(bed.seen(0).unwrap(), "a=old");
    bed.commit(vec![leased("a", "old", 7)]).unwrap();
    bed.commit(with("a", 8, false, true)).unwrap();
    let row = bed.page(read(one("a"), 0), 0).unwrap().rows[0].row.clone();
    assert_eq!((row.lease, &row.value[..]), (7, &b"new"[..]));
}

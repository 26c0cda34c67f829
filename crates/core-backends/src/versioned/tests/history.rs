//! Earlier stamps: what is read there, what goes, what pins keep, and the changes in order.

use super::super::rows::{history_key, index_key, Meta};
use super::bed::*;
use crate::versioned::*;
use crate::SpaceWrite;
use bytes::Bytes;

fn with_history() -> Bed {
    let mut bed = Bed::default();
    for at in 1..=6 {
        bed.now_ms += 10;
        bed.commit(vec![put("a", &format!("a{at}")), put(&format!("n{at}"), "x")]).unwrap();
    }
    bed.commit(vec![delete(one("n2"))]).unwrap();
    bed
}

#[test]
pub fn deleted_key_is_read_at_earlier_stamps() {
    let bed = with_history();
    assert_eq!(bed.seen(2).unwrap(), "a=a2 n1=x n2=x");
    assert_eq!(bed.seen(6).unwrap(), "a=a6 n1=x n2=x n3=x n4=x n5=x n6=x");
    assert_eq!(bed.seen(7).unwrap(), bed.seen(0).unwrap());
    assert!(!bed.seen(7).unwrap().contains("n2"));
    refused(bed.seen(8), "StampInFuture");
}

#[test]
pub fn compaction_refuses_below_and_keeps_its_own_stamp() {
    let mut bed = with_history();
    let kept = [bed.seen(3).unwrap(), bed.seen(4).unwrap(), bed.seen(7).unwrap()];
    refused(bed.tell(&Command::Compact { stamp: 8 }), "StampInFuture");
    bed.tell(&Command::Compact { stamp: 3 }).unwrap();
    let again = refused(bed.tell(&Command::Compact { stamp: 3 }), "StampCompacted");
    assert!(again.message.contains("the last compaction was at 3"), "{again}");
    let told = refused(bed.seen(2), "StampCompacted");
    assert!(told.message.contains("read at stamp 3 or later"), "{told}");
    let mut removed = 0;
    loop {
        let Reply::Collected { rows, more } = bed.tell(&Command::Collect { limit: 2 }).unwrap() else { panic!() };
        removed += rows;
        assert_eq!([3, 4, 7].map(|at| bed.seen(at).unwrap()), kept);
        if !more {
            break;
        }
    }
    // Two changes of stamps 1 and 2 each; those of the compacted stamp stay.
    assert_eq!(removed, 4);
    assert!(!bed.info().garbage);
    refused(bed.changes(Position::end_of(1), 9), "StampCompacted");
    // The second change of stamp 2 is gone: who has seen the first would miss it.
    refused(bed.changes(Position { stamp: 2, sub: 0 }, 9), "StampCompacted");
    assert_eq!(bed.changes(Position::end_of(3), 9).unwrap().len(), 7);
}

/// As etcd: a watch may begin at the revision of a compaction. A delete at it is seen, too.
#[test]
pub fn changes_of_the_compacted_stamp_are_there() {
    let mut bed = with_history();
    for (compacted, expected) in [(3, 9), (7, 1)] {
        let whole = bed.changes(Position::end_of(compacted - 1), 9).unwrap();
        bed.tell(&Command::Compact { stamp: compacted }).unwrap();
        while let Ok(Reply::Collected { more: true, .. }) = bed.tell(&Command::Collect { limit: 1 }) {}
        assert!(!bed.info().garbage);
        assert_eq!(bed.changes(Position::end_of(compacted - 1), 9).unwrap(), whole);
        assert_eq!(bed.changes(Position { stamp: compacted, sub: 0 }, 9).unwrap()[..], whole[1..]);
        assert_eq!(whole.len(), expected);
        refused(bed.changes(Position::end_of(compacted - 2), 9), "StampCompacted");
    }
}

/// A store that an earlier build compacted has no changes of that stamp. It says so, and does not leave them out.
#[test]
pub fn changes_that_an_earlier_build_collected_are_refused() {
    let mut bed = with_history();
    bed.tell(&Command::Compact { stamp: 3 }).unwrap();
    bed.tell(&Command::Collect { limit: 100 }).unwrap();
    let collected = |bed: &Bed| Meta::read(&bed.space).unwrap().collected;
    assert_eq!(collected(&bed), Position::end_of(2));
    for row in [history_key(Position { stamp: 3, sub: 0 }), history_key(Position { stamp: 3, sub: 1 })] {
        bed.space.delete(row);
    }
    bed.space.delete(index_key(&text("a"), 3));
    let meta = Meta { collected: Position::end_of(3), ..Meta::read(&bed.space).unwrap() };
    bed.space.put(Bytes::from_static(b"m"), meta.row());
    refused(bed.changes(Position::end_of(2), 9), "StampCompacted");
    assert_eq!(bed.changes(Position::end_of(3), 9).unwrap().len(), 7);
    // It never goes back.
    bed.tell(&Command::Collect { limit: 100 }).unwrap();
    assert_eq!(collected(&bed), Position::end_of(3));
}

/// Without a driver garbage goes, too: each commit removes more than it makes.
#[test]
pub fn commits_sweep_what_was_compacted() {
    let mut bed = Bed::default();
    for at in 0..200 {
        bed.commit(vec![put("a", &at.to_string())]).unwrap();
    }
    let full = bed.space.rows.len();
    bed.tell(&Command::Compact { stamp: 200 }).unwrap();
    for _ in 0..12 {
        bed.commit(vec![put("b", "")]).unwrap();
    }
    assert!(!bed.info().garbage && bed.space.rows.len() < full / 10, "{} rows of {full}", bed.space.rows.len());
}

#[test]
pub fn pin_keeps_history_until_its_time_is_over() {
    let mut bed = with_history();
    let kept = bed.seen(3).unwrap();
    let pin = |stamp, keep_ms| Command::Pin { pin: 5, stamp, keep_ms };
    refused(bed.tell(&pin(9, 100)), "StampInFuture");
    bed.tell(&pin(3, 100)).unwrap();
    refused(bed.tell(&pin(4, 100)), "Conflict");
    bed.tell(&Command::Compact { stamp: 6 }).unwrap();
    bed.tell(&Command::Collect { limit: 100 }).unwrap();
    let page = |bed: &Bed, at, pin| {
        let page = bed.page(read(all(), at), pin)?;
        Ok(page.rows.iter().map(|pair| format!("{:?}={:?}", pair.key, pair.row.value)).collect::<String>())
    };
    let before = kept.split(' ').count();
    assert_eq!(bed.page(read(all(), 3), 5).unwrap().rows.len(), before);
    assert!(page(&bed, 3, 5).unwrap().contains("a3"));
    refused(page(&bed, 3, 0), "StampCompacted");
    refused(page(&bed, 2, 5), "StampCompacted");
    refused(page(&bed, 3, 6), "NoSuchPin");
    bed.now_ms += 99;
    bed.tell(&pin(0, 50)).unwrap();
    bed.now_ms += 49;
    bed.tell(&Command::Collect { limit: 100 }).unwrap();
    assert!(page(&bed, 3, 5).is_ok(), "it was renewed");
    bed.now_ms += 1;
    refused(page(&bed, 3, 5), "NoSuchPin");
    let Reply::Collected { rows, .. } = bed.tell(&Command::Collect { limit: 100 }).unwrap() else { panic!() };
    assert_eq!((rows, bed.info().pins, bed.info().horizon), (6, 0, 6), "the stamps 3, 4 and 5");
    bed.tell(&pin(6, 50)).unwrap();
    bed.tell(&Command::Unpin { pin: 5 }).unwrap();
    assert_eq!(bed.info().pins, 0);
}

#[test]
pub fn changes_come_in_order_whatever_the_page() {
    let mut bed = with_history();
    bed.commit(vec![put("p", "1"), put("q", "2"), put("r", "3"), delete(one("n1"))]).unwrap();
    let whole = bed.changes(Position::default(), 0).unwrap();
    assert_eq!(whole.len(), 17);
    for limit in 1..6 {
        assert_eq!(bed.changes(Position::default(), limit).unwrap(), whole, "{limit}");
    }
    let shown = |change: &Change| {
        let value = |row: &Option<Row>| row.as_ref().map(|row| String::from_utf8_lossy(&row.value).into_owned());
        (change.at.stamp, change.at.sub, change.time_ms, value(&change.after), value(&change.before))
    };
    assert_eq!(shown(&whole[2]), (2, 0, 20, Some("a2".into()), Some("a1".into())));
    assert_eq!(shown(&whole[12]), (7, 0, 60, None, Some("x".into())));
    assert_eq!(shown(&whole[16]), (8, 3, 60, None, Some("x".into())));
    let span = range("n", "o");
    let query = Query::Changes { span, after: Position::end_of(5), limit: 0, before: false, pin: 0 };
    let Ok(Reply::Changes { changes, reached, more: false }) = bed.ask(&query) else { panic!() };
    assert_eq!(changes.iter().map(|change| change.at.stamp).collect::<Vec<_>>(), [6, 7, 8]);
    assert_eq!(reached, Position::end_of(8));
    let query = Query::Changes { span: all(), after: Position::end_of(50), limit: 0, before: false, pin: 0 };
    assert_eq!(bed.ask(&query), Ok(Reply::Changes { changes: vec![], reached: Position::end_of(50), more: false }));
}

#[test]
pub fn closed_stamps_are_read_and_never_committed() {
    let mut bed = with_history();
    bed.tell(&Command::Close { stamp: 50 }).unwrap();
    assert_eq!(bed.seen(40).unwrap(), bed.seen(0).unwrap());
    let before = bed.seen(50).unwrap();
    assert_eq!(bed.commit(vec![put("z", "late")]), Ok(51));
    assert_eq!(bed.seen(50).unwrap(), before);
    bed.tell(&Command::Close { stamp: 5 }).unwrap();
    assert_eq!(bed.info().closed, 50);
    refused(bed.tell(&Command::Close { stamp: u64::MAX }), "LimitOutOfRange");
}

#[test]
pub fn stamp_is_found_by_time() {
    let mut bed = with_history();
    let at = |bed: &Bed, time_ms| match bed.ask(&Query::StampAt { time_ms }) {
        Ok(Reply::Done { stamp }) => stamp,
        other => panic!("{other:?}"),
    };
    assert_eq!([0, 9, 10, 19, 20, 59, 60, 1_000].map(|time| at(&bed, time)), [0, 0, 1, 1, 2, 5, 7, 7]);
    bed.tell(&Command::Compact { stamp: 4 }).unwrap();
    bed.tell(&Command::Collect { limit: 100 }).unwrap();
    assert_eq!([0, 20, 50, 60].map(|time| at(&bed, time)), [4, 4, 5, 7]);
}

/// The index escapes zero bytes, so keys that begin with each other keep their order and their history.
#[test]
pub fn keys_with_zero_bytes_keep_their_order() {
    let mut bed = Bed::default();
    let keys: Vec<Bytes> = [&b"a"[..], b"a\0", b"a\0\0", b"a\0\x01", b"a\0\xff", b"a\x01", b"a\xff", b"b", b"\0"]
        .map(Bytes::from_static)
        .into();
    let value = |key: &Bytes| Put {
        key: key.clone(),
        value: key.clone(),
        lease: 0,
        previous: false,
        keep_value: false,
        keep_lease: false,
    };
    bed.commit(keys.iter().map(|key| Operation::Put(value(key))).collect()).unwrap();
    for key in &keys {
        bed.commit(vec![delete(Span::One { key: key.clone() })]).unwrap();
    }
    let mut sorted = keys.clone();
    sorted.sort();
    let names = |page: Page| page.rows.into_iter().map(|pair| pair.key).collect::<Vec<_>>();
    assert_eq!(names(bed.page(read(all(), 1), 0).unwrap()), sorted);
    for (first, start) in sorted.iter().enumerate() {
        for (last, end) in sorted.iter().enumerate().skip(first + 1) {
            let span = Span::Range { start: start.clone(), end: end.clone() };
            assert_eq!(names(bed.page(read(span, 1), 0).unwrap()), sorted[first..last]);
        }
    }
}

/// A key that was put very often costs a seek, not a walk, wherever the stamp lies.
#[test]
pub fn hot_key_does_not_end_a_page_early() {
    let mut bed = Bed::default();
    bed.commit(vec![put("z", "first")]).unwrap();
    for at in 0..300 {
        bed.commit(vec![put("hot", &at.to_string())]).unwrap();
    }
    bed.commit(vec![delete(one("z"))]).unwrap();
    for stamp in [1, 2, 150, 301] {
        let hot = if stamp == 1 { String::new() } else { format!("hot={} ", stamp - 2) };
        assert_eq!(bed.seen(stamp).unwrap(), format!("{hot}z=first"), "{stamp}");
    }
}

//! Limits: pages, sizes, depths.

use super::bed::*;
use crate::versioned::*;
use base_types::codec::Encode;
use bytes::Bytes;

#[test]
pub fn pages_continue_where_they_ended() {
    let mut bed = Bed::default();
    bed.commit((0..9).map(|at| put(&format!("k{at}"), "v")).collect()).unwrap();
    bed.commit(vec![put("k3", "w"), delete(one("k5"))]).unwrap();
    for at in [1, 2] {
        let (mut start, mut keys) = (Bytes::new(), Vec::new());
        loop {
            let span = Span::From { start: start.clone() };
            let page = bed.page(Read { limit: 2, ..read(span, at) }, 0).unwrap();
            assert!(page.rows.len() <= 2);
            keys.extend(page.rows.into_iter().map(|pair| pair.key));
            match page.next {
                Some(next) => start = next,
                None => break,
            }
        }
        let expected = (0..9).filter(|key| at == 1 || *key != 5).map(|key| text(&format!("k{key}")));
        assert_eq!(keys, expected.collect::<Vec<_>>(), "{at}");
    }
    let counted = bed.page(Read { limit: 2, count: true, ..read(range("k1", "k8"), 1) }, 0).unwrap();
    assert_eq!((counted.rows.len(), counted.count, counted.counted_to), (2, 7, None));
    let only = bed.page(Read { count_only: true, ..read(all(), 0) }, 0).unwrap();
    assert_eq!((only.rows.len(), only.count, only.next), (0, 8, None));
    let filter = Filter { modified_min: 2, ..Filter::default() };
    let filtered = bed.page(Read { filter, keys_only: true, count: true, ..read(all(), 0) }, 0).unwrap();
    assert_eq!((filtered.rows.len(), filtered.count), (1, 8));
    assert_eq!((&filtered.rows[0].key[..], filtered.rows[0].row.value.len()), (&b"k3"[..], 0));
}

#[test]
pub fn page_ends_by_its_bytes() {
    let mut bed = Bed::default();
    let large = "x".repeat(1 << 20);
    for at in 0..6 {
        bed.commit(vec![put(&format!("k{at}"), &large)]).unwrap();
    }
    let page = bed.page(read(all(), 0), 0).unwrap();
    assert_eq!((page.rows.len(), page.next), (3, Some(text("k3"))));
    assert_eq!(bed.changes(Position::default(), 0).unwrap().len(), 6);
    let reads = vec![Operation::Read(read(all(), 0))];
    refused(bed.commit(reads), "TransactionTooLarge");
    let reads = vec![Operation::Read(Read { limit: 2, ..read(all(), 0) })];
    bed.commit(reads).unwrap();
}

#[test]
pub fn transaction_beyond_a_bound_is_refused_whole() {
    let mut bed = Bed::default();
    for part in 0..11 {
        bed.commit((0..1_000).map(|at| put(&format!("k{part:02}{at:03}"), "v")).collect()).unwrap();
    }
    refused(bed.commit(vec![put("x", "1"), delete(all())]), "TransactionTooLarge");
    assert_eq!(bed.info().keys, 11_000);
    bed.commit(vec![delete(range("k00", "k09"))]).unwrap();
    assert_eq!(bed.info().keys, 2_000);
    let many = (0..=COMMIT_OPERATIONS_MAX).map(|at| put(&at.to_string(), "v")).collect();
    refused(bed.commit(many), "TransactionTooLarge");
}

#[test]
pub fn deep_transactions_do_not_decode() {
    let deep = |levels: usize| {
        let mut transaction = Transaction { then: vec![put("a", "1")], ..Transaction::default() };
        for _ in 1..levels {
            transaction = Transaction { then: vec![Operation::Nested(transaction)], ..Transaction::default() };
        }
        Command::Commit { transaction }
    };
    let mut bed = Bed::default();
    bed.tell(&deep(NESTING_MAX)).unwrap();
    refused(bed.tell(&deep(NESTING_MAX + 1)), "CorruptCommand");
    // A commit, then without conditions and with one step: a transaction, and so on.
    let endless = [&[1u8][..], &[0, 1, 4].repeat(1_000_000)].concat();
    assert!(crate::table::validate(base_types::BackendKind::Versioned, &endless.into()).is_err());
}

#[test]
pub fn keys_and_numbers_out_of_bounds_are_refused() {
    let mut bed = Bed::default();
    let key = |bytes: Vec<u8>| {
        let (key, value) = (Bytes::from(bytes), Bytes::new());
        vec![Operation::Put(Put { key, value, lease: 0, previous: false, keep_value: false, keep_lease: false })]
    };
    refused(bed.commit(key(vec![])), "EmptyKey");
    refused(bed.commit(key(vec![b'x'; 1_025])), "KeyTooLarge");
    refused(bed.commit(key(vec![0; 513])), "KeyTooLarge");
    bed.commit(key(vec![b'x'; 1_024])).unwrap();
    bed.commit(key(vec![0; 512])).unwrap();
    bed.commit(vec![delete(all())]).unwrap();
    assert_eq!(bed.page(read(all(), 2), 0).unwrap().rows.len(), 2);
    let longest = bed.space.rows.keys().map(Bytes::len).max().unwrap();
    assert!(longest < base_engine::ENGINE_KEY_BYTES_MAX, "{longest}");
    for command in [
        Command::Compact { stamp: 0 },
        Command::Collect { limit: 0 },
        Command::Collect { limit: COLLECT_ROWS_MAX + 1 },
        Command::Pin { pin: 0, stamp: 1, keep_ms: 1 },
        Command::Pin { pin: 1, stamp: 1, keep_ms: PIN_KEEP_MS_MAX + 1 },
        Command::LeaseGrant { lease: 0, ttl_ms: 1 },
        Command::LeaseGrant { lease: 1, ttl_ms: 0 },
        Command::LeaseKeepAlive { leases: vec![1; LEASES_A_COMMAND_MAX + 1] },
        Command::LeaseExpire { limit: 0 },
    ] {
        refused(bed.tell(&command), "LimitOutOfRange");
        let valid = crate::table::validate(base_types::BackendKind::Versioned, &command.to_bytes());
        assert!(valid.is_err(), "{command:?} is refused before the log");
    }
    for pin in 1..=PINS_MAX {
        bed.tell(&Command::Pin { pin, stamp: 0, keep_ms: 10 }).unwrap();
    }
    refused(bed.tell(&Command::Pin { pin: 99, stamp: 0, keep_ms: 10 }), "Overloaded");
    bed.now_ms += 10;
    bed.tell(&Command::Pin { pin: 99, stamp: 0, keep_ms: 10 }).unwrap();
}

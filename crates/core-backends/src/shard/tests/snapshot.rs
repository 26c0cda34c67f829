//! A walk of a snapshot shows one instant, whatever is written meanwhile.

use super::bed::*;
use super::model::{change, compare};
use crate::shard::*;
use base_types::s3::Version;

const HOUR_MS: u64 = 3_600_000;

fn pin(bed: &mut Bed, pin: u128) {
    bed.tell(Command::PinPrepare { epoch: bed.epoch, pin, freeze_ms: 100, keep_ms: HOUR_MS }).unwrap();
    bed.tell(Command::PinCommit { pin }).unwrap();
}

#[test]
pub fn many_snapshots_each_show_their_instant() {
    let mut random = Random(11);
    let (mut bed, mut plain_s3) = (Bed::serving(), Plain::default());
    let mut held: Vec<(u128, Plain)> = Vec::new();
    for step in 0..700u128 {
        let key = random.key();
        change(&mut random, &mut bed, &mut plain_s3, Versioning::Enabled, &key);
        if step % 100 == 50 {
            pin(&mut bed, step);
            held.push((step, plain_s3.clone()));
        }
        if step % 130 == 129 {
            let at = random.below(held.len() as u64) as usize;
            bed.tell(Command::Unpin { pin: held.remove(at).0 }).unwrap();
        }
        if !held.is_empty() && step % 4 == 0 {
            let (pin, past) = random.pick(&held);
            compare(&mut random, &bed, past, Some(*pin));
        }
    }
    compare(&mut random, &bed, &plain_s3, None);
}

#[test]
pub fn history_is_removed_when_no_snapshot_needs_it() {
    let mut bed = Bed::serving();
    let mut random = Random(3);
    let mut plain_s3 = Plain::default();
    for at in 0..300 {
        change(&mut random, &mut bed, &mut plain_s3, Versioning::Unversioned, &format!("{}", at % 60));
        if at == 100 {
            pin(&mut bed, 1);
        }
        if at == 200 {
            pin(&mut bed, 2);
        }
    }
    assert!(bed.info().history_rows > 60);
    bed.now_ms += HOUR_MS;
    let listing = Listing { pin: Some(1), ..bed.listing("", "") };
    assert_eq!(bed.page(listing, false).unwrap_err().code.as_str(), "SnapshotExpired");
    for _ in 0..200 {
        bed.put("x", Versioning::Unversioned, 1).unwrap();
    }
    assert_eq!((bed.info().history_rows, bed.info().pins.len()), (0, 0));
    assert!(bed.space.rows.keys().all(|key| key[0] != b'h'));
}

#[test]
pub fn an_idle_shard_is_swept_by_command() {
    let mut bed = Bed::serving();
    pin(&mut bed, 1);
    for at in 0..40 {
        bed.put(&format!("{at}"), Versioning::Unversioned, 1).unwrap();
    }
    bed.tell(Command::Unpin { pin: 1 }).unwrap();
    while let Reply::Dropped { more: true } = bed.tell(Command::Sweep { limit: 8 }).unwrap() {}
    assert!(bed.space.rows.keys().all(|key| key[0] != b'h'));
}

#[test]
pub fn writes_wait_between_the_halves_and_a_late_one_ends_the_snapshot() {
    let mut bed = Bed::serving();
    bed.put("a", Versioning::Unversioned, 1).unwrap();
    bed.tell(Command::PinPrepare { epoch: 1, pin: 9, freeze_ms: 100, keep_ms: HOUR_MS }).unwrap();
    let listing = Listing { pin: Some(9), ..bed.listing("", "") };
    assert_eq!(
        bed.page(listing.clone(), false).unwrap_err().code.as_str(),
        "SnapshotExpired",
        "half a snapshot is none"
    );
    let waits = bed.put("b", Versioning::Unversioned, 1).unwrap_err();
    assert!(waits.code.as_str() == "ShardFrozen" && waits.kind().retryable());
    bed.now_ms += 100;
    bed.put("b", Versioning::Unversioned, 1).unwrap();
    assert_eq!(bed.tell(Command::PinCommit { pin: 9 }).unwrap_err().code.as_str(), "SnapshotExpired");
    pin(&mut bed, 10);
    bed.put("c", Versioning::Unversioned, 1).unwrap();
    let listing = Listing { pin: Some(10), ..listing };
    assert_eq!(bed.page(listing, false).unwrap().0.len(), 2);
}

/// Its maker gave up, and its calls arrive in any order: only who prepares and is not taken back can stand.
#[test]
pub fn a_pin_that_is_late_for_its_release_never_stands() {
    let prepare = |pin| Command::PinPrepare { epoch: 1, pin, freeze_ms: 100, keep_ms: HOUR_MS };
    let mut bed = Bed::serving();
    bed.tell(prepare(1)).unwrap();
    bed.tell(Command::Unpin { pin: 1 }).unwrap();
    assert_eq!(bed.tell(Command::PinCommit { pin: 1 }).unwrap_err().code.as_str(), "SnapshotExpired");
    bed.put("a", Versioning::Unversioned, 1).unwrap();
    bed.tell(Command::Unpin { pin: 2 }).unwrap();
    bed.tell(prepare(2)).unwrap();
    bed.now_ms += 100;
    bed.put("a", Versioning::Unversioned, 2).unwrap();
    assert_eq!(bed.tell(Command::PinCommit { pin: 2 }).unwrap_err().code.as_str(), "SnapshotExpired");
    for pin in 3..PINS_MAX as u128 * 2 {
        bed.tell(Command::Unpin { pin }).unwrap();
        bed.tell(prepare(pin)).unwrap();
        bed.now_ms += 100; // Nobody writes, and places are free all the same.
    }
}

#[test]
pub fn snapshots_are_bounded_in_number() {
    let mut bed = Bed::serving();
    for at in 0..PINS_MAX as u128 {
        pin(&mut bed, at);
    }
    let one_more = Command::PinPrepare { epoch: 1, pin: 999, freeze_ms: 1, keep_ms: 1 };
    assert_eq!(bed.tell(one_more.clone()).unwrap_err().code.as_str(), "Overloaded");
    bed.tell(Command::Unpin { pin: 0 }).unwrap();
    // One that its maker leaves half made holds its place until its freeze is over, though nobody writes.
    bed.tell(Command::PinPrepare { epoch: 1, pin: 998, freeze_ms: 100, keep_ms: HOUR_MS }).unwrap();
    assert_eq!(bed.tell(one_more.clone()).unwrap_err().code.as_str(), "Overloaded");
    bed.now_ms += 100;
    bed.tell(one_more).unwrap();
}

/// A deleted key, a new one, one put over: the snapshot has the old, the bucket the new.
#[test]
pub fn each_kind_of_change_is_undone() {
    let mut bed = Bed::serving();
    for key in ["gone", "over", "same"] {
        bed.put(key, Versioning::Unversioned, 1).unwrap();
    }
    pin(&mut bed, 1);
    bed.delete("gone", Versioning::Unversioned, Version::Current).unwrap();
    bed.put("over", Versioning::Unversioned, 2).unwrap();
    bed.put("new", Versioning::Unversioned, 3).unwrap();
    let told = |pin| -> Vec<(String, u64)> {
        let items = bed.page(Listing { pin, ..bed.listing("", "") }, false).unwrap().0;
        items.into_iter().map(plain).map(|(key, kept)| (key, kept.unwrap().0.size)).collect()
    };
    let sized = |pairs: &[(&str, u64)]| pairs.iter().map(|(key, size)| (key.to_string(), *size)).collect::<Vec<_>>();
    assert_eq!(told(Some(1)), sized(&[("gone", 1), ("over", 1), ("same", 1)]));
    assert_eq!(told(None), sized(&[("new", 3), ("over", 2), ("same", 1)]));
    assert_eq!((bed.count("", Some(1)).bytes, bed.count("", None).bytes), (3, 6));
}

//! Shards that give up the keys behind all they have.

use super::bed::*;
use crate::shard::*;
use base_types::s3::Version;
use bytes::Bytes;

fn narrow(bed: &mut Bed) -> ShardInfo {
    let next = bed.epoch + 1;
    let Ok(Reply::Shard { info }) = bed.tell(Command::Narrow { epoch: bed.epoch, next }) else { panic!() };
    bed.epoch = next;
    info
}

fn end(info: &ShardInfo) -> Option<&[u8]> {
    info.range.end.as_deref()
}

#[test]
pub fn a_narrowed_shard_keeps_its_keys_and_takes_none_behind() {
    let mut bed = Bed::serving();
    for key in ["a", "b", "c"] {
        bed.put(key, Versioning::Unversioned, 1).unwrap();
    }
    let info = narrow(&mut bed);
    assert_eq!((end(&info), info.epoch, info.state), (Some(&b"c\0"[..]), 2, ShardState::Serving));
    assert_eq!(bed.page(bed.listing("", ""), false).unwrap().0.len(), 3);
    assert_eq!(bed.put("c\0", Versioning::Unversioned, 1).unwrap_err().code.as_str(), "WrongShard");
    bed.put("c", Versioning::Unversioned, 2).unwrap();
    let again = bed.tell(Command::Narrow { epoch: 1, next: 2 }).unwrap();
    assert_eq!(again, Reply::Shard { info: bed.info() }, "told again it changes nothing");
    bed.epoch = 1;
    assert_eq!(bed.put("a", Versioning::Unversioned, 1).unwrap_err().code.as_str(), "WrongShard");
    assert_eq!(bed.tell(Command::Narrow { epoch: 1, next: 3 }).unwrap_err().code.as_str(), "WrongShard");
}

#[test]
pub fn nothing_that_was_ever_written_lies_behind_the_cut() {
    let mut bed = Bed::serving();
    for key in ["a", "x"] {
        bed.put(key, Versioning::Unversioned, 1).unwrap();
    }
    bed.delete("x", Versioning::Unversioned, Version::Current).unwrap();
    // A completion that was refused leaves its token beside a key that is not there.
    let condition = Condition { if_match: Some(EtagTest::Any), ..Condition::default() };
    let step = PutStep { once: Some(1), condition, ..bed.put_step("y", Versioning::Unversioned, 1) };
    assert!(matches!(bed.tell(Command::Put { step }), Ok(Reply::PutRefused { .. })));
    assert_eq!(end(&narrow(&mut bed)), Some(&b"y\0"[..]));
}

#[test]
pub fn where_no_key_is_behind_only_the_epoch_is_another() {
    let longest = "z".repeat(1024);
    for (last, range) in [
        (None, Range::default()),
        (Some(&longest[..]), Range::default()),
        (Some("a"), Range { start: Bytes::new(), end: Some("a\0".into()) }),
    ] {
        let mut bed = Bed::blank();
        bed.tell(Command::Create { epoch: 1, range: range.clone() }).unwrap();
        if let Some(last) = last {
            bed.put(last, Versioning::Unversioned, 1).unwrap();
        }
        assert!(!bed.info().growth.narrows);
        let info = narrow(&mut bed);
        assert_eq!((info.range, info.epoch), (range, 2));
    }
}

#[test]
pub fn snapshots_outlive_a_narrowing_and_half_made_ones_do_not() {
    let mut bed = Bed::serving();
    for key in ["a", "b", "z"] {
        bed.put(key, Versioning::Unversioned, 1).unwrap();
    }
    bed.tell(Command::PinPrepare { epoch: 1, pin: 1, freeze_ms: 1000, keep_ms: 100_000 }).unwrap();
    bed.tell(Command::PinCommit { pin: 1 }).unwrap();
    bed.delete("z", Versioning::Unversioned, Version::Current).unwrap();
    bed.tell(Command::PinPrepare { epoch: 1, pin: 2, freeze_ms: 1000, keep_ms: 100_000 }).unwrap();
    narrow(&mut bed);
    assert_eq!(bed.tell(Command::PinCommit { pin: 2 }).unwrap_err().code.as_str(), "SnapshotExpired");
    bed.put("b", Versioning::Unversioned, 2).unwrap();
    narrow(&mut bed);
    let seen = |bed: &Bed, epoch| {
        let listing = Listing { pin: Some(1), epoch, ..bed.listing("", "") };
        bed.page(listing, false).map(|(items, _)| items.len()).map_err(|refusal| refusal.code.as_str())
    };
    assert_eq!(seen(&bed, 1), Ok(3), "as of the snapshot, by the map it knows");
    assert_eq!(seen(&bed, 3), Err("WrongShard"));
    assert_eq!(bed.count("", None).keys, 2);
}

#[test]
fn busy_shards_tell_where_their_writes_are() {
    let mut bed = Bed::serving();
    for at in 0..3_000u64 {
        bed.put(&format!("k{:03}", at * 7 % 300), Versioning::Unversioned, 1).unwrap();
        bed.now_ms += 10;
    }
    assert_eq!(bed.info().growth.writes_per_s, 100);
    let Ok(Reply::CutPoints { keys }) = bed.ask(Query::LoadCuts { epoch: 1, parts: 3 }) else { panic!() };
    assert_eq!(keys.len(), 2);
    assert!(keys[0] > "k050" && keys[0] < "k150" && keys[1] > "k150" && keys[1] < "k250", "{keys:?}");
    bed.tell(Command::Drop { epoch: 1, limit: 4096, force: true }).unwrap();
    assert_eq!(bed.space.rows.len(), 1);
}

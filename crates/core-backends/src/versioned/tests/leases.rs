//! Leases: what is attached, renewed, ended in steps.

use super::bed::*;
use crate::contract::ApplyContext;
use crate::versioned::*;
use base_types::codec::Encode;
use base_types::{BackendKind, Generation, LogIndex};
use bytes::Bytes;

fn granted(ttl_ms: u64) -> Bed {
    let mut bed = Bed { now_ms: 1_000, ..Bed::default() };
    assert_eq!(bed.tell(&Command::LeaseGrant { lease: 7, ttl_ms }), Ok(Reply::Granted { lease: 7, ttl_ms }));
    bed
}

fn ended(bed: &mut Bed, command: &Command) -> (Vec<u64>, u32, bool) {
    match bed.tell(command) {
        Ok(Reply::Ended { leases, keys, more, .. }) => (leases, keys, more),
        other => panic!("{other:?}"),
    }
}

#[test]
pub fn expired_lease_takes_its_keys_along_at_one_stamp() {
    let mut bed = granted(100);
    refused(bed.tell(&Command::LeaseGrant { lease: 7, ttl_ms: 5 }), "LeaseExists");
    bed.commit(vec![leased("a", "1", 7), leased("b", "1", 7), put("c", "1")]).unwrap();
    let expire = Command::LeaseExpire { limit: 10 };
    bed.now_ms += 99;
    assert_eq!(ended(&mut bed, &expire), (vec![], 0, false), "applying looks at the cluster's time");
    assert_eq!((bed.info().due, bed.info().due_ms), (false, 1_100));
    bed.now_ms += 1;
    assert!(bed.info().due);
    refused(bed.commit(vec![leased("d", "1", 7)]), "NoSuchLease");
    assert_eq!(bed.tell(&Command::LeaseKeepAlive { leases: vec![7, 8] }), Ok(Reply::Kept { ttls_ms: vec![0, 0] }));
    assert_eq!(ended(&mut bed, &expire), (vec![7], 2, false));
    assert_eq!((bed.seen(0).unwrap(), bed.info().stamp, bed.info().leases), ("c=1".into(), 2, 0));
    refused(bed.tell(&Command::LeaseRevoke { lease: 7, limit: 5 }), "NoSuchLease");
}

#[test]
pub fn renewed_lease_lives_its_time_from_then() {
    let mut bed = granted(100);
    bed.commit(vec![leased("a", "1", 7)]).unwrap();
    bed.now_ms += 60;
    assert_eq!(bed.tell(&Command::LeaseKeepAlive { leases: vec![7] }), Ok(Reply::Kept { ttls_ms: vec![100] }));
    bed.now_ms += 99;
    assert_eq!(ended(&mut bed, &Command::LeaseExpire { limit: 10 }), (vec![], 0, false));
    bed.now_ms += 1;
    assert_eq!(ended(&mut bed, &Command::LeaseExpire { limit: 10 }), (vec![7], 1, false));
}

#[test]
pub fn key_put_without_its_lease_outlives_it() {
    let mut bed = granted(100);
    bed.tell(&Command::LeaseGrant { lease: 8, ttl_ms: 500 }).unwrap();
    bed.commit(vec![leased("a", "1", 7), leased("b", "1", 7), leased("c", "1", 7)]).unwrap();
    bed.commit(vec![put("a", "2"), leased("b", "2", 8), delete(one("c"))]).unwrap();
    bed.commit(vec![put("c", "3")]).unwrap();
    assert_eq!(ended(&mut bed, &Command::LeaseRevoke { lease: 7, limit: 10 }), (vec![7], 0, false));
    assert_eq!(bed.seen(0).unwrap(), "a=2 b=2 c=3");
    assert_eq!(bed.info().stamp, 3, "nothing changed");
    assert_eq!(ended(&mut bed, &Command::LeaseRevoke { lease: 8, limit: 10 }), (vec![8], 1, false));
    assert_eq!(bed.seen(0).unwrap(), "a=2 c=3");
}

/// Between the steps of a lease that ends, a key of it may come again: it is not the lease's any more.
#[test]
pub fn key_of_an_ending_lease_is_deleted_once() {
    let mut bed = granted(100);
    for key in ["a", "b", "c", "d", "e"] {
        bed.commit(vec![leased(key, "1", 7)]).unwrap();
    }
    assert_eq!(ended(&mut bed, &Command::LeaseRevoke { lease: 7, limit: 2 }), (vec![], 2, true));
    assert!(bed.info().due, "what is ending is due");
    refused(bed.commit(vec![leased("a", "2", 7)]), "NoSuchLease");
    bed.commit(vec![put("a", "2")]).unwrap();
    let mut bed = bed.restored();
    assert_eq!(ended(&mut bed, &Command::LeaseExpire { limit: 2 }), (vec![], 2, true));
    assert_eq!(ended(&mut bed, &Command::LeaseExpire { limit: 2 }), (vec![7], 1, false));
    assert_eq!(bed.seen(0).unwrap(), "a=2");
    let deletes = bed.changes(Position::default(), 0).unwrap();
    let mut deleted: Vec<_> =
        deletes.iter().filter(|change| change.after.is_none()).map(|change| &change.key).collect();
    deleted.sort();
    assert_eq!(deleted, ["a", "b", "c", "d", "e"]);
}

#[test]
pub fn leases_are_listed_with_keys_and_time() {
    let mut bed = granted(100);
    bed.tell(&Command::LeaseGrant { lease: 9, ttl_ms: 1_000 }).unwrap();
    bed.commit(vec![leased("a", "1", 7), leased("b", "1", 7)]).unwrap();
    bed.now_ms += 30;
    let info = |lease, ttl_ms, left_ms| LeaseInfo { lease, ttl_ms, left_ms };
    let query = |keys_after, limit| Query::Lease { lease: 7, keys_after, limit };
    let told = |keys: &[&str], more| {
        Ok(Reply::Lease { lease: Some(info(7, 100, 70)), keys: keys.iter().map(|key| text(key)).collect(), more })
    };
    assert_eq!(bed.ask(&query(None, 1)), told(&["a"], true));
    assert_eq!(bed.ask(&query(Some(text("a")), 1)), told(&["b"], false));
    assert_eq!(bed.ask(&query(None, 0)), told(&[], false));
    let all = Reply::Leases { leases: vec![info(7, 100, 70), info(9, 1_000, 970)], more: false };
    assert_eq!(bed.ask(&Query::Leases { after: 0, limit: 9 }), Ok(all));
    let one = Reply::Leases { leases: vec![info(9, 1_000, 970)], more: false };
    assert_eq!(bed.ask(&Query::Leases { after: 7, limit: 9 }), Ok(one));
    assert_eq!(
        bed.ask(&Query::Lease { lease: 8, keys_after: None, limit: 1 }),
        Ok(Reply::Lease { lease: None, keys: vec![], more: false })
    );
}

/// What a new leader does with its space: the leases that it renews, in passes until one finds nothing.
fn taken_over(bed: &mut Bed, began_ms: u64, step_ms: u64) -> Vec<u64> {
    let (mut renewed, mut after, mut found) = (Vec::new(), Bytes::new(), false);
    for _ in 0..1_000 {
        let part = crate::table::takeover(BackendKind::Versioned, &bed.space, began_ms, bed.now_ms, &after).unwrap();
        let Some(part) = part else {
            if !std::mem::take(&mut found) {
                return renewed;
            }
            after = Bytes::new();
            continue;
        };
        after = part.next;
        if let Some(command) = part.command {
            found = true;
            let Command::LeaseKeepAlive { leases } = Command::from_bytes(command.clone()).unwrap() else { panic!() };
            assert!(leases.len() <= LEASES_A_COMMAND_MAX);
            bed.now_ms += step_ms;
            let at = ApplyContext { life: Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: bed.now_ms };
            crate::table::apply(BackendKind::Versioned, at, &mut bed.space, &command).unwrap();
            renewed.extend(leases);
        }
    }
    panic!("it does not end");
}

/// Leases 1, 2, … of these lives.
fn crowd(ttls_ms: impl Iterator<Item = u64>) -> Bed {
    let mut bed = Bed { now_ms: 1_000, ..Bed::default() };
    for (number, ttl_ms) in ttls_ms.enumerate() {
        let grant = Command::LeaseGrant { lease: number as u64 + 1, ttl_ms }.to_bytes();
        let at = ApplyContext { life: Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: bed.now_ms };
        crate::table::apply(BackendKind::Versioned, at, &mut bed.space, &grant).unwrap();
    }
    bed
}

#[test]
pub fn new_leader_renews_what_would_end_soon_once() {
    let mut bed = crowd([3_000, 9_000, 40_000, 12_000, 2_000].into_iter());
    bed.now_ms += 2_500;
    // The first has 500 ms left, the second 6.5 s of 9, the fourth 9.5 s of 12; the last is over.
    assert_eq!(taken_over(&mut bed, 3_500, 50), vec![1, 2, 4]);
    let ends = |bed: &Bed, number: u64| match bed.ask(&Query::Lease { lease: number, keys_after: None, limit: 0 }) {
        Ok(Reply::Lease { lease: Some(info), .. }) => bed.now_ms + info.left_ms,
        other => panic!("{other:?}"),
    };
    assert_eq!([1, 2, 4].map(|number| ends(&bed, number)), [6_550, 12_550, 15_550]);
    assert_eq!(ends(&bed, 3), 41_000);
    assert_eq!(taken_over(&mut bed, 3_500, 50), vec![], "a leader does so once");
    crate::table::check_invariants(BackendKind::Versioned, &bed.space).unwrap().unwrap();
}

#[test]
fn new_leader_renews_thousands_and_ends() {
    // Lives of 1 to 20 s in all orders: some are passed again after they were renewed, those of 20 s have time.
    let mut bed = crowd((0..9_000u64).map(|number| 1_000 + number * 7_919 % 19_000));
    bed.now_ms += 900;
    let mut renewed = taken_over(&mut bed, 1_900, 3);
    let count = renewed.len();
    renewed.sort_unstable();
    renewed.dedup();
    assert_eq!(count, renewed.len(), "none is renewed twice");
    let soon = |number: &u64| 1_000 + number * 7_919 % 19_000 < 900 + 10_000;
    assert_eq!(count, (0..9_000).filter(soon).count());
    assert_eq!(bed.info().leases, 9_000);
}

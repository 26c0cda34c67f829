//! Leases: what is attached, renewed, ended in steps.

use super::bed::*;
use crate::versioned::*;

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

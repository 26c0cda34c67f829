//! Transactions: comparisons, branches, nesting, what is refused.

use super::*;
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::request_op::Request as Op;
use pb::response_op::Response as Done;

fn op(op: Op) -> pb::RequestOp {
    pb::RequestOp { request: Some(op) }
}

fn puts(key: &str, value: &str) -> pb::RequestOp {
    op(Op::RequestPut(put(key, value)))
}

fn reads(key: &str) -> pb::RequestOp {
    op(Op::RequestRange(one(key)))
}

fn deletes(key: &str, range_end: &str) -> pb::RequestOp {
    op(Op::RequestDeleteRange(pb::DeleteRangeRequest { key: bytes(key), range_end: bytes(range_end), prev_kv: false }))
}

fn nested(success: Vec<pb::RequestOp>, failure: Vec<pb::RequestOp>) -> pb::RequestOp {
    op(Op::RequestTxn(pb::TxnRequest { compare: Vec::new(), success, failure }))
}

fn compare(key: &str, result: CompareResult, target: CompareTarget, union: TargetUnion) -> pb::Compare {
    pb::Compare {
        key: bytes(key),
        result: result as i32,
        target: target as i32,
        target_union: Some(union),
        range_end: Bytes::new(),
    }
}

async fn run(bed: &Bed, txn: pb::TxnRequest) -> Result<pb::TxnResponse, Status> {
    bed.kv().txn(txn).await.map(|response| response.into_inner())
}

async fn holds(bed: &Bed, compare: pb::Compare) -> bool {
    run(bed, pb::TxnRequest { compare: vec![compare], ..Default::default() }).await.unwrap().succeeded
}

#[tokio::test]
async fn every_target_is_compared() {
    use CompareResult::{Equal, Greater, Less, NotEqual};
    use CompareTarget::{Create, Lease, Mod, Value, Version};
    let bed = Bed::new();
    bed.put("a", "1").await;
    bed.put("a", "2").await;
    let cases = [
        (compare("a", Equal, Version, TargetUnion::Version(2)), true),
        (compare("a", Less, Version, TargetUnion::Version(2)), false),
        (compare("a", Greater, Version, TargetUnion::Version(-1)), true),
        (compare("a", Equal, Create, TargetUnion::CreateRevision(2)), true),
        (compare("a", NotEqual, Create, TargetUnion::CreateRevision(2)), false),
        (compare("a", Equal, Mod, TargetUnion::ModRevision(3)), true),
        (compare("a", Less, Mod, TargetUnion::ModRevision(4)), true),
        (compare("a", Greater, Mod, TargetUnion::ModRevision(1)), true),
        (compare("a", Equal, Value, TargetUnion::Value(bytes("2"))), true),
        (compare("a", Greater, Value, TargetUnion::Value(bytes("1"))), true),
        (compare("a", Equal, Lease, TargetUnion::Lease(0)), true),
        (compare("none", Equal, Create, TargetUnion::CreateRevision(0)), true),
        (compare("none", Less, Mod, TargetUnion::ModRevision(1)), true),
        (compare("none", Equal, Mod, TargetUnion::ModRevision(1)), false),
        (compare("none", NotEqual, Value, TargetUnion::Value(bytes("x"))), false),
        // A field of another target counts as zero.
        (compare("none", Equal, Version, TargetUnion::ModRevision(7)), true),
    ];
    for (compare, expected) in cases {
        assert_eq!(holds(&bed, compare.clone()).await, expected, "{compare:?}");
    }
    let range = pb::Compare { range_end: bytes("c"), ..compare("a", Greater, Create, TargetUnion::CreateRevision(0)) };
    assert!(holds(&bed, range.clone()).await);
    let none = pb::Compare { key: bytes("b"), ..range };
    assert!(!holds(&bed, none).await, "an empty range is compared as an absent key");
    let unknown = pb::Compare { result: 77, ..compare("a", Equal, Version, TargetUnion::Version(2)) };
    let txn = pb::TxnRequest { compare: vec![unknown], ..Default::default() };
    assert_eq!(run(&bed, txn).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn branches_see_their_own_writes() {
    let bed = Bed::new();
    bed.put("b", "old").await;
    let txn = pb::TxnRequest {
        compare: vec![compare("a", CompareResult::Equal, CompareTarget::Create, TargetUnion::CreateRevision(0))],
        success: vec![puts("a", "1"), reads("a"), deletes("b", ""), nested(vec![reads("b"), puts("c", "2")], vec![])],
        failure: vec![reads("a")],
    };
    let got = run(&bed, txn.clone()).await.unwrap();
    assert_eq!((got.succeeded, got.header.unwrap().revision, got.responses.len()), (true, 3, 4));
    let responses: Vec<_> = got.responses.into_iter().map(|response| response.response.unwrap()).collect();
    let [Done::ResponsePut(put), Done::ResponseRange(range), Done::ResponseDeleteRange(delete), Done::ResponseTxn(inner)] =
        &responses[..]
    else {
        panic!("{responses:?}")
    };
    assert_eq!(put.header.unwrap(), pb::ResponseHeader { revision: 3, ..Default::default() });
    assert_eq!((range.kvs[0].mod_revision, &range.kvs[0].value[..], range.count), (3, &b"1"[..], 1));
    assert_eq!(delete.deleted, 1);
    assert!(inner.succeeded && inner.responses.len() == 2);
    let Some(Done::ResponseRange(gone)) = &inner.responses[0].response else { panic!("{inner:?}") };
    assert_eq!(gone.count, 0);
    // Now the key is there: the other branch, and no new revision.
    let got = run(&bed, txn).await.unwrap();
    assert_eq!((got.succeeded, got.header.unwrap().revision, got.responses.len()), (false, 3, 1));
}

#[tokio::test]
async fn ranges_in_transactions_have_their_options() {
    let bed = Bed::new();
    for (key, value) in [("a", "2"), ("b", "1"), ("c", "3")] {
        bed.put(key, value).await;
    }
    let sorted = pb::RangeRequest {
        limit: 1,
        sort_target: pb::range_request::SortTarget::Value as i32,
        sort_order: pb::range_request::SortOrder::Descend as i32,
        ..all()
    };
    let cut = pb::RangeRequest { limit: 2, ..all() };
    let past = pb::RangeRequest { revision: 2, ..all() };
    let beginning = pb::RangeRequest { revision: 1, ..all() };
    let requests = [sorted, cut, past, beginning, pb::RangeRequest { count_only: true, ..all() }];
    let success = requests.into_iter().map(|request| op(Op::RequestRange(request))).collect();
    let got = run(&bed, pb::TxnRequest { success, ..Default::default() }).await.unwrap();
    let seen: Vec<_> = got
        .responses
        .iter()
        .map(|response| match &response.response {
            Some(Done::ResponseRange(range)) => (keys(range).concat(), range.more, range.count),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [("c", true, 3), ("ab", true, 3), ("a", false, 1), ("", false, 0), ("", false, 3)];
    assert_eq!(seen, expected.map(|(keys, more, count)| (keys.to_string(), more, count)));
    let future = op(Op::RequestRange(pb::RangeRequest { revision: 9, ..all() }));
    let txn = pb::TxnRequest { success: vec![puts("d", "1"), future], ..Default::default() };
    let text = "etcdserver: mvcc: required revision is a future revision";
    refused(run(&bed, txn).await, Code::OutOfRange, text);
    assert_eq!(bed.range(one("d")).await.unwrap().count, 0, "a refused transaction does nothing");
}

#[tokio::test]
async fn keys_may_change_once() {
    let bed = Bed::new();
    let twice = [
        vec![puts("a", "1"), puts("a", "2")],
        vec![puts("b", "1"), deletes("a", "c")],
        vec![deletes("a", "\0"), puts("z", "1")],
        vec![nested(vec![puts("a", "1")], vec![]), puts("a", "2")],
        vec![nested(vec![puts("a", "1")], vec![]), nested(vec![], vec![puts("a", "2")])],
        vec![nested(vec![deletes("a", "")], vec![puts("a", "2")])],
        vec![deletes("a", ""), nested(vec![puts("a", "1")], vec![])],
    ];
    for success in twice {
        for swapped in [false, true] {
            let (success, failure) = if swapped { (vec![], success.clone()) } else { (success.clone(), vec![]) };
            let txn = pb::TxnRequest { success, failure, ..Default::default() };
            let text = "etcdserver: duplicate key given in txn request";
            refused(run(&bed, txn).await, Code::InvalidArgument, text);
        }
    }
    let once = [
        vec![puts("a", "1"), puts("b", "2")],
        vec![nested(vec![puts("c", "1")], vec![puts("c", "2")])],
        vec![deletes("a", ""), deletes("a", "b")],
        vec![deletes("a", "c"), puts("c", "1")],
    ];
    for success in once {
        run(&bed, pb::TxnRequest { success, ..Default::default() }).await.unwrap();
    }
    // The two branches of the outermost transaction are never done both.
    let txn = pb::TxnRequest { success: vec![puts("a", "1")], failure: vec![puts("a", "2")], ..Default::default() };
    run(&bed, txn).await.unwrap();
}

#[tokio::test]
async fn shapes_that_are_refused() {
    let bed = Bed::new();
    let empty = "etcdserver: key is not provided";
    let many = "etcdserver: too many operations in txn request";
    let txn = |success| pb::TxnRequest { success, ..Default::default() };
    for bad in [puts("", "1"), reads(""), deletes("", "")] {
        refused(run(&bed, txn(vec![bad.clone()])).await, Code::InvalidArgument, empty);
        refused(run(&bed, txn(vec![nested(vec![], vec![bad])])).await, Code::InvalidArgument, empty);
    }
    let compare = vec![pb::Compare::default()];
    refused(run(&bed, pb::TxnRequest { compare, ..Default::default() }).await, Code::InvalidArgument, empty);
    let nothing = pb::RequestOp { request: None };
    refused(run(&bed, txn(vec![nothing])).await, Code::InvalidArgument, "etcdserver: key not found");
    let wide = (0..129).map(|number| puts(&format!("k{number}"), "")).collect();
    refused(run(&bed, txn(wide)).await, Code::InvalidArgument, many);
    run(&bed, txn((0..128).map(|number| puts(&format!("k{number}"), "")).collect())).await.unwrap();
    let mut deep = puts("deep", "1");
    for _ in 0..8 {
        deep = nested(vec![deep], vec![]);
    }
    refused(run(&bed, txn(vec![deep.clone()])).await, Code::InvalidArgument, many);
    let Some(Op::RequestTxn(inner)) = deep.request else { unreachable!() };
    run(&bed, inner).await.unwrap();
    let wrong = op(Op::RequestPut(pb::PutRequest { ignore_value: true, ..put("a", "v") }));
    refused(run(&bed, txn(vec![wrong])).await, Code::InvalidArgument, "etcdserver: value is provided");
}

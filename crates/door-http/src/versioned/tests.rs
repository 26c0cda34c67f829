use crate::{parse_request, write_response, Limits};
use base_types::action::{Action, ActionResult, Answer};
use base_types::versioned::*;
use base_types::{ErrorCode, Refusal};
use bytes::Bytes;

fn read(body: &str) -> Result<VersionedCall, Refusal> {
    match parse_request(Bytes::copy_from_slice(body.as_bytes()), &Limits::default()) {
        Ok(request) => match request.action {
            Action::Versioned { call, .. } => Ok(*call),
            other => panic!("{other:?}"),
        },
        Err(error) => Err(error.refusal),
    }
}

#[test]
fn a_transaction_is_read() {
    let body = r#"{"action":"KvTransaction","keyspace":"n",
        "conditions":[{"key":"a","version":3},{"prefix":"b","is":"<","modified":9},{"key":"c","exists":false}],
        "then":[{"op":"put","key":"a","value":"1","lease":7,"previous":true},{"op":"delete","start":"x","end":"y"}],
        "else":[{"op":"read","prefix":"a","limit":2},{"op":"transaction","then":[{"op":"delete","key":"z"}]}]}"#;
    let VersionedCall::Change(Command::Commit { transaction }) = read(body).unwrap() else { panic!() };
    let span = Span::Range { start: "b".into(), end: "c".into() };
    assert_eq!(
        transaction.conditions[1],
        Condition { span, check: Check::Modified { relation: Relation::Less, stamp: 9 } }
    );
    assert_eq!(transaction.conditions[2].check, Check::Version { relation: Relation::Equal, number: 0 });
    assert!(matches!(&transaction.then[0], Operation::Put(put) if put.lease == 7 && put.previous && put.value == "1"));
    assert!(matches!(&transaction.otherwise[1], Operation::Nested(inner) if inner.then.len() == 1));
}

#[test]
fn wrong_fields_are_named() {
    for (body, code, part) in [
        (r#"{"action":"KvTransaction","then":[{"op":"put","key":"a"}]}"#, ErrorCode::MissingField, "value"),
        (r#"{"action":"KvTransaction","then":[{"op":"puts","key":"a"}]}"#, ErrorCode::InvalidField, "then 0"),
        (r#"{"action":"KvTransaction","then":[{"op":"delete"}]}"#, ErrorCode::MissingField, "names no keys"),
        (r#"{"action":"KvTransaction","conditions":[{"key":"a"}]}"#, ErrorCode::InvalidField, "compares nothing"),
        (
            r#"{"action":"KvTransaction","conditions":[{"key":"a","is":"~","version":1}]}"#,
            ErrorCode::InvalidField,
            "'~'",
        ),
        (r#"{"action":"KvTransaction","conditions":[{"key":"a","versions":1}]}"#, ErrorCode::UnknownField, "versions"),
        (r#"{"action":"KvHistory","key":"a","prefix":"b"}"#, ErrorCode::InvalidField, "give one"),
        (r#"{"action":"KvHistory","since":"x"}"#, ErrorCode::InvalidField, "STAMP"),
        (r#"{"action":"KvLeaseGrant","lease":0,"ttl_ms":5}"#, ErrorCode::LimitOutOfRange, "lease"),
        (r#"{"action":"KvLeaseKeepAlive","leases":[]}"#, ErrorCode::LimitOutOfRange, "leases"),
        (r#"{"action":"KvScan","at":3,"reverse":true}"#, ErrorCode::InvalidField, "backwards"),
        (r#"{"action":"KvScan","pin":3}"#, ErrorCode::InvalidField, "give 'at' too"),
    ] {
        let refusal = read(body).unwrap_err();
        assert!(refusal.message.contains(part), "{body}: {refusal:?}");
        assert_eq!(refusal.code, code, "{body}: {refusal:?}");
    }
    let deep = (0..9).fold(String::from(r#"{"op":"delete","key":"k"}"#), |inner, _| {
        format!(r#"{{"op":"transaction","then":[{inner}]}}"#)
    });
    let refusal = read(&format!(r#"{{"action":"KvTransaction","then":[{deep}]}}"#)).unwrap_err();
    assert!(refusal.message.contains("deeper") || refusal.message.contains("levels"), "{refusal:?}");
}

#[test]
fn a_read_at_a_stamp_is_one_of_versions() {
    let VersionedCall::Ask(Query::Read { read: one, .. }) = read(r#"{"action":"KvGet","key":"k","at":5}"#).unwrap()
    else {
        panic!()
    };
    assert_eq!((one.span, one.at), (Span::One { key: "k".into() }, 5));
    let body = r#"{"action":"KvScan","prefix":"k","start_after":"k1","end":"k7","at":0,"limit":3}"#;
    let VersionedCall::Ask(Query::Read { read: many, .. }) = read(body).unwrap() else { panic!() };
    assert_eq!(many.span, Span::Range { start: "k1\0".into(), end: "k7".into() });
    assert_eq!((many.at, many.limit), (0, 3));
}

#[test]
fn a_scan_names_its_pin_and_the_least_stamp() {
    let call = read(r#"{"action":"KvScan","at":9,"pin":7,"modified_min":4}"#).unwrap();
    let VersionedCall::Ask(Query::Read { read: many, pin }) = call else { panic!() };
    assert_eq!((many.at, pin, many.filter.modified_min), (9, 7, 4));
}

#[test]
fn answers_are_json() {
    let row = Row { created: 2, modified: 4, version: 2, lease: 7, value: "v".into() };
    let pair = Pair { key: "k".into(), row: row.clone() };
    let page = Page { rows: vec![pair.clone()], next: Some("l".into()), count: 1, counted_to: None };
    let change = Change {
        at: Position { stamp: 4, sub: 1 },
        time_ms: 9,
        key: "k".into(),
        after: None,
        before: Some(row.clone()),
    };
    let results = vec![
        Outcome::Put { previous: Some(row) },
        Outcome::Deleted { count: 1, previous: vec![pair] },
        Outcome::Page(page.clone()),
        Outcome::Nested(Committed { succeeded: false, results: vec![] }),
    ];
    let text = |action: &str, reply: Reply| {
        let result = ActionResult::Versioned(Box::new(reply));
        let (status, body) = write_response(action, &Ok(Answer { result, at: None, level: None, cluster: None }));
        assert_eq!(status, 200);
        serde_json::from_slice::<serde_json::Value>(&body).unwrap()
    };
    let committed = Committed { succeeded: true, results };
    let json = text("KvTransaction", Reply::Committed { stamp: 4, changes: 2, committed });
    assert_eq!(json["results"][0]["previous"]["version"], 2);
    assert_eq!(json["results"][2]["next"], "k", "the next page starts after the last key");
    assert_eq!(json["results"][3]["succeeded"], false);
    let reached = Position::end_of(4);
    let json = text("KvHistory", Reply::Changes { changes: vec![change], reached, more: false });
    assert_eq!((&json["changes"][0]["at"], &json["reached"]), (&"4.1".into(), &"4".into()));
    assert_eq!(json["changes"][0]["deleted"], true);
    let json = text(super::ONE_KEY, Reply::Page { stamp: 4, page });
    assert_eq!((&json["found"], &json["modified"]), (&true.into(), &4.into()));
    assert_eq!(text(super::ONE_KEY, Reply::Page { stamp: 4, page: Page::default() })["found"], false);
}

use super::*;
use base_types::action::Failure;
use base_types::ErrorCode;

fn parse(method: &str, path: &str, query: &str, body: &'static [u8]) -> Result<Plain, HttpError> {
    parse_plain(method, path, query, Bytes::from_static(body))
}

fn put(key: &'static [u8], value: &'static [u8], keyspace: &str) -> Action {
    let target = KvTarget::Keyspace(keyspace.into());
    Action::KvPut { target, key: Bytes::from_static(key), value: Bytes::from_static(value) }
}

#[test]
fn bytes_are_exact() {
    let plain = parse("GET", "/put", "key=%00%FF+a%2B&value=%2fx&keyspace=users&consistency=hopeful", b"").unwrap();
    assert_eq!(plain.request.action, put(b"\x00\xff a+", b"/x", "users"));
    assert_eq!(plain.request.consistency, Some(WriteConsistency::Hopeful));
    let posted = parse("POST", "/put", "key=k", b"a=b&\xff").unwrap();
    assert_eq!(posted.request.action, put(b"k", b"a=b&\xff", "default"));
    let both = parse("POST", "/put", "key=k&value=q", b"body").unwrap();
    assert_eq!(both.request.action, put(b"k", b"q", "default"));
}

#[test]
fn reads_and_clean() {
    let get = parse("GET", "/get", "key=../x&strict=1&read_consistency=eventual&deadline_ms=7", b"").unwrap();
    assert!(get.strict);
    assert_eq!(get.request.deadline, Duration::from_millis(7));
    assert_eq!(get.request.read_consistency, Some(ReadConsistency::Eventual));
    let clean = parse("POST", "/clean", "", b"").unwrap();
    assert_eq!(clean.request.action, Action::DescribeKeyspace { keyspace: "default".into() });
}

#[test]
fn refusals_name_the_thing() {
    let cases: [(&str, &str, &str, u16, &str); 11] = [
        ("GET", "/nothing", "", 404, "NotFound"),
        ("PUT", "/put", "key=k&value=v", 405, "MethodNotAllowed"),
        ("GET", "/put", "key=k", 400, "MissingField"),
        ("GET", "/get", "", 400, "MissingField"),
        ("GET", "/get", "key=", 400, "EmptyKey"),
        ("GET", "/get", "key=%zz", 400, "InvalidRequest"),
        ("GET", "/get", "key=%f", 400, "InvalidRequest"),
        ("GET", "/get", "key=a&key=b", 400, "DuplicateField"),
        ("GET", "/get", "key=a&kee=b", 400, "UnknownField"),
        ("GET", "/get", "key=a&consistency=x", 400, "UnknownLevel"),
        ("GET", "/get", "key=a&deadline_ms=0", 400, "LimitOutOfRange"),
    ];
    for (method, path, query, status, code) in cases {
        let error = parse(method, path, query, b"").expect_err(query);
        assert_eq!((error.status, error.refusal.code.as_str()), (status, code), "{path}?{query}: {error}");
    }
    let long = "k".repeat(QUERY_BYTES_MAX + 1);
    assert_eq!(parse("GET", "/get", &long, b"").unwrap_err().status, 413);
}

#[test]
fn answers() {
    let value = |value: Option<&'static [u8]>| {
        Ok(Answer {
            result: ActionResult::Value { value: value.map(Bytes::from_static) },
            at: None,
            level: None,
            cluster: None,
        })
    };
    let done = Ok(Answer { result: ActionResult::Done, at: None, level: None, cluster: None });
    assert_eq!(write_plain(PlainRoute::Put, false, &done).0, 200);
    let (status, kind, body) = write_plain(PlainRoute::Get, true, &value(Some(b"\xff")));
    assert_eq!((status, kind, &body[..]), (200, "application/octet-stream", &b"\xff"[..]));
    assert_eq!(write_plain(PlainRoute::Get, false, &value(None)).0, 200);
    assert_eq!(write_plain(PlainRoute::Get, true, &value(None)).0, 404);
    let refused: Response = Err(Failure::from(Refusal::new(ErrorCode::OutcomeUnknown, "the leader went away")));
    let (status, kind, body) = write_plain(PlainRoute::Put, false, &refused);
    assert_eq!((status, kind), (504, "application/json"));
    let told: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (told["error"]["code"].as_str(), told["error"]["outcome"].as_str()),
        (Some("OutcomeUnknown"), Some("unknown"))
    );
}

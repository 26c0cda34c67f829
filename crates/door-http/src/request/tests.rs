//! Golden requests: testdata/requests.txt holds a body and what it is read as, for every action and
//! every refusal. `UPDATE_GOLDEN=1 cargo test -p door-http` writes the file anew.

use super::*;
use crate::error::write_error;
use base_types::{RequestIdKind, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use proptest::prelude::*;

fn read(body: &str) -> String {
    match parse_request(Bytes::copy_from_slice(body.as_bytes()), &Limits::default()) {
        Ok(request) => format!("{request:?}"),
        Err(error) => {
            let (status, body) = write_error(&error);
            format!("{status} {}", String::from_utf8(body).unwrap())
        }
    }
}

#[test]
fn golden_requests() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/requests.txt");
    let golden = std::fs::read_to_string(path).unwrap();
    let bodies: Vec<&str> = golden.lines().filter_map(|line| line.strip_prefix("> ")).collect();
    assert!(bodies.len() > 40, "the golden file lost its bodies");
    for (name, _) in ACTIONS {
        assert!(bodies.iter().any(|body| body.contains(&format!("\"{name}\""))), "no golden body for {name}");
    }
    let fresh: String = bodies.iter().map(|body| format!("> {body}\n< {}\n\n", read(body))).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &fresh).unwrap();
    }
    for (old, new) in golden.lines().zip(fresh.lines()) {
        assert_eq!(old, new, "a request is read differently; if that is meant: UPDATE_GOLDEN=1");
    }
}

/// A body with every field of an action but those that exclude each other.
fn full_body(name: &str, fields: &[&str]) -> String {
    let mut body = format!(
        r#"{{"action":"{name}","consistency":"strong","read_consistency":"eventual","deadline_ms":9,"request_id":"r""#
    );
    for field in fields.iter().filter(|field| !field.ends_with("_base64")) {
        if matches!(*field, "cluster" | "name") && fields.contains(&"keyspace") {
            continue;
        }
        // Of several ways to say which keys are meant one is given.
        if matches!(*field, "prefix" | "start" | "end") && ["KvHistory", "KvWatch"].contains(&name) {
            continue;
        }
        // Another action is read where a stamp is given.
        // These need `at`.
        if name == "KvScan" && ["pin", "modified_min"].contains(field) {
            continue;
        }
        if *field == "at" {
            continue;
        }
        let value = match *field {
            "cluster" | "name" => r#""metadata@x""#,
            "index" | "limit" | "node" | "survivor" | "from" | "to" | "partitions" | "clusters" => "7",
            "run" => r#""00000000000000ff""#,
            "after" => r#""1003.1.7""#,
            "lease" | "pin" | "stamp" | "ttl_ms" | "keep_ms" | "time_ms" => "7",
            "start_after" if name == "KvLeases" => "7",
            "leases" => "[7,8]",
            "since" => r#""4.1""#,
            "conditions" => r#"[{"key":"c","exists":true},{"prefix":"d","version":1}]"#,
            "then" => r#"[{"op":"put","key":"a","value":"v","previous":true},{"op":"delete","prefix":"b"}]"#,
            "else" => {
                r#"[{"op":"read","start":"a","end":"b"},{"op":"transaction","then":[{"op":"delete","key":"n"}]}]"#
            }
            "kind" => r#""plain""#,
            "reverse" | "keys_only" | "before" | "drained" => "true",
            "partition" => r#""range""#,
            "split_keys" | "command" => r#"["GET","k"]"#,
            "steps" => r#"[{"op":"delete","key":"k"}]"#,
            _ => r#""text""#,
        };
        body.push_str(&format!(",\"{field}\":{value}"));
    }
    body + "}"
}

/// A body of a call whose fields are those of a struct: what is missing or of another kind is put right until it is read.
fn found_body(name: &str) -> Option<Request> {
    const VALUES: [&str; 8] =
        [r#""text""#, "7", "true", r#"["kv/a"]"#, "[]", "{}", r#"[{"verbs":"read","on":"kv/a"}]"#, r#"[{"key":"k"}]"#];
    let mut fields: Vec<(String, usize, Option<String>)> = Vec::new();
    for _ in 0..200 {
        let value = |(field, at, word): &(String, usize, Option<String>)| {
            format!(r#","{field}":{}"#, word.as_deref().unwrap_or(VALUES[at % VALUES.len()]))
        };
        let body = format!(r#"{{"action":"{name}"{}}}"#, fields.iter().map(value).collect::<String>());
        let refusal = match parse_request(body.into(), &Limits::default()) {
            Ok(request) => return Some(request),
            Err(error) => error.refusal,
        };
        let field = refusal.message.split('\'').nth(1)?.to_string();
        let word =
            refusal.message.split_once("is not known; known are ").and_then(|(_, words)| words.split(", ").next());
        match fields.iter_mut().find(|(known, ..)| *known == field) {
            Some((_, at, known)) => (*at, *known) = (*at + 1, word.map(|word| format!("\"{word}\""))),
            None => fields.push((field, 0, None)),
        }
    }
    None
}

/// Every action and call says what it needs: testdata/needs.txt.
#[test]
fn golden_needs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/needs.txt");
    let read = |body: String| parse_request(body.into(), &Limits::default()).unwrap().action;
    let own = ACTIONS.iter().map(|(name, fields)| read(full_body(name, fields)));
    let calls = S3Action::NAMES.iter().chain(AccessAction::NAMES).filter(|name| **name != "CreateRoot");
    let mut fresh = String::new();
    let found: Vec<Request> = calls.clone().filter_map(|name| found_body(name)).collect();
    assert!(found.len() + 12 >= calls.count(), "only {} calls have a body", found.len());
    for action in own.chain(found.into_iter().map(|request| request.action)) {
        let mut needs = Vec::new();
        let all: Result<(), ()> = base_access::for_each_need(&action, &mut |need| {
            needs.push(format!("{} {}", need.verb.as_str(), need.target));
            Ok(())
        });
        all.unwrap();
        let name = action.name();
        assert!(!needs.is_empty() || ["WhoAmI", "DeleteObjects"].contains(&name), "{name} needs nothing");
        fresh.push_str(&format!("{name}: {}\n", needs.join(", ")));
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &fresh).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), fresh, "if that is meant: UPDATE_GOLDEN=1");
}

#[test]
fn the_table_of_actions_is_what_the_code_takes() {
    for (name, fields) in ACTIONS {
        let body = full_body(name, fields);
        let request =
            parse_request(body.clone().into(), &Limits::default()).unwrap_or_else(|error| panic!("{body}: {error}"));
        assert_eq!(request.action.name(), *name);
        let extra = body.replacen('{', r#"{"extra":1,"#, 1);
        let refused = parse_request(extra.into(), &Limits::default()).expect_err("an unknown field");
        assert_eq!(refused.refusal.code.as_str(), "UnknownField");
        for field in fields.iter().chain(COMMON) {
            assert!(refused.refusal.message.contains(field), "{name}: {}", refused.refusal.message);
        }
    }
}

#[test]
fn limits_are_kept() {
    let limits = Limits { body_bytes_max: 64 };
    assert_eq!(parse_request(Bytes::from(vec![b' '; 65]), &limits).unwrap_err().status, 413);
    let body = format!(r#"{{"action":"KvPut","key":"k","value":"{}"}}"#, "x".repeat(VALUE_BYTES_MAX + 1));
    let error = parse_request(body.into(), &Limits::default()).unwrap_err();
    assert_eq!((error.status, error.refusal.code.as_str()), (413, "ValueTooLarge"));
    for length in [KEY_BYTES_MAX, KEY_BYTES_MAX + 1] {
        let body = format!(r#"{{"action":"KvGet","key":"{}"}}"#, "k".repeat(length));
        assert_eq!(parse_request(body.into(), &Limits::default()).is_ok(), length == KEY_BYTES_MAX);
    }
}

#[test]
fn values_are_not_copied() {
    let body = Bytes::from(format!(r#"{{"action":"KvPut","key":"k","value":"{}"}}"#, "x".repeat(2048)));
    let range = body.as_ptr() as usize..body.as_ptr() as usize + body.len();
    let Action::KvPut { value, .. } = parse_request(body.clone(), &Limits::default()).unwrap().action else { panic!() };
    assert!(range.contains(&(value.as_ptr() as usize)), "the value must be a slice of the body");
}

#[test]
fn request_ids_are_hex_or_hashed() {
    assert_eq!(request_id("000000000000000000000000000000ff").unwrap(), RequestId(255));
    assert_ne!(request_id("a").unwrap(), request_id("b").unwrap());
    assert_eq!(request_id("a").unwrap(), request_id("a").unwrap());
    assert_eq!(request_id("ffffffffffffffffffffffffffffffff").unwrap().kind(), RequestIdKind::Opaque);
    let issued = request_id("after:1003.1.7:order-4711").unwrap();
    let RequestIdKind::Issued(after) = issued.kind() else { panic!("{issued:?}") };
    assert!(after.index == LogIndex(7) && after.is_of(ClusterId(1003), Generation(1)));
    assert_ne!(issued, request_id("after:1003.1.7:order-4712").unwrap());
    assert_ne!(issued, request_id("after:1003.1.8:order-4711").unwrap());
    for wrong in ["after:", "after:1003.1.7", "after:1003.1.7:", "after:1003.1:x", "after:1.2.3.4:x", "after:a.1.7:x"] {
        assert_eq!(request_id(wrong).unwrap_err().code.as_str(), "InvalidField", "{wrong}");
    }
    assert!(request_id("").is_err() && request_id(&"x".repeat(129)).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_survived(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzz(&body);
    }

    #[test]
    fn nearly_right_bodies_are_survived(at in 0usize..80, byte in any::<u8>(), action in 0usize..ACTIONS.len()) {
        let (name, fields) = ACTIONS[action];
        let mut body = full_body(name, fields).into_bytes();
        let at = at % body.len();
        body[at] = byte;
        crate::fuzz(&body);
    }

    #[test]
    fn bytes_travel_exactly(key in proptest::collection::vec(any::<u8>(), 1..64), value in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut body = br#"{"action":"KvPut","#.to_vec();
        json::write_bytes_field("key", &key, &mut body);
        body.push(b',');
        json::write_bytes_field("value", &value, &mut body);
        body.push(b'}');
        let request = parse_request(body.into(), &Limits::default()).unwrap();
        let target = KvTarget::Keyspace("default".into());
        prop_assert_eq!(request.action, Action::KvPut { target, key: key.into(), value: value.into() });
    }
}

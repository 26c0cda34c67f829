use super::*;
use crate::{parse_request, write_response, Limits};
use base_types::action::{Action, ActionResult, Answer, Request};
use base_types::s3::{
    BucketVersioning, Data, DeleteObjects, LifecycleRule, Locations, ObjectVersion, PutBucketLifecycleConfiguration,
    PutObject, S3ErrorCode,
};
use bytes::Bytes;
use std::time::Duration;

fn read(body: &str) -> Result<Request, Refusal> {
    let parsed = parse_request(Bytes::copy_from_slice(body.as_bytes()), &Limits::default());
    parsed.map_err(|error| error.refusal)
}

fn call(body: &str) -> S3Action {
    match read(body).unwrap_or_else(|refusal| panic!("{body}: {refusal}")).action {
        Action::S3(call) => call,
        other => panic!("{body}: read as {other:?}"),
    }
}

#[test]
fn a_put_is_read_with_its_bytes_and_the_common_fields() {
    let body = r#"{"action":"PutObject","bucket":"b","key":"é/\u0001","deadline_ms":7,"body_base64":"aGk=",
        "content_type":"text/plain","metadata":{"a":"b"},"checksum_crc32":"c","location":null,
        "tags":[{"key":"k","value":"v"}],"if_none_match":"*","acl":null}"#;
    assert_eq!(read(body).unwrap().deadline, Duration::from_millis(7));
    let S3Action::PutObject(put) = call(body) else { panic!("a put") };
    assert_eq!(put.data, Data::Inline(Bytes::from_static(b"hi")));
    assert_eq!((put.key.as_str(), put.headers.metadata["a"].as_str()), ("é/\u{1}", "b"));
    assert_eq!((put.tags[0].key.as_str(), put.conditions.if_none_match.as_deref()), ("k", Some("*")));
    assert_eq!((put.acl, put.checksums.crc32.as_deref()), (None, Some("c")));
    assert_eq!((put.size, put.etag.as_str()), (2, "49f68a5c8493ec2c0bf489821c21fc3b"));
}

#[test]
fn a_copy_has_conditions_on_both_sides() {
    let body = r#"{"action":"CopyObject","bucket":"b","key":"k","copy_source":{"bucket":"a","key":"s"},
        "copy_source_if_match":"e","if_none_match":"*"}"#;
    let S3Action::CopyObject(copy) = call(body) else { panic!("a copy") };
    assert_eq!(copy.copy_source_conditions.if_match.as_deref(), Some("e"));
    assert_eq!(copy.conditions.if_none_match.as_deref(), Some("*"));
}

#[test]
fn what_is_written_is_read_again() {
    let rule = LifecycleRule { enabled: true, ..LifecycleRule::default() };
    let data = Data::Location("ab/cd".into());
    let calls: Vec<S3Action> = vec![
        PutObject { bucket: "b".into(), key: "k".into(), data, etag: "e".into(), ..PutObject::default() }.into(),
        PutBucketLifecycleConfiguration { bucket: "b".into(), rules: vec![rule] }.into(),
        DeleteObjects { bucket: "b".into(), ..DeleteObjects::default() }.into(),
    ];
    for sent in calls {
        let mut body = format!(r#"{{"action":"{}","#, sent.name()).into_bytes();
        let mut fields = Vec::new();
        sent.write(&mut serde_json::Serializer::new(&mut fields)).unwrap();
        body.extend_from_slice(&fields[1..]);
        assert_eq!(call(std::str::from_utf8(&body).unwrap()), sent);
    }
}

#[test]
fn refusals_name_the_field_and_the_remedy() {
    let golden = [
        (r#"{"action":"GetObject","bucket":"b"}"#, "MissingField: action GetObject: needs the field 'key'; add it"),
        (
            r#"{"action":"HeadBucket","bucket":"b","buckets":1}"#,
            "UnknownField: action HeadBucket: there is no field 'buckets'; known are bucket",
        ),
        (
            r#"{"action":"HeadBucket","bucket":7}"#,
            "InvalidField: action HeadBucket: field 'bucket': is integer `7`; send a string",
        ),
        (
            r#"{"action":"PutBucketVersioning","bucket":"b","status":"On"}"#,
            "InvalidField: action PutBucketVersioning: field 'status': 'On' is not known; known are Enabled, Suspended",
        ),
        (
            r#"{"action":"PutObject","bucket":"b","key":"k","body_base64":"?"}"#,
            "InvalidField: action PutObject: field 'data': is no base64 (Invalid symbol 63, offset 0.); encode its bytes again",
        ),
        (
            r#"{"action":"PutObject","bucket":"b","key":"k","location":"x"}"#,
            "MissingField: action PutObject: needs the field 'etag' where the bytes are at a location; add it",
        ),
        (
            r#"{"action":"PutObject","bucket":"b","key":"k","body_base64":"aGk=","size":3}"#,
            "InvalidField: action PutObject: field 'size' is 3, but body_base64 has 2 bytes; correct it, or leave it out",
        ),
        (
            r#"{"action":"PutObject","bucket":"b","key":"k","body_base64":"","location":"x"}"#,
            "InvalidField: action PutObject: field 'data': is an object; send one of body_base64, location, parts",
        ),
        (
            r#"{"action":"UploadPart","bucket":"b","key":"k","upload_id":"u","part_number":-1,"size":1,"etag":""}"#,
            "InvalidField: action UploadPart: field 'part_number': is floating point `-1.0`; send a whole number",
        ),
    ];
    for (body, told) in golden {
        assert_eq!(read(body).expect_err(body).to_string(), told);
    }
    assert!(read(r#"{"action":"PutObjekt"}"#).expect_err("no such call").message.contains("did you mean 'PutObject'"));
}

#[test]
fn every_call_is_reached_by_its_name() {
    for name in S3Action::NAMES {
        let body = format!(r#"{{"action":"{name}","no_such_field":1}}"#);
        let refusal = read(&body).expect_err("an unknown field");
        assert!(matches!(refusal.code.as_str(), "UnknownField" | "MissingField"), "{name}: {refusal}");
    }
}

#[test]
fn a_call_on_a_bucket_says_whose_it_must_be() {
    for name in S3Action::NAMES {
        let refusal = read(&format!(r#"{{"action":"{name}"}}"#)).err().map_or(String::new(), |refusal| refusal.message);
        let on_bucket = refusal.contains("needs the field 'bucket'");
        let alone = ["CreateBucket", "DeleteBucket"].contains(name);
        assert_eq!(names_owner_beside(name), on_bucket && !alone, "{name}: {refusal}");
    }
    let request = read(r#"{"action":"GetObject","bucket":"b","key":"k","expected_bucket_owner":"ann"}"#).unwrap();
    assert_eq!(request.expected_bucket_owner.as_deref(), Some("ann"));
    let body = r#"{"action":"DeleteBucket","bucket":"b","expected_bucket_owner":"ann"}"#;
    let S3Action::DeleteBucket(removal) = call(body) else { panic!("a removal") };
    assert_eq!(
        (removal.expected_bucket_owner.as_deref(), read(body).unwrap().expected_bucket_owner),
        (Some("ann"), None)
    );
    let beside = r#"{"action":"ListBuckets","account":"ann","expected_bucket_owner":"ann"}"#;
    assert_eq!(read(beside).unwrap_err().code.as_str(), "UnknownField");
    let wrong = r#"{"action":"HeadBucket","bucket":"b","expected_bucket_owner":7}"#;
    assert_eq!(read(wrong).unwrap_err().code.as_str(), "InvalidField");
}

#[test]
fn answers_are_fields_of_the_envelope() {
    let write = |answer: S3Answer| {
        let answer = Answer { result: ActionResult::S3(answer), at: None, level: None, cluster: None };
        let (status, body) = write_response("X", &Ok(answer));
        assert_eq!(status, 200);
        String::from_utf8(body).unwrap()
    };
    assert_eq!(write(S3Answer::Done), r#"{"ok":true,"action":"X"}"#);
    assert_eq!(write(BucketVersioning { status: None }.into()), r#"{"ok":true,"status":null}"#);
    assert_eq!(write(Locations { locations: vec!["a".into()] }.into()), r#"{"ok":true,"locations":["a"]}"#);
    let version = ObjectVersion { data: Some(Data::Inline(Bytes::from_static(b"hi"))), ..ObjectVersion::default() };
    assert!(write(version.into()).ends_with(r#""body_base64":"aGk="}"#));
}

#[test]
fn an_s3_code_has_its_own_status() {
    for code in [S3ErrorCode::NotImplemented, S3ErrorCode::AccessDenied, S3ErrorCode::InvalidRange] {
        let refusal: Refusal = code.into();
        assert_eq!(crate::status_of(&refusal), code.status());
    }
}

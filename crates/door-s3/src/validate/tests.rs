use super::*;
use base_types::s3::{LifecycleFilter, NoncurrentExpiration, RetentionMode};

fn code(checked: Checked) -> &'static str {
    checked.map_or_else(|refusal| refusal.code.as_str(), |()| "")
}

#[test]
fn bucket_names() {
    let long = "a".repeat(64);
    let good = ["abc", "a-b.c", "my.bucket.2", "0ab", &long[..63]];
    let bad = [
        "",
        "ab",
        &long,
        "Abc",
        "a_b",
        "-ab",
        "ab-",
        ".ab",
        "ab.",
        "a..b",
        "192.168.0.1",
        "xn--abc",
        "sthree-a",
        "x-s3alias",
        "a b",
        "ü-bucket",
    ];
    for name in good {
        assert!(is_bucket_name(name), "{name}");
    }
    for name in bad {
        assert_eq!(code(bucket_name(name)), "InvalidBucketName", "{name}");
    }
}

#[test]
fn keys() {
    assert_eq!(code(key("")), "InvalidArgument");
    assert_eq!(code(key(&"k".repeat(1024))), "");
    assert_eq!(code(key(&"é".repeat(513))), "KeyTooLongError");
    assert_eq!(code(key("a/../b\u{0}")), "");
}

#[test]
fn part_numbers_and_orders() {
    for (number, legal) in [(i32::MIN, false), (-1, false), (0, false), (1, true), (10_000, true), (10_001, false)] {
        assert_eq!(part_number(number).is_ok(), legal, "{number}");
    }
    let parts = |numbers: &[u32]| {
        let part = |number: &u32| CompletedPart { part_number: *number, ..CompletedPart::default() };
        numbers.iter().map(part).collect::<Vec<_>>()
    };
    assert_eq!(code(completed_parts(&parts(&[1, 2, 9]))), "");
    assert_eq!(code(completed_parts(&parts(&[]))), "MalformedXML");
    assert_eq!(code(completed_parts(&parts(&[2, 1]))), "InvalidPartOrder");
    assert_eq!(code(completed_parts(&parts(&[1, 1]))), "InvalidPartOrder");
    let too_many: Vec<u32> = (1..=10_001).collect();
    assert_eq!(code(completed_parts(&parts(&too_many))), "MalformedXML");
}

#[test]
fn tags() {
    let tag = |key: &str, value: &str| Tag { key: key.into(), value: value.into() };
    assert_eq!(code(object_tags(&[tag("a", ""), tag("b c", "ü+-=._:/@")])), "");
    assert_eq!(code(object_tags(&[tag("a", "1"), tag("a", "2")])), "InvalidTag");
    assert_eq!(code(object_tags(&[tag("", "1")])), "InvalidTag");
    assert_eq!(code(object_tags(&[tag("a", "<")])), "InvalidTag");
    assert_eq!(code(object_tags(&[tag(&"k".repeat(129), "")])), "InvalidTag");
    assert_eq!(code(object_tags(&[tag("k", &"v".repeat(257))])), "InvalidTag");
    assert_eq!(code(object_tags(&[tag("aws:k", "v")])), "InvalidTag");
    let many: Vec<Tag> = (0..11).map(|at| tag(&format!("k{at}"), "")).collect();
    assert_eq!(code(object_tags(&many)), "InvalidTag");
    assert_eq!(code(bucket_tags(&many)), "");
    assert_eq!(tagging_header("a=1&b%20c=%C3%BC&d").unwrap(), vec![tag("a", "1"), tag("b c", "ü"), tag("d", "")]);
    assert_eq!(tagging_header("a=%zz").unwrap_err().code.as_str(), "InvalidArgument");
}

#[test]
fn stored_headers() {
    let mut sent = ObjectHeaders::default();
    assert_eq!(code(headers(&sent)), "");
    sent.metadata.insert("a".repeat(1024), "b".repeat(1024));
    assert_eq!(code(headers(&sent)), "");
    sent.metadata.insert("c".into(), String::new());
    assert_eq!(code(headers(&sent)), "MetadataTooLarge");
    let glacier = ObjectHeaders { storage_class: Some("GLACIER".into()), ..ObjectHeaders::default() };
    assert_eq!(code(headers(&glacier)), "InvalidStorageClass");
    for (algorithm, expected) in
        [("AES256", "NotImplemented"), ("aws:kms", "NotImplemented"), ("ROT13", "InvalidArgument")]
    {
        let encrypted = ObjectHeaders { server_side_encryption: Some(algorithm.into()), ..ObjectHeaders::default() };
        assert_eq!(code(headers(&encrypted)), expected);
    }
}

#[test]
fn cors_rules() {
    let rule = CorsRule {
        allowed_methods: vec!["GET".into()],
        allowed_origins: vec!["https://*.example".into()],
        ..CorsRule::default()
    };
    assert_eq!(code(cors(std::slice::from_ref(&rule))), "");
    assert_eq!(code(cors(&[])), "MalformedXML");
    assert_eq!(code(cors(&vec![rule.clone(); 101])), "MalformedXML");
    let with = |change: &dyn Fn(&mut CorsRule)| {
        let mut rule = rule.clone();
        change(&mut rule);
        code(cors(&[rule]))
    };
    assert_eq!(with(&|rule| rule.allowed_methods = vec!["PATCH".into()]), "InvalidRequest");
    assert_eq!(with(&|rule| rule.allowed_methods.clear()), "MalformedXML");
    assert_eq!(with(&|rule| rule.allowed_origins = vec!["*.*".into()]), "InvalidRequest");
    assert_eq!(with(&|rule| rule.expose_headers = vec!["x-*".into()]), "InvalidRequest");
    assert_eq!(with(&|rule| rule.id = Some("i".repeat(256))), "InvalidArgument");
}

#[test]
fn lifecycle_rules() {
    let expire = |days| Some(Expiration { days: Some(days), ..Expiration::default() });
    let rule = LifecycleRule { enabled: true, expiration: expire(1), ..LifecycleRule::default() };
    assert_eq!(code(lifecycle(std::slice::from_ref(&rule))), "");
    assert_eq!(code(lifecycle(&[])), "MalformedXML");
    let with = |change: &dyn Fn(&mut LifecycleRule)| {
        let mut rule = rule.clone();
        change(&mut rule);
        code(lifecycle(&[rule]))
    };
    assert_eq!(with(&|rule| rule.expiration = expire(0)), "InvalidArgument");
    assert_eq!(with(&|rule| rule.expiration = None), "InvalidRequest");
    assert_eq!(with(&|rule| rule.expiration = Some(Expiration::default())), "MalformedXML");
    let date = |date_ms| Some(Expiration { date_ms: Some(date_ms), ..Expiration::default() });
    assert_eq!(with(&|rule| rule.expiration = date(DAY_MS * 20_000)), "");
    assert_eq!(with(&|rule| rule.expiration = date(DAY_MS + 1)), "InvalidArgument");
    assert_eq!(with(&|rule| rule.abort_incomplete_multipart_upload_days = Some(0)), "InvalidArgument");
    let noncurrent = NoncurrentExpiration { noncurrent_days: 0, newer_noncurrent_versions: None };
    assert_eq!(with(&|rule| rule.noncurrent_version_expiration = Some(noncurrent.clone())), "InvalidArgument");
    let sizes = LifecycleFilter {
        object_size_greater_than: Some(5),
        object_size_less_than: Some(6),
        ..LifecycleFilter::default()
    };
    assert_eq!(with(&|rule| rule.filter = sizes.clone()), "InvalidRequest");
    let named = LifecycleRule { id: Some("x".into()), ..rule.clone() };
    assert_eq!(code(lifecycle(&[named.clone(), named])), "InvalidArgument");
}

#[test]
fn object_locks() {
    let lock = |days, years| ObjectLockConfiguration {
        enabled: true,
        default_retention: Some(DefaultRetention { mode: RetentionMode::Governance, days, years }),
    };
    assert_eq!(code(object_lock(&lock(Some(1), None))), "");
    assert_eq!(code(object_lock(&lock(Some(1), Some(1)))), "MalformedXML");
    assert_eq!(code(object_lock(&lock(None, None))), "MalformedXML");
    assert_eq!(code(object_lock(&lock(Some(0), None))), "InvalidArgument");
    assert_eq!(code(object_lock(&lock(None, Some(101)))), "InvalidArgument");
    assert_eq!(code(object_lock(&ObjectLockConfiguration::default())), "MalformedXML");
}

#[test]
fn accounts() {
    assert_eq!(code(account("demo")), "");
    assert_eq!(code(account("a b")), "InvalidArgument");
    assert_eq!(code(account("")), "InvalidArgument");
}

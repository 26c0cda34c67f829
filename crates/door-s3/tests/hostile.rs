//! Texts that come from clients, in any shape: read or refused, never a panic, never slow.

use door_s3::access::{acl, Policy};
use door_s3::validate;
use proptest::prelude::*;

/// Pieces that are nearly a policy.
fn nearly_a_policy() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        r#"{"Version":"2012-10-17","Statement":["#,
        r#"{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::b/*""#,
        r#","Condition":{"StringLike":{"s3:prefix":["a*","b?"]}}"#,
        r#","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#,
        r#","NotPrincipal":{"AWS":["x"]}"#,
        "}",
        "]",
        ",",
        "null",
        "\u{0}",
        "é",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn policies(text in prop_oneof![".{0,300}", nearly_a_policy()]) {
        if let Err(refusal) = Policy::parse(&text, "b") {
            prop_assert_eq!(refusal.code.as_str(), "MalformedPolicy");
        }
    }

    #[test]
    fn names_and_headers(text in ".{0,200}") {
        let _ = validate::bucket_name(&text);
        let _ = validate::key(&text);
        let _ = validate::tagging_header(&text);
        let _ = validate::percent_decoded(&text);
        let _ = acl::grants(&text, base_types::s3::Permission::Read);
    }

    #[test]
    fn percent_encoding_comes_back(key in ".{1,100}") {
        prop_assert_eq!(validate::percent_decoded(&base_types::s3::encode_url(&key)), Some(key));
    }
}

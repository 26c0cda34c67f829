use super::*;
use crate::codec::Encode;
use crate::{ErrorCode, Refusal};
use alloc::string::ToString;
use alloc::vec;

#[test]
fn every_code_is_found_again_by_its_spelling() {
    for code in S3ErrorCode::ALL {
        assert_eq!(S3ErrorCode::from_name(code.name()), Some(*code));
        let refusal = Refusal::from(*code);
        assert_eq!(refusal.code.s3(), Some(*code));
        assert_eq!((refusal.code.as_str(), refusal.code.status()), (code.name(), code.status()));
        assert_eq!((refusal.kind(), ErrorCode::from(*code)), (code.kind(), refusal.code));
        assert_eq!(Refusal::from_bytes(refusal.to_bytes()), Ok(refusal), "a peer's refusal keeps its S3 code");
        assert!((300..600).contains(&code.status()), "{}", code.name());
        assert!(!code.message().ends_with('.'));
    }
    let refusal: Refusal = S3ErrorCode::NoSuchKey.into();
    assert_eq!(refusal.to_string(), "NoSuchKey: The specified key does not exist");
}

#[test]
fn keys_are_encoded_as_aws_does() {
    assert_eq!(encode_url("a b/c+d&ü~*\n"), "a%20b/c%2Bd%26%C3%BC~*%0A");
}

#[test]
fn an_answer_of_another_kind_is_given_back() {
    let page: Result<ObjectPage, S3Answer> = S3Answer::Done.try_into();
    assert_eq!(page, Err(S3Answer::Done));
    let page: Result<ObjectPage, S3Answer> = S3Answer::from(ObjectPage::default()).try_into();
    assert_eq!(page, Ok(ObjectPage::default()));
}

#[test]
fn data_names_all_its_places() {
    let part = |location: &str| PartData {
        part_number: 1,
        size: 1,
        etag: "e".into(),
        checksums: Checksums::default(),
        data: Data::Location(location.into()),
    };
    assert_eq!(Data::Parts(vec![part("a"), part("b")]).locations(), vec!["a", "b"]);
    assert!(Data::default().locations().is_empty());
}

#[test]
fn the_table_of_actions_has_no_name_twice() {
    let mut names = S3Action::NAMES.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), S3Action::NAMES.len());
    assert!(S3Action::from(GetObject::default()).read_only());
    assert!(!S3Action::from(PutObject::default()).read_only());
}

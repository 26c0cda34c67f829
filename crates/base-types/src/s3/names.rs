//! Names of buckets and keys as S3 takes them.

use super::S3ErrorCode;
use crate::{ErrorCode, Refusal, KEY_BYTES_MAX};
use alloc::format;

/// Refuses a text that is no name for a new bucket (S3 user guide, "Bucket naming rules").
pub fn check_bucket_name(name: &str) -> Result<(), Refusal> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let ends = bytes.first().copied().is_some_and(plain) && bytes.last().copied().is_some_and(plain);
    let address = name.split('.').count() == 4 && name.split('.').all(|part| part.parse::<u8>().is_ok());
    let reserved = ["xn--", "sthree-", "amzn-s3-demo-"].iter().any(|start| name.starts_with(start))
        || ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"].iter().any(|end| name.ends_with(end));
    let why = if !(3..=63).contains(&bytes.len()) {
        "it must have 3 to 63 characters"
    } else if !bytes.iter().all(|byte| plain(*byte) || matches!(byte, b'-' | b'.')) {
        "only lower case letters, digits, '-' and '.' are taken"
    } else if !ends {
        "it must begin and end with a letter or digit"
    } else if name.contains("..") {
        "two dots may not stand side by side"
    } else if address {
        "it looks like an address"
    } else if reserved {
        "its beginning or end is reserved"
    } else {
        return Ok(());
    };
    Err(S3ErrorCode::InvalidBucketName.because(format!("'{name}' is no bucket name: {why}")))
}

/// Refuses bytes that are no object key: 1 to 1024 bytes of UTF-8.
pub fn check_key(key: &[u8]) -> Result<(), Refusal> {
    if key.is_empty() {
        return Err(Refusal::new(ErrorCode::EmptyKey, "the key is empty; a key has at least one byte"));
    }
    if key.len() > KEY_BYTES_MAX {
        let message = format!("the key is {} bytes long; at most {KEY_BYTES_MAX} are taken", key.len());
        return Err(S3ErrorCode::KeyTooLongError.because(message));
    }
    if core::str::from_utf8(key).is_err() {
        return Err(S3ErrorCode::InvalidURI.because("the key is not UTF-8; S3 keys are Unicode"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_names_as_the_user_guide_has_them() {
        for name in ["abc", "docexamplebucket1", "log-delivery-march-2020", "my.bucket.name", "1.2.3", "a-1"] {
            assert!(check_bucket_name(name).is_ok(), "{name}");
        }
        for name in ["ab", "Doc", "doc_example", "-abc", "abc-", "a..b", "192.168.5.4", "xn--abc", "abc-s3alias", "é12"]
        {
            assert_eq!(check_bucket_name(name).unwrap_err().code.as_str(), "InvalidBucketName", "{name}");
        }
        assert!(check_bucket_name(&"a".repeat(63)).is_ok());
        assert!(check_bucket_name(&"a".repeat(64)).is_err());
    }

    #[test]
    fn keys_are_unicode_of_1024_bytes() {
        assert!(check_key("a\0\u{1}é".as_bytes()).is_ok());
        assert!(check_key(&[b'x'; 1024]).is_ok());
        assert_eq!(check_key(&[b'x'; 1025]).unwrap_err().code.as_str(), "KeyTooLongError");
        assert_eq!(check_key(&[]).unwrap_err().code.as_str(), "EmptyKey");
        assert_eq!(check_key(&[0xff]).unwrap_err().code.as_str(), "InvalidURI");
    }
}

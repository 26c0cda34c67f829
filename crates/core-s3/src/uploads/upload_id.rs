//! Upload ids: an upload's number, and a check that distinguishes a mistyped or foreign one from one that has ended.
//!
//! Always: ids of one bucket sort as their uploads began.
//! Held by: `ids_come_back_in_their_own_bucket`, `uploads_are_listed_by_key_and_then_by_age`.

/// Sixteen digits of the number, eight of the check.
const NUMBER_DIGITS: usize = 16;
const ID_DIGITS: usize = NUMBER_DIGITS + 8;

fn check_of(bucket: u128, upload: u64) -> u32 {
    let bytes = [&bucket.to_le_bytes()[..], &upload.to_le_bytes()].concat();
    xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, 0x7570_6c6f) as u32
}

/// The id clients see.
pub(crate) fn text(bucket: u128, upload: u64) -> String {
    format!("{upload:016x}{:08x}", check_of(bucket, upload))
}

/// From what a client gave; `None`: no upload of this bucket was ever called so.
pub(crate) fn parse(bucket: u128, id: &str) -> Option<u64> {
    let sound = id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let upload = u64::from_str_radix(id.get(..NUMBER_DIGITS).filter(|_| sound)?, 16).ok()?;
    (text(bucket, upload) == id).then_some(upload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_in_their_own_bucket() {
        for upload in [1, 77, u64::MAX] {
            let id = text(5, upload);
            assert_eq!((parse(5, &id), parse(6, &id)), (Some(upload), None));
            assert_eq!(parse(5, &id.to_uppercase()).is_some(), id.to_uppercase() == id);
        }
        for id in ["", "x", "+00000000000000100000000", "é0000000000000000000000", &"0".repeat(24)] {
            assert_eq!(parse(5, id), None, "{id}");
        }
        assert!(text(5, 1) < text(5, 2));
    }
}

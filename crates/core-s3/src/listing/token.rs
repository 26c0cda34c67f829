//! Continuation tokens: where a listing continues. They are sealed, so that only the bucket can have made one.
//!
//! ```text
//!   base64url( 1 · kind (1) · pin (16, zero: none) · text · seal (16) )       text of kind 3: length (1) · version · key
//!   seal = SipHash-2-4-128(bucket's secret, bucket id · length and bytes of each: call, prefix, delimiter, the rest above)
//! ```
//!
//! Always: a token names a place among keys, never a shard, so it survives splits, merges and failovers; one of
//! another bucket, prefix, delimiter or call is refused as one that was made up.
//! A marker may be one too, where the walk reads a snapshot: nothing else could carry the snapshot on.
//! Held by: `tokens_survive_splits_and_fit_no_other_listing`, `tokens_that_were_made_up_are_refused`.
//! Not here: markers of listings that clients make themselves.

use crate::state::cache::Bucket;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine as _;
use base_types::mutant::{planted, Mutant};
use base_types::s3::{S3ErrorCode, KEY_BYTES_MAX};
use base_types::Refusal;
use core::hash::Hasher as _;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The form's number.
const VERSION: u8 = 1;
const SEAL_BYTES: usize = 16;
/// Form, kind and pin.
const HEAD_BYTES: usize = 18;
/// The longest version id, and its length.
const VERSION_BYTES_MAX: usize = 1 + 20;
/// No token is longer.
const TOKEN_BYTES_MAX: usize = HEAD_BYTES + VERSION_BYTES_MAX + KEY_BYTES_MAX + SEAL_BYTES;
/// And none has more letters.
const TOKEN_TEXT_MAX: usize = TOKEN_BYTES_MAX.div_ceil(3) * 4;

/// Where a listing continues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Behind {
    Key(String),
    /// Everything below a common prefix.
    Prefix(String),
    /// This version of a key; older ones are still to come.
    Version {
        key: String,
        version: String,
    },
}

impl Behind {
    /// Its key or prefix.
    pub(crate) fn key(&self) -> &str {
        self.form().2
    }

    /// Its kind, and what stands before its key.
    fn form(&self) -> (u8, &str, &str) {
        match self {
            Behind::Key(key) => (1, "", key),
            Behind::Prefix(prefix) => (2, "", prefix),
            Behind::Version { key, version } => (3, version, key),
        }
    }

    fn read(kind: u8, bytes: &[u8]) -> Option<Behind> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        match kind {
            1 => text(bytes).map(Behind::Key),
            2 => text(bytes).map(Behind::Prefix),
            3 => {
                let (length, bytes) = bytes.split_first()?;
                let (version, key) = bytes.split_at_checked(usize::from(*length))?;
                Some(Behind::Version { key: text(key)?, version: text(version)? })
            }
            _ => None,
        }
    }
}

/// What a token says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub behind: Behind,
    /// The snapshot that the walk reads.
    pub pin: Option<u128>,
}

/// What a token is bound to beside the bucket.
pub(crate) struct Bound<'a> {
    pub call: &'static str,
    pub prefix: &'a str,
    pub delimiter: &'a str,
}

fn seal(bucket: &Bucket, bound: &Bound<'_>, bytes: &[u8]) -> [u8; SEAL_BYTES] {
    let (one, two) = bucket.record.token_secret;
    let mut hasher = SipHasher24::new_with_keys(one, two);
    hasher.write(&bucket.id.to_le_bytes());
    for part in [bound.call.as_bytes(), bound.prefix.as_bytes(), bound.delimiter.as_bytes(), bytes] {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish128().as_bytes()
}

/// The text of a token.
pub(crate) fn write(bucket: &Bucket, bound: &Bound<'_>, token: &Token) -> String {
    let (kind, version, key) = token.behind.form();
    let mut bytes = vec![VERSION, kind];
    bytes.extend_from_slice(&token.pin.unwrap_or(0).to_le_bytes());
    if let Behind::Version { .. } = token.behind {
        assert!(version.len() < VERSION_BYTES_MAX, "a version id has at most twenty digits and letters");
        bytes.push(version.len() as u8);
        bytes.extend_from_slice(version.as_bytes());
    }
    bytes.extend_from_slice(key.as_bytes());
    let seal = seal(bucket, bound, &bytes);
    bytes.extend_from_slice(&seal);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What a token says, if this bucket made it for this listing.
pub(crate) fn read(bucket: &Bucket, bound: &Bound<'_>, text: &str) -> Result<Token, Refusal> {
    open(bucket, bound, text)
        .ok_or_else(|| S3ErrorCode::InvalidArgument.because("The continuation token provided is incorrect"))
}

/// What a text says, if it is a token that this bucket made for this listing.
pub(crate) fn open(bucket: &Bucket, bound: &Bound<'_>, text: &str) -> Option<Token> {
    if text.len() > TOKEN_TEXT_MAX {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (bytes, found) = bytes.split_at_checked(bytes.len().checked_sub(SEAL_BYTES)?)?;
    if !same(&seal(bucket, bound, bytes), found) {
        return None;
    }
    let (head, text) = bytes.split_at_checked(HEAD_BYTES)?;
    let behind = Behind::read(head[1], text).filter(|_| head[0] == VERSION)?;
    let pin = u128::from_le_bytes(head[2..].try_into().ok()?);
    Some(Token { behind, pin: (pin != 0 && !planted(Mutant::TokenForgetsPin)).then_some(pin) })
}

/// In a time that does not tell how much is the same.
fn same(one: &[u8; SEAL_BYTES], two: &[u8]) -> bool {
    one.len() == two.len() && one.iter().zip(two).fold(0, |all, (one, two)| all | (one ^ two)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::BucketRecord;
    use base_types::s3::{VersionStamp, NULL_VERSION};
    use base_types::Tick;
    use bytes::Bytes;

    fn bucket(id: u128, secret: (u64, u64)) -> Bucket {
        let record = BucketRecord { token_secret: secret, ..BucketRecord::default() };
        Bucket { id, record, body: Bytes::new(), read_at: Tick(0) }
    }

    const BOUND: Bound<'static> = Bound { call: "ListObjectsV2", prefix: "a/", delimiter: "/" };

    #[test]
    fn tokens_come_back_to_their_own_bucket_and_listing_only() {
        let own = bucket(7, (1, 2));
        let token = Token { behind: Behind::Prefix("a/é/".into()), pin: Some(9) };
        let text = write(&own, &BOUND, &token);
        assert_eq!(read(&own, &BOUND, &text).unwrap(), token);
        let others = [
            (bucket(8, (1, 2)), BOUND),
            (bucket(7, (1, 3)), BOUND),
            (own.clone(), Bound { call: "ListObjectVersions", ..BOUND }),
            (own.clone(), Bound { prefix: "a", ..BOUND }),
            (own.clone(), Bound { prefix: "a", delimiter: "//", ..BOUND }),
        ];
        for (bucket, bound) in others {
            assert_eq!(read(&bucket, &bound, &text).unwrap_err().code.as_str(), "InvalidArgument");
        }
    }

    #[test]
    fn tokens_that_were_made_up_are_refused() {
        let own = bucket(7, (1, 2));
        let text = write(&own, &BOUND, &Token { behind: Behind::Key("a/k".into()), pin: None });
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(bytes).unwrap();
            // The last letter has bits that say nothing; those must be zero.
            assert!(read(&own, &BOUND, &forged).is_err(), "{at}");
        }
        let long = "A".repeat(TOKEN_TEXT_MAX + 4);
        for text in ["", "AAAA", "no base64!", "é", &text[1..], &long] {
            assert!(read(&own, &BOUND, text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_longest_key_has_a_token() {
        let own = bucket(7, (1, 2));
        let token = Token { behind: Behind::Key("k".repeat(KEY_BYTES_MAX)), pin: Some(u128::MAX) };
        assert_eq!(read(&own, &BOUND, &write(&own, &BOUND, &token)).unwrap(), token);
        let longest = VersionStamp(u64::MAX).text();
        assert_eq!(longest.len() + 1, VERSION_BYTES_MAX);
        for version in [longest, NULL_VERSION.to_owned()] {
            let token =
                Token { behind: Behind::Version { key: "é".repeat(KEY_BYTES_MAX / 2), version }, pin: Some(1) };
            assert_eq!(read(&own, &BOUND, &write(&own, &BOUND, &token)).unwrap(), token);
        }
    }
}

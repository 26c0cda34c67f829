//! The names of the clusters that S3 metadata lives in, and the rules they are made by.
//!
//! Not here: who makes them (buckets.rs, accounts.rs, reshard.rs).

use base_types::s3::S3ErrorCode;
use base_types::{BackendKind, ClusterName, Refusal};

/// The world-wide cluster of accounts and access keys.
pub(crate) const ACCOUNTS_CLUSTER: &str = "metadata@s3-accounts";

/// What stands behind the `@` of clusters made for S3 begins with one of these; clients may not make such.
pub(crate) const RESERVED: [&str; 3] = ["bucket-", "account-", "s3-"];
/// Hexadecimal digits of a bucket id.
const ID_DIGITS: usize = 32;

fn parse(text: &str) -> Result<ClusterName, Refusal> {
    text.parse().map_err(|error| S3ErrorCode::InternalError.because(format!("'{text}' is no cluster name: {error}")))
}

/// Of accounts and keys.
pub(crate) fn accounts() -> Result<ClusterName, Refusal> {
    parse(ACCOUNTS_CLUSTER)
}

/// Of bucket names.
pub(crate) fn bucket_names() -> Result<ClusterName, Refusal> {
    parse(core_backends::bucket_names::NAMES_CLUSTER)
}

/// Of an account's buckets. Accounts are checked to be `[a-z0-9._-]{1,64}` when they are made.
pub(crate) fn account(account: &str) -> Result<ClusterName, Refusal> {
    parse(&format!("reference@account-{account}"))
}

/// Of a bucket's record, map and uploads.
pub(crate) fn bucket(id: u128) -> Result<ClusterName, Refusal> {
    parse(&format!("metadata/shard_reference/multipart@bucket-{id:032x}"))
}

/// Of one shard.
pub(crate) fn shard(id: u128, shard: u64) -> Result<ClusterName, Refusal> {
    parse(&format!("shard@{id:032x}-{shard}"))
}

/// What the scheduler looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    Bucket(u128),
    Shard(u128, u64),
}

/// Which bucket or shard a cluster is, if it is one.
pub fn kept(name: &ClusterName) -> Option<Kept> {
    let id = |digits: &str| u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == ID_DIGITS);
    let tail = name.tail();
    if let Some(digits) = tail.strip_prefix("bucket-") {
        return id(digits).map(Kept::Bucket).filter(|_| name.has(BackendKind::ShardReference));
    }
    let (digits, number) = tail.split_once('-').filter(|_| name.has(BackendKind::Shard))?;
    Some(Kept::Shard(id(digits)?, number.parse().ok()?))
}

/// Whether clients may neither make nor remove a cluster of this name.
pub fn is_reserved(name: &ClusterName) -> bool {
    let tail = name.tail();
    let is_shard = tail.split_once('-').is_some_and(|(id, number)| {
        id.len() == ID_DIGITS
            && id.bytes().all(|byte| byte.is_ascii_hexdigit())
            && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    is_shard || RESERVED.iter().any(|prefix| tail.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_and_reserved() {
        for name in [accounts(), bucket_names(), account("a.b-c"), bucket(u128::MAX), shard(1, u64::MAX)] {
            assert!(is_reserved(&name.unwrap()));
        }
        assert!(!is_reserved(&"metadata@orders".parse().unwrap()));
        assert_eq!(kept(&bucket(7).unwrap()), Some(Kept::Bucket(7)));
        assert_eq!(kept(&shard(u128::MAX, 9).unwrap()), Some(Kept::Shard(u128::MAX, 9)));
        assert_eq!((kept(&accounts().unwrap()), kept(&account("a").unwrap())), (None, None));
    }
}

//! S3 access keys of users: the public half, and the S3 account that a user is.
//!
//! ```text
//!   HIVK + 16 hexadecimal digits   an access key; the digits are its credential's id
//!   user- + 16 hexadecimal digits  the account of the user with this id: it owns buckets and objects
//!   oidc- + 32 hexadecimal digits  the account of an OIDC user: 128 bits of SHA-256 of its issuer and subject
//! ```
//!
//! Always: an account hangs on the user's id, so a later user of the same name owns nothing of the earlier one's; no
//! key of an S3 account is made for it (core-s3's `keys_are_made_found_listed_and_removed`).
//! Not here: secrets (the edge draws, seals and opens them).

use sha2::{Digest, Sha256};

const MARK: &str = "HIVK";
const ACCOUNT_MARK: &str = "user-";
const OIDC_MARK: &str = "oidc-";
const DIGITS: usize = 16;

/// The public half of the access key with this credential id.
pub fn access_key_of(credential: u64) -> String {
    format!("{MARK}{credential:016X}")
}

/// The credential id of an access key; `None`: it is no user's.
pub fn credential_of(access_key: &str) -> Option<u64> {
    let digits = access_key.strip_prefix(MARK)?;
    let upper = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
    let legal = digits.len() == DIGITS && digits.bytes().all(upper);
    legal.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// The S3 account of the user with this id: what bucket policies and ACLs call it.
pub fn account_of(user_id: u64) -> String {
    format!("{ACCOUNT_MARK}{user_id:016x}")
}

/// The S3 account of who an issuer calls `subject`. An issuer never gives a subject again (OpenID Connect Core, 2).
pub fn account_of_oidc(issuer: &str, subject: &str) -> String {
    let digest = Sha256::digest(format!("hive oidc account 1\0{issuer}\0{subject}"));
    digest.iter().take(DIGITS).fold(String::from(OIDC_MARK), |text, byte| format!("{text}{byte:02x}"))
}

/// Whether an account's name is one that a user has or could get.
pub fn is_account_of_user(account: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let after = |mark: &str, count: usize| {
        account.strip_prefix(mark).is_some_and(|digits| digits.len() == count && digits.bytes().all(digit))
    };
    after(ACCOUNT_MARK, DIGITS) || after(OIDC_MARK, 2 * DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_users_are_known() {
        assert!(is_account_of_user(&account_of(0xab)));
        let own = account_of_oidc("https://a.example", "ann");
        assert!(is_account_of_user(&own) && own.len() == 37, "{own}");
        assert_ne!(own, account_of_oidc("https://a.example", "bob"));
        assert_ne!(own, account_of_oidc("https://b.example", "ann"));
        for other in
            ["ann", "user-", "user-1", "user-00000000000000AB", "user-00000000000000abc", "xuser-00000000000000ab"]
        {
            assert!(!is_account_of_user(other), "{other}");
        }
    }

    #[test]
    fn access_keys_read_back() {
        let key = access_key_of(0xab);
        assert_eq!((key.as_str(), credential_of(&key)), ("HIVK00000000000000AB", Some(0xab)));
        for bad in
            ["", "HIVK", "HIVE00000000000000AB", "HIVK00000000000000ab", "HIVK0000000000000AB", "HIVK+0000000000000AB"]
        {
            assert_eq!(credential_of(bad), None, "{bad}");
        }
        assert_eq!(account_of(0xab), "user-00000000000000ab");
    }
}

//! Accounts and their access keys.

use super::Owner;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Makes an account, or changes what is given of it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateAccount {
    /// Its name, which is also its canonical user id.
    pub account: String,
    /// For people.
    #[serde(default)]
    pub display_name: String,
    /// How many buckets it may own; 10,000 where it was never given.
    pub buckets_max: Option<u32>,
}

/// Removes an account that owns no bucket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteAccount {
    /// Its name.
    pub account: String,
}

/// Lists accounts by name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListAccounts {
    /// How many at most; as many as one answer takes where absent.
    pub max_accounts: Option<u32>,
    /// Where the last page ended.
    pub continuation_token: Option<String>,
}

/// A page of accounts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accounts {
    /// By name.
    pub accounts: Vec<Owner>,
    /// Where the next page begins.
    pub continuation_token: Option<String>,
}

/// A secret that only nodes with the sealing key can open (decision 0076).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SealedSecret {
    /// Which sealing key opens it.
    pub sealed_by: String,
    /// The secret, sealed, as text.
    pub sealed: String,
}

/// Makes an access key; one is drawn where none is given.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateAccessKey {
    /// Whose it is.
    pub account: String,
    /// The public half.
    pub access_key: Option<String>,
    /// The secret half.
    pub secret_key: Option<String>,
    /// The same as it is kept; the node's edge seals it. Absent: it is kept as it is.
    #[serde(skip)]
    pub sealed: Option<SealedSecret>,
}

/// Seals the secret of an access key that is kept in plain text, or by an earlier sealing key.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealAccessKey {
    /// The public half.
    pub access_key: String,
    /// The key as the node's edge read it; it is sealed only if it is still this one.
    #[serde(skip)]
    pub read: Option<AccessKey>,
    /// What the edge sealed.
    #[serde(skip)]
    pub sealed: Option<SealedSecret>,
}

/// Reads an access key with its secret: what a gateway needs to check a signature. A sealed secret is not shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetAccessKey {
    /// The public half.
    pub access_key: String,
}

/// Removes an access key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteAccessKey {
    /// The public half.
    pub access_key: String,
}

/// Lists an account's access keys, without secrets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListAccessKeys {
    /// Whose.
    pub account: String,
}

/// An access key.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessKey {
    /// The public half.
    pub access_key: String,
    /// The secret half; empty where it is sealed and nobody opened it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secret_key: String,
    /// Whose it is.
    pub account: String,
    /// The account's name for people.
    #[serde(default)]
    pub display_name: String,
    /// The secret as it is kept, where it is sealed.
    #[serde(skip)]
    pub sealed: Option<SealedSecret>,
}

/// The answer of [`ListAccessKeys`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessKeys {
    /// The public halves.
    pub access_keys: Vec<String>,
}

// Requests and answers are printed by assertions, and by panics: never with a secret.
impl core::fmt::Debug for CreateAccessKey {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let CreateAccessKey { account, access_key, .. } = self;
        out.debug_struct("CreateAccessKey")
            .field("account", account)
            .field("access_key", access_key)
            .finish_non_exhaustive()
    }
}

impl core::fmt::Debug for AccessKey {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let AccessKey { access_key, account, display_name, .. } = self;
        let mut shown = out.debug_struct("AccessKey");
        shown.field("access_key", access_key).field("account", account).field("display_name", display_name);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn no_secret_is_printed() {
        let key = AccessKey { access_key: "AKEY".into(), secret_key: "canary".into(), ..AccessKey::default() };
        let make = CreateAccessKey { secret_key: Some("canary".into()), ..CreateAccessKey::default() };
        let seal = SealAccessKey { read: Some(key.clone()), ..SealAccessKey::default() };
        let shown = format!("{key:?} {make:?} {seal:?}");
        assert!(shown.contains("AKEY") && !shown.contains("canary"), "{shown}");
    }
}

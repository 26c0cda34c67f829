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

/// Makes an access key; one is drawn where none is given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateAccessKey {
    /// Whose it is.
    pub account: String,
    /// The public half.
    pub access_key: Option<String>,
    /// The secret half.
    pub secret_key: Option<String>,
}

/// Reads an access key with its secret: what a gateway needs to check a signature.
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
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessKey {
    /// The public half.
    pub access_key: String,
    /// The secret half.
    pub secret_key: String,
    /// Whose it is.
    pub account: String,
    /// The account's name for people.
    #[serde(default)]
    pub display_name: String,
}

/// The answer of [`ListAccessKeys`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessKeys {
    /// The public halves.
    pub access_keys: Vec<String>,
}

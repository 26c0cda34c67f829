//! The rows of the world-wide `metadata@s3-accounts` cluster, and the calls that read and change them.
//!
//! ```text
//!   account/<account>                   AccountRow
//!   key/<access key>                    KeyRow: with the secret sealed, or as earlier builds and open worlds have it
//!   key-of/<account>/<access key>       empty: for lists
//!   work/<account>/<bucket>/<bucket id> WorkRow: a creation or deletion that is under way, or was
//! ```
//!
//! Always: a row changes by compare-and-set, and an account's life is never that of another: what belongs to an
//! account of the same name that was deleted is not taken for this one's. A name that was given once is never given
//! again (decision 0053): policies and ACLs of others name accounts, and nobody finds them all.
//! Held by: `an_account_goes_with_its_keys_and_its_name_is_not_given_again`, `a_row_of_one_form_is_not_read_as_the_other`.
//! Not here: what the calls do (accounts.rs, buckets.rs), who finishes what was left (bucket_recovery.rs).

use crate::clusters;
use crate::request::reply;
use base_types::action::{BatchStep, Failure};
use base_types::codec::Encode;
use base_types::s3::{AccessKey, Owner, S3ErrorCode, SealedSecret};
use base_types::{BackendKind, ErrorCode, ReadConsistency, Refusal, WriteConsistency, SCAN_PAGE_BYTES_MAX};
use bytes::Bytes;
use core_backends::bucket_names::Claim;
use core_backends::metadata::{Command, Query, Reply, ScanScopes, ScopedStep};
use core_flow::{Call, CallResult};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How many buckets an account may own where nothing else was said: what AWS allows.
const BUCKETS_MAX: u32 = 10_000;
/// The longest account name.
const ACCOUNT_BYTES_MAX: usize = 64;

/// Whether an account takes calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum AccountState {
    Active,
    /// It makes no more buckets; its keys go.
    Deleting,
    /// It is gone. Its row stays, so that nobody gets the name, and what others granted to it.
    Gone,
}

/// An account.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct AccountRow {
    pub display_name: String,
    /// Drawn when it was made.
    pub life: u64,
    pub state: AccountState,
    pub created_ms: u64,
    /// How many buckets it may own, where that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets_max: Option<u32>,
}

/// An access key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct KeyRow {
    pub account: String,
    /// The account's.
    pub life: u64,
    #[serde(flatten)]
    pub secret: KeptSecret,
}

/// An access key's secret as its row has it. A row has one form or the other: a build that knows the plain form alone
/// reads no sealed row, and says so (`tests::a_row_of_one_form_is_not_read_as_the_other`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum KeptSecret {
    Sealed(SealedSecret),
    Plain { secret_key: String },
}

impl KeyRow {
    /// As it is answered. Nothing is opened here.
    pub fn shown(self, access_key: String, display_name: String) -> AccessKey {
        let (secret_key, sealed) = match self.secret {
            KeptSecret::Sealed(sealed) => (String::new(), Some(sealed)),
            KeptSecret::Plain { secret_key } => (secret_key, None),
        };
        AccessKey { access_key, secret_key, account: self.account, display_name, sealed }
    }

    /// Whether it is kept in plain text with this secret.
    pub fn is_plain(&self, secret: &str) -> bool {
        matches!(&self.secret, KeptSecret::Plain { secret_key } if secret_key == secret)
    }
}

/// A bucket that somebody began to make or remove.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct WorkRow {
    pub account: String,
    pub bucket: String,
    /// The bucket's id, hexadecimal.
    pub id: String,
    pub region: String,
}

impl AccountRow {
    /// How many buckets it may own.
    pub fn most_buckets(&self) -> u64 {
        u64::from(self.buckets_max.unwrap_or(BUCKETS_MAX))
    }

    /// As the S3 API shows it.
    pub fn owner(&self, account: &str) -> Owner {
        let display_name = if self.display_name.is_empty() { account } else { &self.display_name };
        Owner { id: account.to_string(), display_name: display_name.to_string() }
    }
}

impl WorkRow {
    /// As the two-step commit has it.
    pub fn claim(&self) -> Claim {
        let WorkRow { account, bucket, id, region } = self.clone();
        Claim { bucket, id: u128::from_str_radix(&id, 16).unwrap_or(0), account, region }
    }

    /// Its key.
    pub fn key(&self) -> Bytes {
        format!("{WORK_PREFIX}{}/{}/{}", self.account, self.bucket, self.id).into()
    }
}

/// The prefix of all accounts.
pub(crate) const ACCOUNT_PREFIX: &str = "account/";
/// The prefix of all work.
pub(crate) const WORK_PREFIX: &str = "work/";

/// An account's key.
pub(crate) fn account_key(account: &str) -> Bytes {
    format!("{ACCOUNT_PREFIX}{account}").into()
}

/// An access key's key.
pub(crate) fn key_key(access_key: &str) -> Bytes {
    format!("key/{access_key}").into()
}

/// Where an account's access keys are listed.
pub(crate) fn key_of_prefix(account: &str) -> String {
    format!("key-of/{account}/")
}

/// An access key in its account's list.
pub(crate) fn key_of_key(account: &str, access_key: &str) -> Bytes {
    format!("key-of/{account}/{access_key}").into()
}

/// Refuses a text that is no account's name.
pub(crate) fn check_account(account: &str) -> Result<(), Refusal> {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    if (1..=ACCOUNT_BYTES_MAX).contains(&account.len()) && account.bytes().all(legal) {
        return Ok(());
    }
    let message = format!(
        "'{}' is no account name: it has 1 to {ACCOUNT_BYTES_MAX} of a-z, 0-9, '.', '_' and '-'",
        account.escape_debug()
    );
    Err(S3ErrorCode::InvalidArgument.because(message))
}

/// There is no such account.
pub(crate) fn no_such_account(account: &str) -> Refusal {
    let message = format!(
        "account '{}' does not exist; `hive ctl s3 account create` (CreateAccount) makes it",
        account.escape_debug()
    );
    S3ErrorCode::NoSuchAccount.because(message)
}

fn read(query: &Query) -> Result<Call, Refusal> {
    Ok(Call::Read {
        cluster: clusters::accounts()?,
        backend: BackendKind::Metadata,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    })
}

fn write(command: &Command) -> Result<Call, Refusal> {
    Ok(Call::Write {
        cluster: clusters::accounts()?,
        backend: BackendKind::Metadata,
        command: command.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id: None,
    })
}

/// Makes the directory's cluster; `ClusterExists` is as good.
pub(crate) fn make(rule: &str) -> Result<Call, Refusal> {
    Ok(Call::CreateCluster { cluster: clusters::accounts()?, rule: rule.to_string() })
}

/// Asks for a row.
pub(crate) fn get(key: Bytes) -> Result<Call, Refusal> {
    read(&Query::Get { scope: None, key })
}

/// Asks for the first rows of a prefix.
pub(crate) fn scan(prefix: &str, limit: u32) -> Result<Call, Refusal> {
    scan_behind(prefix, None, limit)
}

/// Asks for the first rows of a prefix behind a key.
pub(crate) fn scan_behind(prefix: &str, behind: Option<&Bytes>, limit: u32) -> Result<Call, Refusal> {
    let start = match behind {
        Some(key) => [&key[..], &[0]].concat().into(),
        None => Bytes::copy_from_slice(prefix.as_bytes()),
    };
    let end = format!("{}0", prefix.strip_suffix('/').unwrap_or(prefix)); // '0' is next to '/'.
    read(&Query::Scan {
        scopes: ScanScopes::Plain,
        start,
        end: Some(end.into()),
        reverse: false,
        limit,
        bytes_max: SCAN_PAGE_BYTES_MAX as u32,
        keys_only: false,
    })
}

/// An account and its row's bytes, unless it is gone or never was.
pub(crate) fn account(result: CallResult) -> Result<Option<(AccountRow, Bytes)>, Failure> {
    Ok(got::<AccountRow>(result)?.filter(|(row, _)| row.state != AccountState::Gone))
}

/// Sets or removes a row that is `expected`.
pub(crate) fn change(key: Bytes, expected: Option<Bytes>, value: Option<Bytes>) -> Result<Call, Refusal> {
    write(&Command::CompareAndSet { scope: None, key, expected, value })
}

/// Sets rows, whatever they are.
pub(crate) fn put(key: Bytes, value: Bytes) -> Result<Call, Refusal> {
    write(&Command::Put { scope: None, key, value })
}

/// Removes rows, whatever they are.
pub(crate) fn remove(keys: Vec<Bytes>) -> Result<Call, Refusal> {
    let step = |key| ScopedStep { scope: None, step: BatchStep::Delete { key } };
    write(&Command::Batch { steps: keys.into_iter().map(step).collect() })
}

/// A row's bytes.
pub(crate) fn body<T: Serialize>(row: &T) -> Result<Bytes, Refusal> {
    let text = serde_json::to_vec(row);
    let text = text.map_err(|error| S3ErrorCode::InternalError.because(format!("a row of accounts: {error}")))?;
    Ok(text.into())
}

/// A row out of its bytes.
pub(crate) fn row<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("a row of accounts cannot be read (written by a newer Hive?): {error}");
        S3ErrorCode::InternalError.because(message)
    })
}

fn confused() -> Failure {
    S3ErrorCode::InternalError
        .because("the cluster of accounts gave a reply of another kind; retry, and report it if it repeats")
        .into()
}

/// The row that was asked for with its bytes. Where the cluster was never made there is none.
pub(crate) fn got<T: DeserializeOwned>(result: CallResult) -> Result<Option<(T, Bytes)>, Failure> {
    match reply::<Reply>(result) {
        Ok((Reply::Value { value: Some(value) }, _)) => Ok(Some((row(&value)?, value))),
        Ok((Reply::Value { value: None }, _)) => Ok(None),
        Ok(_) => Err(confused()),
        Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The rows that were asked for, and whether there are more.
pub(crate) fn scanned(result: CallResult) -> Result<(Vec<(Bytes, Bytes)>, bool), Failure> {
    match reply::<Reply>(result) {
        Ok((Reply::Page { entries, more, .. }, _)) => Ok((entries, more)),
        Ok(_) => Err(confused()),
        Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => Ok((Vec::new(), false)),
        Err(failure) => Err(failure),
    }
}

/// Whether a compare-and-set was done; `false`: the row is another.
pub(crate) fn changed(result: CallResult) -> Result<bool, Failure> {
    match reply::<Reply>(result) {
        Ok(_) => Ok(true),
        Err(failure) if failure.refusal.code == ErrorCode::ConditionFailed => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Whether a cluster that was to be made is there.
pub(crate) fn made(result: CallResult) -> Result<(), Failure> {
    match result {
        Err(failure) if failure.refusal.code != ErrorCode::ClusterExists => Err(failure),
        _ => Ok(()),
    }
}

/// Every answer of a round was good.
pub(crate) fn all_well(answers: Vec<CallResult>) -> Result<(), Failure> {
    answers.into_iter().try_for_each(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row of builds before decision 0076.
    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Before {
        account: String,
        life: u64,
        secret_key: String,
    }

    #[test]
    fn a_row_of_one_form_is_not_read_as_the_other() {
        let plain = r#"{"account":"ann","life":18446744073709551615,"secret_key":"s"}"#;
        let sealed = r#"{"account":"ann","life":7,"sealed_by":"00ff","sealed":"AAAA"}"#;
        for text in [plain, sealed] {
            let read: KeyRow = row(text.as_bytes()).unwrap();
            assert_eq!(body(&read).unwrap(), text, "the bytes are those of the format");
        }
        let read: KeyRow = row(sealed.as_bytes()).unwrap();
        assert!(matches!(&read.secret, KeptSecret::Sealed(kept) if kept.sealed == "AAAA"));
        assert!(row::<Before>(plain.as_bytes()).is_ok());
        let refusal = row::<Before>(sealed.as_bytes()).map(|_| ()).unwrap_err();
        assert!(refusal.message.contains("written by a newer Hive"), "{}", refusal.message);
    }
}

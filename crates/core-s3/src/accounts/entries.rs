//! The entries of an account's buckets: documents of its own `reference` cluster, changed by compare-and-set on
//! their version.
//!
//! Always: a bucket's entry is there from before anything of it is built until everything of it is gone.
//! Held by: `a_creation_that_stops_at_any_step_is_finished_or_taken_back`, `a_removal_that_stops_at_any_step_is_finished_or_taken_back`.
//! Not here: what an entry's states mean together with the name's (core-backends, bucket_names).

use crate::clusters;
use crate::request::reply;
use base_types::action::Failure;
use base_types::codec::Encode;
use base_types::s3::S3ErrorCode;
use base_types::{BackendKind, ErrorCode, ReadConsistency, Refusal, WriteConsistency};
use bytes::Bytes;
use core_backends::bucket_names::{Entry, EntryState};
use core_backends::reference::{Command, Query, Reply};
use core_flow::{Call, CallResult};
use serde::{Deserialize, Serialize};

/// What the keys of entries begin with.
const PREFIX: &str = "bucket/";

/// [`EntryState`] as it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Kept {
    Creating,
    Active,
    Deleting,
    Undoing,
}

/// An entry's body.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct EntryDocument {
    /// The bucket's id, hexadecimal.
    id: String,
    state: Kept,
    pub region: String,
    pub created_ms: u64,
    /// The client's request that made it, in hexadecimal, so that the client may retry.
    pub request: Option<String>,
    /// A removal is checking whether the account is empty; this is the number that the removal drew. Zero: there is
    /// none.
    pub closing: u64,
}

impl EntryDocument {
    /// Of a bucket that is being made.
    pub fn new(id: u128, region: &str, created_ms: u64, request: Option<String>) -> EntryDocument {
        let (id, region) = (format!("{id:032x}"), region.to_string());
        EntryDocument { id, state: Kept::Creating, region, created_ms, request, closing: 0 }
    }

    /// The bucket's id; zero, which none has, where it cannot be read.
    pub fn id(&self) -> u128 {
        u128::from_str_radix(&self.id, 16).unwrap_or(0)
    }

    pub fn state(&self) -> EntryState {
        match self.state {
            Kept::Creating => EntryState::Creating,
            Kept::Active => EntryState::Active,
            Kept::Deleting => EntryState::Deleting,
            Kept::Undoing => EntryState::Undoing,
        }
    }

    /// As the two-step commit sees it.
    pub fn entry(&self, since_ms: u64) -> Entry {
        Entry { id: self.id(), state: self.state(), since_ms }
    }

    /// Claimed by another, or (zero) by nobody.
    pub fn claimed(&self, closing: u64) -> EntryDocument {
        EntryDocument { closing, ..self.clone() }
    }

    /// In another state.
    pub fn with(&self, state: EntryState) -> EntryDocument {
        let state = match state {
            EntryState::Creating => Kept::Creating,
            EntryState::Active => Kept::Active,
            EntryState::Deleting => Kept::Deleting,
            EntryState::Undoing => Kept::Undoing,
        };
        EntryDocument { state, ..self.clone() }
    }
}

fn key_of(bucket: &str) -> Bytes {
    format!("{PREFIX}{bucket}").into()
}

fn write(account: &str, command: &Command) -> Result<Call, Refusal> {
    Ok(Call::Write {
        cluster: clusters::account(account)?,
        backend: BackendKind::Reference,
        command: command.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id: None,
    })
}

fn read(account: &str, query: &Query) -> Result<Call, Refusal> {
    Ok(Call::Read {
        cluster: clusters::account(account)?,
        backend: BackendKind::Reference,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    })
}

/// Asks for an entry.
pub(crate) fn get(account: &str, bucket: &str) -> Result<Call, Refusal> {
    read(account, &Query::GetDocument { key: key_of(bucket) })
}

/// Writes an entry that has this version (`None`: that is not there).
pub(crate) fn put(
    account: &str,
    bucket: &str,
    expected: Option<u64>,
    document: &EntryDocument,
) -> Result<Call, Refusal> {
    let body = serde_json::to_vec(document);
    let body = body.map_err(|error| S3ErrorCode::InternalError.because(format!("a bucket's entry: {error}")))?;
    let command = Command::PutDocument { key: key_of(bucket), expected_version: expected, body: body.into() };
    write(account, &command)
}

/// Removes an entry that has this version.
pub(crate) fn delete(account: &str, bucket: &str, version: u64) -> Result<Call, Refusal> {
    write(account, &Command::DeleteDocument { key: key_of(bucket), expected_version: Some(version) })
}

/// Asks for the entries of buckets that begin so, behind one of them.
pub(crate) fn list(account: &str, prefix: &str, after: Option<&str>, limit: u32) -> Result<Call, Refusal> {
    read(account, &Query::ListDocuments { prefix: key_of(prefix), start_after: after.map(key_of), limit })
}

fn confused() -> Failure {
    S3ErrorCode::InternalError
        .because("an account's cluster gave a reply of another kind; retry, and report it if it repeats")
        .into()
}

fn parse(body: &[u8]) -> Result<EntryDocument, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("a bucket's entry cannot be read (written by a newer Hive?): {error}");
        S3ErrorCode::InternalError.because(message)
    })
}

/// The entry that was asked for, with its version. Where the account's cluster is not there, it is none.
pub(crate) fn got(result: CallResult) -> Result<Option<(u64, EntryDocument)>, Failure> {
    match reply::<Reply>(result) {
        Ok((Reply::Document { document: Some(found) }, _)) => Ok(Some((found.version, parse(&found.body)?))),
        Ok((Reply::Document { document: None }, _)) => Ok(None),
        Ok(_) => Err(confused()),
        Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The version an entry was given; `None`: it had another than was expected.
pub(crate) fn written(result: CallResult) -> Result<Option<u64>, Failure> {
    match reply::<Reply>(result) {
        Ok((Reply::Version { version }, _)) => Ok(Some(version)),
        Ok((Reply::Deleted { .. }, _)) => Ok(Some(0)),
        Ok(_) => Err(confused()),
        Err(failure) if failure.refusal.code == ErrorCode::ConditionFailed => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// A page of entries by name, and whether there are more.
pub(crate) fn listed(result: CallResult) -> Result<(Vec<(String, EntryDocument)>, bool), Failure> {
    let (documents, more) = match reply::<Reply>(result) {
        Ok((Reply::Documents { documents, more }, _)) => (documents, more),
        Ok(_) => return Err(confused()),
        Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => return Ok((Vec::new(), false)),
        Err(failure) => return Err(failure),
    };
    let mut entries = Vec::with_capacity(documents.len());
    for document in documents {
        let key = String::from_utf8_lossy(&document.key).into_owned();
        entries.push((key.strip_prefix(PREFIX).unwrap_or(&key).to_string(), parse(&document.body)?));
    }
    Ok((entries, more))
}

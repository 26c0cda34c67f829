//! The rows of the directory's cluster, and the calls that read and change them.
//!
//! ```text
//!   head                        Head: the epoch of the last change
//!   row/<name>                  Row (base-access)
//!   at/<16 digits epoch>/<name> empty: which rows changed last at which epoch
//! ```
//!
//! Always: a row, its entry below `at/` and the head change together or not at all.
//! Held by: `two_edits_at_once_are_ordered`.
//! Not here: what is changed (edit.rs).

use base_access::{Row, RowName};
use base_types::action::{BatchStep, Failure};
use base_types::codec::Encode;
use base_types::{
    BackendKind, ClusterName, ErrorCode, ReadConsistency, Refusal, WriteConsistency, SCAN_PAGE_BYTES_MAX,
};
use bytes::Bytes;
use core_backends::metadata::{Command, Expected, Query, Reply, ScanScopes, ScopedStep};
use core_flow::{decode_call, Call, CallResult};
use serde::{Deserialize, Serialize};

/// The directory's cluster.
pub const ACCESS_CLUSTER: &str = "metadata@access";
/// The most rows of a directory, those of deleted names among them: every node holds them all in memory.
pub const ROWS_MAX: usize = 100_000;
/// Rows of one page.
pub(crate) const PAGE_ROWS: u32 = 1_000;

const HEAD: &[u8] = b"head";
const ROWS: &str = "row/";
const ROWS_END: &str = "row0";
const CHANGES: &str = "at/";
const CHANGES_END: &str = "at0";

/// Where the directory stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Head {
    /// How often it has changed.
    pub epoch: u64,
    /// Names that were deleted up to this epoch may have been forgotten: an older copy reads all rows.
    pub floor: u64,
}

/// The head with its bytes, for the condition of the next change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct HeadRow {
    pub head: Head,
    pub bytes: Option<Bytes>,
}

pub(crate) fn cluster() -> Result<ClusterName, Refusal> {
    ACCESS_CLUSTER.parse().map_err(|error| Refusal::new(ErrorCode::Internal, format!("{ACCESS_CLUSTER}: {error}")))
}

fn read(query: &Query) -> Result<Call, Refusal> {
    Ok(Call::Read {
        cluster: cluster()?,
        backend: BackendKind::Metadata,
        query: query.to_bytes(),
        consistency: Some(ReadConsistency::Strong),
    })
}

/// Asks for the head.
pub(crate) fn read_head() -> Result<Call, Refusal> {
    read(&Query::Get { scope: None, key: Bytes::from_static(HEAD) })
}

/// The head, or that there is no directory yet: `None`, no cluster.
pub(crate) fn head(result: CallResult) -> Result<Option<HeadRow>, Failure> {
    match decode_call::<Reply>(result) {
        Ok((Reply::Value { value: None }, _)) => Ok(Some(HeadRow::default())),
        Ok((Reply::Value { value: Some(bytes) }, _)) => {
            let head = serde_json::from_slice(&bytes).map_err(|error| corrupt(&error))?;
            Ok(Some(HeadRow { head, bytes: Some(bytes) }))
        }
        Ok(_) => Err(confused()),
        Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn corrupt(error: &serde_json::Error) -> Refusal {
    let message = format!("the head of the access directory cannot be read (written by a newer Hive?): {error}");
    Refusal::new(ErrorCode::Internal, message)
}

fn confused() -> Failure {
    Refusal::new(ErrorCode::Internal, "the access directory's cluster gave a reply of another kind; report it").into()
}

/// Asks for a row.
pub(crate) fn read_row(name: &str) -> Result<Call, Refusal> {
    read(&Query::Get { scope: None, key: row_key(name) })
}

/// A row; `None`: it is forgotten.
pub(crate) fn row(result: CallResult) -> Result<Option<Row>, Failure> {
    match decode_call::<Reply>(result)? {
        (Reply::Value { value: Some(bytes) }, _) => Ok(Some(Row::parse(&bytes)?)),
        (Reply::Value { value: None }, _) => Ok(None),
        _ => Err(confused()),
    }
}

fn scan(start: Bytes, end: &'static str, limit: u32) -> Result<Call, Refusal> {
    read(&Query::Scan {
        scopes: ScanScopes::Plain,
        start,
        end: Some(Bytes::from_static(end.as_bytes())),
        reverse: false,
        limit,
        bytes_max: SCAN_PAGE_BYTES_MAX as u32,
        keys_only: false,
    })
}

/// Asks for the names of rows that changed after an epoch.
pub(crate) fn scan_changes(after: u64) -> Result<Call, Refusal> {
    scan(format!("{CHANGES}{:016x}/", after.saturating_add(1)).into(), CHANGES_END, PAGE_ROWS)
}

/// The names, and whether there are more.
pub(crate) fn changes(result: CallResult) -> Result<(Vec<RowName>, bool), Failure> {
    let (entries, more) = page(result)?;
    let name =
        |key: &Bytes| Some(core::str::from_utf8(key).ok()?.strip_prefix(CHANGES)?.split_once('/')?.1.to_string());
    Ok((entries.iter().filter_map(|(key, _)| name(key)).collect(), more))
}

/// Asks for the rows after a name.
pub(crate) fn scan_rows(after: Option<&str>) -> Result<Call, Refusal> {
    scan(format!("{ROWS}{}", after.map_or(String::new(), |name| format!("{name}\0"))).into(), ROWS_END, PAGE_ROWS)
}

/// The rows, and whether there are more.
pub(crate) fn rows(result: CallResult) -> Result<(Vec<(RowName, Row)>, bool), Failure> {
    let (entries, more) = page(result)?;
    let mut rows = Vec::with_capacity(entries.len());
    for (key, body) in entries {
        let name = core::str::from_utf8(&key).ok().and_then(|key| key.strip_prefix(ROWS)).ok_or_else(confused)?;
        rows.push((name.to_string(), Row::parse(&body)?));
    }
    Ok((rows, more))
}

fn page(result: CallResult) -> Result<(Vec<(Bytes, Bytes)>, bool), Failure> {
    match decode_call::<Reply>(result)? {
        (Reply::Page { entries, more, .. }, _) => Ok((entries, more)),
        _ => Err(confused()),
    }
}

fn row_key(name: &str) -> Bytes {
    format!("{ROWS}{name}").into()
}

fn change_key(epoch: u64, name: &str) -> Bytes {
    format!("{CHANGES}{epoch:016x}/{name}").into()
}

/// One row of a change: its name, the epoch it had (none: it is new), and what it becomes (`None`: forgotten).
pub(crate) struct RowChange {
    pub name: RowName,
    pub was: Option<u64>,
    pub row: Option<Row>,
}

/// Commits a change, if the head is still this one.
pub(crate) fn commit(head: &HeadRow, next: Head, changes: &[RowChange]) -> Result<Call, Refusal> {
    let plain = |step| ScopedStep { scope: None, step };
    let put = |key, value| plain(BatchStep::Put { key, value });
    let body = serde_json::to_vec(&next).map_err(|error| corrupt(&error))?;
    let mut steps = vec![put(Bytes::from_static(HEAD), body.into())];
    for change in changes {
        if let Some(was) = change.was {
            steps.push(plain(BatchStep::Delete { key: change_key(was, &change.name) }));
        }
        match &change.row {
            Some(row) => {
                steps.push(put(row_key(&change.name), row.to_bytes()?.into()));
                steps.push(put(change_key(row.epoch, &change.name), Bytes::new()));
            }
            None => steps.push(plain(BatchStep::Delete { key: row_key(&change.name) })),
        }
    }
    let expected = vec![Expected { scope: None, key: Bytes::from_static(HEAD), value: head.bytes.clone() }];
    Ok(Call::Write {
        cluster: cluster()?,
        backend: BackendKind::Metadata,
        command: Command::BatchIf { expected, steps }.to_bytes(),
        consistency: Some(WriteConsistency::Strong),
        request_id: None,
    })
}

/// Whether the change was made; `false`: the head is another by now.
pub(crate) fn committed(result: CallResult) -> Result<bool, Failure> {
    match decode_call::<Reply>(result) {
        Ok(_) => Ok(true),
        Err(failure) if failure.refusal.code == ErrorCode::ConditionFailed => Ok(false),
        Err(failure) => Err(failure),
    }
}

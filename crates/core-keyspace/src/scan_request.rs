//! What a scan asks for: a range of keys, a limit, a direction.
//!
//! Always: `start` is inclusive and `end` exclusive, whatever the direction.
//! Not here: pages of several clusters (`scan.rs`).

use base_types::action::Action;
use base_types::{ErrorCode, Refusal, SCAN_LIMIT_MAX};
use bytes::Bytes;
use core_backends::metadata::{Query, ScanScopes};

/// The range a scan covers: `start` inclusive, `end` exclusive.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct ScanRequest {
    pub start: Bytes,
    pub end: Option<Bytes>,
    pub limit: u32,
    pub reverse: bool,
    pub keys_only: bool,
}

impl ScanRequest {
    /// From a `KvScan`.
    pub fn from_action(action: &Action) -> Option<ScanRequest> {
        let Action::KvScan { prefix, start_after, end, limit, reverse, keys_only, .. } = action else { return None };
        let mut start = prefix.clone();
        let mut bound = earlier(prefix_end(prefix), end.clone());
        match start_after {
            Some(after) if *reverse => bound = earlier(bound, Some(after.clone())),
            Some(after) => start = start.max(behind(after)),
            None => {}
        }
        Some(ScanRequest { start, end: bound, limit: *limit, reverse: *reverse, keys_only: *keys_only })
    }

    /// Refuses a limit out of range.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.limit == 0 || self.limit > SCAN_LIMIT_MAX {
            return Err(Refusal::new(
                ErrorCode::LimitOutOfRange,
                format!("scan limit is {}; give 1 to {SCAN_LIMIT_MAX}", self.limit),
            ));
        }
        Ok(())
    }

    /// The query one cluster is asked.
    pub(crate) fn query(&self, scopes: ScanScopes, limit: u32, bytes_max: u32) -> Query {
        Query::Scan {
            scopes,
            start: self.start.clone(),
            end: self.end.clone(),
            reverse: self.reverse,
            limit,
            bytes_max,
            keys_only: self.keys_only,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// Leaves out everything up to and including `key`.
    pub(crate) fn go_behind(&mut self, key: &Bytes) {
        if self.reverse {
            self.end = Some(key.clone());
        } else {
            self.start = behind(key);
        }
    }
}

/// The first key behind `key`.
fn behind(key: &Bytes) -> Bytes {
    Bytes::from([key.as_ref(), &[0]].concat())
}

/// The first key behind all that begin with `prefix`; none where there is no such key.
fn prefix_end(prefix: &[u8]) -> Option<Bytes> {
    let kept = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(Bytes::from(end))
}

fn earlier(one: Option<Bytes>, other: Option<Bytes>) -> Option<Bytes> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

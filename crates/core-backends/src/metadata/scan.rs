//! Queries carried out: single keys, ordered pages over any partitions, and what a mover reads.
//!
//! Always: a page is the beginning of the ordered union of its scopes, cut by count or bytes but never
//! empty where there is a pair (model in `tests.rs`; mutant `PageCutByBytesEnds`); it costs about (limit × ln partitions) visits, not limit × partitions.
//! Not here: merging pages of several clusters (core-keyspace, scan.rs).

use super::command::{
    PartitionInfo, Query, Reply, ScanScopes, Scope, KEYSPACE_PARTITIONS_MAX, MOVE_PAGE_BYTES_MAX, MOVE_PAIRS_MAX,
};
use super::keys;
use super::partition::{self, Record};
use crate::contract::SpaceRead;
use base_engine::{Direction, EngineError, KeyRange};
use base_types::mutant::{planted, Mutant};
use base_types::{ErrorCode, PartitionId, Refusal, SCAN_LIMIT_MAX, SCAN_PAGE_BYTES_MAX};
use bytes::Bytes;
use core::ops::ControlFlow;
use std::collections::BTreeMap;

type Answered = Result<Result<Reply, Refusal>, EngineError>;

/// Answers one query.
pub(super) fn query(space: &dyn SpaceRead, query: Query) -> Answered {
    match query {
        Query::Get { scope, key } => {
            if let Some(scope) = scope {
                if let Err(refusal) = serves(space, scope)? {
                    return Ok(Err(refusal));
                }
            }
            Ok(Ok(Reply::Value { value: space.get(&keys::pair(scope.map(|s| s.partition), &key))? }))
        }
        Query::Scan { scopes, start, end, reverse, limit, bytes_max, keys_only } => {
            let page = PageBuilder {
                kept: BTreeMap::new(),
                bytes: 0,
                limit: limit.clamp(1, SCAN_LIMIT_MAX) as usize,
                bytes_max: (bytes_max as usize).clamp(1, SCAN_PAGE_BYTES_MAX),
                reverse,
                keys_only,
                cut: None,
            };
            scan(space, scopes, &start, end.as_ref(), page)
        }
        Query::Dirty { scope, after, limit } => dirty(space, scope, after, limit as usize),
        Query::ExportPage { scope, after, bytes_max } => export(space, scope, after, bytes_max as usize),
        Query::Partitions => Ok(Ok(Reply::Partitions(partitions(space)?))),
        Query::Remembered { .. } => {
            let message = "the cluster answers which request ids it remembers, not its metadata";
            Ok(Err(Refusal::new(ErrorCode::Internal, message)))
        }
        Query::Partition { partition } => {
            let record = Record::load(space, partition)?;
            Ok(Ok(Reply::Partitions(record.map(|record| record.info(partition)).into_iter().collect())))
        }
    }
}

fn serves(space: &dyn SpaceRead, scope: Scope) -> Result<Result<(), Refusal>, EngineError> {
    let record = Record::load(space, scope.partition)?;
    Ok(partition::check_serves(scope, record.as_ref()))
}

fn partitions(space: &dyn SpaceRead) -> Result<Vec<PartitionInfo>, EngineError> {
    let (start, end) = keys::records();
    let mut list = Vec::new();
    let mut failed = None;
    space.range(KeyRange { start: &start, end: Some(&end) }, Direction::Forward, &mut |key, value| {
        let id = match key {
            [_, high, low] => PartitionId(u16::from_be_bytes([*high, *low])),
            _ => {
                failed =
                    Some(EngineError::Corrupt(format!("a metadata partition record has a key of {} bytes", key.len())));
                return ControlFlow::Break(());
            }
        };
        match partition::decode(id, Bytes::copy_from_slice(value)) {
            Ok(record) => list.push(record.info(id)),
            Err(error) => failed = Some(error),
        }
        if failed.is_some() || list.len() >= usize::from(KEYSPACE_PARTITIONS_MAX) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(list), Err)
}

/// The first pairs of the union of all ranges seen so far.
struct PageBuilder {
    kept: BTreeMap<Bytes, Bytes>,
    bytes: usize,
    limit: usize,
    bytes_max: usize,
    reverse: bool,
    keys_only: bool,
    /// The foremost key that did not fit: nothing at or after this key belongs to the page.
    cut: Option<Bytes>,
}

impl PageBuilder {
    fn is_behind(&self, key: &[u8], mark: &[u8]) -> bool {
        if self.reverse {
            key <= mark
        } else {
            key >= mark
        }
    }

    /// Takes a pair; breaks where nothing further of this range can belong to the page.
    fn offer(&mut self, key: &[u8], value: &[u8]) -> ControlFlow<()> {
        if self.cut.as_ref().is_some_and(|cut| self.is_behind(key, cut)) {
            return ControlFlow::Break(());
        }
        let value = if self.keys_only { &[] } else { value };
        self.bytes += key.len() + value.len();
        self.kept.insert(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        while self.kept.len() > self.limit || (self.bytes > self.bytes_max && self.kept.len() > 1) {
            let last = if self.reverse { self.kept.pop_first() } else { self.kept.pop_last() };
            let Some((last, value)) = last else { break };
            self.bytes -= last.len() + value.len();
            if self.kept.len() >= self.limit || !planted(Mutant::PageCutByBytesEnds) {
                self.cut = Some(last);
            }
        }
        ControlFlow::Continue(())
    }

    fn finish(self, covered: Vec<Scope>) -> Reply {
        let more = self.cut.is_some();
        let mut entries: Vec<(Bytes, Bytes)> = self.kept.into_iter().collect();
        if self.reverse {
            entries.reverse();
        }
        Reply::Page { entries, more, covered }
    }
}

fn scan(
    space: &dyn SpaceRead,
    scopes: ScanScopes,
    start: &[u8],
    end: Option<&Bytes>,
    mut page: PageBuilder,
) -> Answered {
    let covered = match scopes {
        ScanScopes::Plain => {
            visit(space, None, start, end, &mut page)?;
            return Ok(Ok(page.finish(Vec::new())));
        }
        ScanScopes::Partitions(scopes) => {
            for scope in &scopes {
                if let Err(refusal) = serves(space, *scope)? {
                    return Ok(Err(refusal));
                }
            }
            scopes
        }
        ScanScopes::Owned => {
            partitions(space)?.into_iter().filter(|info| info.state.serves()).map(|info| info.scope).collect()
        }
    };
    for scope in &covered {
        visit(space, Some(scope.partition), start, end, &mut page)?;
    }
    Ok(Ok(page.finish(covered)))
}

fn visit(
    space: &dyn SpaceRead,
    partition: Option<PartitionId>,
    start: &[u8],
    end: Option<&Bytes>,
    page: &mut PageBuilder,
) -> Result<(), EngineError> {
    if end.is_some_and(|end| end.as_ref() <= start) {
        return Ok(());
    }
    let first = keys::pair(partition, start);
    let behind = end.map_or_else(|| keys::pairs_end(partition), |end| keys::pair(partition, end));
    let prefix = keys::prefix_bytes(partition);
    let direction = if page.reverse { Direction::Backward } else { Direction::Forward };
    space.range(KeyRange { start: &first, end: Some(&behind) }, direction, &mut |key, value| {
        page.offer(key.get(prefix..).unwrap_or_default(), value)
    })
}

fn dirty(space: &dyn SpaceRead, scope: Scope, after: u64, limit: usize) -> Answered {
    if let Err(refusal) = serves(space, scope)? {
        return Ok(Err(refusal));
    }
    let limit = limit.clamp(1, MOVE_PAIRS_MAX);
    let id = scope.partition;
    let (_, end) = keys::changes(id);
    let start = keys::change(id, after.saturating_add(if planted(Mutant::DirtySkipsOne) { 2 } else { 1 }));
    let mut changed: Vec<(u64, Bytes)> = Vec::new();
    let (mut more, mut damaged) = (false, false);
    space.range(KeyRange { start: &start, end: Some(&end) }, Direction::Forward, &mut |key, value| {
        if changed.len() >= limit {
            more = true;
            return ControlFlow::Break(());
        }
        match key.get(keys::PAIR_PREFIX_BYTES..).and_then(|rest| rest.try_into().ok()).map(u64::from_be_bytes) {
            Some(sequence) => changed.push((sequence, Bytes::copy_from_slice(value))),
            None => damaged = true,
        }
        ControlFlow::Continue(())
    })?;
    if damaged {
        return Err(EngineError::Corrupt(format!(
            "the change list of metadata partition {id} has a key of a wrong length"
        )));
    }
    let (mut pairs, mut bytes, mut reached) = (Vec::new(), 0, after);
    for (sequence, key) in changed {
        let value = space.get(&keys::pair(Some(id), &key))?;
        bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
        if bytes > MOVE_PAGE_BYTES_MAX && !pairs.is_empty() {
            more = true;
            break;
        }
        reached = sequence;
        pairs.push((key, value));
    }
    Ok(Ok(Reply::Dirty { pairs, reached, more }))
}

fn export(space: &dyn SpaceRead, scope: Scope, after: Option<Bytes>, bytes_max: usize) -> Answered {
    if let Err(refusal) = serves(space, scope)? {
        return Ok(Err(refusal));
    }
    let bytes_max = bytes_max.clamp(1, MOVE_PAGE_BYTES_MAX);
    let id = scope.partition;
    let start = keys::pair(Some(id), &after.map(|key| [key.as_ref(), &[0]].concat()).unwrap_or_default());
    let end = keys::pairs_end(Some(id));
    let (mut pairs, mut bytes, mut more) = (Vec::new(), 0, false);
    space.range(KeyRange { start: &start, end: Some(&end) }, Direction::Forward, &mut |key, value| {
        let key = key.get(keys::PAIR_PREFIX_BYTES..).unwrap_or_default();
        bytes += key.len() + value.len();
        if pairs.len() >= MOVE_PAIRS_MAX || (bytes > bytes_max && !pairs.is_empty()) {
            more = true;
            return ControlFlow::Break(());
        }
        pairs.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    })?;
    Ok(Ok(Reply::Export { pairs, more }))
}

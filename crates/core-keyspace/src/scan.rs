//! Reading keys in order over all clusters of a keyspace.
//!
//! Range keyspaces: the partitions in order, those of one cluster that follow each other in one call,
//! only those that can hold an answer. Hash keyspaces: every cluster at once, pages merged by key.
//!
//! Always: a page ascends (or descends) strictly (`check_invariants`), misses nothing between its first and last key, and
//! never holds a key twice (model in `tests.rs`; mutant `BackwardScanLeavesPart`), for each cluster answers only for partitions it owns at the epoch asked
//! for. A page may be shorter than the limit where `next` says that there is more.
//! Not one instant: clusters are read one after the other or side by side.

use crate::document::KeyspaceState;
use crate::family::{planner_in_rounds, KeyspaceNews, PlanContext};
use crate::map::{retry_of, unknown_keyspace, KeyspaceMap, Retry};
use crate::scan_request::ScanRequest;
use crate::store;
use base_types::action::{ActionResult, Failure, Level, Partitioning};
use base_types::invariant::{Broken, THOROUGH};
use base_types::mutant::{planted, Mutant};
use base_types::{
    holds, ClusterName, ErrorCode, OrderedAt, PartitionId, ReadConsistency, Refusal, SCAN_PAGE_BYTES_MAX,
};
use bytes::Bytes;
use core_backends::metadata::{Reply, ScanScopes, Scope};
use core_flow::rounds::{one, only, pause, refuse, respond, InRounds, Rounds};
use core_flow::{Call, CallReply, CallResult, Step};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rounds of calls after which a page is answered as it is.
const ROUNDS_MAX: u32 = 64;
/// How often a scan may find that partitions have moved under it.
const RELOCATIONS_MAX: u32 = 40;
/// The least a cluster is asked for, however many share a page.
const SHARE_LEAST: u32 = 16;
const SHARE_BYTES_LEAST: usize = 64 << 10;

/// A cluster's pairs, and whether it has more.
type Page = (Vec<(Bytes, Bytes)>, bool);

/// Reads a page of a keyspace.
pub struct ScanKeyspace(InRounds<Scan>);
planner_in_rounds!(ScanKeyspace, InRounds<Scan>);

impl ScanKeyspace {
    /// `map` is the cached one, if any; strong reads.
    pub fn new(keyspace: String, request: ScanRequest, map: Option<KeyspaceMap>) -> ScanKeyspace {
        ScanKeyspace::with_consistency(keyspace, request, map, None)
    }

    /// As `new`, at a level of the client's choice.
    pub fn with_consistency(
        keyspace: String,
        request: ScanRequest,
        map: Option<KeyspaceMap>,
        consistency: Option<ReadConsistency>,
    ) -> ScanKeyspace {
        let scan = Scan {
            keyspace,
            request,
            consistency,
            map,
            found: Vec::new(),
            bytes: 0,
            asked: Vec::new(),
            rounds: 0,
            relocations: 0,
            at: None,
            asked_of: None,
            level: None,
        };
        ScanKeyspace(InRounds::new(scan))
    }
}

/// One cluster's share of a round.
struct Share {
    cluster: ClusterName,
    scopes: Vec<Scope>,
}

struct Scan {
    keyspace: String,
    /// What is left to read.
    request: ScanRequest,
    consistency: Option<ReadConsistency>,
    map: Option<KeyspaceMap>,
    found: Vec<(Bytes, Bytes)>,
    bytes: usize,
    /// Range: where the part asked for ends, in the direction of the scan (`None`: it is the last).
    asked: Vec<Option<Bytes>>,
    rounds: u32,
    relocations: u32,
    at: Option<OrderedAt>,
    /// The one cluster of the last round.
    asked_of: Option<Arc<ClusterName>>,
    level: Option<Level>,
}

impl Rounds<KeyspaceNews> for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        if let Err(refusal) = self.request.check() {
            return refuse(refusal);
        }
        if answers.is_empty() {
            return self.ask();
        }
        if self.map.is_none() {
            return match store::document_read(context, &self.keyspace, only(answers)) {
                Ok(Some((version, document))) => match KeyspaceMap::new(version, document) {
                    Ok(map) => {
                        self.map = Some(map);
                        self.ask()
                    }
                    Err(refusal) => refuse(refusal),
                },
                Ok(None) => refuse(unknown_keyspace(&self.keyspace)),
                Err(failure) => Step::Done(Err(failure)),
            };
        }
        match self.pages(answers) {
            Ok(pages) => self.merge(pages),
            Err(failure) => self.failed(context, failure),
        }
    }

    fn check_invariants(&self) -> Result<(), Broken> {
        let found = self.found.len();
        let follows =
            |pair: &[(Bytes, Bytes)]| (pair[0].0 < pair[1].0) != self.request.reverse && pair[0].0 != pair[1].0;
        holds!(!THOROUGH || self.found.windows(2).all(follows), "{found} keys of a scan's page are not in order");
        Ok(())
    }
}

impl Scan {
    fn ask(&mut self) -> Step {
        let Some(map) = self.map.clone() else { return one(store::read_document(&self.keyspace)) };
        if map.document().state != KeyspaceState::Ready {
            if let Err(refusal) = map.check_serves() {
                return refuse(refusal);
            }
        }
        if self.request.is_empty() {
            return self.finish(false);
        }
        let shares = match map.document().partitioning {
            Partitioning::Hash => self.all_clusters(&map),
            Partitioning::Range => self.next_cluster(&map),
        };
        let count = shares.len().max(1) as u32;
        self.asked_of = shares.first().map(|share| Arc::new(share.cluster.clone()));
        let wanted = self.request.limit - self.found.len() as u32;
        let limit = (wanted / count * 2 + SHARE_LEAST).min(wanted);
        let room = SCAN_PAGE_BYTES_MAX.saturating_sub(self.bytes).max(1);
        let bytes_max = if count == 1 { room } else { (room / count as usize * 2).max(SHARE_BYTES_LEAST).min(room) };
        let calls: Vec<Call> = shares
            .into_iter()
            .map(|share| {
                let query = self.request.query(ScanScopes::Partitions(share.scopes), limit, bytes_max as u32);
                store::metadata_read(share.cluster, &query, self.consistency)
            })
            .collect();
        if calls.is_empty() {
            return self.finish(false);
        }
        Step::Calls(calls)
    }

    fn all_clusters(&mut self, map: &KeyspaceMap) -> Vec<Share> {
        let mut by_cluster: BTreeMap<u16, Share> = BTreeMap::new();
        for p in 0..map.document().partitions() {
            if let Some((number, cluster, scope)) = map.owner_of(PartitionId(p as u16)) {
                let share =
                    by_cluster.entry(number).or_insert_with(|| Share { cluster: cluster.clone(), scopes: Vec::new() });
                share.scopes.push(scope);
            }
        }
        self.asked = vec![None];
        by_cluster.into_values().collect()
    }

    /// The next partitions in the scan's direction that follow each other in one cluster.
    fn next_cluster(&mut self, map: &KeyspaceMap) -> Vec<Share> {
        let document = map.document();
        let first = usize::from(map.partition_of(&self.request.start).0);
        // The last partition that holds a key below `end`: the one in which `end` itself would be
        // the first key holds none.
        let last = match &self.request.end {
            Some(end) => document.split_keys.partition_point(|split| split < end),
            None => document.partitions() - 1,
        };
        let order: Vec<usize> =
            if self.request.reverse { (first..=last).rev().collect() } else { (first..=last).collect() };
        let mut share: Option<(u16, Share)> = None;
        let mut edge = None;
        for p in order {
            let Some((number, cluster, scope)) = map.owner_of(PartitionId(p as u16)) else { break };
            match &mut share {
                None => share = Some((number, Share { cluster: cluster.clone(), scopes: vec![scope] })),
                Some((owner, share)) if *owner == number => share.scopes.push(scope),
                Some(_) => {
                    // The next part begins at this split key (forward), or ends at it (backward).
                    edge = document
                        .split_keys
                        .get(if self.request.reverse && !planted(Mutant::BackwardScanLeavesPart) { p } else { p - 1 })
                        .cloned();
                    break;
                }
            }
        }
        self.asked = vec![edge];
        share.map(|(_, share)| share).into_iter().collect()
    }

    fn pages(&mut self, answers: Vec<CallResult>) -> Result<Vec<Page>, Failure> {
        let mut pages = Vec::new();
        let one_cluster = answers.len() == 1;
        for result in answers {
            if let Ok(CallReply::Backend { at, level, .. }) = &result {
                // Many clusters have no one place where the page was ordered.
                self.at = if one_cluster && (self.rounds == 0 || self.at.is_some_and(|seen| seen.cluster == at.cluster))
                {
                    Some(*at)
                } else {
                    None
                };
                self.level = Some(*level);
            }
            match store::backend_reply(result)? {
                Reply::Page { entries, more, .. } => pages.push((entries, more)),
                other => {
                    let message = format!("a scan was answered {other:?}");
                    return Err(Failure::from(Refusal::new(ErrorCode::Internal, message)));
                }
            }
        }
        Ok(pages)
    }

    /// Takes from the clusters' pages what is certain to be complete, then continues or ends.
    fn merge(&mut self, pages: Vec<(Vec<(Bytes, Bytes)>, bool)>) -> Step {
        self.rounds += 1;
        let reverse = self.request.reverse;
        let lasts = pages
            .iter()
            .filter(|(_, more)| *more)
            .filter_map(|(entries, _)| entries.last().map(|(key, _)| key.clone()));
        // Behind the first of the cut pages' ends, that cluster may have keys nobody has seen yet.
        let sure_up_to = if reverse { lasts.max() } else { lasts.min() };
        let mut merged: Vec<(Bytes, Bytes)> = pages.into_iter().flat_map(|(entries, _)| entries).collect();
        merged.sort_by(|(a, _), (b, _)| if reverse { b.cmp(a) } else { a.cmp(b) });
        if let Some(edge) = &sure_up_to {
            merged.retain(|(key, _)| if reverse { key >= edge } else { key <= edge });
        }
        for (key, value) in merged {
            let bytes = key.len() + value.len();
            if self.found.len() as u32 >= self.request.limit
                || (self.bytes + bytes > SCAN_PAGE_BYTES_MAX && !self.found.is_empty())
            {
                return self.finish(true);
            }
            self.bytes += bytes;
            self.found.push((key, value));
        }
        match (sure_up_to, self.asked.first().cloned().flatten()) {
            (Some(edge), _) => self.request.go_behind(&edge),
            (None, Some(edge)) if reverse => self.request.end = Some(edge),
            (None, Some(edge)) => self.request.start = self.request.start.clone().max(edge),
            (None, None) => return self.finish(false),
        }
        if self.request.is_empty() {
            return self.finish(false);
        }
        if self.found.len() as u32 >= self.request.limit || (self.rounds >= ROUNDS_MAX && !self.found.is_empty()) {
            return self.finish(true);
        }
        self.ask()
    }

    fn failed(&mut self, context: &mut PlanContext<'_>, failure: Failure) -> Step {
        self.relocations += 1;
        if retry_of(&failure.refusal) == Retry::No || self.relocations > RELOCATIONS_MAX {
            return Step::Done(Err(failure));
        }
        // Read the document anew; what has been found stays found.
        self.map = None;
        if self.relocations == 1 {
            self.ask()
        } else {
            pause(context, self.relocations.min(4))
        }
    }

    fn finish(&mut self, more: bool) -> Step {
        let entries = core::mem::take(&mut self.found);
        let next = if more { entries.last().map(|(key, _)| key.clone()) } else { None };
        let mut response = respond(ActionResult::Page { entries, next }, self.at);
        if let Ok(answer) = &mut response {
            answer.level = self.level;
            answer.cluster = self.at.and(self.asked_of.take());
        }
        Step::Done(response)
    }
}

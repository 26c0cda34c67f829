//! Planning a reshard: which partitions go where, and the document that says so.
//!
//! Always: after the moves no cluster has two partitions more than another, and no plan with fewer
//! moves reaches that; the same document gives the same plan.
//! Held by: `plans_are_even_and_small`.
//! Not here: carrying it out (`run.rs`).

use crate::clusters::TRIES_MAX;
use crate::document::{validate_clusters, Document, KeyspaceState, Move, MovePhase, Reshard};
use crate::family::{planner_in_rounds, KeyspaceNews, PlanContext};
use crate::map::{unknown_keyspace, KeyspaceMap};
use crate::store;
use base_types::action::{ActionResult, Failure, KeyspaceKind};
use base_types::{ErrorCode, PartitionId, Refusal};
use core_flow::rounds::{answer, is_passing, one, only, pause, refuse, InRounds, Rounds};
use core_flow::{CallResult, Step};

/// Writes the plan of a reshard into the document and answers with it; `ReshardRun` does the work.
pub struct StartReshard(InRounds<Start>);
planner_in_rounds!(StartReshard, InRounds<Start>);

impl StartReshard {
    /// Spread `keyspace` over `clusters` clusters.
    pub fn new(keyspace: String, clusters: u16) -> StartReshard {
        StartReshard(InRounds::new(Start { keyspace, clusters, writing: None, tries: 0 }))
    }
}

struct Start {
    keyspace: String,
    clusters: u16,
    writing: Option<Document>,
    tries: u32,
}

impl Rounds<KeyspaceNews> for Start {
    fn name(&self) -> &'static str {
        "start reshard"
    }

    fn subject(&self) -> Option<String> {
        Some(format!("keyspace {}: {} clusters", self.keyspace, self.clusters))
    }

    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Step {
        if answers.is_empty() {
            return one(store::read_document(&self.keyspace));
        }
        if let Some(document) = self.writing.take() {
            return match store::document_written(context, &document, only(answers)) {
                Ok(_) => told(&document),
                Err(failure) => self.again(context, failure),
            };
        }
        match store::document_read(context, &self.keyspace, only(answers)) {
            Ok(Some((version, document))) => self.plan(version, document),
            Ok(None) => refuse(unknown_keyspace(&self.keyspace)),
            Err(failure) => self.again(context, failure),
        }
    }
}

/// Why a keyspace of a kind is never spread over clusters; `None`: it may be.
fn of_one_cluster(keyspace: &str, kind: KeyspaceKind) -> Option<String> {
    match kind {
        KeyspaceKind::Plain => None,
        KeyspaceKind::Versioned => Some(format!(
            "keyspace '{keyspace}' is versioned: all of it is in one cluster, so that it has one order; make more keyspaces instead"
        )),
        KeyspaceKind::Redis => Some(format!(
            "keyspace '{keyspace}' is a redis database: all of it is in one cluster, so that every command is atomic; make more keyspaces of kind redis instead"
        )),
    }
}

impl Start {
    fn again(&mut self, context: &mut PlanContext<'_>, failure: Failure) -> Step {
        self.tries += 1;
        if self.tries > TRIES_MAX || !(is_passing(&failure) || store::is_conflict(&failure)) {
            return Step::Done(Err(failure));
        }
        pause(context, self.tries)
    }

    fn plan(&mut self, version: u64, document: Document) -> Step {
        if document.state != KeyspaceState::Ready {
            return match KeyspaceMap::new(version, document).and_then(|map| map.check_serves()) {
                Err(refusal) => refuse(refusal),
                Ok(()) => refuse(unknown_keyspace(&self.keyspace)),
            };
        }
        if let Some(message) = of_one_cluster(&self.keyspace, document.kind) {
            return refuse(Refusal::new(ErrorCode::InvalidKeyspace, message));
        }
        if let Err(refusal) = validate_clusters(self.clusters, document.partitions()) {
            return refuse(refusal);
        }
        if let Some(running) = &document.reshard {
            if running.target == self.clusters {
                return told(&document);
            }
            let message = format!(
                "keyspace '{}' is being spread over {} clusters, {} of {} moves done; wait until it is through",
                self.keyspace, running.target, running.done, running.total
            );
            return refuse(Refusal::new(ErrorCode::ReshardRunning, message));
        }
        let moves = plan_moves(&document, self.clusters);
        let total_moves = moves.len();
        let reshard = Reshard { target: self.clusters, prepared: false, done: 0, total: moves.len() as u32, moves };
        let mut planned = Document { reshard: Some(reshard), ..document };
        if total_moves > 0 {
            // The totals tell of the last reshard that moved anything.
            (planned.moved_partitions, planned.moved_keys) = (0, 0);
        }
        let call = store::write_document(&planned, Some(version));
        self.writing = Some(planned);
        one(call)
    }
}

fn told(document: &Document) -> Step {
    document.info().map_or_else(refuse, |info| answer(ActionResult::Keyspace(info), None))
}

/// The fewest moves after which `target` clusters share the partitions evenly.
pub(crate) fn plan_moves(document: &Document, target: u16) -> Vec<Move> {
    let clusters = usize::from(target.max(document.clusters_most()));
    let mut owned: Vec<Vec<usize>> = vec![Vec::new(); clusters];
    for (partition, owner) in document.owners.iter().enumerate() {
        owned[usize::from(*owner)].push(partition);
    }
    let quotas = quotas(&owned, document.partitions(), usize::from(target));
    let mut leaving: Vec<usize> = Vec::new();
    for (cluster, partitions) in owned.iter().enumerate() {
        leaving.extend(partitions.iter().skip(quotas[cluster]));
    }
    leaving.sort_unstable();
    let mut leaving = leaving.into_iter();
    let mut moves = Vec::new();
    for (cluster, partitions) in owned.iter().enumerate() {
        for partition in leaving.by_ref().take(quotas[cluster].saturating_sub(partitions.len())) {
            moves.push(Move {
                partition: PartitionId(partition as u16),
                from: document.owners[partition],
                to: cluster as u16,
                epoch: document.epochs[partition],
                phase: MovePhase::Waiting,
            });
        }
    }
    moves
}

/// How many partitions each cluster shall have: those that have most keep the odd ones.
fn quotas(owned: &[Vec<usize>], partitions: usize, target: usize) -> Vec<usize> {
    let mut quotas = vec![0; owned.len()];
    let mut by_size: Vec<usize> = (0..target).collect();
    by_size.sort_by_key(|cluster| (core::cmp::Reverse(owned[*cluster].len()), *cluster));
    for (rank, cluster) in by_size.into_iter().enumerate() {
        quotas[cluster] = partitions / target + usize::from(rank < partitions % target);
    }
    quotas
}

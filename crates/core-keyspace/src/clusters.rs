//! Making and removing the clusters of a keyspace, some at a time.
//!
//! By design: a cluster is removed by its life, so that one made later under its name stays.
//! Not here: when (`create.rs`, `delete.rs`, `reshard/run.rs`), how one cluster is made (core-node, flows).

use crate::document::Document;
use crate::store;
use base_types::action::Failure;
use base_types::{ClusterName, ErrorCode, Generation, Refusal};
use core_flow::rounds::refuse;
use core_flow::{Call, CallResult, Step};

/// Clusters made or removed at a time.
pub(crate) const CLUSTERS_AT_A_TIME: u16 = 8;
/// Failed rounds in a row after which a plan gives up (a sweep takes it up again).
pub(crate) const TRIES_MAX: u32 = 30;

/// The first answer that is neither well nor the expected refusal.
pub(crate) fn first_failure(answers: Vec<CallResult>, as_good: ErrorCode) -> Option<Failure> {
    answers.into_iter().filter_map(Result::err).find(|failure| failure.refusal.code != as_good)
}

/// Asks for some of the clusters `first…end`.
pub(crate) fn create_clusters(document: &Document, first: u16, end: u16) -> Step {
    let rule = document.cluster_rule();
    let round = first..end.min(first.saturating_add(CLUSTERS_AT_A_TIME));
    let calls: Result<Vec<Call>, Refusal> = round
        .map(|number| Ok(Call::CreateCluster { cluster: document.cluster(number)?, rule: rule.clone() }))
        .collect();
    calls.map_or_else(refuse, Step::Calls)
}

/// Clusters that are to go, each with its life.
pub(crate) type Lives = Vec<(ClusterName, Generation)>;

/// Asks which lives some of the clusters `first…end` have.
pub(crate) fn look_at_lives(document: &Document, first: u16, end: u16) -> Step {
    let round = first..end.min(first.saturating_add(CLUSTERS_AT_A_TIME));
    let calls: Result<Vec<Call>, Refusal> =
        round.map(|number| Ok(store::resolve_cluster(document.cluster(number)?))).collect();
    calls.map_or_else(refuse, Step::Calls)
}

/// What `look_at_lives` found; a cluster that is not there is left out.
pub(crate) fn lives_seen(answers: Vec<CallResult>) -> Result<Lives, Failure> {
    let mut lives = Vec::new();
    for result in answers {
        if let Some(record) = store::cluster_resolved(result)? {
            lives.push((record.name, record.generation));
        }
    }
    Ok(lives)
}

/// Asks for the removal of clusters; `None`: there are none.
pub(crate) fn delete_clusters(lives: Lives) -> Option<Step> {
    let delete = |(cluster, life)| Call::DeleteCluster { cluster, life: Some(life) };
    (!lives.is_empty()).then(|| Step::Calls(lives.into_iter().map(delete).collect()))
}

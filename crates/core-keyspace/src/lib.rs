//! Keyspaces: keys spread over many clusters by a fixed number of virtual partitions, and moved
//! between clusters while they serve (second paper; Hive paper, 2.7).
//!
//!   document (world cluster, `keyspace/<name>`) ──▶ KeyspaceMap (cached) ──route──▶ cluster + scope
//!        ▲ compare-and-set
//!   CreateKeyspace · DeleteKeyspace · StartReshard · ReshardRun (planners, in rounds of calls)
//!
//! ```text
//!   document.rs, store.rs     what is kept of a keyspace, and where
//!   versioned.rs, redis.rs    keyspaces that keep every version; databases of the Redis door
//!   map.rs                    from a key to its cluster; scan.rs: over several of them
//!   create.rs, delete.rs      and clusters.rs, that both stand on; engine.rs: another engine
//!   reshard/                  partitions move between clusters
//!   at_rest.rs, topology.rs   reads of a bucket without a node; a world laid out by hand
//! ```
//!
//! Always: the document is the only truth about owners and is changed by compare-and-set alone; every
//! step of every planner may be repeated, by two runners at once or after a crash at any point; a
//! partition has one owner per epoch, which its cluster checks for every single command.
//! Held by: `a_reshard_survives_a_crash_at_every_step`, `two_runners_at_once_do_no_harm`, `an_epoch_that_was_given_up_never_comes_back`.
//! Not here: retries and leaders (the router), bytes of pairs (core-backends, metadata).
//! Why it is done so: docs/decisions/0007-keyspaces-and-resharding.md.

mod at_rest;
mod clusters;
mod create;
mod delete;
mod document;
mod engine;
mod family;
mod map;
mod payload;
mod read;
mod redis;
mod reshard;
mod scan;
mod scan_request;
mod store;
#[cfg(test)]
mod tests;
mod topology;
mod versioned;

pub use at_rest::{at_rest, read_at_rest, AtRest};
pub use create::CreateKeyspace;
pub use delete::DeleteKeyspace;
pub use document::{
    cluster_name, document_key, validate_name, Document, KeyspaceSpec, KeyspaceState, KEYSPACE_NAME_BYTES_MAX,
};
pub use engine::SetEngine;
pub use family::{DocumentNews, KeyspaceNews, KeyspacePlanner};
pub use map::{is_keyspace_cluster, plain_payload, read_reply, retry_of, KeyspaceMap, Retry, Routed};
pub use payload::Payload;
pub use read::{DescribeKeyspace, ListKeyspaces};
pub use redis::{read_redis_reply, redis_payload, refuse_sweep};
pub use reshard::{ReshardRun, StartReshard};
pub use scan::ScanKeyspace;
pub use scan_request::ScanRequest;
pub use topology::{from_static_topology, ShapeClusters, StaticPlan, StaticShard, TopologyError};
pub use versioned::{read_versioned_reply, refuse_internal, versioned_payload};

use base_types::action::Action;

/// The planner of a keyspace action; `None` for actions that need none (`KvPut`, `KvGet`, …: see
/// [`KeyspaceMap::route`]) or are none of ours. `map` is the cached one of the keyspace, if any.
pub fn planner_for(action: &Action, map: Option<&KeyspaceMap>) -> Option<Box<KeyspacePlanner>> {
    Some(match action {
        Action::CreateKeyspace { keyspace, kind, partitioning, partitions, clusters, split_keys, rule, engine } => {
            Box::new(CreateKeyspace::new(KeyspaceSpec {
                name: keyspace.clone(),
                kind: *kind,
                partitioning: *partitioning,
                partitions: *partitions,
                clusters: *clusters,
                split_keys: split_keys.clone(),
                rule: rule.clone(),
                engine: engine.clone(),
            }))
        }
        Action::DeleteKeyspace { keyspace } => Box::new(DeleteKeyspace::new(keyspace.clone())),
        Action::DescribeKeyspace { keyspace } => Box::new(DescribeKeyspace::new(keyspace.clone())),
        Action::ListKeyspaces => Box::new(ListKeyspaces::new()),
        Action::SetEngine { target, engine } => Box::new(SetEngine::new(target.clone(), engine.clone())),
        Action::Reshard { keyspace, clusters } => Box::new(StartReshard::new(keyspace.clone(), *clusters)),
        Action::KvScan { target: base_types::action::KvTarget::Keyspace(keyspace), .. } => {
            Box::new(ScanKeyspace::new(keyspace.clone(), ScanRequest::from_action(action)?, map.cloned()))
        }
        _ => return None,
    })
}

/// A `KvScan`'s planner at the client's read level (`planner_for` reads at each cluster's default).
pub fn scan_planner(
    action: &Action,
    map: Option<&KeyspaceMap>,
    consistency: Option<base_types::ReadConsistency>,
) -> Option<Box<KeyspacePlanner>> {
    let Action::KvScan { target: base_types::action::KvTarget::Keyspace(keyspace), .. } = action else { return None };
    let request = ScanRequest::from_action(action)?;
    Some(Box::new(ScanKeyspace::with_consistency(keyspace.clone(), request, map.cloned(), consistency)))
}

/// Whether a router should try again by itself, inside the request's deadline; how: [`retry_of`].
pub fn is_retryable_inside(refusal: &base_types::Refusal) -> bool {
    retry_of(refusal) != Retry::No
}

/// What to run in the background once an action was answered well.
pub fn follow_up(action: &Action) -> Option<Box<KeyspacePlanner>> {
    match action {
        Action::Reshard { keyspace, .. } => Some(Box::new(ReshardRun::new(keyspace.clone()))),
        _ => None,
    }
}

/// What a document still needs, if its runner is gone: run it in the background when a sweep (a
/// `ListKeyspaces` plan without client; it leaves the documents in `PlanContext::documents`) finds the
/// document unfinished at the same version as the sweep before. Running it twice does no harm.
pub fn work_left(news: &DocumentNews) -> Option<Box<KeyspacePlanner>> {
    let document = Document::decode_body(news.body.clone()?).ok()?;
    match document.state {
        KeyspaceState::Creating => Some(Box::new(CreateKeyspace::resume(document, news.version))),
        KeyspaceState::Deleting => Some(Box::new(DeleteKeyspace::new(document.name))),
        KeyspaceState::Ready if document.reshard.is_some() => Some(Box::new(ReshardRun::new(document.name))),
        KeyspaceState::Ready => None,
    }
}

//! A process that reads a world out of a bucket, beside its writer: `hive attach`.
//!
//! ```text
//!  request ─door-http▶ action ─core-node (at rest)▶ query of a cluster ─▶ its space in the bucket (engine-object)
//! ```
//!
//! Always: nothing is written to the place and nobody is fenced; answers are those of eventual reads, as old as the
//! tail's lag and `follow` together; a space is looked at before and behind each query, for a cluster may have moved
//! to another one meanwhile, and the old one is being emptied.
//! Not here: connections (`http/attached.rs`).

use crate::data::{Origin, FORMAT};
pub use crate::http::attached::serve;
use crate::restore::{choose, look, Which};
use base_engine::{EngineError, EngineRead};
use base_types::action::{Action, ActionResult, Answer, Response, StatusInfo};
use base_types::{BackendKind, ClusterName, ErrorCode, Refusal, SpaceId};
use bytes::Bytes;
use core_cluster::restore::{Found, Home, RestoredReplica};
use core_flow::CallResult;
use core_keyspace::{at_rest, read_at_rest, AtRest};
use engine_object::Attached as Rows;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a query looks anew where its cluster is.
const LOOKS_MAX: usize = 3;
/// Memory for blocks read, a lane.
const CACHE_BYTES: u64 = 64 << 20;

/// Of the spaces of a cluster the latest (`RestoredReplica::order`), with its lane.
type Latest = ((u64, u32, u64), usize, SpaceId);

/// What is attached to.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `engine.object.url` of the node that keeps the tail, or kept it.
    pub from: String,
    /// Its `engine.object.options`.
    pub options: BTreeMap<String, String>,
    /// Whose data, where there is that of several.
    pub which: Which,
    /// How often the place is asked for what has come.
    pub follow: Duration,
}

/// A world as a bucket shows it.
pub struct Attached {
    origin: Origin,
    from: String,
    lanes: Vec<Rows>,
    clusters: BTreeMap<ClusterName, (usize, SpaceId)>,
}

/// Attaches to it.
pub fn attach(plan: &Plan) -> Result<Attached, String> {
    let lanes = choose(&plan.from, plan.which, look(&plan.from, &plan.options)?)?;
    let Some((origin, _)) = lanes.first().cloned() else {
        return Err(format!("{} holds no node's data; name engine.object.url of the node that keeps it", plan.from));
    };
    if origin.format != FORMAT {
        let found = origin.format;
        return Err(format!(
            "{} holds data of format {found}, this build reads only {FORMAT}; attach with the build that writes it",
            plan.from
        ));
    }
    let rows = lanes.iter().map(|(_, held)| engine_object::attach(held, CACHE_BYTES, plan.follow));
    let lanes = rows.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    let mut attached = Attached { origin, from: plan.from.clone(), lanes, clusters: BTreeMap::new() };
    attached.find_clusters().map_err(|error| error.to_string())?;
    Ok(attached)
}

impl Attached {
    /// Whose data it is.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The clusters, by name, with the index at which the bucket has each.
    pub fn clusters(&self) -> Vec<(ClusterName, u64)> {
        let index = |(lane, space): &(usize, SpaceId)| match self.replica(*lane, *space) {
            Ok(Some(replica)) => replica.applied().0,
            _ => 0,
        };
        self.clusters.iter().map(|(name, place)| (name.clone(), index(place))).collect()
    }

    /// Answers what only reads; anything else is refused.
    pub fn answer(&mut self, action: &Action) -> Response {
        match action {
            Action::Status => {
                let result = ActionResult::Status(self.status());
                Ok(Answer { result, at: None, level: None, cluster: None })
            }
            _ => read_at_rest(action, self),
        }
    }

    fn status(&self) -> StatusInfo {
        StatusInfo {
            world: self.origin.world.clone(),
            node: self.origin.node,
            ready: true,
            not_ready: Vec::new(),
            degraded: Vec::new(),
            quorum: Vec::new(),
            nodes_up: 0,
            nodes_total: 0,
            clusters: u32::try_from(self.clusters.len()).unwrap_or(u32::MAX),
            leaders: 0,
            quiesced: 0,
            config_cluster: None,
            warnings: vec![format!("this process only reads along in {}", self.from)],
            log_write_ms: 0,
            certificate_expires_ms: 0,
        }
    }

    /// The replica in a space, if there is a whole one.
    fn replica(&self, lane: usize, space: SpaceId) -> Result<Option<Box<RestoredReplica>>, EngineError> {
        let home = Home { node: self.origin.node, disk: self.origin.disk, engine: engine_object::NAME.into(), space };
        Ok(match RestoredReplica::read(&self.lanes[lane], space, home)? {
            Found::Replica(replica) => Some(replica),
            Found::Unfinished => None,
        })
    }

    /// Looks anew in which space each cluster is.
    fn find_clusters(&mut self) -> Result<(), EngineError> {
        let mut latest: BTreeMap<ClusterName, Latest> = BTreeMap::new();
        for lane in 0..self.lanes.len() {
            for space in self.lanes[lane].spaces()? {
                let Some(replica) = self.replica(lane, space)? else { continue };
                let found = (replica.order(), lane, space);
                if latest.get(replica.name()).is_none_or(|(order, ..)| *order < found.0) {
                    latest.insert(replica.name().clone(), found);
                }
            }
        }
        self.clusters = latest.into_iter().map(|(name, (_, lane, space))| (name, (lane, space))).collect();
        Ok(())
    }

    /// Asks a cluster's rows. `None`: they are somewhere else by now, or were replaced meanwhile.
    fn ask(
        &self,
        name: &ClusterName,
        backend: BackendKind,
        query: &Bytes,
    ) -> Result<Option<(Bytes, base_types::OrderedAt)>, EngineError> {
        let Some((lane, space)) = self.clusters.get(name).copied() else { return Ok(None) };
        let Some(before) = self.replica(lane, space)?.filter(|replica| replica.name() == name) else { return Ok(None) };
        let rows: &dyn EngineRead = &self.lanes[lane];
        let reply = before.query(rows, backend, query)?;
        let after = self.replica(lane, space)?;
        let same = after.is_some_and(|after| after.name() == name && after.order() >= before.order());
        Ok(same.then(|| (reply, before.at())))
    }
}

impl AtRest for Attached {
    fn read(&mut self, cluster: &ClusterName, backend: BackendKind, query: &Bytes) -> CallResult {
        let damaged = |error: EngineError| Refusal::new(ErrorCode::ReplicaUnreadable, error.to_string());
        for _ in 0..LOOKS_MAX {
            if let Some((reply, at)) = self.ask(cluster, backend, query).map_err(damaged)? {
                return Ok(at_rest(reply, at));
            }
            self.find_clusters().map_err(damaged)?;
        }
        let message = format!(
            "{} holds no cluster {cluster}: the node that keeps it is no member of it; add it to the cluster, or ask a node of the world",
            self.from
        );
        Err(Refusal::new(ErrorCode::UnknownCluster, message).into())
    }
}

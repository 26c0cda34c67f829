//! From a client's request to the member that answers it, and back.
//!
//! ```text
//!   clients.rs ─▶ keyspaces.rs (keys of a keyspace) ─▶ router.rs ─▶ lane here | frame to another node
//!       │                                                 │ no route: resolve.rs ─▶ the world's `reference`
//!       └─▶ a plan (plan_runner.rs)                       └────────── location.rs ─▶ other nodes, where that is silent
//!   operation.rs   one request on its way        cache.rs   routes        verification.rs   answers of VerifyCluster
//! ```
//!
//! Not here: what an operation does (core-cluster, core-backends), who is a member (membership/).

pub(crate) mod cache;
pub(crate) mod clients;
pub(crate) mod keyspaces;
pub(crate) mod location;
pub(crate) mod operation;
pub(crate) mod resolve;
pub(crate) mod router;
pub(crate) mod verification;

use crate::routing::cache::{Route, RouteCache, ROUTES_MAX};
use crate::routing::keyspaces::{KeyspaceTable, KEYSPACES_MAX};
use crate::routing::location::{Locations, Search};
use crate::routing::operation::{Operation, PENDING_REQUESTS_MAX};
use base_types::sizes::Sizes;
use base_types::{BootId, ClusterName, LaneId, NodeId, Ticket};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most operations of other nodes that this core serves at a time.
pub const SERVED_MAX: usize = 65_536;

/// Where an operation that came from elsewhere is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    pub node: NodeId,
    pub lane: LaneId,
    pub boot: BootId,
    pub ticket: Ticket,
}

/// What serves a client's request; found again when it goes away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientWork {
    Operation(u64),
    Plan(u64),
}

/// What the router of a core knows.
#[derive(Default)]
pub struct Routing {
    operations: BTreeMap<u64, Operation>,
    clients: BTreeMap<Ticket, ClientWork>,
    served: BTreeMap<u64, Served>,
    routes: RouteCache,
    /// Names whose clusters are being looked for.
    resolving: BTreeMap<Arc<ClusterName>, Search>,
    locations: Locations,
    keyspaces: KeyspaceTable,
}

impl Routing {
    /// Where a cluster is, as far as this core knows.
    pub fn route(&self, name: &ClusterName) -> Option<&Route> {
        self.routes.get(name)
    }

    /// The same, to be put right.
    pub fn route_mut(&mut self, name: &ClusterName) -> Option<&mut Route> {
        self.routes.get_mut(name)
    }

    /// Where a cluster is.
    pub fn learn_route(&mut self, name: Arc<ClusterName>, route: Route) {
        self.routes.put(name, route);
    }

    /// The world's cluster may answer again: it is asked first.
    pub fn on_world_heard(&mut self) {
        self.locations.world_silent = false;
    }

    /// Whether a keyspace's document is remembered.
    pub fn knows_keyspace(&self, keyspace: &str) -> bool {
        self.keyspaces.maps.contains_key(keyspace)
    }

    /// A client's request is served by this plan.
    pub fn serve_by_plan(&mut self, ticket: Ticket, plan: u64) {
        self.clients.insert(ticket, ClientWork::Plan(plan));
    }

    /// Operations under way.
    pub fn operations_pending(&self) -> usize {
        self.operations.len()
    }

    /// Routes remembered.
    pub fn routes_cached(&self) -> usize {
        self.routes.len()
    }

    /// Adds the sizes of what it keeps; routes of so many clusters are pinned beside the bound.
    pub fn sizes(&self, pinned: usize, sizes: &mut Sizes) {
        sizes.passing("client requests, a core", self.clients.len(), PENDING_REQUESTS_MAX);
        sizes.passing("operations under way, a core", self.operations.len(), PENDING_REQUESTS_MAX);
        sizes.passing("operations of other nodes, a core", self.served.len(), SERVED_MAX);
        sizes.passing("names being resolved, a core", self.resolving.len(), PENDING_REQUESTS_MAX);
        sizes.lasting("routes remembered, a core", self.routes.len(), ROUTES_MAX + pinned);
        sizes.lasting("keyspaces known, a core", self.keyspaces.maps.len(), KEYSPACES_MAX);
    }
}

//! From a client's request to the member that answers it, and back.
//!
//! ```text
//!   keyspaces.rs (keys of a keyspace) ─▶ router.rs ─▶ lane here | frame to another node ─▶ answers.rs ─▶ client
//!                                           │ no route: resolve.rs ─▶ the world's `reference`  └▶ RoutingEvent ─▶ its owner
//!                                           └────────── location.rs ─▶ other nodes, where that is silent
//!   operation.rs   one request on its way        cache.rs   routes        verification.rs   answers of VerifyCluster
//!   nearness.rs    who answers reads that any member may answer
//! ```
//!
//! By design: its fields are its own. It calls no other part: what ended for one waits as a [`RoutingEvent`] until that is taken.
//! Not here: which action becomes which operation (clients.rs), what it does (core-cluster, core-backends), who is a member
//! (membership/).

pub(crate) mod answers;
pub(crate) mod cache;
pub(crate) mod keyspaces;
pub(crate) mod location;
pub(crate) mod nearness;
pub(crate) mod operation;
pub(crate) mod resolve;
pub(crate) mod router;
pub(crate) mod verification;

use crate::routing::cache::{Route, RouteCache, ROUTES_MAX};
use crate::routing::keyspaces::{KeyspaceTable, KEYSPACES_MAX};
use crate::routing::location::{Locations, Search};
use crate::routing::nearness::Nearness;
use crate::routing::operation::{Asked, Operation, Owner, PENDING_REQUESTS_MAX};
use base_types::sizes::Sizes;
use base_types::{BootId, ClusterId, ClusterName, Generation, LaneId, NodeId, Ticket};
use core_cluster::api::{Member, ReplicaView};
use core_flow::CallResult;
use core_keyspace::{KeyspaceMap, KeyspacePlanner};
use std::collections::{BTreeMap, VecDeque};
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

/// What other parts are to know.
pub enum RoutingEvent {
    /// An operation of this part ended.
    Ended { owner: Owner, result: CallResult },
    /// A client's scan whose keyspace is known now: a plan continues it.
    Scan { ticket: Ticket, planner: Box<KeyspacePlanner>, asked: Asked },
    /// Another node knows of a later change of what clients may do.
    DirectoryWanted,
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
    nearness: Nearness,
    keyspaces: KeyspaceTable,
    events: VecDeque<RoutingEvent>,
}

impl Routing {
    /// What another part is to know, the oldest first.
    pub fn next_event(&mut self) -> Option<RoutingEvent> {
        self.events.pop_front()
    }

    fn report(&mut self, event: RoutingEvent) {
        self.events.push_back(event);
    }

    /// A client went away: what serves it continues, and answers nobody.
    pub fn forget_client(&mut self, ticket: Ticket) -> Option<ClientWork> {
        let work = self.clients.remove(&ticket)?;
        if let ClientWork::Operation(number) = work {
            if let Some(Owner::Client { ticket, .. }) = self.operations.get_mut(&number).map(|one| &mut one.owner) {
                *ticket = None;
            }
        }
        Some(work)
    }

    /// A name as the cache shares it.
    pub fn shared_name(&mut self, name: ClusterName) -> Arc<ClusterName> {
        match self.routes.find(&name) {
            Some((shared, _)) => shared.clone(),
            None => Arc::new(name),
        }
    }

    /// The router finds a cluster of this lane without asking anyone.
    pub fn know_own(&mut self, view: &ReplicaView) {
        if self.route(&view.name).is_none() {
            self.learn_route(Arc::new(view.name.clone()), Route::of_replica(view));
        }
    }

    /// A cluster here has these members now, and this leader.
    pub fn note_members(
        &mut self,
        name: &ClusterName,
        life: (ClusterId, Generation),
        leader: Option<NodeId>,
        members: &Arc<[Member]>,
    ) {
        if let Some(route) = self.routes.get_mut(name) {
            if (route.cluster, route.generation) == life && !members.is_empty() {
                route.members = members.clone();
                if leader.is_some() {
                    route.leader = leader;
                }
            }
        }
    }

    /// What is remembered of a keyspace.
    pub fn keyspace(&self, keyspace: &str) -> Option<&KeyspaceMap> {
        self.keyspaces.maps.get(keyspace)
    }

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

    /// A client's request is served by this plan.
    pub fn serve_by_plan(&mut self, ticket: Ticket, plan: u64) {
        self.clients.insert(ticket, ClientWork::Plan(plan));
    }

    /// Operations under way.
    pub fn operations_pending(&self) -> usize {
        self.operations.len()
    }

    /// The calls of plans that operations carry out.
    pub fn calls_of_plans(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.operations.values().filter_map(|operation| match operation.owner {
            Owner::Plan { plan, index } => Some((plan, index)),
            _ => None,
        })
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

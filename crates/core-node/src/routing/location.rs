//! Where a cluster is, and what a keyspace's document says, when the world's cluster does not answer (decision 0035).
//!
//!   own replica ─▶ else: world (strong) ─ silent for half an election timeout ─▶ world (eventual), region's copy, connected nodes
//!
//! Always: what others than the world say is a guess: it may cost a redirect, is replaced by the world's answer, and never says
//! that something does not exist. A node that denied a life is not asked for it again by the same operation. Only lane zero knows the
//! node's replicas, and answers for all lanes.
//! Held by: `nothing_is_denied_while_the_world_is_silent`, `stale_route_costs_a_redirect_without_the_world`.
//! Not here: the world's own answer (resolve.rs, keyspaces.rs), copies of documents (flows/copy.rs).

use crate::context::local_replicas::ReplicaKnown;
use crate::context::{CoreContext, Turn};
use crate::flows::copy::{copy_key, DocumentCopy};
use crate::frame::{Item, Sender, Told};
use crate::routing::cache::Route;
use crate::routing::operation::{Operation, Owner};
use crate::routing::resolve::{question_for, route_of};
use crate::routing::Routing;
use crate::timers::TimerKey;
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{BackendKind, ClusterName, DiskId, NodeId, ReadConsistency, ReplicaId, Term, Tick, LANE_ZERO};
use bytes::Bytes;
use core::time::Duration;
use core_backends::reference::{ClusterState, Query, Reply, MEMBERS_MAX};
use core_cluster::api::{LocalKind, Member};
use core_flow::{decode_call, CallResult};
use core_keyspace::document_key;
use core_keyspace::DocumentNews;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most nodes asked at a time.
const NODES_ASKED_MAX: usize = 64;

/// What is being looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Sought {
    Cluster(Arc<ClusterName>),
    Keyspace(String),
}

/// Operations that wait for a route or a document.
#[derive(Debug, Default)]
pub struct Search {
    pub waiting: Vec<u64>,
    number: u64,
    timer: Tick,
}

/// All searches of a core.
#[derive(Debug, Default)]
pub struct Locations {
    sought: BTreeMap<u64, Sought>,
    /// The world's cluster did not answer when it was last asked: others are asked at once.
    pub world_silent: bool,
}

impl Routing {
    /// Half an election timeout: the world's leader answers sooner, or is being elected.
    fn hedge(&self, core: &CoreContext) -> Duration {
        core.election_timeout() / 4
    }

    /// Begins to watch a search whose question to the world has just been sent.
    pub fn watch_cluster(&mut self, turn: &mut Turn<'_>, name: &Arc<ClusterName>) {
        if !turn.core.is_lane_zero() && !planted(Mutant::OwnReplicaIgnored) {
            turn.core.send_to_lane_zero(&Item::WhereIs { name: (**name).clone(), led: true });
        }
        let at = self.watch_from(turn.core, turn.now);
        let number = turn.core.next_number();
        let Some(search) = self.resolving.get_mut(name) else { return };
        (search.number, search.timer) = (number, at);
        self.locations.sought.insert(number, Sought::Cluster(name.clone()));
        turn.core.set_timer(TimerKey::Search(number), Tick::NEVER, at);
    }

    /// As [`Routing::watch_cluster`], for a keyspace's document.
    pub fn watch_keyspace(&mut self, turn: &mut Turn<'_>, keyspace: &str) {
        let at = self.watch_from(turn.core, turn.now);
        let number = turn.core.next_number();
        let Some(search) = self.keyspaces.fetching.get_mut(keyspace) else { return };
        (search.number, search.timer) = (number, at);
        self.locations.sought.insert(number, Sought::Keyspace(keyspace.into()));
        turn.core.set_timer(TimerKey::Search(number), Tick::NEVER, at);
    }

    fn watch_from(&self, core: &CoreContext, now: Tick) -> Tick {
        if self.locations.world_silent {
            now
        } else {
            now + self.hedge(core)
        }
    }

    /// A search is over: who waited.
    pub fn end_search(&mut self, core: &mut CoreContext, search: Option<Search>) -> Vec<u64> {
        let Some(search) = search else { return Vec::new() };
        core.cancel_timer(TimerKey::Search(search.number), search.timer);
        self.locations.sought.remove(&search.number);
        search.waiting
    }

    /// The world has not answered a search yet: others are asked, and again after a while.
    pub fn on_search_timer(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(sought) = self.locations.sought.get(&number).cloned() else { return };
        self.locations.world_silent = true;
        let at = turn.now + self.hedge(turn.core) * 2;
        let search = match &sought {
            Sought::Cluster(name) => self.resolving.get_mut(name),
            Sought::Keyspace(keyspace) => self.keyspaces.fetching.get_mut(keyspace),
        };
        let Some(search) = search else { return };
        search.timer = at;
        turn.core.set_timer(TimerKey::Search(number), Tick::NEVER, at);
        match sought {
            Sought::Cluster(name) => self.ask_for_cluster(turn, &name),
            Sought::Keyspace(keyspace) => self.ask_for_keyspace(turn, &keyspace),
        }
    }

    fn eventual(&mut self, turn: &mut Turn<'_>, owner: Owner, cluster: Arc<ClusterName>, query: &Query) {
        let kind = LocalKind::Read {
            backend: BackendKind::Reference,
            query: query.to_bytes(),
            consistency: Some(ReadConsistency::Eventual),
        };
        let deadline = turn.now + turn.core.election_timeout();
        let question = Operation::new(owner, cluster, kind, turn.now, deadline);
        self.start_operation(turn, question);
    }

    fn ask_for_cluster(&mut self, turn: &mut Turn<'_>, name: &Arc<ClusterName>) {
        let item = Item::WhereIs { name: (**name).clone(), led: false };
        if !planted(Mutant::OwnReplicaIgnored) {
            turn.core.send(turn.core.node(), LANE_ZERO, &item);
        }
        for node in self.nodes_to_ask(turn.core) {
            turn.core.send(node, LANE_ZERO, &item);
        }
        self.eventual(turn, Owner::Elsewhere(name.clone()), turn.core.world(), &question_for(name));
    }

    /// Nodes that this one is connected with, those of its region first; if there are too many, others each time.
    fn nodes_to_ask(&mut self, core: &mut CoreContext) -> Vec<NodeId> {
        let mapped = core.map().records().filter(|record| record.up).map(|record| record.node);
        let near: BTreeSet<NodeId> = core
            .map()
            .records()
            .filter(|record| record.labels.region == core.config().labels.region)
            .map(|record| record.node)
            .chain(core.level_zero().iter().skip(1).flat_map(|zero| zero.members.iter().copied()))
            .collect();
        let all: BTreeSet<NodeId> = core.nodes().connected().iter().copied().chain(mapped).collect();
        let mut nodes: Vec<(bool, u64, NodeId)> = all
            .into_iter()
            .filter(|node| *node != core.node() && core.is_up(*node))
            .map(|node| (!near.contains(&node), 0, node))
            .collect();
        if nodes.len() > NODES_ASKED_MAX {
            nodes.iter_mut().for_each(|(_, order, _)| *order = core.random().next());
            nodes.sort_unstable();
            nodes.truncate(NODES_ASKED_MAX);
        }
        nodes.into_iter().map(|(_, _, node)| node).collect()
    }

    fn ask_for_keyspace(&mut self, turn: &mut Turn<'_>, keyspace: &str) {
        let key = Bytes::from(document_key(keyspace).into_bytes());
        let owner = |copy| Owner::KeyspaceElsewhere { keyspace: keyspace.into(), copy };
        self.eventual(turn, owner(false), turn.core.world(), &Query::GetDocument { key });
        if let Some(region) = turn.core.level_zero().get(1).map(|zero| zero.name.clone()) {
            self.eventual(turn, owner(true), region, &Query::GetDocument { key: copy_key(keyspace) });
        }
    }

    /// A member of the world answered from what it has applied.
    pub fn on_elsewhere(&mut self, turn: &mut Turn<'_>, name: &Arc<ClusterName>, result: CallResult) {
        let Ok((Reply::Resolved { record: Some(record), .. }, _)) = decode_call::<Reply>(result) else { return };
        if record.state == ClusterState::Active {
            for member in &record.members {
                turn.want_address(member.node);
            }
            self.guess(turn, name, route_of(&record));
        }
    }

    /// A member of the world, or of the region, answered from what it has applied.
    pub fn on_keyspace_elsewhere(&mut self, turn: &mut Turn<'_>, keyspace: &str, copy: bool, result: CallResult) {
        let Ok((Reply::Document { document: Some(document) }, _)) = decode_call::<Reply>(result) else { return };
        let (version, body) = if copy {
            let Ok(copy) = DocumentCopy::from_bytes(document.body) else { return };
            (copy.version, copy.body)
        } else {
            (document.version, document.body)
        };
        self.learn_document(turn, DocumentNews { keyspace: keyspace.into(), version, body: Some(body) });
        let Some(search) = self.keyspaces.fetching.get_mut(keyspace) else { return };
        let waiting = core::mem::take(&mut search.waiting);
        let (usable, others) = waiting.into_iter().partition::<Vec<u64>, _>(|number| {
            let work = self.operations.get(number).and_then(Operation::keys);
            work.is_some_and(|work| work.avoid.is_none_or(|avoid| version > avoid))
        });
        search.waiting = others;
        for number in usable {
            if self.waits_for_route(number) {
                self.place(turn, number);
            }
        }
    }

    /// A node (or a lane of this one) looks for a cluster.
    pub fn on_where_is(&mut self, core: &mut CoreContext, from: Sender, name: &ClusterName, led: bool) {
        let Some((cluster, known)) = core.replicas().named(name) else { return };
        if led && !known.leader.is_some_and(|leader| core.is_up(leader)) {
            return;
        }
        let told = Told { cluster, generation: known.generation, leader: known.leader };
        core.send(from.node, from.lane, &Item::Location { name: name.clone(), told });
    }

    /// A node has a replica of it.
    pub fn on_location(&mut self, turn: &mut Turn<'_>, from: NodeId, name: ClusterName, told: Told) {
        if let Some(leader) = told.leader {
            turn.want_address(leader);
        }
        self.guess(turn, &Arc::new(name), route_by(from, &told));
    }

    /// Lane zero has a replica of it with a leader: the route is known, and nobody is asked. Whether it is.
    pub fn know_own_replica(&mut self, core: &CoreContext, number: u64, name: &Arc<ClusterName>) -> bool {
        if planted(Mutant::OwnReplicaIgnored) {
            return false;
        }
        let Some((cluster, known)) = core.replicas().named(name) else { return false };
        let ReplicaKnown { generation, leader, .. } = *known;
        let Some(led_by) = leader.filter(|leader| core.is_up(*leader)) else { return false };
        let may_try = |operation: &Operation| operation.may_try(cluster, generation, core::iter::once(led_by));
        if !self.operations.get(&number).is_some_and(may_try) {
            return false;
        }
        let route = route_by(core.node(), &Told { cluster, generation, leader });
        self.routes.put(name.clone(), route);
        true
    }

    /// Somebody else than the world told a route: those who wait for it, and have not found it wrong, try it.
    fn guess(&mut self, turn: &mut Turn<'_>, name: &Arc<ClusterName>, route: Route) {
        let Some(search) = self.resolving.get_mut(name) else { return };
        let waiting = core::mem::take(&mut search.waiting);
        let (willing, others) = waiting.into_iter().partition::<Vec<u64>, _>(|number| {
            let nodes = route.members.iter().map(|member| member.node);
            let operation = self.operations.get(number);
            operation.is_some_and(|operation| operation.may_try(route.cluster, route.generation, nodes))
        });
        search.waiting = others;
        match self.routes.get(name) {
            Some(known) if known.generation > route.generation => search.waiting.extend(willing),
            Some(known) if (known.cluster, known.generation) == (route.cluster, route.generation) => {
                let route = joined(known, route);
                self.routes.put(name.clone(), route);
                self.attempt_all(turn, willing);
            }
            _ if willing.is_empty() => {}
            _ => {
                self.routes.put(name.clone(), route);
                self.attempt_all(turn, willing);
            }
        }
    }
}

/// What is known of a life, and what another has told of it.
fn joined(known: &Route, told: Route) -> Route {
    let new = told.members.iter().filter(|new| !known.members.iter().any(|member| member.node == new.node));
    let members = known.members.iter().chain(new).copied().take(MEMBERS_MAX).collect();
    Route { members, leader: known.leader.or(told.leader), ..known.clone() }
}

/// A route over the node that told it and the leader it named: they redirect to the other members.
fn route_by(from: NodeId, told: &Told) -> Route {
    let member = |node| Member { replica: ReplicaId(0), node, disk: DiskId(0), learner: false };
    let others = told.leader.filter(|leader| *leader != from);
    Route {
        cluster: told.cluster,
        generation: told.generation,
        members: core::iter::once(from).chain(others).map(member).collect(),
        leader: told.leader,
        term: Term(0),
        rule: String::new(),
        consistency: Default::default(),
        read_consistency: Default::default(),
        clock: None,
        pinned: false,
        used: true,
    }
}

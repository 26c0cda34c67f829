//! The node map: who there is, where, how well, up or down (Hive paper, 2.7, allocator).
//!
//!   every node ──Heartbeat──▶ lane zero of the world's leader (the authority) ──▶ allocator backend
//!        ▲──────HeartbeatReply (what is new)──────┘            what changed, at most once a heartbeat
//!
//! What it costs at 1,000 nodes is measured in docs/decisions/0008-node-map-by-heartbeats.md.
//!
//! By design: other lanes of a node hold copies of lane zero's map; liveness is soft state, facts and
//! reports are replicated. Not here: the map itself (core-placement), what the authority does (registry.rs),
//! elections (core-backends), what clients see of it (status.rs).

use crate::api::{Change, Effect, NodeNews, NoteLevel};
use crate::context::level_zero::WORLD_CLUSTER;
use crate::context::local_replicas::ReplicaKnown;
use crate::context::{CoreContext, Turn};
use crate::frame::{Item, LaneGauges, Sender};
use crate::membership::registry::{Authority, Finding};
use crate::membership::Membership;
use crate::routing::operation::RegistryWork;
use crate::routing::Routing;
use crate::timers::TimerKey;
use base_types::{ClusterId, ClusterName, LaneId, NodeId, Tick, LANE_ZERO};
use core::time::Duration;
use core_flow::CallResult;
use core_placement::{
    occupancy, score, Door, MapChange, MapDelta, MapVersion, NodeRecord, MAP_DELTA_RECORDS_MAX, MAP_NODES_MAX,
};
use std::collections::BTreeMap;

/// Heartbeats without an answer before another member of the world is asked.
const SILENT_MAX: u32 = 2;
/// Nodes told of in one answer where the world has no leader.
const NEIGHBOURS_MAX: usize = 256;
/// Pages of the map mailed to the other lanes in one turn.
const LANE_PAGES_MAX: usize = 16;

/// The map and what keeps it.
#[derive(Default)]
pub struct Nodes {
    timer: Tick,
    /// Who was last said to lead the world cluster.
    pub(super) world_leader: Option<NodeId>,
    pub(super) silent: u32,
    /// Which member is asked while no leader is known.
    rotation: usize,
    pub(super) authority: Option<Authority>,
    /// Lane zero: what each lane told last.
    pub(super) gauges: BTreeMap<LaneId, LaneGauges>,
    /// How far the other lanes' copies are.
    lanes_have: MapVersion,
    /// Who was heard of while no leader of the world was known, and where they are.
    heard: BTreeMap<NodeId, String>,
}

impl Membership {
    /// At start: the addresses that are configured, the replicas that are here, the first heartbeat.
    pub fn start_nodes(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        let configured: Vec<(NodeId, String)> =
            turn.core.config().world_members.iter().chain(&turn.core.config().region_members).cloned().collect();
        for (node, address) in configured {
            turn.give_address(node, &address);
        }
        self.level_zero_members.start(turn);
        for view in turn.lane.views() {
            let known = ReplicaKnown {
                name: view.name,
                generation: view.generation,
                replica: view.replica,
                leader: view.leader,
            };
            self.tell_replica(turn, routing, view.cluster, known);
        }
        self.on_nodes_timer(turn, routing);
    }

    /// Time for a heartbeat.
    pub fn on_nodes_timer(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        let every = Duration::from_millis(turn.core.config().tuning.node_heartbeat_ms.max(1));
        let at = turn.now + every;
        let old = core::mem::replace(&mut self.nodes.timer, at);
        turn.core.set_timer(TimerKey::Nodes, old, at);
        let gauges = self.lane_gauges(turn);
        self.nodes.gauges.insert(turn.core.config().lane, gauges.clone());
        if !turn.core.is_lane_zero() {
            return turn.core.send_to_lane_zero(&Item::LaneNews { gauges: Box::new(gauges) });
        }
        if self.nodes.world_leader == Some(turn.core.node()) {
            self.beat_as_authority(turn, routing);
        } else {
            self.nodes.authority = None;
            self.beat(turn);
        }
    }

    pub(super) fn lane_gauges(&self, turn: &Turn<'_>) -> LaneGauges {
        let statistics = turn.lane.statistics();
        LaneGauges {
            replicas: statistics.replicas as u32,
            leaders: statistics.leaders as u32,
            quiesced: statistics.quiesced as u32,
            formed: self.formations.waiting().next().is_none(),
            warnings: self.lane_warnings(turn.core),
        }
    }

    /// A lane told its gauges.
    pub fn on_lane_news(&mut self, lane: LaneId, gauges: LaneGauges) {
        self.nodes.gauges.insert(lane, gauges);
    }

    pub(super) fn own_record(&self, core: &CoreContext) -> NodeRecord {
        let clusters = self.nodes.gauges.values().map(|gauges| gauges.replicas).sum();
        let leaders = self.nodes.gauges.values().map(|gauges| gauges.leaders).sum();
        let mut engines = vec![core.config().default_engine.clone()];
        engines.extend(core.config().engines.iter().filter(|engine| **engine != core.config().default_engine).cloned());
        NodeRecord {
            node: core.node(),
            disk: core.config().disk,
            boot: core.config().boot,
            labels: core.config().labels.clone(),
            peer_address: core.config().peer_address.clone(),
            http_address: core.config().http_address.clone(),
            lanes: core.config().lane_count,
            version: core.config().version.clone(),
            level_max: core.config().level_max,
            doors: Door::fitting(&core.config().doors, engines.len()),
            engines,
            score: score(core.machine().0, core.machine().1, occupancy(clusters, leaders)),
            clusters,
            leaders,
            up: true,
            draining: false,
        }
    }

    fn beat(&mut self, turn: &mut Turn<'_>) {
        self.nodes.silent += 1;
        if self.nodes.silent > SILENT_MAX {
            self.nodes.world_leader = None;
        }
        let mut members = self.level_zero_members.world_contacts(turn.core);
        if self.nodes.silent as usize > SILENT_MAX as usize + members.len() {
            // No member of the world knows a leader: those of the region may know other nodes (decision 0035).
            members.extend(turn.core.level_zero().iter().skip(1).flat_map(|zero| zero.members.iter().copied()));
        }
        let target = match self.nodes.world_leader {
            Some(leader) => leader,
            None if members.is_empty() => return,
            None => {
                self.nodes.rotation += 1;
                members[self.nodes.rotation % members.len()]
            }
        };
        if target == turn.core.node() {
            return;
        }
        let item =
            Item::Heartbeat { record: Box::new(self.own_record(turn.core)), wanted: turn.core.map().next_wanted() };
        turn.want_address(target);
        turn.core.send(target, LANE_ZERO, &item);
    }

    /// A node lives, and reports what it holds of the map.
    pub fn on_heartbeat(&mut self, turn: &mut Turn<'_>, from: Sender, record: NodeRecord, wanted: MapVersion) {
        if !turn.core.is_lane_zero() || record.node != from.node {
            return turn.refuse_frame(from.node, "its heartbeat is of another node, or came to the wrong lane");
        }
        // A node that nobody has told of yet (it is not in the configuration, the map does not have it) could
        // not be answered otherwise; its certificate has shown who it is.
        turn.give_address(record.node, &record.peer_address);
        let leading = self.nodes.world_leader == Some(turn.core.node());
        let mut delta = None;
        if leading && self.nodes.authority.as_ref().is_some_and(|authority| authority.is_loaded()) {
            self.note_alive(turn, &record);
            delta = Some(Box::new(turn.core.map().delta_since(turn.now, wanted, MAP_DELTA_RECORDS_MAX)));
        }
        let leader = self.nodes.world_leader;
        turn.core.send(from.node, LANE_ZERO, &Item::HeartbeatReply { leader, delta });
        if !leading {
            // It does not know who leads, and perhaps not even who could.
            self.level_zero_members.answer(turn.core, from.node, WORLD_CLUSTER);
        }
        if leader.is_none() {
            self.tell_neighbours(turn.core, from.node, record);
        }
    }

    /// Without a leader of the world, nodes learn of each other from the members that they turn to.
    fn tell_neighbours(&mut self, core: &mut CoreContext, to: NodeId, record: NodeRecord) {
        if self.nodes.heard.len() < MAP_NODES_MAX {
            self.nodes.heard.insert(record.node, record.peer_address);
        }
        let mapped = core.map().records().map(|record| (record.node, record.peer_address.clone()));
        let heard = self.nodes.heard.iter().map(|(node, address)| (*node, address.clone()));
        let nodes: BTreeMap<NodeId, String> =
            mapped.chain(heard).filter(|(node, _)| *node != to).take(NEIGHBOURS_MAX).collect();
        if !nodes.is_empty() {
            core.send(to, LANE_ZERO, &Item::Neighbours { nodes: nodes.into_iter().collect() });
        }
    }

    /// A member that knows no leader of the world told which nodes it has heard of.
    pub fn on_neighbours(&mut self, turn: &mut Turn<'_>, nodes: &[(NodeId, String)]) {
        if self.nodes.world_leader.is_some() {
            return;
        }
        for (node, address) in nodes {
            if turn.core.nodes().addresses() < MAP_NODES_MAX && !turn.core.nodes().is_addressed(*node) {
                turn.give_address(*node, address);
            }
        }
    }

    /// The answer to this node's heartbeat.
    pub fn on_heartbeat_reply(
        &mut self,
        turn: &mut Turn<'_>,
        routing: &mut Routing,
        from: NodeId,
        leader: Option<NodeId>,
        delta: Option<MapDelta>,
    ) {
        if self.nodes.world_leader == Some(turn.core.node()) {
            return;
        }
        let news = leader != self.nodes.world_leader;
        if leader != Some(turn.core.node()) {
            self.nodes.world_leader = leader;
        }
        if let Some(delta) = delta {
            self.nodes.silent = 0;
            routing.on_world_heard();
            let changes = turn.core.map_mut().apply_delta(turn.now, &delta);
            self.on_map_changes(turn, changes);
        } else if news && leader.is_some() && leader != Some(from) {
            self.nodes.silent = 0;
            self.beat(turn);
        }
    }

    /// Lane zero told this lane what is new.
    pub fn on_map_news(&mut self, turn: &mut Turn<'_>, delta: &MapDelta) {
        let changes = turn.core.map_mut().apply_delta(turn.now, delta);
        self.on_map_changes(turn, changes);
    }

    pub(super) fn on_map_changes(&mut self, turn: &mut Turn<'_>, changes: Vec<MapChange>) {
        turn.core.nodes_mut().note_changes(turn.now, &changes);
        for change in changes {
            if turn.core.is_lane_zero() {
                self.tell_change(turn, &change);
            }
            match change {
                MapChange::DiskLost(node) => {
                    self.config_cluster.recheck();
                    self.on_facts(turn, node)
                }
                MapChange::Joined(node) | MapChange::Facts(node) => self.on_facts(turn, node),
                MapChange::Up(node) => {
                    self.on_facts(turn, node);
                    turn.lane.on_peer_up(turn.now, node);
                }
                MapChange::Down(node) => turn.lane.on_peer_down(turn.now, node),
                MapChange::Report(_) => {}
                MapChange::Forgotten(node) => {
                    turn.core.nodes_mut().forget_address(node);
                    turn.effects.list.push(Effect::Forget { node });
                }
            }
            turn.core.wake_lane();
        }
        self.pass_on_map(turn);
    }

    /// Every node reports it to the operator. But only the leader of the world reports a node that joins: a node that starts knows none.
    fn tell_change(&self, turn: &mut Turn<'_>, change: &MapChange) {
        let (node, news) = match change {
            MapChange::Joined(node) if self.leads_world(turn.core) => (node, NodeNews::Joined),
            MapChange::Up(node) => (node, NodeNews::Up),
            MapChange::Down(node) => (node, NodeNews::Down),
            MapChange::DiskLost(node) => (node, NodeNews::DiskLost),
            MapChange::Forgotten(node) => (node, NodeNews::Forgotten),
            MapChange::Joined(_) | MapChange::Facts(_) | MapChange::Report(_) => return,
        };
        turn.tell(Change::Node { node: *node, news });
    }

    fn on_facts(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        if turn.core.map().get(node).is_none() {
            return;
        }
        if let Some(address) = turn.core.nodes_mut().note_facts(node) {
            turn.give_address(node, &address);
        }
        self.replica_repair.recheck_disks(turn.core, turn.now);
    }

    fn pass_on_map(&mut self, turn: &mut Turn<'_>) {
        if !turn.core.is_lane_zero() || turn.core.config().lane_count < 2 {
            return;
        }
        for _ in 0..LANE_PAGES_MAX {
            if self.nodes.lanes_have == turn.core.map().version() {
                return;
            }
            let delta = turn.core.map().delta_since(turn.now, self.nodes.lanes_have, MAP_DELTA_RECORDS_MAX);
            let more = delta.more;
            self.nodes.lanes_have = delta.until;
            turn.core.send_to_other_lanes(&Item::MapNews { delta: Box::new(delta) });
            if !more {
                return;
            }
        }
    }

    // What the world's leader does.

    /// A heartbeat's time at the authority itself.
    fn beat_as_authority(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        self.nodes.silent = 0;
        let authority = self.nodes.authority.get_or_insert_with(Authority::begin);
        if !authority.is_loaded() {
            return authority.load(turn, routing);
        }
        let record = self.own_record(turn.core);
        self.note_alive(turn, &record);
        let down_after = Duration::from_millis(turn.core.config().tuning.node_down_ms);
        let changes = turn.core.map_mut().refresh(turn.now, down_after);
        self.note_registry_changes(&changes);
        self.on_map_changes(turn, changes);
        if let Some(authority) = self.nodes.authority.as_mut() {
            authority.write(turn, routing);
            authority.ask_who_drains(turn, routing);
            authority.ask_who_is_forgotten(turn, routing);
        }
    }

    /// A node was heard of.
    fn note_alive(&mut self, turn: &mut Turn<'_>, record: &NodeRecord) {
        match turn.core.map_mut().note_heartbeat(turn.now, record) {
            Ok(Some(change)) => {
                let changes = vec![change];
                self.note_registry_changes(&changes);
                self.on_map_changes(turn, changes);
            }
            Ok(None) => {}
            Err(error) => {
                turn.note(NoteLevel::Warning, format!("heartbeat of node {} not taken: {error}", record.node))
            }
        }
    }

    fn note_registry_changes(&mut self, changes: &[MapChange]) {
        if let Some(authority) = self.nodes.authority.as_mut() {
            authority.note_changes(changes);
        }
    }

    /// The allocator answered the authority.
    pub fn on_registry(&mut self, turn: &mut Turn<'_>, routing: &mut Routing, work: RegistryWork, result: CallResult) {
        let Some(authority) = self.nodes.authority.as_mut() else { return };
        match authority.on_answer(turn, routing, work, result) {
            Some(Finding::Loaded { records, term }) => self.take_over_map(turn, routing, &records, term),
            Some(Finding::Draining(nodes)) => {
                let changes = turn.core.map_mut().set_draining(turn.now, &nodes.into_iter().collect());
                self.on_map_changes(turn, changes);
            }
            Some(Finding::Changes { forgotten, level }) => {
                self.on_forgotten(turn, &forgotten);
                super::format_level::hear(turn, level, turn.core.node());
            }
            None => {}
        }
    }

    fn take_over_map(&mut self, turn: &mut Turn<'_>, routing: &mut Routing, loaded: &[NodeRecord], term: u64) {
        let before: BTreeMap<NodeId, base_types::DiskId> =
            turn.core.map().records().map(|record| (record.node, record.disk)).collect();
        turn.core.map_mut().become_authority(turn.now, term, loaded);
        let differs = |record: &&NodeRecord| before.get(&record.node) != Some(&record.disk);
        let changes: Vec<MapChange> =
            loaded.iter().filter(differs).map(|record| MapChange::Joined(record.node)).collect();
        self.on_map_changes(turn, changes);
        if let Some(authority) = self.nodes.authority.as_mut() {
            authority.note_disagreements(turn.core, loaded);
        }
        let record = self.own_record(turn.core);
        self.note_alive(turn, &record);
        if let Some(authority) = self.nodes.authority.as_mut() {
            authority.write(turn, routing);
        }
    }

    fn on_forgotten(&mut self, turn: &mut Turn<'_>, forgotten: &[NodeId]) {
        let own = turn.core.node();
        let gone: Vec<NodeId> = forgotten.iter().copied().filter(|node| *node != own).collect();
        let gone = gone.into_iter().filter(|node| turn.core.map_mut().forget(*node)).collect::<Vec<_>>();
        self.on_map_changes(turn, gone.into_iter().map(MapChange::Forgotten).collect());
    }

    // What lane zero knows of replicas.

    /// Something about a replica of this lane: for lane zero.
    pub fn tell_replica(
        &mut self,
        turn: &mut Turn<'_>,
        routing: &mut Routing,
        cluster: ClusterId,
        known: ReplicaKnown,
    ) {
        if turn.core.is_lane_zero() {
            return self.on_replica_news(turn, routing, cluster, known);
        }
        let ReplicaKnown { name, generation, replica, leader } = known;
        turn.core.send_to_lane_zero(&Item::ReplicaNews { cluster, generation, name, replica, leader });
    }

    /// Lane zero hears of a replica.
    pub fn on_replica_news(
        &mut self,
        turn: &mut Turn<'_>,
        routing: &mut Routing,
        cluster: ClusterId,
        known: ReplicaKnown,
    ) {
        self.config_cluster.note_changed();
        if cluster == WORLD_CLUSTER {
            let was = self.nodes.world_leader == Some(turn.core.node());
            if known.leader.is_some() || was {
                self.nodes.world_leader = known.leader;
            }
            let leads = self.nodes.world_leader == Some(turn.core.node());
            turn.core.replicas_mut().insert(cluster, known);
            if leads != was {
                self.nodes.authority = None;
                self.on_nodes_timer(turn, routing);
            }
            return;
        }
        turn.core.replicas_mut().insert(cluster, known);
    }

    /// Lane zero hears that a replica is gone.
    pub fn on_replica_gone(&mut self, core: &mut CoreContext, cluster: ClusterId, name: &ClusterName) {
        core.replicas_mut().remove(cluster, name);
        self.config_cluster.note_left(name);
    }

    /// Whether this node leads the world cluster, as lane zero knows.
    pub fn leads_world(&self, core: &CoreContext) -> bool {
        core.is_lane_zero() && self.nodes.world_leader == Some(core.node())
    }
}

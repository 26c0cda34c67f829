//! The node map: who there is, where, how well, up or down (Hive paper, 2.7, allocator).
//!
//!   every node ──Heartbeat──▶ lane zero of the world's leader (the authority) ──▶ allocator backend
//!        ▲──────HeartbeatReply (what is new)──────┘            what changed, at most once a heartbeat
//!
//! What it costs at 1,000 nodes is measured in docs/decisions/0008-node-map-by-heartbeats.md.
//!
//! Always: other lanes of a node hold copies of lane zero's map; liveness is soft state, facts and
//! reports are replicated. Not here: the map itself (core-placement), elections (core-backends).

use crate::api::{Effect, NoteLevel};
use crate::director::{Director, TimerKey, Turn, WORLD_CLUSTER};
use crate::frame::{Item, Sender};
use crate::operation::{Operation, Owner, RegistryWork};
use crate::planner::CallResult;
use crate::resolve::decode_call;
use base_types::action::{NodeInfo, StatusInfo};
use base_types::codec::Encode;
use base_types::{
    BackendKind, ClusterId, ClusterName, Generation, LaneId, NodeId, ReadConsistency, ReplicaId, Tick, LANE_ZERO,
};
use core::time::Duration;
use core_backends::allocator::{Command, Query, Reply, Report, NODES_PAGE_MAX};
use core_cluster::api::{LocalKind, Member};
use core_placement::{occupancy, score, MapChange, MapDelta, MapVersion, NodeMap, NodeRecord, MAP_DELTA_RECORDS_MAX};
use std::collections::{BTreeMap, BTreeSet};

/// Heartbeats without an answer before another member of the world is asked.
const SILENT_MAX: u32 = 2;
/// Registrations under way at a time.
const REGISTRATIONS_MAX: usize = 64;
/// How long the allocator may take.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(5);
/// Pages of the map mailed to the other lanes in one turn.
const LANE_PAGES_MAX: usize = 16;

/// A replica on this node, on whatever lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaKnown {
    pub name: ClusterName,
    pub generation: Generation,
    pub replica: ReplicaId,
    pub leader: Option<NodeId>,
    pub members: Vec<Member>,
}

/// What the world's leader does for the map.
#[derive(Debug, Default)]
struct Authority {
    /// Loaded so far; `None` once the map is the authority's.
    loading: Option<Vec<NodeRecord>>,
    asking: bool,
    loaded_until: u64,
    registering: BTreeSet<NodeId>,
    to_register: BTreeSet<NodeId>,
    to_report: BTreeSet<NodeId>,
    reporting: bool,
}

/// The map and what keeps it.
#[derive(Default)]
pub struct Nodes {
    pub map: NodeMap,
    timer: Tick,
    /// Who was last said to lead the world cluster.
    world_leader: Option<NodeId>,
    silent: u32,
    /// Which member is asked while no leader is known.
    rotation: usize,
    authority: Option<Authority>,
    machine: (u32, u32),
    /// Gauges of the other lanes.
    gauges: BTreeMap<LaneId, (u32, u32, u32)>,
    /// How far the other lanes' copies are.
    lanes_have: MapVersion,
    /// Lane zero: every replica of the node.
    pub replicas: BTreeMap<ClusterId, ReplicaKnown>,
    addressed: BTreeMap<NodeId, String>,
    wanted: BTreeSet<NodeId>,
}

impl Director {
    /// At start: the addresses that are configured, the replicas that are here, the first heartbeat.
    pub fn start_nodes(&mut self, turn: &mut Turn<'_>) {
        let configured: Vec<(NodeId, String)> =
            self.config.world_members.iter().chain(&self.config.region_members).cloned().collect();
        for (node, address) in configured {
            self.give_address(turn, node, &address);
        }
        for view in turn.lane.views() {
            let known = ReplicaKnown {
                name: view.name,
                generation: view.generation,
                replica: view.replica,
                leader: view.leader,
                members: view.members,
            };
            self.tell_replica(turn, view.cluster, known);
        }
        self.on_nodes_timer(turn);
    }

    fn give_address(&mut self, turn: &mut Turn<'_>, node: NodeId, address: &str) {
        if node == self.config.node
            || address.is_empty()
            || self.nodes.addressed.get(&node).is_some_and(|old| old == address)
        {
            return;
        }
        self.nodes.addressed.insert(node, address.into());
        turn.effects.list.push(Effect::Address { node, address: address.into() });
    }

    /// This core is about to talk to a node: the host should be connected to it.
    pub fn want_address(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        if node == self.config.node || self.nodes.addressed.contains_key(&node) {
            return;
        }
        match self.nodes.map.get(node).map(|record| record.peer_address.clone()) {
            Some(address) => self.give_address(turn, node, &address),
            None => {
                self.nodes.wanted.insert(node);
            }
        }
    }

    /// The host told the machine's load and disk fill.
    pub fn on_machine(&mut self, load: u32, disk: u32) {
        self.nodes.machine = (load, disk);
    }

    /// Time for a heartbeat.
    pub fn on_nodes_timer(&mut self, turn: &mut Turn<'_>) {
        let every = Duration::from_millis(self.config.tuning.node_heartbeat_ms.max(1));
        let at = turn.now + every;
        let old = core::mem::replace(&mut self.nodes.timer, at);
        self.set_timer(TimerKey::Nodes, old, at);
        let gauges = self.lane_gauges(turn);
        self.nodes.gauges.insert(self.config.lane, gauges);
        if !self.is_lane_zero() {
            let (replicas, leaders, quiesced) = gauges;
            return self.tell_lane_zero(&Item::LaneNews { replicas, leaders, quiesced });
        }
        if self.nodes.world_leader == Some(self.config.node) {
            self.beat_as_authority(turn);
        } else {
            self.nodes.authority = None;
            self.beat(turn);
        }
    }

    fn lane_gauges(&self, turn: &Turn<'_>) -> (u32, u32, u32) {
        let statistics = turn.lane.statistics();
        (statistics.replicas as u32, statistics.leaders as u32, statistics.quiesced as u32)
    }

    /// A lane told its gauges.
    pub fn on_lane_news(&mut self, lane: LaneId, gauges: (u32, u32, u32)) {
        self.nodes.gauges.insert(lane, gauges);
    }

    fn own_record(&self) -> NodeRecord {
        let clusters = self.nodes.gauges.values().map(|gauges| gauges.0).sum();
        let leaders = self.nodes.gauges.values().map(|gauges| gauges.1).sum();
        let mut engines = vec![self.config.default_engine.clone()];
        engines.extend(self.config.engines.iter().filter(|engine| **engine != self.config.default_engine).cloned());
        NodeRecord {
            node: self.config.node,
            disk: self.config.disk,
            boot: self.config.boot,
            labels: self.config.labels.clone(),
            peer_address: self.config.peer_address.clone(),
            http_address: self.config.http_address.clone(),
            lanes: self.config.lane_count,
            version: self.config.version.clone(),
            engines,
            score: score(self.nodes.machine.0, self.nodes.machine.1, occupancy(clusters, leaders)),
            clusters,
            leaders,
            up: true,
        }
    }

    fn beat(&mut self, turn: &mut Turn<'_>) {
        self.nodes.silent += 1;
        if self.nodes.silent > SILENT_MAX {
            self.nodes.world_leader = None;
        }
        let members = &self.level_zero[0].members;
        let target = match self.nodes.world_leader {
            Some(leader) => leader,
            None if members.is_empty() => return,
            None => {
                self.nodes.rotation += 1;
                members[self.nodes.rotation % members.len()]
            }
        };
        if target == self.config.node {
            return;
        }
        let item = Item::Heartbeat { record: Box::new(self.own_record()), wanted: self.nodes.map.next_wanted() };
        self.want_address(turn, target);
        self.outbox.push(target, LANE_ZERO, &item);
    }

    /// A node lives, and tells what it holds of the map.
    pub fn on_heartbeat(&mut self, turn: &mut Turn<'_>, from: Sender, record: NodeRecord, wanted: MapVersion) {
        if !self.is_lane_zero() || record.node != from.node {
            return self.refuse_frame(
                turn,
                from.node,
                "its heartbeat tells of another node, or came to the wrong lane",
            );
        }
        // A node that nobody has told of yet (it is not in the configuration, the map does not have it) could
        // not be answered otherwise; its certificate has shown who it is.
        self.give_address(turn, record.node, &record.peer_address);
        let leading = self.nodes.world_leader == Some(self.config.node);
        let mut delta = None;
        if leading && self.nodes.authority.as_ref().is_some_and(|authority| authority.loading.is_none()) {
            self.note_alive(turn, &record);
            delta = Some(Box::new(self.nodes.map.delta_since(turn.now, wanted, MAP_DELTA_RECORDS_MAX)));
        }
        let leader = self.nodes.world_leader;
        self.outbox.push(from.node, LANE_ZERO, &Item::HeartbeatReply { leader, delta });
    }

    /// The answer to this node's heartbeat.
    pub fn on_heartbeat_reply(
        &mut self,
        turn: &mut Turn<'_>,
        from: NodeId,
        leader: Option<NodeId>,
        delta: Option<MapDelta>,
    ) {
        if self.nodes.world_leader == Some(self.config.node) {
            return;
        }
        let news = leader != self.nodes.world_leader;
        if leader != Some(self.config.node) {
            self.nodes.world_leader = leader;
        }
        if let Some(delta) = delta {
            self.nodes.silent = 0;
            let changes = self.nodes.map.apply_delta(turn.now, &delta);
            self.on_map_changes(turn, changes);
        } else if news && leader.is_some() && leader != Some(from) {
            self.nodes.silent = 0;
            self.beat(turn);
        }
    }

    /// Lane zero told this lane what is new.
    pub fn on_map_news(&mut self, turn: &mut Turn<'_>, delta: &MapDelta) {
        let changes = self.nodes.map.apply_delta(turn.now, delta);
        self.on_map_changes(turn, changes);
    }

    fn on_map_changes(&mut self, turn: &mut Turn<'_>, changes: Vec<MapChange>) {
        for change in changes {
            match change {
                MapChange::DiskLost(node) => {
                    self.config_cluster.recheck = true;
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
                    self.nodes.addressed.remove(&node);
                    turn.effects.list.push(Effect::Forget { node });
                }
            }
            self.lane_dirty = true;
        }
        self.pass_on_map(turn);
    }

    fn on_facts(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        let Some(record) = self.nodes.map.get(node) else { return };
        let (lanes, address) = (record.lanes, record.peer_address.clone());
        self.lanes.insert(node, lanes.max(1));
        if self.nodes.wanted.remove(&node) || self.nodes.addressed.contains_key(&node) {
            self.give_address(turn, node, &address);
        }
        self.recheck_disks(turn.now);
    }

    fn pass_on_map(&mut self, turn: &mut Turn<'_>) {
        if !self.is_lane_zero() || self.config.lane_count < 2 {
            return;
        }
        for _ in 0..LANE_PAGES_MAX {
            if self.nodes.lanes_have == self.nodes.map.version() {
                return;
            }
            let delta = self.nodes.map.delta_since(turn.now, self.nodes.lanes_have, MAP_DELTA_RECORDS_MAX);
            let more = delta.more;
            self.nodes.lanes_have = delta.until;
            self.tell_other_lanes(&Item::MapNews { delta: Box::new(delta) });
            if !more {
                return;
            }
        }
    }

    // The authority.

    fn beat_as_authority(&mut self, turn: &mut Turn<'_>) {
        self.nodes.silent = 0;
        if self.nodes.authority.is_none() {
            self.nodes.authority = Some(Authority { loading: Some(Vec::new()), ..Authority::default() });
        }
        if self.nodes.authority.as_ref().is_some_and(|authority| authority.loading.is_some()) {
            return self.load_registry(turn);
        }
        let record = self.own_record();
        self.note_alive(turn, &record);
        let down_after = Duration::from_millis(self.config.tuning.node_down_ms);
        let changes = self.nodes.map.refresh(turn.now, down_after);
        self.note_registry_changes(&changes);
        self.on_map_changes(turn, changes);
        self.write_registry(turn);
    }

    fn note_alive(&mut self, turn: &mut Turn<'_>, record: &NodeRecord) {
        match self.nodes.map.note_heartbeat(turn.now, record) {
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
        let Some(authority) = self.nodes.authority.as_mut() else { return };
        for change in changes {
            match change {
                MapChange::Joined(node) | MapChange::Up(node) | MapChange::DiskLost(node) | MapChange::Facts(node) => {
                    authority.to_register.insert(*node);
                }
                MapChange::Down(node) | MapChange::Report(node) => {
                    authority.to_report.insert(*node);
                }
                MapChange::Forgotten(_) => {}
            }
        }
    }

    fn registry_operation(&mut self, turn: &mut Turn<'_>, work: RegistryWork, kind: LocalKind) {
        let deadline = turn.now + REGISTRY_TIMEOUT;
        let operation = Operation::new(Owner::Registry(work), self.world.clone(), kind, turn.now, deadline);
        self.start_operation(turn, operation);
    }

    fn load_registry(&mut self, turn: &mut Turn<'_>) {
        let Some(authority) = self.nodes.authority.as_mut() else { return };
        if core::mem::replace(&mut authority.asking, true) {
            return;
        }
        let query = Query::NodesSince { version: authority.loaded_until, limit: NODES_PAGE_MAX }.to_bytes();
        let kind =
            LocalKind::Read { backend: BackendKind::Allocator, query, consistency: Some(ReadConsistency::Strong) };
        self.registry_operation(turn, RegistryWork::Load, kind);
    }

    fn write_registry(&mut self, turn: &mut Turn<'_>) {
        let Some(authority) = self.nodes.authority.as_mut() else { return };
        let free = REGISTRATIONS_MAX.saturating_sub(authority.registering.len());
        let busy = &authority.registering;
        let due: Vec<NodeId> =
            authority.to_register.iter().filter(|node| !busy.contains(node)).take(free).copied().collect();
        for node in &due {
            authority.to_register.remove(node);
            authority.to_report.remove(node);
            authority.registering.insert(*node);
        }
        let reports = if authority.reporting { BTreeSet::new() } else { core::mem::take(&mut authority.to_report) };
        authority.reporting |= !reports.is_empty();
        for node in due {
            if let Some(record) = self.nodes.map.get(node).cloned() {
                let kind = self.allocator_write(&Command::Register { record });
                self.registry_operation(turn, RegistryWork::Register(node), kind);
            }
        }
        if !reports.is_empty() {
            let updates = reports.iter().filter_map(|node| self.nodes.map.get(*node)).map(report_of).collect();
            let kind = self.allocator_write(&Command::Report { updates });
            self.registry_operation(turn, RegistryWork::Report(reports.into_iter().collect()), kind);
        }
    }

    fn allocator_write(&mut self, command: &Command) -> LocalKind {
        LocalKind::Write {
            backend: BackendKind::Allocator,
            command: command.to_bytes(),
            consistency: None,
            request_id: self.random.request_id(),
            cluster_time_ms: 0,
        }
    }

    /// The allocator answered the authority.
    pub fn on_registry(&mut self, turn: &mut Turn<'_>, work: RegistryWork, result: CallResult) {
        let reply = decode_call::<Reply>(result);
        let Some(authority) = self.nodes.authority.as_mut() else { return };
        match (work, reply) {
            (RegistryWork::Load, reply) => {
                authority.asking = false;
                if let Ok((Reply::Nodes { records, version, more, .. }, at)) = reply {
                    self.on_registry_page(turn, records, version, more, at.term.0);
                }
            }
            (RegistryWork::Register(node), reply) => {
                authority.registering.remove(&node);
                match reply {
                    Ok(_) => {}
                    Err(failure) if failure.refusal.kind.retryable() => {
                        authority.to_register.insert(node);
                    }
                    Err(failure) => {
                        turn.note(NoteLevel::Warning, format!("node {node} was not registered: {}", failure.refusal))
                    }
                }
            }
            (RegistryWork::Report(nodes), reply) => {
                authority.reporting = false;
                if reply.is_err() {
                    authority.to_report.extend(nodes);
                }
            }
        }
    }

    fn on_registry_page(&mut self, turn: &mut Turn<'_>, records: Vec<NodeRecord>, version: u64, more: bool, term: u64) {
        let Some(authority) = self.nodes.authority.as_mut() else { return };
        let Some(loaded) = authority.loading.as_mut() else { return };
        loaded.extend(records);
        authority.loaded_until = version;
        if more {
            return self.load_registry(turn);
        }
        let loaded = authority.loading.take().unwrap_or_default();
        let before: BTreeMap<NodeId, base_types::DiskId> =
            self.nodes.map.records().map(|record| (record.node, record.disk)).collect();
        self.nodes.map.become_authority(turn.now, term, &loaded);
        let differs = |record: &&NodeRecord| before.get(&record.node) != Some(&record.disk);
        let changes: Vec<MapChange> =
            loaded.iter().filter(differs).map(|record| MapChange::Joined(record.node)).collect();
        self.on_map_changes(turn, changes);
        let record = self.own_record();
        self.note_alive(turn, &record);
        self.write_registry(turn);
    }

    // What lane zero knows of replicas.

    /// Something about a replica of this lane: for lane zero.
    pub fn tell_replica(&mut self, turn: &mut Turn<'_>, cluster: ClusterId, known: ReplicaKnown) {
        if self.is_lane_zero() {
            return self.on_replica_news(turn, cluster, known);
        }
        let ReplicaKnown { name, generation, replica, leader, members } = known;
        self.tell_lane_zero(&Item::ReplicaNews { cluster, generation, name, replica, leader, members });
    }

    /// Lane zero hears of a replica.
    pub fn on_replica_news(&mut self, turn: &mut Turn<'_>, cluster: ClusterId, known: ReplicaKnown) {
        self.config_cluster.dirty = true;
        if cluster == WORLD_CLUSTER {
            let was = self.nodes.world_leader == Some(self.config.node);
            if known.leader.is_some() || was {
                self.nodes.world_leader = known.leader;
            }
            let leads = self.nodes.world_leader == Some(self.config.node);
            self.nodes.replicas.insert(cluster, known);
            if leads != was {
                self.nodes.authority = None;
                self.on_nodes_timer(turn);
            }
            return;
        }
        self.nodes.replicas.insert(cluster, known);
    }

    /// Lane zero hears that a replica is gone.
    pub fn on_replica_gone(&mut self, cluster: ClusterId, name: &ClusterName) {
        self.nodes.replicas.remove(&cluster);
        self.config_cluster.note_left(name);
    }

    /// Whether this node leads the world cluster, as lane zero knows.
    pub fn leads_world(&self) -> bool {
        self.is_lane_zero() && self.nodes.world_leader == Some(self.config.node)
    }

    // What clients ask.

    /// The map for `ListNodes`.
    pub fn node_infos(&self, now: Tick) -> Vec<NodeInfo> {
        let info = |record: &NodeRecord| NodeInfo {
            node: record.node,
            up: record.up,
            region: record.labels.region.clone(),
            az: record.labels.az.clone(),
            rack: record.labels.rack.clone(),
            chassis: record.labels.chassis.clone(),
            peer_address: record.peer_address.clone(),
            http_address: record.http_address.clone(),
            score: record.score,
            clusters: record.clusters,
            leaders: record.leaders,
            disk: record.disk,
            cores: record.lanes,
            version: record.version.clone(),
            seen_ms_ago: self.nodes.map.heard_ago(record.node, now).map_or(0, |ago| ago.as_millis() as u64),
        };
        self.nodes.map.records().map(info).collect()
    }

    /// The world as this core sees it. Lanes other than zero know their own replicas only.
    pub fn status(&self, turn: &Turn<'_>) -> StatusInfo {
        let mut gauges = self.nodes.gauges.clone();
        gauges.insert(self.config.lane, self.lane_gauges(turn));
        let sum = |pick: fn(&(u32, u32, u32)) -> u32| gauges.values().map(pick).sum();
        let mut warnings = self.status_warnings(turn);
        let registered =
            self.nodes.map.get(self.config.node).is_some_and(|record| record.disk == self.config.disk && record.up);
        if !registered {
            warnings.push(
                "this node is not in the node map yet: the world is not formed, or its leader cannot be reached".into(),
            );
        }
        let ready = registered
            && self.formations.waiting().next().is_none()
            && self.config_cluster.settled(self.is_lane_zero());
        StatusInfo {
            world: self.config.world.clone(),
            node: self.config.node,
            ready,
            nodes_up: self.nodes.map.records().filter(|record| record.up).count() as u32,
            nodes_total: self.nodes.map.len() as u32,
            clusters: sum(|gauges| gauges.0),
            leaders: sum(|gauges| gauges.1),
            quiesced: sum(|gauges| gauges.2),
            config_cluster: self.config_cluster.name(),
            warnings,
        }
    }

    fn status_warnings(&self, turn: &Turn<'_>) -> Vec<String> {
        let mut warnings = Vec::new();
        for cluster in self.formations.waiting() {
            if let Some(zero) = self.level_zero_of(cluster) {
                let nodes: Vec<String> = zero.members.iter().map(|node| node.to_string()).collect();
                warnings.push(format!(
                    "cluster {} is not here yet: it forms once all of its configured members are up: node {}",
                    zero.name,
                    nodes.join(", node ")
                ));
            }
        }
        warnings.extend(self.recruits.damaged.values().cloned());
        let down = self.nodes.map.records().filter(|record| !record.up);
        warnings.extend(down.map(|record| format!("node {} ({}) is down", record.node, record.peer_address)));
        warnings.extend(self.config_cluster.warnings(&self.config.labels.region));
        let _ = turn;
        warnings
    }
}

fn report_of(record: &NodeRecord) -> Report {
    Report { node: record.node, up: record.up, score: record.score, clusters: record.clusters, leaders: record.leaders }
}

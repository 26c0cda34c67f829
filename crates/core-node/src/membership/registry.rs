//! What the world's leader does for the node map: takes heartbeats, calls nodes down, keeps the allocator's
//! records (facts, reports) and learns from them who is being decommissioned.
//!
//!   load the allocator's records ─▶ note heartbeats ─▶ register and report what changed, once a heartbeat
//!
//! Always: at most `REGISTRATIONS_MAX` registrations and one report at a time; what could not be written is
//! written with a later heartbeat; where the allocator's records say otherwise than the map they are written anew: what a leader
//! before this one wrote last, or late, would stand for ever. Not here: the map itself (core-placement), heartbeats (nodes.rs).

use crate::api::NoteLevel;
use crate::context::{CoreContext, Turn};
use crate::node_state::NodeState;
use crate::routing::operation::{Operation, Owner, RegistryWork};
use base_types::codec::Encode;
use base_types::{BackendKind, NodeId, ReadConsistency};
use core::time::Duration;
use core_backends::allocator::{Command, Query, Reply, Report, NODES_PAGE_MAX};
use core_cluster::api::LocalKind;
use core_flow::{decode_call, CallResult};
use core_placement::{MapChange, NodeRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Registrations under way at a time.
const REGISTRATIONS_MAX: usize = 64;
/// How long the allocator may take.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(5);

/// What the world's leader does for the map.
#[derive(Debug, Default)]
pub struct Authority {
    /// Loaded so far; `None` once the map is the authority's.
    pub loading: Option<Vec<NodeRecord>>,
    asking: bool,
    asking_draining: bool,
    asking_changes: bool,
    loaded_until: u64,
    registering: BTreeSet<NodeId>,
    to_register: BTreeSet<NodeId>,
    to_report: BTreeSet<NodeId>,
    reporting: bool,
}

impl NodeState {
    /// A heartbeat's time at the authority itself.
    pub fn beat_as_authority(&mut self, turn: &mut Turn<'_>) {
        self.nodes.silent = 0;
        if self.nodes.authority.is_none() {
            self.nodes.authority = Some(Authority { loading: Some(Vec::new()), ..Authority::default() });
        }
        if self.nodes.authority.as_ref().is_some_and(|authority| authority.loading.is_some()) {
            return self.load_registry(turn);
        }
        let record = self.own_record(turn.core);
        self.note_alive(turn, &record);
        let down_after = Duration::from_millis(turn.core.config().tuning.node_down_ms);
        let changes = turn.core.map_mut().refresh(turn.now, down_after);
        self.note_registry_changes(&changes);
        self.on_map_changes(turn, changes);
        self.write_registry(turn);
        self.ask_who_drains(turn);
        self.ask_who_is_forgotten(turn);
    }

    /// Nodes are struck off by any node, too; the record of changes tells.
    fn ask_who_is_forgotten(&mut self, turn: &mut Turn<'_>) {
        let Some(authority) = self.nodes.authority.as_mut() else { return };
        if core::mem::replace(&mut authority.asking_changes, true) {
            return;
        }
        let query = Query::NodesSince { version: authority.loaded_until, limit: NODES_PAGE_MAX }.to_bytes();
        let kind =
            LocalKind::Read { backend: BackendKind::Allocator, query, consistency: Some(ReadConsistency::Eventual) };
        self.registry_operation(turn, RegistryWork::Changes, kind);
    }

    fn on_forgotten(&mut self, turn: &mut Turn<'_>, forgotten: &[NodeId]) {
        let own = turn.core.node();
        let gone: Vec<NodeId> = forgotten.iter().copied().filter(|node| *node != own).collect();
        let gone = gone.into_iter().filter(|node| turn.core.map_mut().forget(*node)).collect::<Vec<_>>();
        self.on_map_changes(turn, gone.into_iter().map(MapChange::Forgotten).collect());
    }

    /// Decommissioning is written to the allocator by any node. This one holds the world's leader, so its own
    /// replica tells without asking others; what is late by a moment is seen with the next heartbeat.
    fn ask_who_drains(&mut self, turn: &mut Turn<'_>) {
        let Some(authority) = self.nodes.authority.as_mut() else { return };
        if core::mem::replace(&mut authority.asking_draining, true) {
            return;
        }
        let query = Query::Draining.to_bytes();
        let kind =
            LocalKind::Read { backend: BackendKind::Allocator, query, consistency: Some(ReadConsistency::Eventual) };
        self.registry_operation(turn, RegistryWork::Draining, kind);
    }

    fn on_who_drains(&mut self, turn: &mut Turn<'_>, draining: Vec<NodeId>) {
        let changes = turn.core.map_mut().set_draining(turn.now, &draining.into_iter().collect());
        self.on_map_changes(turn, changes);
    }

    /// A node was heard of.
    pub fn note_alive(&mut self, turn: &mut Turn<'_>, record: &NodeRecord) {
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
        let operation = Operation::new(Owner::Registry(work), turn.core.world(), kind, turn.now, deadline);
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
            if let Some(record) = turn.core.map().get(node).cloned() {
                let kind = self.allocator_write(turn.core, &Command::Register { record });
                self.registry_operation(turn, RegistryWork::Register(node), kind);
            }
        }
        if !reports.is_empty() {
            let updates = reports.iter().filter_map(|node| turn.core.map().get(*node)).map(report_of).collect();
            let kind = self.allocator_write(turn.core, &Command::Report { updates });
            self.registry_operation(turn, RegistryWork::Report(reports.into_iter().collect()), kind);
        }
    }

    fn allocator_write(&mut self, core: &mut CoreContext, command: &Command) -> LocalKind {
        LocalKind::Write {
            backend: BackendKind::Allocator,
            command: command.to_bytes(),
            consistency: None,
            request_id: core.random().request_id(),
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
                if let Ok((Reply::Nodes { records, version, more, level, .. }, at)) = reply {
                    super::format_level::hear(turn, level, turn.core.node());
                    self.on_registry_page(turn, records, version, more, at.term.0);
                }
            }
            (RegistryWork::Draining, reply) => {
                authority.asking_draining = false;
                let loaded = authority.loading.is_none();
                if let (Ok((Reply::Draining { nodes }, _)), true) = (reply, loaded) {
                    self.on_who_drains(turn, nodes);
                }
            }
            (RegistryWork::Changes, reply) => {
                authority.asking_changes = false;
                let loaded = authority.loading.is_none();
                if let (Ok((Reply::Nodes { records, forgotten, version, level, .. }, _)), true) = (reply, loaded) {
                    authority.loaded_until = version;
                    self.note_disagreements(turn.core, &records);
                    self.on_forgotten(turn, &forgotten);
                    super::format_level::hear(turn, level, turn.core.node());
                }
            }
            (RegistryWork::Register(node), reply) => {
                authority.registering.remove(&node);
                match reply {
                    Ok(_) => {}
                    Err(failure) if failure.refusal.kind().retryable() => {
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
            turn.core.map().records().map(|record| (record.node, record.disk)).collect();
        turn.core.map_mut().become_authority(turn.now, term, &loaded);
        let differs = |record: &&NodeRecord| before.get(&record.node) != Some(&record.disk);
        let changes: Vec<MapChange> =
            loaded.iter().filter(differs).map(|record| MapChange::Joined(record.node)).collect();
        self.on_map_changes(turn, changes);
        self.note_disagreements(turn.core, &loaded);
        let record = self.own_record(turn.core);
        self.note_alive(turn, &record);
        self.write_registry(turn);
    }

    /// The allocator's records, as they are or were a moment ago, are compared with the map.
    fn note_disagreements(&mut self, core: &CoreContext, records: &[NodeRecord]) {
        let Some(authority) = self.nodes.authority.as_mut() else { return };
        for told in records {
            let Some(known) = core.map().get(told.node) else { continue };
            match disagreement(known, told) {
                Some(MapChange::Down(node)) => authority.to_report.insert(node),
                Some(_) => authority.to_register.insert(told.node),
                None => continue,
            };
        }
    }
}

/// What must be written for the allocator to hold what the map does. Scores drift apart between reports, and are none of it; who
/// is being decommissioned is the allocator's own to say.
fn disagreement(known: &NodeRecord, told: &NodeRecord) -> Option<MapChange> {
    let node = known.node;
    let told = NodeRecord { draining: known.draining, ..told.clone() };
    match (known.up, told.up) {
        _ if !known.same_facts(&told) => Some(MapChange::Facts(node)),
        (true, false) => Some(MapChange::Up(node)),
        (false, true) => Some(MapChange::Down(node)),
        _ => None,
    }
}

fn report_of(record: &NodeRecord) -> Report {
    Report { node: record.node, up: record.up, score: record.score, clusters: record.clusters, leaders: record.leaders }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::{BootId, DiskId};
    use core_placement::Labels;

    #[test]
    fn what_the_allocator_holds_otherwise_is_written_anew() {
        let labels = Labels { region: "r".into(), az: "1".into(), rack: "1".into(), chassis: "c".into() };
        let known = NodeRecord {
            node: NodeId(3),
            disk: DiskId(7),
            boot: BootId(1),
            labels,
            peer_address: "p".into(),
            http_address: "h".into(),
            lanes: 1,
            version: "1".into(),
            level_max: base_types::FormatLevel(1),
            engines: vec!["lmdb".into()],
            score: 10,
            clusters: 1,
            leaders: 1,
            up: true,
            draining: false,
        };
        let told = |change: fn(&mut NodeRecord)| {
            let mut told = known.clone();
            change(&mut told);
            disagreement(&known, &told)
        };
        assert_eq!(told(|told| told.score = 900), None);
        assert_eq!(told(|told| told.draining = true), None);
        // Called down by a leader that is no more, or whose word came late.
        assert_eq!(told(|told| told.up = false), Some(MapChange::Up(NodeId(3))));
        assert_eq!(told(|told| told.disk = DiskId(6)), Some(MapChange::Facts(NodeId(3))));
        let known = NodeRecord { up: false, ..known };
        assert_eq!(disagreement(&known, &NodeRecord { up: true, ..known.clone() }), Some(MapChange::Down(NodeId(3))));
    }
}

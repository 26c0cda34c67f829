//! What the world's leader does for the node map: takes heartbeats, calls nodes down, keeps the allocator's
//! records (facts, reports) and learns from them who is being decommissioned.
//!
//!   load the allocator's records ─▶ note heartbeats ─▶ register and report what changed, once a heartbeat
//!
//! Always: at most `REGISTRATIONS_MAX` registrations and one report at a time; what could not be written is
//! written with a later heartbeat; where the allocator's records say otherwise than the map they are written anew: what a leader
//! before this one wrote last, or late, would stand for ever. Held by: `what_the_allocator_holds_otherwise_is_written_anew`. Not here: the map itself (core-placement), heartbeats (nodes.rs).

use crate::api::NoteLevel;
use crate::context::{CoreContext, Turn};
use crate::routing::operation::{Operation, Owner, RegistryWork};
use crate::routing::Routing;
use base_types::codec::Encode;
use base_types::{BackendKind, FormatLevel, NodeId, ReadConsistency};
use core::time::Duration;
use core_backends::allocator::{Command, Query, Reply, Report, NODES_PAGE_MAX};
use core_cluster::api::LocalKind;
use core_flow::{decode_call, CallResult};
use core_placement::{MapChange, NodeRecord};
use std::collections::BTreeSet;

/// Registrations under way at a time.
const REGISTRATIONS_MAX: usize = 64;
/// How long the allocator may take.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(5);

/// What the world's leader does for the map.
#[derive(Debug, Default)]
pub struct Authority {
    /// Loaded so far; `None` once the map is the authority's.
    loading: Option<Vec<NodeRecord>>,
    asking: bool,
    asking_draining: bool,
    asking_changes: bool,
    loaded_until: u64,
    registering: BTreeSet<NodeId>,
    to_register: BTreeSet<NodeId>,
    to_report: BTreeSet<NodeId>,
    reporting: bool,
}

/// What the allocator's records say of the map.
pub enum Finding {
    /// All of them, as of this term: the map is the authority's from now on.
    Loaded { records: Vec<NodeRecord>, term: u64 },
    /// Who is being decommissioned.
    Draining(Vec<NodeId>),
    /// Who was struck off, and the world's format level.
    Changes { forgotten: Vec<NodeId>, level: FormatLevel },
}

impl Authority {
    /// It has loaded nothing yet.
    pub fn begin() -> Authority {
        Authority { loading: Some(Vec::new()), ..Authority::default() }
    }

    /// Whether the map is the authority's by now.
    pub fn is_loaded(&self) -> bool {
        self.loading.is_none()
    }

    /// Nodes are struck off by any node, too; the record of changes shows it.
    pub fn ask_who_is_forgotten(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        if core::mem::replace(&mut self.asking_changes, true) {
            return;
        }
        let query = Query::NodesSince { version: self.loaded_until, limit: NODES_PAGE_MAX }.to_bytes();
        let kind =
            LocalKind::Read { backend: BackendKind::Allocator, query, consistency: Some(ReadConsistency::Eventual) };
        operate(turn, routing, RegistryWork::Changes, kind);
    }

    /// Decommissioning is written to the allocator by any node. This one holds the world's leader, so its own
    /// replica answers without asking others; what is late by a moment is seen with the next heartbeat.
    pub fn ask_who_drains(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        if core::mem::replace(&mut self.asking_draining, true) {
            return;
        }
        let query = Query::Draining.to_bytes();
        let kind =
            LocalKind::Read { backend: BackendKind::Allocator, query, consistency: Some(ReadConsistency::Eventual) };
        operate(turn, routing, RegistryWork::Draining, kind);
    }

    /// The map changed: what the allocator is to hold.
    pub fn note_changes(&mut self, changes: &[MapChange]) {
        for change in changes {
            match change {
                MapChange::Joined(node) | MapChange::Up(node) | MapChange::DiskLost(node) | MapChange::Facts(node) => {
                    self.to_register.insert(*node);
                }
                MapChange::Down(node) | MapChange::Report(node) => {
                    self.to_report.insert(*node);
                }
                MapChange::Forgotten(_) => {}
            }
        }
    }

    /// The allocator answered: what that says of the map.
    pub fn on_answer(
        &mut self,
        turn: &mut Turn<'_>,
        routing: &mut Routing,
        work: RegistryWork,
        result: CallResult,
    ) -> Option<Finding> {
        match (work, decode_call::<Reply>(result)) {
            (RegistryWork::Load, reply) => {
                self.asking = false;
                let Ok((Reply::Nodes { records, version, more, level, .. }, at)) = reply else { return None };
                super::format_level::hear(turn, level, turn.core.node());
                let loading = self.loading.as_mut()?;
                loading.extend(records);
                self.loaded_until = version;
                if more {
                    self.load(turn, routing);
                    return None;
                }
                Some(Finding::Loaded { records: self.loading.take().unwrap_or_default(), term: at.term.0 })
            }
            (RegistryWork::Draining, reply) => {
                self.asking_draining = false;
                match reply {
                    Ok((Reply::Draining { nodes }, _)) if self.is_loaded() => Some(Finding::Draining(nodes)),
                    _ => None,
                }
            }
            (RegistryWork::Changes, reply) => {
                self.asking_changes = false;
                match reply {
                    Ok((Reply::Nodes { records, forgotten, version, level, .. }, _)) if self.is_loaded() => {
                        self.loaded_until = version;
                        self.note_disagreements(turn.core, &records);
                        Some(Finding::Changes { forgotten, level })
                    }
                    _ => None,
                }
            }
            (RegistryWork::Register(node), reply) => {
                self.registering.remove(&node);
                match reply {
                    Ok(_) => {}
                    Err(failure) if failure.refusal.kind().retryable() => {
                        self.to_register.insert(node);
                    }
                    Err(failure) => {
                        turn.note(NoteLevel::Warning, format!("node {node} was not registered: {}", failure.refusal))
                    }
                }
                None
            }
            (RegistryWork::Report(nodes), reply) => {
                self.reporting = false;
                if reply.is_err() {
                    self.to_report.extend(nodes);
                }
                None
            }
        }
    }

    /// Asks for the next page of the allocator's records.
    pub fn load(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        if core::mem::replace(&mut self.asking, true) {
            return;
        }
        let query = Query::NodesSince { version: self.loaded_until, limit: NODES_PAGE_MAX }.to_bytes();
        let kind =
            LocalKind::Read { backend: BackendKind::Allocator, query, consistency: Some(ReadConsistency::Strong) };
        operate(turn, routing, RegistryWork::Load, kind);
    }

    /// Writes what has changed, as far as there is room.
    pub fn write(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        let free = REGISTRATIONS_MAX.saturating_sub(self.registering.len());
        let busy = &self.registering;
        let due: Vec<NodeId> =
            self.to_register.iter().filter(|node| !busy.contains(node)).take(free).copied().collect();
        for node in &due {
            self.to_register.remove(node);
            self.to_report.remove(node);
            self.registering.insert(*node);
        }
        let reports = if self.reporting { BTreeSet::new() } else { core::mem::take(&mut self.to_report) };
        self.reporting |= !reports.is_empty();
        for node in due {
            if let Some(record) = turn.core.map().get(node).cloned() {
                let kind = allocator_write(turn.core, &Command::Register { record });
                operate(turn, routing, RegistryWork::Register(node), kind);
            }
        }
        if !reports.is_empty() {
            let updates = reports.iter().filter_map(|node| turn.core.map().get(*node)).map(report_of).collect();
            let kind = allocator_write(turn.core, &Command::Report { updates });
            operate(turn, routing, RegistryWork::Report(reports.into_iter().collect()), kind);
        }
    }

    /// The allocator's records, as they are or were a moment ago, are compared with the map.
    pub fn note_disagreements(&mut self, core: &CoreContext, records: &[NodeRecord]) {
        for told in records {
            let Some(known) = core.map().get(told.node) else { continue };
            match disagreement(known, told) {
                Some(MapChange::Down(node)) => self.to_report.insert(node),
                Some(_) => self.to_register.insert(told.node),
                None => continue,
            };
        }
    }
}

fn operate(turn: &mut Turn<'_>, routing: &mut Routing, work: RegistryWork, kind: LocalKind) {
    let deadline = turn.now + REGISTRY_TIMEOUT;
    let operation = Operation::new(Owner::Registry(work), turn.core.world(), kind, turn.now, deadline);
    routing.start_operation(turn, operation);
}

fn allocator_write(core: &mut CoreContext, command: &Command) -> LocalKind {
    LocalKind::Write {
        backend: BackendKind::Allocator,
        command: command.to_bytes(),
        consistency: None,
        request_id: core.random().request_id(),
        cluster_time_ms: 0,
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
            doors: Vec::new(),
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

//! What clients ask of the node itself: the node map, and the world's health as this node sees it.
//!
//!   lane ──StatusAsked──▶ lane zero (knows all lanes' gauges and warnings) ──StatusTold──▶ lane
//!
//! Always: whichever lane is asked, the answer is lane zero's, so that it is the whole node's.
//! Held by: `every_lane_tells_the_same_status`.
//! Not here: the map (nodes.rs), what each part warns of, whether the node is ready (health.rs).

use crate::context::level_zero::{LevelZero, WORLD_CLUSTER};
use crate::context::{CoreContext, Turn};
use crate::frame::{Announcement, Item, LaneGauges};
use crate::membership::Membership;
use crate::routing::Routing;
use base_types::action::{down_warning, ActionResult, Answer, Failure, NodeInfo, StatusInfo};
use base_types::{Tick, Ticket};
use core_flow::failures;
use core_placement::NodeRecord;
use std::collections::BTreeMap;

/// Warnings of one lane, and lines of a kind in one status.
pub const LANE_WARNINGS_MAX: usize = 32;
/// Questions about the status that wait for lane zero.
pub const ASKED_MAX: usize = 4_096;

/// A lane's questions that wait for lane zero, by number.
#[derive(Debug, Default)]
pub struct StatusAsked {
    waiting: BTreeMap<u64, Ticket>,
}

impl StatusAsked {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The client went away.
    pub fn forget(&mut self, ticket: Ticket) {
        self.waiting.retain(|_, asked| *asked != ticket);
    }
}

impl Membership {
    /// A client asks for the status.
    pub fn on_status_request(
        &mut self,
        turn: &mut Turn<'_>,
        routing: &mut Routing,
        ticket: Ticket,
    ) -> Result<(), Failure> {
        if turn.core.is_lane_zero() {
            return self.ask_health(turn, routing, ticket);
        }
        if self.status_asked.waiting.len() >= ASKED_MAX {
            return Err(failures::overloaded("questions about the status", ASKED_MAX));
        }
        let number = turn.core.next_number();
        self.status_asked.waiting.insert(number, ticket);
        turn.core.send_to_lane_zero(&Item::StatusAsked { ticket: Ticket(number) });
        Ok(())
    }

    /// Lane zero answered.
    pub fn on_status_told(&mut self, turn: &mut Turn<'_>, routing: &mut Routing, ticket: Ticket, status: StatusInfo) {
        let asked = self.status_asked.waiting.remove(&ticket.0);
        let answer = Answer { result: ActionResult::Status(status), at: None, level: None, cluster: None };
        routing.reply(turn, asked, Ok(answer));
    }

    /// The world as this node sees it, but for whether it is ready; on lane zero.
    pub(crate) fn counts(&self, turn: &Turn<'_>) -> StatusInfo {
        let mut gauges = self.nodes.gauges.clone();
        gauges.insert(turn.core.config().lane, self.lane_gauges(turn));
        let sum = |pick: fn(&LaneGauges) -> u32| gauges.values().map(pick).sum();
        let mut warnings: Vec<String> = gauges.values().flat_map(|lane| lane.warnings.clone()).collect();
        warnings.extend(self.node_warnings(turn.core));
        StatusInfo {
            world: turn.core.config().world.clone(),
            node: turn.core.node(),
            ready: false,
            not_ready: Vec::new(),
            degraded: Vec::new(),
            quorum: Vec::new(),
            nodes_up: turn.core.map().records().filter(|record| record.up && turn.core.is_up(record.node)).count()
                as u32,
            nodes_total: turn.core.map().len() as u32,
            clusters: sum(|gauges| gauges.replicas),
            leaders: sum(|gauges| gauges.leaders),
            quiesced: sum(|gauges| gauges.quiesced),
            config_cluster: self.config_cluster.name(),
            warnings,
            log_write_ms: 0,
            certificate_expires_ms: 0,
        }
    }

    /// What this lane's clusters want an operator to look at.
    pub fn lane_warnings(&self, core: &CoreContext) -> Vec<String> {
        let mut warnings = Vec::new();
        for cluster in self.formations.waiting() {
            if let Some(zero) = core.level_zero_of(cluster) {
                let join = |nodes: Vec<String>| nodes.join(", node ");
                warnings.push(match self.level_zero_members.of(cluster) {
                    Some(known) => format!(
                        "cluster {} is not here yet: its leader gives this node its copy; its members are node {}",
                        zero.name,
                        join(known.members.iter().map(|(member, _)| member.node.to_string()).collect())
                    ),
                    None => format!(
                        "cluster {} is not here yet: it forms once all of its configured members are up: node {}",
                        zero.name,
                        join(zero.members.iter().map(|node| node.to_string()).collect())
                    ),
                });
            }
        }
        warnings.extend(self.replica_repair.quarantined().cloned());
        warnings.extend(self.replica_repair.damaged().cloned());
        warnings.extend(self.rebalance.warnings());
        warnings.truncate(LANE_WARNINGS_MAX);
        warnings
    }

    fn node_warnings(&self, core: &CoreContext) -> Vec<String> {
        let mut warnings: Vec<String> = core
            .level_zero()
            .iter()
            .filter_map(|zero| two_members(zero, self.level_zero_members.of(zero.cluster)))
            .collect();
        warnings.extend(self.recoveries.iter().cloned());
        let draining = core.map().records().filter(|record| record.draining);
        warnings.extend(draining.map(draining_warning));
        let is_up = |record: &NodeRecord| record.up && core.is_up(record.node);
        let down = core.map().records().filter(|record| !record.draining && !is_up(record));
        warnings.extend(down.map(|record| down_warning(record.node, &record.peer_address)));
        warnings
    }
}

/// The map for `ListNodes`.
pub fn node_infos(core: &CoreContext, now: Tick) -> Vec<NodeInfo> {
    let info = |record: &NodeRecord| NodeInfo {
        node: record.node,
        up: record.up && core.is_up(record.node),
        draining: record.draining,
        region: record.labels.region.clone(),
        az: record.labels.az.clone(),
        rack: record.labels.rack.clone(),
        chassis: record.labels.chassis.clone(),
        peer_address: record.peer_address.clone(),
        http_address: record.http_address.clone(),
        doors: record.doors.iter().map(|door| (door.name.clone(), door.url.clone())).collect(),
        score: record.score,
        clusters: record.clusters,
        leaders: record.leaders,
        disk: record.disk,
        cores: record.lanes,
        version: record.version.clone(),
        seen_ms_ago: core.map().heard_ago(record.node, now).map_or(0, |ago| ago.as_millis() as u64),
    };
    core.map().records().map(info).collect()
}

/// Two of two are a majority: neither may be lost, and a lost disk cannot even be replaced.
pub fn two_members(zero: &LevelZero, known: Option<&Announcement>) -> Option<String> {
    let voters = |known: &Announcement| known.members.iter().filter(|(member, _)| !member.learner).count();
    (known.map_or(zero.members.len(), voters) == 2).then(|| match known {
        None => format!(
            "cluster {} has two configured members: it stops when either is down, and cannot mend a lost disk; configure 1, 3 or 5 members",
            zero.name
        ),
        Some(_) => format!(
            "cluster {} has two members: it stops when either is down, and cannot mend a lost disk; make it 1, 3 or 5 members with `hive ctl {} members add`",
            zero.name,
            if zero.cluster == WORLD_CLUSTER { "world" } else { "region" }
        ),
    })
}

fn draining_warning(record: &NodeRecord) -> String {
    let NodeRecord { node, clusters, up, .. } = record;
    match clusters {
        0 => format!("node {node} is decommissioned and holds no replicas; `hive ctl node decommission {node}` says whether it can be stopped"),
        _ if !up => format!("node {node} is being decommissioned, and is down: it held {clusters} replicas"),
        _ => format!("node {node} is being decommissioned: {clusters} replicas are left"),
    }
}

//! Whether this node can do its work, as of now: what `/ready`, `hive ctl status` and the health metrics say.
//!
//!   asked ─▶ a round: a strong read of each level 0 cluster, a word of every lane ─▶ all answered, or the time is up ─▶ told
//!
//! Every reason is gathered here or in `Membership::lane_degraded`, and nowhere else: a sentence that names the cluster or node,
//! and what to do.
//!
//! Always: what is reported was true within the last two election timeouts: nothing of an earlier round is used again. One round
//! at a time; who asks meanwhile receives what it finds. Losing the world's or a region's majority alone leaves a node
//! ready: clusters with a majority of their own continue serving through it.
//! Held by: `silent_loss_of_the_world_is_seen_as_soon`, `world_without_majority_degrades_every_node`.
//! Not here: the door's status codes (edge-node), counters (status.rs).

use crate::context::level_zero::WORLD_CLUSTER;
use crate::context::{CoreContext, Turn};
use crate::frame::{Item, LaneHealth, Sender};
use crate::membership::status::ASKED_MAX;
use crate::membership::Membership;
use crate::routing::operation::{Operation, Owner};
use crate::routing::resolve::reference_read;
use crate::routing::Routing;
use crate::timers::TimerKey;
use base_types::action::{ActionResult, Answer, Failure, QuorumInfo, StatusInfo};
use base_types::mutant::{planted, Mutant};
use base_types::{ClusterId, ClusterName, LaneId, NodeId, Tick, Ticket};
use core::time::Duration;
use core_backends::reference::Query;
use core_cluster::api::ReplicaView;
use core_flow::{failures, CallResult};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Reasons of one lane.
pub const LANE_REASONS_MAX: usize = 16;
/// Clusters that a reason names; the rest are counted.
const NAMES_SHOWN_MAX: usize = 5;
/// How long a log write that took too long is reported when no other has followed it.
const SLOW_WRITE_KEPT: Duration = Duration::from_secs(10);
/// A certificate is reported so long before it expires, or when a third of its life is left, whichever is later.
const EXPIRY_WARNING_MS: u64 = 14 * 24 * 3_600_000;
/// A round ends with what it has a little before two election timeouts: the answer has a way to go.
const ROUND_SHARE: (u32, u32) = (5, 6);

/// Who receives what a round finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asker {
    Client(Ticket),
    Lane { node: NodeId, lane: LaneId, ticket: Ticket },
}

/// A round under way.
#[derive(Debug, Default)]
struct Round {
    number: u64,
    askers: Vec<Asker>,
    /// Level 0 clusters that have not answered yet, and what the others did.
    probing: BTreeSet<ClusterId>,
    answers: BTreeMap<ClusterId, bool>,
    /// What each lane told.
    lanes: BTreeMap<LaneId, LaneHealth>,
}

/// How long the log's writes take.
#[derive(Debug, Default)]
pub struct LogPace {
    out: VecDeque<Tick>,
    last: Option<(Tick, Duration)>,
}

impl LogPace {
    /// A write was handed to the host.
    pub fn begin(&mut self, now: Tick) {
        self.out.push_back(now);
    }

    /// The oldest write out is durable.
    pub fn end(&mut self, now: Tick) {
        if let Some(begun) = self.out.pop_front() {
            self.last = Some((now, now.since(begun)));
        }
    }

    /// How long the write that is out has taken so far, or the last one took.
    fn worst(&self, now: Tick) -> Duration {
        let last = self.last.filter(|(ended, _)| now.since(*ended) <= SLOW_WRITE_KEPT);
        let out = self.out.front().map(|begun| now.since(*begun));
        out.unwrap_or_default().max(last.map_or(Duration::ZERO, |(_, took)| took))
    }
}

/// What is known of this node's health beside its parts.
#[derive(Debug, Default)]
pub struct Health {
    round: Option<Round>,
    timer: Tick,
    log: LogPace,
    /// Since when this node's certificate is valid and until when, Unix milliseconds.
    certificate: Option<(u64, u64)>,
    /// What the host is still setting up.
    hold: Option<String>,
}

impl Health {
    /// How many wait for the round.
    pub fn asking(&self) -> usize {
        self.round.as_ref().map_or(0, |round| round.askers.len())
    }

    /// How long the log's writes take.
    pub fn log_pace(&mut self) -> &mut LogPace {
        &mut self.log
    }

    /// What the host is still setting up, if anything.
    pub fn set_hold(&mut self, reason: Option<String>) {
        self.hold = reason;
    }

    /// Since when this node's certificate is valid, and until when.
    pub fn set_certificate(&mut self, issued_ms: u64, expires_ms: u64) {
        self.certificate = Some((issued_ms, expires_ms));
    }

    /// The client went away.
    pub fn forget(&mut self, ticket: Ticket) {
        if let Some(round) = &mut self.round {
            round.askers.retain(|asker| *asker != Asker::Client(ticket));
        }
    }
}

impl Membership {
    /// A client of lane zero asks for the status.
    pub fn ask_health(&mut self, turn: &mut Turn<'_>, routing: &mut Routing, ticket: Ticket) -> Result<(), Failure> {
        if self.health.asking() >= ASKED_MAX {
            return Err(failures::overloaded("questions about the status", ASKED_MAX));
        }
        self.join_round(turn, routing, Asker::Client(ticket));
        Ok(())
    }

    /// A lane asks for a client of its own.
    pub fn ask_health_for_lane(&mut self, turn: &mut Turn<'_>, routing: &mut Routing, from: Sender, ticket: Ticket) {
        if self.health.asking() < ASKED_MAX {
            self.join_round(turn, routing, Asker::Lane { node: from.node, lane: from.lane, ticket });
        }
    }

    fn join_round(&mut self, turn: &mut Turn<'_>, routing: &mut Routing, asker: Asker) {
        if let Some(round) = &mut self.health.round {
            return round.askers.push(asker);
        }
        let number = turn.core.next_number();
        let probes: Vec<(ClusterId, std::sync::Arc<ClusterName>)> =
            turn.core.level_zero().iter().map(|zero| (zero.cluster, zero.name.clone())).collect();
        let mut round = Round { number, askers: vec![asker], ..Round::default() };
        round.probing = probes.iter().map(|(cluster, _)| *cluster).collect();
        round.lanes.insert(turn.core.config().lane, self.lane_health(turn));
        self.health.round = Some(round);
        turn.core.send_to_other_lanes(&Item::HealthAsked { ticket: Ticket(number) });
        let patience = turn.core.election_timeout() * ROUND_SHARE.0 / ROUND_SHARE.1;
        let deadline = turn.now + patience;
        self.set_health_timer(turn.core, deadline);
        for (cluster, name) in probes {
            let kind = reference_read(&Query::Resolve { name: (*name).clone() });
            let probe = Operation::new(Owner::Probe { round: number, cluster }, name, kind, turn.now, deadline);
            routing.start_operation(turn, probe);
        }
        self.end_round_if_complete(turn, routing);
    }

    fn set_health_timer(&mut self, core: &mut CoreContext, at: Tick) {
        let old = core::mem::replace(&mut self.health.timer, at);
        core.set_timer(TimerKey::Health, old, at);
    }

    /// A level 0 cluster answered, or did not in time.
    pub fn on_probe(
        &mut self,
        turn: &mut Turn<'_>,
        routing: &mut Routing,
        number: u64,
        cluster: ClusterId,
        result: &CallResult,
    ) {
        let Some(round) = self.health.round.as_mut().filter(|round| round.number == number) else { return };
        round.probing.remove(&cluster);
        round.answers.insert(cluster, result.is_ok());
        self.end_round_if_complete(turn, routing);
    }

    /// Lane zero asks this lane.
    pub fn on_health_asked(&mut self, turn: &mut Turn<'_>, from: Sender, ticket: Ticket) {
        let health = Box::new(self.lane_health(turn));
        turn.core.send(from.node, from.lane, &Item::HealthTold { ticket, health });
    }

    /// A lane told lane zero.
    pub fn on_health_told(
        &mut self,
        turn: &mut Turn<'_>,
        routing: &mut Routing,
        lane: LaneId,
        ticket: Ticket,
        health: LaneHealth,
    ) {
        let Some(round) = self.health.round.as_mut().filter(|round| round.number == ticket.0) else { return };
        round.lanes.insert(lane, health);
        self.end_round_if_complete(turn, routing);
    }

    /// The round's time is up.
    pub fn on_health_timer(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        self.health.timer = Tick::NEVER;
        self.end_round(turn, routing);
    }

    fn end_round_if_complete(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        let complete = self.health.round.as_ref().is_some_and(|round| {
            round.probing.is_empty() && round.lanes.len() == usize::from(turn.core.config().lane_count)
        });
        if complete {
            self.end_round(turn, routing);
        }
    }

    fn end_round(&mut self, turn: &mut Turn<'_>, routing: &mut Routing) {
        let Some(round) = self.health.round.take() else { return };
        self.set_health_timer(turn.core, Tick::NEVER);
        let mut status = self.counts(turn);
        self.judge(turn.core, routing, (turn.now, &round), &mut status);
        for asker in round.askers {
            match asker {
                Asker::Client(ticket) => {
                    let result = ActionResult::Status(status.clone());
                    routing.reply(turn, Some(ticket), Ok(Answer { result, at: None, level: None, cluster: None }));
                }
                Asker::Lane { node, lane, ticket } => {
                    let item = Item::StatusTold { ticket, status: Box::new(status.clone()) };
                    turn.core.send(node, lane, &item);
                }
            }
        }
    }

    /// Puts the reasons into a status.
    fn judge(&self, core: &CoreContext, routing: &Routing, (now, round): (Tick, &Round), status: &mut StatusInfo) {
        let answers = |cluster: ClusterId| round.answers.get(&cluster) == Some(&true);
        let world = answers(WORLD_CLUSTER) || planted(Mutant::HealthIgnoresQuorum);
        let held: u32 = round.lanes.values().map(|lane| lane.held).sum();
        let served: u32 = round.lanes.values().map(|lane| lane.served).sum();
        let any_level_zero = world || core.level_zero().iter().any(|zero| answers(zero.cluster));
        let useful = any_level_zero || served > 0 || held == 0 && !core.nodes().connected().is_empty();
        for lane in 0..core.config().lane_count {
            if !round.lanes.contains_key(&LaneId(lane)) {
                let text = format!("lane {lane} of this node does not answer; restart the node if that lasts");
                status.not_ready.push(text);
            }
        }
        status.not_ready.extend(self.health.hold.clone());
        status.not_ready.extend(core.superseded().map(|refusal| refusal.message));
        if !useful {
            status.not_ready.push(self.useless(core, held));
        }
        let known = core.map().get(core.node());
        if !known.is_some_and(|record| record.disk == core.config().disk && record.up) {
            let text = "this node is not in the node map: the world is not formed yet, or its leader cannot be reached; start the members of the world";
            self.put(status, world || served == 0, text.into());
        }
        for text in self.unformed(core, status) {
            self.put(status, world || served == 0, text);
        }
        if world {
            self.config_cluster.judge(now, &core.config().labels.region, status);
        }
        judge_level_zero(core, routing, &answers, status);
        self.judge_lanes(round, held, served, status);
        status.degraded.extend(self.certificate_reason(core, now));
        status.certificate_expires_ms = self.health.certificate.map_or(0, |(_, expires)| expires);
        status.ready = status.not_ready.is_empty();
    }

    fn put(&self, status: &mut StatusInfo, keeps_from_work: bool, text: String) {
        let list = if keeps_from_work { &mut status.not_ready } else { &mut status.degraded };
        list.push(text);
    }

    fn useless(&self, core: &CoreContext, held: u32) -> String {
        let clusters = match held {
            0 => "no other node can be reached".to_string(),
            _ => format!("none of the {held} clusters with a replica here has a leader that can be reached"),
        };
        format!(
            "node {} can do none of its work: the world's cluster does not answer and {clusters}; check this node's network and start the nodes that are down",
            core.node()
        )
    }

    /// Level 0 clusters that should be here and are not.
    fn unformed(&self, core: &CoreContext, status: &StatusInfo) -> Vec<String> {
        let formed = self.nodes.gauges.len() == usize::from(core.config().lane_count)
            && self.nodes.gauges.values().all(|lane| lane.formed);
        if formed {
            return Vec::new();
        }
        let known: Vec<String> =
            status.warnings.iter().filter(|text| text.contains("is not here yet")).cloned().collect();
        if known.is_empty() {
            return vec!["a lane of this node has not started yet; wait a moment".into()];
        }
        known
    }

    fn judge_lanes(&self, round: &Round, held: u32, served: u32, status: &mut StatusInfo) {
        status.log_write_ms = round.lanes.values().map(|lane| lane.log_write_ms).max().unwrap_or(0);
        if served < held {
            let names: Vec<&str> = round.lanes.values().flat_map(|lane| &lane.unserved).map(String::as_str).collect();
            let names = &names[..names.len().min(NAMES_SHOWN_MAX)];
            status.degraded.push(format!(
                "{} of {held} clusters with a replica here have no leader that can be reached, among them {}; start their members that are down (`hive ctl cluster show NAME` lists them)",
                held - served,
                names.join(", ")
            ));
        }
        status.degraded.extend(round.lanes.values().flat_map(|lane| lane.degraded.clone()));
    }

    fn certificate_reason(&self, core: &CoreContext, now: Tick) -> Option<String> {
        let (issued, expires) = self.health.certificate?;
        let unix_ms = core.unix_ms(now);
        let node = core.node();
        let hours = |ms: u64| ms / 3_600_000;
        if unix_ms == 0 {
            return None;
        }
        if unix_ms >= expires {
            return Some(format!(
                "the certificate of node {node} expired {} h ago, and other nodes refuse its new connections; issue one with `hive ca issue` and put it in place of the file that node.toml names",
                hours(unix_ms - expires)
            ));
        }
        let warning = EXPIRY_WARNING_MS.min(expires.saturating_sub(issued) / 3);
        (expires - unix_ms <= warning).then(|| {
            format!(
                "the certificate of node {node} expires in {} h; issue one with `hive ca issue` and put it in place of the file that node.toml names",
                hours(expires - unix_ms)
            )
        })
    }

    /// What this lane reports in a round.
    pub(crate) fn lane_health(&self, turn: &Turn<'_>) -> LaneHealth {
        let mut health = LaneHealth { degraded: self.lane_degraded(turn.core, turn.now), ..LaneHealth::default() };
        for view in turn.lane.views() {
            let ended = view.ended > base_types::Generation(0);
            if view.name.is_level_zero() || view.name.tail().starts_with("config-") || ended {
                continue;
            }
            health.held += 1;
            if self.has_leader(turn.core, &view) {
                health.served += 1;
            } else if health.unserved.len() < NAMES_SHOWN_MAX {
                health.unserved.push(view.name.to_string());
            }
        }
        health.log_write_ms = self.health.log.worst(turn.now).as_millis().min(u32::MAX.into()) as u32;
        health
    }

    /// Whether a replica's cluster has a leader that can do its work, as far as is seen from here.
    fn has_leader(&self, core: &CoreContext, view: &ReplicaView) -> bool {
        if !view.is_leader {
            return view.leader.is_some_and(|leader| leader != core.node() && core.is_up(leader));
        }
        let voters = view.members.iter().filter(|member| !member.learner);
        voters.clone().filter(|member| core.is_up(member.node)).count() * 2 > voters.count()
    }

    /// What does not work on this lane. Code that finds another thing that an operator must know of adds it here.
    fn lane_degraded(&self, core: &CoreContext, now: Tick) -> Vec<String> {
        let mut reasons: Vec<String> = self.replica_repair.damaged().cloned().collect();
        reasons.extend(self.replica_repair.quarantined().cloned());
        let took = self.health.log.worst(now);
        if took >= core.election_timeout() / 2 {
            reasons.push(format!(
                "a log write of lane {} takes {} ms, longer than an election timeout; check the disk below the data directory of node {}",
                core.config().lane,
                took.as_millis(),
                core.node()
            ));
        }
        reasons.truncate(LANE_REASONS_MAX);
        reasons
    }
}

fn judge_level_zero(
    core: &CoreContext,
    routing: &Routing,
    answers: &dyn Fn(ClusterId) -> bool,
    status: &mut StatusInfo,
) {
    for zero in core.level_zero() {
        let is_there = answers(zero.cluster) || planted(Mutant::HealthIgnoresQuorum);
        status.quorum.push(QuorumInfo { cluster: (*zero.name).clone(), answers: is_there });
        if is_there {
            continue;
        }
        let members = routing.route(&zero.name).map(|route| route.members.clone()).unwrap_or_default();
        let word = |node: NodeId| format!("node {node} {}", if core.is_up(node) { "up" } else { "down" });
        let members: Vec<String> = members.iter().map(|member| word(member.node)).collect();
        status.degraded.push(format!(
            "cluster {} does not answer: no leader with a majority can be reached ({}); start the members that are down; until then no cluster, keyspace or bucket can be made, moved or removed, and those that exist continue serving",
            zero.name,
            members.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_pace_counts_the_write_that_is_out() {
        let mut pace = LogPace::default();
        let at = Tick::from_millis;
        assert_eq!(pace.worst(at(5)), Duration::ZERO);
        pace.begin(at(10));
        assert_eq!(pace.worst(at(700)), Duration::from_millis(690));
        pace.end(at(710));
        assert_eq!(pace.worst(at(720)), Duration::from_millis(700), "the last one was slow");
        pace.begin(at(720));
        pace.end(at(721));
        assert_eq!(pace.worst(at(722)), Duration::from_millis(1));
        pace.begin(at(800));
        pace.end(at(1_800));
        assert_eq!(pace.worst(at(60_000)), Duration::ZERO, "long ago");
    }
}

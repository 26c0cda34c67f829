//! Takes a node out of service, or back in: a mark in the allocator. While it is set no election takes
//! the node, and each cluster's leader moves its member away (rebalance.rs).
//!
//!   Node known? ─▶ its level 0 clusters ─▶ its other clusters ─▶ each has somewhere to go? ─▶ mark
//!
//! Always: refused, with nothing marked, where a rule could not be met without the node; retried, it
//! reports how many replicas are left and what stands in their way. The mark is the whole state, so a crash
//! loses nothing. None are left when no record lists the node, which is what `forget` reads, and the node itself
//! reports no replica, which is what `status` shows. Not here: the moves.

use super::members::level_zero_rule;
use super::{about_node, confused};
use crate::flows::config::is_config_cluster;
use base_types::action::{ActionResult, Answer, DecommissionInfo};
use base_types::codec::Encode;
use base_types::{BackendKind, ClusterName, ErrorCode, NodeId, OrderedAt, ReadConsistency, Refusal};
use core_backends::allocator::{Command, Query, Reply};
use core_backends::reference::{self, ClusterRecord, LIST_PAGE_MAX};
use core_cluster::api::Member;
use core_flow::{decode_call, reference_query, Call, CallReply, CallResult, PlanContext, Planner, Step};
use core_placement::NodeRecord;
use std::collections::BTreeSet;

/// Elections tried before the mark is set, one for each rule and set of members; clusters beyond that are
/// found out by their leaders.
const CHECKS_MAX: usize = 256;
/// Obstacles told.
const OBSTACLES_MAX: usize = 10;

enum Stage {
    Node,
    /// The level 0 clusters that may have the node as a member.
    LevelZero,
    List,
    Check,
    Mark,
}

/// See the file's header.
pub struct DecommissionFlow {
    node: NodeId,
    /// Take it out, or back in.
    draining: bool,
    marked: bool,
    stage: Stage,
    level_zero: Vec<ClusterName>,
    replicas: u32,
    /// What the node itself last reported to hold, if it is up.
    held: u32,
    asked: BTreeSet<(String, Vec<NodeId>)>,
    checks: Vec<(ClusterName, Call)>,
    checking: Option<ClusterName>,
    obstacles: Vec<String>,
    at: Option<OrderedAt>,
}

impl DecommissionFlow {
    /// `draining`: out of service; else back in. `record`: what the node map has of it here.
    pub fn new(node: NodeId, draining: bool, record: Option<&NodeRecord>) -> DecommissionFlow {
        let held = record.filter(|record| record.up).map_or(0, |record| record.clusters);
        DecommissionFlow {
            node,
            draining,
            marked: false,
            stage: Stage::Node,
            level_zero: Vec::new(),
            replicas: 0,
            held,
            asked: BTreeSet::new(),
            checks: Vec::new(),
            checking: None,
            obstacles: Vec::new(),
            at: None,
        }
    }

    fn on_node(&mut self, result: CallResult) -> Step {
        match decode_call::<Reply>(result) {
            Ok((Reply::Node { record: Some(record) }, at)) => {
                (self.marked, self.at) = (record.draining, Some(at));
                if !self.draining {
                    return self.mark();
                }
                self.level_zero = about_node::level_zero(&record);
                self.next_level_zero()
            }
            Ok((Reply::Node { record: None }, _)) => about_node::refuse_unknown(self.node),
            Ok(_) => Step::Done(confused("decommission")),
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    fn next_level_zero(&mut self) -> Step {
        self.stage = Stage::LevelZero;
        about_node::describe_last(&self.level_zero).unwrap_or_else(|| self.list(None))
    }

    fn on_level_zero(&mut self, result: CallResult) -> Step {
        let name = self.level_zero.pop();
        match result {
            Ok(CallReply::Described(described)) => {
                let members: Vec<Member> = described.members.iter().map(|(member, _)| *member).collect();
                let rule = level_zero_rule(&described.name, &members);
                let nodes: Vec<NodeId> = members.iter().map(|member| member.node).collect();
                if nodes.contains(&self.node) {
                    self.replicas += 1;
                    // One more than it needs only goes.
                    if members.len() <= rule.size {
                        self.check(described.name.clone(), rule.to_string(), nodes);
                    }
                }
                self.next_level_zero()
            }
            // A region need not have a cluster.
            Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => self.next_level_zero(),
            Err(failure) => Step::Done(Err(failure)),
            Ok(_) => Step::Done(confused(name.as_ref().map_or("decommission", ClusterName::as_str))),
        }
    }

    fn list(&mut self, start_after: Option<String>) -> Step {
        self.stage = Stage::List;
        let query = reference::Query::List { prefix: String::new(), start_after, limit: LIST_PAGE_MAX };
        Step::Calls(vec![reference_query(&query)])
    }

    fn on_listed(&mut self, result: CallResult) -> Step {
        match decode_call::<reference::Reply>(result) {
            Ok((reference::Reply::Records { records, more }, _)) => {
                for record in &records {
                    self.take_record(record);
                }
                match records.last().filter(|_| more) {
                    Some(last) => self.list(Some(last.name.as_str().to_string())),
                    None => self.next_check(),
                }
            }
            Ok(_) => Step::Done(confused("decommission")),
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    fn take_record(&mut self, record: &ClusterRecord) {
        let members: Vec<NodeId> = record.members.iter().map(|member| member.node).collect();
        let gone = record.state == reference::ClusterState::Deleting;
        if gone || !members.contains(&self.node) {
            return;
        }
        self.replicas += 1;
        self.check(record.name.clone(), record.rule.clone(), members);
    }

    /// Is there a node for a cluster's replica?
    fn check(&mut self, name: ClusterName, rule: String, members: Vec<NodeId>) {
        if self.asked.len() >= CHECKS_MAX || !self.asked.insert((rule.clone(), members.clone())) {
            return;
        }
        let query = Query::ElectReplacement { rule, members, lost: self.node, spread: self.node.0 };
        let call = Call::Read {
            cluster: ClusterName::world(),
            backend: BackendKind::Allocator,
            query: query.to_bytes(),
            consistency: Some(ReadConsistency::Strong),
        };
        self.checks.push((name, call));
    }

    fn next_check(&mut self) -> Step {
        self.stage = Stage::Check;
        match self.checks.pop() {
            Some((name, call)) => {
                self.checking = Some(name);
                Step::Calls(vec![call])
            }
            None if self.obstacles.is_empty() || self.marked => self.mark(),
            None => self.refuse(),
        }
    }

    fn on_checked(&mut self, result: CallResult) -> Step {
        let name = self.checking.take();
        match decode_call::<Reply>(result) {
            Ok(_) => self.next_check(),
            Err(failure) if failure.refusal.code.is_placement() => {
                if name.as_ref().is_some_and(is_config_cluster) {
                    // It holds nothing that is not known elsewhere: it shrinks, its node makes it anew, or goes without. Until
                    // then it is left like any other.
                    return self.next_check();
                }
                if let (Some(name), true) = (name, self.obstacles.len() < OBSTACLES_MAX) {
                    self.obstacles.push(format!("cluster {name}: {}", failure.refusal.message));
                }
                self.next_check()
            }
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    fn refuse(&self) -> Step {
        let message = format!("node {} cannot be decommissioned: {}", self.node, self.obstacles.join("; "));
        Step::Done(Err(Refusal::new(ErrorCode::PlacementRefused, message).into()))
    }

    fn mark(&mut self) -> Step {
        if self.marked == self.draining {
            return self.done();
        }
        self.stage = Stage::Mark;
        Step::Calls(vec![Call::Write {
            cluster: ClusterName::world(),
            backend: BackendKind::Allocator,
            command: Command::Drain { node: self.node, draining: self.draining }.to_bytes(),
            consistency: None,
            request_id: None,
        }])
    }

    fn done(&mut self) -> Step {
        let info = DecommissionInfo {
            node: self.node,
            draining: self.draining,
            // A replica that is no member any more may not be removed yet; one that is, not be there yet.
            replicas: self.replicas.max(self.held),
            obstacles: core::mem::take(&mut self.obstacles),
        };
        Step::Done(Ok(Answer { result: ActionResult::Decommission(info), at: self.at, level: None, cluster: None }))
    }
}

impl Planner for DecommissionFlow {
    fn name(&self) -> &'static str {
        "decommission"
    }

    fn subject(&self) -> Option<String> {
        Some(format!("node {}: {}", self.node, if self.draining { "out" } else { "back in" }))
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        about_node::read_record(self.node)
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        match self.stage {
            Stage::Node => self.on_node(result),
            Stage::LevelZero => self.on_level_zero(result),
            Stage::List => self.on_listed(result),
            Stage::Check => self.on_checked(result),
            Stage::Mark => match decode_call::<Reply>(result) {
                Ok((_, at)) => {
                    self.at = Some(at);
                    self.done()
                }
                Err(failure) => Step::Done(Err(failure)),
            },
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(Vec::new())
    }
}

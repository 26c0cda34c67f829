//! Changes the members of a cluster at an operator's wish; of the world's or a region's under rules of their own.
//!
//!   Describe (leader) ─▶ may it be? ─▶ AddMember | RemoveMember | ReplaceMember ─▶ done
//!
//! Always: decided from what the leader says; retried after an end that is not known, it continues where the first attempt
//! stopped, or finds it done. A node that is neither a member nor known is a mistake, and said to be one. For the clusters of
//! level 0 it also refuses: a node that is down, leaving, of another region or in the chassis of a member; a second change while
//! a member is joining. Whether a majority stays up, and a last member, is the cluster's own check.
//! Held by: `wrong_changes_of_members_are_refused`, `a_second_change_waits_for_the_first`.
//! Not here: a member that is decommissioned (rebalance.rs), how others learn of a level 0 cluster's members (level_zero.rs).

use super::confused;
use base_types::action::{ActionResult, Answer};
use base_types::{ClusterName, DiskId, ErrorCode, NodeId, OrderedAt, Refusal};
use core::time::Duration;
use core_cluster::api::{AdminCommand, ClusterDescription, Member};
use core_flow::{failures, Call, CallReply, CallResult, PlanContext, Planner, Step};
use core_placement::{FailureDomain, Location, NodeRecord, Rule};
use std::sync::Arc;

/// The pause before it is decided anew where something passing was in the way.
const AGAIN: Duration = Duration::from_millis(500);

/// What an operator wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Add(NodeId),
    Remove(NodeId),
    Replace { from: NodeId, to: NodeId },
}

/// See the file's header.
pub struct MembersFlow {
    name: ClusterName,
    change: Change,
    /// The node map.
    nodes: Vec<NodeRecord>,
    describing: bool,
    at: Option<OrderedAt>,
}

impl MembersFlow {
    /// For one cluster and change.
    pub fn new(name: ClusterName, change: Change, nodes: Vec<NodeRecord>) -> MembersFlow {
        MembersFlow { name, change, nodes, describing: true, at: None }
    }

    fn describe(&mut self) -> Step {
        self.describing = true;
        Step::Calls(vec![Call::Admin { cluster: self.name.clone(), command: AdminCommand::Describe }])
    }

    fn decide(&mut self, described: &ClusterDescription) -> Step {
        let members: Vec<Member> = described.members.iter().map(|(member, _)| *member).collect();
        match self.command(&members) {
            Ok(Some(command)) => {
                self.describing = false;
                Step::Calls(vec![Call::Admin { cluster: self.name.clone(), command }])
            }
            Ok(None) => self.done(),
            Err(refusal) => Step::Done(Err(refusal.into())),
        }
    }

    /// What brings the change about; `None`: it is so already.
    fn command(&self, members: &[Member]) -> Result<Option<AdminCommand>, Refusal> {
        let is_member = |node: NodeId| members.iter().find(|member| member.node == node);
        let joining = members.iter().find(|member| member.learner && self.name.is_level_zero());
        if let Some(joining) = joining.filter(|joining| Some(joining.node) != self.joins()) {
            let message = format!("node {} is joining {}; wait until it is done, then retry", joining.node, self.name);
            return Err(Refusal::new(ErrorCode::MembershipChangePending, message));
        }
        match self.change {
            Change::Add(node) => match is_member(node) {
                Some(member) if !member.learner => Ok(None),
                Some(member) => Ok(Some(AdminCommand::AddMember { node, disk: member.disk })),
                None => Ok(Some(AdminCommand::AddMember { node, disk: self.eligible(node, None, members)? })),
            },
            Change::Remove(node) => match is_member(node) {
                Some(_) => Ok(Some(AdminCommand::RemoveMember { node })),
                // It may have been removed by an attempt whose end was not seen.
                None if self.nodes.iter().any(|record| record.node == node) => Ok(None),
                None => Err(self.no_member(node)),
            },
            Change::Replace { from, to } => match (is_member(from), is_member(to)) {
                (None, Some(_)) => Ok(None),
                (None, None) => Err(self.no_member(from)),
                // It is beside the other from an attempt before that was cut short; else the cluster would shrink.
                (Some(_), Some(member)) if member.learner || members.len().is_multiple_of(2) => {
                    Ok(Some(AdminCommand::ReplaceMember { from, node: to, disk: member.disk }))
                }
                (Some(_), Some(_)) => {
                    let message = format!(
                        "node {to} is a member of {} already; name another node, or remove node {from}",
                        self.name
                    );
                    Err(Refusal::new(ErrorCode::AlreadyAMember, message))
                }
                (Some(_), None) => {
                    let disk = self.eligible(to, Some(from), members)?;
                    Ok(Some(AdminCommand::ReplaceMember { from, node: to, disk }))
                }
            },
        }
    }

    fn joins(&self) -> Option<NodeId> {
        match self.change {
            Change::Add(node) | Change::Replace { to: node, .. } => Some(node),
            Change::Remove(_) => None,
        }
    }

    fn no_member(&self, node: NodeId) -> Refusal {
        let message =
            format!("node {node} is no member of {}; `hive ctl cluster show {}` lists them", self.name, self.name);
        Refusal::new(ErrorCode::NoSuchMember, message)
    }

    /// The disk of a node that may become a member (in the place of `from`).
    fn eligible(&self, node: NodeId, from: Option<NodeId>, members: &[Member]) -> Result<DiskId, Refusal> {
        let Some(record) = self.nodes.iter().find(|record| record.node == node) else {
            return Err(failures::unknown_node(node).refusal);
        };
        let refuse = |why: String| {
            let message = format!("node {node} cannot become a member of {}: {why}", self.name);
            Err(Refusal::new(ErrorCode::PlacementRefused, message))
        };
        if !record.up {
            return refuse("it is down; start it first".into());
        }
        if record.draining {
            return refuse(format!("it is being decommissioned; `hive ctl node recommission {node}` takes it back"));
        }
        let region = &record.labels.region;
        if self.name.tail().strip_prefix("region-").is_some_and(|wanted| wanted != region) {
            return refuse(format!("it is in region {region}"));
        }
        let chassis = record.labels.domain(FailureDomain::Chassis);
        let beside = |record: &&NodeRecord| {
            Some(record.node) != from
                && members.iter().any(|member| member.node == record.node)
                && record.labels.domain(FailureDomain::Chassis) == chassis
        };
        match self.nodes.iter().find(beside) {
            Some(other) => refuse(format!("member {} is in the same chassis {chassis}", other.node)),
            None => Ok(record.disk),
        }
    }

    fn done(&self) -> Step {
        let cluster = Some(Arc::new(self.name.clone()));
        Step::Done(Ok(Answer { result: ActionResult::Done, at: self.at, level: None, cluster }))
    }
}

impl Planner for MembersFlow {
    fn name(&self) -> &'static str {
        "members"
    }

    fn subject(&self) -> Option<String> {
        Some(match self.change {
            Change::Add(node) => format!("cluster {}: node {node} joins", self.name),
            Change::Remove(node) => format!("cluster {}: node {node} leaves", self.name),
            Change::Replace { from, to } => format!("cluster {}: node {to} takes the place of node {from}", self.name),
        })
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        self.describe()
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        match result {
            Ok(CallReply::Described(described)) if self.describing => self.decide(&described),
            Ok(CallReply::Done { at }) if !self.describing => {
                self.at = at;
                self.done()
            }
            Ok(_) => Step::Done(confused("members")),
            // A leader that hands over, a change that settles, one call's time: the plan's deadline ends that.
            Err(failure) if failure.refusal.code == ErrorCode::QuorumAtRisk => Step::Done(Err(failure)),
            Err(failure) if failure.refusal.kind().retryable() => Step::Wait(AGAIN),
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        self.describe()
    }
}

/// The rule that a level 0 cluster's members are replaced by: its own says how it was formed, and its size is the operator's choice.
pub fn level_zero_rule(name: &ClusterName, members: &[Member]) -> Rule {
    let voters = members.iter().filter(|member| !member.learner).count();
    let location = match name.tail().strip_prefix("region-") {
        Some(region) => Location::Region(region.into()),
        None => Location::World,
    };
    Rule { size: size_to_keep(voters), location, failure_domain: FailureDomain::Chassis, ..Rule::default() }
}

/// How many members a level 0 cluster is to keep, of so many voters: one that was replaced only half leaves an even number, and
/// that tolerates no more losses than the odd one below it. Of two, both stay.
fn size_to_keep(voters: usize) -> usize {
    match voters {
        0..=2 => voters,
        even if even.is_multiple_of(2) => even - 1,
        odd => odd,
    }
}

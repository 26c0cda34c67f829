//! One member's place in a cluster goes to another node: its node is gone for good, is being
//! decommissioned, or an operator wants it elsewhere. Or its replica is of an earlier engine than its cluster's rule:
//! then the place may stay on its node, if there is no other.
//!
//!   Describe (leader) ─▶ what is missing?
//!      a learner is there already ─▶ it takes the place        (an earlier attempt got that far)
//!      more members than the rule wants ─▶ the member goes
//!      else ─▶ ElectReplacement (allocator) ─▶ ReplaceMember ─▶ done
//!                 └─ nobody, and the engine is an earlier one ─▶ RenewMember ─▶ done
//!
//! Always: decided anew from what the leader says, so that a flow that was cut short is taken up by the
//! next one; the rule is met or the flow refuses. Held by: `a_move_outlives_the_death_of_whoever_works_at_it`, `a_move_that_breaks_the_rule_is_refused`. Not here: which members (rebalance.rs), the change of
//! members itself (core-cluster).

use super::members::level_zero_rule;
use super::{confused, recover};
use crate::flows::config::is_config_cluster;
use base_types::action::{ActionResult, Answer, Failure};
use base_types::codec::Encode;
use base_types::mutant::{planted, Mutant};
use base_types::{
    BackendKind, ClusterName, DiskId, ErrorCode, ErrorKind, Generation, NodeId, OrderedAt, ReadConsistency, Refusal,
    ReplicaId,
};
use core::time::Duration;
use core_backends::allocator::{Query, Reply};
use core_backends::reference;
use core_cluster::api::{AdminCommand, ClusterDescription, Member};
use core_flow::{decode_call, failures, Call, CallReply, CallResult, PlanContext, Planner, Step};
use core_placement::{elect_replacement, NodeRecord, Rule};
use std::sync::Arc;

/// The pause before it is decided anew.
const AGAIN: Duration = Duration::from_millis(500);

enum Stage {
    Describe,
    /// Of a cluster that was recovered: which nodes keep data of an ended life.
    Held,
    Elect,
    Change,
}

/// A replica of an earlier engine.
struct Renewal {
    /// What the map knows of its node.
    node: Option<NodeRecord>,
    /// The replica, and the engine it is to be in, once the cluster was asked.
    wanted: Option<(ReplicaId, String)>,
}

/// See the file's header.
pub struct MoveFlow {
    name: ClusterName,
    from: NodeId,
    to: Option<NodeId>,
    renewal: Option<Renewal>,
    /// For a given `to`: the node map, since the rule is checked here and not by the allocator.
    nodes: Vec<NodeRecord>,
    spread: u64,
    /// Nodes that keep data of an ended life of the cluster, and so are no place for a new replica. `None`: not asked yet.
    held: Option<Vec<NodeId>>,
    /// Where no other node can take the place, the cluster may continue without it.
    shrinks: bool,
    /// It has other voters, and may shrink.
    spare: bool,
    stage: Stage,
    at: Option<OrderedAt>,
}

impl MoveFlow {
    /// To whom the rule and the scores say. `spread` breaks ties (`core_placement::elect_spread`).
    pub fn elected(name: ClusterName, from: NodeId, spread: u64) -> MoveFlow {
        MoveFlow {
            name,
            from,
            to: None,
            renewal: None,
            nodes: Vec::new(),
            spread,
            held: None,
            shrinks: false,
            spare: false,
            stage: Stage::Describe,
            at: None,
        }
    }

    /// A replica of an earlier engine: to whom the rule and the scores say, else anew where it is. `node`: what the map
    /// knows of that.
    pub fn renewed(name: ClusterName, from: NodeId, spread: u64, node: Option<NodeRecord>) -> MoveFlow {
        let renewal = Some(Renewal { node, wanted: None });
        MoveFlow { renewal, ..MoveFlow::elected(name, from, spread) }
    }

    /// The member's node is leaving. A configuration cluster then continues with fewer members where no other node can take the
    /// place: a copy on a node that is stopped soon is worth nothing, and its owner makes it anew in the right size.
    pub fn leaving(self) -> MoveFlow {
        let shrinks = is_config_cluster(&self.name);
        MoveFlow { shrinks, ..self }
    }

    /// To this node, if the rule allows it.
    pub fn given(name: ClusterName, from: NodeId, to: NodeId, nodes: Vec<NodeRecord>) -> MoveFlow {
        MoveFlow { to: Some(to), nodes, ..MoveFlow::elected(name, from, 0) }
    }

    fn describe(&mut self) -> Step {
        self.stage = Stage::Describe;
        Step::Calls(vec![Call::Admin { cluster: self.name.clone(), command: AdminCommand::Describe }])
    }

    fn change(&mut self, command: AdminCommand) -> Step {
        self.stage = Stage::Change;
        Step::Calls(vec![Call::Admin { cluster: self.name.clone(), command }])
    }

    fn replace(&mut self, (node, disk): (NodeId, DiskId)) -> Step {
        self.change(AdminCommand::ReplaceMember { from: self.from, node, disk })
    }

    fn decide(&mut self, described: &ClusterDescription) -> Step {
        let members: Vec<Member> = described.members.iter().map(|(member, _)| *member).collect();
        let Some(leaving) = members.iter().find(|member| member.node == self.from) else { return self.done() };
        let rule = match rule_of(described, &members) {
            Ok(rule) => rule,
            Err(refusal) => return Step::Done(Err(refusal.into())),
        };
        if let Some(renewal) = &mut self.renewal {
            if leaving.replica >= described.engine_since {
                return self.done();
            }
            renewal.wanted = rule.engine.clone().map(|engine| (leaving.replica, engine));
        }
        let staying = members.len() - 1;
        let voter = |member: &&Member| !member.learner && member.node != self.from;
        self.spare = self.shrinks && members.iter().any(|member| voter(&member));
        let renews = self.renewal.is_some();
        let joining = members.iter().find(|member| member.learner && member.node != self.from);
        if leaving.learner && renews {
            return Step::Wait(AGAIN);
        }
        if leaving.learner || staying >= rule.size && joining.is_none() && self.to.is_none() && !renews {
            return self.change(AdminCommand::RemoveMember { node: self.from });
        }
        match joining {
            // A newcomer of an earlier engine would only have to be moved again.
            Some(joining) if renews && joining.replica < described.engine_since => Step::Wait(AGAIN),
            Some(joining) if self.to.is_none_or(|to| to == joining.node) && staying >= rule.size => {
                self.replace((joining.node, joining.disk))
            }
            // Somebody else is changing the members; what is then missing is seen anew.
            Some(_) => Step::Wait(AGAIN),
            // A name's later lives may have begun by recoveries.
            None if self.held.is_none() && described.generation > Generation(1) => {
                self.stage = Stage::Held;
                Step::Calls(vec![recover::lists(Some(self.name.clone()))])
            }
            None => self.elect(&rule, &members),
        }
    }

    fn on_held(&mut self, result: CallResult) -> Step {
        match decode_call::<reference::Reply>(result) {
            Ok((reference::Reply::Recoveries { recoveries, .. }, _)) => {
                let held = recoveries.iter().flat_map(|recovery| &recovery.held).map(|member| member.node);
                self.held = Some(held.collect());
                self.describe()
            }
            Ok(_) => Step::Done(confused("move member")),
            Err(failure) => self.again_or(failure),
        }
    }

    fn elect(&mut self, rule: &Rule, members: &[Member]) -> Step {
        let nodes: Vec<NodeId> = members.iter().map(|member| member.node).collect();
        let held = self.held.clone().unwrap_or_default();
        if let Some(to) = self.to.filter(|to| held.contains(to)) {
            let message = format!(
                "node {to} keeps data of an ended life of cluster {0}; run `hive ctl recover {0} --discard {to}` when nobody needs it",
                self.name
            );
            return Step::Done(Err(Refusal::new(ErrorCode::EndedLifeKept, message).into()));
        }
        let Some(to) = self.to else {
            self.stage = Stage::Elect;
            let rule = rule.to_string();
            // Passed over as members are.
            let members = nodes.into_iter().chain(held).collect();
            let query = Query::ElectReplacement { rule, members, lost: self.from, spread: self.spread };
            return Step::Calls(vec![Call::Read {
                cluster: ClusterName::world(),
                backend: BackendKind::Allocator,
                query: query.to_bytes(),
                consistency: Some(ReadConsistency::Strong),
            }]);
        };
        if let Some(member) = members.iter().find(|member| member.node == to) {
            if members.len() > rule.size {
                return self.replace((to, member.disk));
            }
            let message = format!("node {to} is a member of cluster {} already; name another node", self.name);
            return Step::Done(Err(Refusal::new(ErrorCode::AlreadyAMember, message).into()));
        }
        let concerned = self.nodes.iter().filter(|record| record.node == to || nodes.contains(&record.node));
        match elect_replacement(rule, &nodes, self.from, concerned, 0) {
            Ok(_) => match self.nodes.iter().find(|record| record.node == to).map(|record| record.disk) {
                Some(disk) => self.replace((to, disk)),
                None => Step::Done(Err(failures::unknown_node(to))),
            },
            Err(refusal) => {
                let message = format!("node {to} cannot take the place of node {}: {refusal}", self.from);
                Step::Done(Err(Refusal::new(ErrorCode::PlacementRefused, message).into()))
            }
        }
    }

    /// There is no other node for it: it is recreated where it is, if its node is there and offers the engine.
    fn renew(&mut self, refused: Failure) -> Step {
        if self.spare && !planted(Mutant::ShrunkTooLate) {
            return self.change(AdminCommand::RemoveMember { node: self.from });
        }
        let Some(Renewal { node, wanted: Some((replica, engine)) }) = &self.renewal else {
            return Step::Done(Err(refused));
        };
        if node.as_ref().is_some_and(|record| record.up && record.offers(Some(engine))) {
            let command = AdminCommand::RenewMember { node: self.from, replica: *replica };
            return self.change(command);
        }
        let message = format!(
            "node {} is down or does not offer engine {engine}, and no other can take its place ({}); start it with a build that has the engine, or add a node",
            self.from, refused.refusal.message
        );
        Step::Done(Err(Refusal::new(ErrorCode::PlacementRefused, message).into()))
    }

    fn done(&self) -> Step {
        Step::Done(Ok(Answer {
            result: ActionResult::Done,
            at: self.at,
            level: None,
            cluster: Some(Arc::new(self.name.clone())),
        }))
    }

    /// What may be otherwise a moment later is decided anew; the plan's deadline ends that.
    fn again_or(&self, failure: Failure) -> Step {
        let passing = failure.refusal.kind().retryable()
            || failure.refusal.kind() == ErrorKind::Unknown
            || failure.refusal.code == ErrorCode::MembershipChangePending;
        let refused = failure.refusal.code.is_placement() || failure.refusal.code == ErrorCode::QuorumAtRisk;
        if passing && !refused {
            Step::Wait(AGAIN)
        } else {
            Step::Done(Err(failure))
        }
    }
}

fn rule_of(described: &ClusterDescription, members: &[Member]) -> Result<Rule, Refusal> {
    if described.name.is_level_zero() {
        return Ok(level_zero_rule(&described.name, members));
    }
    described.rule.parse().map_err(|error: core_placement::RuleError| {
        Refusal::new(ErrorCode::InvalidRule, format!("the rule of cluster {} cannot be read: {error}", described.name))
    })
}

impl Planner for MoveFlow {
    fn name(&self) -> &'static str {
        "move-member"
    }

    fn subject(&self) -> Option<String> {
        let to = self.to.map_or("another node".into(), |to| format!("node {to}"));
        Some(format!("cluster {}: {to} takes the place of node {}", self.name, self.from))
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        self.describe()
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        match (&self.stage, result) {
            (_, Err(failure)) => self.again_or(failure),
            (Stage::Describe, Ok(CallReply::Described(described))) => self.decide(&described),
            (Stage::Held, result) => self.on_held(result),
            (Stage::Elect, result) => match decode_call::<Reply>(result) {
                Ok((Reply::Elected { nodes }, _)) => match nodes.first() {
                    Some(record) => self.replace((record.node, record.disk)),
                    None => Step::Done(confused("move member")),
                },
                Ok(_) => Step::Done(confused("move member")),
                Err(failure) if failure.refusal.code.is_placement() => self.renew(failure),
                Err(failure) => self.again_or(failure),
            },
            (Stage::Change, Ok(CallReply::Done { at })) => {
                self.at = at;
                self.done()
            }
            _ => Step::Done(confused("move member")),
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        self.describe()
    }
}

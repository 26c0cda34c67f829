//! Strikes a node that is gone for good from the world's list of nodes.
//!
//!   Node known, and down? ─▶ member of no level 0 cluster ─▶ of no other cluster ─▶ Forget ─▶ its configuration cluster goes
//!
//! Always: refused while the node is up, or while any cluster lists it as a member: who is struck off is missed by
//! nobody. A node that comes back all the same is a new one. Held by: `a_node_is_forgotten_once_it_is_down_and_nobodys_member`, `a_member_that_is_down_is_not_forgotten`. Not here: how the node map learns of it (registry.rs),
//! emptying a node (decommission.rs, rebalance.rs).

use super::{about_node, confused};
use base_types::action::{ActionResult, Answer};
use base_types::codec::Encode;
use base_types::{BackendKind, ClusterName, ErrorCode, NodeId, OrderedAt, Refusal};
use core_backends::allocator::{Command, Reply};
use core_backends::reference::{self, ClusterState, LIST_PAGE_MAX};
use core_flow::{decode_call, reference_query, Call, CallReply, CallResult, PlanContext, Planner, Step};

enum Stage {
    Node,
    /// The level 0 clusters that may have the node as a member.
    LevelZero,
    List,
    Forget,
    /// Its configuration cluster.
    Drop,
}

/// See the file's header.
pub struct ForgetFlow {
    node: NodeId,
    level_zero: Vec<ClusterName>,
    stage: Stage,
    at: Option<OrderedAt>,
}

impl ForgetFlow {
    /// For one node.
    pub fn new(node: NodeId) -> ForgetFlow {
        ForgetFlow { node, level_zero: Vec::new(), stage: Stage::Node, at: None }
    }

    fn refuse(&self, why: String) -> Step {
        let message = format!("node {} cannot be forgotten: {why}", self.node);
        Step::Done(Err(Refusal::new(ErrorCode::Conflict, message).into()))
    }

    fn on_node(&mut self, result: CallResult) -> Step {
        match decode_call::<Reply>(result) {
            Ok((Reply::Node { record: Some(record) }, _)) if record.up => {
                let id = self.node;
                self.refuse(format!("it is up; empty it with `hive ctl node decommission {id}`, then stop it"))
            }
            Ok((Reply::Node { record: Some(record) }, _)) => {
                self.level_zero = about_node::level_zero(&record);
                self.next_level_zero()
            }
            Ok((Reply::Node { record: None }, _)) => about_node::refuse_unknown(self.node),
            Ok(_) => Step::Done(confused("forget")),
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    fn next_level_zero(&mut self) -> Step {
        self.stage = Stage::LevelZero;
        about_node::describe_last(&self.level_zero).unwrap_or_else(|| self.list(None))
    }

    fn on_level_zero(&mut self, result: CallResult) -> Step {
        self.level_zero.pop();
        match result {
            Ok(CallReply::Described(described)) => {
                match described.members.iter().any(|(member, _)| member.node == self.node) {
                    true => self.refuse(still_held(&described.name, self.node)),
                    false => self.next_level_zero(),
                }
            }
            // A region need not have a cluster.
            Err(failure) if failure.refusal.code == ErrorCode::UnknownCluster => self.next_level_zero(),
            Err(failure) => Step::Done(Err(failure)),
            Ok(_) => Step::Done(confused("forget")),
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
                let held = records.iter().find(|record| {
                    record.state != ClusterState::Deleting
                        && record.members.iter().any(|member| member.node == self.node)
                });
                if let Some(record) = held {
                    return self.refuse(still_held(&record.name, self.node));
                }
                match records.last().filter(|_| more) {
                    Some(last) => self.list(Some(last.name.as_str().to_string())),
                    None => self.forget(),
                }
            }
            Ok(_) => Step::Done(confused("forget")),
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    fn forget(&mut self) -> Step {
        self.stage = Stage::Forget;
        Step::Calls(vec![Call::Write {
            cluster: ClusterName::world(),
            backend: BackendKind::Allocator,
            command: Command::Forget { node: self.node }.to_bytes(),
            consistency: None,
            request_id: None,
        }])
    }

    fn on_forgotten(&mut self, result: CallResult) -> Step {
        match decode_call::<Reply>(result) {
            Ok((_, at)) => {
                self.at = Some(at);
                let Ok(cluster) = format!("metadata@config-{}", self.node).parse() else { return self.done() };
                self.stage = Stage::Drop;
                Step::Calls(vec![Call::DeleteCluster { cluster, life: None }])
            }
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    fn done(&self) -> Step {
        Step::Done(Ok(Answer { result: ActionResult::Done, at: self.at, level: None, cluster: None }))
    }
}

fn still_held(name: &ClusterName, node: NodeId) -> String {
    format!(
        "it is a member of {name}; `hive ctl node decommission {node}` moves its replicas away, and reports what stands in the way"
    )
}

impl Planner for ForgetFlow {
    fn name(&self) -> &'static str {
        "forget"
    }

    fn subject(&self) -> Option<String> {
        Some(format!("node {}", self.node))
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        about_node::read_record(self.node)
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        match self.stage {
            Stage::Node => self.on_node(result),
            Stage::LevelZero => self.on_level_zero(result),
            Stage::List => self.on_listed(result),
            Stage::Forget => self.on_forgotten(result),
            // It need not have had one; and what is left of it, if it cannot be reached now, harms nobody.
            Stage::Drop => self.done(),
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(Vec::new())
    }
}

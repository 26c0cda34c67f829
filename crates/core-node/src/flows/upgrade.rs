//! What an upgrade of the world's formats waits for, and the one command that raises them (decision 0070).
//!
//!   status:    NodesSince, page by page ─▶ levels, and who blocks
//!   finalize:  NodesSince ─▶ RaiseLevel, refused with the nodes that block
//!
//! By design: the allocator decides; what this flow has read is for the operator's eyes. The level is the greatest that the asked node
//! serves. Not here: how nodes hear of it (membership/format_level.rs).

use super::confused;
use base_types::action::{ActionResult, Answer, UpgradeInfo, UpgradeNode};
use base_types::codec::Encode;
use base_types::{BackendKind, ClusterName, FormatLevel, OrderedAt, ReadConsistency};
use core_backends::allocator::{blocks, Command, Query, Reply, NODES_PAGE_MAX};
use core_flow::{decode_call, Call, CallResult, PlanContext, Planner, Step};
use core_placement::NodeRecord;

/// See the file's header.
pub struct UpgradeFlow {
    /// The greatest level that this node serves.
    to: FormatLevel,
    finalize: bool,
    raising: bool,
    nodes: Vec<NodeRecord>,
    level: FormatLevel,
}

impl UpgradeFlow {
    /// Shows how far the world is from this level; with `finalize` raises it.
    pub fn new(to: FormatLevel, finalize: bool) -> UpgradeFlow {
        UpgradeFlow { to, finalize, raising: false, nodes: Vec::new(), level: FormatLevel::FIRST }
    }

    fn read(&self, version: u64) -> Step {
        Step::Calls(vec![Call::Read {
            cluster: ClusterName::world(),
            backend: BackendKind::Allocator,
            query: Query::NodesSince { version, limit: NODES_PAGE_MAX }.to_bytes(),
            consistency: Some(ReadConsistency::Strong),
        }])
    }

    fn blockers(&self) -> Vec<String> {
        if self.to <= self.level {
            return Vec::new();
        }
        self.nodes.iter().filter_map(|record| blocks(record, self.to)).collect()
    }

    fn on_all(&mut self, at: OrderedAt) -> Step {
        self.nodes.sort_by_key(|record| record.node);
        if !self.finalize || self.to <= self.level {
            return self.done(at, self.blockers());
        }
        self.raising = true;
        Step::Calls(vec![Call::Write {
            cluster: ClusterName::world(),
            backend: BackendKind::Allocator,
            command: Command::RaiseLevel { level: self.to }.to_bytes(),
            consistency: None,
            request_id: None,
        }])
    }

    fn done(&self, at: OrderedAt, blockers: Vec<String>) -> Step {
        let node = |record: &NodeRecord| UpgradeNode {
            node: record.node,
            up: record.up,
            version: record.version.clone(),
            level_max: record.level_max,
        };
        let nodes = self.nodes.iter().map(node).collect();
        let info = UpgradeInfo { level: self.level, target: self.to, nodes, blockers };
        Step::Done(Ok(Answer { result: ActionResult::Upgrade(info), at: Some(at), level: None, cluster: None }))
    }
}

impl Planner for UpgradeFlow {
    fn name(&self) -> &'static str {
        "upgrade"
    }

    fn subject(&self) -> Option<String> {
        self.finalize.then(|| format!("world: format level {}", self.to))
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        self.read(0)
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        match decode_call::<Reply>(result) {
            Ok((Reply::Done { .. }, at)) if self.raising => {
                self.level = self.to;
                self.done(at, Vec::new())
            }
            Ok((Reply::Nodes { records, version, more, level, .. }, at)) if !self.raising => {
                self.nodes.extend(records);
                self.level = level;
                match more {
                    true => self.read(version),
                    false => self.on_all(at),
                }
            }
            Ok(_) => Step::Done(confused("upgrade")),
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(Vec::new())
    }
}

//! Planners of keyspaces as a family: what a core gives them to note documents in.
//!
//! Not here: the cache that takes the documents (core-node, keyspaces.rs).

use bytes::Bytes;
use core_flow::Planner;

/// A keyspace document as last seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentNews {
    pub keyspace: String,
    pub version: u64,
    /// `None`: it is gone.
    pub body: Option<Bytes>,
}

/// Keyspace documents that a planner has just read or written. The core puts them into the keyspace cache after the
/// step (the newest version wins).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyspaceNews {
    pub documents: Vec<DocumentNews>,
}

/// What a planner of keyspaces may know and use in a step.
pub type PlanContext<'a> = core_flow::PlanContext<'a, KeyspaceNews>;

/// A planner of keyspaces.
pub type KeyspacePlanner = dyn Planner<KeyspaceNews>;

/// Makes a public type of work in rounds a planner.
macro_rules! planner_in_rounds {
    ($outer:ident, $inner:ty) => {
        impl core_flow::Planner<KeyspaceNews> for $outer {
            fn name(&self) -> &'static str {
                core_flow::Planner::name(&self.0)
            }
            fn subject(&self) -> Option<String> {
                core_flow::Planner::subject(&self.0)
            }
            fn start(&mut self, context: &mut PlanContext<'_>) -> core_flow::Step {
                core_flow::Planner::start(&mut self.0, context)
            }
            fn on_result(
                &mut self,
                context: &mut PlanContext<'_>,
                index: usize,
                result: core_flow::CallResult,
            ) -> core_flow::Step {
                core_flow::Planner::on_result(&mut self.0, context, index, result)
            }
            fn on_wake(&mut self, context: &mut PlanContext<'_>) -> core_flow::Step {
                core_flow::Planner::on_wake(&mut self.0, context)
            }
            fn check_invariants(&self) -> Result<(), base_types::invariant::Broken> {
                core_flow::Planner::check_invariants(&self.0)
            }
        }
    };
}
pub(crate) use planner_in_rounds;

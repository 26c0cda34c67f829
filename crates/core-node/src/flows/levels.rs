//! Changes a cluster's default levels: in the cluster (which decides) and in `reference` (which answers).
//!
//! Always: the cluster first; a crash in between leaves `reference` telling the old levels, which only
//! routers' guesses are made from. Not here: what a level means (core-cluster).

use base_types::action::{ActionResult, Answer, Response};
use base_types::{ClusterName, OrderedAt, ReadConsistency, WriteConsistency};
use core_backends::reference::{Command, Query, Reply};
use core_cluster::api::AdminCommand;
use core_flow::{
    decode_call, reference_query, reference_write, Call, CallReply, CallResult, PlanContext, Planner, Step,
};
use std::sync::Arc;

/// See the file's header.
pub struct LevelsFlow {
    name: ClusterName,
    consistency: Option<WriteConsistency>,
    read_consistency: Option<ReadConsistency>,
    at: Option<OrderedAt>,
}

impl LevelsFlow {
    /// `None` leaves a level as it is.
    pub fn new(
        name: ClusterName,
        consistency: Option<WriteConsistency>,
        read_consistency: Option<ReadConsistency>,
    ) -> LevelsFlow {
        LevelsFlow { name, consistency, read_consistency, at: None }
    }

    fn done(&self) -> Response {
        Ok(Answer { result: ActionResult::Done, at: self.at, level: None, cluster: Some(Arc::new(self.name.clone())) })
    }
}

impl Planner for LevelsFlow {
    fn name(&self) -> &'static str {
        "set-default-consistency"
    }

    fn subject(&self) -> Option<String> {
        Some("world".into())
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        let command = AdminCommand::SetDefaultConsistency {
            consistency: self.consistency,
            read_consistency: self.read_consistency,
        };
        Step::Calls(vec![Call::Admin { cluster: self.name.clone(), command }])
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, index: usize, result: CallResult) -> Step {
        match (index, result) {
            (0, Err(failure)) => Step::Done(Err(failure)),
            (0, Ok(reply)) => {
                if let CallReply::Done { at } = reply {
                    self.at = at;
                }
                Step::Calls(vec![reference_query(&Query::Resolve { name: self.name.clone() })])
            }
            (1, result) => match decode_call::<Reply>(result) {
                Ok((Reply::Resolved { record: Some(record), .. }, _)) => {
                    Step::Calls(vec![reference_write(&Command::SetLevels {
                        name: record.name,
                        generation: record.generation,
                        consistency: self.consistency,
                        read_consistency: self.read_consistency,
                    })])
                }
                // A level 0 cluster has no record.
                _ => Step::Done(self.done()),
            },
            _ => Step::Done(self.done()),
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(Vec::new())
    }
}

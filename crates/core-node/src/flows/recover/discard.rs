//! What an ended life of a cluster left on a node is removed, by an operator's word.
//!
//! ```text
//!   record ─▶ Describe: the new life serves ─▶ (level 0: Survey, what is there?) ─▶ Destroy (node) ─▶ settled
//! ```
//!
//! By design: refused while the new life does not serve: what is kept may be all there is. Not here: what a recovery clears
//! by itself (recover.rs).

use super::*;
use base_types::ErrorCode;

enum Discard {
    List,
    /// Does the new life serve? Until it does, what is kept may be all there is. The record may be missing of a level 0
    /// cluster: its flow died before that was written.
    Describe(Option<Recovery>),
    /// What is there? A level 0 cluster may have had lives that no record is of.
    Look(ClusterId, Generation, Option<Recovery>),
    Destroy(Option<Recovery>),
    Settle,
}

/// Removes what an ended life left on a node.
pub struct DiscardFlow {
    name: ClusterName,
    node: NodeId,
    /// It is in the node map, and up.
    up: Option<bool>,
    stage: Discard,
}

impl DiscardFlow {
    /// `record`: what the node map has of the node.
    pub fn new(name: ClusterName, node: NodeId, record: Option<&NodeRecord>) -> DiscardFlow {
        DiscardFlow { name, node, up: record.map(|record| record.up), stage: Discard::List }
    }

    fn on_list(&mut self, recoveries: Vec<Recovery>) -> Step {
        let kept = |recovery: &Recovery| recovery.held.iter().any(|member| member.node == self.node);
        let recovery = recoveries.into_iter().find(kept);
        if recovery.is_none() && !self.name.is_level_zero() {
            return self.nothing();
        }
        self.stage = Discard::Describe(recovery);
        Step::Calls(vec![Call::Admin { cluster: self.name.clone(), command: AdminCommand::Describe }])
    }

    fn nothing(&self) -> Step {
        let message = format!(
            "node {} keeps nothing of an ended life of cluster {}; `hive ctl recover` lists what is kept",
            self.node, self.name
        );
        Step::Done(Err(Refusal::new(ErrorCode::NothingKept, message).into()))
    }

    fn on_described(&mut self, recovery: Option<Recovery>, result: CallResult) -> Step {
        let begun = recovery.as_ref().map_or(Generation(0), Recovery::begun);
        let described = match result {
            Ok(CallReply::Described(described)) if described.generation >= begun => described,
            result => {
                let why = result.err().map_or("it has no leader yet".to_string(), |failure| failure.refusal.message);
                return self.too_soon(&why);
            }
        };
        match (self.up, recovery) {
            (Some(true), recovery) if self.name.is_level_zero() => {
                self.stage = Discard::Look(described.cluster, described.generation, recovery);
                let order = ReplicaOrder::Survey { cluster: described.cluster };
                Step::Calls(vec![Call::Replica { node: self.node, order }])
            }
            (Some(true), Some(recovery)) => {
                let order = destroys(recovery.cluster, recovery.ended, self.node, ReplicaId(0));
                self.stage = Discard::Destroy(Some(recovery));
                Step::Calls(vec![order])
            }
            // It was removed from the world: whatever it held never comes back as a member.
            (None, recovery) => self.settle(recovery),
            (Some(false), Some(_)) => {
                let message = format!(
                    "node {0} is down and may come back with what it keeps: start it, or remove it for good with `hive ctl node remove {0}`",
                    self.node
                );
                Step::Done(Err(Refusal::new(ErrorCode::NodeDown, message).into()))
            }
            (Some(_), None) => self.nothing(),
        }
    }

    fn too_soon(&self, why: &str) -> Step {
        let message = format!(
            "the new life of cluster {} does not serve, so what node {} keeps may be all there is: {why}; retry when `hive ctl cluster show {}` shows a leader",
            self.name, self.node, self.name
        );
        Step::Done(Err(Refusal::new(ErrorCode::NewLifeSilent, message).into()))
    }

    /// What is there has ended, and the life that serves is a later one.
    fn on_look(&mut self, at: (ClusterId, Generation), recovery: Option<Recovery>, result: CallResult) -> Step {
        let (cluster, serves) = at;
        match result {
            Ok(CallReply::Surveyed(Some(one))) if one.state == SurvivorState::Ended && one.generation < serves => {
                self.stage = Discard::Destroy(recovery);
                Step::Calls(vec![destroys(cluster, one.generation, self.node, one.replica)])
            }
            Ok(_) => self.settle(recovery),
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    fn settle(&mut self, recovery: Option<Recovery>) -> Step {
        let Some(recovery) = recovery else { return self.nothing() };
        self.stage = Discard::Settle;
        Step::Calls(vec![settles(&recovery, Some(self.node), false)])
    }
}

impl Planner for DiscardFlow {
    fn name(&self) -> &'static str {
        "discard"
    }

    fn subject(&self) -> Option<String> {
        Some(format!("cluster {} on node {}", self.name, self.node))
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(vec![lists(Some(self.name.clone()))])
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        match core::mem::replace(&mut self.stage, Discard::List) {
            Discard::Describe(recovery) => self.on_described(recovery, result),
            Discard::Look(cluster, serves, recovery) => self.on_look((cluster, serves), recovery, result),
            Discard::Destroy(recovery) => match (result, recovery) {
                (Err(failure), _) => Step::Done(Err(failure)),
                (Ok(_), None) => Step::Done(answer(ActionResult::Recoveries { recoveries: Vec::new() }, None)),
                (Ok(_), recovery) => self.settle(recovery),
            },
            stage => match decode_call::<Reply>(result) {
                Ok((Reply::Recoveries { recoveries, .. }, at)) => match stage {
                    Discard::List => self.on_list(recoveries),
                    _ => {
                        let recoveries = recoveries.iter().map(|recovery| info_of(recovery, Vec::new())).collect();
                        Step::Done(answer(ActionResult::Recoveries { recoveries }, Some(at)))
                    }
                },
                Ok(_) => Step::Done(confused("discard")),
                Err(failure) => Step::Done(Err(failure)),
            },
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(Vec::new())
    }
}

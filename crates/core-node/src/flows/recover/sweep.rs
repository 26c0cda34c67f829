//! Gives recovered clusters members again, one after the other, as their rules want; finishes recoveries that were cut short.
//!
//! ```text
//!   open recoveries ─▶ Describe ─▶ as many voters as the rule wants? settled · else AddMember, one by one
//!                         └─ nobody leads ─▶ BeginLife again
//! ```
//!
//! Always: nodes that keep data of an ended life are passed over; level 0 clusters grow by an operator's word only.
//! Held by: `a_recovery_cut_short_is_finished_by_the_world`.
//! Not here: when it runs (flow_recovery.rs).

use super::*;

enum Sweep {
    List,
    Describe,
    Begin,
    Add,
    Settle,
}

/// Gives recovered clusters members again. Its answer lists those that are still open, each with what it waits for.
pub struct SweepFlow {
    nodes: Vec<NodeRecord>,
    /// Where data of an ended life is kept, of which cluster.
    held: BTreeSet<(ClusterName, NodeId)>,
    left: Vec<Recovery>,
    waits: Vec<RecoveryInfo>,
    stage: Sweep,
}

impl SweepFlow {
    /// `nodes`: the node map.
    pub fn new(nodes: Vec<NodeRecord>) -> SweepFlow {
        let (held, left, waits) = (BTreeSet::new(), Vec::new(), Vec::new());
        SweepFlow { nodes, held, left, waits, stage: Sweep::List }
    }

    fn next(&mut self) -> Step {
        let Some(recovery) = self.left.last() else {
            let recoveries = core::mem::take(&mut self.waits);
            return Step::Done(answer(ActionResult::Recoveries { recoveries }, None));
        };
        self.stage = Sweep::Describe;
        Step::Calls(vec![Call::Admin { cluster: recovery.name.clone(), command: AdminCommand::Describe }])
    }

    /// Nothing more can be done for this one now.
    fn waits_for(&mut self, why: String) -> Step {
        if let Some(recovery) = self.left.pop() {
            self.waits.push(info_of(&recovery, vec![why]));
        }
        self.next()
    }

    fn on_described(&mut self, described: &ClusterDescription) -> Step {
        let Some(recovery) = self.left.last() else { return Step::Done(confused("sweep of recoveries")) };
        if described.generation < recovery.begun() && !described.name.is_level_zero() {
            return self.begin();
        }
        let members: Vec<Member> = described.members.iter().map(|(member, _)| *member).collect();
        let Ok(rule) = described.rule.parse::<Rule>() else {
            return self.waits_for(format!("the rule of cluster {} cannot be read", described.name));
        };
        let voters = members.iter().filter(|member| !member.learner).count();
        if described.name.is_level_zero() && voters < rule.size {
            return self.waits_for(format!(
                "cluster {} was recovered and has {voters} of {} members: add some with `hive ctl {} members add NODE`",
                described.name,
                rule.size,
                words_for(&described.name)
            ));
        }
        if voters >= rule.size || described.generation > recovery.begun() {
            self.stage = Sweep::Settle;
            return Step::Calls(vec![settles(recovery, None, true)]);
        }
        match members.iter().find(|member| member.learner) {
            Some(joining) => self.add(joining.node, joining.disk),
            None => self.elect(&rule, voters, &members),
        }
    }

    fn begin(&mut self) -> Step {
        let Some(recovery) = self.left.last() else { return Step::Done(confused("sweep of recoveries")) };
        self.stage = Sweep::Begin;
        Step::Calls(vec![begins(recovery)])
    }

    fn add(&mut self, node: NodeId, disk: base_types::DiskId) -> Step {
        let Some(recovery) = self.left.last() else { return Step::Done(confused("sweep of recoveries")) };
        self.stage = Sweep::Add;
        let command = AdminCommand::AddMember { node, disk };
        Step::Calls(vec![Call::Admin { cluster: recovery.name.clone(), command }])
    }

    fn elect(&mut self, rule: &Rule, voters: usize, members: &[Member]) -> Step {
        let Some(recovery) = self.left.last() else { return Step::Done(confused("sweep of recoveries")) };
        let name = recovery.name.clone();
        let nodes: Vec<NodeId> = members.iter().map(|member| member.node).collect();
        let keeps = |record: &&NodeRecord| !self.held.contains(&(name.clone(), record.node));
        let free = self.nodes.iter().filter(keeps);
        match elect_replacement(rule, &nodes, NodeId(0), free, 0) {
            Ok(node) => match self.nodes.iter().find(|record| record.node == node).map(|record| record.disk) {
                Some(disk) => self.add(node, disk),
                None => Step::Done(Err(failures::unknown_node(node))),
            },
            Err(refusal) => {
                let held: Vec<NodeId> = self.held.iter().filter(|(of, _)| *of == name).map(|(_, node)| *node).collect();
                let kept = match held.is_empty() {
                    true => String::new(),
                    false => format!(
                        "; {} would do but for the data of an ended life: look at it, then run `hive ctl recover {name} --discard NODE`",
                        named(&held)
                    ),
                };
                let size = rule.size;
                self.waits_for(format!(
                    "cluster {name} was recovered and has {voters} of {size} members: {refusal}{kept}"
                ))
            }
        }
    }
}

impl Planner for SweepFlow {
    fn name(&self) -> &'static str {
        "sweep of recoveries"
    }

    fn start(&mut self, _: &mut PlanContext<'_>) -> Step {
        Step::Calls(vec![lists(None)])
    }

    fn on_result(&mut self, _: &mut PlanContext<'_>, _: usize, result: CallResult) -> Step {
        match (&self.stage, result) {
            (Sweep::List, result) => match decode_call::<Reply>(result) {
                Ok((Reply::Recoveries { recoveries, .. }, _)) => {
                    let held = |one: &Recovery| {
                        one.held.iter().map(|member| (one.name.clone(), member.node)).collect::<Vec<_>>()
                    };
                    self.held = recoveries.iter().flat_map(held).collect();
                    self.left = recoveries.into_iter().filter(|recovery| recovery.open).collect();
                    self.next()
                }
                Ok(_) => Step::Done(confused("sweep of recoveries")),
                Err(failure) => Step::Done(Err(failure)),
            },
            (Sweep::Describe, Ok(CallReply::Described(described))) => self.on_described(&described),
            // Nobody leads: perhaps the survivor was never ordered.
            (Sweep::Describe, Err(failure)) => match self.left.last() {
                Some(recovery) if recovery.name.is_level_zero() => {
                    let why = format!(
                        "cluster {} was recovered, and does not answer: {}",
                        recovery.name, failure.refusal.message
                    );
                    self.waits_for(why)
                }
                _ => self.begin(),
            },
            (Sweep::Begin, Ok(_)) => {
                self.left.pop();
                self.next()
            }
            (Sweep::Begin | Sweep::Add, Err(failure)) => {
                let (name, message) = (self.left.last().map(|one| one.name.to_string()), failure.refusal.message);
                let begins = matches!(self.stage, Sweep::Begin);
                let what = if begins { "its new life cannot begin on its survivor" } else { "no member joins yet" };
                self.waits_for(format!("cluster {} was recovered, and {what}: {message}", name.unwrap_or_default()))
            }
            (Sweep::Add, Ok(_)) => self.next(),
            (Sweep::Settle, Ok(_)) => {
                self.left.pop();
                self.next()
            }
            (Sweep::Settle, Err(failure)) => Step::Done(Err(failure)),
            (Sweep::Describe, Ok(_)) => Step::Done(confused("sweep of recoveries")),
        }
    }

    fn on_wake(&mut self, _: &mut PlanContext<'_>) -> Step {
        self.next()
    }
}

/// How a command line names a level 0 cluster.
fn words_for(name: &ClusterName) -> String {
    match name.tail().strip_prefix("region-") {
        Some(region) => format!("region {region}"),
        None => "world".into(),
    }
}

/// When a sweep must be done.
pub fn sweep_deadline(now: Tick) -> Tick {
    now + Duration::from_secs(60)
}

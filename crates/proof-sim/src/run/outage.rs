//! The majority of the world's cluster, or all of it, is gone for minutes, and all other nodes restart. Clusters with a
//! majority of their own keep working, through every node, and no node reports full health.
//!
//! Always: nothing else is wrong meanwhile: what came before has been healed.
//! Not here: what befalls worlds under load (`faults`).

use super::Run;
use crate::faults::{self, WORLD_CLUSTER};
use crate::plan::FaultKind;
use base_types::action::{Action, ActionResult, Answer, KvTarget, Level};
use base_types::{NodeId, ReadConsistency, WriteConsistency};
use bytes::Bytes;
use proof_check::{Observed, Operation, Place};

/// After healing, before the outage: replicas and heartbeats settle.
const SETTLE_US: u64 = 15_000_000;
/// Who starts anew in the outage is given so long before the next one is.
const RESTART_US: u64 = 8_000_000;
/// A cluster with a majority of its own answers through a node within this time.
const ALONE_US: u64 = 15_000_000;
/// Between two rounds through all nodes.
const ROUND_US: u64 = 5_000_000;
/// Who has no word of the world's leader says so within this time.
const HEALTH_US: u64 = 10_000_000;

impl Run {
    /// The phase, where the plan has it.
    pub(super) fn outage(&mut self) {
        let Some(hazard) = self.world.plan.hazards.iter().find(|one| one.kind == FaultKind::WorldDown).cloned() else {
            return;
        };
        self.hazards_from = None;
        faults::heal(&mut self.world);
        self.wait(SETTLE_US);
        let Some(world) = self.world.leader_view(WORLD_CLUSTER) else {
            return self.violate("alone", "the world's cluster has no leader, although all is well".to_string());
        };
        let members: Vec<usize> = world.members.iter().filter_map(|member| self.world.index_of(member.node)).collect();
        let order = self.world.random.fault.shuffled(members.len());
        let gone: Vec<usize> = match hazard.amount {
            // The nodes that the configured lists name. The world keeps working where all of them have given way to
            // others.
            2 => (0..self.world.plan.shape.world_members as usize).collect(),
            1 => members.clone(),
            _ => order.into_iter().take(members.len() / 2 + 1).map(|number| members[number]).collect(),
        };
        for node in &gone {
            self.world.nodes[*node].held_down += 1;
            self.world.kill(*node, None, true);
        }
        self.world.probe(FaultKind::WorldDown.name());
        let until = self.world.now + hazard.for_ms * 1_000;
        self.wait(RESTART_US);
        // Caches are cold, too.
        for node in (0..self.world.nodes.len()).filter(|node| !gone.contains(node)) {
            self.world.kill(node, Some(100_000), true);
            self.wait(RESTART_US);
        }
        let mut round = 0;
        while self.world.now < until && self.world.violations.is_empty() {
            round += 1;
            self.all_with_a_majority_serve(round);
            match self.has_majority(&world.name) {
                true => self.everybody_knows_the_world(),
                false => self.nobody_calls_it_well(),
            }
            self.wait(ROUND_US);
        }
        for node in gone {
            self.world.nodes[node].held_down -= 1;
        }
    }

    fn wait(&mut self, micros: u64) {
        let until = self.world.now + micros;
        self.pump(until, |_| false);
    }

    fn up(&self) -> Vec<usize> {
        (0..self.world.nodes.len()).filter(|node| self.world.nodes[*node].running).collect()
    }

    /// Whether most voters of a cluster run, by any replica of it.
    fn has_majority(&self, name: &base_types::ClusterName) -> bool {
        let views = self.world.views();
        let Some(view) = views.iter().filter(|view| view.name == *name && !view.blank).max_by_key(|view| view.applied)
        else {
            return false;
        };
        let voters: Vec<NodeId> =
            view.members.iter().filter(|member| !member.learner).map(|member| member.node).collect();
        let runs = |id: &&NodeId| self.world.index_of(**id).is_some_and(|node| self.world.nodes[node].running);
        voters.iter().filter(runs).count() > voters.len() / 2
    }

    /// A write and a read of each such cluster through each node.
    fn all_with_a_majority_serve(&mut self, round: u64) {
        for (place, name) in self.load.targets.clusters.clone().into_iter().enumerate() {
            if !self.has_majority(&name) {
                continue;
            }
            for node in self.up() {
                let (target, place) = (KvTarget::Cluster(name.clone()), Place(place as u32));
                let key = Bytes::from(format!("outage/{round}/{node}"));
                let value = Bytes::from(format!("outage.{round}.{node}."));
                let put = Action::KvPut { target: target.clone(), key: key.clone(), value: value.clone() };
                let put = (Operation::Put { key: key.clone(), value }, put, Level::Write(WriteConsistency::Strong));
                let get = Action::KvGet { target, key: key.clone() };
                let get = (Operation::Get { key }, get, Level::Read(ReadConsistency::Strong));
                if !self.served(node, place, put) || !self.served(node, place, get) {
                    return;
                }
                self.world.probe("served_without_the_world");
            }
        }
    }

    fn served(&mut self, node: usize, place: Place, (operation, action, level): (Operation, Action, Level)) -> bool {
        let (invoked, until) = (self.world.now, self.world.now + ALONE_US);
        loop {
            let read = Some(ReadConsistency::Strong).filter(|_| matches!(level, Level::Read(_)));
            let last = match self.call(node, action.clone(), read, 5_000_000) {
                Some(Ok(Answer { result, at, .. })) => {
                    let observed: Option<Observed> = crate::load::observe(&result, level);
                    self.recorded((place, operation, level), invoked, observed, at);
                    return true;
                }
                other => other.map_or("nothing".to_string(), |answer| format!("{answer:?}")),
            };
            if self.world.now >= until || !self.world.violations.is_empty() {
                let message = format!(
                    "{place:?} has a majority, and does not serve through node {} while the world's cluster has none: {last}",
                    node + 1
                );
                self.violate("alone", message);
                return false;
            }
            self.wait(super::LOOK_US);
        }
    }

    /// Each node that is up can ask the world.
    fn everybody_knows_the_world(&mut self) {
        for node in self.up() {
            let until = self.world.now + ALONE_US;
            let list = Action::ListClusters { prefix: String::new(), start_after: None, limit: 10 };
            while !matches!(self.call(node, list.clone(), None, 5_000_000), Some(Ok(_))) {
                if self.world.now >= until || !self.world.violations.is_empty() {
                    let message = format!("node {} does not find the world's cluster, which has a majority", node + 1);
                    return self.violate("alone", message);
                }
                self.wait(super::LOOK_US);
            }
        }
    }

    /// Each node that is up says what it misses.
    fn nobody_calls_it_well(&mut self) {
        for node in self.up() {
            let until = self.world.now + HEALTH_US;
            loop {
                let told = self.call(node, Action::Status, None, 5_000_000);
                if let Some(Ok(Answer { result: ActionResult::Status(status), .. })) = told {
                    if !status.degraded.is_empty() {
                        break;
                    }
                }
                if self.world.now >= until || !self.world.violations.is_empty() {
                    let message =
                        format!("node {} gives no reason, although the world's cluster has no majority", node + 1);
                    return self.violate("health", message);
                }
                self.wait(super::LOOK_US);
            }
        }
    }
}

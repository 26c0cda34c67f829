//! What always holds of the plans of a core.
//!
//! A plan that breaks an invariant of its own panics in debug builds and in the simulator. In other builds it ends `Internal`, as
//! one does that asks for too much. What must be walked is checked in the first two only.
//!
//! Always (asserted here): a plan waits for a call or for a time, and its timer rings then; each call that is out is carried out in
//! one place (mutant `AnsweredCallsOut`), and an order belongs to a call that is out (mutant `EndedOrdersKept`).
//! Not here: what a planner keeps (`Planner::check_invariants`), what it wants (keyspace, flows).

use super::{AnyPlanner, Plan, PlanOwner, PlanRunner};
use base_types::holds;
use base_types::invariant::{Broken, THOROUGH};
use base_types::Tick;
use core_flow::CALLS_OUT_MAX;
use std::collections::BTreeMap;

/// In so many turns all plans are walked: the simulator stays as fast as it is within a tenth.
const WALK_EVERY_TURNS: u64 = if cfg!(test) { 4 } else { 512 };

impl AnyPlanner {
    fn check_invariants(&self) -> Result<(), Broken> {
        match self {
            AnyPlanner::Clusters(planner) => planner.check_invariants(),
            AnyPlanner::Keyspaces(planner) => planner.check_invariants(),
            AnyPlanner::Buckets(planner) => planner.check_invariants(),
            AnyPlanner::Access(planner) => planner.check_invariants(),
        }
    }
}

impl Plan {
    /// Checks a plan after a step, in every build: its calls are not walked.
    pub(super) fn check_invariants(&self) -> Result<(), Broken> {
        let (out, next) = (self.out.len(), self.next_index);
        holds!(out <= CALLS_OUT_MAX, "a plan has {out} calls out");
        let last = self.out.last();
        holds!(last.is_none_or(|last| *last < next), "call {last:?} is out, and {next} have been made");
        holds!(out > 0 || self.wake != Tick::NEVER, "a plan waits for nothing");
        let (at, timer) = (self.wake.min(self.deadline), self.timer);
        holds!(timer == at, "a plan's timer rings at {timer:?}, and it is to be entered at {at:?}");
        self.planner.as_ref().map_or(Ok(()), AnyPlanner::check_invariants)
    }
}

impl PlanRunner {
    /// Walks all plans now and then, where costly checks are made: at the end of a turn, with everything settled.
    pub fn walk_at_times(&mut self) {
        self.turns += 1;
        if THOROUGH && self.turns.is_multiple_of(WALK_EVERY_TURNS) {
            self.check_invariants().unwrap_or_else(|broken| panic!("{broken}"));
        }
    }

    /// Where the calls of all plans are.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check_invariants(&self) -> Result<(), Broken> {
        let mut carried: BTreeMap<(u64, usize), u32> = BTreeMap::new();
        let mut carry = |call| *carried.entry(call).or_default() += 1;
        self.routing.calls_of_plans().for_each(&mut carry);
        self.results.iter().for_each(|(plan, index, _)| carry((*plan, *index)));
        for plan in self.list.values() {
            if let PlanOwner::Plan { plan, index } = plan.owner {
                carry((plan, index));
            }
        }
        for order in self.orders.values() {
            carry((order.plan, order.index));
            let is_out = |plan: &Plan| plan.out.contains(&order.index);
            // One of a plan that has ended is forgotten when its timer rings.
            let waits = self.list.get(&order.plan).is_none_or(is_out);
            holds!(waits, "an order for call {} of plan {} is kept, which was answered", order.index, order.plan);
        }
        for (number, plan) in &self.list {
            for index in &plan.out {
                let times = carried.get(&(*number, *index)).copied().unwrap_or(0);
                holds!(times == 1, "call {index} of plan {number} is out, and carried out in {times} places");
            }
        }
        Ok(())
    }
}

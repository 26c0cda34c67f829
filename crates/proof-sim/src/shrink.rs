//! Makes a failing plan smaller while it still fails in the same way: hazards are dropped by delta
//! debugging, then clients, then time.
//!
//! Always: the result fails with the same check; bounded by `RUNS_MAX` runs.
//! Held by: `keeps_only_what_the_failure_needs`.

use crate::plan::{Hazard, Plan};

/// The most runs one shrinking takes.
pub const RUNS_MAX: usize = 150;

/// Shrinks a plan. `fails` runs one and names the check it broke.
pub fn shrink(plan: &Plan, check: &str, mut fails: impl FnMut(&Plan) -> Option<String>) -> Plan {
    let mut runs = 0;
    let mut still = |plan: &Plan| {
        runs += 1;
        runs <= RUNS_MAX && fails(plan).as_deref() == Some(check)
    };
    let mut best = plan.clone();
    best.hazards = drop_hazards(&best, &mut still);
    let smaller: [fn(&mut Plan); 12] = [
        |plan| {
            (plan.load.s3, plan.load.s3_growing, plan.load.uploaders, plan.load.owners) = (0, 0, 0, 0);
            (plan.shape.buckets, plan.shape.versioned, plan.shape.wall_clock) = (0, 0, false);
        },
        |plan| plan.shape.quota_keys = 0,
        |plan| (plan.shape.tails, plan.load.kept) = (0, 0),
        |plan| plan.load.uploaders = 0,
        |plan| plan.load.owners = 0,
        |plan| plan.load.lifecycle = 0,
        |plan| plan.load.ledger = 0,
        |plan| plan.load.counters = 0,
        |plan| plan.load.mixed = plan.load.mixed.min(1),
        |plan| plan.shape.keyspaces = 0,
        |plan| plan.shape.regional = false,
        |plan| {
            plan.load.run_ms =
                (plan.load.run_ms / 2).max(plan.hazards.iter().map(|hazard| hazard.at_ms).max().unwrap_or(0) + 1_000)
        },
    ];
    for change in smaller {
        let mut candidate = best.clone();
        change(&mut candidate);
        if candidate != best && candidate.check().is_ok() && still(&candidate) {
            best = candidate;
        }
    }
    best
}

/// Delta debugging (Zeller): tries to leave out ever smaller chunks.
fn drop_hazards(plan: &Plan, still: &mut dyn FnMut(&Plan) -> bool) -> Vec<Hazard> {
    let mut hazards = plan.hazards.clone();
    let mut chunk = hazards.len().div_ceil(2).max(1);
    loop {
        let mut from = 0;
        let mut dropped = false;
        while from < hazards.len() {
            let mut fewer = hazards.clone();
            fewer.drain(from..(from + chunk).min(fewer.len()));
            if still(&Plan { hazards: fewer.clone(), ..plan.clone() }) {
                hazards = fewer;
                dropped = true;
            } else {
                from += chunk;
            }
        }
        match (chunk, dropped) {
            (1, false) => return hazards,
            (1, true) => {}
            _ => chunk = chunk.div_ceil(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::FaultKind;

    #[test]
    fn keeps_only_what_the_failure_needs() {
        let hazard = |at_ms, kind| Hazard { at_ms, kind, node: 1, peer: 0, for_ms: 1, amount: 0 };
        let mut plan = crate::swarm::draw(3, crate::plan::Layer::Core);
        plan.hazards = (0..20)
            .map(|at_ms| hazard(at_ms, if at_ms % 7 == 3 { FaultKind::Crash } else { FaultKind::Pause }))
            .collect();
        let fails = |plan: &Plan| {
            (plan.hazards.iter().filter(|hazard| hazard.kind == FaultKind::Crash).count() >= 2).then(|| "x".to_string())
        };
        assert_eq!(shrink(&plan, "x", fails).hazards.len(), 2);
    }
}
